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
from kdump.formats.names import segment_file_name
from kdump.retention.policy import Candidate
from kdump.storage.damage import Damage, is_zero_tail
from kdump.storage.facts import segment_info, stored_timestamp
from kdump.storage.partition import PartitionLog
from kdump.storage.scan import scan
from kdump.storage.segment import Segment

TIME_INDEX, BATCHES, MTIME = "timeindex", "batches", "mtime"
"""Where a largest timestamp comes from."""


class FileSize(NamedTuple):
    """A file of a partition directory and its length in bytes."""

    name: str
    size: int


class Shutdown(NamedTuple):
    """How the broker stopped: in order or not, and below which absolute offset everything was on the disk then."""

    clean: bool
    recovery_point: int = 0

    def recovers(self, segment: Segment, upper_bound: int) -> bool:
        """Whether a broker that starts reads the whole segment, whose offsets end before `upper_bound`, anew."""
        if not segment.has(names.OFFSET_INDEX):
            return True
        return not self.clean and upper_bound > self.recovery_point


@dataclass(frozen=True, slots=True)
class SegmentState:
    """One segment. Offsets are absolute, times in ms, sizes in bytes.

    `largest_timestamp` is the one that retention goes by; `source` says where it comes from. `modified` is the time of
    the .log file. `files` are those that go with the segment. `damage` is the first place where a broker that starts
    would cut the .log, None where it would not look or finds nothing.
    """

    segment: Segment
    candidate: Candidate
    source: str
    modified: int
    files: tuple[FileSize, ...]
    damage: Damage | None = None

    @property
    def base_offset(self) -> int:
        """The offset in its name."""
        return self.candidate.base_offset

    @property
    def upper_bound(self) -> int:
        """The first offset behind it: the next segment's base, or the log end offset."""
        return self.candidate.upper_bound

    @property
    def size(self) -> int:
        """The bytes of the .log that a broker counts."""
        return self.candidate.size

    @property
    def largest_timestamp(self) -> int:
        """What retention goes by."""
        return self.candidate.largest_timestamp

    @property
    def space(self) -> int:
        """The length of all its files."""
        return sum(file.size for file in self.files)


def segment_states(log: PartitionLog, shutdown: Shutdown) -> tuple[SegmentState, ...]:
    """The segments of a log that a broker serves, by base offset. Raises OSError, KdumpError."""
    segments = log.segments
    if not segments:
        return ()
    ends = [segment.base_offset for segment in segments[1:]]
    info = segment_info(segments[-1])
    if info.error:
        raise info.error
    if info.end_offset is None:
        raise KdumpError(f"{segments[-1].log_path}: the log end offset is not known: verify the log first")
    ends.append(info.end_offset)
    used = info.size if info.used_size is None else info.used_size
    return tuple(
        _state(log, segment, upper_bound, shutdown, used if segment is segments[-1] else None)
        for segment, upper_bound in zip(segments, ends, strict=True)
    )


def _state(
    log: PartitionLog, segment: Segment, upper_bound: int, shutdown: Shutdown, used_size: int | None
) -> SegmentState:
    status = status_of(segment.log_path)
    modified = status.modified_ns // 1_000_000
    damage = None
    if shutdown.recovers(segment, upper_bound):
        source = BATCHES
        largest, damage = _of_batches(segment)
    else:
        source = TIME_INDEX
        largest = stored_timestamp(segment)
    if largest < 0:
        source, largest = MTIME, modified
    size = status.size if used_size is None else used_size
    candidate = Candidate(segment.base_offset, upper_bound, size, largest, used_size is not None)
    return SegmentState(segment, candidate, source, modified, _files(log, segment), damage)


def _of_batches(segment: Segment) -> tuple[int, Damage | None]:
    """The largest timestamp up to where recovery would cut the log, and that place."""
    largest = -1
    with segment.open_log() as log:
        for part in scan(log, segment.base_offset, whole=False):
            if isinstance(part, Damage):
                return largest, None if is_zero_tail(part, log) else part
            largest = max(largest, max(part.block.max_timestamp[part.first : part.stop]))
    return largest, None


def _files(log: PartitionLog, segment: Segment) -> tuple[FileSize, ...]:
    """The files that are removed with the segment: its own, and the producer snapshot of its base offset."""
    found = []
    for kind in names.SEGMENT_KINDS:
        name = segment_file_name(segment.base_offset, f".{kind}")
        if name in log.files:
            found.append(FileSize(name, status_of(os.path.join(log.path, name)).size))
    return tuple(found)
