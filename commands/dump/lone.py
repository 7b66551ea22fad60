"""Logs under any name for `kdump dump --as log`: files of other names, compressed ones, and standard input."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import IO, cast

import click

from kdump.errors import KdumpError
from kdump.formats.printable import safe_path
from kdump.storage.segment import Segment

STANDARD_INPUT = "-"
_PIECE = 1 << 20
_MIN_FREE = 1 << 30
"""Bytes that unpacking leaves free on the disk."""


@dataclass(frozen=True, slots=True)
class LoneLog:
    """A log that is read without a partition around it: where its bytes are, what it is called, its base offset."""

    path: str
    shown: str
    base_offset: int

    def segment(self) -> Segment:
        """It as a segment without indexes."""
        return Segment(self.path, base_offset=self.base_offset)


@contextmanager
def lone_logs(paths: Sequence[str], base_offset: int | None) -> Iterator[list[LoneLog]]:
    """The logs at some paths; what has to be unpacked is in temporary files until the end.

    Without `base_offset` it is the number that a file's name begins with, else 0. Raises OSError, KdumpError,
    click.UsageError for a directory.
    """
    with ExitStack() as holds:
        yield [_lone_log(path, base_offset, holds) for path in paths]


def _lone_log(path: str, base_offset: int | None, holds: ExitStack) -> LoneLog:
    if os.path.isdir(path):
        raise click.UsageError(f"{safe_path(path)} is a directory: --as log reads files.")
    number = re.match(r"[0-9]{20}(?=\.)", os.path.basename(path))
    base = int(number[0]) if base_offset is None and number else base_offset or 0
    if path != STANDARD_INPUT and not path.endswith((".gz", ".zst")):
        return LoneLog(path, path, base)
    import gzip
    from tempfile import TemporaryDirectory

    folder = holds.enter_context(TemporaryDirectory(prefix="kdump-"))
    unpacked = os.path.join(folder, "log")
    try:
        with _opened(path) as source, open(unpacked, "wb") as target:
            _copy(source, target, path)
    except (EOFError, gzip.BadGzipFile) as error:
        raise KdumpError(f"{path}: cannot be unpacked: {error}") from None
    return LoneLog(unpacked, "standard input" if path == STANDARD_INPUT else path, base)


def _opened(path: str) -> IO[bytes]:
    if path == STANDARD_INPUT:
        return open(sys.stdin.fileno(), "rb", closefd=False) if hasattr(sys.stdin, "fileno") else sys.stdin.buffer
    if path.endswith(".gz"):
        import gzip

        return cast("IO[bytes]", gzip.open(path, "rb"))
    import zstandard

    return cast("IO[bytes]", zstandard.ZstdDecompressor().stream_reader(open(path, "rb"), read_across_frames=True))


def _copy(source: IO[bytes], target: IO[bytes], path: str) -> None:
    """Copy everything. Raises KdumpError where the disk has no room for it, or it is not what its name says."""
    import shutil

    from zstandard import ZstdError

    while True:
        try:
            piece = source.read(_PIECE)
        except ZstdError as error:
            raise KdumpError(f"{path}: cannot be unpacked: {error}") from None
        if not piece:
            return
        if shutil.disk_usage(os.path.dirname(target.name)).free < _MIN_FREE:
            raise KdumpError(f"{path}: {os.path.dirname(target.name)} has no room to unpack it; TMPDIR names another")
        target.write(piece)
