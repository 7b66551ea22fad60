"""`df.write.format("kafka-log")`: what is written verifies clean and reads back equal."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

from kdump.findings.kind import NOTE
from kdump.library.verifying import verify
from kdump.spark.errors import reason
from tests.columns.reading import FIXTURES
from tests.spark.building import new_log
from tests.spark.test_source import load

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CONTENT = ["key", "value", "headers", "topic", "partition", "timestamp"]


def save(frame: DataFrame, path: Path, mode: str = "append", **options: Any) -> None:
    frame.write.format("kafka-log").options(**{name: str(value) for name, value in options.items()}).mode(mode).save(
        str(path)
    )


def faults(root: Path) -> list[str]:
    return [found.code for found in verify(root, deep=True) if found.severity != NOTE]


def test_round_trip(spark: SparkSession, tmp_path: Path) -> None:
    new_log(tmp_path / "from" / "x-2", 300).close()
    source = [tmp_path / "from", *(FIXTURES / "corpus" / name for name in ("s-src-txn", "s-src-v1-gzip"))]
    frame = load(spark, *source, includeHeaders=True, replicas="all", minPartitions=7)
    target = tmp_path / "to"
    dotted: dict[str, Any] = {"segment.bytes": 3000, "index.interval.bytes": 500}
    save(frame, target, codec="lz4", batchBytes=1000, **dotted)
    assert faults(target) == []
    assert sorted(path.name for path in target.iterdir() if path.is_dir()) == ["topic-0", "x-0", "x-1", "x-2"]
    assert len(list((target / "x-2").glob("*.log"))) > 1
    written, read = (each.select(CONTENT) for each in (frame, load(spark, target, includeHeaders=True)))
    assert written.exceptAll(read).union(read.exceptAll(written)).count() == 0
    # within a partition the order stays
    [first, *_] = [each.select("value").collect() for each in (frame.where("topic = 'x'").orderBy("offset"),)]
    assert first == load(spark, target, topics="x").orderBy("offset").select("value").collect()
    # the same again behind it
    save(frame.where("topic = 'x'"), target)
    assert load(spark, target, topics="x").count() == 600
    assert faults(target) == []
    assert not list(target.glob(".kdump*"))


def test_text_columns_keys_and_overwrite(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(100).selectExpr("concat('k', id % 10) as KEY", "cast(id as string) as value", "id as other")
    save(frame, tmp_path / "to", topic="t", numPartitions=4)
    found = load(spark, tmp_path / "to")
    assert found.count() == 100
    assert found.selectExpr("count(distinct key, partition)").collect()[0][0] == 10
    save(frame.limit(3), tmp_path / "to", "overwrite", topic="t", numPartitions=2)
    assert load(spark, tmp_path / "to").count() == 3
    assert sorted(path.name for path in (tmp_path / "to").glob("t-*")) == ["t-0", "t-1"]


def test_what_cannot_be_written_leaves_nothing(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(4).selectExpr("cast(id as string) as value", "if(id = 3, '../x', 't') as topic")
    with pytest.raises(PySparkException) as caught:
        save(frame, tmp_path / "to")
    assert "'../x' cannot be a topic's name" in reason(caught.value)
    assert not os.path.exists(tmp_path / "to") or os.listdir(tmp_path / "to") == []
    with pytest.raises(PySparkException) as caught:
        save(frame.drop("value"), tmp_path / "to")
    assert "there is no column value" in reason(caught.value)
