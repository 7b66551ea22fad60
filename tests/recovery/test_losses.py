"""What is counted of the bytes that a step cuts: batches and records of every format, zeros, and why they go."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdump.formats.batch import HEADER_SIZE
from kdump.formats.codecs import GZIP, LZ4, SNAPPY
from kdump.formats.encode import NewBatch, NewRecord, encode_batch, encode_message, encode_wrapper, frame_batch
from kdump.recovery.losses import count_loss
from kdump.recovery.outcome import DROP, RECOVER, SPLIT, LoadOutcome, Loss, Step, StepKind, total_loss
from kdump.storage.log_reader import LogFile
from tests.recovery.building import batch, broken

BASE = 100


def lost(tmp_path: Path, data: bytes, position: int = 0) -> tuple[Loss, str | None]:
    path = tmp_path / "00000000000000000100.log"
    path.write_bytes(data)
    with LogFile(str(path)) as log:
        return count_loss(log, BASE, position)


def messages(first: int, count: int, magic: int) -> list[NewRecord]:
    return [NewRecord(first + n, 1000 if magic else -1, b"k", b"v") for n in range(count)]


def test_sound_batches_are_counted_from_the_position_on(tmp_path: Path) -> None:
    data = [batch(100, 2), batch(102, 3), batch(105, 1)]
    tail = len(data[1]) + len(data[2])
    assert lost(tmp_path, b"".join(data), len(data[0])) == (Loss(tail, 0, 2, 4, 102, 105), None)


def test_the_end_holds_nothing(tmp_path: Path) -> None:
    data = batch(100, 2)
    assert lost(tmp_path, data, len(data)) == (Loss(), None)
    assert lost(tmp_path, data, len(data) + 5) == (Loss(), None)


def test_the_damage_at_the_position_is_the_reason(tmp_path: Path) -> None:
    bad, good = broken(batch(100, 2)), batch(102, 3)
    loss, reason = lost(tmp_path, bad + good)
    assert loss == Loss(len(bad) + len(good), 0, 1, 3, 102, 104)
    assert reason is not None
    assert "CRC" in reason


def test_damage_further_on_is_none(tmp_path: Path) -> None:
    data = [batch(100, 2), broken(batch(102, 3)), batch(105, 4)]
    assert lost(tmp_path, b"".join(data)) == (Loss(sum(map(len, data)), 0, 2, 6, 100, 108), None)


def test_zeros_alone_are_no_data(tmp_path: Path) -> None:
    data = batch(100, 2)
    loss, _ = lost(tmp_path, data + bytes(40), len(data))
    assert loss == Loss(40, 40)
    assert not loss.has_data
    loss, _ = lost(tmp_path, data + bytes(40))
    assert loss == Loss(len(data) + 40, 0, 1, 2, 100, 101)
    assert loss.has_data


def test_a_batch_whose_records_are_all_compacted_away_has_offsets(tmp_path: Path) -> None:
    empty = encode_batch([], NewBatch(base_offset=101, last_offset=103, base_timestamp=-1, max_timestamp=-1))
    assert lost(tmp_path, empty) == (Loss(len(empty), 0, 1, 0, 101, 103), None)
    assert lost(tmp_path, empty + batch(104, 2))[0] == Loss(len(empty + batch(104, 2)), 0, 2, 2, 101, 105)


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_count_one_each(tmp_path: Path, magic: int) -> None:
    data = [encode_message(record, magic) for record in messages(100, 3, magic)]
    assert lost(tmp_path, b"".join(data), len(data[0])) == (Loss(2 * len(data[1]), 0, 2, 2, 101, 102), None)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4])
def test_the_records_of_a_wrapper_count(tmp_path: Path, magic: int, codec: int) -> None:
    """Its first offset is only in its content: the last one stands for it."""
    wrapper = encode_wrapper(messages(100, 5, magic), magic, codec)
    after = encode_message(messages(105, 1, magic)[0], magic)
    size = len(wrapper) + len(after)
    assert lost(tmp_path, wrapper + after) == (Loss(size, 0, 2, 6, 104, 105), None)
    assert lost(tmp_path, after + wrapper)[0].records == 6


def test_formats_side_by_side(tmp_path: Path) -> None:
    data = [
        encode_wrapper(messages(100, 4, 0), 0, GZIP),
        encode_message(messages(104, 1, 1)[0], 1),
        encode_wrapper(messages(105, 2, 1), 1, LZ4),
        batch(107, 3),
    ]
    assert lost(tmp_path, b"".join(data)) == (Loss(sum(map(len, data)), 0, 4, 10, 103, 109), None)


def test_a_batch_that_says_it_has_fewer_records_than_none_has_none(tmp_path: Path) -> None:
    header = NewBatch(0, -1, -1, -1, 0, 100, 102, 1000, 1000)
    negative = bytes(frame_batch(bytearray(HEADER_SIZE), header, -1))
    empty = encode_batch([], NewBatch(base_offset=103, last_offset=103, base_timestamp=-1, max_timestamp=-1))
    data = negative + empty + batch(104, 3)
    assert lost(tmp_path, data)[0] == Loss(len(data), 0, 3, 3, 102, 106)


def test_losses_add_up() -> None:
    losses = [Loss(10, 10), Loss(20, 0, 1, 2, 5, 6), Loss(3, 3), Loss(30, 0, 2, 7, 1, 9), Loss(1, 0, 1, 1, 7, 7)]
    assert total_loss(losses) == Loss(64, 13, 4, 10, 1, 9)
    assert total_loss(reversed(losses)) == total_loss(losses)
    assert total_loss([]) == Loss()


@pytest.mark.parametrize(
    ("actions", "has_open_txn", "fails"),
    [([], False, False), ([], True, True), ([RECOVER], False, False), ([RECOVER, DROP], False, True),
     ([SPLIT], False, True), ([RECOVER], True, True)],
)  # fmt: skip
def test_what_a_directory_with_a_fault_lets_fail(actions: list[StepKind], has_open_txn: bool, fails: bool) -> None:
    outcome = LoadOutcome(tuple(Step(each, "file", "why") for each in actions), has_open_txn=has_open_txn)
    assert outcome.fails_offline == fails
