"""Read a segment for the cleaner: batches with their records decoded, and no way past damage."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from kdump import kernels
from kdump.blocks import RECORD_ROWS, BatchBlock, RecordBlock
from kdump.errors import CleaningError
from kdump.formats.codecs import DEFAULT_LIMIT
from kdump.formats.faults import fault_error
from kdump.storage.log_reader import LogFile
from kdump.storage.payloads import inflate
from kdump.storage.scan import Damage, scan


class Batches(NamedTuple):
    """Rows `first` to `stop` - 1 of a block with all of their records, and the payloads of those rows."""

    block: BatchBlock
    first: int
    stop: int
    payloads: list[bytes | None]
    records: RecordBlock

    def payload(self, row: int) -> bytes | None:
        """The decompressed payload of a row; None where it is not compressed."""
        return self.payloads[row - self.first]

    def span(self, row: int) -> tuple[int, int]:
        """The numbers of a row's first record and of the first one behind its last."""
        column, length = self.records.row, self.records.length
        start = bisect_left(column, row, 0, length)
        return start, bisect_right(column, row, start, length)

    def rows(self) -> Iterator[tuple[int, int, int]]:
        """Each row with the numbers of its first record and of the first one behind its last."""
        column, length, stop = self.records.row, self.records.length, 0
        for row in range(self.first, self.stop):
            start, stop = stop, bisect_right(column, row, stop, length)
            yield row, start, stop


def read_batches(
    log: LogFile, base_offset: int, start: int = 0, stop: int | None = None, limit: int = DEFAULT_LIMIT
) -> Iterator[Batches]:
    """The batches of `log` from byte `start` on; the blocks are reused for what comes next.

    `limit` bounds what one batch may decompress to, in bytes. Raises CleaningError at the first damage: what cannot be
    read must not be written anew with a checksum that holds.
    """
    records = RecordBlock()
    for part in scan(log, base_offset, start, stop):
        if isinstance(part, Damage):
            raise CleaningError(f"{log.path} at byte {part.position}: {part.text}: repair it first")
        row = part.first
        while row < part.stop:
            stretch = inflate(part.block, row, part.stop, limit)
            if stretch.error or stretch.fault:
                error = stretch.error or fault_error(stretch.fault or (0, 0, 0))
                raise _unreadable(log, part.block, stretch.stop - 1, str(error))
            while row < stretch.stop:
                payloads = stretch.payloads[row - stretch.first :]
                records.seek(row)
                kernels.decode(part.block, records, row, stretch.stop, payloads)
                if records.fault:
                    raise _unreadable(log, part.block, records.next_row, str(fault_error(records.fault)))
                if records.next_row == row:  # its records are too many
                    records = RecordBlock(2 * records.capacity)
                    continue
                if records.next_row < stretch.stop:
                    _drop_incomplete(records)
                yield Batches(part.block, row, records.next_row, payloads[: records.next_row - row], records)
                row = records.next_row
                if records.capacity > RECORD_ROWS:
                    records = RecordBlock()


def _drop_incomplete(records: RecordBlock) -> None:
    """Forget the records of the batch that the block was too small for."""
    while records.length and records.row[records.length - 1] == records.next_row:
        records.length -= 1


def _unreadable(log: LogFile, block: BatchBlock, row: int, why: str) -> CleaningError:
    return CleaningError(
        f"{log.path} at byte {block.position[row]}: the records of the batch at offset {block.last_offset[row]} cannot"
        f" be read: {why}"
    )
