"""Encode record batches (v2) and messages (v0, v1) from plain values: the other direction of what the kernels read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kdump.formats.batch import (
    CODEC_MASK,
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    wrap64,
)
from kdump.formats.checksums import crc32, crc32c
from kdump.formats.codecs import compress
from kdump.formats.message_set import CRC, LENGTH, MESSAGE_FRAME, TIMESTAMP

MASK64 = (1 << 64) - 1


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
    """A v2 batch of `records`, of which there must be one unless offsets and timestamps are given.

    `level` is the codec's compression level, None for Kafka's default.
    """
    batch = batch or NewBatch()
    base_offset = records[0].offset if batch.base_offset is None else batch.base_offset
    last_offset = records[-1].offset if batch.last_offset is None else batch.last_offset
    base_timestamp = records[0].timestamp if batch.base_timestamp is None else batch.base_timestamp
    max_timestamp = batch.max_timestamp
    if max_timestamp is None:
        max_timestamp = max(record.timestamp for record in records)
    payload = b"".join(_record(record, base_offset, base_timestamp) for record in records)
    codec = batch.attributes & CODEC_MASK
    if codec and records:
        payload = compress(codec, payload, level=level)
    data = bytearray(
        HEADER.pack(
            base_offset,
            HEADER_SIZE - LOG_OVERHEAD + len(payload),
            batch.leader_epoch,
            2,
            0,
            batch.attributes,
            last_offset - base_offset,
            base_timestamp,
            max_timestamp,
            batch.producer_id,
            batch.producer_epoch,
            batch.base_sequence,
            len(records),
        )
    )
    data += payload
    CRC.pack_into(data, 17, crc32c(memoryview(data)[CRC_START:]))
    return bytes(data)


def _record(record: NewRecord, base_offset: int, base_timestamp: int) -> bytes:
    body = b"".join(
        (
            b"\0",
            varint(wrap64(record.timestamp - base_timestamp)),
            varint(record.offset - base_offset),
            _sized(record.key),
            _sized(record.value),
            varint(len(record.headers)),
            *(_sized(part) for header in record.headers for part in header),
        )
    )
    return varint(len(body)) + body


def _sized(data: bytes | None) -> bytes:
    return b"\x01" if data is None else varint(len(data)) + data


def varint(value: int) -> bytes:
    """`value` zigzag-encoded, as a varint or (beyond 32 bits) a varlong."""
    rest = (value << 1 ^ value >> 63) & MASK64
    out = bytearray()
    while rest >= 0x80:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def encode_message(record: NewRecord, magic: int, attributes: int = 0) -> bytes:
    """A v0 or v1 message; headers are not in these formats and are left out."""
    body = bytearray(bytes((magic, attributes)))
    if magic:
        body += TIMESTAMP.pack(record.timestamp)
    for part in (record.key, record.value):
        body += LENGTH.pack(-1) if part is None else LENGTH.pack(len(part)) + part
    return MESSAGE_FRAME.pack(record.offset, len(body) + 4) + CRC.pack(crc32(body)) + body


def encode_wrapper(
    records: Iterable[NewRecord], magic: int, codec: int, append_time: int | None = None, *, level: int | None = None
) -> bytes:
    """A compressed v0 or v1 wrapper of `records`.

    `append_time` (ms) makes it a LogAppendTime wrapper: the messages inside keep the timestamps of their producer.
    `level` is the codec's compression level, None for Kafka's default.
    """
    inner = list(records)
    first = inner[0].offset if magic else 0
    payload = b"".join(encode_message(record._replace(offset=record.offset - first), magic) for record in inner)
    timestamp = max(record.timestamp for record in inner) if append_time is None else append_time
    wrapper = NewRecord(inner[-1].offset, timestamp, None, compress(codec, payload, magic=magic, level=level))
    return encode_message(wrapper, magic, codec | (0 if append_time is None else LOG_APPEND_TIME))
