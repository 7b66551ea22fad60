"""Find every batch with a valid CRC, wherever it lies in a file: no offset, size or file name is believed.

The walk of `storage.scan` passes over what does not fit into a log; this one is for the proof that no valid batch goes.
"""

from __future__ import annotations

from collections.abc import Iterator

from kdump import kernels
from kdump.errors import RefusedError
from kdump.formats.batch import FRAME_SIZE, LENGTH_AT, LOG_OVERHEAD
from kdump.storage.log_reader import BUFFER_SIZE, LogFile
from kdump.storage.scan import FIRST_WINDOW, Run, first_bad, valid_entry

_MIN_TRIED = 1 << 32
"""Bytes of what looks like batches whose CRC is computed in any file."""
_TRIED_TIMES = 16
"""The same of a large file, in multiples of its size."""


def valid_runs(log: LogFile, start: int = 0, stop: int | None = None) -> Iterator[Run]:
    """Yield the batches with a valid CRC from byte `start` up to byte `stop`, in order; none lies within another one.

    The block of a run is reused for the next one, and holds no batch larger than the buffer. Raises OSError, and
    RefusedError where too much looks like batches for all of it to be tried.
    """
    end = log.size if stop is None else min(stop, log.size)
    position, tries = start, _Tries(log, end)
    while position < end:
        for block in log.blocks(position, end, whole=False):
            bad = first_bad(block)
            is_chain = bad == block.length
            position = block.next_position if is_chain else block.position[bad]
            if bad:
                yield Run(block, 0, bad)
            if not is_chain:
                break
        position = tries.next_valid(position + 1)


class _Tries:
    """The search for the next valid batch of a log; `_left` bounds the bytes whose CRC is computed for it."""

    def __init__(self, log: LogFile, end: int) -> None:
        self._log = log
        self._end = end
        self._left = max(_MIN_TRIED, _TRIED_TIMES * log.size)

    def next_valid(self, position: int) -> int:
        """Return the first byte from `position` on where a valid batch begins, or the end."""
        log, end, window = self._log, self._end, FIRST_WINDOW
        while position + FRAME_SIZE <= end:
            data = log.read(position, min(window, end - position))
            if len(data) < FRAME_SIZE:  # the file has become shorter
                break
            for index in _frames(data, end - position):
                self._count(data, index)
                if valid_entry(log, position + index, end):
                    return position + index
            position += len(data) - FRAME_SIZE + 1
            window = min(4 * window, BUFFER_SIZE)
        return end

    def _count(self, data: bytes, index: int) -> None:
        self._left -= int.from_bytes(data[index + LENGTH_AT : index + LOG_OVERHEAD], "big")
        if self._left < 0:
            raise RefusedError(
                f"{self._log.path}: so much of it looks like batches that kdump cannot tell which of them are valid"
            )


def _frames(data: bytes, left: int) -> Iterator[int]:
    """Yield where in `data` a batch may begin that ends within `left` bytes of the first of them."""
    if data == bytes(len(data)):
        return
    index = -1
    while (index := kernels.find_frame(data, index + 1, len(data), left)) >= 0:
        yield index
