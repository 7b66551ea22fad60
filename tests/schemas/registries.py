"""Registries, their records and the payloads of their serializers, for tests."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro

from kdump.schema_registry.registry import Registry
from tests.topics.building import Log

Pair = tuple[bytes | None, bytes | None]


def schema_record(subject: str, version: int, number: int, schema: object, **more: Any) -> Pair:
    """The record of a version; a schema that is no text is written as JSON."""
    text = schema if isinstance(schema, str) else json.dumps(schema)
    key = {"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1}
    value = {"subject": subject, "version": version, "id": number, "schema": text, "deleted": False} | more
    return json.dumps(key).encode(), json.dumps(value).encode()


def tombstone(subject: str, version: int, value: bytes | None = None) -> Pair:
    key = {"magic": 1, "version": version, "subject": subject, "keytype": "SCHEMA"}
    return json.dumps(key).encode(), value


def delete_subject(subject: str, version: int) -> Pair:
    key = {"keytype": "DELETE_SUBJECT", "subject": subject, "magic": 0}
    return json.dumps(key).encode(), json.dumps({"subject": subject, "version": version}).encode()


def registry(*records: Pair) -> Registry:
    made = Registry()
    for key, value in records:
        made.add_record(key, value)
    return made


def partition(folder: Path, *records: Pair) -> Path:
    """The registry's topic as a partition directory."""
    Log(folder / "_schemas-0").add(*records).write()
    return folder / "_schemas-0"


def framed(number: int, payload: bytes) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + payload


def avro(schema: object, value: object) -> bytes:
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return stream.getvalue()


ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "acme",
    "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"], "default": None}],
}
PROTO = """
syntax = "proto3";
package acme;
message Order {
  int64 id = 1; optional string note = 2; map<string, int32> counts = 3; message Line { string sku = 1; }
}
message Other { string text = 1; }
"""
