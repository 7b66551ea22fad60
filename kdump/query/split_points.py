"""Where a log may be cut so that each part begins with a batch: for reading one segment in several places at once.

Such places are taken from the offset index, and believed only if a whole batch with a valid CRC stands there whose
offsets are those of the index entry; where the index has no such place, the batches are walked.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from contextlib import ExitStack, suppress

from kdump.errors import CorruptIndexError
from kdump.formats import names
from kdump.formats.faults import BLOCK_FULL
from kdump.storage.indexes import OffsetIndex
from kdump.storage.log_reader import LogFile
from kdump.storage.segment import NEAR, Segment

_TRIES = 8
_STEP = 1 << 18
_STEPS = 256


class SplitPlanner:
    """Finds places to cut bytes `start` to `stop` of a log at; opens the files only when asked."""

    def __init__(self, path: str, start: int, stop: int) -> None:
        self._path = path
        self._start = start
        self._stop = stop
        self._files = ExitStack()
        self._lowest = 0
        self._log: LogFile | None = None
        self._index: OffsetIndex | None = None
        self._starts: list[int] | None = None

    def __enter__(self) -> SplitPlanner:
        return self

    def __exit__(self, *exc: object) -> None:
        self._files.close()

    def cut(self, wanted: int, low: int, high: int) -> int | None:
        """Return the first byte of a batch, near byte `wanted` and between `low` and `high`; None where there is none.

        None too where the files cannot be read: reading them will say why.
        """
        try:
            if self._log is None:
                self._open()
            assert self._log is not None
            if self._starts is None:
                found = self._by_index(self._log, wanted, low, high)
                if found is not None:
                    return found
                self._starts = list(self._walked(self._log))
        except OSError:
            return None
        at = bisect_left(self._starts, wanted)
        near = [start for start in self._starts[max(0, at - 1) : at + 1] if low < start < high]
        return min(near, key=lambda start: abs(start - wanted), default=None)

    def _open(self) -> None:
        segment = Segment(self._path)
        self._lowest = segment.base_offset
        self._log = self._files.enter_context(segment.open_log())
        if segment.has(names.OFFSET_INDEX):
            with suppress(OSError, CorruptIndexError):  # without it the batches are walked
                index = self._files.enter_context(segment.offset_index())
                index.drop_zero_tail()
                self._index = index

    def _by_index(self, log: LogFile, wanted: int, low: int, high: int) -> int | None:
        index = self._index
        if index is None or not index.entries:
            return None
        with suppress(CorruptIndexError):
            slot = bisect_left(range(index.entries), wanted, key=lambda number: index.entry(number).position)
            for number in range(slot, min(slot + _TRIES, index.entries)):
                entry = index.entry(number)
                if low < entry.position < high and self._is_batch(log, entry.position, entry.offset):
                    return entry.position
        return None

    def _is_batch(self, log: LogFile, position: int, offset: int) -> bool:
        """Return whether a sound batch starts at byte `position` that an index entry for `offset` can mean."""
        entry = log.entry_at(position, log.size)
        if entry.status != BLOCK_FULL or entry.size > NEAR:
            return False
        if not self._lowest <= entry.last_offset <= offset:
            return False
        batch = log.batch_at(position, entry.size)
        return batch.length == 1 and batch.valid[0] == 1

    def _walked(self, log: LogFile) -> Iterator[int]:
        """Yield where batches start, one in every range of some size, up to the first damage."""
        following, step = self._start, min(_STEP, (self._stop - self._start) // _STEPS)
        for block in log.blocks(self._start, self._stop, whole=False):
            for row in range(block.length):
                if not block.valid[row]:
                    return
                if block.position[row] >= following:
                    yield block.position[row]
                    following = block.position[row] + step


def parts(path: str, size: int, most: int) -> Iterator[tuple[int, int]]:
    """Yield the first `size` bytes of a log as parts (start, stop) of about `most` bytes, each beginning with a batch.

    They depend on nothing but the files, and are one where the log is not much larger or cannot be cut.
    """
    start = 0
    with SplitPlanner(path, 0, size) as cutter:
        while size - start > most + most // 4:
            stop = cutter.cut(start + most, start + most // 2, min(start + most + most // 2, size))
            if stop is None:
                break
            yield start, stop
            start = stop
    yield start, size
