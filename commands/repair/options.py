"""The options that repair, rebuild-index and trim share, and the run that they ask for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from kdump.operations.repair import Examine, PlanFiles
from kdump.operations.safety import ALL_LOSSES, SafetyOptions
from kdump.operations.startup import StartupOptions
from kdump.operations.targets import Missing

from ..shell.options import all_of, color_option, ignore_lock_option
from ..shell.output import Output, wants_color
from ..shell.paths import check_not_kafkas, check_target
from ..shell.rows import OutputFormat, format_option, output_for
from .run import Run

if TYPE_CHECKING:
    from .run import Printer


def _number_of_records(ctx: click.Context, param: click.Parameter, text: str | None) -> int | str | None:
    if text == "all":
        return ALL_LOSSES
    if text is None or text.isdecimal():
        return int(text) if text else None
    raise click.BadParameter("expected a number of records, or 'all'", ctx, param)


repair_options = all_of(
    click.option("--apply", "applies", is_flag=True, help="Apply the plan; else it is only shown."),
    click.option(
        "--plan-out", type=click.Path(dir_okay=False), metavar="FILE", help="Save the plan, for --apply-plan.",
    ),
    click.option(
        "--apply-plan", type=click.Path(exists=True, dir_okay=False), metavar="FILE",
        help="Apply the plan that was saved there; refused if anything has changed since.",
    ),
    click.option(
        "--accept-loss", callback=_number_of_records, metavar="N",
        help="Apply a plan that drops N valid records; N has to be their number, or 'all' (for copies and tests).",
    ),
    click.option(
        "--backup-dir", type=click.Path(exists=True, file_okay=False), metavar="DIR",
        help="Keep the originals in this directory of the same file system. By default they are files .kdump-* in the"
        " log directory.",
    ),
    click.option("--no-backup", is_flag=True, help="Keep no originals once all is done."),
    ignore_lock_option,
    click.option(
        "--jobs", type=click.IntRange(min=0), default=0, metavar="N",
        help="Partitions to work on at once. By default one for each core.",
    ),
    format_option,
    color_option,
)
"""The options that `run` takes."""


def run(
    paths: tuple[str, ...],
    examine: Examine,
    startup: StartupOptions,
    *,
    command: str,
    applies: bool,
    plan_out: str | None,
    apply_plan: str | None,
    accept_loss: int | str | None,
    backup_dir: str | None,
    no_backup: bool,
    force: str | None,
    jobs: int,
    format_: OutputFormat,
    color: str,
    output: str | None = None,
    takes_files: bool = False,
    absent: Missing | None = None,
) -> int:
    """Repair what is at `paths` as these options ask for; the exit code. Raises click.UsageError."""
    if no_backup and backup_dir:
        raise click.UsageError("--backup-dir and --no-backup contradict each other")
    if output is not None:
        check_not_kafkas(output)
    if plan_out is not None:
        if applies or apply_plan is not None:
            raise click.UsageError("--plan-out saves a plan for later: leave out --apply and --apply-plan.")
        check_target(plan_out)
    safety = SafetyOptions(
        applies or apply_plan is not None,
        command,
        not no_backup,
        backup_dir,
        output,
        force,
        jobs,
        accept_loss,
    )
    with output_for(format_) as out:
        return Run(
            examine,
            startup,
            safety,
            _printer(format_, color, out, safety.accepts, summarizes=command.startswith("repair")),
            out,
            takes_files=takes_files,
            files=PlanFiles(plan_out, apply_plan),
            absent=absent,
        ).paths(paths)


def _printer(
    format_: OutputFormat, color: str, out: Output, accepts: Callable[[int], bool], *, summarizes: bool
) -> Printer:
    if format_ is OutputFormat.JSONL:
        from .jsonl import JsonPrinter

        return JsonPrinter(out.write)
    from .text import TextPrinter

    return TextPrinter(out.write, accepts, is_colored=wants_color(color), summarizes=summarizes)
