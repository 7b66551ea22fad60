"""Decode the records of the batches of a BatchBlock into a RecordBlock.

`payloads[row - first]` is the decompressed payload of a compressed batch, None for any other. The rules, and the order
in which they are checked, are those of Kafka's readers: an uncompressed v2 record may be read up to the end of its
batch before its declared length is compared, a compressed one is confined to its declared length, and every
compressed batch counts as damaged as a whole (`check`) because Kafka decodes it before it hands out a record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kdump.blocks import BatchBlock, RecordBlock, content_at
from kdump.formats import faults
from kdump.formats.batch import CODEC_MASK, HEADER_SIZE, LOG_APPEND_TIME, wrap64
from kdump.formats.faults import DamageError, Fault
from kdump.formats.message_set import CRC
from kdump.formats.sequences import increment_sequence
from kdump.kernels.portable.messages import (
    Message,
    Source,
    check_message_limit,
    message_is_valid,
    message_key,
    message_value,
    messages,
)

Payloads = Sequence[bytes | None]


class Record(NamedTuple):
    """One record: absolute offset, timestamp in ms, and where its parts are in the batch's source."""

    offset: int
    timestamp: int
    sequence: int
    key_position: int
    key_length: int
    value_position: int
    value_length: int
    headers_position: int
    headers_count: int
    attributes: int = 0


class _EndError(Exception):
    """A varint runs over the end of its buffer; `value` and `bits` are what there was of it."""

    def __init__(self, value: int = 0, bits: int = 0) -> None:
        self.value = value
        self.bits = bits


def decode(block: BatchBlock, records: RecordBlock, first: int, stop: int, payloads: Payloads) -> bool:
    """Fill `records` from its cursor on with the records of the batches before row `stop`.

    `payloads` starts at row `first`. Returns whether the block filled up before everything was decoded: then call
    again. Stops at the first damaged batch with `records.fault` set and the cursor on that batch; the records before
    the damage are in the block.
    """
    records.length = 0
    records.flagged = -1
    records.fault = None
    row = records.next_row
    while row < stop:
        source = payloads[row - first]
        try:
            full = _decode_batch(block, records, row, source)
        except DamageError as damage:
            records.fault = damage.fault
            records.next_row = row
            return False
        if full:
            records.next_row = row
            return True
        row += 1
        records.seek(row)
    records.next_row = row
    return False


def reason_of_fault(block: BatchBlock, row: int, payload: bytes | None) -> Fault | None:
    """Return the length or varint behind a fault STRUCTURE or PREMATURE_END of v2 `row`; None if bytes just end."""
    try:
        for _ in batch_records(block, row, payload):
            pass
    except DamageError as damage:
        reason = damage.__cause__
        return reason.fault if isinstance(reason, DamageError) else None
    return None


def check(block: BatchBlock, row: int, payload: bytes | None) -> Fault | None:
    """Return the damage that reading all records of batch `row` meets first, or None."""
    try:
        if block.magic[row] >= 2:
            for _ in batch_records(block, row, payload):
                pass
        else:
            for message in messages(block, row, payload):
                message_record(source_of(block, row, payload), message)
    except DamageError as damage:
        return damage.fault
    return None


def largest_message_timestamp(block: BatchBlock, row: int, payload: bytes | None) -> tuple[int, Fault | None]:
    """Return the largest timestamp (ms) of entry `row`, at least -1; of keys and values only the frames are read."""
    try:
        return max((message.timestamp for message in messages(block, row, payload)), default=-1), None
    except DamageError as damage:
        return -1, damage.fault


def _decode_batch(block: BatchBlock, records: RecordBlock, row: int, payload: bytes | None) -> bool:
    """Add the records of one batch from the cursor on; whether the block is full before its end."""
    if block.magic[row] < 2:
        return _decode_messages(block, records, row, payload)
    payload = _given(block, row, payload)
    for record, position in _batch_records_from(block, row, payload, records.next_index, records.next_position):
        if records.length == records.capacity:
            return True
        if record.attributes and records.flagged < 0:
            records.flagged = records.length
        _put(records, row, record)
        records.next_index += 1
        records.next_position = position
    return False


def _decode_messages(block: BatchBlock, records: RecordBlock, row: int, payload: bytes | None) -> bool:
    source = source_of(block, row, payload)
    for index, message in enumerate(messages(block, row, payload)):
        if index < records.next_index:
            continue
        if records.length == records.capacity:
            return True
        at = records.length
        _put(records, row, message_record(source, message))
        records.crc[at] = CRC.unpack_from(source, message.position)[0]
        records.valid[at] = message_is_valid(source, message)
        records.next_index += 1
    return False


def message_record(source: Source, message: Message) -> Record:
    """Return the record that a v0/v1 message is. Raises DamageError where a key or value runs over its end."""
    key_position, key_length = message_key(source, message)
    check_message_limit(message, key_position, key_length)
    value_position, value_length = message_value(source, message, key_length)
    check_message_limit(message, value_position, value_length)
    return Record(
        message.offset,
        message.timestamp,
        -1,
        key_position,
        max(key_length, -1),
        value_position,
        max(value_length, -1),
        0,
        0,
    )


def _put(records: RecordBlock, row: int, record: Record) -> None:
    at = records.length
    records.row[at] = row
    records.offset[at] = record.offset
    records.timestamp[at] = record.timestamp
    records.sequence[at] = record.sequence
    records.key_position[at] = record.key_position
    records.key_length[at] = record.key_length
    records.value_position[at] = record.value_position
    records.value_length[at] = record.value_length
    records.headers_position[at] = record.headers_position
    records.headers_count[at] = record.headers_count
    records.crc[at] = 0
    records.valid[at] = 1
    records.length += 1


def source_of(block: BatchBlock, row: int, payload: bytes | None) -> Source:
    """Return what the positions in the records of batch `row` are indexes into."""
    payload = _given(block, row, payload)
    return block.data if payload is None else payload


def batch_records(block: BatchBlock, row: int, payload: bytes | None) -> Iterator[Record]:
    """Yield the records of v2 batch `row`. Raises the damage where it is met."""
    for record, _ in _batch_records_from(block, row, _given(block, row, payload), 0, 0):
        yield record


def _given(block: BatchBlock, row: int, payload: bytes | None) -> bytes | None:
    """Return the payload of batch `row`: an empty one where a compressed batch comes without."""
    return b"" if payload is None and block.attributes[row] & CODEC_MASK else payload


def _batch_records_from(
    block: BatchBlock, row: int, payload: bytes | None, index: int, position: int
) -> Iterator[tuple[Record, int]]:
    """Yield records from number `index` on, at `position` of the source (0: the first), and its end."""
    if block.size[row] < HEADER_SIZE:
        raise DamageError(faults.OUT_OF_BOUNDS, HEADER_SIZE, block.size[row])
    count = block.count[row]
    if count < 0:
        raise DamageError(faults.NEGATIVE_COUNT, count, block.magic[row])
    if payload is None:
        start = block.position[row] - block.data_position
        source: Source = block.data
        position = position or start + HEADER_SIZE
        end = start + block.size[row]
    else:
        source = payload
        end = len(payload)
    append_time = bool(block.attributes[row] & LOG_APPEND_TIME)
    base_timestamp = block.max_timestamp[row] if append_time else block.base_timestamp[row]
    while index < count:
        record, position = _record(source, position, end, payload is not None)
        index += 1
        if index == count and position < end:
            raise DamageError(faults.RECORDS_REMAIN)
        yield _placed(record, block.base_offset[row], base_timestamp, append_time, block.base_sequence[row]), position


def _placed(record: Record, base_offset: int, base_timestamp: int, append_time: bool, base_sequence: int) -> Record:
    """Return a record with its deltas made absolute."""
    return record._replace(
        offset=wrap64(base_offset + record.offset),
        timestamp=base_timestamp if append_time else wrap64(base_timestamp + record.timestamp),
        sequence=increment_sequence(base_sequence, record.offset) if base_sequence >= 0 else -1,
    )


def _record(source: Source, position: int, end: int, confined: bool) -> tuple[Record, int]:
    """Return one record with its deltas still relative, and where the next one starts."""
    try:
        size, start = _varint(source, position, end)
    except _EndError as cut:
        # Kafka's stream over a decompressed payload gives bytes of ones behind its end
        reason = _TooLongError(faults.VARINT_LONG, (cut.value | -1 << cut.bits) & 0xFFFF_FFFF) if confined else None
        raise DamageError(faults.PREMATURE_END) from reason
    if confined and size < 0:
        raise DamageError(faults.NEGATIVE_SIZE, size)
    if end - start < size:
        raise DamageError(faults.RECORD_EOF if confined else faults.RECORD_BEYOND, size, end - start)
    if confined:
        end = start + size
    try:
        record, position = _record_body(source, start, end)
    except (_EndError, _TooLongError, _BeyondError) as reason:
        raise DamageError(faults.STRUCTURE) from reason
    if position - start != size:
        raise DamageError(faults.RECORD_SIZE, size, position - start)
    return record, position


def _record_body(source: Source, position: int, end: int) -> tuple[Record, int]:
    if position >= end:
        raise _EndError
    attributes = source[position]
    timestamp_delta, position = _varlong(source, position + 1, end)
    offset_delta, position = _varint(source, position, end)
    key_position, key_length, position = _sized(source, position, end)
    value_position, value_length, position = _sized(source, position, end)
    count, position = _varint(source, position, end)
    if count < 0:
        raise DamageError(faults.HEADER_COUNT, count)
    if count > end - position:
        raise DamageError(faults.HEADER_COUNT_BEYOND, count)
    headers_position = position
    for _ in range(count):
        length, position = _varint(source, position, end)
        if length < 0:
            raise DamageError(faults.HEADER_KEY_SIZE, length)
        position = _skip(position, length, end)
        _, _, position = _sized(source, position, end)
    record = Record(
        offset_delta,
        timestamp_delta,
        -1,
        key_position,
        key_length,
        value_position,
        value_length,
        headers_position,
        count,
        attributes,
    )
    return record, position


def _sized(source: Source, position: int, end: int) -> tuple[int, int, int]:
    """Return position and length (-1 null) of the bytes behind a varint length, and where they end."""
    length, position = _varint(source, position, end)
    if length < 0:
        return position, -1, position
    return position, length, _skip(position, length, end)


def _skip(position: int, length: int, end: int) -> int:
    if length > end - position:
        raise _BeyondError(faults.LEGACY_LIMIT, length, end - position)
    return position + length


class _BeyondError(DamageError):
    """A length that runs over the end of its buffer."""


class _TooLongError(DamageError):
    """A varint of more than five bytes (ten for a varlong)."""


def _varint(source: Source, position: int, end: int) -> tuple[int, int]:
    value, position = _unsigned(source, position, end, 5)
    value &= 0xFFFF_FFFF
    return (value >> 1) ^ -(value & 1), position


def _varlong(source: Source, position: int, end: int) -> tuple[int, int]:
    value, position = _unsigned(source, position, end, 10)
    value &= (1 << 64) - 1
    return (value >> 1) ^ -(value & 1), position


def _unsigned(source: Source, position: int, end: int, most: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if position >= end:
            raise _EndError(value, shift)
        byte = source[position]
        position += 1
        if shift == 7 * (most - 1) and byte & 0x80:
            # Java keeps the sign extension of the last byte when it reports the value
            raise _TooLongError(faults.VARINT_LONG, (value | byte - 256 << shift) & 0xFFFF_FFFF)
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, position


def headers(source: Source, position: int, count: int) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield name and value of the `count` headers at `position` of a source that was decoded before."""
    end = len(source)
    for _ in range(count):
        name_position, name_length, position = _sized(source, position, end)
        value_position, value_length, position = _sized(source, position, end)
        name = bytes(source[name_position : name_position + name_length])
        yield name, content_at(source, value_position, value_length)
