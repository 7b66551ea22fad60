"""What a broker's log says of its start: how each log was loaded, and which ones were cleaned."""

from __future__ import annotations

import re
from typing import NamedTuple

_LOADED = re.compile(
    r"Completed load of Log\(dir=(?P<dir>\S+), topicId=\S+, topic=(?P<topic>\S+), partition=(?P<partition>\d+), "
    r"highWatermark=-?\d+, lastStableOffset=-?\d+, logStartOffset=(?P<start>\d+), logEndOffset=(?P<end>\d+)\) "
    r"with (?P<segments>\d+) segments"
)

_CLEANED = re.compile(r"Beginning cleaning of log (\S+)")


class Loaded(NamedTuple):
    """A log after loading."""

    start: int
    end: int
    segments: int


def loaded(log: str) -> dict[str, Loaded]:
    """Path of a partition directory → how the broker loaded it."""
    return {
        found["dir"]: Loaded(int(found["start"]), int(found["end"]), int(found["segments"]))
        for found in _LOADED.finditer(log)
    }


def cleaned(log: str) -> set[str]:
    """Names of the partitions that the cleaner has begun to clean."""
    return {found[1] for found in _CLEANED.finditer(log)}


_OFFLINE = re.compile(
    r"(?:Stopping serving logs in dir|Failed to create or validate data directory) (\S+)"
    r"|Error while reading meta\.properties file (\S+)/meta\.properties"
)


def offline(log: str) -> set[str]:
    """Paths of the log directories that the broker does without."""
    return {found[1] or found[2] for found in _OFFLINE.finditer(log)}
