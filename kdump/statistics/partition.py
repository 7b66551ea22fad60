"""The figures of one partition, and of several together."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from kdump.blocks import BatchBlock
from kdump.disk.reading import status_of
from kdump.errors import CodecMemoryError, KdumpError, check_number, check_truths, check_word
from kdump.formats.batch import CODEC_MASK, HEADER_SIZE
from kdump.formats.codecs import DEFAULT_LIMIT, NAMES, NONE, compress
from kdump.formats.faults import DamageError
from kdump.query.selection import Selection
from kdump.statistics.batches import BatchStats
from kdump.statistics.records import KEY_MEMORY, KeyCensus, RecordStats, decoded_in
from kdump.storage.damage import Damage, is_zero_tail
from kdump.storage.decoded import DecodedRows
from kdump.storage.partition import PartitionLog
from kdump.storage.payloads import packed_payload, payload_of
from kdump.storage.scan import scan
from kdump.storage.segment import Segment
from kdump.txns.isolation import isolated
from kdump.txns.isolation_level import Isolation

SAMPLE_BATCHES = 8
MAX_PAYLOAD = 4 << 20
"""Bytes that a batch of the sample may decompress to."""
MAX_DAMAGE = 1000
"""Places of damage that are kept; all are counted."""

Progress = Callable[[str, int], None]


@dataclass(frozen=True, slots=True)
class StatsOptions:
    """`sample` batches of each partition are compressed by every codec; `records` are read if asked for.

    `key_memory` bounds the bytes for the different keys of a partition, `limit` those that a batch may decompress to.
    `isolation` leaves out the batches that a consumer of that level does not get.
    """

    sample: int = SAMPLE_BATCHES
    records: bool = False
    key_memory: int = KEY_MEMORY
    limit: int = DEFAULT_LIMIT
    isolation: Isolation = Isolation.READ_UNCOMMITTED

    def __post_init__(self) -> None:
        """Raise ValueError, TypeError."""
        check_number("sample", self.sample, 0)
        check_number("key_memory", self.key_memory, 1)
        check_number("limit", self.limit, 1)
        check_truths(records=self.records)
        check_word("isolation", self.isolation, Isolation)


@dataclass(slots=True)
class CodecSample:
    """What other codecs would make of a log, by some of its batches.

    `batches` whose payloads take `stored` bytes on disk and `plain` ones decompressed, and `sizes` in each codec.
    """

    batches: int = 0
    stored: int = 0
    plain: int = 0
    sizes: Counter[int] = field(default_factory=Counter)

    def add(self, block: BatchBlock, row: int) -> None:
        """Take a batch that the block holds, unless it cannot be read or is a v0/v1 message that is not compressed.

        Raises MemoryError: an estimate from the batches for which there was memory would be another one.
        """
        try:
            is_packed = bool(block.attributes[row] & CODEC_MASK)
            if is_packed:
                stored = len(packed_payload(block, row)[1])
                plain = payload_of(block, row, MAX_PAYLOAD)
            elif block.magic[row] < 2 or block.count[row] <= 0:
                return
            else:
                at = block.position[row] - block.data_position
                plain = bytes(memoryview(block.data)[at + HEADER_SIZE : at + block.size[row]])
                stored = len(plain)
            found = {codec: len(compress(codec, plain)) for codec in range(1, len(NAMES))}
        except CodecMemoryError:
            raise MemoryError from None
        except (KdumpError, DamageError):
            return
        self.batches += 1
        self.stored += stored
        self.plain += len(plain)
        self.sizes.update({NONE: len(plain), **found})

    def merge(self, other: CodecSample) -> None:
        """Add another sample."""
        self.batches += other.batches
        self.stored += other.stored
        self.plain += other.plain
        self.sizes.update(other.sizes)

    def estimate(self, codec: int, payload: int) -> int | None:
        """Return how many bytes `payload` bytes, as on disk now, would be in a codec; None without a sample."""
        return round(payload * self.sizes[codec] / self.stored) if self.stored else None


@dataclass(frozen=True, slots=True)
class SegmentTimes:
    """What retention goes by: a segment's size in bytes, the largest timestamp of its batches, the file's time (ms)."""

    base_offset: int
    size: int
    latest: int | None
    modified: int

    @property
    def time(self) -> int:
        """The time (ms) from which a broker computes the segment's age: the file's where no batch has a timestamp."""
        return self.modified if self.latest is None or self.latest < 0 else self.latest


@dataclass(slots=True)
class Stats:
    """The figures of a partition, or of several: `partitions` with `segments` and `size` bytes of .log files.

    `damage_count` places, `damaged` bytes in all, cannot be trusted; of the first of them `damage` has path, position
    and text. `preallocated` bytes are zeros at the end. `records` is None where they were not read.
    """

    partitions: int = 1
    segments: list[SegmentTimes] = field(default_factory=list)
    size: int = 0
    preallocated: int = 0
    batches: BatchStats = field(default_factory=BatchStats)
    sample: CodecSample = field(default_factory=CodecSample)
    records: RecordStats | None = None
    damage_count: int = 0
    damaged: int = 0
    damage: list[Damage] = field(default_factory=list)

    def merge(self, other: Stats) -> None:
        """Add the figures of another partition; the damage stays with its own."""
        self.partitions += other.partitions
        self.segments += other.segments
        self.size += other.size
        self.preallocated += other.preallocated
        self.batches.merge(other.batches)
        self.sample.merge(other.sample)
        self.damage_count += other.damage_count
        self.damaged += other.damaged
        if other.records is not None:
            self.records = self.records or RecordStats()
            self.records.merge(other.records)

    def in_codec(self, codec: int) -> int | None:
        """Return about how many bytes the batches would take if all were in a codec; None without a sample."""
        payload = self.batches.payload or self.batches.bytes
        found = self.sample.estimate(codec, payload)
        return None if found is None else self.batches.bytes - payload + found

    def note(self, damage: Damage) -> None:
        """Count a place of damage."""
        self.damage_count += 1
        self.damaged += damage.size
        if len(self.damage) < MAX_DAMAGE:
            self.damage.append(damage)


def partition_stats(log: PartitionLog, options: StatsOptions, progress: Progress = lambda _, __: None) -> Stats:
    """Read a partition. `progress` hears of bytes read of a .log. Raises OSError."""
    stats = Stats()
    sizes = [status_of(segment.log_path).size for segment in log.segments]
    picker = _Picker(sum(sizes), options.sample)
    selection = isolated(Selection(), log, options.isolation)
    for number, segment in enumerate(log.segments, 1):
        _walk(segment, stats, picker, progress, selection, is_last=number == len(log.segments))
    if options.records:
        stats.records = RecordStats()
        _read(log, stats, stats.records, options, progress, selection)
    return stats


@dataclass(frozen=True, slots=True)
class Dirtiness:
    """How the cleaner sees a partition: up to `checkpoint` (absolute) it is clean; bytes of whole segments.

    The segment that is written to is in neither figure.
    """

    checkpoint: int
    clean: int
    dirty: int

    @property
    def ratio(self) -> float:
        """The dirty bytes' share, which the cleaner compares with min.cleanable.dirty.ratio."""
        return self.dirty / (self.clean + self.dirty) if self.clean + self.dirty else 0.0


def dirtiness(segments: Sequence[SegmentTimes], checkpoint: int) -> Dirtiness:
    """Return what the cleaner's checkpoint makes of a partition's segments."""
    closed = segments[:-1]
    bases = [each.base_offset for each in closed]
    first_dirty = max(0, bisect_right(bases, checkpoint) - 1) if closed else 0
    if len(segments) > 1 and checkpoint >= segments[-1].base_offset:
        first_dirty = len(closed)
    sizes = [each.size for each in closed]
    return Dirtiness(checkpoint, sum(sizes[:first_dirty]), sum(sizes[first_dirty:]))


def total(parts: list[Stats]) -> Stats:
    """Return the figures of several partitions together."""
    found = Stats(partitions=0)
    for part in parts:
        found.merge(part)
    return found


class _Picker:
    """Chooses batches of a sample: one every so many bytes, whatever the segments are."""

    def __init__(self, total_bytes: int, wanted: int) -> None:
        self._every = max(1, total_bytes // wanted) if wanted else 0
        self._next = self._every // 2
        self._before = 0

    def rows(self, block: BatchBlock, first: int, stop: int) -> Iterator[int]:
        """Yield those of the rows `first` to `stop` - 1 that are to be taken."""
        while self._every and first < stop:
            wanted = self._next - self._before
            last = block.position[stop - 1] + block.size[stop - 1]
            if last <= wanted:
                return
            first = max(first, bisect_right(block.position, wanted, first, stop) - 1)
            yield first
            self._next += self._every * (1 + max(0, block.position[first] - wanted) // self._every)
            first += 1

    def end(self, size: int) -> None:
        """End a segment of `size` bytes."""
        self._before += size


def _walk(
    segment: Segment, stats: Stats, picker: _Picker, progress: Progress, selection: Selection, *, is_last: bool
) -> None:
    batches = stats.batches
    latest = None
    with segment.open_log() as log:
        stats.size += log.size
        for part in scan(log, segment.base_offset, whole=False):
            if isinstance(part, Damage):
                if is_last and is_zero_tail(part, log):
                    stats.preallocated += part.size
                else:
                    stats.note(part)
                continue
            block, first, stop = part
            for row, end in selection.runs(block, first, stop):
                batches.add(block, row, end)
            largest = max(block.max_timestamp[first:stop])
            latest = largest if latest is None else max(latest, largest)
            for row in picker.rows(block, first, stop):
                if block.holds(row):
                    stats.sample.add(block, row)
            progress(segment.log_path, block.position[stop - 1] + block.size[stop - 1] - block.position[first])
        modified = status_of(segment.log_path).modified_ns // 1_000_000
        stats.segments.append(SegmentTimes(segment.base_offset, log.size, latest, modified))
        picker.end(log.size)


def _read(
    log: PartitionLog,
    stats: Stats,
    records: RecordStats,
    options: StatsOptions,
    progress: Progress,
    selection: Selection,
) -> None:
    """Read the records twice: for sizes and keys, then for what compaction would keep of them."""

    def decoded(note: Callable[[Damage], None]) -> Iterator[DecodedRows]:
        for segment in log.segments:
            for part in decoded_in(segment, options.limit, selection):
                if isinstance(part, int):
                    progress(segment.log_path, part)
                elif isinstance(part, Damage):
                    note(part)
                else:
                    yield part

    census = KeyCensus(options.key_memory)
    for rows in decoded(stats.note):
        records.add(rows)
        census.add(rows)
    records.distinct_keys = census.distinct
    if records.distinct_keys is None:
        records.kept = records.kept_bytes = records.kept_tombstones = None
        return
    if not records.keyed:
        return
    for rows in decoded(lambda _problem: None):
        census.keep(rows, records)
