"""A segment: a .log with the index files of the same base offset."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING

from kdump.disk.reading import is_file
from kdump.errors import CorruptIndexError, CorruptRecordError, KdumpError, NameFormatError, OnError
from kdump.formats import names
from kdump.formats.batch import CODEC_MASK, FRAME, FRAME_SIZE, HEADER_SIZE
from kdump.formats.faults import BLOCK_FULL
from kdump.formats.index_entries import TimeIndexEntry
from kdump.storage.damage import Damage
from kdump.storage.indexes import OffsetIndex, TimeIndex, TxnIndex
from kdump.storage.log_reader import Entry, LogFile
from kdump.storage.scan import MAX_OFFSET, Run, scan

if TYPE_CHECKING:
    from kdump.storage.decoded import BadBatch
    from kdump.storage.records import Batch, Record

NEAR = 1 << 20
"""Bytes of the log within which what an index entry tells of is looked for."""


class Contents:
    """What batches and records are in: a segment, or a partition."""

    def batches(
        self, start_offset: int | None = None, stop_offset: int | None = None, *, errors: str = OnError.YIELD
    ) -> Iterator[Batch | Damage]:
        """Return the batches that reach into [start_offset, stop_offset), and the damage between them.

        `errors` decides what becomes of the damage. Raises OSError, DamagedError where it is raised, and ValueError at
        the call.
        """
        from kdump.storage.decoded import settled

        return settled(self._batches(start_offset, stop_offset), OnError(errors))

    def records(
        self, start_offset: int | None = None, stop_offset: int | None = None, *, errors: str = OnError.YIELD
    ) -> Iterator[Record | BadBatch | Damage]:
        """Return the records with an offset in [start_offset, stop_offset), and the damage between them.

        `errors` decides what becomes of the damage. Raises OSError, DamagedError where it is raised, and ValueError at
        the call.
        """
        from kdump.storage.decoded import settled

        return settled(self._records(start_offset, stop_offset), OnError(errors))

    def _batches(self, start_offset: int | None, stop_offset: int | None) -> Iterator[Batch | Damage]:
        raise NotImplementedError

    def _records(self, start_offset: int | None, stop_offset: int | None) -> Iterator[Record | BadBatch | Damage]:
        raise NotImplementedError


class Segment(Contents):
    """One segment on disk. Nothing is open until it is asked for.

    `base_offset` (absolute) is that of the file name. `suffix` is what follows `.log` in it, such as `.deleted` or
    `.swap`, and goes for the index files too.
    """

    def __init__(
        self, log_path: str, *, base_offset: int | None = None, suffixes: Mapping[str, str] | None = None
    ) -> None:
        """Take the name of a .log file (or of a KRaft .checkpoint). Raises NameFormatError.

        A file of another name that holds batches is one without indexes, from `base_offset` (absolute) on. `suffixes`
        are those of the kinds of files (names.OFFSET_INDEX, …) that have another one than the .log.
        """
        folder, name = os.path.split(log_path)
        self._is_alone = base_offset is not None
        if base_offset is not None:
            name = names.segment_file_name(base_offset, ".log")
        parsed = names.parse_file_name(name)
        self.is_checkpoint = parsed.kind in names.METADATA_SNAPSHOT_KINDS
        if not self.is_checkpoint and (parsed.kind != names.LOG or parsed.offset is None):
            raise NameFormatError(f"{log_path}: not the name of a segment, which is <base offset>.log")
        self.log_path = log_path
        self.base_offset = 0 if self.is_checkpoint else parsed.offset or 0
        self.suffix = f".{parsed.state}" if parsed.state else ""
        self._prefix = os.path.join(folder, "")
        self._stem = name.partition(".")[0]
        self._suffixes = suffixes or {}

    def __repr__(self) -> str:
        return f"Segment({self.log_path!r})"

    def path(self, kind: str) -> str:
        """Return the path of the segment's file of a kind (names.OFFSET_INDEX, …), whether it exists or not."""
        if kind == names.LOG:
            return self.log_path
        return f"{self._prefix}{self._stem}.{kind}{self._suffixes.get(kind, self.suffix)}"

    def has(self, kind: str) -> bool:
        """Return whether the segment has a file of this kind; a KRaft snapshot has no index."""
        return not self.is_checkpoint and not self._is_alone and is_file(self.path(kind))

    def open_log(self) -> LogFile:
        """Return the .log, open for reading. Raises OSError."""
        return LogFile(self.log_path)

    def offset_index(self) -> OffsetIndex:
        """Return the .index, open for reading. Raises OSError."""
        return OffsetIndex(self.path(names.OFFSET_INDEX), self.base_offset)

    def time_index(self) -> TimeIndex:
        """Return the .timeindex, open for reading. Raises OSError."""
        return TimeIndex(self.path(names.TIME_INDEX), self.base_offset)

    def index(self, kind: str) -> OffsetIndex | TimeIndex:
        """Return the .index or the .timeindex, open for reading. Raises OSError."""
        return self.offset_index() if kind == names.OFFSET_INDEX else self.time_index()

    def txn_index(self) -> TxnIndex:
        """Return the .txnindex, open for reading. Raises OSError."""
        return TxnIndex(self.path(names.TXN_INDEX))

    def position_of(self, log: LogFile, offset: int) -> int:
        """Return a byte position in `log` from which a scan meets every batch that reaches absolute `offset`.

        Taken from the index where its entry leads to a batch that fits it, else 0.
        """
        if not self.has(names.OFFSET_INDEX) or offset <= self.base_offset:
            return 0
        try:
            with self.offset_index() as index:
                index.drop_zero_tail()
                entry = index.lookup(offset)
        except CorruptIndexError:
            return 0
        if entry.position <= 0 or not self.base_offset <= entry.offset <= offset:
            return 0
        batch = log.entry_at(entry.position, log.size)
        if batch.status != BLOCK_FULL or batch.last_offset < self.base_offset:
            return 0
        fits = batch.last_offset <= entry.offset or first_offset_at(log, entry.position, batch) == entry.offset
        return entry.position if fits else 0

    def position_of_time(self, log: LogFile, timestamp: int) -> int:
        """Return a byte position in `log` behind which all records are that have this timestamp (ms) or a later one.

        Taken from the indexes where they are in order and the batch that they lead to is the one they tell of, else 0.
        """
        if not self.has(names.TIME_INDEX):
            return 0
        try:
            with self.time_index() as index:
                index.drop_zero_tail()
                if index.entries == 0 or index.entry(0).timestamp > index.entry(index.entries - 1).timestamp:
                    return 0
                # the batch that an entry leads to may hold earlier records of the entry's timestamp
                entry = index.lookup(timestamp - 1)
        except CorruptIndexError:
            return 0
        position = self.position_of(log, entry.offset)
        return position if position and _has_timestamp(log, position, entry) else 0

    def _batches(self, start_offset: int | None, stop_offset: int | None) -> Iterator[Batch | Damage]:
        from kdump.storage.records import batch_at

        with self.open_log() as log:
            for part in self._reaching(log, start_offset, stop_offset, whole=False):
                if isinstance(part, Damage):
                    yield part
                else:
                    for row in range(part.first, part.stop):
                        yield batch_at(part.block, row)

    def _records(self, start_offset: int | None, stop_offset: int | None) -> Iterator[Record | BadBatch | Damage]:
        from kdump.storage.decoded import BadBatch
        from kdump.storage.records import Record, records_of

        with self.open_log() as log:
            for part in self._reaching(log, start_offset, stop_offset, whole=True):
                if isinstance(part, Damage):
                    yield part
                    continue
                for item in records_of(part.block, part.first, part.stop):
                    if isinstance(item, Record):
                        if stop_offset is not None and item.offset >= stop_offset:
                            return
                        if start_offset is not None and item.offset < start_offset:
                            continue
                    yield item._replace(path=log.path) if isinstance(item, BadBatch) else item

    def _reaching(
        self, log: LogFile, start_offset: int | None, stop_offset: int | None, *, whole: bool
    ) -> Iterator[Run | Damage]:
        """Yield what `scan` finds, without the batches that lie wholly outside [start_offset, stop_offset)."""
        before = -1  # last offset of the batch before
        start = 0 if start_offset is None else self.position_of(log, start_offset)
        for part in scan(log, self.base_offset, start, whole=whole):
            if isinstance(part, Damage):
                yield part
                continue
            block, first, stop = part
            if start_offset is not None:
                first = next((row for row in range(first, stop) if block.last_offset[row] >= start_offset), stop)
            if stop_offset is not None:
                for row in range(part.first, stop):
                    # where a v0/v1 wrapper's offsets start is not known before it is decompressed
                    unknown = block.base_offset[row] < 0 and block.magic[row] < 2
                    if (before + 1 if unknown else block.base_offset[row]) >= stop_offset:
                        stop = row
                        break
                    before = block.last_offset[row]
            if first < stop:
                yield Run(block, first, stop)
            if stop < part.stop:
                return


def segment_end_offset(segment: Segment, log: LogFile | None = None) -> int:
    """Return the offset behind the last whole batch of a segment, found as a broker does (LogSegment.readNextOffset).

    Where no batch reaches its base offset that is its end, too. `log` is its log where it is open. Raises OSError.
    """
    with segment.open_log() if log is None else nullcontext(log) as file:
        end = segment.base_offset
        for block in file.blocks(segment.position_of(file, MAX_OFFSET), whole=False):
            end = block.last_offset[block.length - 1] + 1 if block.length else end
        return max(segment.base_offset, end)


def first_offset_at(log: LogFile, position: int, entry: Entry) -> int:
    """Return the base offset of the whole entry at byte `position`; -1 where it cannot be read.

    That of a v0/v1 wrapper is in its payload.

    Raises CorruptRecordError where the log has become shorter.
    """
    from kdump.storage.decoded import first_offset

    header = log.read(position, HEADER_SIZE)
    if len(header) <= FRAME_SIZE:
        raise CorruptRecordError(f"{log.path} became shorter while it was read")
    offset, _, _, magic = FRAME.unpack_from(header)
    if magic >= 2 or not header[FRAME_SIZE] & CODEC_MASK:
        return int(offset)
    block = log.batch_at(position, entry.size)
    try:
        return first_offset(block, 0) if block.length else -1
    except KdumpError:
        return -1


def _has_timestamp(log: LogFile, position: int, entry: TimeIndexEntry) -> bool:
    """Return whether the batch that reaches the entry's offset, not far behind byte `position`, has its timestamp."""
    end = min(position + NEAR, log.size)
    while position < end:
        batch = log.entry_at(position, log.size)
        if batch.status != BLOCK_FULL or batch.size > NEAR:
            return False
        if batch.last_offset >= entry.offset:
            found = log.batch_at(position, batch.size)
            return found.length == 1 and found.max_timestamp[0] == entry.timestamp
        position += batch.size
    return False
