"""Random schemas and values, as the official serializers write them and their deserializers read them.

The library's registry is its own mock: nothing is asked. A registry stores Protobuf as text or as the descriptor that
clients register: both must decode.
"""

from __future__ import annotations

import json
import random
import tracemalloc
from base64 import b64decode
from importlib import import_module
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kdump.commands.shell.exit_codes import FINDINGS
from kdump.interchange.rows import Payload
from kdump.schema_registry.decoder import PayloadDecoder
from kdump.schema_registry.errors import SchemaError
from kdump.schema_registry.protobuf import KNOWN_PROTOS, ProtobufSchema
from tests.commands.running import invoked
from tests.sampling import sampled
from tests.schemas.random_avro import Avro, Value, base64, evolution, text_of
from tests.schemas.registries import framed, partition, registry, schema_record
from tests.topics.building import Log

pytest.importorskip("confluent_kafka.schema_registry.avro", reason="confluent-kafka's serializers are not installed")

from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from google.protobuf import descriptor_pool
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from tests.schemas import random_proto
from tests.schemas.official import (
    Official,
    Sent,
    columns_of,
    decoded,
    differs,
    framings,
    received,
    sent,
    values_of,
    write_topic,
)
from tests.schemas.proto_text_of import proto_text

TOPIC = "t"
SUBJECT = f"{TOPIC}-value"
LEAST = 6
"""Bytes of a payload that the official deserializer of Avro takes at least, also where a header names the schema."""


def agree(folder: Path, decoder: PayloadDecoder, values: list[Any], messages: list[Sent]) -> None:
    """Compare the columns of messages with native values."""
    write_topic(folder / f"{TOPIC}-0", messages)
    table = columns_of(folder / f"{TOPIC}-0", decoder, TOPIC, None)
    assert table["value_error"].to_pylist() == [None] * len(messages)
    for want, found in zip(values, values_of(table["value"]), strict=True):
        assert differs(want, found) == ""


def avro_messages(official: Official, text: str, node: Any) -> list[tuple[Value, Sent]]:
    """Values by a schema, written in both framings, which the official deserializer has read as they were."""
    found = []
    read = AvroDeserializer(official.client)
    for conf in framings():
        write = AvroSerializer(official.client, text, conf=conf)
        for _ in range(3):
            value = node.make(())
            if value.written is None:  # a tombstone: nothing is serialized
                continue
            message = sent(write, value.written, TOPIC)
            if len(message[0]) >= LEAST:
                assert differs(value.read, received(read, message, TOPIC)) == ""
            found.append((value, message))
    return found


def checked(official: Official, found: list[tuple[Value, Sent]]) -> PayloadDecoder:
    """A decoder that has shown each of these messages as the value that was sent."""
    decoder = official.decoder()
    for value, message in found:
        shown = decoded(decoder, TOPIC, message)
        assert (shown.error, differs(value.shown, shown.value)) == (None, "")
    return decoder


@pytest.mark.parametrize("seed", sampled(range(32), 6))
def test_avro(seed: int, tmp_path: Path) -> None:
    node = Avro(random.Random(seed)).record(3)
    while not node.least:
        node = Avro(random.Random(f"{seed} {node.name}")).record(3)
    official, text = Official(), text_of(node.schema)
    official.register(SUBJECT, text, "AVRO")
    found = avro_messages(official, text, node)
    decoder = checked(official, found)
    agree(tmp_path, decoder, [value.native for value, _ in found], [message for _, message in found])


def test_avro_that_is_no_record() -> None:
    for seed in range(20):
        official, avro = Official(), Avro(random.Random(seed))
        node = avro.any(2)
        if not node.least or node.group == "bytes":  # of logical types of bytes alone the library knows none
            continue
        text = text_of(node.schema)
        official.register(SUBJECT, text, "AVRO")
        found = avro_messages(official, text, node)
        checked(official, found)


def test_avro_bytes_alone(tmp_path: Path) -> None:
    """Written and read as they are, whatever they begin with."""
    official, chance = Official(), random.Random(6)
    schema = official.register(SUBJECT, '{"type":"bytes"}', "AVRO")
    read = AvroDeserializer(official.client)
    values = [b"\x06abc", b"x", b"\0", b"\x04ab\0", *(chance.randbytes(chance.randrange(1, 300)) for _ in range(50))]
    messages = []
    for conf in framings():
        write = AvroSerializer(official.client, schema, conf=conf)
        for value in values:
            message = sent(write, value, TOPIC)
            if len(message[0]) >= LEAST:
                assert received(read, message, TOPIC) == value
            assert decoded(official.decoder(), TOPIC, message).value == base64(value)
            messages.append(message)
    agree(tmp_path, official.decoder(), values * 2, messages)


def test_avro_with_references() -> None:
    for seed in range(12):
        avro, official = Avro(random.Random(seed)), Official()
        first = avro.record(1)
        second = avro.record(1)  # may use the first one
        last = avro.record(2)
        official.register("first", text_of(first.schema), "AVRO")
        official.register("second", text_of(second.schema), "AVRO", (first.name, "first", 1))
        references = ((first.name, "first", 1), (second.name, "second", 1))
        schema = official.register(SUBJECT, text_of(last.schema), "AVRO", *references)
        write, read = AvroSerializer(official.client, schema), AvroDeserializer(official.client)
        for _ in range(4):
            value = last.make(())
            message = sent(write, value.written, TOPIC)
            if len(message[0]) < LEAST:
                continue
            assert differs(value.read, received(read, message, TOPIC)) == ""
            assert differs(value.shown, decoded(official.decoder(), TOPIC, message).value) == ""


@pytest.mark.parametrize("seed", sampled(range(24), 6))
def test_avro_by_a_newer_schema(seed: int, tmp_path: Path) -> None:
    """The newest schema of the subject gives the columns; defaults are values as they are read."""
    made, official = evolution(random.Random(seed)), Official()
    writer, reader = text_of(made.writer), text_of(made.reader)
    official.register(SUBJECT, writer, "AVRO")
    write, read = AvroSerializer(official.client, writer), AvroDeserializer(official.client, reader)
    found = []
    for _ in range(4):
        value, native = made.make()
        message = sent(write, value.written, TOPIC)
        if len(message[0]) >= LEAST:
            assert received(read, message, TOPIC).keys() == native.keys()
        found.append((native, message))
    official.register(SUBJECT, reader, "AVRO")
    agree(tmp_path, official.decoder(), [native for native, _ in found], [message for _, message in found])


@pytest.mark.parametrize("seed", sampled(range(24), 6))
def test_protobuf(seed: int, tmp_path: Path) -> None:
    chance, official = random.Random(seed), Official()
    proto = random_proto.Proto(chance)
    proto.file("base/other.proto", "proto3", "base.pkg")
    proto.file("two.proto", "proto2", "two")
    file = proto.file("main.proto", ("proto2", "proto3")[seed % 2], chance.choice(("", "p.q", "main")))
    found: dict[Any, list[tuple[Any, Sent]]] = {}
    for kind in list(proto.classes(file))[:5]:
        read = ProtobufDeserializer(kind, {}, official.client)
        for conf in framings():
            write = ProtobufSerializer(kind, official.client, conf)
            for _ in range(2):
                message = sent(write, proto.message(kind), TOPIC)
                found.setdefault(kind, []).append((received(read, message, TOPIC), message))
    stored = (each.schema.schema_str for each in official.client._store.schema_id_index.values())
    texts = {text: proto_text(FileDescriptorProto.FromString(b64decode(text))) for text in stored}
    for decoder in (official.decoder(), official.decoder(texts)):
        for kind, messages in found.items():
            name = kind.DESCRIPTOR.full_name
            for value, message in messages:
                shown = decoded(decoder, TOPIC, message)
                assert (shown.error, shown.message) == (None, name)
                assert differs(random_proto.shown(value, proto.pool), shown.value) == ""
            folder = tmp_path / f"{name}-{id(decoder)}"
            natives = [random_proto.native(value, proto.pool) for value, _ in messages]
            agree(folder, decoder, natives, [message for _, message in messages])


def test_protobuf_files_that_have_no_reference() -> None:
    """What serializers bring along is as they have it: every message of google/type and of Confluent's."""
    paths = [name for name in KNOWN_PROTOS if not name.endswith(("_features.proto", "meta.proto"))]  # of options alone
    for name in paths:
        package = "confluent_kafka.schema_registry." if name.startswith("confluent/") else ""
        import_module(package + name.removesuffix(".proto").replace("/", ".") + "_pb2")
    compared = 0
    for name in paths:
        real = descriptor_pool.Default().FindFileByName(name)
        schema = ProtobufSchema(f'syntax = "proto3"; import "{name}"; message M {{ int32 x = 1; }}')
        for message in real.message_types_by_name.values():
            found = schema.message_class(message.full_name).DESCRIPTOR
            assert [_field(each) for each in found.fields] == [_field(each) for each in message.fields]
            compared += 1
        for enum in real.enum_types_by_name.values():
            kept = schema._pool.FindEnumTypeByName(enum.full_name)
            assert [(each.name, each.number) for each in kept.values] == [(e.name, e.number) for e in enum.values]
            compared += 1
    assert compared >= len(paths)


def _field(field: Any) -> tuple[Any, ...]:
    of = field.message_type or field.enum_type
    oneof = field.containing_oneof and field.containing_oneof.name
    return field.name, field.number, field.type, field.is_repeated, of and of.full_name, oneof


def test_a_guid_before_the_payload() -> None:
    """No serializer writes it, their deserializers take it; message indexes of Protobuf follow it."""
    official, proto = Official(), random_proto.Proto(random.Random(1))
    text = official.register(SUBJECT, '{"type":"string"}', "AVRO")
    kind = next(proto.classes(proto.file("main.proto", "proto3", "p")))
    cases: list[tuple[Any, Any, Any, Any]] = [
        (AvroSerializer(official.client, text), AvroDeserializer(official.client), "text", "text"),
        (ProtobufSerializer(kind, official.client), ProtobufDeserializer(kind, {}, official.client), kind(), {}),
    ]
    for write, read, value, shown in cases:
        data, _ = sent(write, value, TOPIC)
        number = int.from_bytes(data[1:5], "big")
        guid = next(each.guid for each in official.client._store.schema_id_index.values() if each.schema_id == number)
        message: Sent = (b"\1" + UUID(guid).bytes + data[5:], ())
        assert received(read, message, TOPIC) == value
        found = decoded(official.decoder(), TOPIC, message)
        assert (found.error, found.schema_id, found.value) == (None, number, shown)
    plain = b"\1" + bytes(20)
    assert official.decoder().of_topic(TOPIC)(None, plain)[1] == plain


def test_json_schema_with_references() -> None:
    chance, official = random.Random(18), Official()
    inner = {"$id": "https://x/inner.json", "type": "object", "properties": {"n": {"type": "integer"}}}
    official.register("inner", json.dumps(inner), "JSON")
    outer = {
        "$id": "https://x/outer.json", "type": "object", "title": "Outer",
        "properties": {"i": {"$ref": "https://x/inner.json"}, "free": {}},
    }  # fmt: skip
    schema = official.register(SUBJECT, json.dumps(outer), "JSON", ("https://x/inner.json", "inner", 1))
    read = JSONDeserializer(schema, schema_registry_client=official.client)
    for conf in framings():
        write = JSONSerializer(schema, official.client, conf=conf)
        for _ in range(30):
            value = {"i": {"n": chance.randrange(-(1 << 70), 1 << 70)}, "free": _json(chance, 3)}
            message = sent(write, value, TOPIC)
            assert received(read, message, TOPIC) == value
            assert differs(value, decoded(official.decoder(), TOPIC, message).value) == ""


def _json(chance: random.Random, depth: int) -> Any:
    leaves = (None, True, 0, -1.5, 1e300, 0.1, "", "é\u2028\"\\", "\0")
    if not depth or chance.random() < 0.3:
        return chance.choice(leaves)
    if chance.random() < 0.5:
        return [_json(chance, depth - 1) for _ in range(chance.randrange(4))]
    return {name: _json(chance, depth - 1) for name in chance.sample(("", "a", "b.c", "é"), chance.randrange(4))}


def test_the_commands_have_the_same_values(tmp_path: Path) -> None:
    """`kdump dump --schemas`, and `kdump export` with typed columns, of a topic of both framings."""
    import pyarrow.parquet as pq

    node = Avro(random.Random(3)).record(3)
    official, text = Official(), text_of(node.schema)
    official.register(SUBJECT, text, "AVRO")
    found = avro_messages(official, text, node)
    data, target = tmp_path / f"{TOPIC}-0", tmp_path / "out"
    write_topic(data, [message for _, message in found])
    schemas = partition(tmp_path, *official.records())
    lines = invoked("dump", data, "--schemas", schemas, "--format", "jsonl").stdout.splitlines()
    rows = [row for row in map(json.loads, lines) if row["type"] == "record"]
    for row, (value, _) in zip(rows, found, strict=True):
        assert differs(value.shown, row["value"]) == ""
    invoked("export", data, "--to", target, "--schemas", schemas, "--decode", "columns")
    (written,) = target.rglob("*.parquet")
    for exported, (value, _) in zip(values_of(pq.ParquetFile(written).read()["value"]), found, strict=True):
        assert differs(value.native, exported) == ""


# --- what is hostile


def _record(name: str, *kinds: Any) -> Any:
    fields = [{"name": f"f{at}", "type": kind} for at, kind in enumerate(kinds)]
    return {"type": "record", "name": name, "fields": fields}


def _doubling(times: int, *more: Any) -> Any:
    """A record of records, each of which holds the one before twice."""
    made = _record("R0")
    for at in range(times):
        made = _record(f"R{at + 1}", made, f"R{at}")
    return _record("R", made, *more)


def _nested(depth: int) -> bytes:
    data = b""
    for _ in range(depth):
        data = b"\x0a" + _varint(len(data)) + data
    return data


def _varint(number: int) -> bytes:
    data = bytearray()
    while number > 0x7F:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*data, number])


HUGE = b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
MESSAGE = 'syntax = "proto3"; message A { A a = 1; repeated int32 n = 2; string s = 3; map<string, A> m = 4; }'
HOSTILE: dict[str, tuple[str, Any, bytes]] = {
    "a text without end": ("AVRO", _record("R", "string"), HUGE),
    "a text of less than nothing": ("AVRO", _record("R", "bytes"), b"\1"),
    "items without end": ("AVRO", _record("R", {"type": "array", "items": "int"}), HUGE + b"\0" * 99),
    "a map without end": ("AVRO", _record("R", {"type": "map", "values": "null"}), HUGE + b"\0" * 99),
    "a branch that is none": ("AVRO", ["null", "int"], HUGE),
    "a branch below zero": ("AVRO", ["null", "int"], b"\1"),
    "a symbol that is none": ("AVRO", {"type": "enum", "name": "E", "symbols": ["A"]}, HUGE),
    "records within records": ("AVRO", _record("R", ["null", "R"]), b"\2" * 500_000),
    "a long list of records": ("AVRO", _record("R", ["null", "R"]), b"\2" * 1900 + b"\0"),
    "records in lists": ("AVRO", _record("R", {"type": "array", "items": "R"}), b"\2" * 400 + b"\0" * 401),
    "arrays within arrays": ("AVRO", _record("R", {"type": "array", "items": "R"}), b"\2" * 500_000),
    "maps within maps": ("AVRO", _record("R", {"type": "map", "values": "R"}), b"\2\0" * 500_000),
    "a record that holds itself": ("AVRO", _record("A", _record("B", "A")), b""),
    "a fixed of a terabyte": ("AVRO", {"type": "fixed", "name": "F", "size": 1 << 40}, b"abc"),
    "a long decimal": ("AVRO", DECIMAL, b"\xc0\x84\x3d" + b"\x7f" * 500_000),
    "a long decimal within": ("AVRO", _record("R", DECIMAL), b"\xc0\x84\x3d" + b"\x7f" * 500_000),
    "a decimal of a large scale": ("AVRO", _record("R", {**DECIMAL, "scale": 1 << 30}), b"\2\1"),
    "records that double": ("AVRO", _doubling(40), b""),
    "records that double in lists": ("AVRO", {"type": "array", "items": _doubling(9, "int")}, b"\2" + b"\0" * 9),
    "items of no bytes": ("AVRO", {"type": "array", "items": "null"}, b"\xfe\xff\xff\xff\x0f\0"),
    "messages within messages": ("PROTOBUF", MESSAGE, b"\0" + _nested(5000)),
    "a long text": ("PROTOBUF", MESSAGE, b"\0\x1a\xff\xff\xff\xff\x07"),
    "no UTF-8": ("PROTOBUF", MESSAGE, b"\0\x1a\x01\xff"),
    "a wire type that is none": ("PROTOBUF", MESSAGE, b"\0\x0f"),
    "indexes without end": ("PROTOBUF", MESSAGE, HUGE),
    "an index that is none": ("PROTOBUF", MESSAGE, b"\2\x08"),
    "brackets": ("JSON", {}, b"[" * 500_000),
    "brackets that end": ("JSON", {}, b"[" * 700 + b"]" * 700),
    "a long number": ("JSON", {}, b"9" * 500_000),
    "no JSON": ("JSON", {}, b"\xff\0"),
}
UNUSABLE = ("a record that holds itself", "items of no bytes", "records that double", "records that double in lists")
"""Those whose schema is refused."""


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_hostile_is_a_row_with_an_error(name: str, tmp_path: Path) -> None:
    kind, schema, payload = HOSTILE[name]
    records = [schema_record(SUBJECT, 1, 1, schema, schemaType=kind)]
    data = framed(1, payload)
    decoder = PayloadDecoder(registry(*records))
    decoder.of_topic(TOPIC).value(framed(1, b"x"))  # libraries are loaded
    tracemalloc.start()
    found = decoder.of_topic(TOPIC).value(data)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert isinstance(found, Payload)
    assert found.error
    assert found.value == data
    assert most < 16 << 20
    Log(tmp_path / f"{TOPIC}-0").add((None, data), (None, b"plain")).write()
    result = invoked("dump", tmp_path / f"{TOPIC}-0", "--schemas", partition(tmp_path, *records), "--format", "jsonl")
    rows = [row for row in map(json.loads, result.stdout.splitlines()) if row["type"] == "record"]
    assert (result.return_value, len(rows)) == (FINDINGS, 2)
    if name in UNUSABLE:
        with pytest.raises(SchemaError):
            columns_of(tmp_path / f"{TOPIC}-0", decoder, TOPIC, None)
        return
    columns = columns_of(tmp_path / f"{TOPIC}-0", decoder, TOPIC, None)
    assert columns["value_raw"].to_pylist() == [data, b"plain"]


def test_what_breaks_off_or_is_garbled_is_a_row(tmp_path: Path) -> None:
    """Every beginning of a payload, and many with changed bytes, decode or are errors; none is lost from columns."""
    chance = random.Random(5)
    for seed in range(12):
        official, avro = Official(), Avro(random.Random(seed))
        node = avro.record(3)
        text = text_of(node.schema)
        official.register(SUBJECT, text, "AVRO")
        whole = [message for _, message in avro_messages(official, text, node)]
        messages = []
        for data, headers in whole:
            start = 0 if headers else 5
            cuts = range(start, min(len(data), start + 40))
            messages += [(data[:at], headers) for at in cuts]
            for _ in range(20 if len(data) > start else 0):
                made = bytearray(data)
                made[chance.randrange(start, len(made))] ^= 1 << chance.randrange(8)
                messages.append((bytes(made), headers))
        write_topic(tmp_path / f"{seed}" / f"{TOPIC}-0", [*whole, *messages])
        decoder = official.decoder()
        table = columns_of(tmp_path / f"{seed}" / f"{TOPIC}-0", decoder, TOPIC, None)
        assert table.num_rows == len(whole) + len(messages)
        for message in messages:
            found = decoder.of_topic(TOPIC)(None, *message)[1]
            assert isinstance(found, Payload)
            json.dumps(found.value if found.error is None else None, allow_nan=False)
