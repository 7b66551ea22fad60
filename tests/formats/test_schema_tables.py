"""Messages written as tables."""

from __future__ import annotations

import pytest

from kdump.formats.schemas.reader import decode
from kdump.formats.schemas.tables import messages
from kdump.formats.schemas.writer import encode
from kdump.releases import KafkaRelease

TABLE = """
PingRequest 0-2 flexible 2+
  name    string
  hops    []Hop  1+  nullable 2+
    node  int32  1+  default -1
    up    bool   1+  default true
  seen    int64  2+  tag 0  default -1  ignorable  since 4.1

Empty 0 flexible none
"""


def test_a_line_is_a_field_and_indented_ones_are_its_own() -> None:
    found = messages(TABLE)
    assert list(found) == ["PingRequest", "Empty"]
    assert not found["Empty"].fields
    name, hops, seen = found["PingRequest"].fields
    assert (name.kind, name.first, name.array, name.fields) == ("string", 0, False, None)
    assert (hops.kind, hops.array, hops.first, hops.null_first) == ("Hop", True, 1, 2)
    assert [(each.name, each.default) for each in hops.fields or ()] == [("node", -1), ("up", True)]
    assert (seen.tag, seen.default, seen.ignorable, seen.since) == (0, -1, True, KafkaRelease.V4_1)


def test_a_struct_is_told_once_a_message() -> None:
    schema = messages(TABLE.replace("  seen ", "  last    Hop\n  seen "))["PingRequest"]
    assert [each.fields is schema.fields[1].fields for each in schema.fields] == [False, True, True, False]


def test_what_a_table_describes_is_written_and_read() -> None:
    schema = messages(TABLE)["PingRequest"]
    value = {"name": "a", "hops": [{"node": 3, "up": False}], "seen": 9}
    assert decode(schema, 2, encode(schema, 2, value))[0] == value
    assert decode(schema, 2, encode(schema, 2, value | {"hops": None, "seen": -1}))[0]["hops"] is None


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("Ping 0 flexibly 1+\n", "Ping: expected the flexible versions, found flexibly"),
        ("Ping 0 flexible none\n  name string 0+ optional\n", "'optional' says nothing about a field"),
        ("Ping 0 flexible none\n  name string default x\n", "invalid literal"),
        ("Ping 0 flexible none\n  hop Hop\n", "hop: a Hop has no fields"),
    ],
)
def test_a_line_that_is_no_field_is_refused(table: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        messages(table)
