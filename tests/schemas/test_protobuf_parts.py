"""Messages that have no JSON as a whole: what has none is shown by its fields, the rest as the library shows it."""

from __future__ import annotations

from typing import Any

import pytest

from kdump.schemas import protobuf_parts
from kdump.schemas.errors import SchemaError
from kdump.schemas.protobuf import ProtobufSchema
from kdump.schemas.protobuf_parts import shown_by_parts

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
    monkeypatch.setattr(protobuf_parts, "MAX_DEPTH", 1)

    def refuses(_: object) -> Any:
        raise ValueError("no JSON")

    with pytest.raises(SchemaError, match="nested"):
        shown_by_parts(made, refuses)
