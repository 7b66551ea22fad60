"""Producer state: what is loaded from snapshots, which snapshots go, what is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdump.errors import LoadError
from kdump.formats.producer_snapshot import ProducerEntry, decode_producer_snapshot, encode_producer_snapshot
from kdump.recovery.producer_state import ProducerStates, never_started
from kdump.recovery.snapshots import SnapshotFiles
from kdump.storage.planned import PlannedPartition
from kdump.txns.producers import CompletedTxn, Producer
from tests.recovery.building import file, make_log

DAY = 86400000
NOW = 2 * DAY


def entry(producer: int, timestamp: int = NOW, txn: int = -1) -> ProducerEntry:
    return ProducerEntry(producer, 1, 9, 120, 4, timestamp, 3, txn)


def states(tmp_path: Path, **snapshots: bytes) -> ProducerStates:
    """States over a directory with these snapshots, given as s<offset>=bytes."""
    files = {file(int(name[1:]), "snapshot"): data for name, data in snapshots.items()}
    return ProducerStates(SnapshotFiles(PlannedPartition(make_log(tmp_path, files))))


def snapshot(*entries: ProducerEntry) -> bytes:
    return encode_producer_snapshot(entries)


def kept(found: ProducerStates) -> list[int]:
    return sorted(found.snapshots.by_offset)


def test_a_producer_expires_after_a_day_to_the_millisecond(tmp_path: Path) -> None:
    data = snapshot(entry(1, NOW - DAY), entry(2, NOW - DAY + 1), entry(3, NOW - 10 * DAY, txn=7))
    found = states(tmp_path, s10=data)
    found.truncate_and_reload(0, 20, NOW, DAY)
    assert list(found.producers) == [2, 3]
    assert found.open_txns == {7: 3}
    assert (found.map_end_offset, found.snapshot_offset) == (10, 10)


def test_an_entry_survives_loading_and_writing(tmp_path: Path) -> None:
    entries = [entry(2), ProducerEntry(8, 0, -1, -1, 0, NOW, -1, 130)]
    found = states(tmp_path, s10=snapshot(*entries))
    found.truncate_and_reload(0, 20, NOW, DAY)
    found.map_end_offset = 20
    found.take_snapshot()
    assert decode_producer_snapshot(found.snapshots.read(20)) == entries


def test_snapshots_outside_the_log_are_deleted(tmp_path: Path) -> None:
    found = states(tmp_path, s5=snapshot(), s6=snapshot(), s20=snapshot(), s21=snapshot())
    found.truncate_and_reload(5, 20, NOW, DAY)
    assert kept(found) == [6, 20]
    assert found.map_end_offset == 20


def test_a_corrupt_snapshot_is_deleted_and_the_one_before_taken(tmp_path: Path) -> None:
    good = snapshot(entry(1))
    found = states(tmp_path, s5=good, s10=good[:-1], s15=good + b"\0", s16=b"")
    found.truncate_and_reload(0, 20, NOW, DAY)
    assert kept(found) == [5]
    assert list(found.producers) == [1]
    assert "CRC is no longer valid" in found.snapshots.directory.reasons[file(15, "snapshot")]


def test_without_a_snapshot_the_state_begins_at_the_log_start(tmp_path: Path) -> None:
    found = states(tmp_path)
    found.truncate_and_reload(7, 20, NOW, DAY)
    assert (found.map_end_offset, found.snapshot_offset) == (7, 7)
    found.take_snapshot()
    assert kept(found) == []


def test_what_was_known_before_is_forgotten_without_a_snapshot_too(tmp_path: Path) -> None:
    found = states(tmp_path)
    found.producer(9)
    found.begin(9, 12)
    found.map_end_offset = 30
    found.truncate_and_reload(7, 20, NOW, DAY)
    assert found.producers == {}
    assert found.open_txns == {}
    assert (found.map_end_offset, found.snapshot_offset) == (7, 7)


def test_the_log_start_moves_a_state_that_is_there_already(tmp_path: Path) -> None:
    found = states(tmp_path)
    found.producer(9)
    found.map_end_offset = 10
    found.truncate_and_reload(12, 10, NOW, DAY)
    assert (found.map_end_offset, found.snapshot_offset, list(found.producers)) == (12, 12, [9])
    found.truncate_and_reload(7, 12, NOW, DAY)
    assert (found.map_end_offset, found.snapshot_offset, list(found.producers)) == (12, 7, [9])


def test_a_snapshot_has_the_order_of_java_s_map(tmp_path: Path) -> None:
    found = states(tmp_path, s10=snapshot(entry(3), entry(18), entry(1)))
    found.truncate_and_reload(0, 20, NOW, DAY)
    found.map_end_offset = 20
    found.take_snapshot()
    written = decode_producer_snapshot(found.snapshots.read(20))
    assert [each.producer_id for each in written] == [1, 18, 3]


def test_a_snapshot_is_written_once(tmp_path: Path) -> None:
    found = states(tmp_path)
    found.map_end_offset = 20
    found.take_snapshot()
    found.producer(9)
    found.take_snapshot()
    assert decode_producer_snapshot(found.snapshots.read(20)) == []
    found.map_end_offset = 21
    found.take_snapshot()
    assert kept(found) == [20, 21]


def test_nothing_is_loaded_when_the_state_is_there_already(tmp_path: Path) -> None:
    found = states(tmp_path, s10=snapshot(entry(1)))
    found.map_end_offset = 10
    found.truncate_and_reload(0, 10, NOW, DAY)
    assert found.producers == {}
    assert found.snapshot_offset == 10


def test_offset_0_needs_no_snapshot(tmp_path: Path) -> None:
    found = states(tmp_path)
    found.take_snapshot()
    assert kept(found) == []


def test_starting_over_deletes_every_snapshot(tmp_path: Path) -> None:
    found = states(tmp_path, s10=snapshot(entry(1)), s900=snapshot())
    found.truncate_and_reload(0, 20, NOW, DAY)
    found.truncate_fully(50)
    assert kept(found) == []
    assert found.producers == {}
    assert (found.map_end_offset, found.snapshot_offset) == (50, 0)


def test_a_longer_snapshot_of_the_same_name_keeps_its_tail(tmp_path: Path) -> None:
    longer = snapshot(entry(1))
    found = states(tmp_path, s10=longer)
    found.map_end_offset = 10
    found.take_snapshot()
    assert found.snapshots.read(10) == snapshot() + longer[10:]


def test_the_next_open_transaction_is_another_producers(tmp_path: Path) -> None:
    found = states(tmp_path)
    for producer_id, first_offset in ((2, 30), (1, 10), (1, 20)):
        found.begin(producer_id, first_offset)
    assert list(found.open_txns) == [10, 20, 30]
    ends = [CompletedTxn(producer_id, -1, 40, is_abort=False) for producer_id in (1, 2, 3)]
    assert [found.stable_after(txn) for txn in ends] == [30, 10, 10]
    assert found.end(CompletedTxn(2, 30, 40, is_abort=False))
    assert found.stable_after(ends[0]) == 41


def test_a_transaction_that_is_not_open_cannot_end(tmp_path: Path) -> None:
    txn = CompletedTxn(2, 3, 4, is_abort=True)
    assert not states(tmp_path).end(txn)
    text = "CompletedTxn(producerId=2, firstOffset=3, lastOffset=4, isAborted=true)"
    wanted = f"Attempted to complete transaction {text} on partition t-0 which was not started"
    assert str(never_started(txn, "t-0", "log")) == wanted


def test_stray_snapshots_go_but_for_the_newest_behind_the_last_segment(tmp_path: Path) -> None:
    found = states(tmp_path, s3=b"", s10=b"", s15=b"", s25=b"")
    found.snapshots.remove_stray([0, 10, 20])
    assert kept(found) == [10, 25]


def test_a_stray_snapshot_before_the_last_segment_goes_even_if_it_is_the_newest(tmp_path: Path) -> None:
    found = states(tmp_path, s10=b"", s15=b"")
    found.snapshots.remove_stray([0, 10, 20])
    assert kept(found) == [10]


def test_a_snapshot_without_an_offset_in_its_name_ends_loading(tmp_path: Path) -> None:
    log = make_log(tmp_path, {"copy.snapshot": b""})
    with pytest.raises(LoadError, match='For input string: "copy"'):
        SnapshotFiles(PlannedPartition(log))


def test_what_is_collected_counts_by_the_epoch_that_it_ends_in() -> None:
    producer = Producer(epoch=1)
    producer.last_offset, producer.last_sequence = 5, 5
    pending = producer.pending()
    assert pending.last_offset == -1
    pending.enter_epoch(2)
    pending.enter_epoch(1)
    producer.take(pending)
    assert (producer.epoch, producer.last_offset) == (1, 5)
    pending.enter_epoch(2)
    producer.take(pending)
    assert (producer.epoch, producer.last_offset, producer.last_sequence) == (2, -1, -1)


def test_the_state_behind_the_first_record_is_worth_a_snapshot(tmp_path: Path) -> None:
    found = states(tmp_path)
    found.take_snapshot()
    assert kept(found) == []
    found.map_end_offset = 1
    found.take_snapshot()
    assert kept(found) == [1]
