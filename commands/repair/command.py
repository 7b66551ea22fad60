"""`kdump repair`: bring partitions into a state that a broker loads, after showing how."""

from __future__ import annotations

import os
from typing import Any

import click

from kdump.change.journal import PLAN, UNDONE, read_plan
from kdump.change.undo import undo
from kdump.disk.locks import holding
from kdump.errors import KdumpError, RefusedError
from kdump.repair.lost_markers import CHOICES, OPEN
from kdump.repair.proposal import ALL_KINDS, KAFKA, SALVAGE, STRATEGIES, Request, examine

from ..shell import exit_codes
from ..shell.output import safe_path
from ..shell.session import tell_refused
from ..shell.startup_options import chosen_startup, startup_options
from .options import repair_options, run


def _kinds(ctx: click.Context, param: click.Parameter, text: str | None) -> frozenset[str] | None:
    if text is None:
        return None
    kinds = frozenset(part.strip() for part in text.split(","))
    unknown = sorted(kinds.difference(ALL_KINDS))
    if unknown:
        raise click.BadParameter(f"{unknown[0]!r} is none of {', '.join(ALL_KINDS)}", ctx, param)
    return kinds


@click.command("repair")
@click.argument("paths", nargs=-1, metavar="PATH...")
@click.option(
    "--strategy", type=click.Choice(STRATEGIES), default=KAFKA, show_default=True,
    help="kafka: what the broker's own recovery would leave. salvage: keep every good batch behind damage, too.",
)
@click.option(
    "--lost-markers", type=click.Choice(CHOICES),
    help="With salvage: what a transaction becomes whose end may be among what is left out. open (the default): it"
    " stays open, and read_committed consumers stop before it. abort: it is aborted. Where a .txnindex tells that it"
    " was, it is.",
)
@click.option(
    "--only", callback=_kinds, metavar="KINDS",
    help=f"Change nothing but files of these kinds, separated by commas: {', '.join(ALL_KINDS)}.",
)
@startup_options
@click.option(
    "--output", type=click.Path(), metavar="DIR",
    help="Leave the source alone and make DIR, a log directory with the repaired copy.",
)
@click.option(
    "--undo", "backup", type=click.Path(exists=True, file_okay=False), metavar="BACKUP",
    help="Take back the repair whose folder this is; of a directory around several, all of them.",
)
@repair_options
def command(
    paths: tuple[str, ...],
    strategy: str,
    lost_markers: str | None,
    only: frozenset[str] | None,
    clean: bool | None,
    recovery_point: int | None,
    log_start_offset: int | None,
    now: int | None,
    config_file: str | None,
    backup: str | None,
    **options: Any,
) -> int:
    """Show what it takes to make partitions loadable again, and with --apply do it.

    PATHs are partition directories or log directories. Strategy kafka carries out what `kdump startup` foretells: it
    leaves the files as the broker's log loading, followed by an orderly shutdown, would leave them, byte for byte.
    That throws away everything behind the first bad batch. Strategy salvage keeps the good batches behind it: what
    cannot be trusted is taken out of the .log (and saved), the gap stays a gap in the offsets, later segments stay,
    and indexes, producer state and leader epochs are made anew.

    Nothing is changed without --apply; then every file is either old or new at every moment, and after a kill or a
    power cut the same command goes on where it was stopped. What is replaced is kept in .kdump-backup in the partition
    directory, where a broker does not mind it, for --undo to put back. A log directory that a broker has locked, and a
    log that grows, are refused.

    Exits with 0 when nothing is left to do, 1 when a plan with work in it was only shown, 3 when something could not
    be repaired, 4 when a safety rail refused.

    \b
    Examples:
      kdump repair /var/lib/kafka/data
      kdump repair /var/lib/kafka/data/orders-3 --strategy salvage --apply
      kdump repair /var/lib/kafka/data/orders-3 --strategy salvage --apply --output /rescue/data
      kdump repair --undo /var/lib/kafka/data/orders-3/.kdump-backup/20260131T120000-123456789
    """
    if backup is not None:
        if paths:
            raise click.UsageError("--undo takes no PATH: the backup says what it was made from")
        try:
            return _undo(backup)
        except RefusedError as error:
            tell_refused(error)
            return exit_codes.REFUSED
    if not paths:
        raise click.UsageError("Missing argument 'PATH...'.")
    if lost_markers and strategy != SALVAGE:
        raise click.UsageError("--lost-markers goes with --strategy salvage: Kafka's recovery puts no marker back")
    request = Request(strategy, only, lost_markers=lost_markers or OPEN)
    startup = chosen_startup(clean, recovery_point, log_start_offset, now, config_file)
    return run(paths, lambda log, start, _: examine(log, start, request), startup, **options)


def _undo(backup: str) -> int:
    """Take back what the folders of a backup say was done, the last of them first."""
    top = os.path.abspath(backup)
    found = {folder: UNDONE in files for folder, _, files in os.walk(top) if PLAN in files}
    if not found:
        raise KdumpError(f"{backup}: not a backup of kdump, nor a directory around one")
    folders = sorted(folder for folder, is_undone in found.items() if folder == top or not is_undone)
    if not folders:
        click.echo("nothing to do: all of it was taken back already")
    for folder in reversed(folders):
        with holding(os.path.dirname(read_plan(folder).path)):
            path = undo(folder)
        click.echo(f"{safe_path(path)}: as it was before {safe_path(folder)}")
    return exit_codes.OK
