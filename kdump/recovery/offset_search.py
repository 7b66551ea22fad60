"""The search for an offset in a log, as each release does it (FileRecords.searchForOffset…).

Up to 3.9 it looks at last offsets alone; 4.0 then reads the first offset of what it found; from 4.1 on it compares
first offsets. That of a v0 or v1 wrapper is in its payload: where that cannot be read the search fails.
"""

from __future__ import annotations

from collections.abc import Iterator

from kdump.blocks import BatchBlock
from kdump.errors import (
    CORRUPT_RECORD,
    ILLEGAL_ARGUMENT,
    INVALID_RECORD,
    KAFKA,
    CodecError,
    CorruptRecordError,
    KdumpError,
    LoadError,
    UnknownCodecError,
)
from kdump.settings.loading import OffsetSearch
from kdump.storage.planned_log import LogView

_EXCEPTIONS = (
    (UnknownCodecError, ILLEGAL_ARGUMENT),
    (CodecError, KAFKA),
    (CorruptRecordError, CORRUPT_RECORD),
)


def find(log: LogView, offset: int, position: int, search: OffsetSearch) -> int | None:
    """Find where, from byte `position` on, the batch starts that has `offset`, or else the first one behind it.

    None where there is none. Raises LoadError where Kafka's reader fails.
    """
    if search is OffsetSearch.BY_FIRST:
        return _find_by_first(log, offset, position)
    found = log.find(offset, position)
    if search is OffsetSearch.BY_LAST_READING_FOUND and found is not None:
        _first_offset(log, next(log.blocks(found)), 0)
    return found


def _find_by_first(log: LogView, offset: int, position: int) -> int | None:
    before: tuple[int, int] | None = None  # position and last offset of the batch before
    for block in log.blocks(position):
        for row, base in _reaching(log, block, offset):
            if row:
                before = block.position[row - 1], block.last_offset[row - 1]
            is_before = base > offset and before is not None and before[1] >= offset
            return before[0] if is_before and before else block.position[row]
        if block.length:
            before = block.position[block.length - 1], block.last_offset[block.length - 1]
        log.check_end(block)
    return before[0] if before and before[1] >= offset else None


def _reaching(log: LogView, block: BatchBlock, offset: int) -> Iterator[tuple[int, int]]:
    """Yield the rows whose first offsets are not below `offset`, with these."""
    bases = block.base_offset[: block.length]
    has_wrappers = block.length > 0 and min(block.magic[: block.length]) < 2
    if not has_wrappers and (not bases or max(bases) < offset):
        return
    for row, known in enumerate(bases):
        base = _first_offset(log, block, row) if has_wrappers else known
        if base >= offset:
            yield row, base


def _first_offset(log: LogView, block: BatchBlock, row: int) -> int:
    if block.magic[row] >= 2 or block.count[row] >= 0:
        return block.base_offset[row]
    from kdump.storage.decoded import first_offset

    held, at = log.held(block, row)
    try:
        return first_offset(held, at)
    except KdumpError as error:
        exception = next((name for kind, name in _EXCEPTIONS if isinstance(error, kind)), INVALID_RECORD)
        raise LoadError(exception, str(error), log.name) from None
