"""Temporary files, and what is read from them: what was packed, or comes from standard input."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedIOBase, BufferedReader, FileIO
from typing import IO, Any, NamedTuple, cast

from kdump.disk.reading import STANDARD_INPUT
from kdump.errors import KdumpError
from kdump.formats.words import size_text

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_PACKED = (".gz", ".zst")
_PIECE = 1 << 20
_MIN_FREE = 1 << 30
"""Bytes that are left free on a disk."""
_MAX_UNPACKED = 16 << 30
"""Bytes that a packed file may become: eight of the largest segments that Kafka writes."""


class Unpacked(NamedTuple):
    """A file with what was packed; `problem` says why only its beginning could be unpacked ("": all of it was)."""

    path: str
    problem: str = ""


@contextmanager
def unpacked(path: str) -> Iterator[Unpacked]:
    """Hold what a .gz or .zst has, or standard input, in a temporary file; another file as it is.

    Raises OSError, KdumpError.
    """
    if path != STANDARD_INPUT and not path.endswith(_PACKED):
        yield Unpacked(path)
        return
    with temporary_place(name="log") as copy:
        with _opened(path) as source, open(copy, "wb") as target:
            problem = _copy(source, target, path)
        yield Unpacked(copy, problem)


def temporary_directory(prefix: str) -> str:
    """Return the path of a new directory where the system has temporary ones. Raises OSError."""
    from tempfile import mkdtemp

    return mkdtemp(prefix=prefix)


@contextmanager
def temporary_place(folder: str | None = None, name: str = "new") -> Iterator[str]:
    """Give a path in a temporary directory, which is in `folder` or where the system has such. Raises OSError."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix=".kdump-" if folder else "kdump-", dir=folder) as work:
        yield os.path.join(work, name)


def has_room(folder: str) -> bool:
    """Return whether the disk of a directory has room for more. Raises OSError."""
    import shutil

    return shutil.disk_usage(folder).free >= _MIN_FREE


def nameless_file() -> IO[bytes]:
    """Return a new temporary file, which is gone once everybody has closed it. Raises OSError."""
    from tempfile import TemporaryFile

    return TemporaryFile()


def _opened(path: str) -> BufferedIOBase:
    if path == STANDARD_INPUT:
        has_number = hasattr(sys.stdin, "fileno")
        given: Any = FileIO(sys.stdin.fileno(), closefd=False) if has_number else sys.stdin.buffer
        stream = BufferedReader(given)
        return _unpacked(stream, stream.peek(len(_ZSTD)))
    return _unpacked(BufferedReader(FileIO(path)), _GZIP if path.endswith(".gz") else _ZSTD)


def _unpacked(source: BufferedReader, begin: bytes) -> BufferedIOBase:
    """Return what unpacks a stream that begins so; no log does, as its first offset is below 2^56."""
    if begin.startswith(_GZIP):
        import gzip

        return cast("BufferedIOBase", gzip.open(source, "rb"))
    if not begin.startswith(_ZSTD):
        return source
    import zstandard

    return cast("BufferedIOBase", zstandard.ZstdDecompressor().stream_reader(source, read_across_frames=True))


def _copy(source: BufferedIOBase, target: IO[bytes], path: str) -> str:
    """Copy everything, or as much as can be unpacked: why the rest cannot be. Raises KdumpError for a full disk."""
    import zlib
    from gzip import BadGzipFile

    from zstandard import ZstdError

    while True:
        try:
            piece = source.read1(_PIECE)
        except (EOFError, BadGzipFile, zlib.error, ZstdError) as error:
            return f"unpacking ended with an error after {target.tell()} bytes of log: {error}"
        if not piece:
            return ""
        if target.tell() + len(piece) > _MAX_UNPACKED:
            most = size_text(_MAX_UNPACKED)
            raise KdumpError(f"{path} unpacks to more than {most}: unpack it where there is room, and name that file")
        if not has_room(os.path.dirname(target.name)):
            raise KdumpError(f"{path}: {os.path.dirname(target.name)} has no room to unpack it; TMPDIR names another")
        target.write(piece)
