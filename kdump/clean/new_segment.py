"""The segment that the cleaner writes: its .log chunk by chunk, and the indexes that this makes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from kdump.clean.reading import repair_first
from kdump.errors import CleaningError, LoadError
from kdump.formats import names
from kdump.formats.batch import FRAME, LAST_OFFSET_DELTA, LAST_OFFSET_DELTA_AT, LOG_OVERHEAD, MAX_TIMESTAMP_AT
from kdump.formats.index_entries import AbortedTxn, encode_aborted_txns
from kdump.formats.message_set import MESSAGE_AT, TIMESTAMP
from kdump.formats.names import segment_file_name
from kdump.named_tuples import NamedTuple
from kdump.settings.cleaning import CleaningSettings
from kdump.storage.index_builder import OffsetIndexBuilder, TimeIndexBuilder
from kdump.storage.scan import MAX_RELATIVE_OFFSET

NO_TIMESTAMP = -1
_TIMESTAMP_AT = 6  # in a message of format v1, behind CRC, magic and attributes


class Written(NamedTuple):
    """What is written of a batch, or of several.

    `last_offset` (absolute) is as the offset index is told it; the largest timestamp (ms) comes with the offset that
    the time index gets with it.
    """

    size: int
    max_offset: int
    max_timestamp: int
    offset_of_max_timestamp: int


def _each_batch(data: bytes | bytearray | memoryview) -> Iterator[Written]:
    """Yield the batches in what is written, one by one."""
    position = 0
    while position < len(data):
        base_offset, size, _, magic = FRAME.unpack_from(data, position)
        size += LOG_OVERHEAD
        last_offset, timestamp = base_offset, NO_TIMESTAMP
        if magic >= 2:
            last_offset += LAST_OFFSET_DELTA.unpack_from(data, position + LAST_OFFSET_DELTA_AT)[0]
            timestamp = TIMESTAMP.unpack_from(data, position + MAX_TIMESTAMP_AT)[0]
        elif magic == 1:
            timestamp = TIMESTAMP.unpack_from(data, position + MESSAGE_AT + _TIMESTAMP_AT)[0]
        yield Written(size, last_offset, timestamp, last_offset)
        position += size


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
        self._interval = config.loading.index_interval_bytes
        self._is_per_batch = config.index_per_batch
        self._batches: list[Written] = []
        self._since_entry = 0
        self._max = (NO_TIMESTAMP, base_offset)
        self._begin_chunk()
        index, times = (segment_file_name(base_offset, f".{kind}") for kind in (names.OFFSET_INDEX, names.TIME_INDEX))
        size = config.loading.segment_index_bytes
        self._offsets = OffsetIndexBuilder(base_offset, size, index, f"{folder}/{index}.cleaned")
        self._times = TimeIndexBuilder(base_offset, size, times, f"{folder}/{times}.cleaned")
        self._name = f"{folder}/{segment_file_name(base_offset, f'.{names.LOG}')}"

    def _begin_chunk(self) -> None:
        self.chunk_size = 0
        self._chunk_max = (NO_TIMESTAMP, -1)
        self._chunk_max_offset = -1

    def put(self, data: bytes | bytearray | memoryview, written: Written) -> None:
        """Add batches. Raises OSError."""
        if self.out is not None:
            self.out.write(data)
        self.chunk_size += written.size
        if self._is_per_batch:
            self._batches.extend(_each_batch(data))
        self._chunk_max_offset = max(self._chunk_max_offset, written.max_offset)
        if written.max_timestamp > self._chunk_max[0]:
            self._chunk_max = written.max_timestamp, written.offset_of_max_timestamp

    def end_chunk(self) -> None:
        """Let what was put since the last time count as one append. Raises CleaningError."""
        if not self.chunk_size:
            return
        if not 0 <= self._chunk_max_offset - self.base_offset <= MAX_RELATIVE_OFFSET:
            raise CleaningError(
                f"{self._name}: offset {self._chunk_max_offset} is further than {MAX_RELATIVE_OFFSET} from the base"
                " offset: Kafka's cleaner splits such a segment and begins again, and so does a broker that starts:"
                f" {repair_first(os.path.dirname(self._name))}"
            )
        if not self._is_per_batch:
            self._batches.append(Written(self.chunk_size, self._chunk_max_offset, *self._chunk_max))
        for batch in self._batches:
            self._count(batch)
        self._batches.clear()
        self._begin_chunk()

    def _count(self, written: Written) -> None:
        """Add what counts as one for the indexes."""
        if written.max_timestamp > self._max[0]:
            self._max = written.max_timestamp, written.offset_of_max_timestamp
        if self._since_entry > self._interval:
            try:
                self._offsets.append(written.max_offset, self.size)
                self._times.maybe_append(*self._max)
            except LoadError as error:
                raise CleaningError(f"{self._name}: Kafka's cleaner fails here: {error}") from None
            self._since_entry = 0
        self._since_entry += written.size
        self.size += written.size

    def finish(self) -> dict[str, bytes]:
        """Return the contents of the index files by kind. Raises CleaningError."""
        self.end_chunk()
        try:
            self._times.maybe_append(*self._max, last=True)
        except LoadError as error:
            raise CleaningError(f"{self._name}: Kafka's cleaner fails here: {error}") from None
        contents: dict[str, bytes] = {
            names.OFFSET_INDEX: self._offsets.content(), names.TIME_INDEX: self._times.content()
        }
        if self.aborted:
            contents[names.TXN_INDEX] = encode_aborted_txns(self.aborted)
        return contents

    def note_aborted(self, txns: Iterable[AbortedTxn]) -> None:
        """Add entries to the transaction index. Raises CleaningError where they do not follow each other."""
        for txn in txns:
            if self.aborted and txn.last_offset <= self.aborted[-1].last_offset:
                raise CleaningError(
                    f"{self._name}: Kafka's cleaner fails here: the last offset {txn.last_offset} of an aborted"
                    f" transaction is not after {self.aborted[-1].last_offset}, that of the one before"
                )
            self.aborted.append(txn)
