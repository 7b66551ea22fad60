"""What goes when a replica leads: counted batch by batch, at every edge of what is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.formats.batch import CONTROL
from kdump.formats.encode import NewBatch, NewRecord, encode_batch, encode_message
from kdump.replication.compacted import KeyRecord
from kdump.replication.compare import MAX_RANGES, OffsetRange
from kdump.replication.loss import (
    Bounds,
    Figures,
    Loss,
    LostKeys,
    LostRange,
    Shared,
    Span,
    lost_range,
)
from kdump.storage.partition import PartitionLog
from tests.commands.logs import write_segment
from tests.replicas.building import NOW, OnDisk, Sent, chain, flip, write_copy

NOTHING = Bounds(0)


def copy_of(root: Path, batches: list[Sent], **fields: Any) -> PartitionLog:
    return PartitionLog(str(write_copy(root, 1, OnDisk(batches, **fields))))


def counted(batches: Sequence[Sent], **fields: Any) -> LostRange:
    """What batches without gaps come to, each of them as a whole."""
    first, last = batches[0].base, batches[-1].end - 1
    expected: dict[str, Any] = {
        "batches": len(batches),
        "records": sum(batch.count for batch in batches),
        "size": sum(len(batch.data) for batch in batches),
        "first_timestamp": NOW + batches[0].end - 1,
        "last_timestamp": NOW + last,
        "epochs": tuple(sorted({batch.epoch for batch in batches})),
        "spans": ((first, last),),
    }
    return LostRange(7, first, last, **(expected | fields))


@pytest.mark.parametrize(
    ("start", "stop", "lost"),
    [(0, 30, slice(0, 6)), (5, 30, slice(1, 6)), (9, 30, slice(1, 6)), (10, 30, slice(2, 6)), (0, 10, slice(0, 2)),
     (0, 11, slice(0, 3)), (12, 13, slice(2, 3)), (29, 99, slice(5, 6))],
)  # fmt: skip
def test_a_batch_goes_with_any_of_its_offsets(tmp_path: Path, start: int, stop: int, lost: slice) -> None:
    batches = chain(0, (0, 2), (3, 4))
    log = copy_of(tmp_path, batches, roll=[15])
    assert lost_range(log, 7, [Span(start, stop)], NOTHING) == counted(batches[lost])


def test_nothing_goes_outside(tmp_path: Path) -> None:
    log = copy_of(tmp_path, chain(10, (0, 2)))
    for span in (Span(0, 10), Span(20, 30), Span(0, 0)):
        assert lost_range(log, 7, [span], NOTHING) is None, span
    assert lost_range(log, 7, [], NOTHING) is None


def test_spans_with_a_gap_stay_apart(tmp_path: Path) -> None:
    batches = chain(0, (0, 6))
    found = lost_range(copy_of(tmp_path, batches), 7, [Span(0, 5), Span(15, 30)], NOTHING)
    assert found is not None
    assert (found.first, found.last, found.batches, found.records) == (0, 29, 4, 20)
    assert found.spans == ((0, 4), (15, 29))


def test_no_more_spans_are_told_than_there_is_room_for(tmp_path: Path) -> None:
    count = MAX_RANGES + 2
    batches = [Sent(10 * number, 1, 0) for number in range(count)]
    found = lost_range(copy_of(tmp_path, batches), 7, [Span(0, 10 * count)], NOTHING)
    assert found is not None
    assert len(found.spans) == MAX_RANGES
    assert found.spans[-2] == (10 * (MAX_RANGES - 2), 10 * (MAX_RANGES - 2))
    assert found.spans[-1] == (10 * (MAX_RANGES - 1), 10 * (count - 1))


@pytest.mark.parametrize(
    ("bounds", "committed", "possible"),
    [
        (Bounds(0), 0, 0),
        (Bounds(5), 5, 0),
        (Bounds(6), 10, 0),
        (Bounds(0, 10), 0, 10),
        (Bounds(5, 10), 5, 5),
        (Bounds(5, 11), 5, 10),
        (Bounds(5, 0, unclean_epoch=3), 5, 5),
        (Bounds(5, 11, unclean_epoch=4), 5, 15),
        (Bounds(5, None, unclean_epoch=3), 5, 5),
    ],
)
def test_what_was_committed(tmp_path: Path, bounds: Bounds, committed: int, possible: int) -> None:
    """Two batches of epoch 0, then two of epoch 3: a batch counts by its first offset."""
    batches = chain(0, (0, 2), (3, 2))
    expected = counted(batches, committed=committed, possible=possible)
    assert lost_range(copy_of(tmp_path, batches), 7, [Span(0, 20)], bounds) == expected


def test_deleted_records_do_not_go(tmp_path: Path) -> None:
    """A log start inside a batch: only what stands behind it was there to be lost."""
    batches = chain(0, (0, 3))
    found = lost_range(copy_of(tmp_path, batches), 7, [Span(7, 15)], Bounds(8), log_start=7)
    assert found is not None
    assert (found.first, found.records, found.committed, found.spans) == (7, 3 + 5, 3, ((7, 14),))


def test_what_is_kept_counts_from_where_the_leader_has_nothing(tmp_path: Path) -> None:
    batches = chain(0, (0, 3))
    found = lost_range(copy_of(tmp_path, batches), 7, [Span(7, 12)], NOTHING, is_cut=False)
    assert found is not None
    assert (found.first, found.last, found.is_cut, found.spans) == (7, 14, False, ((7, 14),))


def test_damaged_batches_are_none(tmp_path: Path) -> None:
    batches = chain(0, (0, 3))
    log = copy_of(tmp_path, batches)
    flip(next((tmp_path / "b1" / "orders-0").glob("*.log")), len(batches[0].data) + 70)
    found = lost_range(log, 7, [Span(0, 15)], NOTHING)
    assert found is not None
    assert (found.batches, found.records, found.spans) == (2, 10, ((0, 4), (10, 14)))


def test_what_another_copy_loses_counts_there(tmp_path: Path) -> None:
    batches = chain(0, (0, 4))
    log = copy_of(tmp_path, batches)
    shared = Shared([Span(5, 15)], [OffsetRange(10, 14, 1, 5, 100)])
    found = lost_range(log, 7, [Span(0, 20)], NOTHING, [shared])
    assert found is not None
    assert found.spans == ((0, 4), (10, 19))
    assert lost_range(log, 7, [Span(0, 20)], NOTHING, [Shared([Span(0, 20)], [])]) is None


def test_of_several_ranges_the_one_before_the_batch_counts() -> None:
    ranges = [OffsetRange(first, first + 4, 1, 5, 100) for first in (0, 10, 20)]
    shared = Shared([Span(0, 8), Span(9, 40)], ranges)
    assert [first for first in range(0, 40, 5) if shared.has(first, first + 4)] == [5, 15, 25, 30, 35]


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(1, 5)), max_size=4),
    st.lists(st.tuples(st.integers(0, 30), st.integers(1, 5)), max_size=4),
    st.integers(0, 30),
    st.integers(0, 4),
)
def test_shared_is_what_is_in_a_span_and_is_none_of_its_own(
    spans: list[tuple[int, int]], own: list[tuple[int, int]], first: int, count: int
) -> None:
    def apart(stretches: list[tuple[int, int]]) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        for start, size in sorted(stretches):
            if not found or start >= found[-1][1]:
                found.append((start, start + size))
        return found

    last = first + count
    in_span = any(start <= last and first < stop for start, stop in apart(spans))
    is_own = any(start <= first < stop for start, stop in apart(own))
    ranges = [OffsetRange(start, stop - 1, 1, 1, 1) for start, stop in apart(own)]
    shared = Shared([Span(*each) for each in apart(spans)], ranges)
    assert shared.has(first, last) == (in_span and not is_own)


def test_markers_producers_and_old_messages(tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    marker = NewRecord(4, NOW + 9, b"\0\0\0\1", b"\0\0\0\0\0\3")
    parts = [
        encode_message(NewRecord(0, -1, b"k", b"v"), 0),
        encode_batch([NewRecord(at, NOW, None, b"v") for at in (1, 2)], NewBatch(producer_id=5, leader_epoch=2)),
        encode_batch([NewRecord(3, NOW + 3, None, b"v")], NewBatch(producer_id=0, leader_epoch=1)),
        encode_batch([marker], NewBatch(CONTROL, producer_id=5, leader_epoch=2)),
        encode_batch([], NewBatch(base_offset=5, last_offset=9, base_timestamp=-1, max_timestamp=-1, leader_epoch=2)),
    ]
    write_segment(folder, 0, parts)
    found = lost_range(PartitionLog(str(folder)), 7, [Span(0, 10)], NOTHING)
    assert found is not None
    assert (found.batches, found.records, found.producers) == (5, 1 + 2 + 1 + 0 + 1, 2)
    assert (found.first_timestamp, found.last_timestamp) == (NOW, NOW + 9)
    assert found.epochs == (-1, 1, 2)
    assert found.size == sum(map(len, parts))


def test_the_first_millisecond_is_a_time(tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    times = (-1, 3, 0)
    write_segment(folder, 0, [encode_batch([NewRecord(at, time, None, b"v")]) for at, time in enumerate(times)])
    found = lost_range(PartitionLog(str(folder)), 7, [Span(0, 3)], NOTHING)
    assert found is not None
    assert (found.first_timestamp, found.last_timestamp) == (0, 3)


def keys(*records: tuple[int, int]) -> list[KeyRecord]:
    """Latest records by their offsets and epochs."""
    return [KeyRecord(offset, epoch, b"value") for offset, epoch in records]


def test_keys_count_by_the_offsets_of_their_records() -> None:
    found = LostKeys.of(keys((3, 0), (5, 0), (6, 4), (9, 4)), Bounds(5, 9, unclean_epoch=1))
    assert (list(found.offsets), found.committed, found.possible) == ([3, 5, 6, 9], 1, 2)
    assert [found.has(*each) for each in ((0, 2), (3, 3), (0, 9), (4, 6), (7, 8), (9, 20), (10, 20))] == [
        0, 1, 4, 2, 0, 1, 0,
    ]  # fmt: skip


def test_what_is_kept_counts_with_its_latest_records_only(tmp_path: Path) -> None:
    batches = chain(0, (0, 3))
    lost = LostKeys.of(keys((6, 0), (8, 0)), NOTHING)
    log = copy_of(tmp_path, batches)
    found = lost_range(log, 7, [Span(6, 9)], NOTHING, is_cut=False, keys=lost)
    assert found is not None
    assert (found.batches, found.records, found.keys) == (1, 2, lost)
    cut = lost_range(log, 7, [Span(6, 9)], NOTHING, keys=lost)
    assert cut is not None
    assert cut.records == 5


def test_keys_without_batches_are_told_by_their_offsets(tmp_path: Path) -> None:
    log = copy_of(tmp_path, chain(0, (0, 1)))
    lost = LostKeys.of(keys((56, 0), (58, 0)), NOTHING)
    assert lost_range(log, 7, [], NOTHING, keys=lost) == LostRange(7, 56, 58, keys=lost)
    assert lost_range(log, 7, [], NOTHING, keys=LostKeys.of([], NOTHING)) is None


def test_a_loss_is_the_sum_of_its_ranges() -> None:
    first = LostRange(1, 0, 4, 1, 5, 100, committed=2, possible=1, keys=LostKeys([0, 4], 1, 1))
    second = LostRange(2, 5, 9, 2, 6, 50, committed=3, possible=2, keys=LostKeys([7], 0, 1))
    loss = Loss((first, second))
    assert (loss.records, loss.size, loss.committed, loss.possible) == (11, 150, 5, 3)
    assert loss.keys is None
    assert loss.figures == Figures(11, 5, 3)
    assert not loss.figures.are_keys
    compacted = Loss((first, second), is_compacted=True)
    assert compacted.figures == compacted.keys == Figures(3, 1, 2, are_keys=True)
    too_many = Loss((first, LostRange(2, 5, 9, 1, 6)), is_compacted=True)
    assert too_many.keys is None
    assert too_many.figures == Figures(11, 2, 1)
    assert Loss(is_compacted=True).figures == Figures(0, 0, 0, are_keys=True)


def test_only_so_many_producers_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kdump.replication.loss.MAX_PRODUCERS", 2)
    folder = tmp_path / "t-0"
    folder.mkdir()
    write_segment(
        folder, 0, [encode_batch([NewRecord(at, NOW, None, b"v")], NewBatch(producer_id=at)) for at in range(4)]
    )
    found = lost_range(PartitionLog(str(folder)), 7, [Span(0, 4)], NOTHING)
    assert found is not None
    assert (found.producers, found.batches) == (2, 4)
