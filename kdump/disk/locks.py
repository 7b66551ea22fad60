"""Is somebody using the directory? A broker that holds the lock, or a log that grows."""

from __future__ import annotations

import os
import stat
import struct
import sys
import time
from _thread import allocate_lock
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import NamedTuple

from kdump.disk.entered import entered, new_file, open_file
from kdump.disk.reading import ReadOnlyFile, is_directory, is_named
from kdump.errors import BrokerRunsError, InUseError, KdumpRunsError, RefusedError
from kdump.formats.names import LOCK, LOG_DIRECTORY_FILES

GROWTH_WATCH_SECONDS = 0.2
_LOCKS = "/proc/locks"
_COMMAND_BYTES = 1 << 16
_COMMAND_WORDS = 3  # as in `python -m kdump`
_OWN: set[tuple[int, int]] = set()
"""The lock files that this process holds: POSIX locks are lost when any descriptor of the file is closed."""
_CLAIMED: set[tuple[int, int, str]] = set()
"""The directories that this process is changing, by that around them and name: it would be granted a second lock."""
_CLAIMING = allocate_lock()


class LockHolder(NamedTuple):
    """Who holds a lock file; `process` is None where the system does not say (another machine, a container).

    `is_kdump`: it is another kdump command, and no broker, as far as the system says.
    """

    process: int | None
    is_kdump: bool = False


def lock_holder(log_directory: str) -> LockHolder | None:
    """Return the process that holds the lock of a log directory: a running broker, or another kdump; None without one.

    Nothing is created, changed or locked, and a lock file without a lock is a leftover. Of a directory that must not be
    read nothing is known, and nothing in it can be changed. Raises OSError.
    """
    path = os.path.join(log_directory, LOCK)
    try:
        status = os.stat(path)
    except (FileNotFoundError, PermissionError):
        return None
    if (status.st_dev, status.st_ino) in _OWN or not stat.S_ISREG(status.st_mode):
        return None
    try:
        with ReadOnlyFile(path) as file:
            return _holder(file.fileno())
    except FileNotFoundError:
        return None
    except PermissionError:
        return _listed_holder(status)


def check_not_locked(log_directory: str) -> None:
    """Raise BrokerRunsError where a broker is running on a log directory, KdumpRunsError where it is a kdump.

    Raises OSError.
    """
    holder = lock_holder(log_directory)
    if holder is not None:
        if holder.process is not None and holder.is_kdump:
            raise KdumpRunsError(log_directory, holder.process, LOCK)
        raise BrokerRunsError(log_directory, holder.process, LOCK)


def is_log_directory(path: str) -> bool:
    """Return whether there is anything in a directory of what a broker keeps beside partitions.

    One that may not be entered counts as none: nothing can be changed in it. Raises OSError where the system cannot
    say: a directory that passes for none would be changed without its lock.
    """
    with suppress(PermissionError):
        return any(is_named(os.path.join(path, name)) for name in (LOCK, *LOG_DIRECTORY_FILES))
    return False


@contextmanager
def holding(log_directory: str, partitions: Iterable[str] = (), like: os.stat_result | None = None) -> Iterator[None]:
    """Hold the lock of a log directory, so that neither a broker nor another kdump changes anything in it meanwhile.

    A lock file that was not there is made with the owner and mode of `like`, and removed again. Of a directory that is
    not a broker's these `partitions` are kept from others of this process alone. Raises RefusedError, OSError.
    """
    partitions = list(partitions)
    with entering(log_directory, partitions):
        if not is_log_directory(log_directory):
            with _alone(partitions):
                yield
            return
        with _alone([log_directory]), _locked(log_directory, like):
            yield


def entering(log_directory: str, partitions: Iterable[str]) -> AbstractContextManager[None]:
    """Have what is changed reached from the log directory; of one that is not a broker's, from these partitions.

    Raises OSError, RefusedError.
    """
    if is_log_directory(log_directory):
        return entered(log_directory)
    return entered(*(path if is_directory(path) else os.path.dirname(os.path.abspath(path)) for path in partitions))


@contextmanager
def _alone(directories: Iterable[str]) -> Iterator[None]:
    """Keep others of this process out, which its locks do not. Raises InUseError, OSError."""
    claimed = {_identity(path): path for path in directories}
    with _CLAIMING:
        for taken in _CLAIMED.intersection(claimed):
            raise InUseError(f"{claimed[taken]}: this program is changing it already")
        _CLAIMED.update(claimed)
    try:
        yield
    finally:
        _CLAIMED.difference_update(claimed)


def _identity(directory: str) -> tuple[int, int, str]:
    """Return what stands for a directory, which may still have to be made, by whatever path. Raises OSError."""
    around, name = os.path.split(os.path.realpath(directory))
    status = os.stat(around)
    return status.st_dev, status.st_ino, name


@contextmanager
def _locked(log_directory: str, like: os.stat_result | None) -> Iterator[None]:
    """Keep other processes out. Raises RefusedError, OSError."""
    import fcntl

    from kdump.disk.durable import remove_file, take_after

    check_not_locked(log_directory)
    path = os.path.join(log_directory, LOCK)
    was_there = is_named(path)
    try:
        descriptor = open_file(path, os.O_RDWR) if was_there else new_file(path, 0o644)
    except PermissionError as error:
        text = f"{path} cannot be locked against a broker: {error.strerror}. Run this as its owner"
        raise RefusedError(text) from None
    try:
        if like is not None and not was_there:
            take_after(descriptor, like)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise RefusedError(f"{path}: another process holds this lock ({error.strerror})") from None
        status = os.fstat(descriptor)
        own = status.st_dev, status.st_ino
        _OWN.add(own)
        try:
            yield
        finally:
            _OWN.discard(own)
            if not was_there:
                remove_file(path)
    finally:
        os.close(descriptor)


def _known(process: int) -> LockHolder:
    """Return the holder with this process id; none above 0 where the system does not say it."""
    if process <= 0:
        return LockHolder(None)
    try:
        with open(f"/proc/{process}/cmdline", "rb") as file:
            words = file.read(_COMMAND_BYTES).split(b"\0")[:_COMMAND_WORDS]  # a JVM's first ones are its options
    except OSError:
        words = []
    return LockHolder(process, any(os.path.basename(word) == b"kdump" for word in words if not word.startswith(b"-")))


def _holder(descriptor: int) -> LockHolder | None:
    """Return who holds a POSIX lock on an open file. Raises OSError."""
    import fcntl

    # struct flock: type, whence, start, length, pid; on macOS start, length, pid, type, whence
    if sys.platform == "darwin":
        answer = fcntl.fcntl(descriptor, fcntl.F_GETLK, struct.pack("qqihh", 0, 0, 0, fcntl.F_WRLCK, os.SEEK_SET))
        _, _, process, kind, _ = struct.unpack("qqihh", answer)
    else:
        answer = fcntl.fcntl(descriptor, fcntl.F_GETLK, struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
        kind, _, _, _, process = struct.unpack("hhqqi", answer)
    if kind == fcntl.F_UNLCK:
        return None
    return _known(process)


def _listed_holder(status: os.stat_result) -> LockHolder | None:
    """Return who holds a lock on a file that we may not open, by the list of locks that Linux keeps."""
    wanted = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    try:
        with open(_LOCKS, encoding="ascii") as file:
            for line in file:
                fields = line.split()
                if fields[1:2] == ["POSIX"] and fields[5:6] == [wanted]:
                    return _known(int(fields[4]))
    except (OSError, ValueError):
        return None
    return None


def check_not_growing(paths: Iterable[str]) -> None:
    """Raise InUseError where one of the files changes while we look. Raises OSError."""
    GrowthWatch(paths).check()


class GrowthWatch:
    """Files that must not change from now on. Raises OSError."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._before = {path: _state(path) for path in map(os.path.abspath, paths)}
        self._since = time.monotonic()

    def check(self, paths: Iterable[str] | None = None) -> None:
        """Raise InUseError where one of these files (None: of all) has changed; it waits if that was too short a time.

        Raises OSError.
        """
        time.sleep(max(0.0, self._since + GROWTH_WATCH_SECONDS - time.monotonic()))
        for path in self._before if paths is None else map(os.path.abspath, paths):
            if _state(path) != self._before[path]:
                raise InUseError(f"{path}: this file is being written; stop the broker, or work on a copy")


def _state(path: str) -> tuple[int, int]:
    info = os.stat(path)
    return info.st_size, info.st_mtime_ns
