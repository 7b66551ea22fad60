"""A registry in memory with the official serializers and deserializers, and its schemas for kdump."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
from confluent_kafka.schema_registry import (
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    header_schema_id_serializer,
    prefix_schema_id_serializer,
)
from confluent_kafka.serialization import MessageField, SerializationContext

from kdump.columns import RecordTables, read_records
from kdump.columns.decoding import topic_columns
from kdump.columns.names import Decode
from kdump.formats.encode import NewBatch, NewRecord, encode_batch
from kdump.interchange.rows import Payload
from kdump.schema_registry.decoder import PayloadDecoder
from kdump.storage.partition import PartitionLog
from tests.schemas.random_avro import Json
from tests.schemas.registries import Pair, registry, schema_record

Headers = tuple[tuple[bytes, bytes], ...]
Sent = tuple[bytes, Headers]


class Official:
    """The library's own mock of a registry."""

    def __init__(self) -> None:
        self.client: Any = SchemaRegistryClient.new_client({"url": "mock://"})

    def register(self, subject: str, text: str, kind: str, *references: tuple[str, str, int]) -> Schema:
        schema = Schema(text, kind, [SchemaReference(*each) for each in references])
        self.client.register_schema(subject, schema)
        return schema

    def id_of(self, subject: str) -> int:
        return int(self.client.get_latest_version(subject).schema_id)

    def records(self, texts: dict[str, str] | None = None) -> list[Pair]:
        """What the registry's topic has; `texts` are others that stand for those that clients registered."""
        found = []
        for each in sorted(self.client._store.schema_id_index.values(), key=lambda each: each.schema_id):
            schema = each.schema
            more: dict[str, Any] = {"guid": each.guid, "schemaType": schema.schema_type}
            more["references"] = [
                {"name": one.name, "subject": one.subject, "version": one.version} for one in schema.references or ()
            ]
            text = (texts or {}).get(schema.schema_str, schema.schema_str)
            found.append(schema_record(each.subject, each.version, each.schema_id, text, **more))
        return found

    def decoder(self, texts: dict[str, str] | None = None) -> PayloadDecoder:
        return PayloadDecoder(registry(*self.records(texts)))


def framings() -> list[dict[str, Any]]:
    return [{"schema.id.serializer": each} for each in (prefix_schema_id_serializer, header_schema_id_serializer)]


def sent(serializer: Any, value: Any, topic: str) -> Sent:
    headers: list[Any] = []
    data = serializer(value, SerializationContext(topic, MessageField.VALUE, headers))
    return data, tuple((name.encode(), each) for name, each in headers)


def received(deserializer: Any, message: Sent, topic: str) -> Any:
    data, headers = message
    texts: list[Any] = [(name.decode(), value) for name, value in headers]
    return deserializer(data, SerializationContext(topic, MessageField.VALUE, texts))


def decoded(decoder: PayloadDecoder, topic: str, message: Sent) -> Payload:
    found = decoder.of_topic(topic)(None, message[0], message[1])[1]
    assert isinstance(found, Payload), found
    return found


def write_topic(folder: Path, messages: Iterable[Sent]) -> None:
    folder.mkdir(parents=True)
    records = [NewRecord(at, 1_700_000_000_000, None, data, headers) for at, (data, headers) in enumerate(messages)]
    (folder / f"{0:020}.log").write_bytes(encode_batch(records, NewBatch(0, leader_epoch=0)))


def columns_of(folder: Path, decoder: PayloadDecoder, topic: str, schema_id: int | None) -> pa.Table:
    """The records of a partition as typed columns."""
    log = PartitionLog(str(folder))
    columns = topic_columns(decoder, topic, [log], Decode.COLUMNS, schema_id)
    tables = RecordTables(("offset", "value", "headers"))
    with log.segments[0].open_log() as file:
        parts = [*read_records(log.segments[0], file, tables), *tables.rest()]
    batches = [columns.decode(part, ("offset", "value")) for part in parts if isinstance(part, pa.RecordBatch)]
    return pa.Table.from_batches(batches)


def values_of(column: Any) -> list[Any]:
    return [plain(each) for each in column]


def plain(found: Any) -> Any:
    """A value of a column; times as their numbers."""
    if not found.is_valid:
        return None
    if pa.types.is_temporal(found.type):
        return found.value
    if pa.types.is_struct(found.type):
        return {field.name: plain(found[field.name]) for field in found.type}
    if pa.types.is_map(found.type):
        return {pair["key"].as_py(): plain(pair["value"]) for pair in found.values} if len(found.values) else {}
    if pa.types.is_list(found.type):
        return [plain(each) for each in found.values] if found.values is not None else []
    return found.as_py()


def differs(want: Any, found: Any, at: str = "") -> str:
    """Where two values differ, by type as well; empty where they do not. `Json` is compared with JSON text."""
    if isinstance(want, Json):
        found = json.loads(found) if isinstance(found, str) else found
        return differs(want.value, found, f"{at}(json)")
    if isinstance(want, dict) and isinstance(found, dict) and want.keys() == found.keys():
        return next(filter(None, (differs(want[name], found[name], f"{at}.{name}") for name in want)), "")
    if isinstance(want, list) and isinstance(found, list) and len(want) == len(found):
        return next(filter(None, (differs(*pair, f"{at}[]") for pair in zip(want, found, strict=True))), "")
    if type(want) is type(found) and (want == found or repr(want) == repr(found)):
        return ""
    return f"{at}: {want!r} is {found!r}"
