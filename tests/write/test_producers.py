"""Idempotent and transactional producers: duplicates, transactions over several logs, and what snapshots keep."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdump.formats.batch import TRANSACTIONAL
from kdump.formats.index_entries import AbortedTxn, decode_aborted_txns
from kdump.formats.producer_snapshot import ProducerEntry, decode_producer_snapshot
from kdump.write.errors import OutOfOrderSequenceError
from kdump.write.log_dir import LogDirWriter
from kdump.write.packing import Packing
from kdump.write.sessions import Producer
from tests.write.building import NOW, Clock, last_stable_offset, messages, new_log, produced, sent

WRAP = (1 << 31) - 1


def aborted(path: str, base: int = 0) -> list[AbortedTxn]:
    file = Path(path) / f"{base:020d}.txnindex"
    return list(decode_aborted_txns(file.read_bytes())) if file.exists() else []


def snapshot(path: str, offset: int) -> list[ProducerEntry]:
    return list(decode_producer_snapshot((Path(path) / f"{offset:020d}.snapshot").read_bytes()))


def test_the_last_five_batches_are_known(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    for sequence in range(0, 12, 2):
        log.append_as_leader(produced(sequence, 2))
    for sequence in range(2, 12, 2):
        info = log.append_as_leader(produced(sequence, 2))
        assert (info.duplicate, info.first_offset, info.last_offset) == (True, sequence, sequence + 1)
    with pytest.raises(OutOfOrderSequenceError):
        log.append_as_leader(produced(0, 2))
    assert log.end_offset == 12


def test_a_duplicate_may_still_roll(tmp_path: Path) -> None:
    """A broker looks for room before it looks for duplicates."""
    log = new_log(tmp_path, segment_bytes=2 * len(produced(0)))
    log.append_as_leader(produced(0))
    log.append_as_leader(produced(1))
    assert log.append_as_leader(produced(1)).duplicate
    assert (log.active.base_offset, log.active.size) == (2, 0)


def test_sequences_wrap(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    log.append_as_leader(produced(WRAP - 1, 2))
    log.append_as_leader(produced(0, 1))
    assert log.end_offset == 3


def test_unknown_producer_may_begin_anywhere_and_a_new_epoch_at_0(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    log.append_as_leader(produced(40))
    log.append_as_leader(produced(0, epoch=1))
    assert log.append_as_leader(produced(0, epoch=1)).duplicate
    log.close()
    assert snapshot(log.path, 2) == [ProducerEntry(7, 1, 0, 1, 0, NOW, -1, -1)]


def test_transactions_side_by_side(tmp_path: Path) -> None:
    clock = Clock()
    log = new_log(tmp_path, clock, segment_bytes=400)
    first, second = Producer(1, is_transactional=True), Producer(2, is_transactional=True, coordinator_epoch=6)
    first.send(log, messages(1))
    second.send(log, messages(2))
    assert last_stable_offset(log) == 0
    clock.now = NOW + 9
    second.abort()
    clock.now = NOW
    base = log.active.base_offset
    assert aborted(log.path, base) == [AbortedTxn(0, 2, 1, 3, 0)]
    first.commit()
    assert (last_stable_offset(log), log.end_offset) == (5, 5)
    first.send(log, messages(1))
    first.abort()
    log.close()
    entries = {entry.producer_id: entry for entry in snapshot(log.path, 7)}
    assert entries[1][2:4] == (1, 5)
    assert entries[2] == ProducerEntry(2, 0, 1, 2, 1, NOW + 9, 6, -1)


def test_lso_is_no_more_than_the_high_watermark(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    log.append_as_leader(produced(0, 3, attributes=TRANSACTIONAL))
    log.append_as_leader(sent(3))
    log.high_watermark = 5
    assert last_stable_offset(log) == 0
    log.end_transaction(7, 0, is_commit=True)
    assert last_stable_offset(log) == 5
    log.high_watermark = None
    assert last_stable_offset(log) == log.high_watermark == 7
    with pytest.raises(Exception, match="cannot be 8"):
        log.high_watermark = 8


def test_an_empty_transaction_leaves_no_entry(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    log.end_transaction(7, 0, is_commit=False)
    log.append_as_leader(produced(0, epoch=0))
    log.close()
    assert aborted(log.path) == []
    assert snapshot(log.path, 2)[0].last_sequence == 0


def test_open_transaction_is_in_the_snapshot(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    log.append_as_leader(sent())
    log.append_as_leader(produced(0, attributes=TRANSACTIONAL))
    log.roll()
    log.close()
    assert snapshot(log.path, 2)[0].current_txn_first_offset == 1


def test_a_transaction_over_two_partitions(tmp_path: Path) -> None:
    with LogDirWriter(str(tmp_path / "data"), clock=Clock(), durable=False) as log_dir:
        logs = [log_dir.create_log("orders", number) for number in range(2)]
        producer = Producer(9, 3, is_transactional=True, packing=Packing(batch_records=2))
        producer.send(logs[0], messages(5))
        producer.send(logs[1], messages(1))
        assert [last_stable_offset(log) for log in logs] == [0, 0]
        assert [info.last_offset for info in producer.commit()] == [5, 1]
        assert producer.commit() == []
        assert [last_stable_offset(log) for log in logs] == [6, 2]
        producer.bump_epoch()
        assert producer.send(logs[0], messages(1))[0].first_offset == 6
        assert [producer.next_sequence(log) for log in logs] == [1, 0]


def test_sequences_go_on_where_the_log_is(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    Producer(4).send(log, messages(3))
    producer = Producer(4)
    assert producer.next_sequence(log) == 3
    assert producer.packing_for(log, 8).base_sequence == 8
    assert not producer.send(log, messages(3))[0].duplicate
    assert log.end_offset == 6
