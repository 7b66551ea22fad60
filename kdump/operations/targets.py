"""The partitions that an operation is asked for, by log directory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import NamedTuple

from kdump.disk.entered import check_way
from kdump.disk.reading import is_directory, is_named
from kdump.errors import NameFormatError
from kdump.formats import names
from kdump.formats.names import FileName
from kdump.storage.directory import LogDirectory
from kdump.storage.open import Place
from kdump.storage.partition import PartitionLog
from kdump.topics.clusters import Clusters

Bases = frozenset[int] | None
_UNKNOWN = Clusters(())


Missing = Callable[[LogDirectory], Iterable[str]]
"""The names of the partitions that a log directory lacks, and that are to be made."""


def base_of(name: FileName) -> int | None:
    """Return the base offset of the segment of which a file is the log or an index; None for any other file."""
    return name.offset if name.kind in (names.LOG, *names.INDEX_KINDS) else None


def is_absent_partition(path: str) -> bool:
    """Return whether a path names a partition directory that is not there, in a directory that is. Raises OSError."""
    folder, name = os.path.split(os.path.abspath(path))
    return names.is_partition_dir(name) and not is_named(path) and is_directory(folder)


class PartitionGroup(NamedTuple):
    """Partition directories in one log directory: those of its own that a broker serves (`is_whole`), or named ones.

    `clusters` is what the metadata tells that is in this log directory and in the others asked for with it.
    """

    log_directory: str
    is_whole: bool
    partitions: list[str]
    clusters: Clusters


class PartitionGroups:
    """Collects by log directory what is asked for; `wants` says of partition directories' names which are, by name."""

    def __init__(self, wants: Callable[[str], bool] = lambda _: True) -> None:
        self._wants = wants
        self._groups: dict[tuple[str, bool], PartitionGroup] = {}

    def add(self, place: PartitionLog | LogDirectory) -> None:
        """Add a log directory, or a partition directory, which counts once. Raises OSError."""
        if isinstance(place, LogDirectory):
            found = [name for name in place.partition_names if _is_served(name) and self._wants(name)]
            paths = [os.path.join(place.path, name) for name in found]
            self._groups[os.path.realpath(place.path), True] = PartitionGroup(place.path, True, paths, _UNKNOWN)
            return
        parent = os.path.dirname(os.path.abspath(place.path))
        group = self._groups.setdefault((os.path.realpath(parent), False), PartitionGroup(parent, False, [], _UNKNOWN))
        if not any(os.path.samefile(place.path, known) for known in group.partitions):
            group.partitions.append(place.path)

    def all(self) -> list[PartitionGroup]:
        """Return the groups, in the order in which they were first named."""
        groups = list(self._groups.values())
        clusters = Clusters([group.log_directory for group in groups])
        return [group._replace(clusters=clusters) for group in groups]


def _is_served(name: str) -> bool:
    """Return whether a broker's retention and cleaner come to a partition: KRaft trims its own log by snapshots."""
    return names.parse_partition_dir(name).state == names.LIVE and name != names.CLUSTER_METADATA_DIR


class Target:
    """Partition directories of one log directory; those of which only segments were named, with their base offsets.

    All paths are real ones; `names` has them as they were given. `shown` is the path of the log directory to speak of
    if it gets another one in the end.
    """

    def __init__(
        self, log_directory: str, partitions: dict[str, Bases] | None = None, shown: str | None = None
    ) -> None:
        """Begin with no names given."""
        self.log_directory = log_directory
        self.partitions = {} if partitions is None else partitions
        self.names: dict[str, str] = {}
        self.shown = shown

    def name(self, path: str) -> str:
        """Return a path in the log directory as it is spoken of."""
        if self.shown is not None:
            return os.path.join(self.shown, os.path.relpath(path, self.log_directory))
        return self.names.get(path, path)

    def check_way(self) -> None:
        """Raise RefusedError where links of other users lead to the partitions, as they were named. Raises OSError."""
        paths = list(map(os.path.abspath, self.names.values()))
        for path in {*map(os.path.dirname, paths), *filter(os.path.islink, paths)}:
            check_way(path)

    def spoken(self, text: str) -> str:
        """Return a text about what is in the log directory, with the paths as they were given."""
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
    """Collects what is asked for.

    `missing` names the partitions that a log directory lacks; with it absent ones that a path names are to be made,
    too. With `takes_files` a file of a segment stands for that segment.
    """

    def __init__(self, missing: Missing | None = None, *, takes_files: bool = False) -> None:
        self._missing = missing
        self._takes_files = takes_files
        self._by_directory: dict[str, Target] = {}

    def add_absent(self, path: str) -> bool:
        """Add a partition directory that is to be made; return whether the path is of one. Raises OSError."""
        is_absent = self._missing is not None and is_absent_partition(path)
        if is_absent:
            self.add_partition(path)
        return is_absent

    def add(self, place: Place) -> None:
        """Add what is at a path. Raises OSError, NameFormatError for a file that stands for no segment here."""
        if isinstance(place, LogDirectory):
            self.add_directory(place)
        elif isinstance(place, PartitionLog):
            self.add_partition(place.path)
        elif not self._takes_files:
            raise NameFormatError(f"{place.path} is a file: give the partition directory that it is in")
        else:
            base = base_of(place.name)
            if base is None:
                raise NameFormatError(f"{place.path}: expected a .log, an index or a directory")
            self.add_partition(os.path.dirname(os.path.abspath(place.path)), frozenset({base}))

    def add_directory(self, directory: LogDirectory) -> None:
        """Add all partitions of a log directory, and those that are to be made in it."""
        target = self._of(os.path.realpath(directory.path))
        for name in directory.partition_names:
            target.add(os.path.join(target.log_directory, name), os.path.join(directory.path, name))
        for name in self._missing(directory) if self._missing is not None else ():
            self.add_partition(os.path.join(directory.path, name))

    def add_partition(self, path: str, bases: Bases = None) -> None:
        """Add a partition directory, or the segments with these base offsets."""
        real = os.path.realpath(path)
        self._of(os.path.dirname(real)).add(real, path, bases)

    def all(self) -> list[Target]:
        """Return the targets, in the order in which they were first named."""
        return list(self._by_directory.values())

    def _of(self, root: str) -> Target:
        return self._by_directory.setdefault(root, Target(root))
