"""Bounded pictures of a log: bytes over time, and timestamps over offsets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import NamedTuple

MAX_BUCKETS = 512
MAX_RANGES = 512
_FIRST_WIDTH = 1000


class Moment(NamedTuple):
    """Bytes and batches of a span of time that begins at `start` (ms)."""

    start: int
    bytes: int
    batches: int


@dataclass(slots=True)
class TimeSeries:
    """Bytes and batches by time, in spans of `width` ms, which doubles while there are too many of them."""

    width: int = _FIRST_WIDTH
    slots: dict[int, list[int]] = field(default_factory=dict)
    """Bytes and batches by number of the span since 1970."""

    def add(self, times: Sequence[int], sizes: Sequence[int]) -> None:
        """Count batches of these timestamps (ms; -1 has no time) and sizes (bytes)."""
        slots, width = self.slots, self.width
        for time, size in zip(times, sizes, strict=True):
            if time < 0:
                continue
            found = slots.get(time // width)
            if found is not None:
                found[0] += size
                found[1] += 1
                continue
            slots[time // width] = [size, 1]
            if len(slots) > MAX_BUCKETS:
                self._widen(2 * width)
                slots, width = self.slots, self.width

    def merge(self, other: TimeSeries) -> None:
        """Add another's figures."""
        if other.width > self.width:
            self._widen(other.width)
        for number, (size, batches) in other.slots.items():
            self._put(number * other.width // self.width, size, batches)
        while len(self.slots) > MAX_BUCKETS:
            self._widen(2 * self.width)

    def _widen(self, width: int) -> None:
        before, old = self.slots, self.width
        self.slots, self.width = {}, width
        for number, (size, batches) in before.items():
            self._put(number * old // width, size, batches)
        if len(self.slots) > MAX_BUCKETS:
            self._widen(2 * width)

    def _put(self, number: int, size: int, batches: int) -> None:
        found = self.slots.setdefault(number, [0, 0])
        found[0] += size
        found[1] += batches

    def moments(self) -> Iterator[Moment]:
        """Yield the spans that hold something, in order."""
        for number in sorted(self.slots):
            size, batches = self.slots[number]
            yield Moment(number * self.width, size, batches)


class OffsetRange(NamedTuple):
    """Consecutive batches: their offsets (absolute, both inclusive), least and largest max timestamp (ms)."""

    first_offset: int
    last_offset: int
    earliest: int
    latest: int

    def joined(self, other: OffsetRange) -> OffsetRange:
        """Return it together with the range that follows."""
        times = min(self.earliest, other.earliest), max(self.latest, other.latest)
        return OffsetRange(self.first_offset, other.last_offset, *times)


@dataclass(slots=True)
class Envelope:
    """Timestamps over offsets, in ranges of `step` batches, which doubles while there are too many ranges.

    No batch is left out, so a single timestamp that is far off still shows.
    """

    step: int = 1
    ranges: list[OffsetRange] = field(default_factory=list)

    def add(self, base_offsets: Sequence[int], last_offsets: Sequence[int], times: Sequence[int]) -> None:
        """Take batches in order of their offsets, with their max timestamps (ms)."""
        at = 0
        while at < len(times):
            end = min(len(times), at + self.step)
            part = times[at:end]
            first = base_offsets[at] if base_offsets[at] >= 0 else last_offsets[at]
            self.ranges.append(OffsetRange(first, last_offsets[end - 1], min(part), max(part)))
            if len(self.ranges) > MAX_RANGES:
                self._halve()
            at = end

    def _halve(self) -> None:
        self.step *= 2
        pairs = zip_longest(self.ranges[0::2], self.ranges[1::2])
        self.ranges = [one if other is None else one.joined(other) for one, other in pairs]
