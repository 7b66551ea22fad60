"""The settings that the topics of a log directory have, and the release of Kafka that wrote it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from kdump.errors import Problem
from kdump.formats import names
from kdump.operations.results import Note
from kdump.query.inventory import owner_of
from kdump.releases import KafkaRelease
from kdump.settings.sources import PropertyFile, Settings
from kdump.storage.checkpoints import Checkpoints
from kdump.storage.directory import LogDirectory
from kdump.topics.metadata_log import release_of, state_beside


class KnownSettings(NamedTuple):
    """Settings of topics, the release that wrote the log directory, and what of its metadata does not count."""

    settings: Settings
    release: KafkaRelease
    notes: tuple[Note, ...]


def topic_settings(
    directory: LogDirectory, files: Sequence[PropertyFile], given: Mapping[str, str] | None = None
) -> KnownSettings:
    """Return the settings of topics by the metadata log beside them, by `files` and by what is `given` outright.

    The metadata log counts where it is in the same log directory and can be trusted. Raises OSError.
    """
    owner = owner_of(directory)
    node_id = owner.node_id if owner else None
    problems: list[Problem] = []
    state = state_beside(directory, problems.append)
    settings = Settings(state.image.configs if state else {}, node_id, files, given or {})
    return KnownSettings(settings, release_of(state, node_id), tuple(_notes(directory, problems)))


def _notes(directory: LogDirectory, problems: Sequence[Problem]) -> Iterator[Note]:
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        path = os.path.join(directory.path, names.CLUSTER_METADATA_DIR)
        yield Note(f"{path}: settings of topics in it do not count: {problems[0].text}{more}")


def unusable(checkpoints: Checkpoints) -> Iterator[Note]:
    """Say which checkpoints cannot be parsed."""
    for error in checkpoints.errors.values():
        if isinstance(error, OSError):
            continue  # which is an error of its own
        yield Note(f"{error}: treated as empty, as a broker does")
