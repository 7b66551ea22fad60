"""The options that repair, rebuild-index and trim share, and the run that they ask for."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

from ..shell.output import Output, escape_json, wants_color
from ..shell.paths import check_not_kafkas
from ..shell.startup_options import StartupOptions
from .run import Examine, Printer, Rails, Run

_Command = TypeVar("_Command", bound=Callable[..., Any])

_OPTIONS = (
    click.option("--apply", "applies", is_flag=True, help="Carry the plan out; else it is only shown."),
    click.option(
        "--backup-dir", type=click.Path(exists=True, file_okay=False), metavar="DIR",
        help="Keep what is replaced in this directory of the same file system. By default .kdump-backup in the"
        " partition directory.",
    ),
    click.option("--no-backup", is_flag=True, help="Keep nothing of what is replaced once all is done."),
    click.option(
        "--force", metavar="NAME",
        help="Do not look whether a broker uses the directory. NAME must be that of the directory.",
    ),
    click.option(
        "--jobs", type=click.IntRange(min=0), default=0, metavar="N",
        help="Partitions that are worked on at once. By default one for each core.",
    ),
    click.option(
        "--format", "format_", type=click.Choice(("text", "jsonl")), default="text", show_default=True,
        help="For people, or one JSON object a line.",
    ),
    click.option(
        "--color", type=click.Choice(("auto", "always", "never")), default="auto", show_default=True,
        help="Colour in text; auto: on a terminal, unless NO_COLOR is set.",
    ),
)


def repair_options(command: _Command) -> _Command:
    """Give a command the options that `run` takes."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def run(
    paths: tuple[str, ...],
    examine: Examine,
    startup: StartupOptions,
    *,
    applies: bool,
    backup_dir: str | None,
    no_backup: bool,
    force: str | None,
    jobs: int,
    format_: str,
    color: str,
    output: str | None = None,
    takes_files: bool = False,
) -> int:
    """Repair what is at `paths` as these options ask for; the exit code. Raises click.UsageError."""
    if no_backup and backup_dir:
        raise click.UsageError("--backup-dir and --no-backup contradict each other")
    if output is not None:
        check_not_kafkas(output)
    rails = Rails(applies, not no_backup, backup_dir, output, force, jobs or os.cpu_count() or 1)
    with Output(escape_json if format_ == "jsonl" else None) as out:
        return Run(examine, startup, rails, _printer(format_, color, out), out, takes_files=takes_files).paths(paths)


def _printer(format_: str, color: str, out: Output) -> Printer:
    if format_ == "jsonl":
        from .jsonl import JsonPrinter

        return JsonPrinter(out.write)
    from .text import TextPrinter

    return TextPrinter(out.write, color=wants_color(color))
