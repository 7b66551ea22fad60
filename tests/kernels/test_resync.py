"""Finding the next entry behind damage: every sound entry is found, and nothing that cannot be one."""

from __future__ import annotations

from random import Random
from types import ModuleType

import pytest

from kdump.formats.encode import NewBatch, NewRecord, encode_batch, encode_message
from tests.kernels.reading import KERNELS
from tests.kernels.seeds import MAX_OFFSET, SIZE, Seed, records, seeds

ANY = (-(1 << 63), MAX_OFFSET)
V2 = encode_batch(records(2, 7), NewBatch(producer_id=9, producer_epoch=0, base_sequence=3))
V1 = encode_message(NewRecord(7, 1000, b"key", b"value " * 6), 1)
V0 = encode_message(NewRecord(7, -1, b"key", b"value " * 6), 0)
ENTRIES = pytest.mark.parametrize("entry", [V0, V1, V2], ids=["v0", "v1", "v2"])


def found(
    kernel: ModuleType, data: bytes, start: int = 0, left: int | None = None, bounds: tuple[int, int] = ANY
) -> int:
    index: int = kernel.find_batch(data, start, len(data), len(data) if left is None else left, *bounds)
    return index


def put(data: bytes, at: int, new: bytes) -> bytes:
    return data[:at] + new + data[at + len(new) :]


@ENTRIES
@pytest.mark.parametrize("garbage", [b"", b"\xff" * 100, b"\x80" * 61, b"only text " * 9], ids=list("-f8t"))
def test_finds_an_entry_behind_garbage(kernel: ModuleType, entry: bytes, garbage: bytes) -> None:
    assert found(kernel, garbage + entry + V2) == len(garbage)
    assert found(kernel, garbage + entry + V2, start=len(garbage)) == len(garbage)
    assert found(kernel, garbage + entry + V2, start=len(garbage) + 1, bounds=(7, 8)) == len(garbage + entry)


@pytest.mark.parametrize("seed", seeds(), ids=lambda seed: seed.name)
def test_finds_every_kind_of_entry(kernel: ModuleType, seed: Seed) -> None:
    known = seed.data[16] <= 2
    data = seed.data + bytes(61)  # a message may be shorter than what is looked at
    assert (kernel.find_batch(data, 0, len(data), len(data), *ANY) == 0) == known


@ENTRIES
def test_does_not_find_an_entry_that_is_not_wholly_there(kernel: ModuleType, entry: bytes) -> None:
    assert found(kernel, entry) == 0
    assert found(kernel, entry, left=len(entry) - 1) == -1
    assert found(kernel, entry[:60]) == -1
    assert found(kernel, entry[:61], left=len(entry)) == 0  # the rest is further on in the file


@ENTRIES
def test_offsets_bound_what_is_found(kernel: ModuleType, entry: bytes) -> None:
    assert found(kernel, entry, bounds=(0, 6)) == -1
    assert found(kernel, entry, bounds=(8, 100)) == -1
    assert found(kernel, entry, bounds=(7, 8)) == 0


def test_the_last_offset_is_bounded_too(kernel: ModuleType) -> None:
    assert found(kernel, V2, bounds=(7, 7)) == -1


@ENTRIES
@pytest.mark.parametrize("size", [-1, 0, 13, (1 << 31) - 1, (1 << 31) - 12, (1 << 31) - 13])
def test_sizes_that_cannot_be(kernel: ModuleType, entry: bytes, size: int) -> None:
    assert found(kernel, put(entry, 8, SIZE.pack(size))) == -1


@pytest.mark.parametrize(
    ("at", "new"),
    [
        (8, SIZE.pack(48)),  # shorter than its header
        (16, b"\3"),  # magic
        (21, b"\1"),  # unknown attributes
        (22, b"\x80"),
        (22, b"\5"),  # codec
        (23, SIZE.pack(-1)),  # last offset delta
        (43, (-2).to_bytes(8, "big", signed=True)),  # producer
        (51, b"\xff\xfe"),
        (53, SIZE.pack(-2)),
        (57, SIZE.pack(-1)),  # count
        (57, SIZE.pack(3)),  # more than there are offsets
        (23, SIZE.pack(1000) + V2[27:57] + SIZE.pack(1000)),  # more than there are bytes for
    ],
)
def test_headers_that_cannot_be(kernel: ModuleType, at: int, new: bytes) -> None:
    assert found(kernel, V2) == 0
    assert found(kernel, put(V2, at, new)) == -1


def test_a_compressed_batch_may_hold_more_records_than_it_has_bytes(kernel: ModuleType) -> None:
    many = [NewRecord(offset, 0, None, b"") for offset in range(1000)]
    data = encode_batch(many, NewBatch(attributes=4))
    assert len(data) < 7 * 1000
    assert found(kernel, data) == 0


@pytest.mark.parametrize(
    ("entry", "at", "new"),
    [
        (V1, 17, b"\x10"),  # unknown attributes
        (V1, 17, b"\4"),  # zstd
        (V0, 17, b"\x08"),  # v0 has no timestamp type
        (V1, 26, SIZE.pack(-2)),  # key length
        (V1, 26, SIZE.pack(1000)),
        (V1, 26, SIZE.pack((1 << 31) - 1)),
        (V0, 18, SIZE.pack(4)),  # leads to another value length
        (V1, 33, SIZE.pack(35)),  # value length
        (V1, 8, SIZE.pack(21)),  # shorter than its header
    ],
)
def test_messages_that_cannot_be(kernel: ModuleType, entry: bytes, at: int, new: bytes) -> None:
    assert found(kernel, entry) == 0
    assert found(kernel, put(entry, at, new)) == -1


def test_a_value_length_behind_the_data_is_not_looked_at(kernel: ModuleType) -> None:
    data = encode_message(NewRecord(7, 1000, b"k" * 100, b"value"), 1)
    assert found(kernel, data[:100], left=len(data)) == 0


def test_a_null_value_has_no_bytes(kernel: ModuleType) -> None:
    data = encode_message(NewRecord(7, 1000, b"k" * 60, None), 1)
    assert found(kernel, data) == 0
    assert found(kernel, put(data, 8, SIZE.pack(len(data) - 12 + 1)) + b"x") == -1


@pytest.mark.parametrize("length", [0, 1, 60])
def test_too_little_data_for_a_header(kernel: ModuleType, length: int) -> None:
    assert found(kernel, bytes(length)) == -1
    assert kernel.find_batch(V2, len(V2) - length, len(V2), 1000, *ANY) == -1


def test_the_kernels_agree_on_noise() -> None:
    """Bytes among which headers are all but likely: few values, and those that headers have."""
    rng = Random(5)
    for _ in range(300):
        data = bytes(rng.choices((0, 0, 0, 0, 1, 2, 14, 49, 0xFF), k=200))
        results = {kernel.find_batch(data, 0, len(data), 300, 0, 1 << 62) for kernel in KERNELS}
        assert len(results) == 1


@ENTRIES
def test_a_frame_is_any_size_that_fits_before_a_known_magic(kernel: ModuleType, entry: bytes) -> None:
    unlike = bytes(8) + entry[8:12] + b"\xff" * 4 + entry[16:17] + b"\xff" * (len(entry) - 17)
    for garbage in (b"", b"\xff" * 100, bytes(40)):
        data = garbage + unlike
        assert kernel.find_frame(data, 0, len(data), len(data)) == len(garbage)
        assert kernel.find_frame(data, 0, len(data), len(data) - 1) == -1
        assert kernel.find_frame(data, len(garbage) + 1, len(data), len(data)) == -1
        assert kernel.find_frame(data, 0, len(garbage) + 16, 1000) == -1
    for size, magic in ((13, 2), (-1, 2), (14, 3)):
        data = bytes(8) + size.to_bytes(4, "big", signed=True) + bytes(4) + bytes((magic,)) + b"\xff" * 60
        assert kernel.find_frame(data, 0, len(data), len(data)) == -1
