"""`kdump startup`: what a broker does with its logs when it starts, without starting one."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from kdump.errors import KdumpError
from kdump.formats import names
from kdump.formats.names import PartitionDirName
from kdump.recovery.broker_start import Broker, DirectoryState, directory_state, duplicate_failures, fate_of
from kdump.recovery.loader import load_log
from kdump.storage.directory import LogDirectory
from kdump.storage.live import broker_on, held, is_live, tally, was_deleted
from kdump.storage.partition import PartitionLog

from ..shell import exit_codes
from ..shell.output import Output, complain, escape_json, os_error_text, safe, safe_path, wants_color
from ..shell.paths import KafkaFile, Place, expand
from ..shell.progress import ProgressBar, total_size
from ..shell.startup_options import StartupOptions, chosen_startup, startup_options
from ..shell.unfinished import note_unfinished
from .jsonl import JsonPrinter
from .report import Loaded, Printer
from .text import TextPrinter


@click.command("startup")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@startup_options
@click.option(
    "--format",
    "format_",
    type=click.Choice(("text", "jsonl")),
    default="text",
    show_default=True,
    help="For people, or one JSON object a line.",
)
@click.option("-v", "--verbose", is_flag=True, help="Show every step for partitions that come to no harm, too.")
@click.option(
    "--color",
    type=click.Choice(("auto", "always", "never")),
    default="auto",
    show_default=True,
    help="Colour in text; auto: on a terminal, unless NO_COLOR is set.",
)
def command(
    paths: tuple[str, ...],
    format_: str,
    verbose: bool,
    color: str,
    **circumstances: Any,
) -> int:
    """Say what a broker would do with these logs when it starts, and what would be lost. Nothing is changed.

    PATHs are partition directories or log directories. The broker's log loading is carried out on paper: leftovers
    that it deletes, swaps that it completes or undoes, segments that it checks because they lie past the recovery
    point or lack their index, the byte at which each is cut and why, later segments that go with it, indexes,
    producer snapshots and leader epochs that it writes anew, and what keeps it from starting at all. The sizes of
    files are those after loading and an orderly shutdown.

    Give all log directories of a broker at once: partitions that are in two of them keep it from starting. In a log
    directory, a partition that comes to no harm takes one line.

    Whether the last shutdown was clean and where recovery begins is taken from the log directory (of a partition
    directory: the directory that it is in), unless options say otherwise. Of --config these settings count, under
    their names for topics or for the server: index.interval.bytes, segment.index.bytes, message.format.version,
    producer.id.expiration.ms and remote.storage.enable.

    Exits with 1 when data would be lost or a log would not load, with 3 when something could not be read, else with 0.

    \b
    Examples:
      kdump startup /var/lib/kafka/data
      kdump startup /var/lib/kafka/data/orders-3 --unclean --recovery-point 0
      kdump startup /disk1/kafka /disk2/kafka --config /etc/kafka/server.properties
      kdump startup /var/lib/kafka/data --format jsonl | jq 'select(.type == "outcome" and .losesData) | .path'
    """
    options = chosen_startup(**circumstances)
    with Output(escape_json if format_ == "jsonl" else None) as out:
        printer: Printer
        if format_ == "jsonl":
            printer = JsonPrinter(out.write)
        else:
            printer = TextPrinter(out.write, verbose=verbose, color=wants_color(color))
        if format_ == "text" and any(map(_is_beside_broker, paths)):
            out.write("A broker is running. This is what a crash now would leave.\n\n")
        with ProgressBar(paths) as bar:
            run = _Run(options, printer, out, bar)
            for path in paths:
                run.path(path)
        run.end()
    return run.code


def _is_beside_broker(path: str) -> bool:
    """Whether a broker is running on a log directory, or on the one that a partition directory is in."""
    return broker_on(path) is not None or is_live(path)


class _Run:
    """One run of the command."""

    def __init__(self, options: StartupOptions, printer: Printer, out: Output, bar: ProgressBar) -> None:
        self.code = exit_codes.OK
        self._options = options
        self._printer = printer
        self._out = out
        self._bar = bar
        self._needs_bar = sys.stderr.isatty() and not sys.stdout.isatty()  # else the partitions themselves go by
        self._seen: list[tuple[Broker, str, PartitionDirName]] = []

    def path(self, path: str) -> None:
        """Load on paper what is at a path or pattern; what cannot be read is complained of."""
        try:
            for place in expand([path]):
                self._place(place)
        except (OSError, KdumpError) as error:
            self._failed(error, path)
        except click.UsageError as error:
            self._complain(error.message)

    def end(self) -> None:
        """Say what shows only when all partitions are known."""
        duplicates = duplicate_failures(self._seen)
        self._printer.failures(duplicates)
        if duplicates:
            self._worsen(exit_codes.FINDINGS)
        self._printer.end()

    def _place(self, place: Place) -> None:
        if isinstance(place, KafkaFile):
            raise click.UsageError(f"{safe_path(place.path)} is a file: give the partition directory that it is in")
        note_unfinished(place)
        if isinstance(place, LogDirectory):
            self._log_directory(place)
            return
        parent = os.path.dirname(os.path.abspath(place.path))
        with held(place.path) as log:
            if log is not None:
                self._log(log, self._state_around(parent), is_named=True)

    def _state_around(self, path: str) -> DirectoryState:
        """The state of the directory that a partition is in; of one that cannot be read, that of an empty one."""
        try:
            return directory_state(LogDirectory(path))
        except OSError as error:
            if None in (self._options.clean, self._options.recovery_point, self._options.log_start_offset):
                self._failed(error, path)
            return DirectoryState(path, clean=False)

    def _log_directory(self, directory: LogDirectory) -> None:
        state = directory_state(directory)
        self._printer.directory(state, self._options.clean)
        if state.failures:
            self._worsen(exit_codes.FINDINGS)
        for name in directory.partition_names:
            path = os.path.join(directory.path, name)
            try:
                with held(path) as log:
                    if log is None:
                        continue
                    if log.name:
                        self._seen.append((state.broker, path, log.name))
                    self._log(log, state)
            except (OSError, KdumpError) as error:
                self._failed(error, path)

    def _log(self, log: PartitionLog, state: DirectoryState, *, is_named: bool = False) -> None:
        startup = self._options.startup(log, state)
        outcome = load_log(log, startup)
        kind = log.name.state if log.name else names.LIVE
        self._printer.log(
            Loaded(log.path, startup, outcome, kind, fate_of(log), state.high_watermark_of(log), is_named)
        )
        if not outcome.ok or outcome.loss.has_data:
            self._worsen(exit_codes.FINDINGS)
        if self._needs_bar:
            self._bar.add(os.path.join(log.path, names.LOG), total_size([log.path]))

    def _worsen(self, code: int) -> None:
        self.code = max(self.code, code)

    def _failed(self, error: Exception, path: str) -> None:
        if isinstance(error, BrokenPipeError):
            raise error
        if was_deleted(path, error):
            return
        if isinstance(error, OSError):
            tally.cannot_read(path)
            self._complain(os_error_text(error, path))
        else:
            self._complain(f"{safe_path(path)}: {safe(str(error))}")

    def _complain(self, text: str) -> None:
        self._out.flush()
        complain(text)
        self._worsen(exit_codes.INCOMPLETE)
