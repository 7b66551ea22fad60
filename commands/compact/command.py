"""`kdump compact`: what the log cleaner would do with a partition and why it does not, and doing it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import click

from kdump.disk.reading import is_named
from kdump.formats.printable import safe
from kdump.operations import compact as operation
from kdump.operations.compact import Compacted, CompactRequest, Skipped
from kdump.operations.results import Failed, Interrupted, Note
from kdump.operations.safety import SafetyOptions
from kdump.releases import KafkaRelease
from kdump.settings.cleaning import CleaningSettings

from ..shell import exit_codes
from ..shell.config_option import config_option, property_file
from ..shell.groups import grouped
from ..shell.options import kafka_option, now_option
from ..shell.output import note
from ..shell.paths import check_not_kafkas
from ..shell.progress import ProgressBar
from ..shell.rows import OutputFormat, format_option, output_for, printer_of
from ..shell.screen import Screen
from ..shell.session import Failures

if TYPE_CHECKING:
    from .jsonl import JsonLines
    from .text import Text

    Printer: TypeAlias = JsonLines | Text


@click.command("compact")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--apply", "applies", is_flag=True, help="Clean the partitions in place.")
@click.option("--output", type=click.Path(file_okay=False), metavar="DIR",
    help="Write a log directory with the cleaned partitions there; the originals stay as they are.")
@click.option("--no-backup", is_flag=True, help="With --apply, keep nothing of what is replaced.")
@click.option("--passes", type=click.IntRange(1), default=1, show_default=True, metavar="N",
    help="With --apply or --output: run up to N passes if one has no room for all keys.")
@config_option
@click.option("--min-cleanable-ratio", type=click.FloatRange(0, 1), metavar="R",
    help="Clean if the dirty ratio is above this. By default min.cleanable.dirty.ratio of --config, else 0.5.")
@click.option("--old-formats", "legacy_batches", type=click.Choice(("keep", "convert")),
    help="Leave batches of formats v0 and v1 in their format, as Kafka up to 3.9 does, or rewrite them in v2, as from"
    " 4.0 on. By default as the release does.")
@kafka_option
@click.option("--compare-keys", "compares_keys", is_flag=True,
    help="Compare keys themselves, not their MD5 sums; needs more memory for each key.")
@now_option
@format_option
def command(
    paths: tuple[str, ...],
    applies: bool,
    output: str | None,
    no_backup: bool,
    config_files: tuple[str, ...],
    legacy_batches: str | None,
    kafka: KafkaRelease | None,
    format_: OutputFormat,
    **asked: Any,
) -> int:
    """Say what Kafka's log cleaner would do with these partitions, or what blocks it. Nothing is changed.

    PATHs are partition directories or log directories. For each partition kdump shows the dirty ratio, the offsets that
    may be cleaned, and the offset, transaction or setting at which they end. If the cleaner is due, it shows the result
    of one pass: bytes, records and segments, what is dropped and why, which tombstones stay and until when.

    Stop the broker before --apply. kdump then cleans as the cleaner does, down to the bytes of indexes, the files'
    times and the cleaner's checkpoint; with --output it cleans a copy. It keeps what it replaces as files .kdump-* in
    the log directory, unless --no-backup is given. The next run finishes an interrupted one.

    A pass takes as many different keys as fit into log.cleaner.dedupe.buffer.size (5033164 by default). The rest stays
    dirty for the next pass. In a log directory kdump looks only at partitions that are known to be compacted: by
    cleanup.policy in --config or in the cluster's metadata log in the same log directory, by the cleaner's checkpoint,
    or as internal topics. These settings from there count too, under their topic or server names:
    min.cleanable.dirty.ratio, min.compaction.lag.ms, max.compaction.lag.ms, delete.retention.ms, segment.bytes,
    segment.index.bytes, index.interval.bytes, max.message.bytes, message.max.bytes, message.format.version,
    producer.id.expiration.ms and log.cleaner.threads, .io.buffer.size, .io.buffer.load.factor, .dedupe.buffer.size.

    Exits with 1 when a partition is due and neither --apply nor --output is given, else with 0.

    \b
    Examples:
      kdump compact /var/lib/kafka/data
      kdump compact /var/lib/kafka/data/users-0 --config users.properties \\
        --min-cleanable-ratio 0
      kdump compact /var/lib/kafka/data --config server.properties \\
        --config 'users*=users.properties'
      kdump compact /var/lib/kafka/data/users-0 --output /tmp/cleaned --passes 10
      kdump compact /var/lib/kafka/data --apply --format jsonl \\
        | jq 'select(.cleaning) | .cleaning.after.bytes'
    """
    if applies and output is not None:
        raise click.UsageError("--apply and --output exclude each other.")
    if no_backup and not applies:
        raise click.UsageError("--no-backup needs --apply.")
    if asked["passes"] > 1 and not applies and output is None:
        raise click.UsageError("--passes needs --apply or --output.")
    files = tuple(property_file(text, CleaningSettings) for text in config_files)
    converts = None if legacy_batches is None else legacy_batches == "convert"
    request = CompactRequest(files=files, release=kafka, converts_legacy=converts, **asked)
    failures = Failures()
    groups = grouped(paths, failures)
    if output is not None and len(groups) > 1:
        raise click.UsageError("--output takes partitions of one log directory only.")
    if output is not None and not is_named(output):  # what is there is refused anyway
        check_not_kafkas(output)
    safety = SafetyOptions(applies, "compact", not no_backup, output=output)
    twice = [path for group in groups for path in group.partitions] * 2  # read for the keys, and to be written again
    with ProgressBar(twice) as bar, output_for(format_) as out:
        is_all = len(twice) <= 2 or Screen.current.verbosity > 0
        printer: Printer = printer_of(__package__, format_, out.write, request.now, is_all=is_all)
        failures.before = out.flush
        for group in groups:
            with failures.reporting(group.log_directory):
                for event in operation.compact(group, request, safety, bar.add):
                    bar.hide()
                    _show(event, printer, failures, is_copy=output is not None)
        printer.end(is_complete=failures.code == exit_codes.OK, finished=failures.finished)
    return failures.code


def _show(
    event: Compacted | Skipped | Interrupted | Failed | Note, printer: Printer, failures: Failures, *, is_copy: bool
) -> None:
    if isinstance(event, Compacted):
        printer.partition(event)
        if event.cleaning is not None and not event.is_done and not is_copy:
            failures.worsen(exit_codes.FINDINGS)
    elif isinstance(event, Skipped):
        printer.skipped(event.path, event.why)
    elif isinstance(event, Interrupted):
        failures.say_interrupted(event)
    elif isinstance(event, Failed):
        failures.report_error(event.error, event.path)
    else:
        note(safe(event.text))
