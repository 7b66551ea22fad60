"""Changes that were interrupted: finish them before anything else is done with their partition."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

from kdump.change import journal
from kdump.change.apply import clear_leftovers, finish
from kdump.change.checks import differences
from kdump.change.journal import Change, Changes, ChangeState
from kdump.change.old_backups import old_backups
from kdump.errors import KdumpError, RefusedError


class Unfinished(NamedTuple):
    """A change of the partition directory `path` that was interrupted, or cannot be read; `text` is for people."""

    path: str
    text: str


def unfinished_in(log_directory: str, partitions: Iterable[str]) -> Iterator[Unfinished]:
    """Yield the interrupted changes of partition directories of one log directory. Raises OSError."""
    changes = Changes(log_directory)
    for path in partitions:
        try:
            for change in changes.of(path):
                if change.state == ChangeState.INTERRUPTED:
                    yield Unfinished(path, f"change {change.id} ({change.command or 'kdump'}) was interrupted")
        except KdumpError as error:
            yield Unfinished(path, str(error))
        with suppress(PermissionError):  # who reads the partition says that it cannot be read
            for backup in old_backups(path):
                if backup.is_interrupted:
                    yield Unfinished(path, f"a change by kdump 0.1 was interrupted: {backup.path}")


def finish_interrupted(partition_directory: str, backup_dir: str | None = None) -> list[Change]:
    """Finish what was interrupted in a partition, which nobody else may be using; the changes that were.

    Raises OSError, KdumpError, and RefusedError, with nothing changed, where the partition was changed since.
    """
    found = journal.unfinished(partition_directory, backup_dir)
    for change in found:
        check_finishable(change)
    for change in found:
        finish(change)
    clear_leftovers(partition_directory, backup_dir)
    return found


def check_finishable(change: Change) -> None:
    """Raise RefusedError where an interrupted change cannot be finished, with the way to go on. Raises OSError."""
    found = list(differences(change))
    if not found:
        return
    more = f", and {len(found) - 3} more" if len(found) > 3 else ""
    raise RefusedError(
        f"{change.path}: change {change.id} ({change.command or 'kdump'}) was interrupted, and the partition was"
        f" changed since: {'; '.join(found[:3])}{more}. To keep it as it is now, with the originals kept:"
        f" kdump undo {os.path.join(change.path)} --change {change.id} --close --apply"
    )
