"""The reader of the data source: the driver plans the tasks, each task reads its ranges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from kdump.spark.bounds import Interval, interval_of
from kdump.spark.options import OptionError, ReadOptions, RowKind
from kdump.spark.places import Partition, find_partitions, reading
from kdump.spark.splits import Range, pack, ranges_of, task_size
from kdump.spark.worker import settle
from kdump.storage.facts import log_end_offset
from kdump.storage.parallel import processors

if TYPE_CHECKING:
    import pyarrow as pa


MAX_TASKS = 100_000


class Task(InputPartition):
    """What one task reads; `value` is a list of plain data."""


class LogReader(DataSourceReader):
    """Reads records, batches, segments or findings of partitions."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """Return the tasks. Raises KdumpError."""
        options = self._options
        if options.kind is RowKind.FINDINGS:
            from kdump.spark.findings import finding_tasks

            return [Task(task) for task in finding_tasks(options, processors())]
        if options.kind is RowKind.SEGMENTS:
            from kdump.spark.segments import segment_tasks

            return [Task(task) for task in segment_tasks(options, processors())]
        if options.task_offsets is not None:
            return [Task(group) for group in small_tasks(options, options.task_offsets)] or [Task([])]
        return [Task(group) for group in tasks_of(planned_ranges(options), options)] or [Task([])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the rows of a task. Raises KdumpError."""
        options = self._options
        if options.kind is RowKind.FINDINGS:
            from kdump.spark.findings import read_findings

            return read_findings(partition.value, options)
        if options.kind is RowKind.SEGMENTS:
            from kdump.spark.segments import read_segments

            return read_segments(partition.value, options)
        from kdump.spark.tables import read_ranges

        settle()
        return read_ranges(partition.value, options)


def planned_ranges(options: ReadOptions) -> list[Range]:
    """Return what has to be read of all partitions. Raises KdumpError."""
    ranges: list[Range] = []
    for partition in find_partitions(options):
        with reading(partition.log):
            ranges += ranges_of(partition, interval_of(partition, options))
    return ranges


def small_tasks(options: ReadOptions, most: int) -> Iterator[list[Range]]:
    """Yield tasks of at most so many offsets of one partition each. Raises KdumpError."""
    for partition in find_partitions(options):
        with reading(partition.log):
            yield from offset_tasks(partition, interval_of(partition, options), most)


def offset_tasks(partition: Partition, interval: Interval, most: int) -> Iterator[list[Range]]:
    """Yield the ranges of an interval in tasks of at most `most` offsets, all of about the same number of them.

    As Spark's Kafka source does it with maxRecordsPerPartition (KafkaOffsetRangeCalculator). Raises OSError,
    OptionError for more tasks than anybody can want.
    """
    segments = partition.log.segments
    start = max(interval.start or 0, segments[0].base_offset if segments else 0)
    end = log_end_offset(partition.log)
    stop = end if interval.stop is None else min(interval.stop, end)
    parts = -(-(stop - start) // most)
    if parts > MAX_TASKS:
        raise OptionError(f"maxRecordsPerPartition {most} would make {parts} tasks of {partition.log.path}")
    for number in range(parts):
        first, last = (start + (stop - start) * each // parts for each in (number, number + 1))
        # what follows the last record is looked at too: it may be damage
        is_last = number == parts - 1 and interval.stop is None
        ranges = list(ranges_of(partition, Interval(first, None if is_last else last)))
        if ranges:
            yield ranges


def tasks_of(ranges: list[Range], options: ReadOptions) -> Iterator[list[Range]]:
    """Return the ranges packed into tasks."""
    total = sum(each.size for each in ranges)
    decodes = options.kind is not RowKind.BATCHES
    return pack(ranges, task_size(total, processors(), options.min_partitions, decodes=decodes))
