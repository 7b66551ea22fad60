"""The rows that a command prints in JSON, without what stands around them."""

from __future__ import annotations

import json
from typing import Any

PLAIN_SUMMARY = {"type", "verdict", "exitCode"}


def rows_in(text: str) -> list[dict[str, Any]]:
    """The objects of JSON lines but for the header, and for a summary that has nothing but the verdict."""
    return [row for row in map(json.loads, text.splitlines()) if not is_around(row)]


def is_around(row: dict[str, Any]) -> bool:
    kind = row.get("type")
    return kind == "header" or (kind == "summary" and set(row) == PLAIN_SUMMARY)
