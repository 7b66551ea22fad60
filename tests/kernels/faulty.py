"""One log for every fault that reading records can meet, and the fault."""

from __future__ import annotations

from typing import NamedTuple

from kdump.formats import faults
from kdump.formats.batch import CONTROL
from kdump.formats.codecs import GZIP, LZ4, ZSTD
from kdump.formats.encode import NewBatch, NewRecord, encode_batch, encode_message, varint
from kdump.formats.faults import Fault
from tests.kernels.seeds import MARKER, SIZE, control, framed, mended, wrapped


class Faulty(NamedTuple):
    """A log, the damage in it, and how many records come before it."""

    name: str
    data: bytes
    fault: Fault
    before: int = 0


def record(*body: bytes) -> bytes:
    """A v2 record of these parts, its length in front."""
    content = b"".join(body)
    return varint(len(content)) + content


def changed(data: bytes, at: int, new: bytes) -> bytes:
    """`data` with other bytes from `at` on, its size and CRC made right again."""
    return mended(data[:at] + new + data[at + len(new) :])


GOOD = record(b"\0", varint(0), varint(0), b"\x01", varint(1) + b"v", varint(0))
HEAD = b"\0" + varint(0) + varint(1)  # attributes, timestamp delta, offset delta
NULLS = b"\x01\x01"  # key and value
V1 = encode_message(NewRecord(3, 1000, b"k", b"v"), 1)
V0 = encode_message(NewRecord(3, -1, b"k", b"v"), 0)
EMPTY = framed(b"", 0)
NO_VALUE = encode_message(NewRecord(3, 9, None, None), 1, GZIP)
MANY = (1 << 31) - 1


def _batch(name: str, fault: Fault, *bad: bytes, codec: int = 0, count: int = 2) -> Faulty:
    """A batch of a good record and what `bad` makes of the second."""
    return Faulty(name, framed(GOOD + b"".join(bad), count, codec), fault, 1)


def _wrapper(name: str, fault: Fault, inner: bytes, before: int = 0, **how: int) -> Faulty:
    return Faulty(name, wrapped(inner, **how), fault, before)


UNREADABLE = [
    Faulty("codec 5 of a message", changed(V1, 17, b"\5"), (faults.UNKNOWN_CODEC, 5, 0)),
    Faulty("codec 7 of a batch", changed(framed(GOOD, 1), 22, b"\7"), (faults.UNKNOWN_CODEC, 7, 0)),
    Faulty("count below 0", framed(GOOD, -1), (faults.NEGATIVE_COUNT, -1, 2)),
    Faulty("count below 0, compressed", framed(GOOD, -2, GZIP), (faults.NEGATIVE_COUNT, -2, 2)),
    _batch("a record too few", (faults.PREMATURE_END, 0, 0)),
    _batch("a record too few, compressed", (faults.PREMATURE_END, 0, 0), codec=LZ4),
    _batch("billions of records too few", (faults.PREMATURE_END, 0, 0), count=MANY),
    _batch("billions of records too few, compressed", (faults.PREMATURE_END, 0, 0), codec=ZSTD, count=MANY),
    _batch("a length that does not end", (faults.PREMATURE_END, 0, 0), b"\x80"),
    _batch("a record too many", (faults.RECORDS_REMAIN, 0, 0), GOOD, GOOD),
    _batch("a byte too many, compressed", (faults.RECORDS_REMAIN, 0, 0), GOOD, b"\0", codec=GZIP),
    _batch("a record longer than what is left", (faults.RECORD_BEYOND, 20, 5), varint(20), bytes(5)),
    _batch("the same, compressed", (faults.RECORD_EOF, 20, 5), varint(20), bytes(5), codec=LZ4),
    _batch("the longest record", (faults.RECORD_BEYOND, MANY, 0), varint(MANY)),
    _batch("the longest record, compressed", (faults.RECORD_EOF, MANY, 0), varint(MANY), codec=LZ4),
    _batch("a record that ends before its length", (faults.RECORD_SIZE, 8, 7), varint(8), GOOD[1:], b"\0"),
    _batch("a record that goes on behind its length", (faults.RECORD_SIZE, 6, 7), varint(6), GOOD[1:], count=2),
    _batch("a length below 0", (faults.RECORD_SIZE, -3, 7), varint(-3), GOOD[1:]),
    _batch("a length below 0, compressed", (faults.NEGATIVE_SIZE, -3, 0), varint(-3), GOOD[1:], codec=GZIP),
    _batch("an empty record", (faults.STRUCTURE, 0, 0), b"\0"),
    _batch("an empty record, compressed", (faults.STRUCTURE, 0, 0), b"\0", codec=GZIP),
    _batch("a record behind its length, compressed", (faults.STRUCTURE, 0, 0), varint(6), GOOD[1:], codec=GZIP),
    _batch("a key over the end", (faults.STRUCTURE, 0, 0), record(HEAD, varint(9), b"k")),
    _batch("the longest key", (faults.STRUCTURE, 0, 0), record(HEAD, varint(MANY), b"k")),
    _batch("the longest value", (faults.STRUCTURE, 0, 0), record(HEAD, b"\x01", varint(MANY), b"\0")),
    _batch("a timestamp of eleven bytes", (faults.STRUCTURE, 0, 0), record(b"\0", b"\xff" * 10, b"\0\0", NULLS, b"\0")),
    _batch("an offset of six bytes", (faults.STRUCTURE, 0, 0), record(b"\0\0", b"\xff" * 5, b"\0", NULLS, b"\0")),
    _batch("no header count", (faults.STRUCTURE, 0, 0), record(HEAD, NULLS)),
    _batch("a header name over the end", (faults.STRUCTURE, 0, 0), record(HEAD, NULLS, varint(1), varint(5), b"h")),
    _batch("no header value", (faults.STRUCTURE, 0, 0), record(HEAD, NULLS, varint(1), varint(1), b"h")),
    _batch("header count below 0", (faults.HEADER_COUNT, -1, 0), record(HEAD, NULLS, varint(-1))),
    _batch("more headers than bytes", (faults.HEADER_COUNT_BEYOND, 4, 0), record(HEAD, NULLS, varint(4), b"\0\0\0")),
    _batch("billions of headers", (faults.HEADER_COUNT_BEYOND, MANY, 0), record(HEAD, NULLS, varint(MANY))),
    _batch("header name below 0", (faults.HEADER_KEY_SIZE, -1, 0), record(HEAD, NULLS, varint(1), b"\x01\x01")),
    _batch("a length of six bytes", (faults.VARINT_LONG, 0xFFFF_FFFF, 0), b"\xff" * 5, b"\1"),
    _batch("a length of six bytes, high bits", (faults.VARINT_LONG, 0x9000_0001, 0), b"\x81\x80\x80\x80\x89\0"),
    Faulty("a batch of 40 bytes", EMPTY[:8] + SIZE.pack(28) + EMPTY[12:40] + bytes(40), (faults.OUT_OF_BOUNDS, 61, 40)),
    Faulty("a v0 message without room for lengths", mended(V0[:26]), (faults.OUT_OF_BOUNDS, 15, 14)),
    Faulty("a v1 message without room for lengths", mended(V1[:28]), (faults.OUT_OF_BOUNDS, 18, 16)),
    Faulty("a v1 value length over the end", mended(V1[:32]), (faults.OUT_OF_BOUNDS, 23, 20)),
    Faulty("a key that leaves no value length", changed(V1, 26, SIZE.pack(4)), (faults.OUT_OF_BOUNDS, 26, 24)),
    Faulty("a v1 key over the end", changed(V1, 26, SIZE.pack(7)), (faults.LEGACY_LIMIT, 7, 6)),
    Faulty("the longest v1 key", changed(V1, 26, SIZE.pack(MANY)), (faults.LEGACY_LIMIT, MANY, 6)),
    Faulty("a v0 value over the end", changed(V0, 23, SIZE.pack(2)), (faults.LEGACY_LIMIT, 2, 1)),
    Faulty("a wrapper of magic -1", changed(wrapped(V1), 16, b"\xff"), (faults.WRAPPER_MAGIC, -1, 0)),
    Faulty("zstd in v1", changed(wrapped(V1), 17, b"\4"), (faults.WRAPPER_CODEC, 1, 0)),
    Faulty("zstd in v0", changed(wrapped(V0, magic=0), 17, b"\4"), (faults.WRAPPER_CODEC, 0, 0)),
    Faulty("a wrapper without value", NO_VALUE, (faults.WRAPPER_NULL, 1, 0)),
    Faulty("a wrapper's value over the end", changed(NO_VALUE, 30, SIZE.pack(MANY)), (faults.LEGACY_LIMIT, MANY, 0)),
    _wrapper("an empty wrapper", (faults.WRAPPER_EMPTY, 0, 0), b""),
    _wrapper("a wrapper of a cut message", (faults.WRAPPER_EMPTY, 0, 0), V1[:-1]),
    _wrapper("a wrapper's offset below its last message's", (faults.WRAPPER_OFFSET, 2, 3), V1, offset=2),
    _wrapper("an inner message of 13 bytes", (faults.INNER_SIZE, 13, 0), V1 + V1[:8] + SIZE.pack(13) + V1[12:]),
    _wrapper("an inner size below 0", (faults.INNER_SIZE, -1, 0), V1 + V1[:8] + SIZE.pack(-1) + V1[12:], magic=0),
    _wrapper("a compressed inner message", (faults.INNER_COMPRESSED, 0, 0), V1 + changed(V1, 17, b"\1"), 1),
    _wrapper("an inner message of codec 6", (faults.UNKNOWN_CODEC, 6, 0), V1 + changed(V1, 17, b"\6"), 1),
    _wrapper("an inner key over the end", (faults.LEGACY_LIMIT, 99, 6), V1 + changed(V1, 26, SIZE.pack(99)), 1),
    _wrapper("an inner message without lengths", (faults.OUT_OF_BOUNDS, 18, 14), V1 + mended(V1[:26]), 1),
]


def _control(name: str, fault: Fault, content: NewRecord) -> Faulty:
    return Faulty(name, encode_batch([content], NewBatch(attributes=CONTROL)), fault)


UNPRINTABLE = [
    Faulty("magic -1", changed(V1, 16, b"\xff"), (faults.LEGACY_MAGIC, -1, 0)),
    Faulty("magic -128", changed(V1, 16, b"\x80"), (faults.LEGACY_MAGIC, -128, 0)),
    _control("no control key", (faults.CONTROL_NO_KEY, 0, 0), NewRecord(0, 1, None, MARKER)),
    _control("a control key of 3 bytes", (faults.CONTROL_KEY_SIZE, 3, 0), NewRecord(0, 1, b"\0\0\0", MARKER)),
    _control("a control key of version -1", (faults.CONTROL_VERSION, -1, 0), control(1, MARKER, -1)),
    _control("no marker", (faults.MARKER_NO_VALUE, 0, 0), NewRecord(0, 1, bytes(4), None)),
    _control("a marker of 5 bytes", (faults.MARKER_SIZE, 5, 0), control(1, MARKER[:5])),
    _control("a marker of version -2", (faults.MARKER_VERSION, -2, 0), control(0, b"\xff\xfe" + MARKER[2:])),
]
"""What only printing finds."""
