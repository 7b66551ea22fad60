"""The few ways in which a repair changes files; every one of them leaves either the old or the new state behind."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import BinaryIO

from kdump.disk.reading import is_named

COPY_SIZE = 1 << 20
_FICLONE = 0x40049409


@contextmanager
def named(path: str) -> Iterator[None]:
    """Have errors of what is written in here name the file: the system does not name that of a descriptor."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = path
        raise


def sync_directory(path: str) -> None:
    """Make the names in a directory last. Raises OSError."""
    with_descriptor(path, os.fsync, getattr(os, "O_DIRECTORY", 0))


def write_file(
    path: str,
    pieces: Iterable[bytes],
    like: os.stat_result | None = None,
    modified: int | None = None,
    *,
    allow_other_owner: bool = False,
) -> None:
    """Write a new file of these pieces onto the disk, with the owner and mode of another. Raises OSError.

    `modified` is the modification time (ns) that it gets, if not that of now. `allow_other_owner`: who may not give a
    file away keeps it.
    """
    with named(path), open(path, "xb") as out:
        for piece in pieces:
            if piece.count(0) == len(piece):
                out.seek(len(piece), os.SEEK_CUR)  # a hole, as in a preallocated file
            else:
                out.write(piece)
        out.truncate()
        if like is not None:
            with suppress(PermissionError) if allow_other_owner else nullcontext():
                take_after(out.fileno(), like)
        out.flush()
        if modified is not None:
            os.utime(out.fileno(), ns=(modified, modified))
        os.fsync(out.fileno())


def take_after(descriptor: int, like: os.stat_result) -> None:
    """Give an open file the owner and mode of another. Raises OSError."""
    os.fchmod(descriptor, like.st_mode & 0o7777)
    info = os.fstat(descriptor)
    if (info.st_uid, info.st_gid) != (like.st_uid, like.st_gid):
        os.fchown(descriptor, like.st_uid, like.st_gid)


def file_in(folder: os.stat_result) -> os.stat_result:
    """Return the owner and mode for a new file without a model: those of its directory, but not executable."""
    return os.stat_result((folder.st_mode & ~0o111, *folder[1:]))


def remove_file(path: str) -> None:
    """Remove a file if it is there. Raises OSError."""
    with suppress(FileNotFoundError):
        os.remove(path)


def check_creatable(path: str) -> None:
    """Check that a file can be written at a path, before hours of work are lost for want of that. Raises OSError."""
    from tempfile import mkstemp

    descriptor, temporary = mkstemp(prefix=".kdump-", dir=os.path.dirname(os.path.abspath(path)))
    os.close(descriptor)
    remove_file(temporary)


def keep(path: str, copy: str) -> None:
    """Give a file that is about to be replaced a second name, or make a copy where it can have none. Raises OSError.

    Once it is replaced the second name is the only one.
    """
    if is_named(copy):
        return
    try:
        os.link(path, copy, follow_symlinks=False)
    except OSError:
        import shutil  # which loads all compressors that Python has

        part = f"{copy}.part"
        shutil.copy2(path, part, follow_symlinks=False)
        sync_file(part)
        os.replace(part, copy)


def keep_tail(path: str, size: int, copy: str) -> None:
    """Copy the bytes of a file from byte `size` on into a new file with the same owner and mode. Raises OSError."""
    with open(path, "rb") as file:
        info = os.fstat(file.fileno())
        file.seek(size)
        part = f"{copy}.part"
        remove_file(part)
        write_file(part, iter(lambda: file.read(COPY_SIZE), b""), info, allow_other_owner=True)
    os.replace(part, copy)


def truncate(path: str, size: int, spare: str) -> None:
    """Cut a file, leaving its modification time as it was, which retention may go by. Raises OSError.

    One with other names, as a copy by `cp -al` gives it, is replaced by a shorter one, first written at `spare`: what
    has the other names is not this directory's to cut.
    """
    info = os.stat(path)
    if info.st_nlink > 1:
        remove_file(spare)
        with open(path, "rb") as file:
            write_file(spare, beginning(file, size), info, info.st_mtime_ns)
        os.replace(spare, path)
        sync_directory(os.path.dirname(path))
        return
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.ftruncate(descriptor, size)
        os.utime(descriptor, ns=(info.st_atime_ns, info.st_mtime_ns))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def beginning(file: BinaryIO, size: int) -> Iterator[bytes]:
    """Yield the next `size` bytes of a file in pieces, or what is left of it. Raises OSError."""
    while size and (piece := file.read(min(size, COPY_SIZE))):
        size -= len(piece)
        yield piece


def sync_file(path: str) -> None:
    """Put the content of a file on the disk. Raises OSError."""
    with_descriptor(path, os.fsync)


def with_descriptor(path: str, call: Callable[[int], object], flags: int = 0) -> None:
    """Open a path for reading for one call of the system, with `flags` of open. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | flags)
    try:
        call(descriptor)
    finally:
        os.close(descriptor)


def write_all(descriptor: int, data: bytes | bytearray, position: int) -> None:
    """Write all of `data` from byte `position` on. Raises OSError, with part of it possibly written."""
    done = os.pwrite(descriptor, data, position)
    while done < len(data):
        done += os.pwrite(descriptor, memoryview(data)[done:], position + done)


def create_file(path: str, like: os.stat_result | None = None) -> int:
    """Return a new empty file, open for reading and writing, with the owner and mode of another. Raises OSError.

    A file of that name is emptied.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0), 0o666)
    if like is not None:
        try:
            take_after(descriptor, like)
        except OSError:
            os.close(descriptor)
            raise
    return descriptor


def replace_file(path: str, data: bytes, *, durable: bool, like: os.stat_result | None = None) -> None:
    """Let the file hold `data`: a reader finds the old content or the new. `durable`: it is on the disk after that.

    It gets the owner and mode of the file that it replaces, or else those of `like`. Raises OSError; what was there
    before is then still there.
    """
    with suppress(FileNotFoundError):
        like = os.stat(path, follow_symlinks=False)
    temporary = f"{path}.tmp"
    descriptor = create_file(temporary, like)
    try:
        with named(path):
            write_all(descriptor, data, 0)
            if durable:
                os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.replace(temporary, path)
    if durable:
        sync_directory(os.path.dirname(path) or os.curdir)


def replace_alone(path: str, data: bytes, *, durable: bool) -> None:
    """Do for a user's file what `replace_file` does for Kafka's, and write over nothing beside it.

    A file of Kafka's has its `.tmp` beside it meanwhile, as with a broker; a user's file of that name is the user's.
    Raises OSError; what was there before is then still there, and nothing else.
    """
    from tempfile import TemporaryDirectory

    like = None
    with suppress(FileNotFoundError):
        like = os.stat(path, follow_symlinks=False)
    folder = os.path.dirname(os.path.abspath(path))
    try:
        with TemporaryDirectory(prefix=".kdump-", dir=folder) as work:
            temporary = os.path.join(work, "new")
            replace_file(temporary, data, durable=durable, like=like)
            os.replace(temporary, path)
        if durable:
            sync_directory(folder)
    except OSError as error:
        error.filename = path  # what was asked for
        raise


def reflink(source: str, target: str) -> bool:
    """Make a copy that shares the source's bytes; whether the file system can. Raises OSError."""
    import fcntl

    with open(source, "rb") as old, open(target, "xb") as new:
        try:
            fcntl.ioctl(new.fileno(), _FICLONE, old.fileno())
        except OSError:
            os.remove(target)
            return False
    return True


def make_directory(path: str) -> None:
    """Make a directory with the owner and mode of the one that it is in; its name is on the disk. Raises OSError."""
    around = os.path.dirname(os.path.abspath(path))
    like = os.stat(around)
    os.mkdir(path)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with suppress(PermissionError):  # who may not give a directory away keeps it
            take_after(descriptor, like)
    finally:
        os.close(descriptor)
    sync_directory(around)


def remove_empty_directory(path: str) -> None:
    """Remove a directory if nothing is in it any more. Raises OSError where its going cannot be made to last."""
    with suppress(FileNotFoundError):
        if os.listdir(path):
            return
        os.rmdir(path)
        sync_directory(os.path.dirname(os.path.abspath(path)))
