"""`kdump dump`: batches and records of files, partition directories and log directories."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import click

from kdump.disk.reading import STANDARD_INPUT, is_directory
from kdump.errors import KdumpError, Problem
from kdump.formats.printable import safe, safe_path
from kdump.formats.words import number_words
from kdump.interchange.rows import Format
from kdump.operations.dump import DamagedLog, Dump, Event, FileRows, Found, LogBegun, NothingToFollowError, ZeroTail
from kdump.operations.dump_jobs import ALL, INCLUDED, DumpRequest, Job, jobs_of, kinds_of
from kdump.operations.results import Failed
from kdump.query.selection import Selection
from kdump.storage.directory import LogDirectory
from kdump.storage.live import tally, was_deleted
from kdump.storage.lone_log import LoneLog, lone_logs
from kdump.storage.open import KafkaFile, Place
from kdump.storage.partition import PartitionLog
from kdump.txns.isolation_level import Isolation

from ..shell import exit_codes
from ..shell import values as filters
from ..shell.completing import one_of
from ..shell.options import color_option
from ..shell.output import Output, complain, note, os_error_text, wants_color
from ..shell.paths import expand, reached
from ..shell.reading_options import (
    isolation_option,
    max_decompressed_size_option,
    no_index_option,
    offsets_option,
    since_option,
    until_option,
)
from ..shell.rows import OutputFormat, format_options, output_for
from ..shell.schemas import payload_decoder, schemas_option
from ..shell.screen import Screen
from ..shell.session import Complaints
from ..shell.usage import not_one_of


class Options(NamedTuple):
    """What is dumped, and how it is printed."""

    request: DumpRequest = DumpRequest()
    format: OutputFormat = OutputFormat.TEXT
    color: str = "auto"
    full: bool = False
    schemas: str | None = None


def _kinds(text: str) -> frozenset[str]:
    words = [word.strip() for word in text.split(",")]
    for word in words:
        if word not in (*INCLUDED, ALL):
            raise ValueError(not_one_of(word, (*INCLUDED, ALL)))
    return kinds_of(words)


@click.command("dump")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@format_options(OutputFormat.CSV)
@offsets_option
@since_option
@until_option
@click.option("--key", metavar="KEY", callback=filters.read_by(filters.content),
    help="Records with this key: text, hex:0a0b, base64:Cgs=, or re: and a regular expression to be found in it"
    " (text: before a text that looks like one of these).")
@click.option("--producer-id", "producer_ids", type=int, multiple=True, metavar="ID",
    help="Batches of this producer (-1: of none). May be repeated: of any of them.")
@click.option("--header", "headers", multiple=True, metavar="NAME[=VALUE]", callback=filters.read_by(filters.header),
    help="Records that have this header, with this value (given like a key). May be repeated: all of them.")
@isolation_option
@click.option("--batches-only", is_flag=True, help="Print batches, not their records.")
@click.option("-n", "--limit", type=click.IntRange(min=1), metavar="N",
    help="Stop after N records (batches with --batches-only; rows of other files).")
@click.option("--tail", type=click.IntRange(min=0), metavar="N",
    help="Only the last N records of each partition (batches with --batches-only);"
    " with --follow also what is appended then.")
@click.option("--as", "read_as", type=click.Choice(("log",)),
    help="Read files of any name as logs, .gz and .zst ones unpacked; - is standard input.")
@click.option("--base-offset", type=click.IntRange(min=0), metavar="N",
    help="With --as: their base offset. [default: the number that the name begins with, else 0]")
@click.option("--follow", is_flag=True,
    help="Continue with what is appended, across new segments, until interrupted.")
@click.option("--at", type=click.IntRange(min=0), metavar="BYTE",
    help="With --fields: the batch that starts at this byte. [default: the first]")
@click.option("--fields", "shows_fields", is_flag=True,
    help="Show one batch of a .log, damaged or not: each field with its byte, bytes and meaning.")
@click.option("--include", "kinds", metavar="LIST", default="log", show_default=True, callback=filters.read_by(_kinds),
    shell_complete=one_of((*INCLUDED, ALL)),
    help=f"What to dump of a directory, separated by commas: {', '.join(INCLUDED)}, all.")
@click.option("--raw", is_flag=True,
    help="Show keys and values as bytes, not decoded.")
@schemas_option
@click.option("--full", is_flag=True, help="In text, show binary keys and values completely.")
@color_option
@click.option("--include-damaged", is_flag=True,
    help="Also show what can be read of batches that fail their CRC or are incomplete, marked as damaged.")
@click.option("--kept", is_flag=True,
    help="Instead of the logs, show what changes cut out of them and keep: batches, ends and segments.")
@no_index_option
@max_decompressed_size_option
def command(
    paths: tuple[str, ...],
    format_: OutputFormat,
    offsets: tuple[int | None, int | None] | None,
    since: int | None,
    until: int | None,
    producer_ids: tuple[int, ...],
    no_index: bool,
    max_decompressed_size: int,
    key: Any,
    headers: tuple[Any, ...],
    at: int | None,
    shows_fields: bool,
    isolation: Isolation,
    read_as: str | None,
    base_offset: int | None,
    kinds: frozenset[str],
    batches_only: bool,
    include_damaged: bool,
    kept: bool,
    follow: bool,
    tail: int | None,
    limit: int | None,
    raw: bool,
    **options: Any,
) -> int:
    """Print the batches and records of logs, and the entries of indexes, snapshots and checkpoints.

    PATHs are files (.log and its indexes, snapshots, checkpoints), partition directories or log directories, in any
    mix; quoted patterns work. The name of a file gives its kind, the name of its directory its partition. Of a
    directory kdump dumps the logs that a broker would serve, with the .swap files that it puts in place at its start,
    and what --include names. Name the files that it deletes at its start (.deleted, .cleaned) to dump them.

    Options that select combine: a record must meet them all. kdump finds offsets and times by the index files, so that
    it reads little of a large log; --no-index reads all of it, for indexes that you do not trust. It prints the batches
    that have a record to show. Filters apply to logs only.

    Damage does not end a dump. kdump reports it on standard error, a line each with file and byte position, and
    continues at the next batch whose header is plausible and whose CRC matches. It writes nothing next to what it
    reads.

    kdump decodes the records of internal topics (__consumer_offsets, __transaction_state, __cluster_metadata with its
    snapshots, __share_group_state, __remote_log_metadata), which it knows by their directory's name: to their fields in
    text, to objects in jsonl. It shows and reports what it cannot decode.

    kdump decodes keys and values that a schema registry's serializers wrote (Avro, Protobuf, JSON Schema) with
    --schemas, or when a log directory among the PATHs has the registry's topic _schemas. It asks no registry. Without
    schemas it shows their id.

    Text shows bytes that are not UTF-8 in hexadecimal, with their number, and escapes control characters. In jsonl and
    csv such a field is null, and another field (keyBase64, valueBase64) has the bytes. docs/dump-format.md of the
    project describes both formats.

    \b
    Examples:
      kdump dump orders-0/00000000000000000000.log
      kdump dump /var/lib/kafka/data/orders-0 --offsets 1000:1100
      kdump dump orders-0 --since 2024-05-01T12:00 --until 2024-05-01T12:05 \\
        --format jsonl
      kdump dump orders-0 --key user-17 --header trace-id --limit 10
      kdump dump /var/lib/kafka/data --batches-only --producer-id 4001
      kdump dump __cluster_metadata-0 --include kraft-snapshot,checkpoints
      kdump dump __consumer_offsets-7 --format jsonl \\
        | jq -c 'select(.key.name == "OffsetCommit") | .value.data'
      kdump dump orders-0 --schemas /var/lib/kafka/data/_schemas-0
      kdump dump orders-0 --follow --format jsonl \\
        | jq -r 'select(.type == "record").value'
      kdump dump 'orders-*/*.timeindex' --format csv
      kdump dump orders-0/00000000000000000235.log --at 839 --fields
      kdump dump orders-0 --tail 10
      kdump dump orders-0 --tail 0 --follow
      kdump dump saved.log.zst --as log --base-offset 235

    \b
    Exit codes:
      0    everything was read
      1    damage was met, and reported
      2    the command line is wrong
      3    a file could not be found or read
      130  interrupted
    """
    if shows_fields or at is not None:
        if not shows_fields or format_ is OutputFormat.CSV:
            raise click.UsageError("--at goes with --fields, in text or JSON.")
        if read_as is None:
            return _fields(expand(paths), at or 0, format_)
        with _lone_logs(paths, base_offset) as found:
            return _fields(found, at or 0, format_)
    start_offset, stop_offset = offsets or (None, None)
    if follow and isolation is Isolation.READ_COMMITTED:
        raise click.UsageError("--follow prints records as they come, before their transactions end: leave out"
            " --isolation read_committed.")
    selection = Selection(start_offset, stop_offset, since, until, frozenset(producer_ids), key, headers)
    marks_damaged = batches_only and format_ is OutputFormat.TEXT  # for people they are marked in the table of batches
    request = DumpRequest(
        selection,
        kinds,
        isolation,
        batches_only,
        follow,
        use_indexes=not no_index and read_as is None,
        includes_damaged=include_damaged or marks_damaged,
        kept=kept,
        tail=tail,
        max_decompressed=max_decompressed_size,
        limit=limit,
        raw=raw,
    )
    asked = Options(request, format_, **options)
    if read_as is None:
        if base_offset is not None or STANDARD_INPUT in paths:
            what = "--base-offset goes" if base_offset is not None else "Standard input (-) goes"
            raise click.UsageError(f"{what} with --as log.")
        unreached: list[tuple[str, OSError]] = []
        places = list(reached(paths, expand, lambda error, path: unreached.append((path, error))))
        if kept:
            _check_kept(places, follows=follow)
        return _dump(places, asked, unreached=unreached)
    if follow or kept or tail is not None or isolation is Isolation.READ_COMMITTED:
        raise click.UsageError("--as log reads a file alone: leave out --follow, --kept, --tail and --isolation.")
    with _lone_logs(paths, base_offset) as found:
        return _dump([], asked, found)


def _fields(places: Sequence[Place | LoneLog], at: int, format_: OutputFormat) -> int:
    """Print the batch at byte `at` of the only log; the exit code. Raises click.UsageError, KdumpError, OSError."""
    from kdump.operations.batch_fields import batch_of, has_batches

    if len(places) != 1 or not has_batches(places[0]):
        raise click.UsageError("--at and --fields show one batch: give one .log file.")
    found = batch_of(places[0], at)
    with output_for(format_) as out:
        if format_ is OutputFormat.JSONL:
            from .jsonl import fields_line

            out.write(fields_line(found))
        else:
            from .text import fields_lines

            out.write("".join(f"{line}\n" for line in fields_lines(found)))
    return exit_codes.OK if found.batch.is_valid and found.batch.fault is None else exit_codes.FINDINGS


def _lone_logs(paths: tuple[str, ...], base_offset: int | None) -> AbstractContextManager[list[LoneLog]]:
    """Hold the logs at some paths. Raises click.UsageError for a directory."""
    for path in filter(is_directory, paths):
        raise click.UsageError(f"{safe_path(path)} is a directory: --as log reads files.")
    return lone_logs(paths, base_offset)


def _dump(
    places: list[Place],
    options: Options,
    lone: Sequence[LoneLog] = (),
    unreached: Sequence[tuple[str, OSError]] = (),
) -> int:
    """Dump what `places` are and some `lone` logs; the exit code. Of what is `unreached` it is said why.

    Raises click.UsageError, OutputError.
    """
    request = options.request
    unreadable: list[tuple[str, OSError]] = []
    unreached = list(unreached)
    jobs: list[Job] = list(lone)
    for place in places:
        before = len(unreadable)
        try:
            found = jobs_of(place, request, unreadable)
        except FileNotFoundError as error:
            unreached.append((place.path, error))
            continue
        if not found and len(unreadable) == before and not (request.follow and isinstance(place, LogDirectory)):
            note(_nothing_in(place, request))
        jobs += found
    if options.format is OutputFormat.CSV:
        from .csv import check_one_kind, columns

        check_one_kind(jobs, request)
    payloads = None if request.raw else payload_decoder(places, options.schemas)
    with output_for(options.format) as out:
        if options.format is OutputFormat.CSV:
            out.write(f"{','.join(columns(jobs, request, has_schemas=payloads is not None))}\n")
        shown = _Shown(out, options, has_schemas=payloads is not None)
        for path, reason in unreached:
            shown.complain(os_error_text(reason, path))
        for path, reason in unreadable:
            shown.failed(path, reason)
        try:
            shown.print(Dump(request, shown.problem, payloads).run(jobs, places))
        except NothingToFollowError:
            what = "--follow follows logs, and there is none among the files given"
            raise click.UsageError(what) from None
        except KeyboardInterrupt:
            Screen.current.has_said_interrupted |= request.follow  # which ends in no other way
            raise
        shown.end()
    return shown.code


def _check_kept(places: list[Place], *, follows: bool) -> None:
    """Refuse what --kept does not go with. Raises click.UsageError."""
    if follows:
        raise click.UsageError("--kept shows what changes cut out of logs, which does not grow: leave out --follow")
    for place in places:
        if isinstance(place, KafkaFile):
            what = f"--kept shows what changes keep of directories, and {safe_path(place.path)} is a file"
            raise click.UsageError(what)


def _nothing_in(place: Place, request: DumpRequest) -> str:
    """Return that a place that can be read has nothing to dump; safe to print."""
    words = " or ".join(word for word, kinds in INCLUDED.items() if request.kinds.intersection(kinds))
    text = f"{safe_path(place.path)}: there is nothing to dump in it ({words})"
    if isinstance(place, PartitionLog) and any(parsed.state for parsed in place.files.values()):
        text += "; files that a broker removes at its start (.deleted, .cleaned) are dumped when they are named"
    return text


def _format_of(out: Output, options: Options, *, has_schemas: bool) -> Format:
    """Return what prints in the format that is asked for."""
    if options.format is OutputFormat.JSONL:
        from kdump.interchange.jsonl import JsonLines

        return JsonLines(out.write, has_schemas=has_schemas)
    if options.format is OutputFormat.CSV:
        from kdump.interchange.csv import CsvRows

        return CsvRows(out.write, has_batches=options.request.batches_only, has_schemas=has_schemas)
    from .text import TextLines

    batches_only = options.request.batches_only
    return TextLines(out.write, is_colored=wants_color(options.color), full=options.full, batches_only=batches_only)


class _Shown(Complaints):
    """Prints what is found in the files that are dumped, and says what is wrong with them."""

    def __init__(self, out: Output, options: Options, *, has_schemas: bool) -> None:
        super().__init__(out.flush)
        self._out = out
        self._printer = _format_of(out, options, has_schemas=has_schemas)
        self._is_text = options.format is OutputFormat.TEXT
        self._damaged = self._hidden = 0
        self._newer: set[str] = set()  # logs with records that are newer than kdump

    def print(self, events: Iterable[Event]) -> None:
        """Print what is found, as it comes."""
        for event in events:
            if isinstance(event, Found):
                if event.starts:
                    self._printer.batch(event.batch, event.transaction)
                if event.selected is not None:
                    self._printer.records(event.batch, event.transaction, event.selected, event.contents)
            elif isinstance(event, LogBegun):
                self._printer.begin(event.origin._replace(path=safe_path(event.origin.path)), event.size)
            elif isinstance(event, FileRows):
                self._table(event)
            else:
                self._seldom(event)

    def _table(self, found: FileRows) -> None:
        path = found.origin.path
        try:
            self._printer.table(found.table, found.origin._replace(path=safe_path(path)), found.rows)
        except KdumpError as error:
            self.problem(Problem(path, None, str(error)))
        except OSError as error:
            self.failed(path, error)

    def _seldom(self, event: Event) -> None:
        self.before()
        if isinstance(event, DamagedLog):
            self._damage(event)
        elif isinstance(event, ZeroTail):
            note(f"{safe_path(event.path)}: byte {event.damage.position}: {safe(event.damage.text)}")
        elif isinstance(event, Failed):
            assert isinstance(event.error, OSError)
            self.failed(event.path, event.error)

    def _damage(self, found: DamagedLog) -> None:
        damage = found.damage
        self._damaged += 1
        self._hidden += found.hides
        onward = f"the dump continues at byte {damage.resumed}"
        if damage.resumed >= found.size:
            onward = "nothing that can be trusted follows"
        see = " (--include-damaged shows what can be read)" if found.hides else ""
        text = f"{safe_path(found.path)}: byte {damage.position}: {safe(damage.text)}{see}; {onward}"
        self.complain(text, exit_codes.FINDINGS)

    def problem(self, problem: Problem) -> None:
        """Say what is wrong with a file; of what is newer than kdump in a log once."""
        place = "" if problem.position is None else f"byte {problem.position}: "
        text = f"{safe_path(problem.path)}: {place}{safe(problem.text)}"
        if not problem.is_newer:
            self.complain(text, exit_codes.FINDINGS)
        elif problem.path not in self._newer:
            self._newer.add(problem.path)
            self.before()
            note(f"{text}: newer than this kdump, printed as it is")

    def failed(self, path: str, error: OSError) -> None:
        """Say that a file cannot be read, unless a running broker has deleted it."""
        if not was_deleted(path, error):
            tally.cannot_read(path)
            self.complain(os_error_text(error, path))

    def complain(self, text: str, code: int = exit_codes.INCOMPLETE) -> None:
        """Say what is wrong after what was printed before it: all of it, however much that is."""
        self.before()
        complain(text)
        self.worsen(code)

    def end(self) -> None:
        """Print the answer where damage was met: stdout may be all that somebody reads."""
        if self._damaged and self._is_text:
            see = " See what can be read: --include-damaged" if self._hidden else ""
            self._out.write(f"\nFOUND: {number_words(self._damaged, 'damaged range')}.{see}\n")
