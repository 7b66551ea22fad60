"""Tell of changes that were interrupted: most directories have none, and then nothing that makes changes is loaded."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from kdump.change.place import may_have_changes
from kdump.disk.reading import may_be_entered
from kdump.errors import KdumpError
from kdump.storage.live import tally

if TYPE_CHECKING:
    from kdump.change.journal import Changes


class Unfinished(NamedTuple):
    """A change of the partition directory `path` that was interrupted, or cannot be read; `text` is for people."""

    path: str
    text: str


def unfinished_in(log_directory: str, partitions: Iterable[str]) -> Iterator[Unfinished]:
    """Yield the interrupted changes of partition directories of one log directory.

    One that may not be entered is skipped: who reads the partition says so. Raises OSError.
    """
    partitions = list(partitions)
    tally.changes_seen.update(map(os.path.abspath, partitions))
    if not may_have_changes(log_directory, partitions):
        return
    from kdump.change.journal import Changes

    changes = Changes(log_directory)
    for path in partitions:
        try:
            yield from _interrupted(changes, path)
        except PermissionError:
            if may_be_entered(path):
                raise


def _interrupted(changes: Changes, path: str) -> Iterator[Unfinished]:
    try:
        for change in changes.of(path):
            if change.is_interrupted:
                yield Unfinished(path, f"change {change.id} ({change.command or 'kdump'}) was interrupted")
    except KdumpError as error:
        yield Unfinished(path, str(error))
