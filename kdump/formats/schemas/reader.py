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

import struct
from typing import Any, NoReturn

from kdump.errors import BUFFER_UNDERFLOW, ILLEGAL_ARGUMENT, RUNTIME, UNSUPPORTED_VERSION
from kdump.formats.batch import wrap32
from kdump.formats.java_utf8 import java_utf8
from kdump.formats.schemas.description import PACKERS, UNKNOWN_TAGS, Column, Layout, Schema, SchemaError
from kdump.releases import KafkaRelease

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
    """Decode a version above those of the schema: by the layout of the last one.

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
    """Decode as lenient as the readers of a Kafka release are (None: the newest known).

    An unknown version is read as the nearest known one (unless a nested struct is met, which they do refuse), neither
    the order of the tags nor the size of a known tagged field is looked at, and tagged fields of later releases are
    unknown ones.
    """
    source = _Source(data, position, version, schema.last_of(release))
    value = _read_struct(source, schema.layout(version, release))
    return value, source.position


def read_unsigned_varint(data: bytes, position: int) -> tuple[int, int]:
    """Return the varint at a position, as Java's int, and the position after it; SchemaError if cut or too long."""
    source = _Source(data, position, 0, None)
    return source.unsigned_varint(), source.position


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
        """Read at most 5 bytes, taken for a signed 32-bit number as Java's int is."""
        value = 0
        for shift in range(0, 35, 7):
            if self.position >= self.end:
                self.underflow("varint", 1)
            byte = self.data[self.position]
            self.position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return wrap32(value)
        text = "Varint is too long, the most significant bit in the 5th byte is set, converted value: "
        return self.fail(f"{text}{value & 0xFFFFFFFF:x}", ILLEGAL_ARGUMENT)

    def underflow(self, what: str, size: int) -> NoReturn:
        found = f"{what} needs {size} byte(s): only {self.end - self.position} byte(s) available"
        raise SchemaError(found, self.position, java_class=BUFFER_UNDERFLOW)

    def fail(self, kafka_message: str, java_class: str = RUNTIME, found: str = "") -> NoReturn:
        raise SchemaError(found or kafka_message, self.position, kafka_message=kafka_message, java_class=java_class)


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
    """Return whether the marker in front of a struct that may be null says so."""
    if column.tag is not None:
        return source.unsigned_varint() <= 0
    return bool(source.fixed(PACKERS["int8"], "int8") < 0)


def _read_nested(source: _Source, column: Column, layout: Layout) -> dict[str, Any]:
    if source.unknown_version and column.endless:
        source.fail(f"Can't read version {source.version} of {layout.name}", UNSUPPORTED_VERSION)
    return _read_struct(source, layout)


def _read_sized(source: _Source, column: Column, name: str, nullable: bool) -> str | bytes | None:
    """Return a string or bytes; `name` is what Kafka's messages call it."""
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
    return wrap32(source.unsigned_varint() - 1) if flexible else int(source.fixed(PACKERS[kind], kind))


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
