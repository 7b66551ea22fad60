"""The Arrow types of Avro schemas, and their values in them.

What Arrow has no column for that all readers know is JSON text: unions of more than null and one type, and records
that hold themselves. So is what lies too deep where there would be too many fields (kdump.columns.nested).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa

from kdump.columns.nested import Room, deepest
from kdump.interchange.jsonl import decoded_json
from kdump.schema_registry.avro import AvroSchema
from kdump.schema_registry.avro_depth import named_types
from kdump.schema_registry.avro_values import json_of

Fix = Callable[[Any], Any] | None
"""Makes a native value (kdump.schema_registry.avro) one that Arrow takes; None where it is one already."""

MAX_DECIMAL128, MAX_DECIMAL256 = 38, 76
_MAX_FIXED = (1 << 31) - 1

_PRIMITIVES = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_UNITS = {"millis": "ms", "micros": "us", "nanos": "ns"}
_TIMES = {
    "date": pa.date32(),
    "time-millis": pa.time32("ms"),
    "time-micros": pa.time64("us"),
    **{f"timestamp-{name}": pa.timestamp(unit, "UTC") for name, unit in _UNITS.items()},
    **{f"local-timestamp-{name}": pa.timestamp(unit) for name, unit in _UNITS.items()},
}


def arrow_type(schema: AvroSchema) -> tuple[pa.DataType, Fix]:
    """Return the type of a schema's values (of the native form), and what makes them fit."""
    named = named_types(schema.json)
    return deepest(lambda room: _type(schema.json, _Scope(named, room)))


def json_text(value: Any) -> str | None:
    """Return a native value as JSON text."""
    return None if value is None else decoded_json(json_of(value))


class _Scope(NamedTuple):
    """What a type is in: the named types, the room for fields, and the names of the records around it."""

    named: dict[str, Any]
    room: Room
    above: tuple[str, ...] = ()


def _type(schema: Any, scope: _Scope) -> tuple[pa.DataType, Fix]:  # noqa: PLR0911 - one for each kind of schema
    if isinstance(schema, list):
        branches = [branch for branch in schema if branch != "null"]
        if len(branches) == 1:
            kind, fix = _type(branches[0], scope)
            return kind, None if fix is None else _optional(fix)
        return (pa.string(), json_text) if branches else (pa.null(), None)
    if isinstance(schema, str):
        if schema in _PRIMITIVES:
            return _PRIMITIVES[schema], None
        if schema in scope.above:
            return pa.string(), json_text
        schema = scope.named[schema]
    kind = schema["type"]
    if kind == "record":
        return _struct(schema, scope)
    if kind == "array":
        items, fix = _type(schema["items"], scope)
        return pa.list_(items), None if fix is None else _each(fix)
    if kind == "map":
        values, fix = _type(schema["values"], scope)
        return pa.map_(pa.string(), values), _pairs(fix)
    if kind == "enum":
        return pa.string(), None
    return _logical(schema, kind)


def _logical(schema: Any, kind: str) -> tuple[pa.DataType, Fix]:
    logical = schema.get("logicalType", "").rpartition("kdump-native-")[2]
    if logical in _TIMES:
        return _TIMES[logical], None
    if logical == "uuid":
        return pa.string(), None
    if logical == "decimal":
        precision, scale = schema.get("precision", 0), schema.get("scale", 0)
        if 0 < precision <= MAX_DECIMAL256 and 0 <= scale <= precision:
            make = pa.decimal128 if precision <= MAX_DECIMAL128 else pa.decimal256
            return make(precision, scale), None
        return pa.string(), lambda value: format(value, "f")
    if kind == "fixed":
        return pa.binary(schema["size"] if schema["size"] <= _MAX_FIXED else -1), None
    return _PRIMITIVES[kind], None


def _struct(schema: Any, scope: _Scope) -> tuple[pa.DataType, Fix]:
    if len(scope.above) >= scope.room.depth:
        return pa.string(), json_text
    inner = scope._replace(above=(*scope.above, schema["name"]))
    fields, fixes = [], {}
    for field in schema["fields"]:
        scope.room.take()
        kind, fix = _type(field["type"], inner)
        fields.append(pa.field(field["name"], kind))
        if fix is not None:
            fixes[field["name"]] = fix
    if not fields:
        return pa.string(), json_text
    return pa.struct(fields), _members(fixes) if fixes else None


def _optional(fix: Callable[[Any], Any]) -> Fix:
    return lambda value: None if value is None else fix(value)


def _each(fix: Callable[[Any], Any]) -> Fix:
    return lambda values: [fix(value) for value in values]


def _pairs(fix: Fix) -> Fix:
    if fix is None:
        return lambda values: list(values.items())
    return lambda values: [(name, fix(value)) for name, value in values.items()]


def _members(fixes: dict[str, Callable[[Any], Any]]) -> Fix:
    def fix_all(record: Any) -> Any:  # into a new one: a default of the reader's is the same object each time
        return {**record, **{name: fix(record[name]) for name, fix in fixes.items()}}

    return fix_all
