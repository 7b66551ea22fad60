"""Make, write, name and remove files and directories; what replaces a file leaves the old one or the new behind."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from typing import BinaryIO, Self

from kdump.disk.reading import OpenFile, ReadOnlyFile, is_named
from kdump.disk.rights import ALL_RIGHTS, OWNER_ONLY, Rights

_EXCHANGE = 2
_AT_FDCWD = -100


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
    part: str | None = None,
    allow_other_owner: bool = False,
    rights: Rights = ALL_RIGHTS,
) -> None:
    """Write a new file of these pieces onto the disk, with the owner and mode of another. Raises OSError.

    `rights` bound its mode; until it has that of the other one it is its owner's alone. `modified` is the modification
    time (ns) that it gets, if not that of now. `allow_other_owner`: who may not give a file away keeps it. With `part`,
    where an interrupted run may have left something, it is written there, and then gets its name in the place of
    another file; that name is not yet on the disk.
    """
    if part is not None:
        remove_file(part)
        write_file(part, pieces, like, modified, allow_other_owner=allow_other_owner, rights=rights)
        os.replace(part, path)
        return
    with named(path), new_file(path, rights=rights if like is None else OWNER_ONLY) as out:
        for piece in pieces:
            if piece.count(0) == len(piece):
                out.seek(len(piece), os.SEEK_CUR)  # a hole, as in a preallocated file
            else:
                out.write(piece)
        out.truncate()
        out.flush()
        settle(out.fileno(), like and _within(like, rights), modified, allow_other_owner=allow_other_owner)


def new_file(path: str, buffering: int = -1, rights: Rights = ALL_RIGHTS) -> BinaryIO:
    """Open a file to be written that is not there yet. Raises OSError."""
    return open(path, "xb", buffering=buffering, opener=partial(_open_with, rights))


def _open_with(rights: Rights, path: str, flags: int) -> int:
    """Open a file, which has these rights if this makes it. Raises OSError."""
    try:
        descriptor = os.open(path, flags | os.O_EXCL, rights.limit(0o666))
    except FileExistsError:
        if flags & os.O_EXCL:
            raise
        return os.open(path, flags, rights.limit(0o666))
    _narrow(descriptor, rights)
    return descriptor


def _narrow(descriptor: int, rights: Rights) -> None:
    """Take from an open file or directory what rights do not allow its group, which its directory may have chosen."""
    info = os.fstat(descriptor)
    mode = info.st_mode & 0o7777
    if mode != rights.limit(mode, info.st_gid):
        os.fchmod(descriptor, rights.limit(mode, info.st_gid))


def settle(
    descriptor: int, like: os.stat_result | None, modified: int | None, *, allow_other_owner: bool = False
) -> None:
    """Do for an open file that is written what `write_file` does at its end. Raises OSError."""
    if like is not None:
        with suppress(PermissionError) if allow_other_owner else nullcontext():
            take_after(descriptor, like)
    if modified is not None:
        os.utime(descriptor, ns=(modified, modified))
    os.fsync(descriptor)


def make_link(target: str, path: str) -> None:
    """Make a symbolic link at `path`. Raises OSError."""
    os.symlink(target, path)


def append_file(path: str, pieces: Iterable[bytes | bytearray] = (), rights: Rights = ALL_RIGHTS) -> None:
    """Add bytes to the end of a file, which is made if it is not there; not yet on the disk. Raises OSError."""
    with open(path, "ab", opener=partial(_open_with, rights)) as out:
        out.writelines(pieces)


def take_after(descriptor: int, like: os.stat_result) -> None:
    """Give an open file the owner and mode of another. Raises OSError."""
    os.fchmod(descriptor, like.st_mode & 0o7777)
    info = os.fstat(descriptor)
    if (info.st_uid, info.st_gid) != (like.st_uid, like.st_gid):
        os.fchown(descriptor, like.st_uid, like.st_gid)


def _within(like: os.stat_result, rights: Rights) -> os.stat_result:
    return os.stat_result((rights.limit(like.st_mode, like.st_gid), *like[1:]))


def narrow(path: str, rights: Rights) -> None:
    """Take from a directory what rights do not allow. Raises OSError."""
    with_descriptor(path, partial(_narrow, rights=rights), getattr(os, "O_DIRECTORY", 0))


def file_in(folder: os.stat_result) -> os.stat_result:
    """Return the owner and mode for a new file without a model: those of its directory, but not executable."""
    return os.stat_result((folder.st_mode & ~0o111, *folder[1:]))


def move(source: str, target: str) -> None:
    """Give a file or directory another name, in the place of the file that has it. Raises OSError."""
    os.replace(source, target)


def set_times(path: str, moment: int) -> None:
    """Give a file or directory, or a link itself, this time (ns) of modification and access. Raises OSError."""
    follows_links = os.utime not in os.supports_follow_symlinks
    os.utime(path, ns=(moment, moment), follow_symlinks=follows_links)


def remove_file(path: str) -> None:
    """Remove a file if it is there. Raises OSError."""
    with suppress(FileNotFoundError):
        os.remove(path)


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
    with ReadOnlyFile(path) as file:
        info = os.fstat(file.fileno())
        write_file(copy, file.pieces(size), info, part=f"{copy}.part", allow_other_owner=True)


def truncate(path: str, size: int, spare: str) -> None:
    """Cut a file, leaving its modification time as it was, which retention may go by. Raises OSError.

    One with other names, as a copy by `cp -al` gives it, is replaced by a shorter one, first written at `spare`: what
    has the other names is not this directory's to cut.
    """
    info = os.stat(path)
    if info.st_nlink > 1:
        with ReadOnlyFile(path) as file:
            write_file(path, file.pieces(0, size), info, info.st_mtime_ns, part=spare)
        sync_directory(os.path.dirname(path))
        return
    with WritableFile(path) as cut:
        cut.truncate(size)
        os.utime(cut.fileno(), ns=(info.st_atime_ns, info.st_mtime_ns))
        cut.sync()


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


class WritableFile(OpenFile):
    """An open file whose bytes are written where they belong, at once and without a buffer."""

    def __init__(self, path: str) -> None:
        """Open a file that is there. Raises OSError."""
        self._fd = os.open(path, os.O_RDWR)

    @classmethod
    def create(
        cls, path: str, like: os.stat_result | None = None, mode: int = 0o666, rights: Rights = ALL_RIGHTS
    ) -> Self:
        """Return a new empty file with the owner and mode of another, or else `mode` as far as the umask lets it.

        `rights` bound both.

        A file of that name is emptied. Raises OSError.
        """
        self = cls.__new__(cls)
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
        self._fd = os.open(path, flags, rights.limit(mode) if like is None else 0o600)
        try:
            if like is not None:
                take_after(self._fd, _within(like, rights))
            _narrow(self._fd, rights)
        except OSError:
            self.close()
            raise
        return self

    def write(self, data: bytes | bytearray, position: int) -> None:
        """Write all of `data` from byte `position` on. Raises OSError, with part of it possibly written."""
        done = os.pwrite(self._fd, data, position)
        while done < len(data):
            done += os.pwrite(self._fd, memoryview(data)[done:], position + done)

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes, or make it longer by a hole. Raises OSError."""
        os.ftruncate(self._fd, size)

    def sync(self) -> None:
        """Put the content on the disk. Raises OSError."""
        os.fsync(self._fd)


def replace_file(
    path: str,
    data: bytes,
    *,
    durable: bool,
    like: os.stat_result | None = None,
    part: str | None = None,
    rights: Rights = ALL_RIGHTS,
) -> None:
    """Let the file hold `data`: a reader finds the old content or the new. `durable`: it is on the disk after that.

    It gets the owner and mode of the file that it replaces, or else those of `like`, within `rights`. It is written at
    `part`, or else beside the other as a broker does. Raises OSError; what was there before is then still there.
    """
    with suppress(FileNotFoundError):
        like = os.stat(path, follow_symlinks=False)
    part = part or f"{path}.tmp"
    with WritableFile.create(part, like, rights=rights) as file, named(path):
        file.write(data, 0)
        if durable:
            file.sync()
    os.replace(part, path)
    if durable:
        sync_directory(os.path.dirname(path) or os.curdir)


def replace_alone(path: str, data: bytes, *, durable: bool, rights: Rights) -> None:
    """Do for a user's file what `replace_file` does for Kafka's, and write over nothing beside it.

    A file of Kafka's has its `.tmp` beside it meanwhile, as with a broker; a user's file of that name is the user's.
    Raises OSError; what was there before is then still there, and nothing else.
    """
    from kdump.disk.unpacked import temporary_place

    try:
        with temporary_place(os.path.dirname(os.path.abspath(path))) as part:
            replace_file(path, data, durable=durable, part=part, rights=rights)
    except OSError as error:
        error.filename = path  # what was asked for
        raise


def new_directory(path: str, rights: Rights = ALL_RIGHTS) -> None:
    """Make a directory that is not there yet; its name is not yet on the disk. Raises OSError."""
    os.mkdir(path, rights.limit(0o777))
    narrow(path, rights)


@contextmanager
def filled_directory(path: str) -> Iterator[None]:
    """Make a directory to be filled in here; it is on the disk then, or removed where that fails. Raises OSError.

    It is its owner's alone until what fills it gives it another mode.
    """
    os.mkdir(path, OWNER_ONLY.mode)
    try:
        yield
        sync_directory(path)
    except BaseException:
        remove_tree(path)
        raise


def make_directories(
    path: str, like: os.stat_result | None = None, *, allow_other_owner: bool = False, rights: Rights = ALL_RIGHTS
) -> None:
    """Make a directory, and those that it is in, where they are not there; `like` gives it its owner. Raises OSError.

    `allow_other_owner`: who may not give a directory away keeps it.
    """
    if not os.path.isdir(path):
        around = os.path.dirname(path.rstrip("/"))
        if around:
            make_directories(around, rights=rights)
        try:
            new_directory(path, rights)
        except FileExistsError:  # another thread was first
            if not os.path.isdir(path):
                raise
    if like is not None:
        with suppress(PermissionError) if allow_other_owner else nullcontext():
            os.chown(path, like.st_uid, like.st_gid)


def make_directory(path: str) -> None:
    """Make a directory with the owner and mode of the one that it is in; its name is on the disk. Raises OSError."""
    around = os.path.dirname(os.path.abspath(path))
    like = os.stat(around)
    os.mkdir(path)
    with suppress(PermissionError):  # who may not give a directory away keeps it
        with_descriptor(path, lambda descriptor: take_after(descriptor, like))
    sync_directory(around)


def remove_empty_directory(path: str) -> None:
    """Remove a directory if nothing is in it any more. Raises OSError where its going cannot be made to last."""
    with suppress(FileNotFoundError):
        if os.listdir(path):
            return
        os.rmdir(path)
        sync_directory(os.path.dirname(os.path.abspath(path)))


def remove_tree(path: str, *, ignore_errors: bool = False) -> None:
    """Remove a directory and all that is in it. Raises OSError; `ignore_errors`: what cannot be removed stays."""
    import shutil  # which loads all compressors that Python has

    shutil.rmtree(path, ignore_errors=ignore_errors)


def put_in_place(new: str, final: str, aside: str) -> None:
    """Make the directory `new` the one at `final`; what was there before is at `aside` then. Raises OSError.

    Where the file system can exchange two names there is no moment without the directory; else a very short one.
    """
    if not os.path.isdir(final):
        os.rename(new, final)
    elif exchange(new, final):
        os.rename(new, aside)
    else:
        os.rename(final, aside)
        os.rename(new, final)
    sync_directory(os.path.dirname(final))


def exchange(first: str, second: str) -> bool:
    """Let two paths change places; False where the system cannot do it. Raises OSError."""
    import ctypes

    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):
        return False
    if rename(_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), _EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.ENOSYS, errno.EINVAL, errno.EPERM, errno.ENOTSUP):
        return False
    raise OSError(code, os.strerror(code), first)
