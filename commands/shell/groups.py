"""PATHs as partitions by log directory, for the commands that change several of them together."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import click

from kdump.formats.printable import safe_path
from kdump.operations.targets import PartitionGroup, PartitionGroups

from .paths import KafkaFile, expand
from .session import Failures


def grouped(
    paths: Iterable[str], failures: Failures, wants: Callable[[str], bool] = lambda _: True
) -> list[PartitionGroup]:
    """The PATHs by log directory; what is not there is complained of. Raises click.UsageError for a file."""
    groups = PartitionGroups(wants)
    for path in paths:
        with failures.told(path):
            for place in expand([path]):
                if isinstance(place, KafkaFile):
                    raise click.UsageError(f"{safe_path(place.path)} is a file: give the partition directory around it")
                groups.add(place)
    return groups.all()
