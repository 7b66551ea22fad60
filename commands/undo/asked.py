"""What `kdump undo` is asked for, and its paths as they were given."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from kdump.operations.rails import SafetyOptions

from ..shell.output import as_given


@dataclass(frozen=True, slots=True)
class UndoArgs:
    """What the command line asks for; `older_than` is in ms."""

    id: str | None = None
    applies: bool = False
    prune: bool = False
    older_than: int = 0
    close: bool = False
    backup_dir: str | None = None
    force: str | None = None
    verbose: bool = False

    @property
    def rails(self) -> SafetyOptions:
        """How carefully it is done."""
        return SafetyOptions(self.applies, "undo", backup_dir=self.backup_dir, ignore_lock=self.force)


class Shown:
    """Paths as they were given on the command line."""

    def __init__(self, paths: Iterable[str]) -> None:
        """`paths` are those of the command line."""
        given = list(paths)
        parents = {os.path.dirname(os.path.realpath(path)): os.path.dirname(path) or os.curdir for path in given}
        self._given = {os.path.realpath(path): path for path in given}
        self._named = parents | self._given

    def __call__(self, path: str) -> str:
        """Return the path with what was given in front, if it is one of those or below one."""
        for real, given in self._given.items():
            if path == real or path.startswith(os.path.join(real, "")):
                return os.path.join(given, os.path.relpath(path, real)) if path != real else given
        return path

    def spoken(self, text: str) -> str:
        """Return a message with paths as they were given; those of the directories that hold them too."""
        return as_given(text, self._named)
