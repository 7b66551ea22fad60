"""What `kdump dump` is asked to dump: the options, and the logs and other files that the PATHs come down to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

import click

from kdump.formats import names
from kdump.formats.codecs import DEFAULT_LIMIT
from kdump.formats.names import FileName, PartitionDirName
from kdump.formats.printable import safe_path
from kdump.interchange.fields import BATCH_COLUMNS, RECORD_COLUMNS, SCHEMA_COLUMNS
from kdump.interchange.rows import Table
from kdump.named_tuples import NamedTuple
from kdump.query.selection import Selection
from kdump.storage.around import directory_around
from kdump.storage.live import opened
from kdump.storage.partition import PartitionLog
from kdump.transactions.isolation_level import Isolation

from ..shell.paths import KafkaFile, Place
from .lone import LoneLog

if TYPE_CHECKING:
    from kdump.change.kept import KeptPiece

INCLUDED = {
    "log": (names.LOG,),
    "index": (names.OFFSET_INDEX,),
    "timeindex": (names.TIME_INDEX,),
    "txnindex": (names.TXN_INDEX,),
    "snapshot": (names.PRODUCER_SNAPSHOT,),
    "kraft-snapshot": (names.KRAFT_SNAPSHOT, names.BOOTSTRAP_CHECKPOINT),
    "checkpoints": (
        *names.OFFSET_CHECKPOINTS,
        names.LEADER_EPOCH_CHECKPOINT,
        names.PARTITION_METADATA,
        names.META_PROPERTIES,
        names.CLEAN_SHUTDOWN,
        names.QUORUM_STATE,
    ),
}
"""The words of --include, and the kinds of files (formats.names) that each stands for."""

LOGS = (names.LOG, names.KRAFT_SNAPSHOT, names.BOOTSTRAP_CHECKPOINT)


class Options(NamedTuple):
    """What the command line asks for. `kinds` are those of formats.names that directories are dumped for."""

    selection: Selection = Selection()
    kinds: frozenset[str] = frozenset((names.LOG,))
    format: str = "text"
    color: str = "auto"
    full: bool = False
    isolation: Isolation = Isolation.READ_UNCOMMITTED
    raw: bool = False
    schemas: str | None = None
    batches_only: bool = False
    limit: int | None = None
    follow: bool = False
    use_indexes: bool = True
    include_damaged: bool = False
    kept: bool = False
    tail: int | None = None
    max_decompressed: int = DEFAULT_LIMIT


Job: TypeAlias = "PartitionLog | KafkaFile | KeptPiece | LoneLog"
"""A partition directory stands for its live segments; a file is a log or a table."""


def jobs_of(place: Place, options: Options, unreadable: list[tuple[str, OSError]]) -> list[Job]:
    """Return what is to be dumped of a place; partitions that cannot be listed go into `unreadable`.

    Raises FileNotFoundError where --kept is given and nothing is kept.
    """
    return _kept(place, unreadable) if options.kept else list(_jobs(place, options, unreadable))


def nothing_in(place: Place, options: Options) -> str:
    """Return that a place that can be read has nothing to dump; safe to print."""
    words = " or ".join(word for word, kinds in INCLUDED.items() if options.kinds.intersection(kinds))
    text = f"{safe_path(place.path)}: there is nothing to dump in it ({words})"
    if isinstance(place, PartitionLog) and any(parsed.state for parsed in place.files.values()):
        text += "; files that a broker removes at its start (.deleted, .cleaned) are dumped when they are named"
    return text


def _kept(place: Place, unreadable: list[tuple[str, OSError]]) -> list[Job]:
    """Return what changes keep of a partition's logs, or of those of all partitions that are or were in a log
    directory.

    Raises click.UsageError for a file, FileNotFoundError where nothing is kept.
    """
    if isinstance(place, KafkaFile):
        raise click.UsageError(f"--kept shows what changes keep of directories, and {safe_path(place.path)} is a file")
    from kdump.change.change import Change
    from kdump.change.journal import Changes, changes_of
    from kdump.change.kept import kept_pieces

    changes: list[Change] = []
    found: Changes | None = None
    try:
        if isinstance(place, PartitionLog):
            changes = changes_of(place.path)
        else:
            found = Changes(place.path)
            changes = found.all()
    except OSError as error:
        unreadable.append((place.path, error))
    folder = directory_around(place.path) if isinstance(place, PartitionLog) else place.path
    jobs: list[Job] = [_as_given(piece, folder) for change in changes for piece in kept_pieces(change)]
    unreadable += [(place.path, OSError(0, str(error))) for error in (found.unreadable if found else ())]
    if not jobs and not unreadable:
        raise FileNotFoundError(2, "no change keeps anything of its logs", place.path)
    return jobs


def _as_given(piece: KeptPiece, folder: str) -> KeptPiece:
    """Return a piece with its path as that of its log directory is given."""
    root = os.path.abspath(folder) + os.sep
    return piece._replace(path=os.path.join(folder, piece.path[len(root) :])) if piece.path.startswith(root) else piece


def _jobs(place: Place, options: Options, unreadable: list[tuple[str, OSError]]) -> Iterator[Job]:
    if isinstance(place, KafkaFile):
        yield place
        return
    if isinstance(place, PartitionLog):
        if names.LOG in options.kinds and (place.segments or options.follow):
            yield place
        yield from _files(place.path, place.files, place.name, options)
        return
    yield from _files(place.path, {name: names.parse_file_name(name) for name in place.files}, None, options)
    for name in place.partition_names:
        path = os.path.join(place.path, name)
        try:
            partition = opened(path)
        except OSError as error:
            unreadable.append((path, error))
            continue
        if partition is not None:
            yield from _jobs(partition, options, unreadable)


def _files(
    folder: str, files: dict[str, FileName], partition: PartitionDirName | None, options: Options
) -> Iterator[KafkaFile]:
    """Yield the files of a directory that are not part of its log; a .log without a base offset is one."""
    for name, parsed in files.items():
        is_asked = parsed.kind in options.kinds and parsed.state == names.LIVE
        if is_asked and (parsed.kind != names.LOG or parsed.offset is None):
            yield KafkaFile(os.path.join(folder, name), parsed, partition)


def row_type(job: Job, options: Options) -> str:
    """Return what a row of it is called."""
    table = table_of(job)
    if table is None:
        return "batch" if options.batches_only else "record"
    return table.type


def columns(jobs: list[Job], options: Options, *, schemas: bool = False) -> tuple[str, ...]:
    """Return the names of the values in the rows of jobs of one kind, with `schemas` those of decoded records."""
    table = table_of(jobs[0]) if jobs else None
    if table is None:
        if options.batches_only:
            return BATCH_COLUMNS
        at = RECORD_COLUMNS.index("headers") + 1
        return (*RECORD_COLUMNS[:at], *(SCHEMA_COLUMNS if schemas else ()), *RECORD_COLUMNS[at:])
    return table.all_columns()


def table_of(job: Job) -> Table | None:
    """Return the table that it is dumped as; None for logs."""
    if not isinstance(job, KafkaFile) or job.name.kind in LOGS:
        return None
    from .tables import TABLES

    return TABLES[job.name.kind]
