"""Which rows `kdump dump --format csv` prints: all of one kind, below a line with the names of their values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import click

from kdump.interchange.fields import BATCH_COLUMNS, RECORD_COLUMNS, SCHEMA_COLUMNS
from kdump.interchange.rows import Table
from kdump.operations.dump_jobs import LOGS, DumpRequest, Job
from kdump.storage.open import KafkaFile


def check_one_kind(jobs: Iterable[Job], request: DumpRequest) -> None:
    """Raise click.UsageError where the rows of jobs are of several kinds."""
    types = {_row_type(job, request) for job in jobs}
    if len(types) > 1:
        raise click.UsageError(
            f"--format csv prints rows of one kind, and these files have {', '.join(sorted(types))}: dump them one"
            " kind at a time, or with --format jsonl"
        )


def _row_type(job: Job, request: DumpRequest) -> str:
    """Return what a row of it is called."""
    table = _table_of(job)
    if table is None:
        return "batch" if request.batches_only else "record"
    return table.type


def columns(jobs: Sequence[Job], request: DumpRequest, *, has_schemas: bool = False) -> tuple[str, ...]:
    """Return the names of the values in the rows of jobs of one kind, with `has_schemas` those of decoded records."""
    table = _table_of(jobs[0]) if jobs else None
    if table is None:
        if request.batches_only:
            return BATCH_COLUMNS
        at = RECORD_COLUMNS.index("headers") + 1
        return (*RECORD_COLUMNS[:at], *(SCHEMA_COLUMNS if has_schemas else ()), *RECORD_COLUMNS[at:])
    return table.all_columns()


def _table_of(job: Job) -> Table | None:
    """Return the table that it is dumped as; None for logs."""
    if not isinstance(job, KafkaFile) or job.name.kind in LOGS:
        return None
    from kdump.interchange.file_rows import TABLES

    return TABLES[job.name.kind]
