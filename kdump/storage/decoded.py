"""The one loop over records: choose batches, decompress, decode, meet what cannot be read, go on behind it.

It has three doors: `decoded` walks a log, `walk` only chooses and leaves the rest to the caller, `decode_rows` takes
rows of a block that somebody else has read and chosen.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol, TypeVar

from kdump import kernels
from kdump.blocks import RECORD_ROWS, BatchBlock, RecordBlock
from kdump.errors import InvalidRecordError, KdumpError, OnError
from kdump.formats.batch import DELETE_HORIZON
from kdump.formats.codecs import DEFAULT_LIMIT
from kdump.formats.faults import fault_error
from kdump.storage.damage import Damage, bad_messages, undecodable
from kdump.storage.log_reader import LogFile
from kdump.storage.payloads import inflate
from kdump.storage.scan import Run, scan

Part = TypeVar("Part")


class Choice(Protocol):
    """Which batches of a log count."""

    def runs(self, block: BatchBlock, first: int, stop: int, /) -> Iterable[tuple[int, int]]:
        """Return those of the rows `first` to `stop` - 1 that count, as (first, stop)."""

    def is_behind(self, block: BatchBlock, row: int, /) -> bool:
        """Return whether no batch from row `row` of a log on counts."""


class Passed(NamedTuple):
    """A walk has come to byte `position`; `is_last`: no batch behind it counts, and the walk ends here."""

    position: int
    is_last: bool


class BadBatch(NamedTuple):
    """A batch whose records cannot be read, or not all of them: its row, why, and where it is.

    `position` is the batch's byte in the file `path`, which is empty for a block that belongs to none. As text it is
    a line that says all of this.
    """

    row: int
    error: KdumpError
    position: int
    path: str = ""

    def __str__(self) -> str:
        where = f"{self.path}: byte" if self.path else "byte"
        return f"{where} {self.position}: {self.error}"


class DamagedError(KdumpError):
    """Damage that was met where damage is raised."""

    def __init__(self, damage: Damage | BadBatch) -> None:
        """`damage` is what was met."""
        super().__init__(str(damage))
        self.damage = damage


class DecodedRows(NamedTuple):
    """Records of the rows `first` to `stop` - 1 of a block; `payloads` begin with that of row `first`.

    There may be records of a part of these rows only, the others come with the next ones. Records and block are used
    again for what comes next.
    """

    block: BatchBlock
    first: int
    stop: int
    records: RecordBlock
    payloads: list[bytes | None]

    def payload(self, row: int) -> bytes | None:
        """Return the decompressed payload of a row; None where it is not compressed."""
        return self.payloads[row - self.first]

    def source_of(self, row: int) -> bytes | bytearray:
        """Return what the positions of a row's records lead into."""
        payload = self.payloads[row - self.first]
        return self.block.data if payload is None else payload

    def span(self, row: int) -> tuple[int, int]:
        """Return the numbers of a row's first record and of the first one behind its last."""
        column, length = self.records.row, self.records.length
        start = bisect_left(column, row, 0, length)
        return start, bisect_right(column, row, start, length)

    def rows(self) -> Iterator[tuple[int, int, int]]:
        """Yield each row with the numbers of its first record and of the first one behind its last."""
        column, length, stop = self.records.row, self.records.length, 0
        for row in range(self.first, self.stop):
            start, stop = stop, bisect_right(column, row, stop, length)
            yield row, start, stop

    def bad_messages(self, path: str) -> Iterator[Damage]:
        """Yield the v0/v1 messages among them whose own CRC does not hold."""
        magic = self.block.magic
        if magic[self.first] < 2 or magic[self.stop - 1] < 2:
            yield from bad_messages(self.block, self.records, path)


def walk(
    log: LogFile, base_offset: int, start: int = 0, stop: int | None = None, *, choice: Choice, whole: bool = True
) -> Iterator[Run | Damage | Passed]:
    """Yield the batches that count, from byte `start` (a batch's first) of a log up to byte `stop`, and the damage met.

    Behind the batches of a block comes how far they led. `base_offset` and `whole` as for `scan`. Raises OSError.
    """
    for part in scan(log, base_offset, start, stop, whole=whole):
        if isinstance(part, Damage):
            yield part
            continue
        block, first, end = part
        for rows in choice.runs(block, first, end):
            yield Run(block, *rows)
        passed = Passed(block.position[end - 1] + block.size[end - 1], choice.is_behind(block, end - 1))
        yield passed
        if passed.is_last:
            return


def decode_run(
    run: Run, path: str, limit: int = DEFAULT_LIMIT, records: RecordBlock | None = None, *, whole_batches: bool = False
) -> Iterator[DecodedRows | Damage]:
    """Yield the records of a run of the log at `path`, as `decode_rows`; damage where those of a batch break off."""
    for rows in decode_rows(*run, limit=limit, records=records, whole_batches=whole_batches):
        yield undecodable(run.block, rows.row, rows.error, path) if isinstance(rows, BadBatch) else rows


def decode_rows(
    block: BatchBlock,
    first: int,
    stop: int,
    *,
    limit: int = DEFAULT_LIMIT,
    records: RecordBlock | None = None,
    whole_batches: bool = False,
) -> Iterator[DecodedRows | BadBatch]:
    """Yield the records of the batches `first` to `stop` - 1, in order; a BadBatch where one's records break off.

    The block must hold the batches. `limit` bounds what one of them may decompress to, in bytes. With `whole_batches`
    all records of a batch come at once, and none of one that breaks off. `records` is used where it is given.
    """
    records = RecordBlock() if records is None else records
    decode = _batch_by_batch if whole_batches else _as_they_fit
    row = first
    while row < stop:
        inflated = inflate(block, row, stop, limit)
        good, payloads = inflated.stop, inflated.payloads
        if inflated.error is not None:
            good, payloads = good - 1, payloads[:-1]
        yield from decode(DecodedRows(block, row, good, records, payloads))
        if inflated.error is not None:
            yield BadBatch(good, inflated.error, block.position[good])
        row = inflated.stop


def decoded(
    log: LogFile,
    base_offset: int,
    start: int = 0,
    stop: int | None = None,
    *,
    errors: OnError,
    choice: Choice | None = None,
    limit: int = DEFAULT_LIMIT,
    whole_batches: bool = False,
) -> Iterator[DecodedRows | Damage]:
    """Return the records of a log from byte `start` (a batch's first) up to byte `stop`, and the damage between them.

    `base_offset` (absolute) is the segment's; without a `choice` all batches count. The rest as for `decode_rows`.
    Raises OSError, and DamagedError where damage is raised.
    """
    where = log, base_offset, start, stop
    parts = scan(*where) if choice is None else walk(*where, choice=choice)
    return settled(_of_log(parts, log.path, limit, whole_batches=whole_batches), errors)


def first_offset(block: BatchBlock, row: int, limit: int = DEFAULT_LIMIT) -> int:
    """Return the first offset of a batch that the block holds; that of a v0/v1 wrapper is its first message's.

    Raises KdumpError where that cannot be read.
    """
    if block.magic[row] >= 2 or block.count[row] >= 0:
        return block.base_offset[row]
    rows = next(decode_rows(block, row, row + 1, limit=limit, records=RecordBlock(1)))
    if isinstance(rows, BadBatch):
        raise rows.error
    if not rows.records.length:
        raise fault_error(rows.records.fault) if rows.records.fault else InvalidRecordError("the wrapper is empty")
    return rows.records.offset[0]


def delete_horizon(block: BatchBlock, row: int) -> int | None:
    """Return from when on (ms) a batch's tombstones and markers may go; None where the cleaner has not set that."""
    has_one = block.magic[row] >= 2 and block.attributes[row] & DELETE_HORIZON
    return block.base_timestamp[row] if has_one else None


def settled(parts: Iterable[Part], errors: OnError) -> Iterator[Part]:
    """Do with the damage among `parts` what is to be done with it. Raises DamagedError."""
    for part in parts:
        if errors is OnError.YIELD or not isinstance(part, Damage | BadBatch):
            yield part
        elif errors is OnError.RAISE:
            raise DamagedError(part)


def _of_log(
    parts: Iterable[Run | Damage | Passed], path: str, limit: int, *, whole_batches: bool
) -> Iterator[DecodedRows | Damage]:
    records = RecordBlock()
    for part in parts:
        if isinstance(part, Damage):
            yield part
        elif isinstance(part, Run):
            yield from decode_run(part, path, limit, records, whole_batches=whole_batches)


def _as_they_fit(rows: DecodedRows) -> Iterator[DecodedRows | BadBatch]:
    """Yield the records of the rows, as many at a time as the record block takes."""
    block, first, stop, records, payloads = rows
    records.seek(first)
    while records.next_row < stop:
        kernels.decode(block, records, first, stop, payloads)
        yield rows
        if records.fault:
            row = records.next_row
            yield BadBatch(row, fault_error(records.fault), block.position[row])
            records.seek(row + 1)


def _batch_by_batch(rows: DecodedRows) -> Iterator[DecodedRows | BadBatch]:
    """Yield the records of the rows, no batch's apart from each other."""
    block, first, stop, records, payloads = rows
    row = first
    while row < stop:
        records.seek(row)
        kernels.decode(block, records, row, stop, payloads[row - first :])
        end, fault = records.next_row, records.fault
        if end == row and not fault:  # its records are too many
            records = RecordBlock(2 * records.capacity)
            continue
        while records.length and records.row[records.length - 1] >= end:
            records.length -= 1
        if end > row:
            yield DecodedRows(block, row, end, records, payloads[row - first : end - first])
        if fault:
            yield BadBatch(end, fault_error(fault), block.position[end])
        row = end + bool(fault)
        if records.capacity > RECORD_ROWS:
            records = RecordBlock()
