"""Decoding records: what Kafka wrote, every fault by name, and going on where a full block ended."""

from __future__ import annotations

from types import ModuleType

import pytest

from kdump.blocks import RecordBlock
from kdump.formats import faults
from kdump.formats.batch import DELETE_HORIZON, HEADER_SIZE, LOG_APPEND_TIME
from kdump.formats.codecs import GZIP, LZ4
from kdump.formats.encode import NewBatch, NewRecord, encode_batch, encode_message, encode_wrapper
from kdump.storage.payloads import inflate
from tests.kernels.faulty import GOOD, MANY, UNPRINTABLE, UNREADABLE, Faulty
from tests.kernels.golden import GOLDEN, KV, PACKED, PAYLOAD, Golden
from tests.kernels.reading import NATIVE, only_native, read, text_of, walked
from tests.kernels.seeds import MAX_OFFSET, Seed, framed, records, seeds, wrapped

ODD_SEEDS = ("nested", "offset too low")


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda golden: golden.name)
def test_records_of_golden_entries(kernel: ModuleType, golden: Golden) -> None:
    content = read(kernel, golden.data)
    assert content.records == golden.records
    assert content.fault is None
    assert all(content.valid)


@pytest.mark.parametrize("codec", PACKED)
def test_golden_payloads_of_every_codec(kernel: ModuleType, codec: int) -> None:
    data = bytearray(framed(PAYLOAD, 1, codec))
    data[HEADER_SIZE:] = bytes.fromhex(PACKED[codec])
    data[8:12] = (len(data) - 12).to_bytes(4, "big")
    assert read(kernel, bytes(data)).records == [KV]


@pytest.mark.parametrize("seed", seeds(), ids=lambda seed: seed.name)
def test_small_blocks_give_the_same_records(kernel: ModuleType, seed: Seed) -> None:
    whole = read(kernel, seed.data, rows=64, capacity=64)
    assert (whole.fault is None) == (seed.name not in ODD_SEEDS)
    for rows, capacity in ((64, 1), (64, 2), (1, 3), (2, 7), (3, 19), (3, 20)):
        assert read(kernel, seed.data, rows, capacity) == whole


# --- faults


@pytest.mark.parametrize("faulty", UNREADABLE, ids=lambda faulty: faulty.name)
def test_decoding_and_checking_find_every_fault(kernel: ModuleType, faulty: Faulty) -> None:
    for capacity in (16, 1):
        content = read(kernel, faulty.data, capacity=capacity)
        assert content.fault == faulty.fault
        assert len(content.records) == faulty.before
        assert text_of(content.fault)
    block = walked(kernel, faulty.data)
    inflated = inflate(block, 0, 1)
    assert (inflated.fault or kernel.check(block, 0, inflated.payloads[0])) == faulty.fault


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda golden: golden.name)
def test_check_finds_nothing_in_sound_entries(kernel: ModuleType, golden: Golden) -> None:
    block = walked(kernel, golden.data)
    assert kernel.check(block, 0, inflate(block, 0).payloads[0]) is None


def test_no_fault_is_without_a_case() -> None:
    met = {faulty.fault[0] for faulty in UNREADABLE + UNPRINTABLE}
    numbers = {name: value for name, value in vars(faults).items() if name.isupper() and isinstance(value, int)}
    ends = {name for name, value in numbers.items() if value < faults.UNKNOWN_CODEC}  # tested in test_walk
    not_the_kernels = {"CONTROL_SCHEMA"}
    assert {name for name, value in numbers.items() if value not in met} == ends | not_the_kernels


def test_decoding_stops_at_a_damaged_batch_and_can_go_on_behind_it(kernel: ModuleType) -> None:
    data = encode_batch(records(2)) + framed(GOOD + b"\x80", 2) + encode_batch(records(3, 10))
    block = walked(kernel, data)
    decoded = RecordBlock(16)
    payloads = inflate(block, 0).payloads
    assert not kernel.decode(block, decoded, 0, 3, payloads)
    assert (decoded.length, decoded.fault, decoded.next_row) == (3, (faults.PREMATURE_END, 0, 0), 1)
    assert list(decoded.row[:3]) == [0, 0, 1]
    decoded.seek(2)
    assert not kernel.decode(block, decoded, 0, 3, payloads)
    assert (decoded.length, decoded.fault, decoded.next_row) == (3, None, 3)
    assert list(decoded.offset[:3]) == [10, 11, 12]


def test_payloads_start_at_the_first_row(kernel: ModuleType) -> None:
    packed = [encode_batch(records(2, offset), NewBatch(attributes=LZ4)) for offset in (0, 10, 20)]
    block = walked(kernel, b"".join(packed))
    inflated = inflate(block, 1)
    decoded = RecordBlock(16)
    decoded.seek(1)
    assert not kernel.decode(block, decoded, 1, 3, inflated.payloads)
    assert list(decoded.offset[: decoded.length]) == [10, 11, 20, 21]
    assert list(decoded.row[: decoded.length]) == [1, 1, 2, 2]


@pytest.mark.parametrize("data", [encode_batch(records(2), NewBatch(attributes=GZIP)), wrapped(b"", GZIP)])
def test_a_compressed_batch_without_its_payload_has_no_bytes(kernel: ModuleType, data: bytes) -> None:
    block = walked(kernel, data)
    fault = kernel.check(block, 0, None)
    assert fault is not None
    assert fault[0] in (faults.PREMATURE_END, faults.WRAPPER_EMPTY)
    assert kernel.check(block, 0, b"") == fault


def test_counts_that_lie_cost_nothing(kernel: ModuleType) -> None:
    """They fail at the first record that is not there; nothing is allocated and nothing counted out."""
    for codec in (0, LZ4):
        content = read(kernel, framed(GOOD * 3, MANY, codec))
        assert (len(content.records), content.fault) == (3, (faults.PREMATURE_END, 0, 0))


def test_records_of_a_batch_that_says_it_has_none_are_not_looked_at(kernel: ModuleType) -> None:
    for payload in (GOOD, b"\x80"):
        content = read(kernel, framed(payload, 0))
        assert (content.records, content.fault) == ([], None)


def test_damage_behind_the_records_of_a_batch_is_met_with_the_last_one(kernel: ModuleType) -> None:
    content = read(kernel, framed(GOOD * 3, 2))
    assert (len(content.records), content.fault) == (1, (faults.RECORDS_REMAIN, 0, 0))


@only_native
def test_native_refuses_what_would_lead_outside() -> None:
    assert NATIVE is not None
    block = walked(NATIVE, encode_batch(records(1)) * 2)
    decoded = RecordBlock(4)
    for first, stop in ((-1, 1), (1, 0), (0, 17)):
        with pytest.raises(ValueError, match="rows"):
            NATIVE.decode(block, decoded, first, stop, [None] * 20)
    decoded.next_row = -1
    with pytest.raises(ValueError, match="cursor"):
        NATIVE.decode(block, decoded, 0, 1, [None])
    block.available -= 1
    decoded.seek(0)
    with pytest.raises(ValueError, match="held"):
        NATIVE.decode(block, decoded, 0, 2, [None, None])


# --- values


def test_timestamps(kernel: ModuleType) -> None:
    own = [record._replace(headers=()) for record in records(3)]
    times = [record.timestamp for record in own]

    def read_times(**header: int) -> list[int]:
        return [record.timestamp for record in read(kernel, encode_batch(own, NewBatch(**header))).records]

    assert read_times() == times
    assert read_times(base_timestamp=times[2] + 5) == times
    assert read_times(attributes=DELETE_HORIZON, base_timestamp=times[0] + 86_400_000) == times
    assert read_times(attributes=LOG_APPEND_TIME, max_timestamp=77) == [77, 77, 77]
    assert read_times(base_timestamp=-1) == times


def test_sequences_wrap_behind_the_largest(kernel: ModuleType) -> None:
    top = (1 << 31) - 1
    data = encode_batch(records(3, 100), NewBatch(producer_id=1, producer_epoch=0, base_sequence=top - 1))
    assert read(kernel, data).sequences == [top - 1, top, 0]
    compacted = encode_batch(records(2, 100, 5), NewBatch(producer_id=1, producer_epoch=0, base_sequence=top - 1))
    assert read(kernel, compacted).sequences == [top - 1, 3]
    assert read(kernel, encode_batch(records(2))).sequences == [-1, -1]


def test_offsets_and_timestamps_wrap_as_in_java(kernel: ModuleType) -> None:
    record = NewRecord(MAX_OFFSET, -(1 << 63), b"k", b"v")
    assert read(kernel, encode_batch([record], NewBatch(base_timestamp=MAX_OFFSET))).records == [record]
    data = bytearray(encode_batch([NewRecord(1, 0, None, None)], NewBatch(base_offset=0, base_timestamp=0)))
    data[:8] = MAX_OFFSET.to_bytes(8, "big")
    assert read(kernel, bytes(data)).records[0].offset == -(1 << 63)


@pytest.mark.parametrize("codec", [GZIP, LZ4])
def test_wrapper_offsets(kernel: ModuleType, codec: int) -> None:
    gaps = [NewRecord(offset, 1000, None, b"v") for offset in (40, 43, 47)]
    for magic in (0, 1):
        expected = [record._replace(timestamp=1000 if magic else -1) for record in gaps]
        assert read(kernel, encode_wrapper(gaps, magic, codec)).records == expected


def offsets(kernel: ModuleType, inner: list[int], wrapper: int, magic: int = 1) -> list[int]:
    """The absolute offsets of a wrapper's messages."""
    payload = b"".join(encode_message(NewRecord(offset, 1000, None, b"v"), magic) for offset in inner)
    return [record.offset for record in read(kernel, wrapped(payload, LZ4, magic, wrapper)).records]


def test_offsets_inside_a_v1_wrapper_count_back_from_its_own(kernel: ModuleType) -> None:
    assert offsets(kernel, [0, 1, 2], 9) == [7, 8, 9]
    assert offsets(kernel, [0, 3, 7], 50) == [43, 46, 50]
    assert offsets(kernel, [5, 6], 6) == [5, 6]  # written as absolute
    assert offsets(kernel, [0, 1, 2], 0) == [0, 1, 2]  # some librdkafka releases
    assert offsets(kernel, [5, -1], MAX_OFFSET) == [-(1 << 63) + 5, MAX_OFFSET]  # wraps, as in Java


def test_offsets_inside_a_v0_wrapper_are_absolute(kernel: ModuleType) -> None:
    assert offsets(kernel, [40, 43], 9, magic=0) == [40, 43]


def test_the_wrappers_version_decides_on_the_offsets_the_messages_on_the_timestamp(kernel: ModuleType) -> None:
    old = encode_message(NewRecord(0, 5, None, b"v"), 0)
    new = encode_message(NewRecord(1, 6, None, b"v"), 1)
    v1 = read(kernel, wrapped(old + new, LZ4, 1, 10)).records
    assert [(record.offset, record.timestamp) for record in v1] == [(9, -1), (10, 6)]
    v0 = read(kernel, wrapped(old + new, LZ4, 0, 10)).records
    assert [(record.offset, record.timestamp) for record in v0] == [(0, -1), (1, 6)]


def test_append_time_of_a_wrapper_is_that_of_its_v1_messages(kernel: ModuleType) -> None:
    inner = [NewRecord(offset, 5, None, b"v") for offset in (3, 4)]
    assert [record.timestamp for record in read(kernel, encode_wrapper(inner, 1, GZIP, 99)).records] == [99, 99]
    mixed = encode_message(NewRecord(0, 5, None, b"v"), 0) + encode_message(NewRecord(1, 6, None, b"v"), 1)
    data = bytearray(wrapped(mixed, LZ4, 1, 10))
    data[17] |= LOG_APPEND_TIME
    data[18:26] = (99).to_bytes(8, "big")
    assert [record.timestamp for record in read(kernel, bytes(data)).records] == [-1, 99]


def test_a_message_cut_short_ends_a_wrapper_in_silence(kernel: ModuleType) -> None:
    message = encode_message(NewRecord(4, 5, None, b"v"), 1)
    for tail in (message[:-1], message[:12], message[:11], b"\0"):
        content = read(kernel, wrapped(message + tail, LZ4, 1, 4))
        assert (len(content.records), content.fault) == (1, None)


def test_checksums_of_messages(kernel: ModuleType) -> None:
    message = encode_message(NewRecord(4, 5, b"k", b"v"), 1)
    bad = message[:-1] + b"w"
    crc = int.from_bytes(message[12:16], "big")
    for data in (message + bad, wrapped(message + bad, LZ4, 1, 9)):
        content = read(kernel, data)
        assert content.crcs == [crc, crc]
        assert content.valid == [1, 0]
        assert [record.value for record in content.records] == [b"v", b"w"]


def test_lengths_below_zero_are_null(kernel: ModuleType) -> None:
    data = bytearray(encode_message(NewRecord(4, 5, None, b"v"), 1))
    data[26:30] = (-7).to_bytes(4, "big", signed=True)
    block = walked(kernel, bytes(data))
    decoded = RecordBlock(1)
    kernel.decode(block, decoded, 0, 1, [None])
    assert (decoded.key_length[0], decoded.value_length[0]) == (-1, 1)
