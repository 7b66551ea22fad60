"""Payloads that were changed by chance, and schemas: nothing but errors of our own comes of them."""

from __future__ import annotations

import json
import random

import pytest

from kdump.columns.decoding import json_columns
from kdump.interchange.rows import Payload
from kdump.schema_registry.decoder import PayloadDecoder
from kdump.schema_registry.registry import Registry
from tests.sampling import sampled
from tests.schemas.registries import ORDER, PROTO, avro, framed, registry, schema_record

TREE = {
    "type": "record", "name": "T",
    "fields": [
        {"name": "u", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}, "string", "T"]},
        {"name": "m", "type": {"type": "map", "values": {"type": "bytes", "logicalType": "decimal", "precision": 9}}},
        {"name": "a", "type": {"type": "array", "items": {"type": "fixed", "name": "F", "size": 3}}},
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
        {"name": "d", "type": {"type": "int", "logicalType": "date"}},
    ],
}  # fmt: skip
RECORDS = [
    schema_record("t-value", 1, 1, ORDER),
    schema_record("t-value", 2, 2, TREE),
    schema_record("t-value", 3, 3, PROTO, schemaType="PROTOBUF"),
    schema_record("t-value", 4, 4, {}, schemaType="JSON"),
]
PAYLOADS = [
    framed(1, avro(ORDER, {"id": 7, "note": "x"})),
    framed(2, b"\x06\x02\x02\0\0\0\0\x02\x02a\x02\x01\0\x02abc\0\x02\x02"),
    framed(3, b"\0\x08\5\x12\2hi\x1a\5\x0a\1a\x10\3"),
    framed(4, b'{"a":[1,2,{"b":null}]}'),
]


def changed(chance: random.Random, data: bytes) -> bytes:
    made = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(made) + 1)
        kind = chance.randrange(3)
        if kind == 0:
            made[at:at] = chance.randbytes(chance.randint(1, 12))
        elif kind == 1:
            del made[at : at + chance.randint(1, 4)]
        elif at < len(made):
            made[at] ^= 1 << chance.randrange(8)
    return bytes(made)


@pytest.mark.parametrize("payload", PAYLOADS)
def test_changed_payloads_decode_or_are_errors(payload: bytes) -> None:
    chance = random.Random(payload)
    decode = PayloadDecoder(registry(*RECORDS)).of_topic("t").value
    columns = json_columns(PayloadDecoder(registry(*RECORDS)), "t")
    assert columns.fields
    for _ in range(3000):
        data = changed(chance, payload)
        found = decode(data)
        assert isinstance(found, Payload) or found == data
        if isinstance(found, Payload) and found.error is None:
            json.dumps(found.value, allow_nan=False)


@pytest.mark.parametrize("record", sampled([pytest.param(record) for record in RECORDS], 2))
def test_changed_schemas_are_read_or_are_problems(record: tuple[bytes, bytes]) -> None:
    key, value = record
    chance = random.Random(value)
    said = json.loads(value)
    for _ in range(1500):
        found = Registry()
        if chance.random() < 0.3:
            found.add_record(changed(chance, key), changed(chance, value))
        else:
            text = changed(chance, said["schema"].encode()).decode("utf-8", "replace")
            found.add_record(key, json.dumps({**said, "schema": text}).encode())
        decoder = PayloadDecoder(found).of_topic("t").value
        for payload in PAYLOADS:
            decoder(payload)
