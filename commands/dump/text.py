"""`kdump dump --format text`: for people. A line for a batch, then its records, aligned; none drives a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from kdump.blocks import content_at
from kdump.errors import KdumpError
from kdump.formats.batch import ABORT, COMMIT, CONTROL, DELETE_HORIZON, TRANSACTIONAL, TimestampType, control_type_name
from kdump.formats.iso_times import iso_time as utc_time
from kdump.formats.printable import command_line, safe
from kdump.formats.words import count_text, number_words, offset_range, size_text
from kdump.interchange.rows import Content, Contents, Origin, Payload, Table, Value, Write
from kdump.query.sweep import Selected
from kdump.storage.records import Batch, header_pairs
from kdump.storage.txn_state import TxnState

from ..shell.output import Style
from ..shell.screen import Screen
from ..shell.times import iso_time

if TYPE_CHECKING:
    from kdump.formats.schemas.decoding import Json
    from kdump.operations.batch_fields import BatchApart
    from kdump.query.batch_fields import Field, RecordField

BINARY_SHOWN = 64
KEY_WIDTH = 40
TABLE_ROWS = 1000
MAX_RECORDS = 100
"""Records of a batch that is shown field by field."""
FIELDS_KEY_WIDTH = 24
_PLAIN_WORD = r"[^\s\"'=,{}\[\]]+"
_TIME_NAME = r"(?:Timestamp|TimestampMs)$|^timestamp$"
_SPECIAL = TRANSACTIONAL | CONTROL | DELETE_HORIZON
"""Attributes of few batches."""
_NO_TIMESTAMP_TYPE, _, _LOG_APPEND_TIME = TimestampType  # a member costs more to look up in its class


class TextLines:
    """Prints text, in colour if asked to."""

    def __init__(
        self, write: Write, *, is_colored: bool = False, full: bool = False, batches_only: bool = False
    ) -> None:
        """`full` shows binary contents to their end; `batches_only` makes a table of the batches."""
        self._write = write
        self._is_table = batches_only
        self._full = full
        self._title = Style(is_colored, bold=True)
        self._head = Style(is_colored, "cyan")
        self._dim = Style(is_colored, dim=True)
        self._key = Style(is_colored, "green")
        self._bad = Style(is_colored, "red", bold=True)
        self._control = Style(is_colored, "yellow")
        self._widths = [0, 0, 0]  # of offsets, number of records and position in the lines of batches
        self._begun = self._has_heading = False
        self._shows_schemas = True

    def begin(self, origin: Origin, size: int) -> None:
        """Print the title of a log."""
        self._shows_schemas = not (origin.topic or "").startswith("__")
        self._begin(origin, ", ".join(filter(None, (size_text(size), origin.note))))
        number = 2 * len(str(origin.number or 0))
        if self._is_table:
            self._widths = [max(7, number + 1), 7, 5]
            self._has_heading = False
        else:
            self._widths = [number + 10, 11, 11]

    def batch(self, batch: Batch, transaction: TxnState) -> None:
        """Print the line of a batch."""
        if self._is_table:
            self._batch_row(batch, transaction)
            return
        count = "?" if batch.is_wrapper else str(batch.record_count)
        records = f"{count} record" if count == "1" else f"{count} records"
        offsets, records, position = self._aligned(_offsets_of(batch), records, f"at byte {batch.position}")
        line = f"batch {offsets}  {records}  {position}  {batch.size:>7} bytes  v{batch.magic} {batch.codec:<6}  "
        timed = batch.timestamp_type is not _NO_TIMESTAMP_TYPE
        line += f"{batch.timestamp_type} {_time(batch.max_timestamp)}" if timed else _time(-1)
        if batch.magic >= 2:
            line += f"  epoch {batch.leader_epoch}"
        self._write_batch(batch, line, transaction)

    def _aligned(self, offsets: str, records: str, position: str) -> tuple[str, str, str]:
        """Return cells as wide as the widest so far in this file, so that the lines of batches stand in columns."""
        first, second, third = self._widths
        if len(offsets) > first or len(records) > second or len(position) > third:
            first, second, third = max(first, len(offsets)), max(second, len(records)), max(third, len(position))
            self._widths = [first, second, third]
        if self._is_table:
            return offsets.ljust(first), records.rjust(second), position.rjust(third)
        return offsets.ljust(first), records.ljust(second), position.ljust(third)

    def _batch_row(self, batch: Batch, transaction: TxnState) -> None:
        """Print a row of the table; what few batches have follows in words."""
        count = "?" if batch.is_wrapper else str(batch.record_count)
        cells = self._aligned(_offsets_of(batch), count, str(batch.position))
        if not self._has_heading:
            self._has_heading = True
            titles = self._aligned("OFFSETS", "RECORDS", "BYTE")
            self._write(f"{self._dim(_row(titles, 'SIZE', 'CODEC', 'EPOCH'))}  {self._dim('MAX TIMESTAMP')}\n")
        kind, time = batch.timestamp_type, batch.max_timestamp
        line = _row(cells, batch.size, batch.codec, batch.leader_epoch if batch.magic >= 2 else "-")
        line += f"  {_time(-1 if kind is _NO_TIMESTAMP_TYPE else time)}"
        if kind is _LOG_APPEND_TIME:
            line += f"  {kind}"
        if batch.magic < 2:
            line += f"  v{batch.magic}"
        self._write_batch(batch, line, transaction)

    def _write_batch(self, batch: Batch, line: str, transaction: TxnState) -> None:
        """Print a batch's line and its end, which few batches have."""
        if batch.producer_id >= 0 or batch.base_sequence >= 0 or batch.attributes & _SPECIAL:
            line = "  ".join((line, *_special(batch, transaction)))
        mark = "" if batch.valid else f"  {self._bad('BAD CRC')}"
        self._write(f"{line if self._is_table else self._head(line)}{mark}\n")

    def records(
        self, batch: Batch, _transaction: TxnState, selected: Selected, contents: Sequence[Contents] | None = None
    ) -> None:
        """Print the lines of records."""
        rows = list(selected.spans())
        source = selected.source
        if contents:
            keys = [self._shown(key) for key, _ in contents]
            values = [self._shown(value, named=isinstance(key, dict)) for key, value in contents]
            key_style = self._control if batch.is_control else self._key
        elif batch.is_control:
            pairs = ((content_at(source, *row[3:5]), content_at(source, *row[5:7])) for row in rows)
            keys, values = map(list, zip(*(_control_words(key, value) for key, value in pairs), strict=True))
            key_style = self._control
        else:
            keys = [self._content(source, row[3], row[4]) for row in rows]
            values = [self._content(source, row[5], row[6]) for row in rows]
            key_style = self._key
        offset_width = max(len(str(rows[0][0])), len(str(rows[-1][0])))
        key_width = min(KEY_WIDTH, max(map(len, keys)))
        dim, undim = self._dim.before, self._dim.after
        color, uncolor = key_style.before, key_style.after
        has_times = batch.timestamp_type is not _NO_TIMESTAMP_TYPE
        times = _times([row[1] for row in rows]) if has_times else [""] * len(rows)
        time_width = max(map(len, times))
        lines = []
        for row, time, key, value in zip(rows, times, keys, values, strict=True):
            lines.append(
                f"  {row[0]:>{offset_width}}  {dim}{time:<{time_width}}{undim}"
                f"  {color}{key:<{key_width}}{uncolor}  {value}\n"
            )
            if row[8]:
                lines += self._headers(source, row[7], row[8], offset_width + 4)
        self._write("".join(lines))

    def table(self, table: Table, origin: Origin, rows: Iterable[Sequence[Value]]) -> None:
        """Print a title, the names of the columns, and the rows under them; a time also in ISO 8601."""
        self._begin(origin, "")
        names = table.columns
        widths = list(map(len, names))
        rows = iter(rows)
        first = True
        while chunk := [self._cells(names, row) for row in islice(rows, TABLE_ROWS)]:
            for cells in chunk:
                widths = [max(width, len(cell)) for width, cell in zip(widths, cells, strict=True)]
            if first:
                first = False
                titles = (name.rjust(width) for name, width in zip(names, widths, strict=True))
                self._write(f"  {self._dim('  '.join(titles))}\n")
            for cells in chunk:
                shown = (cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
                self._write(f"  {'  '.join(shown)}\n")
        if first:
            self._write(f"  {self._dim('no entries')}\n")

    def _begin(self, origin: Origin, note: str) -> None:
        lead = "\n" if self._begun else ""
        self._begun = True
        self._write(f"{lead}{self._title(safe(origin.path))}{'  ' if note else ''}{self._dim(note)}\n")

    def _cells(self, names: Sequence[str], row: Sequence[Value]) -> list[str]:
        return [
            _time(value) if name == "timestamp" and isinstance(value, int) else _cell(value)
            for name, value in zip(names, row, strict=True)
        ]

    def _headers(self, source: bytes | bytearray, position: int, count: int, indent: int) -> list[str]:
        pairs = header_pairs(source, position, count)
        names = [self._content(name, 0, len(name)) for name, _ in pairs]
        width = min(KEY_WIDTH, max(map(len, names)))
        values = ["null" if value is None else self._content(value, 0, len(value)) for _, value in pairs]
        return [
            f"{'':{indent}}{self._dim(f'header {name:<{width}}')}  {value}\n"
            for name, value in zip(names, values, strict=True)
        ]

    def _shown(self, content: Content, *, named: bool = False) -> str:
        """Return a key or value that may be decoded; `named` where its key says what the record is."""
        if content is None:
            return "null"
        if isinstance(content, Payload):
            return self._payload(content)
        if isinstance(content, bytes):
            return self._content(content, 0, len(content))
        return decoded_words(content, named=named)

    def _payload(self, payload: Payload) -> str:
        """Return a key or value that names a schema, which is named behind it."""
        if payload.error is not None:
            return self._content(payload.value, 0, len(payload.value))
        message = f", {payload.message}" if payload.message else ""
        return f"{safe(_json(payload.value))}  (schema {payload.schema_id}{message})"

    def _content(self, source: bytes | bytearray, position: int, length: int) -> str:
        """Return a key or value: text where it is text, else its bytes in hexadecimal with their number."""
        if length <= 0:
            return '""' if length == 0 else "null"
        data = source[position : position + length]
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return self._binary(data)
        if text.isprintable():
            return '"null"' if text == "null" else text
        shown = safe(text)
        # much to be escaped is not text that happens to be UTF-8, but numbers and the like
        return self._binary(data) if len(shown) > 1.5 * len(text) else shown

    def _binary(self, data: bytes | bytearray) -> str:
        from kdump.formats.schema_prefix import likely_id

        size = len(data)
        number = likely_id(data) if self._shows_schemas else None
        schema = "" if number is None else f", schema {number}"
        if self._full or size <= BINARY_SHOWN:
            return f"0x{data.hex()} ({number_words(size, 'byte')}{schema})"
        return f"0x{data[:BINARY_SHOWN].hex()}… ({number_words(size, 'byte')}{schema})"


def _json(value: Any) -> str:
    import json

    return json.dumps(value, ensure_ascii=False)


def _control_words(key: bytes | None, value: bytes | None) -> tuple[str, str]:
    """Return the name of a control record's type, and what the record says."""
    from kdump.formats.control import ControlError, decode_value, key_parts, value_parts

    try:
        number = key_parts(key)[1]
        name = control_type_name(number)
    except ControlError:
        number, name = -1, "unreadable control record"
    if value is None:
        return name, "null"
    try:
        if number in (ABORT, COMMIT):
            return name, f"coordinator epoch {value_parts(value)[1]}"
        return name, safe(_json(decode_value(number, value).json()))
    except KdumpError:
        return name, f"0x{value.hex()} ({number_words(len(value), 'byte')})"


def _row(cells: tuple[str, str, str], size: int | str, codec: str, epoch: int | str) -> str:
    """Return a row of the table of batches up to the leader epoch."""
    return f"{cells[0]}  {cells[1]}  {cells[2]}  {size:>5}  {codec:<6}  {epoch:>5}"


def _special(batch: Batch, transaction: TxnState) -> Iterator[str]:
    """Yield what few batches have."""
    if batch.producer_id >= 0:
        yield f"producer {batch.producer_id} epoch {batch.producer_epoch}"
    if batch.base_sequence >= 0:
        yield f"seq {offset_range(batch.base_sequence, batch.last_sequence)}"
    if batch.is_transactional:
        is_known = transaction not in (TxnState.NONE, TxnState.UNKNOWN)
        yield f"transaction {transaction}" if is_known else "transactional"
    if batch.is_control:
        yield "control"
    if batch.delete_horizon is not None:
        yield f"delete horizon {_time(batch.delete_horizon)}"


def _offsets_of(batch: Batch) -> str:
    """Return the offsets of a batch; of a wrapper that was not opened only the last one is known."""
    return f"\N{EN DASH}{batch.last_offset}" if batch.is_wrapper else offset_range(batch.base_offset, batch.last_offset)


def _time(ms: int) -> str:
    return "no time" if ms == -1 else iso_time(ms)


def _times(times: list[int]) -> list[str]:
    """Return what `_time` does of each; most of a batch's records are from the same second."""
    if Screen.current.times_in_ms:
        return [_time(ms) for ms in times]
    texts = []
    second, start = None, ""
    for ms in times:
        if ms == -1:
            texts.append("no time")
            continue
        if ms // 1000 != second:
            second = ms // 1000
            start = utc_time(second * 1000)[:-4]
        texts.append(f"{start}{ms % 1000:03d}Z")
    return texts


def _cell(value: Value) -> str:
    if value is None:
        return "-"
    return safe(value) if isinstance(value, str) else str(value)


def decoded_words(decoded: Json, *, named: bool = False) -> str:
    """Return what a record of an internal topic says: its name, unless it is `named` already, version and fields."""
    version = decoded.get("version")
    parts = [] if named else [decoded["name"]]
    if version is not None:
        parts.append(f"v{version}")
    if decoded.get("newer"):
        parts.append("(newer than this kdump)")
    data = decoded["data"]
    if data.get("version") == version:
        data = {name: value for name, value in data.items() if name != "version"}
    if data:
        parts.append(_fields(data))
    return " ".join(parts)


def _fields(data: Json) -> str:
    return " ".join(f"{name}={_field(name, value)}" for name, value in data.items())


def _field(name: str, value: Any) -> str:
    if isinstance(value, dict):
        return f"{{{_fields(value)}}}"
    if isinstance(value, list):
        return f"[{', '.join(_field(name, element) for element in value)}]"
    if isinstance(value, str):
        return _word(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int) and value >= 0 and re.search(_TIME_NAME, name):
        return iso_time(value)
    from kdump.formats.schemas.state_names import state_names

    states = state_names(name)
    return f"{value} ({states[value]})" if value in states else str(value)


def _word(text: str) -> str:
    """Return a text as it is where nothing else could be meant by it, else in quotes."""
    if text != "null" and re.fullmatch(_PLAIN_WORD, text) and text.isprintable():
        return text
    return '"' + safe(text.replace('"', '\\"')) + '"'


def fields_lines(found: BatchApart) -> Iterator[str]:
    """Yield one batch field by field; without a partition there is none to be repaired."""
    from ..shell.tables import aligned

    batch, flipped = found.batch, found.flipped
    state = "" if batch.is_valid else ": BAD CRC" if batch.is_complete else ": INCOMPLETE"
    yield f"batch {offset_range(batch.first_offset, batch.last_offset)}, {batch.size} bytes{state}"
    rows = [(str(field.position), field.name, field.data.hex(" "), _field_value(field)) for field in batch.fields]
    rows += map(_record_row, batch.records[:MAX_RECORDS])
    yield from (line.rstrip("\n") for line in aligned(("BYTE", "FIELD", "BYTES", "VALUE"), rows, right=("BYTE",)))
    if len(batch.records) > MAX_RECORDS:
        yield f"{count_text(len(batch.records) - MAX_RECORDS)} more records: --format jsonl has all"
    if batch.fault is not None:
        yield f"Not all of it can be read: {safe(batch.fault)}."
    if flipped is not None:
        change = f"{_byte(flipped.byte ^ 1 << flipped.bit)} was {_byte(flipped.byte)}"
        part = batch.part_at(flipped.position)
        place = f" ({part})" if part else ""
        yield f"One flipped bit explains it: byte {flipped.position}, {change}{place}."
        yield f"Other damage looks the same in about 1 of {count_text(flipped.lookalike_odds)} cases."
        if found.partition:
            yield f"Restore it: {command_line('kdump', 'repair', found.partition, '--fix-bit')} (loses nothing)"
    elif not batch.is_valid and batch.is_complete:
        yield "No single flipped bit explains it. More: kdump explain KD-LOG-CRC"


def _byte(value: int) -> str:
    letter = chr(value)
    is_shown = letter.isascii() and letter.isprintable() and letter != " "
    return f"{value:02x} '{letter}'" if is_shown else f"{value:02x}"


def _field_value(field: Field) -> str:
    if field.name in ("baseTimestamp", "maxTimestamp", "timestamp"):
        return iso_time(field.value) if field.value >= 0 else f"{field.value} (none)"
    if field.name in ("attributes", "crc"):
        return field.meaning
    return f"{field.value} ({field.meaning})" if field.meaning else str(field.value)


def _record_row(record: RecordField) -> tuple[str, str, str, str]:
    key = "null" if record.key is None else safe(record.key.decode("utf-8", "backslashreplace"))
    shown = key if len(key) <= FIELDS_KEY_WIDTH else f"{key[: FIELDS_KEY_WIDTH - 1]}…"
    value = "null" if record.value_size < 0 else f"{record.value_size} bytes"
    size = "" if record.size is None else f"{record.size} bytes"
    place = "" if record.position is None else str(record.position)
    return place, f"record {record.offset}", size, f"key {shown}, value {value}"
