"""`kdump repair`: bring partitions into a state that a broker loads, after showing how."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import closing
from errno import EROFS
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from kdump.errors import KdumpError, NameFormatError, Problem, RefusedError
from kdump.formats.printable import safe, safe_path
from kdump.formats.uuids import parse_uuid
from kdump.mend.task import (
    ALL_KINDS,
    FIX_BIT,
    OPEN,
    SAFE,
    SALVAGE,
    STRATEGIES,
    LostMarkers,
    Request,
    Strategy,
    Task,
)
from kdump.operations.repair import PlanFiles, Planner, Repair, Repaired, repair_all
from kdump.operations.repair_planners import by_request, from_copies
from kdump.operations.results import Failed
from kdump.operations.safety import ALL_LOSSES, SafetyOptions
from kdump.operations.startup import StartupOptions
from kdump.operations.targets import Target
from kdump.releases import KafkaRelease
from kdump.storage.live import tally
from kdump.storage.partition import PartitionLog
from kdump.topics.clusters import Clusters

from ..shell import exit_codes
from ..shell.choice import NO_PATHS_GIVEN
from ..shell.completing import one_of
from ..shell.options import all_of, color_option, ignore_lock_option
from ..shell.output import NOTHING_CHECKED, Output, complain, error_text, os_error_text, say_interrupted, wants_color
from ..shell.paths import expand
from ..shell.progress import ProgressBar
from ..shell.rows import OutputFormat, format_option, output_for
from ..shell.session import Complaints, say_refused
from ..shell.startup_options import chosen_startup, startup_options
from ..shell.usage import not_one_of

if TYPE_CHECKING:
    from .jsonl import JsonPrinter
    from .text import TextPrinter

    Printer: TypeAlias = JsonPrinter | TextPrinter


def _kinds(ctx: click.Context, param: click.Parameter, text: str | None) -> frozenset[str] | None:
    if text is None:
        return None
    kinds = frozenset(part.strip() for part in text.split(","))
    unknown = sorted(kinds.difference(ALL_KINDS))
    if unknown:
        raise click.BadParameter(not_one_of(unknown[0], ALL_KINDS), ctx, param)
    return kinds


def _strategy(ctx: click.Context, param: click.Parameter, text: str | None) -> Strategy | None:
    if text is not None and text not in STRATEGIES:
        raise click.BadParameter(not_one_of(text, STRATEGIES), ctx, param)
    return None if text is None else Strategy(text)


def _topic_id(ctx: click.Context, param: click.Parameter, text: str | None) -> str | None:
    try:
        if text is not None:
            parse_uuid(text)
    except KdumpError as error:
        raise click.BadParameter(str(error), ctx, param) from None
    return text


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
    "--unproved", is_flag=True,
    help="With --from: take batches also where nothing shows that they are this partition's: no CRC, header or other"
    " batch of it is left to compare them with.",
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
@click.option(
    "--topic-id", callback=_topic_id, metavar="ID",
    help="Write this topic id into partition.metadata: kdump asks for it where the cluster metadata and the topic's"
    " other partitions do not decide. Refused if the cluster metadata has another one for the topic.",
)
@startup_options
@click.option(
    "--output", type=click.Path(), metavar="DIR",
    help="Leave the source alone and make DIR, a log directory with the repaired copy.",
)
@repair_options
def command(
    paths: tuple[str, ...],
    strategy: Strategy | None,
    fix_bit: bool,
    sources: tuple[str, ...],
    unproved: bool,
    only_copy: bool,
    lost_markers: str | None,
    only: frozenset[str] | None,
    topic_id: str | None,
    clean: bool | None,
    recovery_point: int | None,
    log_start_offset: int | None,
    now: int | None,
    config_file: str | None,
    kafka: KafkaRelease | None,
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
    if not paths:
        raise click.UsageError(NO_PATHS_GIVEN)
    if fix_bit and strategy is not None:
        raise click.UsageError("--fix-bit is a strategy of its own: leave --strategy out")
    if sources and (fix_bit or strategy is not None or only is not None or topic_id is not None):
        raise click.UsageError(
            "--from takes what is missing from a copy: leave --strategy, --fix-bit, --only and --topic-id out"
        )
    strategy = FIX_BIT if fix_bit else strategy or SAFE
    if unproved and not sources:
        raise click.UsageError("--unproved goes with --from")
    if lost_markers and strategy != SALVAGE:
        raise click.UsageError("--missing-markers goes with --strategy salvage: no other strategy writes markers")
    startup = chosen_startup(clean, recovery_point, log_start_offset, now, config_file, kafka)
    if sources:
        from kdump.operations.heal_sources import check_sources

        copies = check_sources(sources)
        code = run(paths, from_copies(copies, log_start_offset, unproved=unproved), startup, **options)
        if code == exit_codes.OK and not copies.are_used:
            complain("the directories of --from have no copy of these partitions")
            return exit_codes.INCOMPLETE
        return code
    request = Request(strategy, only, lost_markers=LostMarkers(lost_markers or OPEN), topic_id=topic_id)
    applies = options["applies"] or options["apply_plan"] is not None
    checks_copies = not only_copy and options["output"] is None
    return run(paths, by_request(request, checks_copies=checks_copies, applies=applies), startup, **options)


def run(
    paths: tuple[str, ...],
    planner: Planner,
    startup: StartupOptions,
    *,
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
) -> int:
    """Repair what is at `paths` as the planner and these options have it; the exit code. Raises click.UsageError."""
    if no_backup and backup_dir:
        raise click.UsageError("--backup-dir and --no-backup contradict each other")
    applies = applies or apply_plan is not None
    if plan_out is not None and applies:
        raise click.UsageError("--plan-out saves a plan for later: leave out --apply and --apply-plan.")
    safety = SafetyOptions(applies, planner.command, not no_backup, backup_dir, output, force, jobs, accept_loss)
    with output_for(format_) as out:
        printer: Printer
        if format_ is OutputFormat.JSONL:
            from .jsonl import JsonPrinter

            printer = JsonPrinter(out.write)
        else:
            from .text import TextPrinter

            printer = TextPrinter(out.write, safety, is_colored=wants_color(color))
        return _Run(safety, printer, out).paths(paths, planner, startup, PlanFiles(plan_out, apply_plan))


class _Run(Complaints):
    """One run: what came of it so far.

    `reason` is why the last partition, or log directory, that was left alone was; "" without one.
    """

    def __init__(self, safety: SafetyOptions, printer: Printer, out: Output) -> None:
        super().__init__(out.flush)
        self._safety = safety
        self._printer = printer
        self._work = self._failed = self._refused = 0
        self._reason = ""

    def paths(self, paths: tuple[str, ...], planner: Planner, startup: StartupOptions, files: PlanFiles) -> int:
        """Repair what is at these paths; the exit code. Raises click.UsageError, KdumpError, OSError."""
        wanted = Repair(planner, startup, Clusters.around(paths), self._problem)
        targets = self._targets(wanted, paths)
        try:
            repaired = repair_all(targets, wanted, self._safety, files)
        except ValueError as error:
            raise click.UsageError(f"--{error}") from None
        except RefusedError as error:  # of a place to write to
            raise click.UsageError(f"{safe_path(str(error))}.") from None
        with ProgressBar([path for target in targets for path in target.partitions]) as bar, closing(repaired):
            try:
                for target, done in repaired:
                    self._show(done, target)
                    if isinstance(done, Repaired):
                        bar.add(os.path.join(done.path, "-"), _size(done.path))
            except KeyboardInterrupt:
                self.before()
                say_interrupted("the same command continues from here")
                self.worsen(exit_codes.INTERRUPTED)
                raise
        applies, counts = self._safety.applies, {"work": self._work, "failed": self._failed, "refused": self._refused}
        reason = "" if applies and self._work else self._reason
        self._printer.end(applies=applies, **counts, reason=reason)
        return self.code

    def _targets(self, wanted: Repair, paths: Iterable[str]) -> list[Target]:
        targets = wanted.targets()
        for path in paths:
            try:
                for place in () if targets.add_absent(path) else expand([path]):
                    targets.add(place)
            except NameFormatError as error:  # a file that stands for nothing here
                raise click.UsageError(safe_path(str(error))) from None
            except OSError as error:
                self._report_error(error, path)
        return targets.all()

    def _show(self, done: Repaired | Failed, target: Target) -> None:
        if isinstance(done, Failed):
            self._report_error(done.error, done.path, target)
        elif done.error is not None:
            is_refused = isinstance(done.error, RefusedError)
            self._failed += 1
            self._refused += is_refused
            self._report_error(done.error, done.path, target)
            code = exit_codes.REFUSED if is_refused else exit_codes.INCOMPLETE
            self._printer.left_alone(done, self._reason, code)
            self._work += self._safety.applies and bool(done.interrupted)
        elif done.task is not None:
            self._repaired(done, done.task)

    def _repaired(self, done: Repaired, task: Task) -> None:
        self._printer.partition(done, task)
        for problem in task.problems:
            self.complain(safe(problem))
        if task.plan is None or task.problems:
            self._failed += 1
            self._reason = self._reason or f"{safe_path(done.path)} cannot be repaired this way"
        if task.plan is None and not task.problems:
            why = f": {safe(task.failure.text)} ({task.failure.file})" if task.failure is not None else ""
            self.complain(f"{safe_path(done.path)} cannot be repaired this way{why}")
        self._work += done.has_work
        if task.decision is not None or (done.has_work and not self._safety.applies):
            self.worsen(exit_codes.FINDINGS)

    def _problem(self, problem: Problem) -> None:
        """Count a file beside the partitions that cannot be read as empty, and continue with the rest."""
        if not problem.is_missing:
            self.complain(f"{safe_path(problem.path)}: {safe(problem.text)}; it is treated as empty")

    def _report_error(self, error: Exception, path: str, target: Target | None = None) -> None:
        if isinstance(error, BrokenPipeError):
            raise error
        text = os_error_text(error, path) if isinstance(error, OSError) else safe(error_text(error))
        text = target.spoken(text) if target is not None else text
        if isinstance(error, OSError):
            tally.cannot_read(path)
            if error.errno == EROFS and self._safety.command.startswith("repair") and self._safety.output is None:
                text += ". --output DIR makes a repaired copy elsewhere"
        self._reason = text.removesuffix(NOTHING_CHECKED)
        if isinstance(error, RefusedError):
            self.before()
            say_refused(error, text)
            self.worsen(exit_codes.REFUSED)
        else:
            self.complain(text)


def _size(path: str) -> int:
    """Return the bytes of a partition's logs, as far as they can be seen."""
    try:
        return sum(os.path.getsize(segment.log_path) for segment in PartitionLog(path).segments)
    except OSError:
        return 0
