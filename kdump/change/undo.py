"""Take a finished repair back, from what its folder kept."""

from __future__ import annotations

import os

from kdump.change import journal
from kdump.change.checkpoint_lines import put_offset
from kdump.change.plan import CHECKPOINT, RENAME, TRUNCATE, Operation
from kdump.disk import durable
from kdump.errors import KdumpError


def undo(folder: str) -> str:
    """Put back what the repair of `folder` changed; the partition directory that it was.

    May be repeated after an interruption. Raises OSError, and KdumpError where the folder kept nothing to go by.
    """
    plan = journal.read_plan(folder)
    journal.check_place(folder, plan)
    old = os.path.join(folder, journal.OLD)
    if not os.path.isdir(old):
        raise KdumpError(f"{folder}: nothing was kept here, so this repair cannot be undone")
    for operation in reversed(plan.operations):
        _take_back(plan.path, operation, old)
    durable.sync_directory(plan.path)
    done, undone = os.path.join(folder, journal.DONE), os.path.join(folder, journal.UNDONE)
    if os.path.exists(done):
        os.replace(done, undone)
    elif not os.path.exists(undone):
        durable.write_file(undone, ())
    durable.sync_directory(folder)
    return plan.path


def _take_back(path: str, operation: Operation, old: str) -> None:
    target = os.path.join(path, operation.name)
    if operation.action == CHECKPOINT:
        put_offset(path, operation.name, operation.old_size)
        return
    if operation.action == TRUNCATE:
        durable.restore_tail(target, operation.size, os.path.join(old, f"{operation.name}.cut-{operation.size}"))
        return
    if operation.action == RENAME:
        source = os.path.join(path, operation.source)
        if not os.path.lexists(source) and os.path.lexists(target):
            os.rename(target, source)
    kept = os.path.join(old, operation.name)
    if os.path.lexists(kept):
        durable.put_back(kept, target)
    elif (operation.action != RENAME or operation.old_size < 0) and os.path.lexists(target):
        os.remove(target)  # of a rename: its source has been put back already, as another file took that name next
