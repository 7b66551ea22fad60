"""How deep the values of a recursive Avro schema go, found out before a decoder recurses over them in C."""

from __future__ import annotations

from typing import Any

from kdump.formats.encode import read_varint
from kdump.schema_registry.errors import SchemaError

MAX_DEPTH = 2000
"""Records within records. A payload of no more bytes cannot go deeper."""

_BYTES = frozenset(("bytes", "string"))
_NUMBERS = frozenset(("int", "long", "enum"))
_SIZES = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_LEAVE = object()


def check_depth(schema: Any, payload: bytes) -> None:
    """Raise SchemaError where the values of a payload are nested deeper than MAX_DEPTH records."""
    try:
        _Walk(schema, payload).run()
    except (IndexError, KeyError):
        raise SchemaError("not what its Avro schema says: it breaks off") from None


class _Walk:
    """One pass over a payload, with the schemas of what is still to come instead of recursion."""

    def __init__(self, schema: Any, data: bytes) -> None:
        self._named = named_types(schema)
        self._data = data
        self._todo: list[Any] = [schema]
        self._at = self._depth = 0

    def run(self) -> None:
        while self._todo:
            schema = self._todo.pop()
            if schema is _LEAVE:
                self._depth -= 1
            elif isinstance(schema, _Blocks):
                self._item(schema)
            elif isinstance(schema, list):
                branch, self._at = _long(self._data, self._at)
                if branch < 0:
                    raise IndexError
                self._todo.append(schema[branch])
            else:
                self._value(schema)

    def _item(self, blocks: _Blocks) -> None:
        if not blocks.left:
            blocks.left, self._at = _block(self._data, self._at)
            if not blocks.left:
                return
        if self._at >= len(self._data):
            raise IndexError
        blocks.left -= 1
        self._todo.append(blocks)
        if blocks.is_map:
            self._at = _behind_bytes(self._data, self._at)
        self._todo.append(blocks.items)

    def _value(self, schema: Any) -> None:
        kind = schema["type"] if isinstance(schema, dict) else schema
        if kind in _BYTES:
            self._at = _behind_bytes(self._data, self._at)
        elif kind in _NUMBERS:
            _, self._at = _long(self._data, self._at)
        elif kind in _SIZES:
            self._at += _SIZES[kind]
        elif kind == "fixed":
            self._at += schema["size"]
        elif kind == "array":
            self._todo.append(_Blocks(schema["items"], is_map=False))
        elif kind == "map":
            self._todo.append(_Blocks(schema["values"], is_map=True))
        elif kind == "record":
            self._depth += 1
            if self._depth > MAX_DEPTH:
                raise SchemaError(f"records within records, more than {MAX_DEPTH:,} deep")
            self._todo.append(_LEAVE)
            self._todo += (field["type"] for field in reversed(schema["fields"]))
        else:
            self._todo.append(self._named[kind])


class _Blocks:
    """The items of an array or map that are still to come; `left` of the present block."""

    __slots__ = ("is_map", "items", "left")

    def __init__(self, items: Any, *, is_map: bool) -> None:
        self.items = items
        self.is_map = is_map
        self.left = 0


def named_types(schema: Any) -> dict[str, Any]:
    """Return the types of a parsed schema that have a name, by it."""
    named: dict[str, Any] = {}
    _name(schema, named)
    return named


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
    return read_varint(data, at, 10)


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
