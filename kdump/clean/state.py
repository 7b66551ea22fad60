"""What the cleaner may clean of a partition, and what keeps it from more: the offsets, the dirty ratio, the limits."""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from kdump.clean.reading import repair_first
from kdump.errors import CleaningError, LoadError
from kdump.formats import names
from kdump.formats.java_text import LONG_MAX
from kdump.formats.names import partition_dir_name
from kdump.recovery.producer_rebuild import rebuild_producer_state
from kdump.recovery.producer_state import ProducerStates
from kdump.recovery.segments import LoadedSegment, Segments
from kdump.recovery.snapshots import SnapshotFiles
from kdump.recovery.startup import Startup
from kdump.settings.cleaning import CleaningSettings
from kdump.settings.table import CLEANUP_POLICY, COMPACT
from kdump.storage.checkpoints import PartitionCheckpoints
from kdump.storage.facts import SegmentFacts, log_end_offset, segment_facts
from kdump.storage.live import broker_on
from kdump.storage.partition import PartitionLog
from kdump.storage.planned import PlannedPartition
from kdump.storage.timestamps import TimestampRule


class LimitKind(StrEnum):
    """What keeps the cleaner from cleaning records."""

    ACTIVE = "active segment"
    HIGH_WATERMARK = "high watermark"
    TRANSACTION = "transaction"
    """One that is open."""
    LAG = "min.compaction.lag.ms"
    """The segment is too young."""


ACTIVE, HIGH_WATERMARK, TRANSACTION, LAG = LimitKind


class Limit(NamedTuple):
    """Something that keeps the cleaner from cleaning the records from `offset` (absolute) on.

    Of a transaction there is the `producer_id` that has it open, of the lag `until` when (ms) the segment is too young.
    """

    kind: LimitKind
    offset: int
    producer_id: int = -1
    until: int = -1


class LastRecord(NamedTuple):
    """The last that is known of a producer: its epoch, and the last offset (absolute) of its last data batch.

    The offset is -1 where only a marker of it is known.
    """

    last_offset: int
    producer_epoch: int


class Producers(NamedTuple):
    """The active producers by id, and the transactions that are open: the first offset of each and its producer."""

    last_records: dict[int, LastRecord]
    open_txns: dict[int, int]


@dataclass(frozen=True, slots=True)
class PartitionState:
    """What the cleaner knows of a partition before it cleans. Offsets are absolute, sizes in bytes, times in ms.

    `checkpoint` is the cleaner's, None without an entry; `reset` says why it does not count. What lies from
    `first_dirty_offset` up to `first_uncleanable_offset` (a segment's base, or the former) may be cleaned; `limits` are
    what bounds it, the one that does first. `clean_size` and `cleanable_size` are of whole segments, as the cleaner
    counts them. `overdue_since` is since when the oldest dirty record has been due for max.compaction.lag.ms, None
    where none is. `last_records` are those of the active producers by id.
    """

    log: PartitionLog
    segments: tuple[SegmentFacts, ...]
    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    is_watermark_known: bool
    last_stable_offset: int
    checkpoint: int | None
    reset: str
    first_dirty_offset: int
    first_uncleanable_offset: int
    limits: tuple[Limit, ...]
    clean_size: int
    cleanable_size: int
    overdue_since: int | None
    last_records: dict[int, LastRecord]

    @property
    def size(self) -> int:
        """The bytes of all .log files."""
        return sum(each.size for each in self.segments)

    @property
    def dirty_ratio(self) -> float:
        """The cleanable bytes' share of all that are clean or cleanable; 0 where there are none."""
        total = self.clean_size + self.cleanable_size
        return self.cleanable_size / total if total else 0.0

    def is_due(self, config: CleaningSettings) -> bool:
        """Return whether the cleaner would take this partition on."""
        if self.overdue_since is not None and self.cleanable_size > 0:
            return True
        return self.dirty_ratio > config.min_cleanable_ratio


def not_compacted(settings: CleaningSettings, *, was_cleaned: bool, is_named: bool) -> str:
    """Say why a partition is not one for the cleaner; empty if it is.

    `was_cleaned`: the cleaner's checkpoint has it. `is_named`: it was asked for in particular, so that it counts as
    compacted where nothing else is known.
    """
    name, server_name = (named.name for named in CLEANUP_POLICY.names)
    if settings.policies is not None:
        return "" if settings.is_compacted else f"{name} is {_words(settings.policies)}: the cleaner leaves it alone"
    if was_cleaned:
        return ""
    if settings.default_policies is not None:
        if COMPACT in settings.default_policies:
            return ""
        return f"{server_name} is {_words(settings.default_policies)}, and the cleaner's checkpoint does not have it"
    return "" if is_named else f"not known to be compacted: give --config with {name}, or name its directory"


def _words(policies: frozenset[str]) -> str:
    return ",".join(sorted(policies)) or "empty"


def between(segments: Sequence[SegmentFacts], start: int, stop: int) -> Sequence[SegmentFacts]:
    """Return the segments from the one on that `start` belongs to, up to those with a base offset below `stop`."""
    if start >= stop:
        return ()
    bases = [each.base_offset for each in segments]
    return segments[max(0, bisect_right(bases, start) - 1) : bisect_left(bases, stop)]


def examine_partition(
    log: PartitionLog, checkpoints: PartitionCheckpoints, config: CleaningSettings, now: int
) -> PartitionState:
    """Return what the cleaner, at the time `now` (ms), knows of a partition. Raises OSError, CleaningError.

    Without a high watermark in the checkpoints all of the log counts as replicated.
    """
    _check_leftovers(log)
    if not log.segments:
        raise CleaningError(f"{log.path}: there is no segment in it")
    start = checkpoints.log_start_offset(log.segments[0].base_offset)
    end = log_end_offset(log, start)
    segments = tuple(segment_facts(log, end))
    known = checkpoints.high_watermark
    watermark = end if known is None else min(max(known, start), end)
    startup = Startup(now, log_start_offset=start, config=config.loading)
    producers = _producers(log, startup, start, end)
    open_txns = producers.open_txns
    dirty, reset = _first_dirty(checkpoints.cleaner, start, end)
    limits = [*_limits(segments, watermark, end, open_txns), *_lag_limit(segments, dirty, config, now)]
    limits.sort(key=lambda limit: limit.offset)
    uncleanable = max(dirty, limits[0].offset)
    bases = (each.base_offset for each in _dirty_inactive(segments, uncleanable))
    first_uncleanable = next(bases, segments[-1].base_offset)
    cleanable = between(segments, dirty, first_uncleanable)
    return PartitionState(
        log=log,
        segments=segments,
        log_start_offset=start,
        log_end_offset=end,
        high_watermark=watermark,
        is_watermark_known=known is not None,
        last_stable_offset=min(watermark, *open_txns) if open_txns else watermark,
        checkpoint=checkpoints.cleaner,
        reset=reset,
        first_dirty_offset=dirty,
        first_uncleanable_offset=first_uncleanable,
        limits=tuple(limits),
        clean_size=sum(each.size for each in between(segments, 0, dirty)),
        cleanable_size=sum(each.size for each in cleanable),
        overdue_since=_overdue(segments, dirty, config.max_compaction_lag_ms, now),
        last_records=producers.last_records,
    )


def _producers(log: PartitionLog, startup: Startup, log_start_offset: int, end_offset: int) -> Producers:
    """Return the producers as of `end_offset` (absolute); those that have expired by `startup.now` (ms) are left out.

    From the newest snapshot before it and the batches behind that. Raises OSError, CleaningError.
    """
    directory, segments = PlannedPartition(log), Segments()
    partition = partition_dir_name(log.name.topic, log.name.partition) if log.name else "unknown"
    try:
        for segment in log.segments:
            segments.add(LoadedSegment(directory, segment.base_offset, startup.config.segment_index_bytes))
        states = ProducerStates(SnapshotFiles(directory))
        rebuild_producer_state(states, segments, startup, log_start_offset, end_offset, partition, clean=False)
    except LoadError as error:
        raise CleaningError(
            f"{log.path}: its producers' state is not known: {error}: {repair_first(log.path)}"
        ) from None
    expired = startup.now - startup.config.producer_id_expiration_ms
    last_records = {
        producer_id: LastRecord(producer.last_offset, producer.epoch)
        for producer_id, producer in states.producers.items()
        if producer.txn_first_offset >= 0 or producer.timestamp > expired
    }
    return Producers(last_records, dict(states.open_txns))


def _check_leftovers(log: PartitionLog) -> None:
    """Refuse a directory in which segments are being replaced: what is there is not what a broker would load.

    Those of a broker that runs are its cleaner's, at work.
    """
    if broker_on(os.path.dirname(os.path.abspath(log.path))) is not None:
        return
    for state in (names.SWAP, names.CLEANED):
        for name in log.in_state(state):
            raise CleaningError(
                f"{os.path.join(log.path, name)}: left over from a replacement of segments; a broker that starts"
                f" finishes or undoes that: {repair_first(log.path)}"
            )


def _first_dirty(checkpoint: int | None, start: int, end: int) -> tuple[int, str]:
    """Tell from where on the log is dirty, and why the checkpoint does not count, if it does not."""
    if checkpoint is None:
        return start, ""
    if checkpoint < start:
        return start, f"the checkpoint {checkpoint} is below the log start offset {start}"
    if checkpoint > end:
        return start, f"the checkpoint {checkpoint} is above the log end offset {end}: the complete log is dirty"
    return checkpoint, ""


def _limits(
    segments: Sequence[SegmentFacts], watermark: int, end: int, open_txns: dict[int, int]
) -> Iterator[Limit]:
    if open_txns and min(open_txns) < watermark:
        yield Limit(TRANSACTION, min(open_txns), open_txns[min(open_txns)])
    if watermark < end:
        yield Limit(HIGH_WATERMARK, watermark)
    yield Limit(ACTIVE, segments[-1].base_offset)


def _lag_limit(
    segments: Sequence[SegmentFacts], dirty: int, config: CleaningSettings, now: int
) -> Iterator[Limit]:
    if config.min_compaction_lag_ms > 0:
        for each in _dirty_inactive(segments, dirty):
            largest = each.largest(TimestampRule.TRIMMED).timestamp
            if largest > now - config.min_compaction_lag_ms:
                yield Limit(LAG, each.base_offset, until=largest + config.min_compaction_lag_ms)
                return


def _dirty_inactive(segments: Sequence[SegmentFacts], offset: int) -> Sequence[SegmentFacts]:
    """Return the segments from the one on that `offset` belongs to, without the active one."""
    return between(segments, offset, segments[-1].base_offset)


def _overdue(segments: Sequence[SegmentFacts], dirty: int, lag: int, now: int) -> int | None:
    if lag == LONG_MAX:
        return None
    first = [timestamp for each in _dirty_inactive(segments, dirty) if (timestamp := _first_timestamp(each)) > 0]
    return min(first) + lag if first and min(first) < now - lag else None


def _first_timestamp(facts: SegmentFacts) -> int:
    """Return the largest timestamp (ms) of the segment's first batch; -1 without one."""
    with facts.segment.open_log() as log:
        entry = log.entry_at(0, log.size)
        block = next(log.blocks(0, entry.size, whole=False))
        return block.max_timestamp[0] if block.length else -1
