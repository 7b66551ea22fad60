"""Put files on the disk: one by one, or with one call for the file system that they are on where they are many.

Each sync of a file waits for the disk, which for thousands of small files is most of an export's time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cache

from kdump.disk.durable import sync_directory, sync_file, with_directory
from kdump.disk.reading import is_directory

MANY = 8
_OLDEST_LINUX = (5, 8)  # before, syncfs kept write errors to itself


def sync(paths: Sequence[str], folder: str) -> None:
    """Make the content of files, and the names in directories, last; all of them on `folder`'s file system.

    Raises OSError.
    """
    if len(paths) > MANY and (syncfs := _syncfs()) is not None:
        with_directory(folder, syncfs)
        return
    for path in paths:
        (sync_directory if is_directory(path) else sync_file)(path)


@cache
def _syncfs() -> Callable[[int], None] | None:
    """Return the system call of this name, which raises OSError; None where there is none that tells of errors."""
    if not _is_linux_since(_OLDEST_LINUX):
        return None
    import ctypes

    try:
        call = ctypes.CDLL(None, use_errno=True).syncfs
    except (OSError, AttributeError):
        return None

    def syncfs(descriptor: int) -> None:
        if call(ctypes.c_int(descriptor)) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    return syncfs


def _is_linux_since(version: tuple[int, int]) -> bool:
    system = os.uname()
    numbers = system.release.split(".")
    if system.sysname != "Linux" or not all(number.isdigit() for number in numbers[:2]):
        return False
    return tuple(map(int, numbers[:2])) >= version
