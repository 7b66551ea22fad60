"""Measure Spark's reading of a log directory against its own Kafka source, on one topic of a real broker, in one run.

    python benchmarks/spark_source.py [--release 4.3.1] [--megabytes 512] [--partitions 2] [--rounds 3]

Needs the extra `spark`, a JDK and Kafka's jars (see docs/kafka.md). The broker, with the JVM that Kafka gives it,
writes the topic and goes on running: Spark's source asks it, kdump's reads the files beside it. One session runs the
same queries on both in turns, all of it in the page cache. The rows are the same, by a hash of all columns; where they
are not, the program says so and ends with 1.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from kdump.spark.session import spark_session  # noqa: E402
from tests.kafka.broker import KAFKAS_JVM, Broker  # noqa: E402
from tests.kafka.jars import RELEASES, SPARK_SOURCE, class_path  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TOPIC = "bench"
VALUE = 1000
MB = 1_000_000
HASH = "xxhash64(key, value, topic, partition, offset, timestamp, timestampType)"
WARM = 2

QUERIES: dict[str, Callable[[DataFrame], object]] = {
    "count": lambda rows: rows.count(),
    "sum of length(value)": lambda rows: rows.selectExpr("sum(length(value))").collect(),
    "hash of all columns": lambda rows: rows.selectExpr("count(*)", f"sum(cast({HASH} as decimal(38, 0)))").collect(),
}


def fill(server: str, size: int) -> None:
    """Write about `size` bytes of records, none of which is there twice, in batches as producers make them."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": server, "linger.ms": 50, "batch.size": 1 << 14})
    noise = os.urandom(1 << 20)
    for number in range(size // VALUE):
        value = str(number).encode().ljust(10) + noise[number % 100_000 : number % 100_000 + VALUE - 10]
        while True:
            try:
                producer.produce(TOPIC, value, key=str(number).encode())
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()


def main() -> int:
    """Measure and print; 1 where the rows are not the same."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--release", default=RELEASES[-1], choices=RELEASES)
    parser.add_argument("--megabytes", type=int, default=512)
    parser.add_argument("--partitions", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dir", type=Path, help="where the broker's files are for the time being")
    asked = parser.parse_args()
    settings = {"num.partitions": str(asked.partitions), "log.retention.check.interval.ms": "300000"}
    seconds: dict[tuple[str, str], list[float]] = {}
    found: dict[tuple[str, str], str] = {}
    with tempfile.TemporaryDirectory(prefix="kdump-spark-source-", dir=asked.dir) as scratch:
        data = Path(scratch, "data")
        broker = Broker(asked.release, Path(scratch, "broker"), [data], KAFKAS_JVM, **settings)
        broker.format()
        try:
            broker.start()
            fill(broker.servers, asked.megabytes * MB)
            jars = ",".join(map(str, class_path(SPARK_SOURCE)))
            with spark_session("local[2]", {"spark.jars": jars, "spark.sql.shuffle.partitions": "2"}) as spark:
                servers = {"kafka.bootstrap.servers": broker.servers}
                sources: dict[str, Callable[[], DataFrame]] = {
                    "kafka": lambda: spark.read.format("kafka").options(**servers, subscribe=TOPIC).load(),
                    "kafka-log": lambda: spark.read.format("kafka-log").options(subscribe=TOPIC).load(str(data)),
                }
                for turn in range(WARM + asked.rounds):
                    for query, run in QUERIES.items():
                        for name, rows in sources.items():
                            start = time.perf_counter()
                            found[name, query] = str(run(rows()))
                            if turn >= WARM:
                                seconds.setdefault((name, query), []).append(time.perf_counter() - start)
        finally:
            broker.kill()
    is_same = True
    print(f"{asked.megabytes} MB, {asked.partitions} partitions, Kafka {asked.release}; medians of {asked.rounds}")
    for query in QUERIES:
        theirs, ours = (median(seconds[name, query]) for name in ("kafka", "kafka-log"))
        is_same &= found["kafka", query] == found["kafka-log", query]
        print(f"{query:22} kafka {theirs:6.2f} s, kafka-log {ours:6.2f} s: {theirs / ours:.2f} times as fast")
    print("the rows are the same" if is_same else f"THE ROWS DIFFER: {found}")
    return 0 if is_same else 1


if __name__ == "__main__":
    sys.exit(main())
