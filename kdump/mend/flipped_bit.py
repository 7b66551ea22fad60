"""Find the one bit whose change makes a damaged batch valid again.

A CRC is linear: which bit of the covered bytes was flipped follows from the stored and the computed CRC alone. The
difference that a bit leaves in the CRC is known right behind it; from the end of the batch the difference at hand is
taken back byte by byte (the CRC's register run backwards), until it is one that a bit of that byte leaves. That is
linear in the batch's size. Within 2^31 bits no two bits leave the same difference.

Of the bytes that no CRC covers, the length and the magic are tried bit by bit, and the stored CRC has bits as well. No
check exists for the base offset and the leader epoch of a v2 batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import NamedTuple

from kdump.errors import KdumpError
from kdump.formats.batch import FRAME_SIZE, HEADER_SIZE, LOG_OVERHEAD, MAGIC_AT
from kdump.formats.checksums import crc32, crc32c
from kdump.formats.names import parse_file_name
from kdump.mend.ranges import ByteRange
from kdump.mend.salvage import choose_batches
from kdump.storage.partition import PartitionLog
from kdump.storage.planned import PlannedPartition
from kdump.storage.planned_log import LogView

MAX_BATCH_BYTES = 1 << 28
"""Larger batches are not searched: no broker takes them by default, and they are held in memory."""

_CRCS = 1 << 32

_LENGTH_AT, _LENGTH_SIZE = 8, 4


class _Layout(NamedTuple):
    """Where a batch of a format has its CRC, the first byte that it covers, and its polynomial, reflected."""

    crc_at: int
    covered_from: int
    polynomial: int

    def crc(self, data: bytes) -> int:
        """Return the CRC of the covered bytes."""
        compute = crc32c if self.polynomial == _CASTAGNOLI else crc32
        return compute(data[self.covered_from :])


_CASTAGNOLI, _IEEE = 0x82F63B78, 0xEDB88320
_LEGACY = _Layout(12, MAGIC_AT, _IEEE)
_LAYOUTS = {0: _LEGACY, 1: _LEGACY, 2: _Layout(17, 21, _CASTAGNOLI)}


class FlippedBit(NamedTuple):
    """The bit `bit` (0: the lowest) of the byte at `position` of a .log is wrong; the byte becomes `byte`.

    `batch` are the byte positions where the batch that is valid then starts and stops, with its offsets (absolute).
    `bits` is how many bits were considered.
    """

    position: int
    bit: int
    byte: int
    batch: tuple[int, int]
    first_offset: int
    last_offset: int
    bits: int

    @property
    def lookalike_odds(self) -> int:
        """Of how many cases of other damage one looks the same, in two digits: `bits` of all CRCs are explained so."""
        cases = _CRCS // self.bits
        return round(cases, 2 - len(str(cases)))


def find_flipped_bit(
    directory: PlannedPartition, name: str, base_offset: int, next_base: int | None, position: int, resumed: int
) -> FlippedBit | None:
    """Return the one flipped bit that explains the damage of a .log from byte `position` up to `resumed`.

    None where there is none, or more than one. The batch is decoded to its end before it is believed; `base_offset`
    and `next_base` are the segment's and the next one's. Raises OSError.
    """
    frame = directory.read(name, position, HEADER_SIZE)
    left = directory.size(name) - position
    found: dict[tuple[int, int], FlippedBit] = {}
    for size in _sizes(frame, resumed - position, left):
        data = directory.read(name, position, size)
        for at, bit in _candidates(data):
            fixed = bytearray(data)
            fixed[at] ^= 1 << bit
            batch = _valid_batch(directory, name, base_offset, next_base, bytes(fixed))
            if batch is not None:
                offsets = batch.first_offset, batch.last_offset
                bounds = position, position + size
                found[at, bit] = FlippedBit(position + at, bit, fixed[at], bounds, *offsets, 8 * size)
    return next(iter(found.values())) if len(found) == 1 else None


def flipped_bit_in(log: PartitionLog, name: str, position: int, resumed: int) -> FlippedBit | None:
    """Return the same of a .log of a partition; None where CRC-32C cannot be computed here. Raises OSError."""
    base = parse_file_name(name).offset
    if base is None:
        return None
    following = (each.base_offset for each in log.segments if each.base_offset > base)
    next_base = min(following, default=None)
    with suppress(KdumpError):
        return find_flipped_bit(PlannedPartition(log), name, base, next_base, position, resumed)
    return None


def _sizes(frame: bytes, gap: int, left: int) -> Iterator[int]:
    """Yield the sizes that the batch may have: as it says, or up to where the next valid batch starts."""
    stored = LOG_OVERHEAD + int.from_bytes(frame[_LENGTH_AT : _LENGTH_AT + _LENGTH_SIZE], "big")
    for size in {stored, gap}:
        if FRAME_SIZE < size <= min(left, MAX_BATCH_BYTES):
            yield size


def _candidates(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield the bits (byte, bit) of which one, flipped, makes the frame and the CRC of a batch of this size right."""
    length = int.from_bytes(data[_LENGTH_AT : _LENGTH_AT + _LENGTH_SIZE], "big")
    wrong = length ^ (len(data) - LOG_OVERHEAD)
    if wrong:
        if wrong.bit_count() == 1 and _has_valid_crc(data):
            yield _bit_of(wrong, _LENGTH_AT)
        return
    for magic in _LAYOUTS:
        changed = magic ^ data[MAGIC_AT]
        if changed.bit_count() == 1 and _has_valid_crc(data[:MAGIC_AT] + bytes((magic,)) + data[MAGIC_AT + 1 :]):
            yield MAGIC_AT, changed.bit_length() - 1
    layout = _LAYOUTS.get(data[MAGIC_AT])
    if layout is None:
        return
    difference = _stored_crc(data, layout) ^ layout.crc(data)
    if difference.bit_count() == 1:
        yield _bit_of(difference, layout.crc_at)
    if difference:
        place = _place_of(difference, len(data) - layout.covered_from, layout.polynomial)
        if place is not None:
            yield layout.covered_from + place[0], place[1]


def _bit_of(word: int, at: int) -> tuple[int, int]:
    """Return the byte and the bit in it of the only bit set in a big-endian 32-bit number that starts at byte `at`."""
    number = word.bit_length() - 1
    return at + 3 - number // 8, number % 8


def _stored_crc(data: bytes, layout: _Layout) -> int:
    return int.from_bytes(data[layout.crc_at : layout.crc_at + 4], "big")


def _has_valid_crc(data: bytes) -> bool:
    layout = _LAYOUTS.get(data[MAGIC_AT])
    return layout is not None and _stored_crc(data, layout) == layout.crc(data)


def _place_of(difference: int, size: int, polynomial: int) -> tuple[int, int] | None:
    """Return the byte of `size` covered ones, and the bit in it, that leave this difference in the CRC at the end."""
    table, backwards, bits = _tables(polynomial)
    for at in reversed(range(size)):
        if difference in bits:
            return at, bits[difference]
        index = backwards[difference >> 24]
        difference = ((difference ^ table[index]) << 8 & 0xFFFFFFFF) | index
    return None


@cache
def _tables(polynomial: int) -> tuple[list[int], list[int], dict[int, int]]:
    """Return the table of a reflected CRC, its entries by their highest byte, and what the last byte's bits leave."""
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (polynomial if value & 1 else 0)
        table.append(value)
    backwards = sorted(range(256), key=lambda index: table[index] >> 24)  # no two have the same one
    return table, backwards, {table[1 << bit]: bit for bit in range(8)}


def _valid_batch(
    directory: PlannedPartition, name: str, base_offset: int, next_base: int | None, data: bytes
) -> ByteRange | None:
    """Return what `data` holds if it is one batch that belongs into the segment and decodes to its end."""
    alone = directory.copy()
    alone.write(name, data)
    try:
        with LogView(alone, name) as view:
            parts = list(choose_batches(view, base_offset, next_base))
    except KdumpError:  # a codec is not installed: nothing can be promised
        return None
    return parts[0] if len(parts) == 1 and isinstance(parts[0], ByteRange) else None
