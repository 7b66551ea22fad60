"""Index entries as recovery writes them: the worked example, the limits, and any log against the plain rule."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.blocks import BatchBlock
from kdump.errors import InvalidOffsetError, LoadError
from kdump.storage.segment_indexes import SegmentIndexes
from tests.recovery.building import batch, file, loaded, make_log

FULL = 10485760


def rebuild(base_offset: int = 0, interval: int = 4096, size: int = FULL) -> SegmentIndexes:
    return SegmentIndexes(base_offset, size, interval, "/log/{}".format)


def rows(batches: list[tuple[int, int, int]], position: int = 0) -> BatchBlock:
    """A block of batches given as (size, last offset, max timestamp)."""
    block = BatchBlock()
    for row, (size, last_offset, timestamp) in enumerate(batches):
        block.position[row] = position
        block.size[row] = size
        block.last_offset[row] = last_offset
        block.max_timestamp[row] = timestamp
        position += size
    block.length = len(batches)
    return block


def test_worked_example(tmp_path: Path) -> None:
    """Six batches of 2081 bytes, two records each, from offset 1000 on."""
    batches = [
        batch(1000 + 2 * n, 2, size=2081, timestamp=timestamp)
        for n, timestamp in enumerate((500, 700, 600, 700, 900, 800))
    ]
    files = loaded(make_log(tmp_path, {file(1000, "log"): b"".join(batches)}))
    assert files[file(1000, "index")].hex() == "00000005000010420000000900002084"
    assert files[file(1000, "timeindex")].hex() == "00000000000002bc000000030000000000000384" + "00000009"


def test_a_zero_tail_leaves_the_indexes_as_they_are(tmp_path: Path) -> None:
    data = b"".join(batch(2 * n, 2, size=2081, timestamp=n) for n in range(6))
    plain = loaded(make_log(tmp_path, {file(0, "log"): data}, "plain-0"))
    tailed = loaded(make_log(tmp_path, {file(0, "log"): data + bytes(300)}, "tailed-0"))
    assert tailed == plain


def test_more_than_the_interval_must_lie_between_two_entries() -> None:
    indexes = rebuild(interval=100)
    indexes.add(rows([(100, 0, 1), (1, 1, 2), (100, 2, 3), (1, 3, 4)]), 4)
    assert list(indexes.offsets.positions) == [101]
    assert list(indexes.offsets.offsets) == [2]


def test_timestamps_that_do_not_grow_get_no_entry() -> None:
    indexes = rebuild(interval=0)
    indexes.add(rows([(10, 0, -1), (10, 1, -1), (10, 2, 0), (10, 3, 0), (10, 4, -1)]), 5)
    assert list(indexes.offsets.offsets) == [1, 2, 3, 4]
    assert list(zip(indexes.times.timestamps, indexes.times.offsets, strict=True)) == [(0, 2)]


def test_a_timestamp_gets_one_entry_however_the_blocks_end() -> None:
    indexes = rebuild(interval=0)
    indexes.add(rows([(10, 0, 5), (10, 1, 5)]), 2)
    indexes.add(rows([(10, 2, 5), (10, 3, 5), (10, 4, 9)], 20), 3)
    assert list(zip(indexes.times.timestamps, indexes.times.offsets, strict=True)) == [(5, 0), (9, 4)]
    none = rebuild(interval=0)
    none.add(rows([(10, 0, -1), (10, 1, -1), (10, 2, 3)]), 3)
    assert list(none.times.timestamps) == [3]


def test_the_last_entry_names_the_first_batch_with_the_largest_timestamp() -> None:
    indexes = rebuild()
    indexes.add(rows([(10, 4, 7), (10, 9, 7), (10, 12, 3)]), 3)
    indexes.finish()
    assert indexes.times.content().hex() == "0000000000000007" + "00000004"


def test_blocks_go_on_where_the_last_one_ended() -> None:
    whole, parts = rebuild(interval=25), rebuild(interval=25)
    batches = [(10, n, 100 - n if n < 5 else n * 100) for n in range(12)]
    whole.add(rows(batches), 12)
    for first in range(0, 12, 4):
        parts.add(rows(batches[first : first + 4], first * 10), 4)
    assert parts.offsets.content() == whole.offsets.content()
    assert parts.times.content() == whole.times.content()
    assert parts.state() == whole.state()


def test_going_back_to_an_earlier_state() -> None:
    indexes = rebuild(interval=0)
    indexes.add(rows([(10, 0, 1), (10, 1, 2)]), 2)
    before = indexes.state()
    indexes.add(rows([(10, 2, 3), (10, 3, 4)], 20), 2)
    assert indexes.state() != before
    indexes.restore(before)
    assert indexes.state() == before
    assert list(indexes.offsets.offsets) == [1]


def test_offsets_that_do_not_increase_count_only_where_an_entry_is_due() -> None:
    assert rebuild(interval=50).add(rows([(20, 5, 1), (20, 5, 1), (20, 4, 1)]), 3) == (3, None)
    row, error = rebuild(interval=0).add(rows([(20, 5, 1), (20, 5, 1), (20, 5, 1)]), 3)
    assert row == 2
    assert isinstance(error, InvalidOffsetError)
    assert "no larger than the last offset appended (5)" in str(error)


def test_the_last_offset_of_a_block_is_not_larger_than_itself() -> None:
    indexes = rebuild(interval=0)
    assert indexes.add(rows([(10, 8, 1), (10, 9, 1)]), 2) == (2, None)
    row, error = indexes.add(rows([(10, 9, 1), (10, 10, 1)], 20), 2)
    assert (row, type(error)) == (0, InvalidOffsetError)


def test_batches_as_large_as_the_interval_get_every_other_entry() -> None:
    indexes = rebuild(interval=10)
    indexes.add(rows([(10, n, n) for n in range(9)]), 9)
    assert list(indexes.offsets.positions) == [20, 40, 60, 80]
    larger = rebuild(interval=10)
    larger.add(rows([(11, n, n) for n in range(9)]), 9)
    assert list(larger.offsets.positions) == [11 * n for n in range(1, 9)]


def test_beginning_again_forgets_everything() -> None:
    indexes = rebuild(base_offset=3, interval=0)
    first = indexes.state()
    assert (first.max_timestamp, first.offset_of_max) == (-1, 3)
    indexes.add(rows([(10, 8, 1), (10, 9, 2), (10, 10, 3)]), 3)
    indexes.begin()
    assert indexes.state() == first
    assert (indexes.offsets.content(), indexes.times.content()) == (b"", b"")
    assert indexes.add(rows([(10, 3, 0), (10, 4, 0)]), 2) == (2, None)
    assert list(indexes.times.offsets) == [3]


def test_an_offset_that_goes_back_shows_in_a_later_block_too() -> None:
    indexes = rebuild(interval=0)
    assert indexes.add(rows([(10, 8, 1), (10, 9, 1)]), 2) == (2, None)
    row, error = indexes.add(rows([(10, 7, 1), (10, 8, 1)], 20), 2)
    assert (row, type(error)) == (0, InvalidOffsetError)


def test_the_time_index_wants_offsets_that_do_not_decrease() -> None:
    indexes = rebuild(interval=15)
    indexes.add(rows([(10, 0, 1), (10, 9, 2), (10, 10, 5)]), 3)
    assert list(indexes.times.offsets) == [10]
    indexes.note_max_timestamp(rows([(10, 3, 9)]), 0, 1)
    with pytest.raises(InvalidOffsetError, match=r"an offset \(3\) to slot 1"):
        indexes.finish()


def test_a_full_offset_index_ends_loading() -> None:
    row, error = rebuild(interval=0, size=24).add(rows([(10, n, -1) for n in range(5)]), 5)
    assert row == 4
    assert error is not None
    assert "Attempt to append to a full index (size = 3)." in str(error)


def test_a_time_index_keeps_a_slot_for_the_end() -> None:
    indexes = rebuild(interval=0, size=36)
    row, error = indexes.add(rows([(10, n, n) for n in range(5)]), 5)
    assert row == 3
    assert error is not None
    assert "Attempt to append to a full time index (size = 2)." in str(error)
    indexes.finish()
    assert list(indexes.times.timestamps) == [1, 2, 3]
    indexes.note_max_timestamp(rows([(10, 9, 9)]), 0, 1)
    with pytest.raises(LoadError, match="no room"):
        indexes.finish()


def expected(batches: list[tuple[int, int, int]], interval: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """The entries by the rule as it is stated, one batch after the other; the offsets must increase."""
    offsets: list[tuple[int, int]] = []
    times: list[tuple[int, int]] = []
    valid_bytes = last_entry = 0
    largest = (-1, 0)
    for size, last_offset, timestamp in batches:
        if timestamp > largest[0]:
            largest = (timestamp, last_offset)
        if valid_bytes - last_entry > interval:
            offsets.append((last_offset, valid_bytes))
            if largest[0] > (times[-1][0] if times else -1):
                times.append(largest)
            last_entry = valid_bytes
        valid_bytes += size
    if largest[0] > (times[-1][0] if times else -1):
        times.append(largest)
    return offsets, times


@given(
    st.lists(st.tuples(st.integers(61, 300), st.integers(1, 3), st.integers(-1, 9)), max_size=40),
    st.integers(0, 500),
    st.integers(1, 40),
    st.booleans(),
    st.booleans(),
)
def test_any_log_gets_the_entries_of_the_rule(
    given_batches: list[tuple[int, int, int]], interval: int, rows_a_block: int, row_by_row: bool, in_order: bool
) -> None:
    offset, batches = -1, []
    times_of_batches = [timestamp for _, _, timestamp in given_batches]
    if in_order:  # as producers' clocks have it, which has a way of its own
        times_of_batches.sort()
    for (size, count, _), timestamp in zip(given_batches, times_of_batches, strict=True):
        offset += count
        batches.append((size, offset, timestamp))
    indexes = rebuild(interval=interval)
    if row_by_row:
        indexes._increases = lambda block, stop: False  # type: ignore[method-assign]
    position = 0
    for first in range(0, len(batches), rows_a_block):
        part = batches[first : first + rows_a_block]
        assert indexes.add(rows(part, position), len(part)) == (len(part), None)
        position += sum(size for size, _, _ in part)
    indexes.finish()
    offsets, times = expected(batches, interval)
    assert list(zip(indexes.offsets.offsets, indexes.offsets.positions, strict=True)) == offsets
    assert list(zip(indexes.times.timestamps, indexes.times.offsets, strict=True)) == times


def entries(indexes: SegmentIndexes) -> list[tuple[int, int]]:
    return list(zip(indexes.times.timestamps, indexes.times.offsets, strict=True))


def test_a_timestamp_as_large_as_one_before_is_that_of_the_first_batch() -> None:
    indexes = rebuild(interval=0)
    indexes.add(rows([(10, 0, 5)]), 1)
    indexes.add(rows([(10, 1, 5), (10, 2, 9)], 10), 2)
    assert entries(indexes) == [(5, 0), (9, 2)]


def test_the_largest_timestamp_may_stand_in_an_earlier_block_than_its_entry() -> None:
    indexes = rebuild(interval=0)
    indexes.add(rows([(10, 0, 5)]), 1)
    assert entries(indexes) == []
    indexes.add(rows([(10, 1, 3), (10, 2, 4)], 10), 2)
    indexes.add(rows([(10, 3, 1), (10, 4, 5)], 30), 2)
    assert entries(indexes) == [(5, 0)]


def test_of_equal_timestamps_the_first_batch_is_kept_in_mind() -> None:
    indexes = rebuild(interval=0)
    indexes.add(rows([(10, 0, 1), (10, 1, 9), (10, 2, 3), (10, 3, 9)]), 4)
    assert (entries(indexes), indexes.max_timestamp, indexes.offset_of_max) == ([(9, 1)], 9, 1)


@pytest.mark.parametrize("row_by_row", [False, True])
def test_an_entry_in_the_first_row_of_a_block_hides_no_later_one(row_by_row: bool) -> None:
    indexes = rebuild(interval=15)
    indexes.add(rows([(20, 0, 5)]), 1)
    if row_by_row:
        indexes._increases = lambda block, stop: False  # type: ignore[method-assign]
    indexes.add(rows([(10, 1, 7), (10, 2, 9), (10, 3, 3), (10, 4, 4)], 20), 4)
    assert list(indexes.offsets.positions) == [20, 40]
    assert entries(indexes) == [(7, 1), (9, 2)]
    assert (indexes.max_timestamp, indexes.offset_of_max) == (9, 2)
    later = rebuild(interval=15)
    later.add(rows([(20, 0, 5)]), 1)
    if row_by_row:
        later._increases = lambda block, stop: False  # type: ignore[method-assign]
    later.add(rows([(10, 1, 7), (10, 2, 9)], 20), 2)
    assert (later.max_timestamp, later.offset_of_max) == (9, 2)


def test_behind_entries_that_were_read_an_offset_that_is_no_larger_is_refused() -> None:
    """As LogSegment.append: an index of another log, or one that was not cut with its own, must not be continued."""
    indexes = rebuild(interval=0)
    indexes.offsets.put(7, 10)
    indexes.resume(20)
    row, error = indexes.add(rows([(10, 6, 1), (10, 7, 2)], 20), 2)
    assert (row, type(error)) == (1, InvalidOffsetError)
    assert list(indexes.offsets.offsets) == [7]
