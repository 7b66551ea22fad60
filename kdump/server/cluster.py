"""The cluster that log directories make: its nodes, its topics, and which replica of a partition is served."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from kdump.disk.locks import check_not_locked
from kdump.disk.reading import read_small
from kdump.errors import KdumpError, NameFormatError, Problem, Report
from kdump.formats import names
from kdump.formats.metadata_files import parse_partition_metadata
from kdump.formats.names import parse_partition_dir
from kdump.server.open_files import OpenFiles
from kdump.server.partition import ServedPartition
from kdump.server.pieces import OnDamage
from kdump.server.served_log import Log
from kdump.settings.node import address_text
from kdump.storage.broker import BrokerIdentity, identity_of
from kdump.storage.checkpoint_files import read_leader_epochs
from kdump.storage.checkpoints import Checkpoints, checkpoint_versions
from kdump.storage.directory import LogDirectory
from kdump.storage.facts import log_end_offset
from kdump.storage.partition import PartitionLog
from kdump.storage.replica import Replica
from kdump.topics.cluster_image import ClusterImage, Fields
from kdump.topics.metadata_log import MetadataState, state_beside

CLUSTER_ID = "kdump-serve-cluster-id"
"""Where no directory says which cluster it belongs to. It has as many characters as Kafka's."""
NODE_ID = 1
MAX_PARTITIONS = 100_000
"""Of a topic: a directory's name may end with any number, and clients are told of every partition below it."""


class Address(NamedTuple):
    """Where a node listens."""

    host: str
    port: int

    def __str__(self) -> str:
        """Return it as clients are configured: an IPv6 address stands in brackets."""
        return address_text(self.host, self.port)


@dataclass(slots=True)
class Node:
    """A broker: its log directories, and the cluster's state as its metadata log has it (None: not at hand)."""

    node_id: int
    directories: list[LogDirectory] = field(default_factory=list)
    state: MetadataState | None = None


@dataclass(slots=True)
class PartitionPaths:
    """A partition and the paths of its replicas by node; `leader` is the node that serves it, -1 if none can.

    `replicas` and `isr` are those of the cluster's metadata, else the nodes at hand; `known_epoch` is the leader epoch
    that it has, -1 where it does not say.
    """

    number: int
    paths: dict[int, str] = field(default_factory=dict)
    leader: int = -1
    known_epoch: int = -1
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    _epoch: int | None = None

    @property
    def leader_epoch(self) -> int:
        """The present leader epoch: the metadata's, or the last one of the log if that is higher; -1 without a leader.

        It is read when it is first asked for.
        """
        if self._epoch is None:
            written = max(_last_epoch(self.paths[self.leader]), 0) if self.leader >= 0 else -1
            self._epoch = max(self.known_epoch, written)
        return self._epoch


@dataclass(slots=True)
class ServedTopic:
    """A topic with all its partitions, in the order of their numbers, those that are not at hand among them."""

    name: str
    topic_id: bytes
    places: list[PartitionPaths] = field(default_factory=list)

    @property
    def is_internal(self) -> bool:
        """Whether it is one of Kafka's own."""
        return self.name in names.INTERNAL_TOPICS

    def place(self, number: int) -> PartitionPaths | None:
        """Return the partition of a number."""
        return self.places[number] if 0 <= number < len(self.places) else None


class ServedCluster:
    """All that is served. Nothing of a log is read before it is asked for."""

    def __init__(
        self,
        places: Iterable[LogDirectory | PartitionLog],
        on_damage: OnDamage,
        report: Report,
        say: Log,
        *,
        ignores_lock: bool = False,
    ) -> None:
        """`report` is given what cannot be read now, `say` a line for what is met later.

        Raises NameFormatError for a partition that clients cannot name, InUseError where a broker runs on a directory
        or a kdump changes it, unless locks are ignored; KdumpError, OSError.
        """
        places = list(places)
        for place in places:
            if isinstance(place, PartitionLog) and (place.name is None or place.name.state):
                raise NameFormatError(f"{place.path}: the name is not <topic>-<partition>, as clients know it")
        if not ignores_lock:
            for directory in dict.fromkeys(map(_log_directory, places)):
                check_not_locked(directory)
        self._cluster_id: str | None = None
        self.nodes: dict[int, Node] = {}
        self.topics: dict[str, ServedTopic] = {}
        self.addresses: dict[int, Address] = {}
        self._on_damage = on_damage
        self._report = report
        self._say = say
        self._files = OpenFiles()
        self._read: dict[str, tuple[object, Checkpoints]] = {}
        self._open: dict[tuple[int, str, int], ServedPartition] = {}
        found: dict[str, dict[int, PartitionPaths]] = {}
        for place in places:
            self._add(place, found)
        if not self.nodes:
            self.nodes[NODE_ID] = Node(NODE_ID)
        states = (node.state for node in self.nodes.values() if node.state is not None)
        newest = max(states, key=lambda state: (state.epoch, state.end_offset), default=None)
        self.image: ClusterImage | None = newest.image if newest else None
        for name in sorted(found.keys() | self._known_topics().keys()):
            self.topics[name] = self._topic(name, found.get(name, {}))
        self.names = {topic.topic_id: topic.name for topic in self.topics.values()}

    # --- what there is ---

    @property
    def cluster_id(self) -> str:
        """That of the directories, else one of our own."""
        return self._cluster_id or CLUSTER_ID

    @property
    def controller_id(self) -> int:
        """The node that clients are told is the controller."""
        return min(self.nodes)

    @property
    def partitions(self) -> int:
        """How many partitions clients can read."""
        return sum(place.leader >= 0 for topic in self.topics.values() for place in topic.places)

    def address(self, node_id: int) -> Address:
        """Return where a node listens."""
        return self.addresses.get(node_id, Address("localhost", 9092))

    def configs(self) -> Mapping[tuple[int, str], Mapping[str, str]]:
        """Return the settings in the cluster's metadata by resource type and name."""
        return self.image.configs if self.image else {}

    def partition(self, node_id: int, topic: str, number: int) -> ServedPartition | None:
        """Return the replica of a node, opened if need be; None where it has none. Raises OSError."""
        known = self.opened(node_id, topic, number)
        if known is not None:
            return known
        found = self.topics.get(topic)
        place = found.place(number) if found else None
        path = place.paths.get(node_id) if place else None
        if found is None or path is None:
            return None
        replica = self._replica(path)
        others = [each for node, each in place.paths.items() if node != node_id] if place else []
        opened = ServedPartition(
            replica, found.topic_id, self._files, self._on_damage, self._say, copies=lambda: map(self._replica, others)
        )
        self._open[node_id, topic, number] = opened
        return opened

    def _replica(self, path: str) -> Replica:
        """Open a replica. Raises OSError."""
        log = PartitionLog(path)
        return Replica(log, self._checkpoints(os.path.dirname(path)).log_start_offset(log), None)

    def _checkpoints(self, folder: str) -> Checkpoints:
        """Return the log start offsets of a log directory, read again when a checkpoint has changed."""
        versions = checkpoint_versions(folder)
        if self._read.get(folder, (None,))[0] != versions:
            self._read[folder] = versions, Checkpoints.read(folder, (names.LOG_START_CHECKPOINT,))
        return self._read[folder][1]

    def opened(self, node_id: int, topic: str, number: int) -> ServedPartition | None:
        """Return the replica of a node, if it has been opened and nothing has changed since."""
        known = self._open.get((node_id, topic, number))
        return None if known is None or known.has_changed() else known

    def replicas(self, topic: str) -> Iterator[Replica]:
        """Yield the replicas of a topic's partitions that lead. Raises OSError."""
        found = self.topics.get(topic)
        for place in found.places if found else ():
            served = self.partition(place.leader, topic, place.number) if place.leader >= 0 else None
            if served is not None:
                yield served.replica

    # --- how it is found ---

    def _add(self, place: LogDirectory | PartitionLog, found: dict[str, dict[int, PartitionPaths]]) -> None:
        if isinstance(place, PartitionLog):
            path = os.path.abspath(place.path)
            parent = LogDirectory(os.path.dirname(path))
            self._take(self._node_of(parent), path, found)
            return
        node = self._node_of(place)
        for name in place.partition_names:
            self._take(node, os.path.join(os.path.abspath(place.path), name), found)

    def _node_of(self, directory: LogDirectory) -> Node:
        identity = self._identity(directory)
        if identity.cluster_id is not None:
            if self._cluster_id not in (None, identity.cluster_id):
                raise KdumpError(
                    f"{directory.path} belongs to cluster {identity.cluster_id}, the directories before it to"
                    f" {self._cluster_id}: serve each cluster with a command of its own"
                )
            self._cluster_id = identity.cluster_id
        node_id = NODE_ID if identity.node_id is None else identity.node_id
        node = self.nodes.setdefault(node_id, Node(node_id))
        path = os.path.abspath(directory.path)
        if path not in (os.path.abspath(each.path) for each in node.directories):
            node.directories.append(directory)
            if node.state is None:
                node.state = state_beside(directory, self._report)
        return node

    def _identity(self, directory: LogDirectory) -> BrokerIdentity:
        try:
            return identity_of(directory) or BrokerIdentity(None, None)
        except KdumpError as error:
            self._report(Problem(os.path.join(directory.path, names.META_PROPERTIES), None, str(error)))
            return BrokerIdentity(None, None)

    def _take(self, node: Node, path: str, found: dict[str, dict[int, PartitionPaths]]) -> None:
        try:
            name = parse_partition_dir(os.path.basename(path), path)
        except KdumpError:
            return
        if name.state or name.topic == names.CLUSTER_METADATA_TOPIC:
            return
        if name.partition >= MAX_PARTITIONS:
            self._report(Problem(path, None, f"not served: a partition number of {MAX_PARTITIONS} or more"))
            return
        place = found.setdefault(name.topic, {}).setdefault(name.partition, PartitionPaths(name.partition))
        before = place.paths.get(node.node_id)
        if before is None:
            place.paths[node.node_id] = path
        elif os.path.realpath(before) != os.path.realpath(path):
            longer = max((before, path), key=_end_of)
            self._say(f"{before} and {path} are the same partition: only {longer} is served")
            place.paths[node.node_id] = longer

    def _known_topics(self) -> dict[str, bytes]:
        return {topic.name: topic.topic_id for topic in self.image.topics.values()} if self.image else {}

    def _topic(self, name: str, places: dict[int, PartitionPaths]) -> ServedTopic:
        known = self._known_topics().get(name)
        paths = (path for place in places.values() for path in place.paths.values())
        topic_id = next(filter(None, map(_stored_id, paths)), None) or known
        topic = ServedTopic(name, topic_id or uuid.uuid5(uuid.NAMESPACE_URL, f"kafka-topic:{name}").bytes)
        partitions: dict[int, Fields] = {}
        if self.image and topic.topic_id in self.image.topics:
            partitions = self.image.topics[topic.topic_id].partitions
        for number in range(max([-1, *places, *partitions]) + 1):
            place = places.get(number) or PartitionPaths(number)
            _describe(place, partitions.get(number))
            topic.places.append(place)
        return topic


def _stored_id(path: str) -> bytes | None:
    """Return the topic id in partition.metadata; None where it does not say."""
    file = os.path.join(path, names.PARTITION_METADATA)
    with suppress(KdumpError, OSError):
        return parse_partition_metadata(read_small(file), file).topic_id
    return None


def _describe(place: PartitionPaths, fields: Fields | None) -> None:
    """Choose the leader: the metadata's, else one that was in sync, else the replica that reaches farthest."""
    at_hand = tuple(sorted(place.paths))
    place.replicas = place.isr = at_hand
    if fields is not None:
        place.replicas = tuple(fields["replicas"]) or at_hand
        place.isr = tuple(node for node in fields["isr"] if node in place.paths)
        place.known_epoch = fields["leaderEpoch"]
    if not at_hand:
        return
    candidates = [fields["leader"], *fields["isr"]] if fields is not None else []
    chosen = next((node for node in candidates if node in place.paths), None)
    if chosen is None:
        chosen = at_hand[0] if len(at_hand) == 1 else max(at_hand, key=lambda node: _end_of(place.paths[node]))
    place.leader = chosen
    if chosen not in place.isr:
        place.isr = (chosen, *place.isr)


def _log_directory(place: LogDirectory | PartitionLog) -> str:
    return os.path.dirname(os.path.abspath(place.path)) if isinstance(place, PartitionLog) else place.path


def _last_epoch(path: str) -> int:
    file = os.path.join(path, names.LEADER_EPOCH_CHECKPOINT)
    with suppress(KdumpError, OSError):
        return max((entry.epoch for entry in read_leader_epochs(file)), default=-1)
    return -1


def _end_of(path: str) -> int:
    with suppress(KdumpError, OSError):
        return log_end_offset(PartitionLog(path))
    return -1
