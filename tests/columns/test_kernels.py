"""Gathering records into columns, and Kafka's hash: both sets of kernels, on everything that can be there."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as kafkas_murmur2

from kdump.blocks import RecordBlock
from kdump.formats.batch import CONTROL
from kdump.formats.encode import NewBatch, NewRecord, encode_batch
from kdump.kernels.portable import kernels as portable
from kdump.storage.payloads import inflate
from tests.kernels.reading import KERNELS, NATIVE, only_native, walked
from tests.kernels.seeds import Seed, seeds

NUMBERS = ("offset", "timestamp", "sequence", "batch.producer_id", "batch.attributes")


@pytest.fixture(params=KERNELS, ids=lambda module: module.__name__.rpartition(".")[2])
def kernel(request: pytest.FixtureRequest) -> ModuleType:
    module: ModuleType = request.param
    return module


class Decoded:
    """The records of a log's first entries, and how they were decoded."""

    def __init__(self, data: bytes) -> None:
        self.block = walked(portable, data)
        inflated = inflate(self.block, 0)
        self.payloads = inflated.payloads
        self.records = RecordBlock()
        self.records.seek(0)
        good = inflated.stop - bool(inflated.error or inflated.fault)
        portable.decode(self.block, self.records, 0, good, self.payloads)

    def everything(self) -> range:
        return range(self.records.length)


def gathered(
    kernel: ModuleType, decoded: Decoded, picks: Sequence[int], *, rows: int = 1000, size: int = 1 << 20, **how: Any
) -> list[Any]:
    """What columns of at most so many rows and bytes give, one after the other."""
    how = {"key": True, "value": True, "headers": True, "control": True, **how}
    columns = kernel.RecordColumns(NUMBERS, how.pop("key"), how.pop("value"), how.pop("headers"),
                                   most_rows=rows, most_bytes=size, **how)  # fmt: skip
    found = []
    done = columns.add(decoded.block, decoded.records, 0, decoded.payloads, picks)
    while done < len(picks):
        assert columns.length
        found.append(columns.take())
        done = columns.add(decoded.block, decoded.records, 0, decoded.payloads, picks, done)
    return [*found, columns.take()]


def strings(buffers: tuple[int, bytearray, bytearray, bytearray]) -> list[bytes | None]:
    """The byte strings of a column, read as the format says."""
    nulls, validity, offsets, data = buffers
    ends = array("i", bytes(offsets))
    found = [
        bytes(data[ends[at] : ends[at + 1]]) if validity[at // 8] >> at % 8 & 1 else None for at in range(len(ends) - 1)
    ]
    assert found.count(None) == nulls
    return found


@only_native
@pytest.mark.parametrize("seed", seeds(), ids=lambda seed: seed.name)
def test_both_kernels_gather_the_same(seed: Seed) -> None:
    assert NATIVE
    decoded = Decoded(seed.data)
    every = decoded.everything()
    for rows, size in ((1000, 1 << 20), (1, 1 << 20), (3, 7), (2, 0)):
        for picks in (every, every[1:], list(every[::2])):
            for how in ({}, {"control": False}, {"headers": False}, {"key": False, "value": False}):
                expected = gathered(portable, decoded, picks, rows=rows, size=size, **how)
                assert gathered(NATIVE, decoded, picks, rows=rows, size=size, **how) == expected, (rows, size, how)


def test_columns_hold_what_the_records_are(kernel: ModuleType) -> None:
    records = [
        NewRecord(5, 1000, None, b"one", ((b"h", b"x"), (b"h", None))),
        NewRecord(6, 1001, b"", None),
        NewRecord(9, 999, b"key", b""),
    ]
    decoded = Decoded(encode_batch(records, NewBatch(producer_id=7, producer_epoch=1, base_sequence=3)))
    [(length, numbers, key, value, headers)] = gathered(kernel, decoded, decoded.everything())
    assert length == 3
    assert [array("q", bytes(column)).tolist() for column in numbers] == [
        [5, 6, 9], [1000, 1001, 999], [3, 4, 7], [7, 7, 7], [0, 0, 0]
    ]  # fmt: skip
    assert strings(key) == [None, b"", b"key"]
    assert strings(value) == [b"one", None, b""]
    nulls, validity, offsets, names, contents = headers
    assert (nulls, bytes(validity), array("i", bytes(offsets)).tolist()) == (2, b"\x01", [0, 2, 2, 2])
    assert (strings(names), strings(contents)) == ([b"h", b"h"], [b"x", None])


def test_a_record_larger_than_the_columns_is_alone_in_them(kernel: ModuleType) -> None:
    contents = (b"a", b"b" * 50, b"c", b"")
    decoded = Decoded(encode_batch([NewRecord(at, 0, None, value) for at, value in enumerate(contents)]))
    found = gathered(kernel, decoded, decoded.everything(), size=10)
    assert [strings(value) for _, _, _, value, _ in found] == [[b"a"], [b"b" * 50], [b"c", b""]]


def test_markers_are_left_out_unless_asked_for(kernel: ModuleType) -> None:
    marker = encode_batch([NewRecord(1, 0, b"\0\0\0\1", b"")], NewBatch(attributes=CONTROL, producer_id=1))
    before, after = (encode_batch([NewRecord(at, 0, None, b"x")]) for at in (0, 2))
    decoded = Decoded(before + marker + after)
    for control, offsets in ((True, [0, 1, 2]), (False, [0, 2])):
        [(_, numbers, *_)] = gathered(kernel, decoded, decoded.everything(), control=control)
        assert array("q", bytes(numbers[0])).tolist() == offsets


def test_records_of_other_batches_are_refused(kernel: ModuleType) -> None:
    decoded = Decoded(encode_batch([NewRecord(0, 0, b"key", b"value")]))
    columns = kernel.RecordColumns((), True, True, True, control=True, most_rows=10, most_bytes=100)
    wrong_ones = (("row", 1), ("row", -1), ("key_position", -1), ("value_position", 1 << 40), ("key_length", 500))
    for name, wrong in wrong_ones:
        column = getattr(decoded.records, name)
        before, column[0] = column[0], wrong
        with pytest.raises(ValueError, match="not those of these batches"):
            columns.add(decoded.block, decoded.records, 0, decoded.payloads, range(1))
        column[0] = before
    with pytest.raises(ValueError, match="not those of these batches"):
        columns.add(decoded.block, decoded.records, 0, decoded.payloads, [1])
    with pytest.raises(ValueError, match="fewer picks"):
        columns.add(decoded.block, decoded.records, 0, decoded.payloads, [0], 2)


@pytest.mark.parametrize(("rows", "size"), [(0, 1), (1, -1), (1, 1 << 31)])
def test_columns_have_room_for_a_row(kernel: ModuleType, rows: int, size: int) -> None:
    with pytest.raises(ValueError, match="at least one row"):
        kernel.RecordColumns((), True, True, True, control=True, most_rows=rows, most_bytes=size)


# --- Kafka's hash


@given(st.lists(st.binary(max_size=40), max_size=20), st.integers(0, 3))
def test_hashes_are_kafkas(keys: list[bytes], skipped: int) -> None:
    ends = array("i", [skipped])
    for key in keys:
        ends.append(ends[-1] + len(key))
    for kernel in KERNELS:
        found = kernel.murmur2(b"xxx"[:skipped] + b"".join(keys), ends)
        assert array("I", bytes(found)).tolist() == [kafkas_murmur2(key) & 0xFFFFFFFF for key in keys]


@pytest.mark.parametrize("ends", [[], [-1, 2], [2, 1], [0, 4]])
def test_offsets_of_keys_have_to_fit(kernel: ModuleType, ends: list[int]) -> None:
    with pytest.raises(ValueError, match="offsets are not those"):
        kernel.murmur2(b"abc", array("i", ends))
