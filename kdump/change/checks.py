"""Before the first change of a partition: whether it is what the plan is for, and whether all can be written."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence

from kdump.change.change import Change
from kdump.change.place import JOURNAL, ChangeFiles, at_work, places_of
from kdump.change.plan import CHECKPOINT, RENAME, REPLACE, TRUNCATE, Cut, Operation, Plan
from kdump.change.states import file_differences, offset_difference, state_of
from kdump.disk.entered import check_may_change, check_may_write
from kdump.disk.reading import is_directory, is_there
from kdump.disk.unpacked import temporary_place
from kdump.errors import KdumpError, RefusedError
from kdump.storage.open import check_not_kafkas
from kdump.storage.recipe import NewContent

SPARE_BYTES = 1 << 20
_DIFFERENCES_SHOWN = 3


def check_unchanged(change: Change) -> None:
    """Raise RefusedError where the partition is not what the change expects, at whatever step it is. Raises OSError."""
    found = list(differences(change))
    if found:
        raise RefusedError(f"{change.path}: changed since the plan was made: {in_words(found)}")


def in_words(differences: Sequence[str]) -> str:
    """Return the first of some differences, and how many more there are."""
    more = len(differences) - _DIFFERENCES_SHOWN
    return "; ".join(differences[:_DIFFERENCES_SHOWN]) + (f", and {more} more" if more > 0 else "")


def differences(change: Change) -> Iterator[str]:
    """Yield how a partition differs from what it may be while the change is applied, in words. Raises OSError."""
    now = state_of(change.path)
    yield from file_differences(now.files, change.allowed())
    for name in sorted({*now.offsets, *change.before.offsets}):
        allowed = {change.before.offsets.get(name, -1)}
        allowed |= {max(step.operation.size, -1) for step in change.steps if step.operation.name == name}
        if difference := offset_difference(name, now.offsets.get(name, -1), allowed):
            yield difference


def check_made_for(path: str, operations: Iterable[Operation]) -> None:
    """Raise RefusedError where a file is not the one that an operation was planned for. Raises OSError."""
    made: set[str] = set()
    for operation in operations:
        name = operation.source or operation.name
        at = os.path.join(path, name)
        if operation.action != CHECKPOINT and name not in made and operation.inode != max(inode_of(at), 0):
            raise RefusedError(f"{at}: not the file that the plan is for; it was replaced since the plan was made")
        made |= {operation.name, operation.source}


def check_changeable(plan: Plan) -> None:
    """Find before the first change what would stop a plan halfway.

    Raises PermissionError where a directory or a file that is to be cut cannot be written, RefusedError for what is not
    the directory's: a symbolic link, which leads elsewhere, a device, a file of another user.
    """
    cut = [os.path.join(plan.path, each.name) for each in plan.operations if each.action == TRUNCATE]
    around = {os.path.dirname(os.path.abspath(plan.path)) for each in plan.operations if each.action == CHECKPOINT}
    for path in (plan.path, *around, *filter(is_there, cut)):
        check_writable(path)
    for operation in plan.operations:
        folder = os.path.dirname(os.path.abspath(plan.path)) if operation.action == CHECKPOINT else plan.path
        for name in filter(None, (operation.name, operation.source)):
            check_may_change(os.path.join(folder, name))


def check_own(change: Change) -> None:
    """Raise RefusedError where what a journal tells of would lead out of its partition, or change what is not its own.

    Raises OSError.
    """
    places = {change.files.directory, *places_of(change.path)}
    for directory in change.directories() - places:
        taken_back = ChangeFiles(directory, change.undoes, change.files.partition)
        if not change.undoes or not is_there(taken_back.path(JOURNAL)):
            raise RefusedError(
                f"{change.files.path(JOURNAL)}: names files in {directory}, where none of its change lie: kdump does"
                " nothing that it says"
            )
    with at_work(change.path, *change.directories()):
        check_changeable(Plan(change.path, tuple(step.operation for step in change.steps), {}))


def check_writable(path: str) -> None:
    """Raise PermissionError where a file or directory cannot be written, RefusedError where its owner may not."""
    if not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, "cannot be written (permissions, or a read-only file system)", path)
    check_may_write(path)


def check_target(path: str) -> None:
    """Raise KdumpError where a file cannot be written, RefusedError where it would be among Kafka's own.

    It is asked before anything is read: else hours of work are lost for want of that.
    """
    check_not_kafkas(path)
    if is_directory(path):
        raise KdumpError(f"{path} is a directory: expected a file. Nothing was done.")
    try:
        with temporary_place(os.path.dirname(os.path.abspath(path))):
            pass
    except OSError as error:
        raise KdumpError(f"{path} cannot be written: {error.strerror}. Nothing was done.") from None


def check_space(plan: Plan, near: str, *, keep_old: bool, cuts: Sequence[Cut] = ()) -> None:
    """Raise RefusedError where the file system of `near` has no room for what is new and what is kept."""
    new = (plan.recipes[each.name] for each in plan.operations if each.action == REPLACE)
    needed = SPARE_BYTES + sum(len(each.data) if isinstance(each, NewContent) else each.size for each in new)
    needed += sum(_cut_bytes(plan, each, keep_old) for each in plan.operations if each.action == TRUNCATE)
    check_room(needed + sum(cut.stop - cut.start for cut in cuts), near)


def _cut_bytes(plan: Plan, operation: Operation, keep_old: bool) -> int:
    """Return how many bytes of the disk a cut uses: of a file with other names what stays is written again.

    That is durable.truncate's way. Of the end that is kept, what is preallocated uses none.
    """
    info = os.stat(os.path.join(plan.path, source_before(plan.operations, operation.name)))
    head = operation.size if info.st_nlink > 1 else 0
    return head + (min(operation.old_size - operation.size, info.st_blocks * 512) if keep_old else 0)


def check_room(needed: int, near: str) -> None:
    """Raise RefusedError where the file system of `near`, which need not exist, has fewer than `needed` bytes free."""
    while not is_directory(near):
        near = os.path.dirname(near)
    free = shutil.disk_usage(near).free
    if needed > free:
        raise RefusedError(f"{near}: {needed} bytes of space are needed here, and {free} are free")


def source_before(operations: Iterable[Operation], name: str) -> str:
    """Return the name that a file has before these operations rename it."""
    return next((each.source for each in operations if each.action == RENAME and each.name == name), name)


def inode_of(path: str) -> int:
    """Return the inode of a file; -1 where there is none. Raises OSError."""
    try:
        return os.stat(path, follow_symlinks=False).st_ino
    except FileNotFoundError:
        return -1
