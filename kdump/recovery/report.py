"""What loading changes in the files beside the .log, told by comparing the directory before and after."""

from __future__ import annotations

from kdump.errors import CheckpointError, KdumpError
from kdump.formats import names
from kdump.formats.checkpoints import EpochEntry, parse_leader_epochs
from kdump.formats.index_entries import ENTRY_SIZES
from kdump.formats.names import parse_file_name
from kdump.formats.producer_snapshot import decode_producer_snapshot
from kdump.formats.words import listed
from kdump.recovery.outcome import CREATE, DELETE, TRIM, WRITE, Step
from kdump.storage.checkpoint_files import read_checkpoint
from kdump.storage.planned import PlannedPartition
from kdump.storage.recipe import Joined, NewContent, SourceBytes


def report_changes(directory: PlannedPartition, steps: list[Step]) -> None:
    """Add a step for every index, snapshot and epoch file that is not what it was. Raises OSError.

    What recovery writes only to delete it again, or writes as it was, is no change.
    """
    directory.settle()
    named = {step.file for step in steps if step.action in (CREATE, DELETE)}
    for name in sorted(set(directory.source) | set(directory.files)):
        if name in named:
            continue
        if not directory.exists(name):
            if parse_file_name(name).kind == names.PRODUCER_SNAPSHOT and name in directory.reasons:
                steps.append(Step(DELETE, name, directory.reasons[name]))
        elif directory.is_changed(name):
            step = _changed(directory, name)
            if step:
                steps.append(step)


def _changed(directory: PlannedPartition, name: str) -> Step | None:
    kind = parse_file_name(name).kind
    recipe = directory.files[name]
    if isinstance(recipe, Joined):
        return None
    if isinstance(recipe, SourceBytes):
        is_trimmed = kind in names.INDEX_KINDS and recipe.size < directory.source.get(recipe.name, 0)
        return Step(TRIM, name, "to complete entries", size=recipe.size) if is_trimmed else None
    if kind in ENTRY_SIZES:
        noun = "aborted transactions" if kind == names.TXN_INDEX else "entries"
        why = f"rebuilt from the log: {_counted(recipe.size // ENTRY_SIZES[kind], noun)}"
    elif kind == names.PRODUCER_SNAPSHOT:
        why = f"the producer state before offset {parse_file_name(name).offset}: {_producers(recipe)}"
    elif kind == names.LEADER_EPOCH_CHECKPOINT:
        why = _epochs(directory, recipe)
    else:
        return None
    return Step(WRITE, name, why, size=recipe.size)


def _producers(recipe: NewContent) -> str:
    try:
        return _counted(len(decode_producer_snapshot(recipe.data)), "producers")
    except KdumpError:
        return "unreadable, for an older and longer snapshot is not cut"


def _epochs(directory: PlannedPartition, recipe: NewContent) -> str:
    name = names.LEADER_EPOCH_CHECKPOINT
    after = parse_leader_epochs(recipe.data, name)
    if name not in directory.source:
        return f"missing: made with {_counted(len(after), 'epochs')}"
    try:
        before = parse_leader_epochs(read_checkpoint(directory.full(name)), name)
    except CheckpointError:
        return f"unreadable: rebuilt with {_counted(len(after), 'epochs')}"
    old, kept = set(before), set(after)
    gone = [entry for entry in before if entry not in kept]
    new = [entry for entry in after if entry not in old]
    parts = [f"{what} {_entries(entries)}" for what, entries in (("drops", gone), ("adds", new)) if entries]
    return "; ".join(parts) or "the same epochs, written again"


def _entries(entries: list[EpochEntry]) -> str:
    return listed([f"epoch {entry.epoch} from offset {entry.start_offset}" for entry in entries], 3)


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number != 1 else f"1 {noun[:-1] if noun != 'entries' else 'entry'}"
