"""`kdump doctor`: whether it is safe to start the broker, and what to do first."""

from __future__ import annotations

import click

from kdump.findings.kind import Severity
from kdump.operations.doctor import Checkup, Doctor
from kdump.releases import KafkaRelease
from kdump.settings.start import StartSettings
from kdump.storage.live import is_beside_broker

from ..shell import exit_codes
from ..shell.options import NOW_HELP, color_option, kafka_option, max_duration_option, severities_from, threads_option
from ..shell.output import complain, os_error_text, wants_color
from ..shell.paths import directories
from ..shell.progress import ProgressBar
from ..shell.prose import prose_width
from ..shell.rows import OutputFormat, format_option, output_for
from ..shell.screen import FailOn, Screen
from ..shell.session import Diagnostics
from ..shell.startup_options import chosen_startup
from ..shell.values import read_by, time_ms


@click.command("doctor")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--brief", is_flag=True, help="One line for each thing that needs you.")
@max_duration_option("60s", "; 0: read everything")
@threads_option
@click.option("--config", "config_file", type=click.Path(exists=True, dir_okay=False), metavar="FILE",
    help="A server.properties: its settings, and without PATH its log.dirs.")
@click.option("--now", metavar="TIME", callback=read_by(time_ms),
    help=f"{NOW_HELP} [default: when the logs were written to last]")
@kafka_option
@format_option
@color_option
def command(
    paths: tuple[str, ...],
    jobs: int | None,
    format_: OutputFormat,
    brief: bool,
    color: str,
    max_duration: float | None,
    now: int | None,
    config_file: str | None,
    kafka: KafkaRelease | None,
) -> int:
    """Say whether the broker will start, what needs you, what is at stake, and the next command. Nothing is changed.

    PATHs are log directories or partition directories. Give all log directories of a broker at once. kdump simulates
    the start, reads the checkpoints and the cluster metadata, and verifies the logs, the newest first.

    It lists what needs you, the most at stake first: a broker or disk that will not start, committed records, wrong
    answers, blocked consumers. Ways out that lose nothing come first. `kdump PATH...` is the same command.

    Exit codes: 0 nothing needs you, 1 something needs you, 2 usage, 3 something could not be read.

    \b
    Examples:
      kdump doctor /var/lib/kafka/data
      kdump doctor /disk1/kafka /disk2/kafka --brief
      kdump doctor --config /etc/kafka/server.properties
    """
    diagnostics = Diagnostics()
    chosen, absent = _chosen(paths)
    startup = chosen_startup(now=now, config_file=config_file, kafka=kafka, view=StartSettings)
    is_live = any(map(is_beside_broker, chosen))
    with output_for(format_) as out:
        with ProgressBar(chosen) as bar:
            checkup = Checkup(now, max_duration or None, jobs or 0, bar.add)
            checked = Doctor(chosen, checkup, startup, diagnostics)
            for path, error in absent:
                if not checked.is_absent(path):
                    complain(os_error_text(error, path))
                    diagnostics.worsen(exit_codes.INCOMPLETE)
            health = checked.run()
        has_answer = bool(chosen or health.stops)
        counted = Severity.ERROR if Screen.current.fail_on is FailOn.ERROR else Severity.WARNING
        code = max(exit_codes.FINDINGS if health.needs_somebody(counted) else exit_codes.OK, diagnostics.code)
        shown = severities_from(Screen.current.min_severity or "note")
        health.diagnoses = [each for each in health.diagnoses if each.severity in shown]
        if format_ is OutputFormat.JSONL:
            from .jsonl import rows

            for row in rows(health):
                out.write(row)
        else:
            from .text import Page

            style = {"is_colored": wants_color(color), "is_live": is_live}
            screen = Page(health, chosen, prose_width(), **style, is_complete=diagnostics.code == exit_codes.OK)
            if has_answer:
                out.write("".join(f"{line}\n" for line in (screen.brief() if brief else screen.all())))
    return code


def _chosen(paths: tuple[str, ...]) -> tuple[list[str], list[tuple[str, OSError]]]:
    """Return the directories that there are, and of the others why not. Raises click.UsageError for a file."""
    chosen: list[str] = []
    absent: list[tuple[str, OSError]] = []
    for path in paths:
        try:
            for place in directories([path]):
                if place.path not in chosen:
                    chosen.append(place.path)
        except OSError as error:
            absent.append((path, error))
    return chosen, absent
