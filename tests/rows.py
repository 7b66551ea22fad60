"""The rows that a command prints in JSON, without what stands around them; all of them are as their schema says.

With KDUMP_WIDEN_ROW_SCHEMAS=1 the schemas take what rows show that they do not allow yet, as the sessions' do with
`--rewrite-transcripts`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import fastjsonschema

from tests import row_schemas

PLAIN_SUMMARY = {"type", "verdict", "exitCode"}
_HEADER = '{"type":"header"'


def rows_in(text: str | bytes) -> list[dict[str, Any]]:
    """The objects of JSON lines but for the header, and for a summary that has nothing but the verdict."""
    return [row for row in checked(text) if not is_around(row)]


def is_around(row: dict[str, Any]) -> bool:
    kind = row.get("type")
    return kind == "header" or (kind == "summary" and set(row) == PLAIN_SUMMARY)


def checked(text: str | bytes) -> list[dict[str, Any]]:
    """The rows of JSON lines; those after a header are as the schema that it names."""
    text = text if isinstance(text, str) else text.decode()
    rows = [json.loads(line) for line in text.splitlines()]
    if text.startswith(_HEADER):
        check_rows(rows[0]["schema"].removeprefix("kdump.").partition("/")[0], rows)
    return rows


def check_rows(command: str, rows: Sequence[dict[str, Any]]) -> None:
    """Fail for a row that the schema of a command does not allow, or with a field that it does not name."""
    if not row_schemas.path_of(command).exists():
        return  # that a command of a session has one is asked in tests/transcripts/test_row_schemas.py
    if os.environ.get("KDUMP_WIDEN_ROW_SCHEMAS"):
        known = row_schemas.read(command)
        row_schemas.path_of(command).write_text(row_schemas.text_of(row_schemas.widened(known, rows)), "utf-8")
        return
    validate, kinds = _schema_of(command)
    for row in rows:
        validate(row)
        assert set(row) <= kinds[row["type"]], f"{command}: {row['type']}: {set(row) - kinds[row['type']]}"


@cache
def _schema_of(command: str) -> tuple[Callable[[Any], Any], dict[str, set[str]]]:
    schema = row_schemas.read(command)
    kinds = {kind: set(each["properties"]) for kind, each in schema["definitions"].items()}
    return fastjsonschema.compile(schema), kinds
