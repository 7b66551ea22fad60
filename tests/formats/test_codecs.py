"""Codecs: bytes that Kafka wrote, round trips, and every kind of damage as Kafka's own streams take it."""

from __future__ import annotations

import gzip
import random
import struct
import subprocess
import sys
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import lz4.block
import lz4.frame
import pytest
import snappy
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from kdump.errors import CodecError, UnknownCodecError
from kdump.formats import codecs
from kdump.formats.codecs import GZIP, LZ4, NONE, SNAPPY, ZSTD, compress, decompress, delivered
from kdump.formats.codecs import zstd as zstd_codec
from kdump.formats.codecs.lz4 import _xxh32
from tests.sampling import sampled

RECORD = bytes.fromhex("10000000026b027600")
PAYLOADS = {
    NONE: RECORD,
    GZIP: bytes.fromhex("1f8b08000000000000ff1360606060ca662a630000a37fcfa609000000"),
    SNAPPY: bytes.fromhex("82534e415050590000000001000000010000000b092010000000026b027600"),
    LZ4: bytes.fromhex("04224d186040820900008010000000026b02760000000000"),
    ZSTD: bytes.fromhex("28b52ffd005848000010000000026b027600010000"),
}
"""What Kafka makes of the one record."""

XERIAL = bytes.fromhex("82534e41505059000000000100000001")
MIB = 1 << 20
GIB = 1 << 30

every_codec = pytest.mark.parametrize("codec", PAYLOADS, ids=codecs.NAMES)
every_real_codec = pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD], ids=codecs.NAMES[1:])


@pytest.fixture(params=["isal", "zlib"])
def inflater(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the test with either library for gzip."""
    if request.param == "isal":
        pytest.importorskip("isal")
    else:
        monkeypatch.setitem(sys.modules, "isal", None)
        monkeypatch.setitem(sys.modules, "isal.isal_zlib", None)


def refused(codec: int, data: bytes, *, magic: int = 2, limit: int = GIB) -> str:
    """The text of the error that `data` gives."""
    with pytest.raises(CodecError) as caught:
        decompress(codec, data, magic=magic, limit=limit)
    return str(caught.value)


@contextmanager
def traced_memory() -> Iterator[Callable[[], int]]:
    """Gives a function that tells the most bytes that were allocated so far."""
    tracemalloc.start()
    try:
        yield lambda: tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def text(size: int) -> bytes:
    words = random.Random(size).choices([b"offset", b"epoch", b"leader", b"batch", b"\x00\x01"], k=size // 5 + 1)
    return b" ".join(words)[:size]


def noise(size: int) -> bytes:
    return random.Random(size).randbytes(size)


# names and ids


def test_ids_and_names_are_kafkas() -> None:
    assert [codecs.codec_name(codec) for codec in range(6)] == ["none", "gzip", "snappy", "lz4", "zstd", "codec 5"]
    assert (NONE, GZIP, SNAPPY, LZ4, ZSTD) == (0, 1, 2, 3, 4)


@pytest.mark.parametrize("codec", [5, 6, 7, -1])
@pytest.mark.parametrize("use", [decompress, compress, delivered])
def test_other_ids_are_unknown(codec: int, use: Callable[[int, bytes], object]) -> None:
    with pytest.raises(UnknownCodecError, match=f"^Unknown compression type id: {codec}$"):
        use(codec, RECORD)


# what Kafka wrote


@every_codec
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda data: memoryview(b"_" + data + b"_")[1:-1]])
def test_reads_what_kafka_wrote(codec: int, kind: Callable[[bytes], bytes]) -> None:
    output = decompress(codec, kind(PAYLOADS[codec]))
    assert output == RECORD
    assert type(output) is bytes


@every_codec
def test_writes_what_kafka_wrote(codec: int) -> None:
    assert compress(codec, RECORD) == PAYLOADS[codec]


def test_lz4_header_checksum_is_wrong_in_magic_0() -> None:
    wrapper_v0 = bytes.fromhex("04224d1860401a140000001600010051101fecd70a0f0070016b000000017600000000")
    wrapper_v1 = bytes.fromhex("04224d186040821a000000160001006318e4e321bc011000c003e8000000016b000000017600000000")
    inner_v0 = bytes.fromhex("000000000000000000000010") + bytes.fromhex("1fecd70a0000000000016b0000000176")
    inner_v1 = bytes.fromhex("000000000000000000000018") + bytes.fromhex(
        "e4e321bc010000000000000003e8000000016b0000000176"
    )
    assert decompress(LZ4, wrapper_v0, magic=0) == inner_v0
    assert decompress(LZ4, wrapper_v1, magic=1) == inner_v1
    assert refused(LZ4, wrapper_v0, magic=1) == "Stream frame descriptor corrupted"
    assert compress(LZ4, inner_v0, magic=0)[:7].hex() == "04224d1860401a"
    assert compress(LZ4, inner_v1, magic=1)[:7].hex() == "04224d18604082"
    assert decompress(LZ4, wrapper_v1, magic=0) == inner_v1


# round trips


@every_codec
@pytest.mark.parametrize("magic", [0, 1, 2])
@given(data=st.binary(max_size=2000), times=st.integers(1, 100))
def test_round_trip(codec: int, magic: int, data: bytes, times: int) -> None:
    payload = compress(codec, data * times, magic=magic)
    assert decompress(codec, payload, magic=magic) == data * times
    assert delivered(codec, payload, magic=magic) == (data * times, None)


@every_codec
@pytest.mark.parametrize("make", [text, noise])
@pytest.mark.parametrize("size", [0, 1, 32 << 10, 64 << 10, (64 << 10) + 1, 131075, 3 * MIB + 17])
def test_round_trip_across_block_sizes(codec: int, make: Callable[[int], bytes], size: int) -> None:
    data = make(size)
    assert decompress(codec, compress(codec, data)) == data


@pytest.mark.parametrize(
    ("codec", "level"), [(GZIP, 1), (GZIP, 9), (LZ4, 1), (LZ4, 9), (LZ4, 17), (ZSTD, -5), (ZSTD, 19)]
)
def test_levels(codec: int, level: int) -> None:
    data = text(20_000)
    assert decompress(codec, compress(codec, data, level=level)) == data


def test_default_levels() -> None:
    data = text(50_000)
    for codec, level in ((GZIP, 6), (LZ4, 9), (ZSTD, 3)):
        assert compress(codec, data) == compress(codec, data, level=level)
        assert compress(codec, data) != compress(codec, data, level=1)


@pytest.mark.parametrize(
    ("codec", "level", "error"),
    [
        (GZIP, 0, "level 0: gzip has the levels 1 to 9"),
        (LZ4, 18, "level 18: lz4 has the levels 1 to 17"),
        (ZSTD, 23, "level 23: zstd has the levels -131072 to 22"),
        (SNAPPY, 1, "level 1: snappy has no levels"),
        (NONE, 1, "level 1: none has no levels"),
    ],
)
def test_levels_that_do_not_exist(codec: int, level: int, error: str) -> None:
    with pytest.raises(CodecError, match=f"^{error}$"):
        compress(codec, RECORD, level=level)


def test_reads_what_the_libraries_write() -> None:
    data = text(300_000)
    assert decompress(GZIP, gzip.compress(data)) == data
    assert decompress(SNAPPY, snappy.compress(data)) == data
    assert decompress(LZ4, lz4.frame.compress(data, block_linked=False)) == data
    assert decompress(ZSTD, zstandard.compress(data)) == data


def test_other_clients_read_what_we_write() -> None:
    reference = pytest.importorskip("kafka.codec")
    data = text(100_000)
    assert reference.gzip_decode(compress(GZIP, data)) == data
    assert reference.snappy_decode(compress(SNAPPY, data)) == data
    assert reference.lz4_decode(compress(LZ4, data)) == data
    assert reference.zstd_decode(compress(ZSTD, data)) == data


# damage of any kind


@every_real_codec
@pytest.mark.parametrize("data", [RECORD, text(400), bytes(3000)], ids=["record", "text", "zeros"])
def test_cut_anywhere(codec: int, data: bytes) -> None:
    payload = compress(codec, data)
    for size in range(len(payload)):
        got, error = delivered(codec, payload[:size], limit=MIB)
        assert got is None or data.startswith(got)
        assert error is not None or (codec == SNAPPY and got == b"") or (codec == ZSTD and not size)


@every_real_codec
@pytest.mark.parametrize("magic", [0, 2])
@pytest.mark.usefixtures("inflater")
def test_any_flipped_bit(codec: int, magic: int) -> None:
    payload = bytearray(compress(codec, text(120), magic=magic))
    refusals = 0
    for bit in range(8 * len(payload)):
        payload[bit // 8] ^= 1 << bit % 8
        try:
            assert type(decompress(codec, payload, magic=magic, limit=MIB)) is bytes
        except CodecError:
            refusals += 1
        payload[bit // 8] ^= 1 << bit % 8
    assert refusals


@every_real_codec
@given(data=st.data())
def test_any_bytes(codec: int, data: st.DataObject) -> None:
    start = data.draw(st.sampled_from([b"", PAYLOADS[codec], PAYLOADS[codec][:7], PAYLOADS[codec][:16]]))
    payload = start + data.draw(st.binary(max_size=60))
    got, error = delivered(codec, payload, limit=MIB)
    if error is None:
        assert decompress(codec, payload, limit=MIB) == got
    else:
        assert refused(codec, payload, limit=MIB) == str(error)


# the limit


@every_codec
@pytest.mark.parametrize("size", [1, 1000, 100_000, 2 * MIB])
def test_limit_is_the_most_that_passes(codec: int, size: int) -> None:
    data = text(size)
    payload = compress(codec, data)
    assert decompress(codec, payload, limit=size) == data
    error = refused(codec, payload, limit=size - 1)
    assert error == f"The payload decompresses to more than the limit of {size - 1} bytes"


def xerial(*chunks: bytes) -> bytes:
    return XERIAL + b"".join(struct.pack(">i", len(chunk)) + chunk for chunk in chunks)


BOMB = bytes(64 * MIB)
BOMBS: dict[str, tuple[int, Callable[[], bytes]]] = {
    "gzip": (GZIP, lambda: compress(GZIP, BOMB)),
    "gzip members": (GZIP, lambda: compress(GZIP, bytes(MIB)) * 64),
    "snappy": (SNAPPY, lambda: compress(SNAPPY, BOMB)),
    "snappy chunk": (SNAPPY, lambda: xerial(snappy.compress(BOMB))),
    "snappy block": (SNAPPY, lambda: snappy.compress(BOMB)),
    "lz4": (LZ4, lambda: compress(LZ4, BOMB)),
    "lz4 4 MiB": (LZ4, lambda: lz4.frame.compress(BOMB, block_linked=False, block_size=7)),
    "zstd": (ZSTD, lambda: compress(ZSTD, BOMB)),
    "zstd with size": (ZSTD, lambda: zstandard.compress(BOMB)),
    "zstd frames": (ZSTD, lambda: compress(ZSTD, bytes(MIB)) * 64),
}


@pytest.mark.parametrize("bomb", BOMBS)
@pytest.mark.usefixtures("inflater")
def test_bomb_takes_no_memory(bomb: str) -> None:
    codec, make = BOMBS[bomb]
    payload = make()
    assert len(payload) < 4 * MIB
    decompress(codec, PAYLOADS[codec])  # loads the library
    largest = 8 * MIB if "4 MiB" in bomb else 2 * MIB  # the library's buffer, and its copy
    text_of_error = f"The payload decompresses to more than the limit of {MIB} bytes"
    with traced_memory() as peak:
        with pytest.raises(CodecError, match=text_of_error):
            decompress(codec, payload, limit=MIB)
        assert peak() < MIB + MIB // 4 + largest
    with traced_memory() as peak:
        got, error = delivered(codec, payload, limit=MIB)
        assert str(error) == text_of_error
        assert len(got or b"") <= MIB
        assert peak() < 2 * MIB + MIB // 4 + largest


# gzip


def member(data: bytes, flags: int = 0, extra: bytes = b"", level: int = 6) -> bytes:
    deflate = zlib.compressobj(level, zlib.DEFLATED, -15)
    body = deflate.compress(data) + deflate.flush()
    trailer = struct.pack("<II", zlib.crc32(data), len(data))
    return bytes((0x1F, 0x8B, 8, flags, 0, 0, 0, 0, 0, 255)) + extra + body + trailer


def header_checksum(flags: int, extra: bytes) -> bytes:
    return struct.pack("<H", zlib.crc32(bytes((0x1F, 0x8B, 8, flags, 0, 0, 0, 0, 0, 255)) + extra) & 0xFFFF)


@pytest.mark.usefixtures("inflater")
class TestGzip:
    @pytest.mark.parametrize(
        ("flags", "extra"),
        [
            (1, b""),
            (0xE0, b""),
            (4, b"\x03\x00abc"),
            (8, b"name\0"),
            (16, b"comment\0"),
            (8, b"n" * 70_000 + b"\0"),
            (31, b"\x01\x00x" + b"name\0" + b"comment\0" + header_checksum(31, b"\x01\x00xname\0comment\0")),
        ],
    )
    def test_header_fields(self, flags: int, extra: bytes) -> None:
        assert decompress(GZIP, member(RECORD, flags, extra)) == RECORD

    @pytest.mark.parametrize(
        ("data", "error"),
        [
            (b"", "Unexpected end of GZIP header"),
            (b"\x1f", "Unexpected end of GZIP header"),
            (b"\x1f\x8b\x08\0\0\0\0\0\0", "Unexpected end of GZIP header"),
            (b"PK", "Not in GZIP format"),
            (b"\x1f\x8b\x07", "Unsupported compression method"),
            (member(RECORD, 4, b"\xff\xff"), "Unexpected end of GZIP header"),
            (member(RECORD)[:3] + b"\x08" + bytes(6) + b"name", "Unexpected end of GZIP header"),
            (member(RECORD, 2, b"\0\0"), "Corrupt GZIP header"),
            (member(RECORD)[:10], "Unexpected end of ZLIB input stream"),
            (member(RECORD)[:-9], "Unexpected end of ZLIB input stream"),
            (member(RECORD)[:-8], "Unexpected end of GZIP trailer"),
            (member(RECORD)[:-1], "Unexpected end of GZIP trailer"),
            (member(RECORD)[:-8] + b"\0\0\0\0", "Corrupt GZIP trailer"),
            (member(RECORD)[:-8] + bytes(8), "Corrupt GZIP trailer"),
            (member(RECORD)[:-4] + bytes(4), "Corrupt GZIP trailer"),
            (member(b"")[:10] + b"\x07", "invalid block type"),
        ],
    )
    def test_damage(self, data: bytes, error: str) -> None:
        assert refused(GZIP, data) == error

    def test_members_are_joined(self) -> None:
        assert decompress(GZIP, member(b"one ") + member(b"") + member(b"two")) == b"one two"
        assert decompress(GZIP, member(b"a") * 3000) == b"a" * 3000
        big = noise(100_000)
        assert decompress(GZIP, member(big) + member(big, level=0) + member(b"end")) == big + big + b"end"

    @pytest.mark.parametrize(
        "garbage", [b"x", bytes(8), bytes(500), b"\x1f\x8b", b"\x1f\x8b\x07" + bytes(30), noise(9000)]
    )
    def test_garbage_after_a_member_is_ignored(self, garbage: bytes) -> None:
        assert decompress(GZIP, member(RECORD) + garbage) == RECORD

    def test_a_cut_member_counts_once_it_is_long_enough(self) -> None:
        second = member(text(100))
        assert decompress(GZIP, member(RECORD) + second[:18]) == RECORD
        assert refused(GZIP, member(RECORD) + second[:19]) == "Unexpected end of ZLIB input stream"

    def test_a_cut_member_counts_beyond_javas_buffer(self) -> None:
        # The first member fills Java's buffer of 8 KiB to the last byte: it then asks for more.
        body = noise(8192 - 5 - 8)
        first = member(body, level=0)
        assert len(first) == 10 + 8192
        second = member(RECORD)
        assert refused(GZIP, first + second[:10]) == "Unexpected end of ZLIB input stream"
        assert decompress(GZIP, first + second[:9]) == body
        # Six bytes less, and the rest of the payload is in the buffer, too short to be looked at.
        assert decompress(GZIP, member(body[:-6], level=0) + second[:6]) == body[:-6]

    def test_what_comes_before_the_damage_is_delivered(self) -> None:
        data = text(200_000)
        payload = bytearray(member(data))
        payload[-1] ^= 1
        got, error = delivered(GZIP, payload)
        assert got == data
        assert str(error) == "Corrupt GZIP trailer"
        got, error = delivered(GZIP, payload[: len(payload) // 2])
        assert got is not None
        assert len(got) > 50_000
        assert data.startswith(got)
        assert str(error) == "Unexpected end of ZLIB input stream"
        assert delivered(GZIP, b"PK")[0] is None


# snappy


class TestSnappy:
    def test_bare_block(self) -> None:
        assert decompress(SNAPPY, snappy.compress(text(5000))) == text(5000)
        assert decompress(SNAPPY, b"\0") == b""

    def test_short_payload_is_a_bare_block_whatever_it_starts_with(self) -> None:
        assert refused(SNAPPY, XERIAL[:15]).startswith("FAILED_TO_UNCOMPRESS(5): the payload, a bare block")

    def test_chunks_of_any_size(self) -> None:
        chunks = [snappy.compress(part) for part in (b"one ", b"", text(100_000), b" end")]
        assert decompress(SNAPPY, xerial(*chunks)) == b"one " + text(100_000) + b" end"
        assert decompress(SNAPPY, XERIAL) == b""

    def test_header_again(self) -> None:
        chunk = xerial(snappy.compress(b"abc"))
        assert decompress(SNAPPY, chunk + chunk + XERIAL + chunk) == b"abcabcabc"

    def test_versions(self) -> None:
        # snappy-java looks at the version of a header amid the stream only.
        first = XERIAL[:8] + bytes(8) + xerial(snappy.compress(b"abc"))[16:]
        assert decompress(SNAPPY, first) == b"abc"
        newer = XERIAL[:8] + struct.pack(">ii", 9, 9) + first[16:]
        assert decompress(SNAPPY, newer + newer) == b"abcabc"
        error = "Compressed with an incompatible codec version 0. At least version 1 is required"
        assert refused(SNAPPY, first + first) == error

    def test_head_of_a_header_without_the_rest_is_skipped(self) -> None:
        stray = XERIAL[:4] + bytes(12)
        chunk = snappy.compress(b"abc")
        assert decompress(SNAPPY, xerial(chunk) + stray + xerial(chunk)[16:]) == b"abcabc"
        # At the border of what Kafka's buffer asks for it is the end.
        assert decompress(SNAPPY, xerial(snappy.compress(bytes(2048))) + stray + xerial(chunk)[16:]) == bytes(2048)

    @pytest.mark.parametrize("tail", [b"\0", b"\0\0\0"])
    def test_part_of_a_length_at_the_end_is_ignored(self, tail: bytes) -> None:
        assert decompress(SNAPPY, PAYLOADS[SNAPPY] + tail) == RECORD

    @pytest.mark.parametrize(
        ("data", "error"),
        [
            (b"", "Cannot decompress empty stream"),
            (b"\xff" * 6, "PARSING_ERROR(2): the payload, a bare block, does not start with a length"),
            (b"\xff\xff\xff\xff\x1f", "PARSING_ERROR(2): the payload, a bare block, does not start with a length"),
            (
                b"\xff\xff\xff\xff\x0f" + bytes(20),
                "FAILED_TO_UNCOMPRESS(5): the payload, a bare block, has no room for the length it gives, 4294967295",
            ),
            (b"\x05\x10abcd", "FAILED_TO_UNCOMPRESS(5): the payload, a bare block, is corrupt"),
            (
                PAYLOADS[SNAPPY] + b"\0\0\0\x02\x05\x10",
                "FAILED_TO_UNCOMPRESS(5): chunk 2 at byte 31 of the payload, is corrupt",
            ),
            (xerial(b""), "PARSING_ERROR(2): chunk 1 at byte 16 of the payload, does not start with a length"),
            (XERIAL + b"\xff\xff\xff\xff", "chunkSize is too big or negative : -1"),
            (
                XERIAL + b"\x7f\xff\xff\xff" + bytes(50),
                "Received chunkSize 2,147,483,647 is greater than max configured chunk size 536,870,912",
            ),
            (XERIAL + b"\x1f\xff\xff\xff" + bytes(50), "failed to read chunk"),
            (PAYLOADS[SNAPPY] + XERIAL[:15], "Insufficient header size in a concatenated block"),
        ],
    )
    def test_damage(self, data: bytes, error: str) -> None:
        assert refused(SNAPPY, data) == error

    def test_length_is_not_believed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(snappy, "uncompress", lambda block: pytest.fail("the library saw the block"))
        block = b"\x80\x80\x80\x80\x04" + bytes(1000)  # 1 GiB
        assert "has no room for the length it gives, 1073741824" in refused(SNAPPY, block)
        assert "limit of 100 bytes" in refused(SNAPPY, b"\xe8\x07" + bytes(1000), limit=100)

    def test_densest_block_is_believed(self) -> None:
        data = b"a" * 64 * MIB
        assert decompress(SNAPPY, snappy.compress(data)) == data

    def test_what_comes_before_the_damage_is_delivered(self) -> None:
        data = text(2048 * 3 + 100)
        got, error = delivered(SNAPPY, xerial(snappy.compress(data), b""))
        assert got == data[: 2048 * 3]  # Kafka's buffer gets nothing of the portion in which the damage is
        assert str(error).startswith("PARSING_ERROR(2): chunk 2")
        assert delivered(SNAPPY, b"\xff")[0] is None


# lz4


def frame(
    *blocks: bytes, flags: int = 0x60, sizes: int = 0x40, content_size: bytes = b"", end: bytes = bytes(4)
) -> bytes:
    """A frame with a right header checksum around blocks that come with their lengths."""
    descriptor = bytes((flags, sizes)) + content_size
    return b"\x04\x22\x4d\x18" + descriptor + bytes((_xxh32(descriptor) >> 8 & 0xFF,)) + b"".join(blocks) + end


def stored(data: bytes) -> bytes:
    return struct.pack("<I", len(data) | 1 << 31) + data


def packed(data: bytes) -> bytes:
    block: bytes = lz4.block.compress(data, store_size=False)
    return struct.pack("<I", len(block)) + block


class TestLz4:
    @pytest.mark.parametrize(("data", "value"), [(b"", 0x02CC5D05), (b"abc", 0x32D153FF)])
    def test_xxh32(self, data: bytes, value: int) -> None:
        assert _xxh32(data) == value

    @pytest.mark.parametrize(("sizes", "checksum"), [(0x40, 0x82), (0x50, 0xFB), (0x60, 0x51), (0x70, 0x73)])
    def test_header_checksum(self, sizes: int, checksum: int) -> None:
        header = b"\x04\x22\x4d\x18\x60" + bytes((sizes, checksum))
        assert decompress(LZ4, header + stored(RECORD) + bytes(4)) == RECORD
        wrong = header[:6] + bytes((checksum ^ 1,)) + stored(RECORD) + bytes(4)
        assert decompress(LZ4, wrong, magic=0) == RECORD
        for magic in (1, 2):
            assert refused(LZ4, wrong, magic=magic) == "Stream frame descriptor corrupted"

    @pytest.mark.parametrize("block_size", sampled([4, 5, 6, 7], 1))
    @pytest.mark.parametrize(
        "options", [{}, {"content_checksum": True}, {"block_checksum": True}, {"store_size": False}]
    )
    def test_frames_of_the_library(self, block_size: int, options: dict[str, bool]) -> None:
        data = text(5 * MIB)
        payload = lz4.frame.compress(data, block_linked=False, block_size=block_size, **options)
        assert decompress(LZ4, payload) == data

    def test_content_checksum_is_not_checked_but_must_be_there(self) -> None:
        payload = frame(stored(RECORD), flags=0x64)
        assert decompress(LZ4, payload + b"\xde\xad\xbe\xef") == RECORD
        assert refused(LZ4, payload + b"\xde\xad\xbe") == "Stream ended prematurely"

    def test_content_size_is_not_checked(self) -> None:
        assert decompress(LZ4, frame(stored(RECORD), flags=0x68, content_size=b"\xff" * 8)) == RECORD

    def test_block_checksum_is_checked(self) -> None:
        checksum = struct.pack("<I", _xxh32(RECORD))
        block = stored(RECORD) + checksum
        assert decompress(LZ4, frame(block, block, flags=0x70)) == RECORD * 2
        for bad in (block[:-1] + b"\0", stored(RECORD[:-1] + b"\1") + checksum):
            assert refused(LZ4, frame(bad, flags=0x70)) == "Block checksum mismatch"
        assert refused(LZ4, frame(block[:-1], flags=0x70, end=b"")) == "Stream ended prematurely"

    def test_only_the_first_frame_is_read(self) -> None:
        assert decompress(LZ4, frame(stored(b"one")) + frame(stored(b"two"))) == b"one"
        assert decompress(LZ4, frame(stored(b"one")) + b"garbage") == b"one"

    def test_end_mark_may_say_stored(self) -> None:
        assert decompress(LZ4, frame(stored(RECORD), end=b"\0\0\0\x80")) == RECORD

    def test_block_without_output_is_the_end(self) -> None:
        assert decompress(LZ4, frame(packed(b"one"), packed(b""), packed(b"two"))) == b"one"

    @pytest.mark.parametrize(
        ("data", "error"),
        [
            (b"", "Stream ended prematurely"),
            (b"\x04\x22\x4d\x18\x60", "Stream ended prematurely"),
            (b"\x04\x22\x4d\x18\x60\x40", "Stream ended prematurely"),
            (b"\x04\x22\x4d\x18\x68\x40" + bytes(8), "Stream ended prematurely"),
            (b"\x04\x22\x4d\x19\x60\x40\x82", "Stream unsupported (invalid magic bytes)"),
            (frame(flags=0x61), "Reserved bits must be 0"),
            (frame(flags=0x62), "Reserved bits must be 0"),
            (frame(flags=0x40), "Dependent block stream is unsupported"),
            (frame(flags=0xA0), "Version 2 is unsupported"),
            (frame(sizes=0x41), "Reserved2 field must be 0"),
            (frame(sizes=0x30), "Block size value must be between 4 and 7"),
            (frame(sizes=0xC0), "Reserved3 field must be 0"),
            (frame(end=b""), "Stream ended prematurely"),
            (frame(end=bytes(3)), "Stream ended prematurely"),
            (frame(stored(RECORD), end=b""), "Stream ended prematurely"),
            (frame(stored(RECORD)[:-1], end=b""), "Stream ended prematurely"),
            (frame(struct.pack("<I", 524288)), "Block size 524288 exceeded max: 65536"),
            (frame(struct.pack("<I", 1 << 31 | 65537)), "Block size 65537 exceeded max: 65536"),
            (frame(struct.pack("<I", 0x7FFFFFFF), sizes=0x70), "Block size 2147483647 exceeded max: 4194304"),
            (frame(b"\x03\0\0\0abc"), "LZ4 block at byte 11 of the payload is corrupt"),
            (frame(packed(bytes(65537))), "LZ4 block at byte 11 of the payload is corrupt"),
        ],
    )
    def test_damage(self, data: bytes, error: str) -> None:
        assert refused(LZ4, data) == error

    def test_what_comes_before_the_damage_is_delivered(self) -> None:
        got, error = delivered(LZ4, frame(packed(b"one"), stored(b"two"), b"\xff\xff\xff\x7f"))
        assert got == b"onetwo"
        assert str(error) == "Block size 2147483647 exceeded max: 65536"
        assert delivered(LZ4, frame(end=b""))[0] == b""
        assert delivered(LZ4, frame(flags=0x40))[0] is None


# zstd


def skippable(content: bytes) -> bytes:
    return struct.pack("<II", 0x184D2A53, len(content)) + content


class TestZstd:
    def test_empty_payload_is_an_empty_stream(self) -> None:
        assert decompress(ZSTD, b"") == b""

    @pytest.mark.parametrize("size", sampled([0, 1, 200, 300, 70_000, 3 * MIB], 5))
    @pytest.mark.parametrize("checksum", [False, True])
    @pytest.mark.parametrize("content_size", [False, True])
    def test_frames_of_the_library(self, size: int, checksum: bool, content_size: bool) -> None:
        compressor = zstandard.ZstdCompressor(write_checksum=checksum, write_content_size=content_size)
        payload = compressor.compress(text(size))
        assert decompress(ZSTD, payload) == text(size)
        assert decompress(ZSTD, payload * 3) == text(size) * 3

    def test_frames_are_joined_and_skipped(self) -> None:
        one, two = compress(ZSTD, text(300_000)), compress(ZSTD, noise(300_000))
        payload = skippable(b"") + one + skippable(b"x" * 1000) + two + skippable(b"y")
        assert decompress(ZSTD, payload) == text(300_000) + noise(300_000)
        assert delivered(ZSTD, payload) == (text(300_000) + noise(300_000), None)

    @pytest.mark.parametrize("garbage", [b"x", b"\0" * 3, b"garbage!" * 4])
    def test_garbage_after_a_frame_is_an_error(self, garbage: bytes) -> None:
        assert refused(ZSTD, PAYLOADS[ZSTD] + garbage) == "Unknown frame descriptor"
        assert refused(ZSTD, zstandard.compress(RECORD) + garbage) == "Unknown frame descriptor"

    @pytest.mark.parametrize("data", [RECORD, text(600_000)], ids=["small", "large"])
    @pytest.mark.parametrize("checksum", [False, True])
    def test_cut_frame(self, data: bytes, checksum: bool) -> None:
        payload = zstandard.ZstdCompressor(write_checksum=checksum).compress(data)
        for size in {1, 4, 5, 8, 9, 10, len(payload) // 2, len(payload) - 4, len(payload) - 1}:
            assert refused(ZSTD, payload[:size]) == "Truncated source"

    def test_cut_frame_after_a_whole_one_goes_unnoticed(self) -> None:
        # zstd-jni forgets to look once a frame has ended in the portion of input that it holds.
        payload = PAYLOADS[ZSTD]
        assert decompress(ZSTD, payload + payload[:-3]) == RECORD * 2
        assert decompress(ZSTD, payload + payload[:14]) == RECORD + RECORD[:5]
        assert decompress(ZSTD, payload + payload[:3]) == RECORD

    def test_cut_frame_in_another_portion_of_input_is_noticed(self) -> None:
        portion = 131075
        first = zstandard.compress(noise(100_000)) + skippable(b"")
        first += skippable(bytes(portion - len(first) - 8))
        assert len(first) == portion
        assert refused(ZSTD, first + PAYLOADS[ZSTD][:-3]) == "Truncated source"
        assert decompress(ZSTD, first + PAYLOADS[ZSTD]) == noise(100_000) + RECORD
        assert decompress(ZSTD, first + PAYLOADS[ZSTD] * 2 + PAYLOADS[ZSTD][:-3]) == noise(100_000) + RECORD * 3

    @pytest.mark.parametrize(
        ("data", "error"),
        [
            (b"\x28\xb5\x2f\xfe" + bytes(20), "Unknown frame descriptor"),
            (PAYLOADS[ZSTD][:4] + b"\x08" + PAYLOADS[ZSTD][5:], "Unsupported frame parameter"),
            (PAYLOADS[ZSTD][:5] + b"\x90" + PAYLOADS[ZSTD][6:], "Frame requires too much memory for decoding"),
            (PAYLOADS[ZSTD][:6] + b"\x4e" + PAYLOADS[ZSTD][7:], "Data corruption detected"),
            (PAYLOADS[ZSTD][:4] + b"\x01\x58\x07" + PAYLOADS[ZSTD][6:], "Dictionary mismatch"),
        ],
    )
    def test_damage(self, data: bytes, error: str) -> None:
        assert refused(ZSTD, data) == error

    def test_checksum_is_checked(self) -> None:
        payload = bytearray(zstandard.ZstdCompressor(write_checksum=True).compress(RECORD))
        payload[-1] ^= 1
        assert refused(ZSTD, bytes(payload)) == "Restored data doesn't match checksum"

    def test_content_size_is_not_believed(self) -> None:
        # Single segment, content size in 8 bytes: 120 MiB, just under the window that is allowed.
        payload = b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", 120 * MIB) + PAYLOADS[ZSTD][6:]
        with traced_memory() as peak:
            assert decompress(ZSTD, payload) == RECORD
            assert peak() < MIB

    def test_threads_do_not_share_contexts(self) -> None:
        data = [text(200_000 + size) for size in range(8)]
        payloads = [compress(ZSTD, one) for one in data]

        def work(seed: int) -> bool:
            order = random.Random(seed).choices(range(8), k=60)
            return all(decompress(ZSTD, payloads[one]) == data[one] for one in order)

        with ThreadPoolExecutor(4) as pool:
            assert all(pool.map(work, range(4)))

    def test_works_after_an_error(self) -> None:
        for size in range(len(PAYLOADS[ZSTD])):
            delivered(ZSTD, PAYLOADS[ZSTD][:size] + b"\xff" * 5)
            assert decompress(ZSTD, PAYLOADS[ZSTD]) == RECORD

    def test_what_comes_before_the_damage_is_delivered(self) -> None:
        data = text(100_000)
        payload = bytearray(zstandard.ZstdCompressor(write_checksum=True).compress(data))
        payload[-1] ^= 1
        got, error = delivered(ZSTD, payload)
        assert got == data[: 6 * (16 << 10)]  # Kafka's buffer gets nothing of the portion in which the damage is
        assert str(error) == "Restored data doesn't match checksum"
        assert delivered(ZSTD, compress(ZSTD, noise(100))[:-3])[0] == noise(100)
        assert delivered(ZSTD, b"x")[0] == b""


# libraries


@pytest.mark.parametrize(
    ("codec", "module", "package"),
    [(SNAPPY, "snappy", "python-snappy"), (LZ4, "lz4.block", "lz4"), (ZSTD, "zstandard", "zstandard")],
)
def test_missing_library_is_named(codec: int, module: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    zstd_codec._context.cache_clear()
    error = f"{codecs.NAMES[codec]} needs the package {package}, which is not installed: pip install {package}"
    assert refused(codec, PAYLOADS[codec]) == error
    with pytest.raises(CodecError, match=f"pip install {package}"):
        compress(codec, RECORD)


def test_libraries_are_loaded_when_needed() -> None:
    program = (
        "import sys, kdump.formats.codecs as c;"
        "print(sorted({'zstandard', 'snappy', 'lz4', 'isal', 'threading'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-S", "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"
