"""The Arrow types of Protobuf messages, and their values in them.

Fields with presence are null where they are not set, others have their default. Enums are names, the numbers of
unknown ones as text. Messages that hold themselves, Any, Struct and Value are JSON text, and what lies too
deep where there would be too many fields (kdump.columns.nested).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa

from kdump.columns.nested import Room, deepest
from kdump.interchange.jsonl import decoded_json
from kdump.schema_registry.protobuf import ProtobufSchema
from kdump.schema_registry.protobuf_maps import is_map

Read = Callable[[Any], Any]
"""From a message, or a value of its field, to what Arrow takes."""

_MESSAGE, _ENUM = 11, 14
_GROUP = 10
_SCALARS = {
    1: pa.float64(), 2: pa.float32(), 3: pa.int64(), 4: pa.uint64(), 5: pa.int32(), 6: pa.uint64(), 7: pa.uint32(),
    8: pa.bool_(), 9: pa.string(), 12: pa.binary(), 13: pa.uint32(), 15: pa.int32(), 16: pa.int64(), 17: pa.int32(),
    18: pa.int64(),
}  # fmt: skip
_WRAPPERS = {
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
}
_JSON = {f"google.protobuf.{name}" for name in ("Any", "Struct", "Value", "ListValue", "FieldMask", "Duration")}
_TIMESTAMP = "google.protobuf.Timestamp"


def arrow_type(schema: ProtobufSchema, full_name: str) -> tuple[pa.DataType, Read]:
    """Return the type of a message, and what makes its values. Raises SchemaError."""
    descriptor = schema.message_class(full_name).DESCRIPTOR
    return deepest(lambda room: _message(_Scope(schema, room), descriptor))


class _Scope(NamedTuple):
    """What a message is in: the schema, the room for fields, and the names of the messages around it."""

    schema: ProtobufSchema
    room: Room
    above: tuple[str, ...] = ()


def _message(scope: _Scope, descriptor: Any) -> tuple[pa.DataType, Read]:
    name = descriptor.full_name
    if name == _TIMESTAMP:
        return pa.timestamp("us", "UTC"), lambda value: value.seconds * 1_000_000 + value.nanos // 1000
    if name in _WRAPPERS:
        return _SCALARS[descriptor.fields_by_name["value"].type], lambda value: value.value
    is_deep = name in scope.above or len(scope.above) >= scope.room.depth
    if name in _JSON or is_deep or not descriptor.fields:
        return pa.string(), lambda message: decoded_json(scope.schema.shown(message))
    inner = scope._replace(above=(*scope.above, name))
    fields, reads = [], []
    for field in descriptor.fields:
        scope.room.take()
        kind, read = _field(inner, field)
        fields.append(pa.field(field.name, kind))
        reads.append((field.name, read))
    return pa.struct(fields), lambda message: {name: read(message) for name, read in reads}


def _field(scope: _Scope, field: Any) -> tuple[pa.DataType, Read]:
    name = field.name
    if is_map(field):
        key, value = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
        kind, read = _single(scope, value)
        keys, _ = _single(scope, key)
        return pa.map_(keys, kind), lambda message: [(k, read(v)) for k, v in sorted(getattr(message, name).items())]
    kind, read = _single(scope, field)
    if _is_repeated(field):
        return pa.list_(kind), lambda message: [read(value) for value in getattr(message, name)]
    if field.has_presence:
        return kind, lambda message: read(getattr(message, name)) if message.HasField(name) else None
    return kind, lambda message: read(getattr(message, name))


def _single(scope: _Scope, field: Any) -> tuple[pa.DataType, Read]:
    if field.type in (_MESSAGE, _GROUP):
        return _message(scope, field.message_type)
    if field.type == _ENUM:
        names: dict[int, str] = {}
        for value in field.enum_type.values:  # of aliases the first counts, as in JSON
            names.setdefault(value.number, value.name)
        return pa.string(), lambda number: names.get(number) or str(number)
    return _SCALARS[field.type], lambda value: value


def _is_repeated(field: Any) -> bool:
    found = getattr(field, "is_repeated", None)  # a method or a property by the library's version, or none
    if found is None:
        return bool(field.label == field.LABEL_REPEATED)
    return bool(found() if callable(found) else found)
