"""Copy partitions of a log directory elsewhere, so that the copy can be changed and the source stays as it is.

Where the file system can, a copy shares its bytes with the source until one of them is written (a reflink). Else its
bytes are copied: no file of the copy is another name of one of the source, which a broker on the copy might cut.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from kdump.change.checks import check_room
from kdump.change.place import PREFIX
from kdump.disk import durable
from kdump.disk.copies import copy_file, copy_status, open_source, reflink
from kdump.disk.durable import new_directory, remove_tree
from kdump.disk.entered import entered
from kdump.disk.reading import is_directory, is_named, list_directory
from kdump.disk.rights import rights_of
from kdump.errors import KdumpError, RefusedError
from kdump.formats import names

_NOT_COPIED = (names.LOCK, names.CLEAN_SHUTDOWN)
PART_SUFFIX = ".kdump-part"
_OF_SOURCES = (errno.EACCES, errno.EIO, errno.ENOENT)
"""How reading a source fails: without permission, over a bad disk, and because it went meanwhile."""


class CopyError(KdumpError):
    """There is something in the way of a copy."""


def begin_copy(target: str, sources: Iterable[str]) -> str:
    """Make the directory that a copy is begun in, for `complete` to give it the final name `target`; its path.

    It has no rights that these `sources` do not have. What an earlier copy left behind that did not get that far is
    removed. Raises CopyError, OSError.
    """
    if is_named(target) and (not is_directory(target) or os.listdir(target)):
        raise CopyError(f"{target}: exists already; give the name of a directory that is to be made")
    part = os.path.abspath(target) + PART_SUFFIX
    if is_directory(part):
        remove_tree(part)
    new_directory(part, rights_of(sources))
    return part


Copy = tuple[str, str]
"""Paths: of a file or directory that is copied, and where to."""
Unreadable = Callable[[str, OSError | RefusedError], None]
"""Hears of a directory or file that cannot be read, and is not in the copy."""


def _no_unreadable(_: str, error: OSError | RefusedError) -> None:
    raise error


def copy_log_directory(
    source: str, partitions: Iterable[str], target: str, unreadable: Unreadable = _no_unreadable
) -> str:
    """Copy partition directories, and the files beside them, into a new log directory; the path that it has for now.

    `partitions` are names. The copy is begun under another name, for `complete` to give it the final one. Raises
    CopyError, OSError, and RefusedError where there is not enough space; of the copy nothing is left then.
    """
    part = begin_copy(target, [source])
    folders = [(os.path.join(source, name), os.path.join(part, name)) for name in partitions]
    copies = [
        (os.path.join(source, name), os.path.join(part, name))
        for name in list_directory(source)[1]
        if name not in _NOT_COPIED and not name.startswith(PREFIX)
    ]
    try:
        with entered(source):
            copy_directories(folders, part, copies, unreadable)
    except (KdumpError, OSError):
        remove_tree(part)
        raise
    return part


def copy_directories(
    folders: Sequence[Copy], near: str, files: Iterable[Copy] = (), unreadable: Unreadable = _no_unreadable
) -> None:
    """Copy directories, each to a path that is not there yet, with the files in them; `near` is where they all go.

    A directory with a file that cannot be read is left out. Raises OSError, and RefusedError, with empty directories
    made, where there is not enough space.
    """
    wanted: list[tuple[str, str, list[Copy]]] = []
    for folder, copied in folders:
        with _noting(folder, unreadable):
            inside = list_directory(folder)[1]
            copies = [(os.path.join(folder, name), os.path.join(copied, name)) for name in inside]
            for path, _ in copies:
                os.stat(path)
            wanted.append((folder, copied, copies))
    beside = list(files)
    _check_room([*beside, *(copy for _, _, copies in wanted for copy in copies)], near)
    for copy in beside:
        with _noting(copy[0], unreadable):
            copy_file(*copy)
    for folder, copied, copies in wanted:
        with _noting(folder, unreadable):
            _copy_directory(folder, copied, copies)


@contextmanager
def _noting(path: str, unreadable: Unreadable) -> Iterator[None]:
    """Tell of a source that cannot be read; what else fails is raised."""
    try:
        yield
    except RefusedError as error:
        unreadable(path, error)
    except OSError as error:
        if error.errno not in _OF_SOURCES:
            raise
        unreadable(path, error)


def _copy_directory(folder: str, copied: str, copies: Iterable[Copy]) -> None:
    """Copy a directory, all of it or nothing."""
    with durable.filled_directory(copied):
        for copy in copies:
            copy_file(*copy)
        copy_status(folder, copied)


def complete(part: str, target: str) -> None:
    """Give a copy its final name. Raises OSError."""
    durable.sync_directory(part)
    durable.move(part, target)
    durable.sync_directory(os.path.dirname(os.path.abspath(target)))


def _check_room(copies: Sequence[Copy], part: str) -> None:
    """Raise RefusedError where the file system has no room for what cannot be shared."""
    sizes = [os.stat(path).st_size for path, _ in copies]
    needed = sum(sizes)
    with_data = next((copy for copy, size in zip(copies, sizes, strict=True) if size), None)
    probe = os.path.join(part, "probe")
    if with_data and _is_shared(with_data[0], probe):
        durable.remove_file(probe)
        needed = 0
    check_room(needed, part)


def _is_shared(source: str, probe: str) -> bool:
    try:
        with open_source(source) as old:
            return reflink(old, probe)
    except RefusedError:  # it is told of when it is copied
        return False
