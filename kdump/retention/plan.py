"""From what retention does to partitions to plans that the executor carries out.

A partition's plan begins the new segment where one is needed, then removes segments from the oldest on, the .log before
its indexes, then cuts the leader epochs, and changes the log directory's checkpoints last: interrupted anywhere, the
log is one that starts a little earlier.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from kdump.change.plan import CHECKPOINT, REMOVE, Operation, Plan, make_plan
from kdump.errors import KdumpError, RefusedError
from kdump.formats import names
from kdump.formats.names import parse_file_name, segment_file_name
from kdump.recovery.loader import load_log
from kdump.recovery.startup import Startup
from kdump.retention.partition import PartitionRetention
from kdump.retention.policy import LOG_START, SIZE, TIME
from kdump.storage.checkpoint_files import read_leader_epochs
from kdump.storage.leader_epochs import EpochCache
from kdump.storage.recipe import NewContent, Recipe, SourceBytes

_WHY = {
    LOG_START: "it is below the log start offset",
    SIZE: "the log is larger than {size} without it",
    TIME: "its newest record is older than {time}",
}


def why_not_allowed(found: PartitionRetention) -> str | None:
    """Return why retention of a partition must not be applied from here; None where it may."""
    path = found.log.path
    if not found.has_work:
        return None
    if found.log.name is not None and not found.is_live:
        return f"{path}: this replica is being moved or deleted, or was set aside"
    if found.config.has_remote_storage:
        return f"{path}: the topic is tiered, and what of it has been copied to remote storage is not known here"
    if found.problems:
        return f"{found.problems[0]}. Repair it first"
    if found.doubts:
        return f"{path}: {found.doubts[0].sentences(path)}"
    if not found.config.is_known and any(reason != LOG_START for reason in found.reasons):
        return (
            f"{path}: kdump does not know this topic's retention, and Kafka's defaults may be wrong for it: give"
            " --config, or --retention-ms, --retention-bytes or --cleanup-policy"
        )
    return None


def check_allowed(found: PartitionRetention) -> None:
    """Raise RefusedError where retention of a partition must not be applied from here."""
    if why := why_not_allowed(found):
        raise RefusedError(why)


def partition_plan(found: PartitionRetention) -> Plan:
    """Return the plan that does to a partition directory what retention does.

    Raises OSError, and KdumpError where a new segment is needed and the log would not load without loss.
    """
    log = found.log
    gone = {file.name for state in found.going for file in state.files}
    wanted: dict[str, Recipe] = {
        name: SourceBytes(name, 0, os.lstat(os.path.join(log.path, name)).st_size)
        for name in log.files
        if name not in gone
    }
    reasons = {
        file.name: _WHY[reason].format(size=found.config.size_name, time=found.config.time_name)
        for state, reason in zip(found.going, found.reasons, strict=True)
        for file in state.files
    }
    if found.rolls:
        for name, recipe in _new_segment(found).items():
            wanted[name] = recipe
            reasons[name] = "no segment stays, so a new one is begun at the log end offset"
    epochs = _epochs(found)
    if epochs is not None:
        wanted[names.LEADER_EPOCH_CHECKPOINT] = NewContent(epochs, len(epochs))
        reasons[names.LEADER_EPOCH_CHECKPOINT] = f"the log starts at {found.new_log_start_offset}"
    plan = make_plan(os.path.abspath(log.path), wanted, reasons)
    # what has come into the directory since it was listed is nobody's to remove
    changes = (each for each in plan.operations if each.action != REMOVE or each.name in gone)
    return plan._replace(operations=(*sorted(changes, key=_order), *_checkpoints(found)))


def _checkpoints(found: PartitionRetention) -> Iterator[Operation]:
    for file, old, new in found.checkpoint_changes():
        if new is None:
            why = "the log starts where its first segment does, which needs no entry"
        else:
            why = f"the log starts at {found.new_log_start_offset}"
        yield Operation(CHECKPOINT, file, _offset(new), old_size=_offset(old), why=why)


def _offset(offset: int | None) -> int:
    return -1 if offset is None else offset


def _new_segment(found: PartitionRetention) -> Mapping[str, Recipe]:
    """Return the files of an empty segment at the log's end, with the state of the producers before it."""
    end = found.end_offset
    files: dict[str, Recipe] = {
        segment_file_name(end, f".{kind}"): NewContent(b"", 0)
        for kind in (names.LOG, names.OFFSET_INDEX, names.TIME_INDEX)
    }
    snapshot = segment_file_name(end, f".{names.PRODUCER_SNAPSHOT}")
    if snapshot in found.log.files:
        return files
    startup = Startup(found.now, *found.shutdown, found.previous_start, found.config.loading)
    outcome = load_log(found.log, startup)
    recipe = (outcome.files or {}).get(snapshot)
    if outcome.failure or outcome.loss.has_data or recipe is None:
        why = outcome.failure.text if outcome.failure else "a broker that starts would cut it"
        raise KdumpError(
            f"{found.log.path}: what producers did before offset {end} is not known: {why}. Repair it first"
        )
    return files | {snapshot: recipe}


def _epochs(found: PartitionRetention) -> bytes | None:
    """Return the leader epochs' checkpoint, cut at the new log start offset; None where it stays as it is."""
    if names.LEADER_EPOCH_CHECKPOINT not in found.log.files or not (found.reasons or found.moves_start):
        return None
    path = os.path.join(found.log.path, names.LEADER_EPOCH_CHECKPOINT)
    cache = EpochCache(read_leader_epochs(path))
    cache.truncate_from_start(found.new_log_start_offset)
    return cache.content() if cache.is_written else None


def _order(operation: Operation) -> tuple[int, int, int]:
    """Return the new segment, the old ones from the oldest on, what else there is."""
    parsed = parse_file_name(operation.name)
    if parsed.kind not in names.SEGMENT_KINDS or parsed.offset is None:
        return 2, 0, 0
    return int(operation.action == REMOVE), parsed.offset, names.SEGMENT_KINDS.index(parsed.kind)
