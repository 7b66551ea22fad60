"""The interpreter of Kafka's generated messages: one reader, one writer and one JSON converter for every schema.

Numbers are big-endian. A version is *flexible* from the one on that the schema names:

    type            not flexible                     flexible
    bool            1 byte, 0 is false               the same
    int8 to int64, uint16, uint32                    the same
    float64         IEEE 754                         the same
    uuid            16 bytes                         the same
    string          int16 length, UTF-8; -1 is null  unsigned varint length + 1; 0 is null
    bytes           int32 length; -1 is null         unsigned varint length + 1; 0 is null
    []type          int32 count; -1 is null          unsigned varint count + 1; 0 is null
    struct          its fields in order              and then the tagged section
    struct or null  int8, negative is null           the same; as a tagged field unsigned varint, 0 is null
    tagged section  none                             unsigned varint count; then, tags ascending, of each field that
                                                     is not its default: varint tag, varint size, data

Values are plain Python: a struct is a dict with every field of the schema (those that the version lacks have their
default), a uuid is 16 bytes, text is str with U+FFFD for what is not UTF-8. Tagged fields that the schema does not have
are those of newer releases, or of forks: they are kept under UNKNOWN_TAGS, each as its bytes by its tag, and written
again.
"""

from __future__ import annotations

import math
import struct
from binascii import b2a_base64
from typing import Any, NoReturn

from kdump.formats.java_utf8 import java_utf8
from kdump.formats.schemas.description import (
    PACKERS,
    RUNTIME_EXCEPTION,
    UNKNOWN_TAGS,
    UNSUPPORTED_VERSION,
    Column,
    Field,
    Layout,
    Schema,
    SchemaError,
)
from kdump.formats.uuids import format_uuid
from kdump.releases import KafkaRelease

__all__ = [
    "Field",
    "Schema",
    "SchemaError",
    "decode",
    "decode_as_broker",
    "decode_newer",
    "encode",
    "read_unsigned_varint",
    "to_json",
    "write_unsigned_varint",
]

BUFFER_UNDERFLOW = "java.nio.BufferUnderflowException"
_MAX_STRING = 0x7FFF


def decode(schema: Schema, version: int, data: bytes, position: int = 0) -> tuple[dict[str, Any], int]:
    """Read one message from data[position:]; give its value and the position after it.

    Raises SchemaError for a version that the schema does not know, for anything that runs over the end or is null
    where it must not be, for tags out of order and for a tagged field that is not as long as its size says. For a
    version above those of the schema that is NewerRecordError: `decode_newer` reads what is known of it.
    """
    schema.check_version(version, position)
    return _decode_strictly(schema, version, data, position)


def decode_newer(schema: Schema, version: int, data: bytes, position: int = 0) -> tuple[dict[str, Any], int]:
    """As `decode`, of a version above those of the schema: by the layout of the last one.

    That fits as long as later versions only add tagged fields. Raises SchemaError where it does not.
    """
    return _decode_strictly(schema, min(version, schema.last), data, position)


def _decode_strictly(schema: Schema, version: int, data: bytes, position: int) -> tuple[dict[str, Any], int]:
    source = _Source(data, position, version, None)
    value = _read_struct(source, schema.layout(version))
    return value, source.position


def decode_as_broker(
    schema: Schema, version: int, data: bytes, position: int = 0, release: KafkaRelease | None = None
) -> tuple[dict[str, Any], int]:
    """As `decode`, but as lenient as the readers of a Kafka release are (None: the newest known).

    An unknown version is read as the nearest known one (unless a nested struct is met, which they do refuse), neither
    the order of the tags nor the size of a known tagged field is looked at, and tagged fields of later releases are
    unknown ones.
    """
    source = _Source(data, position, version, schema.last_of(release))
    value = _read_struct(source, schema.layout(version, release))
    return value, source.position


def encode(schema: Schema, version: int, value: dict[str, Any]) -> bytes:
    """Write a message as Kafka does; fields that the dict lacks have their default.

    Raises SchemaError for an unknown version or field name, a value that does not fit its type, and for a field that
    the version lacks when its value is not the default (unless it may be ignored).
    """
    schema.check_version(version)
    out = bytearray()
    _write_struct(out, schema.layout(version), version, value)
    return bytes(out)


def to_json(
    schema: Schema,
    version: int,
    value: dict[str, Any],
    release: KafkaRelease | None = None,
    *,
    keep_unknown: bool = False,
) -> dict[str, Any]:
    """What Kafka's generated JSON converter makes of a decoded message; `java_values.json_text` writes it.

    Fields in schema order, those absent in the version and tagged ones with their default left out; bytes as base64,
    uuids as 22 characters, NaN and the infinities as strings. `release` is the one whose converter it is; None: the
    newest known. Kafka leaves out the tagged fields that the schema does not have; `keep_unknown` puts them last.
    """
    return _json_struct(schema.layout(version, release), value, keep_unknown)


def read_unsigned_varint(data: bytes, position: int) -> tuple[int, int]:
    """The varint at a position, as Java's int, and the position after it; SchemaError if it is cut or too long."""
    source = _Source(data, position, 0, None)
    return source.unsigned_varint(), source.position


def write_unsigned_varint(out: bytearray, value: int) -> None:
    """Append a non-negative number."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


# --- reading ---


class _Source:
    """The bytes and how far they are read; `broker_last` is None in a strict read, else the schema's last version."""

    __slots__ = ("data", "end", "position", "strict", "unknown_version", "version")

    def __init__(self, data: bytes, position: int, version: int, broker_last: int | None) -> None:
        self.data = data
        self.position = position
        self.end = len(data)
        self.version = version
        self.strict = broker_last is None
        self.unknown_version = broker_last is not None and version > broker_last

    def fixed(self, packer: struct.Struct, kind: str) -> Any:
        start = self.position
        if start + packer.size > self.end:
            self.underflow(kind, packer.size)
        self.position = start + packer.size
        return packer.unpack_from(self.data, start)[0]

    def take(self, size: int) -> bytes:
        start = self.position
        if size > self.end - start:
            self.fail(f"Error reading byte array of {size} byte(s): only {self.end - start} byte(s) available")
        if size < 0:
            self.fail(str(size), "java.lang.NegativeArraySizeException", f"A size of {size} byte(s)")
        self.position = start + size
        return self.data[start : start + size]

    def unsigned_varint(self) -> int:
        """At most 5 bytes, taken for a signed 32-bit number as Java's int is."""
        value = 0
        for shift in range(0, 35, 7):
            if self.position >= self.end:
                self.underflow("varint", 1)
            byte = self.data[self.position]
            self.position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return _int32(value)
        text = "Varint is too long, the most significant bit in the 5th byte is set, converted value: "
        return self.fail(f"{text}{value & 0xFFFFFFFF:x}", "java.lang.IllegalArgumentException")

    def underflow(self, what: str, size: int) -> NoReturn:
        found = f"{what} needs {size} byte(s): only {self.end - self.position} byte(s) available"
        raise SchemaError(found, self.position, java_class=BUFFER_UNDERFLOW)

    def fail(self, kafka_message: str, java_class: str = RUNTIME_EXCEPTION, found: str = "") -> NoReturn:
        raise SchemaError(found or kafka_message, self.position, kafka_message=kafka_message, java_class=java_class)


def _int32(value: int) -> int:
    return ((value & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000


def _read_struct(source: _Source, layout: Layout) -> dict[str, Any]:
    value = layout.blank()
    for column in layout.plain:
        try:
            value[column.name] = _read_field(source, column)
        except SchemaError as error:
            error.within(column.name)
            raise
    if layout.flexible:
        _read_tagged(source, layout, value)
    return value


def _read_field(source: _Source, column: Column) -> Any:
    if column.array:
        return _read_array(source, column)
    if column.packer is not None:
        return source.fixed(column.packer, column.kind)
    if column.layout is None:
        return _read_sized(source, column, column.name, column.nullable)
    if column.nullable and _is_null(source, column):
        return None
    return _read_nested(source, column, column.layout)


def _is_null(source: _Source, column: Column) -> bool:
    """Whether the marker in front of a struct that may be null says so."""
    if column.tag is not None:
        return source.unsigned_varint() <= 0
    return bool(source.fixed(PACKERS["int8"], "int8") < 0)


def _read_nested(source: _Source, column: Column, layout: Layout) -> dict[str, Any]:
    if source.unknown_version and column.endless:
        source.fail(f"Can't read version {source.version} of {layout.name}", UNSUPPORTED_VERSION)
    return _read_struct(source, layout)


def _read_sized(source: _Source, column: Column, name: str, nullable: bool) -> str | bytes | None:
    """A string or bytes; `name` is what Kafka's messages call it."""
    text = column.kind == "string"
    length = _read_length(source, column.flexible, "int16" if text else "int32")
    if length < 0:
        return None if nullable else source.fail(f"non-nullable field {name} was serialized as null")
    if not text:
        return source.take(length)
    if length > _MAX_STRING:
        source.fail(f"string field {name} had invalid length {length}")
    return _text(source.take(length))


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return java_utf8(data).decode()


def _read_length(source: _Source, flexible: bool, kind: str) -> int:
    return _int32(source.unsigned_varint() - 1) if flexible else int(source.fixed(PACKERS[kind], kind))


def _read_array(source: _Source, column: Column) -> list[Any] | None:
    count = _read_length(source, column.flexible, "int32")
    if count < 0:
        return None if column.nullable else source.fail(f"non-nullable field {column.name} was serialized as null")
    remaining = source.end - source.position
    if count > remaining:
        source.fail(f"Tried to allocate a collection of size {count}, but there are only {remaining} bytes remaining.")
    elements: list[Any] = []
    try:
        for _ in range(count):
            if column.packer is not None:
                elements.append(source.fixed(column.packer, column.kind))
            elif column.layout is not None:
                elements.append(_read_nested(source, column, column.layout))
            else:
                elements.append(_read_sized(source, column, f"{column.name} element", False))
    except SchemaError as error:
        error.within(f"[{len(elements)}]")
        raise
    return elements


def _read_tagged(source: _Source, layout: Layout, value: dict[str, Any]) -> None:
    count = source.unsigned_varint()
    remaining = source.end - source.position
    if source.strict and not 0 <= count <= remaining // 2:
        raise SchemaError(f"{count} tagged field(s) in {remaining} byte(s)", source.position)
    previous = -1
    for _ in range(count):
        tag = source.unsigned_varint()
        if source.strict and tag <= previous:
            raise SchemaError(f"Tag {tag} after tag {previous}: tags must ascend", source.position)
        previous = tag
        size = source.unsigned_varint()
        column = layout.tagged.get(tag)
        try:
            if tag in layout.foreign_tags:
                source.fail(f"Tag {tag} is not valid for version {source.version}")
            elif column is None:
                value.setdefault(UNKNOWN_TAGS, {})[tag] = source.take(size)
            else:
                value[column.name] = _read_tagged_field(source, column, size)
        except SchemaError as error:
            error.within(f"tag {tag}" if column is None else column.name)
            raise


def _read_tagged_field(source: _Source, column: Column, size: int) -> Any:
    if not source.strict:
        return _read_field(source, column)
    start, end = source.position, source.end
    source.take(size)
    source.position, source.end = start, start + size
    value = _read_field(source, column)
    if source.position != source.end:
        unread = source.end - source.position
        raise SchemaError(f"{unread} of the {size} byte(s) of the tagged field are left over", source.position)
    source.end = end
    return value


# --- writing ---


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
    """A struct, string, bytes or a value of fixed size; a struct that may be null gets its marker."""
    if column.layout is not None:
        if nullable:
            out += (b"\xff" if column.tag is None else b"\x00") if value is None else b"\x01"
        if value is not None:
            _expect(isinstance(value, dict), value, column.kind)
            _write_struct(out, column.layout, version, value)
    elif column.packer is not None:
        _expect(column.kind != "uuid" or (isinstance(value, bytes) and len(value) == 16), value, "uuid of 16 bytes")
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


# --- JSON ---


def _json_struct(layout: Layout, value: dict[str, Any], keep_unknown: bool) -> dict[str, Any]:
    json: dict[str, Any] = {}
    for column in layout.columns:
        item = value[column.name]
        if column.tag is not None and item == column.field.initial():
            continue
        if column.array and item is not None:
            json[column.name] = [_json_one(column, element, keep_unknown) for element in item]
        else:
            json[column.name] = _json_one(column, item, keep_unknown)
    if keep_unknown and UNKNOWN_TAGS in value:
        json[UNKNOWN_TAGS] = [{"tag": tag, "data": _base64(data)} for tag, data in value[UNKNOWN_TAGS].items()]
    return json


def _json_one(column: Column, value: Any, keep_unknown: bool) -> Any:
    if value is None:
        return None
    if column.layout is not None:
        return _json_struct(column.layout, value, keep_unknown)
    if column.kind == "uuid":
        return format_uuid(value)
    if column.kind == "bytes":
        return _base64(value)
    if column.kind == "float64" and value - value != 0:
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _base64(data: bytes) -> str:
    return b2a_base64(data, newline=False).decode()
