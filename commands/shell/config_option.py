"""Which settings topics have: the option `--config [TOPIC=]FILE`, and the cluster's metadata log in a log directory."""

from __future__ import annotations

import os
from collections.abc import Mapping

import click

from kdump.errors import Problem
from kdump.formats import names
from kdump.query.inventory import owner_of
from kdump.releases import KafkaRelease
from kdump.settings.sources import PropertyFile, Settings
from kdump.settings.views import View
from kdump.storage.directory import LogDirectory
from kdump.topics.metadata_log import MetadataState, release_of, state_beside

from .output import note, safe, safe_path
from .property_files import read_config

config_option = click.option(
    "--config",
    "config_files",
    multiple=True,
    metavar="[TOPIC=]FILE",
    help="A server.properties or a topic's properties; with TOPIC (a name or pattern) for those topics alone. May be"
    " repeated.",
)


def property_file(text: str, view: type[View]) -> PropertyFile:
    """The properties that a `[TOPIC=]FILE` names; those count that `view` does. Raises click.BadParameter."""
    topics, equals, path = text.partition("=")
    if not equals or os.sep in topics:
        topics, path = "", text
    try:
        properties = read_config(path, view)
    except OSError as error:
        raise click.BadParameter(f"{safe_path(path)}: {error.strerror}", param_hint="--config") from None
    return PropertyFile(path, topics or None, properties)


def settings_in(
    directory: LogDirectory, files: tuple[PropertyFile, ...], given: Mapping[str, str] | None = None
) -> Settings:
    """The settings of the topics in a log directory, by its metadata log, `files` and what is `given` outright.

    Raises OSError.
    """
    return settings_and_release(directory, files, given)[0]


def settings_and_release(
    directory: LogDirectory, files: tuple[PropertyFile, ...], given: Mapping[str, str] | None = None
) -> tuple[Settings, KafkaRelease]:
    """The same, and the release that wrote the log directory. Raises OSError."""
    owner = owner_of(directory)
    node_id = owner[1] if owner else None
    state = _cluster(directory)
    configs = state.image.configs if state else {}
    return Settings(configs, node_id, files, given or {}), release_of(state, node_id)


def _cluster(directory: LogDirectory) -> MetadataState | None:
    """The cluster's state in the metadata log, where it is in the same log directory and can be trusted."""
    troubles: list[Problem] = []
    state = state_beside(directory, troubles.append)
    if troubles:
        more = f" (and {len(troubles) - 1} more)" if len(troubles) > 1 else ""
        path = os.path.join(directory.path, names.CLUSTER_METADATA_DIR)
        note(f"{safe_path(path)}: settings of topics in it do not count: {safe(troubles[0].text)}{more}")
    return state
