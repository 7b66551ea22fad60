"""Groups of segments, chunks of the read buffer, indexes of a new segment, transactions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kdump.clean.grouping import group_segments
from kdump.clean.new_segment import NewSegment, Written
from kdump.clean.read_buffer import ReadBuffer
from kdump.clean.transactions import Transactions
from kdump.errors import CleaningError
from kdump.formats import names
from kdump.formats.batch import ABORT, COMMIT, LEADER_CHANGE
from kdump.formats.encode import NewRecord, encode_batch
from kdump.formats.index_entries import (
    AbortedTxn,
    OffsetIndexEntry,
    TimeIndexEntry,
    decode_offset_entries,
    decode_time_entries,
)
from kdump.settings.cleaning import CleaningSettings
from kdump.settings.loading import LoadingSettings
from kdump.storage.facts import SegmentFacts
from kdump.storage.segment import Segment


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
    config = CleaningSettings(
        index_per_batch=False, loading=LoadingSettings(index_interval_bytes=0, segment_index_bytes=24)
    )
    segment = NewSegment(0, config, "users-0")
    for number in range(2):
        put(segment, 10, number, number)
        segment.end_chunk()
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
    segment.note_aborted([ABORTED])
    with pytest.raises(CleaningError, match="is not after 20"):
        segment.note_aborted([ABORTED._replace(producer_id=8)])
    segment.note_aborted([ABORTED._replace(last_offset=21)])
    assert len(segment.finish()[names.TXN_INDEX]) == 2 * 34


def test_settings_can_be_replaced() -> None:
    assert CleaningSettings(load_factor=0.5).map_keys == 2796202
