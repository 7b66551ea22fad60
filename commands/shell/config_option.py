"""Which settings topics have: the option `--config [TOPIC=]FILE`, and the cluster's metadata log in a log directory."""

from __future__ import annotations

import os

import click

from kdump.formats.printable import safe_path
from kdump.settings.sources import PropertyFile
from kdump.settings.views import View

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
    """Return the properties that a `[TOPIC=]FILE` names; those count that `view` does. Raises click.BadParameter."""
    topics, equals, path = text.partition("=")
    if not equals or os.sep in topics:
        topics, path = "", text
    try:
        properties = read_config(path, view)
    except OSError as error:
        raise click.BadParameter(f"{safe_path(path)}: {error.strerror}", param_hint="--config") from None
    return PropertyFile(path, topics or None, properties)
