"""The first steps of log loading: leftovers of deletions, of the cleaner and of swaps."""

from __future__ import annotations

from collections.abc import Iterable

from kdump.errors import NUMBER_FORMAT, LoadError
from kdump.formats import names
from kdump.formats.names import offset_in_name
from kdump.recovery.outcome import DELETE, RENAME, Step
from kdump.recovery.segments import LoadedSegment
from kdump.settings.views import LoadingSettings
from kdump.storage.planned import VirtualDirectory

_DELETED, _CLEANED, _SWAP = f".{names.DELETED}", f".{names.CLEANED}", f".{names.SWAP}"
_LOG = f".{names.LOG}"


def clear_leftovers(directory: VirtualDirectory, config: LoadingSettings, steps: list[Step]) -> None:
    """Remove what was being deleted or cleaned, and complete or undo the replacement of segments.

    A .swap file whose offset is not below that of the lowest .cleaned file belongs to a replacement that was not
    ready: the originals are still there. All others are complete and take the place of the segments that they cover.
    Raises LoadError, OSError.
    """
    every = directory.names()
    for name in every:
        if name.endswith(_DELETED) and not name.endswith(f".{names.KRAFT_SNAPSHOT}{_DELETED}"):
            _delete(directory, name, "it was scheduled for deletion", steps)
    cleaned = [name for name in every if name.endswith(_CLEANED)]
    swaps = [name for name in every if name.endswith(_SWAP)]
    lowest = min((_offset(name) for name in cleaned), default=None)
    for name in swaps:
        if lowest is not None and _offset(name) >= lowest:
            _delete(directory, name, "the replacement that it belongs to was not complete", steps)
    for name in cleaned:
        _delete(directory, name, "it is the unfinished work of the cleaner or of a split", steps)
    _complete(directory, [name for name in swaps if directory.exists(name)], config, steps)


def _complete(directory: VirtualDirectory, swaps: list[str], config: LoadingSettings, steps: list[Step]) -> None:
    """Delete the files that complete swaps replace, and give the swaps their names."""
    logs = [name for name in swaps if name.endswith(f"{_LOG}{_SWAP}")]
    replaced = _range(directory, logs, config)
    if replaced:
        for name in directory.names():
            offset = offset_in_name(name)
            if not name.endswith(_SWAP) and offset is not None and replaced[0] <= offset < replaced[1]:
                why = f"a complete swap replaces the offsets from {replaced[0]} to {replaced[1] - 1}"
                _delete(directory, name, why, steps)
    for name in (name for name in directory.names() if name.endswith(_SWAP)):
        new_name = name.removesuffix(_SWAP)
        directory.rename(name, new_name)
        steps.append(Step(RENAME, name, f"the swap is complete: it becomes {new_name}", size=directory.size(new_name)))


def _range(directory: VirtualDirectory, logs: Iterable[str], config: LoadingSettings) -> tuple[int, int] | None:
    """The offsets that the .log.swap files stand for: from the lowest base offset up to the highest next offset."""
    segments = [LoadedSegment(directory, _offset(name), config.segment_index_bytes, _SWAP) for name in logs]
    if not segments:
        return None
    return min(segment.base_offset for segment in segments), max(segment.next_offset() for segment in segments)


def _offset(name: str) -> int:
    offset = offset_in_name(name)
    if offset is None:
        raise LoadError(NUMBER_FORMAT, f'For input string: "{name.partition(".")[0]}"', name)
    return offset


def _delete(directory: VirtualDirectory, name: str, why: str, steps: list[Step]) -> None:
    directory.delete(name, why)
    steps.append(Step(DELETE, name, why))
