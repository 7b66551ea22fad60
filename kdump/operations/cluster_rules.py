"""What the cluster's metadata beside a partition says about appending to it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from kdump.disk.reading import is_directory
from kdump.errors import Problem
from kdump.formats import names
from kdump.formats.names import PartitionDirName
from kdump.releases import NEWEST, KafkaRelease
from kdump.settings.sources import TopicSettings
from kdump.storage.checkpoints import Checkpoints
from kdump.storage.directory import LogDirectory
from kdump.topics.clusters import Clusters


@dataclass(frozen=True, slots=True)
class ClusterRules:
    """`settings` are those of the topic.

    `next_producer_id` is the first producer id that the cluster has not given to its brokers yet, None where that is
    not known. `release` is the one that wrote the log directory, the newest where that is not known.
    `transaction_version` is the level of that feature, 0 where nothing says it. `problem` says why metadata that is
    there is of no use.
    """

    settings: TopicSettings = field(default_factory=TopicSettings)
    next_producer_id: int | None = None
    release: KafkaRelease = NEWEST
    transaction_version: int = 0
    problem: Problem | None = None


def cluster_rules(log_directory: str, name: PartitionDirName) -> ClusterRules:
    """Read the rules for a partition of a log directory; of a broker's own topics also what it creates them with.

    A partition that the cleaner's checkpoint names is compacted where nothing says what its policy is. Raises OSError.
    """
    directory = LogDirectory(log_directory)
    cluster = Clusters(_with_metadata(os.path.dirname(os.path.abspath(log_directory)))).of(directory)
    return ClusterRules(
        cluster.settings().of(name.topic, was_cleaned=_was_cleaned(directory, name)),
        cluster.next_producer_id,
        cluster.kafka,
        cluster.transaction_version,
        cluster.problems[0] if cluster.problems else None,
    )


def _with_metadata(parent: str) -> Iterator[str]:
    """Yield the log directories in a directory with the metadata log: of a broker's several log.dirs one has it.

    What may not be entered is skipped: no settings come from there. Raises OSError.
    """
    with suppress(PermissionError), os.scandir(parent) as entries:
        for entry in entries:
            with suppress(PermissionError):
                if is_directory(os.path.join(entry.path, names.CLUSTER_METADATA_DIR)):
                    yield entry.path


def _was_cleaned(directory: LogDirectory, name: PartitionDirName) -> bool:
    found = Checkpoints.read(directory.path, (names.CLEANER_CHECKPOINT,)).readable()
    return found.of(name).cleaner is not None
