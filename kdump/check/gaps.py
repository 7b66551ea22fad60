"""The offsets that a log lacks: from before its first batch, and where the cleaner has emptied it."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable

from kdump.storage.scan import MAX_OFFSET

MAX_GAPS = 1 << 16
"""Gaps that are remembered one by one."""


class Gaps:
    """Gaps between batches, in the log's order. Of the oldest, where they are too many, nothing is known any more."""

    def __init__(self) -> None:
        self._starts = array("q")
        self._stops = array("q")
        self._unknown = 0  # up to this offset, exclusive, anything may be lacking

    def begin(self, offset: int) -> None:
        """Begin with the log's first batch (absolute offset)."""
        self._unknown = max(offset, 0)

    def add(self, start: int, stop: int) -> None:
        """Add the offsets from `start` up to `stop` (absolute), which are not in any batch."""
        self._starts.append(min(start, MAX_OFFSET))
        self._stops.append(min(stop, MAX_OFFSET))
        if len(self._starts) > MAX_GAPS:
            self._unknown = max(self._unknown, self._stops[MAX_GAPS // 2])
            del self._starts[: MAX_GAPS // 2 + 1], self._stops[: MAX_GAPS // 2 + 1]

    def add_between(self, bases: Iterable[int], lasts: Iterable[int], expected: int) -> None:
        """Add those before and between batches with these base and last offsets, where `expected` was to come next."""
        for base, last in zip(bases, lasts, strict=True):
            if base > expected:
                self.add(expected, base)
            expected = last + 1

    def has(self, offset: int) -> bool:
        """Return whether there may have been a batch at `offset` that there is no more."""
        if offset < self._unknown:
            return offset >= 0
        at = bisect_right(self._starts, offset) - 1
        return at >= 0 and offset < self._stops[at]

    def has_after(self, offset: int) -> bool:
        """Return whether any offset above `offset` is lacking."""
        return bool(self._stops) and self._stops[-1] > offset
