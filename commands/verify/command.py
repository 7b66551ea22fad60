"""`kdump verify`: whether log directories are sound, and for each thing wrong where it is and what a broker does."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click

from kdump.disk.pace import lower_priority
from kdump.findings.kind import SEVERITIES
from kdump.findings.limit import MAX_PER_CODE
from kdump.operations.verify import VerifyRequest, consideration
from kdump.verify.options import Options

from ..shell.completing import finding_codes
from ..shell.engine import cluster_of, engine_options
from ..shell.options import color_option, max_duration_option, now_if_given_option, threads_option, verbose_option
from ..shell.output import note
from ..shell.paths import check_target
from ..shell.rows import format_options
from ..shell.values import read_by, size
from .reports import report_to
from .run import VerifyArgs, run

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


@click.command("verify")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--deep", is_flag=True, help="Decompress and decode every record too.")
@threads_option
@click.option(
    "--select",
    "select",
    multiple=True,
    metavar="CODE",
    shell_complete=finding_codes,
    help="Report only these codes (or patterns: KD-LOG-*).",
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
    "max_per_code",
    type=click.IntRange(0),
    default=MAX_PER_CODE,
    show_default=True,
    metavar="N",
    help="List up to N findings of one code in one file, then count the rest; 0: list all.",
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
@max_duration_option()
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
    help="Give the pages read back to the system (posix_fadvise). By default while a broker runs.",
)
@click.option(
    "--priority",
    type=click.Choice(tuple(_PRIORITIES)),
    default="auto",
    show_default=True,
    help="low: after others for processor and disk (nice, I/O class idle); auto: low while a broker runs.",
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
    jobs: int | None,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    severities: tuple[str, ...],
    fail_on: str,
    max_duration: float | None,
    resume: str | None,
    state_file: str | None,
    drop_cache: bool | None,
    priority: str,
    format_: str,
    reports: tuple[tuple[str, str], ...],
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
    how = consideration(paths, drops_pages=drop_cache, has_low_priority=_PRIORITIES[priority])
    options = Options(
        jobs=jobs or 0,
        drops_pages=how.drops_pages,
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
    if how.has_low_priority:
        gained = lower_priority()
        if verbose:
            note(f"low priority: {', '.join(gained) or 'cannot be had here'}")
    if verbose and options.drops_pages:
        note("pages that were read are given back to the system (--keep-cache keeps them)")
    asked = VerifyArgs(format_, fail_on, verbose, color, VerifyRequest(max_duration, resume, state_file), reports)
    return run(paths, options, asked, cluster)
