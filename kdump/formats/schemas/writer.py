"""The writer of Kafka's generated messages, for every schema; `reader` has the layout of the bytes."""

from __future__ import annotations

import struct
from typing import Any

from kdump.formats.schemas.description import PACKERS, UNKNOWN_TAGS, Column, Layout, Schema, SchemaError
from kdump.formats.uuids import UUID_SIZE

_MAX_STRING = 0x7FFF


def encode(schema: Schema, version: int, value: dict[str, Any]) -> bytes:
    """Write a message as Kafka does; fields that the dict lacks have their default.

    Raises SchemaError for an unknown version or field name, a value that does not fit its type, and for a field that
    the version lacks when its value is not the default (unless it may be ignored).
    """
    schema.check_version(version)
    out = bytearray()
    _write_struct(out, schema.layout(version), version, value)
    return bytes(out)


def write_unsigned_varint(out: bytearray, value: int) -> None:
    """Append a non-negative number."""
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def _write_struct(out: bytearray, layout: Layout, version: int, value: dict[str, Any]) -> None:
    for name in value:
        if not layout.has(name) and name != UNKNOWN_TAGS:
            raise SchemaError(f"{layout.name} has no field {name}")
    for field in layout.absent:
        if not field.ignorable and value.get(field.name, field.initial()) != field.initial():
            raise SchemaError(f"Attempted to write a non-default {field.name} at version {version}")
    for column in layout.plain:
        _write_named(out, column, version, value)
    if layout.flexible:
        _write_tagged(out, layout, version, value)


def _write_tagged(out: bytearray, layout: Layout, version: int, value: dict[str, Any]) -> None:
    sections: list[tuple[int, bytes]] = []
    for tag, column in layout.tagged.items():
        default = column.field.initial()
        if value.get(column.name, default) != default:
            written = bytearray()
            _write_named(written, column, version, value)
            sections.append((tag, bytes(written)))
    sections += value.get(UNKNOWN_TAGS, {}).items()
    write_unsigned_varint(out, len(sections))
    for tag, data in sorted(sections):
        write_unsigned_varint(out, tag)
        write_unsigned_varint(out, len(data))
        out += data


def _write_named(out: bytearray, column: Column, version: int, value: dict[str, Any]) -> None:
    item = value[column.name] if column.name in value else column.field.initial()
    try:
        if item is None and not column.nullable:
            raise SchemaError("null where null is not allowed")
        if column.array:
            _write_array(out, column, version, item)
        else:
            _write_one(out, column, version, item, column.nullable)
    except SchemaError as error:
        error.within(column.name)
        raise


def _write_array(out: bytearray, column: Column, version: int, value: Any) -> None:
    if value is None:
        _write_length(out, -1, column.flexible, "int32")
        return
    if not isinstance(value, list):
        raise SchemaError(f"{value!r} is no list")
    _write_length(out, len(value), column.flexible, "int32")
    for index, element in enumerate(value):
        try:
            if element is None:
                raise SchemaError("null where null is not allowed")
            _write_one(out, column, version, element, False)
        except SchemaError as error:
            error.within(f"[{index}]")
            raise


def _write_one(out: bytearray, column: Column, version: int, value: Any, nullable: bool) -> None:
    """Write a struct, string, bytes or a value of fixed size; a struct that may be null gets its marker."""
    if column.layout is not None:
        if nullable:
            out += (b"\xff" if column.tag is None else b"\x00") if value is None else b"\x01"
        if value is not None:
            _expect(isinstance(value, dict), value, column.kind)
            _write_struct(out, column.layout, version, value)
    elif column.packer is not None:
        is_uuid = isinstance(value, bytes) and len(value) == UUID_SIZE
        _expect(column.kind != "uuid" or is_uuid, value, f"uuid of {UUID_SIZE} bytes")
        try:
            out += column.packer.pack(value)
        except (struct.error, OverflowError) as error:
            raise SchemaError(f"{value!r} is no {column.kind}") from error
    elif column.kind == "string":
        data = _utf8(value)
        if data is not None and len(data) > _MAX_STRING:
            raise SchemaError(f"'{column.name}' field is too long to be serialized")
        _write_sized(out, data, column.flexible, "int16")
    else:
        _expect(value is None or isinstance(value, bytes), value, "bytes")
        _write_sized(out, value, column.flexible, "int32")


def _expect(fits: bool, value: Any, what: str) -> None:
    if not fits:
        raise SchemaError(f"{value!r} is no {what}")


def _utf8(value: Any) -> bytes | None:
    _expect(value is None or isinstance(value, str), value, "text")
    try:
        return None if value is None else value.encode()
    except UnicodeEncodeError as error:
        raise SchemaError(f"{value!r} cannot be written as UTF-8") from error


def _write_sized(out: bytearray, data: bytes | None, flexible: bool, kind: str) -> None:
    _write_length(out, -1 if data is None else len(data), flexible, kind)
    out += data or b""


def _write_length(out: bytearray, length: int, flexible: bool, kind: str) -> None:
    if flexible:
        write_unsigned_varint(out, length + 1)
    else:
        out += PACKERS[kind].pack(length)
