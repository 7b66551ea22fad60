"""List changes, take them back, end interrupted ones, and delete the originals of those that are known to be good."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from errno import ENOENT
from typing import Any, NamedTuple

from kdump.change.change import Change, ChangeState
from kdump.change.interrupted import finish_interrupted
from kdump.change.journal import Changes
from kdump.change.place import IN_PARTITION, change_files, log_directory_of, new_change, new_id, place_of
from kdump.change.plan import Operation
from kdump.change.undo import Judged, Verdict, close, judge, prune, undo, undo_drafts
from kdump.disk.entered import check_way
from kdump.disk.locks import check_not_growing, is_log_directory
from kdump.disk.reading import is_directory, is_named, is_there
from kdump.errors import KdumpError, RefusedError
from kdump.operations.results import Failed
from kdump.operations.safety import SafetyOptions, check_is_there, locked
from kdump.storage.directory import LogDirectory
from kdump.storage.open import check_is_not_around
from kdump.storage.partition import PartitionLog


class Listed(NamedTuple):
    """A change and what can be done about it."""

    change: Change
    judged: Judged


class Listing(NamedTuple):
    """What is kept below one path: changes, and errors of what cannot be read."""

    changes: tuple[Listed, ...]
    unreadable: tuple[KdumpError | OSError, ...]


def list_changes(path: str, backup_dir: str | None = None) -> Listing:
    """Return the changes below a log directory, or of a partition directory, which may be gone.

    Raises OSError, FileNotFoundError where there is neither the path nor a change of it, HoldsLogDirectoriesError for a
    directory around log directories, and RefusedError where a link of another user leads there.
    """
    if backup_dir is not None:
        check_is_there(backup_dir)
    if is_there(path):
        check_way(path)
    given, path = path, os.path.realpath(path)
    errors: dict[str, OSError] = {}
    if is_directory(path) and not PartitionLog(path).segments and not any(change_files(path)):
        check_is_not_around(LogDirectory(given))
    if _is_log_directory(path):
        changes = Changes(path)
        found = changes.all()
        partitions = [os.path.join(path, name) for name in LogDirectory(path).partition_names]
        for each in partitions:
            with _noted(each, errors):
                if backup_dir is not None or is_directory(os.path.join(each, IN_PARTITION)):
                    found += [change for change in changes.of(each, backup_dir) if change not in found]
    else:
        changes, partitions = Changes(os.path.dirname(path)), [path]
        found = changes.of(path, backup_dir)
    if not found and not is_named(given):
        raise FileNotFoundError(ENOENT, os.strerror(ENOENT), given)
    listed = tuple(Listed(change, _judged(change, errors)) for change in found)
    return Listing(listed, (*changes.unreadable, *errors.values()))


@contextmanager
def _noted(partition: str, errors: dict[str, OSError]) -> Iterator[None]:
    """Note what cannot be read of a partition, and continue with the others."""
    try:
        yield
    except OSError as error:
        errors.setdefault(partition, error)


def _judged(change: Change, errors: dict[str, OSError]) -> Judged:
    """Return the verdict on a change; a partition that cannot be read adds an error, and no other has to wait."""
    try:
        return judge(change)
    except OSError as error:
        errors.setdefault(change.path, error)
        return Judged(Verdict.UNREADABLE, f"{os.path.basename(change.path)}: {error.strerror}")


def _is_log_directory(path: str) -> bool:
    if not is_directory(path) or PartitionLog(path).segments:
        return False
    return is_log_directory(path) or bool(LogDirectory(path).partition_names) or any(change_files(path))


class Undone(NamedTuple):
    """What undoing a change does: its operations, and the change that did it.

    `by` is None where nothing was applied, or an interrupted change was rolled back. `is_finished`: an undo of it had
    been interrupted, and was finished.
    """

    change: Change
    operations: tuple[Operation, ...]
    by: Change | None = None
    is_done: bool = False
    is_finished: bool = False


class Closed(NamedTuple):
    """An interrupted change that ends as the files are now, or would unless it `is_done`."""

    change: Change
    is_done: bool


class Pruned(NamedTuple):
    """A change whose originals, of `size` bytes, are deleted, or would be unless it `is_done`."""

    kept: Change
    size: int
    is_done: bool

    @property
    def path(self) -> str:
        """The partition directory."""
        return self.kept.path


Over = Callable[[list[Any]], Iterable[Any]]
"""Goes over changes and gives the same ones; one that counts them may be given."""


def prune_all(
    listing: Listing, before_ms: int, safety: SafetyOptions, change: str | None = None, over: Over = iter
) -> Iterator[Pruned | Failed]:
    """Delete the originals of changes that were begun before a time (ms), or say of which; of one that is named only.

    Interrupted ones stay. A partition that is left alone is Failed, and the others go on. Raises OSError.
    """
    for kept in over(list(_prunable(listing, before_ms, change))):
        found = Pruned(kept, kept.all_bytes, safety.applies)
        try:
            if safety.applies:
                _delete_originals(found, safety)
            yield found
        except (OSError, KdumpError) as error:
            yield Failed(found.path, error)


def close_all(changes: list[Change], safety: SafetyOptions, over: Over = iter) -> Iterator[Closed | Failed]:
    """End interrupted changes as things are, or say which; one that is left alone is Failed, and the others go on."""
    for change in over(changes):
        try:
            _close(change, safety)
            yield Closed(change, safety.applies)
        except (OSError, KdumpError) as error:
            yield Failed(change.path, error)


def changes_called(listing: Listing, id_: str) -> list[Change]:
    """Return the changes with an id."""
    return [each.change for each in listing.changes if each.change.id == id_]


def undo_all(changes: list[Change], safety: SafetyOptions, over: Over = iter) -> Iterator[Undone | Failed]:
    """Take back a change of several partitions, or say what that does; what does it is one change with one id, too.

    A partition that is left alone is Failed, and the others go on. Raises OSError.
    """
    there = [change.path for change in changes if is_directory(change.path)]
    id_ = new_id(*{place_of(path, safety.backup_dir) for path in there})
    for change in over(changes):
        try:
            yield undo_change(change, safety, id_)
        except (OSError, KdumpError) as error:
            yield Failed(change.path, error)


def undo_change(change: Change, safety: SafetyOptions, id_: str | None = None) -> Undone:
    """Take a change of one partition back, or say what that does; `id_` is for the change that does it.

    Raises OSError, RefusedError, KdumpError.
    """
    with locked(log_directory_of(change.path), [change.path], safety):
        others = Changes(log_directory_of(change.path)).of(change.path, safety.backup_dir)
        for other in others:
            if other.state == ChangeState.INTERRUPTED and other.id != change.id:
                return _after_interrupted(change, other, safety)
        judged = judge(change, thorough=True)
        if judged.why:
            raise RefusedError(judged.why)
        if change.state == ChangeState.INTERRUPTED:
            operations = tuple(step.operation for step in reversed(change.steps))
        else:
            operations = tuple(draft.operation for draft in undo_drafts(change))
        if not safety.applies:
            return Undone(change, operations)
        if safety.ignore_lock is None:
            check_not_growing(segment.log_path for segment in PartitionLog(change.path).segments)
        by = undo(change, new_change(change.path, safety.backup_dir, id_))
        return Undone(change, operations, by, True)


def _after_interrupted(change: Change, other: Change, safety: SafetyOptions) -> Undone:
    """Finish the interrupted undo of a change; anything else that was interrupted has to be dealt with first."""
    if other.undoes != change.id:
        raise RefusedError(
            f"{os.path.basename(change.path)}: change {other.id} ({other.command}) was interrupted: undo that first, or"
            " finish it with the command that began it"
        )
    operations = tuple(step.operation for step in other.steps)
    if not safety.applies:
        return Undone(change, operations, is_finished=True)
    (finished,) = finish_interrupted(change.path, safety.backup_dir)
    return Undone(change, operations, finished, True, True)


def _close(change: Change, safety: SafetyOptions) -> None:
    if change.state != ChangeState.INTERRUPTED:
        raise RefusedError(f"{os.path.basename(change.path)}: change {change.id} was not interrupted")
    with locked(log_directory_of(change.path), [change.path], safety):
        if safety.applies:
            close(change)


def _prunable(found: Listing, before_ms: int, id_: str | None = None) -> Iterator[Change]:
    """Yield the changes begun before a time (ms) and not interrupted; only with the id, if one is named."""
    for change, _ in found.changes:
        if change.state != ChangeState.INTERRUPTED and change.begun <= before_ms and id_ in (None, change.id):
            yield change


def _delete_originals(found: Pruned, safety: SafetyOptions) -> None:
    with locked(log_directory_of(found.path), [found.path], safety):
        prune(found.kept)
