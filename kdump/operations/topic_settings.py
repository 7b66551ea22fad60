"""The settings that the topics of a log directory have, and the release of Kafka that wrote it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from kdump.errors import Problem
from kdump.formats import names
from kdump.operations.results import Note
from kdump.operations.targets import PartitionGroup
from kdump.releases import KafkaRelease
from kdump.settings.sources import PropertyFile, Settings
from kdump.storage.checkpoints import Checkpoints
from kdump.storage.directory import LogDirectory


class KnownSettings(NamedTuple):
    """Settings of topics, the release that wrote the log directory, and what of its metadata does not count."""

    settings: Settings
    release: KafkaRelease
    notes: tuple[Note, ...]


def topic_settings(
    group: PartitionGroup, files: Sequence[PropertyFile], given: Mapping[str, str] | None = None
) -> KnownSettings:
    """Return the settings of topics by the cluster's metadata, by `files` and by what is `given` outright.

    The metadata counts where it can be trusted: in the same log directory, or in another one at hand of the same
    broker. Raises OSError.
    """
    directory = LogDirectory(group.log_directory)
    cluster = group.clusters.of(directory)
    return KnownSettings(cluster.settings(files, given), cluster.kafka, tuple(_notes(directory, cluster.problems)))


def _notes(directory: LogDirectory, problems: Sequence[Problem]) -> Iterator[Note]:
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        path = problems[0].path  # of another log directory it is that of the whole metadata
        if os.path.basename(path) != names.CLUSTER_METADATA_DIR:
            path = os.path.join(directory.path, names.CLUSTER_METADATA_DIR)
        yield Note(f"{path}: settings of topics in it do not count: {problems[0].text}{more}")


def unusable(checkpoints: Checkpoints) -> Iterator[Note]:
    """Say which checkpoints cannot be parsed."""
    for error in checkpoints.errors.values():
        if isinstance(error, OSError):
            continue  # which is an error of its own
        yield Note(f"{error}: treated as empty, as a broker does")
