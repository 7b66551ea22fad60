"""`kdump lookup`: where an offset or a time is in a log, found as a broker finds it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import IO, Any, NamedTuple

import click

from kdump.errors import KdumpError, Problem
from kdump.formats.printable import safe, safe_path
from kdump.operations.choice import chooses
from kdump.operations.lookup import (
    AbortedRequest,
    Answer,
    Located,
    LookupOptions,
    Lookups,
    OffsetRequest,
    Request,
    TimestampRequest,
)
from kdump.operations.results import Failed
from kdump.query.lookup import EARLIEST, LATEST, MAX_TIMESTAMP
from kdump.query.open_segment import Trace, no_trace
from kdump.releases import KafkaRelease
from kdump.storage.directory import LogDirectory
from kdump.storage.partition import PartitionLog
from kdump.storage.replica import served_logs
from kdump.topics.clusters import Clusters
from kdump.txns.isolation_level import Isolation

from ..shell import exit_codes
from ..shell.choice import has_partition, nothing_chosen, topics_at
from ..shell.line_budget import LineBudget, unlisted
from ..shell.options import kafka_option, topic_option
from ..shell.output import Output, complain, say_line
from ..shell.paths import directories
from ..shell.progress import PathCounter
from ..shell.reading_options import isolation_option
from ..shell.rows import OutputFormat, bare_rows, format_options, json_line, output_for
from ..shell.session import Complaints
from ..shell.values import time_ms
from .text import offset_words, timestamp_words

SPECIAL_TIMES = {"earliest": EARLIEST, "latest": LATEST, "max": MAX_TIMESTAMP}
_MAX_SHOWN = 80


class Options(NamedTuple):
    """What to look for, and how to tell."""

    path: str
    offset: int | None
    timestamp: int | None
    batch: IO[str] | None
    topics: tuple[str, ...]
    log_start_offset: int | None
    isolation: Isolation
    kafka: KafkaRelease | None
    explain: bool
    format: OutputFormat

    def check(self) -> None:
        """Refuse a command line that asks for nothing, or for two things."""
        asked = [name for name in ("offset", "timestamp", "batch") if getattr(self, name) is not None]
        if len(asked) != 1:
            found = " and ".join(f"--{name}" for name in asked) or "none of them"
            raise click.UsageError(f"Give one of --offset, --timestamp and --batch (found {found}).")

    @property
    def request(self) -> OffsetRequest | TimestampRequest:
        """What to look for without --batch."""
        return TimestampRequest(self.timestamp or 0) if self.offset is None else OffsetRequest(self.offset)

    def wants(self, log: PartitionLog) -> bool:
        """Return whether a partition is one of those asked for."""
        if log.name is None:
            return not self.topics and has_partition(None)
        return chooses(self.topics)(log.name.topic) and has_partition(log.name.partition)


def _time(text: str | None) -> int | None:
    if text is None or text in SPECIAL_TIMES:
        return SPECIAL_TIMES[text] if text else None
    try:
        return time_ms(text)
    except ValueError as error:
        raise click.BadParameter(f"{error}; or earliest, latest, max") from None


class _Offset(click.types.IntParamType):
    """An offset; the special times that have one are the other option's."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number. Raises click.BadParameter."""
        if value in SPECIAL_TIMES:
            self.fail(f"for the {value} offset, give --timestamp {value}", param, ctx)
        return super().convert(value, param, ctx)


@click.command("lookup")
@click.argument("path")
@click.option("--offset", type=_Offset(), metavar="N", help="Find the batch that a fetch from this offset starts with.")
@click.option("--timestamp", callback=lambda _ctx, _param, text: _time(text), metavar="TIME",
    help="Find the first record at or after this time: ISO 8601, ms, or earliest, latest, max.")
@click.option("--batch", type=click.File(encoding="utf-8", errors="replace"), metavar="FILE",
    help="Answer the requests in FILE (-: stdin).")
@topic_option
@click.option("--log-start-offset", type=click.IntRange(min=0), metavar="N",
    help="Use this log start offset instead of the checkpoint's.")
@isolation_option
@kafka_option
@click.option("--explain", is_flag=True, help="Show every step of the search (on stderr with --format jsonl).")
@format_options(name="format")
@click.pass_context
def command(ctx: click.Context, /, **given: Any) -> None:
    """Find an offset or a time as a broker would.

    PATH is a partition directory, or a log directory: then kdump looks in every partition and prints a line for each.
    For a time these are the offsets that resetting a consumer group to it would give.

    kdump searches as the broker does: the floor segment, the search of the index that starts in its last 8 KiB, the
    scan from there. It looks for a time in one segment only: the first whose largest timestamp reaches it (by the time
    index, or the file's time if that is empty).

    --batch reads one request a line, {"offset": N}, {"timestamp": T} or {"aborted": [FROM, TO]}, and answers each
    with one line of JSON; T may be -1 (latest), -2 (earliest), -3 (max), -4 and -5 (local and tiered storage).

    Exits with 1 when the offset or time does not exist (in a log directory: in one of the partitions), with 3 when
    something could not be read.

    \b
    Examples:
      kdump lookup /data/orders-3 --offset 123456 --explain
      kdump lookup /data/orders-3 --timestamp 2026-01-31T12:00:00Z
      kdump lookup /data --topic orders --timestamp latest
      echo '{"aborted": [100, 200]}' | kdump lookup /data/orders-3 --batch -
    """
    options = Options(**given)
    options.check()
    with bare_rows() if options.batch is not None else output_for(options.format) as out:
        run = _Run(options, out)
        run.all()
    ctx.exit(run.code)


class _Run(Complaints):
    """One run of the command."""

    def __init__(self, options: Options, out: Output) -> None:
        super().__init__(out.flush)
        self._options = options
        self._out = out
        asked = LookupOptions(options.isolation, options.log_start_offset, options.kafka)
        self._lines = LineBudget()
        self._has_several = False
        self._lookups = Lookups(Clusters([options.path]), asked, _show_checkpoint)

    def all(self) -> None:
        """Look up in every partition asked for. Raises OSError and KdumpError where there is none."""
        place, *others = directories([self._options.path])
        if others:
            raise click.UsageError(f"expected one PATH: {safe_path(self._options.path)} matches {len(others) + 1}")
        self._has_several = isinstance(place, LogDirectory)
        logs = [log for log in served_logs(place, self.report) if self._options.wants(log)]
        if not logs and self.code == exit_codes.OK:
            options = self._options
            why = nothing_chosen(options.topics, topics_at([options.path]))
            raise KdumpError(f"{safe_path(options.path)}: {why}")
        if self._options.batch is not None and len(logs) > 1:
            raise click.UsageError("--batch asks one partition: choose it with --topic and --partition, or as PATH.")
        if self._options.batch is not None:
            requests = _requests(self._options.batch)
            for answer in self._lookups.answers(logs[0], requests, self._trace) if logs else ():
                self._show_answer(answer)
            return
        more = 0
        for located in self._lookups.located(PathCounter().over(logs), self._options.request, self._trace):
            more += not self._show(located)
        if more:
            self._out.write(f"{unlisted(more)}\n")

    def _show(self, located: Located | Failed) -> bool:
        """Tell what was found in a partition; False where it is one more than a screen takes."""
        if isinstance(located, Failed):
            self._failed(located.error, located.path)
            return True
        options = self._options
        if not located.exists:
            self.worsen(exit_codes.FINDINGS)
        if options.format is OutputFormat.JSONL:
            from .jsonl import located_answer

            self._out.write(json_line("answer", located_answer(located)))
            return True
        label = self._label(located.path)
        if options.offset is None:
            is_committed = options.isolation is Isolation.READ_COMMITTED
            words = timestamp_words(options.timestamp or 0, located, is_committed=is_committed)
        else:
            words = offset_words(options.offset, located, label)
        is_listed = self._lines.takes(1 + words.count("\n"))
        if is_listed:
            self._out.write(f"{label}{words}\n")
        return is_listed

    def _show_answer(self, answer: Answer | Failed) -> None:
        import json

        from .jsonl import answer_fields

        if isinstance(answer, Failed):
            self._failed(answer.error, answer.path)
            return
        if answer.error is not None:
            self.worsen(exit_codes.INCOMPLETE)
        self._out.write(json.dumps(answer_fields(answer)) + "\n")

    def _label(self, path: str) -> str:
        return f"{safe_path(os.path.basename(path))}: " if self._has_several else ""

    def _trace(self, log: PartitionLog) -> Trace:
        """Return what tells the steps of a lookup, if they are wanted."""
        if not self._options.explain:
            return no_trace
        label = self._label(log.path)
        if self._options.format is OutputFormat.TEXT and self._options.batch is None:
            return lambda step: self._out.write(f"  {label}{safe(step)}\n")
        return lambda step: say_line(f"  {label}{safe(step)}")

    def _failed(self, error: Exception, path: str) -> None:
        if isinstance(error, BrokenPipeError):
            raise error
        if isinstance(error, OSError):
            self.report(Problem.unreadable(path, error))
        else:
            self.complain(safe(str(error)))

def _show_checkpoint(problem: Problem) -> None:
    complain(f"{safe(problem.text)}: treated as empty, as a broker does")


def _requests(lines: IO[str]) -> Iterator[Request]:
    """Yield the requests of a file, one a line. Raises click.UsageError."""
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield _parse(line, f"{safe_path(lines.name)}, line {number}")


def _parse(line: str, where: str) -> Request:
    """Return a request. Raises click.UsageError."""
    import json

    try:
        request = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"{where}: not JSON ({safe(str(error))})") from None
    match request:
        case {"offset": int(offset)}:
            return OffsetRequest(offset)
        case {"timestamp": int(timestamp)}:
            return TimestampRequest(timestamp)
        case {"aborted": [int(start), int(end)]}:
            return AbortedRequest(start, end)
    raise click.UsageError(
        f'{where}: expected {{"offset": N}}, {{"timestamp": T}} or {{"aborted": [FROM, TO]}}, found'
        f" {safe(line.strip()[:_MAX_SHOWN])}"
    )
