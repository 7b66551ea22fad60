"""What `kdump dump` prints in jsonl and csv keeps to the tables of docs/dump-format.md, for every log and file here."""

from __future__ import annotations

import base64
import csv
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kdump.commands.cli import cli
from kdump.formats.names import LOG, OTHER, parse_file_name
from tests.rows import rows_in
from tests.sampling import sampled

ROOT = Path(__file__).resolve().parents[2]
CORPUS = ROOT / "fixtures" / "corpus"
DOCUMENT = ROOT / "docs" / "dump-format.md"
CASES = sorted(path.name for path in CORPUS.iterdir() if path.is_dir())

INT64 = range(-(1 << 63), 1 << 63)
TYPES = {"number": int, "text": str, "truth": bool, "list": list}
TWINNED = ("key", "value")
DECODED = {"type", "name", "version", "data"}

Schema = dict[str, dict[str, str]]


def schema() -> Schema:
    """Of each type of object its fields in their order, with their types in the document's words."""
    sections = re.split(r"^### ", DOCUMENT.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return {
        section.split("\n", 1)[0].partition(":")[0].strip(): dict(
            re.findall(r"^\| `(\w+)` \| ([a-z ]+?) \|", section, re.MULTILINE)
        )
        for section in sections
        if "| field | type |" in section
    }


SCHEMA = schema()


def check_object(item: dict[str, Any]) -> None:
    """Compare an object of jsonl with the table for its type."""
    fields = SCHEMA[item["type"]]
    names = [name for name in fields if name in item or name.removesuffix("Base64") not in TWINNED]
    if item["type"] == "record":
        names = [name for name in names if name in item]
        assert set(fields) - set(names) <= {"keyBase64", "valueBase64"}
    assert list(item) == ["type", *names]
    for name in names:
        check_value(name, item[name], fields[name])
    check_twins(item)
    for header in item.get("headers", ()):
        assert set(header) <= {"key", "keyBase64", "value", "valueBase64"}
        assert {"key", "value"} <= set(header)
        assert header["key"] is not None or "keyBase64" in header
        check_twins(header)


def check_value(name: str, value: object, documented: str) -> None:
    """Compare one value with the words for its type."""
    kind, _, alternative = documented.partition(" or ")
    if value is None:
        assert alternative == "null" or name in TWINNED
    elif name in TWINNED and isinstance(value, dict):  # of an internal topic
        assert set(value) in (DECODED, DECODED - {"version"})
    else:
        assert type(value) is TYPES[kind], (name, value)
        assert not isinstance(value, int) or value in INT64


def check_twins(item: dict[str, Any]) -> None:
    """A twin stands beside a null, right behind it, and holds what is no UTF-8."""
    names = list(item)
    for name in TWINNED:
        twin = f"{name}Base64"
        if twin in item:
            assert item[name] is None
            assert names.index(twin) == names.index(name) + 1
            with pytest.raises(UnicodeDecodeError):
                base64.b64decode(item[twin], validate=True).decode()


def lines(*arguments: str) -> Iterator[str]:
    """What the command prints; damage does not matter here."""
    done = CliRunner().invoke(cli, ["dump", *arguments], standalone_mode=False)
    assert done.exception is None, done.exception
    assert done.return_value in (0, 1)
    yield from done.stdout.splitlines()


def files(case: str) -> list[Path]:
    """Every file of a case that `kdump dump` takes."""
    found = []
    for path in sorted((CORPUS / case).rglob("*")):
        parsed = parse_file_name(path.name)
        if path.is_file() and parsed.kind not in (OTHER, "lock") and (parsed.kind != LOG or parsed.offset is not None):
            found.append(path)
    return found


def test_the_document_has_tables() -> None:
    assert {"record", "batch", "offsetIndexEntry", "producerState"} < set(SCHEMA)
    assert all(SCHEMA.values())
    words = {words for fields in SCHEMA.values() for words in fields.values()}
    assert {word for text in words for word in text.split(" or ")} == {*TYPES, "null"}


@pytest.mark.parametrize("case", sampled(CASES, 8))
@pytest.mark.parametrize("raw", [(), ("--raw",)], ids=["decoded", "raw"])
def test_jsonl(case: str, raw: tuple[str, ...]) -> None:
    seen = 0
    for path in files(case):
        for line in rows_in("\n".join(lines(str(path), "--format", "jsonl", *raw))):
            check_object(line)
            seen += 1
    assert seen or "empty" in case


def test_every_type_was_seen() -> None:
    seen = {
        row["type"]
        for case in CASES
        for path in files(case)
        for row in rows_in("\n".join(lines(str(path), "--format", "jsonl", "--limit", "1")))
    }
    assert set(SCHEMA) - seen <= {"quorumState", "metaProperties", "cleanShutdown", "partitionMetadata"}


@pytest.mark.parametrize("case", sampled(CASES, 8))
def test_csv(case: str) -> None:
    """The same rows as jsonl, under the same names; and each cell is what the table says."""
    for path in files(case):
        head, *rows = csv.reader(io.StringIO("\n".join(lines(str(path), "--format", "csv", "--raw")), newline=""))
        items = rows_in("\n".join(lines(str(path), "--format", "jsonl", "--raw")))
        items = [item for item in items if item["type"] != "batch"]
        assert len(rows) == len(items)
        for row, item in zip(rows, items, strict=True):
            assert head == list(SCHEMA[item["type"]])
            for name, cell in zip(head, row, strict=True):
                if name.removesuffix("Base64") not in TWINNED:
                    check_cell(cell, item[name])


def check_cell(cell: str, value: object) -> None:
    """Compare a cell with the value in jsonl."""
    if isinstance(value, str):
        assert cell == value
    elif value is None:
        assert cell == ""
    else:
        assert json.loads(cell) == value
