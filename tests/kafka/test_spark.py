"""kdump's Spark source beside Spark's own Kafka source, which `kdump serve` gives the same directories: equal rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from kdump.server.background import serve
from kdump.server.cluster import ServedCluster
from kdump.server.pieces import OnDamage
from kdump.storage.open import open_directory
from tests.kafka.directories import State, rich
from tests.kafka.jars import RELEASES, SPARK_SOURCE, class_path
from tests.kafka.tally import Column, Tally
from tests.spark.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """A session with the jars of Spark's Kafka source."""
    with local_session({"spark.jars": ",".join(map(str, class_path(SPARK_SOURCE)))}) as session:
        yield session


def _rows(frame: DataFrame) -> dict[tuple[str, int, int], str]:
    return {(row.topic, row.partition, row.offset): repr(row) for row in frame.collect()}


def _middle(offsets: dict[str, dict[str, tuple[int, int]]]) -> str:
    return json.dumps(
        {topic: {number: (low + high) // 2 for number, (low, high) in each.items()} for topic, each in offsets.items()}
    )


@pytest.mark.parametrize("state", State)
def test_rows_are_those_of_sparks_own_kafka_source(state: State, spark: SparkSession, tally: Tally) -> None:
    release = RELEASES[-1]
    directory = rich(release, state)
    places = [str(path) for path in directory.log_dirs]
    cluster = ServedCluster(map(open_directory, places), OnDamage.STOP, print, print)
    ends: dict[str, dict[str, tuple[int, int]]] = {}
    stable: dict[str, dict[str, int]] = {}
    for path in directory.partitions:
        topic, _, number = path.name.rpartition("-")
        one = cluster.partition(1, topic, int(number))
        if one is not None and not topic.startswith("_"):
            ends.setdefault(topic, {})[number] = (one.log_start_offset, one.end_offset)
            stable.setdefault(topic, {})[number] = one.last_stable_offset
    everything: dict[str, Any] = {
        "subscribe": ",".join(sorted(ends)),
        "startingOffsets": json.dumps({t: {n: low for n, (low, _) in each.items()} for t, each in ends.items()}),
        "endingOffsets": json.dumps({t: {n: high for n, (_, high) in each.items()} for t, each in ends.items()}),
        "includeHeaders": "true",
    }
    cases: dict[str, dict[str, str]] = {
        "all": everything,
        # Their source takes a partition of which no record is committed for lost ones, and waits for them.
        "read committed": everything
        | {"kafka.isolation.level": "read_committed", "endingOffsets": json.dumps(stable)}
        | {"failOnDataLoss": "false", "kafkaConsumer.pollTimeoutMs": "2000"},
        "the second half": everything | {"startingOffsets": _middle(ends)},
        "small tasks": everything | {"maxRecordsPerPartition": "50"},
    }
    with serve(*places) as servers, tally.of(release, Column.READ) as compare:
        for name, options in cases.items():
            theirs = spark.read.format("kafka").options(**{"kafka.bootstrap.servers": servers, **options}).load()
            ours = spark.read.format("kafka-log").options(**options).load(places)
            compare.same(f"{name}: columns", ours.schema.simpleString(), theirs.schema.simpleString())
            found, wanted = _rows(ours), _rows(theirs)
            compare.holds(f"{name}: there are rows", len(wanted) > 500)
            for key in found.keys() | wanted.keys():
                compare.same(f"{name}: {key}", found.get(key), wanted.get(key))
