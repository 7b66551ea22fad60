"""Where Spark finds the data source `kafka-log`: it imports every module whose name begins with pyspark_."""

from __future__ import annotations

from kdump.spark.data_source import DefaultSource

__all__ = ["DefaultSource"]
