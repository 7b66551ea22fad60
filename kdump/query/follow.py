"""Follow a partition, or a single log file, that is still being written: what has come since the last look."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from kdump.formats.codecs import DEFAULT_LIMIT
from kdump.query.selection import Selection
from kdump.query.sweep import Selected, Sweep
from kdump.storage.damage import Damage
from kdump.storage.log_reader import LogFile
from kdump.storage.partition import PartitionLog
from kdump.storage.segment import Segment

SETTLED_NS = 2_000_000_000


class Truncated(NamedTuple):
    """The log became shorter than what was read of it: both in bytes. Reading continues at its new end."""

    was: int
    size: int


Event = Selected | Damage | Truncated


class Follower:
    """Where reading has got to in one partition directory, or in one .log file.

    `is_done` tells that nothing that is wanted can come any more.
    """

    def __init__(
        self,
        path: str,
        selection: Selection,
        *,
        is_single: bool = False,
        batches_only: bool = False,
        use_indexes: bool = True,
        includes_damaged: bool = False,
        limit: int = DEFAULT_LIMIT,
    ) -> None:
        """`path` is a partition directory's or, if `is_single`, a log file's; the rest as for Sweep."""
        self.path = path
        self.is_done = False
        self._selection = selection
        self._single = is_single
        self._use_indexes = use_indexes
        self._sweep = partial(Sweep, batches_only=batches_only, includes_damaged=includes_damaged, limit=limit)
        self._base_offset: int | None = None  # of the segment that is read
        self._position: int | None = None  # up to which it has been read
        self._stamp = (-1, -1)  # size and time of change of the file when it was last looked at

    def poll(self) -> Iterator[tuple[Segment, int, Event]]:
        """Yield what has come, with the segment that it is in and its size in bytes.

        Raises OSError, also when what is followed is there no more; not when a segment is not, which may be deleted.
        """
        segments = self._segments()
        for number, segment in enumerate(segments, 1):
            if segment.base_offset != self._base_offset:
                self._base_offset, self._position = segment.base_offset, None
            try:
                stamp = _stamp(segment.log_path)
                if stamp == self._stamp and _is_settled(stamp) and number == len(segments):
                    return
                log = segment.open_log()
            except FileNotFoundError:
                if self._single:
                    raise
                continue
            self._stamp = stamp
            with log:
                for event in self._read(segment, log, growing=number == len(segments)):
                    yield segment, log.size, event
            if self.is_done:
                return

    def _segments(self) -> list[Segment]:
        """Return the segments that are still to be read, the one that was read last included."""
        if self._single:
            return [Segment(self.path)]
        partition = PartitionLog(self.path)
        if self._base_offset is None:
            wanted = list(self._selection.segments(partition, use_indexes=self._use_indexes))
            self.is_done = bool(partition.segments) and not wanted
            return wanted
        return [segment for segment in partition.segments if segment.base_offset >= self._base_offset]

    def _read(self, segment: Segment, log: LogFile, *, growing: bool) -> Iterator[Event]:
        if self._position is None:
            self._position = self._selection.start(segment, log) if self._use_indexes else 0
        if log.size < self._position:
            yield Truncated(self._position, log.size)
            self._position = log.size
        if log.size == self._position:
            return
        sweep = self._sweep(segment, log, self._selection, self._position, growing=growing)
        yield from sweep
        self._position = sweep.position
        self.is_done = sweep.is_done


def _is_settled(stamp: tuple[int, int]) -> bool:
    """Return whether a change after this one would show: the clock of a file system may stand still for a while."""
    return time.time_ns() - stamp[1] > SETTLED_NS


def _stamp(path: str) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_size, status.st_mtime_ns
