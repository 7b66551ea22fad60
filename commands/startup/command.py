"""`kdump startup`: what a broker does with its logs when it starts, without starting one."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from kdump.formats import names
from kdump.operations.started_clusters import StartedClusters
from kdump.operations.startup import BrokerStart, StartupOptions
from kdump.recovery.broker_start import DirectoryState
from kdump.storage.directory import LogDirectory
from kdump.storage.live import is_beside_broker
from kdump.storage.partition import PartitionLog

from ..shell import exit_codes
from ..shell.options import color_option, verbose_option
from ..shell.output import Output, os_error_text, wants_color
from ..shell.paths import check_directories, directories
from ..shell.progress import ProgressBar, total_size
from ..shell.rows import OutputFormat, format_option, output_for, printer_of
from ..shell.session import Complaints, note_unfinished
from ..shell.startup_options import chosen_startup, startup_options

if TYPE_CHECKING:
    from .jsonl import JsonLines
    from .text import Text

    Printer: TypeAlias = JsonLines | Text


@click.command("startup")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@startup_options
@format_option
@verbose_option
@color_option
def command(
    paths: tuple[str, ...],
    format_: OutputFormat,
    verbose: bool,
    color: str,
    **circumstances: Any,
) -> int:
    """Say what a broker would do with these logs when it starts, and what would be lost. Nothing is changed.

    PATHs are partition directories or log directories. kdump simulates how the broker loads them. It shows which
    leftovers the broker deletes, which swaps it completes or undoes, and which segments it checks: those past the
    recovery point and those without an index. For each cut it names the byte, the reason and the later segments that go
    too. It shows which indexes, producer snapshots and leader epochs the broker writes again, and what keeps it from
    starting. File sizes are those after loading and a clean shutdown.

    Give all log directories of a broker at once: a partition in two of them keeps it from starting, and the cluster
    metadata in one of them has the settings and the replicas of all. Partitions of a log directory that lose nothing
    are one line at the end.

    The log directory (of a partition directory: the one it is in) shows whether the last shutdown was clean and where
    recovery begins. Options override both. These settings of the cluster metadata and of --config count, under their
    topic or server names: index.interval.bytes,
    segment.index.bytes, message.format.version, producer.id.expiration.ms and remote.storage.enable.

    Exits with 1 when the broker would lose data, take a disk offline or fail to load a log, with 3 when something could
    not be read, else with 0.

    \b
    Examples:
      kdump startup /var/lib/kafka/data
      kdump startup /var/lib/kafka/data/orders-3 --unclean --recovery-point 0
      kdump startup /disk1/kafka /disk2/kafka \\
        --config /etc/kafka/server.properties
      kdump startup /var/lib/kafka/data --format jsonl \\
        | jq 'select(.type == "outcome" and .hasLoss) | .path'
    """
    from kdump.settings.start import StartSettings

    check_directories(paths)
    options = chosen_startup(**circumstances, view=StartSettings)
    with output_for(format_) as out:
        is_colored = wants_color(color)
        printer = printer_of(__package__, format_, out.write, verbose=verbose, is_colored=is_colored)
        if format_ is OutputFormat.TEXT and any(map(is_beside_broker, paths)):
            out.write("A broker is running. This is what a crash now would leave.\n\n")
        with ProgressBar(paths) as bar:
            run = _Run(options, paths, printer, out, bar)
            for path in paths:
                run.path(path)
        run.end()
    return run.code


class _Run(Complaints):
    """One run of the command."""

    def __init__(
        self, options: StartupOptions, paths: tuple[str, ...], printer: Printer, out: Output, bar: ProgressBar
    ) -> None:
        super().__init__(out.flush)
        clusters = StartedClusters(paths, options.properties, options.now)
        self._start = BrokerStart(options, clusters, self.report)
        self._clean = options.clean
        self._printer = printer
        self._bar = bar
        self._needs_bar = sys.stderr.isatty() and not sys.stdout.isatty()  # else the partitions themselves go by

    def path(self, path: str) -> None:
        """Load in the plan what is at a path or pattern; what cannot be read is complained of."""
        try:
            for place in directories([path]):
                self._place(place)
        except BrokenPipeError:
            raise
        except OSError as error:
            if not self._start.is_absent(path):
                self.complain(os_error_text(error, path))

    def end(self) -> None:
        """Say what shows only when all partitions are known."""
        self._printer.failures(self._start.end())
        if self._start.stops or self._start.offline:
            self.worsen(exit_codes.FINDINGS)
        self._printer.end(self._start)

    def _place(self, place: PartitionLog | LogDirectory) -> None:
        note_unfinished(place)
        events = self._start.directory(place) if isinstance(place, LogDirectory) else self._start.partition(place.path)
        for event in events:
            if isinstance(event, DirectoryState):
                self._printer.directory(event, self._clean)
                continue
            self._printer.log(event)
            if event.has_findings:
                self.worsen(exit_codes.FINDINGS)
            if self._needs_bar:
                self._bar.add(os.path.join(event.path, names.LOG), total_size([event.path]))
