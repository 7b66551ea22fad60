"""The circumstances of a broker's start, as options of the commands that do its log loading."""

from __future__ import annotations

import click

from kdump.formats.time_units import wall_clock
from kdump.operations.startup import StartupOptions
from kdump.releases import KafkaRelease
from kdump.settings.loading import LoadingSettings
from kdump.settings.views import View

from .options import all_of, kafka_option, now_if_given_option

startup_options = all_of(
    click.option(
        "--clean/--unclean", default=None, help="How the broker stopped. By default as .kafka_cleanshutdown shows."
    ),
    click.option(
        "--recovery-point", type=click.IntRange(min=0), metavar="N",
        help="Everything below this offset is known to be on disk. By default the checkpoint's.",
    ),
    click.option(
        "--log-start-offset", type=click.IntRange(min=0), metavar="N",
        help="The log start offset. By default the checkpoint's.",
    ),
    now_if_given_option,
    click.option(
        "--config", "config_file", type=click.Path(exists=True, dir_okay=False), metavar="FILE",
        help="A server.properties, or a properties file with the topic's settings. By default Kafka's defaults.",
    ),
    kafka_option,
)
"""The options that `chosen_startup` takes."""


def chosen_startup(
    clean: bool | None = None,
    recovery_point: int | None = None,
    log_start_offset: int | None = None,
    now: int | None = None,
    config_file: str | None = None,
    kafka: KafkaRelease | None = None,
    view: type[View] = LoadingSettings,
) -> StartupOptions:
    """Return what the options say; of --config counts what `view` does. Raises click.BadParameter, OSError."""
    properties: dict[str, str] = {}
    if config_file is not None:
        from .config_option import read_config

        properties = read_config(config_file, view)
    now = wall_clock() if now is None else now
    return StartupOptions(clean, recovery_point, log_start_offset, now, properties, kafka)
