"""The segment that the cleaner writes: its .log chunk by chunk, and the indexes that this makes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, NamedTuple

from kdump import kernels
from kdump.blocks import BatchBlock
from kdump.clean.reading import repair_first
from kdump.errors import CleaningError, LoadError
from kdump.formats import names
from kdump.formats.faults import BLOCK_FULL
from kdump.formats.index_entries import AbortedTxn, encode_aborted_txns
from kdump.formats.names import segment_file_name
from kdump.settings.cleaning import CleaningSettings
from kdump.storage.scan import MAX_RELATIVE_OFFSET
from kdump.storage.segment_indexes import SegmentIndexes

NO_TIMESTAMP = -1


class Written(NamedTuple):
    """What is written of a batch, or of several.

    `last_offset` (absolute) is as the offset index is told it; the largest timestamp (ms) comes with the offset that
    the time index gets with it.
    """

    size: int
    max_offset: int
    max_timestamp: int
    offset_of_max_timestamp: int


class NewSegment:
    """A segment while it grows. What is put into it between two calls of `end_chunk` counts as one append.

    Up to Kafka 4.0 an append makes one index entry at most, later each of its batches does (LogSegment.append).

    `out` is what the .log is written to, None for nowhere. `size` is that of the .log in bytes, without `chunk_size`,
    what the chunk has so far.
    """

    def __init__(self, base_offset: int, config: CleaningSettings, folder: str) -> None:
        """`folder` is the partition's, for what errors say."""
        self.base_offset = base_offset
        self.size = 0
        self.aborted: list[AbortedTxn] = []
        self.out: BinaryIO | None = None
        self._is_per_batch = config.index_per_batch
        self._block = BatchBlock()
        self._begin_chunk()
        self._name = f"{folder}/{segment_file_name(base_offset, f'.{names.LOG}')}"
        loading = config.loading
        self._indexes = SegmentIndexes(
            base_offset,
            loading.segment_index_bytes,
            loading.index_interval_bytes,
            lambda name: f"{folder}/{name}.cleaned",
        )

    def _begin_chunk(self) -> None:
        self.chunk_size = 0
        self._chunk_max = (NO_TIMESTAMP, -1)
        self._chunk_max_offset = -1

    def put(self, data: bytes | bytearray, written: Written, start: int = 0) -> None:
        """Add batches, if any: `data` has them from `start` on. Raises OSError, CleaningError."""
        if not written.size:
            return
        if self.out is not None:
            self.out.write(memoryview(data)[start : start + written.size])
        self._chunk_max_offset = max(self._chunk_max_offset, written.max_offset)
        if self._is_per_batch:
            self._check_range()
            self._index_batches(data, start, start + written.size)
        elif written.max_timestamp > self._chunk_max[0]:
            self._chunk_max = written.max_timestamp, written.offset_of_max_timestamp
        self.chunk_size += written.size

    def end_chunk(self) -> None:
        """Let what was put since the last time count as one append. Raises CleaningError."""
        if not self.chunk_size:
            return
        if not self._is_per_batch:
            self._check_range()
            with self._failing():
                self._indexes.append(self._chunk_max_offset, self.size, *self._chunk_max)
        self.size += self.chunk_size
        self._begin_chunk()

    def _check_range(self) -> None:
        """Raise CleaningError where an offset cannot be told relative to the base offset."""
        if not 0 <= self._chunk_max_offset - self.base_offset <= MAX_RELATIVE_OFFSET:
            raise CleaningError(
                f"{self._name}: offset {self._chunk_max_offset} is further than {MAX_RELATIVE_OFFSET} from the base"
                " offset: Kafka's cleaner splits such a segment and begins again, and so does a broker that starts:"
                f" {repair_first(os.path.dirname(self._name))}"
            )

    def _index_batches(self, data: bytes | bytearray, start: int, stop: int) -> None:
        """Add the index entries that are due at these batches."""
        block, position = self._block, self.size + self.chunk_size
        end = position + stop - start
        block.data, block.data_position, block.available = data, position - start, stop
        block.next_position, block.status = position, BLOCK_FULL
        while block.status == BLOCK_FULL:
            kernels.walk(block, block.next_position, end, end)
            with self._failing():
                _, error = self._indexes.add(block, block.length)
                if error:
                    raise error

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Raise CleaningError where Kafka's cleaner fails with what an index refuses."""
        try:
            yield
        except LoadError as error:
            raise CleaningError(f"{self._name}: Kafka's cleaner fails here: {error}") from None

    def finish(self) -> dict[str, bytes]:
        """Return the contents of the index files by kind. Raises CleaningError."""
        self.end_chunk()
        indexes = self._indexes
        with self._failing():
            indexes.finish()
        contents: dict[str, bytes] = {
            names.OFFSET_INDEX: indexes.offsets.content(),
            names.TIME_INDEX: indexes.times.content(),
        }
        if self.aborted:
            contents[names.TXN_INDEX] = encode_aborted_txns(self.aborted)
        return contents

    def note_aborted(self, txn: AbortedTxn) -> None:
        """Add an entry to the transaction index. Raises CleaningError where it does not follow the one before."""
        if self.aborted and txn.last_offset <= self.aborted[-1].last_offset:
            raise CleaningError(
                f"{self._name}: Kafka's cleaner fails here: the last offset {txn.last_offset} of an aborted"
                f" transaction is not after {self.aborted[-1].last_offset}, that of the one before"
            )
        self.aborted.append(txn)
