"""What repair, rebuild-index and trim have in common: log directory by log directory, show what is planned and done."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from errno import EROFS
from typing import TYPE_CHECKING, TypeAlias

import click

from kdump.errors import NameFormatError, Problem, RefusedError
from kdump.formats.printable import safe, safe_path
from kdump.operations.repair import NO_FILES, Examine, PlanFiles, Repair, Repaired, repair_all
from kdump.operations.results import Failed
from kdump.operations.safety import SafetyOptions
from kdump.operations.startup import StartupOptions
from kdump.operations.targets import Missing, Target, Targets
from kdump.storage.live import tally
from kdump.storage.partition import PartitionLog
from kdump.topics.clusters import Clusters

from ..shell import exit_codes
from ..shell.output import NOTHING_CHECKED, Output, os_error_text, say_interrupted
from ..shell.paths import expand
from ..shell.progress import ProgressBar
from ..shell.session import Complaints, say_refused

if TYPE_CHECKING:
    from .jsonl import JsonPrinter
    from .text import TextPrinter

    Printer: TypeAlias = JsonPrinter | TextPrinter


@dataclass(eq=False, repr=False)
class Totals:
    """What came of a run: how many partitions have work, failed, and were changed, by which changes (their ids).

    `reason` is why the last partition, or log directory, that was left alone was; "" without one.
    """

    paths: tuple[str, ...]
    applies: bool
    work: int = 0
    failed: int = 0
    refused: int = 0
    changed: int = 0
    records: int = 0
    changes: list[tuple[str, str]] = field(default_factory=list)
    reason: str = ""
    output: str | None = None


class Run(Complaints):
    """One run of a command."""

    def __init__(
        self,
        examine: Examine,
        startup: StartupOptions,
        safety: SafetyOptions,
        printer: Printer,
        out: Output,
        *,
        takes_files: bool = False,
        files: PlanFiles = NO_FILES,
        absent: Missing | None = None,
    ) -> None:
        """`takes_files`: PATHs may name files of segments.

        `absent` tells which partitions a log directory lacks that are to be made, as may any that a PATH names.
        """
        super().__init__(out.flush)
        self._examine = examine
        self._startup = startup
        self._safety = safety
        self._printer = printer
        self._takes_files = takes_files
        self._files = files
        self._absent = absent
        self._totals = Totals((), safety.applies, output=safety.output)

    def paths(self, paths: Iterable[str]) -> int:
        """Repair what is at these paths; the exit code. Raises click.UsageError, KdumpError, OSError."""
        paths = tuple(paths)
        self._totals.paths = paths
        clusters = Clusters.around(paths)
        makes = self._absent is not None
        wanted = Repair(self._examine, self._startup, clusters, self._problem, makes_directories=makes)
        targets = self._targets(paths)
        try:
            repaired = repair_all(targets, wanted, self._safety, self._files)
        except ValueError as error:
            raise click.UsageError(f"--{error}") from None
        with ProgressBar([path for target in targets for path in target.partitions]) as bar, closing(repaired):
            try:
                for target, done in repaired:
                    self._show(done, target, bar)
            except KeyboardInterrupt:
                self.before()
                say_interrupted("the same command continues from here")
                self.worsen(exit_codes.INTERRUPTED)
                raise
        self._printer.end(self._totals)
        return self.code

    def _targets(self, paths: Iterable[str]) -> list[Target]:
        targets = Targets(self._absent, takes_files=self._takes_files)
        for path in paths:
            try:
                for place in () if targets.add_absent(path) else expand([path]):
                    with _usage():
                        targets.add(place)
            except OSError as error:
                self._report_error(error, path)
        return targets.all()

    def _show(self, done: Repaired | Failed, target: Target, bar: ProgressBar) -> None:
        if isinstance(done, Failed):
            self._report_error(done.error, done.path, target)
        else:
            self._repaired(done, target)
            bar.add(os.path.join(done.path, "-"), _size(done.path))

    def _repaired(self, done: Repaired, target: Target) -> None:
        totals = self._totals
        if done.error is not None:
            totals.failed += 1
            is_refused = isinstance(done.error, RefusedError)
            totals.refused += is_refused
            self._report_error(done.error, done.path, target)
            code = exit_codes.REFUSED if is_refused else exit_codes.INCOMPLETE
            self._printer.left_alone(done.path, totals.reason, code)
            return
        assert done.task is not None
        plan = done.task.plan
        self._printer.partition(done, applies=self._safety.applies)
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
            totals.changed += self._safety.applies
            totals.records += done.task.dropped.records
            if self._safety.applies:
                made = (*done.interrupted, done.change)
                totals.changes += ((done.path, each.id) for each in made if each is not None and each.keeps_old)
            else:
                self.worsen(exit_codes.FINDINGS)

    def _problem(self, problem: Problem) -> None:
        """Count a file beside the partitions that cannot be read as empty, and continue with the rest."""
        if not problem.is_missing:
            text = f"{safe_path(problem.path)}: {safe(problem.text)}; it is treated as empty"
            self.complain(text)

    def _report_error(self, error: Exception, path: str, target: Target | None = None) -> None:
        if isinstance(error, BrokenPipeError):
            raise error
        text = os_error_text(error, path) if isinstance(error, OSError) else safe(str(error))
        if isinstance(error, OSError):
            tally.cannot_read(path)
        text = target.spoken(text) if target is not None else text
        is_read_only = isinstance(error, OSError) and error.errno == EROFS
        is_repair = self._safety.command.partition(" ")[0] == "repair"
        if is_read_only and is_repair and self._safety.output is None:
            text += ". --output DIR makes a repaired copy elsewhere"
        self._totals.reason = text.removesuffix(NOTHING_CHECKED)
        if isinstance(error, RefusedError):
            self.before()
            say_refused(error, text)
            self.worsen(exit_codes.REFUSED)
        else:
            self.complain(text)


@contextmanager
def _usage() -> Iterator[None]:
    """Take a file that stands for nothing here for a wrong command line."""
    try:
        yield
    except NameFormatError as error:
        raise click.UsageError(safe_path(str(error))) from None


def _size(path: str) -> int:
    """Return the bytes of a partition's logs, as far as they can be seen."""
    try:
        return sum(os.path.getsize(segment.log_path) for segment in PartitionLog(path).segments)
    except OSError:
        return 0
