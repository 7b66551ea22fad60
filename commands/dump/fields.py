"""`kdump dump FILE --at BYTE --fields`: one batch, field by field, damaged or not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from kdump.formats import names
from kdump.formats.printable import safe, safe_path
from kdump.formats.words import count_text, offset_range
from kdump.operations.batch_fields import batch_in_file, batch_in_lone_log
from kdump.query.batch_fields import BatchFields, Field, RecordField
from kdump.repair.flipped_bit import FlippedBit
from kdump.storage.lone_log import LoneLog
from kdump.storage.open import KafkaFile, Place

from ..shell import exit_codes
from ..shell.rows import OutputFormat, fields_of, json_line, output_for
from ..shell.tables import aligned
from ..shell.times import iso_time

MAX_RECORDS = 100
_ONE_FILE = "--at and --fields show one batch: give one .log file."
_TIMES = frozenset({"baseTimestamp", "maxTimestamp", "timestamp"})
_KEY_WIDTH = 24


def show_fields(places: Sequence[Place | LoneLog], at: int, format_: OutputFormat) -> int:
    """Print the batch at byte `at` of the only log; the exit code. Raises click.UsageError, KdumpError, OSError."""
    if len(places) != 1:
        raise click.UsageError(_ONE_FILE)
    place = places[0]
    if isinstance(place, LoneLog):
        found = batch_in_lone_log(place, at)
    elif isinstance(place, KafkaFile) and place.name.kind == names.LOG:
        found = batch_in_file(place, at)
    else:
        raise click.UsageError(_ONE_FILE)
    batch = found.batch
    with output_for(format_) as out:
        if format_ is OutputFormat.JSONL:
            out.write(json_line("batchFields", _row(found.path, batch, found.flipped)))
        else:
            out.write("".join(f"{line}\n" for line in _lines(found.partition, batch, found.flipped)))
    return exit_codes.OK if batch.is_valid and batch.fault is None else exit_codes.FINDINGS


def _lines(partition: str, batch: BatchFields, flipped: FlippedBit | None) -> Iterator[str]:
    """Yield the text; without a `partition` there is none to be repaired."""
    state = "" if batch.is_valid else ": BAD CRC" if batch.is_complete else ": INCOMPLETE"
    yield f"batch {offset_range(batch.first_offset, batch.last_offset)}, {batch.size} bytes{state}"
    rows = [(str(field.position), field.name, field.data.hex(" "), _value(field)) for field in batch.fields]
    rows += (_record(record) for record in batch.records[:MAX_RECORDS])
    yield from (line.rstrip("\n") for line in aligned(("BYTE", "FIELD", "BYTES", "VALUE"), rows, right=("BYTE",)))
    if len(batch.records) > MAX_RECORDS:
        yield f"{count_text(len(batch.records) - MAX_RECORDS)} more records: --format jsonl has all"
    if batch.fault is not None:
        yield f"Not all of it can be read: {safe(batch.fault)}."
    if flipped is not None:
        before = flipped.byte ^ 1 << flipped.bit
        change = f"{_byte(before)} was {_byte(flipped.byte)}"
        yield f"One flipped bit explains it: byte {flipped.position}, {change}{_place(batch, flipped.position)}."
        yield f"Other damage looks the same in about 1 of {count_text(flipped.lookalike_odds)} cases."
        if partition:
            yield f"Restore it: kdump repair {safe_path(partition)} --fix-bit (loses nothing)"
    elif not batch.is_valid and batch.is_complete:
        yield "No single flipped bit explains it. More: kdump explain KD-LOG-CRC"


def _place(batch: BatchFields, position: int) -> str:
    """Return in which header field or record a byte is; "" where that is not known."""
    for field in batch.fields:
        if field.position <= position < field.position + len(field.data):
            return f" ({field.name})"
    for record in batch.records:
        if record.position is not None and 0 <= position - record.position < (record.size or 0):
            return f" (record {record.offset})"
    return ""


def _byte(value: int) -> str:
    letter = chr(value)
    is_shown = letter.isascii() and letter.isprintable() and letter != " "
    return f"{value:02x} '{letter}'" if is_shown else f"{value:02x}"


def _value(field: Field) -> str:
    if field.name in _TIMES:
        return iso_time(field.value) if field.value >= 0 else f"{field.value} (none)"
    if field.name == "attributes":
        return field.meaning
    if field.name == "crc":
        return field.meaning
    return f"{field.value} ({field.meaning})" if field.meaning else str(field.value)


def _record(record: RecordField) -> tuple[str, str, str, str]:
    key = "null" if record.key is None else safe(record.key.decode("utf-8", "backslashreplace"))
    shown = key if len(key) <= _KEY_WIDTH else f"{key[: _KEY_WIDTH - 1]}…"
    value = "null" if record.value_size < 0 else f"{record.value_size} bytes"
    size = "" if record.size is None else f"{record.size} bytes"
    place = "" if record.position is None else str(record.position)
    return place, f"record {record.offset}", size, f"key {shown}, value {value}"


def _row(path: str, batch: BatchFields, flipped: FlippedBit | None) -> dict[str, object]:
    return {
        "path": path,
        **fields_of(batch, "position length=size first_offset last_offset magic is_valid stored_crc computed_crc"),
        "fields": [
            {"position": each.position, "name": each.name, "bytes": each.data.hex(), "value": each.value}
            for each in batch.fields
        ],
        "records": [
            {"offset": each.offset, "position": each.position, "length": each.size, "valueLength": each.value_size}
            for each in batch.records
        ],
        "fault": batch.fault,
        "flippedBit": {"position": flipped.position, "bit": flipped.bit, "byte": flipped.byte} if flipped else None,
    }
