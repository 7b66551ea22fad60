"""Where committed offsets stand in the logs that they are of."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from kdump.errors import Problem, Report
from kdump.storage.replica import Replica
from kdump.topics.groups import Commit
from kdump.topics.share_state import ShareStart

BEYOND_CODE = "KD-GROUP-BEYOND"


class OffsetPlace(StrEnum):
    """Where a committed offset stands in the log that it is of."""

    INSIDE = "inside"
    BEFORE_START = "before log start"
    BEYOND_END = "beyond log end"


INSIDE, BEFORE_START, BEYOND_END = OffsetPlace


class Range(NamedTuple):
    """The offsets of a log that consumers can read: from `start` up to `end`, without that (absolute)."""

    start: int
    end: int

    def lag(self, commit: Commit) -> int:
        """Return how many offsets lie between a commit and the end; below 0 where the commit is beyond it."""
        return self.end - commit.offset

    def lag_of_start(self, start: ShareStart) -> int | None:
        """Return how many records a share group has still to be done with, as kafka-share-groups shows it.

        None where the start is not set, and where the count of records after it that are done with is not known, as
        before Kafka 4.2 (KIP-1226).
        """
        if start.start_offset < 0 or start.delivery_complete_count < 0:
            return None
        return self.end - start.start_offset - start.delivery_complete_count

    def place(self, commit: Commit) -> OffsetPlace:
        """Return whether a consumer that starts from the commit finds its offset."""
        if commit.offset < self.start:
            return BEFORE_START
        return BEYOND_END if commit.offset > self.end else INSIDE


class Ranges:
    """The ranges of the partitions at hand, each found when it is first asked for.

    Of several replicas of a partition the one that reaches farthest counts.
    """

    def __init__(self, replicas: Iterable[Replica], report: Report) -> None:
        self._replicas: dict[tuple[str, int], list[Replica]] = {}
        for replica in replicas:
            self._replicas.setdefault((replica.topic, replica.partition), []).append(replica)
        self._known: dict[tuple[str, int], Range | None] = {}
        self._report = report

    def of(self, topic: str, partition: int, at_least: int = 0) -> Range | None:
        """Return the range of a partition; None where it is not at hand or cannot be read.

        One that ends before `at_least` is looked at again: beside a running broker it may have grown meanwhile.
        """
        key = (topic, partition)
        known = self._known.get(key)
        if key not in self._known or (known is not None and at_least > known.end):
            self._known[key] = max(
                filter(None, map(self._range, self._replicas.get(key, ()))), key=lambda found: found.end, default=None
            )
        return self._known[key]

    def _range(self, replica: Replica) -> Range | None:
        try:
            return Range(replica.log_start_offset, replica.end_offset())
        except OSError as error:
            self._report(Problem.unreadable(replica.log.path, error))
            return None
