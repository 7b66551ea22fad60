"""From the bounds of a read to offsets: for each partition the first one that is wanted, and the first that is not."""

from __future__ import annotations

from typing import NamedTuple

from kdump.query.selection import Selection
from kdump.query.sweep import Sweep
from kdump.spark.options import EARLIEST_OFFSET, LATEST_OFFSET, Bound, OptionError, ReadOptions
from kdump.spark.places import Partition
from kdump.storage.damage import Damage
from kdump.storage.facts import log_end_offset
from kdump.storage.partition import PartitionLog


class Interval(NamedTuple):
    """Absolute offsets: from `start` on, before `stop`; None is unbounded."""

    start: int | None = None
    stop: int | None = None

    @property
    def is_empty(self) -> bool:
        """Whether no offset is in it."""
        return self.start is not None and self.stop is not None and self.start >= self.stop


def interval_of(partition: Partition, options: ReadOptions) -> Interval:
    """Return what is wanted of a partition. Raises OSError, OptionError."""
    log = partition.log
    since, until = _time(partition, options.start), _time(partition, options.stop)
    if since is not None:
        start = first_offset_since(log, since)
        if start is None and options.start.is_strict:
            raise OptionError(
                f"{log.path}: no record is from {since} ms on (startingOffsetsByTimestampStrategy=latest allows it)"
            )
        start = log_end_offset(log) if start is None else start
    else:
        start = _given(partition, options.start)
        if start == LATEST_OFFSET:
            start = log_end_offset(log)
    stop = _given(partition, options.stop) if until is None else first_offset_since(log, until)
    return Interval(None if start == EARLIEST_OFFSET else start, None if stop == LATEST_OFFSET else stop)


def _time(partition: Partition, bound: Bound) -> int | None:
    if bound.timestamp is not None or partition.topic is None or partition.number is None:
        return bound.timestamp
    return bound.times.get((partition.topic, partition.number))


def _given(partition: Partition, bound: Bound) -> int:
    if partition.topic is None or partition.number is None:
        return bound.default
    return bound.offsets.get((partition.topic, partition.number), bound.default)


def first_offset_since(log: PartitionLog, timestamp: int) -> int | None:
    """Return the absolute offset of the first record at or after `timestamp` (ms); None without one. Raises OSError.

    Indexes are a shortcut where they can be trusted, as everywhere; what is damaged is skipped.
    """
    selection = Selection(since=timestamp)
    for segment in selection.segments(log):
        with segment.open_log() as file:
            for part in Sweep(segment, file, selection, selection.start(segment, file)):
                if not isinstance(part, Damage) and len(part.picks):
                    return part.records.offset[part.picks[0]]
    return None
