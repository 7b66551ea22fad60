"""Measure Spark's reading of log directories against its reading of the same rows from Parquet, in one run.

The queries of one session take turns, once they have run often enough for the JVM to be warm. Needs the extra `spark`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from data import KILOBYTES, MIB, Log, generate, hundred_bytes
from lookups import with_indexes

from kdump.exports.options import ExportOptions
from kdump.exports.plan import plan
from kdump.exports.run import Summary, export
from kdump.spark.jobs import Cluster, SparkExport
from kdump.spark.session import spark_session
from kdump.storage.partition import PartitionLog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# No value twice: what repeats would be a dictionary in Parquet.
LOGS = (
    KILOBYTES,
    Log("hundred-byte-records", "16 KB batches of 100 B records", 128 * MIB, 137, hundred_bytes, distinct=8_800),
)
WARM = 3
BATCHES, RECORDS, PARQUET = "count batches", "count records", "Parquet sum"
EXPORT, WRITE, COPY = "kdump export", "DataFrame write", "Parquet again"


class Target(NamedTuple):
    """A ratio of two queries' seconds that is to be at least `least`."""

    slower: str
    faster: str
    least: float


TARGETS = (Target(RECORDS, BATCHES, 5.0), Target(PARQUET, RECORDS, 0.5), Target(COPY, EXPORT, 1.0))


def queries(spark: SparkSession, partition: Path, scratch: str) -> dict[str, Callable[[], object]]:
    """What is measured, by name: `kdump export` on this session, and what a DataFrame does by itself."""

    def logs(**options: str) -> DataFrame:
        return spark.read.format("kafka-log").options(**options).load(str(partition))

    def write(frame: DataFrame, name: str) -> None:
        frame.write.mode("overwrite").option("compression", "zstd").parquet(os.path.join(scratch, name))

    def export_again() -> None:
        shutil.rmtree(os.path.join(scratch, "export"), ignore_errors=True)
        engine, options = SparkExport(Cluster(session=spark)), ExportOptions()
        units = plan([PartitionLog(str(partition))], options)
        *_, summary = export(units, os.path.join(scratch, "export"), options, engine)
        assert isinstance(summary, Summary)
        assert summary.is_whole

    write(logs(), "rows")
    rows = spark.read.parquet(os.path.join(scratch, "rows"))
    return {
        BATCHES: logs(kind="batches").count,
        RECORDS: logs().count,
        # a query of its own each time: one that is run again keeps what it shuffled
        PARQUET: lambda: rows.selectExpr("sum(length(value))").collect(),
        EXPORT: export_again,
        WRITE: partial(write, logs(), "written"),
        COPY: partial(write, rows, "again"),
    }


def measure(jobs: dict[str, Callable[[], object]], repeat: int) -> dict[str, float]:
    """The median seconds of each job."""
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for turn in range(WARM + repeat):
        for name, job in jobs.items():
            start = time.perf_counter()
            job()
            if turn >= WARM:
                seconds[name].append(time.perf_counter() - start)
    return {name: median(times) for name, times in seconds.items()}


def main() -> int:
    """Measure and print; 1 where a target is missed that was to be checked."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    default = Path(tempfile.gettempdir()) / "kdump-benchmarks"
    parser.add_argument("--dir", type=Path, default=default, help="where the logs are and stay (default: %(default)s)")
    parser.add_argument("--repeat", type=int, default=5, metavar="N", help="turns (default: %(default)s)")
    parser.add_argument("--divisor", type=int, default=1, metavar="N", help="divide the logs' sizes by N")
    parser.add_argument("--master", default="local[2]", help="where Spark runs (default: %(default)s)")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a target is missed")
    options = parser.parse_args()
    missed = False
    with spark_session(options.master, {"spark.sql.shuffle.partitions": "2"}) as spark:
        for log in LOGS:
            segment = generate(log, options.dir / f"spark-by-{options.divisor}", options.divisor)
            with_indexes(segment)
            with tempfile.TemporaryDirectory(dir=options.dir) as scratch:
                seconds = measure(queries(spark, segment.parent, scratch), options.repeat)
            print(f"{log.name}: {segment.stat().st_size / 1e6:.0f} MB")
            for name, time_taken in seconds.items():
                print(f"  {name:15} {time_taken:6.2f} s")
            for slower, faster, least in TARGETS:
                ratio = seconds[slower] / seconds[faster]
                missed |= ratio < least
                print(f"  {faster} against {slower}: {ratio:.2f} times as fast, wanted {least:g}")
    return int(options.check and missed)


if __name__ == "__main__":
    sys.exit(main())
