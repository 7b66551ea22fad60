"""What repair, rebuild-index and trim have in common: log directory by log directory, show what is planned and done."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from errno import EROFS
from typing import TYPE_CHECKING, TypeAlias

import click

from kdump.errors import KdumpError, Problem, RefusedError
from kdump.formats.printable import safe, safe_path
from kdump.operations.rails import SafetyOptions
from kdump.operations.repair import Examine, Repair, Repaired, repair
from kdump.operations.startup import StartupOptions
from kdump.operations.targets import Target, Targets, base_of, is_absent_partition
from kdump.storage.directory import LogDirectory
from kdump.storage.live import tally
from kdump.storage.open import KafkaFile
from kdump.storage.partition import PartitionLog
from kdump.topics.clusters import Clusters

from ..shell import exit_codes
from ..shell.output import NOTHING_CHECKED, Output, os_error_text, say_interrupted
from ..shell.paths import expand
from ..shell.progress import ProgressBar
from ..shell.session import Complaints, tell_refused

if TYPE_CHECKING:
    from .jsonl import JsonPrinter
    from .text import TextPrinter

    Printer: TypeAlias = JsonPrinter | TextPrinter


@dataclass(eq=False, repr=False)
class Totals:
    """What came of a run: how many partitions have work, failed, and were changed by which change (its id).

    `reason` is why the last partition, or log directory, that was left alone was; "" without one.
    """

    paths: tuple[str, ...]
    applies: bool
    work: int = 0
    failed: int = 0
    refused: int = 0
    changed: int = 0
    records: int = 0
    changes: dict[str, str] = field(default_factory=dict)
    reason: str = ""
    output: str | None = None


class Run(Complaints):
    """One run of a command."""

    def __init__(
        self,
        examine: Examine,
        startup: StartupOptions,
        rails: SafetyOptions,
        printer: Printer,
        out: Output,
        *,
        takes_files: bool = False,
        plan_out: str | None = None,
        apply_plan: str | None = None,
        absent: Callable[[LogDirectory], Iterable[str]] | None = None,
    ) -> None:
        """`takes_files`: PATHs may name files of segments. Raises OSError, KdumpError for a plan file.

        `absent` tells which partitions a log directory lacks that are to be made, as may any that a PATH names.
        """
        super().__init__(out.flush)
        self._examine = examine
        self._startup = startup
        self._plans = None
        if apply_plan is not None:
            from kdump.change.saved_plan import load

            self._plans = load(apply_plan)
        self._rails = rails
        self._printer = printer
        self._takes_files = takes_files
        self._plan_out = plan_out
        self._absent = absent
        self._rows: list[dict[str, object]] = []
        self._totals = Totals((), rails.applies, output=rails.output)

    def paths(self, paths: Iterable[str]) -> int:
        """Repair what is at these paths; the exit code. Raises click.UsageError."""
        paths = tuple(paths)
        self._totals.paths = paths
        clusters = Clusters({os.path.dirname(os.path.abspath(path)) for path in paths} | set(paths))
        makes = self._absent is not None
        wanted = Repair(self._examine, self._startup, clusters, self._problem, self._plans, makes)
        targets = self._targets(paths)
        if self._rails.output is not None and len(targets) > 1:
            raise click.UsageError("--output takes the partitions of one log directory")
        with ProgressBar([path for target in targets for path in target.partitions]) as bar:
            for target in targets:
                try:
                    self._target(target, wanted, bar)
                except KeyboardInterrupt:
                    self.before()
                    say_interrupted("the same command continues from here")
                    self.worsen(exit_codes.INTERRUPTED)
                    raise
                except (OSError, KdumpError) as error:
                    self._trouble(error, target.log_directory, target)
        if self._plan_out is not None:
            from kdump.change.saved_plan import save

            save(self._plan_out, self._rails.command, self._rows)
        self._printer.end(self._totals)
        return self.code

    def _targets(self, paths: Iterable[str]) -> list[Target]:
        targets = Targets()
        for path in paths:
            try:
                if self._absent is not None and is_absent_partition(path):
                    targets.add_partition(path)
                    continue
                for place in expand([path]):
                    if isinstance(place, LogDirectory):
                        targets.add_directory(place)
                        for name in self._absent(place) if self._absent is not None else ():
                            targets.add_partition(os.path.join(place.path, name))
                    elif isinstance(place, PartitionLog):
                        targets.add_partition(place.path)
                    else:
                        targets.add_partition(os.path.dirname(os.path.abspath(place.path)), self._bases(place))
            except OSError as error:
                self._trouble(error, path)
        return targets.all()

    def _bases(self, place: KafkaFile) -> frozenset[int]:
        if not self._takes_files:
            raise click.UsageError(f"{safe_path(place.path)} is a file: give the partition directory that it is in")
        base = base_of(place.name)
        if base is None:
            raise click.UsageError(f"{safe_path(place.path)}: expected a .log, an index or a directory")
        return frozenset({base})

    def _target(self, target: Target, wanted: Repair, bar: ProgressBar) -> None:
        for done in repair(target, wanted, self._rails):
            self._tell(done, target)
            bar.add(os.path.join(done.path, "-"), _size(done.path))

    def _tell(self, done: Repaired, target: Target) -> None:
        totals = self._totals
        if done.error is not None:
            totals.failed += 1
            is_refused = isinstance(done.error, RefusedError)
            totals.refused += is_refused
            self._trouble(done.error, done.path, target)
            code = exit_codes.REFUSED if is_refused else exit_codes.INCOMPLETE
            self._printer.left_alone(done.path, totals.reason, code)
            return
        assert done.task is not None
        plan = done.task.plan
        if plan is not None and self._plan_out is not None:
            from kdump.change.saved_plan import plan_row

            self._rows.append(plan_row(plan))
        self._printer.partition(done, applies=self._rails.applies)
        for problem in done.task.problems:
            self.complain(safe(problem))
        if plan is None or done.task.problems:
            totals.failed += 1
            totals.reason = totals.reason or f"{safe_path(done.path)} cannot be repaired this way"
        if plan is None and not done.task.problems:
            failure = done.task.failure
            why = f": {safe(failure.text)} ({failure.file})" if failure is not None else ""
            self.complain(f"{safe_path(done.path)} cannot be repaired this way{why}")
        if done.task.decision is not None:
            self.worsen(exit_codes.FINDINGS)
        elif plan or (done.interrupted and plan is not None):
            totals.work += 1
            totals.changed += self._rails.applies
            totals.records += done.task.dropped.records
            if done.change is not None and done.kept:
                totals.changes[done.path] = done.change.id
            if not self._rails.applies:
                self.worsen(exit_codes.FINDINGS)

    def _problem(self, problem: Problem) -> None:
        """Count a file beside the partitions that cannot be read as empty, and go on with the rest."""
        if not problem.is_missing:
            text = f"{safe_path(problem.path)}: {safe(problem.text)}; it is treated as empty"
            self.complain(text)

    def _trouble(self, error: Exception, path: str, target: Target | None = None) -> None:
        if isinstance(error, BrokenPipeError):
            raise error
        text = os_error_text(error, path) if isinstance(error, OSError) else safe(str(error))
        if isinstance(error, OSError):
            tally.cannot_read(path)
        text = target.spoken(text) if target is not None else text
        is_read_only = isinstance(error, OSError) and error.errno == EROFS
        is_repair = self._rails.command.partition(" ")[0] == "repair"
        if is_read_only and is_repair and self._rails.output is None:
            text += ". --output DIR makes a repaired copy elsewhere"
        self._totals.reason = text.removesuffix(NOTHING_CHECKED)
        if isinstance(error, RefusedError):
            self.before()
            tell_refused(error, text)
            self.worsen(exit_codes.REFUSED)
        else:
            self.complain(text)


def _size(path: str) -> int:
    """Return the bytes of a partition's logs, as far as they can be seen."""
    try:
        return sum(os.path.getsize(segment.log_path) for segment in PartitionLog(path).segments)
    except OSError:
        return 0
