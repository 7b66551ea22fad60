"""The writer of the data source: tasks stage batches, the driver makes logs of them and puts these in their places."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING
from uuid import uuid4

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from kdump.disk.durable import remove_tree
from kdump.formats import names
from kdump.formats.names import parse_partition_dir
from kdump.spark.places import PathError
from kdump.spark.staging import Counts, Staged
from kdump.spark.write_options import WriteOptions
from kdump.storage.directory import LogDirectory

if TYPE_CHECKING:
    import pyarrow as pa


class Written(WriterCommitMessage):
    """What a task has staged: the number of its part of the DataFrame, and its files."""

    def __init__(self, part: int, files: list[Staged]) -> None:
        self.part = part
        self.files = files


class LogWriterOfRows(DataSourceArrowWriter):
    """Writes rows to the partition directories of a log directory."""

    def __init__(self, options: WriteOptions, overwrite: bool) -> None:
        self._options = options
        self._overwrite = overwrite
        self._staging = os.path.join(options.to.path, f".kdump-write-{uuid4().hex[:12]}")
        self._counts = Counts(partition_counts(options.to.path), options.to.partitions, overwrite)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Stage the rows of a task. Raises KdumpError, OSError."""
        from pyspark import TaskContext

        from kdump.spark.staging import Stage

        context = TaskContext.get()
        part, attempt = (context.partitionId(), context.taskAttemptId()) if context else (0, 0)
        folder = os.path.join(self._staging, f"task-{part:06d}-{attempt}")
        return Written(part, Stage(folder, self._options, self._counts).write(iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Append what was staged to logs and put these in their places. Raises KdumpError, OSError."""
        from kdump.spark.commit import Commit

        written = (message for message in messages if isinstance(message, Written))
        files = [file for message in sorted(written, key=lambda each: each.part) for file in message.files]
        try:
            Commit(self._options, self._staging, self._counts, replaces=self._overwrite).run(files)
        finally:
            remove_tree(self._staging, ignore_errors=True)

    def abort(self, _messages: Sequence[WriterCommitMessage | None]) -> None:
        """Remove what was staged."""
        remove_tree(self._staging, ignore_errors=True)


def partition_counts(path: str) -> dict[str, int]:
    """Return the topics in a log directory, and how many partitions each has; none where there is no such directory.

    Raises PathError.
    """
    try:
        found = LogDirectory(path).partition_names
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise PathError(f"{path}: {error.strerror}") from None
    counts: dict[str, int] = {}
    for name in map(parse_partition_dir, found):
        if name.state == names.LIVE:
            counts[name.topic] = max(counts.get(name.topic, 0), name.partition + 1)
    return counts
