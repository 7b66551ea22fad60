"""A Protobuf message as JSON, part by part: for those that the library refuses as a whole.

That are messages with an Any whose type is not among the schemas, or with a time, a duration or another well-known
value that has no JSON. Such a part is shown by its fields, the `value` of an Any in base64, the rest as the
library does.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from struct import pack, unpack
from typing import Any

from kdump.formats.printable import base64
from kdump.schemas.errors import SchemaError
from kdump.schemas.protobuf_maps import is_map

Show = Callable[[Any], Any]
"""The JSON of a message by the library, which raises where there is none."""

MAX_DEPTH = 200
"""Messages within each other: more than the library reads."""

_MESSAGES, _ENUM, _BYTES, _FLOATS = (10, 11), 14, 12, (1, 2)
_MAX_FLOAT = 3.4028235e38
_LONGS = (3, 4, 6, 16, 18)
"""The types of numbers of 64 bits, which are text in JSON."""


def shown_by_parts(message: Any, show: Show, depth: int = 0) -> Any:
    """Return the JSON of a message. Raises SchemaError for one that is nested too deep."""
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
