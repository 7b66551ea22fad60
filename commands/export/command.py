"""`kdump export`: records as Parquet, JSON lines or CSV for other tools."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from kdump.errors import KdumpError, Problem, RefusedError
from kdump.exports.journal import Outcome
from kdump.exports.object_store import Uploaded, is_object_store
from kdump.exports.options import CODECS, DEFAULT_COLUMNS, LEVELS, ExportFormat, ExportOptionError, ExportOptions
from kdump.exports.outcome import Exported
from kdump.exports.plan import Unit
from kdump.exports.run import Engine, LocalEngine, Summary
from kdump.formats.printable import safe, safe_path
from kdump.formats.time_units import wall_clock
from kdump.operations.choice import chooses
from kdump.operations.export import Decoding, ExportRequest, export
from kdump.operations.results import Failed
from kdump.query.selection import Selection
from kdump.txns.isolation_level import Isolation

from ..shell import exit_codes
from ..shell import values as filters
from ..shell.choice import nothing_chosen, topics_at
from ..shell.engine import cluster_of, engine_options
from ..shell.options import topic_option
from ..shell.output import NO_SUCH, about, complain, os_error_text
from ..shell.paths import check_not_kafkas, expand
from ..shell.progress import PathCounter, ProgressBar
from ..shell.reading_options import (
    isolation_option,
    max_decompressed_size_option,
    no_index_option,
    offsets_option,
    since_option,
    until_option,
)
from ..shell.replicas import chosen_replicas, directories_at, newest, replicas_at
from ..shell.rows import OutputFormat, output_for, printer_of, report_format_option
from ..shell.schemas import payload_decoder, schemas_option
from ..shell.session import Diagnostics, say_refused

if TYPE_CHECKING:
    from kdump.schema_registry.decoder import PayloadDecoder
    from kdump.spark.jobs import Cluster

    from .jsonl import JsonLines
    from .text import Text

    Printer: TypeAlias = JsonLines | Text

_NOTHING = "none"


def _words(text: str) -> tuple[str, ...]:
    words = tuple(word.strip() for word in text.split(",") if word.strip())
    if not words:
        raise ValueError("expected names separated by commas")
    return words


_CODEC_NAMES = tuple(dict.fromkeys(name for names in CODECS.values() for name in names))


@click.command("export")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--to", "folder", required=True, metavar="DIR", help="The directory to write to: empty, new, or one that"
    " an export with the same options was begun in; or a place in an object store: s3://, gs:// or az://.")
@click.option("--staging", metavar="DIR", help="With --to in an object store: the directory in which the files are"
    " written before they are sent; a run that resumes needs it. By default a temporary one.")
@click.option("--format", "file_format", type=click.Choice([each.value for each in ExportFormat]),
    default=ExportFormat.PARQUET.value, show_default=True)
@click.option("--by", metavar="LIST", default="topic,partition", show_default=True, callback=filters.read_by(_words),
    help=f"The levels of directories, separated by commas: {', '.join(LEVELS)} (of the record's timestamp, in UTC), or"
    f" {_NOTHING}.")
@click.option("--codec", type=click.Choice(_CODEC_NAMES),
    help="Compression of the files: for parquet zstd by default, for the others none.")
@click.option("--target-file-size", metavar="SIZE", callback=filters.read_by(filters.size),
    help="Bytes (or K, M, G) of log that go into a file, at most: small segments of a partition are put together, large"
    " ones are cut. By default each segment becomes a file, or several of 64M.")
@click.option("--columns", metavar="LIST", callback=filters.read_by(_words),
    help=f"The columns, separated by commas. By default {', '.join(DEFAULT_COLUMNS)}.")
@topic_option
@offsets_option
@since_option
@until_option
@isolation_option
@click.option("--control", is_flag=True, help="Also write control records, such as the markers of transactions.")
@click.option("--decode", type=click.Choice(("columns", "json")),
    help="Decode keys and values by their schemas: into columns of their types, or into JSON text (text formats have"
    " JSON). By default columns with --schemas, else not.")
@schemas_option
@click.option("--schema-id", type=click.IntRange(min=0), metavar="ID",
    help="With --decode columns: the schema whose columns values get. By default the newest of the topic's subject.")
@click.option("--skip-damage", is_flag=True,
    help="Treat an export as complete even if it lacks what cannot be read.")
@no_index_option
@max_decompressed_size_option
@click.option("--lost", is_flag=True,
    help="Write the records that are lost if a broker leads, of copies on several brokers: see kdump replicas.")
@click.option("--leader", type=click.IntRange(min=0), metavar="N", help="With --lost: the id of that broker.")
@report_format_option
@engine_options
def command(
    paths: tuple[str, ...],
    folder: str,
    staging: str | None,
    file_format: str,
    by: tuple[str, ...],
    codec: str | None,
    target_file_size: int | None,
    columns: tuple[str, ...] | None,
    topics: tuple[str, ...],
    offsets: tuple[int | None, int | None] | None,
    since: int | None,
    until: int | None,
    isolation: Isolation,
    decode: str | None,
    schemas: str | None,
    schema_id: int | None,
    control: bool,
    skip_damage: bool,
    no_index: bool,
    max_decompressed_size: int,
    lost: bool,
    leader: int | None,
    format_: OutputFormat,
    **engine: Any,
) -> int:
    """Write the records of partitions as files that other tools read.

    PATHs are partition directories or log directories, in any mix; quoted patterns work. Of several
    replicas of a partition, kdump exports the one with the highest log end offset.

    The records are those of kdump dump, without control records unless --control is given. Each segment becomes a file,
    or one for every date, in directories such as topic=orders/partition=3. Spark, Arrow, DuckDB and others treat these
    as columns; the files do not repeat them. docs/export.md of the project has the columns of each format.

    With --decode, key and value are decoded, and columns are added: value_raw (the bytes of a value without a schema,
    or that does not decode), value_schema_id, value_error, and the same for the key. Every record is exported.

    Repeat a run that was interrupted, or that could not read a file: what is complete stays, what has changed is
    exported again. The directory has _SUCCESS only while the export is complete. kdump reports and skips damage; the
    export is then not complete, unless --skip-damage is given.

    With --lost and --leader N kdump writes the records that no copy has any more once broker N leads. PATHs are the
    directories of all copies; DIR gets a file of JSON lines for each partition that loses some.

    To an object store (s3://BUCKET/PREFIX, gs://, az://) kdump sends the files when all of them are written, large ones
    in parts, _SUCCESS last. Credentials and endpoint come from the environment (AWS_ACCESS_KEY_ID, AWS_REGION and so
    on). Needs obstore: pip install 'kafka-kdump[object-stores]'.

    Needs pyarrow, but for --lost: pip install 'kafka-kdump[columns]'.

    \b
    Examples:
      kdump export /var/lib/kafka/data --topic 'orders*' --to /backup/orders
      kdump export orders-0 --to out --by date \\
        --columns offset,timestamp,key,value
      kdump export orders-0 --to out --schemas /data/_schemas-0
      kdump export orders-0 --to s3://backup/orders --staging /scratch/orders
      kdump export orders-0 --to out --format jsonl --codec gzip \\
        --since 2026-01-31
      kdump export --lost --leader 1 /b1/kafka /b2/kafka /b3/kafka \\
        --to /backup/lost

    \b
    Exit codes:
      0    everything was exported
      1    damage was met, and reported
      2    the command line is wrong
      3    something could not be read or written
      4    DIR has other files in it
      130  interrupted; repeat the command to continue
    """
    if lost or leader is not None:
        if not lost or leader is None:
            raise click.UsageError("--lost and --leader go together")
        return _export_lost(paths, leader, folder, topics, format_)
    start, stop = offsets or (None, None)
    try:
        options = ExportOptions(
            format=file_format,
            by=() if by == (_NOTHING,) else by,
            codec=codec or "",
            columns=columns or DEFAULT_COLUMNS,
            selection=Selection(start, stop, since, until),
            isolation=isolation,
            control=control,
            skips_damage=skip_damage,
            use_indexes=not no_index,
            limit=max_decompressed_size,
            target_bytes=target_file_size,
        )
    except ExportOptionError as error:
        raise click.UsageError(f"{safe(str(error))}.") from None
    cluster = cluster_of(**engine)
    decoding = None
    if decode is not None or schemas is not None or schema_id is not None:
        decoding = Decoding(partial(_decoder_of, paths, schemas), decode, schema_id)
    if staging is not None and not is_object_store(folder):
        raise click.UsageError("--staging is for --to in an object store.")
    return _export(paths, topics, ExportRequest(folder, options, decoding, staging), cluster, format_)


def _export(
    paths: tuple[str, ...],
    topics: tuple[str, ...],
    request: ExportRequest,
    cluster: Cluster | None,
    format_: OutputFormat,
) -> int:
    """Export what is at `paths`, on a cluster if one is given; the exit code."""
    try:
        request.check()
    except ExportOptionError as error:
        raise click.UsageError(safe(str(error))) from None
    if request.staging or not is_object_store(request.target):
        check_not_kafkas(request.staging or request.target)
    diagnostics = Diagnostics()
    found = chosen_replicas(replicas_at(paths, diagnostics), topics)
    if not found and diagnostics.code:
        return diagnostics.code
    if not found:
        complain(nothing_chosen(topics, topics_at(paths)))
        return exit_codes.INCOMPLETE
    farthest = newest(PathCounter().over(found), diagnostics)
    is_all = diagnostics.code < exit_codes.INCOMPLETE
    report, engine = partial(_report, diagnostics), partial(_exported, cluster)
    results = export(farthest, request, report, engine, is_all=is_all, kept=_note_kept)
    try:
        with output_for(format_) as out:
            diagnostics.before, printer = out.flush, printer_of(__package__, format_, out.write)
            for each in results:
                _show(each, request.target, diagnostics, printer)
    except ExportOptionError as error:
        raise click.UsageError(f"{safe(str(error))}.") from None
    except RefusedError as error:
        complain(safe(str(error)))
        return exit_codes.REFUSED
    return diagnostics.code


def _decoder_of(paths: Iterable[str], schemas: str | None) -> PayloadDecoder:
    """Return what decodes by the schemas at a path, or among the PATHs. Raises KdumpError, OSError."""
    decoder = payload_decoder(expand(paths), schemas)
    if decoder is None:
        raise KdumpError("no _schemas-0 is among these PATHs: name the schemas with --schemas PATH")
    return decoder


def _exported(
    cluster: Cluster | None, units: Sequence[Unit], folder: str, options: ExportOptions
) -> Iterator[Outcome]:
    """Export units in this process or on a cluster, with a line of progress."""
    with ProgressBar(list(dict.fromkeys(each.path for unit in units for each in unit.all))) as bar:
        yield from _engine(cluster, bar, options)(units, folder, options)


def _engine(cluster: Cluster | None, bar: ProgressBar, options: ExportOptions) -> Engine:
    if cluster is None:
        if options.format == ExportFormat.PARQUET:
            from kdump.exports.memory import prepare

            prepare()
        return LocalEngine(progress=bar.add)
    from kdump.spark.jobs import SparkExport

    return SparkExport(cluster)


def _report(diagnostics: Diagnostics, problem: Problem) -> None:
    """Say what cannot be read, or is damaged, as it comes."""
    place = "" if problem.position is None else f"byte {problem.position}: "
    complain(about(problem.path, NO_SUCH if problem.is_missing else f"{place}{problem.text}"))
    diagnostics.worsen(exit_codes.INCOMPLETE if problem.is_unreadable else exit_codes.FINDINGS)


def _show(
    done: Exported | Summary | Uploaded | Failed, url: str, diagnostics: Diagnostics, printer: Printer
) -> None:
    if isinstance(done, Exported):
        printer.exported(done)
    elif isinstance(done, Summary):
        printer.written(done, diagnostics.code)
    elif isinstance(done, Uploaded):
        printer.sent(done, url)
    else:
        diagnostics.before()
        printer.not_sent()
        error = done.error
        complain(os_error_text(error, done.path) if isinstance(error, OSError) else safe(str(error)))
        diagnostics.worsen(exit_codes.REFUSED if isinstance(error, RefusedError) else exit_codes.INCOMPLETE)


def _note_kept(folder: str) -> None:
    complain(f"what was written is kept; to resume, repeat this with --staging {safe_path(folder)}")


def _export_lost(
    paths: Iterable[str], leader: int, folder: str, topics: tuple[str, ...], format_: OutputFormat
) -> int:
    """Write what each partition loses if this broker leads it into a folder; the exit code."""
    from kdump.operations.lost_records import lost_records

    check_not_kafkas(folder)
    diagnostics = Diagnostics()
    places = directories_at(paths, diagnostics)
    if diagnostics.code >= exit_codes.INCOMPLETE:
        return diagnostics.code
    try:
        with output_for(format_) as out:
            found = lost_records(places, leader, folder, wall_clock(), diagnostics, chooses(topics))
            printer_of(__package__, format_, out.write).lost(found, leader)
    except RefusedError as error:
        say_refused(error)
        return exit_codes.REFUSED
    return diagnostics.code
