"""Make, write, name and remove files and directories; what replaces a file leaves the old one or the new behind."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from typing import BinaryIO, Self

from kdump.disk import entered
from kdump.disk.entered import both_reached, open_directory, open_file, reached
from kdump.disk.reading import OpenFile, ReadOnlyFile, is_directory, is_named
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
    with_directory(path, os.fsync)


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
        move(part, path)
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
    return open(path, "xb", buffering=buffering, opener=lambda name, _: _made(name, rights))


def _made(path: str, rights: Rights, mode: int = 0o666) -> int:
    """Return the descriptor of a new file within these rights. Raises OSError."""
    descriptor = entered.new_file(path, rights.limit(mode))
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
    with reached(path) as at:
        os.symlink(target, at.name, dir_fd=at.folder)


def append_file(path: str, pieces: Iterable[bytes | bytearray] = (), rights: Rights = ALL_RIGHTS) -> None:
    """Add bytes to the end of a file, which is made if it is not there; not yet on the disk. Raises OSError."""
    with open(path, "ab", opener=partial(_opened_to_append, rights)) as out:
        out.writelines(pieces)


def _opened_to_append(rights: Rights, path: str, _: int) -> int:
    """Open a file, or make it; what it has of rights that it may not have goes. Raises OSError."""
    try:
        descriptor = open_file(path, os.O_WRONLY | os.O_APPEND)
    except FileNotFoundError:
        return _made(path, rights)
    _narrow(descriptor, rights)
    return descriptor


def take_after(descriptor: int, like: os.stat_result) -> None:
    """Give an open file or directory, which was just made, the owner and mode of another. Raises OSError.

    What root made as another user stays that user's.
    """
    info = os.fstat(descriptor)
    is_for_another = os.geteuid() == 0 != info.st_uid and stat.S_ISREG(info.st_mode)
    os.fchmod(descriptor, like.st_mode & (0o1777 if is_for_another else 0o7777))
    give(descriptor, like)


def give(descriptor: int, like: os.stat_result) -> None:
    """Give an open file or directory the owner of another; what root made as another user stays that user's.

    Raises OSError.
    """
    info = os.fstat(descriptor)
    if os.geteuid() == 0 != info.st_uid != like.st_uid:
        raise PermissionError(errno.EPERM, "belongs to another user than the directory, so nothing can take its place")
    if (info.st_uid, info.st_gid) != (like.st_uid, like.st_gid):
        os.fchown(descriptor, like.st_uid, like.st_gid)


def _within(like: os.stat_result, rights: Rights) -> os.stat_result:
    return os.stat_result((rights.limit(like.st_mode, like.st_gid), *like[1:]))


def narrow(path: str, rights: Rights) -> None:
    """Take from a directory what rights do not allow. Raises OSError."""
    _with(open_directory(path, follows_links=False), partial(_narrow, rights=rights))


def file_in(folder: os.stat_result) -> os.stat_result:
    """Return the owner and mode for a new file without a model: those of its directory, but not executable."""
    return os.stat_result((folder.st_mode & ~0o111, *folder[1:]))


def move(source: str, target: str) -> None:
    """Give a file or directory another name, in the place of the file that has it. Raises OSError."""
    with both_reached(source, target) as (old, new):
        os.replace(old.name, new.name, src_dir_fd=old.folder, dst_dir_fd=new.folder)


def set_times(path: str, moment: int) -> None:
    """Give a file or directory, or a link itself, this time (ns) of modification and access. Raises OSError."""
    follows_links = os.utime not in os.supports_follow_symlinks
    os.utime(path, ns=(moment, moment), follow_symlinks=follows_links)


def remove_file(path: str) -> None:
    """Remove a file if it is there. Raises OSError."""
    with reached(path) as at, suppress(FileNotFoundError):
        os.remove(at.name, dir_fd=at.folder)


def keep(path: str, copy: str) -> None:
    """Give a file that is about to be replaced a second name, or make a copy where it can have none. Raises OSError.

    Once it is replaced the second name is the only one.
    """
    if is_named(copy):
        return
    with both_reached(path, copy) as (old, new):
        try:
            os.link(old.name, new.name, src_dir_fd=old.folder, dst_dir_fd=new.folder, follow_symlinks=False)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.EEXIST):
                raise
        else:
            return
    with OwnFile(path) as file:
        info = os.fstat(file.fileno())
        write_file(copy, file.pieces(), info, info.st_mtime_ns, part=f"{copy}.part", allow_other_owner=True)


def keep_tail(path: str, size: int, copy: str) -> None:
    """Copy the bytes of a file from byte `size` on into a new file with the same owner and mode. Raises OSError."""
    with OwnFile(path) as file:
        info = os.fstat(file.fileno())
        write_file(copy, file.pieces(size), info, part=f"{copy}.part", allow_other_owner=True)


def truncate(path: str, size: int, spare: str) -> None:
    """Cut a file, leaving its modification time as it was, which retention may go by. Raises OSError.

    One with other names, as a copy by `cp -al` gives it, is replaced by a shorter one, first written at `spare`: what
    has the other names is not this directory's to cut.
    """
    with WritableFile(path) as cut:
        info = os.fstat(cut.fileno())
        if info.st_nlink == 1:
            cut.truncate(size)
            os.utime(cut.fileno(), ns=(info.st_atime_ns, info.st_mtime_ns))
            cut.sync()
            return
    with OwnFile(path) as file:
        write_file(path, file.pieces(0, size), info, info.st_mtime_ns, part=spare)
    sync_directory(os.path.dirname(path))


def sync_file(path: str) -> None:
    """Put the content of a file on the disk. Raises OSError."""
    _with(open_file(path, os.O_RDONLY), os.fsync)


def with_directory(path: str, call: Callable[[int], object]) -> None:
    """Open a directory for one call of the system. Raises OSError."""
    _with(open_directory(path), call)


def _with(descriptor: int, call: Callable[[int], object]) -> None:
    try:
        call(descriptor)
    finally:
        os.close(descriptor)


class OwnFile(ReadOnlyFile):
    """A file that is read to be kept, or for a new one: of a directory that is changed, no more than its owner may see.

    One beside those directories is read as any other.
    """

    def open(self, path: str) -> int:
        """Return the descriptor. Raises OSError, RefusedError."""
        return open_file(path, os.O_RDONLY) if entered.is_inside(path) else super().open(path)


class WritableFile(OpenFile):
    """An open file whose bytes are written where they belong, at once and without a buffer."""

    def __init__(self, path: str) -> None:
        """Open a file that is there. Raises OSError, RefusedError for a link, and for another user's."""
        self._fd = open_file(path, os.O_RDWR)

    @classmethod
    def create(
        cls, path: str, like: os.stat_result | None = None, mode: int = 0o666, rights: Rights = ALL_RIGHTS
    ) -> Self:
        """Return a new empty file with the owner and mode of another, or else `mode` as far as the umask lets it.

        `rights` bound both. A file of that name goes. Raises OSError.
        """
        self = cls.__new__(cls)
        remove_file(path)
        self._fd = _made(path, rights, mode if like is None else 0o600)
        try:
            if like is not None:
                take_after(self._fd, _within(like, rights))
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
    if entered.is_inside(path):
        entered.check_may_change(path)
    with suppress(FileNotFoundError):
        like = os.stat(path, follow_symlinks=False)
    part = part or f"{path}.tmp"
    with WritableFile.create(part, like, rights=rights) as file, named(path):
        file.write(data, 0)
        if durable:
            file.sync()
    move(part, path)
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
    with reached(path) as at:
        os.mkdir(at.name, rights.limit(0o777), dir_fd=at.folder)
    narrow(path, rights)


@contextmanager
def filled_directory(path: str) -> Iterator[None]:
    """Make a directory to be filled in here; it is on the disk then, or removed where that fails. Raises OSError.

    It is its owner's alone until what fills it gives it another mode.
    """
    new_directory(path, OWNER_ONLY)
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
    path = os.path.abspath(path)
    if not is_directory(os.path.dirname(path)):
        make_directories(os.path.dirname(path), rights=rights)
    try:
        new_directory(path, rights)
    except FileExistsError:
        if not is_directory(path):
            raise
    if like is not None:
        model = like
        with suppress(PermissionError) if allow_other_owner else nullcontext():
            _with(open_directory(path, follows_links=False), lambda descriptor: give(descriptor, model))


def make_directory(path: str) -> None:
    """Make a directory with the owner and mode of the one that it is in; its name is on the disk. Raises OSError."""
    around = os.path.dirname(os.path.abspath(path))
    like = os.stat(around)
    new_directory(path)
    with suppress(PermissionError):  # who may not give a directory away keeps it
        _with(open_directory(path, follows_links=False), lambda descriptor: take_after(descriptor, like))
    sync_directory(around)


def remove_empty_directory(path: str) -> None:
    """Remove a directory if nothing is in it any more. Raises OSError where its going cannot be made to last."""
    with suppress(FileNotFoundError):
        if os.listdir(path):
            return
        with reached(path) as at:
            os.rmdir(at.name, dir_fd=at.folder)
        sync_directory(os.path.dirname(os.path.abspath(path)))


def remove_tree(path: str, *, ignore_errors: bool = False) -> None:
    """Remove a directory and all that is in it. Raises OSError; `ignore_errors`: what cannot be removed stays."""
    import shutil  # which loads all compressors that Python has

    with reached(path) as at:
        shutil.rmtree(at.name, ignore_errors=ignore_errors, dir_fd=at.folder)


def put_in_place(new: str, final: str, aside: str) -> None:
    """Make the directory `new` the one at `final`; what was there before is at `aside` then. Raises OSError.

    Where the file system can exchange two names there is no moment without the directory; else a very short one.
    """
    if not os.path.isdir(final):
        move(new, final)
    elif exchange(new, final):
        move(new, aside)
    else:
        move(final, aside)
        move(new, final)
    sync_directory(os.path.dirname(final))


def exchange(first: str, second: str) -> bool:
    """Let two paths change places; False where the system cannot do it. Raises OSError."""
    import ctypes

    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):
        return False
    with both_reached(first, second) as places:
        where = [
            each for at in places for each in (_AT_FDCWD if at.folder is None else at.folder, os.fsencode(at.name))
        ]
        if rename(*where, _EXCHANGE) == 0:
            return True
        code = ctypes.get_errno()
        if code in (errno.ENOSYS, errno.EINVAL, errno.EPERM, errno.ENOTSUP):
            return False
        raise OSError(code, os.strerror(code), first)
