"""Logs under any name: files of other names, compressed ones, and standard input."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from kdump.disk.reading import STANDARD_INPUT
from kdump.storage.segment import Segment


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
def lone_logs(paths: Sequence[str], base_offset: int | None = None) -> Iterator[list[LoneLog]]:
    """Hold the logs at some paths; what has to be unpacked is in temporary files until the end, as far as it can be.

    Without `base_offset` it is the number that a file's name begins with, else 0. Raises OSError, KdumpError.
    """
    with ExitStack() as holds:
        yield [_lone_log(path, base_offset, holds) for path in paths]


def _lone_log(path: str, base_offset: int | None, holds: ExitStack) -> LoneLog:
    from kdump.disk.unpacked import unpacked  # which few dumps need

    number = re.match(r"[0-9]{20}(?=\.)", os.path.basename(path))
    base = int(number[0]) if base_offset is None and number else base_offset or 0
    found = holds.enter_context(unpacked(path))
    return LoneLog(found.path, "standard input" if path == STANDARD_INPUT else path, base, found.problem)
