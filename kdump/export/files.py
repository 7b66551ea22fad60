"""The files of an export: rows go in as Arrow record batches, and come out as Parquet, JSON lines or CSV."""

from __future__ import annotations

from typing import Any, BinaryIO, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from kdump.disk.durable import new_file, remove_file
from kdump.disk.rights import Rights
from kdump.export.options import NO_CODEC, ExportFormat, ExportOptions

GROUP_BYTES = 32 << 20
"""Bytes of rows after which a Parquet row group ends: memory stays flat, and readers have enough to do at once."""


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
        from kdump.export.rendering import RowLines

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
