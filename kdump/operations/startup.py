"""A broker's start over all the log directories at hand, in the plan: each log, each directory, and the broker itself.

    for event in BrokerStart(circumstances, clusters, report).directory(LogDirectory("/data")):
        ...

Nothing is written. What cannot be read is reported, and the rest goes on.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from kdump.disk.reading import is_named
from kdump.errors import RUNTIME, ConfigError, KdumpError, Problem, Report, check_number, check_type
from kdump.formats import names
from kdump.formats.config_resources import TOPIC_RESOURCE
from kdump.formats.names import LIVE, PartitionDirName
from kdump.recovery.broker_start import (
    DirectoryState,
    already_offline,
    directory_state,
    duplicate_failures,
    metadata_directory_failed,
    not_formatted_directory,
    not_together,
    pending_state,
    refused_properties,
    small_segments,
    unknown_metadata_version,
)
from kdump.recovery.loader import load_log
from kdump.recovery.outcome import Failure, LoadOutcome
from kdump.recovery.startup import Startup
from kdump.releases import UNSTABLE_FEATURES, KafkaRelease
from kdump.settings import node
from kdump.settings.loading import LoadingSettings
from kdump.settings.sources import Configs, PropertyFile, Settings, with_small_segments
from kdump.storage.around import directory_around
from kdump.storage.broker import BrokerDirectories, BrokerIdentity, other_node
from kdump.storage.directory import LogDirectory, holds_metadata_log
from kdump.storage.live import held, internal_errors, was_deleted
from kdump.storage.partition import PartitionLog
from kdump.topics.clusters import ClusterMetadata, Clusters

if TYPE_CHECKING:
    from kdump.retention.doubts import Doubt

_Read = TypeVar("_Read")

_HANDLED = (names.LEADER_EPOCH_CHECKPOINT, names.PARTITION_METADATA)
"""Files of a partition whose faults the broker notes for the whole directory at once."""


class StartupOptions(NamedTuple):
    """What is said of the start; None where the directory itself is to be asked.

    `now` is the broker's clock (ms), `properties` those of a server or a topic that win over the cluster's.
    `release` is the one that is to start; None: the one that wrote the directory.
    """

    clean: bool | None = None
    recovery_point: int | None = None
    log_start_offset: int | None = None
    now: int = 0
    properties: Mapping[str, str] = {}
    release: KafkaRelease | None = None

    def check(self) -> None:
        """Raise ValueError, TypeError for an offset that no log has, and for `clean` that is neither."""
        check_type("clean", self.clean, bool, may_be_none=True)
        check_number("recovery_point", self.recovery_point, 0, may_be_none=True)
        check_number("log_start_offset", self.log_start_offset, 0, may_be_none=True)

    @property
    def node_id(self) -> int | None:
        """The node that the properties are for; None where they do not say it."""
        try:
            return node.node_id(self.properties)
        except ConfigError:
            return None

    @property
    def is_controller(self) -> bool | None:
        """Whether the properties are those of a controller that is no broker; None where they do not say it."""
        roles = node.roles(self.properties)
        return None if roles is None else roles == {"controller"}

    @property
    def is_combined(self) -> bool:
        """Whether the properties are those of a controller that is a broker too."""
        return node.roles(self.properties) == frozenset(("broker", "controller"))

    def settings(self, configs: Configs, broker_id: int | None) -> Settings:
        """Return the settings of a broker's topics; `configs` are those in the cluster's metadata."""
        return Settings(configs, broker_id, (PropertyFile("", None, self.properties),))

    def loading(self, topic: str, settings: Settings, wrote: KafkaRelease) -> LoadingSettings:
        """Return what of a topic's settings decides how its logs are loaded. Raises ConfigError.

        The release that `wrote` the directory starts unless another one is to.
        """
        return LoadingSettings.of(settings.of(topic), self.release or wrote)

    def with_settings(self, log: PartitionLog, state: DirectoryState, loading: LoadingSettings) -> Startup:
        """Return the circumstances in which a log is loaded with these settings; `state` is its log directory's."""
        clean, recovery_point, log_start = state.shutdown_of(log)
        return Startup(
            self.now,
            clean if self.clean is None else self.clean,
            recovery_point if self.recovery_point is None else self.recovery_point,
            log_start if self.log_start_offset is None else self.log_start_offset,
            loading,
            state.checkpoints if state.checkpoints.folder else None,
        )


class Loaded(NamedTuple):
    """A partition and what loading makes of it.

    `state` is that of its directory (names.LIVE, …), `pending` what the broker does with it besides; None: serves it.
    `stray` says why the broker sets a served partition aside, None where it does not. `high_watermark` is the last one
    written down, None without. `expiring` are segments that retention deletes soon after the start, which the log does
    not prove to be due. `is_named`: it was asked for by itself.
    """

    path: str
    startup: Startup
    outcome: LoadOutcome
    state: str = LIVE
    pending: str | None = None
    high_watermark: int | None = None
    is_named: bool = False
    stray: str | None = None
    expiring: tuple[Doubt, ...] = ()

    @property
    def is_quiet(self) -> bool:
        """Whether there is nothing that somebody has to know about it."""
        is_whole = self.outcome.ok and not self.outcome.loss.has_data and self.stray is None and not self.expiring
        return is_whole and self.pending is None and self.committed_missing is None

    @property
    def has_findings(self) -> bool:
        """Whether data would be lost or go out of service."""
        return self.loses_by_loading or bool(self.expiring)

    @property
    def loses_by_loading(self) -> bool:
        """The same, before retention looks at it."""
        return not self.outcome.ok or self.outcome.loss.has_data or self.stray is not None

    @property
    def expiring_offsets(self) -> tuple[int, int] | None:
        """The first and the last offset that retention deletes soon after the start; None without any."""
        if not self.expiring:
            return None
        return min(doubt.first for doubt in self.expiring), max(doubt.stop for doubt in self.expiring) - 1

    @property
    def committed_missing(self) -> tuple[int, int] | None:
        """The first and the last of the committed offsets that will not be there, by the high watermark; else None."""
        end, mark = self.outcome.log_end_offset, self.high_watermark
        if not self.outcome.ok or self.state == names.DELETE or mark is None or mark <= end:
            return None
        return end, mark - 1


class BrokerStart:
    """One start of one broker or of several. Fill it with `directory` and `partition`; `end` comes last.

    `stops` are the failures that end a broker's process, `offline` the log directories that go offline, each with why;
    `by_order` are those of which the order of the partitions decides which of the two it is.
    `directories` are those that were given. `are_several`: they may be of several brokers of a cluster on purpose.
    """

    def __init__(
        self, circumstances: StartupOptions, clusters: Clusters, report: Report, *, are_several: bool = False
    ) -> None:
        """`report` hears of what cannot be read. Raises ValueError, TypeError for circumstances that cannot be."""
        circumstances.check()
        self.circumstances = circumstances
        self.clusters = clusters
        self.report = report
        self.are_several = are_several
        self.stops: list[Failure] = []
        self.offline: dict[str, Failure] = {}
        self.by_order: list[str] = []
        self.directories: list[str] = []
        self._ended: set[str] = set()
        self._absent: set[str] = set()
        self._first: DirectoryState | None = None
        self._together = BrokerDirectories()
        self._seen: list[tuple[BrokerIdentity | None, str, PartitionDirName]] = []
        self._roles: set[bool] = set()
        self._wrote: set[KafkaRelease] = set()

    @property
    def who(self) -> str:
        """Whose start it is, in a word: that of a `controller` where all directories are those of one."""
        return "controller" if self._roles == {True} else "broker"

    def directory(self, directory: LogDirectory) -> Iterator[DirectoryState | Loaded]:
        """Yield what is found of the directory, then each partition of it, by topic and number."""
        cluster, warnings = self._cluster(directory)
        given = self.circumstances.is_controller
        state = directory_state(directory, is_controller=cluster.is_controller if given is None else given)
        self._roles.add(state.is_controller)
        for problem in state.problems:
            self.report(problem)
        state = self._compared(directory, state._replace(warnings=(*state.warnings, *warnings)))
        self.directories.append(directory.path)
        yield state
        self._note(directory.path, (*state.failures, *self._misfits(directory, cluster)))
        has_fault = state.has_fault
        loaded: dict[str, Loaded] = {}
        for name in directory.partition_names:
            if state.is_controller and name != names.CLUSTER_METADATA_DIR:
                continue
            path = os.path.join(directory.path, name)
            found = self._attempt(path, partial(self._load, path, state, cluster))
            if found is None:
                continue
            loaded[name] = found
            self._note(directory.path, [found.outcome.failure] if found.outcome.failure else [])
            yield found
        self._note(directory.path, _ends_offline(directory.path, loaded, has_fault))
        failures = (found.outcome.failure for found in loaded.values())
        is_certain = has_fault or directory.path in self._ended or any(each and not each.offline for each in failures)
        if not is_certain and any(map(_finds_fault, loaded.values())) and any(map(_dies_of_fault, loaded.values())):
            self.by_order.append(directory.path)

    def _misfits(self, directory: LogDirectory, cluster: ClusterMetadata) -> Iterator[Failure]:
        """Yield what a broker cannot read of the cluster's metadata in a directory.

        That is its bootstrap.checkpoint, the newest snapshot, and what is not of the release that is to start.
        """
        if names.CLUSTER_METADATA_DIR not in directory.directories:
            return
        from kdump.recovery.bootstrap import bootstrap_failure

        path = os.path.join(directory.path, names.BOOTSTRAP_CHECKPOINT)
        if bootstrap := self._attempt(path, partial(bootstrap_failure, path)):
            yield bootstrap
        yield from self._unusable(os.path.join(directory.path, names.CLUSTER_METADATA_DIR), cluster)
        release, level = self.circumstances.release, cluster.metadata_version
        if release is None:
            return
        unstable = self.circumstances.properties.get(UNSTABLE_FEATURES, "").strip().lower() == "true"
        failure = None if level is None else unknown_metadata_version(release, level, with_unstable=unstable)
        if failure is not None:
            yield failure
        topics = ((name, given) for (kind, name), given in cluster.configs.items() if kind == TOPIC_RESOURCE)
        if small := sorted(with_small_segments(topics, release)):
            yield small_segments(release, small)

    def _unusable(self, path: str, cluster: ClusterMetadata) -> Iterator[Failure]:
        """Yield what ends the process of a node that reads the cluster's metadata, with its log at `path`."""
        from kdump.operations.started_clusters import contradiction_in

        wrong = contradiction_in(cluster)
        if wrong is None:
            return
        if snapshot := self._attempt(path, partial(_newest_snapshot_failure, path)):
            yield snapshot
        elif wrong.path != path and (self.circumstances.is_combined or self.circumstances.is_controller):
            yield Failure(RUNTIME, f"Error loading metadata: {wrong.text}", wrong.path, offline=False)

    def partition(self, path: str) -> Iterator[Loaded]:
        """Yield a partition that is asked for by itself; what is around it counts, if it can be read."""
        folder = directory_around(path)
        directory = self._attempt(folder, lambda: LogDirectory(folder))
        if directory is None:
            state, cluster = DirectoryState(folder, clean=False), ClusterMetadata()
        else:
            state, (cluster, _) = directory_state(directory), self._cluster(directory)
            for problem in state.problems:
                self.report(problem)
        found = self._attempt(path, partial(self._load, path, state, cluster, is_named=True))
        if found is not None:
            self._note(folder, [found.outcome.failure] if found.outcome.failure else [])
            yield found

    def end(self) -> list[Failure]:
        """Return failures that show only when all partitions are known; all are in `stops` as well."""
        failures = [*duplicate_failures(self._seen), *self._unformatted(), *self._refused()]
        self.stops += failures
        return failures

    def _refused(self) -> Iterator[Failure]:
        """Yield what of the properties the release does not take that is to start, or that wrote the directories."""
        release = self.circumstances.release or max(self._wrote, default=None)
        if release is not None:
            yield from refused_properties(release, self.circumstances.properties)

    def _unformatted(self) -> Iterator[Failure]:
        """Yield what is said of the broker's log directories, by its properties, that have no meta.properties.

        Where none of those in the properties was asked for, others are: copies, in other places.
        """
        own = node.log_directories(self.circumstances.properties)
        looked_at = set(map(os.path.realpath, self.directories))
        if (looked_at | self._absent).isdisjoint(map(os.path.realpath, own)):
            return
        for path in filter(self._lacks, own):
            if os.path.realpath(path) not in looked_at:
                yield not_formatted_directory(path)

    def is_absent(self, path: str) -> bool:
        """Take a path at which nothing of Kafka's is; return whether `end` tells what its broker says of that.

        That is a log directory by the properties: as a rule, the mount point of a disk that is not mounted.
        """
        if not self._lacks(path):
            return False
        self._absent.add(os.path.realpath(path))
        return True

    def _lacks(self, path: str) -> bool:
        """Return whether a path is a log directory by the properties, but has no meta.properties."""
        known = map(os.path.realpath, node.log_directories(self.circumstances.properties))
        return os.path.realpath(path) in known and not is_named(os.path.join(path, names.META_PROPERTIES))

    def _compared(self, directory: LogDirectory, state: DirectoryState) -> DirectoryState:
        """Return the state, with what keeps the broker from starting where the directory does not go with those before.

        There is a warning where it is of another broker than the first one.
        """
        if state.broker is None or state.broker.node_id is None:
            return state
        meta = directory.meta_properties()
        fault = other_node(directory, state.broker.node_id, self.circumstances.node_id)
        if fault is None and meta:
            mismatch = self._together.add(directory.path, meta)
            fault = mismatch.text if mismatch else None
        if fault is not None:
            return state._replace(failures=(*state.failures, not_together(fault)))
        self._first = first = self._first or state
        if first.broker == state.broker or first.broker is None:
            return state
        if self.are_several and first.broker.cluster_id == state.broker.cluster_id:
            return state
        here, there = (f"node {each.node_id} of cluster {each.cluster_id}" for each in (state.broker, first.broker))
        text = (
            f"{names.META_PROPERTIES} is of another broker ({here}) than that of {first.path} ({there}): a broker that"
            " has both in its log.dirs does not start"
        )
        return state._replace(warnings=(*state.warnings, text))

    def _note(self, path: str, failures: list[Failure] | tuple[Failure, ...]) -> None:
        for failure in failures:
            if failure.offline:
                self.offline.setdefault(path, failure)
                if path not in self._ended and self._attempt(path, partial(holds_metadata_log, path)):
                    self._ended.add(path)
                    self.stops.append(metadata_directory_failed(path, failure))
            else:
                self.stops.append(failure)

    def _load(
        self, path: str, state: DirectoryState, cluster: ClusterMetadata, *, is_named: bool = False
    ) -> Loaded | None:
        """Return a partition as it is now; None where a running broker has deleted it meanwhile."""
        with held(path) as log:
            if log is None:
                return None
            if log.name and not is_named:
                self._seen.append((state.broker, path, log.name))
            return self._load_log(log, state, cluster, is_named)

    def _load_log(self, log: PartitionLog, state: DirectoryState, cluster: ClusterMetadata, is_named: bool) -> Loaded:
        settings = self.circumstances.settings(cluster.configs, cluster.broker_id)
        loading = self.circumstances.loading(log.name.topic if log.name else "", settings, cluster.kafka)
        startup = self.circumstances.with_settings(log, state, loading)
        outcome = load_log(log, startup)
        kind = log.name.state if log.name else LIVE
        stray = _stray(log, cluster) if outcome.ok else None
        expiring: tuple[Doubt, ...] = ()
        if outcome.ok and log.name and kind == LIVE and stray is None and not outcome.loss.has_data:
            from kdump.retention.doubts import deleted_after_start

            release = self.circumstances.release or cluster.kafka
            expiring = deleted_after_start(log, startup, outcome.log_end_offset, settings, release)
        mark = state.high_watermark_of(log)
        return Loaded(log.path, startup, outcome, kind, pending_state(log), mark, is_named, stray, expiring)

    def _cluster(self, directory: LogDirectory) -> tuple[ClusterMetadata, list[str]]:
        """Return the cluster's metadata, and a warning where what is in the directory cannot be used."""
        cluster = self.clusters.of(directory)
        if cluster.release is not None:
            self._wrote.add(cluster.kafka)
        for problem in cluster.problems:
            if problem.is_unreadable:
                self.report(problem)
        from kdump.operations.started_clusters import warnings_of

        return cluster, warnings_of(cluster)

    def _attempt(self, path: str, read: Callable[[], _Read]) -> _Read | None:
        """Return what `read` gives; None, and a report, where something cannot be read."""
        try:
            with internal_errors(path):
                return read()
        except (OSError, KdumpError) as error:
            if not was_deleted(path, error):
                self.report(Problem.unreadable(path, error))
        return None


def _newest_snapshot_failure(path: str) -> Failure | None:
    """Return what ends the process of a node that reads the newest snapshot beside a metadata log. Raises OSError."""
    from kdump.recovery.newest_snapshot import read_snapshot
    from kdump.topics.metadata_log import live_snapshots

    newest = next(live_snapshots(PartitionLog(path)), None)
    return None if newest is None else read_snapshot(newest).failure


def _stray(log: PartitionLog, cluster: ClusterMetadata) -> str | None:
    """Return why a broker sets a partition aside, by the cluster's metadata; None where it does not, or none knows."""
    if cluster.placing is None:
        return None
    placement = cluster.placing(log.name, log.metadata.topic_id if log.metadata else None)
    return placement.stray if placement else None


def _ends_offline(path: str, loaded: dict[str, Loaded], has_fault: bool) -> list[Failure]:
    """Return what ends the process because the directory is known to be faulty while it is loaded still.

    A broker loads in the order in which the system lists the directory.
    """
    with os.scandir(path) as entries:
        order = [entry.name for entry in entries if entry.name in loaded]
    for name in order:
        if has_fault and _dies_of_fault(loaded[name]):
            return [already_offline(path, name)]
        has_fault = has_fault or _finds_fault(loaded[name])
    return []


def _finds_fault(loaded: Loaded) -> bool:
    """Return whether the broker notes the whole directory as faulty when it loads this partition."""
    failure = loaded.outcome.failure
    return failure is not None and failure.file in _HANDLED


def _dies_of_fault(loaded: Loaded) -> bool:
    """Return whether the process ends at this partition where the directory has been noted as faulty before."""
    return loaded.outcome.ok and (loaded.outcome.fails_offline or loaded.stray is not None)
