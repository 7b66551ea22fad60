"""Record batches as lines of JSON or CSV, record by record: what the kernels are compared with."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa

from kdump.formats.printable import escape_controls
from kdump.interchange.fields import camel_case

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def json_lines(batch: pa.RecordBatch) -> str:
    """Return an object for each row, in the format of kdump.interchange.

    Timestamps are numbers in the unit of their column; the twin `XBase64` is there where bytes are not UTF-8.
    """
    names = [camel_case(name) for name in batch.schema.names]
    lines = [_encode(_object(zip(names, row, strict=True))) for row in _objects(batch)]
    return escape_controls("".join(f"{line}\n" for line in lines))


def csv_columns(schema: pa.Schema) -> list[str]:
    """Return the columns of CSV: those of a schema, binary ones with their twin."""
    return [name for field in schema for name in _csv_names(field)]


def csv_lines(rows: pa.RecordBatch | pa.Schema) -> str:
    """Return a row for each of a record batch, or the heading for a schema.

    A null is an empty field; an empty text is quoted. Headers are JSON.
    """
    if isinstance(rows, pa.Schema):
        return f"{','.join(csv_columns(rows))}\n"
    kinds = [field.type for field in rows.schema]
    return "".join(
        f"{','.join(cell for value, kind in zip(row, kinds, strict=True) for cell in cells(value, kind))}\n"
        for row in _rows(rows)
    )


def _csv_names(field: pa.Field) -> Iterable[str]:
    return (field.name, f"{field.name}_base64") if pa.types.is_binary(field.type) else (field.name,)


def _rows(batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    return zip(*(_plain(column).to_pylist() for column in batch.columns), strict=True)


def _objects(batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    """Return what `_rows` does, with JSON texts as what they say."""
    columns = []
    for field, column in zip(batch.schema, batch.columns, strict=True):
        values = _plain(column).to_pylist()
        is_json = (field.metadata or {}).get(b"kdump") == b"json"
        columns.append([None if each is None else _Json(json.loads(each)) for each in values] if is_json else values)
    return zip(*columns, strict=True)


class _Json(NamedTuple):
    """What a JSON text says."""

    value: Any


def _plain(column: pa.Array) -> pa.Array:
    """Return a column whose values Python has a type for: every timestamp fits a number, not every one a date."""
    return column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column


def _object(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if isinstance(value, _Json):
            found[name] = value.value
        elif isinstance(value, bytes):
            _put_bytes(found, name, value)
        elif isinstance(value, list):
            found[name] = [_object(header.items()) for header in value]
        else:
            found[name] = value
    return found


def _put_bytes(found: dict[str, Any], name: str, value: bytes) -> None:
    try:
        found[name] = value.decode()
    except UnicodeDecodeError:
        found[name] = None
        found[f"{name}Base64"] = b64encode(value).decode()


def cells(value: Any, kind: pa.DataType) -> Iterator[str]:
    """Yield the cells of a value: of bytes two, its own and that of its twin."""
    if pa.types.is_binary(kind):
        yield from _byte_cells(value)
    elif value is None:
        yield ""
    elif isinstance(value, list):
        yield quoted(json.dumps([_object(header.items()) for header in value], separators=(",", ":")))
    elif isinstance(value, bool):
        yield "true" if value else "false"
    else:
        yield str(value) if isinstance(value, int) else quoted(value)


def _byte_cells(value: bytes | None) -> tuple[str, str]:
    if value is None:
        return "", ""
    try:
        return quoted(value.decode()), ""
    except UnicodeDecodeError:
        return "", b64encode(value).decode()


def quoted(text: str) -> str:
    """A text as a cell: in quotes, unless it has only letters and digits."""
    if text.isalnum():
        return text
    return f'"{text.replace(chr(34), chr(34) * 2)}"'
