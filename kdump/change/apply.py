"""Apply a plan so that a kill at any instant loses nothing, and the next run finishes the job.

First everything new is written beside the data and put on the disk, and what will be cut off is copied; then the
journal is put in place. From then on the change can be finished, or taken back, from its own files alone: each of its
steps is a rename, a removal or a cut, and what goes is renamed, so that nothing that is kept is a file that somebody
may write to. A change without a journal in place has changed nothing: its files are left-over.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from kdump.change import journal, place
from kdump.change.change import Change, ChangeState, KeptCut, Step
from kdump.change.checkpoint_lines import put_offset
from kdump.change.checks import (
    check_changeable,
    check_made_for,
    check_space,
    check_unchanged,
    check_writable,
    source_before,
)
from kdump.change.guard import NO_LOSS, Allowance, DropsError, dropped_batches
from kdump.change.journal import Changes
from kdump.change.place import ChangeFiles, at_work, log_directory_of, places_of
from kdump.change.plan import CHECKPOINT, REMOVE, RENAME, REPLACE, TRUNCATE, Cut, Operation, Plan
from kdump.change.states import FileState, digest_of, state_of
from kdump.disk import durable
from kdump.disk.reading import is_directory, is_named
from kdump.errors import KdumpError
from kdump.formats import names
from kdump.formats.time_units import wall_clock
from kdump.storage.facts import log_end_offset
from kdump.storage.partition import PartitionLog
from kdump.storage.planned import content_of
from kdump.storage.recipe import NewContent, Recipe, SourceBytes, parts_of

_SPARE = "spare"


class Draft(NamedTuple):
    """An operation with what a REPLACE puts in place: a file that is there already (its path), or a recipe for one.

    `modified` is the modification time (ns) of what is made by a recipe, if not that of now.
    """

    operation: Operation
    source: str = ""
    recipe: Recipe | None = None
    modified: int | None = None


def apply_plan(
    plan: Plan,
    files: ChangeFiles,
    *,
    command: str = "",
    keep_old: bool = True,
    cuts: Sequence[Cut] = (),
    allowance: Allowance = NO_LOSS,
) -> Change:
    """Apply `plan` as the change with these files, which are in the same file system.

    A partition directory that is not there is made, like the log directory. Unless `keep_old`, nothing of it remains
    but the bytes that `cuts` name. Raises OSError (before any change where something cannot be written), RefusedError
    where there is not enough space, a file is a symbolic link, or one is not what the plan was made for, and DropsError
    where more valid batches would go than the `allowance` has.
    """
    makes = not is_named(plan.path)
    with at_work(plan.path):
        if makes:
            durable.make_directory(plan.path)
        try:
            check_changeable(plan)
            check_space(plan, files.directory, keep_old=keep_old, cuts=cuts)
            drafts = [_draft(plan, each) for each in plan.operations]
            return carry_out(
                plan.path,
                drafts,
                files,
                command=command,
                keep_old=keep_old,
                cuts=cuts,
                made_directory=makes,
                allowance=allowance,
            )
        except BaseException:
            if makes and not is_named(files.path(place.JOURNAL)):
                durable.remove_empty_directory(plan.path)
            raise


def apply_staged(
    plan: Plan, files: ChangeFiles, *, command: str = "", keep_old: bool = True, allowance: Allowance = NO_LOSS
) -> Change:
    """Apply a plan whose new files are on the disk already, at the paths that `files` has for them.

    The plan needs no recipes. Raises OSError, RefusedError, DropsError.
    """
    drafts = [
        Draft(each, files.path(place.NEW, each.name) if each.action == REPLACE else "") for each in plan.operations
    ]
    return carry_out(plan.path, drafts, files, command=command, keep_old=keep_old, allowance=allowance)


def carry_out(
    path: str,
    drafts: Iterable[Draft],
    files: ChangeFiles,
    *,
    command: str,
    keep_old: bool = True,
    cuts: Sequence[Cut] = (),
    undoes: str = "",
    made_directory: bool = False,
    allowance: Allowance = NO_LOSS,
) -> Change:
    """Apply these operations on the partition directory `path`; the change as it is done.

    `undoes` is the id of the change that they take back: what goes then is what that had put there. `made_directory`
    says that the directory was made for them. Raises OSError, RefusedError, DropsError.
    """
    path, drafts = os.path.abspath(path), list(drafts)
    operations = [draft.operation for draft in drafts]
    check_made_for(path, operations)
    if not undoes:
        contents = {draft.operation.name: _content(draft) for draft in drafts}
        dropped = dropped_batches(path, operations, contents, allowance)
        if not allowance.allows(dropped):
            raise DropsError(path, dropped)
    change = Change(
        files,
        path,
        command,
        wall_clock(),
        (),
        state_of(path),
        keeps_old=keep_old,
        undoes=undoes,
        made_directory=made_directory,
    )
    make_place(files.directory, path)
    sources = {os.path.dirname(draft.source) for draft in drafts if draft.source}
    with at_work(path, files.directory, *sources):
        return finish(_begun(change, drafts, cuts))


def _begun(change: Change, drafts: Iterable[Draft], cuts: Sequence[Cut]) -> Change:
    """Put everything new on the disk, and then the journal; the change, of which nothing is carried out yet."""
    files, path = change.files, change.path
    journal.write(change, role=place.STAGING)
    try:
        steps = tuple(_staged(change, drafts))
        change = change._replace(steps=steps, cuts=tuple(_kept_cuts(change, cuts)))
        check_unchanged(change)
    except BaseException:
        discard(files, path)
        raise
    durable.sync_directory(files.directory)  # or the journal's name could be on the disk without those it speaks of
    journal.write(change)
    durable.remove_file(files.path(place.STAGING))
    return change


def finish(change: Change) -> Change:
    """Apply what is left of a change; the change as it is done.

    Raises OSError, and RefusedError, with nothing changed, where a file is neither what it was nor what it is to be.
    """
    with at_work(change.path, *change.directories()):
        return _finished(change)


def _finished(change: Change) -> Change:
    check_unchanged(change)
    vacated: set[str] = set()
    for number, step in enumerate(change.steps):
        operation = step.operation
        if operation.name in vacated:  # a name is given again only once what had it is safe elsewhere
            durable.sync_directory(change.files.directory)
            durable.sync_directory(change.path)
            vacated.clear()
        _carry_out(change, step, change.steps[number + 1 :])
        vacated |= {operation.source, operation.name if operation.action == REMOVE else ""}
    durable.sync_directory(change.path)
    durable.sync_directory(change.files.directory)
    if change.undoes:
        _mark_undone(change)
    return _completed(change)


def _carry_out(change: Change, step: Step, later: Sequence[Step]) -> None:
    """Do one operation, or nothing where it was done before; `later` steps follow."""
    operation = step.operation
    target = os.path.join(change.path, operation.name)
    kept = change.file(step.kept) if step.kept else ""
    if operation.action == CHECKPOINT:
        put_offset(change.path, operation.name, operation.size)
    elif operation.action == REPLACE:
        if not _is_placed(change, step):
            _keep(target, kept)
            durable.move(change.file(step.staged), target)
    elif operation.action == RENAME:
        source = os.path.join(change.path, operation.source)
        if is_named(source) and not _is_taken(change, operation.source, later):
            _keep(target, kept)
            durable.move(source, target)
    elif operation.action == REMOVE:
        if not is_named(kept):
            durable.move(target, kept)
    elif os.lstat(target).st_size > operation.size:
        durable.truncate(target, operation.size, change.files.path(_SPARE, operation.name))


def _is_placed(change: Change, step: Step) -> bool:
    """Return whether a new file has its name already."""
    return not is_named(change.file(step.staged))


def _is_taken(change: Change, name: str, later: Sequence[Step]) -> bool:
    """Return whether one of these steps gave a name, which an earlier step took from a file, to another one already."""
    for step in later:
        operation = step.operation
        if operation.name == name and operation.action == REPLACE:
            return _is_placed(change, step)
    return False


def _keep(target: str, kept: str) -> None:
    """Keep a file that is replaced next: for that moment it has two names."""
    if kept and not is_named(kept):
        durable.keep(target, kept)
        durable.sync_directory(os.path.dirname(kept))


def _completed(change: Change) -> Change:
    """Write down what the change left."""
    after = state_of(change.path)
    touched = {step.operation.name for step in change.steps if step.operation.action in (REPLACE, TRUNCATE)}
    digests = {name: digest_of(os.path.join(change.path, name)) for name in sorted(touched) if name in after.files}
    done = change._replace(state=ChangeState.DONE, after=after, digests=digests, log_end_offset=end_offset(change.path))
    journal.write(done)
    tidy(done)
    return done


def end_offset(path: str) -> int | None:
    """Return the log end offset (absolute) of a partition directory; None where it cannot be told."""
    try:
        log = PartitionLog(path)
        end = log_end_offset(log) if log.segments else -1
        return end if end >= 0 else None  # a damaged base offset may lead beyond the largest number
    except (OSError, KdumpError):
        return None


def _mark_undone(change: Change) -> None:
    for directory in {change.files.directory, *places_of(change.path)}:
        with suppress(FileNotFoundError):
            undone = journal.read(ChangeFiles(directory, change.undoes, change.files.partition))
            if undone.state != ChangeState.UNDONE:
                journal.ended(undone, ChangeState.UNDONE)


def tidy(change: Change) -> None:
    """Remove what a change that is done need not keep. Raises OSError."""
    if change.keeps_old:
        return
    if not change.cuts:
        discard(change.files, change.path)
        return
    for step in change.steps:
        if step.kept:
            durable.remove_file(change.file(step.kept))


def discard(files: ChangeFiles, partition_directory: str) -> None:
    """Remove the files of a change, the journal last, and the folder made for them if it is empty. Raises OSError."""
    outside = [files.directory] if is_directory(files.directory) else []
    with at_work(partition_directory, *outside):
        for path in files.all():
            durable.remove_file(path)
        if note := place.note_of(files, partition_directory):
            for path in files._replace(directory=os.path.dirname(note)).all():
                durable.remove_file(path)
    if os.path.basename(files.directory) in (place.IN_PARTITION, files.partition):
        with suppress(OSError):
            durable.remove_empty_directory(files.directory)


def clear_leftovers(partition_directory: str, backup_dir: str | None = None, changes: Changes | None = None) -> None:
    """Remove what changes of a partition left behind that ended before they changed anything, or need not keep.

    `changes` are those of its log directory, if they are known. Raises OSError, KdumpError.
    """
    changes = changes or Changes(log_directory_of(partition_directory))
    for files in changes.leftovers_of(partition_directory, backup_dir):
        discard(files, partition_directory)
    for change in changes.of(partition_directory, backup_dir):
        if change.state == ChangeState.DONE:
            tidy(change)


# --- everything new, and what is kept of what is cut -----------------------------------------------------------------


def make_place(directory: str, partition_directory: str) -> None:
    """Make the directory for a change's files where it is one of its own; it belongs to whom the partition does.

    Raises OSError, RefusedError where nothing can be written in it.
    """
    with at_work(partition_directory):
        if not is_directory(directory):
            durable.make_directories(directory, os.stat(partition_directory), allow_other_owner=True)
            durable.sync_directory(os.path.dirname(directory))
        check_writable(directory)


def _content(draft: Draft) -> Recipe:
    """Return what a draft of a REPLACE puts in place, of another one nothing. Raises OSError."""
    if draft.source:
        return SourceBytes(os.path.abspath(draft.source), 0, os.path.getsize(draft.source))
    return draft.recipe or NewContent(b"", 0)


def _staged(change: Change, drafts: Iterable[Draft]) -> Iterator[Step]:
    """Write everything new, and copy the ends of files that are cut; the steps of the change."""
    present = set(change.before.files)
    operations: list[Operation] = []
    used: set[str] = set()

    def own(role: str, name: str) -> str:
        path = change.files.path(role, name)
        while path in used:
            path += "~"
        used.add(path)
        return path

    for draft in drafts:
        operation = draft.operation
        step = Step(operation)
        displaces = operation.name in present
        if operation.action == REPLACE:
            staged = draft.source or own(place.NEW, operation.name)
            if draft.recipe is not None:
                content = content_of(change.path, draft.recipe, durable.OwnFile)
                durable.write_file(staged, content, _model(change.path, operation.name), draft.modified)
            info = os.lstat(staged)
            step = step._replace(staged=_named(change, staged), new=FileState(info.st_size, info.st_mtime_ns))
        elif operation.action == TRUNCATE and change.keeps_old:
            tail = own(place.TAIL, operation.name)
            source = os.path.join(change.path, source_before(operations, operation.name))
            durable.keep_tail(source, operation.size, tail)
            step = step._replace(kept=_named(change, tail))
        if operation.action in (REMOVE, RENAME, REPLACE) and displaces:
            step = step._replace(kept=_named(change, own(place.OLD, operation.name)))
        present -= {operation.source, operation.name if operation.action == REMOVE else ""}
        present |= {operation.name} if operation.action in (RENAME, REPLACE) else set()
        operations.append(operation)
        yield step


def _named(change: Change, path: str) -> str:
    """Return the name of a file of the change, or the path of one that lies elsewhere."""
    return os.path.relpath(path, change.files.directory)


def _draft(plan: Plan, operation: Operation) -> Draft:
    """Return an operation; a new .log has the modification time of the one it is made of: retention may go by it."""
    if operation.action != REPLACE:
        return Draft(operation)
    recipe = plan.recipes[operation.name]
    source = next((part.name for part in parts_of(recipe) if isinstance(part, SourceBytes)), "")
    if not operation.name.endswith(f".{names.LOG}") or not source:
        return Draft(operation, recipe=recipe)
    return Draft(operation, recipe=recipe, modified=os.stat(os.path.join(plan.path, source)).st_mtime_ns)


def _kept_cuts(change: Change, cuts: Sequence[Cut]) -> Iterator[KeptCut]:
    """Write the bytes that a repaired log does not have any more, each range into a file."""
    for cut in cuts:
        saved = change.files.path(place.CUT, f"{cut.file}.from-{cut.start}-to-{cut.stop}")
        content = content_of(change.path, SourceBytes(cut.file, cut.start, cut.stop - cut.start), durable.OwnFile)
        model = os.stat(os.path.join(change.path, cut.file))
        durable.write_file(saved, content, model, allow_other_owner=True)
        yield KeptCut(cut, os.path.basename(saved))


def _model(path: str, name: str) -> os.stat_result:
    """Return that whose owner and mode a new file gets: the one it replaces, a .log beside it, or the directory."""
    with suppress(FileNotFoundError):
        return os.lstat(os.path.join(path, name))
    folder = os.stat(path)
    logs = [os.lstat(os.path.join(path, each)) for each in sorted(os.listdir(path)) if each.endswith(f".{names.LOG}")]
    owners = (log for log in logs if log.st_uid == folder.st_uid)
    return next(owners, logs[0] if logs else durable.file_in(folder))
