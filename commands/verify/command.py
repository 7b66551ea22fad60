"""`kdump verify`: whether log directories are sound, and for each thing wrong where it is and what a broker does."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import click

from kdump.errors import KdumpError
from kdump.findings.catalogue import ERROR, SEVERITIES, WARNING
from kdump.findings.limit import MOST_ALIKE
from kdump.verify.options import Options
from kdump.verify.resume import Mark, read_mark, remove_mark, write_mark
from kdump.verify.run import Verification
from kdump.verify.tasks import look
from kdump.verify.timestamps import RETENTION_MS

from ..shell import exit_codes
from ..shell.engine import cluster_of, engine_options
from ..shell.output import Output, complain, escape_json, safe, safe_path, wants_color
from ..shell.paths import matches
from ..shell.progress import ProgressBar
from .text import JsonLinesReport, JsonReport, Report, Summary, TextReport

if TYPE_CHECKING:
    from kdump.spark.jobs import Cluster
    from kdump.spark.verification import SparkVerification

UNREAD = "KD-READ"
_SECONDS = {"s": 1, "m": 60, "h": 3600}


class Duration(click.ParamType[float]):
    """A length of time: 90, 90s, 15m or 2h; in seconds."""

    name = "TIME"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The seconds."""
        text = str(value)
        unit = _SECONDS.get(text[-1:], 0)
        number = text[:-1] if unit else text
        if not number.isascii() or not number.isdigit() or len(number) > 9:
            self.fail(f"{text!r} is no length of time: expected 90, 90s, 15m or 2h", param, ctx)
        return float(int(number) * (unit or 1))


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line asks for beyond the checks themselves."""

    format: str
    strict: bool
    verbose: bool
    color: str
    max_duration: float | None
    resume: str | None


def severity_of(text: str) -> tuple[str, str]:
    """A `CODE=level` as (code pattern, severity). Raises click.BadParameter."""
    pattern, equals, severity = text.partition("=")
    if not equals or severity not in SEVERITIES:
        raise click.BadParameter(f"expected CODE=level, level one of {', '.join(SEVERITIES)}; found {text!r}")
    return pattern, severity


def patterns_of(texts: Iterable[str]) -> tuple[str, ...]:
    """Code patterns, given one by one or with commas between them."""
    return tuple(part for text in texts for part in text.split(",") if part)


@click.command("verify")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--deep", is_flag=True, help="Decompress and decode every record too.")
@click.option(
    "--jobs", type=click.IntRange(1), metavar="N", help="Threads that read, of partitions and of one large segment."
    " [default: one a core]",
)
@click.option("--select", "select", multiple=True, metavar="CODE", help="Report only these codes (KD-LOG-* will do).")
@click.option("--ignore", "ignore", multiple=True, metavar="CODE", help="Do not report these codes.")
@click.option(
    "--severity", "severities", multiple=True, metavar="CODE=LEVEL",
    help="Take findings of a code for error, warning or info.",
)
@click.option(
    "--most-alike", type=click.IntRange(0), default=MOST_ALIKE, show_default=True, metavar="N",
    help="Give up to N findings of one code in one file one by one, then how many more there are; 0: all.",
)
@click.option("--strict", is_flag=True, help="Exit with 1 for warnings too.")
@click.option(
    "--since-checkpoint", is_flag=True,
    help="Only the segments that reach past the recovery point, as a broker does after an unclean shutdown.",
)
@click.option("--max-duration", type=Duration(), help="Begin no further segment after this time (90s, 15m, 2h).")
@click.option(
    "--resume", type=click.Path(dir_okay=False), metavar="FILE",
    help="Go on where the run before ended; FILE keeps the place when --max-duration ends this one.",
)
@click.option("--no-cache-pollution", is_flag=True, help="Give the pages read back to the system (posix_fadvise).")
@click.option("--now", type=int, metavar="MS", help="The clock for checks of timestamps. [default: this machine's]")
@click.option(
    "--retention-ms", type=int, default=RETENTION_MS, show_default=True, metavar="MS",
    help="Reckon with this retention.ms.",
)
@click.option(
    "--format", "format_", type=click.Choice(("text", "json", "jsonl", "junit", "sarif")), default="text",
    show_default=True, help="Text for people, one JSON document, one object a line, JUnit's XML, or SARIF 2.1.",
)
@click.option("-v", "--verbose", is_flag=True, help="Show findings of severity info in text too.")
@click.option("--color", type=click.Choice(("auto", "always", "never")), default="auto", show_default=True,
    help="Colour in text; auto: on a terminal, unless NO_COLOR is set.")
@engine_options
def command(
    paths: tuple[str, ...],
    deep: bool,
    jobs: int | None,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    severities: tuple[str, ...],
    most_alike: int,
    strict: bool,
    since_checkpoint: bool,
    max_duration: float | None,
    resume: str | None,
    no_cache_pollution: bool,
    now: int | None,
    retention_ms: int,
    format_: str,
    verbose: bool,
    color: str,
    engine: str,
    master: str,
    conf: dict[str, str],
) -> int:
    """Verify log directories: every file over its whole length, not only its end.

    PATHs are log directories, partition directories and files of segments, in any mix; a quoted pattern will do.
    Frames, CRCs, offsets, leader epochs, producers, transactions, timestamps, index files, snapshots and checkpoints
    are held against each other. Without --deep nothing is decompressed.

    Every finding has a stable code, a severity, a place, and says what a broker does about it and which repair fits.

    Exit codes: 0 no errors, 1 errors found (with --strict warnings too), 3 something could not be read; the rest is
    checked nevertheless.

    \b
    Examples:
      kdump verify /var/lib/kafka/data
      kdump verify --deep /var/lib/kafka/data/orders-0
      kdump verify --format jsonl /disk1/kafka /disk2/kafka | jq 'select(.severity == "error")'
      kdump verify --max-duration 2h --resume /var/tmp/scrub --no-cache-pollution /var/lib/kafka/data
      kdump verify /shared/kafka --engine spark --master spark://head:7077
    """
    options = Options(
        deep=deep,
        jobs=jobs or 0,
        now=now,
        retention_ms=retention_ms,
        since_checkpoint=since_checkpoint,
        drops_pages=no_cache_pollution,
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
    if cluster is not None and (max_duration is not None or resume is not None):
        raise click.UsageError("--max-duration and --resume are for the local engine.")
    return run(paths, options, Asked(format_, strict, verbose, color, max_duration, resume), cluster)


def run(paths: Sequence[str], options: Options, asked: Asked, cluster: Cluster | None = None) -> int:
    """Verify, print, and return the exit code. Raises click.ClickException, OSError and KdumpError."""
    summary = Summary()
    chosen = _existing(paths, summary)
    if asked.max_duration is not None:
        options = replace(options, deadline=time.monotonic() + asked.max_duration)
    absolute = [os.path.abspath(path) for path in chosen]
    before = read_mark(asked.resume, absolute) if asked.resume else None
    if before is not None and chosen != absolute:
        before = before._replace(partition=_as_given(before.partition, chosen, absolute))
    escape = escape_json if asked.format in ("json", "jsonl", "sarif") else None
    with ProgressBar(chosen) as bar, Output(escape) as out:
        showing = Showing(out, bar)
        verification = _verification(replace(options, progress=showing.progress), before, cluster)
        report = _report(out, asked)
        verification.on_partition = report.partition
        report.start()
        for finding in verification.run(chosen) if chosen else ():
            summary.add(finding, is_unread=finding.code == UNREAD)
            bar.hide()
            report.finding(finding)
        summary.finish(verification)
        bar.hide()
        report.finish(summary)
    if asked.resume:
        _keep(asked.resume, absolute, verification.mark)
    return _exit_code(summary, asked)


def _verification(options: Options, before: Mark | None, cluster: Cluster | None) -> Verification | SparkVerification:
    if cluster is None:
        return Verification(options, before)
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


def _keep(path: str, absolute: list[str], mark: Mark | None) -> None:
    if mark is None:
        remove_mark(path)
    else:
        write_mark(path, absolute, mark._replace(partition=os.path.abspath(mark.partition)))


def _exit_code(summary: Summary, asked: Asked) -> int:
    if summary.unread:
        return exit_codes.INCOMPLETE
    found = summary.counts[ERROR] + (summary.counts[WARNING] if asked.strict else 0)
    return exit_codes.FINDINGS if found else exit_codes.OK


def _report(out: Output, asked: Asked) -> Report:
    if asked.format == "text":
        return TextReport(out, verbose=asked.verbose, color=wants_color(asked.color))
    if asked.format == "jsonl":
        return JsonLinesReport(out)
    if asked.format == "json":
        return JsonReport(out)
    if asked.format == "junit":
        from .junit import JUnitReport

        return JUnitReport(out, strict=asked.strict)
    from .sarif import SarifReport

    return SarifReport(out)
