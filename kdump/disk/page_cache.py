"""The system's page cache: what was read once need not stay in it."""

from __future__ import annotations

import os

from kdump.disk.reading import OpenFile, open_for_reading

PIECE_BYTES = 16 << 20


class PageDropper(OpenFile):
    """Tells the system that the pages of a file that were read are not needed again (posix_fadvise)."""

    def __init__(self, path: str, is_enabled: bool) -> None:
        self._fd = open_for_reading(path) if is_enabled and hasattr(os, "posix_fadvise") else -1
        self._dropped = -1

    def close(self) -> None:
        """Close the file, if it is open."""
        if self._fd >= 0:
            super().close()

    def drop(self, start: int, stop: int, *, is_last: bool = False) -> None:
        """Drop the pages of bytes `start` to `stop`, those already dropped left out, a few MiB at a time."""
        start = max(start, self._dropped)
        if self._fd >= 0 and (is_last or stop - start >= PIECE_BYTES):
            os.posix_fadvise(self._fd, start, stop - start, os.POSIX_FADV_DONTNEED)
            self._dropped = stop
