"""One Spark session for all tests of a run: a JVM takes seconds to start, and there can be only one."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.columns.reading import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Short-lived JVMs: what the optimizing compiler costs is never earned back.
JVM_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
CONF = {
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "1g",
    "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
}


def free_port() -> int:
    """A port of the loopback interface that nobody listens at now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def environment() -> dict[str, str]:
    """What Spark's processes need: short-lived JVMs, and the source tree for Python workers to import from."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {"JDK_JAVA_OPTIONS": JVM_OPTIONS, "PYTHONPATH": os.pathsep.join(paths), "SPARK_LOCAL_IP": "127.0.0.1"}


@contextmanager
def local_session(more: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """A local session with `more` settings; it also serves Spark Connect (spark.connect.grpc.binding.port)."""
    from kdump.spark.session import spark_session

    before = dict(os.environ)
    os.environ.update(environment())
    try:
        with spark_session(
            "local[2]", {**CONF, **(more or {}), "spark.connect.grpc.binding.port": str(free_port())}
        ) as session:
            yield session
    finally:
        os.environ.clear()
        os.environ.update(before)
