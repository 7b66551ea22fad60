"""The figures of partitions, with what the cleaner's checkpoints make of them, and of topics."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from kdump.errors import KdumpError, Problem, Report
from kdump.formats import names
from kdump.formats.codecs import NAMES
from kdump.statistics.partition import Dirtiness, Stats, StatsOptions, dirtiness, partition_stats, total
from kdump.storage.checkpoints import Checkpoints
from kdump.storage.replica import Replica, read_replicas

UNEVEN = 1.5
"""A topic is uneven if its largest partition is this many times as large as the mean of its partitions."""
WORTHWHILE = 0.05
"""A codec is worth it if it saves this share of a topic."""

Computed = Iterable[tuple[Replica, Stats | KdumpError | OSError]]


class PartitionStats(NamedTuple):
    """The figures of the partition directory `path`; `dirtiness` where the cleaner's checkpoint has a line for it."""

    path: str
    topic: str
    partition: int
    stats: Stats
    dirtiness: Dirtiness | None = None


class Saving(NamedTuple):
    """About how many bytes fewer a topic would take with another codec."""

    codec: int
    bytes: int


class TopicStats(NamedTuple):
    """A topic with the figures of its partitions together."""

    topic: str
    partitions: list[PartitionStats]
    stats: Stats

    @property
    def largest(self) -> PartitionStats:
        """The largest partition."""
        return max(self.partitions, key=lambda each: each.stats.size)

    @property
    def unevenness(self) -> float:
        """How many times as large as the partitions' mean the largest is; 1 where there is nothing to compare."""
        if len(self.partitions) < 2 or not self.stats.size:
            return 1.0
        return self.largest.stats.size * len(self.partitions) / self.stats.size

    @property
    def is_uneven(self) -> bool:
        """Whether its largest partition is so much larger than the mean that it is worth a word."""
        return self.unevenness >= UNEVEN

    @property
    def saving(self) -> Saving | None:
        """What the codec saves with which the topic would take least; None where that is not worth it."""
        now = self.stats.batches.bytes
        sizes = [(size, codec) for codec in range(len(NAMES)) if (size := self.stats.in_codec(codec)) is not None]
        if not sizes or now - min(sizes)[0] < max(1, now * WORTHWHILE):
            return None
        size, codec = min(sizes)
        return Saving(codec, now - size)


class StatsOf:
    """Gathers the figures of replicas. What cannot be read is reported."""

    def __init__(
        self, options: StatsOptions, report: Report, progress: Callable[[str, int], None] = lambda _, __: None
    ) -> None:
        """`progress` hears of bytes read of a .log."""
        self._options = options
        self._report = report
        self._progress = progress
        self._checkpoints: dict[str, Checkpoints] = {}

    def of(self, replicas: Iterable[Replica], computed: Computed | None = None) -> Iterator[PartitionStats]:
        """Yield them; `computed` are the figures where they were gathered elsewhere."""
        for replica, stats in self._gathered(replicas) if computed is None else computed:
            path = replica.log.path
            if isinstance(stats, Stats):
                yield PartitionStats(path, replica.topic, replica.partition, stats, self._dirtiness(replica, stats))
            else:
                self._report(Problem.unreadable(path, stats))

    def _gathered(self, replicas: Iterable[Replica]) -> Computed:
        def figures(replica: Replica) -> Iterator[tuple[Replica, Stats]]:
            yield replica, partition_stats(replica.log, self._options, self._progress)

        return read_replicas(replicas, self._report, figures)

    def _dirtiness(self, replica: Replica, stats: Stats) -> Dirtiness | None:
        folder = os.path.dirname(os.path.abspath(replica.log.path))
        if folder not in self._checkpoints:
            self._checkpoints[folder] = Checkpoints.read(folder, (names.CLEANER_CHECKPOINT,))
        cleaner = self._checkpoints[folder].of(replica.log.name).cleaner
        return None if cleaner is None else dirtiness(stats.segments, cleaner)


def by_topic(partitions: Iterable[PartitionStats]) -> list[TopicStats]:
    """Return the partitions by topic and number."""
    groups: dict[str, list[PartitionStats]] = {}
    for each in sorted(partitions, key=lambda each: (each.topic, each.partition, each.path)):
        groups.setdefault(each.topic, []).append(each)
    return [TopicStats(name, members, total([each.stats for each in members])) for name, members in groups.items()]
