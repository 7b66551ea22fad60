""".proto texts as descriptors, and what is none."""

from __future__ import annotations

import pytest
from google.protobuf import descriptor_pb2

from kdump.schema_registry.errors import SchemaError
from kdump.schema_registry.proto_text import parse_proto
from kdump.schema_registry.protobuf import ProtobufSchema

FULL = r'''
// a comment with "quotes" and { braces
syntax = "proto2"; /* another
one */
package acme.full;
import public "google/protobuf/timestamp.proto";
import weak 'google/protobuf/any.proto';
option java_package = "com.acme" ".full";
option (custom.option) = { nested { a: 1 } list: [1, 2] };
message Full {
  option (acme.meta).value = "x";
  required int64 id = 1;
  optional string text = 0x2 [default = "a\"b\x41\101\n", json_name = "theText", deprecated = true];
  optional bytes raw = 03 [default = "\xff\\"];
  repeated int32 packed = 4 [packed = true];
  optional double big = 5 [default = -1.5e+10];
  optional Kind kind = 6 [default = SECOND];
  optional group Part = 7 { optional int32 message = 1; repeated string enum = 2; }
  map<string, .acme.full.Full.Inner> by_name_now = 8;
  oneof choice { option (x) = 1; string left = 9; Inner right = 10; group Middle = 15 { optional int32 m = 1; } }
  extensions 100 to 199, 300, 400 to max [declaration = { number: 100 }];
  reserved 11, 12 to 13;
  reserved "old", "older";
  message Inner { optional Inner inner = 1; optional message.Odd odd = 2; }
  enum Kind { option allow_alias = true; FIRST = 0; SECOND = 1; ALSO = 1 [deprecated = true];
    MINUS = -0x1; reserved 5; }
  extend Full { optional int32 more = 101; }
}
message message { message Odd { optional bool optional = 1; } }
extend Full { repeated string texts = 102; }
service Nothing { rpc Call (Full) returns (stream Full) { option (x) = {}; } }
;
'''


def test_everything_that_decoding_needs_is_there() -> None:
    file = parse_proto(FULL, "full.proto")
    assert (file.package, file.syntax) == ("acme.full", "proto2")
    assert list(file.dependency) == ["google/protobuf/timestamp.proto", "google/protobuf/any.proto"]
    assert list(file.public_dependency) == [0]
    full = file.message_type[0]
    fields = {field.name: field for field in full.field}
    assert [(field.name, field.number) for field in full.field] == [
        ("id", 1), ("text", 2), ("raw", 3), ("packed", 4), ("big", 5), ("kind", 6), ("part", 7), ("by_name_now", 8),
        ("left", 9), ("right", 10), ("middle", 15),
    ]  # fmt: skip
    assert fields["id"].label == descriptor_pb2.FieldDescriptorProto.LABEL_REQUIRED
    assert (fields["text"].default_value, fields["text"].json_name) == ('a"bAA\n', "theText")
    assert fields["raw"].default_value == "\\377\\134"
    assert fields["packed"].options.packed
    assert fields["big"].default_value == "-1.5e+10"
    assert fields["part"].type == descriptor_pb2.FieldDescriptorProto.TYPE_GROUP
    assert [message.name for message in full.nested_type] == ["Part", "ByNameNowEntry", "Middle", "Inner"]
    assert full.nested_type[1].options.map_entry
    assert [(each.start, each.end) for each in full.extension_range] == [(100, 200), (300, 301), (400, 1 << 29)]
    assert {value.name: value.number for value in full.enum_type[0].value}["MINUS"] == -1
    assert [extension.name for extension in file.extension] == ["texts"]
    assert full.extension[0].extendee == "Full"
    assert fields["left"].oneof_index == fields["right"].oneof_index == fields["middle"].oneof_index == 0


def test_the_library_takes_it() -> None:
    schema = ProtobufSchema(FULL)
    message = schema.message_class("acme.full.Full")(id=5, left="x", by_name_now={"a": {}})
    message.part.message = 3
    found, name = schema.decode(b"\0" + message.SerializeToString(), 0)
    assert name == "acme.full.Full"
    assert schema.shown(found) == {"id": "5", "left": "x", "part": {"message": 3}, "by_name_now": {"a": {}}}
    assert (found.text, found.raw, found.kind) == ('a"bAA\n', b"\xff\\", 1)


def test_optional_of_proto3_has_presence() -> None:
    text = 'syntax = "proto3"; message M { optional int32 a = 1; int32 b = 2;'
    text += " oneof o { int32 c = 3; } optional M _a = 4; }"
    message = parse_proto(text, "m.proto").message_type[0]
    assert [oneof.name for oneof in message.oneof_decl] == ["o", "X_a", "__a"]
    schema = ProtobufSchema(text)
    assert schema.shown(schema.decode(b"\0\x08\0\x10\0", 0)[0]) == {"a": 0}


def test_what_a_printer_made_of_a_map_is_a_map_again() -> None:
    text = 'syntax = "proto3"; message M { repeated M.CountsEntry counts = 1; repeated Pair pairs = 2;'
    text += " message CountsEntry { string key = 1; int32 value = 2; }"
    text += " message Pair { string key = 1; int32 value = 2; } }"
    schema = ProtobufSchema(text)
    found, _ = schema.decode(b"\0\x0a\5\x0a\1a\x10\1\x12\5\x0a\1b\x10\2", 0)
    assert schema.shown(found) == {"counts": {"a": 1}, "pairs": [{"key": "b", "value": 2}]}


def test_an_entry_with_a_key_that_no_map_has_is_a_message() -> None:
    text = 'syntax = "proto3"; message M { repeated AEntry a = 1; message AEntry { bytes key = 1; int32 value = 2; } }'
    assert not parse_proto(text, "m.proto").message_type[0].nested_type[0].options.map_entry


def test_editions_have_features() -> None:
    text = 'edition = "2023"; option features.field_presence = IMPLICIT; message M { int32 a = 1;'
    text += " int32 b = 2 [features.field_presence = EXPLICIT]; M inner = 3 [features.message_encoding = DELIMITED]; }"
    schema = ProtobufSchema(text)
    found, _ = schema.decode(b"\0\x08\0\x10\0\x1b\x08\1\x1c", 0)
    assert schema.shown(found) == {"b": 0, "inner": {"a": 1}}


def test_imports_are_found_by_their_names() -> None:
    first = 'syntax = "proto3"; package a; message A { int32 x = 1; }'
    second = 'syntax = "proto3"; package b; import public "a.proto"; message B { a.A a = 1; }'
    text = 'syntax = "proto3"; import "b.proto"; import "google/protobuf/duration.proto"; message C { b.B b = 1;'
    text += " a.A a = 2; google.protobuf.Duration d = 3; }"
    schema = ProtobufSchema(text, [("a.proto", first), ("b.proto", second)])
    found, name = schema.decode(b"\0\x0a\4\x0a\2\x08\5\x1a\2\x08\1", 0)
    assert (name, schema.shown(found)) == ("C", {"b": {"a": {"x": 5}}, "d": "1s"})


def test_a_descriptor_in_base64_will_do() -> None:
    from base64 import b64encode

    file = parse_proto('syntax = "proto3"; package p; message M { int32 a = 1; }', "any name.proto")
    schema = ProtobufSchema(b64encode(file.SerializeToString()).decode())
    assert schema.decode(b"\0\x08\7", 0)[1] == "p.M"


@pytest.mark.parametrize(
    "text",
    [
        "message", "message M {", "message M { int32 a }", "message M { int32 a = ; }", "message M { int32 a = x; }",
        "nothing;", 'syntax = "proto3"; message M { Gone g = 1; }', 'import "gone.proto";',
        "message M { int32 a = 99999999999; }",
        "message A {" * 1000, '"', "\0", "enum E { A = 08; }",
        'syntax = "proto3"; message M { int32 a = 1; int32 b = 1; }',
        'edition = "1999";', "message M { map<string> a = 1; }", 'option x = "\\xff',
    ],
)  # fmt: skip
def test_what_is_no_schema_is_an_error(text: str) -> None:
    with pytest.raises(SchemaError):
        ProtobufSchema(text)


def test_a_text_broken_off_anywhere_raises_nothing_else() -> None:
    for size in range(len(FULL)):
        try:
            parse_proto(FULL[:size], "full.proto")
        except SchemaError:
            continue


