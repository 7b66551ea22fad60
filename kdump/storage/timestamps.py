"""The largest timestamp of a segment: by which rule, and where it comes from."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from kdump.errors import CorruptIndexError
from kdump.formats import names
from kdump.storage.damage import Damage, is_zero_tail
from kdump.storage.indexes import TimeIndex
from kdump.storage.scan import scan
from kdump.storage.segment import Segment


class TimestampRule(StrEnum):
    """What is taken for the largest timestamp of a segment."""

    AS_STORED = "as-stored"
    """The last entry of the time index, a zero tail counted: a broker that has just opened the segment
    (LogSegment.maxTimestampSoFar)."""
    TRIMMED = "trimmed"
    """The last entry without a zero tail."""
    CHECKED = "checked"
    """The same of an index that is in order and names an offset of the segment, as a broker completes it at a roll."""
    SCANNED = "scanned"
    """That of the batches up to the first damage: a segment that recovery reads again (LogSegment.recover)."""


class TimestampSource(StrEnum):
    """Where a largest timestamp comes from."""

    TIME_INDEX = "timeindex"
    BATCHES = "batches"
    MTIME = "mtime"


class LargestTimestamp(NamedTuple):
    """The largest timestamp (ms) of a segment; `damage` is where a scan for it ended before the end of the log."""

    timestamp: int
    source: TimestampSource
    damage: Damage | None = None


def largest_timestamp(segment: Segment, rule: TimestampRule, end_offset: int | None = None) -> int | None:
    """Return the largest timestamp (ms) of a segment by a rule; None where there is none.

    `end_offset` is the offset (absolute) behind the segment's last one. Raises OSError, and CorruptIndexError where the
    index is to be trimmed and cannot be.
    """
    if rule is TimestampRule.SCANNED:
        found, _ = scanned(segment)
        return None if found < 0 else found
    if not segment.has(names.TIME_INDEX):
        return None
    with segment.time_index() as index:
        try:
            return largest_of(index, rule, end_offset)
        except CorruptIndexError:
            if rule is TimestampRule.TRIMMED:
                raise
            return None


def largest_of(index: TimeIndex, rule: TimestampRule, end_offset: int | None) -> int | None:
    """Return the largest timestamp (ms) of a time index, as `largest_timestamp`. Raises OSError, CorruptIndexError."""
    if rule is not TimestampRule.AS_STORED:
        index.drop_zero_tail()
    if index.entries == 0:
        return None
    first, last = index.entry(0), index.entry(index.entries - 1)
    is_inside = index.base_offset <= last.offset and (end_offset is None or last.offset < end_offset)
    if rule is TimestampRule.CHECKED and not (is_inside and first.timestamp <= last.timestamp):
        return None
    return last.timestamp


def scanned(segment: Segment) -> tuple[int, Damage | None]:
    """Return the largest timestamp up to where recovery would cut the log, and that place."""
    largest = -1
    with segment.open_log() as log:
        for part in scan(log, segment.base_offset, whole=False):
            if isinstance(part, Damage):
                return largest, None if is_zero_tail(part, log) else part
            largest = max(largest, max(part.block.max_timestamp[part.first : part.stop]))
    return largest, None


def has_zero_tail(segment: Segment) -> bool:
    """Return whether zeros follow the time index's entries, so that the segment seems to be of 1970. Raises OSError."""
    if largest_timestamp(segment, TimestampRule.AS_STORED) != 0:
        return False
    with segment.time_index() as index:
        return any(index.entry(number).timestamp > 0 for number in range(min(1, index.entries)))
