"""Producer snapshots: golden bytes, Kafka's errors in its reader's order, and the order of its hash map."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.errors import CorruptSnapshotError
from kdump.formats.checksums import crc32c
from kdump.formats.producer_snapshot import (
    ProducerEntry,
    TruncatedSnapshotError,
    decode_producer_snapshot,
    encode_producer_snapshot,
    hash_map_order,
    schema_fault,
)

SNAPSHOT = bytes.fromhex(
    "0001865f445800000002"
    "00000000000000070001000000090000000000000078000000040000018bcfe5680000000003ffffffffffffffff"
    "00000000000000080000ffffffffffffffffffffffff000000000000018bcfe56801ffffffff0000000000000082"
)
ENTRIES = [
    ProducerEntry(
        producer_id=7,
        producer_epoch=1,
        last_sequence=9,
        last_offset=120,
        offset_delta=4,
        timestamp=1700000000000,
        coordinator_epoch=3,
        current_txn_first_offset=-1,
    ),
    ProducerEntry(
        producer_id=8,
        producer_epoch=0,
        last_sequence=-1,
        last_offset=-1,
        offset_delta=0,
        timestamp=1700000000001,
        coordinator_epoch=-1,
        current_txn_first_offset=130,
    ),
]
EMPTY = bytes.fromhex("000148674bc700000000")

INT16 = st.integers(-(2**15), 2**15 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
ANY_ENTRY = st.builds(ProducerEntry, INT64, INT16, INT32, INT64, INT32, INT64, INT32, INT64)


def with_right_crc(data: bytes) -> bytes:
    return data[:2] + struct.pack(">I", crc32c(data[6:])) + data[6:]


def entry(producer_id: int) -> ProducerEntry:
    return ENTRIES[0]._replace(producer_id=producer_id)


def test_golden_bytes() -> None:
    assert decode_producer_snapshot(SNAPSHOT) == ENTRIES
    assert decode_producer_snapshot(memoryview(SNAPSHOT)) == ENTRIES
    assert encode_producer_snapshot(ENTRIES) == SNAPSHOT
    assert decode_producer_snapshot(EMPTY) == []
    assert encode_producer_snapshot([]) == EMPTY


@given(st.lists(ANY_ENTRY, max_size=20))
def test_round_trip(entries: list[ProducerEntry]) -> None:
    assert decode_producer_snapshot(encode_producer_snapshot(entries)) == entries


def test_what_an_entry_says() -> None:
    with_batch, without_batch = ENTRIES
    assert (with_batch.has_batch, with_batch.first_sequence, with_batch.has_open_txn) == (True, 5, False)
    assert (without_batch.has_batch, without_batch.first_sequence, without_batch.has_open_txn) == (False, -1, True)
    assert with_batch._replace(last_sequence=1).first_sequence == 2**31 - 3
    assert with_batch._replace(last_offset=0).has_batch


@pytest.mark.parametrize("version", [0, 2, 7, -1])
def test_unknown_version(version: int) -> None:
    with pytest.raises(CorruptSnapshotError) as caught:
        decode_producer_snapshot(struct.pack(">h", version) + SNAPSHOT[2:])
    assert str(caught.value) == (
        f"Snapshot failed schema validation: Snapshot contained an unknown file version {version}"
    )


def test_wrong_crc() -> None:
    with pytest.raises(CorruptSnapshotError) as caught:
        decode_producer_snapshot(EMPTY[:5] + b"\xc8" + EMPTY[6:])
    assert str(caught.value) == (
        "Snapshot is corrupt (CRC is no longer valid). Stored crc: 1214729160. Computed crc: 1214729159"
    )


def test_the_crc_covers_bytes_after_the_last_entry() -> None:
    with pytest.raises(CorruptSnapshotError, match="CRC is no longer valid"):
        decode_producer_snapshot(SNAPSHOT + b"\0\0")
    assert decode_producer_snapshot(with_right_crc(SNAPSHOT + b"\0\0")) == ENTRIES


@pytest.mark.parametrize("size", range(len(SNAPSHOT)))
def test_every_truncation(size: int) -> None:
    with pytest.raises(TruncatedSnapshotError if size < 10 or size > 11 else CorruptSnapshotError) as caught:
        decode_producer_snapshot(SNAPSHOT[:size])
    assert str(caught.value).startswith("Snapshot failed schema validation: ")


def test_text_of_a_truncation() -> None:
    with pytest.raises(TruncatedSnapshotError) as caught:
        decode_producer_snapshot(SNAPSHOT[:-5])
    assert str(caught.value) == (
        "Snapshot failed schema validation: 2 entries would end at byte 102, but the data ends at byte 97"
    )
    assert caught.value.kafka_text == "Snapshot failed schema validation: null"


@pytest.mark.parametrize(
    ("count", "problem"),
    [
        (-1, "non-nullable field producerEntries was serialized as null"),
        (-(2**31), "non-nullable field producerEntries was serialized as null"),
        (93, "Tried to allocate a collection of size 93, but there are only 92 bytes remaining."),
        (2**31 - 1, "Tried to allocate a collection of size 2147483647, but there are only 92 bytes remaining."),
    ],
)
def test_impossible_number_of_entries(count: int, problem: str) -> None:
    with pytest.raises(CorruptSnapshotError) as caught:
        decode_producer_snapshot(SNAPSHOT[:6] + struct.pack(">i", count) + SNAPSHOT[10:])
    assert str(caught.value) == f"Snapshot failed schema validation: {problem}"


def bit_flips(sound: bytes) -> Iterator[bytes]:
    for at, byte in enumerate(sound):
        for bit in range(8):
            yield sound[:at] + bytes([byte ^ 1 << bit]) + sound[at + 1 :]


def test_every_bit_flip_is_noticed() -> None:
    for data in bit_flips(SNAPSHOT):
        with pytest.raises(CorruptSnapshotError):
            decode_producer_snapshot(data)


@given(st.binary(min_size=8, max_size=120))
def test_any_bytes_give_entries_or_the_error(body: bytes) -> None:
    try:
        entries = decode_producer_snapshot(with_right_crc(b"\0\1" + body))
    except CorruptSnapshotError:
        return
    assert len(entries) == struct.unpack_from(">i", body, 4)[0]


@pytest.mark.parametrize(
    ("size", "fields"),
    [
        (1, "'version'"),
        (5, "'crc'"),
        (9, "'producer_entries'"),
        (10 + 46 + 7, "'producer_entries': Error reading field 'producer_id'"),
        (10 + 46 + 9, "'producer_entries': Error reading field 'epoch'"),
        (10 + 46 + 45, "'producer_entries': Error reading field 'current_txn_first_offset'"),
    ],
)
def test_what_kafka_up_to_3_9_says_of_a_truncation(size: int, fields: str) -> None:
    data = encode_producer_snapshot(ENTRIES[:2])
    text = f"Snapshot failed schema validation: Error reading field {fields}: java.nio.BufferUnderflowException"
    assert schema_fault(data[:size]) == text


def test_what_kafka_up_to_3_9_says_of_other_faults() -> None:
    data = encode_producer_snapshot(ENTRIES[:2])
    assert schema_fault(data) is None
    assert schema_fault(b"\0\2" + data[2:]) == "Snapshot contained an unknown file version 2"
    start = "Snapshot failed schema validation: Error reading field 'producer_entries': "
    assert schema_fault(data[:12]) == start + "Error reading field 'producer_id': java.nio.BufferUnderflowException"
    assert schema_fault(data[:11]) == start + "Error reading array of size 2, only 1 bytes available"
    assert schema_fault(data[:6] + b"\xff\xff\xff\xfe") == start + "Array size -2 cannot be negative"


def test_hash_map_order_of_a_small_map() -> None:
    assert hash_map_order([1000, 17, 33, 2, 5]) == [17, 33, 2, 5, 1000]


def test_hash_map_order_of_a_table_that_grew() -> None:
    # 12 entries fill the first table of 16 buckets, the 13th doubles it and so separates 3 from 19
    assert hash_map_order([19, 3, *range(100, 110)])[:2] == [19, 3]
    assert hash_map_order([19, 3, *range(100, 111)])[0] == 3


def test_hash_map_order_where_a_long_chain_makes_the_table_grow() -> None:
    # the 9th key in one bucket doubles a table of 16, and these then are in two buckets of 32
    assert hash_map_order([16 * n for n in range(8)]) == [0, 16, 32, 48, 64, 80, 96, 112]
    assert hash_map_order([16 * n for n in range(9)]) == [0, 32, 64, 96, 128, 16, 48, 80, 112]


def test_hash_map_order_folds_the_high_bits() -> None:
    assert hash_map_order([1 << 32, 1 << 16, 0, -1]) == [0, -1, 1 << 32, 1 << 16]


def test_hash_map_order_takes_each_id_once() -> None:
    assert hash_map_order([5, 1, 5, 17]) == [1, 17, 5]


def test_encoding_in_the_order_of_the_hash_map() -> None:
    latest = entry(17)._replace(last_sequence=77)
    data = encode_producer_snapshot([entry(1000), entry(17), entry(2), latest], java_order=True)
    assert decode_producer_snapshot(data) == [latest, entry(2), entry(1000)]
