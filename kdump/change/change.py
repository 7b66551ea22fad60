"""One change of one partition as plain data: its steps, what the files were, and what they are afterwards."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from enum import StrEnum
from typing import NamedTuple

from kdump.change import place
from kdump.change.place import ChangeFiles
from kdump.change.plan import REMOVE, RENAME, REPLACE, TRUNCATE, Cut, Operation
from kdump.change.states import ANY_TIME, FileState, PartitionState

_MIN_BLOCK = 4096


class ChangeState(StrEnum):
    """How far a change is."""

    INTERRUPTED = "interrupted"
    DONE = "done"
    UNDONE = "undone"
    CLOSED = "closed"
    """It was interrupted, the partition was changed since, and it stays as it is."""


class Step(NamedTuple):
    """An operation and the files that it takes from and keeps at: names in the change's directory, or paths.

    `staged` is the new file that a REPLACE puts in place, `kept` takes the file that goes or, of a TRUNCATE, the bytes
    that are cut off. `new` is what the new file is. "" and None where there is no such file.
    """

    operation: Operation
    staged: str = ""
    kept: str = ""
    new: FileState | None = None


class KeptCut(NamedTuple):
    """Bytes that salvage took out of a log, and the name of the file that has them."""

    cut: Cut
    file: str


class Change(NamedTuple):
    """A change of the partition directory `path` by `command`, begun at `begun` (ms).

    `before` is the partition when it was begun, `after` when it was done, with the digests of the files that it made
    and the log end offset (absolute; None where it is not known). `undoes` is the id of the change that this one takes
    back. `made_directory`: the partition directory was made for it. Unless `keeps_old`, nothing but what was cut out is
    kept once it is done.
    """

    files: ChangeFiles
    path: str
    command: str
    begun: int
    steps: tuple[Step, ...]
    before: PartitionState
    cuts: tuple[KeptCut, ...] = ()
    keeps_old: bool = True
    undoes: str = ""
    state: ChangeState = ChangeState.INTERRUPTED
    after: PartitionState | None = None
    digests: Mapping[str, str] = {}
    log_end_offset: int | None = None
    made_directory: bool = False

    @property
    def id(self) -> str:
        """The id of the change; changes of several partitions by one run share it."""
        return self.files.id

    @property
    def is_interrupted(self) -> bool:
        """Whether it was begun, and is neither done nor taken back."""
        return self.state == ChangeState.INTERRUPTED

    @property
    def is_undone(self) -> bool:
        """Whether it was taken back."""
        return self.state == ChangeState.UNDONE

    def file(self, name: str) -> str:
        """Return the path of a file that a step or a cut names."""
        return os.path.join(self.files.directory, name)

    def directories(self) -> set[str]:
        """Return the directories in which its files lie; another one has what it takes back."""
        files = [name for step in self.steps for name in (step.staged, step.kept)] + [kept.file for kept in self.cuts]
        return {self.files.directory, *(os.path.normpath(os.path.dirname(self.file(name))) for name in files if name)}

    @property
    def kept_bytes(self) -> int:
        """How many bytes of the disk the files use that it keeps."""
        return sum(_used(path) for path in self.files.all() if path != self.files.path(place.JOURNAL))

    @property
    def all_bytes(self) -> int:
        """How many bytes of the disk its files use, the journal's too."""
        return sum(map(_used, self.files.all()))

    def allowed(self) -> dict[str, set[FileState | None]]:
        """Return what each file may be while the change is applied; None: not there."""
        now: dict[str, FileState | None] = dict(self.before.files)
        allowed: dict[str, set[FileState | None]] = {name: {state} for name, state in now.items()}

        def becomes(name: str, state: FileState | None) -> None:
            allowed.setdefault(name, {now.get(name)}).add(state)
            now[name] = state

        for step in self.steps:
            operation = step.operation
            if operation.action == REMOVE:
                becomes(operation.name, None)
            elif operation.action == REPLACE:
                becomes(operation.name, step.new)
            elif operation.action == RENAME:
                moved = now.get(operation.source)
                becomes(operation.source, None)
                becomes(operation.name, moved)
            elif operation.action == TRUNCATE:
                was = now.get(operation.name)
                # between the cut and its modification time there may have been a kill
                becomes(operation.name, FileState(operation.size, ANY_TIME))
                now[operation.name] = FileState(operation.size, was.modified if was else ANY_TIME)
        return allowed


def _used(path: str) -> int:
    with suppress(FileNotFoundError):
        info = os.lstat(path)
        # a file that was just written, or is small, may have no block of its own yet
        return min(info.st_size, max(info.st_blocks * 512, _MIN_BLOCK))
    return 0
