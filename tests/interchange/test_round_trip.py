"""What is written is read back as it was: read(write(x)) == x, for the dump's and the export's JSON lines and CSV."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.columns import Labels, RecordTables, read_records
from kdump.formats.encode import NewBatch, NewRecord, encode_batch
from kdump.formats.printable import escape_json
from kdump.interchange.csv import CsvRows, read_csv
from kdump.interchange.dumped import DumpedBatch
from kdump.interchange.fields import RECORD_COLUMNS
from kdump.interchange.jsonl import JsonLines, read_jsonl
from kdump.interchange.lines import Lines, Reading
from kdump.interchange.rows import Format, Origin
from kdump.query.selection import Selection
from kdump.query.sweep import Selected, Sweep
from kdump.storage.open import open_segment
from kdump.storage.records import batch_at
from kdump.storage.segment import Segment
from kdump.storage.txn_state import TxnState
from tests.export.lines import csv_lines, json_lines

COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers", "leader_epoch")
contents = st.none() | st.binary(max_size=12) | st.text(max_size=12).map(str.encode)
headers = st.lists(st.tuples(st.text(max_size=6).map(str.encode), contents), max_size=3).map(tuple)
some_records = st.lists(
    st.tuples(st.integers(0, 2**41), contents, contents, headers), min_size=1, max_size=5
).map(lambda rows: [NewRecord(offset, *row) for offset, row in enumerate(rows)])


def log_of(folder: str, records: Sequence[NewRecord]) -> Path:
    path = Path(folder) / "orders-0"
    path.mkdir()
    (path / f"{0:020d}.log").write_bytes(encode_batch(records, NewBatch(leader_epoch=4)))
    return path / f"{0:020d}.log"


def dumped(path: Path, printer: Format) -> None:
    """What `kdump dump` prints of a log."""
    printer.begin(Origin(str(path), "orders", 0, 0), path.stat().st_size)
    segment = open_segment(str(path))
    with segment.open_log() as log:
        for event in Sweep(segment, log, Selection()):
            assert isinstance(event, Selected)
            batch = batch_at(event.block, event.row)
            if event.starts:
                printer.batch(batch, TxnState.NONE)
            printer.records(batch, TxnState.NONE, event)


def exported(segment: Segment) -> list[pa.RecordBatch]:
    """The columns that an export writes of a log."""
    columns = RecordTables(COLUMNS, Labels("orders", 0))
    with segment.open_log() as log:
        tables = [each for each in read_records(segment, log, columns) if isinstance(each, pa.RecordBatch)]
    return [*tables, *columns.rest()]


def lines_of(text: str) -> Lines:
    return Lines(io.BytesIO(text.encode()), "in")


def clock() -> int:
    raise AssertionError("every record has a timestamp of its own")


READING = Reading(clock)


@given(some_records)
def test_json_lines_of_a_dump(records: list[NewRecord]) -> None:
    written: list[str] = []
    with TemporaryDirectory() as folder:
        dumped(log_of(folder, records), JsonLines(written.append))
    batch, *read = read_jsonl(lines_of(escape_json("".join(written))), READING)
    assert read == records
    assert isinstance(batch, DumpedBatch)
    assert (batch.base_offset, batch.last_offset, batch.leader_epoch) == (0, len(records) - 1, 4)


@given(some_records)
def test_csv_of_a_dump(records: list[NewRecord]) -> None:
    written = [",".join(RECORD_COLUMNS) + "\n"]
    with TemporaryDirectory() as folder:
        dumped(log_of(folder, records), CsvRows(written.append, has_batches=False))
    assert list(read_csv(lines_of("".join(written)), READING)) == records


@pytest.mark.parametrize("format_", ["jsonl", "csv"])
@given(some_records)
def test_an_export(format_: str, records: list[NewRecord]) -> None:
    with TemporaryDirectory() as folder:
        segment = open_segment(str(log_of(folder, records)))
        tables = exported(segment)
    if format_ == "jsonl":
        read = list(read_jsonl(lines_of("".join(map(json_lines, tables))), READING))
    else:
        text = csv_lines(tables[0].schema) + "".join(map(csv_lines, tables))
        rows = enumerate(read_csv(lines_of(text), READING))
        read = [each._replace(offset=number) if isinstance(each, NewRecord) else each for number, each in rows]
    assert read == records
