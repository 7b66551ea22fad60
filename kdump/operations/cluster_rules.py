"""What the cluster's metadata beside a partition says about appending to it."""

from __future__ import annotations

from dataclasses import dataclass, field

from kdump.errors import KdumpError, Problem
from kdump.formats import names
from kdump.formats.names import PartitionDirName
from kdump.releases import NEWEST, TRANSACTION_VERSION, KafkaRelease
from kdump.settings.sources import Settings, TopicSettings
from kdump.storage.checkpoints import Checkpoints
from kdump.storage.directory import LogDirectory
from kdump.topics.metadata_log import release_of, state_beside


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
    problems: list[Problem] = []
    state = state_beside(directory, problems.append)
    node_id = _node_id(directory)
    settings = Settings(state.image.configs if state else {}, node_id)
    given = state.image.producer_ids if state else None
    return ClusterRules(
        settings.of(name.topic, was_cleaned=_was_cleaned(directory, name)),
        given["nextProducerId"] if given else None,
        release_of(state, node_id),
        state.image.features.get(TRANSACTION_VERSION, 0) if state else 0,
        problems[0] if problems else None,
    )


def _node_id(directory: LogDirectory) -> int | None:
    try:
        meta = directory.meta_properties()
    except (KdumpError, OSError):
        return None
    return meta.node_id if meta else None


def _was_cleaned(directory: LogDirectory, name: PartitionDirName) -> bool:
    found = Checkpoints.read(directory.path, (names.CLEANER_CHECKPOINT,)).readable()
    return found.of(name).cleaner is not None
