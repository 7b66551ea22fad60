"""`kdump repair`: bring partitions into a state that a broker loads, after showing how."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import click

from kdump.change.journal import PLAN, UNDONE, read_plan
from kdump.change.undo import undo
from kdump.disk.locks import holding
from kdump.errors import KdumpError, RefusedError
from kdump.recovery.startup import Startup
from kdump.repair.lost_markers import CHOICES, OPEN
from kdump.repair.proposal import ALL_KINDS, FIX_BIT, OLD_NAMES, SAFE, SALVAGE, STRATEGIES, Request, Task, examine
from kdump.repair.replicas import replicas_of
from kdump.storage.partition import PartitionLog
from kdump.topics.clusters import Clusters

from ..shell import exit_codes
from ..shell.output import complain, safe_path
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


def _strategy(ctx: click.Context, param: click.Parameter, text: str | None) -> str | None:
    if text is None or text in STRATEGIES:
        return text
    if text not in OLD_NAMES:
        raise click.BadParameter(f"{text!r} is none of {', '.join(STRATEGIES)}", ctx, param)
    complain(f"--strategy {text} is now called {OLD_NAMES[text]}; the old name goes after two more releases")
    return OLD_NAMES[text]


@click.command("repair")
@click.argument("paths", nargs=-1, metavar="PATH...")
@click.option(
    "--strategy", callback=_strategy, metavar="NAME",
    help="safe (the default): drop no valid batch; what needs a decision is listed and left alone. truncate: cut the"
    " log at the first damage, as the broker's recovery does. salvage: give damaged batches up, keep all valid ones.",
)
@click.option(
    "--fix-bit", is_flag=True,
    help="Flip the one bit back that explains a damaged batch, and change nothing else. Other damage may look the same,"
    " though that is rare: the plan says how rare.",
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
    strategy: str | None,
    fix_bit: bool,
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

    PATHs are partition directories or log directories. By default no valid batch is dropped: incomplete batches at the
    end of a log are cut, unsound indexes, snapshots and leader epochs are rebuilt. Where valid batches follow damage,
    the ways out are listed with what each of them loses, and the partition is left alone until one is chosen: another
    in-sync replica, --fix-bit, --strategy salvage, --strategy truncate.

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
    if fix_bit and strategy is not None:
        raise click.UsageError("--fix-bit is a strategy of its own: leave --strategy out")
    strategy = FIX_BIT if fix_bit else strategy or SAFE
    if lost_markers and strategy != SALVAGE:
        raise click.UsageError("--lost-markers goes with --strategy salvage: no other puts a marker back")
    request = Request(strategy, only, lost_markers=lost_markers or OPEN)
    startup = chosen_startup(clean, recovery_point, log_start_offset, now, config_file)
    clusters = Clusters({os.path.dirname(os.path.abspath(path)) for path in paths} | set(paths))

    def planned(log: PartitionLog, start: Startup, _: object) -> Task:
        task = examine(log, start, request)
        if task.decision is None:
            return task
        return task._replace(decision=replace(task.decision, replicas=replicas_of(log, clusters)))

    return run(paths, planned, startup, **options)


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
