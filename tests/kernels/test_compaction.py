"""Keys and their offsets, and records encoded anew: the same from each set of kernels, on damaged input too."""

from __future__ import annotations

import hashlib
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.blocks import RecordBlock
from kdump.formats.batch import DELETE_HORIZON, HEADER_SIZE
from kdump.formats.encode import NewBatch, NewRecord, encode_batch, encode_message, encode_record
from kdump.kernels import fates
from kdump.kernels.portable import compaction
from kdump.payloads import inflate
from tests.kernels.reading import KERNELS, NATIVE, only_native, walked

KERNEL = st.sampled_from(KERNELS)
KEYS = st.one_of(st.none(), st.binary(max_size=3), st.integers(50, 130).map(bytes))
VALUES = st.one_of(st.none(), st.binary(max_size=5), st.integers(60, 70).map(bytes))
HEADERS = st.lists(st.tuples(st.binary(max_size=70), VALUES), max_size=2).map(tuple)
RECORDS = st.lists(st.tuples(KEYS, VALUES, st.integers(-5, 1 << 40), HEADERS), min_size=1, max_size=12)
CODEC = st.sampled_from((0, 1))


def decoded(kernel: ModuleType, data: bytes):
    """A log as the kernels see it: block, payloads, records."""
    block = walked(kernel, data)
    payloads = inflate(block, 0, block.length).payloads
    records = RecordBlock()
    records.seek(0)
    kernel.decode(block, records, 0, block.length, payloads)
    assert records.fault is None
    return block, payloads, records


def new_records(rows) -> list[NewRecord]:
    """Records at offsets 100, 102, …"""
    return [NewRecord(100 + 2 * at, *(row[2], row[0], row[1], row[3])) for at, row in enumerate(rows)]


@given(KERNEL, st.lists(st.tuples(st.binary(max_size=2), st.integers(0, 1 << 50)), max_size=60), st.integers(1, 40))
def test_a_map_holds_the_latest_offset_of_each_key_up_to_its_limit(
    kernel: ModuleType, puts: list[tuple[bytes, int]], limit: int
) -> None:
    found = kernel.OffsetMap(24 * 40, limit)
    expected: dict[bytes, int] = {}
    for key, offset in puts:
        taken = found.put(key, offset)
        assert taken == (len(expected) < limit)
        if taken:
            expected[key] = offset
    assert found.size == len(expected)
    for key, _ in puts:
        assert found.get(key) == expected.get(key, -1)
    assert found.get(b"not there") == -1
    assert (found.slots, found.limit) == (40, limit)


@pytest.mark.parametrize("length", [0, 1, 54, 55, 56, 63, 64, 65, 119, 120, 128, 1000])
def test_keys_of_every_length_are_told_apart(kernel: ModuleType, length: int) -> None:
    found = kernel.OffsetMap(24 * 100, 90)
    assert found.put(bytes(length), 5)
    assert found.get(bytes(length)) == 5
    assert found.get(bytes(length + 1)) == -1


def test_a_table_grows_without_forgetting(kernel: ModuleType) -> None:
    keys = [b"%d" % number for number in range(20_000)]
    found = kernel.OffsetMap(24 * 100_000, 90_000)
    for offset, key in enumerate(keys):
        found.put(key, offset)
    assert found.size == len(keys)
    assert [found.get(key) for key in keys] == list(range(len(keys)))


def test_the_sum_is_md5(kernel: ModuleType) -> None:
    # two keys of the same MD5 sum, found by Xiaoyun Wang and others in 2004, are one to Kafka's cleaner
    first = bytes.fromhex(
        "d131dd02c5e6eec4693d9a0698aff95c2fcab58712467eab4004583eb8fb7f8955ad340609f4b30283e488832571415a085125e8f7cdc99f"
        "d91dbdf280373c5bd8823e3156348f5bae6dacd436c919c6dd53e2b487da03fd02396306d248cda0e99f33420f577ee8ce54b67080a80d1e"
        "c69821bcb6a8839396f9652b6ff72a70"
    )
    second = bytearray(first)
    for at, value in ((19, 0x07), (45, 0xF1), (59, 0x72), (83, 0x34), (109, 0x28), (123, 0xAB)):
        second[at] = value
    assert hashlib.md5(first, usedforsecurity=False).digest() == hashlib.md5(second, usedforsecurity=False).digest()
    found = kernel.OffsetMap(24 * 10, 9)
    found.put(first, 1)
    assert found.get(bytes(second)) == 1


@pytest.mark.parametrize(("memory", "limit"), [(23, 0), (24, 2), (240, -1)])
def test_a_map_needs_room(kernel: ModuleType, memory: int, limit: int) -> None:
    with pytest.raises(ValueError, match=f"{memory} bytes have no room"):
        kernel.OffsetMap(memory, limit)


@given(KERNEL, RECORDS, CODEC, st.integers(95, 125), st.integers(1, 8), st.integers(95, 130), st.integers(0, 3))
def test_taking_and_sifting(
    kernel: ModuleType, rows, codec: int, start: int, limit: int, latest: int, horizon: int
) -> None:
    first = NewBatch(DELETE_HORIZON | codec, base_timestamp=horizon) if horizon else NewBatch(codec)
    data = encode_batch(new_records(rows), first) + b"".join(
        encode_message(record._replace(offset=record.offset + 30), 1) for record in new_records(rows)
    )
    block, payloads, records = decoded(kernel, data)
    wanted = bytes(int(row != 2) for row in range(block.length))
    found, plain = kernel.OffsetMap(24 * 50, limit), compaction.OffsetMap(24 * 50, limit)
    at = found.take(block, records, 0, payloads, wanted, start)
    assert at == plain.take(block, records, 0, payloads, wanted, start)
    assert at == records.length or found.size == limit
    for legacy in (True, False):
        kept = found.sift(block, records, 0, payloads, latest, 2, legacy)
        assert kept == plain.sift(block, records, 0, payloads, latest, 2, legacy)
        for number, fate in enumerate(kept):
            is_tombstone = records.value_length[number] < 0
            if records.offset[number] > latest:
                assert fate == (fates.KEPT_TOMBSTONE if is_tombstone else fates.KEPT)
            elif records.key_length[number] < 0:
                assert fate == fates.KEYLESS
            elif fate == fates.EXPIRED:
                assert is_tombstone
                assert not legacy if records.row[number] else 0 < horizon <= 2


@given(KERNEL, RECORDS, CODEC, st.data())
def test_encoding_what_stays(kernel: ModuleType, rows, codec: int, data: st.DataObject) -> None:
    old = new_records(rows)
    block, payloads, records = decoded(kernel, encode_batch(old, NewBatch(codec)))
    kept = data.draw(st.lists(st.sampled_from((0, 1, 2, 3, 4, 6)), min_size=len(old), max_size=len(old)))
    staying = [record for record, fate in zip(old, kept, strict=True) if fate & 1]
    base = data.draw(st.one_of(st.none(), st.integers(0, 1 << 45)))
    arguments = block, records, 0, len(old), bytearray(kept), payloads[0], 90, base
    if not staying:
        with pytest.raises(ValueError, match="no record stays"):
            kernel.encode_kept(*arguments)
        return
    encoded, base_timestamp, largest = kernel.encode_kept(*arguments)
    assert base_timestamp == (staying[0].timestamp if base is None else base)
    assert largest == max(record.timestamp for record in staying)
    assert encoded[HEADER_SIZE:] == b"".join(encode_record(record, 90, base_timestamp) for record in staying)
    assert not any(encoded[:HEADER_SIZE])


@only_native
@pytest.mark.parametrize(
    ("column", "value"),
    [("key_position", -1), ("key_position", 1 << 40), ("key_length", 1 << 40), ("row", 1), ("row", -1)],
)
def test_the_compiled_map_reads_nothing_outside(column: str, value: int) -> None:
    block, payloads, records = decoded(NATIVE, encode_batch([NewRecord(1, 1, b"key", b"value")]))
    getattr(records, column)[0] = value
    found = NATIVE.OffsetMap(240, 5)
    with pytest.raises(ValueError, match=r"of another batch|not inside"):
        found.take(block, records, 0, payloads, b"\1", 0)
    with pytest.raises(ValueError, match=r"of another batch|not inside"):
        found.sift(block, records, 0, payloads, 5, 0, True)


@only_native
@pytest.mark.parametrize(
    ("column", "value"),
    [("key_length", 1 << 40), ("value_position", -5), ("value_length", 99), ("headers_position", 1 << 40),
     ("headers_position", -1), ("headers_count", 50), ("row", 3)],
)  # fmt: skip
def test_the_compiled_encoder_reads_nothing_outside(column: str, value: int) -> None:
    block, payloads, records = decoded(NATIVE, encode_batch([NewRecord(1, 1, b"key", b"value", ((b"h", b"1"),))]))
    getattr(records, column)[0] = value
    with pytest.raises(ValueError, match=r"not inside|rows outside|not held"):
        NATIVE.encode_kept(block, records, 0, 1, b"\1", payloads[0], 0, None)


@only_native
def test_both_mean_the_same_by_a_number() -> None:
    names = {name: value for name, value in vars(fates).items() if name.isupper() and name != "DISCARDED"}
    assert names == NATIVE.FATE_NUMBERS
