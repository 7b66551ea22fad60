"""What the settings of a server.properties decide for commands that otherwise take their log.dirs from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from kdump.errors import ConfigError
from kdump.formats.printable import safe, safe_path
from kdump.settings import table
from kdump.settings.names import notes_on
from kdump.settings.sources import TopicSettings
from kdump.settings.table import Setting

from .output import note
from .paths import bad_config, properties_of

_TIMEOUT = {"max_timeout_ms": table.TRANSACTION_MAX_TIMEOUT_MS}
_OPTIONS: Mapping[str, Mapping[str, Setting[int]]] = {
    "groups": {"retention_ms": table.OFFSETS_RETENTION_MS},
    "stats": {"retention_ms": table.RETENTION_MS},
    "txns": _TIMEOUT,
    "verify": _TIMEOUT,
}
"""The options of commands that stand for a setting: where they are not given, the file's counts."""
_TAKE_ALL = ("replicas", "verify")
"""The commands that take the properties as those of the brokers, whose topics they count for."""


def from_server(name: str, path: str) -> dict[str, Any]:
    """Return what a server.properties says of the parameters of a command; notes name settings that Kafka has not.

    Raises click.BadParameter for a file that Kafka would not take, OSError.
    """
    properties = properties_of(path)
    settings = TopicSettings.of(properties)
    found: dict[str, Any] = {"properties": properties} if name in _TAKE_ALL else {}
    try:
        if found:
            settings.check()
        for parameter, setting in _OPTIONS.get(name, {}).items():
            value = settings.get(setting)
            if value >= 0 and not _is_given(parameter):  # no limit is nothing to compute with
                found[parameter] = value
    except ConfigError as error:
        raise bad_config(path, error) from None
    for text in notes_on(properties, None):
        note(f"{safe_path(path)}: {safe(text)}")
    return found


def _is_given(parameter: str) -> bool:
    source = click.get_current_context().get_parameter_source(parameter)
    return source not in (None, click.core.ParameterSource.DEFAULT)
