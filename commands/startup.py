"""`kdump startup`: what a broker does with its logs when it starts, without starting one."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import click

from kdump.errors import CheckpointError
from kdump.formats.java_properties import parse_properties
from kdump.formats.names import PartitionDirName
from kdump.recovery.config import ConfigError, Startup, TopicConfig, topic_config
from kdump.recovery.loader import load_log
from kdump.recovery.log_manager import Broker, DirectoryState, directory_state, duplicate_failures
from kdump.recovery.outcome import Failure, LoadOutcome
from kdump.storage.files import read_small
from kdump.storage.log_directory import LogDirectory
from kdump.storage.partition_log import PartitionLog

from . import exit_codes
from .output import Output, complain, escape_json, safe, safe_path
from .paths import KafkaFile, Place, expand
from .startup_json import JsonPrinter
from .startup_text import TextPrinter


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line says of the start; None where the directory itself is to be asked."""

    clean: bool | None = None
    recovery_point: int | None = None
    log_start_offset: int | None = None
    now: int = 0
    config: TopicConfig = field(default_factory=TopicConfig)

    @property
    def are_complete(self) -> bool:
        """Whether nothing is left to ask the directory."""
        return None not in (self.clean, self.recovery_point, self.log_start_offset)

    def startup(self, log: PartitionLog, state: DirectoryState | None) -> Startup:
        """The circumstances in which this log is loaded; `state` is that of its log directory, if it was asked."""
        clean, recovery_point, log_start = state.shutdown_of(log) if state else (False, 0, 0)
        return Startup(
            self.now,
            clean if self.clean is None else self.clean,
            recovery_point if self.recovery_point is None else self.recovery_point,
            log_start if self.log_start_offset is None else self.log_start_offset,
            self.config,
        )


class Printer(Protocol):
    """What prints the outcomes, in the order in which they come."""

    def directory(self, state: DirectoryState) -> None:
        """What concerns a log directory as a whole; its partitions follow."""

    def failures(self, failures: Sequence[Failure]) -> None:
        """What keeps the broker from loading anything."""

    def log(self, path: str, startup: Startup, outcome: LoadOutcome) -> None:
        """One partition."""

    def end(self) -> None:
        """Nothing comes any more."""


@click.command("startup")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option(
    "--clean/--unclean", default=None, help="How the broker stopped. By default as .kafka_cleanshutdown tells."
)
@click.option(
    "--recovery-point", type=click.IntRange(min=0), metavar="N",
    help="Everything below this offset is known to be on disk. By default the checkpoint's.",
)
@click.option(
    "--log-start-offset", type=click.IntRange(min=0), metavar="N",
    help="The log start offset. By default the checkpoint's.",
)
@click.option("--now", type=click.IntRange(min=0), metavar="MS", help="The broker's clock. By default this one's.")
@click.option(
    "--config", "config_file", type=click.Path(exists=True, dir_okay=False), metavar="FILE",
    help="A server.properties, or a properties file with the topic's settings. By default Kafka's defaults.",
)
@click.option(
    "--format", "format_", type=click.Choice(("text", "jsonl")), default="text", show_default=True,
    help="For people, or one JSON object a line.",
)
def command(
    paths: tuple[str, ...],
    clean: bool | None,
    recovery_point: int | None,
    log_start_offset: int | None,
    now: int | None,
    config_file: str | None,
    format_: str,
) -> int:
    """Say what a broker would do with these logs when it starts, and what would be lost. Nothing is changed.

    PATHs are partition directories or log directories. The broker's log loading is carried out on paper: leftovers
    that it deletes, swaps that it completes or undoes, segments that it checks because they lie past the recovery
    point or lack their index, the byte at which each is cut and why, later segments that go with it, indexes,
    producer snapshots and leader epochs that it writes anew, and what keeps it from starting at all. The sizes of
    files are those after loading and an orderly shutdown.

    Whether the last shutdown was clean and where recovery begins is taken from the log directory (of a partition
    directory: the directory that it is in), unless options say otherwise. Of --config these settings count, under
    their names for topics or for the server: index.interval.bytes, segment.index.bytes, message.format.version,
    producer.id.expiration.ms and remote.storage.enable.

    Exits with 1 when data would be lost or a log would not load, else with 0.

    \b
    Examples:
      kdump startup /var/lib/kafka/data
      kdump startup /var/lib/kafka/data/orders-3 --unclean --recovery-point 0
      kdump startup /disk1/kafka /disk2/kafka --config /etc/kafka/server.properties
      kdump startup /var/lib/kafka/data --format jsonl | jq 'select(.type == "outcome" and .losesData) | .path'
    """
    options = Options(
        clean,
        recovery_point,
        log_start_offset,
        time.time_ns() // 1_000_000 if now is None else now,
        _config(config_file),
    )
    with Output(escape_json if format_ == "jsonl" else None) as out:
        printer: Printer = JsonPrinter(out.write) if format_ == "jsonl" else TextPrinter(out.write)
        run = _Run(options, printer, out)
        for path in paths:
            run.path(path)
        run.end()
    return run.code


class _Run:
    """One run of the command."""

    def __init__(self, options: Options, printer: Printer, out: Output) -> None:
        self.code = exit_codes.OK
        self._options = options
        self._printer = printer
        self._out = out
        self._seen: list[tuple[Broker, str, PartitionDirName]] = []

    def path(self, path: str) -> None:
        """Load on paper what is at a path or pattern; what cannot be read is complained of."""
        try:
            for place in expand([path]):
                self._place(place)
        except OSError as error:
            self._failed(error, path)

    def end(self) -> None:
        """Say what shows only when all partitions are known."""
        self._directory_failures(duplicate_failures(self._seen))
        self._printer.end()

    def _place(self, place: Place) -> None:
        if isinstance(place, KafkaFile):
            raise click.UsageError(f"{safe_path(place.path)} is a file: give the partition directory that it is in")
        if isinstance(place, LogDirectory):
            self._log_directory(place)
            return
        parent = os.path.dirname(os.path.abspath(place.path))
        self._log(place, None if self._options.are_complete else directory_state(LogDirectory(parent)))

    def _log_directory(self, directory: LogDirectory) -> None:
        state = directory_state(directory)
        self._printer.directory(state)
        if state.failures:
            self.code = max(self.code, exit_codes.FINDINGS)
        for name in directory.partition_names:
            path = os.path.join(directory.path, name)
            try:
                log = PartitionLog(path)
                self._log(log, state)
                if log.name:
                    self._seen.append((state.broker, path, log.name))
            except OSError as error:
                self._failed(error, path)

    def _log(self, log: PartitionLog, state: DirectoryState | None) -> None:
        startup = self._options.startup(log, state)
        outcome = load_log(log, startup)
        self._printer.log(log.path, startup, outcome)
        if not outcome.ok or outcome.loss.has_data:
            self.code = max(self.code, exit_codes.FINDINGS)

    def _directory_failures(self, failures: list[Failure]) -> None:
        self._printer.failures(failures)
        if failures:
            self.code = max(self.code, exit_codes.FINDINGS)

    def _failed(self, error: OSError, path: str) -> None:
        if isinstance(error, BrokenPipeError):
            raise error
        where = path if error.filename is None else os.fsdecode(error.filename)
        self._out.flush()
        complain(f"{safe_path(where)}: {error.strerror or error}")
        self.code = exit_codes.INCOMPLETE


def _config(path: str | None) -> TopicConfig:
    if path is None:
        return TopicConfig()
    try:
        return topic_config(parse_properties(read_small(path), path))
    except (ConfigError, CheckpointError) as error:
        raise click.BadParameter(f"{safe_path(path)}: {safe(str(error))}", param_hint="--config") from None
