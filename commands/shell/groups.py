"""PATHs as partitions by log directory, for the commands that change several of them together."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from kdump.operations.targets import PartitionGroup, PartitionGroups
from kdump.storage.directory import LogDirectory

from .paths import directories
from .session import Failures


def grouped(
    paths: Iterable[str], failures: Failures, wants: Callable[[str], bool] = lambda _: True
) -> list[PartitionGroup]:
    """Return the PATHs by log directory; what is not there is complained of. Raises click.UsageError for a file."""
    groups = PartitionGroups(wants)
    for path in paths:
        with failures.reporting(path):
            for place in directories([path]):
                groups.add(place)
                failures.name(place.path if isinstance(place, LogDirectory) else os.path.dirname(place.path) or ".")
    return groups.all()
