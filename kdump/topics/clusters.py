"""The metadata of clusters that lies in log directories, found and read when it is first of use."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from kdump.disk.reading import is_directory
from kdump.errors import Problem
from kdump.formats import names
from kdump.releases import NEWEST, KafkaRelease
from kdump.storage.directory import LogDirectory
from kdump.storage.open import open_directory

if TYPE_CHECKING:
    from kdump.errors import Report
    from kdump.query.inventory import Placing
    from kdump.settings.sources import PropertyFile, Settings
    from kdump.topics.placement import Cluster
    from kdump.topics.transaction_ids import TransactionalIds


class ClusterMetadata(NamedTuple):
    """What tells of a log directory's partitions; None where nothing does, as where there are `problems`.

    `configs` are the settings in it by resource type and name, `broker_id` is that of the log directory's broker,
    `release` that of Kafka whose software it runs, as `4.3`, `metadata_version` the level of that feature. `kafka` is
    the release that kdump takes for it; the newest where nobody knows. `transaction_version` is the level of that
    feature, `next_producer_id` the first that the cluster has still to give out. `end` is how far the metadata
    go: their leader epoch and end offset; `cut` where a start cuts their log, and what follows does not count.
    `is_controller`: the node is a controller, and no broker. `ends_early`: the newest snapshot does, which its node
    takes for whole.
    """

    placing: Placing | None = None
    problems: tuple[Problem, ...] = ()
    configs: Mapping[tuple[int, str], Mapping[str, str]] = {}
    broker_id: int | None = None
    release: str | None = None
    metadata_version: int | None = None
    kafka: KafkaRelease = NEWEST
    transaction_version: int = 0
    next_producer_id: int | None = None
    end: tuple[int, int] = (-1, -1)
    cut: int | None = None
    is_controller: bool = False
    ends_early: bool = False

    def settings(self, files: Sequence[PropertyFile] = (), given: Mapping[str, str] | None = None) -> Settings:
        """Return the settings of the broker's topics, by `files` and by what is `given` outright too."""
        from kdump.settings.sources import Settings

        return Settings(self.configs, self.broker_id, files, given or {})


class Clusters:
    """The clusters that the log directories among some paths know of."""

    def __init__(self, paths: Iterable[str]) -> None:
        """`paths` are those that are looked at together."""
        self._paths = list(paths)
        self._by_directory: dict[str, ClusterMetadata] = {}
        self._read_already: dict[str, ClusterMetadata] = {}
        self._ids: dict[str, TransactionalIds] = {}

    @classmethod
    def around(cls, paths: Collection[str]) -> Clusters:
        """Return those that log directories at these paths, or of what is there, know of."""
        return cls({os.path.dirname(os.path.abspath(path)) for path in paths} | set(paths))

    def unread(self) -> Clusters:
        """Return the same, to be read again: what a running broker has changed meanwhile is in it then."""
        return Clusters(self._paths)

    def of(self, directory: LogDirectory) -> ClusterMetadata:
        """Return what tells of a log directory's partitions, and why the metadata in it is of no use.

        That in the directory itself comes first, then that in another one of the same broker.
        """
        known = self._by_directory.get(directory.path)
        if known is None:
            known = self._by_directory[directory.path] = self._find(directory)
        return known

    def transactional_ids(self, directory: LogDirectory) -> TransactionalIds:
        """Return the transactional ids whose coordinators' states are in a log directory and the others at hand.

        What cannot be read of them is skipped: it is said where their partition is verified.
        """
        path = os.path.realpath(directory.path)
        if path not in self._ids:
            from kdump.storage.replica import replicas
            from kdump.topics.transaction_ids import TransactionalIds

            places = {os.path.realpath(place.path): place for place in (*self._log_directories(), directory)}
            ignored: list[Problem] = []
            self._ids[path] = TransactionalIds.among(replicas(places.values(), ignored.append), ignored.append)
        return self._ids[path]

    def _log_directories(self) -> Iterator[LogDirectory]:
        for path in self._paths:
            with suppress(OSError):
                place = open_directory(path)
                if isinstance(place, LogDirectory):
                    yield place

    def _find(self, directory: LogDirectory) -> ClusterMetadata:
        if names.CLUSTER_METADATA_DIR in directory.directories:
            return self._read(directory)
        problems: list[Problem] = []
        for other in self._with_metadata(problems.append):
            from kdump.query.inventory import owner_of

            owner = owner_of(directory)
            if owner and owner_of(other) == owner:
                return self._read(other)._replace(problems=())
        return ClusterMetadata(problems=tuple(problems))

    def with_metadata(self) -> list[LogDirectory]:
        """Return the log directories among the paths that have a metadata log, as far as they can be listed."""
        return list(self._with_metadata(lambda _: None))

    def _with_metadata(self, report: Report) -> Iterator[LogDirectory]:
        for path in self._paths:
            place = os.path.join(path, names.CLUSTER_METADATA_DIR)
            try:
                if is_directory(place):
                    yield LogDirectory(path)
            except PermissionError:
                pass  # who reads the log directory says so
            except OSError as error:
                report(Problem(place, None, error.strerror or str(error), is_unreadable=True))

    def _read(self, directory: LogDirectory) -> ClusterMetadata:
        path = os.path.realpath(directory.path)
        if path not in self._read_already:
            problems: list[Problem] = []
            cluster = self._cluster_in(directory, problems.append)
            if cluster:
                placing = cluster.placement if cluster.is_filled else None
                facts = (getattr(cluster, name) for name in ClusterMetadata._fields[2:])
                found = ClusterMetadata(placing, tuple(problems), *facts)
            else:
                found = ClusterMetadata(problems=tuple(problems))
            self._read_already[path] = found
        return self._read_already[path]

    def _cluster_in(self, directory: LogDirectory, report: Report) -> Cluster | None:
        """Return what the metadata in a log directory tell; None where they are not to be trusted."""
        from kdump.topics.placement import cluster_beside  # with all schemas of the metadata's records

        return cluster_beside(directory, report)
