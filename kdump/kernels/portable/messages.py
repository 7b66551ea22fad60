"""The messages of formats v0 and v1: single ones, those inside a wrapper, and where their parts are.

The rules, and the order in which they are checked, are those of Kafka's readers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kdump.blocks import BatchBlock
from kdump.formats import faults
from kdump.formats.batch import CODEC_MASK, LOG_APPEND_TIME, LOG_OVERHEAD, MIN_SIZE_FIELD, wrap64
from kdump.formats.checksums import crc32
from kdump.formats.codecs import NONE, ZSTD
from kdump.formats.faults import DamageError
from kdump.formats.message_set import (
    ATTRIBUTES_IN_MESSAGE,
    CRC,
    CRC_SIZE,
    LENGTH_SIZE,
    MAGIC_IN_MESSAGE,
    MESSAGE_FRAME,
    TIMESTAMP,
    TIMESTAMP_IN_MESSAGE,
    check_limit,
    key_size_at,
    length_at,
)

Source = bytes | bytearray
"""What positions are indexes into: a block's data, or the decompressed payload of a batch."""


class Message(NamedTuple):
    """One v0/v1 message: its absolute offset, its timestamp in ms as reported, and where it is in its source."""

    offset: int
    timestamp: int
    position: int  # of the CRC field
    size: int  # bytes from the CRC field on
    magic: int
    attributes: int


def messages(block: BatchBlock, row: int, payload: bytes | None) -> Iterator[Message]:
    """Yield the message of entry `row`, or those inside it when it is a wrapper. Raises the damage where it is met.

    What makes a wrapper unreadable as a whole is raised before the first message is given.
    """
    payload = payload or b""
    magic = block.magic[row]
    attributes = block.attributes[row]
    codec = attributes & CODEC_MASK
    if codec > ZSTD:
        raise DamageError(faults.UNKNOWN_CODEC, codec)
    if codec == NONE:
        start = block.position[row] - block.data_position + LOG_OVERHEAD
        size = block.size[row] - LOG_OVERHEAD
        yield Message(block.last_offset[row], block.max_timestamp[row], start, size, magic, attributes)
        return
    if magic < 0:
        raise DamageError(faults.WRAPPER_MAGIC, magic)
    if codec == ZSTD:
        raise DamageError(faults.WRAPPER_CODEC, magic)
    last = _last_offset(payload)
    shift = _offset_shift(block.last_offset[row], last) if magic == 1 else 0
    for message in _inner(block, row, payload):
        inner_codec = message.attributes & CODEC_MASK
        if inner_codec > ZSTD:
            raise DamageError(faults.UNKNOWN_CODEC, inner_codec)
        if inner_codec:
            raise DamageError(faults.INNER_COMPRESSED)
        yield message._replace(offset=wrap64(message.offset + shift))


def _offset_shift(wrapper_offset: int, last_inner: int) -> int:
    """Return what turns the relative offsets inside a v1 wrapper into absolute ones."""
    if wrapper_offset == 0:  # some librdkafka releases wrote 0 whatever was inside
        return 0
    if wrapper_offset < last_inner:
        raise DamageError(faults.WRAPPER_OFFSET, wrapper_offset, last_inner)
    return wrap64(wrapper_offset - last_inner)


def _inner(block: BatchBlock, row: int, payload: bytes) -> Iterator[Message]:
    """Yield the messages inside a wrapper, with the offsets as stored."""
    append_time = bool(block.attributes[row] & LOG_APPEND_TIME) and block.magic[row] > 0
    for offset, start, size in _frames(payload):
        magic = payload[start + MAGIC_IN_MESSAGE]
        magic -= (magic & 0x80) << 1
        timestamp = TIMESTAMP.unpack_from(payload, start + TIMESTAMP_IN_MESSAGE)[0] if magic else -1
        if magic == 1 and append_time:
            timestamp = block.max_timestamp[row]
        yield Message(offset, timestamp, start, size, magic, payload[start + ATTRIBUTES_IN_MESSAGE])


def _last_offset(payload: bytes) -> int:
    """Return the offset of the last message inside a wrapper, as stored."""
    last = None
    for frame in _frames(payload):
        last = frame
    if last is None:
        raise DamageError(faults.WRAPPER_EMPTY)
    return last[0]


def _frames(payload: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield offset as stored, position and size of every message in a wrapper; a last one cut short is left out."""
    position, end = 0, len(payload)
    while end - position >= LOG_OVERHEAD:
        offset, size = MESSAGE_FRAME.unpack_from(payload, position)
        if size < MIN_SIZE_FIELD:
            raise DamageError(faults.INNER_SIZE, size)
        start = position + LOG_OVERHEAD
        if size > end - start:
            return
        yield offset, start, size
        position = start + size


def message_key(source: Source, message: Message) -> tuple[int, int]:
    """Return position and declared length of a message's key."""
    at = key_size_at(message.magic)
    return message.position + at + LENGTH_SIZE, length_at(source, message.position, message.size, at)


def message_value(source: Source, message: Message, key_length: int) -> tuple[int, int]:
    """Return position and declared length of a message's value."""
    at = key_size_at(message.magic) + LENGTH_SIZE + max(0, key_length)
    return message.position + at + LENGTH_SIZE, length_at(source, message.position, message.size, at)


def check_message_limit(message: Message, position: int, length: int) -> None:
    """Refuse a declared length that runs over the end of the message."""
    check_limit(length, message.position + message.size - position)


def message_is_valid(source: Source, message: Message) -> bool:
    """Return whether the CRC of a message holds."""
    stored: int = CRC.unpack_from(source, message.position)[0]
    return crc32(memoryview(source)[message.position + CRC_SIZE : message.position + message.size]) == stored
