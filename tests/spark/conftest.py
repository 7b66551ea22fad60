"""The Spark session of all these tests. What needs Spark is only collected where that is installed, and has to work."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLDER = Path(__file__).parent
NEED_SPARK = [
    "test_cluster.py", "test_connect.py", "test_engines.py", "test_findings.py", "test_page.py", "test_pushdown.py",
    "test_session.py", "test_source.py", "test_stream.py", "test_write.py",
]  # fmt: skip
NEED_ARROW = ["test_commit.py", "test_kafkas_logs.py", "test_tables.py"]

collect_ignore = [
    *([] if find_spec("pyspark") else NEED_SPARK),
    *([] if find_spec("pyarrow") else NEED_ARROW),
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs a Java: it is slow, and one of several processes (--dist loadgroup) has all of it."""
    for item in items:
        if item.path.parent == FOLDER and item.path.name in NEED_SPARK:
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A local session."""
    with local_session() as session:
        yield session
