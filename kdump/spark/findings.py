"""Rows of kind=findings: what `kdump verify` finds, each task verifying some of the partitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from kdump.check.options import Options
from kdump.check.run import Verification
from kdump.check.work import PartitionRange
from kdump.columns.names import utf8
from kdump.findings.finding import Finding
from kdump.spark.arrow_types import arrow_type
from kdump.spark.options import OptionError, ReadOptions, RowKind
from kdump.spark.places import directory_at, expand, find_partitions
from kdump.spark.schema import COLUMNS, column_names
from kdump.spark.shares import partition_sizes, shares
from kdump.spark.splits import FILE_COST, task_size

PIECE = 4096
ORDER_BITS = 40
"""Findings of one task have numbers of so many bits, before which stands the task's."""

Job = tuple[int, list[str], PartitionRange]
"""A task: its number, the paths of the whole, and its share of them."""


def finding_tasks(options: ReadOptions, cores: int) -> list[Job]:
    """Return the tasks of a verification. Raises KdumpError."""
    verify_options(options)
    if options.chooses:
        paths = [partition.log.path for partition in find_partitions(options)]
    else:
        paths = list(expand(options.paths))
    sizes = [size for path in paths for size in partition_sizes(directory_at(path), FILE_COST)]
    most = task_size(sum(sizes), cores, options.min_partitions, decodes=options.deep)
    return [(number, paths, share) for number, share in enumerate(shares(sizes, most))]


def read_findings(job: Job, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """Yield the findings of a task."""
    number, paths, share = job
    columns = column_names(options)
    first = number << ORDER_BITS
    rows: list[tuple[object, ...]] = []
    for at, finding in enumerate(Verification(verify_options(options), share=share).run(paths), first):
        rows.append(_row(finding, at))
        if len(rows) == PIECE:
            yield _batch(rows, columns)
            rows = []
    if rows:
        yield _batch(rows, columns)


def verify_options(options: ReadOptions) -> Options:
    """Return how to verify. Raises OptionError."""
    found = Options(
        deep=options.deep,
        now=options.now,
        retention_ms=options.retention_ms,
        limit=options.limit,
        select=options.select,
        ignore=options.ignore,
        severities=options.severities,
    )
    try:
        found.check()
    except ValueError as error:
        raise OptionError(str(error)) from None
    return found


def _row(finding: Finding, number: int) -> tuple[object, ...]:
    code, severity, path, position, offset, message = finding[:6]
    return code, severity, path, position, offset, message, finding.broker, finding.repair, number


def _batch(rows: Sequence[tuple[object, ...]], columns: tuple[str, ...]) -> pa.RecordBatch:
    known = COLUMNS[RowKind.FINDINGS]
    by_name = dict(zip(known, zip(*rows, strict=True), strict=True))
    arrays = [pa.array(map(_text, by_name[name]), arrow_type(known[name].ddl)) for name in columns]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _text(value: object) -> object:
    return utf8(value) if isinstance(value, str) else value
