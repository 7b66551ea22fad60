"""PATHs as replicas of partitions, for the commands that look at topics across log directories."""

from __future__ import annotations

from collections.abc import Iterable

from kdump.errors import Problem
from kdump.formats.printable import safe_path
from kdump.operations.choice import chooses
from kdump.storage.directory import LogDirectory
from kdump.storage.partition import PartitionLog
from kdump.storage.replica import Replica, farthest, replicas

from .choice import has_partition
from .output import note
from .paths import directories, reached
from .session import Diagnostics


def replicas_at(paths: Iterable[str], diagnostics: Diagnostics) -> list[Replica]:
    """Return the partitions in the directories that PATHs name. Raises click.UsageError for a file."""
    return list(replicas(directories_at(paths, diagnostics), diagnostics))


def directories_at(paths: Iterable[str], diagnostics: Diagnostics) -> list[PartitionLog | LogDirectory]:
    """Return the directories that PATHs name, without those that cannot be read. Raises click.UsageError for a file."""
    return list(reached(paths, directories, lambda error, path: diagnostics(Problem.unreadable(path, error))))


def chosen_replicas(found: Iterable[Replica], topics: Iterable[str]) -> list[Replica]:
    """Return those of partitions that --topic and --partition name."""
    is_asked = chooses(topics)
    return [each for each in found if is_asked(each.topic) and has_partition(each.partition)]


def newest(found: Iterable[Replica], diagnostics: Diagnostics) -> list[Replica]:
    """Return one replica of each partition; notes name those that are not used."""

    def unused(replica: Replica, kept: Replica) -> None:
        note(f"{safe_path(replica.log.path)}: not used, {safe_path(kept.log.path)} is farther or as far")

    return farthest(found, diagnostics, unused)
