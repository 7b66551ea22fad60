"""JSON lines and CSV column by column: the bytes that rendering record by record gives."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.columns.arrays import HEADERS, MILLISECONDS
from kdump.export.rendering import csv_bytes, json_bytes
from kdump.export.text import csv_lines, json_lines

SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", MILLISECONDS),
        pa.field("timestamp_type", pa.int32()),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", HEADERS),
        pa.field("is_control", pa.bool_()),
        pa.field("value_json", pa.string(), metadata={b"kdump": b"json"}),
    ]
)
ODD = '"\\\n\r\t\0\x1b\x7f\x80\x9f\u2028\u2029\u202e\ud7ff😀½²aZ09,ä中 /'
TEXT = st.text(st.one_of(st.sampled_from(ODD), st.characters(exclude_categories=["Cs"])), max_size=8)
BYTES = st.one_of(st.none(), TEXT.map(str.encode))
WILD = st.one_of(BYTES, st.binary(max_size=4))
LEAVES = st.none() | st.booleans() | TEXT | st.integers()
JSON = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=2), max_leaves=3)


def rows_of(contents: st.SearchStrategy[bytes | None]) -> st.SearchStrategy[list[dict[str, Any]]]:
    header = st.fixed_dictionaries({"key": TEXT, "value": WILD})
    value_json = JSON.map(lambda value: json.dumps(value, ensure_ascii=False, separators=(",", ":")))
    return st.lists(
        st.fixed_dictionaries(
            {
                "topic": st.one_of(st.none(), TEXT),
                "offset": st.integers(-(1 << 63), (1 << 63) - 1),
                "timestamp": st.one_of(st.none(), st.integers(-(1 << 63), (1 << 63) - 1)),
                "timestamp_type": st.integers(-1, 1),
                "key": contents,
                "value": contents,
                "headers": st.one_of(st.none(), st.lists(header, max_size=2)),
                "is_control": st.booleans(),
                "value_json": st.one_of(st.none(), value_json),
            }
        ),
        max_size=4,
    )


def check(rows: list[dict[str, Any]]) -> None:
    columns = [pa.array([row[field.name] for row in rows], field.type) for field in SCHEMA]
    batch = pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
    for each in (batch, batch.slice(1), batch.slice(0, 2)):
        assert bytes(json_bytes(each)) == json_lines(each).encode()
        assert bytes(csv_bytes(each)) == csv_lines(each).encode()


@given(rows_of(BYTES))
def test_texts_are_rendered_the_same_way(rows: list[dict[str, Any]]) -> None:
    check(rows)


@given(rows_of(WILD))
def test_bytes_are_rendered_the_same_way(rows: list[dict[str, Any]]) -> None:
    check(rows)


@pytest.mark.parametrize("letter", [chr(code) for code in (*range(0x100), 0x2028, 0x2029, 0x202E, 0xFEFF, 0x1F600)])
def test_every_odd_character(letter: str) -> None:
    value = f"a{letter}".encode()
    row = dict.fromkeys(SCHEMA.names) | {"topic": letter, "offset": 1, "key": value, "value": letter.encode()}
    check([row])
