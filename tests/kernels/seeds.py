"""Sound and oddly shaped entries of every kind: what the fuzzer mutates, and what other tests read."""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from kdump.formats.batch import (
    CONTROL,
    CRC_START,
    DELETE_HORIZON,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC_AT,
    MIN_SIZE_FIELD,
    TRANSACTIONAL,
)
from kdump.formats.checksums import crc32, crc32c
from kdump.formats.codecs import GZIP, LZ4, SNAPPY, ZSTD, compress
from kdump.formats.encode import NewBatch, NewRecord, encode_batch, encode_message, encode_wrapper
from kdump.formats.message_set import CRC

SIZE = Struct(">i")
MAX_OFFSET = (1 << 63) - 1
NOW = 1_700_000_000_000
CODECS = {GZIP: "gzip", SNAPPY: "snappy", LZ4: "lz4", ZSTD: "zstd"}

MALFORMED = b"\xff\xc3(\xe2\x82\xed\xa0\x80\xf0\x9f\x92"  # UTF-8 that no decoder takes


class Seed(NamedTuple):
    """Whole entries; `payload` is the decompressed content of a compressed seed's only entry."""

    name: str
    data: bytes
    payload: bytes | None = None


def records(count: int, first: int = 0, step: int = 1) -> list[NewRecord]:
    """Small records with everything that can be in one: headers, nulls, empty parts, malformed text."""
    parts: tuple[bytes | None, ...] = (b"k", None, b"", "ключ".encode(), MALFORMED)
    headers: tuple[tuple[tuple[bytes, bytes | None], ...], ...] = ((), ((b"h", b"x"),), ((b"", None), (MALFORMED, b"")))
    return [
        NewRecord(first + i * step, NOW + i * 7, parts[i % 5], parts[(i + 3) % 5], headers[i % 3]) for i in range(count)
    ]


def control(number: int, value: bytes, version: int = 0) -> NewRecord:
    """A control record of type `number`."""
    return NewRecord(9, NOW, version.to_bytes(2, "big", signed=True) + number.to_bytes(2, "big", signed=True), value)


MARKER = bytes.fromhex("000000000003")
CONTROLS = {
    "abort": control(0, MARKER),
    "commit": control(1, MARKER),
    "leader change": control(2, bytes.fromhex("00000000000102000000010000")),
    "snapshot header": control(3, bytes.fromhex("0000000000000000271000")),
    "snapshot footer": control(4, bytes.fromhex("000000")),
    "kraft version": control(5, bytes.fromhex("0000000100")),
    "voters": control(6, bytes.fromhex("00000100")),
    "unknown control": control(77, b"?"),
    "negative control version": control(1, MARKER, -1),
    "negative marker version": control(0, bytes.fromhex("ffff00000003")),
    "short marker": control(0, MARKER[:5]),
    "no marker": NewRecord(9, NOW, bytes.fromhex("00000001"), None),
    "no control key": NewRecord(9, NOW, None, MARKER),
    "short control key": NewRecord(9, NOW, b"\0\0\0", MARKER),
}


def framed(payload: bytes, count: int, codec: int = 0, magic: int = 2) -> bytes:
    """A v2 batch around `payload` as it is, compressed with `codec`."""
    data = bytearray(encode_batch([NewRecord(5, 1000, None, None)], NewBatch(attributes=0))[:HEADER_SIZE])
    data[MAGIC_AT] = magic
    data[22] = codec
    data[57:61] = SIZE.pack(count)
    data += compress(codec, payload)
    return mended(data)


def wrapped(payload: bytes, codec: int = LZ4, magic: int = 1, offset: int = 9) -> bytes:
    """A v0 or v1 wrapper around `payload` as it is."""
    return encode_message(NewRecord(offset, NOW, None, compress(codec, payload, magic=magic)), magic, codec)


def mended(data: bytes | bytearray) -> bytes:
    """`data` with the first entry's size reaching to its end, and the CRC made right."""
    data = bytearray(data)
    data[8:12] = SIZE.pack(len(data) - LOG_OVERHEAD)
    mend_checksums(data)
    return bytes(data)


def mend_checksums(data: bytearray) -> None:
    """Make every CRC right, as far as the frames lead."""
    at = 0
    view = memoryview(data)
    while len(data) - at >= LOG_OVERHEAD + MIN_SIZE_FIELD:
        size = SIZE.unpack_from(data, at + 8)[0]
        end = at + LOG_OVERHEAD + size
        if size < MIN_SIZE_FIELD or end > len(data):
            return
        if data[at + MAGIC_AT] in (0, 1) or data[at + MAGIC_AT] > 127:
            CRC.pack_into(data, at + LOG_OVERHEAD, crc32(view[at + MAGIC_AT : end]))
        elif end - at >= HEADER_SIZE:
            CRC.pack_into(data, at + 17, crc32c(view[at + CRC_START : end]))
        at = end


def _v2(name: str, content: list[NewRecord], **header: int) -> Seed:
    return Seed(name, encode_batch(content, NewBatch(**header)))


def _compressed_v2(codec: int, count: int, **header: int) -> Seed:
    content = records(count, 100)
    plain = encode_batch(content, NewBatch(**header))[HEADER_SIZE:]
    header["attributes"] = header.get("attributes", 0) | codec
    return Seed(f"v2 {CODECS[codec]} of {count}", encode_batch(content, NewBatch(**header)), plain)


def _wrapper(magic: int, codec: int, count: int, append_time: int | None = None) -> Seed:
    content = records(count, 40)
    first = 40 if magic else 0
    inner = b"".join(encode_message(record._replace(offset=record.offset - first), magic) for record in content)
    data = encode_wrapper(content, magic, codec, append_time)
    return Seed(f"v{magic} {CODECS[codec]} wrapper of {count}", data, inner)


def _mixed_wrapper(name: str, inner: bytes, magic: int, offset: int) -> Seed:
    return Seed(name, wrapped(inner, LZ4, magic, offset), inner)


def seeds() -> list[Seed]:
    """All seeds, in a fixed order."""
    one = records(1)
    long = NewRecord(5, NOW, b"k" * 130, b"v" * 70, ((b"h" * 66, b"y" * 65),))
    plain = encode_message(NewRecord(3, NOW, b"k", b"v"), 1)
    nested = encode_message(NewRecord(4, NOW, None, b"v"), 1, LZ4)
    found = [
        _v2("v2 of one", one),
        _v2("v2 of three", records(3)),
        _v2("v2 of twenty", records(20, 7, 2)),
        _v2("v2 long parts", [long]),
        _v2("v2 long text", [NewRecord(5, NOW, b"plain " * 30 + "ü".encode() + b"x" * 70, b"y" * 64 + MALFORMED)]),
        _v2("v2 sequence wraps", records(3), producer_id=7, producer_epoch=2, base_sequence=(1 << 31) - 2),
        _v2("v2 last sequence wraps", one, base_sequence=(1 << 31) - 1, producer_id=1, producer_epoch=0, last_offset=9),
        _v2("v2 transactional", records(2), attributes=TRANSACTIONAL, producer_id=7, producer_epoch=0, base_sequence=0),
        _v2("v2 LogAppendTime", records(2), attributes=LOG_APPEND_TIME, max_timestamp=NOW + 99, leader_epoch=4),
        _v2("v2 delete horizon", records(2), attributes=DELETE_HORIZON, base_timestamp=NOW + 86_400_000),
        _v2("v2 highest offsets", records(3, MAX_OFFSET - 2)),
        _v2("v2 largest offset delta", [one[0]._replace(offset=9)], base_offset=0, last_offset=(1 << 31) - 1),
        _v2("v2 lowest timestamps", [NewRecord(0, -(1 << 63), b"k", b"v")], base_timestamp=(1 << 63) - 1),
        _v2("v2 compacted", records(3, 50, 5), base_offset=40, last_offset=99),
        _v2("v2 empty", [], base_offset=5, last_offset=6, base_timestamp=-1, max_timestamp=1000, producer_id=7),
        _v2("v2 empty gzip", [], attributes=GZIP, base_offset=5, last_offset=6, base_timestamp=-1, max_timestamp=-1),
        Seed("magic 3", framed(encode_batch(records(2))[HEADER_SIZE:], 2, magic=3)),
        Seed("offset wraps", b"".join(encode_batch([one[0]._replace(offset=at)]) for at in (MAX_OFFSET, ~MAX_OFFSET))),
        Seed("v0", encode_message(NewRecord(3, -1, b"k", b"v"), 0)),
        Seed("v0 nulls", encode_message(NewRecord(3, -1, None, None), 0)),
        Seed("v1", plain),
        Seed("v1 nulls", encode_message(NewRecord(3, NOW, None, None), 1)),
        Seed("v1 LogAppendTime", encode_message(NewRecord(3, NOW, b"", MALFORMED), 1, LOG_APPEND_TIME)),
        Seed("v1 highest offset", encode_message(NewRecord(MAX_OFFSET, NOW, b"k", b"v"), 1)),
        Seed("every version", plain + encode_message(NewRecord(4, -1, None, b"v"), 0) + encode_batch(records(2, 5))),
        Seed("twelve batches", b"".join(encode_batch(records(1, 10 + i)) for i in range(12))),
        Seed("twelve messages", b"".join(encode_message(NewRecord(i, NOW, b"k", b"v"), i & 1) for i in range(12))),
        Seed("zeros behind", encode_batch(one) + bytes(64)),
        _mixed_wrapper("v0 in v1", encode_message(NewRecord(0, -1, b"k", b"v"), 0) + plain, 1, 99),
        _mixed_wrapper("offset 0", plain, 1, 0),
        _mixed_wrapper("offset too low", plain, 1, 2),
        _mixed_wrapper("nested", plain + nested, 1, 9),
        _mixed_wrapper("inner tail", plain + plain[:-1], 1, 9),
        _mixed_wrapper("offset 2^63 - 1", plain + encode_message(NewRecord(0, NOW, None, b"v"), 1), 1, MAX_OFFSET),
    ]
    for name, record in CONTROLS.items():
        transactional = TRANSACTIONAL if record.value == MARKER else 0
        found.append(_v2(name, [record], attributes=CONTROL | transactional, leader_epoch=1))
    for codec in CODECS:
        found += _compressed_v2(codec, 2), _compressed_v2(codec, 20, attributes=LOG_APPEND_TIME, max_timestamp=NOW)
    for magic in (0, 1):
        found += (_wrapper(magic, codec, count) for codec in (GZIP, SNAPPY, LZ4) for count in (2, 20))
    found.append(_wrapper(1, GZIP, 3, append_time=NOW + 50))
    return found
