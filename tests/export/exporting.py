"""Exports to test with: logs to export, a run, and the rows of what comes of it."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kdump.exports.journal import FOLDER, SUCCESS, Result
from kdump.exports.options import ExportFormat, ExportOptions
from kdump.exports.outcome import Exported
from kdump.exports.plan import plan
from kdump.exports.run import LocalEngine, Summary, export
from kdump.storage.partition import PartitionLog
from tests.columns.reading import Row, row_of
from tests.commands.logs import batch, write_segment

NAMES = ("offset", "timestamp", "key", "value", "headers")

Failures = list[tuple[str, Exception]]


def run(folders: Sequence[Path], target: Path, options: ExportOptions, failures: Failures | None = None) -> Summary:
    units = plan([PartitionLog(str(folder)) for folder in folders], options)

    *found, summary = export(units, str(target), options, LocalEngine(2))
    for each in found:
        if isinstance(each, Exported) and not isinstance(each.outcome, Result):
            if failures is None:
                raise each.outcome
            failures.append((each.unit.name, each.outcome))
    assert isinstance(summary, Summary)
    return summary


def data_files(target: Path) -> list[Path]:
    found = [path for path in target.rglob("*") if path.is_file() and path.name != SUCCESS]
    return sorted(path for path in found if FOLDER not in path.relative_to(target).parts)


def parquet_rows(target: Path) -> list[Row]:
    rows = []
    for path in data_files(target):
        table = pq.ParquetFile(path).read()
        at = table.schema.get_field_index("timestamp")
        table = table.set_column(at, "timestamp", table.column(at).cast(pa.int64()))
        rows += [row_of(found) for found in table.to_pylist()]
    return rows


def text_of(found: dict[str, Any], name: str) -> bytes | None:
    twin = found.get(f"{name}Base64") or found.get(f"{name}_base64")  # in JSON and in CSV
    if twin:
        return base64.b64decode(twin)
    text = found[name]
    return None if text is None else text.encode()


def header_pairs(found: Any) -> tuple[tuple[str, bytes | None], ...] | None:
    return None if found is None else tuple((each["key"], text_of(each, "value")) for each in found)


def json_rows(target: Path) -> list[Row]:
    lines = [json.loads(line) for path in data_files(target) for line in path.read_text("utf-8").split("\n") if line]
    return [
        Row(
            each["offset"],
            each["timestamp"],
            text_of(each, "key"),
            text_of(each, "value"),
            header_pairs(each["headers"]),
        )
        for each in lines
    ]


def split_csv(line: Iterator[str]) -> Iterator[list[str | None]]:
    """The rows of CSV whose empty fields are null and whose quoted ones are not, which Python's reader cannot tell."""
    row: list[str | None] = []
    text, quoted = "", False
    for letter in line:
        if quoted:
            if letter != '"':
                text += letter
                continue
            letter = next(line)
            if letter == '"':
                text += '"'
                continue
            quoted = False
        elif letter == '"':
            quoted, text = True, text or "\0"
            continue
        if letter in ",\n":
            row.append(text.removeprefix("\0") if text else None)
            text = ""
            if letter == "\n":
                yield row
                row = []
        else:
            text += letter


def csv_rows(target: Path) -> list[Row]:
    rows = []
    for path in data_files(target):
        heads, *lines = split_csv(iter(path.read_bytes().decode()))
        for line in lines:
            found: dict[str, Any] = dict(zip(map(str, heads), line, strict=True))
            headers = None if found["headers"] is None else header_pairs(json.loads(found["headers"]))
            rows.append(
                Row(
                    int(found["offset"]),
                    int(found["timestamp"]),
                    text_of(found, "key"),
                    text_of(found, "value"),
                    headers,
                )
            )
    return rows


READERS: dict[str, Callable[[Path], list[Row]]] = {
    ExportFormat.PARQUET: parquet_rows,
    ExportFormat.JSONL: json_rows,
    ExportFormat.CSV: csv_rows,
}


def log(folder: Path, segments: int = 3, count: int = 20) -> Path:
    for number in range(segments):
        first = number * 2 * count
        write_segment(folder, first, [batch(first, count), batch(first + count, count)])
    return folder


def offsets(target: Path) -> list[int]:
    return sorted(row.offset for row in parquet_rows(target))
