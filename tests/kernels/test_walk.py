"""Walking over entries: what the columns hold, where a walk ends and why, and the checksums."""

from __future__ import annotations

import zlib
from types import ModuleType

import pytest
from crcmod.predefined import mkCrcFun
from hypothesis import given
from hypothesis import strategies as st

from kdump.blocks import BatchBlock
from kdump.formats.batch import CONTROL
from kdump.formats.encode import NewBatch, NewRecord, encode_batch, encode_message
from kdump.formats.faults import BLOCK_FULL, END, NEED_BYTES, PARTIAL, SHORT_HEADER, UNDERSIZED
from tests.kernels.golden import GOLDEN, Golden
from tests.kernels.reading import KERNELS, NATIVE, block_of, only_native, row_of, walked
from tests.kernels.seeds import SIZE, mended, records

V2 = encode_batch(records(1, 7))
V1 = encode_message(NewRecord(7, 1000, b"k", b"v"), 1)
V0 = encode_message(NewRecord(7, -1, None, None), 0)

SHORT = 26  # bytes of the smallest entry: 12 and the smallest size field, 14


def sized(size: int, magic: int) -> bytes:
    """An entry whose size field says `size`, with as many bytes as it asks for; only its frame is sound."""
    return (bytes(8) + SIZE.pack(size) + bytes(4) + bytes((magic,))).ljust(12 + size, b"\0")


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda golden: golden.name)
def test_columns_of_golden_entries(kernel: ModuleType, golden: Golden) -> None:
    block = walked(kernel, golden.data)
    assert (block.length, block.status, block.next_position) == (1, END, len(golden.data))
    row = row_of(block, 0)
    assert {name: row[name] for name in golden.row} == golden.row
    assert block.holds(0)


# --- where a walk ends


@pytest.mark.parametrize("left", range(18))
def test_seventeen_bytes_or_fewer_are_the_end(kernel: ModuleType, left: int) -> None:
    block = walked(kernel, V2 + bytes(left))
    assert (block.status, block.length, block.next_position) == (END, 1, len(V2))


def test_eighteen_bytes_are_looked_at(kernel: ModuleType) -> None:
    block = walked(kernel, V2 + bytes(18))
    assert (block.status, block.bad_size, block.next_position) == (UNDERSIZED, 0, len(V2))


@pytest.mark.parametrize("size", [13, 1, 0, -1, -(1 << 31)])
@pytest.mark.parametrize("magic", [0, 1, 2, 255])
def test_size_fields_below_fourteen(kernel: ModuleType, size: int, magic: int) -> None:
    entry = sized(0, magic)[:8] + SIZE.pack(size) + sized(60, magic)[12:]
    block = walked(kernel, V1 + entry)
    assert (block.status, block.bad_size, block.length, block.next_position) == (UNDERSIZED, size, 1, len(V1))


@pytest.mark.parametrize("magic", [0, 1, 254])
def test_fourteen_is_enough_whatever_the_version_of_the_message(kernel: ModuleType, magic: int) -> None:
    block = walked(kernel, sized(14, magic))
    assert (block.status, block.length, block.size[0], block.next_position) == (END, 1, SHORT, SHORT)


def test_an_entry_over_the_end_is_skipped_in_silence(kernel: ModuleType) -> None:
    block = walked(kernel, V2 + V2[:-1])
    assert (block.status, block.length, block.next_position) == (PARTIAL, 1, len(V2))


def test_the_largest_size_is_over_the_end(kernel: ModuleType) -> None:
    data = V2[:8] + SIZE.pack((1 << 31) - 1) + V2[12:]
    assert walked(kernel, data).status == PARTIAL


def test_the_end_need_not_be_the_files(kernel: ModuleType) -> None:
    data = V2 * 3
    for end, expected in ((len(V2), END), (len(V2) + 17, END), (len(V2) + 18, PARTIAL), (2 * len(V2) - 1, PARTIAL)):
        block = block_of(data)
        assert kernel.walk(block, 0, end, len(data)) == expected
        assert (block.length, block.next_position) == (1, len(V2))


@pytest.mark.parametrize(("magic", "stored"), [(255, -1), (128, -128), (0, 0), (1, 1)])
def test_magics_below_two_are_messages(kernel: ModuleType, magic: int, stored: int) -> None:
    data = bytearray(V1)
    data[16] = magic
    block = walked(kernel, mended(data))
    assert (block.magic[0], block.count[0], block.leader_epoch[0], block.valid[0]) == (stored, 1, -1, 1)


@pytest.mark.parametrize("magic", [2, 3, 127])
def test_magics_from_two_on_are_batches(kernel: ModuleType, magic: int) -> None:
    data = bytearray(V2)
    data[16] = magic
    block = walked(kernel, bytes(data))
    assert (block.magic[0], block.base_offset[0], block.leader_epoch[0], block.valid[0]) == (magic, 7, -1, 1)


@pytest.mark.parametrize("size", [14, 30, 48])
def test_a_header_larger_than_its_batch_runs_over_the_end_of_the_file(kernel: ModuleType, size: int) -> None:
    block = walked(kernel, V2 + sized(size, 2))
    assert (block.status, block.length, block.next_position) == (SHORT_HEADER, 1, len(V2))


def test_a_header_larger_than_its_batch_is_read_from_what_follows(kernel: ModuleType) -> None:
    data = sized(14, 2) + V2
    block = walked(kernel, data)
    assert (block.status, block.length) == (END, 2)
    assert (block.size[0], block.valid[0], block.position[1], block.valid[1]) == (SHORT, 0, SHORT, 1)
    assert block.count[0] == int.from_bytes(data[57:61], "big", signed=True)


def test_a_header_may_be_read_behind_the_end_of_the_walk(kernel: ModuleType) -> None:
    data = sized(14, 2) + bytes(35)
    assert len(data) == 61
    block = block_of(data)
    assert kernel.walk(block, 0, SHORT, 61) == END
    assert block.length == 1
    assert kernel.walk(block, 0, SHORT, 60) == SHORT_HEADER


# --- bytes that are not there yet


@pytest.mark.parametrize("entry", [V0, V1, V2], ids=["v0", "v1", "v2"])
def test_says_how_many_bytes_it_needs(kernel: ModuleType, entry: bytes) -> None:
    end = 2 * len(entry)
    for available in range(len(entry), end):
        block = block_of((entry * 2)[:available])
        assert kernel.walk(block, 0, end, end) == NEED_BYTES
        needed = 17 if available - len(entry) < 17 else len(entry)
        assert (block.length, block.next_position, block.needed) == (1, len(entry), needed)


def test_needs_a_whole_header(kernel: ModuleType) -> None:
    data = sized(14, 2) + bytes(40)
    block = block_of(data[:60])
    assert kernel.walk(block, 0, 66, 66) == NEED_BYTES
    assert block.needed == 61


def test_only_the_available_bytes_count(kernel: ModuleType) -> None:
    block = block_of(V2 * 2)
    block.available = len(V2) + 17
    assert kernel.walk(block, 0, 2 * len(V2), 2 * len(V2)) == NEED_BYTES
    assert (block.length, block.needed) == (1, len(V2))


# --- going on


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 6])
def test_goes_on_where_a_full_block_ended(kernel: ModuleType, rows: int) -> None:
    data = b"".join(encode_batch(records(1, offset)) for offset in range(5)) + V1
    block = block_of(data, rows, position=1000)
    end = 1000 + len(data)
    position = 1000
    found: list[tuple[int, int]] = []
    while True:
        status = kernel.walk(block, position, end, end)
        found += zip(block.position[: block.length], block.last_offset[: block.length], strict=True)
        position = block.next_position
        if status != BLOCK_FULL:
            break
        assert block.length == rows
    assert (status, position) == (END, end)
    assert found == [*((1000 + offset * len(V2), offset) for offset in range(5)), (1000 + 5 * len(V2), 7)]


@pytest.mark.parametrize("first", [1, 2, 4])
def test_goes_on_behind_the_rows_of_another_buffer(kernel: ModuleType, first: int) -> None:
    """As if all had been in one: the rows before stay, also where their bytes are gone."""
    entries = [encode_batch(records(1, offset)) for offset in range(5)] + [V1]
    data = b"".join(entries)
    whole, block = block_of(data, 8), block_of(data[: first * len(V2)], 8)
    assert kernel.walk(whole, 0, len(data), len(data)) == END
    assert kernel.walk(block, 0, len(data), len(data)) == NEED_BYTES
    block.data, block.data_position = data[first * len(V2) :], first * len(V2)
    block.available = len(block.data)
    assert kernel.walk(block, block.next_position, len(data), len(data), first) == END
    assert (block.length, block.next_position) == (6, len(data))
    assert [row_of(block, row) for row in range(6)] == [row_of(whole, row) for row in range(6)]


@pytest.mark.parametrize("row", [-1, 3, 1 << 40])
def test_goes_on_inside_the_block_only(kernel: ModuleType, row: int) -> None:
    with pytest.raises(ValueError, match="not inside the block"):
        kernel.walk(block_of(V2, 3), 0, len(V2), len(V2), row)


def test_a_block_counts_its_control_batches(kernel: ModuleType) -> None:
    control = encode_batch(records(1), NewBatch(CONTROL, 7, 0))
    for data, count in ((V2 + V1, 0), (V2 + control + V1 + control, 2)):
        assert walked(kernel, data).controls == count


def test_a_block_counts_its_compressed_rows(kernel: ModuleType) -> None:
    packed = encode_batch(records(1), NewBatch(attributes=3))
    for data, count in ((V2 + V1, 0), (V2 + packed + V1 + packed, 2)):
        assert walked(kernel, data).packed == count


def test_a_block_holds_only_what_is_in_its_data(kernel: ModuleType) -> None:
    block = walked(kernel, V2 + V1)
    assert [block.holds(row) for row in (0, 1)] == [True, True]
    block.available -= 1
    assert [block.holds(row) for row in (0, 1)] == [True, False]
    block.data_position = 1
    assert not block.holds(0)


@only_native
def test_native_refuses_a_block_without_room() -> None:
    assert NATIVE is not None
    block = BatchBlock(0)
    block.data, block.available = V2, len(V2)
    with pytest.raises(ValueError, match="room"):
        NATIVE.walk(block, 0, len(V2), len(V2))


# --- checksums


@pytest.mark.parametrize("entry", [V0, V1, V2], ids=["v0", "v1", "v2"])
def test_what_the_checksum_covers(kernel: ModuleType, entry: bytes) -> None:
    magic = entry[16]
    covered = range(21 if magic == 2 else 16, len(entry))
    stored = range(17, 21) if magic == 2 else range(12, 16)
    for at in range(len(entry)):
        if at in range(8, 12) or at == 16:  # the size and the magic lead elsewhere
            continue
        data = bytearray(entry)
        data[at] ^= 0x10
        block = walked(kernel, bytes(data))
        assert block.valid[0] == (at not in covered and at not in stored), at


def test_a_batch_shorter_than_its_header_is_not_valid(kernel: ModuleType) -> None:
    data = sized(48, 2) + bytes(18)
    assert walked(kernel, data).valid[0] == 0


def test_last_offset_wraps_as_in_java(kernel: ModuleType) -> None:
    data = bytearray(encode_batch([NewRecord((1 << 63) - 1, 0, None, None)]))
    data[23:27] = SIZE.pack(2)
    block = walked(kernel, bytes(data))
    assert (block.base_offset[0], block.last_offset[0]) == ((1 << 63) - 1, -(1 << 63) + 1)


LENGTHS = [*range(40), 127, 128, 383, 384, 385, 767, 768, 1151, 6143, 6144, 6145, 6535, 12_288, 20_000]
NOISE = bytes((i * 197 + (i >> 8) * 31 + 7) & 0xFF for i in range(20_008))


def test_checksums_of_every_length(kernel: ModuleType) -> None:
    castagnoli = mkCrcFun("crc-32c")
    view = memoryview(NOISE)
    for length in LENGTHS:
        for start in (0, 1, 7):
            data = view[start : start + length]
            assert kernel.crc32(data) == zlib.crc32(data)
            assert kernel.crc32c(data) == castagnoli(bytes(data))


def test_checksums_of_the_standards(kernel: ModuleType) -> None:
    assert kernel.crc32c(b"123456789") == 0xE3069283
    assert kernel.crc32(b"123456789") == 0xCBF43926
    assert kernel.crc32c(b"") == kernel.crc32(b"") == 0


@given(st.binary(max_size=2000), st.integers(0, 2000))
def test_checksums_go_on(data: bytes, cut: int) -> None:
    for kernel in KERNELS:
        for name in ("crc32", "crc32c"):
            checksum = getattr(kernel, name)
            assert checksum(data[cut:], checksum(data[:cut])) == checksum(data)


# --- hopping over entries


def hops(kernel: ModuleType, data: bytes, start: int, stop: int, end: int) -> int:
    return int(kernel.skip_entries(data + bytes(17), start, stop, end))


def test_hopping_ends_behind_the_last_entry_that_begins_in_time(kernel: ModuleType) -> None:
    entries = [V2, V1, V0, V2, V0]
    ends = [sum(map(len, entries[:number])) for number in range(len(entries) + 1)]
    data = b"".join(entries)
    for stop in range(len(data) + 1):
        assert hops(kernel, data, 0, stop, len(data)) == min(end for end in ends if end >= stop)
    for end in range(len(data) + 1):
        assert hops(kernel, data, 0, len(data), end) == max(each for each in ends if each <= end)
    assert hops(kernel, data, ends[2], ends[2] + 1, len(data)) == ends[3]
    assert hops(kernel, data, ends[2], ends[2], len(data)) == ends[2]
    assert hops(kernel, data, ends[2], 5, len(data)) == ends[2]


@pytest.mark.parametrize(
    ("size", "magic", "ordinary"),
    [(14, 0, True), (13, 0, False), (14, 1, True), (14, 255, True), (14, 2, False), (48, 2, False), (49, 2, True),
     (48, 3, False), (49, 127, True), (-1, 2, False), (-(1 << 31), 0, False), (0, 0, False), ((1 << 31) - 1, 2, False)],
)  # fmt: skip
def test_hopping_over_ordinary_entries_alone(kernel: ModuleType, size: int, magic: int, ordinary: bool) -> None:
    data = (bytes(8) + SIZE.pack(size) + bytes(4) + bytes((magic,))).ljust(100, b"\0")
    assert hops(kernel, V1 + data, 0, len(V1) + 1, len(V1) + 100) == len(V1) + (12 + size if ordinary else 0)


def test_hopping_to_an_entry_that_goes_on_behind_the_data(kernel: ModuleType) -> None:
    assert kernel.skip_entries(V2[:20], 0, 1, len(V2)) == len(V2)
    assert kernel.skip_entries(V2[:20], 0, 1, len(V2) - 1) == 0


def test_hopping_stays_inside_the_data(kernel: ModuleType) -> None:
    for start, stop in ((-1, 5), (0, len(V2) - 16)):
        with pytest.raises(ValueError, match="not inside the data"):
            kernel.skip_entries(V2, start, stop, len(V2))
    assert kernel.skip_entries(b"", 7, -17, 0) == 7


@given(st.lists(st.sampled_from((V2, V1, V0)), min_size=1, max_size=6), st.data())
def test_hopping_agrees_with_walking(entries: list[bytes], draw: st.DataObject) -> None:
    data = bytearray(b"".join(entries))
    for at, byte in draw.draw(st.lists(st.tuples(st.integers(0, len(data) - 1), st.integers(0, 255)), max_size=3)):
        data[at] = byte
    end = draw.draw(st.integers(0, len(data)))
    found = {hops(kernel, bytes(data), 0, len(data), end) for kernel in KERNELS}
    assert len(found) == 1
    block = block_of(bytes(data))
    KERNELS[0].walk(block, 0, end, len(data))
    rows = [(block.position[row] + block.size[row], block.size[row], block.magic[row]) for row in range(block.length)]
    ordinary = 0
    for behind, size, magic in rows:
        if magic >= 2 and size < 61:
            break
        ordinary = behind
    assert found == {ordinary}
