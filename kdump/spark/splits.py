"""Cut the logs of a read into byte ranges that begin with a batch, and pack these into tasks of about equal size."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

from kdump.query.selection import Selection
from kdump.query.split_points import SplitPlanner
from kdump.spark.bounds import Interval
from kdump.spark.places import Partition
from kdump.storage.log_reader import LogFile
from kdump.storage.segment import Segment

MIN_BYTES = 32 << 20
MAX_BYTES = 128 << 20
TASKS_PER_CORE = 2
HEADERS_TIMES = 8
"""How many times faster headers alone are read, at the least."""
FILE_COST = 256 << 10
"""Bytes whose reading takes about as long as opening a file."""


class Range(NamedTuple):
    """Bytes `start` to `stop` (None: up to the end) of a log, and the offsets in it that are wanted (None: all).

    `is_last`: the log's end is also the partition's, where preallocated zeros may be, or what is just being written.
    """

    path: str
    topic: str | None
    number: int | None
    start: int
    stop: int | None
    interval: Interval
    is_last: bool

    @property
    def size(self) -> int:
        """Bytes; 0 where it is not known."""
        return 0 if self.stop is None else self.stop - self.start


def ranges_of(partition: Partition, interval: Interval) -> Iterator[Range]:
    """Yield the range of each segment that may hold what is wanted of a partition; none that surely has nothing.

    A segment that cannot be looked into is given as a whole: reading it will say why.
    """
    log = partition.log
    if interval.is_empty or not log.segments:
        return
    last = log.segments[-1]
    for segment in Selection(start_offset=interval.start, stop_offset=interval.stop).segments(log):
        with suppress(OSError):
            start, stop = 0, os.path.getsize(segment.log_path)
            inner = _within(interval, segment, log.segments)
            if inner != Interval():
                with segment.open_log() as file:
                    start = 0 if inner.start is None else segment.position_of(file, inner.start)
                    stop = file.size if inner.stop is None else stop_position(segment, file, inner.stop)
            if start < stop:
                path = segment.log_path
                yield Range(path, partition.topic, partition.number, start, stop, inner, segment is last)
            continue
        yield Range(segment.log_path, partition.topic, partition.number, 0, None, interval, segment is last)


def _within(interval: Interval, segment: Segment, segments: list[Segment]) -> Interval:
    """Return the bounds that have to be looked at inside a segment."""
    start, stop = interval
    following = bisect_left(segments, segment.base_offset + 1, key=lambda each: each.base_offset)
    if start is not None and start <= segment.base_offset:
        start = None
    if stop is not None and following < len(segments) and stop >= segments[following].base_offset:
        stop = None
    return Interval(start, stop)


def stop_position(segment: Segment, log: LogFile, stop_offset: int) -> int:
    """Return where in `log` the batch ends that reaches the last offset before `stop_offset`; the end without one."""
    start = segment.position_of(log, stop_offset - 1)
    for block in log.blocks(start, whole=False):
        for row in range(block.length):
            if block.last_offset[row] >= stop_offset - 1 and block.valid[row]:
                return block.position[row] + block.size[row]
    return log.size


def task_size(total: int, cores: int, least_tasks: int | None, *, decodes: bool = True) -> int:
    """Return how many bytes a task should have, of `total`; where it reads headers only, more: they are read faster."""
    if decodes:
        size = min(max(total // (cores * TASKS_PER_CORE) + 1, MIN_BYTES), MAX_BYTES)
    else:
        size = min(max(total // cores + 1, HEADERS_TIMES * MIN_BYTES), HEADERS_TIMES * MAX_BYTES)
    return size if least_tasks is None else min(size, total // least_tasks + 1)


def pack(ranges: Iterable[Range], size: int) -> Iterator[list[Range]]:
    """Yield groups of ranges, in order, of about `size` bytes each: large ones are cut, small ones put together."""
    group: list[Range] = []
    left = size
    for each in ranges:
        with SplitPlanner(each.path, each.start, each.start + each.size) as cutter:
            rest = each
            if group and each.size > left and left < size // 8:
                yield group
                group, left = [], size
            while rest.size > left + size // 4:
                wanted = rest.start + left
                cut = cutter.cut(wanted, wanted - left // 2, min(wanted + size // 2, rest.start + rest.size))
                if cut is None:
                    break
                yield [*group, rest._replace(stop=cut)]
                rest = rest._replace(start=cut)
                group, left = [], size
        group.append(rest)
        left -= rest.size + FILE_COST
        if left <= 0:
            yield group
            group, left = [], size
    if group:
        yield group
