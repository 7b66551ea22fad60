"""`kdump retain`: what retention deletes and when, what keeps it from deleting, and deleting it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from kdump.errors import ConfigError
from kdump.formats.printable import safe
from kdump.operations import retain as operation
from kdump.operations.results import Failed, Interrupted, Note
from kdump.operations.retain import RetainRequest
from kdump.operations.safety import SafetyOptions
from kdump.operations.targets import PartitionGroup
from kdump.retention.partition import PartitionRetention
from kdump.retention.totals import Totals
from kdump.settings.retention import RetentionSettings
from kdump.settings.table import CLEANUP_POLICY, DELETE_RETENTION_MS, RETENTION_BYTES, RETENTION_MS, Setting

from ..shell import exit_codes
from ..shell.choice import NO_PARTITION, is_chosen, nothing_chosen
from ..shell.config_option import config_option, property_file
from ..shell.groups import grouped
from ..shell.options import now_option, topic_option
from ..shell.output import note
from ..shell.progress import PathCounter
from ..shell.rows import OutputFormat, format_option, output_for, printer_of
from ..shell.screen import Screen
from ..shell.session import Failures

if TYPE_CHECKING:
    from .jsonl import JsonLines
    from .text import Text

    Printer: TypeAlias = JsonLines | Text

_GIVEN: Mapping[str, Setting[Any]] = {
    "retention_ms": RETENTION_MS,
    "retention_bytes": RETENTION_BYTES,
    "delete_retention_ms": DELETE_RETENTION_MS,
    "cleanup_policy": CLEANUP_POLICY,
}


@click.command("retain")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--retention-ms", type=int, metavar="MS", help="retention.ms; -1: no limit.")
@click.option("--retention-bytes", type=int, metavar="N", help="retention.bytes; -1: no limit.")
@click.option("--delete-retention-ms", type=click.IntRange(min=0), metavar="MS", help="delete.retention.ms.")
@click.option("--cleanup-policy", metavar="POLICY", help="cleanup.policy: delete, compact, or compact,delete.")
@config_option
@click.option("--log-start-offset", type=click.IntRange(min=0), metavar="N",
    help="Let the log start here, as kafka-delete-records.sh does. By default that of the checkpoint.")
@click.option("--high-watermark", type=click.IntRange(min=0), metavar="N",
    help="The high watermark. By default the checkpoint's, without one the log's end.")
@now_option
@topic_option
@click.option("--segments/--no-segments", default=None,
    help="List the segments too, or not. By default those of partitions that are named themselves.")
@click.option("--tombstones/--no-tombstones", default=True,
    help="Read compacted logs completely to count what waits for its delete horizon.")
@click.option("--apply", "applies", is_flag=True, help="Delete the segments and move the log start offsets.")
@click.option("--no-backup", is_flag=True, help="With --apply, keep nothing of what is deleted.")
@format_option
def command(
    paths: tuple[str, ...],
    config_files: tuple[str, ...],
    topics: tuple[str, ...],
    segments: bool | None,
    applies: bool,
    no_backup: bool,
    format_: OutputFormat,
    **asked: Any,
) -> int:
    """Say which segments retention deletes, when the next go, and what keeps the others. Nothing is changed.

    PATHs are partition directories or log directories. kdump applies the broker's rules: from the oldest segment on, by
    log start offset, by retention.bytes, by retention.ms, up to the first segment that stays, and never above the high
    watermark. If a segment blocks the deletion of others, kdump names the record that does and what you can do. It
    never rewrites timestamps.

    A topic's settings come from options, --config, the cluster's metadata log in the same log directory, or else are
    Kafka's defaults. If nothing else is known, a partition in the cleaner's checkpoint is treated as compacted. kdump
    does not look at remote storage.

    Stop the broker before --apply. kdump then removes segments at once (a broker waits for file.delete.delay.ms) and
    changes the checkpoints. It keeps what it removes as files .kdump-* in the log directory, which take the space until
    `kdump undo --prune`; with --no-backup it keeps nothing.

    Exits with 1 when there is something to delete and --apply is not given, else with 0.

    \b
    Examples:
      kdump retain /var/lib/kafka/data --config /etc/kafka/server.properties
      kdump retain /var/lib/kafka/data/orders-3 --retention-ms 86400000
      kdump retain /var/lib/kafka/data --topic 'orders*' \\
        --config orders.properties --apply
      kdump retain /var/lib/kafka/data --format jsonl \\
        | jq 'select(.type == "partition" and .blocked) | .path'
    """
    files = tuple(property_file(text, RetentionSettings) for text in config_files)
    settings = {setting.name: asked.pop(option) for option, setting in _GIVEN.items()}
    given = {name: str(value) for name, value in settings.items() if value is not None}
    try:
        request = RetainRequest(files=files, given=given, **asked)
    except ConfigError as error:
        raise click.UsageError(f"{safe(str(error))}.") from None
    if no_backup and not applies:
        raise click.UsageError("--no-backup needs --apply.")
    failures = Failures()
    with output_for(format_) as out:
        failures.before = out.flush
        is_all = Screen.current.verbosity > 0
        printer = printer_of(__package__, format_, out.write, is_all=is_all, applies=applies)
        run = _Run(request, SafetyOptions(applies, "retain", not no_backup), printer, failures)
        groups = grouped(paths, failures, lambda name: is_chosen(name, topics))
        for group in groups:
            with failures.reporting(group.log_directory):
                run.group(group, not group.is_whole if segments is None else segments)
        run.end(topics if groups else None)
    return failures.code


class _Run:
    def __init__(self, request: RetainRequest, safety: SafetyOptions, printer: Printer, failures: Failures) -> None:
        self._request = request
        self._safety = safety
        self._printer = printer
        self._failures = failures
        self._progress = PathCounter()
        self._has_looked = False

    def group(self, group: PartitionGroup, lists_segments: bool) -> None:
        """Take one log directory."""
        for event in operation.retain(group, self._request, self._safety, self._progress.over):
            if isinstance(event, PartitionRetention):
                self._has_looked = True
                self._printer.partition(event, lists_segments=lists_segments)
                if event.has_work and not self._safety.applies:
                    self._failures.worsen(exit_codes.FINDINGS)
            elif isinstance(event, Totals):
                self._printer.directory(group.log_directory, event)
                self._failures.before()
            elif isinstance(event, Interrupted):
                self._failures.say_interrupted(event)
            elif isinstance(event, Failed):
                self._failures.report_error(event.error, event.path)
            elif isinstance(event, Note):
                note(safe(event.text))
            else:
                self._printer.done(self._failures.given(group.log_directory), event.plans, event.change)

    def end(self, topics: tuple[str, ...] | None) -> None:
        """Print the answer, unless nothing was reached; why not, where there are directories but not these `topics`."""
        finished = self._failures.finished
        if self._has_looked or finished:
            self._printer.end(is_complete=self._failures.code == exit_codes.OK, finished=finished)
        elif topics is not None and self._failures.code == exit_codes.OK:
            why = nothing_chosen(topics)
            if why != NO_PARTITION:
                self._failures.complain(why)
