"""Avro values as JSON has them, and schemas and payloads that are hostile."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any

import pytest

from kdump.schema_registry.avro import AvroSchema
from kdump.schema_registry.avro_depth import MAX_DEPTH
from kdump.schema_registry.avro_values import Form, json_of
from kdump.schema_registry.errors import SchemaError
from kdump.schema_registry.nesting import MAX_NESTING
from tests.schemas.registries import avro


def logical(kind: str, means: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": means, **more}


@pytest.mark.parametrize(
    ("schema", "value", "shown"),
    [
        ("null", None, None),
        ("boolean", True, True),
        ("long", -(1 << 63), -(1 << 63)),
        ("string", "äé中", "äé中"),
        ("bytes", b"\0\xff", {"base64": "AP8="}),
        ("double", math.inf, "Infinity"),
        ("double", -math.inf, "-Infinity"),
        ("float", math.nan, "NaN"),
        ("double", -0.0, -0.0),
        ({"type": "fixed", "name": "F", "size": 2}, b"\1\2", {"base64": "AQI="}),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", "B"),
        ({"type": "array", "items": "int"}, [1, 2], [1, 2]),
        ({"type": "map", "values": ["null", "bytes"]}, {"a": b"x", "b": None}, {"a": {"base64": "eA=="}, "b": None}),
        (logical("bytes", "decimal", precision=12, scale=3), Decimal("1.250"), "1.250"),
        (logical("bytes", "decimal", precision=12, scale=3), Decimal("-0.005"), "-0.005"),
        (logical("bytes", "decimal", precision=4), Decimal("12"), "12"),
        (logical("fixed", "decimal", name="D", size=4, precision=9, scale=9), Decimal("0.000000001"), "0.000000001"),
        (logical("int", "date"), 0, "1970-01-01"),
        (logical("int", "date"), 3_000_000, "+10183-09-21"),
        (logical("int", "date"), -800_000, "-0221-09-04"),
        (logical("int", "time-millis"), 61_001, "00:01:01.001"),
        (logical("long", "time-micros"), 86_399_999_999, "23:59:59.999999"),
        (logical("long", "timestamp-millis"), -1, "1969-12-31T23:59:59.999Z"),
        (logical("long", "timestamp-micros"), 1_700_000_000_000_001, "2023-11-14T22:13:20.000001Z"),
        (logical("long", "timestamp-nanos"), 1, "1970-01-01T00:00:00.000000001Z"),
        (logical("long", "local-timestamp-millis"), 0, "1970-01-01T00:00:00.000"),
        (logical("string", "uuid"), "5B0D6D9C-9C4F-4F7D-8A33-0C5B1E1B9D11", "5b0d6d9c-9c4f-4f7d-8a33-0c5b1e1b9d11"),
        (logical("long", "unheard-of"), 5, 5),
    ],
)  # fmt: skip
def test_values(schema: object, value: object, shown: object) -> None:
    written = schema
    if isinstance(schema, dict) and isinstance(value, int | str):  # as plain numbers and text, beyond Python's dates
        written = {name: each for name, each in schema.items() if name != "logicalType"}
    found = AvroSchema(json.dumps(_record(schema))).decode(avro(_record(written), {"v": value}))["v"]
    assert found == shown
    assert str(found) == str(shown)


def test_a_year_sign_is_that_of_the_standard() -> None:
    found = AvroSchema('{"type":"long","logicalType":"timestamp-millis"}').decode(avro("long", 1 << 48))
    assert found == "+10889-08-02T05:31:50.656Z"


def test_the_branch_of_a_union_decides() -> None:
    union = ["null", logical("int", "date"), logical("long", "timestamp-millis"), "bytes"]
    schema = AvroSchema(json.dumps(union))
    assert schema.decode(b"\x02\x02") == "1970-01-02"
    assert schema.decode(b"\x04\x02") == "1970-01-01T00:00:00.001Z"
    assert schema.decode(b"\x06\x02x") == {"base64": "eA=="}


def test_references_are_found_by_full_name_wherever_they_are_defined() -> None:
    address = '{"type":"record","name":"Address","namespace":"acme","fields":[{"name":"g","type":{"type":"fixed",'
    address += '"name":"Geo","size":1}}]}'
    user = '{"type":"record","name":"User","namespace":"acme.users","fields":[{"name":"a","type":"acme.Address"},'
    user += '{"name":"b","type":["null","acme.Address"]},{"name":"g","type":"acme.Geo"}]}'
    assert AvroSchema(user, [address]).decode(b"\1\2\3\4") == {
        "a": {"g": {"base64": "AQ=="}},
        "b": {"g": {"base64": "Aw=="}},
        "g": {"base64": "BA=="},
    }


def test_names_without_a_namespace_stay_apart_from_those_with_one() -> None:
    bare = '{"type":"enum","name":"E","symbols":["bare"]}'
    user = '{"type":"record","name":"a.U","fields":[{"name":"x","type":{"type":"enum","name":"E","symbols":["inner"]}},'
    user += '{"name":"y","type":"E"}]}'
    assert AvroSchema(user, [bare]).decode(b"\0\0") == {"x": "inner", "y": "inner"}


def _record(schema: object) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": "v", "type": schema}]}


@pytest.mark.parametrize("text", ['"bytes"', '{"type":"bytes"}', '{"type":{"type":"bytes"}}'])
def test_bytes_alone_have_no_length(text: str) -> None:
    assert AvroSchema(text).decode(b"\x06abc") == {"base64": "BmFiYw=="}
    assert AvroSchema(text).decode(b"") == {"base64": ""}
    as_text = AvroSchema('"string"', form=Form.NATIVE)
    assert AvroSchema(text, form=Form.NATIVE).decode(b"x" * 300, as_text) == "x" * 300


@pytest.mark.parametrize("payload", [b"", b"\x80", b"\x06ab", b"\2a\0"])
def test_a_payload_that_does_not_fit_is_an_error(payload: bytes) -> None:
    with pytest.raises(SchemaError, match="not what its Avro schema says"):
        AvroSchema('"string"').decode(payload)


@pytest.mark.parametrize(
    "text",
    [
        "{", "{}", "[1]", '"nothing"', '{"type":"record","name":"R"}', '{"type":"array"}', '{"type":"enum","name":"E"}',
        "[" * 100_000, '{"type":"fixed","name":"F","size":"x"}', "7",
        '{"type":"record","name":"R","fields":[{"name":"r","type":"R"}]}',
        '{"type":"array","items":"null"}',
        '{"type":"array","items":{"type":"record","name":"R","fields":[]}}',
    ],
)  # fmt: skip
def test_a_schema_that_is_none_is_an_error(text: str) -> None:
    with pytest.raises(SchemaError):
        AvroSchema(text)


LIST = '{"type":"record","name":"L","fields":[{"name":"v","type":"int"},{"name":"next","type":["null","L"]}]}'


def test_a_value_within_bounds_may_hold_itself() -> None:
    most = b"\2\2" * (MAX_NESTING - 1) + b"\2\0"
    found = AvroSchema(LIST, (), Form.NATIVE).decode(most)
    assert json.dumps(json_of(found)).count("{") == MAX_NESTING
    with pytest.raises(SchemaError, match=f"more than {MAX_NESTING} deep"):
        AvroSchema(LIST).decode(b"\2\2" + most)


def test_a_value_without_end_does_not_end_the_process() -> None:
    """The decoder recurses in C, where half a million levels are a crash."""
    with pytest.raises(SchemaError, match=f"more than {MAX_DEPTH:,} deep"):
        AvroSchema(LIST).decode(b"\2\2" * 500_000 + b"\2\0")


def test_depth_is_that_of_records_not_of_their_number() -> None:
    tree = '{"type":"record","name":"T","fields":[{"name":"k","type":{"type":"array","items":"T"}},'
    tree += '{"name":"m","type":{"type":"map","values":["string",{"type":"fixed","name":"F","size":2}]}}]}'
    leaf = b"\0\0"
    found = AvroSchema(tree).decode(b"\xd0\x0f" + leaf * 1000 + b"\0" + b"\4\2a\0\2b\2c\2xy\0")
    assert len(found["k"]) == 1000
    assert found["m"] == {"a": "b", "c": {"base64": "eHk="}}
