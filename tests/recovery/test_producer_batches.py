"""How batches change producers: at once during recovery, all together when a log is loaded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.errors import InvalidMarkerError, LoadError
from kdump.formats.batch import CONTROL, HEADER_SIZE, TRANSACTIONAL
from kdump.formats.codecs import GZIP
from kdump.formats.encode import NewBatch, NewRecord, encode_record, frame_batch
from kdump.recovery.markers import read_marker
from kdump.recovery.producer_batches import LoadedBatches, RecoveredBatches
from kdump.recovery.producer_state import ProducerStates
from kdump.recovery.snapshots import SnapshotFiles
from kdump.storage.planned import PlannedPartition
from kdump.storage.planned_log import LogView
from kdump.txns.producers import CompletedTxn, Producer
from tests.recovery.building import batch, file, make_log, marker, produced

Aborts = list[tuple[CompletedTxn, int]]


def recover(folder: Path, *batches: bytes, short_markers_end: bool = False) -> tuple[ProducerStates, Aborts]:
    """The states after the recovery of a log of these batches, and the transactions aborted in it."""
    aborts: Aborts = []
    nothing = SnapshotFiles(PlannedPartition(make_log(folder, {})))
    states = ProducerStates(nothing, short_markers_end=short_markers_end)
    directory = PlannedPartition(make_log(folder, {file(0, "log"): b"".join(batches)}))
    with LogView(directory, file(0, "log")) as log:
        taking = RecoveredBatches(states, log, "t-0", lambda txn, offset: aborts.append((txn, offset)))
        for block in log.blocks():
            taking.apply(block, 0, block.length)
    return states, aborts


def load(folder: Path, *batches: bytes, before: ProducerStates | None = None) -> ProducerStates:
    directory = PlannedPartition(make_log(folder, {file(0, "log"): b"".join(batches)}))
    states = before or ProducerStates(SnapshotFiles(directory))
    with LogView(directory, file(0, "log")) as log:
        taking = LoadedBatches(states, log, "t-0")
        for block in log.blocks():
            taking.apply(block, 0, block.length)
        taking.finish()
    return states


def fields(producer: Producer) -> tuple[int, ...]:
    return (producer.epoch, *producer.entry(0)[2:])


def test_the_last_batch_of_each_producer_counts(tmp_path: Path) -> None:
    states, _ = recover(
        tmp_path,
        produced(0, 9, timestamp=5, base_sequence=3),
        batch(1, 2),
        produced(3, 7, count=2, timestamp=6, base_sequence=2**31 - 1),
        produced(5, 9, timestamp=4, epoch=1),
    )
    assert list(states.producers) == [9, 7]
    assert fields(states.producers[9]) == (1, 0, 5, 0, 4, -1, -1)
    assert fields(states.producers[7]) == (0, 0, 4, 1, 6, -1, -1)


def test_a_transaction_from_its_first_batch_to_its_marker(tmp_path: Path) -> None:
    states, aborts = recover(
        tmp_path,
        produced(0, 7, transactional=True),
        produced(1, 8, transactional=True),
        produced(2, 7, transactional=True, base_sequence=1),
        marker(3, 7, commit=False, timestamp=44),
        marker(4, 8, commit=False),
    )
    assert aborts == [
        (CompletedTxn(7, 0, 3, is_abort=True), 1),
        (CompletedTxn(8, 1, 4, is_abort=True), 5),
    ]
    assert states.open_txns == {}
    assert fields(states.producers[7]) == (0, 1, 2, 0, 44, 3, -1)


def test_a_commit_and_an_abort_of_nothing_leave_no_trace_in_the_index(tmp_path: Path) -> None:
    states, aborts = recover(
        tmp_path, produced(0, 7, transactional=True), marker(1, 7), marker(2, 7, commit=False), marker(3, 6)
    )
    assert aborts == []
    assert fields(states.producers[6]) == (0, -1, -1, 0, 1000, 3, -1)


def test_a_marker_of_another_epoch_forgets_the_batches(tmp_path: Path) -> None:
    states, _ = recover(tmp_path, produced(0, 7, transactional=True), marker(1, 7, epoch=1))
    assert fields(states.producers[7]) == (1, -1, -1, 0, 1000, 3, -1)


def test_a_marker_taken_out_by_compaction_changes_nothing(tmp_path: Path) -> None:
    empty = batch(
        1, 0, base_offset=1, last_offset=1, base_timestamp=-1, max_timestamp=9,
        attributes=CONTROL | TRANSACTIONAL, producer_id=7, producer_epoch=0,
    )  # fmt: skip
    states, _ = recover(tmp_path / "known", produced(0, 7, transactional=True), empty)
    assert states.open_txns == {0: 7}
    assert fields(states.producers[7]) == (0, 0, 0, 0, 1000, -1, 0)
    states, _ = recover(tmp_path / "unknown", empty)
    assert fields(states.producers[7]) == (-1, -1, -1, 0, -1, -1, -1)


@pytest.mark.parametrize("taking", [recover, load])
def test_data_outside_an_open_transaction_ends_loading(taking: Callable[..., object], tmp_path: Path) -> None:
    with pytest.raises(LoadError, match=r"from producer 7 at offset \(offset=2, segment=\[-1:-1\]\) in partition t-0"):
        taking(tmp_path, produced(0, 7, transactional=True), produced(1, 8), produced(2, 7), produced(3, 7))


@pytest.mark.parametrize(
    ("fields_", "text", "invalid"),
    [
        ({"key": b"\0\0\0"}, "at least 4 bytes, but found only 3", True),
        ({"key": b"\xff\xff\0\1"}, "control record: -1", True),
        ({"key": b"\0\0\0\2"}, "end transaction markerLEADER_CHANGE", False),
        ({"key": b"\0\0\0\x09"}, "end transaction markerUNKNOWN", False),
        ({"value": b"\0\0\0\0\0"}, "at least 6 bytes, but found only 5", True),
        ({"value": b"\xff\xfe\0\0\0\0"}, "end transaction marker: -2", True),
        ({"value": None}, "no value", False),
        ({"attributes": CONTROL | TRANSACTIONAL | 5}, "Unknown compression type id: 5", False),
    ],
)
def test_markers_that_cannot_be_read(fields_: dict[str, Any], text: str, invalid: bool, tmp_path: Path) -> None:
    bad = marker(1, 7, **fields_) if "attributes" not in fields_ else _with_codec_5(marker(1, 7))
    with pytest.raises(LoadError, match=text) as caught:
        recover(tmp_path, produced(0, 7, transactional=True), bad)
    assert isinstance(caught.value, InvalidMarkerError) == invalid


@pytest.mark.parametrize(
    ("value", "exception"),
    [
        (bytes(5), "java.nio.BufferUnderflowException"),
        (b"\xff", "java.nio.BufferUnderflowException"),
        (b"\xff\xfe\0", "org.apache.kafka.common.InvalidRecordException"),
    ],
)
def test_short_markers_from_4_1_on(value: bytes, exception: str, tmp_path: Path) -> None:
    with pytest.raises(LoadError) as caught:
        recover(tmp_path, produced(0, 7, transactional=True), marker(1, 7, value=value), short_markers_end=True)
    assert caught.value.exception == exception


def _with_codec_5(data: bytes) -> bytes:
    from tests.storage.building import with_valid_crc

    return with_valid_crc(data[:22] + bytes((data[22] | 5,)) + data[23:])


def test_a_compressed_marker(tmp_path: Path) -> None:
    states, _ = recover(
        tmp_path,
        produced(0, 7, transactional=True),
        marker(1, 7, attributes=CONTROL | TRANSACTIONAL | 1),
    )
    assert states.open_txns == {}


def test_a_control_batch_without_a_producer_is_none_of_ours(tmp_path: Path) -> None:
    states, _ = recover(tmp_path, marker(0, -1, key=b"\0\0\0\2"))
    assert states.producers == {}


def test_loading_lets_transactions_end_after_all_producers_have_changed(tmp_path: Path) -> None:
    """With two transactions of one producer in one read, both are open until its end."""
    states = load(
        tmp_path,
        produced(0, 7, transactional=True),
        marker(1, 7),
        produced(2, 7, transactional=True),
    )
    assert states.open_txns == {2: 7}
    assert states.producers[7].txn_first_offset == 2


def test_loading_cannot_end_a_transaction_twice(tmp_path: Path) -> None:
    before = ProducerStates(SnapshotFiles(PlannedPartition(make_log(tmp_path, {}))))
    before.producers[7] = Producer(0, txn=5)
    with pytest.raises(LoadError, match="which was not started"):
        load(tmp_path, marker(9, 7), before=before)


class _RowByRow:
    """The rules as they are stated, one batch after the other."""

    def __init__(self) -> None:
        self.producers: dict[int, Producer] = {}
        self.open: dict[int, int] = {}

    def take(self, offset: int, kind: str, producer_id: int, epoch: int) -> None:
        if kind == "none":
            return
        producer = self.producers.setdefault(producer_id, Producer())
        if kind in ("commit", "abort"):
            if producer.txn_first_offset >= 0:
                del self.open[producer.txn_first_offset]
            producer.enter_epoch(epoch)
            producer.coordinator_epoch, producer.timestamp, producer.txn_first_offset = 3, offset, -1
            return
        if producer.txn_first_offset >= 0 and kind != "txn":
            raise LoadError("", "", "")
        if producer.txn_first_offset < 0 and kind == "txn":
            producer.txn_first_offset = offset
            self.open[offset] = producer_id
        producer.enter_epoch(epoch)
        producer.last_sequence, producer.last_offset, producer.timestamp = 0, offset, offset


@given(
    st.lists(
        st.tuples(st.sampled_from(["none", "data", "txn", "commit", "abort"]), st.integers(1, 3), st.integers(0, 2)),
        max_size=30,
    )
)
def test_stretches_taken_at_once_give_what_single_batches_give(
    tmp_path_factory: pytest.TempPathFactory, log: list[tuple[str, int, int]]
) -> None:
    model = _RowByRow()
    batches = []
    fails = False
    for offset, (kind, producer_id, epoch) in enumerate(log):
        try:
            model.take(offset, kind, producer_id, epoch)
        except LoadError:
            fails = True
        if kind == "none":
            batches.append(batch(offset))
        elif kind in ("data", "txn"):
            batches.append(
                produced(offset, producer_id, transactional=kind == "txn", epoch=epoch, timestamp=offset)
            )
        else:
            batches.append(marker(offset, producer_id, commit=kind == "commit", epoch=epoch, timestamp=offset))
        if fails:
            break
    folder = tmp_path_factory.mktemp("log")
    if fails:
        with pytest.raises(LoadError):
            recover(folder, *batches)
        return
    states, _ = recover(folder, *batches)
    assert list(states.producers) == list(model.producers)
    assert {key: fields(value) for key, value in states.producers.items()} == {
        key: fields(value) for key, value in model.producers.items()
    }
    assert states.open_txns == model.open


def test_producer_0_is_a_producer(tmp_path: Path) -> None:
    states, _ = recover(tmp_path / "data", produced(0, 0))
    assert list(states.producers) == [0]
    states, aborts = recover(tmp_path / "txn", produced(0, 0, transactional=True), marker(1, 0, commit=False))
    assert (list(states.producers), states.open_txns) == ([0], {})
    assert aborts == [(CompletedTxn(0, 0, 1, is_abort=True), 2)]
    states, _ = recover(tmp_path / "both", batch(0), produced(1, 0), batch(2))
    assert list(states.producers) == [0]


def test_a_marker_that_is_too_short_is_an_invalid_record_unless_a_release_says_otherwise(tmp_path: Path) -> None:
    short = marker(1, 7, value=b"\0\0\0\0\0")
    with pytest.raises(InvalidMarkerError):
        load(tmp_path, produced(0, 7, transactional=True), short)
    directory = PlannedPartition(make_log(tmp_path, {file(0, "log"): short}))
    with LogView(directory, file(0, "log")) as log:
        for block in log.blocks():
            with pytest.raises(InvalidMarkerError):
                read_marker(log, block, 0)


def test_a_compressed_marker_is_read_to_its_end(tmp_path: Path) -> None:
    """Records behind the first one count as little as in Kafka, but they must be there."""
    data = bytearray(HEADER_SIZE) + encode_record(NewRecord(1, 1000, b"\0\0\0\1", b"\0\0\0\0\0\3"), 1, 1000) + b"\x20\0"
    fields_ = NewBatch(CONTROL | TRANSACTIONAL | GZIP, 7, 0, -1, 0, 1, 2, 1000, 1000)
    with pytest.raises(InvalidMarkerError):
        recover(tmp_path, produced(0, 7, transactional=True), bytes(frame_batch(data, fields_, 2)))
