"""The JSON Schemas that ship with kdump hold for every row that a session has, and name every field.

`--rewrite-transcripts` adds to them what rows show that they do not allow yet: a field that is new keeps the version,
one that is gone or means something else needs a new file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastjsonschema
import pytest

from kdump.commands.row_schemas import schema_file
from kdump.commands.shell.rows import SCHEMA_VERSION
from tests import row_schemas
from tests.agreement.running import kdump
from tests.row_schemas import Row
from tests.transcripts.sessions import SESSIONS

_SCHEMA = re.compile(r'\{(?:"type":"header",)?"schema":"kdump\.([a-z-]+)/\d+"')
_TEXTS = re.compile(r'("(?:host|startedAt|kdump)": ?)N\b')
_NUMBERS = re.compile(r'("\w+": ?)N\b')


def printed() -> dict[str, list[Row]]:
    """The rows of all sessions by command, as the header before them says it."""
    found: dict[str, list[Row]] = {}
    for path in sorted(SESSIONS.glob("*.txt")):
        command = None
        for line in path.read_text(encoding="utf-8", errors="surrogateescape").splitlines():
            if line.startswith("$ "):
                command = None
            if named := _SCHEMA.match(line):
                command = named[1]
            if not line.startswith('{"type"'):
                continue
            # those of a document end with a comma, and its header is the document itself
            row = json.loads(_NUMBERS.sub(r"\g<1>0", _TEXTS.sub(r'\1"N"', line)).removesuffix(","))
            if row["type"] == "header":
                row["startedAt"] = "2026-11-22T03:50:30Z"
            if command is not None:
                found.setdefault(command, []).append(row)
    return found


PRINTED = printed()

SCHEMA_FIELDS = ("keySchemaId", "keyMessage", "valueSchemaId", "valueMessage")
KAFKAS = {"fenced", "inControlledShutdown", "zkMigrationReady"}
"""Fields that are called so in Kafka's own records."""


@pytest.mark.parametrize("command", PRINTED)
def test_every_row_of_the_sessions_is_as_its_schema_says(command: str, rewrites: bool) -> None:
    path = row_schemas.path_of(command)
    if rewrites:
        known = row_schemas.read(command) if path.exists() else row_schemas.empty(command)
        path.write_text(row_schemas.text_of(row_schemas.widened(known, PRINTED[command])), encoding="utf-8")
    schema = row_schemas.read(command)
    validate = fastjsonschema.compile(schema)
    for row in PRINTED[command]:
        validate(row)
        assert set(row) <= set(schema["definitions"][row["type"]]["properties"]), row["type"]


@pytest.mark.parametrize("path", sorted(row_schemas.FOLDER.glob("*.json")), ids=lambda path: path.name)
def test_a_schema_is_one_and_ships(path: Path) -> None:
    command, version, *_ = path.name.split(".")
    schema = json.loads(schema_file(command, int(version)).read_text(encoding="utf-8"))
    fastjsonschema.compile(schema)
    assert schema["$id"] == f"urn:kdump:{command}:{version}"
    assert command in PRINTED, "no session prints rows of it"


def _kinds() -> Iterator[tuple[str, str, row_schemas.Schema]]:
    """Each type of rows, with its command; headers and summaries are every command's."""
    for path in sorted(row_schemas.FOLDER.glob("*.json")):
        command = path.name.partition(".")[0]
        for kind, schema in row_schemas.read(command)["definitions"].items():
            if kind not in ("header", "summary"):
                yield command, kind, schema


ANSWER_TO_OFFSET = (
    "segment", "indexOffset", "indexPosition", "isFound", "batchBaseOffset", "batchLastOffset", "position",
    "size", "isValid",
)  # fmt: skip
LEFT_OUT = {
    ("dump", "record"): {"keyBase64", "valueBase64", *SCHEMA_FIELDS},
    ("lookup", "answer"): {*ANSWER_TO_OFFSET, "result"},
}
"""Where rows of a type have different fields: most of millions of records lack these, and an answer is either to an
offset or to a time."""

WITHOUT_PATH = {
    "dump": "a row is of a file, and what record it is does not depend on where that file is",
    "groups": "a partition that consumers read, wherever its copies are",
    "metadata": "a partition of the cluster",
    "replicas": "all copies of a partition; a row about one has its path",
}


def test_no_field_is_left_out() -> None:
    for command, kind, schema in _kinds():
        left_out = set(schema["properties"]) - set(schema["required"])
        assert left_out == LEFT_OUT.get((command, kind), set()), (command, kind)


def test_a_field_that_is_true_or_false_is_a_question() -> None:
    for command, kind, schema in _kinds():
        for name, value in schema["properties"].items():
            if value.get("type") == ["boolean"] and name not in KAFKAS:
                assert re.match("(?:is|has)[A-Z]", name), (command, kind, name)


def test_a_row_about_a_partition_says_where_it_is() -> None:
    for command, kind, schema in _kinds():
        if "partition" in schema["properties"] and command not in WITHOUT_PATH:
            fields = set(schema["properties"])
            assert fields >= {"topic"}, (command, kind)
            assert fields & {"path", "paths"}, (command, kind)


def _rejected(command: str) -> Iterator[Any]:
    row = next(row for row in PRINTED[command] if row["type"] not in ("header", "summary"))
    name = next(name for name in row if name != "type")
    yield {key: value for key, value in row.items() if key != name}
    yield row | {"type": "nothing"}
    yield row | {name: {"an": ["object"]}}
    yield {"type": "summary", "verdict": "fine", "exitCode": 0}


@pytest.mark.parametrize("command", ["ls", "stats", "verify"])
def test_a_schema_rejects_other_rows(command: str) -> None:
    validate = fastjsonschema.compile(row_schemas.read(command))
    for row in _rejected(command):
        with pytest.raises(fastjsonschema.JsonSchemaValueException):
            validate(row)


def test_a_schema_can_be_asked_for_by_its_number(tmp_path: Path) -> None:
    said = kdump(tmp_path, "explain", "KD-LOG-CRC", "-o", "jsonl", "--schema", SCHEMA_VERSION)
    assert said.code == 0
    assert json.loads(said.out.splitlines()[0])["schema"] == f"kdump.explain/{SCHEMA_VERSION}"
    other = kdump(tmp_path, "explain", "KD-LOG-CRC", "-o", "jsonl", "--schema", SCHEMA_VERSION + 1)
    assert (other.code, other.out) == (2, "")
    assert "rows of kdump explain have the schema 1" in other.err
