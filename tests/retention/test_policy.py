"""The rules by which segments go, against examples and against a broker played step by step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.retention.policy import LOG_START, SIZE, TIME, Bounds, deletions, departures, due, is_old, next_to_go
from kdump.retention.segments import SegmentState
from kdump.settings.retention import RetentionSettings
from kdump.storage.segment import Segment

NOW = 1_000_000


def candidate(base_offset: int, end_offset: int, size: int, largest_timestamp: int, is_last: bool) -> SegmentState:
    segment = Segment(f"{base_offset:020}.log")
    return SegmentState(segment, end_offset, size, largest_timestamp, is_last, largest_timestamp)


def segments(*rows: tuple[int, int], end: int | None = None) -> list[SegmentState]:
    """Segments of ten offsets each, given by size and age."""
    last = len(rows) - 1
    return [
        candidate(10 * n, end if end is not None and n == last else 10 * n + 10, size, NOW - age, n == last)
        for n, (size, age) in enumerate(rows)
    ]


def bounds(start: int = 0, watermark: int = 1_000_000) -> Bounds:
    return Bounds(NOW, start, watermark)


BY_TIME = RetentionSettings(retention_ms=100)
BY_SIZE = RetentionSettings(retention_ms=-1, retention_bytes=100)


@pytest.mark.parametrize(
    ("ages", "expected"),
    [
        ([101, 101, 5], 2),
        ([100, 101, 5], 0),  # as old as retention.ms is not older
        ([101, 100, 101], 1),  # the first that stays keeps what follows
        ([101, 101, 101], 3),  # the one that is written to as well
        ([-50, 101, 5], 0),
    ],
)
def test_by_time_from_the_oldest_on(ages: list[int], expected: int) -> None:
    rows = segments(*((10, age) for age in ages))
    assert deletions(rows, bounds(), BY_TIME) == [TIME] * expected


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([40, 40, 40, 40], 1),  # 160: without the first 120, without the second 80 and that is too little
        ([50, 50, 50, 50], 2),  # exactly 100 are left
        ([40, 30, 29], 0),
        ([40, 40, 20], 0),
        ([90, 1, 99], 1),
        ([91, 1, 99], 1),
    ],
)
def test_by_size_as_long_as_enough_is_left(sizes: list[int], expected: int) -> None:
    rows = segments(*((size, 0) for size in sizes))
    assert deletions(rows, bounds(), BY_SIZE) == [SIZE] * expected


def test_retention_bytes_0_takes_everything_but_an_empty_segment() -> None:
    config = RetentionSettings(retention_ms=-1, retention_bytes=0)
    assert deletions(segments((5, 0), (5, 0)), bounds(), config) == [SIZE, SIZE]
    assert deletions(segments((5, 0), (0, 0)), bounds(), config) == [SIZE]


def test_by_log_start_offset_only_what_ends_before_it_and_never_the_last() -> None:
    rows = segments((5, 0), (5, 0), (5, 0))
    assert deletions(rows, bounds(start=9), BY_TIME) == []
    assert deletions(rows, bounds(start=10), BY_TIME) == [LOG_START]
    assert deletions(rows, bounds(start=30), BY_TIME) == [LOG_START, LOG_START]


def test_one_look_after_the_other() -> None:
    config = RetentionSettings(retention_ms=100, retention_bytes=30)
    rows = segments((10, 0), (10, 0), (10, 101), (10, 101), (10, 0), end=45)
    assert deletions(rows, bounds(start=12), config) == [LOG_START, SIZE, TIME, TIME]
    assert deletions(rows, bounds(start=12), config, (TIME,)) == []


def test_compaction_alone_deletes_by_log_start_offset_only() -> None:
    config = RetentionSettings(retention_ms=1, retention_bytes=1, deletes=False, compacts=True)
    assert deletions(segments((10, 900), (10, 900)), bounds(start=10), config) == [LOG_START]


def test_nothing_at_or_behind_the_high_watermark() -> None:
    rows = segments((10, 900), (10, 900), (10, 900))
    assert len(deletions(rows, bounds(watermark=19), BY_TIME)) == 1
    assert len(deletions(rows, bounds(watermark=20), BY_TIME)) == 2
    assert len(deletions(rows, bounds(watermark=30), BY_TIME)) == 3


def test_an_empty_last_segment_stays() -> None:
    assert deletions(segments((10, 900), (0, 900)), bounds(), BY_TIME) == [TIME]


def test_of_a_tiered_topic_the_last_segment_stays_and_local_retention_counts() -> None:
    config = RetentionSettings(has_remote_storage=True, retention_ms=10_000, local_retention_ms=100)
    assert deletions(segments((10, 900), (10, 900)), bounds(), config) == [TIME]
    as_total = RetentionSettings(has_remote_storage=True, retention_ms=10_000)
    assert deletions(segments((10, 900), (10, 900)), bounds(), as_total) == []


def test_when_the_next_goes() -> None:
    config = RetentionSettings(retention_ms=100, retention_bytes=100)
    rows = segments((40, 30), (40, 10), (5, 0))
    following = next_to_go(rows, config)
    assert following is not None
    assert following.due == NOW - 30 + 101
    assert following.more_bytes == 55
    assert following.log_start_offset == 10
    assert following.due is not None
    assert not is_old(rows[0], Bounds(following.due - 1, 0, 100), config)
    assert is_old(rows[0], Bounds(following.due, 0, 100), config)
    grown = [*rows[:2], replace(rows[2], size=60)]
    assert deletions(grown, bounds(), config) == [SIZE]
    assert deletions([*rows[:2], replace(rows[2], size=59)], bounds(), config) == []


def test_none_goes_by_time_before_one_that_is_older() -> None:
    ages = [500, 900, 300]
    rows = segments(*((10, age) for age in ages))
    times = list(departures((row.largest_timestamp for row in rows), 100))
    assert times == [NOW - 500 + 101, NOW - 500 + 101, NOW - 300 + 101]
    for now in range(NOW - 500, NOW - 100, 7):
        gone = deletions(rows, Bounds(now, 0, 1000), BY_TIME)
        assert len(gone) == sum(time <= now for time in times)


@pytest.mark.parametrize("config", [BY_SIZE, BY_TIME._replace(deletes=False)])
def test_nothing_is_ever_due_where_no_age_counts(config: RetentionSettings) -> None:
    (row,) = segments((10, 900))
    assert due(row, config) is None
    assert due(row, BY_TIME) == NOW - 900 + 101


def test_nothing_comes_next_of_an_empty_log() -> None:
    assert next_to_go(segments((0, 0)), BY_TIME) is None
    assert next_to_go([], BY_TIME) is None
    only = next_to_go(segments((10, 0)), RetentionSettings(retention_ms=-1))
    assert only is not None
    assert only[1:] == (None, None, None)


class Broker:
    """The three looks, played on a list of segments from which they are really removed."""

    def __init__(self, rows: list[SegmentState], at: Bounds, config: RetentionSettings) -> None:
        self.rows, self.at, self.config = list(rows), at, config
        self.rolled = False

    def run(self) -> int:
        before = len(self.rows)
        self._look(lambda row, following: following is not None and following.base_offset <= self.at.log_start_offset)
        if self.config.deletes:
            self._by_size()
            if self.config.retention_ms >= 0:
                self._look(lambda row, _: self.at.now - row.largest_timestamp > self.config.retention_ms)
        return before - len(self.rows) + self.rolled

    def _by_size(self) -> None:
        total = sum(row.size for row in self.rows)
        if self.config.retention_bytes < 0 or total < self.config.retention_bytes:
            return
        left = [total - self.config.retention_bytes]

        def goes(row: SegmentState, _: SegmentState | None) -> bool:
            if left[0] - row.size < 0:
                return False
            left[0] -= row.size
            return True

        self._look(goes)

    def _look(self, goes: Callable[[SegmentState, SegmentState | None], bool]) -> None:
        gone = 0
        for row, following in zip(self.rows, [*self.rows[1:], None], strict=True):
            if self.at.high_watermark < row.end_offset or not goes(row, following):
                break
            if following is None and row.size == 0:
                break
            gone += 1
        if gone and gone == len(self.rows):
            end = self.rows[-1].end_offset
            self.rows.append(candidate(end, end, 0, self.at.now, True))
            self.rolled = True
        del self.rows[:gone]


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(-50, 300)), min_size=1, max_size=7),
    st.integers(0, 80),
    st.integers(0, 80),
    st.builds(
        RetentionSettings()._replace,
        retention_ms=st.sampled_from([-1, 0, 100]),
        retention_bytes=st.sampled_from([-1, 0, 20, 60]),
        deletes=st.booleans(),
    ),
)
def test_as_a_broker_that_removes_one_after_the_other(
    rows: list[tuple[int, int]], start: int, watermark: int, config: RetentionSettings
) -> None:
    listed = segments(*rows)
    at = Bounds(NOW, min(start, watermark), watermark)
    broker = Broker(listed, at, config)
    gone = broker.run()
    assert len(deletions(listed, at, config)) == gone
    assert broker.rolled == (gone == len(listed))
