"""Write files of a log directory: at a position, or as a whole."""

from __future__ import annotations

import os

from kdump.repair.files import sync_directory

__all__ = ["replace_file", "sync_directory", "write_all"]


def write_all(descriptor: int, data: bytes | bytearray, position: int) -> None:
    """Write all of `data` from byte `position` on. Raises OSError, with part of it possibly written."""
    done = os.pwrite(descriptor, data, position)
    while done < len(data):
        done += os.pwrite(descriptor, memoryview(data)[done:], position + done)


def replace_file(path: str, data: bytes, *, durable: bool) -> None:
    """Let the file hold `data`: a reader finds the old content or the new. `durable`: it is on the disk after that.

    Raises OSError; what was there before is then still there.
    """
    temporary = f"{path}.tmp"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    try:
        write_all(descriptor, data, 0)
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.replace(temporary, path)
    if durable:
        sync_directory(os.path.dirname(path))
