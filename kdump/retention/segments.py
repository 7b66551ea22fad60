"""The segments of a partition as retention sees them: what is in use, the largest timestamp and where it comes from.

A broker that has just opened a segment knows its largest timestamp from the last entry of the time index alone, and
takes the time of the .log file where there is none. Segments that it recovers when it starts get a new time index, so
for those the batches count.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import NamedTuple

from kdump.disk.reading import status_of
from kdump.errors import KdumpError
from kdump.formats import names
from kdump.formats.names import parse_file_name, segment_file_name
from kdump.storage.damage import Damage
from kdump.storage.facts import SegmentFacts, segment_facts, segment_info
from kdump.storage.partition import PartitionLog
from kdump.storage.segment import Segment
from kdump.storage.timestamps import TimestampRule, TimestampSource


class FileSize(NamedTuple):
    """A file of a partition directory and its length in bytes."""

    name: str
    size: int


class Shutdown(NamedTuple):
    """How the broker stopped: in order or not, and below which absolute offset everything was on the disk then."""

    clean: bool
    recovery_point: int = 0

    def recovers(self, segment: Segment, end_offset: int) -> bool:
        """Return whether a broker that starts reads the whole segment again, whose offsets end before `end_offset`."""
        if not segment.has(names.OFFSET_INDEX):
            return True
        return not self.clean and end_offset > self.recovery_point


@dataclass(frozen=True)
class SegmentState(SegmentFacts):
    """What retention knows of a segment besides.

    `largest_timestamp` (ms) is the one that it goes by; `source` says where it comes from. `files` are those that go
    with the segment. `damage` is the first place where a broker that starts would cut the .log, None where it would not
    look or finds nothing.
    """

    largest_timestamp: int = -1
    source: TimestampSource = TimestampSource.MTIME
    files: tuple[FileSize, ...] = ()
    damage: Damage | None = None

    @property
    def space(self) -> int:
        """The length of all its files."""
        return sum(file.size for file in self.files)

    @property
    def preallocated(self) -> int:
        """The length of its indexes that no log of its size can fill: they are cut at the broker's next start."""
        kinds = {file.name: parse_file_name(file.name).kind for file in self.files}
        log = sum(file.size for file in self.files if kinds[file.name] == names.LOG)
        return sum(file.size for file in self.files if kinds[file.name] in names.INDEX_KINDS and file.size > log)


def segment_states(log: PartitionLog, shutdown: Shutdown) -> tuple[SegmentState, ...]:
    """Return the segments of a log that a broker serves, by base offset. Raises OSError, KdumpError."""
    if not log.segments:
        return ()
    info = segment_info(log.segments[-1])
    if info.error:
        raise info.error
    if info.end_offset is None:
        raise KdumpError(f"{info.path}: the log end offset is not known: verify the log first")
    return tuple(_state(log, each, shutdown) for each in segment_facts(log, info.end_offset, info.used_size))


def _state(log: PartitionLog, facts: SegmentFacts, shutdown: Shutdown) -> SegmentState:
    is_read_again = shutdown.recovers(facts.segment, facts.end_offset)
    found = facts.largest(TimestampRule.SCANNED if is_read_again else TimestampRule.AS_STORED)
    return SegmentState(
        facts.segment,
        facts.end_offset,
        facts.size,
        facts.modified,
        facts.is_last,
        found.timestamp,
        found.source,
        _files(log, facts.segment),
        found.damage,
    )


def _files(log: PartitionLog, segment: Segment) -> tuple[FileSize, ...]:
    """Return the files that are removed with the segment: its own, and the producer snapshot of its base offset."""
    own = (segment_file_name(segment.base_offset, f".{kind}") for kind in names.SEGMENT_KINDS)
    return tuple(FileSize(name, status_of(os.path.join(log.path, name)).size) for name in own if name in log.files)
