"""PATHs as replicas of partitions, for the commands that look at topics across log directories."""

from __future__ import annotations

from collections.abc import Iterable

import click

from kdump.errors import Problem
from kdump.formats.printable import safe_path
from kdump.storage.directory import LogDirectory
from kdump.storage.partition import PartitionLog
from kdump.storage.replica import Replica, farthest, replicas

from .output import note
from .paths import KafkaFile, expand
from .session import Troubles


def replicas_at(paths: Iterable[str], troubles: Troubles) -> list[Replica]:
    """The partitions in the directories that PATHs name; one that cannot be read does not keep the others back.

    Raises click.UsageError for a file, FileNotFoundError for nothing of Kafka's, OSError where none can be read.
    """
    places: list[PartitionLog | LogDirectory] = []
    unreadable: list[tuple[str, OSError]] = []
    for place in expand(paths, unreadable):
        if isinstance(place, KafkaFile):
            raise click.UsageError(f"{safe_path(place.path)}: expected a partition directory or a log directory")
        places.append(place)
    for path, error in unreadable:
        troubles(Problem.unreadable(path, error))
    return list(replicas(places, troubles))


def newest(found: Iterable[Replica], troubles: Troubles) -> list[Replica]:
    """One replica of each partition; notes name those that are not used."""

    def unused(replica: Replica, kept: Replica) -> None:
        note(f"{safe_path(replica.log.path)}: not used, {safe_path(kept.log.path)} is farther or as far")

    return farthest(found, troubles, unused)
