"""`kdump metadata`: the cluster that __cluster_metadata describes."""

from __future__ import annotations

import click

from kdump.errors import KdumpError
from kdump.formats import names
from kdump.formats.printable import safe, safe_path
from kdump.operations.choice import chooses
from kdump.storage.open import KafkaFile
from kdump.storage.partition import PartitionLog
from kdump.topics.metadata_log import MetadataState, state_in, state_of_snapshot

from ..shell.choice import has_partition
from ..shell.completing import topics_of_paths
from ..shell.paths import expand
from ..shell.rows import OutputFormat, format_option, json_line, output_for
from ..shell.screen import Screen
from ..shell.session import Diagnostics
from .jsonl import rows_of
from .text import text_lines


@click.command("metadata")
@click.argument("path", metavar="PATH")
@click.option("--at", type=click.IntRange(min=0), metavar="OFFSET",
    help="The state right after the record with this offset.")
@click.option("--topic", "patterns", multiple=True, metavar="GLOB", shell_complete=topics_of_paths,
    help="Only topics whose name matches, with their partitions and configurations. May be repeated.")
@format_option
def command(path: str, at: int | None, patterns: tuple[str, ...], format_: OutputFormat) -> int:
    """Show a KRaft cluster's state: topics, partitions, brokers, configurations, access.

    PATH is the directory __cluster_metadata-0, the log directory around it, or a .checkpoint file. The state is that of
    the newest valid snapshot and the log's records after it; records of a metadata transaction count when it ends. For
    a cluster that has never run, kdump shows its bootstrap.checkpoint.

    kdump prints no secrets: of SCRAM credentials the sizes of salt and keys, of passwords in configurations their
    length. Of more than 40 objects of a kind it shows only partitions with notes, or the first 10; -v shows all.

    Exits with 1 when data is damaged, or a record does not fit the state before it.

    \b
    Examples:
      kdump metadata /data/kafka-logs
      kdump metadata /data/__cluster_metadata-0 --at 1234567 --topic 'orders*'
      kdump metadata 00000000000001234567-0000000042.checkpoint --format jsonl
    """
    diagnostics = Diagnostics()
    state = _state(path, at, diagnostics)
    if state is None:
        return diagnostics.code
    rows = list(rows_of(state, chooses(patterns), has_partition, only_topics=bool(patterns)))
    if patterns and not any(row.type == "topic" for row in rows):
        raise KdumpError(f"no topic matches {', '.join(map(safe, patterns))}")
    is_all = Screen.current.verbosity > 0
    with output_for(format_) as out:
        lines = (json_line(row.type, row.fields) for row in rows)
        for line in lines if format_ is OutputFormat.JSONL else text_lines(rows, is_all=is_all):
            out.write(line)
    return diagnostics.code


def _state(path: str, at: int | None, diagnostics: Diagnostics) -> MetadataState | None:
    places = expand([path])
    if len(places) > 1:
        raise click.UsageError("expected one PATH: the state is that of one log")
    place = places[0]
    if isinstance(place, KafkaFile):
        if at is not None:
            raise click.UsageError("--at needs the directory: a snapshot has one state only")
        if place.name.kind not in names.METADATA_SNAPSHOT_KINDS:
            raise click.UsageError(f"{safe_path(path)}: expected a .checkpoint file or a directory")
        return state_of_snapshot(place.path, diagnostics)
    if isinstance(place, PartitionLog) and place.name and place.name.topic != names.CLUSTER_METADATA_TOPIC:
        raise KdumpError(f"{safe_path(place.path)}: not a directory of {names.CLUSTER_METADATA_TOPIC}")
    return state_in(place, diagnostics, at)
