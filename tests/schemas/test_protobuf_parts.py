"""Messages that have no JSON as a whole: what has none is shown by its fields, the rest as the library shows it."""

from __future__ import annotations

from typing import Any

import pytest

from kdump.schema_registry import protobuf
from kdump.schema_registry.errors import SchemaError
from kdump.schema_registry.protobuf import ProtobufSchema, shown_by_parts
from kdump.schema_registry.protobuf_maps import has_maps

TEXT = """
syntax = "proto3";
import "google/protobuf/any.proto";
import "google/protobuf/timestamp.proto";
message M {
  google.protobuf.Any any = 1; google.protobuf.Timestamp at = 2;
  int64 long = 3; repeated uint64 longs = 4; float short = 5; double wide = 6; bytes raw = 7;
  Kind kind = 8; bool yes = 9;
  map<bool, M> inner = 10; map<int32, bytes> raws = 11; repeated M more = 12; repeated float shorts = 13;
  string text = 14;
}
enum Kind { NONE = 0; BIG = 1; }
"""


def message() -> tuple[ProtobufSchema, Any]:
    schema = ProtobufSchema(TEXT)
    made = schema.message_class("M")(
        long=-1, longs=[1, 1 << 63], short=0.1, wide=0.1, raw=b"\xff", kind=1, yes=True, text="é",
        shorts=[1, 1e20, 3e-5, float("nan"), float("-inf"), 3.4028234e38],
    )  # fmt: skip
    made.raws[-3] = b"z"
    return schema, made


def test_an_any_of_an_unknown_type_hides_nothing_else() -> None:
    schema, made = message()
    whole = schema.shown(made)
    made.any.type_url, made.any.value = "type.googleapis.com/other.Thing", b"\x08\x05"
    found = schema.shown(made)
    assert found.pop("any") == {"@type": "type.googleapis.com/other.Thing", "value": "CAU="}
    assert found == whole


def test_so_it_is_within_maps_and_lists() -> None:
    schema, made = message()
    _, far = message()
    made.more.append(schema.message_class("M").FromString(far.SerializeToString()))
    made.inner[True].long = 4
    whole = schema.shown(made)
    made.inner[True].at.seconds = 1 << 40
    assert schema.shown(made) == whole | {"inner": {"true": {"long": "4", "at": {"seconds": str(1 << 40)}}}}


def test_depth_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    _, made = message()
    made.more.add().more.add().any.type_url = "x/y.Z"
    monkeypatch.setattr(protobuf, "MAX_DEPTH", 1)

    def refuses(_: object) -> Any:
        raise ValueError("no JSON")

    with pytest.raises(SchemaError, match="nested"):
        shown_by_parts(made, refuses)


MAPS = """
syntax = "proto3";
import "google/protobuf/any.proto";
import "google/protobuf/struct.proto";
message M {
  map<string, M> names = 1; map<sint32, bool> numbers = 2; map<bool, int32> flags = 3;
  google.protobuf.Struct free = 4; repeated google.protobuf.Value values = 5; google.protobuf.Any any = 6;
  google.protobuf.Timestamp at = 7; repeated M more = 8;
}
import "google/protobuf/timestamp.proto";
"""
NUMBERS = (10, -2, 9, 100, 3, -20, 7)
SORTED = ("-20", "-2", "3", "7", "9", "10", "100")


@pytest.mark.parametrize("has_json", [True, False])
def test_maps_are_in_order_of_their_keys_everywhere(has_json: bool) -> None:
    schema = ProtobufSchema(MAPS)
    kind = schema.message_class("M")
    inner = kind(numbers=dict.fromkeys(NUMBERS, True), flags={True: 1, False: 2})
    made = kind(numbers=dict.fromkeys(NUMBERS, True), more=[inner])
    for name in "dbeacf":
        made.names[name].CopyFrom(inner)
    made.free.update({name: {"z": 1, "y": [{"b": 1, "a": 2}]} for name in "dbeacf"})
    made.values.add().struct_value.update(dict.fromkeys("dbeacf", 1))
    made.any.Pack(inner)
    if not has_json:
        made.at.seconds = 1 << 40
    found = schema.shown(made)
    numbers = [found["numbers"], found["more"][0]["numbers"], found["any"]["numbers"]]
    assert [tuple(each) for each in [*numbers, *(found["names"][name]["numbers"] for name in "abcdef")]] == [SORTED] * 9
    assert [list(each) for each in (found["names"], found["free"], found["values"][0])] == [list("abcdef")] * 3
    assert repr(found["free"]["a"]) == repr({"y": [{"a": 2.0, "b": 1.0}], "z": 1.0})
    assert list(found["any"]["flags"]) == ["false", "true"]
    again = kind.FromString(made.SerializeToString())
    assert again == made


def test_messages_without_maps_are_not_walked() -> None:
    descriptors = ProtobufSchema(MAPS).message_class("M").DESCRIPTOR.fields_by_name
    assert [has_maps(descriptors[name].message_type) for name in ("at", "free", "any", "more")] == [
        False, True, True, True
    ]  # fmt: skip
