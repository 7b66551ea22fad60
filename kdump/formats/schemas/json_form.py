"""Kafka's generated messages as its JSON converters give them, for every schema."""

from __future__ import annotations

import math
from typing import Any

from kdump.formats.printable import base64
from kdump.formats.schemas.description import UNKNOWN_TAGS, Column, Layout, Schema
from kdump.formats.uuids import format_uuid
from kdump.releases import KafkaRelease


def to_json(
    schema: Schema,
    version: int,
    value: dict[str, Any],
    release: KafkaRelease | None = None,
    *,
    keep_unknown: bool = False,
) -> dict[str, Any]:
    """Return what Kafka's generated JSON converter makes of a decoded message; `java_values.json_text` writes it.

    Fields in schema order, those absent in the version and tagged ones with their default left out; bytes as base64,
    uuids as 22 characters, NaN and the infinities as strings. `release` is the one whose converter it is; None: the
    newest known. Kafka leaves out the tagged fields that the schema does not have; `keep_unknown` puts them last.
    """
    return _json_struct(schema.layout(version, release), value, keep_unknown)


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
        json[UNKNOWN_TAGS] = [{"tag": tag, "data": base64(data)} for tag, data in value[UNKNOWN_TAGS].items()]
    return json


def _json_one(column: Column, value: Any, keep_unknown: bool) -> Any:
    if value is None:
        return None
    if column.layout is not None:
        return _json_struct(column.layout, value, keep_unknown)
    if column.kind == "uuid":
        return format_uuid(value)
    if column.kind == "bytes":
        return base64(value)
    if column.kind == "float64" and value - value != 0:
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value
