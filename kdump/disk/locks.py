"""Is somebody using the directory? A broker that holds the lock, or a log that grows."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from kdump.disk.durable import take_after
from kdump.errors import InUseError, RefusedError
from kdump.formats.names import CLEAN_SHUTDOWN, LOCK, META_PROPERTIES, OFFSET_CHECKPOINTS

_OF_A_LOG_DIRECTORY = frozenset({META_PROPERTIES, CLEAN_SHUTDOWN, LOCK, *OFFSET_CHECKPOINTS})

GROWTH_WATCH_SECONDS = 0.2


def check_not_locked(log_directory: str) -> None:
    """Raise RefusedError where a live process holds the lock file of a log directory. The file is not changed.

    A lock file without a lock is a leftover and of no importance. Raises OSError.
    """
    path = os.path.join(log_directory, LOCK)
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return
    except PermissionError as error:
        raise RefusedError(f"{path}: cannot tell whether a broker holds this lock ({error.strerror})") from None
    try:
        holder = _holder(descriptor)
    finally:
        os.close(descriptor)
    if holder is not None:
        raise RefusedError(
            f"{path}: {holder} holds this lock, so a broker is running on {log_directory}: stop it first"
        )


def is_log_directory(path: str) -> bool:
    """Whether there is anything in a directory of what a broker keeps beside partitions."""
    return any(os.path.lexists(os.path.join(path, name)) for name in _OF_A_LOG_DIRECTORY)


@contextmanager
def holding(log_directory: str, like: os.stat_result | None = None) -> Iterator[None]:
    """Hold the lock of a log directory, so that neither a broker nor another kdump changes anything in it meanwhile.

    A lock file that was not there is made with the owner and mode of `like`, and removed again. A directory that is
    not a broker's is left alone. Raises RefusedError, OSError.
    """
    if not is_log_directory(log_directory):
        yield
        return
    import fcntl

    check_not_locked(log_directory)
    path = os.path.join(log_directory, LOCK)
    was_there = os.path.exists(path)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        if like is not None and not was_there:
            take_after(descriptor, like)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise RefusedError(f"{path}: another process holds this lock ({error.strerror})") from None
        try:
            yield
        finally:
            if not was_there:
                os.remove(path)
    finally:
        os.close(descriptor)


def _holder(descriptor: int) -> str | None:
    """Who holds a POSIX lock on the file, in words; None if nobody does."""
    import fcntl

    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN):
            return "another process"
        raise
    fcntl.lockf(descriptor, fcntl.LOCK_UN)
    return None


def check_not_growing(paths: Iterable[str]) -> None:
    """Raise InUseError where one of the files changes while we look. Raises OSError."""
    GrowthWatch(paths).check()


class GrowthWatch:
    """Files that must not change from now on. Raises OSError."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._before = {path: _state(path) for path in paths}
        self._since = time.monotonic()

    def check(self, paths: Iterable[str] | None = None) -> None:
        """Raise InUseError where one of these files (None: of all) has changed; it waits if that was too short a time.

        Raises OSError.
        """
        time.sleep(max(0.0, self._since + GROWTH_WATCH_SECONDS - time.monotonic()))
        for path in self._before if paths is None else paths:
            if _state(path) != self._before[path]:
                raise InUseError(f"{path}: this file is being written; stop the broker, or work on a copy")


def _state(path: str) -> tuple[int, int]:
    info = os.stat(path)
    return info.st_size, info.st_mtime_ns
