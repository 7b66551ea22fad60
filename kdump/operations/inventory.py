"""What is in log directories and partitions, place by place, and which partitions are in several."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from kdump.formats import names
from kdump.formats.names import FileName
from kdump.query.inventory import (
    FileInfo,
    LogDirectoryInfo,
    PartitionInfo,
    duplicates,
    log_directory_info,
    owner_of,
    partition_info,
)
from kdump.storage.broker import BrokerIdentity, Duplicate
from kdump.storage.checkpoints import Checkpoints
from kdump.storage.directory import LogDirectory
from kdump.storage.facts import SegmentInfo, segment_info
from kdump.storage.live import held
from kdump.storage.partition import PartitionLog
from kdump.storage.segment import Segment
from kdump.topics.clusters import ClusterMetadata, Clusters


def _name_key(info: PartitionInfo) -> tuple[Any, ...]:
    if info.topic is None:
        return (1, info.path)
    return (0, info.topic, info.partition, info.state, info.path)


def _descending(value: Callable[[PartitionInfo], int | None]) -> Callable[[PartitionInfo], tuple[Any, ...]]:
    """Return what sorts the largest first, what is not known last, and by name where equal."""

    def key(info: PartitionInfo) -> tuple[Any, ...]:
        found = value(info)
        return (found is None, -(found or 0), _name_key(info))

    return key


SORTS: dict[str, Callable[[PartitionInfo], tuple[Any, ...]]] = {
    "name": _name_key,
    "size": _descending(lambda info: info.size),
    "records": _descending(lambda info: info.records),
    "segments": _descending(lambda info: len(info.segments)),
    "end": _descending(lambda info: info.end_offset),
    "time": _descending(lambda info: info.largest_timestamp),
}
"""The orders of the partitions of a log directory."""


class InventoryRequest(NamedTuple):
    """What is asked for; `wants` says of partition directories' names which, of log directories.

    `sort` is one of SORTS. With `counts` all batches are read. Without `metadata` that of the cluster does not count.
    With `outline_at`, a time (ms), each partition has its outline as of then.
    """

    wants: Callable[[str], bool] = lambda _: True
    sort: str = "name"
    counts: bool = False
    metadata: bool = True
    outline_at: int | None = None


class ListedDirectory(NamedTuple):
    """A log directory, and those of its partitions that are asked for, in order."""

    info: LogDirectoryInfo
    partitions: list[PartitionInfo]


class Unread(NamedTuple):
    """What of a log directory, a partition or a file cannot be read, and why."""

    path: str
    error: OSError


class Inventory:
    """Gives the facts about one place after the other; what cannot be read comes as it was met."""

    def __init__(
        self,
        paths: Iterable[str],
        request: InventoryRequest,
        over: Callable[[list[str]], Iterable[str]] = iter,
    ) -> None:
        """`paths` are those that are looked at together; `over` goes over the paths of a log directory's partitions."""
        self._request = request
        self._over = over
        self._clusters = Clusters(paths) if request.metadata else None
        self._listed: list[tuple[BrokerIdentity | None, PartitionInfo]] = []

    def directory(self, directory: LogDirectory) -> Iterator[ListedDirectory | Unread]:
        """Yield the facts about a log directory, its errors behind them. Raises OSError."""
        checkpoints = Checkpoints.read(directory.path)
        cluster = self._cluster(directory)
        info = log_directory_info(directory, checkpoints)
        info = info._replace(
            release=cluster.release,
            is_controller=cluster.is_controller,
            problems=(*info.problems, *_problems(cluster)),
        )
        wanted = [os.path.join(directory.path, name) for name in directory.partition_names if self._request.wants(name)]
        partitions = []
        for path in self._over(wanted):
            try:
                with held(path) as log:
                    if log is not None:
                        partitions.append(self._info(log, checkpoints, cluster))
            except OSError as unreadable:
                yield Unread(path, unreadable)
        partitions.sort(key=SORTS[self._request.sort])
        owner = owner_of(directory)
        self._listed += ((owner, partition) for partition in partitions)
        yield ListedDirectory(info, partitions)
        for error in (*info.errors, *(error for partition in partitions for error in partition.errors)):
            yield Unread(directory.path, error)

    def partition(self, log: PartitionLog) -> Iterator[PartitionInfo | Unread]:
        """Yield the facts about a partition directory, if a broker has not taken it away; its errors behind them.

        What is wrong with the checkpoints beside it is in it too. Raises OSError.
        """
        folder = os.path.dirname(os.path.abspath(log.path))
        checkpoints = Checkpoints.read(folder)
        directory = _log_directory(folder)
        owner = owner_of(directory) if directory else None
        cluster = self._cluster(directory)
        with held(log.path) as now:
            if now is None:
                return
            info = self._info(now, checkpoints, cluster)
        bad = checkpoints.errors.values()
        texts = (str(error) for error in bad if not isinstance(error, OSError))
        unread = (error for error in bad if isinstance(error, OSError))
        info = info._replace(problems=(*texts, *info.problems), errors=(*unread, *info.errors))
        self._listed.append((owner, info))
        yield info
        for error in info.errors:
            yield Unread(log.path, error)

    def file(self, path: str, name: FileName) -> Iterator[SegmentInfo | FileInfo | Unread]:
        """Yield the facts about a file, of a segment those of its log, the error behind them; others are named by path.

        Raises OSError.
        """
        if name.kind not in (names.LOG, *names.METADATA_SNAPSHOT_KINDS):
            yield FileInfo(path, os.stat(path).st_size, name.kind)
            return
        info = segment_info(Segment(path), count=self._request.counts)
        yield info
        if info.error:
            yield Unread(path, info.error)

    def duplicates(self) -> list[Duplicate]:
        """Return the partitions, of those that were looked at, that are in several directories of one broker."""
        return duplicates(self._listed)

    def _cluster(self, directory: LogDirectory | None) -> ClusterMetadata:
        return self._clusters.of(directory) if self._clusters and directory else ClusterMetadata()

    def _info(self, log: PartitionLog, checkpoints: Checkpoints, cluster: ClusterMetadata) -> PartitionInfo:
        placing = None if cluster.problems else cluster.placing
        info = partition_info(log, checkpoints.of(log.name), count=self._request.counts, placing=placing)
        if self._request.outline_at is None:
            return info
        from kdump.operations.outline import outline

        return info._replace(outline=outline(log, info, cluster, self._request.outline_at))


def _problems(cluster: ClusterMetadata) -> Iterator[str]:
    if cluster.problems:
        more = f" (and {len(cluster.problems) - 1} more)" if len(cluster.problems) > 1 else ""
        yield f"{names.CLUSTER_METADATA_DIR} says nothing of the partitions: {cluster.problems[0].text}{more}"


def _log_directory(folder: str) -> LogDirectory | None:
    """Return the log directory around a partition; None where it cannot be listed."""
    try:
        return LogDirectory(folder)
    except OSError:
        return None
