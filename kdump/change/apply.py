"""Carry out a plan so that a kill at any instant loses nothing, and the next run finishes the job.

First everything new is written beside the data and put on the disk, then the files that will go are kept, then the plan
is put in place; from then on the changes can be finished from that folder alone, and each of them is a single rename,
removal or cut. An interrupted repair without a plan in place has changed nothing: its folder is left-over.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from threading import Lock

from kdump.change import journal
from kdump.change.checkpoint_lines import put_offset
from kdump.change.plan import CHECKPOINT, REMOVE, RENAME, REPLACE, TRUNCATE, Cut, Operation, Plan
from kdump.disk import durable
from kdump.errors import KdumpError, RefusedError
from kdump.formats import names
from kdump.storage.planned import content_of
from kdump.storage.recipe import NewContent, Recipe, SourceBytes, parts_of

SPARE_BYTES = 1 << 20

_FOLDERS = Lock()
"""Held while folders come and go: several partitions, each in its thread, share the one around theirs."""


def apply_plan(plan: Plan, folder: str, *, keep_old: bool = True, cuts: Sequence[Cut] = ()) -> None:
    """Carry out `plan`, using the new folder `folder` in the same file system for the journal and what is kept.

    Unless `keep_old`, nothing of it remains but the bytes that `cuts` name. Raises OSError (before any change where
    something cannot be written), RefusedError where there is not enough space or a file is a symbolic link.
    """
    check_changeable(plan)
    check_space(plan, os.path.dirname(folder), keep_old=keep_old, cuts=cuts)
    _stage(plan, folder)
    if cuts:
        _save_cuts(plan.path, cuts, os.path.join(folder, journal.CUT))
    apply_staged(plan, folder, keep_old=keep_old)


def apply_staged(plan: Plan, folder: str, *, keep_old: bool = True) -> None:
    """Carry out a plan whose new files are in the folder `folder` already, under `journal.NEW` and on the disk.

    The plan needs no recipes. Raises OSError.
    """
    if keep_old:
        _keep_old(plan, folder)
    _begin(plan, folder)
    finish(folder, keep_old=keep_old)


def finish(folder: str, *, keep_old: bool = True) -> Plan:
    """Carry out what is left of the plan in `folder`. Raises OSError, KdumpError."""
    plan = journal.read_plan(folder)
    journal.check_place(folder, plan)
    for operation in plan.operations:
        _carry_out(plan.path, operation, folder)
    durable.sync_directory(plan.path)
    if not keep_old and not os.path.exists(os.path.join(folder, journal.CUT)):
        discard(folder)
        return plan
    durable.write_file(os.path.join(folder, journal.DONE), ())
    shutil.rmtree(os.path.join(folder, journal.NEW))
    durable.sync_directory(folder)
    return plan


def discard(folder: str) -> None:
    """Remove the folder of a repair, its plan first, and the one around it if it is empty then. Raises OSError."""
    plan = os.path.join(folder, journal.PLAN)
    if os.path.exists(plan):
        os.remove(plan)
    shutil.rmtree(folder)
    _remove_if_empty(os.path.dirname(folder))


def clear_leftovers(partition_directory: str, backup_dir: str | None = None) -> None:
    """Remove what repairs left behind that ended before they changed anything. Raises OSError."""
    for folder in list(journal.leftovers(partition_directory, backup_dir)):
        discard(folder)
    _remove_if_empty(os.path.dirname(journal.new_folder(partition_directory, backup_dir)))


def _remove_if_empty(folder: str) -> None:
    with _FOLDERS, suppress(OSError):
        os.rmdir(folder)


def check_changeable(plan: Plan) -> None:
    """Find before the first change what would stop a plan halfway.

    Raises PermissionError where a directory or a file that is to be cut cannot be written, RefusedError for a symbolic
    link: what it leads to is not this directory's.
    """
    cut = [os.path.join(plan.path, each.name) for each in plan.operations if each.action == TRUNCATE]
    around = {os.path.dirname(os.path.abspath(plan.path)) for each in plan.operations if each.action == CHECKPOINT}
    for path in (plan.path, *around, *filter(os.path.exists, cut)):
        if not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, "cannot be written (permissions, or a read-only file system)", path)
    for operation in plan.operations:
        folder = os.path.dirname(os.path.abspath(plan.path)) if operation.action == CHECKPOINT else plan.path
        for name in filter(None, (operation.name, operation.source)):
            path = os.path.join(folder, name)
            if os.path.islink(path):
                raise RefusedError(f"{path}: a symbolic link, and what it leads to is not changed: repair it there")


def check_space(plan: Plan, near: str, *, keep_old: bool, cuts: Sequence[Cut] = ()) -> None:
    """Raise RefusedError where the file system of `near` has no room for what is new and what is kept."""
    needed = SPARE_BYTES + sum(
        _bytes_needed(plan.recipes[each.name]) for each in plan.operations if each.action == REPLACE
    )
    if keep_old:
        needed += sum(each.old_size - each.size for each in plan.operations if each.action == TRUNCATE)
    check_room(needed + sum(cut.stop - cut.start for cut in cuts), near)


def check_room(needed: int, near: str) -> None:
    """Raise RefusedError where the file system of `near`, which need not exist, has fewer than `needed` bytes free."""
    while not os.path.isdir(near):
        near = os.path.dirname(near)
    free = shutil.disk_usage(near).free
    if needed > free:
        raise RefusedError(f"{near}: {needed} bytes of space are needed here, and {free} are free")


def _bytes_needed(recipe: Recipe) -> int:
    return len(recipe.data) if isinstance(recipe, NewContent) else recipe.size


def _stage(plan: Plan, folder: str) -> None:
    """Write everything new, onto the disk."""
    new = os.path.join(folder, journal.NEW)
    with _FOLDERS:
        os.makedirs(new)
    for operation in plan.operations:
        if operation.action == REPLACE:
            durable.write_file(
                os.path.join(new, operation.name),
                content_of(plan.path, plan.recipes[operation.name]),
                _model(plan.path, operation.name),
                _modified(plan, operation.name),
            )
    durable.sync_directory(new)


def _modified(plan: Plan, name: str) -> int | None:
    """The modification time (ns) that a new .log takes from the one that it is made of: retention may go by it."""
    recipe = plan.recipes[name]
    if not name.endswith(f".{names.LOG}") or isinstance(recipe, NewContent):
        return None
    sources = [recipe, *parts_of(recipe)]
    source = next(part.name for part in sources if isinstance(part, SourceBytes))
    return os.stat(os.path.join(plan.path, source)).st_mtime_ns


def _save_cuts(path: str, cuts: Sequence[Cut], folder: str) -> None:
    """Write the bytes that a repaired log does not have any more, each stretch in a file, and where they were."""
    os.makedirs(folder)
    lines = []
    for cut in cuts:
        saved = f"{cut.file}.from-{cut.start}-to-{cut.stop}"
        durable.write_file(
            os.path.join(folder, saved), content_of(path, SourceBytes(cut.file, cut.start, cut.stop - cut.start))
        )
        lines.append(json.dumps({**cut._asdict(), "saved": saved}).encode() + b"\n")
    durable.write_file(os.path.join(folder, journal.CUT_LIST), lines)
    durable.sync_directory(folder)


def _model(path: str, name: str) -> os.stat_result:
    """The file whose owner and mode a new file gets: the one it replaces, or any .log beside it."""
    try:
        return os.stat(os.path.join(path, name))
    except FileNotFoundError:
        logs = sorted(each for each in os.listdir(path) if each.endswith(".log"))
        return os.stat(os.path.join(path, logs[0]) if logs else path, follow_symlinks=False)


def _keep_old(plan: Plan, folder: str) -> None:
    """Keep every file, or end of a file, that is about to go."""
    old = os.path.join(folder, journal.OLD)
    os.makedirs(old)
    for operation in plan.operations:
        if operation.action == CHECKPOINT:
            continue
        if operation.action == TRUNCATE:
            source = _source_before(plan, operation.name)
            tail = os.path.join(old, f"{operation.name}.cut-{operation.size}")
            durable.keep_tail(os.path.join(plan.path, source), operation.size, tail)
        elif operation.old_size >= 0:
            durable.keep(os.path.join(plan.path, operation.name), os.path.join(old, operation.name))
    durable.sync_directory(old)
    durable.sync_directory(folder)


def _source_before(plan: Plan, name: str) -> str:
    """The name that a file has before the plan renames it."""
    return next((each.source for each in plan.operations if each.action == RENAME and each.name == name), name)


def _begin(plan: Plan, folder: str) -> None:
    part = journal.write_plan(folder, plan)
    os.rename(part, os.path.join(folder, journal.PLAN))
    for each in (folder, os.path.dirname(folder), os.path.dirname(os.path.dirname(folder))):
        durable.sync_directory(each)


def _carry_out(path: str, operation: Operation, folder: str) -> None:
    """Do one operation, or nothing where it was done before."""
    target = os.path.join(path, operation.name)
    if operation.action == CHECKPOINT:
        put_offset(path, operation.name, operation.size)
    elif operation.action == REPLACE:
        new = os.path.join(folder, journal.NEW, operation.name)
        if os.path.exists(new):
            os.replace(new, target)
    elif operation.action == RENAME:
        source = os.path.join(path, operation.source)
        if _inode(source) == operation.inode:
            os.replace(source, target)
    elif _inode(target) == operation.inode:
        if operation.action == REMOVE:
            os.remove(target)
        elif os.stat(target).st_size > operation.size:
            durable.truncate(target, operation.size)
    elif operation.action == TRUNCATE:
        raise KdumpError(f"{target}: not the file that the plan is for; it was replaced since the plan was made")


def _inode(path: str) -> int:
    try:
        return os.stat(path, follow_symlinks=False).st_ino
    except FileNotFoundError:
        return -1
