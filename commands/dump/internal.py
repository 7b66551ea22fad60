"""Decoded records of internal topics in `kdump dump`, for people."""

from __future__ import annotations

import re
from typing import Any

from kdump.formats.printable import safe
from kdump.formats.schemas.decoding import Json
from kdump.formats.schemas.state_names import state_names

from ..shell.times import iso_time

_PLAIN = r"[^\s\"'=,{}\[\]]+"
_TIME = r"(?:Timestamp|TimestampMs)$|^timestamp$"


def text_line(decoded: Json, *, named: bool = False) -> str:
    """Return decoded contents for people: the record's name, unless it is `named` already, version and fields."""
    version = decoded.get("version")
    parts = [] if named else [decoded["name"]]
    if version is not None:
        parts.append(f"v{version}")
    if decoded.get("newer"):
        parts.append("(newer than this kdump)")
    data = decoded["data"]
    if data.get("version") == version:
        data = {name: value for name, value in data.items() if name != "version"}
    if data:
        parts.append(_fields(data))
    return " ".join(parts)


def _fields(data: Json) -> str:
    return " ".join(f"{name}={_field(name, value)}" for name, value in data.items())


def _field(name: str, value: Any) -> str:
    if isinstance(value, dict):
        return f"{{{_fields(value)}}}"
    if isinstance(value, list):
        return f"[{', '.join(_field(name, element) for element in value)}]"
    if isinstance(value, str):
        return _word(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int) and value >= 0 and re.search(_TIME, name):
        return iso_time(value)
    states = state_names(name)
    return f"{value} ({states[value]})" if value in states else str(value)


def _word(text: str) -> str:
    """Return a text as it is where nothing else could be meant by it, else in quotes."""
    if text != "null" and re.fullmatch(_PLAIN, text) and text.isprintable():
        return text
    return '"' + safe(text.replace('"', '\\"')) + '"'
