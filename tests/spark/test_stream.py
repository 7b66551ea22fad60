"""`spark.readStream.format("kafka-log")`: growing logs, each record once, across rolls, restarts and kills."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from kdump.spark.errors import reason
from kdump.spark.stream import LogStreamReader, limited
from kdump.spark.tables import DataLossError
from tests.columns.reading import ROOT
from tests.spark.building import NOW, append, new_log, options_of
from tests.spark.session import environment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

PATIENCE = 120


def reader(root: Path, **options: Any) -> LogStreamReader:
    return LogStreamReader(options_of(root, columns="topic,partition,offset", **options))


def read(stream: LogStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[tuple[str, int, int]]:
    """The rows of a micro-batch."""
    rows = []
    for task in stream.partitions(start, end):
        for part in stream.read(task):
            rows += [(row["topic"], row["partition"], row["offset"]) for row in part.to_pylist()]
    return sorted(rows)


# --- offsets


def test_offsets_are_those_of_sparks_kafka_source(tmp_path: Path) -> None:
    log = new_log(tmp_path / "x-0", 20)
    new_log(tmp_path / "y-3", 5, start_offset=100).close()
    stream = reader(tmp_path)
    start = stream.initialOffset()
    assert start == {"x": {"0": 0}, "y": {"3": 100}}
    end = stream.latestOffset(start, ReadAllAvailable())
    assert end == {"x": {"0": 20}, "y": {"3": 105}} == stream.reportLatestOffset()
    assert read(stream, start, end) == [*(("x", 0, at) for at in range(20)), *(("y", 3, at) for at in range(100, 105))]
    assert stream.latestOffset(end, ReadAllAvailable()) == end
    assert read(stream, end, end) == []
    append(log, 7)
    assert read(stream, end, stream.latestOffset(end, ReadAllAvailable())) == [("x", 0, at) for at in range(20, 27)]
    log.close()


def test_where_a_query_begins(tmp_path: Path) -> None:
    new_log(tmp_path / "x-0", 20).close()
    assert reader(tmp_path, startingOffsets="latest").initialOffset() == {"x": {"0": 20}}
    assert reader(tmp_path, startingOffsets={"x": {"0": 7}}).initialOffset() == {"x": {"0": 7}}
    assert reader(tmp_path, startingTimestamp=NOW + 3000).initialOffset() == {"x": {"0": 3}}


def test_a_partition_that_appears_is_read_from_its_start(tmp_path: Path) -> None:
    new_log(tmp_path / "x-0", 5).close()
    stream = reader(tmp_path)
    start = stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
    new_log(tmp_path / "x-1", 3).close()
    end = stream.latestOffset(start, ReadAllAvailable())
    assert end == {"x": {"0": 5, "1": 3}}
    assert read(stream, start, end) == [("x", 1, at) for at in range(3)]


def test_what_is_being_written_is_left_for_later(tmp_path: Path) -> None:
    new_log(tmp_path / "x-0", 8).close()
    path = tmp_path / "x-0" / f"{0:020d}.log"
    whole = path.read_bytes()
    path.write_bytes(whole[:-10])
    stream = reader(tmp_path)
    end = stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
    assert end == {"x": {"0": 4}}
    assert [at for _, _, at in read(stream, stream.initialOffset(), end)] == [0, 1, 2, 3]
    path.write_bytes(whole)
    assert [at for _, _, at in read(stream, end, stream.latestOffset(end, ReadAllAvailable()))] == [4, 5, 6, 7]


def test_no_more_than_was_asked_for(tmp_path: Path) -> None:
    new_log(tmp_path / "x-0", 30).close()
    new_log(tmp_path / "x-1", 10).close()
    stream = reader(tmp_path, maxOffsetsPerTrigger=8)
    limit = stream.getDefaultReadLimit()
    assert limit == ReadMaxRows(8)
    at, found = stream.initialOffset(), []
    while (end := stream.latestOffset(at, limit)) != at:
        batch = read(stream, at, end)
        assert 1 <= len(batch) <= 8
        found += batch
        at = end
    assert sorted(found) == [*(("x", 0, at) for at in range(30)), *(("x", 1, at) for at in range(10))]


def test_a_micro_batch_waits_for_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("kdump.spark.stream.time.monotonic", lambda: now[0])
    log = new_log(tmp_path / "x-0", 20)
    stream = reader(tmp_path, minOffsetsPerTrigger=10, maxTriggerDelay="30s")
    first = stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
    assert first == {"x": {"0": 20}}
    append(log, 9)
    now[0] += 29
    assert stream.latestOffset(first, ReadAllAvailable()) == first
    append(log, 1)
    second = stream.latestOffset(first, ReadAllAvailable())
    assert second == {"x": {"0": 30}}
    append(log, 1)
    now[0] += 29
    assert stream.latestOffset(second, ReadAllAvailable()) == second
    now[0] += 1
    assert stream.latestOffset(second, ReadAllAvailable()) == {"x": {"0": 31}}


def test_tasks_of_few_records(tmp_path: Path) -> None:
    new_log(tmp_path / "x-0", 20).close()
    stream = reader(tmp_path, maxRecordsPerPartition=7)
    start = stream.initialOffset()
    end = stream.latestOffset(start, ReadAllAvailable())
    tasks = stream.partitions(start, end)
    assert [sum(part.num_rows for part in stream.read(task)) for task in tasks] == [6, 7, 7]
    assert [offset for _, _, offset in read(stream, start, end)] == list(range(20))


def test_limits_are_shared_by_size_and_let_everybody_go_on() -> None:
    begins = {("x", number): 0 for number in range(3)}
    assert limited(begins, {("x", 0): 80, ("x", 1): 20, ("x", 2): 0}, 10) == {("x", 0): 8, ("x", 1): 2, ("x", 2): 0}
    assert limited(begins, {("x", 0): 1000, ("x", 1): 1, ("x", 2): 1}, 2) == {("x", 0): 1, ("x", 1): 1, ("x", 2): 1}
    assert limited(begins, {("x", 0): 3}, 10) == {("x", 0): 3}


def test_available_now_ends_where_it_began(tmp_path: Path) -> None:
    log = new_log(tmp_path / "x-0", 10)
    stream = reader(tmp_path)
    stream.prepareForTriggerAvailableNow()
    start = stream.initialOffset()
    append(log, 10)
    new_log(tmp_path / "x-1", 3).close()
    end = stream.latestOffset(start, ReadAllAvailable())
    assert end == {"x": {"0": 10}}
    assert stream.latestOffset(end, ReadAllAvailable()) == end
    log.close()


def test_records_that_are_gone(tmp_path: Path) -> None:
    new_log(tmp_path / "x-0", 300).close()
    first, second = sorted(path.name for path in (tmp_path / "x-0").glob("*.log"))[:2]
    os.remove(tmp_path / "x-0" / first)
    start, end = {"x": {"0": 0}}, {"x": {"0": 300}}
    base = int(second[:20])
    with pytest.raises(DataLossError, match=f"offsets 0 to {base - 1} are not there any more"):
        reader(tmp_path).partitions(start, end)
    assert len(read(reader(tmp_path, failOnDataLoss=False), start, end)) == 300 - base
    gone = {"x": {"0": 300}, "z": {"1": 5}}
    with pytest.raises(DataLossError, match="not there any more: z-1"):
        reader(tmp_path).latestOffset(gone, ReadAllAvailable())
    assert reader(tmp_path, failOnDataLoss=False).latestOffset(gone, ReadAllAvailable()) == gone


# --- queries


def begin(spark: SparkSession, tmp_path: Path, options: dict[str, str] | None = None, **trigger: Any) -> StreamingQuery:
    """A query that writes the records' offsets to text files, exactly once."""
    rows = spark.readStream.format("kafka-log").options(**options or {}).load(str(tmp_path / "logs"))
    values = rows.selectExpr("concat(topic, ' ', partition, ' ', offset) as value")
    return (
        values.writeStream.format("text")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .option("path", str(tmp_path / "out"))
        .trigger(**trigger)
        .start()
    )


def written(tmp_path: Path) -> list[str]:
    """What the query has committed, by the sink's own log."""
    files = set()
    for log in sorted((tmp_path / "out" / "_spark_metadata").glob("[0-9]*")):
        for line in log.read_text().splitlines()[1:]:
            files.add(json.loads(line)["path"].removeprefix("file://"))
    return sorted(line for path in files for line in Path(path).read_text().splitlines())


def expected(**ends: int) -> list[str]:
    return sorted(f"{name.replace('_', ' ')} {at}" for name, end in ends.items() for at in range(end))


def wait_for(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < end, "it does not come about"
        time.sleep(0.1)


def test_restarts_go_on_from_the_checkpoint_and_over_rolls(spark: SparkSession, tmp_path: Path) -> None:
    log = new_log(tmp_path / "logs" / "x-0", 120)
    query = begin(spark, tmp_path, {"maxOffsetsPerTrigger": "50"}, availableNow=True)
    assert query.awaitTermination(PATIENCE)
    ends = [json.loads(each["sources"][0]["endOffset"]) for each in query.recentProgress if each["numInputRows"]]
    assert ends == [{"x": {"0": 50}}, {"x": {"0": 100}}, {"x": {"0": 120}}]
    assert written(tmp_path) == expected(x_0=120)
    append(log, 100)
    log.roll()
    query = begin(spark, tmp_path, processingTime="100 milliseconds")
    try:
        wait_for(lambda: len(written(tmp_path)) == 220)
        append(log, 30)
        new_log(tmp_path / "logs" / "y-1", 4).close()
        wait_for(lambda: len(written(tmp_path)) == 254)
    finally:
        query.stop()
    log.close()
    assert written(tmp_path) == sorted([*expected(x_0=250), *(f"y 1 {at}" for at in range(4))])


def test_a_stream_has_records_and_no_end(spark: SparkSession, tmp_path: Path) -> None:
    new_log(tmp_path / "logs" / "x-0", 1).close()
    cases = (("kind", "batches", "cannot be streamed"), ("endingTimestamp", "5", "a stream has no end"))
    for name, value, text in cases:
        rows = spark.readStream.format("kafka-log").option(name, value).load(str(tmp_path / "logs"))
        with pytest.raises(PySparkException) as caught:
            rows.writeStream.format("noop").trigger(availableNow=True).start().awaitTermination(PATIENCE)
        assert text in reason(caught.value)


QUERY = """
import sys
from pathlib import Path
from kdump.spark.session import spark_session
from tests.spark.session import CONF
from tests.spark.test_stream import begin
with spark_session("local[2]", {"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "1g"}) as spark:
    begin(spark, Path(sys.argv[1]), {"maxOffsetsPerTrigger": "25"}, processingTime="0 seconds").awaitTermination()
"""


def test_nothing_is_lost_or_doubled_across_a_kill(spark: SparkSession, tmp_path: Path) -> None:
    log = new_log(tmp_path / "logs" / "x-0", 400)
    process = subprocess.Popen(
        [sys.executable, "-c", QUERY, str(tmp_path)],
        env={**os.environ, **environment()},
        cwd=ROOT,
        start_new_session=True,
    )
    try:
        wait_for(lambda: len(written(tmp_path)) >= 50 or process.poll() is not None)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert len(written(tmp_path)) >= 50
    append(log, 20)
    log.close()
    assert begin(spark, tmp_path, availableNow=True).awaitTermination(PATIENCE)
    assert written(tmp_path) == expected(x_0=420)
