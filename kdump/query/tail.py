"""Where the last records of a partition begin."""

from __future__ import annotations

from collections import deque

from kdump.query.selection import Selection
from kdump.query.sweep import Selected, Sweep
from kdump.storage.facts import log_end_offset
from kdump.storage.partition import PartitionLog

_WIDER = 4


def tail_selection(log: PartitionLog, selection: Selection, count: int, *, batches_only: bool, limit: int) -> Selection:
    """Return the selection that begins with the last `count` of what it selects, or with all where there are fewer.

    Raises OSError.
    """
    first = selection.start_offset or (log.segments[0].base_offset if log.segments else 0)
    stop = min(log_end_offset(log), selection.stop_offset or 1 << 63)
    if not count:
        return selection._replace(start_offset=max(stop, first))
    span = count
    while True:
        start = max(first, stop - span)
        wanted = selection._replace(start_offset=start)
        found = _last_offsets(log, wanted, count, batches_only=batches_only, limit=limit)
        if len(found) == count or start <= first:
            return selection._replace(start_offset=found[0] if found else start)
        span *= _WIDER


def _last_offsets(
    log: PartitionLog, selection: Selection, count: int, *, batches_only: bool, limit: int
) -> deque[int]:
    """Return the offsets of the last records that are selected, or those with which their batches begin."""
    found: deque[int] = deque(maxlen=count)
    for segment in selection.segments(log):
        with segment.open_log() as file:
            start = selection.start(segment, file)
            for event in Sweep(segment, file, selection, start, batches_only=batches_only, limit=limit):
                if not isinstance(event, Selected):
                    continue
                if batches_only:
                    if event.starts:
                        found.append(event.block.base_offset[event.row])
                else:
                    found.extend(span[0] for span in event.spans())
    return found
