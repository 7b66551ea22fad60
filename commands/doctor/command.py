"""`kdump doctor`: whether it is safe to start the broker, and what to do first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click

from kdump.formats.printable import safe
from kdump.operations.doctor import Checkup, Doctor, Health
from kdump.storage.live import broker_on, is_live

from ..shell import exit_codes
from ..shell.output import complain, os_error_text, wants_color
from ..shell.paths import KafkaFile, expand, log_directories_of
from ..shell.progress import ProgressBar
from ..shell.prose import prose_width
from ..shell.rows import JSONL, format_option, output_for
from ..shell.session import Troubles
from ..shell.startup_options import chosen_startup
from ..shell.values import duration_seconds, read_by, time_ms
from .jsonl import rows
from .text import Screen


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line asks for; `max_duration` in seconds."""

    format_: str
    brief: bool
    color: str
    max_duration: float | None
    jobs: int
    now: int | None
    config_file: str | None


@click.command("doctor")
@click.argument("paths", nargs=-1, metavar="[PATH...]")
@click.option("--brief", is_flag=True, help="One line for each thing that needs you.")
@click.option(
    "--max-duration",
    metavar="TIME",
    default="60s",
    show_default=True,
    callback=read_by(duration_seconds),
    help="Begin no further segment after this time (90s, 15m, 1h30m); 0: read everything.",
)
@click.option("--jobs", type=click.IntRange(1), metavar="N", help="Threads that read. [default: one a core]")
@click.option(
    "--config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="A server.properties: its settings, and without PATH its log.dirs.",
)
@click.option(
    "--now",
    metavar="TIME",
    callback=read_by(time_ms),
    help="Compute ages at this time (ISO 8601 or ms). [default: when the logs were written to last]",
)
@format_option
@click.option(
    "--color",
    type=click.Choice(("auto", "always", "never")),
    default="auto",
    show_default=True,
    help="Colour in text; auto: on a terminal, unless NO_COLOR is set.",
)
def command(paths: tuple[str, ...], jobs: int | None, **options: Any) -> int:
    """Say whether the broker will start, what needs you, what is at stake, and the next command. Nothing is changed.

    PATHs are log directories or partition directories. Give all log directories of a broker at once. kdump simulates
    the start, reads the checkpoints and the cluster metadata, and verifies the logs, the newest first.

    What needs you is sorted by what is at stake: a broker or disk that will not start, committed records, wrong
    answers, blocked consumers. What loses nothing comes first. `kdump PATH...` is the same command.

    Exit codes: 0 nothing needs you, 1 something needs you, 2 usage, 3 something could not be read.

    \b
    Examples:
      kdump doctor /var/lib/kafka/data
      kdump doctor /disk1/kafka /disk2/kafka --brief
      kdump doctor --config /etc/kafka/server.properties
    """
    return doctor(paths, Options(jobs=jobs or 0, **options))


def doctor(paths: tuple[str, ...], options: Options) -> int:
    """Look, print, and return the exit code. Raises click.UsageError, KdumpError."""
    if not paths and options.config_file is not None:
        paths = log_directories_of(options.config_file)
    if not paths:
        raise click.UsageError("Missing argument 'PATH...'. Give the log directories of a broker, or --config FILE.")
    troubles = Troubles()
    chosen = _chosen(paths, troubles)
    startup = chosen_startup(now=options.now, config_file=options.config_file)
    is_live_now = any(broker_on(path) is not None or is_live(path) for path in chosen)
    with output_for(options.format_) as out:
        health = Health()
        if chosen:
            with ProgressBar(chosen) as bar:
                checkup = Checkup(options.now, options.max_duration or None, options.jobs, bar.add)
                health = Doctor(chosen, checkup, startup, troubles).run()
        code = _code(health, troubles)
        if options.format_ == JSONL:
            for row in rows(health):
                out.write(row)
        else:
            style = {"color": wants_color(options.color), "is_live": is_live_now}
            screen = Screen(health, chosen, prose_width(), **style, is_complete=troubles.code == exit_codes.OK)
            if chosen:
                out.write("".join(f"{line}\n" for line in (screen.brief() if options.brief else screen.all())))
    return code


def _code(health: Health, troubles: Troubles) -> int:
    found = exit_codes.FINDINGS if health.diagnoses or health.stops or health.offline else exit_codes.OK
    return max(found, troubles.code)


def _chosen(paths: tuple[str, ...], troubles: Troubles) -> list[str]:
    """The directories that there are; of the others it is said why not. Raises click.UsageError for a file."""
    chosen: list[str] = []
    for path in paths:
        try:
            for place in expand([path]):
                if isinstance(place, KafkaFile):
                    raise click.UsageError(f"{safe(path)} is a file: give the partition directory that it is in.")
                if place.path not in chosen:
                    chosen.append(place.path)
        except OSError as error:
            complain(os_error_text(error, path))
            troubles.worsen(exit_codes.INCOMPLETE)
    return chosen
