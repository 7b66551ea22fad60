"""Write a batch again without the records that go: the header's fields, and the records of older formats."""

from __future__ import annotations

from collections.abc import Iterator

from kdump import kernels
from kdump.blocks import BatchBlock
from kdump.clean.new_segment import NO_TIMESTAMP, Written
from kdump.formats.batch import (
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    MAGIC_AT,
    TRANSACTIONAL,
)
from kdump.formats.encode import NewBatch, NewRecord, encode_wrapper, frame_batch
from kdump.formats.message_set import MESSAGE_AT, MESSAGE_FRAME
from kdump.storage.decoded import DecodedRows

_CARRIED = CODEC_MASK | LOG_APPEND_TIME | TRANSACTIONAL | CONTROL
"""The attributes that a batch written again has from the old one."""


def rebuilt(
    batches: DecodedRows,
    row: int,
    numbers: range,
    verdicts: bytearray,
    count: int,
    horizon: int | None,
    *,
    converts: bool,
) -> tuple[bytes | bytearray, Written]:
    """Return a batch with those of its records, which have these `numbers`, that stay: `count`, at least one.

    `horizon` (ms) is set as its delete horizon. A batch of format v0 or v1 becomes one of v2 if `converts`; else
    it keeps its format, and has no horizon.
    """
    block, records = batches.block, batches.records
    if block.magic[row] < 2 and not converts:
        return _rebuilt_legacy(batches, row, [at for at in numbers if verdicts[at] & 1])
    last = numbers.stop - 1
    while not verdicts[last] & 1:
        last -= 1
    last_kept = records.offset[last]
    if block.magic[row] < 2:
        base_offset = records.offset[next(at for at in numbers if verdicts[at] & 1)]
        last_offset = last_kept
        attributes = block.attributes[row] & (CODEC_MASK | LOG_APPEND_TIME if block.magic[row] else CODEC_MASK)
    else:
        base_offset, last_offset = block.base_offset[row], block.last_offset[row]
        attributes = block.attributes[row] & _CARRIED
    if horizon is not None:
        attributes |= DELETE_HORIZON
    data, base_timestamp, max_timestamp = kernels.encode_kept(
        block, records, numbers.start, numbers.stop, verdicts, batches.payload(row), base_offset, horizon
    )
    if attributes & LOG_APPEND_TIME:
        max_timestamp = block.max_timestamp[row]
    data = frame_batch(
        data, _header(block, row, attributes, base_offset, last_offset, base_timestamp, max_timestamp), count
    )
    return data, Written(len(data), last_kept, max_timestamp, last_offset)


def unchanged(block: BatchBlock, row: int) -> tuple[bytes | bytearray, Written, int]:
    """Return a batch as it is: the bytes that have it from the number on that is the last part."""
    at, size = block.position[row] - block.data_position, block.size[row]
    offset = block.last_offset[row]
    return block.data, Written(size, offset, block.max_timestamp[row], offset), at


def emptied(block: BatchBlock, row: int) -> tuple[bytearray, Written]:
    """Return the header alone of a v2 batch: what it says of producer, sequence, offsets and time stays."""
    attributes, max_timestamp = block.attributes[row] & _CARRIED & ~CODEC_MASK, block.max_timestamp[row]
    base_offset, last_offset = block.base_offset[row], block.last_offset[row]
    header = _header(block, row, attributes, base_offset, last_offset, NO_TIMESTAMP, max_timestamp)
    data = frame_batch(bytearray(HEADER_SIZE), header, 0)
    return data, Written(len(data), last_offset, max_timestamp, last_offset)


def _header(block: BatchBlock, row: int, attributes: int, *bounds: int | None) -> NewBatch:
    """Return a header with these offsets and timestamps, which says of producer and epochs what the old one does."""
    producer = block.producer_id[row], block.producer_epoch[row], block.base_sequence[row]
    return NewBatch(attributes, *producer, block.leader_epoch[row], *bounds)


def _rebuilt_legacy(batches: DecodedRows, row: int, kept: list[int]) -> tuple[bytes, Written]:
    """Return a wrapper in its own format; a single message stays as it is, or goes."""
    block = batches.block
    magic, attributes = block.magic[row], block.attributes[row]
    codec = attributes & CODEC_MASK
    append_time = attributes & LOG_APPEND_TIME if magic else 0
    inner = [_new_record(batches, row, at) for at in kept]
    timestamp = block.max_timestamp[row] if append_time else max(record.timestamp for record in inner)
    last = inner[-1].offset
    data = encode_wrapper(inner, magic, codec, timestamp if append_time else None, attributes=append_time)
    return data, Written(len(data), last, timestamp, last)


def _new_record(batches: DecodedRows, row: int, at: int) -> NewRecord:
    records, source = batches.records, batches.source_of(row)
    key, value = (
        bytes(source[position : position + length]) if length >= 0 else None
        for position, length in (
            (records.key_position[at], records.key_length[at]),
            (records.value_position[at], records.value_length[at]),
        )
    )
    return NewRecord(records.offset[at], records.timestamp[at], key, value)


def mixes_formats(batches: DecodedRows, row: int) -> bool:
    """Return whether a batch is a wrapper that holds messages of another format, as some old cleaners wrote them."""
    magic, payload = batches.block.magic[row], batches.payload(row)
    return magic < 2 and payload is not None and any(inner != magic for inner in _inner_magics(payload))


def _inner_magics(payload: bytes) -> Iterator[int]:
    position = 0
    while position + MESSAGE_AT < len(payload):
        _, size = MESSAGE_FRAME.unpack_from(payload, position)
        if position + MAGIC_AT < len(payload):
            yield payload[position + MAGIC_AT]
        position += MESSAGE_AT + max(0, size)
