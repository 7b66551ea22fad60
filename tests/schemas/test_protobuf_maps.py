"""Maps of messages come out in the order of their keys; the library has them in another one in every process."""

from __future__ import annotations

from typing import Any

import pytest

from kdump.schema_registry.protobuf import ProtobufSchema
from kdump.schema_registry.protobuf_maps import has_maps

TEXT = """
syntax = "proto3";
import "google/protobuf/any.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/timestamp.proto";
message M {
  string name = 1; map<string, int32> words = 2; map<int64, M> numbers = 3; map<bool, string> flags = 4;
  repeated M more = 5; M one = 6; google.protobuf.Any any = 7; google.protobuf.Struct json = 8;
  repeated google.protobuf.Value values = 9; google.protobuf.Timestamp at = 10;
}
message Plain { string name = 1; Plain next = 2; repeated int64 numbers = 3; google.protobuf.Timestamp at = 4; }
message Outer { Plain plain = 1; repeated M inner = 2; }
message Holds { google.protobuf.Any any = 1; }
"""
WORDS = [f"word-{number}" for number in (9, 2, 10, 1, 7, 4)]
NUMBERS = (9, -2, 10, 1, -7, 4)


@pytest.fixture(scope="module")
def schema() -> ProtobufSchema:
    return ProtobufSchema(TEXT)


def filled(schema: ProtobufSchema, depth: int = 1) -> Any:
    message = schema.message_class("M")(name="m")
    for word in WORDS:
        message.words[word] = 1
        message.json[word] = {each: [dict.fromkeys(WORDS)] for each in WORDS}
    for number in NUMBERS:
        message.numbers[number].name = str(number)
    message.flags[True] = "yes"
    message.flags[False] = "no"
    message.values.add().struct_value.update(dict.fromkeys(WORDS, 1))
    message.at.seconds = 7
    if depth:
        inner = filled(schema, depth - 1)
        message.one.CopyFrom(inner)
        message.more.append(inner)
        message.numbers[5].CopyFrom(inner)
        message.any.Pack(inner)
    return message


def assert_in_order(shown: dict[str, Any], *, is_outer: bool = True) -> None:
    words = sorted(WORDS)
    assert list(shown["words"]) == list(shown["json"]) == list(shown["values"][0]) == words
    assert [list(each) for each in shown["json"].values()] == [words] * len(words)
    assert [list(each[0]) for each in shown["json"]["word-1"].values()] == [words] * len(words)
    assert list(shown["numbers"]) == [str(each) for each in sorted((*NUMBERS, 5) if is_outer else NUMBERS)]
    assert list(shown["flags"]) == ["false", "true"]
    assert shown["at"] == "1970-01-01T00:00:07Z"
    if is_outer:
        for inner in (shown["one"], shown["more"][0], shown["numbers"]["5"], shown["any"]):
            assert_in_order(inner, is_outer=False)


def test_maps_at_every_depth(schema: ProtobufSchema) -> None:
    message = filled(schema)
    shown = schema.shown(message)
    assert_in_order(shown)
    assert shown == schema._whole(message)


def test_an_any_of_an_unknown_type_stays_as_it_is(schema: ProtobufSchema) -> None:
    message = schema.message_class("Holds")()
    message.any.type_url, message.any.value = "type.googleapis.com/gone.M", b"\1"
    assert schema.shown(message) == {"any": {"@type": "type.googleapis.com/gone.M", "value": "AQ=="}}


def test_an_any_of_a_struct_is_in_order(schema: ProtobufSchema) -> None:
    message, struct = schema.message_class("Holds")(), schema.message_class("google.protobuf.Struct")()
    struct.update(dict.fromkeys(WORDS, 1))
    message.any.Pack(struct)
    assert list(schema.shown(message)["any"]["value"]) == sorted(WORDS)


@pytest.mark.parametrize(("name", "expected"), [("M", True), ("Plain", False), ("Outer", True), ("Holds", True)])
def test_only_messages_with_maps_are_gone_through(schema: ProtobufSchema, name: str, expected: bool) -> None:
    assert has_maps(schema.message_class(name).DESCRIPTOR) is expected


def test_a_message_without_maps_is_shown_as_the_library_does(schema: ProtobufSchema) -> None:
    message = schema.message_class("Plain")(name="a", numbers=[2, 1])
    message.next.name = "b"
    assert schema.shown(message) == {"name": "a", "next": {"name": "b"}, "numbers": ["2", "1"]}
