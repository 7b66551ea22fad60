"""`kdump schemas`, and `kdump dump --schemas`."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from kdump.errors import KdumpError
from tests.commands.running import Run, invoked
from tests.schemas.registries import ORDER, PROTO, avro, framed, partition, schema_record
from tests.topics.building import Log

ORDER_1 = framed(1, avro(ORDER, {"id": 7, "note": "x"}))
MESSAGE = framed(2, b"\0\x08\5")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A log directory with a registry's topic and two topics with values by its schemas."""
    partition(
        tmp_path,
        schema_record("orders-value", 1, 1, ORDER),
        schema_record("events-value", 1, 2, PROTO, schemaType="PROTOBUF"),
        schema_record("old-value", 1, 3, '"int"', deleted=True),
    )
    Log(tmp_path / "orders-0").add((b"k", ORDER_1), (b"k", None), (b"k", framed(1, b"")), (b"k", b"text")).write()
    Log(tmp_path / "orders-1").add((b"k", framed(9, b"x"))).write()
    Log(tmp_path / "events-0").add((None, MESSAGE)).write()
    return tmp_path


def dumped(*arguments: object) -> list[dict[str, Any]]:
    lines = invoked("dump", *arguments, "--format", "jsonl").stdout.splitlines()
    return [row for row in map(json.loads, lines) if row["type"] == "record"]


def schemas_of(row: dict[str, Any]) -> list[Any]:
    return [row[name] for name in ("keySchemaId", "keyMessage", "valueSchemaId", "valueMessage")]


def test_dump_decodes_with_the_schemas_that_are_named(data: Path) -> None:
    rows = dumped(data / "orders-0", "--schemas", data / "_schemas-0")
    assert [row["value"] for row in rows] == [{"id": 7, "note": "x"}, None, "\0\0\0\0\1", "text"]
    assert [schemas_of(row) for row in rows] == [
        [None, None, 1, None],
        [None, None, None, None],
        [None, None, 1, None],
        [None, None, None, None],
    ]


def test_dump_decodes_with_the_schemas_among_its_paths(data: Path) -> None:
    rows = {(row["topic"], row["offset"]): row for row in dumped(data)}
    assert rows["events", 0]["value"] == {"id": "5"}
    assert schemas_of(rows["events", 0]) == [None, None, 2, "acme.Order"]
    assert isinstance(rows["_schemas", 0]["key"], str)


def test_a_topic_that_is_chosen_keeps_the_schemas_of_its_log_directory(data: Path, tmp_path: Path) -> None:
    assert dumped(data, "--topic", "events")[0]["valueSchemaId"] == 2
    assert dumped(data, "--topic", "orders", "--partition", "0")[0]["value"] == {"id": 7, "note": "x"}
    invoked("export", data, "--topic", "events", "--to", tmp_path / "out", "--decode", "json", "--format", "jsonl")
    (written,) = (tmp_path / "out").rglob("*.jsonl")
    assert json.loads(written.read_text())["valueSchemaId"] == 2


def test_dump_reports_what_does_not_decode(data: Path, run: Run) -> None:
    assert run("dump", data / "orders-0", data / "orders-1", "--schemas", data / "_schemas-0") == 1
    assert "offset 2: value: not what its Avro schema says: it breaks off" in run.err
    assert "offset 0: value: schema 9 is not among the schemas" in run.err
    assert '{"id": 7, "note": "x"}  (schema 1)' in run.out


@pytest.mark.parametrize("option", ["--raw", "--color=never"])
def test_without_schemas_the_id_is_shown(option: str, data: Path, run: Run) -> None:
    assert run("dump", data / "orders-0", option) == 0
    assert "bytes, schema 1)" in run.out


def test_raw_gives_the_bytes(data: Path) -> None:
    row = dumped(data / "events-0", "--schemas", data / "_schemas-0", "--raw")[0]
    assert row["value"] == MESSAGE.decode()
    assert "valueSchemaId" not in row


def test_csv_has_columns_for_the_schemas(data: Path) -> None:
    text = invoked("dump", data / "events-0", "--schemas", data / "_schemas-0", "--format", "csv").stdout
    (row,) = csv.DictReader(io.StringIO(text))
    assert json.loads(row["value"]) == {"id": "5"}
    assert [row[name] for name in ("keySchemaId", "valueSchemaId", "valueMessage")] == ["", "2", "acme.Order"]
    assert None not in row


def test_decoded_records_are_not_appended_by_mistake(data: Path, tmp_path: Path, run: Run) -> None:
    text = invoked("dump", data / "orders-0", "--schemas", data / "_schemas-0", "--format", "jsonl").stdout
    (tmp_path / "rows.jsonl").write_text(text)
    Log(tmp_path / "new-0").add((b"k", b"v")).write()
    assert run("append", tmp_path / "new-0", "--input", tmp_path / "rows.jsonl") != 0
    assert "decoded by a schema" in run.err


def test_schemas_lists_versions_and_what_uses_them(data: Path, run: Run) -> None:
    assert run("schemas", data) == 1
    rows = {row["SUBJECT"]: row for row in run.table("SUBJECT")}
    assert rows["old-value"]["STATE"] == "deleted"
    assert rows["events-value"]["TYPE"] == "PROTOBUF"
    uses = run.table("TOPIC")
    assert [(row["TOPIC"], row["FIELD"], row["ID"], row["RECORDS"]) for row in uses] == [
        ("events", "value", "2", "1"),
        ("orders", "value", "1", "1"),
        ("orders", "value", "1", "1"),
        ("orders", "value", "9", "1"),
        ("orders", "value", "-", "1"),
    ]
    assert "FOUND: 1 record with schemas that are not here (9), 1 record not decodable." in run.lines


def test_schemas_as_json_lines(data: Path, run: Run) -> None:
    assert run("schemas", data, "--topic", "ev*", "--format", "jsonl") == 0
    assert [row["id"] for row in run.of_type("schemaVersion")] == [2, 3, 1]
    assert run.of_type("schemaUse") == [
        {
            "type": "schemaUse", "topic": "events", "field": "value", "isSample": False, "id": 2, "records": 1,
            "state": "decoded", "messages": {"acme.Order": 1}, "error": None,
        }
    ]  # fmt: skip
    assert run.of_type("summary")[0]["verdict"] == "ok"


def test_a_large_partition_is_sampled_unless_all_is_asked_for(data: Path, run: Run) -> None:
    log = Log(data / "orders-2")
    for _ in range(60):
        log.add(*[(b"x" * 200, ORDER_1)] * 500)
    log.write()
    counts = {}
    for options in ((), ("--deep",)):
        assert run("schemas", data / "orders-2", "--schemas", data / "_schemas-0", "--format", "jsonl", *options) == 0
        (use,) = (row for row in run.of_type("schemaUse") if row["field"] == "value")
        counts[options] = (use["records"], use["isSample"])
    assert counts[("--deep",)] == (30_000, False)
    assert counts[()][1]
    assert 500 < counts[()][0] <= 9000


def test_the_text_of_one_schema(data: Path, run: Run) -> None:
    assert run("schemas", data, "--id", "2") == 0
    assert run.out == PROTO
    assert run("schemas", data, "--id", "99") == 3


def test_without_schemas_there_is_nothing_to_show(data: Path) -> None:
    with pytest.raises(KdumpError, match="--schemas PATH"):
        invoked("schemas", data / "orders-0")


def test_a_schema_that_cannot_be_used_is_a_finding(tmp_path: Path, run: Run) -> None:
    partition(tmp_path, schema_record("a-value", 1, 1, ORDER, references=[{"name": "n", "subject": "s", "version": 1}]))
    assert run("schemas", tmp_path) == 1
    assert "schema 1 cannot be used: schema 1 refers to n (s version 1), which is not among the schemas" in run.out


def test_export_writes_typed_columns(data: Path, tmp_path: Path) -> None:
    import pyarrow.dataset as ds

    out = tmp_path / "out"
    options = ("--schemas", data / "_schemas-0", "--columns", "topic,offset,value", "--by", "none")
    assert invoked("export", data / "orders-0", data / "orders-1", "--to", out, *options).return_value == 0
    rows = ds.dataset(sorted(out.glob("*.parquet"))).to_table().to_pylist()
    assert [row["value"] for row in rows] == [{"id": 7, "note": "x"}, None, None, None, None]
    assert [row["value_raw"] for row in rows] == [None, None, framed(1, b""), b"text", framed(9, b"x")]
    assert [row["value_schema_id"] for row in rows] == [1, None, 1, None, 9]
    assert [bool(row["value_error"]) for row in rows] == [False, False, True, False, True]


def test_export_by_date_keeps_what_decoding_adds(data: Path, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    options = ("--schemas", data / "_schemas-0", "--columns", "value", "--by", "date")
    assert invoked("export", data / "events-0", "--to", tmp_path / "out", *options).return_value == 0
    (path,) = (tmp_path / "out").rglob("*.parquet")
    assert pq.ParquetFile(path).schema_arrow.names == ["value", "value_raw", "value_schema_id", "value_error"]


@pytest.mark.parametrize("format_", ["jsonl", "csv"])
def test_export_as_text_has_json(format_: str, data: Path, tmp_path: Path) -> None:
    options = ("--decode", "columns", "--schemas", data / "_schemas-0", "--format", format_, "--columns", "value")
    assert invoked("export", data / "events-0", "--to", tmp_path / "out", *options).return_value == 0
    (path,) = (tmp_path / "out").rglob(f"*.{format_}")
    if format_ == "jsonl":
        found = json.loads(path.read_text())
        assert found == {"value": {"id": "5"}, "valueRaw": None, "valueSchemaId": 2, "valueError": None}
    else:
        (row,) = csv.DictReader(io.StringIO(path.read_text()))
        assert (json.loads(row["value"]), row["value_schema_id"]) == ({"id": "5"}, "2")


def test_an_export_goes_on_only_with_the_same_columns(data: Path, tmp_path: Path, run: Run) -> None:
    arguments = ("export", data / "events-0", "--to", tmp_path / "out", "--schemas", data / "_schemas-0")
    assert run(*arguments) == 0
    assert run(*arguments) == 0
    assert run(*arguments, "--decode", "json") == 4


def test_export_needs_schemas_to_decode(data: Path, tmp_path: Path) -> None:
    with pytest.raises(KdumpError, match="--schemas PATH"):
        invoked("export", data / "orders-0", "--to", tmp_path / "out", "--decode", "json")


def test_reading_changes_nothing(data: Path, run: Run) -> None:
    from tests.test_read_only import listing

    before = listing(data)
    for arguments in (("schemas", data, "--deep"), ("dump", data), ("dump", data, "--isolation", "read_committed")):
        assert run(*arguments, "--format", "jsonl") in (0, 1)
    assert listing(data) == before
