"""Reads and widens the JSON Schemas of the rows that commands print."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "commands" / "row_schemas"

Row = dict[str, Any]
Schema = dict[str, Any]

HEADER: Schema = {
    "type": "object",
    "required": ["type", "schema", "kdump", "host", "startedAt", "paths", "options"],
    "properties": {
        "type": {"const": "header"},
        "schema": {"type": "string", "pattern": "^kdump\\.[a-z-]+/[0-9]+$"},
        "kdump": {"type": "string"},
        "host": {"type": "string"},
        "startedAt": {"type": "string", "format": "date-time"},
        "paths": {"type": "array", "items": {"type": "string"}},
        "options": {"type": "object"},
    },
}
VERDICT: Schema = {"enum": ["ok", "found", "incomplete", "refused", "interrupted", "failed"]}
SUMMARY: Schema = {
    "type": "object",
    "required": ["type", "verdict", "exitCode"],
    "properties": {"type": {"const": "summary"}, "verdict": VERDICT, "exitCode": {"type": "integer"}},
}

_NAMES = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}


_DEEPEST = 3


def path_of(command: str, version: int = 1) -> Path:
    return FOLDER / f"{command}.{version}.schema.json"


def read(command: str) -> Schema:
    found: Schema = json.loads(path_of(command).read_text(encoding="utf-8"))
    return found


def empty(command: str) -> Schema:
    """The schema of a command before anything is known of its rows."""
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": f"urn:kdump:{command}:1",
        "title": f"A line of kdump {command.replace('-', ' ')} --format jsonl, schema kdump.{command}/1",
        "type": "object",
        "required": ["type"],
        "anyOf": [],
        "definitions": {"header": HEADER, "summary": SUMMARY},
    }


def text_of(schema: Schema) -> str:
    """The schema as a file has it: a field of a row on a line of its own, for people read them too."""
    kinds = schema["definitions"]
    return _lines_of({**schema, "anyOf": [{"$ref": f"#/definitions/{kind}"} for kind in kinds]}) + "\n"


def _lines_of(value: Schema, indent: str = "") -> str:
    """An object with each member on a line; what is below the fields of a row is not divided further."""
    members = []
    for name, member in value.items():
        is_divided = isinstance(member, dict) and (name in ("definitions", "properties") or "properties" in member)
        is_divided &= len(indent) < _DEEPEST
        text = _lines_of(member, f"{indent} ") if is_divided else json.dumps(member)
        members.append(f"{indent} {json.dumps(name)}: {text}")
    return "{\n" + ",\n".join(members) + f"\n{indent}}}"


def widened(schema: Schema, rows: Iterable[Row]) -> Schema:
    """The schema with what rows show that it does not allow yet."""
    kinds = {kind: dict(known) for kind, known in schema["definitions"].items()}
    for row in rows:
        kind = row["type"]
        seen = {name: _schema_of(value) for name, value in row.items() if name != "type"}
        if kind == "header":
            continue
        if kind not in kinds:
            kinds[kind] = {
                "type": "object", "required": list(row), "properties": {"type": {"const": kind}, **seen},
            }  # fmt: skip
            continue
        known = kinds[kind]
        properties = dict(known["properties"])
        for name, found in seen.items():
            is_fixed = name == "verdict" or (kind == "summary" and name == "exitCode")
            properties[name] = properties[name] if is_fixed else _merged(properties.get(name), found)
        known |= {"required": [name for name in known["required"] if name in row], "properties": properties}
    return {**schema, "definitions": kinds}


def _schema_of(value: Any) -> Schema:
    if value is None:
        return {"type": ["null"]}
    found: Schema = {"type": [_NAMES[type(value)]]}
    if isinstance(value, list):
        items: Schema | None = None
        for each in value:
            items = _merged(items, _schema_of(each))
        if items is not None:
            found["items"] = items
    elif isinstance(value, dict):
        found |= {"required": list(value), "properties": {name: _schema_of(each) for name, each in value.items()}}
    return found


def _merged(known: Schema | None, found: Schema) -> Schema:
    """What either of two allows. The fields of an object are described where all that were seen have the same."""
    if known is None:
        return found
    types = list(dict.fromkeys((*known["type"], *found["type"])))
    if "number" in types and "integer" in types:
        types.remove("integer")
    merged: Schema = {"type": types}
    if "items" in known or "items" in found:
        merged["items"] = _merged(known["items"], found["items"]) if "items" in known and "items" in found else (
            known.get("items") or found["items"]
        )  # fmt: skip
    has_objects = ["object" in each["type"] for each in (known, found)]
    if all(has_objects):
        if known.get("required") and known.get("required") == found.get("required"):
            names = known["required"]
            merged["required"] = names
            merged["properties"] = {
                name: _merged(known["properties"][name], found["properties"][name]) for name in names
            }
    elif any(has_objects):
        merged |= {name: each[name] for each in (known, found) for name in ("required", "properties") if name in each}
    return merged
