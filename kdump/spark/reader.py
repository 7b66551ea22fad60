"""The reader of the data source: the driver plans the tasks, each task reads its ranges."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from kdump.spark.bounds import interval_of
from kdump.spark.options import BATCHES, FINDINGS, SEGMENTS, ReadOptions
from kdump.spark.places import find_partitions, reading
from kdump.spark.splits import Range, pack, ranges_of, task_size
from kdump.spark.worker import settle

if TYPE_CHECKING:
    import pyarrow as pa


class Task(InputPartition):
    """What one task reads; `value` is a list of plain data."""


class LogReader(DataSourceReader):
    """Reads records, batches, segments or findings of partitions."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """The tasks. Raises KdumpError."""
        options = self._options
        if options.kind == FINDINGS:
            from kdump.spark.findings import finding_tasks

            return [Task(task) for task in finding_tasks(options, _cores())]
        if options.kind == SEGMENTS:
            from kdump.spark.segments import segment_tasks

            return [Task(task) for task in segment_tasks(options, _cores())]
        ranges = planned_ranges(options)
        return [Task(group) for group in tasks_of(ranges, options)] or [Task([])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task. Raises KdumpError."""
        options = self._options
        if options.kind == FINDINGS:
            from kdump.spark.findings import read_findings

            return read_findings(partition.value, options)
        if options.kind == SEGMENTS:
            from kdump.spark.segments import read_segments

            return read_segments(partition.value, options)
        from kdump.spark.tables import read_ranges

        settle()
        return read_ranges(partition.value, options)


def planned_ranges(options: ReadOptions) -> list[Range]:
    """What has to be read of all partitions. Raises KdumpError."""
    ranges: list[Range] = []
    for partition in find_partitions(options):
        with reading(partition.log):
            ranges += ranges_of(partition, interval_of(partition, options))
    return ranges


def tasks_of(ranges: list[Range], options: ReadOptions) -> Iterator[list[Range]]:
    """The ranges packed into tasks."""
    total = sum(each.size for each in ranges)
    return pack(ranges, task_size(total, _cores(), options.min_partitions, decodes=options.kind != BATCHES))


def _cores() -> int:
    return os.cpu_count() or 1
