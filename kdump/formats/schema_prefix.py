"""What the serializers of a schema registry put in front of a payload: byte 0 and the schema's id (int32)."""

from __future__ import annotations

PREFIX_SIZE = 5
_MAX_LIKELY = 1 << 24
_LONG = 8


def prefixed_id(data: bytes | bytearray) -> int | None:
    """Return the id that the bytes begin with, if they can be a prefix."""
    if len(data) < PREFIX_SIZE or data[0]:
        return None
    number = int.from_bytes(data[1:PREFIX_SIZE], "big", signed=True)
    return number if number >= 0 else None


def likely_id(data: bytes | bytearray) -> int | None:
    """Return the id that the bytes seem to begin with, where no schemas are at hand: not that of a plain long."""
    number = prefixed_id(data)
    return number if number and number < _MAX_LIKELY and len(data) != _LONG else None
