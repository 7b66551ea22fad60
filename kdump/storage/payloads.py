"""Decompress the payloads of a range of batches, ready for the kernels."""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from kdump.blocks import BatchBlock
from kdump.errors import CodecMemoryError, KdumpError
from kdump.formats import faults
from kdump.formats.batch import CODEC_MASK, HEADER_SIZE, LOG_OVERHEAD
from kdump.formats.codecs import DEFAULT_LIMIT, ZSTD, decompress
from kdump.formats.faults import DamageError, Fault, fault_error
from kdump.formats.message_set import LENGTH_SIZE, check_limit, key_size_at, length_at

RANGE_BYTES = 128 << 10
"""Decompressed bytes after which a range ends: what is kept is still in the cache when it is used (128 KiB measured
best), and memory stays flat however well a log compresses."""


class Payloads(NamedTuple):
    """Payloads of the rows from `first` to `stop` - 1; None for an uncompressed batch.

    Where a payload cannot be had its row is the range's last, its payload None, and `error` says why; `fault` says it
    as Kafka's readers do, where they do not get as far as the codec.
    """

    first: int
    stop: int
    payloads: list[bytes | None]
    error: KdumpError | None = None
    fault: Fault | None = None


def inflate(block: BatchBlock, first: int, stop: int | None = None, limit: int = DEFAULT_LIMIT) -> Payloads:
    """Decompress the batches from row `first` on, up to `stop` or until `RANGE_BYTES` are reached.

    `limit` bounds the decompressed bytes of one batch. Every row must be held by the block.
    """
    stop = block.length if stop is None else stop
    if not block.packed:
        return Payloads(first, stop, [None] * (stop - first))
    payloads: list[bytes | None] = []
    total = 0
    for row, attributes in enumerate(block.attributes[first:stop], first):
        if not attributes & CODEC_MASK:
            payloads.append(None)
            continue
        try:
            payload = payload_of(block, row, limit)
        except DamageError as damage:
            return Payloads(first, row + 1, [*payloads, None], fault_error(damage.fault), damage.fault)
        except KdumpError as error:  # without its traceback, which holds on to what was decompressed
            return Payloads(first, row + 1, [*payloads, None], error.with_traceback(None))
        payloads.append(payload)
        total += len(payload)
        if total >= RANGE_BYTES:
            return Payloads(first, row + 1, payloads)
    return Payloads(first, stop, payloads)


def payload_of(block: BatchBlock, row: int, limit: int = DEFAULT_LIMIT) -> bytes:
    """Return the decompressed payload of one compressed batch. Raises DamageError or CodecError."""
    codec, packed = packed_payload(block, row)
    if block.magic[row] >= 2 and block.count[row] == 0:  # Kafka's readers do not open the payload then
        return b""
    with suppress(MemoryError):
        return decompress(codec, packed, magic=block.magic[row], limit=limit)
    # raised here, because an error's context holds on to what was decompressed
    raise CodecMemoryError("There is not enough memory for what the payload decompresses to")


def packed_payload(block: BatchBlock, row: int) -> tuple[int, memoryview]:
    """Return the codec and the payload of one compressed batch as it is on disk. Raises DamageError."""
    codec = block.attributes[row] & CODEC_MASK
    if codec > ZSTD:
        raise DamageError(faults.UNKNOWN_CODEC, codec)
    at = block.position[row] - block.data_position
    end = at + block.size[row]
    if block.magic[row] < 2:
        at, end = _wrapper_value(block, row, at + LOG_OVERHEAD, codec)
    elif block.size[row] < HEADER_SIZE:
        raise DamageError(faults.OUT_OF_BOUNDS, HEADER_SIZE, block.size[row])
    else:
        at += HEADER_SIZE
    return codec, memoryview(block.data)[at:end]


def _wrapper_value(block: BatchBlock, row: int, message: int, codec: int) -> tuple[int, int]:
    """Return where the value of a v0/v1 wrapper starts and ends in the block's data."""
    magic = block.magic[row]
    if magic < 0:
        raise DamageError(faults.WRAPPER_MAGIC, magic)
    if codec == ZSTD:
        raise DamageError(faults.WRAPPER_CODEC, magic)
    size = block.size[row] - LOG_OVERHEAD
    at = key_size_at(magic)
    at += LENGTH_SIZE + max(0, length_at(block.data, message, size, at))
    length = length_at(block.data, message, size, at)
    if length < 0:
        raise DamageError(faults.WRAPPER_NULL, magic)
    check_limit(length, size - at - LENGTH_SIZE)
    start = message + at + LENGTH_SIZE
    return start, start + length
