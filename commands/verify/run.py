"""What `kdump verify` does: it looks, prints what is found as it is found, and keeps its place and its state."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

from kdump.errors import KdumpError
from kdump.findings.finding import Finding
from kdump.findings.kind import ERROR, WARNING
from kdump.formats.printable import escape_json, safe, safe_path
from kdump.formats.words import number_words
from kdump.storage.live import tally
from kdump.verify.options import Options
from kdump.verify.resume import Mark, PassTotals, Place, read_place, remove_mark, write_place
from kdump.verify.run import Verification
from kdump.verify.state import State, read_state, write_state
from kdump.verify.tasks import look

from ..shell import exit_codes
from ..shell.output import Output, complain, note, wants_color
from ..shell.paths import matches
from ..shell.progress import ProgressBar
from ..shell.prose import prose_width
from ..shell.rows import JSONL, output_for
from .reports import FileReport, Together, reports_in
from .text import Report, Summary

if TYPE_CHECKING:
    from kdump.spark.jobs import Cluster
    from kdump.spark.verification import SparkVerification

UNREAD = "KD-READ"


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line asks for beyond the checks themselves."""

    format: str
    fail_on: str
    verbose: bool
    color: str
    max_duration: float | None
    resume: str | None
    state: str | None = None
    reports: tuple[tuple[str, str], ...] = ()

    @property
    def is_strict(self) -> bool:
        """Whether warnings count as errors."""
        return self.fail_on == "warning"


def run(paths: Sequence[str], options: Options, asked: Asked, cluster: Cluster | None = None) -> int:
    """Verify, print, and return the exit code. Raises click.ClickException, OSError and KdumpError."""
    summary = Summary(is_deep=options.deep)
    chosen = _existing(paths, summary)
    if asked.max_duration is not None:
        options = replace(options, deadline=time.monotonic() + asked.max_duration)
    absolute = [os.path.abspath(path) for path in chosen]
    place = read_place(asked.resume, absolute) if asked.resume else Place()
    before, summary.before = place.mark, place.totals
    summary.is_part = bool(asked.resume or asked.state)
    if before is not None and chosen != absolute:
        before = before._replace(partition=_as_given(before.partition, chosen, absolute))
    state = read_state(asked.state) if asked.state else None
    ended: KeyboardInterrupt | None = None
    with ProgressBar(chosen) as bar, _output(asked.format) as out:
        showing = Showing(out, bar)
        verification = _verification(replace(options, progress=showing.progress), before, cluster, state)
        report = _reports(out, asked, paths)
        verification.on_partition = report.partition
        report.start()
        try:
            for finding in chain(verification.run(chosen), _between(verification, chosen, options)) if chosen else ():
                summary.add(finding, is_unread=finding.code == UNREAD)
                if finding.code == UNREAD:
                    tally.cannot_read(finding.path)
                bar.hide()
                report.finding(finding)
        except KeyboardInterrupt as interrupt:
            ended = interrupt
        summary.finish(verification, was_interrupted=ended is not None)
        if summary.is_complete and not summary.whole.unread and state is not None:
            state.last_pass = time.time()
        bar.hide()
        summary.exit_code = _exit_code(summary, asked)
        report.finish(summary)
    if asked.resume and (summary.is_complete or verification.mark is not None):
        _keep(asked.resume, absolute, verification.mark, summary.whole)
    if asked.state and state is not None:
        write_state(asked.state, state)
    if ended is not None:
        raise ended
    return summary.exit_code


def _between(
    verification: Verification | SparkVerification, chosen: Sequence[str], options: Options
) -> Iterator[Finding]:
    """What is wrong between the copies of several brokers; logs that were all read are read again for it."""
    if len(chosen) < 2 or verification.mark is not None or options.max_rate or options.since_checkpoint:
        return
    from kdump.operations.copies import CopyCheck, findings_between  # half of kdump, for several paths only

    check = CopyCheck(chosen, options.now or int(time.time() * 1000), options.deadline)
    yield from findings_between(check, options)
    if check.seen.left:
        partitions = number_words(check.seen.left, "partition")
        note(f"the copies of {partitions} were not compared for want of time: kdump replicas compares them")


def _output(format_: str) -> Output:
    return output_for(format_) if format_ == JSONL else Output(escape_json if format_ == "sarif" else None)


def _verification(
    options: Options, before: Mark | None, cluster: Cluster | None, state: State | None
) -> Verification | SparkVerification:
    if cluster is None:
        return Verification(options, before, state=state)
    from kdump.spark.verification import SparkVerification

    return SparkVerification(options, cluster)


class Showing:
    """Lets nobody wait for findings that are already known while the rest takes its time."""

    INTERVAL = 1.0

    def __init__(self, out: Output, bar: ProgressBar) -> None:
        self._out = out
        self._bar = bar
        self._next = time.monotonic() + self.INTERVAL

    def progress(self, path: str, size: int) -> None:
        """So many more bytes of the log at `path` have been read."""
        if (now := time.monotonic()) >= self._next:
            self._next = now + self.INTERVAL
            if self._out.holds:
                self._bar.hide()
                self._out.flush()
        self._bar.add(path, size)


def _existing(paths: Sequence[str], summary: Summary) -> list[str]:
    """The paths that there is something to verify at; of the others it is said why not."""
    chosen: list[str] = []
    for path in paths:
        try:
            for found in matches(path):
                look(found)
                chosen.append(found)
        except KdumpError as error:
            complain(safe(str(error)))
            summary.unread += 1
        except OSError as error:
            complain(f"{safe_path(path)}: {error.strerror}")
            summary.unread += 1
    return chosen


def _as_given(partition: str, chosen: list[str], absolute: list[str]) -> str:
    for path, full in zip(chosen, absolute, strict=True):
        if partition == full:
            return path
        if os.path.dirname(partition) == full:
            return os.path.join(path, os.path.basename(partition))
    return partition


def _keep(path: str, absolute: list[str], mark: Mark | None, totals: PassTotals) -> None:
    if mark is None:
        remove_mark(path)
    else:
        write_place(path, absolute, mark._replace(partition=os.path.abspath(mark.partition)), totals)


def _exit_code(summary: Summary, asked: Asked) -> int:
    if summary.unread:
        return exit_codes.INCOMPLETE
    if asked.fail_on == "never":
        return exit_codes.OK
    found = summary.counts[ERROR] + (summary.counts[WARNING] if asked.is_strict else 0)
    return exit_codes.FINDINGS if found else exit_codes.OK


def _reports(out: Output, asked: Asked, paths: Sequence[str]) -> Report:
    """What prints: to stdout, and to the files asked for."""
    first = reports_in(
        asked.format,
        out,
        strict=asked.is_strict,
        verbose=asked.verbose,
        color=wants_color(asked.color),
        paths=paths,
        width=prose_width() if sys.stdout.isatty() else None,
    )
    if not asked.reports:
        return first
    files = (FileReport(format_, path, strict=asked.is_strict, paths=paths) for format_, path in asked.reports)
    return Together([first, *files])
