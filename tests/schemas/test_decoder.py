"""Which keys and values count as written with a schema, and what becomes of them."""

from __future__ import annotations

import builtins
import struct
from typing import Any

import pytest

from kdump.interchange.rows import Payload
from kdump.schema_registry import avro as avro_module
from kdump.schema_registry.decoder import PayloadDecoder, check_libraries
from kdump.schema_registry.errors import ExtraMissingError, SchemaError
from kdump.schema_registry.framing import message_indexes
from tests.schemas.registries import ORDER, PROTO, avro, framed, registry, schema_record

REGISTRY = registry(
    schema_record("orders-value", 1, 1, ORDER),
    schema_record("orders-key", 1, 2, '"long"'),
    schema_record("acme.Order", 1, 1, ORDER),
    schema_record("proto-value", 1, 3, PROTO, schemaType="PROTOBUF"),
    schema_record("json-value", 1, 4, {"type": "object"}, schemaType="JSON"),
    schema_record("broken-value", 1, 5, ORDER, references=[{"name": "x", "subject": "gone", "version": 1}]),
    schema_record("odd-value", 1, 6, "{}", schemaType="XML"),
)
ORDER_1 = avro(ORDER, {"id": 7, "note": None})


def value_of(data: bytes | None, topic: str = "orders", headers: tuple[tuple[bytes, bytes | None], ...] = ()) -> Any:
    return PayloadDecoder(REGISTRY).of_topic(topic)(None, data, headers)[1]


def guid_of(schema_id: int) -> bytes:
    schema = REGISTRY.by_id(schema_id)
    assert schema is not None
    assert schema.guid is not None
    return schema.guid


def test_avro_by_its_prefix() -> None:
    assert value_of(framed(1, ORDER_1)) == Payload({"id": 7, "note": None}, 1)


def test_json_by_its_prefix() -> None:
    assert value_of(framed(4, b'{"a":[1,NaN]}'), "json") == Payload({"a": [1, "NaN"]}, 4)


@pytest.mark.parametrize(
    ("indexes", "payload", "shown", "message"),
    [
        (b"\0", b"\x08\5", {"id": "5"}, "acme.Order"),
        (b"\2\0", b"\x08\5", {"id": "5"}, "acme.Order"),
        (b"\2\2", b"\x0a\1x", {"text": "x"}, "acme.Other"),
        (b"\4\0\2", b"\x0a\1x", {"sku": "x"}, "acme.Order.Line"),
        (b"\1\1", b"\x0a\1x", {"text": "x"}, "acme.Other"),
    ],
)
def test_protobuf_by_its_message_indexes(indexes: bytes, payload: bytes, shown: object, message: str) -> None:
    """The last path is that of old clients, whose varints have no zigzag; map entries are nested messages too."""
    assert value_of(framed(3, indexes + payload), "proto") == Payload(shown, 3, message)


@pytest.mark.parametrize("header", [b"\0\0\0\0\1", b"\1" + guid_of(1)])
def test_a_header_names_the_schema_of_a_payload_without_a_prefix(header: bytes) -> None:
    found = value_of(ORDER_1, "any", ((b"x", b""), (b"__value_schema_id", header)))
    assert found == Payload({"id": 7, "note": None}, 1)


def test_a_header_has_the_message_indexes() -> None:
    guid = guid_of(3)
    for indexes, message in ((b"\2\2", "acme.Other"), (b"\0", "acme.Order"), (b"", "acme.Order")):
        found = value_of(b"", "any", ((b"__value_schema_id", b"\1" + guid + indexes),))
        assert found == Payload({}, 3, message)


def test_the_header_of_the_key_is_not_that_of_the_value() -> None:
    key, value = PayloadDecoder(REGISTRY).of_topic("any")(b"\x0e", b"\x0e", ((b"__key_schema_id", b"\0\0\0\0\2"),))
    assert (key, value) == (Payload(7, 2), b"\x0e")


def test_an_unknown_guid_is_an_error_of_the_record() -> None:
    found = value_of(b"x", "any", ((b"__value_schema_id", b"\1" + bytes(16)),))
    assert (found.value, found.schema_id, found.is_unknown) == (b"x", None, True)
    assert found.error == "schema 00000000-0000-0000-0000-000000000000 is not among the schemas"


@pytest.mark.parametrize("data", [b"", b"plain", b"\0", b"\0\0\0\0", b"\1\0\0\0\1x", b"\0\xff\xff\xff\xff"])
def test_what_has_no_prefix_is_plain(data: bytes) -> None:
    assert value_of(data) == data


def test_null_is_null() -> None:
    assert value_of(None) is None


def test_plain_longs_stay_plain_whatever_they_begin_with() -> None:
    """2 ** 24 * 2 + ... looks like schema 2 with three bytes behind it."""
    decoder = PayloadDecoder(REGISTRY).of_topic("longs")
    for number in (0, 1, (2 << 24) + 1, (2 << 24) + 0x808001, (1 << 24) + 5):
        data = struct.pack(">q", number)
        assert decoder(data, data) == (data, data)


def test_an_id_that_no_schema_has_is_told_where_the_topic_has_schemas() -> None:
    found = value_of(framed(99, b"x"))
    assert (found.value, found.schema_id, found.is_unknown) == (framed(99, b"x"), 99, True)
    assert value_of(framed(99, b"x"), "unheard-of") == framed(99, b"x")


def test_an_id_that_no_schema_has_is_told_once_others_have_decoded() -> None:
    decoder = PayloadDecoder(REGISTRY).of_topic("renamed")
    assert decoder(None, framed(99, b"x"))[1] == framed(99, b"x")
    assert isinstance(decoder(None, framed(1, ORDER_1))[1], Payload)
    assert isinstance(decoder(None, framed(99, b"x"))[1], Payload)


def test_what_does_not_decode_keeps_its_bytes() -> None:
    data = framed(1, ORDER_1 + b"more")
    found = value_of(data)
    assert (found.value, found.schema_id, found.is_unknown) == (data, 1, False)
    assert "4 bytes are left" in found.error


@pytest.mark.parametrize(("topic", "number", "error"), [("broken", 5, "gone version 1"), ("odd", 6, "'XML'")])
def test_a_schema_that_cannot_be_used_is_told_with_every_record(topic: str, number: int, error: str) -> None:
    decoder = PayloadDecoder(REGISTRY).of_topic(topic)
    for _ in range(2):
        found = decoder(None, framed(number, b"x"))[1]
        assert isinstance(found, Payload)
        assert error in (found.error or "")


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff" * 11, b"\xfe\xff\xff\xff\x0f", b"\4\2", b"\4\1\1"])
def test_message_indexes_that_are_none(data: bytes) -> None:
    with pytest.raises(SchemaError):
        message_indexes(data, 0)


def test_a_missing_library_is_named_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    importing = builtins.__import__

    def without(name: str, *more: Any) -> Any:
        if name == "fastavro":
            raise ImportError("No module named 'fastavro'", name=name)
        return importing(name, *more)

    avro_module._fastavro.cache_clear()
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ExtraMissingError, match=r"needs fastavro: pip install 'kafka-kdump\[schemas\]'"):
        check_libraries(REGISTRY)
