"""Groups of segments, chunks of the read buffer, indexes of a new segment, transactions."""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import Any

import pytest

from kdump.blocks import BatchBlock
from kdump.clean.cleaning import group_segments
from kdump.clean.new_segment import NewSegment, Written
from kdump.clean.offset_map import ENTRY_BYTES, ExactKeys
from kdump.clean.read_buffer import ReadBuffer
from kdump.clean.rewriting import Rewritten
from kdump.clean.transactions import Transactions, aborted_in
from kdump.errors import CleaningError
from kdump.formats import names
from kdump.formats.batch import ABORT, COMMIT, LEADER_CHANGE
from kdump.formats.encode import NewRecord, encode_batch, encode_message
from kdump.formats.index_entries import (
    AbortedTxn,
    OffsetIndexEntry,
    TimeIndexEntry,
    UnknownTxnVersionError,
    decode_offset_entries,
    decode_time_entries,
)
from kdump.settings.cleaning import CleaningSettings
from kdump.settings.loading import LoadingSettings
from kdump.storage.facts import SegmentFacts
from kdump.storage.segment import Segment
from tests.clean.building import put_aborted


def facts(folder: Path, base: int, size: int, index: int = 0, times: int = 0) -> SegmentFacts:
    """A segment of so many bytes."""
    path = folder / f"{base:020}.log"
    path.write_bytes(bytes(size))
    path.with_suffix(".index").write_bytes(bytes(index))
    path.with_suffix(".timeindex").write_bytes(bytes(times))
    return SegmentFacts(Segment(str(path)), base, size, 0)


def groups(segments: list[SegmentFacts], end: int, **settings: Any) -> list[list[int]]:
    """The base offsets of each group."""
    config = CleaningSettings(**settings)
    return [[each.base_offset for each in group] for group in group_segments(segments, end, config)]


def test_groups_by_size(tmp_path: Path) -> None:
    segments = [facts(tmp_path, base, 400) for base in (0, 10, 20, 30, 40)]
    assert groups(segments, 50, segment_bytes=800) == [[0, 10], [20, 30], [40]]
    assert groups(segments, 50, segment_bytes=799) == [[0], [10], [20], [30], [40]]
    assert groups(segments, 50) == [[0, 10, 20, 30, 40]]
    assert groups([], 50) == []


@pytest.mark.parametrize("kind", ["index", "times"])
def test_groups_by_index_size(tmp_path: Path, kind: str) -> None:
    segments = [facts(tmp_path, base, 1, **{kind: 24}) for base in (0, 10, 20)]
    loading = LoadingSettings(segment_index_bytes=48)
    assert groups(segments, 30, loading=loading) == [[0, 10], [20]]
    segments[1].segment.path(names.OFFSET_INDEX)
    uneven = [facts(tmp_path, base, 1, **{kind: 24 + 7}) for base in (0, 10)]
    assert groups(uneven, 30, loading=loading) == [[0, 10]]  # what is no whole entry does not count


def test_groups_by_offset_span(tmp_path: Path) -> None:
    far = 2_147_483_647
    segments = [facts(tmp_path, base, 1) for base in (0, 10, 20)]
    assert groups(segments, far + 1) == [[0, 10, 20]]
    assert groups(segments, far + 2) == [[0, 10], [20]]
    assert groups([*segments, facts(tmp_path, far + 1, 1)], far + 2) == [[0, 10, 20], [far + 1]]
    assert groups([*segments[:2], facts(tmp_path, far + 9, 1)], far + 10) == [[0], [10, far + 9]]


def test_an_empty_segment_joins_whatever_its_offsets(tmp_path: Path) -> None:
    segments = [facts(tmp_path, 0, 1), facts(tmp_path, 10, 0), facts(tmp_path, 5_000_000_000, 1)]
    assert groups(segments, 5_000_000_001) == [[0, 10], [5_000_000_000]]


def chunks(sizes: list[int], **settings: Any) -> tuple[list[list[int]], int]:
    """Into which chunks batches of these sizes fall, and the size of the buffer afterwards."""
    buffer = ReadBuffer(CleaningSettings(**settings))
    buffer.start(0)
    found: list[list[int]] = [[]]
    position = 0
    for size in sizes:
        if buffer.begins(position, size):
            found.append([])
        found[-1].append(size)
        position += size
    return found, buffer.size


def test_chunks_hold_whole_batches() -> None:
    assert chunks([40, 60, 1, 99, 100], buffer_bytes=100) == ([[40, 60], [1, 99], [100]], 100)


def test_the_buffer_doubles_until_a_batch_fits() -> None:
    found, size = chunks([60, 150, 45, 6], buffer_bytes=100)
    assert (found, size) == ([[60], [150, 45], [6]], 200)


def test_not_beyond_the_limit_for_messages_unless_a_batch_is_larger() -> None:
    settings = {"buffer_bytes": 100, "max_message_bytes": 150, "broker_message_bytes": 120}
    assert chunks([140], **settings)[1] == 150
    assert chunks([170], **settings)[1] == 170
    assert chunks([170], **{**settings, "broker_message_bytes": 1000})[1] == 200


def test_it_shrinks_again_when_a_segment_ends() -> None:
    buffer = ReadBuffer(CleaningSettings(buffer_bytes=100))
    buffer.start(0)
    buffer.begins(0, 150)
    assert buffer.size == 200
    buffer.restore()
    assert buffer.size == 100


def with_a_full_time_index() -> NewSegment:
    """A segment whose time index has room for the entry at its end alone."""
    config = CleaningSettings(
        index_per_batch=False, loading=LoadingSettings(index_interval_bytes=0, segment_index_bytes=24)
    )
    segment = NewSegment(0, config, "users-0")
    for number in range(2):
        put(segment, 10, number, number)
        segment.end_chunk()
    return segment


def put(segment: NewSegment, size: int, offset: int, timestamp: int) -> None:
    """Add a batch of zeros."""
    segment.put(bytes(size), Written(size, offset, timestamp, offset))


def test_a_chunk_gets_at_most_one_index_entry() -> None:
    config = CleaningSettings(index_per_batch=False, loading=LoadingSettings(index_interval_bytes=100))
    segment = NewSegment(1000, config, "users-0")
    for chunk in range(3):
        for number in range(3):
            put(segment, 50, 1000 + 10 * chunk + number, 500 if (chunk, number) == (1, 1) else chunk)
        segment.end_chunk()
    contents = segment.finish()
    assert list(decode_offset_entries(contents[names.OFFSET_INDEX], 1000)) == [
        OffsetIndexEntry(1012, 150),
        OffsetIndexEntry(1022, 300),
    ]
    assert list(decode_time_entries(contents[names.TIME_INDEX], 1000)) == [TimeIndexEntry(500, 1011)]
    assert names.TXN_INDEX not in contents
    assert segment.size == 450


def test_each_batch_gets_an_index_entry() -> None:
    """As from Kafka 4.1 on: also inside a chunk, and as recovery of the segment would make them."""
    batches = [encode_batch([NewRecord(1000 + number, 500 - number, b"k", bytes(60))]) for number in range(9)]
    size = len(batches[0])
    segment = NewSegment(1000, CleaningSettings(loading=LoadingSettings(index_interval_bytes=2 * size)), "users-0")
    for first, stop in ((0, 5), (5, 9)):
        data = b"".join(batches[first:stop])
        segment.put(data, Written(len(data), 1000 + stop - 1, 500 - first, 1000 + stop - 1))
        segment.end_chunk()
    contents = segment.finish()
    assert list(decode_offset_entries(contents[names.OFFSET_INDEX], 1000)) == [
        OffsetIndexEntry(1003, 3 * size),
        OffsetIndexEntry(1006, 6 * size),
    ]
    assert list(decode_time_entries(contents[names.TIME_INDEX], 1000)) == [TimeIndexEntry(500, 1000)]
    assert segment.size == 9 * size


def test_an_empty_segment_has_empty_indexes() -> None:
    assert NewSegment(5, CleaningSettings(), "users-0").finish() == {names.OFFSET_INDEX: b"", names.TIME_INDEX: b""}


def test_offsets_that_do_not_fit_and_full_indexes_are_where_kafka_fails() -> None:
    segment = NewSegment(0, CleaningSettings(index_per_batch=False), "users-0")
    put(segment, 10, 1 << 31, 5)
    with pytest.raises(CleaningError, match=r"splits such a segment .*: kdump repair users-0 shows the ways"):
        segment.end_chunk()
    segment = with_a_full_time_index()
    put(segment, 10, 2, 2)
    with pytest.raises(CleaningError, match=r"Attempt to append to a full time index \(size = 1\)"):
        segment.end_chunk()


ABORTED = AbortedTxn(0, 7, 10, 20, 10)


def test_an_aborted_transactions_batches_go_from_its_first_offset_to_its_marker() -> None:
    txns = Transactions()
    txns.add([ABORTED, ABORTED])
    assert not txns.discards_data(9, 7, True)
    assert txns.discards_data(10, 7, True)
    assert not txns.discards_data(11, 8, True)
    assert not txns.discards_data(12, 7, False)
    assert txns.discards_marker(20, 7, ABORT) == (False, ABORTED)
    assert not txns.discards_data(21, 7, True)
    assert txns.is_idle


def test_a_marker_of_which_no_batch_was_met_may_go() -> None:
    txns = Transactions()
    txns.add([ABORTED])
    assert txns.discards_marker(20, 7, ABORT) == (True, None)
    assert txns.discards_marker(30, 7, COMMIT) == (True, None)
    txns.discards_data(31, 7, True)
    assert txns.discards_marker(32, 7, COMMIT) == (False, None)
    assert txns.discards_marker(33, 7, COMMIT) == (True, None)
    assert txns.discards_marker(34, 7, None) == (True, None)
    assert txns.discards_marker(35, 7, LEADER_CHANGE) == (False, None)


def test_entries_of_the_new_transaction_index_have_to_follow_each_other() -> None:
    segment = NewSegment(0, CleaningSettings(), "users-0")
    segment.note_aborted(ABORTED)
    with pytest.raises(CleaningError, match="is not after 20"):
        segment.note_aborted(ABORTED._replace(producer_id=8))
    segment.note_aborted(ABORTED._replace(last_offset=21))
    assert len(segment.finish()[names.TXN_INDEX]) == 2 * 34


def test_settings_can_be_replaced() -> None:
    assert CleaningSettings(load_factor=0.5).map_keys == 2796202


def test_an_aborted_transaction_is_ahead_then_under_way_and_then_over() -> None:
    txns = Transactions()
    idle = [txns.is_idle]
    txns.add([ABORTED])
    idle.append(txns.is_idle)
    txns.discards_data(10, 7, True)
    idle.append(txns.is_idle)
    txns.discards_marker(20, 7, ABORT)
    idle.append(txns.is_idle)
    assert idle == [True, False, False, True]


def test_a_later_abort_of_which_no_batch_was_met_may_go() -> None:
    txns = Transactions()
    txns.add([ABORTED, AbortedTxn(0, 7, 30, 40, 40)])
    assert txns.discards_data(10, 7, True)
    assert txns.discards_marker(20, 7, ABORT) == (False, ABORTED)
    assert txns.discards_marker(40, 7, ABORT) == (True, None)


def test_which_entries_of_transaction_indexes_count(tmp_path: Path) -> None:
    segments = [facts(tmp_path, base, 1).segment for base in (0, 100, 200)]
    before = AbortedTxn(0, 1, 10, 29, 15)
    after = AbortedTxn(0, 2, 20, 30, 40)
    last = AbortedTxn(0, 3, 50, 110, 98)
    beyond = AbortedTxn(0, 4, 99, 120, 99)
    put_aborted(tmp_path, 100, [before, after, last, beyond])
    put_aborted(tmp_path, 200, [AbortedTxn(0, 5, 60, 210, 211)])

    def entries(log_start_offset: int, upper_bound: int) -> list[int]:
        return [txn.producer_id for txn in aborted_in(segments, log_start_offset, upper_bound)]

    assert entries(29, 1000) == [1, 2, 3, 4, 5]
    assert entries(30, 1000) == [2, 3, 4, 5]  # a marker before the log start offset ends nothing that is still there
    assert entries(0, 99) == [1, 2, 3]  # what starts at the upper bound is behind it, and so is all that follows
    assert entries(0, 98) == [1, 2, 3]  # the last stable offset is reached, so nothing that follows starts before
    assert entries(0, 50) == [1, 2]


def test_entries_of_an_unknown_version_are_not_read(tmp_path: Path) -> None:
    segment = facts(tmp_path, 0, 1).segment
    put_aborted(tmp_path, 0, [ABORTED._replace(version=0x100)])
    with pytest.raises(UnknownTxnVersionError):
        list(aborted_in([segment], 0, 100))


# --- keys kept as they are


def test_exact_keys_take_their_bytes_and_what_an_entry_needs() -> None:
    keys = ExactKeys(2 * ENTRY_BYTES + 3)
    assert (keys.put(b"a", 1), keys.put(b"bb", 2)) == (True, True)
    assert (keys.put(b"c", 3), keys.put(b"bb", 4)) == (False, True)
    assert (keys.size, keys.get(b"a"), keys.get(b"bb"), keys.get(b"c")) == (2, 1, 4, -1)


def test_the_longer_the_keys_the_fewer_have_room() -> None:
    keys = ExactKeys(2 * (ENTRY_BYTES + 100) - 1)
    assert (keys.put(b"a" * 100, 1), keys.put(b"b" * 100, 2), keys.put(b"c" * 99, 3)) == (True, False, True)


def test_there_is_always_room_for_one_exact_key() -> None:
    keys = ExactKeys(0)
    assert (keys.put(b"a", 1), keys.put(b"b", 2), keys.size) == (True, False, 1)


# --- groups, by the edges of their limits


def test_only_whole_entries_of_an_index_count(tmp_path: Path) -> None:
    for kind, size, entry in (("index", 20, 8), ("times", 23, 12)):
        whole = size // entry * entry
        segments = [facts(tmp_path, base, 1, **{kind: size}) for base in (0, 10)]
        assert groups(segments, 20, loading=LoadingSettings(segment_index_bytes=2 * whole)) == [[0, 10]]
        assert groups(segments, 20, loading=LoadingSettings(segment_index_bytes=2 * whole - 1)) == [[0], [10]]


def test_an_index_that_is_not_there_needs_no_room(tmp_path: Path) -> None:
    segments = [facts(tmp_path, 0, 1, index=24), facts(tmp_path, 10, 1)]
    (tmp_path / f"{10:020}.index").unlink()
    assert groups(segments, 20, loading=LoadingSettings(segment_index_bytes=24)) == [[0, 10]]


# --- what the indexes are told


def index_of(segment: NewSegment) -> tuple[list[OffsetIndexEntry], list[TimeIndexEntry]]:
    """The entries of both indexes."""
    contents = segment.finish()
    offsets, times = contents[names.OFFSET_INDEX], contents[names.TIME_INDEX]
    base = segment.base_offset
    return list(decode_offset_entries(offsets, base)), list(decode_time_entries(times, base))


def test_each_batch_tells_its_last_offset_and_its_largest_timestamp() -> None:
    """Of format v2 and v1; v0 has no timestamps."""
    first = encode_batch([NewRecord(1000, 50, b"a", b"1"), NewRecord(1004, 70, b"b", b"1")])
    second = encode_message(NewRecord(1005, 90, b"c", b"1"), 1)
    third = encode_message(NewRecord(1006, 95, b"d", b"1"), 0)
    fourth = encode_batch([NewRecord(1007, 99, b"a", b"1"), NewRecord(1009, 80, b"b", b"1")])
    data = b"".join((first, second, third, fourth))
    segment = NewSegment(1000, CleaningSettings(loading=LoadingSettings(index_interval_bytes=0)), "users-0")
    segment.put(data, Written(len(data), 1009, 99, 1009))
    assert index_of(segment) == (
        [
            OffsetIndexEntry(1005, len(first)),
            OffsetIndexEntry(1006, len(first + second)),
            OffsetIndexEntry(1009, len(first + second + third)),
        ],
        [TimeIndexEntry(90, 1005), TimeIndexEntry(99, 1009)],
    )
    assert segment.size == len(data)


@pytest.mark.parametrize("in_one_chunk", [True, False])
def test_of_equal_timestamps_the_first_counts(in_one_chunk: bool) -> None:
    segment = NewSegment(0, CleaningSettings(index_per_batch=False), "users-0")
    for offset in (3, 5):
        put(segment, 10, offset, 500)
        if not in_one_chunk:
            segment.end_chunk()
    assert index_of(segment) == ([], [TimeIndexEntry(500, 3)])


def test_the_last_slot_of_a_time_index_is_for_the_end() -> None:
    segment = with_a_full_time_index()
    assert index_of(segment)[1] == [TimeIndexEntry(1, 1)]


def test_offsets_below_the_base_offset_are_not_written() -> None:
    segment = NewSegment(10, CleaningSettings(index_per_batch=False), "users-0")
    put(segment, 10, 9, 5)
    with pytest.raises(CleaningError, match="offset 9 is further than"):
        segment.end_chunk()


def test_what_a_kernel_made_of_many_batches_is_written_in_pieces() -> None:
    """Rows 5 to 8 of a block; nothing is left of row 6."""
    block = BatchBlock(10)
    for row in range(5, 9):
        block.last_offset[row] = 100 + row
    ends, offsets, times = array("q", [10, 10, 30, 60]), array("q", [104, -1, 107, 108]), array("q", [50, -1, 70, 70])
    rewritten = Rewritten(bytearray(range(60)), bytearray(4), ends, offsets, times, None, 5)
    assert [rewritten.start(row) for row in range(5, 10)] == [0, 10, 10, 30, 60]
    assert [rewritten.row_beyond(size, 5, 9) for size in (0, 9, 10, 29, 30, 60, 99)] == [6, 6, 8, 8, 9, 9, 9]
    assert [rewritten.row_beyond(size, 7, 9) for size in (0, 29, 30, 99)] == [8, 8, 9, 9]
    assert rewritten.row_beyond(30, 5, 8) == 8
    assert rewritten.between(block, 5, 9) == (rewritten.data, Written(60, 108, 70, 107), 0)
    assert rewritten.between(block, 6, 8) == (rewritten.data, Written(20, 107, 70, 107), 10)
    assert rewritten.between(block, 5, 7) == (rewritten.data, Written(10, 104, 50, 105), 0)
