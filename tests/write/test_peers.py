"""kafka-python and aiokafka read every batch that a log gets, in every format and with every codec."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import aiokafka.record.memory_records as aiokafka_memory
import kafka.codec
import kafka.record.memory_records as kafka_memory
import lz4.frame
import pytest

from kdump.formats.codecs import GZIP, LZ4, NAMES, NONE, SNAPPY, ZSTD
from kdump.settings.writing import WritingSettings
from kdump.write.log_writer import LogWriter
from kdump.write.packing import Packing
from kdump.write.record_source import Message, RecordSource
from kdump.write.sessions import Producer
from tests.sampling import sampled
from tests.write.building import NOW, Clock

PEERS = {"kafka-python": kafka_memory, "aiokafka": aiokafka_memory}
FORMATS = [(magic, codec) for magic in (0, 1) for codec in (NONE, GZIP, SNAPPY, LZ4)]
FORMATS += [(2, codec) for codec in (NONE, GZIP, SNAPPY, LZ4, ZSTD)]
READS = [
    pytest.param(peer, magic, codec, id=f"{peer}-v{magic}-{NAMES[codec]}")
    for peer in PEERS
    for magic, codec in FORMATS
    if (peer, magic, codec) != ("aiokafka", 0, LZ4)  # which it refuses
]


@pytest.fixture(autouse=True)
def _old_lz4_checksum(monkeypatch: pytest.MonkeyPatch) -> None:
    """kafka-python needs the package xxhash for lz4 in v0; its one function is in every LZ4 frame's end."""

    def xxh32(data: bytes) -> SimpleNamespace:
        checksum = lz4.frame.compress(bytes(data), content_checksum=True)[-4:]
        return SimpleNamespace(digest=lambda: checksum[::-1])

    monkeypatch.setattr(kafka.codec, "xxhash", SimpleNamespace(xxh32=xxh32))


def content(magic: int) -> list[Message]:
    """Records worth compressing, with nulls, empty parts and (v2) headers."""
    headers = ((), ((b"h", b"x"), ("ü".encode() * 40, None), (b"", b"")))
    keys = (b"key", None, b"", b"k" * 70, bytes(range(256)))
    return [
        Message(
            None if number % 7 == 3 else b"value %d " % number * (number % 11),
            keys[number % 5],
            NOW + number * 13,
            headers[number % 2] if magic == 2 else (),
        )
        for number in range(120)
    ]


def write(folder: Path, magic: int, codec: int, records: Any) -> bytes:
    """The .log of a topic of this format."""
    config = WritingSettings(record_version=magic)
    with LogWriter.create(str(folder / "orders-0"), config, start_offset=1000, clock=Clock(), durable=False) as log:
        log.append(records, Packing(magic, codec, batch_bytes=2000))
    return (folder / "orders-0" / f"{1000:020d}.log").read_bytes()


def read(peer: ModuleType, data: bytes) -> Iterator[tuple[Any, ...]]:
    """What a client makes of a log: offset, timestamp, key, value, headers."""
    batches = peer.MemoryRecords(data)
    while (batch := batches.next_batch()) is not None:
        assert batch.validate_crc()
        for record in batch:
            headers = [(name.encode(), value) for name, value in record.headers]
            yield record.offset, record.timestamp, record.key, record.value, headers


@pytest.mark.parametrize(("peer", "magic", "codec"), sampled(READS, 6))
@pytest.mark.parametrize("columns", [False, True], ids=["values", "columns"])
def test_peer_reads_the_log(peer: str, magic: int, codec: int, columns: bool, tmp_path: Path) -> None:
    messages = content(magic)
    data = write(tmp_path, magic, codec, RecordSource.of(messages) if columns else messages)
    found = list(read(PEERS[peer], data))
    assert found == [
        (offset, each.timestamp if magic else None, each.key, each.value, list(each.headers))
        for offset, each in enumerate(messages, 1000)
    ]


@pytest.mark.parametrize("peer", PEERS)
def test_peer_reads_a_transaction(peer: str, tmp_path: Path) -> None:
    log = LogWriter.create(str(tmp_path / "orders-0"), clock=Clock(), durable=False)
    producer = Producer(77, 3, is_transactional=True)
    producer.send(log, content(2)[:5])
    producer.abort()
    log.close()
    batches = PEERS[peer].MemoryRecords((tmp_path / "orders-0" / f"{0:020d}.log").read_bytes())
    data, marker = batches.next_batch(), batches.next_batch()
    assert (data.producer_id, data.producer_epoch, data.base_sequence, data.is_transactional) == (77, 3, 0, True)
    assert (data.is_control_batch, marker.is_control_batch, marker.producer_id) == (False, True, 77)
    (record,) = list(marker)
    assert (record.offset, record.key) == (5, b"\0\0\0\0")
