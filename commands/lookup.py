"""`kdump lookup`: where an offset or a time is in a log, found as a broker finds it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, Any

import click

from kdump.errors import KdumpError
from kdump.formats import names
from kdump.lookup import EARLIEST, LATEST, MAX_TIMESTAMP, LogLookup, OffsetPosition, TimestampOffset
from kdump.storage.log_directory import LogDirectory
from kdump.storage.open import open_directory
from kdump.storage.partition_log import PartitionLog

from . import exit_codes
from .filters import time_ms
from .output import iso_time

SPECIAL_TIMES = {"earliest": EARLIEST, "latest": LATEST, "max": MAX_TIMESTAMP}

Answer = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Options:
    """What to look for, and how to tell."""

    path: str
    offset: int | None
    timestamp: int | None
    batch: IO[str] | None
    topic: str | None
    partition: int | None
    log_start_offset: int | None
    explain: bool
    format: str

    def check(self) -> None:
        """Refuse a command line that asks for nothing, or for two things."""
        asked = [name for name in ("offset", "timestamp", "batch") if getattr(self, name) is not None]
        if len(asked) != 1:
            found = " and ".join(f"--{name}" for name in asked) or "none of them"
            raise click.UsageError(f"Give one of --offset, --timestamp and --batch (found {found}).")


def _time(text: str | None) -> int | None:
    if text is None or text in SPECIAL_TIMES:
        return SPECIAL_TIMES[text] if text else None
    try:
        return time_ms(text)
    except ValueError as error:
        raise click.BadParameter(f"{error}; or earliest, latest, max") from None


@click.command("lookup")
@click.argument("path", type=click.Path())
@click.option("--offset", type=int, metavar="N", help="Find the batch that a fetch from this offset starts with.")
@click.option(
    "--timestamp",
    callback=lambda _ctx, _param, text: _time(text),
    metavar="TIME",
    help="Find the first record at or after this time: ISO 8601, ms, or earliest, latest, max.",
)
@click.option(
    "--batch", type=click.File(encoding="utf-8"), metavar="FILE", help="Answer the requests in FILE (-: stdin)."
)
@click.option("--topic", metavar="NAME", help="In a log directory: this topic only.")
@click.option("--partition", type=int, metavar="N", help="In a log directory: this partition only.")
@click.option(
    "--log-start-offset", type=int, metavar="N", help="Use this log start offset instead of the checkpoint's."
)
@click.option("--explain", is_flag=True, help="Show every step of the search (on stderr with --format jsonl).")
@click.option("--format", type=click.Choice(["text", "jsonl"]), default="text", show_default=True)
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

    Exits with 1 when what was looked for is not there.

    \b
    Examples:
      kdump lookup /data/orders-3 --offset 123456 --explain
      kdump lookup /data/orders-3 --timestamp 2026-01-31T12:00:00Z
      kdump lookup /data --topic orders --timestamp latest
      echo '{"aborted": [100, 200]}' | kdump lookup /data/orders-3 --batch -
    """
    options = Options(**given)
    options.check()
    ctx.exit(run(options, sys.stdout))


def run(options: Options, out: IO[str]) -> int:
    """Look up and print; the exit code."""
    found = True
    several = isinstance(open_directory(options.path), LogDirectory)
    for log, start in _logs(options):
        trace = _tracer(options, out)
        with LogLookup(log, start, clean=log.closed_cleanly, trace=trace) as lookup:
            if options.batch is not None:
                _answer_requests(options.batch, lookup, out)
                continue
            answer = _answer(lookup, options)
            found = found and _is_found(answer)
            if options.format == "jsonl":
                named = _names(log) if several else {}
                out.write(json.dumps(named | answer) + "\n")
            else:
                out.write((f"{os.path.basename(log.path)}: " if several else "") + _words(options, answer) + "\n")
    return exit_codes.OK if found else exit_codes.FINDINGS


def _tracer(options: Options, out: IO[str]) -> Callable[[str], object]:
    if not options.explain:
        return lambda _: None
    stream = out if options.format == "text" and options.batch is None else sys.stderr
    return lambda step: stream.write(f"  {step}\n")


def _logs(options: Options) -> Iterator[tuple[PartitionLog, int]]:
    """The partitions to look at, each with the log start offset of its checkpoint."""
    place = open_directory(options.path)
    if isinstance(place, PartitionLog):
        yield place, _log_start(place, options)
        return
    chosen = 0
    for log in place.partitions():
        if log.name is None or log.name.state:
            continue
        if options.topic in (None, log.name.topic) and options.partition in (None, log.name.partition):
            chosen += 1
            yield log, _log_start(log, options)
    if not chosen:
        wanted = f"{options.topic or '*'}-{'*' if options.partition is None else options.partition}"
        raise KdumpError(f"{options.path}: no partition {wanted} here")


def _log_start(log: PartitionLog, options: Options) -> int:
    if options.log_start_offset is not None:
        return options.log_start_offset
    if log.name is None:
        return 0
    parent = LogDirectory(os.path.dirname(os.path.abspath(log.path)))
    return parent.checkpoint(names.LOG_START_CHECKPOINT).get((log.name.topic, log.name.partition), 0)


def _names(log: PartitionLog) -> Answer:
    return {"topic": log.name.topic, "partition": log.name.partition} if log.name else {"path": log.path}


def _answer(lookup: LogLookup, options: Options) -> Answer:
    if options.offset is not None:
        return offset_answer(lookup.find_from(options.offset))
    return timestamp_answer(lookup.find_timestamp(options.timestamp or 0))


def _is_found(answer: Answer) -> bool:
    return bool(answer.get("found") or answer.get("result"))


def _answer_requests(requests: IO[str], lookup: LogLookup, out: IO[str]) -> None:
    for number, line in enumerate(requests, 1):
        if line.strip():
            out.write(json.dumps(_answer_request(line, lookup, f"{requests.name}, line {number}")) + "\n")


def _answer_request(line: str, lookup: LogLookup, where: str) -> Answer:
    try:
        request = json.loads(line)
    except json.JSONDecodeError as error:
        raise click.UsageError(f"{where}: not JSON ({error})") from None
    match request:
        case {"offset": int(offset)}:
            return offset_answer(lookup.find_offset(offset))
        case {"timestamp": int(timestamp)}:
            return timestamp_answer(lookup.find_timestamp(timestamp))
        case {"aborted": [int(fetch_offset), int(upper_bound)]}:
            return {
                "aborted": [
                    {
                        "producerId": txn.producer_id,
                        "firstOffset": txn.first_offset,
                        "lastOffset": txn.last_offset,
                        "lastStableOffset": txn.last_stable_offset,
                    }
                    for txn in lookup.aborted_transactions(fetch_offset, upper_bound)
                ]
            }
    raise click.UsageError(
        f'{where}: expected {{"offset": N}}, {{"timestamp": T}} or {{"aborted": [FROM, TO]}}, found {line.strip()[:80]}'
    )


def offset_answer(position: OffsetPosition) -> Answer:
    """An offset's position as the object that is printed."""
    if position.segment is None:
        return {"segment": None, "found": False}
    answer: Answer = {
        "segment": position.segment,
        "indexOffset": position.index_offset,
        "indexPosition": position.index_position,
        "found": position.found,
    }
    if position.found:
        answer |= {
            "batchLastOffset": position.batch_last_offset,
            "position": position.position,
            "size": position.size,
        }
    return answer


def timestamp_answer(found: TimestampOffset | None) -> Answer:
    """A search by time's result as the object that is printed."""
    if found is None:
        return {"result": None}
    return {"result": {"offset": found.offset, "timestamp": found.timestamp, "leaderEpoch": found.leader_epoch}}


def _words(options: Options, answer: Answer) -> str:
    if options.offset is None:
        result = answer["result"]
        if result is None:
            return "no record at or after that time (a broker answers offset -1)"
        epoch = "" if result["leaderEpoch"] is None else f", leader epoch {result['leaderEpoch']}"
        when = "no timestamp" if result["timestamp"] == -1 else iso_time(result["timestamp"])
        return f"offset {result['offset']}, {when} ({result['timestamp']} ms){epoch}"
    if not answer["found"]:
        if answer["segment"] is None:
            return f"offset {options.offset} lies before the first segment"
        return f"no batch reaches offset {options.offset}: it is at or behind the end of the log"
    return (
        f"segment {names.segment_file_name(answer['segment'], '.log')}, batch at byte {answer['position']},"
        f" {answer['size']} bytes, last offset {answer['batchLastOffset']}"
    )
