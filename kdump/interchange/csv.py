"""Records or batches as CSV, rows of one kind: written and read. docs/dump-format.md says what stands in a cell."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence

from kdump.formats.encode import NewRecord
from kdump.formats.printable import escape_json, is_unsafe, safe
from kdump.interchange.dumped import NO_OFFSET, Item
from kdump.interchange.fields import KNOWN, RECORD, Fields, camel_case, check_names, check_valid
from kdump.interchange.jsonl import base64, decoded_json, headers_json, json_text
from kdump.interchange.lines import Lines, Reading
from kdump.interchange.rows import Content, Contents, Origin, Payload, Table, Value, Write, batch_values
from kdump.query.sweep import Selected
from kdump.storage.records import Batch, header_pairs
from kdump.storage.txn_state import TxnState


class CsvRows:
    """Prints rows. A text is quoted whatever it is, so that an empty one differs from none."""

    def __init__(self, write: Write, *, batches: bool, schemas: bool = False) -> None:
        """Rows are those of batches, or of their records; with `schemas` these have SCHEMA_COLUMNS too."""
        self._schemas = schemas
        self._write = write
        self._batches = batches
        self._place = ""

    def begin(self, origin: Origin, size: int) -> None:
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


_CELL = re.compile(r'(?:"((?:[^"]|"")*)"|([^",]*))(,|$)')
_READ = ("key", "keyBase64", "value", "valueBase64", "timestamp", "timestampUs", "headers", "isControl", "isValid")


def read_csv(lines: Lines, reading: Reading) -> Iterator[Item]:
    """Read a record a row, under the names of the first row; an empty cell without quotes is null.

    Raises InterchangeError.
    """
    rows = _rows(lines)
    heading = next(rows, None)
    if heading is None:
        return
    names = [camel_case(name or "") for name in heading]
    if {"key", "keyBase64", "value", "valueBase64"}.isdisjoint(names):
        raise lines.error("the first row has to name the columns, with key or value among them")
    check_names(names, KNOWN[RECORD], RECORD, lines)
    places = [(name, names.index(name)) for name in _READ if name in names]
    for row in rows:
        if len(row) != len(names):
            raise lines.error(f"a row of {len(row)} cells where the first has {len(names)}")
        cells = {name: row[place] for name, place in places}
        if cells.pop("isControl", None) == "true":
            continue
        check_valid(cells.pop("isValid", None) != "false", lines)
        yield _record(cells, lines, reading)


def _record(cells: dict[str, str | None], lines: Lines, reading: Reading) -> NewRecord:
    times = {name: _whole(name, cells.pop(name, None), lines) for name in ("timestamp", "timestampUs")}
    headers = cells.pop("headers", None)
    fields = Fields({**cells, **times}, RECORD, lines)
    try:
        found = json.loads(headers) if headers else ()
    except (ValueError, RecursionError):
        raise lines.error("headers is not JSON") from None
    return NewRecord(
        NO_OFFSET,
        fields.timestamp(reading),
        fields.content("key"),
        fields.content("value"),
        fields.headers(found),
    )


def _whole(name: str, text: str | None, lines: Lines) -> int | None:
    if text is not None and not re.fullmatch(r"-?[0-9]{1,19}", text):
        raise lines.error(f"{name} is {text!r:.60}: expected a whole number")
    return None if text is None else int(text)


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
    cells: list[str | None] = []
    at = 0
    while True:
        found = _CELL.match(text, at)
        if not found:
            raise lines.error(f"no cell of a CSV row at character {at}: a quote inside a cell has to be doubled")
        quoted, plain, end = found.groups()
        cells.append(plain or None if quoted is None else quoted.replace('""', '"'))
        if not end:
            return cells
        at = found.end()
