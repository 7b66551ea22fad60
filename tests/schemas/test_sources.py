"""Schemas from a partition directory, from exports of it, and from folders."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kdump.errors import KdumpError, Problem
from kdump.schema_registry.registry import Registry
from kdump.schema_registry.sources import read_schemas
from tests.commands.running import invoked
from tests.schemas.registries import PROTO, partition, schema_record, tombstone

RECORDS = (
    schema_record("a-value", 1, 1, '"int"'),
    schema_record("a-value", 2, 2, '"long"'),
    tombstone("a-value", 1, b""),
    schema_record("p-value", 1, 3, PROTO, schemaType="PROTOBUF"),
)


def read(path: Path) -> Registry:
    problems: list[Problem] = []
    found = read_schemas(str(path), problems.append)
    assert problems == []
    return found


def texts(found: Registry) -> dict[int, str]:
    return {schema.id: schema.text for schema in found.schemas}


def test_a_partition_directory(tmp_path: Path) -> None:
    assert texts(read(partition(tmp_path, *RECORDS))) == {1: '"int"', 2: '"long"', 3: PROTO}


@pytest.mark.parametrize("format_", ["jsonl", "csv"])
def test_what_dump_printed_of_it(format_: str, tmp_path: Path) -> None:
    topic = partition(tmp_path, *RECORDS)
    dumped = tmp_path / f"schemas.{format_}"
    dumped.write_text(invoked("dump", topic, "--format", format_, "--raw").stdout)
    assert texts(read(dumped)) == texts(read(topic))


@pytest.mark.parametrize("format_", ["parquet", "jsonl", "csv"])
def test_what_export_wrote_of_it(format_: str, tmp_path: Path) -> None:
    topic = partition(tmp_path, *RECORDS)
    assert invoked("export", topic, "--to", tmp_path / "out", "--format", format_).return_value == 0
    (written,) = (tmp_path / "out").rglob(f"*.{format_}")
    assert texts(read(written)) == texts(read(topic))
    assert texts(read(tmp_path / "out")) == texts(read(topic))


def test_a_folder_of_schemas(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "7.avsc").write_text('"string"')
    (tmp_path / "orders-value.8.proto").write_text('syntax = "proto3"; import "more/x.proto";')
    (tmp_path / "more" / "x.proto").write_text('syntax = "proto3";')
    (tmp_path / "9.json").write_text("{}")
    (tmp_path / "README.md").write_text("no schema")
    found = read(tmp_path)
    assert {schema.id: schema.type for schema in found.schemas} == {7: "AVRO", 8: "PROTOBUF", 9: "JSON"}
    assert found.files == {"more/x.proto": 'syntax = "proto3";'}
    assert found.knows_subject("orders-value")


def test_answers_of_the_registrys_rest(tmp_path: Path) -> None:
    version = {"subject": "a-value", "version": 4, "id": 11, "schema": '"int"'}
    (tmp_path / "all.json").write_text(json.dumps([version, {**version, "version": 5, "id": 12}]))
    (tmp_path / "one.json").write_text(json.dumps({**version, "version": 6, "id": 13}))
    assert list(texts(read(tmp_path))) == [11, 12, 13]


def test_damage_of_the_topic_is_reported_and_skipped(tmp_path: Path) -> None:
    topic = partition(tmp_path, *RECORDS)
    (log,) = topic.glob("*.log")
    data = log.read_bytes()
    log.write_bytes(data[:70] + bytes([data[70] ^ 1]) + data[71:] + data)
    problems: list[Problem] = []
    assert texts(read_schemas(str(topic), problems.append)) == {1: '"int"', 2: '"long"', 3: PROTO}
    assert len(problems) == 1


@pytest.mark.parametrize("name", ["none", "text.jsonl", "text.csv", "text.parquet"])
def test_what_has_no_schemas_is_an_error(name: str, tmp_path: Path) -> None:
    if name == "none":
        (tmp_path / name).mkdir()
    else:
        (tmp_path / name).write_text("no\n")
    with pytest.raises(KdumpError):
        read(tmp_path / name)


def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "gone")
