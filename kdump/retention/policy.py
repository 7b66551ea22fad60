"""Which segments a broker's retention deletes, decided on plain numbers.

A broker looks three times, each time from the oldest segment on, and stops at the first one that stays:

1. log start offset   the next segment begins at or before it
2. size               as long as what is left does not get smaller than retention.bytes
3. time               the largest timestamp is more than retention.ms ago

Without `delete` in cleanup.policy only the first look counts. Nothing at or above the high watermark goes, and an
empty last segment stays; where all go, a new one is begun at the log end offset first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import accumulate
from typing import NamedTuple

from kdump.retention.segments import SegmentState
from kdump.settings.retention import RetentionSettings


class Policy(StrEnum):
    """Why a broker deletes a segment, in the order in which it looks."""

    LOG_START = "logStart"
    SIZE = "size"
    TIME = "time"


LOG_START, SIZE, TIME = Policy


class Bounds(NamedTuple):
    """The clock (ms), and the offsets (absolute) that bound what may go."""

    now: int
    log_start_offset: int
    high_watermark: int


class Next(NamedTuple):
    """When the oldest segment that stays will go.

    `due` (ms) is when it is old enough, `more_bytes` how many more have to be appended for it to be over the size,
    `log_start_offset` from which one on the log would have to start; None where that cannot be.
    """

    base_offset: int
    due: int | None
    more_bytes: int | None
    log_start_offset: int | None


def deletions(
    segments: Sequence[SegmentState], bounds: Bounds, config: RetentionSettings, policies: Iterable[Policy] = Policy
) -> list[Policy]:
    """Return, for each segment that goes, from the oldest on, the policy that deletes it. Of `policies` only."""
    gone: list[Policy] = []
    for policy in policies:
        if policy == LOG_START or config.deletes:
            left = segments[len(gone) :]
            gone += [policy] * _count(left, bounds, config, _test(policy, left, bounds, config))
    return gone


def next_to_go(left: Sequence[SegmentState], config: RetentionSettings) -> Next | None:
    """Return when the oldest of the segments that stay will go; None where it is an empty last one."""
    if not left or is_empty_last(left[0]):
        return None
    oldest = left[0]
    more = None
    if config.deletes and config.size_limit >= 0:
        more = max(0, config.size_limit + oldest.size - sum(segment.size for segment in left))
    return Next(oldest.base_offset, due(oldest, config), more, None if oldest.is_last else oldest.end_offset)


def is_old(segment: SegmentState, bounds: Bounds, config: RetentionSettings) -> bool:
    """Return whether a segment is old enough to go by time, whatever is before it and wherever the high watermark."""
    old_at = due(segment, config)
    return old_at is not None and bounds.now >= old_at


def due(segment: SegmentState, config: RetentionSettings) -> int | None:
    """Return when (ms) a segment is old enough to go by time, whatever comes before it; None where it never is."""
    if not config.deletes or config.time_limit_ms < 0 or is_empty_last(segment):
        return None
    return _old_at(segment.largest_timestamp, config.time_limit_ms)


def departures(timestamps: Iterable[int], limit_ms: int) -> Iterator[int]:
    """Yield when (ms) each of a log's segments goes by time alone, by their largest timestamps from the oldest on.

    None goes before one that is older.
    """
    for latest in accumulate(timestamps, max):
        yield _old_at(latest, limit_ms)


def _old_at(largest_timestamp: int, limit_ms: int) -> int:
    return largest_timestamp + limit_ms + 1


def is_empty_last(segment: SegmentState) -> bool:
    """Return whether it is the segment that is written to and has nothing in it, which always stays."""
    return segment.is_last and segment.size == 0


def _test(
    policy: Policy, left: Sequence[SegmentState], bounds: Bounds, config: RetentionSettings
) -> Callable[[SegmentState], bool]:
    if policy == LOG_START:
        return lambda segment: not segment.is_last and segment.end_offset <= bounds.log_start_offset
    if policy == TIME:
        return lambda segment: is_old(segment, bounds, config)
    limit = config.size_limit
    surplus = sum(segment.size for segment in left) - limit

    def is_surplus(segment: SegmentState) -> bool:
        nonlocal surplus
        surplus -= segment.size
        return limit >= 0 and surplus >= 0

    return is_surplus


def _count(
    left: Sequence[SegmentState], bounds: Bounds, config: RetentionSettings, goes: Callable[[SegmentState], bool]
) -> int:
    """Return how many of the oldest go, one after the other."""
    for count, segment in enumerate(left):
        stays = is_empty_last(segment) or (config.has_remote_storage and segment.is_last)
        if stays or bounds.high_watermark < segment.end_offset or not goes(segment):
            return count
    return len(left)
