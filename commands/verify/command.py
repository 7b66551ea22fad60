"""`kdump verify`: whether log directories are sound, and for each thing wrong where it is and what a broker does."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

import click

from kdump.disk.pace import lower_priority
from kdump.errors import KdumpError
from kdump.findings.finding import Finding
from kdump.findings.kind import ERROR, INFO, SEVERITIES, WARNING
from kdump.findings.limit import MOST_ALIKE
from kdump.formats.printable import escape_json, safe, safe_path
from kdump.formats.words import number_words
from kdump.storage.live import broker_on, is_live, tally
from kdump.verify.options import Options
from kdump.verify.resume import Mark, PassTotals, Place, check_writable, read_place, remove_mark, write_place
from kdump.verify.run import Verification
from kdump.verify.state import State, read_state, write_state
from kdump.verify.tasks import look

from ..shell import exit_codes
from ..shell.completing import finding_codes
from ..shell.engine import cluster_of, engine_options
from ..shell.options import color_option, now_if_given_option, verbose_option
from ..shell.output import Output, complain, note, wants_color
from ..shell.paths import check_not_kafkas, matches
from ..shell.progress import ProgressBar
from ..shell.prose import prose_width
from ..shell.rows import JSONL, format_options, output_for
from ..shell.values import duration_seconds, read_by, size
from .reports import FileReport, Together, report_to, reports_in
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


def severity_of(text: str) -> tuple[str, str]:
    """A `CODE=level` as (code pattern, severity). Raises click.BadParameter."""
    pattern, equals, severity = text.partition("=")
    severity = INFO if severity == "note" else severity
    if not equals or severity not in SEVERITIES:
        raise click.BadParameter(f"expected CODE=level, level one of error, warning, note; found {text!r}")
    return pattern, severity


def patterns_of(texts: Iterable[str]) -> tuple[str, ...]:
    """Code patterns, given one by one or with commas between them."""
    return tuple(part for text in texts for part in text.split(",") if part)


@click.command("verify")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--deep", is_flag=True, help="Decompress and decode every record too.")
@click.option(
    "--jobs",
    type=click.IntRange(1),
    metavar="N",
    help="Threads that read, of partitions and of one large segment. [default: one a core]",
)
@click.option(
    "--select",
    "select",
    multiple=True,
    metavar="CODE",
    shell_complete=finding_codes,
    help="Report only these codes (KD-LOG-* will do).",
)
@click.option(
    "--ignore",
    "ignore",
    multiple=True,
    metavar="CODE",
    shell_complete=finding_codes,
    help="Do not report these codes.",
)
@click.option(
    "--severity",
    "severities",
    multiple=True,
    metavar="CODE=LEVEL",
    help="Treat findings of a code as error, warning or note.",
)
@click.option(
    "--max-per-code",
    "most_alike",
    type=click.IntRange(0),
    default=MOST_ALIKE,
    show_default=True,
    metavar="N",
    help="Give up to N findings of one code in one file one by one, then how many more there are; 0: all.",
)
@click.option(
    "--fail-on",
    type=click.Choice(("error", "warning", "never")),
    default="error",
    show_default=True,
    help="From which severity on to exit with 1.",
)
@click.option(
    "--since-checkpoint",
    is_flag=True,
    help="Only the segments that reach past the recovery point, as a broker does after an unclean shutdown.",
)
@click.option(
    "--max-duration",
    metavar="TIME",
    callback=read_by(duration_seconds),
    help="Begin no further segment after this time (90s, 15m, 1h30m).",
)
@click.option(
    "--max-rate",
    metavar="SIZE",
    callback=read_by(size),
    help="Read no more than this in a second (64M, 12MiB).",
)
@click.option(
    "--resume",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Continue where the run before ended; FILE keeps the place when --max-duration, Ctrl-C or SIGTERM ends it.",
)
@click.option(
    "--state",
    "state_file",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Skip closed segments that were verified before and have not changed; FILE keeps which they are.",
)
@click.option(
    "--drop-cache/--keep-cache",
    default=None,
    help="Give the pages read back to the system (posix_fadvise). By default beside a running broker.",
)
@click.option(
    "--priority",
    type=click.Choice(("auto", "low", "normal")),
    default="auto",
    show_default=True,
    help="low: after others for processor and disk (nice, I/O class idle); auto: so beside a running broker.",
)
@now_if_given_option
@click.option(
    "--retention-ms",
    type=int,
    metavar="MS",
    help="Use this retention.ms instead of that in the cluster's metadata (if there is none: 7 days).",
)
@format_options("junit", "sarif")
@click.option(
    "--report",
    "reports",
    multiple=True,
    metavar="FORMAT:FILE",
    callback=read_by(report_to),
    help="Write the result to FILE as well, in a --format or as prom (for Prometheus). May be repeated.",
)
@verbose_option
@color_option
@engine_options
def command(
    paths: tuple[str, ...],
    deep: bool,
    jobs: int | None,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    severities: tuple[str, ...],
    most_alike: int,
    fail_on: str,
    since_checkpoint: bool,
    max_duration: float | None,
    max_rate: int | None,
    resume: str | None,
    state_file: str | None,
    drop_cache: bool | None,
    priority: str,
    now: int | None,
    retention_ms: int | None,
    format_: str,
    reports: tuple[tuple[str, str], ...],
    verbose: bool,
    color: str,
    engine: str,
    master: str,
    conf: dict[str, str],
) -> int:
    """Verify log directories: every file from its first byte to its last, not only its end.

    PATHs are log directories, partition directories and files of segments, in any mix; a quoted pattern will do.
    Frames, CRCs, offsets, leader epochs, producers, transactions, timestamps, index files, snapshots and checkpoints
    are compared with each other. Without --deep nothing is decompressed.

    Every finding has a stable code, a severity, a place, and says what a broker does about it and which repair fits.

    Exit codes: 0 no errors, 1 there are errors (with --fail-on warning: or warnings), 3 something could not be read;
    the rest is checked nevertheless.

    \b
    Examples:
      kdump verify /var/lib/kafka/data
      kdump verify --deep /var/lib/kafka/data/orders-0
      kdump verify --format jsonl /disk1/kafka /disk2/kafka | jq 'select(.severity == "error")'
      kdump verify --state /var/tmp/verified --max-rate 64M --report prom:/var/lib/node/kdump.prom /var/lib/kafka/data
      kdump verify /shared/kafka --engine spark --master spark://head:7077
    """
    is_beside = any(broker_on(path) is not None or is_live(path) for path in paths)
    options = Options(
        deep=deep,
        jobs=jobs or 0,
        now=now,
        retention_ms=retention_ms,
        since_checkpoint=since_checkpoint,
        drops_pages=is_beside if drop_cache is None else drop_cache,
        max_rate=max_rate,
        select=patterns_of(select),
        ignore=patterns_of(ignore),
        severities=tuple(severity_of(text) for text in severities),
        most_alike=most_alike,
    )
    try:
        options.check()
    except ValueError as error:
        raise click.UsageError(f"{error}.") from None
    cluster = cluster_of(engine, master, conf)
    if cluster is not None and (max_duration is not None or resume is not None or state_file is not None):
        raise click.UsageError("--max-duration, --resume and --state are for the local engine.")
    for path in (resume, state_file, *(path for _, path in reports)):
        if path is not None:
            _check_target(path)
    if priority == "low" or (priority == "auto" and is_beside):
        gained = lower_priority()
        if verbose:
            note(f"low priority: {', '.join(gained) or 'cannot be had here'}")
    if verbose and options.drops_pages:
        note("pages that were read are given back to the system (--keep-cache keeps them)")
    asked = Asked(format_, fail_on, verbose, color, max_duration, resume, state_file, reports)
    return run(paths, options, asked, cluster)


def _check_target(path: str) -> None:
    """Raises KdumpError where a file cannot be written, click.UsageError where it would lie among Kafka's own."""
    check_not_kafkas(path)
    try:
        check_writable(path)
    except OSError as error:
        raise KdumpError(f"{path} cannot be written: {error.strerror}. Nothing was checked.") from None


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
