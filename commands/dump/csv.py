"""`kdump dump --format csv`: rows of one kind. docs/dump-format.md says what stands in a cell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kdump.query.sweep import Selected
from kdump.storage.records import Batch, header_pairs

from ..shell.output import escape_json, is_unsafe, safe
from .formats import Content, Contents, Origin, Table, Value, Write, batch_values
from .jsonl import base64, decoded_json, headers_json, json_text


class CsvRows:
    """Prints rows. A text is quoted whatever it is, so that an empty one differs from none."""

    def __init__(self, write: Write, *, batches: bool) -> None:
        """Rows are those of batches, or of their records."""
        self._write = write
        self._batches = batches
        self._place = ""

    def begin(self, origin: Origin, size: int) -> None:
        """Rows are of this log from now on."""
        self._place = _row((origin.topic, origin.partition, origin.number))

    def batch(self, batch: Batch) -> None:
        """The row of a batch, where rows are those of batches."""
        if self._batches:
            self._write(f"{self._place},{_row(batch_values(batch))}\n")

    def records(self, batch: Batch, selected: Selected, contents: Sequence[Contents] | None = None) -> None:
        """A row for each record."""
        given = iter(contents or ())
        kind = cell(batch.timestamp_type)
        producer = f"{batch.producer_id},{batch.producer_epoch}"
        tail = _row((batch.is_transactional, batch.is_control, batch.leader_epoch, batch.position))
        place, source = self._place, selected.source
        lines = []
        for offset, timestamp, sequence, key_at, key_size, value_at, value_size, headers_at, count in selected.spans():
            if contents:
                key, value = map(_content, next(given))
            else:
                key = "," if key_size < 0 else _twins(source[key_at : key_at + key_size])
                value = "," if value_size < 0 else _twins(source[value_at : value_at + value_size])
            headers = cell(escape_json(headers_json(header_pairs(source, headers_at, count)))) if count else '"[]"'
            lines.append(
                f"{place},{offset},{timestamp},{kind},{key},{value},{headers},{producer},{sequence},{tail}\n"
            )
        self._write("".join(lines))

    def table(self, table: Table, origin: Origin, rows: Iterable[Sequence[Value]]) -> None:
        """A row for each row."""
        place = _row(table.origin_values(origin))
        for row in rows:
            self._write(f"{place},{_row(row)}\n")


def cell(value: Value) -> str:
    """A value as a cell: nothing for none, numbers and truth as in JSON, text in quotes (and safe)."""
    if value is None:
        return ""
    if isinstance(value, str):
        text = safe(value) if is_unsafe(value) else value
        return '"' + text.replace('"', '""') + '"'
    return json_text(value)


def _row(values: Iterable[Value]) -> str:
    return ",".join(map(cell, values))


def _content(content: Content) -> str:
    """The cells of a key or value; what it was decoded to stands in the first one as a JSON object."""
    if content is None:
        return ","
    if isinstance(content, bytes):
        return _twins(content)
    return f"{cell(escape_json(decoded_json(content)))},"


def _twins(data: bytes | bytearray) -> str:
    """The cells of bytes as text and in base64, of which one is empty.

    Base64 is for what is not UTF-8, and for what a terminal would obey.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return f',"{base64(data)}"'
    if is_unsafe(text):
        return f',"{base64(data)}"'
    return f'"{text.replace(chr(34), chr(34) * 2)}",'
