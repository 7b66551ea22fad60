"""The class of the data source `kafka-log`, which Spark sends to its workers; the rest is imported when it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, DataSourceWriter
    from pyspark.sql.types import StructType


class DefaultSource(DataSource):
    """Kafka's log directories as rows; docs/spark.md has the columns and options."""

    @classmethod
    def name(cls) -> str:
        """Return what follows `spark.read.format`."""
        return "kafka-log"

    def schema(self) -> str:
        """Return the columns that the options ask for. Raises KdumpError."""
        from kdump.spark.source import schema

        return schema(self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of all there is now."""
        from kdump.spark.source import reader

        return reader(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return a reader of what there is and what will be."""
        from kdump.spark.source import stream_reader

        return stream_reader(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return a writer of partition directories."""
        from kdump.spark.source import writer

        return writer(self.options, schema, overwrite)
