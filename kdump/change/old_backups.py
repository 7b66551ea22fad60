"""What kdump 0.1 kept: folders .kdump-backup/TIME in partition directories, which go with the topic.

They are listed and can be pruned. Nothing in them says what the files were when the change ended, so to undo one by
itself could drop records: that is refused, and whoever knows better copies the files back by hand.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress

from kdump.disk.reading import is_named, is_there
from kdump.named_tuples import NamedTuple

BACKUP_FOLDER = ".kdump-backup"
_PLAN, _DONE, _UNDONE = "plan.jsonl", "done", "undone"


class OldBackup(NamedTuple):
    """A folder of kdump 0.1; `is_interrupted`: the change was begun and is not done."""

    partition: str
    path: str
    is_interrupted: bool
    is_undone: bool

    @property
    def state(self) -> str:
        """What became of the change, in words."""
        return "INTERRUPTED" if self.is_interrupted else "undone" if self.is_undone else "made by kdump 0.1"

    @property
    def id(self) -> str:
        """The name of the folder."""
        return os.path.basename(self.path)

    @property
    def size(self) -> int:
        """How many bytes its files have. Raises OSError."""
        return sum(
            os.lstat(os.path.join(folder, name)).st_size for folder, _, files in os.walk(self.path) for name in files
        )


def old_backups(partition_directory: str) -> Iterator[OldBackup]:
    """Yield the folders of kdump 0.1 in a partition directory, the oldest first; none where it must not be looked into.

    Raises OSError.
    """
    top = os.path.join(partition_directory, BACKUP_FOLDER)
    try:
        if not is_named(top):
            return
        names = sorted(os.listdir(top))
    except (FileNotFoundError, NotADirectoryError):
        return
    except PermissionError:
        os.listdir(partition_directory)  # names that directory, if it is the one
        raise
    for name in names:
        path = os.path.join(top, name)
        plan, done, undone = (is_there(os.path.join(path, each)) for each in (_PLAN, _DONE, _UNDONE))
        if plan or done or undone:
            yield OldBackup(partition_directory, path, plan and not done and not undone, undone)


def prune_old(backup: OldBackup) -> None:
    """Delete such a folder. Raises OSError."""
    from kdump.disk.durable import remove_empty_directory, remove_tree  # who only looks for one writes nothing

    assert not backup.is_interrupted
    remove_tree(backup.path)
    with suppress(OSError):
        remove_empty_directory(os.path.dirname(backup.path))
