"""`kdump verify`: whether log directories are sound, and for each thing wrong where it is and what a broker does."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from kdump.check.options import Options
from kdump.check.tasks import check_path
from kdump.disk.pace import lower_priority
from kdump.errors import HoldsLogDirectoriesError, KdumpError
from kdump.findings.finding import UNREAD
from kdump.findings.kind import ERROR, SEVERITIES, WARNING
from kdump.findings.limit import MAX_PER_CODE
from kdump.formats.printable import escape_json, safe
from kdump.formats.words import number_words
from kdump.operations.verify import Totals, VerifyRequest, VerifyRun, consideration
from kdump.storage.live import tally

from ..shell import exit_codes
from ..shell.completing import finding_codes
from ..shell.engine import cluster_of, engine_options
from ..shell.options import color_option, max_duration_option, now_if_given_option, threads_option, verbose_option
from ..shell.output import Output, about, complain, holds_text, note, wants_color
from ..shell.paths import check_target, matches
from ..shell.progress import ProgressBar
from ..shell.rows import OutputFormat, ReportFile, format_options, output_for
from ..shell.screen import FailOn, Screen
from ..shell.values import read_by, size
from .text import Report, Sink, TextReport

if TYPE_CHECKING:
    from kdump.spark.jobs import Cluster
    from kdump.spark.verification import SparkVerification

_FORMATS = tuple(each for each in OutputFormat if each not in (OutputFormat.CSV, OutputFormat.HTML))
_PRIORITIES = {"auto": None, "low": True, "normal": False}


def severity_of(text: str) -> tuple[str, str]:
    """Return a `CODE=level` as (code pattern, severity). Raises click.BadParameter."""
    pattern, equals, severity = text.partition("=")
    if not equals or severity not in SEVERITIES:
        raise click.BadParameter(f"expected CODE=level, level one of error, warning, note; found {text!r}")
    return pattern, severity


def patterns_of(texts: Iterable[str]) -> tuple[str, ...]:
    """Return code patterns, given one by one or with commas between them."""
    return tuple(part for text in texts for part in text.split(",") if part)


def _report_to(text: str) -> tuple[OutputFormat, str]:
    """Return the format and the file of a `FORMAT:FILE`. Raises ValueError."""
    format_, colon, path = text.partition(":")
    if not colon or not path or format_ not in _FORMATS:
        raise ValueError(f"{text!r}: expected FORMAT:FILE, FORMAT one of {', '.join(_FORMATS)}")
    return OutputFormat(format_), path


@click.command("verify")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--deep", is_flag=True, help="Decompress and decode every record too.")
@threads_option
@click.option("--select", "select", multiple=True, metavar="CODE", shell_complete=finding_codes,
    help="Report only these codes (or patterns: KD-LOG-*).")
@click.option("--ignore", "ignore", multiple=True, metavar="CODE", shell_complete=finding_codes,
    help="Do not report these codes.")
@click.option("--severity", "severities", multiple=True, metavar="CODE=LEVEL",
    help="Treat findings of a code as error, warning or note.")
@click.option("--max-per-code", "max_per_code", type=click.IntRange(0), default=MAX_PER_CODE, show_default=True,
    metavar="N", help="List up to N findings of one code in one file, then count the rest; 0: list all.")
@click.option("--fail-on", type=click.Choice([each.value for each in FailOn]), default=FailOn.ERROR.value,
    callback=lambda _ctx, _param, word: FailOn(word), show_default=True, help="From which severity on to exit with 1.")
@click.option("--since-checkpoint", is_flag=True,
    help="Only the segments that reach past the recovery point, as a broker does after an unclean shutdown.")
@max_duration_option()
@click.option("--max-rate", metavar="SIZE", callback=read_by(size),
    help="Read no more than this in a second (64M, 12MiB).")
@click.option("--resume", type=click.Path(dir_okay=False), metavar="FILE",
    help="Continue where the run before ended; FILE keeps the place when --max-duration, Ctrl-C or SIGTERM ends it.")
@click.option("--state", "state_file", type=click.Path(dir_okay=False), metavar="FILE",
    help="Skip closed segments that were verified before and have not changed; FILE keeps which they are.")
@click.option("--drop-cache/--keep-cache", default=None,
    help="Give the pages read back to the system (posix_fadvise). By default while a broker runs.")
@click.option("--priority", type=click.Choice(tuple(_PRIORITIES)), default="auto", show_default=True,
    help="low: after others for processor and disk (nice, I/O class idle); auto: low while a broker runs.")
@now_if_given_option
@click.option("--retention-ms", type=int, metavar="MS",
    help="Use this retention.ms instead of that in the cluster's metadata (if there is none: 7 days).")
@format_options(OutputFormat.JUNIT, OutputFormat.SARIF)
@click.option("--report", "reports", multiple=True, metavar="FORMAT:FILE", callback=read_by(_report_to),
    help="Write the result to FILE as well, in a --format or as prom (for Prometheus). May be repeated.")
@verbose_option
@color_option
@engine_options
def command(
    paths: tuple[str, ...],
    jobs: int | None,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    severities: tuple[str, ...],
    fail_on: FailOn,
    max_duration: float | None,
    resume: str | None,
    state_file: str | None,
    drop_cache: bool | None,
    priority: str,
    format_: OutputFormat,
    reports: tuple[tuple[OutputFormat, str], ...],
    verbose: bool,
    color: str,
    engine: str,
    master: str,
    conf: dict[str, str],
    **checks: Any,
) -> int:
    """Verify log directories: every file from its first byte to its last, not only its end.

    PATHs are log directories, partition directories and files of segments, in any mix; quoted patterns work. Frames,
    CRCs, offsets, leader epochs, producers, transactions, timestamps, index files, snapshots and checkpoints are
    compared with each other. Without --deep nothing is decompressed.

    Every finding has a stable code, a severity, a place, and says what a broker does about it and which repair fits.

    Exit codes: 0 no errors, 1 there are errors (with --fail-on warning: or warnings), 3 something could not be read;
    the rest is checked nevertheless.

    \b
    Examples:
      kdump verify /var/lib/kafka/data
      kdump verify --deep /var/lib/kafka/data/orders-0
      kdump verify --format jsonl /disk1/kafka /disk2/kafka \\
        | jq 'select(.severity == "error")'
      kdump verify --state /var/tmp/verified --max-rate 64M \\
        --report prom:/var/lib/node/kdump.prom /var/lib/kafka/data
      kdump verify /shared/kafka --engine spark --master spark://head:7077
    """
    drops_pages, has_low_priority = consideration(paths, drop_cache, _PRIORITIES[priority])
    options = Options(
        jobs=jobs or 0,
        drops_pages=drops_pages,
        select=patterns_of(select),
        ignore=patterns_of(ignore),
        severities=tuple(severity_of(text) for text in severities),
        **checks,
    )
    try:
        options.check()
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    cluster = cluster_of(engine, master, conf)
    if cluster is not None and (max_duration is not None or resume is not None or state_file is not None):
        raise click.UsageError("--max-duration, --resume and --state are for the local engine.")
    for path in (resume, state_file, *(path for _, path in reports)):
        if path is not None:
            check_target(path)
    if has_low_priority:
        _come_second(verbose=verbose)
    if verbose and drops_pages:
        note("pages that were read are given back to the system (--keep-cache keeps them)")
    request = VerifyRequest(max_duration, resume, state_file)
    chosen, unread = _existing(paths)
    output = Output(escape_json) if format_ is OutputFormat.SARIF else output_for(format_)
    with ProgressBar(chosen) as bar, output as out:
        printer = partial(_printer, is_strict=fail_on is FailOn.WARNING, verbose=bool(verbose), paths=paths)
        files = [ReportFile(kind, path, chosen) for kind, path in reports]
        printers = [printer(format_, out, is_colored=wants_color(color), width=Screen.current.width)]
        printers += (printer(file.format, file) for file in files)
        options = options._replace(progress=PeriodicFlush(out, bar).progress)
        begin = partial(_begin, printers)
        verified = VerifyRun(chosen, options, request, start=_on(cluster), on_partition=begin, keeps=False)
        verified.totals.unread = unread
        ended = _print_all(verified, printers, bar)
        code = _exit_code(verified.totals, fail_on)
        for each in printers:
            each.end(verified.totals, code)
        for file in files:
            file.end(code)
    verified.keep()
    if ended is not None:
        raise ended
    return code


def _come_second(*, verbose: bool) -> None:
    gained = lower_priority()
    if verbose:
        note(f"low priority: {', '.join(gained) or 'cannot be had here'}")


def _printer(
    format_: OutputFormat,
    out: Sink,
    *,
    is_strict: bool,
    verbose: bool,
    paths: Sequence[str],
    is_colored: bool = False,
    width: int | None = None,
) -> Report:
    if format_ is OutputFormat.TEXT:
        return TextReport(out, verbose=verbose, is_colored=is_colored, paths=paths, width=width)
    if format_ in (OutputFormat.JSON, OutputFormat.JSONL):
        from .jsonl import JsonLinesReport

        return JsonLinesReport(out, verbose=verbose)
    if format_ is OutputFormat.JUNIT:
        from .junit import JUnitReport

        return JUnitReport(out, strict=is_strict)
    if isinstance(out, ReportFile) and format_ is OutputFormat.PROM:
        from .prometheus import PrometheusReport

        return PrometheusReport(out, out.path)
    from .sarif import SarifReport

    return SarifReport(out)


def _begin(printers: Iterable[Report], path: str) -> None:
    for each in printers:
        each.partition(path)


def _print_all(verified: VerifyRun, printers: Sequence[Report], bar: ProgressBar) -> KeyboardInterrupt | None:
    """Print what is found as it is found; return what has ended it early."""
    ended = None
    for each in printers:
        each.start()
    try:
        for finding in verified:
            if finding.code == UNREAD:
                tally.cannot_read(finding.path)
                Screen.current.complaints.add(finding.text)  # which a printer says
            bar.hide()
            for each in printers:
                each.finding(finding)
    except KeyboardInterrupt as interrupt:
        ended = interrupt
        verified.close()
    if uncompared := verified.totals.uncompared:
        partitions = number_words(uncompared, "partition")
        note(f"the copies of {partitions} were not compared for want of time: kdump replicas compares them")
    bar.hide()
    return ended


def _on(cluster: Cluster | None) -> Callable[[Options], SparkVerification] | None:
    if cluster is None:
        return None
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
            continue
        except HoldsLogDirectoriesError as error:
            complain(about(error.path, holds_text(error)))
        except KdumpError as error:
            complain(safe(str(error)))
        except OSError as error:
            complain(about(path, error.strerror or str(error)))
        unread += 1
    return chosen, unread


def _exit_code(totals: Totals, fail_on: FailOn) -> int:
    if totals.unread:
        return exit_codes.INCOMPLETE
    if fail_on is FailOn.NEVER:
        return exit_codes.OK
    found = totals.counts[ERROR] + (totals.counts[WARNING] if fail_on is FailOn.WARNING else 0)
    return exit_codes.FINDINGS if found else exit_codes.OK
