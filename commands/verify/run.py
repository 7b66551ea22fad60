"""What `kdump verify` does: it prints what is found as it is found."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kdump.errors import HoldsLogDirectoriesError, KdumpError
from kdump.findings.kind import ERROR, WARNING
from kdump.formats.printable import escape_json, safe
from kdump.formats.words import number_words
from kdump.named_tuples import NamedTuple
from kdump.operations.verify import UNREAD, Totals, VerifyRequest, VerifyRun
from kdump.storage.live import tally
from kdump.verify.options import Options
from kdump.verify.tasks import check_path

from ..shell import exit_codes
from ..shell.output import Output, about, complain, note, wants_color
from ..shell.paths import matches
from ..shell.progress import ProgressBar
from ..shell.rows import output_for
from ..shell.screen import Screen
from .reports import FileReport, Together, reports_in
from .text import Report

if TYPE_CHECKING:
    from kdump.spark.jobs import Cluster
    from kdump.spark.verification import SparkVerification


class VerifyArgs(NamedTuple):
    """How to tell what is found, and what else the command line asks for."""

    format: str
    fail_on: str
    verbose: bool
    color: str
    request: VerifyRequest
    reports: tuple[tuple[str, str], ...] = ()

    @property
    def is_strict(self) -> bool:
        """Whether warnings count as errors."""
        return self.fail_on == "warning"


def run(paths: Sequence[str], options: Options, asked: VerifyArgs, cluster: Cluster | None = None) -> int:
    """Verify, print, and return the exit code. Raises click.ClickException, OSError and KdumpError."""
    chosen, unread = _existing(paths)
    ended: KeyboardInterrupt | None = None
    with ProgressBar(chosen) as bar, _output(asked.format) as out:
        showing = PeriodicFlush(out, bar)
        report = _reports(out, asked, paths)
        verified = VerifyRun(
            chosen,
            options._replace(progress=showing.progress),
            asked.request,
            start=_on(cluster) if cluster else None,
            on_partition=report.partition,
            keeps=False,
        )
        verified.totals.unread = unread
        report.start()
        try:
            for finding in verified:
                if finding.code == UNREAD:
                    tally.cannot_read(finding.path)
                bar.hide()
                report.finding(finding)
        except KeyboardInterrupt as interrupt:
            ended = interrupt
            verified.close()
        totals = verified.totals
        if totals.uncompared:
            partitions = number_words(totals.uncompared, "partition")
            note(f"the copies of {partitions} were not compared for want of time: kdump replicas compares them")
        bar.hide()
        code = _exit_code(totals, asked)
        report.finish(totals, code)
    verified.keep()
    if ended is not None:
        raise ended
    return code


def _output(format_: str) -> Output:
    return Output(escape_json) if format_ == "sarif" else output_for(format_)


def _on(cluster: Cluster) -> Callable[[Options], SparkVerification]:
    from kdump.spark.verification import SparkVerification

    return lambda options: SparkVerification(options, cluster)


class PeriodicFlush:
    """Lets nobody wait for findings that are already known while the rest takes its time."""

    INTERVAL = 1.0

    def __init__(self, out: Output, bar: ProgressBar) -> None:
        self._out = out
        self._bar = bar
        self._next = time.monotonic() + self.INTERVAL

    def progress(self, path: str, size: int) -> None:
        """Count so many more bytes that have been read of the log at `path`."""
        if (now := time.monotonic()) >= self._next:
            self._next = now + self.INTERVAL
            if self._out.holds:
                self._bar.hide()
                self._out.flush()
        self._bar.add(path, size)


def _existing(paths: Sequence[str]) -> tuple[list[str], int]:
    """Return the paths that there is something to verify at, and how many others there are, of which it is said why."""
    chosen: list[str] = []
    unread = 0
    for path in paths:
        try:
            for found in matches(path):
                check_path(found)
                chosen.append(found)
        except HoldsLogDirectoriesError as error:
            from ..shell.again import holds_text

            complain(about(error.path, holds_text(error)))
            unread += 1
        except KdumpError as error:
            complain(safe(str(error)))
            unread += 1
        except OSError as error:
            complain(about(path, error.strerror or str(error)))
            unread += 1
    return chosen, unread


def _exit_code(totals: Totals, asked: VerifyArgs) -> int:
    if totals.unread:
        return exit_codes.INCOMPLETE
    if asked.fail_on == "never":
        return exit_codes.OK
    found = totals.counts[ERROR] + (totals.counts[WARNING] if asked.is_strict else 0)
    return exit_codes.FINDINGS if found else exit_codes.OK


def _reports(out: Output, asked: VerifyArgs, paths: Sequence[str]) -> Report:
    """Return what prints: to stdout, and to the files asked for."""
    first = reports_in(
        asked.format,
        out,
        strict=asked.is_strict,
        verbose=asked.verbose,
        color=wants_color(asked.color),
        paths=paths,
        width=Screen.current.width,
    )
    if not asked.reports:
        return first
    files = (FileReport(format_, path, strict=asked.is_strict, paths=paths) for format_, path in asked.reports)
    return Together([first, *files])
