"""JSON lines and CSV of both kernels: the bytes that rendering record by record gives."""

from __future__ import annotations

import json
import subprocess
import sys
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump import kernels
from kdump.columns.arrays import HEADERS, MILLISECONDS
from kdump.exports.files import RowLines
from tests.export.lines import csv_lines, json_lines
from tests.kernels.reading import KERNELS
from tests.sampling import sampled

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
LONG = st.lists(st.sampled_from(['a"', "é", "x" * 31, "\u2028", "\\", "😀", "ab,c", "\0"]), max_size=60).map(
    lambda pieces: "".join(pieces).encode()
)
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


def rendered(rows: pa.RecordBatch, kernel: ModuleType, *, is_csv: bool) -> bytes:
    """The lines that a kernel makes of rows."""
    written = bytearray()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "RowText", kernel.RowText)
        RowLines(rows.schema, is_csv=is_csv).render(rows, written.extend)
    return bytes(written)


def check_batch(batch: pa.RecordBatch) -> None:
    for kernel in KERNELS:
        assert rendered(batch, kernel, is_csv=False) == json_lines(batch).encode()
        assert rendered(batch, kernel, is_csv=True) == csv_lines(batch).encode()


def check(rows: list[dict[str, Any]]) -> None:
    columns = [pa.array([row[field.name] for row in rows], field.type) for field in SCHEMA]
    batch = pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
    for each in (batch, batch.slice(1), batch.slice(0, 2)):
        check_batch(each)


def values(*given: bytes | None) -> pa.RecordBatch:
    """Rows of one column of bytes."""
    return pa.RecordBatch.from_pydict({"value": pa.array(given, pa.binary())})


@given(rows_of(BYTES))
def test_texts_are_rendered_the_same_way(rows: list[dict[str, Any]]) -> None:
    check(rows)


@given(rows_of(WILD))
def test_bytes_are_rendered_the_same_way(rows: list[dict[str, Any]]) -> None:
    check(rows)


def test_every_odd_character() -> None:
    letters = [chr(code) for code in (*range(0x100), 0x2028, 0x2029, 0x202E, 0xFEFF, 0x1F600)]
    empty = dict.fromkeys(SCHEMA.names)
    check([
        empty | {"topic": letter, "offset": 1, "key": f"a{letter}".encode(), "value": letter.encode()}
        for letter in letters
    ])  # fmt: skip


@pytest.mark.parametrize("first", sampled(range(256), 8, always=(0x22, 0xC2, 0xE2, 0xF0)))
def test_every_byte_beside_every_byte(first: int) -> None:
    pairs = [bytes([first, second]) for second in range(256)]
    check_batch(values(*pairs, *(b"\xe2\x82" + pair for pair in pairs), *(b"\xf0\x9f" + pair for pair in pairs)))


@given(st.lists(st.none() | st.binary(max_size=100) | LONG, max_size=6))
def test_any_bytes(given: list[bytes | None]) -> None:
    check_batch(values(*given))


@pytest.mark.parametrize(
    "piece", [b'"', b"a", "é".encode(), "\u2028".encode(), b"\x00", b"\xff", '"é"'.encode(), b'a"', b'",']
)
def test_texts_of_all_lengths(piece: bytes) -> None:
    for size in (7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 16383, 16384, 16385, 50_000):
        text = (piece * size)[:size]
        check_batch(values(text, None, b"", text, text[:-1] + b'"', b"a" + text, text + b"\x80"))


@pytest.mark.parametrize("special", ['"', "\\", "\x7f", "\x1f", "é", "\x80", "\u2028", "\U00010000", "\uffff"])
def test_what_is_special_at_every_place(special: str) -> None:
    """Also what is cut off at the end of a text, with its rest in the next one."""
    data = special.encode()
    for at in range(70):
        cut = [b"a" * at + data[:size] for size in range(len(data))]
        check_batch(
            values(b"a" * at + data, b"a" * at + data + b"b" * 40, *cut, *(data[size:] for size in range(1, 4)))
        )


def test_letters_of_all_planes() -> None:
    """A cell of letters and digits has no quotes: those that Python calls so."""
    codes = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000 and (code < 0x3000 or code % 37 == 0)]
    check_batch(values(*(chr(code).encode() for code in codes), *(("aZ" + chr(code)).encode() for code in codes)))


def test_lines_come_in_pieces() -> None:
    written: list[int] = []
    rows = values(*[b"x" * 1000] * 2000)
    RowLines(rows.schema, is_csv=False).render(rows, lambda piece: written.append(len(piece)))
    assert sum(written) == 2000 * 1013
    assert max(written) < 1 << 19


def test_writing_files_does_not_load_the_decoders_of_schemas() -> None:
    code = "import sys, kdump.exports.files; sys.exit('kdump.schema_registry.avro' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
