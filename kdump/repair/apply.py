"""Carry out a plan so that a kill at any instant loses nothing, and the next run finishes the job.

First everything new is written beside the data and put on the disk, then the files that will go are kept, then the plan
is put in place; from then on the changes can be finished from that folder alone, and each of them is a single rename,
removal or cut. An interrupted repair without a plan in place has changed nothing: its folder is left-over.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress

from kdump.errors import KdumpError
from kdump.recovery.directory import content_of
from kdump.recovery.outcome import Recipe
from kdump.repair import files, journal
from kdump.repair.locks import RefusedError
from kdump.repair.plan import REMOVE, RENAME, REPLACE, TRUNCATE, Operation, Plan

SPARE_BYTES = 1 << 20


def apply_plan(plan: Plan, folder: str, *, keep_old: bool = True) -> None:
    """Carry out `plan`, using the new folder `folder` in the same file system for the journal and what is kept.

    Unless `keep_old`, nothing of it remains. Raises OSError (before any change where something cannot be written),
    RefusedError where there is not enough space.
    """
    check_space(plan, os.path.dirname(folder), keep_old=keep_old)
    _stage(plan, folder)
    if keep_old:
        _keep_old(plan, folder)
    _begin(plan, folder)
    finish(folder, keep_old=keep_old)


def finish(folder: str, *, keep_old: bool = True) -> Plan:
    """Carry out what is left of the plan in `folder`. Raises OSError, KdumpError."""
    plan = journal.read_plan(folder)
    for operation in plan.operations:
        _carry_out(plan.path, operation, folder)
    files.sync_directory(plan.path)
    if keep_old:
        files.write_file(os.path.join(folder, journal.DONE), ())
        shutil.rmtree(os.path.join(folder, journal.NEW))
        files.sync_directory(folder)
    else:
        discard(folder)
    return plan


def discard(folder: str) -> None:
    """Remove the folder of a repair, its plan first, and the folders around it that are empty then. Raises OSError."""
    plan = os.path.join(folder, journal.PLAN)
    if os.path.exists(plan):
        os.remove(plan)
    shutil.rmtree(folder)
    time_folder = os.path.dirname(folder)
    _remove_if_empty(time_folder)
    _remove_if_empty(os.path.dirname(time_folder))


def clear_leftovers(log_directory: str, partition_directory: str) -> None:
    """Remove what repairs left behind that ended before they changed anything. Raises OSError."""
    for folder in list(journal.leftovers(log_directory, partition_directory)):
        discard(folder)
    backups = os.path.join(log_directory, journal.BACKUP_FOLDER)
    for name in os.listdir(backups) if os.path.isdir(backups) else ():
        _remove_if_empty(os.path.join(backups, name))
    _remove_if_empty(backups)


def _remove_if_empty(folder: str) -> None:
    with suppress(OSError):
        os.rmdir(folder)


def check_space(plan: Plan, near: str, *, keep_old: bool) -> None:
    """Raise RefusedError where the file system of `near` has no room for what is new and what is kept."""
    needed = SPARE_BYTES + sum(
        _bytes_needed(plan.recipes[each.name]) for each in plan.operations if each.action == REPLACE
    )
    if keep_old:
        needed += sum(each.old_size - each.size for each in plan.operations if each.action == TRUNCATE)
    while not os.path.isdir(near):
        near = os.path.dirname(near)
    free = shutil.disk_usage(near).free
    if needed > free:
        raise RefusedError(f"{near}: the repair needs {needed} bytes of space, and {free} are free")


def _bytes_needed(recipe: Recipe) -> int:
    data = getattr(recipe, "data", None)
    return recipe.size if data is None else len(data)


def _stage(plan: Plan, folder: str) -> None:
    """Write everything new, onto the disk."""
    new = os.path.join(folder, journal.NEW)
    os.makedirs(new)
    for operation in plan.operations:
        if operation.action == REPLACE:
            files.write_file(
                os.path.join(new, operation.name),
                content_of(plan.path, plan.recipes[operation.name]),
                _model(plan.path, operation.name),
            )
    files.sync_directory(new)


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
        if operation.action == TRUNCATE:
            source = _source_before(plan, operation.name)
            tail = os.path.join(old, f"{operation.name}.cut-{operation.size}")
            files.keep_tail(os.path.join(plan.path, source), operation.size, tail)
        elif operation.old_size >= 0:
            files.keep(os.path.join(plan.path, operation.name), os.path.join(old, operation.name))
    files.sync_directory(old)
    files.sync_directory(folder)


def _source_before(plan: Plan, name: str) -> str:
    """The name that a file has before the plan renames it."""
    return next((each.source for each in plan.operations if each.action == RENAME and each.name == name), name)


def _begin(plan: Plan, folder: str) -> None:
    part = journal.write_plan(folder, plan)
    os.rename(part, os.path.join(folder, journal.PLAN))
    for each in (folder, os.path.dirname(folder), os.path.dirname(os.path.dirname(folder))):
        files.sync_directory(each)


def _carry_out(path: str, operation: Operation, folder: str) -> None:
    """Do one operation, or nothing where it was done before."""
    target = os.path.join(path, operation.name)
    if operation.action == REPLACE:
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
            files.truncate(target, operation.size)
    elif operation.action == TRUNCATE:
        raise KdumpError(f"{target}: not the file that the plan is for; it was replaced since the plan was made")


def _inode(path: str) -> int:
    try:
        return os.stat(path, follow_symlinks=False).st_ino
    except FileNotFoundError:
        return -1
