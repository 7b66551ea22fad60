"""The segments of a log that is put together from copies: which batches each has, and where a new one begins."""

from __future__ import annotations

import os
from typing import NamedTuple

from kdump.disk.reading import status_of
from kdump.formats.names import parse_file_name, segment_file_name
from kdump.storage.partition import PartitionLog
from kdump.storage.recipe import Recipe, SourceBytes, joined
from kdump.storage.scan import MAX_LOG_SIZE


class Taken(NamedTuple):
    """Offsets `first` to `last` (inclusive, absolute) that come from the copy in the directory `path`."""

    path: str
    first: int
    last: int
    records: int
    size: int


class NewSegment(NamedTuple):
    """A .log that changes or is new: its base offset (absolute) and what it is made of."""

    base_offset: int
    recipe: Recipe

    @property
    def name(self) -> str:
        """The name of the .log."""
        return segment_file_name(self.base_offset, ".log")


class FoundBatch(NamedTuple):
    """A valid batch of a copy: its offsets (absolute), and where it is."""

    base: int
    last: int
    epoch: int
    crc: int
    size: int
    records: int
    path: str
    position: int

    @property
    def identity(self) -> tuple[int, int, int, int, int]:
        """What is the same in all copies of the batch."""
        return self.base, self.last, self.epoch, self.crc, self.size


class HealedSegments:
    """Puts batches into segments: those of the copy where it has them, those of the peer where the copy has none.

    `gone` are the base offsets of segments that go, as Healing has them.
    """

    def __init__(self, log: PartitionLog) -> None:
        self._log = log
        self._bases = [segment.base_offset for segment in log.segments]
        self._next_own = 0
        self._base: int | None = None
        self._parts: list[SourceBytes] = []
        self._size = 0
        self._done: list[NewSegment] = []
        self._has_foreign = False
        self._last_file = ""
        self.gone: list[int] = []

    def drop_after(self, end: int) -> None:
        """Let the segments go that begin above the end of the log, now that all batches are there."""
        while self._next_own < len(self._bases):
            if self._bases[self._next_own] > end:
                self.gone.append(self._bases[self._next_own])
            self._next_own += 1

    def add(self, batch: FoundBatch, *, is_own: bool, own_follows: FoundBatch | None) -> None:
        """Put a batch at the end; `own_follows` is the next one that the copy itself has."""
        base = self._new_base(batch, is_own=is_own, own_follows=own_follows)
        if base is not None:
            self._close()
            self._base = base
        name = os.path.basename(batch.path) if is_own else os.path.abspath(batch.path)
        part = SourceBytes(name, batch.position, batch.size)
        last = self._parts[-1] if self._parts else None
        if last is not None and last.name == name and last.start + last.size == batch.position:
            self._parts[-1] = last._replace(size=last.size + batch.size)
        else:
            self._parts.append(part)
        self._size += batch.size
        self._has_foreign = self._has_foreign or not is_own
        self._last_file = batch.path
        while not is_own and self._next_own < len(self._bases) and self._bases[self._next_own] <= batch.last:
            self.gone.append(self._bases[self._next_own])
            self._next_own += 1

    def changed(self) -> tuple[NewSegment, ...]:
        """Return the segments that are not as they are on the disk, now that all batches are there."""
        self._close()
        return tuple(self._done)

    def _new_base(self, batch: FoundBatch, *, is_own: bool, own_follows: FoundBatch | None) -> int | None:
        """Return the base offset of the segment that begins with a batch; None where it belongs to the present one."""
        own: int | None = None
        while self._next_own < len(self._bases) and self._bases[self._next_own] <= batch.base:
            own = self._bases[self._next_own]
            self._next_own += 1
        if own is not None:
            return own
        if self._base is None:
            return segment_base(batch)
        if self._size + batch.size > MAX_LOG_SIZE:
            return batch.base
        next_base = self._bases[self._next_own] if self._next_own < len(self._bases) else None
        more_own = own_follows is not None and (next_base is None or own_follows.base < next_base)
        begins_segment = batch.position == 0 and batch.path != self._last_file
        if not is_own and begins_segment and not more_own:
            return segment_base(batch)
        return None

    def _has_rest(self) -> bool:
        """Return whether more than these batches is in the .log: half a batch must not stay at the end of a segment."""
        path = os.path.join(self._log.path, segment_file_name(self._base or 0, ".log"))
        return self._size != status_of(path).size

    def _close(self) -> None:
        if self._base is not None and (self._has_foreign or self._has_rest()):
            self._done.append(NewSegment(self._base, joined(self._parts)))
        self._base, self._parts, self._size, self._has_foreign = None, [], 0, False


def segment_base(batch: FoundBatch) -> int:
    """Return the base offset of the segment that a batch is in, unless it is above the batch."""
    base = parse_file_name(os.path.basename(batch.path)).offset
    return min(batch.base, batch.base if base is None or batch.position else base)
