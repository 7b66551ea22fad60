"""The files of new segments, written and on the disk before anything is replaced by them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO, NamedTuple

from kdump.clean.new_segment import NewSegment
from kdump.disk.durable import WritableFile, new_file, settle, write_file
from kdump.formats import names
from kdump.formats.names import segment_file_name

WRITE_BUFFER = 1 << 20


class NewFile(NamedTuple):
    """A file of a new segment: the kind in its name, and its size in bytes."""

    kind: str
    size: int


class Staging:
    """Where new segments are written; without such a place they are not written at all, only measured."""

    def __init__(self, place: Callable[[str], str] | None, suffix: str = "") -> None:
        """`place` gives the path for the name of a file; `suffix` is what follows the names of files in the end."""
        self._place = place
        self._suffix = suffix

    def path(self, base_offset: int, kind: str) -> str:
        """Return where a file is written."""
        assert self._place is not None
        return self._place(segment_file_name(base_offset, f".{kind}{self._suffix}"))

    @contextmanager
    def open_log(self, base_offset: int) -> Iterator[BinaryIO | None]:
        """Hold the .log to write to. Raises OSError."""
        if self._place is None:
            yield None
            return
        with new_file(self.path(base_offset, names.LOG), WRITE_BUFFER) as out:
            yield out

    def finish(self, segment: NewSegment, modified: int, like: os.stat_result) -> tuple[NewFile, ...]:
        """Write the indexes and put everything onto the disk; the files. Raises OSError, CleaningError.

        `modified` is the time (ms) that the files get, `like` the file whose owner and mode they get.
        """
        contents = segment.finish()
        if self._place is not None:
            modified_ns = modified * 1_000_000
            with WritableFile(self.path(segment.base_offset, names.LOG)) as log:
                settle(log.fileno(), like, modified_ns)
            for kind, content in contents.items():
                timed = kind in (names.OFFSET_INDEX, names.TIME_INDEX)
                write_file(self.path(segment.base_offset, kind), (content,), like, modified_ns if timed else None)
        return (NewFile(names.LOG, segment.size), *(NewFile(kind, len(data)) for kind, data in contents.items()))
