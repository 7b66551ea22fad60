"""What `kdump dump` is asked for, and the rows that its answer has."""

from __future__ import annotations

from kdump.formats.printable import safe_path
from kdump.interchange.fields import BATCH_COLUMNS, RECORD_COLUMNS, SCHEMA_COLUMNS
from kdump.interchange.rows import Table
from kdump.named_tuples import NamedTuple
from kdump.operations.dump import INCLUDED, LOGS, DumpRequest, Job
from kdump.storage.open import KafkaFile, Place
from kdump.storage.partition import PartitionLog

from ..shell.rows import OutputFormat


class Options(NamedTuple):
    """What is dumped, and how it is printed."""

    request: DumpRequest = DumpRequest()
    format: OutputFormat = OutputFormat.TEXT
    color: str = "auto"
    full: bool = False
    schemas: str | None = None


def nothing_in(place: Place, request: DumpRequest) -> str:
    """Return that a place that can be read has nothing to dump; safe to print."""
    words = " or ".join(word for word, kinds in INCLUDED.items() if request.kinds.intersection(kinds))
    text = f"{safe_path(place.path)}: there is nothing to dump in it ({words})"
    if isinstance(place, PartitionLog) and any(parsed.state for parsed in place.files.values()):
        text += "; files that a broker removes at its start (.deleted, .cleaned) are dumped when they are named"
    return text


def row_type(job: Job, request: DumpRequest) -> str:
    """Return what a row of it is called."""
    table = table_of(job)
    if table is None:
        return "batch" if request.batches_only else "record"
    return table.type


def columns(jobs: list[Job], request: DumpRequest, *, schemas: bool = False) -> tuple[str, ...]:
    """Return the names of the values in the rows of jobs of one kind, with `schemas` those of decoded records."""
    table = table_of(jobs[0]) if jobs else None
    if table is None:
        if request.batches_only:
            return BATCH_COLUMNS
        at = RECORD_COLUMNS.index("headers") + 1
        return (*RECORD_COLUMNS[:at], *(SCHEMA_COLUMNS if schemas else ()), *RECORD_COLUMNS[at:])
    return table.all_columns()


def table_of(job: Job) -> Table | None:
    """Return the table that it is dumped as; None for logs."""
    if not isinstance(job, KafkaFile) or job.name.kind in LOGS:
        return None
    from kdump.interchange.file_rows import TABLES

    return TABLES[job.name.kind]
