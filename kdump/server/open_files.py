"""Log files that stay open between fetches."""

from __future__ import annotations

import threading

from kdump.disk.reading import status_of
from kdump.storage.log_reader import LogFile


class KeptFile(LogFile):
    """A log that is closed when nobody needs it any more: it may be sent while it is dropped from those kept open.

    `state` changes when the file is written to or replaced.
    """

    def __init__(self, path: str, state: tuple[int, ...]) -> None:
        """Open `path`. Raises OSError."""
        super().__init__(path)
        self.state = state

    def __del__(self) -> None:
        if hasattr(self, "_fd"):
            self.close()


_MAX_FILES = 256


class OpenFiles:
    """The logs used last, by path; the one used longest ago makes room."""

    def __init__(self) -> None:
        self._files: dict[str, KeptFile] = {}
        self._lock = threading.Lock()

    def get(self, path: str) -> KeptFile:
        """Return the file at a path, opened again where it has changed since. Raises OSError."""
        status = status_of(path)
        state = (status.inode, status.size, status.modified_ns)
        with self._lock:
            known = self._files.pop(path, None)
            if known is None or known.state != state:
                known = KeptFile(path, state)
            self._files[path] = known
            if len(self._files) > _MAX_FILES:
                del self._files[next(iter(self._files))]
            return known
