"""The units of an export: one for every segment that may hold what is wanted."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import NamedTuple
from urllib.parse import quote

from kdump.export.options import ExportOptionError, ExportOptions
from kdump.formats import names
from kdump.storage.partition_log import PartitionLog


class Unit(NamedTuple):
    """A segment to export: its .log, whose it is, and the size (bytes) and time (ns) of the file when it was planned.

    `name` is unique within an export and begins the names of the files that come of it; it does not begin with what
    readers take for hidden, as the names of Kafka's own topics do. `is_last` of the partition's
    last segment, which a broker may have been writing to.
    """

    name: str
    path: str
    topic: str
    partition: int
    is_last: bool
    size: int
    modified: int

    @property
    def source(self) -> dict[str, object]:
        """What tells whether the segment is still the one that was exported."""
        return {"path": os.path.abspath(self.path), "size": self.size, "modified": self.modified}


def units_of(log: PartitionLog, options: ExportOptions) -> Iterator[Unit]:
    """The units of a partition, in order. Raises OSError."""
    folder = os.path.basename(os.path.abspath(log.path))
    topic, partition = (log.name.topic, log.name.partition) if log.name else (folder, -1)
    stem = quote(f"{topic}-{partition}" if log.name else folder, safe="")
    for segment in options.selection.segments(log, use_indexes=options.use_indexes):
        info = os.stat(segment.log_path)
        name = f"part-{stem}-{names.segment_file_name(segment.base_offset, '')}"
        is_last = segment is log.segments[-1]
        yield Unit(name, segment.log_path, topic, partition, is_last, info.st_size, info.st_mtime_ns)


def plan(logs: Iterable[PartitionLog], options: ExportOptions) -> list[Unit]:
    """The units of partitions. Raises OSError, and ExportOptionError where a partition is there twice."""
    units: list[Unit] = []
    places: dict[str, str] = {}
    for log in logs:
        found = list(units_of(log, options))
        for unit in found[:1]:
            key = unit.name.rpartition("-")[0]
            if key in places:
                raise ExportOptionError(
                    f"{places[key]} and {log.path} are the same partition: export them to directories of their own"
                )
            places[key] = log.path
        units += found
    return units
