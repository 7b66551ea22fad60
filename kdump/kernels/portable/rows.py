"""Rows of columns, in the layout of Arrow's buffers, as lines of JSON or CSV."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Literal, NamedTuple

from kdump.formats.checksums import Buffer
from kdump.formats.printable import escape_controls
from kdump.kernels.row_kinds import ROW_BOOL, ROW_BYTES, ROW_HEADERS, ROW_INT32, ROW_JSON, ROW_NULLS, ROW_TEXT

FLUSH_SIZE = 1 << 18
MAX_LENGTH = (1 << 31) - 1

Write = Callable[[memoryview], object]
NO_OFFSETS = "the offsets are not those of what is in the data"
NO_FIRST = "a column does not begin there"
TOO_SHORT = "a buffer is shorter than its column"
NOT_UTF8 = "a text is not UTF-8"


class RowColumn(NamedTuple):
    """What a column holds (kernels.row_kinds), and what stands in front of each of its cells, and of the twin's.

    In JSON a twin is there only where bytes are not UTF-8; in CSV what stands in front of it is always there.
    """

    kind: int
    lead: bytes
    twin: bytes = b""


class RowText:
    """Renders rows of such columns."""

    def __init__(self, columns: Sequence[RowColumn], is_csv: bool) -> None:
        self._columns = [RowColumn(*column) for column in columns]
        self._cell = _csv_cell if is_csv else _json_cell
        self._end = b"\n" if is_csv else b"}\n"

    def render(self, length: int, columns: Sequence[tuple[Any, ...]], write: Write) -> None:
        """Write a line for each of `length` rows.

        The buffers of each column begin with the number of its first row, and the bits that tell which rows are not
        null (or None). Behind them stand: the numbers or bits; the ends (32-bit) and the bytes of texts; the ends of
        lists, and names and contents of headers as columns of their own. A column of nulls has none.

        Raises ValueError where buffers do not hold so many rows, or texts are not UTF-8 that have to be.
        """
        if len(columns) != len(self._columns) or not 0 <= length <= MAX_LENGTH:
            raise ValueError("these are not the columns of the rows")
        values = [_values(column.kind, buffers, length) for column, buffers in zip(self._columns, columns, strict=True)]
        out = bytearray()
        for row in range(length):
            for column, each in zip(self._columns, values, strict=True):
                out += self._cell(column, each[row])
            out += self._end
            if len(out) >= FLUSH_SIZE or row == length - 1:
                with memoryview(out) as view:
                    write(view)
                out = bytearray()


def _values(kind: int, buffers: tuple[Any, ...], length: int) -> list[Any]:
    """Return the values of a column: numbers, truth values, bytes or headers. Raises ValueError."""
    if kind == ROW_NULLS:
        return [None] * length
    first, validity, *rest = buffers
    valid = _bits(first, validity, length)
    if kind == ROW_HEADERS:
        ends = _ends(first, rest[0], length)
        names, contents = (_values(ROW_BYTES, each, max(ends[-1], 0)) for each in rest[1:])
        found: list[Any] = [
            list(zip(names[start:end], contents[start:end], strict=True)) for start, end in _spans(ends)
        ]
    elif kind in (ROW_TEXT, ROW_BYTES, ROW_JSON):
        data = memoryview(rest[1]).cast("B")
        ends = _ends(first, rest[0], length)
        if any(end > len(data) for end in ends):
            raise ValueError(NO_OFFSETS)
        found = [bytes(data[start:end]) for start, end in _spans(ends)]
    elif kind == ROW_BOOL:
        found = _bits(first, rest[0], length)
    else:
        found = _numbers(first, rest[0], length, "i" if kind == ROW_INT32 else "q")
    return [value if is_valid else None for value, is_valid in zip(found, valid, strict=True)]


def _numbers(first: int, buffer: Buffer, length: int, kind: Literal["i", "q"]) -> list[int]:
    size = 4 if kind == "i" else 8
    data = memoryview(buffer).cast("B")
    if not 0 <= first <= MAX_LENGTH:
        raise ValueError(NO_FIRST)
    if len(data) < size * (first + length):
        raise ValueError(TOO_SHORT)
    return data[size * first : size * (first + length)].cast(kind).tolist()


def _bits(first: int, buffer: Buffer | None, length: int) -> list[bool]:
    if not 0 <= first <= MAX_LENGTH:
        raise ValueError(NO_FIRST)
    if buffer is None:
        return [True] * length
    data = memoryview(buffer).cast("B")
    if len(data) < (first + length + 7) >> 3:
        raise ValueError(TOO_SHORT)
    return [bool(data[row >> 3] >> (row & 7) & 1) for row in range(first, first + length)]


def _ends(first: int, buffer: Buffer, length: int) -> list[int]:
    return _numbers(first, buffer, length + 1, "i")


def _spans(ends: list[int]) -> Iterator[tuple[int, int]]:
    if ends[0] < 0 or any(end < start for start, end in pairwise(ends)):
        raise ValueError(NO_OFFSETS)
    return pairwise(ends)


def _json_cell(column: RowColumn, value: Any) -> bytes:
    if column.kind == ROW_BYTES and value is not None and _text(value) is None:
        return column.lead + b"null" + column.twin + b'"' + b64encode(value) + b'"'
    return column.lead + _json(column.kind, value).encode()


def _json(kind: int, value: Any) -> str:
    if value is None:
        return "null"
    if kind in (ROW_TEXT, ROW_BYTES):
        return escape_controls(json.dumps(_valid(value), ensure_ascii=False))
    if kind == ROW_JSON:
        return escape_controls(_valid(value))
    if kind == ROW_HEADERS:
        return escape_controls(_headers(value, ensure_ascii=False))
    return json.dumps(value)


def _csv_cell(column: RowColumn, value: Any) -> bytes:
    if value is None:
        return column.lead + column.twin
    if column.kind == ROW_HEADERS:
        cell = quoted(_headers(value, ensure_ascii=True))
    elif column.kind not in (ROW_TEXT, ROW_BYTES, ROW_JSON):
        cell = json.dumps(value)
    elif column.kind == ROW_BYTES and _text(value) is None:
        return column.lead + column.twin + b64encode(value)
    else:
        cell = quoted(_valid(value))
    return column.lead + cell.encode() + column.twin


def _headers(headers: list[tuple[bytes | None, bytes | None]], *, ensure_ascii: bool) -> str:
    found = []
    for name, value in headers:
        text = None if value is None else _text(value)
        header = {"key": None if name is None else _valid(name), "value": text}
        if value is not None and text is None:
            header["valueBase64"] = b64encode(value).decode()
        found.append(header)
    return json.dumps(found, ensure_ascii=ensure_ascii, separators=(",", ":"))


def _text(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def _valid(value: bytes) -> str:
    text = _text(value)
    if text is None:
        raise ValueError(NOT_UTF8)
    return text


def quoted(text: str) -> str:
    """Return a text as a cell of CSV: in quotes, unless it has only letters and digits."""
    if text.isalnum():
        return text
    return f'"{text.replace(chr(34), chr(34) * 2)}"'
