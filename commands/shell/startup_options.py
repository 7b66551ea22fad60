"""The circumstances of a broker's start, as options of the commands that carry out its log loading."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import click

from kdump.disk.reading import read_small
from kdump.errors import CheckpointError, ConfigError
from kdump.formats.java_properties import parse_properties
from kdump.recovery.broker_start import DirectoryState
from kdump.recovery.startup import Startup
from kdump.settings.loading import TopicConfig, topic_config
from kdump.storage.partition import PartitionLog

from .output import safe, safe_path

_Command = TypeVar("_Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class StartupOptions:
    """What the command line says of the start; None where the directory itself is to be asked."""

    clean: bool | None = None
    recovery_point: int | None = None
    log_start_offset: int | None = None
    now: int = 0
    config: TopicConfig = field(default_factory=TopicConfig)

    def startup(self, log: PartitionLog, state: DirectoryState) -> Startup:
        """The circumstances in which this log is loaded; `state` is that of its log directory."""
        clean, recovery_point, log_start = state.shutdown_of(log)
        return Startup(
            self.now,
            clean if self.clean is None else self.clean,
            recovery_point if self.recovery_point is None else self.recovery_point,
            log_start if self.log_start_offset is None else self.log_start_offset,
            self.config,
        )


_OPTIONS = (
    click.option(
        "--clean/--unclean", default=None, help="How the broker stopped. By default as .kafka_cleanshutdown tells."
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
) -> StartupOptions:
    """What the options say. Raises click.BadParameter for a file that Kafka would not take."""
    return StartupOptions(
        clean,
        recovery_point,
        log_start_offset,
        time.time_ns() // 1_000_000 if now is None else now,
        _config(config_file),
    )


def _config(path: str | None) -> TopicConfig:
    if path is None:
        return TopicConfig()
    return topic_config(read_config(path, topic_config))


def read_config(path: str, check: Callable[[Mapping[str, str]], Any]) -> dict[str, str]:
    """The properties of a `--config`, in which `check` finds nothing wrong. Raises click.BadParameter, OSError."""
    try:
        properties = parse_properties(read_small(path), path)
        check(properties)
    except (ConfigError, CheckpointError) as error:
        raise click.BadParameter(f"{safe_path(path)}: {safe(str(error))}", param_hint="--config") from None
    return properties
