"""Write files of a log directory: at a position, or as a whole."""

from __future__ import annotations

import os
from contextlib import suppress

from kdump.formats import names
from kdump.repair.files import sync_directory, take_after

__all__ = ["base_offsets", "create_file", "replace_file", "sync_directory", "write_all"]


def write_all(descriptor: int, data: bytes | bytearray, position: int) -> None:
    """Write all of `data` from byte `position` on. Raises OSError, with part of it possibly written."""
    done = os.pwrite(descriptor, data, position)
    while done < len(data):
        done += os.pwrite(descriptor, memoryview(data)[done:], position + done)


def create_file(path: str, like: os.stat_result | None = None) -> int:
    """A new empty file, open for reading and writing, with the owner and mode of another. Raises OSError.

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
        write_all(descriptor, data, 0)
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.replace(temporary, path)
    if durable:
        sync_directory(os.path.dirname(path))


def base_offsets(path: str) -> list[int]:
    """The base offsets of the segments in a partition directory, ascending. Raises OSError."""
    found = map(names.parse_file_name, os.listdir(path))
    return sorted(says.offset or 0 for says in found if says.kind == names.LOG and says.state == names.LIVE)
