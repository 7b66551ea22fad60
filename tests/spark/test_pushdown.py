"""Why filters are not pushed down: on Spark 4.3.0 pushed filters stick to the relation, and later queries are wrong.

The test that shows it fails as soon as Spark gets it right: then LogReader may have a pushFilters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, EqualTo, Filter, InputPartition

from kdump.spark.reader import LogReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


class Numbers(DataSource):
    """The numbers 0 to 9, of which a filter may choose one."""

    @classmethod
    def name(cls) -> str:
        return "numbers"

    def schema(self) -> str:
        return "n int"

    def reader(self, schema: StructType) -> DataSourceReader:
        return NumbersReader()


class NumbersReader(DataSourceReader):
    def __init__(self) -> None:
        self.only: int | None = None

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        for each in filters:
            if isinstance(each, EqualTo):
                self.only = each.value
            else:
                yield each

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        return ((n,) for n in range(10) if self.only in (None, n))


def test_pushed_filters_stick_to_the_relation(spark: SparkSession) -> None:
    spark.dataSource.register(Numbers)
    before = spark.conf.get("spark.sql.python.filterPushdown.enabled")
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        frame = spark.read.format("numbers").load()
        assert frame.where("n = 3").count() == 1
        wrong = frame.count()
        assert wrong != 10, "Spark forgets pushed filters now: LogReader.pushFilters can be written"
        assert wrong == 1
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", before or "false")


def test_the_reader_pushes_nothing_down() -> None:
    assert "pushFilters" not in vars(LogReader)
