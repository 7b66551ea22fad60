"""The indexes of a segment whose batches go by: while it is appended to, cleaned, split, or recovered.

An entry is due at the first batch that starts more than index.interval.bytes behind the last one that has an entry:
its last offset and its position in the offset index, and in the time index the largest timestamp so far with the last
offset of the first batch that has it, if it is larger than that of the entry before (LogSegment.append and recover).
Brokers before 4.1 look at that once an append; from 4.1 on, and in recovery, at every batch.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import NamedTuple

from kdump import kernels
from kdump.blocks import BatchBlock
from kdump.errors import LoadError
from kdump.formats import names
from kdump.formats.names import segment_file_name
from kdump.storage.index_builder import OffsetIndexBuilder, TimeIndexBuilder


class IndexState(NamedTuple):
    """How far the indexes are built: numbers of entries, and what the next entry depends on."""

    offset_entries: int
    time_entries: int
    last_entry_at: int
    max_timestamp: int
    offset_of_max: int
    highest_offset: int


class SegmentIndexes:
    """The two indexes of one segment.

    `max_timestamp` (ms) is the largest so far, `offset_of_max` the last offset of the first batch that has it.
    """

    def __init__(self, base_offset: int, size: int, interval: int, full: Callable[[str], str]) -> None:
        """Start with two empty indexes of `size` bytes at most; `interval` is index.interval.bytes.

        `full` makes of a file's name the path that Kafka's texts have.
        """
        index, times = (segment_file_name(base_offset, f".{kind}") for kind in (names.OFFSET_INDEX, names.TIME_INDEX))
        self.offsets = OffsetIndexBuilder(base_offset, size, index, full(index))
        self.times = TimeIndexBuilder(base_offset, size, times, full(times))
        self.interval = interval
        self.begin()

    def begin(self) -> None:
        """Start with empty indexes."""
        self.offsets.cut(0)
        self.times.cut(0)
        self.max_timestamp = -1
        self.offset_of_max = self.offsets.base_offset
        self._last_entry_at = 0
        self._highest_offset = -1 << 63

    def state(self) -> IndexState:
        """Return how far the indexes are now."""
        entries = len(self.offsets), len(self.times)
        return IndexState(*entries, self._last_entry_at, self.max_timestamp, self.offset_of_max, self._highest_offset)

    def restore(self, state: IndexState) -> None:
        """Go back to an earlier state."""
        offsets, times, self._last_entry_at, self.max_timestamp, self.offset_of_max, self._highest_offset = state
        self.offsets.cut(offsets)
        self.times.cut(times)

    def add(self, block: BatchBlock, stop: int) -> tuple[int, LoadError | None]:
        """Add the entries for the rows of a block up to `stop`; the row where that fails, and how (else `stop`, None).

        The offsets of the rows must fit the base offset.
        """
        points = self._points(block, stop)
        if self._increases(block, stop) and self.offsets.has_room(len(points)) and self.times.has_room(len(points)):
            self._add_at_once(block, stop, points)
            return stop, None
        return self._add_row_by_row(block, stop, points)

    def append(self, last_offset: int, position: int, max_timestamp: int, offset_of_max: int) -> None:
        """Count several batches as one, which begins at `position`. Raises LoadError."""
        if max_timestamp > self.max_timestamp:
            self.max_timestamp, self.offset_of_max = max_timestamp, offset_of_max
        if position - self._last_entry_at > self.interval:
            self.offsets.append(last_offset, position)
            self.times.maybe_append(self.max_timestamp, self.offset_of_max)
            self._last_entry_at = position
        self._highest_offset = max(self._highest_offset, last_offset)

    def resume(self, position: int) -> None:
        """Go on at `position` behind entries that were read, as a broker does that is started again."""
        self._last_entry_at = position
        self._highest_offset = max((self._highest_offset, *self.offsets.offsets[-1:], *self.times.offsets[-1:]))
        if len(self.times):
            self.max_timestamp, self.offset_of_max = self.times.timestamps[-1], self.times.offsets[-1]

    def finish(self) -> None:
        """Add the time index entry that every rebuilt or closed segment ends with. Raises LoadError."""
        self.times.maybe_append(self.max_timestamp, self.offset_of_max, is_last=True)

    def note_max_timestamp(self, block: BatchBlock, first: int, stop: int) -> None:
        """Look at the timestamps of the rows from `first` up to `stop`."""
        latest = max(block.max_timestamp[first:stop], default=-1)
        if latest > self.max_timestamp:
            self.max_timestamp = latest
            self.offset_of_max = block.last_offset[block.max_timestamp.index(latest, first, stop)]

    def _points(self, block: BatchBlock, stop: int) -> Sequence[int]:
        """Return the rows that get an entry in the offset index."""
        positions, interval = block.position, self.interval
        points = []
        row = bisect_right(positions, self._last_entry_at + interval, 0, stop)
        if row + 1 < stop and kernels.differences(positions[row : stop - 1], positions[row + 1 : stop])[0] > interval:
            return range(row, stop)  # as where batches are as large as producers make them
        while row < stop:
            points.append(row)
            row = bisect_right(positions, positions[row] + interval, row + 1, stop)
        return points

    def _increases(self, block: BatchBlock, stop: int) -> bool:
        """Return whether the last offsets of the rows go on from those before and increase, as they should."""
        last_offsets = block.last_offset[:stop]
        if not last_offsets or last_offsets[0] <= self._highest_offset:
            return False
        _, _, falls, _, repeats = kernels.column_stats(last_offsets)
        if falls or repeats:
            return False
        self._highest_offset = last_offsets[-1]
        return True

    def _add_at_once(self, block: BatchBlock, stop: int, points: Sequence[int]) -> None:
        """Add the entries of rows in which nothing can be wrong."""
        last_offsets, positions = block.last_offset, block.position
        if isinstance(points, range):
            self.offsets.extend(last_offsets[points.start : stop], positions[points.start : stop])
        else:
            self.offsets.extend(
                array("q", [last_offsets[row] for row in points]), array("q", [positions[row] for row in points])
            )
        if points:
            self._last_entry_at = positions[points[-1]]
        self._add_times(block, stop, points)

    def _add_times(self, block: BatchBlock, stop: int, points: Sequence[int]) -> None:
        """Add the time index entries that are due at these rows: where a timestamp is larger than all before."""
        largest = block.max_timestamp[:stop]
        _, latest, falls, _, _ = kernels.column_stats(largest)
        if latest <= self.max_timestamp:
            if points and self.max_timestamp > self.times.last_timestamp:
                self.times.put(self.max_timestamp, self.offset_of_max)
            return
        if falls:
            start = 0
            for row in points:
                self.note_max_timestamp(block, start, row + 1)
                if self.max_timestamp > self.times.last_timestamp:
                    self.times.put(self.max_timestamp, self.offset_of_max)
                start = row + 1
            self.note_max_timestamp(block, start, stop)
            return
        at = 0  # without a fall, a row's timestamp is the largest up to there
        while at < len(points):
            row = points[at]
            if largest[row] > self.max_timestamp:
                self.max_timestamp = largest[row]
                self.offset_of_max = block.last_offset[bisect_left(largest, self.max_timestamp)]
            if self.max_timestamp > self.times.last_timestamp:
                self.times.put(self.max_timestamp, self.offset_of_max)
            at = bisect_left(points, bisect_right(largest, self.max_timestamp, row), at + 1)
        if largest[-1] > self.max_timestamp:
            self.max_timestamp = largest[-1]
            self.offset_of_max = block.last_offset[bisect_left(largest, self.max_timestamp)]

    def _add_row_by_row(self, block: BatchBlock, stop: int, points: Sequence[int]) -> tuple[int, LoadError | None]:
        start = 0
        for row in points:
            self.note_max_timestamp(block, start, row + 1)
            try:
                self.offsets.append(block.last_offset[row], block.position[row])
                self.times.maybe_append(self.max_timestamp, self.offset_of_max)
            except LoadError as error:
                return row, error
            self._last_entry_at = block.position[row]
            start = row + 1
        self.note_max_timestamp(block, start, stop)
        self._highest_offset = max([self._highest_offset, *block.last_offset[:stop]])
        return stop, None
