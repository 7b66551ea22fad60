"""`kdump lookup`: where an offset or a time is in a log, found as a broker finds it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import IO, Any

import click

from kdump.errors import CheckpointError, KdumpError
from kdump.formats import names
from kdump.formats.printable import safe, safe_path
from kdump.query.lookup import EARLIEST, LATEST, MAX_TIMESTAMP, LogLookup
from kdump.releases import KafkaRelease
from kdump.storage.checkpoints import read_offsets
from kdump.storage.directory import LogDirectory
from kdump.storage.live import held, opened, tally, was_deleted
from kdump.storage.partition import PartitionLog
from kdump.topics.clusters import ClusterMetadata, Clusters
from kdump.transactions.isolation import Isolation
from kdump.transactions.states import TransactionStates

from ..shell import exit_codes
from ..shell.choice import chooses, has_partition, nothing_chosen, topics_at
from ..shell.isolation import isolation_option
from ..shell.options import kafka_option, topic_option
from ..shell.output import Output, complain, os_error_text
from ..shell.paths import directories
from ..shell.progress import PathCounter
from ..shell.rows import bare_rows, format_options, json_line, output_for
from ..shell.values import time_ms
from .text import Answer, aborted_answer, missing_words, offset_answer, offset_words, timestamp_answer, timestamp_words

SPECIAL_TIMES = {"earliest": EARLIEST, "latest": LATEST, "max": MAX_TIMESTAMP}
_MOST_OF_A_LINE = 80


@dataclass(frozen=True, slots=True)
class Options:
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
    format: str

    def check(self) -> None:
        """Refuse a command line that asks for nothing, or for two things."""
        asked = [name for name in ("offset", "timestamp", "batch") if getattr(self, name) is not None]
        if len(asked) != 1:
            found = " and ".join(f"--{name}" for name in asked) or "none of them"
            raise click.UsageError(f"Give one of --offset, --timestamp and --batch (found {found}).")

    def wants(self, log: PartitionLog) -> bool:
        """Whether a partition is one of those asked for."""
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


@click.command("lookup")
@click.argument("path")
@click.option("--offset", type=int, metavar="N", help="Find the batch that a fetch from this offset starts with.")
@click.option(
    "--timestamp",
    callback=lambda _ctx, _param, text: _time(text),
    metavar="TIME",
    help="Find the first record at or after this time: ISO 8601, ms, or earliest, latest, max.",
)
@click.option(
    "--batch",
    type=click.File(encoding="utf-8", errors="replace"),
    metavar="FILE",
    help="Answer the requests in FILE (-: stdin).",
)
@topic_option
@click.option(
    "--log-start-offset",
    type=click.IntRange(min=0),
    metavar="N",
    help="Use this log start offset instead of the checkpoint's.",
)
@isolation_option
@kafka_option
@click.option("--explain", is_flag=True, help="Show every step of the search (on stderr with --format jsonl).")
@format_options(name="format")
@click.pass_context
def command(ctx: click.Context, /, **given: Any) -> None:
    """Find an offset or a time as a broker would.

    PATH is a partition directory, or a log directory: then every partition of it is looked at, one line each, which
    for a time is what resetting a consumer group to it would give.

    The broker's own algorithms are used: the floor segment, the search of the index that starts in its last 8 KiB,
    the scan from there. A time is looked for in the first segment whose largest timestamp reaches it (by the time
    index, or the file's time where that is empty), in that segment only.

    --batch reads one request a line, {"offset": N}, {"timestamp": T} or {"aborted": [FROM, TO]}, and answers each
    with one line of JSON; T may be -1 (latest), -2 (earliest), -3 (max), -4 and -5 (local and tiered storage).

    Exits with 1 when what was looked for does not exist (in a log directory: in one of the partitions), with 3 when
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


class _Run:
    """One run of the command; `code` is the exit code so far."""

    def __init__(self, options: Options, out: Output) -> None:
        self.code = exit_codes.OK
        self._options = options
        self._out = out
        self._checkpoints: dict[tuple[str, str], dict[tuple[str, int], int]] = {}
        self._clusters = Clusters([options.path])

    def all(self) -> None:
        """Look up in every partition asked for. Raises OSError and KdumpError where there is none."""
        place, *others = directories([self._options.path])
        if others:
            raise click.UsageError(f"expected one PATH: {safe_path(self._options.path)} matches {len(others) + 1}")
        several = isinstance(place, LogDirectory)
        logs = list(self._logs(place))
        if not logs and self.code == exit_codes.OK:
            options = self._options
            why = nothing_chosen(options.topics, topics_at([options.path]))
            raise KdumpError(f"{safe_path(options.path)}: {why}")
        if self._options.batch is not None and len(logs) > 1:
            raise click.UsageError("--batch asks one partition: choose it with --topic and --partition, or as PATH.")
        for log in PathCounter().over(logs):
            try:
                with held(log.path) as now:
                    if now is not None:
                        self._look(now, several)
            except (OSError, KdumpError) as error:
                self._failed(error, log.path)

    def _logs(self, place: PartitionLog | LogDirectory) -> Iterator[PartitionLog]:
        """The partitions asked for; those of a log directory that a broker would not serve are left out."""
        if isinstance(place, PartitionLog):
            if self._options.wants(place):
                yield place
            return
        for name in place.partition_names:
            path = os.path.join(place.path, name)
            try:
                log = opened(path)
            except OSError as error:
                self._failed(error, path)
                continue
            if log and log.name and not log.name.state and self._options.wants(log):
                yield log

    def _look(self, log: PartitionLog, several: bool) -> None:
        options = self._options
        label = f"{safe_path(os.path.basename(log.path))}: " if several else ""
        stable = None
        if options.isolation is Isolation.READ_COMMITTED:
            stable = TransactionStates(log).last_stable_offset()
        with LogLookup(
            log,
            self._log_start(log),
            clean=log.closed_cleanly,
            last_stable_offset=stable,
            release=partial(self._release, log),
            is_tiered=partial(self._is_tiered, log),
            **self._trace(label),
        ) as lookup:
            if options.batch is not None:
                self._answer_requests(options.batch, lookup)
                return
            answer, words = self._by_offset(lookup) if options.offset is not None else self._by_time(lookup)
        if options.format == "jsonl":
            self._out.write(json_line("answer", (_names(log) if several else {}) | answer))
        else:
            said = words.removeprefix(f"offset {options.offset}: batch ") if several else words
            self._out.write(f"{label}{'batch ' if said != words else ''}{said}\n")

    def _by_offset(self, lookup: LogLookup) -> tuple[Answer, str]:
        offset = self._options.offset or 0
        position = lookup.find_from(offset)
        answer = offset_answer(position) | _starts(lookup)
        end = lookup.log_end_offset()
        stable = lookup.readable_end()
        words = offset_words(offset, position, lookup)
        if stable < end and stable <= offset < end:
            words = f"offset {offset} is not below the last stable offset {stable}: read_committed consumers wait"
        if not position.found:
            answer["logEndOffset"] = end
            if offset > end:
                words += missing_words(end, self._checkpoint(names.REPLICATION_CHECKPOINT, lookup.log), lookup.log.path)
        if not (position.found and position.is_valid):
            self._worsen(exit_codes.FINDINGS)
        return answer, words

    def _by_time(self, lookup: LogLookup) -> tuple[Answer, str]:
        timestamp = self._options.timestamp or 0
        found = lookup.find_timestamp(timestamp)
        answer = timestamp_answer(found)
        if found is None:
            answer["logEndOffset"] = lookup.log_end_offset()
            self._worsen(exit_codes.FINDINGS)
        words = timestamp_words(timestamp, found, lookup)
        if timestamp == LATEST and self._options.isolation is Isolation.READ_COMMITTED:
            words = words.replace("log end offset", "last stable offset")
        return answer, words

    def _answer_requests(self, requests: IO[str], lookup: LogLookup) -> None:
        for number, line in enumerate(requests, 1):
            if not line.strip():
                continue
            request = _parse(line, f"{safe_path(requests.name)}, line {number}")
            try:
                answer = request(lookup)
            except (OSError, KdumpError) as error:
                answer = {"error": str(error)}
                self._worsen(exit_codes.INCOMPLETE)
            self._out.write(json.dumps(answer) + "\n")

    def _release(self, log: PartitionLog) -> KafkaRelease:
        """The release whose searches these are: the one asked for, else the one that wrote the log directory."""
        return self._options.kafka or self._cluster(log).kafka

    def _is_tiered(self, log: PartitionLog) -> bool:
        return log.name is not None and self._cluster(log).settings().of(log.name.topic).is_tiered

    def _cluster(self, log: PartitionLog) -> ClusterMetadata:
        """What the cluster's metadata tells, where that is at hand."""
        return self._clusters.of(LogDirectory(os.path.dirname(os.path.abspath(log.path))))

    def _log_start(self, log: PartitionLog) -> int:
        """The log start offset given, or that of the checkpoint beside the partition."""
        if self._options.log_start_offset is not None:
            return self._options.log_start_offset
        return self._checkpoint(names.LOG_START_CHECKPOINT, log) or 0

    def _checkpoint(self, name: str, log: PartitionLog) -> int | None:
        """A partition's line in a checkpoint beside it; each checkpoint is read once."""
        if log.name is None:
            return None
        parent = os.path.dirname(os.path.abspath(log.path))
        if (parent, name) not in self._checkpoints:
            try:
                self._checkpoints[parent, name] = read_offsets(os.path.join(parent, name))
            except CheckpointError as error:
                complain(f"{safe(str(error))}: treated as empty, as a broker does")
                self._checkpoints[parent, name] = {}
        return self._checkpoints[parent, name].get((log.name.topic, log.name.partition))

    def _trace(self, label: str) -> dict[str, Callable[[str], object]]:
        """The argument by which a lookup tells its steps, if they are wanted."""
        if not self._options.explain:
            return {}
        if self._options.format == "text" and self._options.batch is None:
            return {"trace": lambda step: self._out.write(f"  {label}{safe(step)}\n")}
        return {"trace": lambda step: click.echo(f"  {label}{safe(step)}", err=True)}

    def _failed(self, error: Exception, path: str) -> None:
        if isinstance(error, BrokenPipeError):
            raise error
        if was_deleted(path, error):
            return
        self._out.flush()
        if isinstance(error, OSError):
            tally.cannot_read(path)
            complain(os_error_text(error, path))
        else:
            complain(safe(str(error)))
        self._worsen(exit_codes.INCOMPLETE)

    def _worsen(self, code: int) -> None:
        self.code = max(self.code, code)


def _starts(lookup: LogLookup) -> Answer:
    remote = lookup.remote_start_offset
    return {"logStartOffset": lookup.log_start_offset} | ({} if remote is None else {"remoteLogStartOffset": remote})


def _names(log: PartitionLog) -> Answer:
    return {"topic": log.name.topic, "partition": log.name.partition} if log.name else {"path": log.path}


def _parse(line: str, where: str) -> Callable[[LogLookup], Answer]:
    """What answers a request. Raises click.UsageError."""
    try:
        request = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"{where}: not JSON ({safe(str(error))})") from None
    match request:
        case {"offset": int(offset)}:
            return lambda lookup: offset_answer(lookup.find_offset(offset))
        case {"timestamp": int(timestamp)}:
            return lambda lookup: timestamp_answer(lookup.find_timestamp(timestamp))
        case {"aborted": [int(start), int(end)]}:
            return lambda lookup: {"aborted": [aborted_answer(txn) for txn in lookup.aborted_transactions(start, end)]}
    raise click.UsageError(
        f'{where}: expected {{"offset": N}}, {{"timestamp": T}} or {{"aborted": [FROM, TO]}}, found'
        f" {safe(line.strip()[:_MOST_OF_A_LINE])}"
    )
