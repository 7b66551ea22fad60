"""Protobuf without generated classes: descriptors from .proto text, or from a FileDescriptorProto in base64."""

from __future__ import annotations

from binascii import Error as Base64Error
from binascii import a2b_base64
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from math import isfinite
from struct import pack, unpack
from typing import Any

from kdump.formats.printable import base64
from kdump.schema_registry.errors import ExtraMissingError, SchemaError
from kdump.schema_registry.framing import message_indexes
from kdump.schema_registry.protobuf_maps import has_maps, in_order, is_map

WELL_KNOWN = {
    f"google/protobuf/{name}.proto": f"google.protobuf.{name}_pb2"
    for name in (
        "any", "api", "descriptor", "duration", "empty", "field_mask", "source_context", "struct", "timestamp", "type",
        "wrappers",
    )
}  # fmt: skip

_ANY = "google/protobuf/any.proto"

ROOT = "kdump-schema.proto"
"""What a schema that nothing imports is called."""

Message = Any

Show = Callable[[Any], Any]
"""The JSON of a message by the library, which raises where there is none."""

MAX_DEPTH = 200
"""Messages within each other: more than the library reads."""

_MESSAGES, _ENUM, _BYTES, _FLOATS = (10, 11), 14, 12, (1, 2)
_MAX_FLOAT = 3.4028235e38
_LONGS = (3, 4, 6, 16, 18)
"""The types of numbers of 64 bits, which are text in JSON."""

_TYPES = {
    "calendar_period": "enum CalendarPeriod { CALENDAR_PERIOD_UNSPECIFIED = 0; DAY = 1; WEEK = 2; FORTNIGHT = 3;"
    " MONTH = 4; QUARTER = 5; HALF = 6; YEAR = 7; }",
    "color": 'import "google/protobuf/wrappers.proto";'
    " message Color { float red = 1; float green = 2; float blue = 3; google.protobuf.FloatValue alpha = 4; }",
    "date": "message Date { int32 year = 1; int32 month = 2; int32 day = 3; }",
    "datetime": 'import "google/protobuf/duration.proto"; message DateTime { int32 year = 1; int32 month = 2;'
    " int32 day = 3; int32 hours = 4; int32 minutes = 5; int32 seconds = 6; int32 nanos = 7;"
    " oneof time_offset { google.protobuf.Duration utc_offset = 8; TimeZone time_zone = 9; } }"
    " message TimeZone { string id = 1; string version = 2; }",
    "dayofweek": "enum DayOfWeek { DAY_OF_WEEK_UNSPECIFIED = 0; MONDAY = 1; TUESDAY = 2; WEDNESDAY = 3; THURSDAY = 4;"
    " FRIDAY = 5; SATURDAY = 6; SUNDAY = 7; }",
    "decimal": "message Decimal { string value = 1; }",
    "expr": "message Expr { string expression = 1; string title = 2; string description = 3; string location = 4; }",
    "fraction": "message Fraction { int64 numerator = 1; int64 denominator = 2; }",
    "interval": 'import "google/protobuf/timestamp.proto"; message Interval {'
    " google.protobuf.Timestamp start_time = 1; google.protobuf.Timestamp end_time = 2; }",
    "latlng": "message LatLng { double latitude = 1; double longitude = 2; }",
    "localized_text": "message LocalizedText { string text = 1; string language_code = 2; }",
    "money": "message Money { string currency_code = 1; int64 units = 2; int32 nanos = 3; }",
    "month": "enum Month { MONTH_UNSPECIFIED = 0; JANUARY = 1; FEBRUARY = 2; MARCH = 3; APRIL = 4; MAY = 5; JUNE = 6;"
    " JULY = 7; AUGUST = 8; SEPTEMBER = 9; OCTOBER = 10; NOVEMBER = 11; DECEMBER = 12; }",
    "phone_number": "message PhoneNumber { message ShortCode { string region_code = 1; string number = 2; }"
    " oneof kind { string e164_number = 1; ShortCode short_code = 2; } string extension = 3; }",
    "postal_address": "message PostalAddress { int32 revision = 1; string region_code = 2; string language_code = 3;"
    " string postal_code = 4; string sorting_code = 5; string administrative_area = 6; string locality = 7;"
    " string sublocality = 8; repeated string address_lines = 9; repeated string recipients = 10;"
    " string organization = 11; }",
    "quaternion": "message Quaternion { double x = 1; double y = 2; double z = 3; double w = 4; }",
    "timeofday": "message TimeOfDay { int32 hours = 1; int32 minutes = 2; int32 seconds = 3; int32 nanos = 4; }",
}

_PROTO3 = 'syntax = "proto3";'

KNOWN_PROTOS = {
    "confluent/meta.proto": f"{_PROTO3} package confluent;",
    "confluent/type/decimal.proto": f"{_PROTO3} package confluent.type;"
    " message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }",
    "confluent/type/variant.proto": f"{_PROTO3} package confluent.type;"
    " message Variant { bytes metadata = 1; bytes value = 2; }",
    "confluent/types/decimal.proto": f'{_PROTO3} import public "confluent/type/decimal.proto";',
    **{f"google/protobuf/{name}_features.proto": _PROTO3 for name in ("cpp", "csharp", "go", "java")},
    **{f"google/type/{name}.proto": f"{_PROTO3} package google.type; {text}" for name, text in _TYPES.items()},
}
""".proto files that a schema may import without a reference, by the path that imports name them by.

Serializers register none of them: Confluent's leave out all below `google/protobuf/`, `google/type/` and `confluent/`
(`_is_builtin` of its Python client, ProtobufSchema of its Java one). Of meta.proto and the features of languages only
options are used, which are skipped.
"""


class ProtobufSchema:
    """A schema's messages, with all that it imports. Raises SchemaError."""

    def __init__(
        self, text: str, imports: Iterable[tuple[str, str]] = (), files: Mapping[str, str] | None = None
    ) -> None:
        """Take `imports`, name and text of what the schema refers to, each before what uses it.

        `files` are further ones that may be imported.
        """
        self._pool = _google("descriptor_pool").DescriptorPool()
        self._added: set[str] = set()
        self._sources = {**KNOWN_PROTOS, **(files or {}), **dict(imports)}
        self._classes: dict[tuple[int, ...], Any] = {}
        self._have_maps: dict[str, bool] = {}
        self.file = file_descriptor(text, ROOT)
        self._add(self.file, ())
        if _ANY in self._added:
            self._add_well_known()

    def decode(self, data: bytes, start: int, indexes: bytes | None = None) -> tuple[Message, str]:
        """Return the message of a payload from byte `start` on, and its full name. Raises SchemaError.

        The path to the message's type is in front of it, unless it is in `indexes`.
        """
        failed: SchemaError | None = None
        for zigzag in (True, False):
            try:
                if indexes is None:
                    path, at = message_indexes(data, start, zigzag=zigzag)
                else:
                    path, at = message_indexes(indexes or b"\0", 0, zigzag=zigzag)[0], start
                kind = self._class(path)
                return _parsed(kind, data[at:]), kind.DESCRIPTOR.full_name
            except SchemaError as error:
                failed = failed or error
        raise failed or SchemaError("no message")

    def message_name(self, data: bytes, start: int, indexes: bytes | None = None) -> str:
        """Return the full name of the message that a payload has from byte `start` on. Raises SchemaError."""
        path, _ = message_indexes(data, start) if indexes is None else message_indexes(indexes or b"\0", 0)
        name: str = self._class(path).DESCRIPTOR.full_name
        return name

    def message_class(self, full_name: str) -> Any:
        """Return the class of a message. Raises SchemaError."""
        try:
            return _google("message_factory").GetMessageClass(self._pool.FindMessageTypeByName(full_name))
        except KeyError:
            raise SchemaError(f"its schema has no message {full_name}") from None

    def shown(self, message: Message) -> Any:
        """Return a message as proto3 JSON, with the .proto file's names and without defaults. Raises SchemaError."""
        return shown_by_parts(message, self._whole)

    def _whole(self, message: Message) -> Any:
        found = _google("json_format").MessageToDict(
            message, preserving_proto_field_name=True, descriptor_pool=self._pool
        )
        descriptor = message.DESCRIPTOR
        has = self._have_maps.get(descriptor.full_name)
        if has is None:
            has = self._have_maps[descriptor.full_name] = has_maps(descriptor)
        return in_order(found, descriptor) if has else found

    def _class(self, path: tuple[int, ...]) -> Any:
        found = self._classes.get(path)
        if found is None:
            names = [self.file.package] if self.file.package else []
            messages = self.file.message_type
            for index in path:
                if index >= len(messages):
                    raise SchemaError(f"its schema has no message at index {', '.join(map(str, path))}")
                names.append(messages[index].name)
                messages = messages[index].nested_type
            found = self._classes[path] = self.message_class(".".join(names))
        return found

    def _add(self, file: Any, above: tuple[str, ...]) -> None:
        for name in file.dependency:
            self._import(name, above)
        self._added.add(file.name)
        try:
            self._pool.Add(file)
        except Exception as error:  # TypeError, ValueError, KeyError, by the library's version
            raise SchemaError(f"its schema cannot be used: {error}") from None

    def _import(self, name: str, above: tuple[str, ...]) -> None:
        if name in self._added:
            return
        if name in above:
            raise SchemaError(f"{name} imports itself")
        if name in self._sources:
            self._add(file_descriptor(self._sources[name], name), (*above, name))
        elif name in WELL_KNOWN:
            self._add(_well_known(name), (*above, name))
        else:
            raise SchemaError(f"it imports {name}, which is not among its references")

    def _add_well_known(self) -> None:
        """Add what an Any may hold without an import of it."""
        for name in WELL_KNOWN:
            with suppress(SchemaError):  # where a schema has these messages under another name
                self._import(name, ())


def file_descriptor(text: str, name: str) -> Any:
    """Return the FileDescriptorProto of a schema, under the name that imports have for it. Raises SchemaError."""
    descriptors = _google("descriptor_pb2")
    packed = _from_base64(text)
    if packed is None:
        from kdump.schema_registry.proto_text import parse_proto

        return parse_proto(text, name)
    try:
        file = descriptors.FileDescriptorProto.FromString(packed)
    except Exception as error:  # DecodeError, which the library has had in several places
        raise SchemaError(f"its schema is no descriptor: {error}") from None
    file.name = name
    return file


def _from_base64(text: str) -> bytes | None:
    """Return the bytes of a schema that is base64: a .proto text has characters that base64 has not."""
    try:
        return a2b_base64(text.strip().encode("ascii"), strict_mode=True) or None
    except (Base64Error, UnicodeEncodeError):
        return None


def _well_known(name: str) -> Any:
    file = _google("descriptor_pb2").FileDescriptorProto()
    import_module(WELL_KNOWN[name]).DESCRIPTOR.CopyToProto(file)
    return file


def _parsed(kind: Any, data: bytes) -> Message:
    try:
        return kind.FromString(data)
    except Exception as error:  # DecodeError, which the library has had in several places
        raise SchemaError(f"not a {kind.DESCRIPTOR.full_name}: {error}") from None


@cache
def _google(module: str) -> Any:
    """Return a module of the protobuf library. Raises ExtraMissingError."""
    try:
        return import_module(f"google.protobuf.{module}")
    except ImportError as error:
        raise ExtraMissingError("decoding Protobuf", error) from None


def shown_by_parts(message: Any, show: Show, depth: int = 0) -> Any:
    """Return the JSON of a message, by its parts where the library refuses it as a whole.

    It refuses an Any whose type is not among the schemas, and a time, a duration or another well-known value that has
    no JSON. Such a part is shown by its fields, the `value` of an Any in base64, the rest as the library does. Raises
    SchemaError for a message that is nested too deep.
    """
    if depth > MAX_DEPTH:
        raise SchemaError(f"its messages are nested more than {MAX_DEPTH} deep")
    try:
        return show(message)
    except Exception:  # whatever has no JSON: the library's exceptions have no common type
        pass
    if message.DESCRIPTOR.full_name == "google.protobuf.Any":
        return {"@type": message.type_url, "value": base64(message.value)}
    return {
        f"[{field.full_name}]" if field.is_extension else field.name: _field(field, value, show, depth + 1)
        for field, value in message.ListFields()
    }


def _field(field: Any, value: Any, show: Show, depth: int) -> Any:
    if is_map(field):
        kind = field.message_type.fields_by_name["value"]
        return {
            str(key).lower() if isinstance(key, bool) else str(key): _single(kind, value[key], show, depth)
            for key in sorted(value)
        }
    if hasattr(value, "extend"):
        return [_single(field, each, show, depth) for each in value]
    return _single(field, value, show, depth)


def _single(field: Any, value: Any, show: Show, depth: int) -> Any:
    kind = field.type
    if kind in _MESSAGES:
        return shown_by_parts(value, show, depth)
    if kind == _ENUM:
        known = field.enum_type.values_by_number.get(value)
        return value if known is None else known.name
    if kind == _BYTES:
        return base64(value)
    if kind in _LONGS:
        return str(value)
    return _number(value, is_double=kind == _FLOATS[0]) if kind in _FLOATS else value


def _number(value: float, *, is_double: bool) -> float | str:
    """Return a floating-point number as the library shows it: of 32 bits with as few digits as tell it from others."""
    if not isfinite(value):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    if not is_double:
        for digits in range(6, 10):
            short = float(f"{value:.{digits}g}")
            if abs(short) <= _MAX_FLOAT and unpack("f", pack("f", short))[0] == value:
                return short
    return value
