"""What a heal does about segments that are missing before a log's first one: lost, or deleted by right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kdump.change.plan import CHECKPOINT, Operation
from kdump.errors import ConfigError
from kdump.formats import names
from kdump.formats.checkpoints import EpochEntry
from kdump.formats.words import offset_words
from kdump.operations.heal_sources import checkpoint_offset, cleaned_apart
from kdump.recovery.startup import Startup
from kdump.replication.front import LostFront, lost_front
from kdump.replication.heal import Healing
from kdump.settings.sources import TopicSettings
from kdump.settings.table import CLEANUP_POLICY, DELETE, NO_LIMIT, RETENTION_BYTES, RETENTION_MS
from kdump.storage.partition import PartitionLog


def front_of(
    log: PartitionLog, startup: Startup, epochs: Sequence[EpochEntry], chosen: int | None, cleaned: int
) -> LostFront | None:
    """Return where a log begins before its first segment: where that was `chosen` (absolute), or its files show it.

    `epochs` are those of its file; below `cleaned` a cleaner has been. Raises RefusedError where nothing can be put
    before the first segment, OSError.
    """
    if not log.segments:
        return None
    first = log.segments[0].base_offset
    if chosen is not None:
        front = LostFront(chosen, "") if chosen < first else None
    elif startup.config.has_remote_storage:
        return None  # the first segments are in remote storage
    else:
        front = lost_front(log, epochs, max(0, checkpoint_offset(log, names.LOG_START_CHECKPOINT)), clean=startup.clean)
    if front is not None and front.start < cleaned:
        raise cleaned_apart(cleaned, f"what is before offset {first} is missing here")
    return front


def front_notes(log: PartitionLog, front: LostFront | None, healing: Healing) -> Iterator[str]:
    """Say why the log begins before its first segment now."""
    if front is not None and front.shows and healing.start < log.segments[0].base_offset:
        lost = offset_words(healing.start, log.segments[0].base_offset - 1)
        yield f"lost, not deleted by retention: {lost} ({front.shows})"


def earlier_notes(log: PartitionLog, healing: Healing, settings: TopicSettings) -> Iterator[str]:
    """Say that another copy has more at its beginning, which cannot be told from what is deleted by right."""
    if not log.segments or healing.before is None:
        return
    kept = ", though by its topic's settings retention deletes nothing" if _keeps_all(settings) else ""
    yield (
        f"this copy begins at offset {healing.start}, the other one has offsets from {healing.before} on. The files"
        f" show no loss, so retention or DeleteRecords deleted them here{kept}. If they were lost, this takes them too:"
        f" --log-start-offset {healing.before}"
    )


def lowered_log_start(log: PartitionLog, chosen: int | None, healing: Healing) -> Iterator[Operation]:
    """Yield what sets the log start offset of the checkpoint to one that was chosen below it."""
    old = checkpoint_offset(log, names.LOG_START_CHECKPOINT)
    if chosen is not None and max(chosen, healing.start) < old and log.segments:
        start = max(chosen, healing.start)
        yield Operation(CHECKPOINT, names.LOG_START_CHECKPOINT, start, old_size=old, why="the log starts there again")


def _keeps_all(settings: TopicSettings) -> bool:
    try:
        policy = settings.own(CLEANUP_POLICY)
        limits = settings.own(RETENTION_MS), settings.own(RETENTION_BYTES)
    except ConfigError:
        return False
    return (policy is not None and DELETE not in policy) or (limits[0] == NO_LIMIT and limits[1] in (None, NO_LIMIT))
