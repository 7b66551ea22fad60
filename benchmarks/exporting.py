"""Measure `kdump export` against reading the same rows from Parquet and writing them again, in one run.

Parquet is written again by pyarrow, JSON lines and CSV by polars. With --spark, against the Spark engine too, start-up
included. Needs pyarrow, polars for text, and pyspark for --spark.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from data import LOGS, generate, log_parser
from processes import Cost, RunError, measure, run

AGAIN, EXPORT, SPARK = "written again", "kdump export", "with Spark"
AGAIN_LEAST = 1.0
SPARK_LEAST = 3.0

AGAIN_PROGRAM = """
import os, sys
import pyarrow.dataset, pyarrow.parquet
table = pyarrow.dataset.dataset(sys.argv[1]).to_table()
pyarrow.parquet.write_table(table, sys.argv[2], compression="zstd")
descriptor = os.open(sys.argv[2], os.O_RDONLY)
os.fsync(descriptor)
"""
TEXT_PROGRAM = """
import os, sys
import polars
rows = polars.read_parquet(sys.argv[1] + "/**/*.parquet").drop("headers")
rows = rows.with_columns(polars.col("key", "value").cast(polars.String))
getattr(rows, sys.argv[3])(sys.argv[2])
descriptor = os.open(sys.argv[2], os.O_RDONLY)
os.fsync(descriptor)
"""
TEXT_WRITERS = {"jsonl": "write_ndjson", "csv": "write_csv"}
EXPORT_PROGRAM = """
import os, shutil, sys
shutil.rmtree(sys.argv[2], ignore_errors=True)
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
command = [sys.executable, "-P", "-m", "kdump", "export", sys.argv[1], "--to", sys.argv[2], *sys.argv[3:]]
os.execv(sys.executable, command)
"""


def measure_all(
    folder: Path, name: str, divisor: int, repeat: int, *, spark: bool, form: str = "parquet"
) -> tuple[int, dict[str, Cost]]:
    """The bytes of the log, and what each way costs. Raises RunError."""
    log = next(log for log in LOGS if log.name == name)
    segment = generate(log, folder / f"sizes-by-{divisor}", divisor)
    partition = str(segment.parent)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        first = os.path.join(scratch, "first")
        run([sys.executable, "-c", EXPORT_PROGRAM, partition, first])
        again = [sys.executable, "-c", AGAIN_PROGRAM, first, os.path.join(scratch, "again")]
        if form in TEXT_WRITERS:
            again = [sys.executable, "-c", TEXT_PROGRAM, first, os.path.join(scratch, "again"), TEXT_WRITERS[form]]
        out = [partition, os.path.join(scratch, "out"), "--format", form]
        commands = {AGAIN: again, EXPORT: [sys.executable, "-c", EXPORT_PROGRAM, *out]}
        if spark:
            options = ["--engine", "spark", "--master", "local[2]"]
            target = os.path.join(scratch, "spark")
            commands[SPARK] = [sys.executable, "-c", EXPORT_PROGRAM, partition, target, *options]
        return segment.stat().st_size, measure(commands, repeat)


def main() -> int:
    """Measure and print; 1 where something could not be run, or a target is missed that was to be checked."""
    parser = log_parser(__doc__, repeat=5)
    parser.add_argument("--format", choices=("parquet", *TEXT_WRITERS), default="parquet", help="what is written")
    parser.add_argument("--spark", action="store_true", help="measure the Spark engine too")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a target is missed")
    options = parser.parse_args()
    options.dir.mkdir(parents=True, exist_ok=True)
    try:
        size, costs = measure_all(
            options.dir, options.log, options.divisor, options.repeat, spark=options.spark, form=options.format
        )
    except (RunError, OSError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    print(f"{options.log}: {size / 1e6:.0f} MB")
    for name, cost in costs.items():
        print(
            f"{name:20} {cost.wall:6.2f} s {size / 1e6 / cost.wall:6.0f} MB/s, CPU {cost.cpu:6.2f} s,"
            f" {cost.peak / 1e6:5.0f} MB, {cost.wall / costs[EXPORT].wall:5.2f} times kdump export"
        )
    is_missed = False
    for slower, least in ((AGAIN, AGAIN_LEAST), (SPARK, SPARK_LEAST)):
        if slower in costs:
            ratio = costs[slower].wall / costs[EXPORT].wall
            is_missed |= ratio < least
            print(f"{EXPORT} against {slower}: {ratio:.2f} times as fast, wanted {least:g}")
    return int(options.check and is_missed)


if __name__ == "__main__":
    sys.exit(main())
