"""Keys and values as typed columns: evolution, what has no type of its own, and what does not decode."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kdump.columns import RecordTables, read_records
from kdump.columns.decoding import topic_columns
from kdump.columns.names import Decode
from kdump.schema_registry.decoder import PayloadDecoder
from kdump.schema_registry.errors import SchemaError
from kdump.storage.partition import PartitionLog
from tests.schemas.registries import ORDER, PROTO, Pair, avro, framed, registry, schema_record
from tests.topics.building import Log

NAMES = ("offset", "key", "value")
UTC = datetime.UTC


def read(folder: Path, records: list[Pair], *values: Pair, decode: Decode = Decode.COLUMNS, **more: Any) -> pa.Table:
    Log(folder / "t-0").add(*values).write()
    log = PartitionLog(str(folder / "t-0"))
    columns = topic_columns(PayloadDecoder(registry(*records)), "t", [log], decode, **more)
    tables = RecordTables((*NAMES, "headers"))
    with log.segments[0].open_log() as file:
        parts = [*read_records(log.segments[0], file, tables), *tables.rest()]
    return pa.Table.from_batches([columns.decode(part, NAMES) for part in parts if isinstance(part, pa.RecordBatch)])


def fields(*names: tuple[str, Any], **defaults: Any) -> dict[str, Any]:
    made = [{"name": name, "type": kind} for name, kind in names]
    for field in made:
        if field["name"] in defaults:
            field["default"] = defaults[field["name"]]
    return {"type": "record", "name": "R", "fields": made}


def test_old_records_get_the_newest_schemas_columns(tmp_path: Path) -> None:
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
    old = fields(("a", "int"), ("gone", "string"))
    inner = {"type": "record", "name": "I", "fields": [{"name": "u", "type": ["string", "int"]}]}
    new = fields(
        ("a", "long"), ("price", decimal), ("raw", "bytes"), ("inner", inner), ("more", ["null", "string"]),
        price="\u0001", raw="\u00ff", inner={"u": "x"}, more=None,
    )  # fmt: skip
    records = [schema_record("t-value", 1, 1, old), schema_record("t-value", 2, 2, new)]
    value = {"a": 5, "price": Decimal("1.25"), "raw": b"r", "inner": {"u": 7}, "more": "m"}
    found = read(
        tmp_path, records, (None, framed(1, avro(old, {"a": 1, "gone": "x"}))),
        (None, framed(1, avro(old, {"a": 2, "gone": "x"}))), (None, framed(2, avro(new, value))), (None, None),
    )  # fmt: skip
    default = {"price": Decimal("0.01"), "raw": b"\xff", "inner": {"u": '"x"'}, "more": None}
    assert found["value"].to_pylist() == [
        {"a": 1, **default},
        {"a": 2, **default},
        {"a": 5, "price": Decimal("1.25"), "raw": b"r", "inner": {"u": "7"}, "more": "m"},
        None,
    ]
    assert found["value_schema_id"].to_pylist() == [1, 1, 2, None]
    assert found["value_error"].null_count == found["value_raw"].null_count == 4
    assert found.schema.field("value").type.field("price").type == pa.decimal128(4, 2)


def test_times_have_their_types_and_zones(tmp_path: Path) -> None:
    kinds = {"d": ("int", "date"), "t": ("long", "time-micros"), "z": ("long", "timestamp-millis"),
             "l": ("long", "local-timestamp-micros"), "u": ("string", "uuid")}  # fmt: skip
    schema = fields(*((name, {"type": kind, "logicalType": logical}) for name, (kind, logical) in kinds.items()))
    plain = fields(*((name, kind) for name, (kind, _) in kinds.items()))
    value = {"d": 1, "t": 2, "z": 3, "l": 4, "u": "5B0D6D9C-9C4F-4F7D-8A33-0C5B1E1B9D11"}
    found = read(tmp_path, [schema_record("t-value", 1, 1, schema)], (None, framed(1, avro(plain, value))))
    assert found["value"].to_pylist() == [
        {
            "d": datetime.date(1970, 1, 2),
            "t": datetime.time(0, 0, 0, 2),
            "z": datetime.datetime(1970, 1, 1, 0, 0, 0, 3000, tzinfo=UTC),
            "l": datetime.datetime(1970, 1, 1, 0, 0, 0, 4),
            "u": "5b0d6d9c-9c4f-4f7d-8a33-0c5b1e1b9d11",
        }
    ]


def test_records_that_hold_themselves_end_in_json(tmp_path: Path) -> None:
    schema = fields(("v", {"type": "int", "logicalType": "date"}), ("next", ["null", "R"]))
    plain = fields(("v", "int"), ("next", ["null", "R"]))
    value = {"v": 0, "next": {"v": 1, "next": None}}
    found = read(tmp_path, [schema_record("t-value", 1, 1, schema)], (None, framed(1, avro(plain, value))))
    (row,) = found["value"].to_pylist()
    assert json.loads(row["next"]) == {"v": "1970-01-02", "next": None}


def test_a_value_that_fits_no_column_is_an_error_of_its_row(tmp_path: Path) -> None:
    schema = fields(("d", {"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 0}))
    plain = fields(("d", "bytes"))
    good, large = (framed(1, avro(plain, {"d": data})) for data in (b"\1", b"\x7f\xff\xff"))
    values = [(None, good), (None, large), (None, framed(1, b""))]
    found = read(tmp_path, [schema_record("t-value", 1, 1, schema)], *values)
    assert found["value"].to_pylist() == [{"d": Decimal(1)}, None, None]
    assert found["value_raw"].to_pylist() == [None, large, framed(1, b"")]
    assert [bool(error) for error in found["value_error"].to_pylist()] == [False, True, True]


def test_protobuf_messages_are_structs(tmp_path: Path) -> None:
    newer = PROTO.replace("int64 id = 1;", "int64 id = 1; repeated Kind kinds = 9; Order inner = 10;")
    newer += " enum Kind { NONE = 0; BIG = 1; }"
    records = [
        schema_record("t-value", 1, 1, PROTO, schemaType="PROTOBUF"),
        schema_record("t-value", 2, 2, newer, schemaType="PROTOBUF"),
    ]
    values = [framed(1, b"\0\x08\5\x12\0\x1a\5\x0a\1a\x10\3"), framed(2, b"\0\x4a\2\1\7\x52\2\x08\1")]
    found = read(tmp_path, records, *((None, value) for value in values))
    assert found["value"].to_pylist() == [
        {"id": 5, "kinds": [], "inner": None, "note": "", "counts": [("a", 3)]},
        {"id": 0, "kinds": ["BIG", "7"], "inner": '{"id":"1"}', "note": None, "counts": []},
    ]


def test_maps_of_protobuf_are_in_order_of_their_keys(tmp_path: Path) -> None:
    names = "dbeacf"
    entries = b"".join(b"\x1a\5\x0a\1%c\x10\3" % ord(name) for name in names)
    records = [schema_record("t-value", 1, 1, PROTO, schemaType="PROTOBUF")]
    found = read(tmp_path, records, (None, framed(1, b"\0" + entries)))
    assert found["value"].to_pylist()[0]["counts"] == [(name, 3) for name in sorted(names)]


def test_nanoseconds_stay_in_arrow_and_parquet(tmp_path: Path) -> None:
    kinds = {"z": "timestamp-nanos", "l": "local-timestamp-nanos"}
    schema = fields(*((name, {"type": "long", "logicalType": logical}) for name, logical in kinds.items()))
    plain = fields(*((name, "long") for name in kinds))
    times = [1_700_000_000_123_456_789, -1, (1 << 63) - 1]
    values = [(None, framed(1, avro(plain, dict.fromkeys(kinds, time)))) for time in times]
    found = read(tmp_path, [schema_record("t-value", 1, 1, schema)], *values)
    pq.write_table(found, tmp_path / "nanos.parquet")
    for table in (found, pq.read_table(tmp_path / "nanos.parquet")):
        kind = table.schema.field("value").type
        assert [kind.field(name).type for name in kinds] == [pa.timestamp("ns", "UTC"), pa.timestamp("ns")]
        columns = table["value"].combine_chunks().flatten()
        assert [column.cast(pa.int64()).to_pylist() for column in columns] == [times, times]


@pytest.mark.parametrize(
    ("records", "values"),
    [
        ([schema_record("t-value", 1, 1, PROTO, schemaType="PROTOBUF")], [b"\0\x08\1", b"\2\2\x0a\1x"]),
        ([schema_record("t-value", 1, 1, {}, schemaType="JSON")], [b'{"id":"1"}', b'{"text":"x"}']),
    ],
)
def test_several_messages_and_json_schema_give_json(records: list[Pair], values: list[bytes], tmp_path: Path) -> None:
    found = read(tmp_path, records, *((None, framed(1, value)) for value in values))
    assert [json.loads(text) for text in found["value"].to_pylist()] == [{"id": "1"}, {"text": "x"}]


def test_records_of_other_subjects_give_json_unless_a_schema_is_chosen(tmp_path: Path) -> None:
    records = [schema_record("t-value", 1, 1, ORDER), schema_record("acme.Other", 1, 2, fields(("x", "int")))]
    values = [(None, framed(1, avro(ORDER, {"id": 1, "note": None}))), (None, framed(2, b"\2"))]
    found = read(tmp_path / "mixed", records, *values)
    assert found["value"].to_pylist() == ['{"id":1,"note":null}', '{"x":1}']
    chosen = read(tmp_path / "chosen", records, *values, schema_id=1)
    assert chosen["value"].to_pylist() == [{"id": 1, "note": None}, None]
    assert "cannot be read by the schema of the column" in chosen["value_error"].to_pylist()[1]


def test_keys_without_schemas_stay_as_they_are(tmp_path: Path) -> None:
    found = read(tmp_path, [schema_record("t-value", 1, 1, '"int"')], (b"k", framed(1, b"\2")), (b"k", b"plain"))
    assert found.schema.names == [*NAMES, "value_raw", "value_schema_id", "value_error"]
    assert found["key"].to_pylist() == [b"k", b"k"]
    assert found["value"].to_pylist() == [1, None]
    assert found["value_raw"].to_pylist() == [None, b"plain"]


def test_a_schema_that_is_chosen_has_to_be_there(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="no schema 9"):
        read(tmp_path, [schema_record("t-value", 1, 1, '"int"')], (None, framed(1, b"\2")), schema_id=9)


def test_json_that_utf8_has_no_bytes_for_is_escaped(tmp_path: Path) -> None:
    payload = b'{"half": "\\ud800", "whole": "\\u00e9", "huge": 1e400, "long": ' + b"9" * 300 + b'e99, "small": 1e-400}'
    records = [schema_record("t-value", 1, 1, {}, schemaType="JSON")]
    table = read(tmp_path, records, (None, framed(1, payload)))
    assert table["value_error"].to_pylist() == [None]
    (text,) = table["value"].to_pylist()
    found = json.loads(text, parse_constant=pytest.fail)
    assert found == {"half": "\ud800", "whole": "é", "huge": "Infinity", "long": "Infinity", "small": 0.0}
