"""Maps of Protobuf messages in order of their keys: the library has them in another order in each process."""

from __future__ import annotations

from typing import Any

_MESSAGES, _TEXT, _BOOL = (10, 11), 9, 8
_ANY = "google.protobuf.Any"
_STRUCTS = ("google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue")


def is_map(field: Any) -> bool:
    """Return whether a field of a message is a map."""
    kind = field.message_type if field.type in _MESSAGES else None
    return kind is not None and kind.has_options and bool(kind.GetOptions().map_entry)


def has_maps(descriptor: Any) -> bool:
    """Return whether a message of this type may hold maps, at any depth."""
    seen = {descriptor.full_name}
    left = [descriptor]
    while left:
        here = left.pop()
        if here.full_name == _ANY or any(map(is_map, here.fields)):
            return True
        inner = {each.message_type.full_name: each.message_type for each in here.fields if each.type in _MESSAGES}
        left += [kind for name, kind in inner.items() if name not in seen]
        seen |= inner.keys()
    return False


def in_order(shown: Any, descriptor: Any) -> Any:
    """Return the JSON of a message, its maps in order of their keys."""
    name = descriptor.full_name
    if name in _STRUCTS:
        return _sorted(shown)
    if not isinstance(shown, dict):
        return shown
    if name == _ANY and "@type" in shown:
        held = descriptor.file.pool.FindMessageTypeByName(shown["@type"].rpartition("/")[2])
        return _sorted(shown) if held.full_name in _STRUCTS else in_order(shown, held)
    fields = descriptor.fields_by_name
    return {each: _field(fields[each], value) if each in fields else value for each, value in shown.items()}


def _field(field: Any, value: Any) -> Any:
    if field.type not in _MESSAGES:
        return value
    if is_map(field):
        key, kind = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
        keys = sorted(value, key=None if key.type in (_TEXT, _BOOL) else int)
        return {each: _field(kind, value[each]) for each in keys}
    if isinstance(value, list) and field.message_type.full_name not in _STRUCTS:
        return [in_order(each, field.message_type) for each in value]
    return in_order(value, field.message_type)


def _sorted(shown: Any) -> Any:
    if isinstance(shown, dict):
        return {name: _sorted(shown[name]) for name in sorted(shown)}
    return [_sorted(each) for each in shown] if isinstance(shown, list) else shown
