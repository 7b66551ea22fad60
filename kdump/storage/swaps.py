"""The replacement of segments by the cleaner or a split, as a broker that was killed in it finishes it at its start.

The new files come as .cleaned, become .swap when all of them are complete, then the old segments go, and the .swap
files get their names (UnifiedLog.replaceSegments). What is left of that is LogLoader's to sort out.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from kdump.errors import NameFormatError
from kdump.formats import names
from kdump.formats.java_text import LONG_MAX
from kdump.formats.names import FileName, offset_in_name
from kdump.storage.segment import Segment, segment_end_offset

_SWAP, _CLEANED, _DELETED = f".{names.SWAP}", f".{names.CLEANED}", f".{names.DELETED}"


Span = tuple[int, int]
"""Offsets, absolute, the end excluded."""


class Replacement(NamedTuple):
    """`complete` are the .swap files that get their names, `replaced` the files that go for them."""

    complete: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()


def complete_swaps(files: Iterable[str], offset_of: Callable[[str], int]) -> tuple[list[str], list[str]]:
    """Return the .swap files among `files` that get their names, and those that go instead.

    One whose offset is not below that of the lowest .cleaned file belongs to a replacement that was not ready: the
    originals are still there (LogLoader.removeTempFilesAndCollectSwapFiles).
    """
    every = sorted(files)
    lowest = min((offset_of(name) for name in every if name.endswith(_CLEANED)), default=LONG_MAX)
    swaps = [name for name in every if name.endswith(_SWAP)]
    undone = [name for name in swaps if offset_of(name) >= lowest]
    return [name for name in swaps if name not in undone], undone


def replaced_by(span: Span, files: Iterable[str]) -> list[str]:
    """Return the files that go for complete .log.swap files that stand for a span of offsets: all that begin in it."""
    return [name for name in sorted(files) if _begins_in(span, name)]


def _begins_in(span: Span, name: str) -> bool:
    offset = offset_in_name(name)
    return not name.endswith((_SWAP, _CLEANED, _DELETED)) and offset is not None and span[0] <= offset < span[1]


def logs_of(swaps: Iterable[str]) -> list[str]:
    """Return the .log.swap files among .swap files."""
    return [name for name in swaps if name.endswith(f".{names.LOG}{_SWAP}")]


def replacement(path: str, files: Mapping[str, FileName]) -> Replacement:
    """Return what a broker that starts makes of an unfinished replacement in a partition directory. Raises OSError.

    It is nothing where a name does not begin with an offset, which ends the broker's start; and where a running broker
    has finished it meanwhile.
    """
    if not any(parsed.state == names.SWAP for parsed in files.values()):
        return Replacement()
    try:
        complete, _ = complete_swaps(files, _offset)
        segments = [Segment(os.path.join(path, name)) for name in logs_of(complete)]
        if not segments:
            return Replacement(tuple(complete))
        span = min(each.base_offset for each in segments), max(map(segment_end_offset, segments))
    except (ValueError, NameFormatError, FileNotFoundError):
        return Replacement()
    return Replacement(tuple(complete), tuple(replaced_by(span, files)))


def segments_after(path: str, files: Mapping[str, FileName], found: Replacement) -> Iterator[Segment]:
    """Yield the segments of a partition directory after a replacement, in no order."""
    gone, waiting = set(found.replaced), set(found.complete)
    for name, parsed in files.items():
        if parsed.kind != names.LOG or parsed.offset is None or name in gone:
            continue
        if name in waiting:
            yield Segment(os.path.join(path, name))
        elif parsed.state == names.LIVE and f"{name}{_SWAP}" not in waiting:
            stem = name.partition(".")[0]
            kinds = (kind for kind in names.INDEX_KINDS if f"{stem}.{kind}{_SWAP}" in waiting)
            yield Segment(os.path.join(path, name), suffixes=dict.fromkeys(kinds, _SWAP))


def _offset(name: str) -> int:
    offset = offset_in_name(name)
    if offset is None:
        raise ValueError(name)
    return offset
