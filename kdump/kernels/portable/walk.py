"""Walk a buffer of a log entry by entry into a BatchBlock, checking every CRC on the way."""

from __future__ import annotations

from kdump.blocks import BatchBlock
from kdump.formats.batch import (
    CODEC_MASK,
    CONTROL,
    CRC_START,
    FRAME,
    FRAME_SIZE,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MIN_SIZE_FIELD,
    wrap64,
)
from kdump.formats.checksums import crc32
from kdump.formats.checksums import library_crc32c as crc32c
from kdump.formats.faults import BLOCK_FULL, END, NEED_BYTES, PARTIAL, SHORT_HEADER, UNDERSIZED
from kdump.formats.message_set import (
    CRC,
    MESSAGE_AT,
    MESSAGE_ATTRIBUTES_AT,
    MESSAGE_CRC_START,
    MESSAGE_TIMESTAMP_AT,
    TIMESTAMP,
)


def walk(block: BatchBlock, position: int, end: int, file_end: int, row: int = 0) -> int:
    """Fill `block` with the entries from byte `position` of the file on; return why it stopped (also in `status`).

    The rows before `row` stay as they are.

    The bytes come from `block.data[:block.available]`, which starts at file position `block.data_position`. `end` is
    where the log ends for this walk, `file_end` where the file does (a header may be read up to there). The rules for
    the end of a log are those of Kafka's file iterator.
    """
    if not 0 <= row < block.capacity:
        raise ValueError("the row is not inside the block")
    block.length = row
    while True:
        status = _next(block, position, end, file_end)
        if status:
            break
        position += block.size[block.length]
        block.length += 1
        if block.length == block.capacity:
            status = BLOCK_FULL
            break
    block.packed = sum(1 for attributes in block.attributes[: block.length] if attributes & CODEC_MASK)
    block.controls = sum(1 for attributes in block.attributes[: block.length] if attributes & CONTROL)
    block.next_position = position
    block.status = status
    return status


def skip_entries(data: bytes | bytearray, start: int, stop: int, end: int) -> int:
    """Return index in `data` behind the last of the ordinary entries from index `start` on that begin before `stop`.

    These follow one another and end by index `end`, which may lie behind the data; CRCs are not looked at. Not ordinary
    is an entry with a size field too small for its magic's header. `data` must go on for a frame behind `stop`.
    """
    if start < 0 or stop > len(data) - FRAME_SIZE:
        raise ValueError("the range is not inside the data")
    at = start
    while at < stop:
        _, size, _, magic = FRAME.unpack_from(data, at)
        total = size + LOG_OVERHEAD
        if total < (HEADER_SIZE if magic >= 2 else MIN_SIZE_FIELD + LOG_OVERHEAD) or at > end - total:
            break
        at += total
    return at


def _next(block: BatchBlock, position: int, end: int, file_end: int) -> int:
    """Read the entry at `position` into the block's next row: 0, or why it cannot be."""
    if position >= end - FRAME_SIZE:
        return END
    at = position - block.data_position
    if at + FRAME_SIZE > block.available:
        block.needed = FRAME_SIZE
        return NEED_BYTES
    _, size, _, magic = FRAME.unpack_from(block.data, at)
    if size < MIN_SIZE_FIELD:
        block.bad_size = size
        return UNDERSIZED
    if position > end - LOG_OVERHEAD - size:
        return PARTIAL
    needed = size + LOG_OVERHEAD
    if magic >= 2 and needed < HEADER_SIZE:
        needed = HEADER_SIZE
        if position + needed > file_end:
            return SHORT_HEADER
    if at + needed > block.available:
        block.needed = needed
        return NEED_BYTES
    put_header(block, block.length, position)
    block.valid[block.length] = _is_valid(block, at, size + LOG_OVERHEAD, magic, block.crc[block.length])
    return 0


def _is_valid(block: BatchBlock, at: int, size: int, magic: int, crc: int) -> bool:
    view = memoryview(block.data)
    if magic < 2:
        return crc32(view[at + MESSAGE_CRC_START : at + size]) == crc
    return size >= HEADER_SIZE and crc32c(view[at + CRC_START : at + size]) == crc


def put_header(block: BatchBlock, row: int, position: int) -> None:
    """Fill row `row` with the header of the entry at `position`, `valid` apart; its header must be in `data`."""
    at = position - block.data_position
    offset, size, epoch, magic = FRAME.unpack_from(block.data, at)
    block.position[row] = position
    block.size[row] = size + LOG_OVERHEAD
    block.magic[row] = magic
    if magic >= 2:
        _put_batch(block, row, at, epoch)
    else:
        _put_message(block, row, at, offset, magic)


def _put_batch(block: BatchBlock, row: int, at: int, leader_epoch: int) -> None:
    fields = HEADER.unpack_from(block.data, at)
    base_offset, _, _, _, crc, attributes, delta, base_timestamp, max_timestamp = fields[:9]
    producer_id, producer_epoch, base_sequence, count = fields[9:]
    block.leader_epoch[row] = leader_epoch
    block.base_offset[row] = base_offset
    block.last_offset[row] = wrap64(base_offset + delta)
    block.attributes[row] = attributes & 0xFFFF
    block.crc[row] = crc
    block.base_timestamp[row] = base_timestamp
    block.max_timestamp[row] = max_timestamp
    block.producer_id[row] = producer_id
    block.producer_epoch[row] = producer_epoch
    block.base_sequence[row] = base_sequence
    block.count[row] = count


def _put_message(block: BatchBlock, row: int, at: int, offset: int, magic: int) -> None:
    attributes = block.data[at + MESSAGE_ATTRIBUTES_AT]
    plain = attributes & CODEC_MASK == 0
    timestamp = TIMESTAMP.unpack_from(block.data, at + MESSAGE_TIMESTAMP_AT)[0] if magic else -1
    crc = CRC.unpack_from(block.data, at + MESSAGE_AT)[0]
    block.base_offset[row] = offset if plain else -1
    block.last_offset[row] = offset
    block.attributes[row] = attributes
    block.crc[row] = crc
    block.base_timestamp[row] = block.max_timestamp[row] = timestamp
    block.producer_id[row] = block.producer_epoch[row] = block.base_sequence[row] = block.leader_epoch[row] = -1
    block.count[row] = 1 if plain else -1
