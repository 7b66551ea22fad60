"""`kdump repair`: bring partitions into a state that a broker loads, after showing how."""

from __future__ import annotations

import os
from typing import Any

import click

from kdump.change.old_backups import BACKUP_FOLDER
from kdump.operations.repair import command_of, planning
from kdump.recovery.startup import Startup
from kdump.releases import KafkaRelease
from kdump.repair.task import (
    ALL_KINDS,
    FIX_BIT,
    OLD_NAMES,
    OPEN,
    SAFE,
    SALVAGE,
    STRATEGIES,
    LostMarkers,
    Request,
    Strategy,
    Task,
)
from kdump.storage.directory import LogDirectory
from kdump.storage.partition import PartitionLog
from kdump.topics.clusters import Clusters

from ..shell import exit_codes
from ..shell.choice import NO_PATHS_GIVEN
from ..shell.completing import one_of
from ..shell.output import complain
from ..shell.startup_options import chosen_startup, startup_options
from ..shell.usage import not_one_of
from .options import repair_options, run


def _kinds(ctx: click.Context, param: click.Parameter, text: str | None) -> frozenset[str] | None:
    if text is None:
        return None
    kinds = frozenset(part.strip() for part in text.split(","))
    unknown = sorted(kinds.difference(ALL_KINDS))
    if unknown:
        raise click.BadParameter(not_one_of(unknown[0], ALL_KINDS), ctx, param)
    return kinds


def _strategy(ctx: click.Context, param: click.Parameter, text: str | None) -> Strategy | None:
    if text is None or text in STRATEGIES:
        return None if text is None else Strategy(text)
    if text not in OLD_NAMES:
        raise click.BadParameter(not_one_of(text, STRATEGIES), ctx, param)
    complain(f"--strategy {text} is now called {OLD_NAMES[text]}; the old name goes after two more releases")
    return OLD_NAMES[text]


@click.command("repair")
@click.argument("paths", nargs=-1, metavar="PATH...")
@click.option(
    "--strategy", callback=_strategy, metavar="NAME", shell_complete=one_of(STRATEGIES),
    help="safe (the default): drop no valid batch; what needs a decision is listed and left alone. truncate: cut the"
    " log at the first damage, as the broker's recovery does. salvage: give damaged batches up, keep all valid ones.",
)
@click.option(
    "--fix-bit", is_flag=True,
    help="Flip the one bit back that explains a damaged batch, and change nothing else. Other damage may look the same,"
    " though that is rare: the plan says how rare.",
)
@click.option(
    "--from", "sources", multiple=True, type=click.Path(exists=True, file_okay=False), metavar="OTHER",
    help="Restore what a partition lacks from another broker's copy: its partition directory or log directory. May be"
    " repeated; each range is taken from the first that has it valid.",
)
@click.option(
    "--only-copy", is_flag=True,
    help="Salvage although the cluster metadata names other in-sync replicas: their copies are gone.",
)
@click.option(
    "--missing-markers", "lost_markers", type=click.Choice([each.value for each in LostMarkers]),
    help="With salvage: what to do with a transaction whose end may be among what is given up. open (the default): it"
    " stays open, and read_committed consumers stop before it. abort: it is aborted. Where a .txnindex shows that it"
    " was, it is.",
)
@click.option(
    "--only", callback=_kinds, metavar="KINDS", shell_complete=one_of(ALL_KINDS),
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
    strategy: Strategy | None,
    fix_bit: bool,
    sources: tuple[str, ...],
    only_copy: bool,
    lost_markers: str | None,
    only: frozenset[str] | None,
    clean: bool | None,
    recovery_point: int | None,
    log_start_offset: int | None,
    now: int | None,
    config_file: str | None,
    kafka: KafkaRelease | None,
    undo_path: str | None,
    **options: Any,
) -> int:
    """Show what it takes to make partitions loadable again, and with --apply do it.

    PATHs are partition directories or log directories. By default no valid batch is dropped: incomplete batches at the
    end of a log are cut, damaged indexes, snapshots and leader epochs are rebuilt. If valid batches follow damage,
    kdump lists the ways out with what each of them loses, and leaves the partition alone until you choose one: another
    in-sync replica, --fix-bit, --strategy salvage, --strategy truncate.

    With --from nothing is given up: kdump takes damaged and missing batches from other copies of the partition, byte
    for byte, and makes indexes, leader epochs, producer snapshot and checkpoints fit. It refuses copies of another
    topic or cluster, and of an older history. It takes segments before the first one if the copy's files show that they
    were lost and that retention did not delete them; if they do not show it, --log-start-offset says where the log
    began. It makes a partition directory that does not exist: one that PATH names, and those that the cluster metadata
    has in a log directory. Each partition is repaired on its own.

    Nothing is changed without --apply. With it every file is old or new at every moment; after a kill or a power cut
    the same command continues. kdump keeps the originals as files .kdump-* in the log directory, which a broker does
    not look at; `kdump undo` restores them. It refuses a plan that drops valid records unless --accept-loss has their
    number. It refuses a log directory that a broker has locked, and a log that grows.

    Exits with 0 when nothing is left to do, 1 when it only showed a plan with work in it, 3 when something could not be
    repaired, 4 when a safety check refused.

    \b
    Examples:
      kdump repair /var/lib/kafka/data
      kdump repair /var/lib/kafka/data/orders-3 --strategy salvage --apply
      kdump repair /var/lib/kafka/data/orders-3 --strategy salvage --apply \\
        --output /rescue/data
      kdump repair /b1/kafka/orders-3 --from /b2/kafka/orders-3 --apply
      kdump repair /var/lib/kafka/data --plan-out plan.json
      kdump repair /var/lib/kafka/data --apply-plan plan.json
    """
    if undo_path is not None:
        return _undo(undo_path)
    if not paths:
        raise click.UsageError(NO_PATHS_GIVEN)
    if fix_bit and strategy is not None:
        raise click.UsageError("--fix-bit is a strategy of its own: leave --strategy out")
    if sources and (fix_bit or strategy is not None or only is not None):
        raise click.UsageError("--from takes what is missing from a copy: leave --strategy, --fix-bit and --only out")
    strategy = FIX_BIT if fix_bit else strategy or SAFE
    if lost_markers and strategy != SALVAGE:
        raise click.UsageError("--missing-markers goes with --strategy salvage: no other strategy writes markers")
    request = Request(strategy, only, lost_markers=LostMarkers(lost_markers or OPEN))
    startup = chosen_startup(clean, recovery_point, log_start_offset, now, config_file, kafka)
    clusters = Clusters.around(paths)

    applies = options["applies"] or options["apply_plan"] is not None
    checks_copies = strategy == SALVAGE and not only_copy and options["output"] is None

    if sources:
        from kdump.operations.heal import plan_heal
        from kdump.operations.heal_sources import check_sources

        others = check_sources(sources)

        def healed(log: PartitionLog, start: Startup, _: object) -> Task:
            return plan_heal(log, start, others, clusters, log_start_offset)

        def absent(directory: LogDirectory) -> list[str]:
            return others.missing_in(directory, clusters)

        code = run(paths, healed, startup, command="repair from", absent=absent, **options)
        if code == exit_codes.OK and not others.are_used:
            complain("the directories of --from have no copy of these partitions")
            return exit_codes.INCOMPLETE
        return code

    planned = planning(request, clusters, checks_copies=checks_copies, applies=applies)
    return run(paths, planned, startup, command=command_of(request), **options)


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
