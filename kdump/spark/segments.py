"""Rows of kind=segments: one for each segment, with what a look at its ends and its indexes tells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from kdump.columns.arrays import MICROSECONDS, timestamps
from kdump.columns.names import utf8
from kdump.query.selection import Selection
from kdump.spark.arrow_types import arrow_type
from kdump.spark.bounds import interval_of
from kdump.spark.options import ReadOptions, RowKind
from kdump.spark.places import find_partitions, reading
from kdump.spark.schema import COLUMNS, column_names
from kdump.spark.tables import DataLossError
from kdump.storage.facts import segment_info
from kdump.storage.segment import Segment

_COLUMNS = COLUMNS[RowKind.SEGMENTS]
SEGMENTS_PER_TASK = 256
PIECE = 1024

Job = tuple[str, str | None, int | None, bool]
"""A segment to look into: its .log, topic and partition, and whether it is the partition's last one."""


def segment_tasks(options: ReadOptions, cores: int) -> list[list[Job]]:
    """Return the segments that may hold what is wanted, in groups. Raises KdumpError."""
    jobs: list[Job] = []
    for partition in find_partitions(options):
        log = partition.log
        with reading(log):
            interval = interval_of(partition, options)
            if interval.is_empty or not log.segments:
                continue
            for segment in Selection(start_offset=interval.start, stop_offset=interval.stop).segments(log):
                jobs.append((segment.log_path, partition.topic, partition.number, segment is log.segments[-1]))
    size = max(1, min(SEGMENTS_PER_TASK, -(-len(jobs) // max(cores, options.min_partitions or 1))))
    return [jobs[at : at + size] for at in range(0, len(jobs), size)] or [[]]


def read_segments(jobs: Sequence[Job], options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """Yield a row for each segment. Raises DataLossError for one that cannot be read, unless options say to go on."""
    names = column_names(options)
    for at in range(0, len(jobs), PIECE):
        rows = [_row(job, options) for job in jobs[at : at + PIECE]]
        yield pa.RecordBatch.from_arrays([_column(name, rows) for name in names], names=list(names))


def _column(name: str, rows: list[dict[str, object]]) -> pa.Array:
    values = [row[name] for row in rows]
    kind = arrow_type(_COLUMNS[name].ddl)
    if kind == MICROSECONDS:
        return timestamps(pa.array(values, pa.int64()), MICROSECONDS)
    return pa.array(values, kind)


def _row(job: Job, options: ReadOptions) -> dict[str, object]:
    path, topic, number, is_last = job
    info = segment_info(Segment(path), count=options.deep, is_last=is_last)
    if info.error is not None and options.fails:
        raise DataLossError(f"{path}: {info.error.strerror} (failOnDataLoss=false gives the row without its facts)")
    indexes = {"offset": info.offset_index, "time": info.time_index, "txn": info.txn_index}
    return {
        "topic": topic,
        "partition": number,
        "path": utf8(path),
        **{name: getattr(info, column.field) for name, column in _COLUMNS.items() if column.field},
        **{f"{kind}IndexEntries": index.entries if index else None for kind, index in indexes.items()},
        "damaged": len(info.damage),
    }
