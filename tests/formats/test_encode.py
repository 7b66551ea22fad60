"""What is encoded decodes to the same, whatever the format and the codec; and known records give Kafka's own bytes."""

from __future__ import annotations

from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.formats.batch import CODEC_MASK, CONTROL, DELETE_HORIZON, HEADER, LOG_APPEND_TIME, TRANSACTIONAL
from kdump.formats.codecs import GZIP, LZ4, SNAPPY, ZSTD, compress
from kdump.formats.encode import NewBatch, NewRecord, encode_batch, encode_message, encode_wrapper, varint
from tests.kernels.golden import GOLDEN, KV, PACKED, PAYLOAD
from tests.kernels.reading import KERNELS, Content, read, row_of, walked

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
TIMESTAMPS = st.one_of(st.integers(-1, 1 << 45), INT64)
PARTS = st.one_of(st.none(), st.binary(max_size=40), st.integers(60, 70).map(bytes), st.just(bytes(9000)))
NAMES, VALUES = st.binary(max_size=5), st.one_of(st.none(), st.binary(max_size=70))
Headers = st.SearchStrategy[tuple[tuple[bytes, bytes | None], ...]]
NO_HEADERS = st.just(())
HEADERS = st.lists(st.tuples(NAMES, VALUES), max_size=3).map(tuple)
KERNEL = st.sampled_from(KERNELS)


def records(headers: Headers, lowest: int = 0) -> st.SearchStrategy[list[NewRecord]]:
    """Records with rising offsets."""

    def placed(first: int, parts: list[tuple[int, NewRecord]]) -> list[NewRecord]:
        offset, found = first, []
        for gap, record in parts:
            offset += gap
            found.append(record._replace(offset=offset))
        return found

    record = st.builds(NewRecord, st.just(0), TIMESTAMPS, PARTS, PARTS, headers)
    gaps = st.one_of(st.just(1), st.integers(1, 1 << 26))
    parts = st.lists(st.tuples(gaps, record), min_size=1, max_size=12)
    return st.builds(placed, st.one_of(st.integers(lowest, 100), st.integers(lowest, (1 << 63) - (1 << 31))), parts)


@given(KERNEL, records(HEADERS), st.integers(0, 4))
def test_batches(kernel: ModuleType, content: list[NewRecord], codec: int) -> None:
    found = read(kernel, encode_batch(content, NewBatch(attributes=codec)), capacity=5)
    assert found == Content(content, [-1] * len(content), [0] * len(content), [1] * len(content), None)


@given(KERNEL, records(NO_HEADERS, lowest=1), st.sampled_from([(0, 0), (1, 0), (1, LOG_APPEND_TIME)]))
def test_messages(kernel: ModuleType, content: list[NewRecord], how: tuple[int, int]) -> None:
    magic, attributes = how
    found = read(kernel, b"".join(encode_message(record, magic, attributes) for record in content), capacity=5)
    assert found.records == [record if magic else record._replace(timestamp=-1) for record in content]
    assert (all(found.valid), found.fault) == (True, None)


@given(KERNEL, records(NO_HEADERS, lowest=1), st.sampled_from([0, 1]), st.sampled_from([GZIP, SNAPPY, LZ4]))
def test_wrappers(kernel: ModuleType, content: list[NewRecord], magic: int, codec: int) -> None:
    found = read(kernel, encode_wrapper(content, magic, codec), capacity=5)
    assert found.records == [record if magic else record._replace(timestamp=-1) for record in content]
    assert (all(found.valid), found.fault) == (True, None)


@given(KERNEL, records(NO_HEADERS, lowest=1), st.integers(0, 1 << 45))
def test_wrappers_with_append_time(kernel: ModuleType, content: list[NewRecord], append_time: int) -> None:
    data = encode_wrapper(content, 1, LZ4, append_time)
    assert read(kernel, data).records == [record._replace(timestamp=append_time) for record in content]
    block = walked(kernel, data)
    assert (block.max_timestamp[0], block.attributes[0], block.valid[0]) == (append_time, LZ4 | LOG_APPEND_TIME, 1)


INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
BATCHES = st.builds(
    NewBatch,
    attributes=st.sampled_from([0, GZIP, ZSTD, TRANSACTIONAL, CONTROL, LOG_APPEND_TIME, DELETE_HORIZON, 0x7F00]),
    producer_id=INT64,
    producer_epoch=st.integers(-(1 << 15), (1 << 15) - 1),
    base_sequence=INT32,
    leader_epoch=INT32,
    base_offset=st.integers(0, 1 << 62),
    base_timestamp=INT64,
    max_timestamp=INT64,
)


@given(KERNEL, BATCHES, st.lists(st.integers(0, (1 << 31) - 1), max_size=5), TIMESTAMPS)
def test_headers_of_batches(kernel: ModuleType, batch: NewBatch, deltas: list[int], timestamp: int) -> None:
    assert batch.base_offset is not None
    content = [NewRecord(batch.base_offset + delta, timestamp, None, b"") for delta in deltas]
    last_offset = batch.base_offset + max(deltas, default=9)
    data = encode_batch(content, batch._replace(last_offset=last_offset))
    block = walked(kernel, data)
    assert row_of(block, 0) == {
        "position": 0,
        "size": len(data),
        "base_offset": batch.base_offset,
        "last_offset": last_offset,
        "magic": 2,
        "attributes": batch.attributes,
        "crc": int.from_bytes(data[17:21], "big"),
        "valid": 1,
        "base_timestamp": batch.base_timestamp,
        "max_timestamp": batch.max_timestamp,
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "base_sequence": batch.base_sequence,
        "count": len(deltas),
        "leader_epoch": batch.leader_epoch,
    }
    found = read(kernel, data)
    reported = batch.max_timestamp if batch.attributes & LOG_APPEND_TIME else timestamp
    assert [(record.offset, record.timestamp) for record in found.records] == [
        (record.offset, reported) for record in content
    ]


def golden(name: str) -> bytes:
    return next(golden.data for golden in GOLDEN if golden.name == name)


def test_golden_bytes() -> None:
    """What Kafka's own writers made of the same records."""
    commit = NewRecord(6, 1000, bytes.fromhex("00000001"), bytes.fromhex("000000000003"))
    marker = NewBatch(attributes=TRANSACTIONAL | CONTROL, producer_id=7, producer_epoch=1, leader_epoch=0)
    horizon = NewBatch(attributes=DELETE_HORIZON, leader_epoch=0, base_timestamp=86_401_000)
    producer = NewBatch(producer_id=7, producer_epoch=0, base_sequence=0, leader_epoch=3)
    empty = producer._replace(base_offset=5, last_offset=6, base_timestamp=-1, max_timestamp=1000)
    assert encode_batch([KV], NewBatch(leader_epoch=0)) == golden("v2")
    assert encode_batch([commit], marker) == golden("COMMIT marker")
    assert encode_message(KV, 1) == golden("v1")
    assert encode_message(NewRecord(5, -1, None, b"v"), 0) == golden("v0")
    assert encode_batch([KV._replace(value=None)], horizon) == golden("tombstone with a delete horizon")
    assert encode_batch([], empty) == golden("emptied by compaction")
    compacted = producer._replace(base_offset=6)
    assert encode_batch([NewRecord(7, 2000, b"j", b"w")], compacted) == golden("compacted")


@pytest.mark.parametrize("codec", PACKED)
def test_golden_payloads(codec: int) -> None:
    assert compress(codec, PAYLOAD).hex() == PACKED[codec]
    data = encode_batch([KV], NewBatch(attributes=codec))
    assert data[61:].hex() == PACKED[codec]


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_an_emptied_batch_keeps_its_codec_and_has_no_payload(codec: int) -> None:
    data = encode_batch([], NewBatch(codec, base_offset=5, last_offset=6, base_timestamp=-1, max_timestamp=-1))
    assert len(data) == HEADER.size
    assert HEADER.unpack(data)[5] & CODEC_MASK == codec


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        ((1 << 31) - 1, "feffffff0f"),
        (-(1 << 31), "ffffffff0f"),
        ((1 << 63) - 1, "feffffffffffffffff01"),
        (-(1 << 63), "ffffffffffffffffff01"),
    ],
)
def test_varints(value: int, encoded: str) -> None:
    assert varint(value).hex() == encoded


def test_offsets_of_a_v1_wrapper_count_from_its_first_message() -> None:
    content = [NewRecord(offset, 1, None, None) for offset in (40, 43)]
    inner = b"".join(encode_message(record._replace(offset=record.offset - 40), 1) for record in content)
    packed = compress(GZIP, inner)
    assert encode_wrapper(content, 1, GZIP).endswith(len(packed).to_bytes(4, "big") + packed)
    absolute = compress(GZIP, b"".join(encode_message(record, 0) for record in content))
    assert encode_wrapper(content, 0, GZIP).endswith(len(absolute).to_bytes(4, "big") + absolute)


def test_the_timestamp_of_a_wrapper_is_the_largest_inside() -> None:
    content = [NewRecord(offset, timestamp, None, None) for offset, timestamp in ((1, 5), (2, 9), (3, 7))]
    assert walked(KERNELS[0], encode_wrapper(content, 1, GZIP)).max_timestamp[0] == 9
