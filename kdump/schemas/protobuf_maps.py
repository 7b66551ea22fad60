"""The entries of Protobuf maps in the order of their keys: the library has them in another one in every process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kdump.schemas.errors import SchemaError
from kdump.schemas.protobuf_parts import MAX_DEPTH, MESSAGES, is_map

FindMessage = Callable[[str], Any]
"""The descriptor of a message by its full name; raises KeyError where there is none."""

_INTEGERS = frozenset((3, 4, 5, 6, 7, 13, 15, 16, 17, 18))
"""The types of fields that are whole numbers, which are text as keys in JSON."""
_ANY = "google.protobuf.Any"
_ANY_TYPE = "@type"
_STRUCTS = frozenset(("google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue"))
"""JSON in a message: an object there is a map of the library's, too."""


def has_maps(descriptor: Any, above: frozenset[str] = frozenset()) -> bool:
    """Return whether messages of a type may contain a map, at any depth."""
    name = descriptor.full_name
    if name in above:
        return False
    if name == _ANY or name in _STRUCTS:
        return True
    inner = [field for field in descriptor.fields if field.type in MESSAGES]
    return any(is_map(field) or has_maps(field.message_type, above | {name}) for field in inner)


def in_order(shown: Any, descriptor: Any, find: FindMessage, depth: int = 0) -> Any:
    """Return a message's JSON with the entries of its maps in order. Raises SchemaError for one nested too deep."""
    if depth > MAX_DEPTH:
        raise SchemaError(f"its messages are nested more than {MAX_DEPTH} deep")
    if descriptor.full_name in _STRUCTS:
        return _sorted(shown, depth)
    if not isinstance(shown, dict):
        return shown  # a time, a wrapped number and the like
    if descriptor.full_name == _ANY:
        return _any(shown, find, depth)
    found = dict(shown)
    for field in descriptor.fields:
        if field.name in found and field.type in MESSAGES:
            found[field.name] = _field(found[field.name], field, find, depth + 1)
    return found


def _field(value: Any, field: Any, find: FindMessage, depth: int) -> Any:
    kind = field.message_type
    if is_map(field) and isinstance(value, dict):
        keys, values = kind.fields_by_name["key"], kind.fields_by_name["value"]
        names = sorted(value, key=int if keys.type in _INTEGERS else str)
        if values.type not in MESSAGES:
            return {name: value[name] for name in names}
        return {name: in_order(value[name], values.message_type, find, depth) for name in names}
    if isinstance(value, list) and kind.full_name not in _STRUCTS:
        return [in_order(each, kind, find, depth) for each in value]
    return in_order(value, kind, find, depth)


def _any(shown: dict[str, Any], find: FindMessage, depth: int) -> dict[str, Any]:
    try:
        inner = find(str(shown.get(_ANY_TYPE, "")).rpartition("/")[2])
    except KeyError:
        return shown
    if set(shown) == {_ANY_TYPE, "value"}:
        return shown | {"value": in_order(shown["value"], inner, find, depth + 1)}
    ordered: dict[str, Any] = in_order(shown, inner, find, depth + 1)
    return ordered


def _sorted(value: Any, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise SchemaError(f"its messages are nested more than {MAX_DEPTH} deep")
    if isinstance(value, dict):
        return {name: _sorted(value[name], depth + 1) for name in sorted(value)}
    return [_sorted(each, depth + 1) for each in value] if isinstance(value, list) else value
