"""Open and read files without changing anything about them."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO, NamedTuple, Self

from kdump.disk.held import held_file, held_listing

Watcher = Callable[[str, int], object]
"""Hears of each reading: the path of the file, and the position up to which it was read."""
_watchers: list[Watcher] = []


@contextmanager
def watched_by(watcher: Watcher) -> Iterator[None]:
    """Let `watcher` hear of all that is read in here."""
    _watchers.append(watcher)
    try:
        yield
    finally:
        _watchers.remove(watcher)


def _notify(path: str, position: int) -> None:
    for watcher in _watchers:
        watcher(path, position)


_PIECE_BYTES = 1 << 20
STANDARD_INPUT = "-"
"""The path that stands for it."""


def open_for_reading(path: str) -> int:
    """Return a read-only file descriptor that leaves the file's access time alone where the system allows it.

    Of a path that is held it is the held file's. Raises OSError; also for a named pipe, which is never waited for.
    """
    held = held_file(path)
    if held is not None:
        return os.dup(held.descriptor)
    descriptor = _opened(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0))
    if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.ESPIPE, "This is a pipe, and only files can be read", path)
    return descriptor


def _opened(path: str, flags: int) -> int:
    no_access_time = getattr(os, "O_NOATIME", 0)
    if no_access_time:
        try:
            return os.open(path, flags | no_access_time)
        except PermissionError:
            pass  # only the owner may ask for it
    return os.open(path, flags)


def open_stream(path: str) -> BinaryIO:
    """Return a file, or a pipe, as a stream that is read from its beginning. Raises OSError."""
    return open(path, "rb", opener=_opened)


class OpenFile:
    """A file that is open until it is closed, at the end of a `with`."""

    _fd: int

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; nothing else can be done with it afterwards."""
        descriptor, self._fd = self._fd, -1
        os.close(descriptor)

    def fileno(self) -> int:
        """Return the file's descriptor, for as long as the file is open."""
        return self._fd


class ReadOnlyFile(OpenFile):
    """An open file. `size` is its size in bytes when it was opened; what is appended later is not looked at."""

    def __init__(self, path: str) -> None:
        """Open `path`. Raises OSError."""
        self.path = path
        self.bytes_read = 0
        held = held_file(path)
        self._fd = self.open(path)
        self.size = os.fstat(self._fd).st_size if held is None else held.size

    def open(self, path: str) -> int:
        """Return the descriptor that the file is read by. Raises OSError."""
        return open_for_reading(path)

    def read(self, position: int, size: int) -> bytes:
        """Read up to `size` bytes from byte `position` on; fewer at the end of the file."""
        wanted = max(0, min(size, self.size - position))
        pieces = []
        while wanted:
            piece = os.pread(self._fd, wanted, position)
            if not piece:
                break
            pieces.append(piece)
            position += len(piece)
            wanted -= len(piece)
            self.bytes_read += len(piece)
        if _watchers:
            _notify(self.path, position)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def pieces(self, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        """Yield the bytes from byte `start` to `stop`, or to the end, in pieces of a size for copying."""
        stop = self.size if stop is None else stop
        for position in range(start, stop, _PIECE_BYTES):
            yield self.read(position, min(_PIECE_BYTES, stop - position))

    def send(self, target: int, position: int, size: int) -> int:
        """Send up to `size` bytes from byte `position` on to a descriptor, that of a socket; how many it took."""
        return os.sendfile(target, self._fd, position, size)

    def read_into(self, view: memoryview, position: int) -> int:
        """Fill `view` with the bytes from byte `position` on; how many there were."""
        done = 0
        while done < len(view):
            count = os.preadv(self._fd, [view[done:]], position + done)
            if count == 0:
                break
            done += count
        self.bytes_read += done
        if _watchers:
            _notify(self.path, position + done)
        return done


def list_directory(path: str) -> tuple[list[str], list[str]]:
    """Return the names of the directories and of the files in a directory, sorted; what is neither is left out.

    Raises OSError, also for an entry of which the system cannot say what it is. Symbolic links are what they lead to;
    one that leads nowhere is left out. Of a directory that is held they are the names that it had.
    """
    held = held_listing(path)
    if held is not None:
        return list(held[0]), list(held[1])
    directories, files = [], []
    with os.scandir(path) as entries:
        for entry in entries:
            try:
                if entry.is_dir():
                    directories.append(entry.name)
                elif entry.is_file():
                    files.append(entry.name)
            except OSError as error:
                if error.errno not in _NOTHING_THERE:
                    raise
    return sorted(directories), sorted(files)


class FileStatus(NamedTuple):
    """Size (bytes) and time of change (ns) of a file, how many bytes the disk keeps for it, and its inode."""

    size: int
    modified_ns: int
    on_disk: int
    inode: int

    @classmethod
    def of(cls, status: os.stat_result) -> FileStatus:
        """Return what counts here of what the system says."""
        return cls(status.st_size, status.st_mtime_ns, getattr(status, "st_blocks", 0) * 512, status.st_ino)


def status_of(path: str) -> FileStatus:
    """Return what the system says of a file, or of the one that is held under its path. Raises OSError."""
    held = held_file(path)
    if held is None:
        return FileStatus.of(os.stat(path))
    return FileStatus.of(os.fstat(held.descriptor))._replace(size=held.size)


_NOTHING_THERE = frozenset((errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG))
"""What the system says where a path leads nowhere. All else says nothing of what is there."""


def _mode_of(path: str) -> int:
    """Return the mode of what is at a path, 0 where nothing is. Raises OSError where the system cannot say."""
    try:
        return os.stat(path).st_mode
    except OSError as error:
        if error.errno not in _NOTHING_THERE:
            raise
        return 0


def is_there(path: str) -> bool:
    """Return whether there is anything at a path. Raises OSError where the system cannot say."""
    return _mode_of(path) != 0


def is_directory(path: str) -> bool:
    """Return whether there is a directory at a path. Raises OSError where the system cannot say."""
    return stat.S_ISDIR(_mode_of(path))


def is_file(path: str) -> bool:
    """Return whether there is a file at a path, or one is held under it. Raises OSError where the system cannot say."""
    return held_file(path) is not None or stat.S_ISREG(_mode_of(path))


def is_named(path: str) -> bool:
    """Return whether a path names anything, a link to nowhere too. Raises OSError where the system cannot say."""
    try:
        os.lstat(path)
    except OSError as error:
        if error.errno not in _NOTHING_THERE:
            raise
        return False
    return True


def may_be_entered(directory: str) -> bool:
    """Return whether this user may look at what is in a directory. Raises OSError where the system cannot say."""
    try:
        os.stat(os.path.join(directory, os.curdir))
    except PermissionError:
        return False
    return True


def real_path(path: str, directory: str) -> str:
    """Return the real path of a path; `directory` is one whose real path is known: what is in it takes one look."""
    is_in_it = os.path.dirname(path) == directory and os.path.basename(path) not in ("", os.curdir, os.pardir)
    return path if is_in_it and not os.path.islink(path) else os.path.realpath(path)


MAX_SMALL = 1 << 20
"""Bytes of a small file that are read."""


def read_small(path: str, max_bytes: int = MAX_SMALL) -> bytes:
    """Return the content of a small file; no more than `max_bytes` bytes of it."""
    with ReadOnlyFile(path) as file:
        return file.read(0, max_bytes)
