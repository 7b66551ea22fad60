"""The recovery of one segment: what is left of its files, and what is known of producers and leader epochs then."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kdump.errors import InvalidOffsetError, LoadError, OffsetOverflowError
from kdump.formats.checkpoints import EpochEntry
from kdump.formats.encode import NewRecord, encode_message
from kdump.formats.index_entries import (
    AbortedTxn,
    OffsetIndexEntry,
    TimeIndexEntry,
    encode_aborted_txns,
    encode_offset_entries,
    encode_time_entries,
)
from kdump.recovery.outcome import TRUNCATE, Loss, Step
from kdump.recovery.producer_state import ProducerStates
from kdump.recovery.segment_recovery import SegmentRecovery
from kdump.recovery.segments import LoadedSegment
from kdump.recovery.snapshots import SnapshotFiles
from kdump.settings.loading import LoadingSettings
from kdump.storage.leader_epochs import EpochCache
from kdump.storage.planned import PlannedPartition
from tests.recovery.building import batch, broken, file, make_log, marker, produced, with_offset

BASE = 10
LOG, INDEX, TIMES, TXNS = (file(BASE, kind) for kind in ("log", "index", "timeindex", "txnindex"))
EVERY = LoadingSettings(index_interval_bytes=0, segment_index_bytes=120)
"""Every batch but the first has an entry."""


def message(offset: int, timestamp: int = 1000, magic: int = 1) -> bytes:
    return encode_message(NewRecord(offset, timestamp, b"k", b"v"), magic)


class Recovered(SegmentRecovery):
    """The recovery of a segment of these batches, before it is run."""

    def __init__(
        self, folder: Path, *batches: bytes, config: LoadingSettings = EVERY, epochs: EpochCache | None = None,
        **files: bytes,
    ) -> None:  # fmt: skip
        data = {LOG: b"".join(batches)} | {file(BASE, kind): content for kind, content in files.items()}
        self.directory = PlannedPartition(make_log(folder, data))
        segment = LoadedSegment(self.directory, BASE, config.segment_index_bytes)
        super().__init__(segment, config, ProducerStates(SnapshotFiles(self.directory)), epochs, "t-0")

    def files(self) -> dict[str, bytes]:
        """What the segment's files hold now."""
        names = (LOG, INDEX, TIMES, TXNS)
        return {name: self.directory.read(name) for name in names if self.directory.exists(name)}


def index(*entries: tuple[int, int]) -> bytes:
    return encode_offset_entries((OffsetIndexEntry(*each) for each in entries), BASE)


def times(*entries: tuple[int, int]) -> bytes:
    return encode_time_entries((TimeIndexEntry(*each) for each in entries), BASE)


def starts(*batches: bytes) -> list[int]:
    return [sum(map(len, batches[:number])) for number in range(len(batches) + 1)]


@pytest.fixture(params=[2, 2048])
def rows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many batches are looked at at once."""
    monkeypatch.setattr("kdump.storage.log_reader.BATCH_ROWS", request.param)
    number: int = request.param
    return number


def test_a_sound_segment(tmp_path: Path, rows: int) -> None:
    data = [batch(10, 2, timestamp=5), batch(12, 2, timestamp=7), batch(14, 2, timestamp=6), batch(16, timestamp=9)]
    at = starts(*data)
    found = Recovered(tmp_path, *data, index=b"old", timeindex=b"older")
    assert found.run() is None
    assert found.valid_bytes == at[4]
    assert found.files() == {
        LOG: b"".join(data),
        INDEX: index((13, at[1]), (15, at[2]), (16, at[3])),
        TIMES: times((7, 13), (9, 16)),
    }
    assert found.segment.entries == {"index": 3, "timeindex": 2}
    assert found.states.map_end_offset == 17


def test_the_last_time_entry_is_due_at_the_end(tmp_path: Path) -> None:
    data = [batch(10, timestamp=5), batch(11, timestamp=4)]
    found = Recovered(tmp_path, *data, config=EVERY._replace(index_interval_bytes=4096))
    assert found.run() is None
    assert found.files() == {LOG: b"".join(data), INDEX: b"", TIMES: times((5, 10))}


def test_an_empty_segment(tmp_path: Path) -> None:
    found = Recovered(tmp_path, txnindex=b"old")
    assert found.run() is None
    assert found.files() == {LOG: b"", INDEX: b"", TIMES: b"", TXNS: b""}
    assert (found.valid_bytes, found.states.map_end_offset) == (0, 0)


@pytest.mark.parametrize(("bad", "entries"), [(0, []), (1, [(0, 10)]), (2, [(1, 11)]), (3, [(1, 11), (2, 12)])])
def test_from_the_first_broken_batch_on_all_goes(
    tmp_path: Path, rows: int, bad: int, entries: list[tuple[int, int]]
) -> None:
    data = [batch(10 + number, timestamp=number) for number in range(6)]
    at = starts(*data)
    data[bad] = broken(data[bad])
    found = Recovered(tmp_path, *data)
    step = found.run()
    assert step is not None
    assert step.loss == Loss(at[6] - at[bad], 0, 5 - bad, 5 - bad, 11 + bad, 15)
    assert step == Step(TRUNCATE, LOG, step.why, at[bad], at[bad], step.loss)
    assert "CRC" in step.why
    assert found.files() == {
        LOG: b"".join(data[:bad]),
        INDEX: index(*((10 + number, at[number]) for number in range(1, bad))),
        TIMES: times(*entries),
    }
    assert found.states.map_end_offset == (10 + bad if bad else 0)


def test_what_is_no_batch_is_cut(tmp_path: Path) -> None:
    data = batch(10)
    found = Recovered(tmp_path, data, bytes(5))
    step = found.run()
    assert step is not None
    assert (step.position, step.loss) == (len(data), Loss(5, 5))
    found = Recovered(tmp_path, data, data[:20])
    step = found.run()
    assert step is not None
    assert step.loss == Loss(20)


def test_only_v2_batches_move_the_end_of_the_producers(tmp_path: Path, rows: int) -> None:
    """Of messages nobody knows a producer."""
    for data, end in (
        ([batch(10), batch(11), message(12)], 12),
        ([batch(10), batch(11, 2), message(13), message(14), message(15)], 13),
        ([message(10), message(11)], 0),
        ([message(10), message(11), batch(12, 3)], 15),
    ):
        found = Recovered(tmp_path, *data)
        found.run()
        assert found.states.map_end_offset == end


def test_leader_epochs_are_noted_where_they_rise(tmp_path: Path, rows: int) -> None:
    def noted(known: list[tuple[int, int]], *batches: tuple[int, int]) -> list[tuple[int, ...]]:
        epochs = EpochCache(EpochEntry(*each) for each in known)
        Recovered(tmp_path, *(batch(offset, leader_epoch=epoch) for offset, epoch in batches), epochs=epochs).run()
        return [tuple(each) for each in epochs.entries]

    assert noted([], (10, 0), (11, 0), (12, 4), (13, 4), (14, 5)) == [(0, 10), (4, 12), (5, 14)]
    assert noted([(3, 0)], (10, 5), (11, 5)) == [(3, 0), (5, 10)]
    assert noted([(3, 0)], (10, 3), (11, 2), (12, 3)) == [(3, 0)]
    assert noted([(3, 0)], (10, 2), (11, 3), (12, 4)) == [(3, 0), (4, 12)]
    # an epoch that is known counts from where it is known
    assert noted([(5, 12)], (10, 5), (13, 6)) == [(5, 12), (6, 13)]
    found = Recovered(tmp_path, batch(10, leader_epoch=3))
    found.run()
    assert found.epochs is None


def test_epochs_of_what_is_cut_are_not_noted(tmp_path: Path) -> None:
    epochs = EpochCache([])
    Recovered(tmp_path, batch(10), broken(batch(11, leader_epoch=1)), batch(12, leader_epoch=2), epochs=epochs).run()
    assert [tuple(each) for each in epochs.entries] == [(0, 10)]


TXN = [produced(10, 7, transactional=True), marker(11, 7, commit=False)]
TXN_ENTRY = encode_aborted_txns([AbortedTxn(0, 7, 10, 11, 12)])


def test_aborted_transactions_make_the_txnindex(tmp_path: Path) -> None:
    found = Recovered(tmp_path, *TXN)
    found.run()
    assert found.files()[TXNS] == TXN_ENTRY
    found = Recovered(tmp_path, *TXN, produced(12, 7, transactional=True), marker(13, 7, commit=False), txnindex=b"x")
    found.run()
    assert found.files()[TXNS] == encode_aborted_txns([AbortedTxn(0, 7, 10, 11, 12), AbortedTxn(0, 7, 12, 13, 14)])


@pytest.mark.parametrize(("at", "fails"), [(10, True), (11, True), (12, False)])
def test_aborted_transactions_must_end_in_order(tmp_path: Path, at: int, fails: bool) -> None:
    again = [produced(12, 7, transactional=True), marker(at, 7, commit=False)]
    found = Recovered(tmp_path, *TXN, *again, config=EVERY._replace(index_interval_bytes=4096))
    if not fails:
        assert found.run() is None
        return
    with pytest.raises(LoadError, match=f"must increase sequentially, but {at} is not greater than .* 11 of index"):
        found.run()
    assert found.files()[TXNS] == TXN_ENTRY


@pytest.mark.parametrize("before", [0, 1, 2])
def test_an_invalid_marker_is_the_last_that_is_left(tmp_path: Path, before: int) -> None:
    """The broker has noted it when it finds out."""
    kept = [batch(10 + number, timestamp=number) for number in range(before)]
    bad = marker(10 + before, 7, value=b"\0\0\0\0\0", timestamp=50)
    rest = [batch(20, leader_epoch=3, timestamp=90), batch(21, timestamp=99)]
    epochs = EpochCache([])
    found = Recovered(tmp_path, *kept, bad, *rest, epochs=epochs)
    at = starts(*kept, bad)
    step = found.run()
    assert step is not None
    assert (step.position, step.loss) == (at[-1], Loss(len(rest[0]) + len(rest[1]), 0, 2, 2, 20, 21))
    assert "at least 6 bytes, but found only 5" in step.why
    assert found.valid_bytes == at[-1]
    files = found.files()
    assert files[LOG] == b"".join([*kept, bad])
    assert files[INDEX] == index(*((10 + number, at[number]) for number in range(1, before + 1)))
    assert files[TIMES] == times(*[(1, 11)] * (before == 2), (50, 10 + before))
    assert found.states.map_end_offset == (10 + before if before else 0)
    assert [tuple(each) for each in epochs.entries] == [(0, 10)]


def test_an_invalid_marker_ends_the_walk_over_later_blocks(tmp_path: Path, rows: int) -> None:
    bad = marker(11, 7, value=b"\0\0\0\0\0")
    found = Recovered(tmp_path, batch(10), bad, batch(12), batch(13))
    step = found.run()
    assert step is not None
    assert step.position == len(batch(10) + bad)


def test_offsets_that_are_too_far_end_the_walk(tmp_path: Path, rows: int) -> None:
    far = BASE + (1 << 31)
    data = [batch(10), batch(11), batch(far - 1), batch(far)]
    found = Recovered(tmp_path, *data)
    with pytest.raises(OffsetOverflowError):
        found.run()
    at = starts(*data)
    assert found.valid_bytes == at[3]
    # the index is as it was while it grew
    assert found.files()[INDEX] == index((11, at[1]), (far - 1, at[2])).ljust(120, b"\0")
    assert found.states.map_end_offset == far
    found = Recovered(tmp_path, *data[:3])
    assert found.run() is None
    with pytest.raises(OffsetOverflowError):
        Recovered(tmp_path, batch(9)).run()


@pytest.mark.parametrize(("size", "name"), [(7, INDEX), (11, TIMES)])
def test_an_index_that_is_missing_needs_room_for_an_entry(tmp_path: Path, size: int, name: str) -> None:
    found = Recovered(tmp_path, batch(10), config=EVERY._replace(segment_index_bytes=size))
    with pytest.raises(LoadError, match=f"Invalid max index size: {size}") as caught:
        found.run()
    assert caught.value.file == name


class TestEmptying:
    """Offsets that do not increase where an entry is due."""

    def emptied(self, folder: Path, *batches: bytes, **files: Any) -> tuple[Recovered, int, Loss]:
        found = Recovered(folder, *batches, **files)
        with pytest.raises(InvalidOffsetError):
            found.run()
        return found, *found.empty()

    @pytest.mark.parametrize("timestamp", [-1, 0, 5])
    def test_nothing_is_left(self, tmp_path: Path, timestamp: int) -> None:
        data = [batch(10, timestamp=timestamp), batch(11, 2, timestamp=timestamp), batch(11, timestamp=timestamp)]
        found, size, loss = self.emptied(tmp_path, *data)
        assert found.files() == {LOG: b"", INDEX: b"", TIMES: b""}
        assert (size, loss) == (sum(map(len, data)), Loss(sum(map(len, data)), 0, 3, 4, 10, 11))

    def test_aborted_transactions_go_too(self, tmp_path: Path) -> None:
        for files in ({}, {"txnindex": b"old"}):
            found, _, _ = self.emptied(tmp_path, *TXN, batch(11), **files)
            assert found.files() == {LOG: b"", INDEX: b"", TIMES: b"", TXNS: b""}

    @pytest.mark.parametrize("timestamp", [-1, 0, 5])
    def test_an_entry_of_the_base_offset_itself_keeps_what_is_before(self, tmp_path: Path, timestamp: int) -> None:
        """UnifiedLog truncates to the base offset, which the index finds there."""
        first = batch(10, timestamp=timestamp)
        data = [first, batch(10, timestamp=timestamp), with_offset(first, 10)]
        found, size, loss = self.emptied(tmp_path, *data)
        assert found.files() == {LOG: first, INDEX: b"", TIMES: times((timestamp, 10)) if timestamp >= 0 else b""}
        assert (size, loss) == (2 * len(first), Loss(2 * len(first), 0, 2, 2, 10, 10))
