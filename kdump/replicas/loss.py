"""What goes when a replica leads: the batches of other copies that its log has not."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from kdump.formats.batch import CONTROL
from kdump.replicas.compare import MAX_RANGES, OffsetRange
from kdump.replicas.rows import walk
from kdump.storage.partition import PartitionLog

MAX_PRODUCERS = 10_000
"""Producer ids that are told apart; with more of them the number is a lower bound."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How far a copy's records were committed.

    Below `committed` they were for certain: a high watermark of the same history. Below `possible` every in-sync
    replica has them, so that they may have been acknowledged with acks=all; at or above it with acks=1 at most. None
    where the ISR is not known.
    """

    committed: int
    possible: int | None = None


@dataclass(frozen=True, slots=True)
class LostRange:
    """What one copy loses: offsets `first` to `last` (inclusive, absolute), `size` in bytes, timestamps in ms.

    `committed` counts the records that were committed for certain, `possible` those that may have been acknowledged
    with acks=all besides. `copy` is the copy's number. `spans` are the ranges of offsets (inclusive) that are counted
    here, without those that another copy loses as well. Records of compressed v0/v1 wrappers count as one each.
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


@dataclass(frozen=True, slots=True)
class Loss:
    """All that a choice of leader loses; a batch that several copies have counts once. Figures as in LostRange."""

    ranges: tuple[LostRange, ...] = ()

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
    """What another copy loses as well and is counted there: from offset `since` on all but the batches in `own`."""

    since: int
    own: Sequence[OffsetRange]

    def has(self, offset: int) -> bool:
        """Return whether the batch at an offset is in the other copy's loss."""
        if offset < self.since:
            return False
        at = bisect_right(self.own, offset, key=lambda each: each.first)
        return at == 0 or self.own[at - 1].last < offset


def lost_range(
    log: PartitionLog, copy: int, span: tuple[int, int], bounds: Bounds, known: Sequence[Shared] = ()
) -> LostRange | None:
    """Return what goes with a copy's valid batches in a span of offsets (the end exclusive); None if nothing does.

    `known` are the losses of other copies that are counted already. Raises OSError.
    """
    start, end = span
    found = LostRange(copy, start, start - 1)
    epochs: set[int] = set()
    producers: set[int] = set()
    spans: list[tuple[int, int]] = []
    for rows in walk(log, start):
        for row in range(rows.length):
            last = rows.last_offset[row]
            first = rows.base_offset[row] if rows.base_offset[row] >= 0 else last
            if last < start:
                continue
            if first >= end:
                return _closed(found, epochs, producers, spans)
            if not rows.valid[row] or any(each.has(first) for each in known):
                continue
            is_control = rows.attributes[row] & CONTROL
            records = 0 if is_control else max(1, rows.count[row])
            if spans and (spans[-1][1] + 1 == first or len(spans) >= MAX_RANGES):
                spans[-1] = spans[-1][0], last
            else:
                spans.append((first, last))
            epochs.add(rows.leader_epoch[row])
            if rows.producer_id[row] >= 0 and len(producers) < MAX_PRODUCERS:
                producers.add(rows.producer_id[row])
            found = _added(found, first, last, records, rows.size[row], rows.max_timestamp[row], bounds)
    return _closed(found, epochs, producers, spans)


def _added(
    found: LostRange, first: int, last: int, records: int, size: int, timestamp: int, bounds: Bounds
) -> LostRange:
    is_committed = first < bounds.committed
    is_possible = not is_committed and bounds.possible is not None and first < bounds.possible
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
        committed=found.committed + (records if is_committed else 0),
        possible=found.possible + (records if is_possible else 0),
        first_timestamp=min(times, default=None),
        last_timestamp=max(times, default=None),
    )


def _closed(
    found: LostRange, epochs: Iterable[int], producers: set[int], spans: list[tuple[int, int]]
) -> LostRange | None:
    if found.batches == 0:
        return None
    return replace(found, epochs=tuple(sorted(epochs)), producers=len(producers), spans=tuple(spans))
