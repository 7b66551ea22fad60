"""The circumstances of a broker's start, as options of the commands that carry out its log loading."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import click

from kdump.recovery.broker_start import DirectoryState
from kdump.recovery.startup import Startup
from kdump.releases import KafkaRelease
from kdump.settings.sources import Configs, PropertyFile, Settings
from kdump.settings.views import LoadingSettings, View
from kdump.storage.partition import PartitionLog

from .options import kafka_option
from .property_files import read_config

_Command = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class StartupOptions:
    """What the command line says of the start; None where the directory itself is to be asked.

    `properties` are those of --config. `release` is the one that is to start.
    """

    clean: bool | None = None
    recovery_point: int | None = None
    log_start_offset: int | None = None
    now: int = 0
    properties: Mapping[str, str] = field(default_factory=dict)
    release: KafkaRelease | None = None

    def settings(self, configs: Configs, broker_id: int | None) -> Settings:
        """The settings of a broker's topics; `configs` are those in the cluster's metadata."""
        return Settings(configs, broker_id, (PropertyFile("", None, self.properties),))

    def startup(self, log: PartitionLog, state: DirectoryState, settings: Settings | None = None) -> Startup:
        """The circumstances in which this log is loaded; `state` is that of its log directory. Raises ConfigError.

        Without `settings` those of --config count alone.
        """
        settings = settings or self.settings({}, None)
        clean, recovery_point, log_start = state.shutdown_of(log)
        return Startup(
            self.now,
            clean if self.clean is None else self.clean,
            recovery_point if self.recovery_point is None else self.recovery_point,
            log_start if self.log_start_offset is None else self.log_start_offset,
            LoadingSettings.of(settings.of(log.name.topic if log.name else "")),
        )


_OPTIONS = (
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
    click.option("--now", type=click.IntRange(min=0), metavar="MS", help="The broker's clock. By default this one's."),
    click.option(
        "--config", "config_file", type=click.Path(exists=True, dir_okay=False), metavar="FILE",
        help="A server.properties, or a properties file with the topic's settings. By default Kafka's defaults.",
    ),
    kafka_option,
)


def startup_options(command: _Command) -> _Command:
    """Give a command the options that `chosen_startup` takes."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def chosen_startup(
    clean: bool | None = None,
    recovery_point: int | None = None,
    log_start_offset: int | None = None,
    now: int | None = None,
    config_file: str | None = None,
    kafka: KafkaRelease | None = None,
    view: type[View] = LoadingSettings,
) -> StartupOptions:
    """What the options say; of --config counts what `view` does. Raises click.BadParameter, OSError."""
    return StartupOptions(
        clean,
        recovery_point,
        log_start_offset,
        time.time_ns() // 1_000_000 if now is None else now,
        {} if config_file is None else read_config(config_file, view),
        kafka,
    )
