"""Encode record batches (v2) and messages (v0, v1) from plain values: the other direction of what the kernels read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kdump.errors import InvalidRecordError
from kdump.formats.batch import (
    CODEC_MASK,
    CRC_AT,
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    wrap64,
)
from kdump.formats.checksums import crc32, crc32c
from kdump.formats.codecs import compress
from kdump.formats.message_set import CRC, CRC_SIZE, LENGTH, MESSAGE_FRAME, TIMESTAMP

MASK64 = (1 << 64) - 1
MAX_BYTES = (1 << 31) - 1


class NewRecord(NamedTuple):
    """A record to be written: absolute offset, timestamp in ms, contents (None: null)."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[bytes, bytes | None]] = ()


class NewBatch(NamedTuple):
    """What a v2 batch's header says beyond what its records tell; -1 where there is nothing to say.

    `attributes` as in formats.batch, the codec in its lowest bits; `base_timestamp` and `max_timestamp` (ms),
    `base_offset` and `last_offset` (absolute) are those of the records unless given.
    """

    attributes: int = 0
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    leader_epoch: int = -1
    base_offset: int | None = None
    last_offset: int | None = None
    base_timestamp: int | None = None
    max_timestamp: int | None = None


def encode_batch(records: Sequence[NewRecord], batch: NewBatch | None = None, *, level: int | None = None) -> bytes:
    """Return a v2 batch of `records`, of which there must be one unless offsets and timestamps are given.

    `level` is the codec's compression level, None for Kafka's default.
    """
    batch = batch or NewBatch()
    base_offset = records[0].offset if batch.base_offset is None else batch.base_offset
    base_timestamp = records[0].timestamp if batch.base_timestamp is None else batch.base_timestamp
    data = bytearray(HEADER_SIZE)
    for record in records:
        data += encode_record(record, base_offset, base_timestamp)
    header = batch._replace(
        base_offset=base_offset,
        last_offset=records[-1].offset if batch.last_offset is None else batch.last_offset,
        base_timestamp=base_timestamp,
        max_timestamp=(
            max(record.timestamp for record in records) if batch.max_timestamp is None else batch.max_timestamp
        ),
    )
    return bytes(frame_batch(data, header, len(records), level=level))


def frame_batch(data: bytearray, batch: NewBatch, count: int, *, level: int | None = None) -> bytearray:
    """Return the v2 batch of `count` records that `data` has encoded behind `HEADER_SIZE` bytes of any content.

    All fields of `batch` must be given. `data` itself is what comes back unless the attributes name a codec.
    Raises InvalidRecordError for a batch of 2 GiB or more, CodecError.
    """
    codec = batch.attributes & CODEC_MASK
    if codec and count:
        data = bytearray(HEADER_SIZE) + compress(codec, memoryview(data)[HEADER_SIZE:], level=level)
    if len(data) > MAX_BYTES:
        raise InvalidRecordError(f"A batch of {len(data)} bytes is larger than its size field can tell")
    base_offset, last_offset = batch.base_offset or 0, batch.last_offset or 0
    HEADER.pack_into(
        data,
        0,
        base_offset,
        len(data) - LOG_OVERHEAD,
        batch.leader_epoch,
        2,
        0,
        batch.attributes,
        last_offset - base_offset,
        batch.base_timestamp,
        batch.max_timestamp,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        count,
    )
    CRC.pack_into(data, CRC_AT, crc32c(memoryview(data)[CRC_START:]))
    return data


def encode_record(record: NewRecord, base_offset: int, base_timestamp: int) -> bytes:
    """Return a v2 record in a batch with this base offset (absolute) and base timestamp (ms)."""
    _, timestamp, key, value, headers = record
    parts = [
        b"\0",
        varint(wrap64(timestamp - base_timestamp)),
        varint(record.offset - base_offset),
        b"\x01" if key is None else varint(len(key)) + key,
        b"\x01" if value is None else varint(len(value)) + value,
        varint(len(headers)),
    ]
    if headers:
        parts.append(encode_headers(headers))
    body = b"".join(parts)
    return varint(len(body)) + body


def encode_headers(headers: Iterable[tuple[bytes, bytes | None]]) -> bytes:
    """Return the headers of a v2 record, without their count."""
    return b"".join(b"\x01" if part is None else varint(len(part)) + part for header in headers for part in header)


_FIRST_LARGE = 64
_SMALL = tuple(bytes((number << 1,)) for number in range(_FIRST_LARGE))


def varint(value: int) -> bytes:
    """Return `value` zigzag-encoded, as a varint or (beyond 32 bits) a varlong."""
    if 0 <= value < _FIRST_LARGE:
        return _SMALL[value]
    rest = (value << 1 ^ value >> 63) & MASK64
    if 0x80 <= rest < 1 << 14:
        return bytes((rest & 0x7F | 0x80, rest >> 7))
    out = bytearray()
    while rest >= 0x80:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def read_varint(data: bytes | bytearray, at: int, most: int, *, zigzag: bool = True) -> tuple[int, int]:
    """Return the varint of up to `most` bytes at a position, and the position behind it.

    Raises IndexError where it is cut or longer.
    """
    value = 0
    for number, byte in enumerate(data[at : at + most]):
        value |= (byte & 0x7F) << 7 * number
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1) if zigzag else value, at + number + 1
    raise IndexError


def encode_message(record: NewRecord, magic: int, attributes: int = 0) -> bytes:
    """Return a v0 or v1 message; headers are not in these formats and are left out."""
    body = bytearray(bytes((magic, attributes)))
    if magic:
        body += TIMESTAMP.pack(record.timestamp)
    for part in (record.key, record.value):
        body += LENGTH.pack(-1) if part is None else LENGTH.pack(len(part)) + part
    return MESSAGE_FRAME.pack(record.offset, len(body) + CRC_SIZE) + CRC.pack(crc32(body)) + body


def encode_wrapper(
    records: Iterable[NewRecord], magic: int, codec: int, append_time: int | None = None, *,
    attributes: int = 0, level: int | None = None,
) -> bytes:  # fmt: skip
    """Return a compressed v0 or v1 wrapper of `records`.

    `append_time` (ms) makes it a LogAppendTime wrapper: the messages inside keep the timestamps of their producer.
    `attributes` are those of the messages inside. `level` is the codec's compression level, None for Kafka's default.
    """
    inner = list(records)
    first = inner[0].offset if magic else 0
    payload = b"".join(encode_message(each._replace(offset=each.offset - first), magic, attributes) for each in inner)
    timestamp = max(record.timestamp for record in inner) if append_time is None else append_time
    wrapper = NewRecord(inner[-1].offset, timestamp, None, compress(codec, payload, magic=magic, level=level))
    return encode_message(wrapper, magic, codec | (0 if append_time is None else LOG_APPEND_TIME))
