"""How deep containers of a decoded value are within each other."""

from __future__ import annotations

from typing import Any

from kdump.schema_registry.errors import SchemaError

MAX_NESTING = 300
"""Objects and lists within each other: what writes a value as JSON recurses in Python, more than once a level."""


def check_nesting(value: Any) -> None:
    """Raise SchemaError where the containers of a value are nested deeper than MAX_NESTING."""
    if nesting(value) > MAX_NESTING:
        raise SchemaError(f"values within values, more than {MAX_NESTING} deep")


def nesting(value: Any) -> int:
    """Return how many dictionaries and lists are within each other, MAX_NESTING + 1 for more."""
    depth, level = 0, [value] if isinstance(value, (dict, list)) else []
    while level and depth <= MAX_NESTING:
        depth += 1
        inner = (child for each in level for child in (each.values() if isinstance(each, dict) else each))
        level = [child for child in inner if isinstance(child, (dict, list))]
    return depth
