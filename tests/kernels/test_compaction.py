"""Keys and their offsets, and records encoded anew: the same from each set of kernels, on damaged input too."""

from __future__ import annotations

import hashlib
from array import array
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.blocks import BatchBlock, RecordBlock
from kdump.formats.batch import CONTROL, DELETE_HORIZON, HEADER_SIZE, LOG_APPEND_TIME, TRANSACTIONAL
from kdump.formats.encode import NewBatch, NewRecord, encode_batch, encode_message, encode_record
from kdump.kernels import batch_verdicts, verdicts
from kdump.kernels.portable import compaction
from kdump.kernels.portable import kernels as portable
from kdump.storage.payloads import inflate
from tests.kernels.reading import KERNELS, NATIVE, only_native, walked

KERNEL = st.sampled_from(KERNELS)
KEYS = st.one_of(st.none(), st.binary(max_size=3), st.integers(50, 130).map(bytes))
VALUES = st.one_of(st.none(), st.binary(max_size=5), st.integers(60, 70).map(bytes))
HEADERS = st.lists(st.tuples(st.binary(max_size=70), VALUES), max_size=2).map(tuple)
RECORDS = st.lists(st.tuples(KEYS, VALUES, st.integers(-5, 1 << 40), HEADERS), min_size=1, max_size=12)
CODEC = st.sampled_from((0, 1))
Log = tuple[BatchBlock, list[bytes | None], RecordBlock]
"""As the kernels see it: block, payloads, records."""


def decoded(kernel: ModuleType, data: bytes) -> Log:
    """A log as the kernels see it: block, payloads, records."""
    block = walked(kernel, data)
    payloads = inflate(block, 0, block.length).payloads
    records = RecordBlock()
    records.seek(0)
    kernel.decode(block, records, 0, block.length, payloads)
    assert records.fault is None
    return block, payloads, records


def new_records(rows: list[Any]) -> list[NewRecord]:
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
    kernel: ModuleType, rows: list[Any], codec: int, start: int, limit: int, latest: int, horizon: int
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
    stop = block.length if at == records.length else records.row[at]
    for legacy in (True, False):
        kept = found.classify(block, records, 0, payloads, latest, 2, legacy, 0, stop)
        assert kept == plain.classify(block, records, 0, payloads, latest, 2, legacy, 0, stop)
        assert kept == found.classify(block, records, 0, payloads, latest, 2, legacy, 0, 0)
        for number, verdict in enumerate(kept):
            is_tombstone = records.value_length[number] < 0
            if records.offset[number] > latest:
                assert verdict == (verdicts.RETAINED_TOMBSTONE if is_tombstone else verdicts.RETAINED)
            elif records.key_length[number] < 0:
                assert verdict == verdicts.KEYLESS
            elif verdict == verdicts.EXPIRED:
                assert is_tombstone
                assert not legacy if records.row[number] else 0 < horizon <= 2


@given(KERNEL, RECORDS, CODEC, st.data())
def test_encoding_what_stays(kernel: ModuleType, rows: list[Any], codec: int, data: st.DataObject) -> None:
    old = new_records(rows)
    block, payloads, records = decoded(kernel, encode_batch(old, NewBatch(codec)))
    kept = data.draw(st.lists(st.sampled_from((0, 1, 2, 3, 4, 6)), min_size=len(old), max_size=len(old)))
    staying = [record for record, verdict in zip(old, kept, strict=True) if verdict & 1]
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


@given(KERNEL, st.lists(st.tuples(st.integers(0, 3), st.integers(0, 40)), min_size=1, max_size=30), st.integers(1, 4))
def test_what_is_remembered_of_a_key_is_what_looking_it_up_would_tell(
    kernel: ModuleType, rows: list[tuple[int, int]], limit: int
) -> None:
    """Offsets may rise, repeat and fall; of those that were not taken nothing is remembered."""
    data = b"".join(encode_batch([NewRecord(offset, 1, b"%d" % key, b"v")]) for key, offset in rows)
    block, payloads, records = walked_all(kernel, data)
    found = kernel.OffsetMap(24 * 50, limit)
    taken = found.take(block, records, 0, payloads, bytes(row % 5 != 3 for row in range(len(rows))), 5)
    for row in (0, taken // 2):
        kept = found.classify(block, records, 0, payloads, 1 << 40, 0, False, row, taken)
        for at, (key, offset) in enumerate(rows):
            assert kept[at] == (verdicts.SUPERSEDED if offset < found.get(b"%d" % key) else verdicts.RETAINED)


def walked_all(kernel: ModuleType, data: bytes) -> Log:
    """As `decoded`, with room for more batches."""
    block = walked(kernel, data, rows=64)
    payloads = inflate(block, 0, block.length).payloads
    records = RecordBlock()
    kernel.decode(block, records, 0, block.length, payloads)
    return block, payloads, records


def test_the_offsets_of_more_keys_than_are_looked_up_at_once(kernel: ModuleType) -> None:
    keys = [b"%d" % (number * 7919 % 500) * (1 + number % 9) for number in range(1300)]
    found = kernel.OffsetMap(24 * 5000, 4000)
    for start in range(0, len(keys), 650):
        batch = [NewRecord(at, 1, keys[at], b"") for at in range(start, start + 650)]
        block, payloads, records = walked_all(kernel, encode_batch(batch))
        assert found.take(block, records, 0, payloads, b"\1", 0) == 650
        latest = {key: at for at, key in enumerate(keys[: start + 650])}
        is_latest = [latest[keys[at]] == at for at in range(start, start + 650)]
        expected = [verdicts.RETAINED if stays else verdicts.SUPERSEDED for stays in is_latest]
        for row in (0, 1):
            assert list(found.classify(block, records, 0, payloads, 1 << 40, 0, True, row, 1)) == expected
    assert found.size == len(set(keys))


BATCHES = st.tuples(
    RECORDS,
    st.sampled_from((0, 1, LOG_APPEND_TIME, TRANSACTIONAL, CONTROL, DELETE_HORIZON, DELETE_HORIZON | 1)),
    st.integers(0, 2),
)


@given(KERNEL, st.lists(BATCHES, min_size=1, max_size=6), st.data())
def test_rewriting_batches(kernel: ModuleType, batches: list[Any], data: st.DataObject) -> None:
    log = b"".join(
        encode_message(NewRecord(100 * number, 7, b"k", b"v"), 1)
        if number and form == 0
        else encode_batch(
            [record._replace(offset=record.offset + 100 * number) for record in new_records(rows)],
            NewBatch(attributes, 5, 6, 7, 8, 100 * number + 90, 100 * number + 190, 1000, 2000),
        )
        for number, (rows, attributes, form) in enumerate(batches)
    )
    block, _, records = walked_all(kernel, log)
    verdict = st.sampled_from((verdicts.SUPERSEDED, verdicts.RETAINED, verdicts.RETAINED, verdicts.KEYLESS))
    what = bytearray(
        data.draw(verdict)
        if records.value_length[at] >= 0
        else data.draw(st.sampled_from((verdicts.EXPIRED, verdicts.RETAINED_TOMBSTONE, verdicts.RETAINED_TOMBSTONE)))
        for at in range(records.length)
    )
    rewritten = kernel.rewrite(block, records, 0, block.length, what, 5000)
    assert rewritten == portable.rewrite(block, records, 0, block.length, what, 5000)
    new, kinds, ends, offsets, times, first_horizon = rewritten
    horizons = []
    start = at = 0
    for row, (kind, end) in enumerate(zip(kinds, ends, strict=True)):
        mine = [number for number in range(records.length) if records.row[number] == row]
        staying = [number for number in mine if what[number] & 1]
        has_tombstones = any(what[number] == verdicts.RETAINED_TOMBSTONE for number in staying)
        attributes = block.attributes[row]
        old = log[block.position[row] :][: block.size[row]]
        if kind == batch_verdicts.COPIED:
            assert (new[start:end], offsets[row], times[row]) == (old, block.last_offset[row], block.max_timestamp[row])
            assert staying == mine
            assert not has_tombstones or attributes & DELETE_HORIZON
        elif kind == batch_verdicts.REBUILT:
            again, _, left = walked_all(kernel, bytes(new[start:end]))
            assert again.valid[0]
            assert again.attributes[0] == attributes | (DELETE_HORIZON if has_tombstones else 0)
            assert again.count[0] == left.length == len(staying)
            for column in ("base_offset", "last_offset", "producer_id", "producer_epoch", "base_sequence"):
                assert getattr(again, column)[0] == getattr(block, column)[row]
            assert left.offset[: left.length] == array("q", [records.offset[number] for number in staying])
            assert left.timestamp[: left.length] == array("q", [records.timestamp[number] for number in staying])
            assert offsets[row] == records.offset[staying[-1]]
            assert times[row] == again.max_timestamp[0]
            if has_tombstones and not attributes & DELETE_HORIZON:
                assert again.base_timestamp[0] == 5000
        else:
            assert end == start
            assert (offsets[row], times[row]) == (-1, -1)
            legacy, control = block.magic[row] < 2, bool(attributes & CONTROL)
            assert (kind == batch_verdicts.OTHER) == bool(legacy or control or (staying and attributes & 1))
            assert kind == batch_verdicts.OTHER or not staying
        if has_tombstones and end > start:
            horizons.append(block.base_timestamp[row] if attributes & DELETE_HORIZON else 5000)
        start = end
        at += len(mine)
    assert first_horizon == min(horizons, default=None)
    assert len(new) == start


def test_rewriting_nothing_and_records_of_other_rows(kernel: ModuleType) -> None:
    block, _, records = decoded(kernel, encode_batch([NewRecord(1, 1, b"key", b"value")]))
    with pytest.raises(ValueError, match="not in order"):
        kernel.rewrite(block, records, 0, 0, b"\1", 5)
    records.length = 0
    empty = bytearray(), bytearray(), array("q"), array("q"), array("q"), None
    assert kernel.rewrite(block, records, 0, 0, b"", 5) == empty
    assert kernel.rewrite(block, records, 0, 1, b"", 5)[1] == bytes((batch_verdicts.GONE,))


@only_native
@pytest.mark.parametrize(
    ("column", "value"),
    [("key_position", -1), ("key_position", 1 << 40), ("key_length", 1 << 40), ("row", 1), ("row", -1)],
)
def test_the_compiled_map_reads_nothing_outside(column: str, value: int) -> None:
    assert NATIVE is not None
    block, payloads, records = decoded(NATIVE, encode_batch([NewRecord(1, 1, b"key", b"value")]))
    getattr(records, column)[0] = value
    found = NATIVE.OffsetMap(240, 5)
    with pytest.raises(ValueError, match=r"of another batch|not inside"):
        found.take(block, records, 0, payloads, b"\1", 0)
    with pytest.raises(ValueError, match=r"of another batch|not inside"):
        found.classify(block, records, 0, payloads, 5, 0, True, 0, 1)


@only_native
@pytest.mark.parametrize(
    ("column", "value"),
    [("key_length", 1 << 40), ("value_position", -5), ("value_length", 99), ("headers_position", 1 << 40),
     ("headers_position", -1), ("headers_count", 50), ("row", 3)],
)  # fmt: skip
def test_the_compiled_encoder_reads_nothing_outside(column: str, value: int) -> None:
    assert NATIVE is not None
    block, payloads, records = decoded(NATIVE, encode_batch([NewRecord(1, 1, b"key", b"value", ((b"h", b"1"),))]))
    getattr(records, column)[0] = value
    with pytest.raises(ValueError, match=r"not inside|rows outside|not held"):
        NATIVE.encode_kept(block, records, 0, 1, b"\1", payloads[0], 0, None)
    with pytest.raises(ValueError, match="not inside"):
        NATIVE.rewrite(block, records, 0, 1, bytes((verdicts.RETAINED_TOMBSTONE,)), 5)
    with pytest.raises(ValueError, match="have a verdict"):
        NATIVE.rewrite(block, records, 0, 1, b"", 5)
