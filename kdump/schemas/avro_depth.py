"""How deep the values of a recursive Avro schema go, found out before a decoder recurses over them in C."""

from __future__ import annotations

from typing import Any

from kdump.schemas.errors import SchemaError

MAX_DEPTH = 2000
"""Records within records. A payload of no more bytes cannot go deeper."""

_BYTES = frozenset(("bytes", "string"))
_NUMBERS = frozenset(("int", "long", "enum"))
_SIZES = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_LEAVE = object()


def check_depth(schema: Any, payload: bytes) -> None:
    """Raise SchemaError where the values of a payload are nested deeper than MAX_DEPTH records."""
    try:
        _walk(schema, payload)
    except (IndexError, KeyError):
        raise SchemaError("not what its Avro schema says: it breaks off") from None


def _walk(schema: Any, data: bytes) -> None:
    named: dict[str, Any] = {}
    _name(schema, named)
    todo: list[Any] = [schema]
    at = depth = 0
    while todo:
        schema = todo.pop()
        if schema is _LEAVE:
            depth -= 1
            continue
        if isinstance(schema, _Blocks):
            if not schema.left:
                schema.left, at = _block(data, at)
                if not schema.left:
                    continue
            if at >= len(data):
                raise IndexError
            schema.left -= 1
            todo.append(schema)
            if schema.is_map:
                at = _behind_bytes(data, at)
            todo.append(schema.items)
            continue
        if isinstance(schema, list):
            branch, at = _long(data, at)
            if branch < 0:
                raise IndexError
            todo.append(schema[branch])
            continue
        kind = schema["type"] if isinstance(schema, dict) else schema
        if kind in _BYTES:
            at = _behind_bytes(data, at)
        elif kind in _NUMBERS:
            _, at = _long(data, at)
        elif kind in _SIZES:
            at += _SIZES[kind]
        elif kind == "fixed":
            at += schema["size"]
        elif kind == "array":
            todo.append(_Blocks(schema["items"], is_map=False))
        elif kind == "map":
            todo.append(_Blocks(schema["values"], is_map=True))
        elif kind == "record":
            depth += 1
            if depth > MAX_DEPTH:
                raise SchemaError(f"records within records, more than {MAX_DEPTH:,} deep")
            todo.append(_LEAVE)
            todo += (field["type"] for field in reversed(schema["fields"]))
        else:
            todo.append(named[kind])


class _Blocks:
    """The items of an array or map that are still to come; `left` of the present block."""

    __slots__ = ("is_map", "items", "left")

    def __init__(self, items: Any, *, is_map: bool) -> None:
        self.items = items
        self.is_map = is_map
        self.left = 0


def _name(schema: Any, named: dict[str, Any]) -> None:
    if isinstance(schema, list):
        for branch in schema:
            _name(branch, named)
    elif isinstance(schema, dict):
        if "name" in schema:
            named[schema["name"]] = schema
        for field in schema.get("fields", ()):
            _name(field["type"], named)
        for inner in ("items", "values"):
            _name(schema.get(inner), named)


def _long(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
    raise IndexError


def _block(data: bytes, at: int) -> tuple[int, int]:
    count, at = _long(data, at)
    if count < 0:
        _, at = _long(data, at)
    return abs(count), at


def _behind_bytes(data: bytes, at: int) -> int:
    size, at = _long(data, at)
    if not 0 <= size <= len(data) - at:
        raise IndexError
    return at + size
