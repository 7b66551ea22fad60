"""`kdump repair`: bring partitions into a state that a broker loads, after showing how."""

from __future__ import annotations

import os
from typing import Any

import click

from kdump.change.old_backups import BACKUP_FOLDER
from kdump.repair.lost_markers import CHOICES, OPEN
from kdump.repair.proposal import ALL_KINDS, KAFKA, SALVAGE, STRATEGIES, Request, examine

from ..shell.output import complain
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
    "--undo", "undo_path", metavar="PATH", hidden=True,
    help="Deprecated, and gone after two more releases: kdump undo lists changes and takes them back.",
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
    undo_path: str | None,
    **options: Any,
) -> int:
    """Show what it takes to make partitions loadable again, and with --apply do it.

    PATHs are partition directories or log directories. Strategy kafka carries out what `kdump startup` foretells: it
    leaves the files as the broker's log loading, followed by an orderly shutdown, would leave them, byte for byte.
    That throws away everything behind the first bad batch. Strategy salvage keeps the good batches behind it: what
    cannot be trusted is taken out of the .log (and saved), the gap stays a gap in the offsets, later segments stay,
    and indexes, producer state and leader epochs are made anew.

    Nothing is changed without --apply; then every file is either old or new at every moment, and after a kill or a
    power cut the same command goes on where it was stopped. The originals are kept as files .kdump-* in the log
    directory, which a broker does not look at, and `kdump undo` puts them back. A plan that drops valid records is
    refused unless --accept-loss has their number. A log directory that a broker has locked, and a
    log that grows, are refused.

    Exits with 0 when nothing is left to do, 1 when a plan with work in it was only shown, 3 when something could not
    be repaired, 4 when a safety rail refused.

    \b
    Examples:
      kdump repair /var/lib/kafka/data
      kdump repair /var/lib/kafka/data/orders-3 --strategy salvage --apply
      kdump repair /var/lib/kafka/data/orders-3 --strategy salvage --apply --output /rescue/data
      kdump repair /var/lib/kafka/data --plan-out plan.json
      kdump repair /var/lib/kafka/data --apply-plan plan.json
    """
    if undo_path is not None:
        return _undo(undo_path)
    if not paths:
        raise click.UsageError("Missing argument 'PATH...'.")
    if lost_markers and strategy != SALVAGE:
        raise click.UsageError("--lost-markers goes with --strategy salvage: Kafka's recovery puts no marker back")
    request = Request(strategy, only, lost_markers=lost_markers or OPEN)
    startup = chosen_startup(clean, recovery_point, log_start_offset, now, config_file)
    command_ = "repair" if strategy == KAFKA else f"repair {strategy}"
    return run(paths, lambda log, start, _: examine(log, start, request), startup, command=command_, **options)


def _undo(path: str) -> int:
    """Let `kdump undo` list what there is; the exit code."""
    complain("repair --undo is a command of its own now, and this option goes after two more releases: kdump undo PATH")
    context = click.get_current_context()
    group = context.find_root().command
    found = group.get_command(context, "undo") if isinstance(group, click.Group) else None
    assert found is not None
    backup, folder = os.path.split(os.path.dirname(os.path.abspath(path)))
    code: int = context.invoke(found, paths=(backup if folder == BACKUP_FOLDER else path,))
    return code
