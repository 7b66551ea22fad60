"""The first steps of log loading: leftovers of deletions, of the cleaner and of swaps."""

from __future__ import annotations

from collections.abc import Iterable

from kdump.errors import NUMBER_FORMAT, LoadError
from kdump.formats import names
from kdump.formats.names import offset_in_name
from kdump.recovery.outcome import DELETE, RENAME, Step
from kdump.recovery.segments import LoadedSegment
from kdump.settings.loading import LoadingSettings
from kdump.storage.planned import PlannedPartition
from kdump.storage.swaps import Span, complete_swaps, logs_of, replaced_by

_DELETED, _CLEANED, _SWAP = f".{names.DELETED}", f".{names.CLEANED}", f".{names.SWAP}"


def clear_leftovers(directory: PlannedPartition, config: LoadingSettings, steps: list[Step]) -> None:
    """Remove what was being deleted or cleaned, and complete or undo the replacement of segments.

    Which of the .swap files are complete is kdump.storage.swaps' to say. Raises LoadError, OSError.
    """
    every = directory.names()
    for name in every:
        if name.endswith(_DELETED) and not name.endswith(f".{names.KRAFT_SNAPSHOT}{_DELETED}"):
            _delete(directory, name, "it was scheduled for deletion", steps)
    swaps, undone = complete_swaps(every, _offset)
    for name in undone:
        _delete(directory, name, "the replacement that it belongs to was not complete", steps)
    for name in every:
        if name.endswith(_CLEANED):
            _delete(directory, name, "it is the unfinished work of the cleaner or of a split", steps)
    span = _range(directory, logs_of(swaps), config)
    if span is not None:
        why = f"a complete swap replaces the offsets from {span[0]} to {span[1] - 1}"
        for name in replaced_by(span, directory.names()):
            _delete(directory, name, why, steps)
    for name in (name for name in directory.names() if name.endswith(_SWAP)):
        new_name = name.removesuffix(_SWAP)
        directory.rename(name, new_name)
        steps.append(Step(RENAME, name, f"the swap is complete: it becomes {new_name}", size=directory.size(new_name)))


def _range(directory: PlannedPartition, logs: Iterable[str], config: LoadingSettings) -> Span | None:
    """Return the offsets that the .log.swap files stand for: the lowest base offset to the highest next offset."""
    size, search = config.segment_index_bytes, config.offset_search
    segments = [LoadedSegment(directory, _offset(name), size, _SWAP, search=search) for name in logs]
    if not segments:
        return None
    return min(segment.base_offset for segment in segments), max(segment.next_offset() for segment in segments)


def _offset(name: str) -> int:
    offset = offset_in_name(name)
    if offset is None:
        raise LoadError(NUMBER_FORMAT, f'For input string: "{name.partition(".")[0]}"', name)
    return offset


def _delete(directory: PlannedPartition, name: str, why: str, steps: list[Step]) -> None:
    directory.delete(name, why)
    steps.append(Step(DELETE, name, why))
