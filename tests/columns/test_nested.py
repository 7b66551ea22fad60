"""Types that hold each other: as many ways lead through them as there are orders, but columns stay of a size."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from kdump.columns import avro_types, protobuf_types
from kdump.columns.nested import MAX_FIELDS
from kdump.schema_registry.avro import AvroSchema
from kdump.schema_registry.avro_values import Form
from kdump.schema_registry.protobuf import ProtobufSchema
from tests.schemas.registries import avro

COUNT = 14


def fields_of(kind: pa.DataType) -> int:
    """Count the fields within a type."""
    return sum(1 + fields_of(each.type) for each in kind) if pa.types.is_struct(kind) else 0


def test_messages_that_hold_each_other() -> None:
    text = 'syntax = "proto3";'
    for at in range(COUNT):
        others = "".join(f"M{other} f{other} = {other + 1};" for other in range(COUNT))
        text += f"message M{at} {{ int32 number = 100; {others} }}"
    schema = ProtobufSchema(text)
    kind, read = protobuf_types.arrow_type(schema, "M0")
    assert COUNT < fields_of(kind) <= MAX_FIELDS
    message = schema.message_class("M0")()
    message.f1.number = 5
    message.f1.f2.f3.f4.f5.number = 7
    found = pa.array([read(message)], kind)[0].as_py()
    assert found["f1"]["number"] == 5
    assert found["f1"]["f2"]["f4"] is None
    assert json.loads(found["f1"]["f2"]["f3"]) == {"f4": {"f5": {"number": 7}}}


def test_records_of_records() -> None:
    """Each holds the one before twice: 2 to the power of their number in all."""
    made: Any = {"type": "record", "name": "R0", "fields": [{"name": "n", "type": "int"}]}
    value: Any = {"n": 3}
    for at in range(1, COUNT):
        fields = [{"name": "left", "type": made}, {"name": "right", "type": ["null", f"R{at - 1}"]}]
        made = {"type": "record", "name": f"R{at}", "fields": fields}
        value = {"left": value, "right": None}
    schema = AvroSchema(json.dumps(made), form=Form.NATIVE)
    kind, fix = avro_types.arrow_type(schema)
    assert COUNT < fields_of(kind) <= MAX_FIELDS
    assert fix is not None
    found = pa.array([fix(schema.decode(avro(made, value)))], kind)[0].as_py()
    while isinstance(found, dict):
        assert found["right"] is None
        found, value = found["left"], value["left"]
    assert json.loads(found) == value


def test_a_record_of_too_many_fields_is_text() -> None:
    fields = [{"name": f"f{at}", "type": "int"} for at in range(MAX_FIELDS + 1)]
    kind, _ = avro_types.arrow_type(AvroSchema(json.dumps({"type": "record", "name": "R", "fields": fields})))
    assert kind == pa.string()
