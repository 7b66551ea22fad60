"""One flipped bit of a batch is found again, wherever it is, and nothing else is taken for one."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import kdump
from kdump.formats.batch import TRANSACTIONAL
from kdump.formats.codecs import GZIP
from kdump.formats.encode import NewBatch, NewRecord, encode_batch, encode_message
from kdump.mend.flipped_bit import FlippedBit, find_flipped_bit
from kdump.storage.planned import PlannedPartition
from tests.repair.damaged import name

RECORDS = [NewRecord(10 + n, 5000 + n, b"key %d" % n, b"value" * 9) for n in range(3)]
BATCH = encode_batch(RECORDS, NewBatch(leader_epoch=2))
FOLLOWING = encode_batch([NewRecord(13, 6000, b"k", b"v")], NewBatch(leader_epoch=2))
UNCOVERED = range(12, 16)  # the leader epoch


def found(folder: Path, data: bytes, size: int, following: bytes = FOLLOWING) -> FlippedBit | None:
    """What is found in a log that begins with this damaged batch of `size` bytes."""
    partition = folder / "orders-0"
    partition.mkdir(exist_ok=True)
    (partition / name(10, "log")).write_bytes(data + following)
    directory = PlannedPartition(kdump.open_log(str(partition)))
    return find_flipped_bit(directory, name(10, "log"), 10, None, 0, size)


def flipped(data: bytes, *bits: int) -> bytes:
    """The data with these bits flipped."""
    changed = bytearray(data)
    for bit in bits:
        changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


@pytest.mark.parametrize("following", [FOLLOWING, b""])
@pytest.mark.parametrize("codec", [0, GZIP])
def test_every_bit_that_a_check_covers(tmp_path: Path, codec: int, following: bytes) -> None:
    batch = encode_batch(RECORDS, NewBatch(TRANSACTIONAL | codec, 7, 0, 0, leader_epoch=2))
    header = [bit for at in range(8, 23) if at not in UNCOVERED for bit in range(8 * at, 8 * at + 8)]
    for bit in (*header, *range(8 * 23, 8 * len(batch), 11)):
        one = found(tmp_path, flipped(batch, bit), len(batch), following)
        assert one is not None, bit
        assert (one.position, one.bit, one.byte) == (bit // 8, bit % 8, batch[bit // 8])
        assert (one.batch, one.first_offset, one.last_offset) == ((0, len(batch)), 10, 12)
        assert one.bits == 8 * len(batch)


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_of_old_formats(tmp_path: Path, magic: int) -> None:
    message = encode_message(NewRecord(10, 5000 if magic else -1, b"key", b"value" * 20), magic, 0)
    for bit in range(8 * 8, 8 * len(message), 3):
        one = found(tmp_path, flipped(message, bit), len(message), b"")
        assert one is not None, bit
        assert (one.position, one.bit) == (bit // 8, bit % 8)


def test_behind_other_batches_and_in_front_of_other_damage(tmp_path: Path) -> None:
    """Up to the next valid batch there may be more than the one that its own size tells of."""
    damaged = flipped(encode_batch([NewRecord(13, 6000, b"key", b"value" * 9)], NewBatch()), 8 * 70 + 3)
    size = len(damaged)
    partition = tmp_path / "orders-0"
    partition.mkdir()
    (partition / name(10, "log")).write_bytes(BATCH + damaged + b"\x7f" * 50 + flipped(FOLLOWING, 8 * 30))
    directory = PlannedPartition(kdump.open_log(str(partition)))
    start, end = len(BATCH), directory.size(name(10, "log"))
    one = find_flipped_bit(directory, name(10, "log"), 10, None, start, end)
    assert one is not None
    assert (one.position, one.bit, one.batch) == (start + 70, 3, (start, start + size))
    assert (one.first_offset, one.last_offset, one.bits) == (13, 13, 8 * size)


@pytest.mark.parametrize("bit", range(8 * 10, 8 * 12))
def test_a_size_that_is_wrong_at_the_end_of_a_log(tmp_path: Path, bit: int) -> None:
    """It leads beyond the end, or to no batch: what is there is the batch."""
    partition = tmp_path / "orders-0"
    partition.mkdir()
    last = encode_batch([NewRecord(13, 6000, b"key", b"value" * 9)], NewBatch())
    (partition / name(10, "log")).write_bytes(BATCH + flipped(last, bit))
    directory = PlannedPartition(kdump.open_log(str(partition)))
    start, end = len(BATCH), len(BATCH + last)
    one = find_flipped_bit(directory, name(10, "log"), 10, None, start, end)
    assert one is not None
    assert (one.position, one.bit, one.batch) == (start + bit // 8, bit % 8, (start, end))


def test_a_wrong_size_and_a_format_that_there_is_not(tmp_path: Path) -> None:
    both = flipped(BATCH, 8 * 11, 8 * 16 + 6)
    assert found(tmp_path, both, len(BATCH)) is None


def test_two_bits_are_not_one(tmp_path: Path) -> None:
    numbers = random.Random(7)
    for _ in range(60):
        first, second = numbers.sample(range(8 * 17, 8 * len(BATCH)), 2)
        assert found(tmp_path, flipped(BATCH, first, second), len(BATCH)) is None


def test_other_damage_is_none(tmp_path: Path) -> None:
    zeros = BATCH[:100] + bytes(20) + BATCH[120:]
    assert found(tmp_path, zeros, len(BATCH)) is None
    assert found(tmp_path, BATCH[:40], 40, b"") is None
    assert found(tmp_path, bytes(90), 90, b"") is None
    assert found(tmp_path, b"", 0, b"") is None


def test_a_batch_that_does_not_belong_here(tmp_path: Path) -> None:
    """The CRC is right again, but the offsets are those of another segment."""
    early = encode_batch([NewRecord(3, 5000, b"k", b"v")], NewBatch())
    assert found(tmp_path, flipped(early, 8 * 30), len(early), b"") is None


def test_a_large_batch(tmp_path: Path) -> None:
    numbers = random.Random(1)
    batch = encode_batch([NewRecord(10, 5000, None, numbers.randbytes(300_000))], NewBatch())
    one = found(tmp_path, flipped(batch, 8 * 1000 + 5), len(batch), b"")
    assert one is not None
    assert (one.position, one.bit) == (1000, 5)


@pytest.mark.parametrize(
    ("size", "odds"), [(100, 5_400_000), (797, 670_000), (1 << 20, 510), (1 << 21, 260), (1 << 28, 2)]
)
def test_how_often_other_damage_looks_the_same(size: int, odds: int) -> None:
    """Of a large batch many bits might explain a CRC, but it never comes to one of no cases."""
    assert FlippedBit(0, 0, 0, (0, size), 0, 0, 8 * size).lookalike_odds == odds
