"""Logs under any name for `kdump dump --as log`: files of other names, compressed ones, and standard input."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from io import BufferedIOBase, BufferedReader, FileIO
from typing import IO, Any, cast

import click

from kdump.disk.reading import is_directory
from kdump.errors import KdumpError
from kdump.formats import names
from kdump.formats.printable import safe_path
from kdump.named_tuples import NamedTuple
from kdump.storage.segment import Segment

STANDARD_INPUT = "-"
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_PIECE = 1 << 20
_MIN_FREE = 1 << 30
"""Bytes that unpacking leaves free on the disk."""


class LoneLog(NamedTuple):
    """A log that is read without a partition around it: where its bytes are, what it is called, its base offset.

    `problem` says why only the beginning of a compressed file could be unpacked ("": all of it was).
    """

    path: str
    shown: str
    base_offset: int
    problem: str = ""

    def segment(self) -> Segment:
        """Return it as a segment without indexes."""
        return Segment(self.path, base_offset=self.base_offset)


@contextmanager
def lone_logs(paths: Sequence[str], base_offset: int | None) -> Iterator[list[LoneLog]]:
    """Hold the logs at some paths; what has to be unpacked is in temporary files until the end, as far as it can be.

    Without `base_offset` it is the number that a file's name begins with, else 0. Raises OSError, KdumpError,
    click.UsageError for a directory.
    """
    with ExitStack() as holds:
        yield [_lone_log(path, base_offset, holds) for path in paths]


@contextmanager
def partition_of(data: bytes, base_offset: int) -> Iterator[str]:
    """Hold some bytes as the only .log of a directory, in a temporary place: its path."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="kdump-") as folder:
        path = os.path.join(folder, names.segment_file_name(base_offset, ".log"))
        with open(path, "wb") as target:
            target.write(data)
        yield path


def _lone_log(path: str, base_offset: int | None, holds: ExitStack) -> LoneLog:
    if is_directory(path):
        raise click.UsageError(f"{safe_path(path)} is a directory: --as log reads files.")
    number = re.match(r"[0-9]{20}(?=\.)", os.path.basename(path))
    base = int(number[0]) if base_offset is None and number else base_offset or 0
    is_file = path != STANDARD_INPUT
    if is_file and not path.endswith((".gz", ".zst")):
        return LoneLog(path, path, base)
    from tempfile import TemporaryDirectory

    folder = holds.enter_context(TemporaryDirectory(prefix="kdump-"))
    unpacked = os.path.join(folder, "log")
    with _opened(path) as source, open(unpacked, "wb") as target:
        problem = _copy(source, target, path)
    return LoneLog(unpacked, path if is_file else "standard input", base, problem)


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
    import shutil
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
        if shutil.disk_usage(os.path.dirname(target.name)).free < _MIN_FREE:
            raise KdumpError(f"{path}: {os.path.dirname(target.name)} has no room to unpack it; TMPDIR names another")
        target.write(piece)
