"""Records or batches as CSV, rows of one kind: written and read. docs/dump-format.md says what stands in a cell."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from kdump.formats.printable import base64, escape_json, is_unsafe, safe
from kdump.interchange.dumped import Item
from kdump.interchange.fields import BYTES, HEADERS, RECORD, TRUTH, Field, camel_case
from kdump.interchange.jsonl import decoded_json, headers_json, json_text, load_json
from kdump.interchange.lines import Lines, Reading
from kdump.interchange.reading import CONTENTS, Fields, fields_of, read_record
from kdump.interchange.rows import Content, Contents, Origin, Payload, Table, Value, Write, batch_values
from kdump.query.sweep import Selected
from kdump.storage.records import Batch, header_pairs
from kdump.storage.txn_state import TxnState


class CsvRows:
    """Prints rows. A text is quoted whatever it is, so that an empty one differs from none."""

    def __init__(self, write: Write, *, has_batches: bool, has_schemas: bool = False) -> None:
        """Rows are those of batches, or of their records; with `has_schemas` these have SCHEMA_COLUMNS too."""
        self._schemas = has_schemas
        self._write = write
        self._batches = has_batches
        self._place = ""

    def begin(self, origin: Origin, _size: int) -> None:
        """Begin a log: rows are of this one from now on."""
        self._place = _row((origin.topic, origin.partition, origin.number))

    def batch(self, batch: Batch, transaction: TxnState) -> None:
        """Write the row of a batch, where rows are those of batches."""
        if self._batches:
            self._write(f"{self._place},{_row(batch_values(batch, transaction))}\n")

    def records(
        self, batch: Batch, transaction: TxnState, selected: Selected, contents: Sequence[Contents] | None = None
    ) -> None:
        """Write a row for each record."""
        given = iter(contents or ())
        named = ",,,," if self._schemas else ""
        kind = cell(batch.timestamp_type)
        producer = f"{batch.producer_id},{batch.producer_epoch}"
        flags = batch.is_transactional, batch.is_control, transaction
        tail = _row((*flags, batch.leader_epoch, batch.position, batch.valid))
        place, source = self._place, selected.source
        lines = []
        for offset, timestamp, sequence, key_at, key_size, value_at, value_size, headers_at, count in selected.spans():
            if contents:
                found = next(given)
                key, value = map(_content, found)
                if self._schemas:
                    named = f",{','.join(map(_schema_cells, found))}"
            else:
                key = "," if key_size < 0 else _twins(source[key_at : key_at + key_size])
                value = "," if value_size < 0 else _twins(source[value_at : value_at + value_size])
            headers = cell(escape_json(headers_json(header_pairs(source, headers_at, count)))) if count else '"[]"'
            lines.append(
                f"{place},{offset},{timestamp},{kind},{key},{value},{headers}{named},{producer},{sequence},{tail}\n"
            )
        self._write("".join(lines))

    def table(self, table: Table, origin: Origin, rows: Iterable[Sequence[Value]]) -> None:
        """Write a row for each row."""
        place = _row(table.origin_values(origin))
        for row in rows:
            self._write(f"{place},{_row(row)}\n")


def cell(value: Value) -> str:
    """Return a value as a cell: nothing for none, numbers and truth as in JSON, text in quotes (and safe)."""
    if value is None:
        return ""
    if isinstance(value, str):
        text = safe(value) if is_unsafe(value) else value
        return '"' + text.replace('"', '""') + '"'
    return json_text(value)


def _row(values: Iterable[Value]) -> str:
    return ",".join(map(cell, values))


def _content(content: Content) -> str:
    """Return the cells of a key or value; what it was decoded to stands in the first one as a JSON object."""
    if content is None:
        return ","
    if isinstance(content, Payload):
        if content.error is None:
            return f"{cell(escape_json(decoded_json(content.value)))},"
        content = content.value
    if isinstance(content, bytes):
        return _twins(content)
    return f"{cell(escape_json(decoded_json(content)))},"


def _schema_cells(content: Content) -> str:
    """Return the cells of the schema that a key or value was decoded by."""
    return _row((content.schema_id, content.message)) if isinstance(content, Payload) else ","


def _twins(data: bytes | bytearray) -> str:
    """Return the cells of bytes as text and in base64, of which one is empty.

    Base64 is for what is not UTF-8, and for what a terminal would obey.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return f',"{base64(data)}"'
    if is_unsafe(text):
        return f',"{base64(data)}"'
    return f'"{text.replace(chr(34), chr(34) * 2)}",'


_CELLS = re.compile(r'(?:^|,)("(?:[^"]|"")*"|[^",]*)(?=,|\Z)').findall


def read_csv(lines: Lines, reading: Reading) -> Iterator[Item]:
    """Read a record a row, under the names of the first row; an empty cell without quotes is null.

    Raises InterchangeError.
    """
    rows = _rows(lines)
    heading = next(rows, None)
    if heading is None:
        return
    names = [name or "" for name in heading]
    if CONTENTS.isdisjoint(map(camel_case, names)):
        raise lines.error("the first row has to name the columns, with key or value among them")
    columns = [field._replace(null=True) for field in fields_of(RECORD, names, lines)]
    readers = [_reader(field, lines) for field in columns]
    for row in rows:
        if len(row) != len(names):
            raise lines.error(f"a row of {len(row)} cells where the first has {len(names)}")
        values = [read(text) if read and text is not None else text for text, read in zip(row, readers, strict=True)]
        fields = Fields(columns, values, lines)
        if not fields.truth("isControl"):
            yield read_record(fields, reading)


def _reader(field: Field, lines: Lines) -> Callable[[str], Any] | None:
    """Return what makes of a cell what JSON has in its place, if it can be that; None where it is the text."""
    kind = field.kind
    if kind is HEADERS:
        return lambda text: load_json(text, lines, f"{field.name} is ")
    if kind is TRUTH:
        return lambda text: _TRUTHS.get(text, text)
    if kind is BYTES or kind.most < kind.least:
        return None
    return _number


@lru_cache(1024)  # most columns have the same numbers in many rows
def _number(text: str) -> int | str:
    return int(text) if _WHOLE(text) else text


_TRUTHS: dict[str, bool] = {"true": True, "false": False}
_WHOLE = re.compile(r"-?[0-9]{1,19}").fullmatch


def _rows(lines: Lines) -> Iterator[Sequence[str | None]]:
    """Yield the cells of each row, which may go over several lines."""
    held: list[str] = []
    is_open = False
    for line in lines.text():
        held.append(line)
        is_open ^= line.count('"') % 2 == 1
        if is_open:
            continue
        text = "\n".join(held).removesuffix("\r")
        held.clear()
        if text:
            yield _cells(text, lines)
    if held:
        raise lines.error("a quote that is not closed")


def _cells(text: str, lines: Lines) -> list[str | None]:
    cells: list[str] = _CELLS(text)
    if ",".join(cells) != text:
        at = 0
        for cell in cells:
            if not text.startswith(f"{cell},", at):
                break
            at += len(cell) + 1
        raise lines.error(f"no cell of a CSV row at character {at}: a quote inside a cell has to be doubled")
    return [cell[1:-1].replace('""', '"') if cell[:1] == '"' else cell or None for cell in cells]
