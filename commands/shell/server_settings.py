"""What the settings of a server.properties decide for commands that otherwise take their log.dirs from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from kdump.errors import ConfigError
from kdump.settings import table
from kdump.settings.loading import LoadingSettings
from kdump.settings.retention import RetentionSettings
from kdump.settings.sources import TopicSettings
from kdump.settings.table import Setting

from .config_option import note_unused
from .paths import bad_config, properties_of

_OPTIONS: Mapping[str, Mapping[str, Setting[int]]] = {
    "groups": {"retention_ms": table.OFFSETS_RETENTION_MS},
    "stats": {"retention_ms": table.RETENTION_MS},
    "txns": {"max_timeout_ms": table.TRANSACTION_MAX_TIMEOUT_MS},
}
"""The options of commands that stand for a setting: where they are not given, the file's counts."""
_OF_TOPICS: Mapping[str, tuple[Setting[Any], ...]] = {
    "replicas": (*LoadingSettings.counting(), table.CLEANUP_POLICY),
    "verify": (*RetentionSettings.counting(), table.TRANSACTION_MAX_TIMEOUT_MS),
}
"""The commands that take the properties as those of the brokers, and what of their topics' settings counts there."""


def from_server(name: str, path: str) -> dict[str, Any]:
    """Return what a server.properties says of the parameters of a command; notes name settings that do not count.

    Raises click.BadParameter for a file that Kafka would not take, OSError.
    """
    properties = properties_of(path)
    settings = TopicSettings.of(properties)
    options = _OPTIONS.get(name, {})
    found: dict[str, Any] = {"properties": properties} if name in _OF_TOPICS else {}
    try:
        if found:
            settings.check()
        for parameter, setting in options.items():
            value = settings.get(setting)
            if value >= 0 and not _is_given(parameter):  # no limit is nothing to compute with
                found[parameter] = value
    except ConfigError as error:
        raise bad_config(path, error) from None
    note_unused(path, properties, (*options.values(), *_OF_TOPICS.get(name, ())))
    return found


def _is_given(parameter: str) -> bool:
    source = click.get_current_context().get_parameter_source(parameter)
    return source not in (None, click.core.ParameterSource.DEFAULT)
