"""What a kernel makes of many batches at once, ready to be written in pieces."""

from __future__ import annotations

from array import array
from bisect import bisect_right

from kdump.blocks import BatchBlock
from kdump.clean.new_segment import NO_TIMESTAMP, Written
from kdump.named_tuples import NamedTuple


class Rewritten(NamedTuple):
    """The batches of the rows from `first` on that are copied or rebuilt, as kdump.kernels.rewrite gives them."""

    data: bytearray
    kinds: bytearray
    ends: array[int]
    max_offset: array[int]
    max_timestamp: array[int]
    first_horizon: int | None
    first: int

    def start(self, row: int) -> int:
        """Return where in the data a row begins; those of which nothing stays are where the next one begins."""
        return self.ends[row - self.first - 1] if row > self.first else 0

    def row_beyond(self, size: int, row: int, stop: int) -> int:
        """Return the row after the first one, from `row` on, to reach beyond `size` bytes of data; at most `stop`."""
        beyond = bisect_right(self.ends, size, row - self.first, stop - self.first)
        return min(self.first + beyond + 1, stop)

    def between(self, block: BatchBlock, row: int, stop: int) -> tuple[bytearray, Written, int]:
        """Return the data with the rows from `row` up to `stop`, what they amount to, and their first byte in it."""
        start, end = self.start(row), self.start(stop)
        timestamps = self.max_timestamp[row - self.first : stop - self.first]
        largest = max(timestamps, default=NO_TIMESTAMP)
        offset = block.last_offset[row + timestamps.index(largest)]
        last = max(self.max_offset[row - self.first : stop - self.first])
        return self.data, Written(end - start, last, largest, offset), start
