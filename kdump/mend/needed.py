"""The part of a plan that repairs something: what is sound stays, and a broker's routine is left to the broker.

The loading that plans are made from leaves every file as a broker would leave it. Of that a repair keeps

- what changes a .log, and what follows from that: the indexes of the segment, the transaction indexes of those after it
  (with a marker that is gone, a transaction stays open behind them), snapshots, leader epochs;
- files beside a .log in which verification finds something;
- what goes because its name is no offset, over which loading fails;
- a leader-epoch-checkpoint that is missing and that recovery builds from the batches: at every start of the metadata
  log, and of other logs after an unclean shutdown;
- after an unclean shutdown also what a broker does at its start anyway (it trims preallocated indexes, writes a
  snapshot, removes leftovers), but not new content for the sound index of a closed segment: old releases, followers and
  the cleaner write other entries than a rebuild, and theirs are as good. Nor for any sound transaction index: what a
  start writes into it depends on the snapshots that an earlier start has left.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping

from kdump.change.plan import REPLACE, TRUNCATE, Operation, Plan
from kdump.disk.reading import ReadOnlyFile
from kdump.formats import names
from kdump.formats.checkpoints import format_leader_epochs
from kdump.formats.names import parse_file_name
from kdump.formats.producer_snapshot import stray_offsets
from kdump.mend.survey import Survey
from kdump.storage.damage import only_zeros
from kdump.storage.partition import PartitionLog
from kdump.storage.recipe import Recipe

_FOLLOWS_FROM_LOGS = (names.PRODUCER_SNAPSHOT, names.LEADER_EPOCH_CHECKPOINT)


_NO_EPOCHS = len(format_leader_epochs(()))
"""Bytes of a leader-epoch-checkpoint without entries."""


def builds_epochs(log: PartitionLog, files: Mapping[str, Recipe]) -> bool:
    """Return whether the leader-epoch-checkpoint is missing, and loading leaves these `files` with one from batches."""
    name = names.LEADER_EPOCH_CHECKPOINT
    return name not in log.files and name in files and files[name].size > _NO_EPOCHS


def needed(plan: Plan, log: PartitionLog, found: Survey, *, clean: bool) -> Plan:
    """Return the operations of a plan that repair what verification has `found`; `clean` is how the broker stopped."""
    operations = plan.operations
    if not log.segments:  # a broker gives an empty log its first segment at every start: there is nothing to repair
        operations = tuple(each for each in operations if parse_file_name(each.source or each.name).state == names.SWAP)
    changed = {base for operation in operations for base in _changed_segments(operation)}
    strays = _strays(plan, log) | found.noted
    may_be_routine = (log.segments or changed) and not clean
    wanted = (
        operation
        for operation in plan.operations
        if (may_be_routine and _is_routine(operation, log, found, strays)) or _is_repair(operation, found, changed)
    )
    return plan._replace(operations=tuple(wanted))


def _changed_segments(operation: Operation) -> list[int]:
    """Return the base offsets of the segments whose .log an operation changes."""
    return [
        parsed.offset
        for parsed in map(parse_file_name, (operation.name, operation.source))
        if parsed.kind == names.LOG and parsed.state in (names.LIVE, names.SWAP) and parsed.offset is not None
    ]


def _is_repair(operation: Operation, found: Survey, changed: Collection[int]) -> bool:
    parsed = parse_file_name(operation.name)
    if parsed.offset is None and (parsed.kind in names.SEGMENT_KINDS or parsed.state in (names.CLEANED, names.SWAP)):
        return True  # a name that is no offset: no broker starts with it
    if operation.name in found.unsound | found.leftovers or operation.source in found.leftovers:
        return True
    if parsed.kind == names.TXN_INDEX and parsed.offset is not None and parsed.state == names.LIVE and changed:
        return parsed.offset >= min(changed)
    if parsed.kind in (names.LOG, *names.INDEX_KINDS) and parsed.state in (names.LIVE, names.SWAP):
        return parsed.offset in changed
    if operation.name == names.LEADER_EPOCH_CHECKPOINT and operation.old_size < 0 and operation.size > _NO_EPOCHS:
        return True
    if parsed.kind in _FOLLOWS_FROM_LOGS:
        has_unsound = any(parse_file_name(name).kind == parsed.kind for name in found.unsound)
        return bool(changed) or (parsed.kind == names.PRODUCER_SNAPSHOT and has_unsound)
    return parsed.kind == names.PARTITION_METADATA


def _strays(plan: Plan, log: PartitionLog) -> frozenset[str]:
    """Return the snapshots that are out of place beside the new ones of a plan: one may be the newest no more."""
    new = {operation.name: parse_file_name(operation.name) for operation in plan.operations if operation.old_size < 0}
    snapshots = names.producer_snapshots({**log.files, **new})
    bases = {segment.base_offset for segment in log.segments}
    return frozenset(snapshots[offset] for offset in stray_offsets(snapshots, bases))


def _is_routine(operation: Operation, log: PartitionLog, found: Survey, strays: Collection[str]) -> bool:
    """Return whether a broker does this at a start after an unclean shutdown, and nothing sound is written over.

    `strays` are snapshots that a broker deletes or makes again: out of place, or empty.
    """
    parsed = parse_file_name(operation.name)
    if parsed.kind == names.LEADER_EPOCH_CHECKPOINT:
        return False
    if parsed.kind == names.PRODUCER_SNAPSHOT and not parsed.state:
        return operation.old_size < 0 or operation.name in strays
    is_last = bool(log.segments) and parsed.offset == log.segments[-1].base_offset
    is_preallocated = is_last and parsed.kind != names.TXN_INDEX
    is_sound_index = parsed.kind in names.INDEX_KINDS and operation.name not in found.unsound and not is_preallocated
    return not (is_sound_index and _drops_entries(operation, log))


def _drops_entries(operation: Operation, log: PartitionLog) -> bool:
    """Return whether a file loses more than the zeros that a broker preallocated."""
    if operation.action == TRUNCATE:
        with ReadOnlyFile(os.path.join(log.path, operation.name)) as file:
            return not only_zeros(file, operation.size, operation.old_size)
    return operation.action == REPLACE and operation.old_size >= 0
