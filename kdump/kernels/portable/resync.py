"""Find where the next trustworthy entry may start behind damage."""

from __future__ import annotations

from kdump.formats.batch import (
    CODEC_MASK,
    FRAME,
    FRAME_SIZE,
    HEADER,
    HEADER_SIZE,
    KNOWN_ATTRIBUTES,
    LOG_OVERHEAD,
    MAGIC_AT,
    MIN_RECORD_SIZE,
    MIN_SIZE_FIELD,
)
from kdump.formats.codecs import LZ4, ZSTD
from kdump.formats.message_set import (
    KNOWN_ATTRIBUTES_V0,
    KNOWN_ATTRIBUTES_V1,
    LENGTH,
    LENGTH_SIZE,
    MESSAGE_AT,
    MESSAGE_ATTRIBUTES_AT,
    OVERHEAD_V0,
    OVERHEAD_V1,
    key_size_at,
)


def find_batch(data: bytes | bytearray, start: int, stop: int, left: int, lowest: int, highest: int) -> int:
    """Return index in `data[start:stop]` of the first entry whose header is plausible, or -1.

    `left` is how many bytes of the file there are from data[0] on (an entry must end within them); `lowest` and
    `highest` bound its offsets (absolute). Only headers that lie wholly before `stop` are looked at. The CRC is not:
    the caller walks the entry to learn whether it holds.
    """
    for index in range(start, stop - HEADER_SIZE + 1):
        magic = data[index + MAGIC_AT]
        if magic > 2:
            continue
        offset, size = FRAME.unpack_from(data, index)[:2]
        if not lowest <= offset <= highest or size < MIN_SIZE_FIELD or size + LOG_OVERHEAD > left - index:
            continue
        if _plausible_batch(data, index, highest) if magic == 2 else _plausible_message(data, index, stop, size, magic):
            return index
    return -1


def find_frame(data: bytes | bytearray, start: int, stop: int, left: int) -> int:
    """Return the index in `data[start:stop]` of the first entry with a size that fits and a known magic, or -1.

    `left` as for `find_batch`. Nothing else of the header is looked at, nor the CRC.
    """
    for index in range(start, stop - FRAME_SIZE + 1):
        if data[index + MAGIC_AT] <= 2:
            size = FRAME.unpack_from(data, index)[1]
            if MIN_SIZE_FIELD <= size <= left - index - LOG_OVERHEAD:
                return index
    return -1


def _plausible_batch(data: bytes | bytearray, index: int, highest: int) -> bool:
    fields: tuple[int, ...] = HEADER.unpack_from(data, index)
    offset, size, _, _, _, attributes, delta, _, _, producer, epoch, sequence, count = fields
    room = size + LOG_OVERHEAD - HEADER_SIZE
    return (
        room >= 0
        and attributes & ~KNOWN_ATTRIBUTES == 0
        and attributes & CODEC_MASK <= ZSTD
        and 0 <= delta <= highest - offset
        and 0 <= count <= delta + 1
        and (attributes & CODEC_MASK != 0 or count * MIN_RECORD_SIZE <= room)
        and producer >= -1
        and epoch >= -1
        and sequence >= -1
    )


def _plausible_message(data: bytes | bytearray, index: int, stop: int, size: int, magic: int) -> bool:
    attributes = data[index + MESSAGE_ATTRIBUTES_AT]
    known = KNOWN_ATTRIBUTES_V1 if magic else KNOWN_ATTRIBUTES_V0
    if attributes & ~known or attributes & CODEC_MASK > LZ4:
        return False
    overhead = OVERHEAD_V1 if magic else OVERHEAD_V0
    at = index + MESSAGE_AT + key_size_at(magic)
    key_length: int = LENGTH.unpack_from(data, at)[0]
    value_room = size - overhead - max(0, key_length)
    if key_length < -1 or value_room < 0:
        return False
    at += LENGTH_SIZE + max(0, key_length)
    if at + LENGTH_SIZE > stop:
        return True
    value_length: int = LENGTH.unpack_from(data, at)[0]
    return max(0, value_length) == value_room
