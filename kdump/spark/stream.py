"""The streaming reader: partitions that grow, with offsets as Spark's own Kafka source has them in its checkpoints.

An offset of the stream is {"topic": {"partition": the next absolute offset to be read}}. Everything is looked up again
for each micro-batch, so segments may be rolled, deleted and created between them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from kdump.spark.bounds import Interval, interval_of
from kdump.spark.options import ReadOptions
from kdump.spark.places import Partition, find_partitions, reading
from kdump.spark.reader import Task, offset_tasks, tasks_of
from kdump.spark.splits import Range, ranges_of
from kdump.spark.tables import DataLossError
from kdump.spark.worker import settle
from kdump.storage.facts import log_end_offset
from kdump.txns.isolation_level import Isolation
from kdump.txns.states import TransactionStates

if TYPE_CHECKING:
    import pyarrow as pa

    from kdump.storage.partition import PartitionLog

Offsets = dict[str, dict[str, int]]
Key = tuple[str, int]


class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the records that are appended to partitions."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._target: dict[Key, int] | None = None
        self._latest: dict[Key, int] = {}
        self._last: float | None = None  # when a micro-batch was last begun
        self._ends: dict[str, tuple[str, int, int]] = {}  # by partition: its last segment, that one's size, end offset

    def initialOffset(self) -> dict[str, Any]:
        """Return where a new query begins. Raises KdumpError."""
        starts = {}
        for key, partition in self._partitions().items():
            with reading(partition.log):
                start = interval_of(partition, self._options).start
            starts[key] = _log_start(partition) if start is None else start
        return _json(starts)

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return maxOffsetsPerTrigger, if it is given."""
        most = self._options.max_offsets
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:
        """Let the query read what is there now. Raises KdumpError."""
        self._target = {key: self._end(partition) for key, partition in self._partitions().items()}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return how far the next micro-batch goes. Raises KdumpError; DataLossError where a partition is gone."""
        partitions = self._partitions()
        begins = _keys(start)
        self._check_gone(begins, partitions)
        self._latest = {key: self._end(partition) for key, partition in partitions.items()}
        ends = dict(begins)
        for key, partition in partitions.items():
            end = self._latest[key]
            if self._target is not None:
                if key not in begins and key not in self._target:
                    continue  # it appeared after the query began
                end = min(end, self._target.get(key, end))
            begins.setdefault(key, _log_start(partition))
            ends[key] = max(end, begins[key])
        if self._is_too_early(begins, ends):
            return start
        if isinstance(limit, ReadMaxRows):
            ends = limited(begins, ends, limit.max_rows)
        return _json(ends)

    def _is_too_early(self, begins: dict[Key, int], ends: dict[Key, int]) -> bool:
        """Return whether to wait for more offsets: minOffsetsPerTrigger, for no longer than maxTriggerDelay."""
        least = self._options.min_offsets
        if least is None or self._target is not None:
            return False
        now = time.monotonic()
        is_late = self._last is None or (now - self._last) * 1000 >= self._options.max_delay_ms
        if not is_late and sum(end - begins.get(key, end) for key, end in ends.items()) < least:
            return True
        self._last = now
        return False

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return the ends of the partitions as they were last looked at."""
        return _json(self._latest) if self._latest else None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the tasks of a micro-batch. Raises KdumpError; DataLossError where records are not there any more."""
        partitions = self._partitions()
        begins, ends = _keys(start), _keys(end)
        self._check_gone({key: offset for key, offset in ends.items() if offset > begins.get(key, -1)}, partitions)
        ranges: list[Range] = []
        small: list[list[Range]] = []
        for key, partition in partitions.items():
            first = _log_start(partition)
            interval = Interval(begins.get(key, first), ends.get(key, 0))
            if interval.is_empty:
                continue
            if self._options.fails and interval.start is not None and interval.start < first:
                raise DataLossError(
                    f"{partition.log.path}: offsets {interval.start} to {first - 1} are not there any more"
                    " (failOnDataLoss=false continues after them)"
                )
            most = self._options.task_offsets
            with reading(partition.log):
                if most is None:
                    ranges += ranges_of(partition, interval)
                else:
                    small += offset_tasks(partition, interval, most)
        return [Task(group) for group in (*small, *tasks_of(ranges, self._options))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the rows of a task. Raises KdumpError."""
        from kdump.spark.tables import read_ranges

        settle()
        return read_ranges(partition.value, self._options)

    def _partitions(self) -> dict[Key, Partition]:
        return {
            (partition.topic, partition.number): partition
            for partition in find_partitions(self._options)
            if partition.topic is not None and partition.number is not None
        }

    def _end(self, partition: Partition) -> int:
        """Return the end offset of a partition; known already if its last segment has not grown."""
        log = partition.log
        if not log.segments:
            return _log_start(partition)
        path = log.segments[-1].log_path
        try:
            size = os.path.getsize(path)
        except OSError:
            size = -1
        known = self._ends.get(log.path)
        if known is None or known[:2] != (path, size):
            known = self._ends[log.path] = (path, size, self._readable_end(log))
        return known[2]

    def _readable_end(self, log: PartitionLog) -> int:
        """Return the log end offset, or the last stable one: what an open transaction holds comes in a later batch."""
        with reading(log):
            if self._options.isolation is Isolation.READ_COMMITTED:
                return TransactionStates(log).last_stable_offset()
            return log_end_offset(log)

    def _check_gone(self, wanted: dict[Key, int], partitions: dict[Key, Partition]) -> None:
        gone = [f"{topic}-{number}" for topic, number in wanted if (topic, number) not in partitions]
        if gone and self._options.fails:
            raise DataLossError(
                f"partitions that the query has read are not there any more: {', '.join(gone)}"
                " (failOnDataLoss=false continues without them)"
            )


def limited(begins: dict[Key, int], ends: dict[Key, int], most: int) -> dict[Key, int]:
    """Return the ends brought nearer so that about `most` offsets are left, each partition giving up the same share."""
    sizes = {key: end - begins.get(key, end) for key, end in ends.items()}
    total = sum(sizes.values())
    if total <= most:
        return ends
    left = {}
    for key, size in sizes.items():
        share = size * most / total
        # a partition that has anything goes on by one offset at least
        left[key] = ends[key] - size + min(size, max(1, int(share)) if size else 0)
    return left


def _log_start(partition: Partition) -> int:
    segments = partition.log.segments
    return segments[0].base_offset if segments else 0


def _json(offsets: dict[Key, int]) -> Offsets:
    found: Offsets = {}
    for (topic, number), offset in sorted(offsets.items()):
        found.setdefault(topic, {})[str(number)] = offset
    return found


def _keys(offsets: dict[str, Any]) -> dict[Key, int]:
    return {
        (topic, int(number)): offset for topic, numbers in offsets.items() for number, offset in numbers.items()
    }
