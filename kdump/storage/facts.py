"""What is in one segment, as plain facts: offsets, times, sizes, counts, index entries.

A segment is looked into as a broker does when it loads one: its first batch, and what lies behind the last entry of
its offset index. What only a reading of all its batches tells is None, unless the segment is small or counting was
asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from kdump.blocks import BatchBlock
from kdump.disk.reading import status_of
from kdump.errors import CorruptIndexError, CorruptRecordError
from kdump.formats import names
from kdump.formats.batch import CODEC_MASK, DELETE_HORIZON, LOG_APPEND_TIME
from kdump.formats.codecs import codec_name
from kdump.formats.faults import BLOCK_FULL
from kdump.formats.index_entries import ABORTED_TXN_SIZE, OFFSET_ENTRY_SIZE, TIME_ENTRY_SIZE
from kdump.storage.damage import Damage, DamageKind, bad_batch, only_zeros, undecodable
from kdump.storage.indexes import OffsetIndex, TimeIndex
from kdump.storage.log_reader import LogFile
from kdump.storage.partition import PartitionLog
from kdump.storage.records import Record, records_of
from kdump.storage.scan import MAX_OFFSET, Run, scan
from kdump.storage.segment import Segment, segment_end_offset
from kdump.storage.timestamps import (
    LargestTimestamp,
    TimestampRule,
    TimestampSource,
    largest_of,
    largest_timestamp,
    scanned,
)

SMALL = 1 << 20
"""Bytes of a log up to which all its batches are read, as that costs no more than a look at its ends."""

MAX_TAIL = 1 << 26
"""Bytes behind the last index entry that are read to find a segment's end; for the last segment there is no limit."""


class IndexInfo(NamedTuple):
    """An index file: the entries in use (a zero tail is none), its length and what is used of it, in bytes."""

    entries: int
    size: int
    used_size: int


class SegmentInfo(NamedTuple):
    """One segment. Offsets are absolute, timestamps in ms, sizes in bytes; None is not known, or not there.

    `end_offset` is the last offset + 1, as a broker finds it. `used_size` is where the last batch ends, `on_disk` what
    the file system has allocated; both are below `size` in a preallocated log, where `has_zero_tail` tells that zeros
    follow the last batch. `largest_timestamp` is the time index's where that fits the log. `codecs` (names) and
    `magics` are those of all batches where `is_counted`, else those of the batches looked at; `damage` was met in the
    same. `error` says why the segment cannot be read.
    """

    path: str
    base_offset: int
    size: int = 0
    used_size: int | None = None
    on_disk: int = 0
    has_zero_tail: bool = False
    end_offset: int | None = None
    batches: int | None = None
    records: int | None = None
    first_timestamp: int | None = None
    largest_timestamp: int | None = None
    codecs: tuple[str, ...] = ()
    magics: tuple[int, ...] = ()
    is_counted: bool = False
    damage: tuple[Damage, ...] = ()
    offset_index: IndexInfo | None = None
    time_index: IndexInfo | None = None
    txn_index: IndexInfo | None = None
    error: OSError | None = None

    @property
    def missing_indexes(self) -> tuple[str, ...]:
        """The kinds of the indexes that are not there and should be; a KRaft snapshot has none."""
        if self.error or self.path.endswith(f".{names.KRAFT_SNAPSHOT}"):
            return ()
        return tuple(kind for kind, index in self._indexes if index is None)

    @property
    def preallocated_indexes(self) -> tuple[str, ...]:
        """The kinds of the indexes with room for more entries, as of a segment that is written to."""
        return tuple(kind for kind, index in self._indexes if index is not None and index.used_size < index.size)

    @property
    def _indexes(self) -> tuple[tuple[str, IndexInfo | None], ...]:
        return (names.OFFSET_INDEX, self.offset_index), (names.TIME_INDEX, self.time_index)


@dataclass(frozen=True)
class SegmentFacts:
    """A segment for the rules of cleaner and retention. Offsets are absolute, times in ms, sizes in bytes.

    `end_offset` is the next segment's base offset or the log's end, `size` what a broker counts of the .log, `modified`
    that file's time.
    """

    segment: Segment
    end_offset: int
    size: int
    modified: int
    is_last: bool = False

    @property
    def base_offset(self) -> int:
        """The base offset in its name."""
        return self.segment.base_offset

    def largest(self, rule: TimestampRule) -> LargestTimestamp:
        """Return its largest timestamp, or the time of the .log file where there is none (LogSegment.largestTimestamp).

        Raises OSError, CorruptIndexError.
        """
        source, damage = TimestampSource.TIME_INDEX, None
        found: int | None
        if rule is TimestampRule.SCANNED:
            source = TimestampSource.BATCHES
            found, damage = scanned(self.segment)
        else:
            found = largest_timestamp(self.segment, rule, self.end_offset)
        if found is None or found < 0:
            source, found = TimestampSource.MTIME, self.modified
        return LargestTimestamp(found, source, damage)


def segment_facts(log: PartitionLog, end_offset: int, used_size: int | None = None) -> Iterator[SegmentFacts]:
    """Yield the facts of each segment of a log that ends at `end_offset`. Raises OSError.

    Of the last segment `used_size` bytes count, all where that is None.
    """
    ends = [segment.base_offset for segment in log.segments[1:]] + [end_offset]
    for segment, end in zip(log.segments, ends, strict=True):
        status, is_last = status_of(segment.log_path), segment is log.segments[-1]
        size = used_size if is_last and used_size is not None else status.size
        yield SegmentFacts(segment, end, size, status.modified_ns // 1_000_000, is_last)


def segment_info(segment: Segment, *, count: bool = False, is_last: bool = True) -> SegmentInfo:
    """Return the facts about a segment. With `count` all its batches are read; what cannot be read is its `error`."""
    try:
        return _look(segment, count, is_last)
    except OSError as error:
        return SegmentInfo(segment.log_path, segment.base_offset, error=error)


def log_end_offset(log: PartitionLog, log_start_offset: int = 0) -> int:
    """Return the offset that the next record of a log gets: behind its last whole batch, at least the log start offset.

    It is found as a broker finds it when it opens a log: from the last entry of the last segment's offset index on,
    where that leads to a batch, CRCs not looked at (LogSegment.readNextOffset). Raises OSError.
    """
    if not log.segments:
        return log_start_offset
    return max(log_start_offset, segment_end_offset(log.segments[-1]))


@dataclass
class _Seen:
    """What the batches looked at say; `position` (bytes) is where the last of them ends."""

    position: int = 0
    batches: int = 0
    records: int = 0
    wrappers: int = 0  # of v0/v1, which do not say how many messages are in them
    last_offset: int | None = None
    first_timestamp: int | None = None
    largest_timestamp: int = -1
    codecs: set[int] = field(default_factory=set)
    magics: set[int] = field(default_factory=set)
    damage: list[Damage] = field(default_factory=list)

    def add(self, block: BatchBlock, first: int, stop: int) -> None:
        if self.batches == 0:
            self.first_timestamp = _first_timestamp(block, first)
        self.batches += stop - first
        self.position = block.position[stop - 1] + block.size[stop - 1]
        self.last_offset = block.last_offset[stop - 1]
        self.largest_timestamp = max(self.largest_timestamp, max(block.max_timestamp[first:stop]))
        self.codecs.update(attributes & CODEC_MASK for attributes in set(block.attributes[first:stop]))
        self.magics.update(block.magic[first:stop])
        counts = block.count[first:stop]
        if min(counts) >= 0:
            self.records += sum(counts)
            return
        for row in range(first, stop):
            if _is_wrapper(block, row):
                self.wrappers += 1
            else:
                self.records += max(0, block.count[row])


def _look(segment: Segment, count: bool, is_last: bool) -> SegmentInfo:
    with segment.open_log() as log:
        on_disk = status_of(segment.log_path).on_disk
        start = segment.position_of(log, MAX_OFFSET)
        tail = _walked(log, start) if is_last or log.size - start <= MAX_TAIL else None
        is_counted = True
        if count or log.size <= SMALL:
            seen = _counted(segment, log, decodes=count)
        elif start == 0 and tail:
            seen = tail
        else:
            seen, is_counted = _ends(log, tail), False
        used_size = seen.position if is_counted or tail else None
        zero_tail = used_size is not None and used_size < log.size and _is_zero(log, used_size, whole=is_counted)
    offset_index, time_index, timed = _indexes(segment, seen.last_offset)
    largest: int | None = seen.largest_timestamp
    if not is_counted:
        largest = timed if timed is None or tail is None else max(timed, tail.largest_timestamp)
    return SegmentInfo(
        path=segment.log_path,
        base_offset=segment.base_offset,
        size=log.size,
        used_size=used_size,
        on_disk=on_disk,
        has_zero_tail=zero_tail,
        end_offset=_end_offset(segment, tail) if tail else None,
        batches=seen.batches if is_counted else None,
        records=seen.records if is_counted and not seen.wrappers else None,
        first_timestamp=seen.first_timestamp,
        largest_timestamp=None if largest is None or largest < 0 else largest,
        codecs=tuple(map(codec_name, sorted(seen.codecs))),
        magics=tuple(sorted(seen.magics)),
        is_counted=is_counted,
        damage=tuple(found for found in seen.damage if not (zero_tail and found.position == used_size)),
        offset_index=offset_index,
        time_index=time_index,
        txn_index=_txn_index(segment),
    )


def _walked(log: LogFile, start: int) -> _Seen:
    """Return the batches from byte `start` on as a broker reads them to find a log's end; their CRCs need not hold."""
    seen = _Seen(position=start)
    for block in log.blocks(start, whole=False):
        if block.length:
            seen.add(block, 0, block.length)
        for row in range(block.length):
            if not block.valid[row]:
                end = block.position[row] + block.size[row]
                seen.damage.append(bad_batch(block, row, end, log.path))
    if seen.position < log.size:
        text = f"no batch can be read from here on: {log.size - seen.position} bytes are left"
        cause = CorruptRecordError(text)
        seen.damage.append(Damage(DamageKind.GARBAGE, seen.position, log.size, cause, log.path))
    return seen


def _ends(log: LogFile, tail: _Seen | None) -> _Seen:
    """Return the first batch of a log, and those of its tail."""
    seen = _Seen()
    first = log.entry_at(0, log.size)
    if first.status == BLOCK_FULL:
        block = next(log.blocks(0, first.size, whole=False))
        if block.length:
            seen.add(block, 0, 1)
    if tail:
        seen.position, seen.last_offset = tail.position, tail.last_offset
        seen.codecs |= tail.codecs
        seen.magics |= tail.magics
        seen.damage += tail.damage
    else:
        seen.last_offset = None
    return seen


def _counted(segment: Segment, log: LogFile, *, decodes: bool) -> _Seen:
    """Return all batches that can be trusted, and the damage between them; `decodes` opens v0/v1 wrappers to count."""
    seen = _Seen()
    for part in scan(log, segment.base_offset, whole=decodes):
        if isinstance(part, Damage):
            seen.damage.append(part)
            continue
        seen.add(part.block, part.first, part.stop)
        if decodes and seen.wrappers:
            _open_wrappers(seen, part, log.path)
    return seen


def _open_wrappers(seen: _Seen, run: Run, path: str) -> None:
    block = run.block
    for row in range(run.first, run.stop):
        if _is_wrapper(block, row):
            for item in records_of(block, row, row + 1):
                if isinstance(item, Record):
                    seen.records += 1
                else:
                    seen.damage.append(undecodable(block, row, item.error, path))
    seen.wrappers = 0


def _is_wrapper(block: BatchBlock, row: int) -> bool:
    return block.count[row] < 0 and block.magic[row] < 2


def _first_timestamp(block: BatchBlock, row: int) -> int | None:
    """Return the timestamp of a batch's first record as its header has it, else the batch's largest; None for none."""
    timestamp = block.max_timestamp[row]
    if block.magic[row] >= 2 and not block.attributes[row] & (DELETE_HORIZON | LOG_APPEND_TIME):
        timestamp = block.base_timestamp[row]
    return timestamp if timestamp >= 0 else None


def _is_zero(log: LogFile, position: int, *, whole: bool) -> bool:
    """Return whether zeros follow from `position` on; unless the `whole` rest is looked at, in its first MiB."""
    return only_zeros(log, position, log.size if whole else min(log.size, position + SMALL))


def _end_offset(segment: Segment, tail: _Seen) -> int:
    return segment.base_offset if tail.last_offset is None else max(segment.base_offset, tail.last_offset + 1)


def _indexes(segment: Segment, last_offset: int | None) -> tuple[IndexInfo | None, IndexInfo | None, int | None]:
    """Return the facts about both indexes, and the largest timestamp (ms) of a time index that fits the log."""
    offset_index = time_index = timed = None
    if segment.has(names.OFFSET_INDEX):
        with segment.offset_index() as index:
            offset_index = _index_info(index, OFFSET_ENTRY_SIZE)
    if segment.has(names.TIME_INDEX):
        with segment.time_index() as times:
            time_index = _index_info(times, TIME_ENTRY_SIZE)
            timed = _checked(times, last_offset)
    return offset_index, time_index, timed


def _index_info(index: OffsetIndex | TimeIndex, entry_size: int) -> IndexInfo:
    try:
        index.drop_zero_tail()
    except CorruptIndexError:
        index.entries = 0
    return IndexInfo(index.entries, index.size, index.entries * entry_size)


def _checked(index: TimeIndex, last_offset: int | None) -> int | None:
    try:
        return largest_of(index, TimestampRule.CHECKED, None if last_offset is None else last_offset + 1)
    except CorruptIndexError:
        return None


def _txn_index(segment: Segment) -> IndexInfo | None:
    if not segment.has(names.TXN_INDEX):
        return None
    size = status_of(segment.path(names.TXN_INDEX)).size
    entries = size // ABORTED_TXN_SIZE
    return IndexInfo(entries, size, entries * ABORTED_TXN_SIZE)
