"""Spark Connect: reading through a client that has neither Java nor the logs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from tests.spark.building import log_directory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_reading_through_connect(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.sql.connect.session import SparkSession as Client

    root = log_directory(tmp_path, x_0=50)
    port = spark.conf.get("spark.connect.grpc.binding.port")
    client = Client.builder.remote(f"sc://127.0.0.1:{port}").create()
    try:
        frame = client.read.format("kafka-log").options(minPartitions="3", includeHeaders="true").load(str(root))
        assert frame.count() == 50
        [row] = frame.where("offset = 6").collect()
        assert (row.key, row.value, row.headers[0].key) == (b"key 6", b"value 6", "h")
        bounds = json.dumps({"x": {"0": 45}})
        assert client.read.format("kafka-log").option("startingOffsets", bounds).load(str(root)).count() == 5
    finally:
        client.stop()
