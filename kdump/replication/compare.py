"""Compare the copies of a partition batch by batch, each of them read once, all of them side by side.

A follower stores the leader's batches byte for byte, so equal headers with matching CRCs are equal batches. Files are
not compared: segments, indexes and snapshots of equal copies may differ.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import combinations
from typing import NamedTuple

from kdump.disk.pace import Pace
from kdump.disk.reading import ReadOnlyFile, status_of
from kdump.replication.prefetch import prefetched
from kdump.replication.rows import COMPARED, Batch, BatchRows, walk
from kdump.storage.partition import PartitionLog

MAX_RANGES = 1000
"""Ranges of offsets that are kept for each copy of a pair; later ones are counted with the last."""

THREADS_FROM = 1 << 22
"""Bytes of all copies from which on threads read them."""

_FIRST_CHUNK = 16
"""Batches compared at once after a difference; the number doubles as long as they are equal."""


class Relation(StrEnum):
    """How the first of two copies relates to the second: at their first difference, if there is one."""

    IDENTICAL = "identical"
    BEHIND = "behind"
    AHEAD = "ahead"
    EPOCH = "epoch"
    BYTES = "bytes"


class OffsetRange(NamedTuple):
    """Offsets `first` to `last` (inclusive, absolute), the batches and records there, and their size in bytes.

    `is_relabelled`: the other copy has the same records there, under another leader epoch, which no CRC covers.
    """

    first: int
    last: int
    batches: int
    records: int
    size: int
    is_damaged: bool = False
    is_relabelled: bool = False

    def extended(self, other: OffsetRange) -> OffsetRange:
        """Return the range together with a later one."""
        return self._replace(
            last=max(self.last, other.last),
            batches=self.batches + other.batches,
            records=self.records + other.records,
            size=self.size + other.size,
        )


@dataclass(frozen=True, slots=True)
class Contents:
    """What one copy has. `first_offset` is that of its first batch (of none: the first segment's base offset).

    `end_offset` follows the last batch that has a frame; `damaged` are batches whose CRC does not match.
    """

    first_offset: int
    end_offset: int
    batches: int
    damaged: tuple[OffsetRange, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two copies, by their numbers. `same_up_to` is the first offset at which they stop being the same.

    It is the end of both where they are identical. `compared_from` is the larger first offset of the two.
    `only_first` and `only_second` are the batches that the other copy has not, or not with these bytes.
    """

    first: int
    second: int
    relation: Relation
    same_up_to: int
    compared_from: int
    only_first: tuple[OffsetRange, ...] = ()
    only_second: tuple[OffsetRange, ...] = ()

    def swapped(self) -> Comparison:
        """Return the same, the other copy first."""
        turned = {Relation.BEHIND: Relation.AHEAD, Relation.AHEAD: Relation.BEHIND}
        swapped = replace(self, first=self.second, second=self.first, relation=turned.get(self.relation, self.relation))
        return replace(swapped, only_first=self.only_second, only_second=self.only_first)


def compare(
    logs: Sequence[PartitionLog],
    starts: Sequence[int] | None = None,
    *,
    uses_threads: bool = True,
    begin: int = 0,
    pace: Pace | None = None,
) -> Compared:
    """Compare every two of several copies. Raises OSError.

    `starts` are offsets below which a copy is not compared (what the cleaner has been at). Each copy is read once, by a
    thread of its own if they are large and `uses_threads`; what is kept does not grow with the logs. What ends before
    the offset `begin` is not read, and the rest no faster than a `pace` allows.
    """
    size = sum(status_of(segment.log_path).size for log in logs for segment in log.segments)
    uses_threads = uses_threads and len(logs) > 1 and size >= THREADS_FROM
    streams = [_Stream(log, begin, pace, uses_threads=uses_threads) for log in logs]
    try:
        for stream in streams:
            stream.fill()
        lowest = list(starts or [0] * len(logs))
        pairs = {
            (a, b): _Pair(max(streams[a].begin, streams[b].begin, lowest[a], lowest[b]))
            for a, b in combinations(range(len(logs)), 2)
        }
        for views in _windows(streams):
            for (a, b), pair in pairs.items():
                pair.feed(views[a], views[b])
    finally:
        for stream in streams:
            stream.close()
    return Compared(
        tuple(stream.contents() for stream in streams),
        tuple(pair.result(a, b) for (a, b), pair in pairs.items()),
    )


@dataclass(frozen=True, slots=True)
class Compared:
    """What each copy has, and each two of them compared, by the copies' numbers."""

    contents: tuple[Contents, ...]
    pairs: tuple[Comparison, ...]

    def pair(self, first: int, second: int) -> Comparison:
        """Compare two copies, in this order."""
        for pair in self.pairs:
            if (pair.first, pair.second) == (first, second):
                return pair
            if (pair.second, pair.first) == (first, second):
                return pair.swapped()
        raise KeyError((first, second))


class _View(NamedTuple):
    """Rows `at` to `stop` - 1 of a copy."""

    rows: BatchRows | None
    at: int
    stop: int


def _paced(batches: Iterator[BatchRows], pace: Pace) -> Iterator[BatchRows]:
    for rows in batches:
        pace.take(sum(rows.size))
        yield rows


class _Stream:
    """The batches of a copy, read as they are needed."""

    def __init__(self, log: PartitionLog, begin: int, pace: Pace | None, *, uses_threads: bool) -> None:
        batches = walk(log, begin) if pace is None else _paced(walk(log, begin), pace)
        self._batches: Iterator[BatchRows] = prefetched(batches) if uses_threads else batches
        self.rows: BatchRows | None = None
        self.at = 0
        self.first_offset = log.segments[0].base_offset if log.segments else 0
        self.begin = max(self.first_offset, begin)
        self._skips = begin > self.first_offset
        self._end_offset = self.begin
        self._count = 0
        self._damaged = _Ranges()

    def fill(self) -> bool:
        """Have a batch at hand; whether there is one."""
        if self.rows is not None and self.at < self.rows.length:
            return True
        self.rows = next(self._batches, None)
        self.at = 0
        if self.rows is None:
            return False
        rows = self.rows
        if not self._count and not self._skips:
            self.first_offset = self.begin = rows.base_offset[0] if rows.base_offset[0] >= 0 else self.first_offset
        self._count += rows.length
        self._end_offset = rows.last_offset[rows.length - 1] + 1
        if 0 in rows.valid:
            for row in range(rows.length):
                if not rows.valid[row]:
                    self._damaged.add(rows.batch(row))
        return True

    def take(self, horizon: int) -> _View:
        """Return the rows at hand up to those that end at offset `horizon`."""
        rows = self.rows
        if rows is None:
            return _View(None, 0, 0)
        if rows.last_offset[rows.length - 1] <= horizon:
            stop = rows.length
        else:
            stop = bisect_right(rows.last_offset, horizon, self.at, rows.length)
        view = _View(rows, self.at, stop)
        self.at = stop
        return view

    def contents(self) -> Contents:
        return Contents(self.first_offset, self._end_offset, self._count, tuple(self._damaged.found))

    def close(self) -> None:
        close = getattr(self._batches, "close", None)
        if close:
            close()


def _windows(streams: Sequence[_Stream]) -> Iterator[list[_View]]:
    """Step through all copies at once: the batches of each that end before the same offset."""
    while True:
        filled = [stream for stream in streams if stream.fill()]
        if not filled:
            return
        horizon = min(stream.rows.last_offset[stream.rows.length - 1] for stream in filled if stream.rows)
        yield [stream.take(horizon) for stream in streams]


@dataclass(slots=True)
class _Ranges:
    found: list[OffsetRange] = field(default_factory=list)

    def add(self, batch: Batch, *, is_relabelled: bool = False) -> None:
        first = batch.base_offset if batch.base_offset >= 0 else batch.last_offset
        one = OffsetRange(first, batch.last_offset, 1, max(1, batch.records), batch.size, not batch.is_valid)
        one = one._replace(is_relabelled=is_relabelled)
        last = self.found[-1] if self.found else None
        if last and ((last.last + 1 >= first and last[-2:] == one[-2:]) or len(self.found) >= MAX_RANGES):
            self.found[-1] = last.extended(one)
        else:
            self.found.append(one)


class _Pair:
    """Compares two copies from offset `start` on, window by window."""

    def __init__(self, start: int) -> None:
        self._start = start
        self._same_up_to = start
        self._only = (_Ranges(), _Ranges())
        self._first: list[Batch | None] = [None, None]
        self._differs = False

    def feed(self, a: _View, b: _View) -> None:
        """Take the batches of the next window."""
        rows_a, i, stop_a = a.rows, _from(a, self._start), a.stop
        rows_b, j, stop_b = b.rows, _from(b, self._start), b.stop
        if self._differs:  # the window with the first difference may have had no batch of one copy
            self._first[0] = self._first[0] or (rows_a.batch(i) if rows_a is not None and i < stop_a else None)
            self._first[1] = self._first[1] or (rows_b.batch(j) if rows_b is not None and j < stop_b else None)
        chunk = max(_FIRST_CHUNK, stop_a - i)
        while rows_a is not None and rows_b is not None and i < stop_a and j < stop_b:
            size = min(chunk, stop_a - i, stop_b - j)
            same = _equal(rows_a, i, rows_b, j, size)
            if same:
                i, j = i + same, j + same
                if not self._differs:
                    self._same_up_to = rows_a.last_offset[i - 1] + 1
            if same == size:
                chunk *= 2
                continue
            chunk = _FIRST_CHUNK
            first, second = rows_a.batch(i), rows_b.batch(j)
            has_same_crc = first.is_valid and rows_a.crc[i] == rows_b.crc[j]
            is_relabelled = has_same_crc and first == second._replace(leader_epoch=first.leader_epoch)
            self._note(0, first)
            self._note(1, second)
            if first.last_offset <= second.last_offset:
                self._only[0].add(first, is_relabelled=is_relabelled)
                i += 1
            if second.last_offset <= first.last_offset:
                self._only[1].add(second, is_relabelled=is_relabelled)
                j += 1
        self._alone(0, rows_a, i, stop_a)
        self._alone(1, rows_b, j, stop_b)

    def result(self, first: int, second: int) -> Comparison:
        only_first, only_second = (tuple(ranges.found) for ranges in self._only)
        # Between what is the same and the first batch after it, of either copy, neither has anything.
        bases = [each.base_offset for each in self._first if each is not None]
        same_up_to = max(self._same_up_to, min(bases, default=self._start))
        if not self._differs:
            relation = Relation.IDENTICAL
        elif self._first[1] is None:
            relation = Relation.AHEAD
        elif self._first[0] is None:
            relation = Relation.BEHIND
        else:
            is_epoch = self._first[0].leader_epoch != self._first[1].leader_epoch
            relation = Relation.EPOCH if is_epoch else Relation.BYTES
        return Comparison(first, second, relation, same_up_to, self._start, only_first, only_second)

    def _alone(self, side: int, rows: BatchRows | None, row: int, stop: int) -> None:
        """Take the batches of one copy that the other has nothing beside."""
        if rows is not None:
            for batch in map(rows.batch, range(row, stop)):
                self._note(side, batch)
                self._only[side].add(batch)

    def _note(self, side: int, batch: Batch) -> None:
        """Keep the first batch of a copy that differs; that of the other one may be in a later window."""
        self._differs = True
        if self._first[side] is None:
            self._first[side] = batch


def _from(view: _View, start: int) -> int:
    """Return the first row of a window that ends at offset `start` or later."""
    if view.rows is None or view.at == view.stop or view.rows.last_offset[view.at] >= start:
        return view.at
    return bisect_left(view.rows.last_offset, start, view.at, view.stop)


def _equal(a: BatchRows, i: int, b: BatchRows, j: int, size: int) -> int:
    """Return how many of `size` rows from `i` and `j` on are equal, before the first that are not."""
    same = size
    for name in COMPARED:
        first, second = getattr(a, name)[i : i + same], getattr(b, name)[j : j + same]
        if first != second:
            same = next(row for row, (x, y) in enumerate(zip(first, second, strict=True)) if x != y)
    if 0 in a.valid[i : i + same]:
        for row in range(same):
            if not a.valid[i + row] and not _same_bytes(a, i + row, b, j + row):
                return row
    return same


def _same_bytes(a: BatchRows, i: int, b: BatchRows, j: int) -> bool:
    """Return whether two damaged batches of the same header are the same: their CRCs say nothing of their bytes."""
    with ReadOnlyFile(a.path) as first, ReadOnlyFile(b.path) as second:
        size = a.size[i]
        for at in range(0, size, 1 << 20):
            piece = min(1 << 20, size - at)
            if first.read(a.position[i] + at, piece) != second.read(b.position[j] + at, piece):
                return False
    return True
