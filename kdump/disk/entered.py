"""The directories that are being changed: what is in them is reached from them, not by its path, and as their owner.

A directory is input: whoever it belongs to can put a link in the place of each name in it, at any time. So it is opened
once, before anything in it is looked at; a directory in it is opened from there and must be no link; and names of files
are given to the system together with the open directory that they are in. Where root changes the directory of another
user, it does so with the rights of that user.
"""

from __future__ import annotations

import errno
import os
import stat
from _thread import allocate_lock
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from kdump.disk.owner import User, acting_as, owner_to_act_as, user_of
from kdump.errors import RefusedError

_DIRECTORY = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
_MAX_PARTS = 1 << 12
"""How many parts a path may have, with those of the links on it: the system's own limit on links ends it earlier."""
_MAX_DEPTH = 3
"""How far below a directory that was entered files are changed: LOG/PARTITION/.kdump-backup/TIME."""


class _Entered:
    """A directory that is open, for as long as somebody changes something in it."""

    __slots__ = ("descriptor", "owner", "users")

    def __init__(self, path: str) -> None:
        self.descriptor = os.open(path, _DIRECTORY)
        self.owner = os.fstat(self.descriptor).st_uid
        self.users = 0


_entered: dict[str, _Entered] = {}  # by absolute path
_ENTERING = allocate_lock()


class Place(NamedTuple):
    """A name, the open directory that it is in, and who changes it there (None: whoever runs this).

    Outside the directories that were entered `name` is a path, and there is no `folder`.
    """

    name: str
    folder: int | None = None
    user: User | None = None


@contextmanager
def entered(*directories: str) -> Iterator[None]:
    """Have what is in these directories reached from them as they are now. Raises OSError, RefusedError."""
    taken: list[str] = []
    try:
        for directory in map(os.path.abspath, directories):
            if directory not in _entered:
                check_way(directory)
            for path in (directory,) if directory in _entered else {directory, os.path.realpath(directory)}:
                with _ENTERING:
                    if path not in _entered:
                        _entered[path] = _Entered(os.path.realpath(directory))
                    _entered[path].users += 1
                taken.append(path)
        yield
    finally:
        for path in taken:
            with _ENTERING:
                left = _entered[path]
                left.users -= 1
                if not left.users:
                    os.close(_entered.pop(path).descriptor)


def check_way(path: str) -> None:
    """Raise RefusedError where a link on the way to a directory is somebody's who does not own the directory.

    Who named the path did not mean what another user made it lead to; root and whoever runs this may make links to
    anything. Raises OSError.
    """
    links = list(_links_on(path))
    if not links:
        return
    owner = os.stat(path).st_uid
    for link in links:
        maker = os.lstat(link).st_uid
        if maker not in (0, os.geteuid(), owner):
            raise RefusedError(
                f"{link}: a symbolic link that {user_of(maker).name} made, to a directory of {user_of(owner).name}:"
                " kdump does not change what it leads to. Name the directory itself"
            )


def _links_on(path: str) -> Iterator[str]:
    """Yield the symbolic links by which the system comes to a path."""
    at, left = os.sep, os.path.abspath(path).split(os.sep)[::-1]
    for _ in range(_MAX_PARTS):
        if not left:
            return
        name = left.pop()
        here = os.path.join(at, name)
        if name == os.pardir:
            at = os.path.dirname(at)
        elif not os.path.islink(here):
            at = here if name not in ("", os.curdir) else at
        else:
            yield here
            target = os.readlink(here)
            at = os.sep if os.path.isabs(target) else at
            left += target.split(os.sep)[::-1]


def is_inside(path: str) -> bool:
    """Return whether a path leads into a directory that was entered."""
    at = os.path.abspath(path)
    return any(at.startswith(os.path.join(directory, "")) for directory in _entered)


@contextmanager
def reached(path: str) -> Iterator[Place]:
    """Give what a path stands for, with the rights to change it. Raises OSError, RefusedError.

    An error of what is done in here names the path, and one for want of rights, where they are those of the
    directory's owner, is a refusal.
    """
    with _opened(path) as place:
        try:
            with acting_as(place.user):
                yield place
        except OSError as error:
            raise _error_at(error, place, path) from None


@contextmanager
def both_reached(source: str, target: str) -> Iterator[tuple[Place, Place]]:
    """Do for two paths what `reached` does for one; the directories of two users are changed as whoever runs this."""
    with _opened(source) as first, _opened(target) as second:
        user = first.user if first.user == second.user else None
        try:
            with acting_as(user):
                yield first, second
        except OSError as error:
            if error.filename2 is not None:
                error.filename2 = target
            raise _error_at(error, first._replace(user=user), source) from None


def open_directory(path: str, *, follows_links: bool = True) -> int:
    """Return the descriptor of a directory, to be synced or given an owner; of one that was entered, never by a link.

    Raises OSError, RefusedError.
    """
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    root = _entered.get(os.path.abspath(path))
    if root is None:
        with reached(path) as at:
            may_follow = follows_links and at.folder is None
            return os.open(at.name, flags | (0 if may_follow else os.O_NOFOLLOW), dir_fd=at.folder)
    with acting_as(owner_to_act_as(root.owner)):
        return os.open(os.curdir, flags, dir_fd=root.descriptor)


def open_file(path: str, flags: int) -> int:
    """Return the descriptor of a regular file that is there already, of nobody but its directory's owner or our own.

    Raises OSError, RefusedError for anything else.
    """
    with reached(path) as at:
        check_ordinary(path, at, os.stat(at.name, dir_fd=at.folder, follow_symlinks=False))
        descriptor = os.open(at.name, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=at.folder)
        try:
            check_ordinary(path, at, os.fstat(descriptor))
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor


def new_file(path: str, mode: int = 0o666) -> int:
    """Return the descriptor, to read and write, of a file that is made; nothing may have its name. Raises OSError."""
    with reached(path) as at:
        return os.open(
            at.name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=at.folder
        )


def read_own(path: str, max_bytes: int) -> bytes:
    """Return a small file that directs what is changed: a regular one of whoever runs this or its directory's owner.

    Raises OSError, RefusedError.
    """
    info = os.lstat(path)
    if stat.S_ISREG(info.st_mode):
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            info = os.fstat(descriptor)
            if stat.S_ISREG(info.st_mode) and info.st_uid in (os.geteuid(), os.stat(os.path.dirname(path)).st_uid):
                return file.read(max_bytes)
        raise RefusedError(
            f"{path}: belongs to {user_of(info.st_uid).name}, who is neither the owner of the directory nor runs this:"
            " kdump does nothing that it says"
        )
    raise RefusedError(f"{path}: not a regular file: kdump does nothing that it says")


def check_may_change(path: str) -> None:
    """Raise RefusedError where a name leads to what must not be changed: a link, another user's file.

    A directory may be renamed. Raises OSError.
    """
    with reached(path) as at, suppress(FileNotFoundError):
        info = os.stat(at.name, dir_fd=at.folder, follow_symlinks=False)
        check_ordinary(path, at, info, may_be_directory=True)


def check_owner(directory: str, other: str) -> None:
    """Raise RefusedError where root would change a directory that was entered as another user than what is in `other`.

    Raises OSError.
    """
    with reached(os.path.join(other if os.path.isdir(other) else os.path.dirname(other), "name")) as at:
        user = at.user
    own = owner_to_act_as(_entered[os.path.abspath(directory)].owner)
    if own != user:
        raise RefusedError(
            f"{directory}: belongs to {_called(own)}, and {other} to {_called(user)}: kdump keeps originals of"
            f" {_called(user)} in directories of {_called(user)}"
        )


def _called(user: User | None) -> str:
    return user.name if user is not None else user_of(os.geteuid()).name


def check_readable(directory: str) -> None:
    """Raise RefusedError where a directory has a link, or a file that its owner may not read, and root changes it.

    It does not ask for anybody else. Raises OSError.
    """
    with reached(os.path.join(directory, "name")) as at:
        if at.user is None or at.folder is None:
            return
        for name in sorted(_names_in(at.folder)):
            path = os.path.join(directory, name)
            info = os.stat(name, dir_fd=at.folder, follow_symlinks=False)
            if stat.S_ISLNK(info.st_mode):
                check_ordinary(path, at, info)
            if stat.S_ISREG(info.st_mode) and not (info.st_uid == at.user.uid and info.st_mode & stat.S_IRUSR):
                _try_open(name, path, at, os.O_RDONLY)


def _names_in(folder: int) -> list[str]:
    descriptor = os.open(os.curdir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        return os.listdir(descriptor)
    finally:
        os.close(descriptor)


def check_may_write(path: str) -> None:
    """Raise RefusedError where the owner of the directory that is changed may not write a file or directory.

    It does not ask for whoever runs this. Raises OSError.
    """
    root = _entered.get(os.path.abspath(path))
    with reached(path) if root is None else _inside(root) as at:
        if at.user is None:
            return
        info = os.stat(at.name, dir_fd=at.folder, follow_symlinks=False)
        if stat.S_ISREG(info.st_mode):
            _try_open(at.name, path, at, os.O_WRONLY)
        elif not os.access(at.name, os.W_OK, dir_fd=at.folder, effective_ids=True):
            raise may_not(path, at.user)


def _try_open(name: str, path: str, at: Place, flags: int) -> None:
    """Raise RefusedError where the owner of a directory may not open a file. Older C libraries ask for us instead."""
    assert at.user is not None
    try:
        os.close(os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=at.folder))
    except PermissionError:
        raise may_not(path, at.user) from None


@contextmanager
def _inside(root: _Entered) -> Iterator[Place]:
    user = owner_to_act_as(root.owner)
    with acting_as(user):
        yield Place(os.curdir, root.descriptor, user)


def check_ordinary(path: str, at: Place, info: os.stat_result, *, may_be_directory: bool = False) -> None:
    """Raise RefusedError unless a file is a regular one of its directory's owner, or of whoever runs this."""
    if stat.S_ISLNK(info.st_mode):
        raise RefusedError(f"{path}: a symbolic link: kdump does not change what it leads to. Repair it there")
    if not stat.S_ISREG(info.st_mode) and not (may_be_directory and stat.S_ISDIR(info.st_mode)):
        raise RefusedError(f"{path}: not a regular file, so kdump leaves it alone")
    if at.folder is None:
        return
    owner = os.fstat(at.folder).st_uid
    way = f"Give it to {user_of(owner).name} (chown), then run this again"
    if info.st_nlink > 1 and not stat.S_ISDIR(info.st_mode):
        way = f"It has other names elsewhere (hard links), so give {user_of(owner).name} a copy, then run this again"
    if info.st_uid != owner and (at.user is not None or info.st_uid != os.geteuid() != 0):
        raise RefusedError(
            f"{path}: belongs to {user_of(info.st_uid).name}, and the directory to {user_of(owner).name}: kdump leaves"
            f" it alone. {way}"
        )


def may_not(path: str, user: User) -> RefusedError:
    """Return the refusal where the owner of a directory lacks the right to change something in it.

    What a link leads to is nobody's to give away.
    """
    if os.path.islink(path):
        return RefusedError(f"{path}: a symbolic link to what {user.name}, to whom the directory belongs, may not read")
    return RefusedError(
        f"{path}: {user.name}, to whom the directory belongs, may not read or change it, and root changes there only"
        f" what {user.name} could. Give it to {user.name} (chown), then run this again"
    )


@contextmanager
def _opened(path: str) -> Iterator[Place]:
    """Open the directory that a name is in, from the one that was entered. Raises OSError, RefusedError."""
    if not _entered:
        yield Place(path)
        return
    at, name = os.path.split(os.path.abspath(path))
    below: list[str] = []
    while at not in _entered and len(below) < _MAX_DEPTH:
        at, child = os.path.split(at)
        below.append(child)
    root = _entered.get(at)
    if root is None:
        yield Place(path)
        return
    descriptors = [root.descriptor]
    owner = root.owner
    try:
        for child in reversed(below):
            at = os.path.join(at, child)
            descriptors.append(_child(descriptors[-1], child, at))
            if os.geteuid() == 0:
                owner = _owner_below(root, os.fstat(descriptors[-1]).st_uid, at)
        yield Place(name, descriptors[-1], owner_to_act_as(owner))
    finally:
        for descriptor in descriptors[1:]:
            os.close(descriptor)


def _child(folder: int, name: str, path: str) -> int:
    """Open a directory in another one, for names in it. Raises OSError, RefusedError for a link."""
    try:
        return os.open(name, _DIRECTORY, dir_fd=folder)
    except NotADirectoryError:
        info = os.stat(name, dir_fd=folder, follow_symlinks=False)
        what = "a symbolic link, not the directory itself" if stat.S_ISLNK(info.st_mode) else "not a directory"
        raise RefusedError(f"{path}: {what}: kdump changes nothing that it leads to") from None
    except OSError as error:
        raise _error_at(error, Place(name, folder), path) from None


def _owner_below(root: _Entered, owner: int, path: str) -> int:
    """Return the owner of a directory below one that was entered. Raises RefusedError where it is another user's."""
    if root.owner not in (0, owner):
        raise RefusedError(
            f"{path}: belongs to {user_of(owner).name}, and the directory around it to {user_of(root.owner).name}:"
            " kdump leaves it alone"
        )
    return owner


def _error_at(error: OSError, at: Place, path: str) -> Exception:
    """Return an error that names the path, not what the system was given; a refusal where rights are missing."""
    if at.user is not None and error.errno in (errno.EACCES, errno.EPERM):
        return may_not(path, at.user)
    if error.filename is not None or at.folder is not None:
        error.filename = path
    if error.errno == errno.ELOOP and at.folder is not None:  # put there since it was looked at
        return RefusedError(f"{path}: a symbolic link: kdump does not change what it leads to")
    return error
