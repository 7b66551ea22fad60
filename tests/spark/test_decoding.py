"""decode: keys and values by their schemas, as JSON text or as columns of their types."""

from __future__ import annotations

import json
import pickle
import shutil
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from kdump.schema_registry.errors import SchemaError
from kdump.spark.options import OptionError, ReadOptions
from kdump.spark.schema import column_names, ddl
from kdump.spark.source import wanted
from tests.schemas.registries import ORDER, avro, framed, partition, schema_record
from tests.spark.building import options_of, rows_of
from tests.topics.building import Log


@pytest.fixture
def root(tmp_path: Path) -> Path:
    partition(tmp_path, schema_record("x-value", 1, 1, ORDER))
    good = framed(1, avro(ORDER, {"id": 7, "note": None}))
    Log(tmp_path / "x-0").add((b"k", good), (b"k", framed(1, b"")), (b"k", b"plain"), (None, None)).write()
    return tmp_path


def test_decoded_columns_stand_beside_the_bytes(root: Path) -> None:
    options = options_of(root / "x-0", decode="json", schemas=str(root / "_schemas-0"))
    rows = list(rows_of(options))
    assert [row["valueJson"] for row in rows] == ['{"id":7,"note":null}', None, None, None]
    assert [row["valueSchemaId"] for row in rows] == [1, 1, None, None]
    assert [row["valueError"] is None for row in rows] == [True, False, True, True]
    assert [row["key"] for row in rows] == [b"k", b"k", b"k", None]
    assert {row["keyJson"] for row in rows} == {None}
    assert "`valueJson` STRING, `valueSchemaId` INT" in ddl(options)


def test_columns_choose_among_them_and_schemas_are_found_beside(root: Path) -> None:
    options = options_of(root, topics="x", columns="valueSchemaId,offset,damage,valueJson,transaction")
    assert column_names(options) == ("valueSchemaId", "offset", "damage", "valueJson", "transaction")
    assert [tuple(row.values())[:2] for row in rows_of(options)] == [(1, 0), (1, 1), (None, 2), (None, 3)]


def test_without_schemas_it_is_an_error(tmp_path: Path) -> None:
    Log(tmp_path / "x-0").add((b"k", b"v")).write()
    with pytest.raises(OptionError, match="give the option schemas"):
        list(rows_of(options_of(tmp_path, decode="json")))


def test_a_kind_of_decoding_that_there_is_not(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="decode"):
        options_of(tmp_path, decode="text")


def options_typed(root: Path, **options: Any) -> ReadOptions:
    return wanted({"path": str(root), "decode": "columns", **options})


WIDE = {
    "type": "record",
    "name": "Wide",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "noon", "type": {"type": "int", "logicalType": "time-millis"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "huge", "type": {"type": "bytes", "logicalType": "decimal", "precision": 60, "scale": 2}},
        {"name": "code", "type": {"type": "fixed", "name": "Code", "size": 2}},
        {"name": "tags", "type": {"type": "map", "values": ["null", "int"]}},
        {"name": "mixed", "type": ["null", "int", "string"]},
    ],
}
WIDE_VALUE = {
    "id": 7, "day": date(2024, 2, 29), "noon": time(12, 0, 1), "at": datetime(2024, 2, 29, 1, tzinfo=UTC),
    "local": datetime(2024, 2, 29, 2), "price": Decimal("1.25"), "huge": Decimal("-9.50"), "code": b"ab",
    "tags": {"a": 1, "b": None}, "mixed": "x",
}  # fmt: skip


@pytest.fixture
def wide(tmp_path: Path) -> Path:
    """A topic of Avro values, and a day of which Spark has no time."""
    partition(tmp_path, schema_record("w-value", 1, 5, WIDE))
    far = {**WIDE_VALUE, "at": 1 << 61}
    good = framed(5, avro(WIDE, WIDE_VALUE))
    Log(tmp_path / "w-0").add((b"k", good), (b"k", framed(5, avro(WIDE, far))), (None, b"plain"), (None, None)).write()
    return tmp_path


def test_typed_columns_are_those_that_spark_has(wide: Path) -> None:
    options = options_typed(wide, topics="w")
    assert ddl(options) == (
        "`key` BINARY, `value` struct<`id`:bigint,`day`:date,`noon`:string,`at`:timestamp,`local`:timestamp_ntz,"
        "`price`:decimal(9,2),`huge`:string,`code`:binary,`tags`:map<string,int>,`mixed`:string>, `topic` STRING,"
        " `partition` INT, `offset` BIGINT, `timestamp` TIMESTAMP, `timestampType` INT, `valueRaw` BINARY,"
        " `valueSchemaId` INT, `valueError` STRING"
    )
    good, far, plain, none = rows_of(options)
    text = {"noon": "12:00:01.000", "huge": "-9.50", "mixed": '"x"', "tags": [("a", 1), ("b", None)]}
    assert good["value"] == WIDE_VALUE | text
    assert (good["valueRaw"], good["valueSchemaId"], good["valueError"]) == (None, 5, None)
    assert (far["value"], far["valueSchemaId"], far["valueRaw"][:5]) == (None, 5, framed(5, b""))
    assert "does not fit its column" in far["valueError"]
    assert (plain["value"], plain["valueRaw"], plain["valueError"]) == (None, b"plain", None)
    assert (none["value"], none["valueRaw"]) == (None, None)
    assert [row["key"] for row in rows_of(options)] == [b"k", b"k", None, None]


def test_a_record_that_does_not_decode_is_a_row_with_its_error(root: Path) -> None:
    rows = list(rows_of(options_typed(root, topics="x", columns="offset,value,valueError,valueRaw,valueJson")))
    assert [row["value"] for row in rows] == [{"id": 7, "note": None}, None, None, None]
    assert [row["valueRaw"] for row in rows] == [None, framed(1, b""), b"plain", None]
    assert [bool(row["valueError"]) for row in rows] == [False, True, False, False]
    assert [row["valueJson"] for row in rows] == ['{"id":7,"note":null}', None, None, None]


def test_a_schema_may_be_named(root: Path) -> None:
    newer = {**ORDER, "fields": [*ORDER["fields"], {"name": "more", "type": "int", "default": 3}]}
    shutil.rmtree(root / "_schemas-0")
    partition(root, schema_record("x-value", 1, 1, ORDER), schema_record("x-value", 2, 2, newer))
    newest, first = options_typed(root, topics="x"), options_typed(root, topics="x", schemaId="1")
    assert [next(rows_of(each))["value"] for each in (newest, first)] == [
        {"id": 7, "note": None, "more": 3},
        {"id": 7, "note": None},
    ]
    with pytest.raises(SchemaError, match="there is no schema 9"):
        options_typed(root, topics="x", schemaId="9")


def test_topics_of_one_type_share_columns_and_others_are_json(root: Path) -> None:
    records = [schema_record("x-value", 1, 1, ORDER), schema_record("y-value", 1, 1, ORDER)]
    shutil.rmtree(root / "_schemas-0")
    partition(root, *records, schema_record("z-value", 1, 2, '"long"'))
    order = framed(1, avro(ORDER, {"id": 8, "note": "n"}))
    Log(root / "y-0").add((b"k", order)).write()
    same = options_typed(root)
    values = {row["topic"]: row for row in rows_of(same)}
    assert values["y"]["value"] == {"id": 8, "note": "n"}
    assert values["_schemas"]["value"] is None
    assert json.loads(values["_schemas"]["valueRaw"])["subject"] == "z-value"
    Log(root / "z-0").add((b"k", framed(2, b"\x0c"))).write()
    texts = {row["topic"]: row["value"] for row in rows_of(options_typed(root)) if row["value"] is not None}
    assert texts == {"x": '{"id":7,"note":null}', "y": '{"id":8,"note":"n"}', "z": "6"}


def test_columns_that_are_not_there_are_refused(root: Path) -> None:
    with pytest.raises(OptionError, match="no column keyRaw: no key has a schema"):
        ddl(options_typed(root, columns="keyRaw"))
    with pytest.raises(OptionError, match="it needs decode=columns"):
        column_names(options_of(root, columns="valueRaw"))


def test_what_decodes_goes_to_other_processes(wide: Path) -> None:
    options = options_typed(wide, topics="w")
    there = pickle.loads(pickle.dumps(options))
    assert list(rows_of(there)) == list(rows_of(options))
