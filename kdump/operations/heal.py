"""Heal a partition from other copies of it: what it lacks is taken from the first of them that has it valid."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from shlex import quote

from kdump.change.checkpoint_lines import within_log
from kdump.change.plan import CHECKPOINT, Operation, Plan, make_plan
from kdump.errors import RefusedError
from kdump.formats import names
from kdump.formats.checkpoints import format_leader_epochs
from kdump.formats.names import parse_file_name
from kdump.formats.words import byte_words, number_words, offset_words
from kdump.mend.replicas import Replicas
from kdump.mend.task import Task
from kdump.operations.heal_front import earlier_notes, front_notes, front_of, lowered_log_start
from kdump.operations.heal_sources import (
    Sources,
    check_may_have,
    check_not_cleaned,
    checkpoint_offset,
    newest_metadata,
    node_of,
    peer_of,
)
from kdump.recovery.loader import load_log
from kdump.recovery.outcome import LoadOutcome
from kdump.recovery.startup import Startup
from kdump.replication.heal import Healing, Peer, fitting_epochs, heal
from kdump.replication.healed_segments import Taken
from kdump.replication.proof import Unproved
from kdump.storage.open import check_has_kafka_files
from kdump.storage.partition import PartitionLog
from kdump.storage.planned import PlannedPartition
from kdump.topics.clusters import Clusters

_RANGES_NAMED, _RANGES_NOTED = 3, 10
"""How many of the ranges that a copy takes are named: for a segment, and for all of it."""


def plan_heal(
    log: PartitionLog,
    startup: Startup,
    sources: Sources,
    clusters: Clusters,
    log_start: int | None = None,
    *,
    unproved: bool = False,
) -> Task:
    """Plan to restore what a copy lacks. Raises RefusedError for copies that must not be taken from, OSError.

    With `unproved` also what nothing shows to be of this partition.

    Where no copy has what is missing, nothing is planned and the task's problems say what. `log_start` is where the log
    is to begin (absolute); None where its first segment begins, unless its files show that more was lost than deleted.
    """
    nothing = Task(log.path, Plan(log.path, (), {}))
    if log.name is not None and log.name.topic == names.CLUSTER_METADATA_TOPIC:
        return nothing  # the quorum sends a node what it lacks
    check_has_kafka_files(log)
    peers = [peer_of(log, other) for other in sources.of(log)]
    if not peers:
        return nothing
    metadata = newest_metadata(log, peers, clusters)
    replicas = check_may_have(log, peers, clusters, metadata)
    copies = (log, *(peer.log for peer in peers))
    cleaned = max(0, *(checkpoint_offset(each, names.CLEANER_CHECKPOINT) for each in copies))
    if log.segments:
        peers = [replace(peer, start=cleaned) for peer in peers]
    front = front_of(log, startup, log.known_epochs, log_start, cleaned)
    healing = heal(log, peers, log.known_epochs, has_gaps=cleaned > 0, start=front.start if front else None)
    check_not_cleaned(healing, cleaned)
    if healing.lacking and (healing.taken or healing.first_damaged is not None):
        return Task(log.path, None, problems=tuple(_lacking(log, healing)))
    if healing.unproved and not unproved:
        raise RefusedError(_unproved_words(log, healing.unproved[0]))
    settings = clusters.of(metadata).settings()
    before = tuple(earlier_notes(log, healing, settings.of(log.name.topic if log.name else "")))
    if not healing.taken:
        return nothing._replace(notes=before)
    outcome = _loaded(log, startup, peers, healing)
    if outcome.files is None:
        return Task(log.path, None, outcome=outcome)
    plan = make_plan(log.path, outcome.files, _reasons(healing))
    parsed = [parse_file_name(each.name) for each in plan.operations]
    changed = {each.offset for each in parsed if each.is_live_log}
    operations = [each for each in plan.operations if _concerns(each, changed)]
    operations = [*_checkpoints(log, peers, healing), *lowered_log_start(log, log_start, healing), *operations]
    recipes = {each.name: plan.recipes[each.name] for each in operations if each.name in plan.recipes}
    extent = outcome.log_start_offset, outcome.log_end_offset
    notes = (*front_notes(log, front, healing), *_notes(healing), *before, *_not_in_sync(peers, healing, replicas))
    plan = Plan(log.path, tuple(operations), recipes)
    return Task(log.path, plan, extent, outcome=outcome, notes=notes)


# --- what comes of it ------------------------------------------------------------------------------------------------


def _loaded(log: PartitionLog, startup: Startup, peers: Sequence[Peer], healing: Healing) -> LoadOutcome:
    """Return the copy with what it takes, as brokers load it after an unclean shutdown: with indexes and a snapshot."""
    directory = PlannedPartition(log)
    first = min(segment.base_offset for segment in healing.segments)
    for segment in healing.segments:
        directory.put(segment.name, segment.recipe)
        for kind in (names.OFFSET_INDEX, names.TIME_INDEX, names.TXN_INDEX):
            directory.delete(names.segment_file_name(segment.base_offset, f".{kind}"), "")
    for base in healing.gone:
        for kind in (names.LOG, *names.INDEX_KINDS):
            directory.delete(names.segment_file_name(base, f".{kind}"), "has no valid batch")
    for name, parsed in log.files.items():
        if parsed.kind == names.PRODUCER_SNAPSHOT and parsed.offset is not None and parsed.offset > first:
            directory.delete(name, "made before records were restored")
    epochs = fitting_epochs(log.known_epochs, [peer.log.known_epochs for peer in peers], healing)
    directory.write(names.LEADER_EPOCH_CHECKPOINT, format_leader_epochs(epochs))
    if log.metadata is None:
        topic_ids = (peer.log for peer in peers if peer.log.metadata)
        source = next(topic_ids, None)
        if source is not None:
            directory.write(names.PARTITION_METADATA, PlannedPartition(source).read(names.PARTITION_METADATA))
    point = first if startup.clean else min(first, startup.recovery_point)
    outcome = load_log(log, startup._replace(clean=False, recovery_point=point), directory)
    if outcome.ok and (outcome.loss.batches or outcome.log_end_offset != healing.end):
        raise RefusedError(
            f"{log.path}: with what the other copies have, the log still ends at offset {outcome.log_end_offset}, not"
            f" {healing.end}. "
        )
    return outcome


def _concerns(operation: Operation, changed: set[int | None]) -> bool:
    """Return whether an operation belongs to a heal: the rest is what a broker does at any start."""
    parsed = parse_file_name(operation.name)
    if parsed.kind in (names.LOG, *names.INDEX_KINDS):
        return parsed.offset in changed
    return parsed.kind in (names.PRODUCER_SNAPSHOT, names.LEADER_EPOCH_CHECKPOINT, names.PARTITION_METADATA)


def _checkpoints(log: PartitionLog, peers: Sequence[Peer], healing: Healing) -> Iterator[Operation]:
    """Yield what the checkpoints are to say: nothing beyond the log, and a high watermark of its history."""
    mark = _high_watermark(log, peers, healing)
    yield from (each for each in within_log(log.path, healing.end) if mark is None or each.name != mark.name)
    if mark is not None:
        yield mark
    start = max(checkpoint_offset(peer.log, names.LOG_START_CHECKPOINT) for peer in peers)
    if not log.segments and start > healing.start:
        why = f"the log start offset of the other copy, {start}"
        yield Operation(CHECKPOINT, names.LOG_START_CHECKPOINT, start, old_size=-1, why=why)


def _high_watermark(log: PartitionLog, peers: Sequence[Peer], healing: Healing) -> Operation | None:
    """Return the change to the other copies' high watermark; None where the copy's own entry stays.

    What a copy without any segment says was that of records that are gone, perhaps of another history.
    """
    taken = {os.path.realpath(each.path) for each in healing.taken}
    used = [peer.log for peer in peers if log.segments or os.path.realpath(peer.log.path) in taken]
    mark = min(max((checkpoint_offset(each, names.REPLICATION_CHECKPOINT) for each in used), default=-1), healing.end)
    own = checkpoint_offset(log, names.REPLICATION_CHECKPOINT)
    if own < 0 <= mark or (not log.segments and own > max(mark, 0)):
        why = f"the high watermark of the other copy, {max(mark, 0)}"
        return Operation(CHECKPOINT, names.REPLICATION_CHECKPOINT, max(mark, 0), old_size=own, why=why)
    return None


def _reasons(healing: Healing) -> dict[str, str]:
    """Return why each .log changes."""
    found: dict[str, str] = {}
    bases = [segment.base_offset for segment in healing.segments]
    for number, segment in enumerate(healing.segments):
        stop = bases[number + 1] if number + 1 < len(bases) else None
        taken = [
            each._replace(
                first=max(each.first, segment.base_offset), last=each.last if stop is None else min(each.last, stop - 1)
            )
            for each in healing.taken
            if each.last >= segment.base_offset and (stop is None or each.first < stop)
        ]
        found[segment.name] = ", ".join(map(_words, taken[:_RANGES_NAMED])) + (
            " and more" if len(taken) > _RANGES_NAMED else ""
        )
    return found


def _words(taken: Taken) -> str:
    return f"{offset_words(taken.first, taken.last)} from {taken.path}"


def _notes(healing: Healing) -> tuple[str, ...]:
    notes = [
        f"takes {offset_words(each.first, each.last)} ({number_words(each.records, 'record')}, {byte_words(each.size)})"
        f" from {each.path}"
        for each in healing.taken[:_RANGES_NOTED]
    ]
    if len(healing.taken) > _RANGES_NOTED:
        notes.append(f"takes {len(healing.taken) - _RANGES_NOTED} more ranges")
    if healing.diverged is not None:
        at = healing.diverged
        notes.append(
            f"from offset {at.offset} on this copy has records of leader epoch {at.epoch}, the other of"
            f" {at.other_epoch}: left as they are; this broker cuts them when it follows"
        )
    if healing.last_damaged is not None:
        notes.append(
            f"damaged batches up to offset {healing.last_damaged} are valid in none of these copies: the log ends"
            " before them, and the leader sends what it has of them"
        )
    return tuple(notes)


def _not_in_sync(peers: Sequence[Peer], healing: Healing, replicas: Replicas | None) -> Iterator[str]:
    """Say of which copies the end may be cut again, by the cluster's metadata."""
    if replicas is None:
        return
    taken = {os.path.realpath(each.path) for each in healing.taken}
    for peer in peers:
        broker = node_of(peer.log)
        if os.path.realpath(peer.log.path) in taken and broker not in (None, *replicas.in_sync):
            yield (
                f"broker {broker}, from which it is taken, is not in sync by the cluster metadata: if its last"
                " records are those of a former leader, this broker cuts them again when it follows"
            )


def _unproved_words(log: PartitionLog, unproved: Unproved) -> str:
    offsets = offset_words(unproved.first, unproved.last)
    return (
        f"{log.path}: nothing shows that {offsets} of {unproved.path} are records of this partition: {unproved.why}."
        f" See kdump replicas {quote(log.path)} {quote(unproved.path)}. If you know that it is a copy of this"
        " partition, add --unproved"
    )


def _lacking(log: PartitionLog, healing: Healing) -> Iterator[str]:
    for first, last in healing.lacking[:10]:
        yield (
            f"{log.path}: none of these copies has a valid batch for {offset_words(first, last)}: give another one with"
            " --from, or see what kdump repair without --from offers"
        )
