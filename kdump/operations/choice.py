"""Which partitions of what is at a path are meant, by topic and number."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase

from kdump.formats import names
from kdump.storage.directory import LogDirectory
from kdump.storage.open import Place
from kdump.storage.partition import PartitionLog


def chooses(patterns: Iterable[str]) -> Callable[[str], bool]:
    """Return a test whether a name matches one of the patterns; all do where there is none."""
    wanted = tuple(patterns)
    return lambda name: not wanted or any(fnmatchcase(name, pattern) for pattern in wanted)


def chosen_in(
    place: Place, path: str, has_topic: Callable[[str], bool], has_number: Callable[[int], bool]
) -> Iterator[str]:
    """Yield what is chosen of what is at a path: of a log directory the partitions, of others, and files, themselves.

    A partition whose directory has no name of one is chosen.
    """

    def has(name: str) -> bool:
        found = names.parse_partition_dir(name)
        return has_topic(found.topic) and has_number(found.partition)

    if isinstance(place, LogDirectory):
        yield from (os.path.join(path, name) for name in place.partition_names if has(name))
    elif not isinstance(place, PartitionLog) or place.name is None or has(os.path.basename(os.path.abspath(path))):
        yield path
