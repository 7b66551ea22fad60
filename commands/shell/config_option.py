"""Properties files that `--config` names: what they say of topics, and what there is to say of them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

import click

from kdump.errors import ConfigError
from kdump.formats.printable import safe, safe_path
from kdump.settings.sources import PropertyFile, TopicSettings
from kdump.settings.table import Setting
from kdump.settings.views import View

from .output import note
from .paths import bad_config, properties_of

config_option = click.option(
    "--config",
    "config_files",
    multiple=True,
    metavar="[TOPIC=]FILE",
    help="A server.properties or a topic's properties; with TOPIC (a name or pattern) for those topics alone. May be"
    " repeated.",
)


def property_file(text: str, view: type[View]) -> PropertyFile:
    """Return the properties that a `[TOPIC=]FILE` names; those count that `view` does. Raises click.BadParameter."""
    topics, equals, path = text.partition("=")
    if not equals or os.sep in topics:
        topics, path = "", text
    try:
        properties = read_config(path, view)
    except OSError as error:
        raise click.BadParameter(f"{safe_path(path)}: {error.strerror}", param_hint="--config") from None
    return PropertyFile(path, topics or None, properties)


def read_config(path: str, view: type[View]) -> dict[str, str]:
    """Return the properties of a `--config`; notes name those that do not count for `view`.

    Raises click.BadParameter for a file that Kafka would not take, OSError.
    """
    properties = properties_of(path)
    try:
        settings = TopicSettings.of(properties)
        settings.check()
        view.of(settings)
    except ConfigError as error:
        raise bad_config(path, error) from None
    note_unused(path, properties, view.counting())
    return properties


def note_unused(path: str, properties: Mapping[str, str], counting: Iterable[Setting[Any]]) -> None:
    """Say on stderr which names in a properties file do not count for a command that these settings count for."""
    from kdump.settings.names import notes_on  # every name that Kafka has

    for text in notes_on(properties, counting):
        note(f"{safe_path(path)}: {safe(text)}")
