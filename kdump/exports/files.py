"""The files of an export: rows go in as Arrow record batches, and come out as Parquet, JSON lines or CSV."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from kdump import kernels
from kdump.columns.names import JSON_FIELD
from kdump.disk.durable import new_file, remove_file
from kdump.disk.rights import Rights
from kdump.exports.options import NO_CODEC, ExportFormat, ExportOptions
from kdump.formats.printable import escape_controls
from kdump.interchange.fields import camel_case
from kdump.kernels.portable.rows import RowColumn
from kdump.kernels.row_kinds import (
    ROW_BOOL,
    ROW_BYTES,
    ROW_HEADERS,
    ROW_INT32,
    ROW_INT64,
    ROW_JSON,
    ROW_NULLS,
    ROW_TEXT,
)

GROUP_BYTES = 32 << 20
"""Bytes of rows after which a Parquet row group ends: memory stays flat, and readers have enough to do at once."""

_KINDS: tuple[tuple[Callable[[pa.DataType], bool], int], ...] = (
    (pa.types.is_int32, ROW_INT32),
    (pa.types.is_int64, ROW_INT64),
    (pa.types.is_timestamp, ROW_INT64),
    (pa.types.is_boolean, ROW_BOOL),
    (pa.types.is_string, ROW_TEXT),
    (pa.types.is_binary, ROW_BYTES),
    (pa.types.is_list, ROW_HEADERS),
    (pa.types.is_null, ROW_NULLS),
)
_NO_ENDS = bytes(4)

Write = Callable[[memoryview], object]


class RowFile(Protocol):
    """An open file."""

    held: int
    """Bytes of rows that have not been written yet."""

    def add(self, rows: pa.RecordBatch) -> None:
        """Write rows, now or later. Raises OSError."""

    def flush(self) -> None:
        """Do nothing: nothing is held."""

    def close(self) -> None:
        """Write the rest, and end the file. Raises OSError."""


def create(path: str, schema: pa.Schema, options: ExportOptions, rights: Rights) -> RowFile:
    """Return a new file, in the place of what a task that ended early has left. Raises OSError."""
    codec = options.effective_codec
    remove_file(path)
    if options.format == ExportFormat.PARQUET:
        return _Parquet(new_file(path, rights=rights), schema, codec)
    return _Text(new_file(path, rights=rights), schema, codec, is_csv=options.format == ExportFormat.CSV)


class _Parquet:
    def __init__(self, out: BinaryIO, schema: pa.Schema, codec: str) -> None:
        self.held = 0
        self._out = out
        self._rows: list[pa.RecordBatch] = []
        # dictionaries pay for columns that repeat; keys and values mostly do not, and trying costs a third of the time
        repeating = [name for name in schema.names if name not in ("key", "value", "headers", "offset", "timestamp")]
        self._writer = pq.ParquetWriter(
            out,
            schema,
            compression=codec,
            use_dictionary=repeating,
            write_statistics=[name for name in schema.names if name not in ("key", "value", "headers")],
        )

    def add(self, rows: pa.RecordBatch) -> None:
        self._rows.append(rows)
        self.held += rows.nbytes
        if self.held >= GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        if self._rows:
            table = pa.Table.from_batches(self._rows)
            self._rows.clear()
            self.held = 0
            self._writer.write_table(table, row_group_size=max(1, table.num_rows))

    def close(self) -> None:
        with self._out:
            self.flush()
            self._writer.close()


class _Text:
    held = 0

    def __init__(self, out: BinaryIO, schema: pa.Schema, codec: str, *, is_csv: bool) -> None:

        stream: Any = pa.output_stream(out, compression=None if codec == NO_CODEC else codec)
        self._stream = stream
        self._lines = RowLines(schema, is_csv=is_csv)
        stream.write(self._lines.heading)

    def add(self, rows: pa.RecordBatch) -> None:
        self._lines.render(rows, self._stream.write)

    def flush(self) -> None:
        """Do nothing: nothing is held."""

    def close(self) -> None:
        self._stream.close()


class RowLines:
    """Renders record batches of a schema as JSON lines or CSV, in the format of kdump.interchange.

    Arrow's buffers are handed to a kernel, which writes the bytes of lines.

    Timestamps are numbers in the unit of their column; bytes are text, or base64 in a twin where they are not UTF-8.
    In CSV a null is an empty field, an empty text is quoted, and headers are JSON.
    """

    def __init__(self, schema: pa.Schema, *, is_csv: bool) -> None:
        self.heading = f"{','.join(_csv_columns(schema))}\n".encode() if is_csv else b""
        self._kinds = [_kind_of(field) for field in schema]
        columns = _csv_leads(schema) if is_csv else _json_leads(schema)
        wanted = [RowColumn(kind, *leads) for kind, leads in zip(self._kinds, columns, strict=True)]
        self._text = kernels.RowText(wanted, is_csv)

    def render(self, rows: pa.RecordBatch, write: Write) -> None:
        """Write a line for each row, in pieces."""
        columns = [_buffers(kind, column) for kind, column in zip(self._kinds, rows.columns, strict=True)]
        self._text.render(rows.num_rows, columns, write)


def _kind_of(field: pa.Field) -> int:
    if field.metadata == JSON_FIELD:
        return ROW_JSON
    return next(kind for is_it, kind in _KINDS if is_it(field.type))


def _json_leads(schema: pa.Schema) -> Iterator[tuple[bytes, bytes]]:
    for number, name in enumerate(schema.names):
        key, twin = (escape_controls(json.dumps(camel_case(name) + end, ensure_ascii=False)) for end in ("", "Base64"))
        yield f"{',' if number else '{'}{key}:".encode(), f",{twin}:".encode()


def _csv_leads(schema: pa.Schema) -> Iterator[tuple[bytes, bytes]]:
    for number, field in enumerate(schema):
        yield b"," if number else b"", b"," if pa.types.is_binary(field.type) else b""


def _csv_columns(schema: pa.Schema) -> Iterator[str]:
    for field in schema:
        yield field.name
        if pa.types.is_binary(field.type):
            yield f"{field.name}_base64"


def _buffers(kind: int, column: pa.Array) -> tuple[Any, ...]:
    if kind == ROW_NULLS:
        return ()
    validity, *buffers = column.buffers()
    start = (column.offset, validity if column.null_count else None)
    if kind == ROW_HEADERS:
        pairs = (_buffers(each, column.values.field(at)) for at, each in enumerate((ROW_TEXT, ROW_BYTES)))
        return *start, buffers[0] or _NO_ENDS, *pairs
    if kind in (ROW_TEXT, ROW_BYTES, ROW_JSON):
        return *start, buffers[0] or _NO_ENDS, buffers[1] or b""
    return *start, buffers[0] or b""
