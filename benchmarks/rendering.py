"""What writing the same rows takes of a CPU: the renderers and writers of `kdump export` and those of others.

Rows are in memory as Arrow; the best of some turns counts, in MB of rows per CPU second, so that a machine with other
work gives about the same. Needs pyarrow, polars and duckdb.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
from collections.abc import Callable
from itertools import islice

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from data import asked_log, log_parser

from kdump.columns.scanning import scan
from kdump.export.files import create
from kdump.export.options import NO_CODEC, ExportOptions
from kdump.export.rendering import csv_bytes, json_bytes
from kdump.export.text import csv_lines, json_lines

COLUMNS = ("offset", "timestamp", "timestamp_type", "key", "value", "headers", "transaction")
BATCHES = 12


def cpu_seconds(work: Callable[[], object], repeat: int) -> float:
    """The least CPU time that some work takes, of all threads."""
    best = float("inf")
    for _ in range(repeat):
        before = resource.getrusage(resource.RUSAGE_SELF)
        work()
        after = resource.getrusage(resource.RUSAGE_SELF)
        best = min(best, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return best


def parquet(path: str, rows: list[pa.RecordBatch], codec: str) -> None:
    """Write a file as an export does."""
    file = create(path, rows[0].schema, ExportOptions(codec=codec))
    for each in rows:
        file.add(each)
    file.close()


def jobs(rows: list[pa.RecordBatch], path: str) -> dict[str, Callable[[], object]]:
    """The ways to write the rows, by name."""
    table = pa.Table.from_batches(rows)
    frame = pl.DataFrame(table)
    texts = frame.drop("headers").with_columns(pl.col("key", "value").cast(pl.String))
    text_table, whole_table = duckdb.from_arrow(texts.to_arrow()), duckdb.from_arrow(table)
    made: dict[str, Callable[[], object]] = {
        "JSON lines, kdump": lambda: [json_bytes(each) for each in rows],
        "JSON lines, kdump record by record": lambda: [json_lines(each).encode() for each in rows],
        "JSON lines, polars": lambda: texts.write_ndjson(path),
        "JSON lines, duckdb": lambda: text_table.query("rows", f"COPY rows TO '{path}' (FORMAT json)"),
        "CSV, kdump": lambda: [csv_bytes(each) for each in rows],
        "CSV, kdump record by record": lambda: [csv_lines(each).encode() for each in rows],
        "CSV, polars": lambda: texts.write_csv(path),
        "CSV, duckdb": lambda: text_table.write_csv(path),
    }
    for codec in (NO_CODEC, "snappy", "lz4", "zstd"):
        made[f"Parquet {codec}, kdump"] = lambda codec=codec: parquet(path, rows, codec)
        made[f"Parquet {codec}, pyarrow"] = lambda codec=codec: pq.write_table(table, path, compression=codec)
        name = "uncompressed" if codec == NO_CODEC else codec
        made[f"Parquet {codec}, polars"] = lambda name=name: frame.write_parquet(path, compression=name)
        made[f"Parquet {codec}, duckdb"] = lambda name=name: whole_table.write_parquet(path, compression=name)
    return made


def main() -> int:
    """Measure and print."""
    parser = log_parser(__doc__, repeat=3, divisor=4)
    options = parser.parse_args()
    segment = asked_log(options)
    rows = list(islice(scan(str(segment.parent), columns=COLUMNS).batches(), BATCHES))
    size = sum(each.nbytes for each in rows) / 1e6
    print(f"{options.log}: {size:.0f} MB of rows")
    with tempfile.TemporaryDirectory(dir=options.dir) as scratch:
        path = os.path.join(scratch, "rows")
        for name, work in jobs(rows, path).items():
            seconds = cpu_seconds(work, options.repeat)
            written = f", a file of {os.path.getsize(path) / 1e6:.0f} MB" if name.startswith("Parquet") else ""
            print(f"{name:36} {size / seconds:6.0f} MB per CPU second{written}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
