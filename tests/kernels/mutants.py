"""Damage: cheap mutations of a buffer, some blind, some aimed at the fields that decide what is read next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from struct import pack_into

from kdump.formats.encode import varint

BYTES = (0x00, 0x01, 0x02, 0x0E, 0x7F, 0x80, 0xFF)
NUMBERS = (-(1 << 63), -(1 << 31), -32768, -129, -2, -1, 0, 1, 2, 4, 6, 12, 13, 14, 17, 49, 61, 127, 128, 255, 256,
           32767, (1 << 31) - 13, (1 << 31) - 12, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, (1 << 63) - 1)  # fmt: skip
LONG_VARINTS = (b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x7f", b"\x80\x80\x80\x80\x00", b"\xff" * 9 + b"\x01",
                b"\xff" * 5, b"\xff" * 10, b"\x80" * 4, b"\x81\x80\x80\x80\x90")  # fmt: skip
FIELDS = ((0, "q"), (8, "i"), (12, "i"), (16, "b"), (17, "b"), (18, "i"), (18, "q"), (21, "h"), (22, "b"), (23, "i"),
          (26, "i"), (27, "q"), (35, "q"), (43, "q"), (51, "h"), (53, "i"), (57, "i"), (61, "b"))  # fmt: skip
WIDTHS = {"b": 1, "h": 2, "i": 4, "q": 8}

Mutation = Callable[[Random, bytearray, Sequence[bytes]], None]


def mutate(rng: Random, data: bytearray, others: Sequence[bytes]) -> None:
    """Damage `data` in one to four places; pieces of `others` may be put in."""
    for _ in range(1 + int(4 * rng.random() ** 2)):
        if data:
            MUTATIONS[int(rng.random() * len(MUTATIONS))](rng, data, others)


def _at(rng: Random, data: bytearray) -> int:
    return int(rng.random() * len(data))


def flip_bit(rng: Random, data: bytearray, others: Sequence[bytes]) -> None:
    data[_at(rng, data)] ^= 1 << int(rng.random() * 8)


def overwrite_byte(rng: Random, data: bytearray, others: Sequence[bytes]) -> None:
    data[_at(rng, data)] = rng.choice(BYTES)


def random_byte(rng: Random, data: bytearray, others: Sequence[bytes]) -> None:
    data[_at(rng, data)] = int(rng.random() * 256)


def overwrite_number(rng: Random, data: bytearray, others: Sequence[bytes]) -> None:
    _put(data, _at(rng, data), rng.choice("hiq"), _number(rng, data))


def overwrite_field(rng: Random, data: bytearray, others: Sequence[bytes]) -> None:
    """A number where a header of one of the formats has a field."""
    at, width = rng.choice(FIELDS)
    _put(data, at, width, _number(rng, data))


def overwrite_varint(rng: Random, data: bytearray, others: Sequence[bytes]) -> None:
    at = _at(rng, data)
    encoded = rng.choice(LONG_VARINTS) if rng.random() < 0.5 else varint(_number(rng, data))
    data[at : at + (1 if rng.random() < 0.5 else len(encoded))] = encoded


def truncate(rng: Random, data: bytearray, others: Sequence[bytes]) -> None:
    del data[_at(rng, data) :]


def delete(rng: Random, data: bytearray, others: Sequence[bytes]) -> None:
    at = _at(rng, data)
    del data[at : at + 1 + int(rng.random() * 8)]


def insert(rng: Random, data: bytearray, others: Sequence[bytes]) -> None:
    at = _at(rng, data)
    data[at:at] = bytes((rng.choice(BYTES),)) * (1 + int(rng.random() * 4))


def duplicate(rng: Random, data: bytearray, others: Sequence[bytes]) -> None:
    start, stop = sorted((_at(rng, data), _at(rng, data)))
    data[stop:stop] = data[start:stop]


def splice(rng: Random, data: bytearray, others: Sequence[bytes]) -> None:
    """Go on with another buffer's tail."""
    other = rng.choice(others)
    data[_at(rng, data) :] = other[int(rng.random() * len(other)) :]


def _number(rng: Random, data: bytearray) -> int:
    return rng.choice(NUMBERS) if rng.random() < 0.8 else len(data) - 12 + rng.choice((-2, -1, 0, 1, 2))


def _put(data: bytearray, at: int, width: str, number: int) -> None:
    size = WIDTHS[width]
    if at + size <= len(data):
        pack_into(">" + width.upper(), data, at, number & (1 << 8 * size) - 1)


MUTATIONS: tuple[Mutation, ...] = (
    flip_bit, flip_bit, overwrite_byte, random_byte, overwrite_number, overwrite_field, overwrite_field,
    overwrite_varint, truncate, delete, insert, duplicate, splice,
)  # fmt: skip
