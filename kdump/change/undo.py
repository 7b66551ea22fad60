"""Take changes back: one that is done by a change of its own, one that was interrupted by going its steps backwards.

Both are refused where anything in the partition is not what the change left: a record that came since would be gone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from kdump.change import journal
from kdump.change.apply import Draft, carry_out, discard, end_offset
from kdump.change.change import Change, ChangeState, Step
from kdump.change.checkpoint_lines import put_offset
from kdump.change.checks import (
    SPARE_BYTES,
    check_changeable,
    check_own,
    check_room,
    check_unchanged,
    check_writable,
    differences,
    inode_of,
    source_before,
)
from kdump.change.place import ChangeFiles, at_work, new_change
from kdump.change.plan import CHECKPOINT, REMOVE, RENAME, REPLACE, TRUNCATE, Operation, Plan
from kdump.change.states import FileState, digest_of, file_differences, offset_difference, state_of
from kdump.disk import durable
from kdump.disk.reading import is_directory, is_named
from kdump.errors import RefusedError
from kdump.storage.planned import content_of
from kdump.storage.recipe import Recipe, SourceBytes, joined

_SHOWN = 3


class Verdict(StrEnum):
    """What can be done about a change."""

    CAN_BE_UNDONE = "can be undone"
    INTERRUPTED = "INTERRUPTED"
    GROWN = "log has grown"
    CHANGED = "files have changed"
    GONE = "partition is gone"
    UNREADABLE = "partition cannot be read"
    NOT_KEPT = "originals not kept"
    UNDONE = "undone"
    CLOSED = "closed"


class Judged(NamedTuple):
    """A verdict, and why a change cannot be undone ("": it can)."""

    verdict: Verdict
    why: str = ""


def judge(change: Change, *, thorough: bool = False) -> Judged:
    """Return whether a change can be taken back. Raises OSError.

    `thorough` reads the files that it made as well: without that, sizes and times of files tell.
    """
    name = os.path.basename(change.path)
    if change.state == ChangeState.UNDONE:
        return Judged(Verdict.UNDONE, f"{name}: change {change.id} is undone already")
    if change.state == ChangeState.CLOSED:
        return Judged(Verdict.CLOSED, f"{name}: change {change.id} was interrupted and closed; its originals are kept")
    if not is_directory(change.path):
        return Judged(Verdict.GONE, f"{name} is not in {os.path.dirname(change.path)} any more")
    if not change.keeps_old:
        return Judged(Verdict.NOT_KEPT, f"{name}: change {change.id} kept no originals")
    if change.state == ChangeState.INTERRUPTED:
        found = list(differences(change))
        return Judged(Verdict.INTERRUPTED, _changed_since(change, found) if found else "")
    if not all(is_named(change.file(step.kept)) for step in change.steps if step.kept):
        return Judged(Verdict.NOT_KEPT, f"{name}: the originals of change {change.id} do not exist any more")
    return _judge_files(change, thorough)


def _judge_files(change: Change, thorough: bool) -> Judged:
    assert change.after is not None
    now = state_of(change.path)
    found = list(file_differences(now.files, {file: [state] for file, state in change.after.files.items()}))
    end, was = end_offset(change.path) if found else None, change.log_end_offset
    if end is not None and was is not None and end > was:
        lost = f"{was} to {end - 1}" if end - 1 > was else str(was)
        return Judged(
            Verdict.GROWN,
            f"{os.path.basename(change.path)} has changed since change {change.id}: the log end offset was {was}, it is"
            f" {end} now. Undo would drop offsets {lost}",
        )
    for file in sorted({*now.offsets, *change.after.offsets}):
        if difference := offset_difference(file, now.offsets.get(file, -1), {change.after.offsets.get(file, -1)}):
            found.append(difference)
    if now.was_clean and not change.before.was_clean:
        found.append("a broker has run and was stopped since (.kafka_cleanshutdown)")
    if thorough and not found:
        found += [
            f"{file} has other content"
            for file, digest in change.digests.items()
            if digest_of(os.path.join(change.path, file)) != digest
        ]
    return Judged(Verdict.CHANGED, _changed_since(change, found)) if found else Judged(Verdict.CAN_BE_UNDONE)


def _changed_since(change: Change, found: list[str]) -> str:
    more = f"; {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return f"{os.path.basename(change.path)} has changed since change {change.id}: {'; '.join(found[:_SHOWN])}{more}"


def undo(change: Change, files: ChangeFiles | None = None) -> Change | None:
    """Take a change back; the change that did it, None for one that was interrupted, of which nothing remains.

    `files` are those of the new change. What it replaces is kept as by any other. Raises OSError, and RefusedError,
    with nothing changed, where the partition is not what the change left.
    """
    judged = judge(change, thorough=True)
    if judged.why:
        raise RefusedError(judged.why)
    if change.state == ChangeState.INTERRUPTED:
        roll_back(change)
        _remove_made(change)
        return None
    check_own(change)
    drafts = list(undo_drafts(change))
    check_changeable(Plan(change.path, tuple(draft.operation for draft in drafts), {}))
    files = files or new_change(change.path)
    check_room(SPARE_BYTES + sum(draft.recipe.size for draft in drafts if draft.recipe), files.directory)
    done = carry_out(change.path, drafts, files, command=f"undo {change.id}", undoes=change.id)
    _remove_made(change)
    return done


def _remove_made(change: Change) -> None:
    """Remove the partition directory that a change made, once it is taken back and nothing else is in it."""
    if change.made_directory:
        with at_work(change.path):
            durable.remove_empty_directory(change.path)


def undo_drafts(change: Change) -> Iterator[Draft]:
    """Yield the operations that take back a change that is done: its own backwards, each as safe as before.

    Raises OSError.
    """
    why = f"as before change {change.id}"
    for step in reversed(change.steps):
        operation = step.operation
        name, inode = operation.name, max(0, inode_of(os.path.join(change.path, operation.name)))
        kept = change.file(step.kept) if step.kept else ""
        if operation.action == CHECKPOINT:
            yield Draft(Operation(CHECKPOINT, name, operation.old_size, old_size=operation.size, why=why))
        elif operation.action == TRUNCATE:
            recipe = _whole(operation, kept)
            back = Operation(REPLACE, name, recipe.size, inode, operation.size, why=why)
            yield Draft(back, recipe=recipe, modified=_before(change, step).modified)
        elif operation.action == RENAME:
            yield Draft(Operation(RENAME, operation.source, operation.size, inode, source=name, why=why))
        elif operation.action == REPLACE and not kept:
            yield Draft(Operation(REMOVE, name, 0, inode, operation.size, why=why))
        if kept and operation.action not in (CHECKPOINT, TRUNCATE):
            old_size = operation.size if operation.action == REPLACE else -1
            back = Operation(REPLACE, name, os.lstat(kept).st_size, inode, old_size, why=why)
            yield Draft(back, source=kept)


def _whole(operation: Operation, kept: str) -> Recipe:
    """Return what a file was before its end was cut off, which is kept. Raises OSError."""
    return joined((SourceBytes(operation.name, 0, operation.size), SourceBytes(kept, 0, os.path.getsize(kept))))


def _before(change: Change, step: Step) -> FileState:
    """Return what a file was that a step cut; an earlier step may have renamed it."""
    return change.before.files[source_before((each.operation for each in change.steps), step.operation.name)]


# --- an interrupted change -------------------------------------------------------------------------------------------


def roll_back(change: Change) -> None:
    """Go the steps of an interrupted change backwards; nothing of it remains. It may be repeated.

    Raises OSError, and RefusedError, with nothing changed, where a file is neither what it was nor what it is to be.
    """
    check_unchanged(change)
    check_own(change)
    with at_work(change.path, *change.directories()):
        check_writable(change.path)
        for step in reversed(change.steps):
            _take_back(change, step)
        durable.sync_directory(change.path)
        durable.sync_directory(change.files.directory)
        discard(journal.ended(change, ChangeState.UNDONE).files, change.path)


def _take_back(change: Change, step: Step) -> None:
    """Take one step back, or nothing where it was not done."""
    operation = step.operation
    target = os.path.join(change.path, operation.name)
    kept = change.file(step.kept) if step.kept else ""
    if operation.action == CHECKPOINT:
        put_offset(change.path, operation.name, operation.old_size)
    elif operation.action == TRUNCATE:
        if os.lstat(target).st_size == operation.size:
            _regrow(change, step, target, kept)
    elif operation.action == REMOVE:
        if is_named(kept):
            durable.move(kept, target)
    elif operation.action == REPLACE:
        _move_back(target, change.file(step.staged), kept)
    else:
        source = os.path.join(change.path, operation.source)
        if inode_of(source) in (-1, inode_of(target)):
            _move_back(target, source, kept)


def _move_back(target: str, source: str, kept: str) -> None:
    """Give what was put at `target` its place `source` back, and what was kept of the old file that of the new."""
    if not is_named(source) and not kept:
        durable.move(target, source)
    elif not is_named(source):
        durable.keep(target, source)
        durable.sync_directory(os.path.dirname(source))
    if not kept or not is_named(kept):
        return
    if inode_of(kept) == inode_of(target):  # it was about to be replaced
        durable.remove_file(kept)
    else:
        durable.move(kept, target)


def _regrow(change: Change, step: Step, target: str, kept: str) -> None:
    """Put the end of a file back that was cut off."""
    pieces = content_of(change.path, _whole(step.operation, kept), durable.OwnFile)
    modified = _before(change, step).modified
    durable.write_file(target, pieces, os.lstat(target), modified, part=f"{kept}~whole")


def close(change: Change) -> Change:
    """End an interrupted change as things are: the partition is not touched, and what was kept stays kept.

    Raises OSError.
    """
    present = {entry.inode() for entry in os.scandir(change.path)} if is_directory(change.path) else set()
    with at_work(change.path, change.files.directory):
        for step in change.steps:
            staged, kept = (change.file(each) if each else "" for each in (step.staged, step.kept))
            if step.staged.startswith(change.files.prefix) and is_named(staged):
                durable.remove_file(staged)
            if step.kept.startswith(change.files.prefix) and inode_of(kept) in present:
                durable.remove_file(kept)
        return journal.ended(change, ChangeState.CLOSED)


def prune(change: Change) -> None:
    """Delete the originals of a change that is not interrupted, and its journal. Raises OSError."""
    assert change.state != ChangeState.INTERRUPTED
    discard(change.files, change.path)
