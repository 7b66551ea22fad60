"""Which rights a file for the user gets that holds what was read elsewhere: never more than those of its source."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

from kdump.formats.names import is_partition_dir

_OWNER, _GROUP, _OTHERS = 0o700, 0o070, 0o007


class Rights(NamedTuple):
    """The permission bits that a file or directory may have, as far as the umask lets it.

    `group` is the group to which those of the group belong; another one gets those of the others. None is no group.
    """

    mode: int = 0o777
    group: int | None = None

    def limit(self, mode: int, group: int | None = None) -> int:
        """Return what these rights leave of permission bits, of a file of this group or of the process's own."""
        limit = self.mode
        if (os.getegid() if group is None else group) != self.group:
            limit = limit & ~_GROUP | (limit & _OTHERS) << 3
        return mode & (limit | ~ALL_RIGHTS.mode)


ALL_RIGHTS = Rights()
OWNER_ONLY = Rights(0o700)
"""The rights for what has secrets."""


def rights_of(paths: Iterable[str]) -> Rights:
    """Return the rights that all of some files and directories give; all rights where none of them exists.

    A file has those of its directory at most, a partition those of its log directory. The user who reads may do with
    the result what he likes.
    """
    mode, groups = ALL_RIGHTS.mode, set[int]()
    for place in {place for path in paths for place in _around(os.path.abspath(path))}:
        with suppress(OSError):
            info = os.stat(place)
            reads = info.st_mode & 0o444
            mode &= info.st_mode if stat.S_ISDIR(info.st_mode) else reads | reads >> 1 | reads >> 2
            groups.add(info.st_gid)
    return Rights(mode | _OWNER, groups.pop() if len(groups) == 1 else None)


def _around(path: str) -> Iterator[str]:
    """Yield a path, and the directories that it is in: of a file its own, of a partition its log directory."""
    yield path
    folder = os.path.dirname(path)
    if not os.path.isdir(path):
        yield folder
        path, folder = folder, os.path.dirname(folder)
    if is_partition_dir(os.path.basename(path)):
        yield folder
