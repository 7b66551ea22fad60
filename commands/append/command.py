"""`kdump append`: append records to a log that no broker is serving, as the broker would."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

import click

from kdump.disk.durable import named
from kdump.errors import CodecError, KdumpError, RefusedError
from kdump.formats.codecs import NAMES, check_level
from kdump.formats.java_text import INT_MAX
from kdump.formats.printable import safe, safe_path
from kdump.formats.uuids import parse_uuid
from kdump.interchange.dumped import Item
from kdump.interchange.lines import Lines, Reading
from kdump.operations.append import NewLog, opened
from kdump.operations.append_input import READERS, Appender, AppendOptions, Ending
from kdump.releases import KafkaRelease
from kdump.write.errors import UnsupportedForMessageFormatError
from kdump.write.packing import Packing

from ..shell import exit_codes
from ..shell.output import Output, say_interrupted
from ..shell.rows import OutputFormat, output_for, report_format_option
from ..shell.signals import Interrupts
from ..shell.values import read_by, time_ms
from ..shell.write_options import (
    REFUSALS,
    check_partition,
    chosen_config,
    chosen_opening,
    known_rules,
    refused,
    say_backup,
    write_options,
)
from .text import Text, tally_words

if TYPE_CHECKING:
    from .jsonl import JsonLines

    Printer: TypeAlias = JsonLines | Text

_FORMAT_VERSIONS = {"0": "0.9.0", "1": "0.10.2", "2": "3.0"}
_PACKINGS = {
    "codec": "--codec", "batch_bytes": "--batch-bytes", "batch_records": "--batch-records",
    "producer_id": "--producer-id", "ending": "--transactional",
}  # fmt: skip
"""Options that only mean something where batches are made again, by their parameters."""
_OF_RECORDS = (
    "producer_id", "producer_epoch", "base_sequence", "ending", "transaction_version", "coordinator_epoch",
    "leader_epoch", "keeps_offsets",
)  # fmt: skip
"""The parameters that are fields of AppendOptions."""


@click.command("append")
@click.argument("path", metavar="PARTITION_DIR")
@click.option("--input", "source", type=click.File("rb"), default="-", metavar="FILE", help="By default stdin.")
@click.option("--format", "input_format", type=click.Choice(tuple(READERS)), default="jsonl", show_default=True,
    help="What the input is: JSON lines or CSV as kdump dump prints them, or a value a line.")
@click.option("--key-separator", metavar="TEXT", help="With lines: the text between key and value.")
@click.option("--null-marker", metavar="TEXT", help="With lines: a key or value that equals this is null.")
@click.option("--timestamp", metavar="TIME", callback=read_by(time_ms),
    help="The time (ISO 8601 or ms) of records that come without one. By default the broker's clock.")
@click.option("--repack", is_flag=True,
    help="Build new batches from the records, whatever batches the input has; control records are skipped.")
@click.option("--keep-offsets", "keeps_offsets", is_flag=True,
    help="Append the input's batches with their own offsets, as a follower.")
@click.option("--codec", type=click.Choice(NAMES), help="How new batches are compressed.")
@click.option("--level", type=int, metavar="N", help="The codec's compression level.")
@click.option("--magic", type=click.Choice(tuple(_FORMAT_VERSIONS)),
    help="The message format of the topic. By default 2, or what message.format.version names.")
@click.option("--batch-bytes", type=click.IntRange(1, INT_MAX), metavar="N",
    help="batch.size: a new batch ends before it gets larger, uncompressed. By default 16384.")
@click.option("--batch-records", type=click.IntRange(1, INT_MAX), metavar="N",
    help="A new batch has at most N records.")
@click.option("--producer-id", type=click.IntRange(min=0), metavar="N", help="Write as this idempotent producer.")
@click.option("--producer-epoch", type=click.IntRange(0, 32767), metavar="N",
    help="By default the producer's last one in the log, else 0.")
@click.option("--base-sequence", type=click.IntRange(0, INT_MAX), metavar="N",
    help="The producer's first sequence number. By default the one that is due.")
@click.option("--transactional", "ending", type=click.Choice([each.value for each in Ending]),
    help="Write in a transaction of the producer: commit it, abort it, or leave it open.")
@click.option("--transaction-version", type=click.IntRange(0, 2), metavar="N",
    help="The level of the cluster's transaction.version: with 2 the marker has the next producer epoch. By default as"
    " the cluster metadata in the log directory says, else 0.")
@click.option("--coordinator-epoch", type=click.IntRange(0, INT_MAX), metavar="N",
    help="The coordinator epoch of the marker. By default that of the producer's last marker.")
@click.option("--leader-epoch", type=click.IntRange(0, INT_MAX), metavar="N",
    help="The leader epoch of what is appended. By default the batch's own, else the log's last.")
@click.option("--create", is_flag=True, help="Make the partition directory if it does not exist, or has no log.")
@click.option("--any-producer-id", is_flag=True,
    help="Accept producer ids that the cluster has not given out yet. The producers that get them later will fail.")
@click.option("--start-offset", type=click.IntRange(min=0), default=0, metavar="N", help="Where a new log starts.")
@click.option("--topic-id", metavar="UUID", help="The topic's id, for a new log's partition.metadata.")
@report_format_option
@write_options
def command(
    path: str,
    source: BinaryIO,
    input_format: str,
    key_separator: str | None,
    null_marker: str | None,
    timestamp: int | None,
    repack: bool,
    magic: str | None,
    config_file: str | None,
    settings: tuple[str, ...],
    index_entries: str | None,
    kafka: KafkaRelease | None,
    create: bool,
    start_offset: int,
    topic_id: str | None,
    format_: OutputFormat,
    **options: Any,
) -> int:
    """Append records to the log in a partition directory, as the broker that leads the partition would.

    The input is what kdump dump --format jsonl (or csv) prints, or plain lines. If it has the lines of batches, kdump
    makes each batch again with its records, codec, producer, transaction and leader epoch; the log gives offsets and
    format. With --repack, and for input without batches, kdump packs records into batches as a producer does, by the
    options. With --keep-offsets it appends batches with their own offsets, as a follower does: what was dumped comes
    out the same.

    Offsets, index entries, new segments, producer state, transaction index, leader epochs and checkpoints are those
    that a broker would write. kdump refuses what a broker would refuse, with Kafka's reason: what was appended before
    stays, nothing of the rest is written.

    The topic's settings come from --config and --topic-config, else from the cluster's metadata (in the same log
    directory, or in another one of the broker next to it). kdump refuses a record without a key in a compacted topic,
    and a producer id that the cluster has not given out yet, with exit code 4.

    No broker may be running on the log directory; it is locked meanwhile. A log that is damaged at its end is
    refused, with exit code 4: kdump repair repairs it. Whatever ends the program, a broker that starts then finds the
    same as after a crash of its own.

    \b
    Examples:
      kdump dump orders-3 --format jsonl \\
        | kdump append --create /tmp/copy/orders-3
      kdump dump orders-3 --format jsonl | kdump append --create --keep-offsets \\
        --start-offset 500 /tmp/copy/orders-3
      printf 'a:1\\nb:2\\n' | kdump append /data/test-0 --format lines \\
          --key-separator : --codec zstd
      kdump append /data/test-0 --input rows.csv --format csv --producer-id 7 \\
        --transactional abort
    """
    check_partition(path, may_be_new=create)
    given = tuple(option for name, option in _PACKINGS.items() if options[name] is not None)
    _check(options, given, input_format, key_separator, repack)
    rules = known_rules(path)
    version = {} if magic is None else {"message.format.version": _FORMAT_VERSIONS[magic]}
    config = chosen_config(config_file, settings, index_entries, kafka, rules, version)
    packing = _packing(options, config.record_version)
    new_log = NewLog(start_offset, _topic_id(topic_id)) if create else None
    names = ("clean", "recovery_point", "log_start_offset", "now", "no_backup", "force", "any_producer_id")
    how = chosen_opening(**{name: options[name] for name in names}, create=new_log, rules=rules)
    of_records = {name: options[name] for name in _OF_RECORDS}
    chosen = AppendOptions(packing, **of_records, needs_repack=() if repack else given)
    reading = Reading(
        how.clock if timestamp is None else lambda: timestamp,
        keeps_batches=not repack,
        key_separator=None if key_separator is None else key_separator.encode(),
        null_marker=None if null_marker is None else null_marker.encode(),
    )
    try:
        with Interrupts() as interrupts, output_for(format_) as out:
            printer = printer_for(format_, out)
            lines = Lines(source, safe_path(getattr(source, "name", "<stdin>")), interrupts.waiting)
            items = _begun(READERS[input_format](lines, reading))
            with named(path), opened(path, config, how) as log:
                appender = Appender(log, lines, chosen.for_log(config.record_version, rules))
                try:
                    _run(appender, items, interrupts)
                except (KdumpError, OSError):
                    printer.failed(appender.appended(), path)
                    raise
                done = appender.appended()
            printer.appended(done, path, is_complete=not interrupts.came)
    except REFUSALS as error:
        return refused(error, path)
    say_backup(log)
    if interrupts.came:
        say_interrupted("what was appended stays, and the log is shut down cleanly")
        return exit_codes.INTERRUPTED
    return exit_codes.OK


def printer_for(format_: OutputFormat, out: Output) -> Printer:
    """Return what prints in one of the formats."""
    if format_ is OutputFormat.JSONL:
        from .jsonl import JsonLines

        return JsonLines(out.write)
    return Text(out.write)


def _begun(items: Iterator[Item]) -> Iterator[Item]:
    """Read the first item now: what is wrong from the start is found before anything is done. Raises KdumpError."""
    first = next(items, None)
    return iter(()) if first is None else chain((first,), items)


def _run(appender: Appender, items: Iterator[Item], interrupts: Interrupts) -> None:
    """Append until the input ends or Ctrl-C comes. Raises KdumpError, which says how far it came."""
    try:
        appender.run(items)
    except KeyboardInterrupt:
        if not interrupts.came:
            raise
    except KdumpError as error:
        kind = RefusedError if isinstance(error, RefusedError) else KdumpError
        before = f"Appended before: {tally_words(appender.tally)}" if appender.tally.batches else "Nothing was appended"
        raise kind(f"{str(error).removesuffix('.')}. {before}.") from None


def _check(
    options: dict[str, Any], given: Sequence[str], input_format: str, key_separator: str | None, repack: bool
) -> None:
    """Refuse options that contradict each other. Raises click.UsageError."""
    if key_separator == "" or (key_separator and input_format != "lines"):
        raise click.UsageError("--key-separator is for --format lines, and not empty.")
    if options["keeps_offsets"] and (repack or given or input_format != "jsonl"):
        other = given[0] if given else "--repack" if repack else f"--format {input_format}"
        raise click.UsageError(f"--keep-offsets takes batches as they are, so {other} cannot be used with it.")
    if options["producer_id"] is None and (options["ending"] or options["base_sequence"] is not None):
        raise click.UsageError("--transactional and --base-sequence need a --producer-id.")


def _packing(options: dict[str, Any], record_version: int) -> Packing:
    """Return how batches are made again, but for the producer. Raises click.UsageError."""
    codec = NAMES.index(options["codec"] or NAMES[0])
    level = options["level"]
    sizes = {name: options[name] for name in ("batch_bytes", "batch_records") if options[name] is not None}
    try:
        if level is not None and options["codec"]:
            check_level(codec, level)
        return Packing(record_version, codec, level, **sizes)
    except UnsupportedForMessageFormatError as error:
        raise click.UsageError(f"{error}.") from None
    except CodecError as error:
        raise click.UsageError(f"--{error}.") from None


def _topic_id(text: str | None) -> bytes | None:
    try:
        return None if text is None else parse_uuid(text)
    except KdumpError as error:
        raise click.BadParameter(safe(str(error)), param_hint="--topic-id") from None
