"""Rows as JSON lines and CSV, column by column with Arrow's own string functions and a kernel for the cells of CSV: the
bytes that `text` writes.

What these have no way for is rendered by `text`, record by record: batches in which a key or value is not UTF-8, and
single texts with control characters and the like.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kdump import kernels
from kdump.export import text
from kdump.interchange.fields import camel_case

_ODD = "[\\x{0}-\\x{8}\\x{B}\\x{C}\\x{E}-\\x{1F}\\x{7F}-\\x{9F}\\x{2028}\\x{2029}]"
"""What JSON or a terminal needs more than a letter behind a backslash for."""
_ODD_ASCII = bytes(code for code in (*range(0x20), 0x7F) if code not in b"\t\n\r")
_ESCAPES = (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"))
_NULL, _EMPTY = "null", ""


class _NotHere(Exception):
    """A batch is to be rendered record by record."""


def json_bytes(rows: pa.RecordBatch) -> bytes | pa.Buffer:
    """Return an object for each row, as text.json_lines writes them."""
    try:
        parts: list[Any] = []
        for number, (field, column) in enumerate(zip(rows.schema, rows.columns, strict=True)):
            parts += [f'{"," if number else "{"}"{camel_case(field.name)}":', *_json(field, column)]
        return _joined(rows, [*parts, "}\n"])
    except _NotHere:
        return text.json_lines(rows).encode("utf-8", "surrogateescape")


def csv_bytes(rows: pa.RecordBatch) -> bytes | pa.Buffer:
    """Return a row for each, as text.csv_lines writes them."""
    try:
        parts: list[Any] = []
        for number, (field, column) in enumerate(zip(rows.schema, rows.columns, strict=True)):
            parts += ["," if number else "", *_csv(column)]
            if pa.types.is_binary(field.type):
                parts.append(",")
        return _joined(rows, [*parts, "\n"])
    except _NotHere:
        return text.csv_lines(rows).encode("utf-8", "surrogateescape")


def _joined(rows: pa.RecordBatch, parts: list[Any]) -> bytes | pa.Buffer:
    """Return the texts of each row one after the other, constants put together."""
    if not rows.num_rows:
        return b""
    merged: list[Any] = []
    for part in parts:
        if isinstance(part, str) and merged and isinstance(merged[-1], str):
            merged[-1] += part
        else:
            merged.append(part)
    scalars = [pa.scalar(part, pa.large_string()) if isinstance(part, str) else part for part in merged]
    lines = pc.binary_join_element_wise(*scalars, pa.scalar("", pa.large_string()))
    if isinstance(lines, pa.ChunkedArray):
        lines = lines.combine_chunks()
    offsets = lines.buffers()[1]
    start = int.from_bytes(offsets[lines.offset * 8 : lines.offset * 8 + 8].to_pybytes(), "little")
    end = lines.offset + len(lines)
    stop = int.from_bytes(offsets[end * 8 : end * 8 + 8].to_pybytes(), "little")
    return lines.buffers()[2].slice(start, stop - start)


Parts = tuple[Any, ...]
"""Columns of text, and text that is the same in each row, to be put together."""


def _json(field: pa.Field, column: pa.Array) -> Parts:
    kind = column.type
    if column.null_count == len(column):
        return (_NULL,)
    if (field.metadata or {}).get(b"kdump") == b"json":
        values = _text(column)
        return (_filled(_patched(values, values, _json_again), _NULL),)
    if pa.types.is_list(kind):
        return (_each(column, text.json_of_headers, _NULL),)
    if pa.types.is_binary(kind) or pa.types.is_string(kind):
        escaped = _json_escaped(_text(column))
        return (_filled(_in_quotes(escaped), _NULL),) if column.null_count else ('"', escaped, '"')
    return (_filled(_number(column), _NULL),)


def _csv(column: pa.Array) -> Parts:
    kind = column.type
    if column.null_count == len(column):
        return (_EMPTY,)
    if pa.types.is_list(kind):
        return (_each(column, lambda value: next(text.cells(value, kind)), _EMPTY),)
    if pa.types.is_binary(kind) or pa.types.is_string(kind):
        return (_csv_cells(_text(column)),)
    return (_filled(_number(column), _EMPTY),)


def _number(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.int64())
    elif not (pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
        raise _NotHere
    return column.cast(pa.large_string())


def _text(column: pa.Array) -> pa.Array:
    try:
        return column.cast(pa.large_string())
    except pa.ArrowInvalid:
        raise _NotHere from None


def _bytes_of(values: pa.Array) -> bytes:
    """Return the bytes of all texts of a column, one after the other."""
    offsets, data = values.buffers()[1:]
    if data is None:
        return b""
    start, stop = (
        int.from_bytes(offsets[at * 8 : at * 8 + 8].to_pybytes(), "little")
        for at in (values.offset, values.offset + len(values))
    )
    found: bytes = data.slice(start, stop - start).to_pybytes()
    return found


def _json_escaped(values: pa.Array) -> pa.Array:
    data, escaped = _bytes_of(values), values
    for plain, made in _ESCAPES:
        if plain.encode() in data:
            escaped = pc.replace_substring(escaped, plain, made)
    return _patched(values, escaped, _json_inside, data)


def _csv_cells(values: pa.Array) -> pa.Array:
    """Return texts of letters and digits as they are, others in quotes, null empty."""
    validity, offsets, data = values.buffers()
    if not len(values) or data is None:
        return pc.fill_null(_in_quotes(values), _EMPTY)
    cells = kernels.csv_cells(data, offsets, validity, values.offset, len(values))
    if cells is None:
        return values
    made, places = cells
    buffers = [None, pa.py_buffer(places), pa.py_buffer(made)]
    return pa.Array.from_buffers(pa.large_string(), len(values), buffers)


def _in_quotes(values: pa.Array) -> pa.Array:
    quote = pa.scalar('"', pa.large_string())
    return pc.binary_join_element_wise(quote, values, quote, pa.scalar("", pa.large_string()))


def _patched(
    values: pa.Array, made: pa.Array, render: Callable[[str], str], data: bytes | None = None
) -> pa.Array:
    """Return `made` with what `render` gives for those values that have odd characters; `data` are the bytes of all."""
    if not _may_be_odd(_bytes_of(values) if data is None else data):
        return made
    mask = pc.fill_null(pc.match_substring_regex(values, _ODD), False)
    if not _any(mask):
        return made
    found = pa.array([render(each) for each in values.filter(mask).to_pylist()], pa.large_string())
    return pc.replace_with_mask(made, mask, found)


def _may_be_odd(data: bytes) -> bool:
    """Return whether one of the characters of _ODD may be in UTF-8; far faster than to look for them."""
    if not data:
        return False
    codes = pc.min_max(pa.Array.from_buffers(pa.uint8(), len(data), [None, pa.py_buffer(data)])).as_py()
    if codes["min"] >= 0x20 and codes["max"] < 0x7F:
        return False
    if len(data.translate(None, _ODD_ASCII)) != len(data):
        return True
    return not data.isascii() and (b"\xc2" in data or b"\xe2\x80" in data)


def _json_inside(value: str) -> str:
    return text.safer(json.dumps(value, ensure_ascii=False))[1:-1]


def _json_again(value: str) -> str:
    return text.safer(value)


def _each(column: pa.Array, render: Callable[[Any], str], null: str) -> pa.Array:
    values: Iterable[Any] = column.to_pylist()
    return pa.array([null if value is None else render(value) for value in values], pa.large_string())


def _filled(values: pa.Array, null: str) -> pa.Array:
    return pc.fill_null(values, null) if values.null_count else values


def _any(mask: pa.Array) -> bool:
    return bool(pc.any(mask).as_py())
