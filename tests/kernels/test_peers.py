"""Against independent implementations: what kafka-python and aiokafka write we read, what we write they read."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any

import aiokafka.record.default_records as aiokafka_batches
import aiokafka.record.legacy_records as aiokafka_messages
import aiokafka.record.memory_records as aiokafka_memory
import kafka.codec
import kafka.record.default_records as kafka_batches
import kafka.record.legacy_records as kafka_messages
import kafka.record.memory_records as kafka_memory
import lz4.frame
import pytest

from kdump.formats.batch import CODEC_MASK, CONTROL, LOG_APPEND_TIME, TRANSACTIONAL
from kdump.formats.codecs import GZIP, LZ4, SNAPPY, ZSTD
from kdump.formats.encode import NewBatch, NewRecord, encode_batch, encode_message, encode_wrapper
from tests.kernels.reading import read, row_of, walked
from tests.kernels.seeds import CODECS, MARKER, NOW, control

PEERS = {
    "kafka-python": SimpleNamespace(batches=kafka_batches, messages=kafka_messages, memory=kafka_memory),
    "aiokafka": SimpleNamespace(batches=aiokafka_batches, messages=aiokafka_messages, memory=aiokafka_memory),
}
LARGE = 1 << 24
EVERY_CODEC = [0, *CODECS]

# What neither peer can: zstd in v0 and v1, which is not legal. aiokafka refuses lz4 in v0.
WRAPPERS = [
    (peer, magic, codec)
    for peer in PEERS
    for magic in (0, 1)
    for codec in (GZIP, SNAPPY, LZ4)
    if (peer, magic, codec) != ("aiokafka", 0, LZ4)
]


@pytest.fixture(autouse=True)
def _old_lz4_checksum(monkeypatch: pytest.MonkeyPatch) -> None:
    """kafka-python needs the package xxhash for lz4 in v0; its one function is in every LZ4 frame's end."""

    def xxh32(data: bytes) -> SimpleNamespace:
        checksum = lz4.frame.compress(bytes(data), content_checksum=True)[-4:]
        return SimpleNamespace(digest=lambda: checksum[::-1])

    monkeypatch.setattr(kafka.codec, "xxhash", SimpleNamespace(xxh32=xxh32))


def content(magic: int, size: int = 40) -> list[NewRecord]:
    """Records worth compressing, with nulls, empty parts and (v2) headers."""
    headers = ((), (("h", b"x"), ("ü" * 40, None), ("", b"")), (("h", b"y" * 200),))
    keys = (b"key", None, b"", b"k" * 70, bytes(range(256)))
    return [
        NewRecord(
            1000 + offset,
            NOW + offset * 13 if magic else -1,
            keys[offset % 5],
            None if offset % 7 == 3 else b"value %d " % offset * (offset % 11),
            tuple((name.encode(), value) for name, value in headers[offset % 3]) if magic == 2 else (),
        )
        for offset in range(size)
    ]


def placed(data: bytes | bytearray, offset: int) -> bytes:
    """An entry with the offset that a broker gives it; no checksum covers it."""
    return offset.to_bytes(8, "big") + bytes(data[8:])


# --- they write, we read


@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.parametrize("codec", EVERY_CODEC)
def test_their_batches(kernel: ModuleType, peer: str, codec: int) -> None:
    expected = content(2)
    builder = PEERS[peer].batches.DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=True,
        producer_id=7,
        producer_epoch=3,
        base_sequence=(1 << 31) - 5,
        batch_size=LARGE,
    )
    for index, record in enumerate(expected):
        headers = [(name.decode(), value) for name, value in record.headers]
        assert builder.append(index, record.timestamp, record.key, record.value, headers)
    data = placed(builder.build(), 1000)
    found = read(kernel, data, capacity=7)
    assert found.records == expected
    assert found.fault is None
    assert found.sequences == [(index - 5) % (1 << 31) for index in range(len(expected))]
    row = row_of(walked(kernel, data), 0)
    assert row["attributes"] == codec | TRANSACTIONAL
    assert row["valid"] == 1
    assert (row["base_offset"], row["last_offset"], row["count"]) == (1000, 1039, 40)
    assert (row["base_timestamp"], row["max_timestamp"]) == (NOW, NOW + 39 * 13)
    assert (row["producer_id"], row["producer_epoch"]) == (7, 3)


@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.parametrize("magic", [0, 1])
def test_their_messages(kernel: ModuleType, peer: str, magic: int) -> None:
    expected = content(magic)
    builder = PEERS[peer].messages.LegacyRecordBatchBuilder(magic, 0, LARGE)
    for record in expected:
        assert builder.append(record.offset, record.timestamp, record.key, record.value)
    found = read(kernel, bytes(builder.build()), capacity=7)
    assert found.records == expected
    assert (found.fault, all(found.valid)) == (None, True)


@pytest.mark.parametrize(("peer", "magic", "codec"), WRAPPERS)
def test_their_wrappers(kernel: ModuleType, peer: str, magic: int, codec: int) -> None:
    expected = content(magic)
    builder = PEERS[peer].messages.LegacyRecordBatchBuilder(magic, codec, LARGE)
    for record in expected:
        assert builder.append(record.offset - 1000 * magic, record.timestamp, record.key, record.value)
    data = placed(builder.build(), expected[-1].offset)
    found = read(kernel, data, capacity=7)
    assert found.records == expected
    assert (found.fault, all(found.valid)) == (None, True)
    row = row_of(walked(kernel, data), 0)
    assert (row["valid"], row["attributes"], row["last_offset"]) == (1, codec, expected[-1].offset)


def test_their_logs_of_every_version_in_a_row(kernel: ModuleType) -> None:
    data, expected = b"", []
    for magic, codec in ((0, GZIP), (1, LZ4), (2, ZSTD), (0, 0), (1, 0), (2, 0)):
        builder = kafka_memory.MemoryRecordsBuilder(magic, codec, LARGE)
        for offset, record in enumerate(content(magic, 5)):
            builder.append(record.timestamp, record.key, record.value)
            expected.append(record._replace(offset=offset, headers=()))
        builder.close()
        data += builder.buffer()
    found = read(kernel, data, rows=2, capacity=4)
    assert found.records == expected
    assert found.fault is None


# --- we write, they read


def as_read(peer: str, data: bytes) -> tuple[list[NewRecord], list[Any]]:
    """The records that a peer finds, its checksums held; and the batches."""
    memory = PEERS[peer].memory.MemoryRecords(data)
    found, batches = [], []
    while memory.has_next():
        batch = memory.next_batch()
        assert batch.validate_crc()
        batches.append(batch)
        for record in batch:
            timestamp = -1 if record.timestamp is None else record.timestamp
            headers = tuple((name.encode(), value) for name, value in record.headers)
            found.append(NewRecord(record.offset, timestamp, record.key, record.value, headers))
    return found, batches


@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.parametrize("codec", EVERY_CODEC)
def test_our_batches(peer: str, codec: int) -> None:
    expected = content(2)
    header = NewBatch(codec | TRANSACTIONAL, producer_id=7, producer_epoch=3, base_sequence=9, leader_epoch=2)
    found, (batch,) = as_read(peer, encode_batch(expected, header))
    assert found == expected
    assert (batch.base_offset, batch.last_offset_delta, batch.max_timestamp) == (1000, 39, NOW + 39 * 13)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (7, 3, 9)
    assert (batch.compression_type, batch.is_transactional, batch.is_control_batch) == (codec, True, False)
    assert batch.attributes & CODEC_MASK == codec


@pytest.mark.parametrize("peer", PEERS)
def test_our_batches_with_append_time(peer: str) -> None:
    found, _ = as_read(peer, encode_batch(content(2), NewBatch(LOG_APPEND_TIME, max_timestamp=NOW + 1)))
    assert found == [record._replace(timestamp=NOW + 1) for record in content(2)]


@pytest.mark.parametrize("peer", PEERS)
def test_our_compacted_batches(peer: str) -> None:
    kept = [record._replace(timestamp=record.timestamp - 86_400_000) for record in content(2)[::3]]
    header = NewBatch(base_offset=1000, last_offset=1039, base_timestamp=NOW)
    found, (batch,) = as_read(peer, encode_batch(kept, header))
    assert found == kept
    assert batch.last_offset_delta == 39


@pytest.mark.parametrize("peer", PEERS)
def test_our_markers(peer: str) -> None:
    header = NewBatch(TRANSACTIONAL | CONTROL, producer_id=7, producer_epoch=3)
    for number in (0, 1):
        found, (batch,) = as_read(peer, encode_batch([control(number, MARKER)], header))
        assert found == [control(number, MARKER)]
        assert batch.is_control_batch


@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.parametrize("magic", [0, 1])
def test_our_messages(peer: str, magic: int) -> None:
    expected = content(magic)
    found, _ = as_read(peer, b"".join(encode_message(record, magic) for record in expected))
    assert found == expected


@pytest.mark.parametrize(("peer", "magic", "codec"), WRAPPERS)
def test_our_wrappers(peer: str, magic: int, codec: int) -> None:
    expected = content(magic)
    found, batches = as_read(peer, encode_wrapper(expected, magic, codec))
    assert found == expected
    assert len(batches) == 1


@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4])
def test_our_wrappers_with_append_time(peer: str, codec: int) -> None:
    found, _ = as_read(peer, encode_wrapper(content(1), 1, codec, NOW + 1))
    assert found == [record._replace(timestamp=NOW + 1) for record in content(1)]


@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.parametrize("codec", [SNAPPY, LZ4, ZSTD])
def test_our_large_payloads(peer: str, codec: int) -> None:
    """Of more than one block or chunk."""
    expected = [NewRecord(offset, NOW, None, bytes(range(256)) * 300 + b"%d" % offset) for offset in range(5)]
    assert as_read(peer, encode_batch(expected, NewBatch(codec)))[0] == expected
