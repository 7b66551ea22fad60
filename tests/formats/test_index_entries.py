"""Index entries: golden bytes, round trips over any bytes, zero tails, and Kafka's sanity checks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.errors import CorruptIndexError
from kdump.formats.index_entries import (
    ABORTED_TXN_SIZE,
    OFFSET_ENTRY_SIZE,
    TIME_ENTRY_SIZE,
    AbortedTxn,
    OffsetIndexEntry,
    TimeIndexEntry,
    UnknownTxnVersionError,
    check_offset_index,
    check_time_index,
    check_txn_index,
    decode_aborted_txns,
    decode_offset_entries,
    decode_time_entries,
    encode_aborted_txns,
    encode_offset_entries,
    encode_time_entries,
    offset_entry_at,
    time_entry_at,
)

OFFSET_INDEX = bytes.fromhex("00000005 00001042 00000009 00002084")
OFFSET_ENTRIES = [OffsetIndexEntry(1005, 4162), OffsetIndexEntry(1009, 8324)]
TIME_INDEX = bytes.fromhex("00000000000002bc 00000003 0000000000000384 00000009")
TIME_ENTRIES = [TimeIndexEntry(700, 1003), TimeIndexEntry(900, 1009)]
TXN_INDEX = bytes.fromhex("0000 0000000000000007 0000000000000064 0000000000000078 000000000000006e")
TXN = AbortedTxn(version=0, producer_id=7, first_offset=100, last_offset=120, last_stable_offset=110)

INT64 = st.integers(-(2**63), 2**63 - 1)
BASE_OFFSETS = st.integers(0, 2**63 - 1)


def test_offset_index_golden_bytes() -> None:
    assert list(decode_offset_entries(OFFSET_INDEX, 1000)) == OFFSET_ENTRIES
    assert encode_offset_entries(OFFSET_ENTRIES, 1000) == OFFSET_INDEX
    assert offset_entry_at(OFFSET_INDEX, 1, 1000) == OFFSET_ENTRIES[1]


def test_time_index_golden_bytes() -> None:
    assert list(decode_time_entries(TIME_INDEX, 1000)) == TIME_ENTRIES
    assert encode_time_entries(TIME_ENTRIES, 1000) == TIME_INDEX
    assert time_entry_at(TIME_INDEX, 1, 1000) == TIME_ENTRIES[1]


def test_txn_index_golden_bytes() -> None:
    assert list(decode_aborted_txns(TXN_INDEX)) == [TXN]
    assert encode_aborted_txns([TXN]) == TXN_INDEX


@given(st.binary(max_size=200), BASE_OFFSETS)
def test_any_bytes_come_back_without_the_partial_entry(data: bytes, base_offset: int) -> None:
    view = memoryview(data)
    offsets = list(decode_offset_entries(view, base_offset))
    times = list(decode_time_entries(view, base_offset))
    txns = list(decode_aborted_txns(view))

    assert encode_offset_entries(offsets, base_offset) == data[: len(data) // OFFSET_ENTRY_SIZE * OFFSET_ENTRY_SIZE]
    assert encode_time_entries(times, base_offset) == data[: len(data) // TIME_ENTRY_SIZE * TIME_ENTRY_SIZE]
    assert encode_aborted_txns(txns) == data[: len(data) // ABORTED_TXN_SIZE * ABORTED_TXN_SIZE]


@given(st.lists(st.builds(AbortedTxn, st.integers(-(2**15), 2**15 - 1), INT64, INT64, INT64, INT64)))
def test_aborted_txns_round_trip(txns: list[AbortedTxn]) -> None:
    assert list(decode_aborted_txns(encode_aborted_txns(txns))) == txns


def test_relative_offsets_are_signed() -> None:
    assert list(decode_offset_entries(bytes.fromhex("fffffffc 00000010"), 100)) == [OffsetIndexEntry(96, 16)]
    assert list(decode_time_entries(bytes.fromhex("0000000000000001 fffffff7"), 100)) == [TimeIndexEntry(1, 91)]


def test_offsets_beyond_the_largest_wrap_around() -> None:
    base, wrapped = 2**63 - 5, -(2**63) + 2
    offsets, times = bytes.fromhex("00000007 00000010"), bytes.fromhex("0000000000000001 00000007")
    assert list(decode_offset_entries(offsets, base)) == [offset_entry_at(offsets, 0, base)]
    assert offset_entry_at(offsets, 0, base) == OffsetIndexEntry(wrapped, 16)
    assert list(decode_time_entries(times, base)) == [time_entry_at(times, 0, base)]
    assert time_entry_at(times, 0, base) == TimeIndexEntry(1, wrapped)
    assert encode_offset_entries([OffsetIndexEntry(wrapped, 16)], base) == offsets


@pytest.mark.parametrize("relative", [2**31, -(2**31) - 1])
def test_offset_too_far_from_the_base_offset_is_refused(relative: int) -> None:
    with pytest.raises(CorruptIndexError, match="Integer overflow for offset: "):
        encode_offset_entries([OffsetIndexEntry(2**40 + relative, 0)], 2**40)
    with pytest.raises(CorruptIndexError, match="Integer overflow for offset: "):
        encode_time_entries([TimeIndexEntry(0, 2**40 + relative)], 2**40)


def test_sound_indexes_pass_their_checks() -> None:
    check_offset_index(0, 257, -1, "empty")
    check_offset_index(16, 257, 0, "zero tail")
    check_time_index(0, 257, 5, 4, -1, "empty")
    check_time_index(24, 257, 5, 5, 0, "same")
    check_txn_index([TXN], 120, "last offset is the base offset")


def test_offset_index_below_its_base_offset() -> None:
    with pytest.raises(CorruptIndexError) as caught:
        check_offset_index(17, 257, -1, "00000000000000000257.index")
    assert str(caught.value) == (
        "Corrupt index found, index file 00000000000000000257.index has non-zero size but the last offset is 256 "
        "which is less than the base offset 257"
    )


def test_offset_index_with_a_partial_entry() -> None:
    with pytest.raises(CorruptIndexError) as caught:
        check_offset_index(131, 257, 4, "00000000000000000257.index")
    assert str(caught.value) == (
        "Index file 00000000000000000257.index is corrupt, found 131 bytes which is neither positive nor a "
        "multiple of 8"
    )


def test_time_index_that_goes_back() -> None:
    with pytest.raises(CorruptIndexError) as caught:
        check_time_index(25, 0, 1700000000150, 0, -9, "00000000000000000000.timeindex")
    assert str(caught.value) == (
        "Corrupt time index found, time index file (00000000000000000000.timeindex) has non-zero size but the last "
        "timestamp is 0 which is less than the first timestamp 1700000000150"
    )


def test_time_index_below_its_base_offset() -> None:
    with pytest.raises(CorruptIndexError) as caught:
        check_time_index(25, 257, 5, 6, -9, "00000000000000000257.timeindex")
    assert str(caught.value) == (
        "Corrupt time index found, time index file (00000000000000000257.timeindex) has non-zero size but the last "
        "offset is 248 which is less than the first offset 257"
    )


def test_time_index_with_a_partial_entry() -> None:
    with pytest.raises(CorruptIndexError) as caught:
        check_time_index(209, 257, 5, 6, 7, "00000000000000000257.timeindex")
    assert str(caught.value) == (
        "Time index file 00000000000000000257.timeindex is corrupt, found 209 bytes which is neither positive nor a "
        "multiple of 12"
    )


def test_aborted_txn_before_its_segment() -> None:
    with pytest.raises(CorruptIndexError) as caught:
        check_txn_index([TXN], 121, "00000000000000000121.txnindex")
    assert str(caught.value) == (
        "Last offset of aborted transaction AbortedTxn(version=0, producerId=7, firstOffset=100, lastOffset=120, "
        "lastStableOffset=110) in index 00000000000000000121.txnindex is less than start offset 121"
    )


@pytest.mark.parametrize(("field", "seen"), [(0x0005, 0), (0x00FF, 0), (-1, -1), (-0x8000, -128)])
def test_versions_that_kafka_up_to_4_3_does_not_notice(field: int, seen: int) -> None:
    txn = TXN._replace(version=field)
    assert txn.version_seen == seen
    check_txn_index([txn], 0, "path", is_int16=False)
    with pytest.raises(UnknownTxnVersionError) as caught:
        check_txn_index([txn], 0, "00000000000000000000.txnindex")
    assert str(caught.value) == (
        f"Unexpected aborted transaction version {field} in transaction index 00000000000000000000.txnindex, "
        "supported version range is 0 to 0"
    )


@pytest.mark.parametrize(("field", "seen"), [(0x0100, 1), (0x7FFF, 127)])
def test_versions_that_kafka_refuses(field: int, seen: int) -> None:
    with pytest.raises(UnknownTxnVersionError) as caught:
        check_txn_index([TXN._replace(version=field)], 500, "00000000000000000000.txnindex", is_int16=False)
    assert str(caught.value) == (
        f"Unexpected aborted transaction version {seen} in transaction index 00000000000000000000.txnindex, "
        "current version is 0"
    )
