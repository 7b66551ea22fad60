"""Kafka's own DumpLogSegments of the newest release, run in turns with dump-log if Java and its jars can be had.

The JVM has the options of kafka-dump-log.sh. If it cannot run here, `kafka_figures` has what it took elsewhere.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from processes import RunError

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.kafka.broker import KAFKAS_JVM  # noqa: E402
from tests.kafka.jars import RELEASES, JarError, class_path, why_not  # noqa: E402

RELEASE = RELEASES[-1]
NAME = f"Kafka {RELEASE}"
_HEAP = "-Xmx256M"
_LOGGING = ("-Djava.awt.headless=true", "-Dlog4j2.level=OFF", "-Dlog4j2.StatusLogger.level=OFF")
_TOOL = "org.apache.kafka.tools.DumpLogSegments"


def reason() -> str | None:
    """Why the tool cannot run here; None if it can."""
    return why_not(RELEASE)


def command(log: str, *options: str) -> list[str]:
    """What runs the tool on a .log file. Raises RunError."""
    program = shutil.which("java")
    try:
        jars = os.pathsep.join(map(str, class_path(RELEASE)))
    except JarError as error:
        raise RunError(str(error)) from None
    return [str(program), _HEAP, *KAFKAS_JVM, *_LOGGING, "-cp", jars, _TOOL, *options, "--files", log]
