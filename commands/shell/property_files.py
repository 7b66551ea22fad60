"""Properties files that `--config` names, and what there is to say of the settings in them."""

from __future__ import annotations

import click

from kdump.disk.reading import read_small
from kdump.errors import CheckpointError, ConfigError
from kdump.formats.java_properties import parse_properties
from kdump.formats.printable import safe, safe_path
from kdump.settings.sources import TopicSettings
from kdump.settings.views import View

from .output import note


def read_config(path: str, view: type[View]) -> dict[str, str]:
    """Return the properties of a `--config`; notes name those that do not count for `view`.

    Raises click.BadParameter for a file that Kafka would not take, OSError.
    """
    try:
        properties = parse_properties(read_small(path), path)
        settings = TopicSettings.of(properties)
        settings.check()
        view.of(settings)
    except (ConfigError, CheckpointError) as error:
        raise click.BadParameter(f"{safe_path(path)}: {safe(str(error))}", param_hint="--config") from None
    from kdump.settings.names import notes_on  # every name that Kafka has

    for text in notes_on(properties, view.counting()):
        note(f"{safe_path(path)}: {safe(text)}")
    return properties
