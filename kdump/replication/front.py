"""Whether the first segments of a log were lost or deleted by right: retention and DeleteRecords leave other traces.

They cut leader-epoch-checkpoint at the new log start (LeaderEpochFileCache.truncateFromStart) and rename all files of a
segment together. A .snapshot below the first segment tells nothing: real brokers leave some there. Nor does a
log-start-offset-checkpoint of a broker that was killed: it is written once a minute, and at an orderly stop.
Once a broker has started on what is left, it has cut the epochs itself, and nothing tells the two apart any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kdump.formats import names
from kdump.formats.checkpoints import EpochEntry
from kdump.formats.names import LIVE
from kdump.storage.partition import PartitionLog

_BY_EPOCHS = f"{names.LEADER_EPOCH_CHECKPOINT} begins there"
_BY_LOG_START = f"{names.LOG_START_CHECKPOINT} has it, written as the broker stopped"


class LostFront(NamedTuple):
    """Segments before a log's first one that were lost: the log began at offset `start` (absolute), by what `shows`."""

    start: int
    shows: str


def lost_front(
    log: PartitionLog, epochs: Sequence[EpochEntry], log_start: int, *, clean: bool
) -> LostFront | None:
    """Return where a log began whose first segments were lost; None where nothing shows that.

    `epochs` are those of its file, `log_start` is what the checkpoint has for it (0: nothing), `clean` how its broker
    stopped. Not for a tiered topic, whose first segments are elsewhere. Raises OSError.
    """
    if not log.segments:
        return None
    first = log.segments[0].base_offset
    candidates = [LostFront(entry.start_offset, _BY_EPOCHS) for entry in epochs[:1]]
    candidates += [LostFront(base, f"{name} is left of it") for base, name in _left_behind(log, first)]
    if clean and log_start > 0:
        candidates.append(LostFront(log_start, _BY_LOG_START))
    found = min(candidates, key=lambda each: each.start, default=None)
    if found is None or max(found.start, log_start) >= first:
        return None
    return found._replace(start=max(found.start, log_start))


def _left_behind(log: PartitionLog, first: int) -> list[tuple[int, str]]:
    """Return index files below the first segment, but for those of a segment that a broker is deleting."""
    deleted = {parsed.offset for parsed in log.files.values() if parsed.state == names.DELETED}
    return [
        (parsed.offset, name)
        for name, parsed in log.files.items()
        if parsed.offset is not None
        and parsed.offset < first
        and parsed.offset not in deleted
        and parsed.state == LIVE
        and parsed.kind in names.INDEX_KINDS
    ]
