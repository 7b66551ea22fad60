"""Starting Spark, and one line out of what it raises."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from kdump.spark.errors import reason
from kdump.spark.session import settings_of
from tests.columns.reading import ROOT


def test_what_is_asked_for_goes_before_what_is_set_by_itself() -> None:
    found = settings_of("local[2]", {"spark.driver.memory": "9g", "spark.ui.enabled": "true"})
    assert (found["spark.master"], found["spark.driver.memory"]) == ("local[2]", "9g")
    assert found["spark.ui.enabled"] == "true"
    assert "spark.driver.host" in found
    assert "spark.driver.host" not in settings_of("spark://master:7077", {})


@pytest.mark.parametrize(
    ("master", "memory", "message"),
    [
        ("local[1]", "much", "Spark does not start: Invalid maximum heap size: -Xmxmuch"),
        ("nowhere", "1g", "Spark does not start: SparkException: Master must either be yarn"),
    ],
)
def test_a_spark_that_does_not_start_is_one_line(master: str, memory: str, message: str) -> None:
    """In a process of its own: what a JVM leaves behind when it dies would be in the way of the other tests."""
    program = (
        "from kdump.spark.session import start_session\n"
        "from kdump.errors import KdumpError\n"
        "import sys\n"
        "try:\n    start_session(sys.argv[1], {'spark.driver.memory': sys.argv[2]})\n"
        "except KdumpError as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, master, memory],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "JDK_JAVA_OPTIONS": ""},
    )
    [line] = done.stdout.splitlines()
    assert line.startswith(message)
    assert done.stderr == ""


def test_without_spark_or_what_spark_finds_by_itself() -> None:
    """The session needs no module pyspark_kdump to be importable; without pyspark there is one line that helps."""
    program = (
        "import sys\n"
        "from kdump.spark.data_source import DefaultSource\n"
        "assert 'pyspark_kdump' not in sys.modules and DefaultSource.name() == 'kafka-log'\n"
        "import kdump.spark.session as session\n"
        "sys.modules['pyspark_kdump'] = None\n"
        "class Sources:\n    def register(self, source): print(source.__module__)\n"
        "class Session:\n    dataSource = Sources()\n"
        "session.register(Session())\n"
        "for name in [name for name in sys.modules if name.partition('.')[0] == 'pyspark']: del sys.modules[name]\n"
        "sys.modules['pyspark'] = None\n"
        "try:\n    session.start_session()\n"
        "except session.SparkError as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    first, second = done.stdout.splitlines()
    assert first == "kdump.spark.data_source"
    assert "pip install 'kafka-kdump[spark]'" in second


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n  File x\n"
            "kdump.spark.tables.DataLossError: /a/b.log at byte 5: bad\n",
            "/a/b.log at byte 5: bad",
        ),
        ("[PATH] Failed\nTraceback\nkdump.errors.KdumpError: one\n\nDriver stacktrace:\nat x", "one"),
        ("Traceback (most recent call last):\nMemoryError: no room\n", "MemoryError: no room"),
        ("Job\norg.x.OuterException: outer\nCaused by: java.io.IOException: disk full\n", "IOException: disk full"),
        ("[TABLE_OR_VIEW_NOT_FOUND] The table `x` cannot be found.\nmore", "The table `x` cannot be found."),
        ("", "RuntimeError"),
    ],
)
def test_the_line_that_tells(text: str, line: str) -> None:
    assert reason(RuntimeError(text)) == line
