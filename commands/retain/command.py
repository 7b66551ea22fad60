"""`kdump retain`: what retention deletes and when, what keeps it from deleting, and deleting it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from kdump.errors import ConfigError
from kdump.formats.printable import safe
from kdump.operations.retain import RetainRequest
from kdump.settings.retention import RetentionSettings
from kdump.settings.table import CLEANUP_POLICY, DELETE_RETENTION_MS, RETENTION_BYTES, RETENTION_MS, Setting

from ..shell.config_option import config_option, property_file
from ..shell.options import now_option, topic_option
from ..shell.rows import format_option
from .run import Options, retain

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
@click.option(
    "--log-start-offset",
    type=click.IntRange(min=0),
    metavar="N",
    help="Let the log start here, as kafka-delete-records.sh does. By default that of the checkpoint.",
)
@click.option(
    "--high-watermark",
    type=click.IntRange(min=0),
    metavar="N",
    help="The high watermark. By default the checkpoint's, without one the log's end.",
)
@now_option
@topic_option
@click.option(
    "--segments/--no-segments",
    default=None,
    help="List the segments too, or not. By default those of partitions that are named themselves.",
)
@click.option(
    "--tombstones/--no-tombstones",
    default=True,
    help="Read compacted logs completely to count what waits for its delete horizon.",
)
@click.option("--apply", "applies", is_flag=True, help="Delete the segments and move the log start offsets.")
@click.option("--no-backup", is_flag=True, help="With --apply, keep nothing of what is deleted.")
@format_option
def command(paths: tuple[str, ...], config_files: tuple[str, ...], format_: str, **options: Any) -> int:
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
    asked = {setting.name: options.pop(option) for option, setting in _GIVEN.items()}
    given = {name: str(value) for name, value in asked.items() if value is not None}
    rest = {name: options.pop(name) for name in ("now", "log_start_offset", "high_watermark", "tombstones")}
    try:
        request = RetainRequest(files=files, given=given, **rest)
    except ConfigError as error:
        raise click.UsageError(f"{safe(str(error))}.") from None
    if options["no_backup"] and not options["applies"]:
        raise click.UsageError("--no-backup needs --apply.")
    return retain(paths, Options(request, format_, **options))
