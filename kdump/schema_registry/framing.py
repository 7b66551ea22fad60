"""How a serializer says which schema a payload has: before the payload, or in a header of the record.

    prefix   byte 0, id (int32), [message indexes,] payload; or byte 1, GUID (16 bytes), the same
    header   __key_schema_id, __value_schema_id: byte 1, GUID (16 bytes) or byte 0, id (int32) [, message indexes]

Message indexes are Protobuf's: a zigzag varint count, then as many zigzag varints, which lead from the file's messages
down to nested ones; [0] is the single byte 0 (Confluent's serializers).
"""

from __future__ import annotations

from typing import NamedTuple

from kdump.formats.encode import read_varint
from kdump.formats.schema_prefix import PREFIX_SIZE, prefixed_id
from kdump.schema_registry.errors import SchemaError

KEY_HEADER, VALUE_HEADER = b"__key_schema_id", b"__value_schema_id"
MAX_INDEXES = 100
"""How deep messages may be nested."""

_MAGIC_GUID = 1
_GUID_SIZE = 16
_MAX_VARINT = 10


class Frame(NamedTuple):
    """The schema's id or its GUID, and where what follows begins: in the header (`indexes`), or in the payload."""

    schema_id: int | None
    guid: bytes | None
    start: int
    indexes: bytes | None = None


def prefix_of(data: bytes | bytearray) -> Frame | None:
    """Return what the bytes of a key or value begin with, as far as these look like a frame."""
    number = prefixed_id(data)
    return None if number is None else Frame(number, None, PREFIX_SIZE)


def guid_prefix_of(data: bytes | bytearray) -> Frame | None:
    """Return what bytes begin with that can be byte 1 and a GUID, which Confluent's deserializers take as well."""
    if len(data) <= _GUID_SIZE or data[0] != _MAGIC_GUID:
        return None
    return Frame(None, bytes(data[1 : 1 + _GUID_SIZE]), 1 + _GUID_SIZE)


def header_frame(header: bytes | None) -> Frame | None:
    """Return what a header says of the payload; None where it is no such header."""
    if not header:
        return None
    if header[0] == _MAGIC_GUID and len(header) > _GUID_SIZE:
        return Frame(None, header[1 : 1 + _GUID_SIZE], 0, header[1 + _GUID_SIZE :])
    number = prefixed_id(header)
    return None if number is None else Frame(number, None, 0, header[PREFIX_SIZE:])


def message_indexes(data: bytes | bytearray, at: int, *, zigzag: bool = True) -> tuple[tuple[int, ...], int]:
    """Return the path to a message that is at byte `at`, and the byte behind it. Raises SchemaError.

    Old clients with use.deprecated.format wrote varints without zigzag.
    """
    count, at = _varint(data, at, zigzag)
    if count == 0:
        return (0,), at
    if not 0 < count <= MAX_INDEXES:
        raise SchemaError(f"its message has {count} indexes")
    path = []
    for _ in range(count):
        index, at = _varint(data, at, zigzag)
        if index < 0:
            raise SchemaError(f"its message has the index {index}")
        path.append(index)
    return tuple(path), at


def _varint(data: bytes | bytearray, at: int, zigzag: bool) -> tuple[int, int]:
    try:
        return read_varint(data, at, _MAX_VARINT, zigzag=zigzag)
    except IndexError:
        raise SchemaError("its message indexes break off") from None
