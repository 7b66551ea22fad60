"""`kdump roll`: begin a new segment, as a broker does when the last one is full."""

from __future__ import annotations

from typing import Any

import click

from kdump.disk.durable import named
from kdump.operations.append import opened, roll_active
from kdump.operations.cluster_rules import ClusterRules
from kdump.releases import KafkaRelease

from ..shell import exit_codes
from ..shell.rows import OutputFormat, format_option, output_for
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
from .command import printer_for


@click.command("roll")
@click.argument("paths", nargs=-1, required=True, metavar="PARTITION_DIR...")
@write_options
@format_option
def command(
    paths: tuple[str, ...],
    config_file: str | None,
    settings: tuple[str, ...],
    index_entries: str | None,
    kafka: KafkaRelease | None,
    format_: OutputFormat,
    **how: Any,
) -> int:
    """Begin a new segment at the end of these logs, as a broker does when the last one is full.

    kdump writes the last time index entry of the old segment, cuts its index files to their entries, writes a producer
    snapshot and makes the new segment's files (with preallocate=true at their full size). It leaves an empty last
    segment as it is. Compaction, retention and copies to remote storage take closed segments only, never the last one.

    No broker may be running on the log directory; it is locked meanwhile. A log that is damaged at its end is
    refused, with exit code 4: kdump repair repairs it.

    \b
    Examples:
      kdump roll /var/lib/kafka/data/orders-3
      kdump roll data/orders-0 data/orders-1 --topic-config preallocate=true \\
        --topic-config segment.bytes=1048576
    """
    chosen_config(config_file, settings, index_entries, kafka, ClusterRules())
    force = how.pop("force")
    for path in paths:
        check_partition(path)
    code = exit_codes.OK
    with output_for(format_) as out:
        printer = printer_for(format_, out)
        for path in paths:
            try:
                rules = known_rules(path)
                config = chosen_config(config_file, settings, index_entries, kafka, rules)
                opening = chosen_opening(force=force, rules=rules, **how)
                with named(path), opened(path, config, opening) as log:
                    printer.rolled(roll_active(log), path)
                out.flush()
                say_backup(log)
            except REFUSALS as error:
                out.flush()
                code = refused(error, path)
    return code
