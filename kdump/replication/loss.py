"""What goes when a replica leads: the batches of other copies that its log has not."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from kdump.formats.batch import CONTROL
from kdump.replication.compacted import KeyRecord
from kdump.replication.compare import MAX_RANGES, OffsetRange
from kdump.replication.rows import BatchRows, walk
from kdump.storage.partition import PartitionLog

MAX_PRODUCERS = 10_000
"""Producer ids that are told apart; with more of them the number is a lower bound."""


class Span(NamedTuple):
    """Offsets (absolute) from `start` up to `stop`, exclusive."""

    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Bounds:
    """How far a copy's records were committed.

    Below `committed` they were for certain: a high watermark of the same history. Below `possible` every in-sync
    replica has them, so that they may have been acknowledged with acks=all; at or above it with acks=1 at most. None
    where the ISR is not known. Of leader epochs before `unclean_epoch` nothing tells who was in sync then: an unclean
    election came after them, so their records may have been acknowledged by all.
    """

    committed: int
    possible: int | None = None
    unclean_epoch: int = -1

    def may_be_acknowledged(self, offset: int, epoch: int) -> bool:
        """Return whether a record may have been acknowledged with acks=all, by its offset and leader epoch."""
        return epoch < self.unclean_epoch or (self.possible is not None and offset < self.possible)


class LostKeys(NamedTuple):
    """Keys of a compacted topic that lose their latest record; `offsets` (absolute, rising) are those records'.

    `committed` and `possible` count the keys as LostRange does records.
    """

    offsets: Sequence[int]
    committed: int
    possible: int

    @classmethod
    def of(cls, records: Sequence[KeyRecord], bounds: Bounds) -> LostKeys:
        """Return what latest records that are lost come to, given by offset."""
        committed = sum(each.offset < bounds.committed for each in records)
        rest = (each for each in records if each.offset >= bounds.committed)
        possible = sum(bounds.may_be_acknowledged(each.offset, each.epoch) for each in rest)
        return cls(array("q", [each.offset for each in records]), committed, possible)

    def has(self, first: int, last: int) -> int:
        """Return how many of the records have offsets from `first` to `last`."""
        return bisect_right(self.offsets, last) - bisect_left(self.offsets, first)


@dataclass(frozen=True, slots=True)
class LostRange:
    """What one copy loses: offsets `first` to `last` (inclusive, absolute), `size` in bytes, timestamps in ms.

    `committed` counts the records that were committed for certain, `possible` those that may have been acknowledged
    with acks=all besides. `copy` is the copy's number. `spans` are the ranges of offsets (inclusive) that are counted
    here, without those that another copy loses as well. What the copy does not cut (`is_cut` false) it keeps, while the
    leader has nothing at these offsets. Records of compressed v0/v1 wrappers count as one each.

    `keys` are those of a compacted topic that lose their latest record; None elsewhere, or for too many keys. What such
    a copy keeps counts with those records only.
    """

    copy: int
    first: int
    last: int
    batches: int = 0
    records: int = 0
    size: int = 0
    committed: int = 0
    possible: int = 0
    first_timestamp: int | None = None
    last_timestamp: int | None = None
    epochs: tuple[int, ...] = ()
    producers: int = 0
    spans: tuple[tuple[int, int], ...] = ()
    is_cut: bool = True
    keys: LostKeys | None = None


class Figures(NamedTuple):
    """What is lost, in keys (`are_keys`) or in records: how much, and of that `committed` and `possible`."""

    lost: int
    committed: int
    possible: int
    are_keys: bool = False


@dataclass(frozen=True, slots=True)
class Loss:
    """All that a choice of leader loses; a batch that several copies have counts once. Figures as in LostRange.

    `is_compacted`: the topic is compacted, so that keys count.
    """

    ranges: tuple[LostRange, ...] = ()
    is_compacted: bool = False

    @property
    def keys(self) -> Figures | None:
        """The keys that lose their latest record; None where the topic is not compacted, or for too many keys."""
        found = [each.keys for each in self.ranges]
        known = [each for each in found if each is not None]
        if not self.is_compacted or len(known) < len(found):
            return None
        sums = (sum(each.committed for each in known), sum(each.possible for each in known))
        return Figures(sum(len(each.offsets) for each in known), *sums, are_keys=True)

    @property
    def figures(self) -> Figures:
        """What counts: keys of a compacted topic where they are known, else records."""
        return self.keys or Figures(self.records, self.committed, self.possible)

    @property
    def records(self) -> int:
        """Records lost."""
        return sum(each.records for each in self.ranges)

    @property
    def size(self) -> int:
        """Bytes of the batches lost."""
        return sum(each.size for each in self.ranges)

    @property
    def committed(self) -> int:
        """Records lost that were committed for certain."""
        return sum(each.committed for each in self.ranges)

    @property
    def possible(self) -> int:
        """Records lost besides that may have been acknowledged with acks=all."""
        return sum(each.possible for each in self.ranges)


class Shared(NamedTuple):
    """What another copy loses as well and is counted there: the spans of offsets, but for the batches in `own`."""

    spans: Sequence[Span]
    own: Sequence[OffsetRange]

    def has(self, first: int, last: int) -> bool:
        """Return whether the batch with these offsets is in the other copy's loss, or what it has of it."""
        at = bisect_right(self.spans, last, key=lambda each: each.start)
        if at == 0 or self.spans[at - 1].stop <= first:
            return False
        at = bisect_right(self.own, first, key=lambda each: each.first)
        return at == 0 or self.own[at - 1].last < first


def lost_range(
    log: PartitionLog,
    copy: int,
    spans: Sequence[Span],
    bounds: Bounds,
    known: Sequence[Shared] = (),
    *,
    log_start: int = 0,
    is_cut: bool = True,
    keys: LostKeys | None = None,
) -> LostRange | None:
    """Return what goes with a copy's valid batches in some spans of offsets; None if nothing does.

    `known` are the losses of other copies that are counted already; below `log_start` records are deleted. `is_cut`:
    the batches are cut off the log, each of them as a whole; else only the latest records of `keys` count, where these
    are given. Raises OSError.
    """
    counted = _Counted(LostRange(copy, 0, -1, is_cut=is_cut, keys=keys), bounds, known, log_start)
    for span in spans:
        for rows in walk(log, span.start):
            if not counted.add(rows, span):
                break
    return counted.result()


class _Counted:
    def __init__(self, nothing: LostRange, bounds: Bounds, known: Sequence[Shared], log_start: int) -> None:
        self._bounds = bounds
        self._log_start = log_start
        self._known = known
        self._found = nothing
        self._epochs: set[int] = set()
        self._producers: set[int] = set()
        self._spans: list[tuple[int, int]] = []
        self._committed = self._possible = 0

    def add(self, rows: BatchRows, span: Span) -> bool:
        """Count the batches of a span; whether more of them may come."""
        for row in range(rows.length):
            last = rows.last_offset[row]
            first = rows.base_offset[row] if rows.base_offset[row] >= 0 else last
            if first >= span.stop:
                return False
            if last < span.start or not rows.valid[row] or any(each.has(first, last) for each in self._known):
                continue
            self._batch(rows, row, max(first, self._log_start if self._found.is_cut else span.start))
        return True

    def _batch(self, rows: BatchRows, row: int, first: int) -> None:
        last = rows.last_offset[row]
        records = 0 if rows.attributes[row] & CONTROL else max(1, min(rows.count[row], last - first + 1))
        if self._found.keys is not None and not self._found.is_cut:
            records = self._found.keys.has(first, last)
            if not records:
                return
        spans = self._spans
        if spans and (spans[-1][1] + 1 == first or len(spans) >= MAX_RANGES):
            spans[-1] = spans[-1][0], last
        else:
            spans.append((first, last))
        self._epochs.add(rows.leader_epoch[row])
        if rows.producer_id[row] >= 0 and len(self._producers) < MAX_PRODUCERS:
            self._producers.add(rows.producer_id[row])
        if first < self._bounds.committed:
            self._committed += records
        elif self._bounds.may_be_acknowledged(first, rows.leader_epoch[row]):
            self._possible += records
        self._found = _added(self._found, first, last, records, rows.size[row], rows.max_timestamp[row])

    def result(self) -> LostRange | None:
        if self._found.batches == 0:
            keys = self._found.keys
            if keys is None or not keys.offsets:
                return None
            return replace(self._found, first=keys.offsets[0], last=keys.offsets[-1])
        return replace(
            self._found,
            committed=self._committed,
            possible=self._possible,
            epochs=tuple(sorted(self._epochs)),
            producers=len(self._producers),
            spans=tuple(self._spans),
        )


def _added(found: LostRange, first: int, last: int, records: int, size: int, timestamp: int) -> LostRange:
    times = [
        each for each in (found.first_timestamp, found.last_timestamp, timestamp) if each is not None and each >= 0
    ]
    return replace(
        found,
        first=first if found.batches == 0 else found.first,
        last=last,
        batches=found.batches + 1,
        records=found.records + records,
        size=found.size + size,
        first_timestamp=min(times, default=None),
        last_timestamp=max(times, default=None),
    )
