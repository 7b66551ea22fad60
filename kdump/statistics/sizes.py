"""How numbers are spread, by powers of two."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class Bucket(NamedTuple):
    """How many numbers there are from `low` up to, but without, `high`."""

    low: int
    high: int
    members: int


@dataclass(slots=True)
class Sizes:
    """A histogram of numbers that are not negative; `total` is their sum, `min` and `max` are None without any."""

    count: int = 0
    total: int = 0
    min: int | None = None
    max: int | None = None
    lengths: Counter[int] = field(default_factory=Counter)
    """How many numbers have so many binary digits."""

    def add(self, numbers: Sequence[int]) -> None:
        """Count some numbers."""
        if not numbers:
            return
        self._put(len(numbers), sum(numbers), min(numbers), max(numbers))
        self.lengths.update(map(int.bit_length, numbers))

    def merge(self, other: Sizes) -> None:
        """Count what another has counted."""
        if other.min is not None and other.max is not None:
            self._put(other.count, other.total, other.min, other.max)
            self.lengths.update(other.lengths)

    def _put(self, count: int, total: int, smallest: int, largest: int) -> None:
        self.count += count
        self.total += total
        self.min = smallest if self.min is None else min(self.min, smallest)
        self.max = largest if self.max is None else max(self.max, largest)

    @property
    def mean(self) -> float | None:
        """The mean; None without numbers."""
        return self.total / self.count if self.count else None

    def buckets(self) -> Iterator[Bucket]:
        """Yield the histogram from the smallest number to the largest, empty buckets between included."""
        if not self.count:
            return
        for length in range(min(self.lengths), max(self.lengths) + 1):
            low = 1 << (length - 1) if length else 0
            yield Bucket(low, 1 << length, self.lengths[length])

    def quantile(self, share: float) -> int | None:
        """Return a number that at least `share` (0 to 1) of all do not exceed: the end of a bucket, at most `max`."""
        seen = 0
        for bucket in self.buckets():
            seen += bucket.members
            if seen >= share * self.count:
                return bucket.high - 1 if self.max is None else min(bucket.high - 1, self.max)
        return self.max
