"""What writing the same rows takes of a CPU: the renderers and writers of `kdump export` and those of others.

Rows are in memory as Arrow, and all write files; the best of some turns counts, in MB of rows per CPU second, so that a
machine with other work gives about the same. JSON lines and CSV are measured with several kinds of values: duckdb has
keys and values as texts there, polars also as bytes, which is what a log has. Needs pyarrow, polars and duckdb.
"""

from __future__ import annotations

import json
import os
import random
import resource
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from data import asked_log, click_event, letters, log_parser

from kdump.columns.scanning import scan
from kdump.exports.files import create
from kdump.exports.options import CSV, JSONL, NO_CODEC, ExportOptions

COLUMNS = ("offset", "timestamp", "timestamp_type", "key", "value", "headers", "transaction")
BATCHES = 12
WORDS = ("straße", "größer", "Дом", "記録", "élan", "señal", "ночь", "数据")

Job = Callable[[], object]


def sparse_quotes(numbers: random.Random) -> bytes:
    """1 KB with a quote every 100 letters or so."""
    return b'"'.join(letters(numbers, numbers.randrange(60, 140)) for _ in range(10))


def document(numbers: random.Random) -> bytes:
    """1 KB of JSON, a quote every six letters or so."""
    return json.dumps(
        [json.loads(click_event(numbers, number)[1]) for number in range(5)], separators=(",", ":")
    ).encode()


def foreign(numbers: random.Random) -> bytes:
    """Text of about 400 B beyond ASCII."""
    return " ".join(numbers.choice(WORDS) for _ in range(40)).encode()


KINDS: dict[str, Callable[[random.Random], bytes]] = {
    "1 KB of letters": lambda numbers: letters(numbers, 1000),
    "1 KB, sparse quotes": sparse_quotes,
    "1 KB JSON documents": document,
    "200 B JSON documents": lambda numbers: click_event(numbers, 1)[1],
    "20 letters": lambda numbers: letters(numbers, 20),
    "20 letters, a quote": lambda numbers: letters(numbers, 10) + b'"' + letters(numbers, 9),
    "not ASCII": foreign,
    "20 B, not ASCII": lambda numbers: " ".join(numbers.choice(WORDS) for _ in range(2)).encode(),
}
"""The kinds of values that texts are made of."""


def cpu_seconds(work: Callable[[], object], repeat: int) -> float:
    """The least CPU time that some work takes, of all threads."""
    best = float("inf")
    for _ in range(repeat):
        before = resource.getrusage(resource.RUSAGE_SELF)
        work()
        after = resource.getrusage(resource.RUSAGE_SELF)
        best = min(best, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return best


def written(path: str, rows: list[pa.RecordBatch], options: ExportOptions) -> None:
    """Write a file as an export does."""
    file = create(path, rows[0].schema, options)
    for each in rows:
        file.add(each)
    file.close()


def rows_of(kind: str, size: int) -> list[pa.RecordBatch]:
    """Rows as an export has them, with values of a kind, of about so many bytes."""
    numbers = random.Random(kind)
    made = [KINDS[kind](numbers) for _ in range(2000)]
    count = size // (sum(map(len, made)) // len(made) + 60)
    table = pa.table(
        {
            "offset": pa.array(range(count), pa.int64()),
            "timestamp": pa.array(range(1_700_000_000_000, 1_700_000_000_000 + count), pa.timestamp("ms", tz="UTC")),
            "timestamp_type": pa.array([0] * count, pa.int32()),
            "key": pa.array([b"%08d" % number for number in range(count)], pa.binary()),
            "value": pa.array([made[number * 7919 % len(made)] for number in range(count)], pa.binary()),
            "transaction": pa.array(["none"] * count, pa.string()),
        }
    )
    return list(table.to_batches(max_chunksize=max(1, count // BATCHES)))


def text_jobs(rows: list[pa.RecordBatch], path: str) -> Iterator[tuple[str, Job]]:
    """The ways to write rows as text."""
    frame = pl.DataFrame(pa.Table.from_batches(rows))
    texts = frame.with_columns(pl.col("key", "value").cast(pl.String))
    table = duckdb.from_arrow(texts.to_arrow())

    def cast() -> pl.DataFrame:
        return frame.with_columns(pl.col("key", "value").cast(pl.String))

    yield "JSON lines, kdump", lambda: written(path, rows, ExportOptions(JSONL))
    yield "JSON lines, polars", lambda: cast().write_ndjson(path)
    yield "JSON lines, polars that has texts", lambda: texts.write_ndjson(path)
    yield "JSON lines, duckdb", lambda: table.query("rows", f"COPY rows TO '{path}' (FORMAT json)")
    yield "CSV, kdump", lambda: written(path, rows, ExportOptions(CSV))
    yield "CSV, polars", lambda: cast().write_csv(path)
    yield "CSV, polars that has texts", lambda: texts.write_csv(path)
    yield "CSV, duckdb", lambda: table.write_csv(path)


def parquet_jobs(rows: list[pa.RecordBatch], path: str) -> Iterator[tuple[str, Job]]:
    """The ways to write rows as Parquet."""
    table = pa.Table.from_batches(rows)
    frame, whole_table = pl.DataFrame(table), duckdb.from_arrow(table)
    for codec in (NO_CODEC, "snappy", "lz4", "zstd"):
        name: Any = "uncompressed" if codec == NO_CODEC else codec
        yield f"Parquet {codec}, kdump", partial(written, path, rows, ExportOptions(codec=codec))
        yield f"Parquet {codec}, pyarrow", partial(pq.write_table, table, path, compression=codec)
        yield f"Parquet {codec}, polars", partial(frame.write_parquet, path, compression=name)
        yield f"Parquet {codec}, duckdb", partial(whole_table.write_parquet, path, compression=name)


def measure(jobs: Iterator[tuple[str, Job]], size: float, repeat: int) -> Iterator[tuple[str, float]]:
    """MB of rows a CPU second, by the job's name; the jobs take turns."""
    best: dict[str, float] = {}
    every = list(jobs)
    for _ in range(repeat):
        for name, work in every:
            best[name] = min(best.get(name, float("inf")), cpu_seconds(work, 1))
    yield from ((name, size / seconds) for name, seconds in best.items())


def main() -> int:
    """Measure and print."""
    parser = log_parser(__doc__, repeat=3, divisor=4)
    parser.add_argument("--texts", action="store_true", help="JSON lines and CSV alone")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.dir) as scratch:
        path = os.path.join(scratch, "rows")
        for kind in KINDS:
            rows = rows_of(kind, (256 << 20) // options.divisor)
            size = sum(each.nbytes for each in rows) / 1e6
            print(f"{kind}: {size:.0f} MB of rows")
            for name, speed in measure(text_jobs(rows, path), size, options.repeat):
                print(f"{name:36} {speed:6.0f} MB per CPU second", flush=True)
        if options.texts:
            return 0
        segment = asked_log(options)
        rows = list(islice(scan(str(segment.parent), columns=COLUMNS).batches(), BATCHES))
        size = sum(each.nbytes for each in rows) / 1e6
        print(f"{options.log}: {size:.0f} MB of rows")
        for name, speed in measure(parquet_jobs(rows, path), size, options.repeat):
            print(f"{name:36} {speed:6.0f} MB per CPU second", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
