"""What `kdump dump` does: file after file, or, with --follow, whatever comes."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

import click

from kdump.errors import KdumpError
from kdump.follow import Follower, Truncated
from kdump.formats import names
from kdump.formats.codecs import DEFAULT_LIMIT
from kdump.records import Batch, batch_at
from kdump.selection import Selection
from kdump.storage.log_directory import LogDirectory
from kdump.storage.partition_log import PartitionLog
from kdump.storage.scan import Damage
from kdump.storage.segment import Segment
from kdump.sweep import Selected, Sweep

from . import exit_codes
from .dump_formats import BATCH_COLUMNS, RECORD_COLUMNS, Format, Origin
from .dump_tables import TABLES, rows_of
from .output import Output, complain, escape_json, safe, safe_path, wants_color
from .paths import KafkaFile, Place, kafka_file, partition_of

POLL_SECONDS = 0.2

CHECKPOINTS = "checkpoints"
INCLUDED = {
    "log": (names.LOG,),
    "index": (names.OFFSET_INDEX,),
    "timeindex": (names.TIME_INDEX,),
    "txnindex": (names.TXN_INDEX,),
    "snapshot": (names.PRODUCER_SNAPSHOT,),
    "kraft-snapshot": (names.KRAFT_SNAPSHOT, names.BOOTSTRAP_CHECKPOINT),
    CHECKPOINTS: (
        *names.OFFSET_CHECKPOINTS,
        names.LEADER_EPOCH_CHECKPOINT,
        names.PARTITION_METADATA,
        names.META_PROPERTIES,
        names.CLEAN_SHUTDOWN,
        names.QUORUM_STATE,
    ),
}
"""The words of --include, and the kinds of files (formats.names) that each stands for."""

_LOGS = (names.LOG, names.KRAFT_SNAPSHOT, names.BOOTSTRAP_CHECKPOINT)


@dataclass(slots=True)
class Options:
    """What the command line asks for. `kinds` are those of formats.names that directories are dumped for."""

    selection: Selection = field(default_factory=Selection)
    kinds: frozenset[str] = frozenset((names.LOG,))
    format: str = "text"
    color: str = "auto"
    full: bool = False
    batches_only: bool = False
    limit: int | None = None
    follow: bool = False
    use_indexes: bool = True
    max_decompressed: int = DEFAULT_LIMIT


Job = Segment | KafkaFile


def dump(places: list[Place], options: Options) -> int:
    """Dump what `places` are, and return the exit code. Raises click.UsageError, FileNotFoundError, OutputError."""
    jobs = [list(_jobs(place, options)) for place in places]
    for place, found in zip(places, jobs, strict=True):
        if not found and not isinstance(place, KafkaFile):
            raise FileNotFoundError(2, f"there is no {_include_text(options.kinds)} in it", safe_path(place.path))
    every = [job for found in jobs for job in found]
    types = {_row_type(job, options) for job in every}
    if options.format == "csv" and len(types) > 1:
        raise click.UsageError(
            f"--format csv prints rows of one kind, and these files have {', '.join(sorted(types))}: dump them one"
            " kind at a time (--include), or with --format jsonl"
        )
    finish = escape_json if options.format == "jsonl" else None
    with Output(finish) as out:
        run = _Dump(out, _format(out, options), options)
        if options.format == "csv":
            out.write(f"{','.join(_columns(types.pop(), options))}\n")
        try:
            if options.follow:
                run.follow(places, jobs)
            else:
                run.jobs(places, jobs)
        except _LimitReached:
            pass
    return run.code
