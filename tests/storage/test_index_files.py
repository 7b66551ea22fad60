"""Index files: entries by number, zero tails, the broker's searches, and files that change while they are read."""

from __future__ import annotations

import bisect
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.errors import CorruptIndexError
from kdump.formats.index_entries import (
    AbortedTxn,
    OffsetIndexEntry,
    TimeIndexEntry,
    encode_aborted_txns,
    encode_offset_entries,
    encode_time_entries,
)
from kdump.storage.indexes import CHUNK_ENTRIES, OffsetIndex, TimeIndex, TxnIndex, floor_slot

BASE = 1000


def offset_index(folder: Path, entries: list[tuple[int, int]], tail: bytes = b"") -> OffsetIndex:
    path = folder / f"{BASE:020d}.index"
    path.write_bytes(encode_offset_entries([OffsetIndexEntry(*entry) for entry in entries], BASE) + tail)
    return OffsetIndex(str(path), BASE)


def time_index(folder: Path, entries: list[tuple[int, int]], tail: bytes = b"") -> TimeIndex:
    path = folder / f"{BASE:020d}.timeindex"
    path.write_bytes(encode_time_entries([TimeIndexEntry(*entry) for entry in entries], BASE) + tail)
    return TimeIndex(str(path), BASE)


def test_offset_entries_by_number_and_in_order(tmp_path: Path) -> None:
    with offset_index(tmp_path, [(1005, 100), (1010, 200)]) as index:
        assert index.entries == 2
        assert index.entry(1) == (1010, 200)
        assert list(index) == [(1005, 100), (1010, 200)]


def test_time_entries_by_number_and_in_order(tmp_path: Path) -> None:
    with time_index(tmp_path, [(50, 1005), (60, 1010)]) as index:
        assert index.entries == 2
        assert index.entry(0) == (50, 1005)
        assert list(index) == [(50, 1005), (60, 1010)]


def test_more_entries_than_are_read_at_once(tmp_path: Path) -> None:
    entries = [(BASE + n, 8 * n) for n in range(1, CHUNK_ENTRIES + 3)]
    with offset_index(tmp_path, entries) as index:
        assert list(index) == entries


def test_an_incomplete_last_entry_does_not_count(tmp_path: Path) -> None:
    with offset_index(tmp_path, [(1005, 100)], b"\x01" * 7) as index:
        assert index.entries == 1
        assert list(index) == [(1005, 100)]
    with time_index(tmp_path, [(50, 1005)], b"\x01" * 11) as times:
        assert times.entries == 1
        assert list(times) == [(50, 1005)]


@pytest.mark.parametrize("used", [0, 1, 2, 3, 100])
@pytest.mark.parametrize("zeros", [0, 1, 2, 511])
def test_a_zero_tail_counts_until_it_is_dropped(tmp_path: Path, used: int, zeros: int) -> None:
    with offset_index(tmp_path, [(BASE + n, 8 * n) for n in range(1, used + 1)], bytes(8 * zeros)) as index:
        assert index.entries == used + zeros
        index.drop_zero_tail()
        assert index.entries == used
        assert len(list(index)) == used
    with time_index(tmp_path, [(n, BASE + n) for n in range(1, used + 1)], bytes(12 * zeros)) as times:
        assert times.entries == used + zeros
        times.drop_zero_tail()
        assert times.entries == used


def test_an_honest_first_entry_of_relative_offset_0_is_kept(tmp_path: Path) -> None:
    with time_index(tmp_path, [(7, BASE)], bytes(24)) as index:
        index.drop_zero_tail()
        assert list(index) == [(7, BASE)]


@given(
    offsets=st.lists(st.integers(1, 5000), unique=True, max_size=3000).map(sorted),
    target=st.integers(-10, 5010),
)
def test_the_floor_of_sorted_entries(offsets: list[int], target: int) -> None:
    slot = floor_slot(len(offsets), 8, target, offsets.__getitem__)
    assert slot == bisect.bisect_right(offsets, target) - 1


def test_lookups_fall_back_to_the_start_of_the_segment(tmp_path: Path) -> None:
    with offset_index(tmp_path, [(1005, 100), (1010, 200)]) as index:
        assert [index.lookup(offset) for offset in (1000, 1004, 1005, 1009, 1010, 9999)] == [
            (BASE, 0),
            (BASE, 0),
            (1005, 100),
            (1005, 100),
            (1010, 200),
            (1010, 200),
        ]
    with time_index(tmp_path, [(50, 1005), (60, 1010)]) as times:
        assert [times.lookup(timestamp) for timestamp in (49, 50, 59, 60)] == [
            (-1, BASE),
            (50, 1005),
            (50, 1005),
            (60, 1010),
        ]


def test_lookups_in_empty_indexes(tmp_path: Path) -> None:
    with offset_index(tmp_path, []) as index:
        assert index.lookup(5000) == (BASE, 0)
    with time_index(tmp_path, []) as times:
        assert times.lookup(5000) == (-1, BASE)


def test_the_search_begins_in_the_warm_end() -> None:
    """What comes out of an index that is not sorted depends on where the search looks first: in its last 8 KiB."""
    looked: list[int] = []

    def key(number: int) -> int:
        looked.append(number)
        return number

    floor_slot(5000, 8, 4990, key)
    assert looked[0] == 5000 - 1 - 8192 // 8
    assert min(looked) == looked[0]


def test_sanity_checks(tmp_path: Path) -> None:
    with offset_index(tmp_path, [(1005, 100)]) as index:
        index.check()
    with offset_index(tmp_path, [(1005, 100)], b"\x00") as index, pytest.raises(CorruptIndexError, match=r"\.index"):
        index.check()
    with time_index(tmp_path, [(60, 1005), (50, 1010)]) as times, pytest.raises(CorruptIndexError, match="timestamp"):
        times.check()


def test_an_index_that_shrinks_while_it_is_read(tmp_path: Path) -> None:
    with offset_index(tmp_path, [(BASE + n, n) for n in range(1, 50)]) as index:
        with open(index.path, "r+b") as writer:
            writer.truncate(8 * 10 + 3)
        assert len(list(index)) == 10
        with pytest.raises(CorruptIndexError, match="became shorter while it was read"):
            index.entry(10)
        with pytest.raises(CorruptIndexError):
            index.drop_zero_tail()
    with time_index(tmp_path, [(n, BASE + n) for n in range(1, 50)]) as times:
        with open(times.path, "r+b") as writer:
            writer.truncate(5)
        with pytest.raises(CorruptIndexError):
            times.lookup(3)


def test_aborted_transactions_leave_out_an_incomplete_one(tmp_path: Path) -> None:
    txns = [AbortedTxn(0, 7, 1001, 1009, 1010), AbortedTxn(0, 8, 1002, 1011, 1012)]
    path = tmp_path / f"{BASE:020d}.txnindex"
    path.write_bytes(encode_aborted_txns(txns) + b"\x00" * 33)
    with TxnIndex(str(path)) as index:
        assert list(index) == txns


def test_a_missing_index_is_not_made(tmp_path: Path) -> None:
    for kind in (OffsetIndex, TimeIndex):
        with pytest.raises(FileNotFoundError):
            kind(str(tmp_path / "00000000000000000000.index"), 0)
    with pytest.raises(FileNotFoundError):
        TxnIndex(str(tmp_path / "00000000000000000000.txnindex"))
    assert list(tmp_path.iterdir()) == []
