"""A Spark session for the command line: found Java, quiet logs, this Python in the workers, the data source registered.

For a block of code:

    with spark_session("local[*]", {"spark.driver.memory": "4g"}) as spark:
        spark.read.format("kafka-log").load("/data/kafka-logs")
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING

from kdump.disk.unpacked import nameless_file
from kdump.errors import KdumpError
from kdump.spark.errors import java_reason, reason
from kdump.spark.java import use_java

if TYPE_CHECKING:
    from pyspark import SparkContext
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
_KILLED = re.compile(r"Application has been killed\. Reason: (.+)")
_CHATTER = re.compile(r" (WARN|INFO) |[Ll]og4j|log(ging)? level|incubator modules|^NOTE: Picked up")


class SparkError(KdumpError):
    """Spark is not installed, or does not start."""


@contextmanager
def spark_session(master: str = "local[*]", conf: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """Hold a session that ends with the `with`; `conf` goes before what is set here. Raises SparkError, JavaError.

    What Spark logs goes nowhere: errors come as exceptions (kdump.spark.errors makes one line of them).
    """
    session = start_session(master, conf)
    try:
        yield session
    finally:
        _stop(session)


def _stop(running: SparkSession | SparkContext) -> None:
    with suppress(Exception):  # the JVM may be gone, which whoever used it has been told
        running.stop()


def start_session(master: str = "local[*]", conf: Mapping[str, str] | None = None) -> SparkSession:
    """Return the session of `spark_session`, for the caller to stop. Raises SparkError, JavaError."""
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
    if _is_here(master):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    with nameless_file() as log:
        try:
            # the JVM keeps the file for what it logs later on
            gateway = launch_gateway(settings, {"stdout": log, "stderr": log})
            context = SparkContext(conf=settings, gateway=gateway)
            session = SparkSession(context)
            register(session)
        except Exception as error:
            if SparkContext._active_spark_context is not None:
                _stop(SparkContext._active_spark_context)
            raise SparkError(f"Spark does not start: {_why(log) or reason(error)}") from None
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)  # it prints what is raised anyway
    return session


def settings_of(master: str, conf: Mapping[str, str]) -> dict[str, str]:
    """Return Spark's configuration for a master URL, what is in `conf` before everything else."""
    local = _LOCAL_DEFAULTS if _is_here(master) else {}
    return {**_DEFAULTS, **local, "spark.master": master, **conf}


def _is_here(master: str) -> bool:
    """Return whether all of Spark runs in one process on this machine."""
    return master == "local" or master.startswith("local[")


def register(session: SparkSession) -> None:
    """Make the data source known, where Spark does not find it by itself (as in an editable installation)."""
    from kdump.spark.data_source import DefaultSource

    session.dataSource.register(DefaultSource)


def _why(log: IO[bytes]) -> str:
    """Return what a JVM that did not come up has said last; empty where it has said nothing."""
    log.seek(0)
    text = log.read().decode("utf-8", "replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    causes = [line for line in lines if not line.startswith(("at ", "...")) and not _CHATTER.search(line)]
    killed = _KILLED.findall(text)
    return str(killed[-1]).strip() if killed else java_reason(text) or " | ".join(causes[-_LAST_LINES:])
