"""Lookups in small logs whose answers can be told by hand; the broker's own answers are compared elsewhere."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kdump
from kdump.errors import KdumpError
from kdump.formats.codecs import GZIP
from kdump.formats.encode import NewBatch, NewRecord, encode_batch, encode_message, encode_wrapper
from kdump.formats.index_entries import (
    AbortedTxn,
    OffsetIndexEntry,
    TimeIndexEntry,
    encode_aborted_txns,
    encode_offset_entries,
    encode_time_entries,
)
from kdump.query.lookup import (
    EARLIEST,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    LogLookup,
    OffsetPosition,
    TimestampOffset,
)
from kdump.releases import KafkaRelease


def batch(first: int, count: int, timestamp: int, leader_epoch: int = 0) -> bytes:
    records = [NewRecord(first + n, timestamp + n, b"k", b"v" * 100) for n in range(count)]
    return encode_batch(records, NewBatch(leader_epoch=leader_epoch))


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """Segments 0 (offsets 0-5, then 8-9 after a gap), 10 (empty) and 20 (20-21), with the indexes of the first."""
    partition = tmp_path / "orders-0"
    partition.mkdir()
    batches = [batch(0, 3, 1000), batch(3, 3, 2000), batch(8, 2, 1500, leader_epoch=2)]
    (partition / "00000000000000000000.log").write_bytes(b"".join(batches))
    entries = [OffsetIndexEntry(5, len(batches[0])), OffsetIndexEntry(9, len(batches[0] + batches[1]))]
    (partition / "00000000000000000000.index").write_bytes(encode_offset_entries(entries, 0) + bytes(80))
    times = [TimeIndexEntry(2002, 5)]
    (partition / "00000000000000000000.timeindex").write_bytes(encode_time_entries(times, 0) + bytes(120))
    (partition / "00000000000000000000.txnindex").write_bytes(
        encode_aborted_txns([AbortedTxn(0, 7, 1, 4, 5), AbortedTxn(0, 8, 3, 9, 10)])
    )
    (partition / "00000000000000000010.log").write_bytes(b"")
    (partition / "00000000000000000020.log").write_bytes(batch(20, 2, 3000, leader_epoch=3))
    times = [TimeIndexEntry(3001, 21)]
    (partition / "00000000000000000020.timeindex").write_bytes(encode_time_entries(times, 20))
    (partition / "leader-epoch-checkpoint").write_text("0\n4\n0 0\n2 8\n3 20\n9 500\n")
    os.utime(partition / "00000000000000000010.log", ns=(0, 2_500_000_000))
    return partition


def test_an_offset_is_found_through_the_index(log_dir: Path) -> None:
    with LogLookup(kdump.open_log(str(log_dir)), clean=False) as lookup:
        size = len(batch(0, 3, 1000))
        assert lookup.find_offset(4) == OffsetPosition(0, 0, 0, True, 5, size, size, 3)
        assert lookup.find_offset(5) == OffsetPosition(0, 5, size, True, 5, size, size, 3)


def test_an_offset_in_a_gap_leads_to_the_batch_behind_it(log_dir: Path) -> None:
    with LogLookup(kdump.open_log(str(log_dir)), clean=False) as lookup:
        found = lookup.find_offset(6)
        assert (found.found, found.batch_base_offset, found.batch_last_offset, found.index_offset) == (True, 8, 9, 5)


def test_a_fetch_goes_on_behind_an_empty_segment(log_dir: Path) -> None:
    with LogLookup(kdump.open_log(str(log_dir)), clean=False) as lookup:
        assert lookup.find_offset(12) == OffsetPosition(10, 10, 0)
        found = lookup.find_from(12)
        assert (found.segment, found.batch_last_offset, found.position) == (20, 21, 0)
        assert not lookup.find_from(22).found


def test_an_offset_before_the_first_segment_has_none(log_dir: Path) -> None:
    with LogLookup(kdump.open_log(str(log_dir)), clean=False) as lookup:
        assert lookup.find_offset(-1) == OffsetPosition(None)


def test_a_time_is_found_in_the_first_segment_that_reaches_it(log_dir: Path) -> None:
    with LogLookup(kdump.open_log(str(log_dir)), clean=False) as lookup:
        assert lookup.find_timestamp(0) == TimestampOffset(0, 1000, 0)
        assert lookup.find_timestamp(1002) == TimestampOffset(2, 1002, 0)
        assert lookup.find_timestamp(2002) == TimestampOffset(5, 2002, 0)
        assert lookup.find_timestamp(2501) == TimestampOffset(20, 3000, 3)
        assert lookup.find_timestamp(3002) is None


def test_a_segment_without_timestamps_counts_with_its_files_time_and_hides_later_ones(log_dir: Path) -> None:
    # the empty segment's file is of 2500 ms: it is chosen, and has nothing
    with LogLookup(kdump.open_log(str(log_dir)), clean=False) as lookup:
        assert lookup.find_timestamp(2400) is None


def test_records_below_the_log_start_offset_are_not_found(log_dir: Path) -> None:
    with LogLookup(kdump.open_log(str(log_dir)), 4, clean=False) as lookup:
        assert lookup.find_timestamp(0) == TimestampOffset(4, 2001, 0)
        assert lookup.find_timestamp(EARLIEST) == TimestampOffset(4, -1, 0)


@pytest.mark.parametrize(("start", "epoch"), [(7, 0), (8, 2), (19, 2), (20, 3), (21, 3)])
def test_the_log_start_offset_has_the_epoch_that_goes_on_there(log_dir: Path, start: int, epoch: int) -> None:
    """A broker cuts its epochs at the log start offset when it loads the log, whatever the file still has."""
    with LogLookup(kdump.open_log(str(log_dir)), start, clean=False) as lookup:
        assert lookup.find_timestamp(EARLIEST) == TimestampOffset(start, -1, epoch)


def test_special_times(log_dir: Path) -> None:
    with LogLookup(kdump.open_log(str(log_dir)), clean=False) as lookup:
        assert lookup.find_timestamp(LATEST) == TimestampOffset(22, -1, 3)
        assert lookup.find_timestamp(EARLIEST) == TimestampOffset(0, -1, 0)
        assert lookup.find_timestamp(MAX_TIMESTAMP) == TimestampOffset(21, 3001, 3)
        assert lookup.find_timestamp(LATEST_TIERED) == TimestampOffset(-1, -1, -1)


def test_aborted_transactions_of_a_fetch(log_dir: Path) -> None:
    with LogLookup(kdump.open_log(str(log_dir)), clean=False) as lookup:
        assert [txn.producer_id for txn in lookup.aborted_transactions(0, 100)] == [7, 8]
        assert [txn.producer_id for txn in lookup.aborted_transactions(5, 100)] == [8]
        assert [txn.producer_id for txn in lookup.aborted_transactions(0, 2)] == [7]


def test_a_lookup_reads_little_of_a_large_log(tmp_path: Path) -> None:
    partition = tmp_path / "orders-0"
    partition.mkdir()
    size = len(batch(0, 1, 1000))
    (partition / "00000000000000000000.log").write_bytes(b"".join(batch(n, 1, 1000 + n) for n in range(20_000)))
    entries = [OffsetIndexEntry(n, n * size) for n in range(30, 20_000, 30)]
    (partition / "00000000000000000000.index").write_bytes(encode_offset_entries(entries, 0))
    with LogLookup(kdump.open_log(str(partition)), clean=True) as lookup:
        assert lookup.find_offset(15_017).batch_last_offset == 15_017
        assert 0 < lookup.log_bytes_read < 10_000


@pytest.mark.parametrize("magic", [0, 1])
def test_the_base_offset_of_a_wrapper_is_its_first_message_s(magic: int, tmp_path: Path) -> None:
    partition = tmp_path / "orders-0"
    partition.mkdir()
    records = [NewRecord(n, 1000, b"k", b"v") for n in range(7, 10)]
    wrapper = encode_wrapper(records, magic, GZIP)
    message = encode_message(records[0]._replace(offset=10), magic)
    broken = bytearray(encode_wrapper([record._replace(offset=record.offset + 4) for record in records], magic, GZIP))
    broken[-30:] = bytes(30)
    (partition / "00000000000000000000.log").write_bytes(wrapper + message + broken)
    with LogLookup(kdump.open_log(str(partition)), clean=True) as lookup:
        found = [lookup.find_offset(offset) for offset in (8, 10, 12)]
    assert [(position.batch_base_offset, position.batch_last_offset) for position in found] == [
        (7, 9),
        (10, 10),
        (-1, 13),
    ]


def test_batches_out_of_order_are_found_as_the_release_finds_them(tmp_path: Path) -> None:
    partition = tmp_path / "orders-0"
    partition.mkdir()
    content = b"".join(batch(first, count, 1000) for first, count in ((0, 6), (4, 3), (2, 9)))
    (partition / "00000000000000000000.log").write_bytes(content)

    def found(release: KafkaRelease) -> list[tuple[int, int]]:
        with LogLookup(kdump.open_log(str(partition)), clean=True, release=lambda: release) as lookup:
            positions = map(lookup.find_offset, (3, 4, 5, 6, 10, 11))
            return [(position.batch_base_offset, position.batch_last_offset) for position in positions]

    assert found(KafkaRelease.V4_0) == [(0, 5), (0, 5), (0, 5), (4, 6), (2, 10), (-1, -1)]
    assert found(KafkaRelease.V4_1) == [(0, 5), (4, 6), (2, 10), (2, 10), (2, 10), (-1, -1)]


def test_nothing_is_found_from_the_log_end_offset_on(tmp_path: Path) -> None:
    """The index leads to a batch after damage at which the log ends; clients get nothing from there."""
    partition = tmp_path / "orders-0"
    partition.mkdir()
    before = batch(0, 3, 1000) + batch(3, 3, 2000) + bytes(range(1, 200))
    (partition / "00000000000000000000.log").write_bytes(before + batch(6, 3, 3000))
    entries = [OffsetIndexEntry(6, len(before)), OffsetIndexEntry(100, 1 << 20)]
    (partition / "00000000000000000000.index").write_bytes(encode_offset_entries(entries, 0))
    times = [TimeIndexEntry(2002, 5), TimeIndexEntry(3002, 6)]
    (partition / "00000000000000000000.timeindex").write_bytes(encode_time_entries(times, 0))
    steps: list[str] = []
    with LogLookup(kdump.open_log(str(partition)), clean=True, trace=steps.append) as lookup:
        assert lookup.log_end_offset() == 6
        assert [lookup.find_offset(offset).found for offset in (4, 5, 6, 7)] == [True, True, False, False]
        assert lookup.find_timestamp(2001) == TimestampOffset(4, 2001, 0)
        assert lookup.find_timestamp(3002) is lookup.find_timestamp(MAX_TIMESTAMP) is None
    assert "offset 7 is not in the log, which ends at 6" in steps


def test_the_release_is_not_asked_for_where_batches_are_in_order(log_dir: Path) -> None:
    with LogLookup(kdump.open_log(str(log_dir)), clean=False, release=lambda: pytest.fail("asked")) as lookup:
        for offset in range(25):
            lookup.find_from(offset)


def test_the_steps_of_a_search_are_told(log_dir: Path) -> None:
    steps: list[str] = []
    with LogLookup(kdump.open_log(str(log_dir)), clean=False, trace=steps.append) as lookup:
        lookup.find_from(12)
        offset_steps = list(steps)
        steps.clear()
        lookup.find_timestamp(2400)
    assert offset_steps[0] == "segment 10: the largest base offset that is not above 12"
    assert "nothing there: a fetch continues with the next segment" in offset_steps
    assert offset_steps[-1].startswith("batch at byte 0 of ")
    assert steps[0] == "segment 0: largest timestamp 2002, of its time index's last entry"
    assert steps[1].startswith("segment 10: largest timestamp 2500, that of the file's last change")


def test_nothing_is_found_above_the_log_end_offset(tmp_path: Path) -> None:
    """The log ends at a damaged batch, as the last index entry leads to none; another entry leads behind the damage."""
    partition = tmp_path / "orders-0"
    partition.mkdir()
    batches = [batch(0, 3, 1000), bytes(100), batch(8, 2, 2000), batch(10, 3, 3000)]
    behind = len(batches[0] + batches[1])
    (partition / "00000000000000000000.log").write_bytes(b"".join(batches))
    entries = [OffsetIndexEntry(7, behind), OffsetIndexEntry(12, 7)]
    (partition / "00000000000000000000.index").write_bytes(encode_offset_entries(entries, 0))
    times = [TimeIndexEntry(1500, 7), TimeIndexEntry(2001, 9)]
    (partition / "00000000000000000000.timeindex").write_bytes(encode_time_entries(times, 0))
    with LogLookup(kdump.open_log(str(partition)), clean=True) as lookup:
        assert lookup.log_end_offset() == 3
        assert lookup.find_offset(0).found
        assert lookup.find_offset(9) == OffsetPosition(0, 7, behind)
        found = lookup.find_timestamp(1000)
        assert found is not None
        assert found.offset == 0
        assert lookup.find_timestamp(2000) is None
        assert lookup.find_timestamp(MAX_TIMESTAMP) is None


def test_the_hot_section_of_an_index_is_told(tmp_path: Path) -> None:
    partition = tmp_path / "orders-0"
    partition.mkdir()
    (partition / "00000000000000000000.log").write_bytes(batch(0, 3001, 1000))
    entries = [OffsetIndexEntry(n, 0) for n in range(1, 3001)]
    (partition / "00000000000000000000.index").write_bytes(encode_offset_entries(entries, 0))
    steps: list[str] = []
    with LogLookup(kdump.open_log(str(partition)), clean=True, trace=steps.append) as lookup:
        lookup.find_offset(2500)
    assert steps[1] == "offset index: 3000 entries, its hot section begins at slot 1975"
    probes = [int(step.split()[3]) for step in steps if step.startswith("offset index: slot")]
    assert min(probes) == 1975
    assert len(probes) < 14


def searched(partition: Path) -> None:
    """Search in every way there is; errors that kdump raises on purpose may come."""
    with LogLookup(kdump.open_log(str(partition)), clean=False) as lookup:
        searches: list[Callable[[], object]] = [partial(lookup.find_from, offset) for offset in (0, 4, 9, 21, 500)]
        searches += [partial(lookup.find_timestamp, time) for time in (LATEST, MAX_TIMESTAMP, EARLIEST, 0, 2001, 2999)]
        searches.append(lambda: list(lookup.aborted_transactions(0, 100)))
        for search in searches:
            with suppress(KdumpError):
                search()


FILES = ["00000000000000000000.log", "00000000000000000000.index", "00000000000000000000.timeindex",
         "00000000000000000000.txnindex", "00000000000000000020.log", "leader-epoch-checkpoint"]  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_flipped_bits_and_cuts_lead_to_an_answer_or_to_an_error_of_ours(log_dir: Path, name: str) -> None:
    path = log_dir / name
    content = path.read_bytes()
    content = content.rstrip(b"\0") + bytes(24) if name.endswith("index") else content
    for bit in range(0, 8 * len(content), 11):
        at = bit // 8
        path.write_bytes(content[:at] + bytes((content[at] ^ 1 << bit % 8,)) + content[at + 1 :])
        searched(log_dir)
    for size in range(0, len(content), 7):
        path.write_bytes(content[:size])
        searched(log_dir)


@given(data=st.data())
def test_any_sparse_index_gives_what_a_scan_of_the_whole_log_gives(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    gaps = data.draw(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3)), min_size=1, max_size=12))
    batches, positions, first, size = [], [], 0, 0
    for gap, count in gaps:
        first += gap
        positions.append((first, first + count - 1, size))
        batches.append(batch(first, count, 1000 + first))
        first += count
        size += len(batches[-1])
    chosen = [each for each in positions[1:] if data.draw(st.booleans())]
    partition = tmp_path_factory.mktemp("any") / "orders-0"
    partition.mkdir()
    (partition / "00000000000000000000.log").write_bytes(b"".join(batches))
    entries = [OffsetIndexEntry(last, position) for _, last, position in chosen]
    (partition / "00000000000000000000.index").write_bytes(encode_offset_entries(entries, 0))
    times = [TimeIndexEntry(1000 + last, last) for _, last, _ in [*chosen, positions[-1]]]
    (partition / "00000000000000000000.timeindex").write_bytes(encode_time_entries(dict.fromkeys(times), 0))
    records = [offset for low, last, _ in positions for offset in range(low, last + 1)]
    with LogLookup(kdump.open_log(str(partition)), clean=True) as lookup:
        for offset in range(first + 2):
            found = lookup.find_offset(offset)
            expected = next(((low, last, at) for low, last, at in positions if last >= offset), None)
            assert found.found == (expected is not None)
            if expected:
                assert (found.batch_base_offset, found.batch_last_offset, found.position) == expected
            answer = lookup.find_timestamp(1000 + offset)
            assert (answer.offset if answer else None) == next((each for each in records if each >= offset), None)
        assert lookup.log_end_offset() == first
