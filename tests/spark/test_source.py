"""`spark.read.format("kafka-log")`: what comes out of Spark is what is in the logs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.types import StructType

from kdump.spark.errors import reason
from kdump.spark.schema import ADDED, COLUMNS, DECODED, ddl
from kdump.spark.tables import schema_of
from kdump.storage.facts import segment_info
from kdump.storage.partition import PartitionLog
from kdump.storage.segment import Segment
from tests.columns.reading import Row, expected_rows, in_microseconds, sound_cases
from tests.spark.building import NOW, log_directory, one_segment, options_of, packed_batch, row_of
from tests.storage.building import flipped

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


def load(spark: SparkSession, *paths: Path | str, **options: Any) -> DataFrame:
    """A read of some paths."""
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in options.items()}
    return spark.read.format("kafka-log").options(**texts).load([os.fspath(path) for path in paths])


def table(frame: DataFrame) -> pa.Table:
    """The rows of a DataFrame, times as numbers."""
    import pyarrow as pa

    found = frame.toArrow()
    for at, field in enumerate(found.schema):
        if pa.types.is_timestamp(field.type):
            found = found.set_column(at, field.name, found.column(at).cast(pa.int64()))
    return found


@pytest.mark.parametrize("parts", [1, 2, 20])
def test_all_sound_logs_of_kafka_at_once(spark: SparkSession, parts: int) -> None:
    """The multiset of rows of each partition, read in one job of so many tasks at the least."""
    cases = sound_cases()
    columns = "key,value,offset,timestamp,headers,path"
    frame = load(
        spark, *[case.folder for case in cases], columns=columns, minPartitions=parts, replicas="all",
        includeControlRecords=True,
    )  # fmt: skip
    assert frame.rdd.getNumPartitions() >= parts
    found: dict[str, list[Row]] = {}
    for row in table(frame).to_pylist():
        found.setdefault(os.path.dirname(row["path"]), []).append(row_of(row))
    for case in cases:
        expected = in_microseconds(expected_rows(case.folder))
        assert sorted(found.get(str(case.folder), []), key=repr) == sorted(expected, key=repr)
    assert len(found) > 10


def test_spark_finds_the_source_by_itself(spark: SparkSession, tmp_path: Path) -> None:
    """A session in which nothing was registered."""
    other = spark.newSession()
    assert load(other, log_directory(tmp_path, x_0=3)).count() == 3


def test_columns_as_sparks_own_kafka_source_has_them(spark: SparkSession, tmp_path: Path) -> None:
    frame = load(spark, log_directory(tmp_path, x_3=10), includeHeaders=True)
    assert frame.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,"
        "timestampType:int,headers:array<struct<key:string,value:binary>>>"
    )
    row = frame.selectExpr("cast(key as string)", "headers", "timestamp", "timestampType", "topic", "partition").where(
        "offset = 6"
    )
    [found] = row.collect()
    assert found.key == "key 6"
    assert [(header.key, bytes(header.value or b"")) for header in found.headers] == [("h", b"6"), ("none", b"")]
    assert found.timestamp.timestamp() == (NOW + 6000) / 1000
    assert (found.timestampType, found.topic, found.partition) == (0, "x", 3)
    assert frame.where("headers is null").count() == 6


@pytest.mark.parametrize("kind", COLUMNS)
def test_every_column_of_every_kind(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    root = log_directory(tmp_path, x_0=5, y_0=0)
    by_schema = DECODED.keys() | ADDED.keys()  # those need schemas: tests of decode have them
    columns = [name for name in COLUMNS[kind] if name not in by_schema]
    frame = load(spark, root, kind=kind, columns=",".join(columns))
    assert len(frame.collect()) == {"records": 5, "batches": 2, "segments": 2, "findings": frame.count()}[kind]
    if kind in ("records", "batches"):
        from pyspark.sql.pandas.types import from_arrow_schema

        options = options_of(root, kind=kind)
        names = tuple(columns)
        asked = options_of(root, kind=kind, columns=",".join(names))
        assert from_arrow_schema(schema_of(names, asked)) == StructType.fromDDL(ddl(asked)) == frame.schema
        assert StructType.fromDDL(ddl(options)).fieldNames() != list(names)


def test_segments(spark: SparkSession, tmp_path: Path) -> None:
    root = log_directory(tmp_path, x_0=300)
    found = load(spark, root, kind="segments").orderBy("baseOffset").collect()
    infos = [segment_info(segment) for segment in PartitionLog(str(root / "x-0")).segments]
    assert [(row.baseOffset, row.endOffset, row["size"], row.records) for row in found] == [
        (info.base_offset, info.end_offset, info.size, info.records) for info in infos
    ]
    assert found[0].codecs == ["none"]
    assert load(spark, root, kind="segments", startingOffsets={"x": {"0": 250}}).count() < len(found)


def test_several_roots_patterns_topics_and_bounds(spark: SparkSession, tmp_path: Path) -> None:
    log_directory(tmp_path / "a", x_0=40, x_1=40)
    log_directory(tmp_path / "b", y_0=40)
    frame = load(
        spark, tmp_path / "a", f"file:{tmp_path}/b*", topics="x,y", partitions="0",
        startingOffsets={"x": {"0": 10}, "y": {"0": -2}}, endingTimestamp=NOW + 15_000,
    )  # fmt: skip
    counts = {(row.topic, row.partition): row["count"] for row in frame.groupBy("topic", "partition").count().collect()}
    assert counts == {("x", 0): 5, ("y", 0): 15}


def test_decoding_is_pruned_not_only_output(spark: SparkSession, tmp_path: Path) -> None:
    """Where only batches are looked at nothing is decompressed: a payload that cannot be does not matter."""
    broken = bytearray(packed_batch(0, 50))
    broken[70:90] = bytes(20)
    from tests.storage.building import with_valid_crc

    folder = one_segment(tmp_path / "x-0", [with_valid_crc(bytes(broken)), packed_batch(50, 5)])
    assert load(spark, folder, kind="batches").count() == 2
    assert load(spark, folder, failOnDataLoss=False).count() == 5


# --- errors: a clear message on the driver


def failure(frame: Any) -> str:
    """What a read says when it fails."""
    with pytest.raises(PySparkException) as caught:
        frame().collect()
    return reason(caught.value)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"startingofset": "1"}, "there is no option 'startingofset': did you mean startingOffsets?"),
        ({"kind": "record"}, "there is no kind 'record': did you mean records?"),
        ({"columns": "valeu"}, "did you mean value?"),
        ({"topics": "other"}, "is one of those asked for"),
    ],
)
def test_wrong_options(spark: SparkSession, tmp_path: Path, options: dict[str, str], text: str) -> None:
    root = log_directory(tmp_path, x_0=1)
    assert text in failure(lambda: load(spark, root, **options))


def test_paths_that_are_no_logs(spark: SparkSession, tmp_path: Path) -> None:
    assert failure(lambda: load(spark, tmp_path / "none")) == f"{tmp_path}/none: there is no such directory"
    assert "there are no logs in it" in failure(lambda: load(spark, tmp_path))


def test_a_schema_of_ones_own_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    root = log_directory(tmp_path, x_0=1)
    read = spark.read.format("kafka-log").schema("a int")
    assert "leave it out, and choose with the option columns" in failure(lambda: read.load(str(root)))


def test_a_corrupt_batch(spark: SparkSession, tmp_path: Path) -> None:
    folder = one_segment(tmp_path / "x-0", [packed_batch(0, 2), flipped(packed_batch(2, 2), -1), packed_batch(4, 2)])
    text = failure(lambda: load(spark, folder))
    assert text.startswith(f"{folder}/{0:020d}.log at byte {len(packed_batch(0, 2))}: batch ")
    damage = load(spark, folder, failOnDataLoss=False, columns="offset,damage")
    assert [row.offset for row in damage.orderBy("offset").collect()] == [None, 0, 1, 4, 5]
    [bad] = damage.where("damage is not null").selectExpr("damage.*").collect()
    assert (bad.position, bad.resumed) == (len(packed_batch(0, 2)), 2 * len(packed_batch(0, 2)))


def test_a_file_that_is_gone_when_it_is_read(spark: SparkSession, tmp_path: Path) -> None:
    root = log_directory(tmp_path, x_0=3)
    frame = load(spark, root)
    assert frame.count() == 3
    os.remove(Segment(str(root / "x-0" / f"{0:020d}.log")).log_path)
    assert "No such file or directory" in failure(lambda: frame)
