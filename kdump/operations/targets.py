"""The partitions that an operation is asked for, by log directory."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from kdump.storage.directory import LogDirectory

Bases = frozenset[int] | None


@dataclass(slots=True)
class Target:
    """Partition directories of one log directory; those of which only segments were named, with their base offsets.

    All paths are real ones; `names` has them as they were given. `shown` is the path of the log directory to speak of
    if it gets another one in the end.
    """

    log_directory: str
    partitions: dict[str, Bases] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    shown: str | None = None

    def name(self, path: str) -> str:
        """A path in the log directory as it is spoken of."""
        if self.shown is not None:
            return os.path.join(self.shown, os.path.relpath(path, self.log_directory))
        return self.names.get(path, path)

    def spoken(self, text: str) -> str:
        """A text about what is in the log directory, with the paths as they were given."""
        for real, name in self.names.items():
            if real in text:
                return text.replace(real, name)
        given = os.path.dirname(next(iter(self.names.values()), "")) or os.curdir
        return text.replace(self.log_directory, self.shown or given)

    def add(self, real: str, path: str, bases: Bases = None) -> None:
        """Add a partition directory, named `path`, or segments of it; the same one twice counts once."""
        before = self.partitions.get(real, frozenset())
        self.partitions[real] = None if bases is None or before is None else before | bases
        self.names.setdefault(real, path)


class Targets:
    """Collects what is asked for."""

    def __init__(self) -> None:
        self._by_directory: dict[str, Target] = {}

    def add_directory(self, directory: LogDirectory) -> None:
        """All partitions of a log directory."""
        target = self._of(os.path.realpath(directory.path))
        for name in directory.partition_names:
            target.add(os.path.join(target.log_directory, name), os.path.join(directory.path, name))

    def add_partition(self, path: str, bases: Bases = None) -> None:
        """A partition directory, or the segments with these base offsets."""
        real = os.path.realpath(path)
        self._of(os.path.dirname(real)).add(real, path, bases)

    def all(self) -> list[Target]:
        """The targets, in the order in which they were first named."""
        return list(self._by_directory.values())

    def _of(self, root: str) -> Target:
        return self._by_directory.setdefault(root, Target(root))
