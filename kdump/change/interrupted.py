"""Changes that were interrupted are finished before anything else is done with their partition."""

from __future__ import annotations

from kdump.change import journal
from kdump.change.apply import clear_leftovers, finish
from kdump.change.change import Change
from kdump.change.checks import check_own, differences, in_words
from kdump.errors import RefusedError
from kdump.formats.printable import command_line


def finish_interrupted(partition_directory: str, backup_dir: str | None = None) -> list[Change]:
    """Finish what was interrupted in a partition, which nobody else may be using; the changes that were.

    Raises OSError, KdumpError, and RefusedError, with nothing changed, where the partition was changed since.
    """
    found = journal.unfinished(partition_directory, backup_dir)
    for change in found:
        check_finishable(change)
    for change in found:
        finish(change)  # which looks at the files again: an earlier one may have changed them
    clear_leftovers(partition_directory, backup_dir)
    return found


def check_finishable(change: Change) -> None:
    """Raise RefusedError where an interrupted change cannot be finished, with the way to go on. Raises OSError.

    What is done to finish it, or to take it back, is what its journal says: input, and checked as a new plan is.
    """
    check_own(change)
    found = list(differences(change))
    if not found:
        return
    raise RefusedError(
        f"{change.path}: change {change.id} ({change.command or 'kdump'}) was interrupted, and the partition was"
        f" changed since: {in_words(found)}. To keep it as it is now, with the originals kept:"
        f" {command_line('kdump', 'undo', change.path, '--change', change.id, '--close', '--apply')}"
    )
