"""A Spark session for the command line: found Java, quiet logs, this Python in the workers, the data source registered.

    with spark_session("local[*]", {"spark.driver.memory": "4g"}) as spark:
        spark.read.format("kafka-log").load("/data/kafka-logs")
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

from kdump.errors import KdumpError
from kdump.spark.java import use_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

APP_NAME = "kdump"

_DEFAULTS = {
    "spark.app.name": APP_NAME,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    # rows go through as they are: the local time zone must not touch them
    "spark.sql.session.timeZone": "UTC",
}
_LOCAL_DEFAULTS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "2g",
    # rows come from the Python workers faster
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.buffer.size": "1048576",
}
_LAST_LINES = 5


class SparkError(KdumpError):
    """Spark is not installed, or does not start."""


@contextmanager
def spark_session(master: str = "local[*]", conf: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """A session that ends with the `with`; `conf` goes before what is set here. Raises SparkError, JavaError.

    What Spark logs goes nowhere: errors come as exceptions (kdump.spark.errors makes one line of them).
    """
    session = start_session(master, conf)
    try:
        yield session
    finally:
        session.stop()


def start_session(master: str = "local[*]", conf: Mapping[str, str] | None = None) -> SparkSession:
    """The session of `spark_session`, for the caller to stop. Raises SparkError, JavaError."""
    try:
        from pyspark import SparkConf, SparkContext
        from pyspark.java_gateway import launch_gateway
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise SparkError(f"Spark is not installed here ({error}): pip install 'kafka-kdump[spark]'") from None
    settings = SparkConf(loadDefaults=False)
    for name, value in settings_of(master, conf or {}).items():
        settings.set(name, value)
    use_java()
    if master.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if master.startswith("local["):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    with tempfile.TemporaryFile() as log:
        try:
            # the JVM keeps the file for what it logs later on
            gateway = launch_gateway(settings, {"stdout": log, "stderr": log})
            context = SparkContext(conf=settings, gateway=gateway)
        except Exception as error:
            raise SparkError(f"Spark does not start: {_last_lines(log) or error}") from None
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)  # it prints what is raised anyway
    session = SparkSession(context)
    register(session)
    return session


def settings_of(master: str, conf: Mapping[str, str]) -> dict[str, str]:
    """Spark's configuration for a master URL, what is in `conf` before everything else."""
    local = _LOCAL_DEFAULTS if master.startswith("local[") or master == "local" else {}
    return {**_DEFAULTS, **local, "spark.master": master, **conf}


def register(session: SparkSession) -> None:
    """Make the data source known, where Spark does not find it by itself (as in an editable installation)."""
    from pyspark_kdump import DefaultSource

    session.dataSource.register(DefaultSource)


def _last_lines(log: IO[bytes]) -> str:
    log.seek(0)
    lines = [line.strip() for line in log.read().decode("utf-8", "replace").splitlines() if line.strip()]
    telling = [line for line in lines if not line.startswith(("at ", "..."))]
    return " | ".join(telling[-_LAST_LINES:])
