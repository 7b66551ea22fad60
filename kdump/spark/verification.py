"""`kdump verify` on Spark: each task verifies some of the partitions, and what they find is put in order again."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from kdump.check.options import Options
from kdump.check.resume import Mark
from kdump.check.run import Verification
from kdump.check.tasks import check_path
from kdump.check.work import PartitionRange
from kdump.errors import KdumpError, NameFormatError
from kdump.findings.finding import Finding
from kdump.formats.time_units import wall_clock
from kdump.spark.jobs import Cluster, run_all
from kdump.spark.shares import partition_sizes, shares
from kdump.storage.open import open_directory

TASKS_EACH = 4
"""Tasks for each that runs at once: each of them has a look at all partitions, to compare its own with them."""

PARTITION_COST = 1 << 20
"""What a partition costs beside its bytes, in bytes."""


class _Outcome(NamedTuple):
    """A task's findings and, as texts, the partitions that it began, in order; what it has read, in numbers."""

    events: list[Finding | str]
    partitions: int
    segments: int
    bytes: int


class SparkVerification:
    """Has the face of kdump.check.run.Verification: the same findings in the same order, after the last task."""

    def __init__(self, options: Options, cluster: Cluster) -> None:
        """`options` without a deadline."""
        now = wall_clock() if options.now is None else options.now
        self.mark: Mark | None = None
        self.partitions = self.segments = self.skipped = self.bytes = 0
        self.on_partition: Callable[[str], object] | None = None
        self._options = options._replace(jobs=1, now=now, progress=None)
        self._cluster = cluster

    def run(self, paths: list[str]) -> Iterator[Finding]:
        """Yield the findings. Raises KdumpError for a path that is no directory, OSError, SparkError, JavaError."""
        for path in paths:
            check_path(path)
            if not os.path.isdir(path):
                raise KdumpError(f"{path} is a file: Spark verifies partition directories and log directories")
        sizes = [size for path in paths for size in _sizes(path)]
        call = partial(_verify, paths=paths, options=self._options)
        for outcome in run_all(self._cluster, call, lambda tasks: shares(sizes, sum(sizes) / (TASKS_EACH * tasks))):
            if not isinstance(outcome, _Outcome):
                raise outcome
            self.partitions += outcome.partitions
            self.segments += outcome.segments
            self.bytes += outcome.bytes
            for event in outcome.events:
                if isinstance(event, Finding):
                    yield event
                elif self.on_partition is not None:
                    self.on_partition(event)


def _sizes(path: str) -> Iterator[int]:
    """Yield the bytes of each partition at a path, in the order in which a verification meets them."""
    try:
        place = open_directory(path)
    except (OSError, NameFormatError):  # which is for the verification to say
        return
    yield from partition_sizes(place, PARTITION_COST)


def _verify(share: PartitionRange, paths: list[str], options: Options) -> _Outcome | KdumpError | OSError:
    verification = Verification(options, share=share)
    events: list[Finding | str] = []
    verification.on_partition = events.append
    try:
        for finding in verification.run(paths):
            events.append(finding)  # one by one: what begins meanwhile stands between them
    except OSError as error:
        return error
    except KdumpError as error:
        return KdumpError(str(error))
    return _Outcome(events, verification.partitions, verification.segments, verification.bytes)
