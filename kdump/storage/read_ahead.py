"""Read a large file one buffer ahead of whoever walks it, so that reading and walking run side by side."""

from __future__ import annotations

import os
from queue import SimpleQueue
from threading import Thread

from kdump.storage.files import ReadOnlyFile

RESERVE = 1 << 18
"""Bytes at the start of each buffer for the entry that the one before it broke off in."""


def pays() -> bool:
    """Whether there is a second processor to read with, and likely an idle one.

    What another processor has read comes from farther away than what one has read oneself. So it takes more of their
    time together, and beside other jobs it lasts longer, too.
    """
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        load = os.getloadavg()[0]
    except OSError:
        load = 0.0
    return processors > 1 and load < processors / 2


class ReadAhead:
    """Two buffers of which one is read into while the other is in use. Must be closed."""

    def __init__(self, file: ReadOnlyFile, end: int, size: int) -> None:
        """Read `file` up to byte `end`, `size` bytes at a time."""
        self._file = file
        self._end = end
        self._buffers = [bytearray(RESERVE + size), bytearray(RESERVE + size)]
        self._wanted: SimpleQueue[tuple[bytearray, int, int] | None] = SimpleQueue()
        self._read: SimpleQueue[int | OSError] = SimpleQueue()
        self._next = -1  # the file position that is being read; -1: none
        self._size = size
        self._thread = Thread(target=self._work, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Let the reading end."""
        self._wanted.put(None)
        self._thread.join()

    def start(self, position: int) -> None:
        """Begin to read what is at byte `position`; what was read ahead elsewhere is forgotten."""
        if self._next >= 0:
            self._read.get()
        self._next = -1
        self._want(position)

    def take(self, data: bytearray | bytes, data_position: int, position: int) -> tuple[bytearray, int, int] | None:
        """The buffer with the bytes from `position` on, the file position of its byte 0, and how much of it is filled.

        `data` holds the bytes before what is being read, from `data_position` on; its last ones, from `position` on,
        are copied. None where they are too many, or nothing is being read. Raises OSError.
        """
        left_over = self._next - position
        if self._next < 0 or not 0 <= left_over <= RESERVE:
            return None
        got = self._read.get()
        if isinstance(got, OSError):
            raise got
        buffer, start = self._buffers[0], self._next
        at = position - data_position
        buffer[RESERVE - left_over : RESERVE] = data[at : at + left_over]
        self._buffers.reverse()
        self._next = -1
        self._want(start + got)
        return buffer, start - RESERVE, RESERVE + got

    def _want(self, position: int) -> None:
        size = min(self._size, self._end - position)
        if size > 0:
            self._next = position
            self._wanted.put((self._buffers[0], position, size))

    def _work(self) -> None:
        while (wanted := self._wanted.get()) is not None:
            buffer, position, size = wanted
            try:
                self._read.put(self._file.read_into(memoryview(buffer)[RESERVE : RESERVE + size], position))
            except OSError as error:
                self._read.put(error)
