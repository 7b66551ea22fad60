"""The copies of partitions in the log directories of several brokers: loaded, compared, and each as leader.

    for found in Replicas([LogDirectory("/b1"), LogDirectory("/b2")], now, report).partitions():
        ...

Nothing is written. What cannot be read is reported, and the rest goes on.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from kdump.disk.pace import Pace
from kdump.disk.reading import is_directory
from kdump.errors import CheckpointError, ConfigError, KdumpError, Problem, Report
from kdump.formats import names
from kdump.formats.checkpoints import EpochEntry, parse_leader_epochs
from kdump.operations.compared import Copy, MetadataSource, PartitionReplicas
from kdump.recovery.broker_start import DirectoryState, directory_state
from kdump.recovery.loader import load_log
from kdump.recovery.outcome import LoadOutcome
from kdump.recovery.startup import Startup
from kdump.replication.choice import NO_LOG, Replica, choices
from kdump.replication.compare import Contents, compare
from kdump.replication.front import lost_front
from kdump.replication.joined import Found, Joined, PartitionKey, join
from kdump.replication.lost_keys import key_comparisons, partition_keys
from kdump.replication.truncation import LoadedLog
from kdump.settings.loading import LoadingSettings
from kdump.settings.sources import PropertyFile, Settings
from kdump.settings.table import CLEANUP_POLICY, COMPACT
from kdump.storage.broker import BrokerIdentity, PartitionPlaces, identity_of
from kdump.storage.directory import LogDirectory
from kdump.storage.live import held, opened
from kdump.storage.partition import PartitionLog
from kdump.storage.planned import content_of
from kdump.topics.metadata_log import MetadataState, state_beside
from kdump.topics.partition_state import PartitionState, state_of_partition

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class _Cluster:
    """The newest metadata of a cluster."""

    state: MetadataState
    source: MetadataSource


def is_empty(path: str) -> bool:
    """Return whether a directory has nothing in it: a disk of a broker that has lost all. Raises OSError."""
    return is_directory(path) and not os.listdir(path)


class Replicas:
    """The copies in several places; each log directory around one counts for its checkpoints and its broker."""

    def __init__(
        self,
        places: Iterable[LogDirectory | PartitionLog],
        now: int,
        report: Report,
        *,
        pace: Pace | None = None,
        since_checkpoint: bool = False,
        empty: int = 0,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """`now` is the brokers' clock in ms; logs are read no faster than a `pace` allows.

        `since_checkpoint`: what lies below the recovery points of all copies is not compared. `empty` places more were
        given, disks with nothing on them: those of replicas that no other place is of. `properties` are the brokers'
        own settings. Raises OSError.
        """
        self._now = now
        self._empty = empty
        self._pace, self._since_checkpoint = pace, since_checkpoint
        self._report = report
        self._files = () if properties is None else (PropertyFile("", None, properties),)
        self._states: dict[str, DirectoryState] = {}
        self._owners: dict[str, BrokerIdentity | None] = {}
        self._cleaned: dict[str, dict[tuple[str, int], int]] = {}
        self._given: dict[str | None, set[int]] = {}
        self._clusters: dict[str | None, _Cluster] = {}
        self._found: list[Found] = []
        self.left = 0
        for place in places:
            if isinstance(place, LogDirectory):
                self._directory(place, is_whole=True)
                for name in place.partition_names:
                    self._add(os.path.join(place.path, name))
            else:
                folder = os.path.dirname(place.path.rstrip(os.sep)) or os.curdir
                self._tried(folder, partial(self._around, folder))
                self._add(place.path)

    @property
    def clusters(self) -> tuple[str, ...]:
        """The ids of the clusters that the places are of; copies are compared within each."""
        return tuple(sorted({owner.cluster_id for owner in self._owners.values() if owner and owner.cluster_id}))

    @property
    def brokers(self) -> tuple[int, ...]:
        """The ids of the brokers that the places are of."""
        return tuple(sorted({owner.node_id for owner in self._owners.values() if owner and owner.node_id is not None}))

    def partitions(
        self,
        chosen: Callable[[str], bool] = lambda _topic: True,
        numbers: Callable[[int], bool] = lambda _number: True,
        *,
        is_shared: bool = False,
        goes_on: Callable[[], bool] = lambda: True,
    ) -> Iterator[PartitionReplicas]:
        """Yield each partition of the topics and with the numbers that are chosen, by topic and number.

        With `is_shared` only those of which several brokers have a copy, or were in sync with one. Those that come when
        it no longer `goes_on` are only counted, in `left`.
        """
        for joined in join(self._found):
            if not chosen(joined.key.topic) or not numbers(joined.key.partition):
                continue
            if joined.key.topic == names.CLUSTER_METADATA_TOPIC or not joined.copies:
                continue
            if is_shared and not self._is_shared(joined):
                continue
            if not goes_on():
                self.left += 1
                continue
            self._check_duplicates(joined)
            result = self._tried(joined.copies[0].path, partial(self._partition, joined))
            if result is not None:
                yield result

    def _is_shared(self, joined: Joined) -> bool:
        """Return whether there is a copy of another broker, or ought to be one."""
        owners = {copy.owner for copy in joined.copies}
        if len(owners) > 1 or (None in owners and len(joined.copies) > 1):
            return joined.key.topic_id is not None or None not in owners
        state = _state_of(self._cluster_of(joined.key), joined.key)
        if state is None:
            return False
        here = {copy.broker for copy in joined.copies}
        if None in here:  # the disk of nobody may be that of the broker that lacks one
            return False
        return bool({*state.isr, *state.elr} & self._given.get(joined.key.cluster_id, set()) - here)

    def _cluster_of(self, key: PartitionKey) -> _Cluster | None:
        return self._clusters.get(key.cluster_id) or self._clusters.get(None)

    # --- what is there -----------------------------------------------------------------------------------------------

    def _around(self, folder: str) -> None:
        self._directory(LogDirectory(folder), is_whole=False)

    def _directory(self, directory: LogDirectory, *, is_whole: bool) -> None:
        path = os.path.abspath(directory.path)
        if path in self._states:
            return
        self._states[path] = state = directory_state(directory)
        for problem in state.problems:
            self._report(problem)
        for failure in state.failures:
            if is_whole or failure.file in directory.files:  # what else lies beside a named partition is not asked for
                self._report(Problem(os.path.join(directory.path, failure.file), None, failure.text))
        for warning in state.warnings if is_whole else ():
            self._report(Problem(directory.path, None, warning))
        self._owners[path] = owner = self._owner(directory)
        try:
            self._cleaned[path] = directory.checkpoint(names.CLEANER_CHECKPOINT)
        except (CheckpointError, OSError):
            self._cleaned[path] = {}  # directory_state has said so
        cluster_id = owner.cluster_id if owner else None
        if is_whole and owner is not None and owner.node_id is not None:
            self._given.setdefault(cluster_id, set()).add(owner.node_id)
        self._metadata(directory, owner)

    def _owner(self, directory: LogDirectory) -> BrokerIdentity | None:
        try:
            return identity_of(directory)
        except CheckpointError:  # directory_state has said so
            return None
        except OSError as error:
            self._report(Problem.unreadable(directory.path, error))
            return None

    def _metadata(self, directory: LogDirectory, owner: BrokerIdentity | None) -> None:
        """Take the metadata beside the logs if it is newer than what is known of the cluster."""
        problems: list[Problem] = []
        state = state_beside(directory, problems.append)
        for problem in problems:
            if not (problem.is_unreadable or problem.is_newer):
                problem = problem._replace(text=f"{problem.text} (this copy of the cluster metadata is not used)")
            self._report(problem)
        if state is None or not state.image.topics:
            return
        cluster_id = owner.cluster_id if owner else None
        known = self._clusters.get(cluster_id)
        if known is None or (state.epoch, state.end_offset) > (known.state.epoch, known.state.end_offset):
            node_id = owner.node_id if owner else None
            source = MetadataSource(directory.path, node_id, state.end_offset, state.timestamp)
            self._clusters[cluster_id] = _Cluster(state, source)

    def _add(self, path: str) -> None:
        def examine() -> None:
            log = opened(path)
            if log is None or log.name is None:
                return
            folder = os.path.dirname(os.path.abspath(path))
            topic_id = None
            try:
                topic_id = log.metadata.topic_id if log.metadata else None
            except CheckpointError as error:
                self._report(Problem(os.path.join(path, names.PARTITION_METADATA), None, str(error)))
            self._found.append(Found(path, log.name, self._owners.get(folder), topic_id))

        self._tried(path, examine)

    def _check_duplicates(self, joined: Joined) -> None:
        """Report a broker that has a partition twice: it does not start (LogManager.loadLog)."""
        places = PartitionPlaces()
        for copy in joined.copies:
            before = places.add(copy.owner, copy.name, copy.path) if copy.owner else None
            if before is not None:
                text = f"broker {copy.broker} has this partition in {before} too: with both it does not start"
                self._report(Problem(copy.path, None, text))

    # --- one partition -----------------------------------------------------------------------------------------------

    def _partition(self, joined: Joined) -> PartitionReplicas:
        cluster = self._cluster_of(joined.key)
        state = _state_of(cluster, joined.key)
        with ExitStack() as stack:
            copies: list[tuple[Found, PartitionLog]] = []
            for found in joined.copies:
                log = stack.enter_context(held(found.path))
                if log is not None:
                    copies.append((found, log))
            return self._compared(joined, copies, cluster, state)

    def _compared(
        self,
        joined: Joined,
        found: list[tuple[Found, PartitionLog]],
        cluster: _Cluster | None,
        state: PartitionState | None,
    ) -> PartitionReplicas:
        compacts = any(self._compacts(each, cluster) for each, _ in found)
        starts = [self._cleaned_up_to(each) if compacts else 0 for each, _ in found]
        begin = 0
        if self._since_checkpoint:
            points = (self._state_around(each.path).shutdown_of(log).recovery_point for each, log in found)
            begin = min(points, default=0)
        compared = compare([log for _, log in found], starts, begin=begin, pace=self._pace)
        copies = [self._copy(each, log, compared.contents[number], cluster) for number, (each, log) in enumerate(found)]
        fronts = [copy.front for copy in copies]
        keys = partition_keys([log for _, log in found], [copy.log for copy in copies], compared, starts, fronts)
        replicas = [
            Replica(copy.broker, number, copy.log, found[number][1], copy.contents.damaged, copy.front)
            for number, copy in enumerate(copies)
        ]
        given = self._given.get(joined.key.cluster_id, set())
        here = {copy.broker for copy in copies}
        expected = set(state.replicas) if state else given
        absent = () if None in here else tuple(sorted((expected & given) - here))  # a disk of nobody may be theirs
        not_given = tuple(sorted(expected - given - here))
        if len(not_given) <= self._empty:
            absent, not_given = tuple(sorted({*absent, *not_given})), ()
        replicas += [Replica(broker, None, NO_LOG, None) for broker in (*absent, *not_given)]
        if state is not None:
            replicas = [each for each in replicas if each.broker is None or each.broker in state.replicas]
        return PartitionReplicas(
            joined.key,
            tuple(copies),
            compared.pairs,
            choices(replicas, compared, state, keys if compacts else None),
            state,
            cluster.source if cluster else None,
            absent,
            not_given,
            tuple(each.path for each in joined.aside),
            joined.namesakes,
            compacts,
            key_comparisons(keys, compared) if compacts and keys.is_cleaned else {},
        )

    def _copy(self, found: Found, log: PartitionLog, contents: Contents, cluster: _Cluster | None) -> Copy:
        directory = self._state_around(found.path)
        clean, recovery_point, log_start = directory.shutdown_of(log)
        try:
            config = LoadingSettings.of(self._settings(found, cluster).of(found.name.topic))
        except ConfigError:
            config = LoadingSettings()
        startup = Startup(self._now, clean, recovery_point, log_start, config)
        outcome = load_log(log, startup)
        mark = directory.high_watermark_of(log)
        loaded = _loaded_log(log, outcome, mark)
        front = None if config.has_remote_storage else lost_front(log, log.known_epochs, log_start, clean=clean)
        return Copy(found.path, found.broker, clean, contents, mark, loaded, outcome.loss, outcome.failure, front)

    def _state_around(self, path: str) -> DirectoryState:
        folder = os.path.dirname(os.path.abspath(path))
        return self._states.get(folder) or DirectoryState(folder, clean=False)

    def _settings(self, found: Found, cluster: _Cluster | None) -> Settings:
        return Settings(cluster.state.image.configs if cluster else {}, found.broker, self._files)

    def _cleaned_up_to(self, found: Found) -> int:
        folder = os.path.dirname(os.path.abspath(found.path))
        return self._cleaned.get(folder, {}).get((found.name.topic, found.name.partition), 0)

    def _compacts(self, found: Found, cluster: _Cluster | None) -> bool:
        try:
            settings = self._settings(found, cluster)
            policy = settings.of(found.name.topic, was_cleaned=self._cleaned_up_to(found) > 0).get(CLEANUP_POLICY)
            return COMPACT in policy
        except ConfigError:
            return self._cleaned_up_to(found) > 0

    def _tried(self, path: str, do: Callable[[], _Result]) -> _Result | None:
        try:
            return do()
        except (OSError, KdumpError) as error:
            self._report(Problem.unreadable(path, error))
        return None


def _state_of(cluster: _Cluster | None, key: PartitionKey) -> PartitionState | None:
    """Return what the metadata says of a partition; None where it knows none of that topic id."""
    if cluster is None:
        return None
    image = cluster.state.image
    for topic in image.topics.values():
        if topic.topic_id == key.topic_id if key.topic_id is not None else topic.name == key.topic:
            return state_of_partition(image, topic, key.partition) if key.partition in topic.partitions else None
    return None


def _loaded_log(log: PartitionLog, outcome: LoadOutcome, mark: int | None) -> LoadedLog | None:
    """Return what truncation needs of a log that was loaded; None where that fails."""
    if not outcome.ok:
        return None
    files = outcome.files or {}
    return LoadedLog(
        outcome.log_start_offset,
        outcome.log_end_offset,
        min((base for base, _ in names.live_logs(files)), default=outcome.log_start_offset),
        tuple(_epochs(log, outcome)),
        mark,
    )


def _epochs(log: PartitionLog, outcome: LoadOutcome) -> list[EpochEntry]:
    recipe = (outcome.files or {}).get(names.LEADER_EPOCH_CHECKPOINT)
    if recipe is None:
        return []
    data = b"".join(content_of(log.path, recipe))
    return parse_leader_epochs(data, os.path.join(log.path, names.LEADER_EPOCH_CHECKPOINT))
