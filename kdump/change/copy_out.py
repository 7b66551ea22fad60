"""Copy partitions of a log directory elsewhere, so that the copy can be changed and the source stays as it is.

Where the file system can, a copy shares its bytes with the source until one of them is written (a reflink). Else the
.log files that no broker writes any more are linked, and all others copied.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from kdump.change.apply import check_room
from kdump.change.place import PREFIX
from kdump.disk.durable import sync_directory, sync_file
from kdump.disk.reading import list_directory
from kdump.errors import KdumpError
from kdump.formats import names
from kdump.formats.names import parse_file_name

_FICLONE = 0x40049409
_NOT_COPIED = (names.LOCK, names.CLEAN_SHUTDOWN)
PART_SUFFIX = ".kdump-part"


class CopyError(KdumpError):
    """There is something in the way of a copy."""


class _Copy(NamedTuple):
    """One file to be copied."""

    source: str
    target: str
    may_link: bool = False


def copy_log_directory(source: str, partitions: Iterable[tuple[str, Collection[str]]], target: str) -> str:
    """Copy partition directories, and the files beside them, into a new log directory; the path that it has for now.

    `partitions` are names, each with the names of the files that are going to be cut, which are never linked. The copy
    is begun under another name, for `complete` to give it the final one. What an earlier copy left behind that did not
    get that far is removed. Raises CopyError, OSError, and RefusedError where there is not enough space.
    """
    if os.path.lexists(target) and (not os.path.isdir(target) or os.listdir(target)):
        raise CopyError(f"{target}: exists already; give the name of a directory that is to be made")
    part = os.path.abspath(target) + PART_SUFFIX
    if os.path.isdir(part):
        shutil.rmtree(part)
    os.mkdir(part)
    folders = [(os.path.join(source, name), os.path.join(part, name), changing) for name, changing in partitions]
    copies = [
        _Copy(os.path.join(source, name), os.path.join(part, name))
        for name in list_directory(source)[1]
        if name not in _NOT_COPIED and not name.startswith(PREFIX)
    ]
    for folder, copied, changing in folders:
        os.mkdir(copied)
        copies += _copies(folder, copied, changing)
    try:
        _check_room(copies, part)
    except KdumpError:
        shutil.rmtree(part)
        raise
    for copy in copies:
        _copy(copy)
    for folder, copied, _ in folders:
        _take_after(folder, copied)
        sync_directory(copied)
    return part


def complete(part: str, target: str) -> None:
    """Give a copy its final name. Raises OSError."""
    sync_directory(part)
    if os.path.isdir(target):
        os.rmdir(target)
    os.rename(part, target)
    sync_directory(os.path.dirname(os.path.abspath(target)))


def _copies(source: str, target: str, changing: Collection[str]) -> Iterator[_Copy]:
    """The files of a partition directory; a broker changes indexes in place, so only sealed .log files are linked."""
    files = list_directory(source)[1]
    active = max((parse_file_name(name).offset or 0 for name in files if name.endswith(f".{names.LOG}")), default=0)
    for name in files:
        says = parse_file_name(name)
        is_sealed = says.kind == names.LOG and says.offset is not None and says.offset < active
        yield _Copy(os.path.join(source, name), os.path.join(target, name), is_sealed and name not in changing)


def _check_room(copies: Sequence[_Copy], part: str) -> None:
    """Raise RefusedError where the file system has no room for what can be neither shared nor linked."""
    device = os.stat(part).st_dev
    infos = [(copy, os.stat(copy.source)) for copy in copies]
    needed = sum(info.st_size for copy, info in infos if not (copy.may_link and info.st_dev == device))
    with_data = next((copy for copy, info in infos if info.st_size), None)
    probe = os.path.join(part, "probe")
    if with_data and _reflink(with_data.source, probe):
        os.remove(probe)
        needed = 0
    check_room(needed, part)


def _copy(copy: _Copy) -> None:
    source, target = copy.source, copy.target
    if _reflink(source, target):
        _take_after(source, target)
        return
    if copy.may_link:
        try:
            os.link(source, target)
        except OSError:
            pass
        else:
            return
    shutil.copyfile(source, target)
    _take_after(source, target)
    sync_file(target)


def _take_after(source: str, target: str) -> None:
    """Give a copy the times, the mode and, where that is allowed, the owner of the original. Raises OSError."""
    info = os.stat(source)
    with suppress(PermissionError):
        os.chown(target, info.st_uid, info.st_gid)
    shutil.copystat(source, target)


def _reflink(source: str, target: str) -> bool:
    """Make a copy that shares the source's bytes; whether the file system can."""
    import fcntl

    with open(source, "rb") as old, open(target, "xb") as new:
        try:
            fcntl.ioctl(new.fileno(), _FICLONE, old.fileno())
        except OSError:
            os.remove(target)
            return False
        os.fsync(new.fileno())
    return True
