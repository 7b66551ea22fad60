"""The metadata of the new cluster: what the old one said, and what the copies at hand make of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

from kdump.cluster.choice import Chosen, leader_of, replica_order
from kdump.cluster.nodes import Node
from kdump.cluster.wanted import Note, NoteKind
from kdump.formats.config_resources import BROKER_RESOURCE, TOPIC_RESOURCE
from kdump.formats.printable import shell_word
from kdump.releases import (
    METADATA_VERSION,
    KafkaRelease,
    feature_levels,
    newest_metadata_version,
)
from kdump.settings.sources import HASHED_TOPICS, TopicSettings, built_in
from kdump.settings.table import RETENTION_BYTES, RETENTION_MS, UNCLEAN_LEADER_ELECTION
from kdump.topics.cluster_image import ClusterImage, Topic
from kdump.topics.partition_state import ELR_FEATURE

CORDONED_LOG_DIRS = "cordoned.log.dirs"
PRODUCER_ID_BLOCK = 1000
UNSEEN_PRODUCERS = 1_000_000
"""Blocks of producer ids that the old brokers may have handed out to clients that have written nothing yet."""


def created_with(topic: str) -> dict[str, str]:
    """Return the configs of a topic of which no metadata tells: those of Kafka's own, and nothing is deleted."""
    kept = {} if topic in HASHED_TOPICS else {RETENTION_MS.name: "-1", RETENTION_BYTES.name: "-1"}
    return {**built_in(topic), **kept}


def empty_image(release: KafkaRelease) -> ClusterImage:
    """Return the state of a cluster of which no metadata is left: that of one which this release has just formatted.

    Eligible leader replicas stay off: they can be switched on later.
    """
    levels = {name: level for name, level in feature_levels(release).items() if name != ELR_FEATURE}
    return ClusterImage(features={METADATA_VERSION: newest_metadata_version(release), **levels})


def new_image(old: ClusterImage, partitions: Sequence[Chosen], nodes: Sequence[Node]) -> ClusterImage:
    """Make the state of the new cluster: everything of the old one but its nodes and where its partitions are."""
    image = deepcopy(old)
    image.controllers = {}
    image.zk_migration_state = None
    image.brokers = {node.id: _registration(node) for node in nodes} if old.features.get(ELR_FEATURE, 0) else {}
    new_ids = new_node_ids(nodes)
    image.topics = {}
    for chosen in partitions:
        topic = image.topics.setdefault(chosen.topic_id, Topic(chosen.topic, chosen.topic_id))
        topic.partitions[chosen.partition] = _partition(chosen, nodes, new_ids)
    kept = {topic.name for topic in image.topics.values()}
    image.configs = dict(_configs(old.configs, kept, new_ids))
    return image


def new_node_ids(nodes: Iterable[Node]) -> dict[int, int]:
    """Map the ids of old nodes to those of the new ones that have their first log directory."""
    found: dict[int, int] = {}
    for node in nodes:
        for disk in node.disks:
            if disk.node_id is not None:
                found.setdefault(disk.node_id, node.id)
    return found


def _registration(node: Node) -> dict[str, Any]:
    """Return a fenced registration with the epoch that a broker reports which has no .kafka_cleanshutdown.

    With it the broker's first registration counts as one after a clean shutdown: else the controller would take it out
    of the ISR of every partition where eligible leader replicas are on (Kafka: ClusterControlManager.registerBroker).
    """
    return {
        "brokerId": node.id,
        "brokerEpoch": -1,
        "incarnationId": bytes(16),
        "endPoints": [],
        "features": [],
        "rack": None,
        "fenced": True,
        "logDirs": sorted(set(node.directory_ids.values())),
    }


def _partition(chosen: Chosen, nodes: Sequence[Node], new_ids: dict[int, int]) -> dict[str, Any]:
    """Return the PartitionRecord: only the best copy is in sync, and has to be elected first."""
    by_id = {node.id: node for node in nodes}
    replicas = replica_order(chosen, new_ids)
    directories = []
    for node in replicas:
        disk = chosen.replicas[node].disk if node in chosen.replicas else by_id[node].disks[0]
        directories.append(by_id[node].directory_id(disk))
    return {
        "partitionId": chosen.partition,
        "topicId": chosen.topic_id,
        "replicas": replicas,
        "isr": [leader_of(chosen)],
        "removingReplicas": [],
        "addingReplicas": [],
        "leader": -1,
        "leaderRecoveryState": 0,
        "leaderEpoch": chosen.highest_epoch + 1,
        "partitionEpoch": chosen.old["partitionEpoch"] + 1 if chosen.old else 0,
        "directories": directories,
        "eligibleLeaderReplicas": None,
        "lastKnownElr": None,
    }


def _configs(
    old: Mapping[tuple[int, str], dict[str, str]], topics: set[str], new_ids: dict[int, int]
) -> Iterator[tuple[tuple[int, str], dict[str, str]]]:
    """Yield the configs of what still is there; those of brokers under their new ids."""
    for (kind, name), values in old.items():
        if kind == BROKER_RESOURCE and name:
            node = new_ids.get(int(name)) if name.lstrip("-").isdecimal() else None
            if node is not None:
                yield (kind, str(node)), dict(values)
        elif kind != TOPIC_RESOURCE or name in topics:
            yield (kind, name), dict(values)


def leave_out_cordons(image: ClusterImage) -> Iterator[Note]:
    """Take cordoned.log.dirs out of the brokers' configs, and say how directories are cordoned again.

    A broker refuses paths that are not in its log.dirs, and with them every other dynamic config of the same resource,
    without more than a line in its log (seen with Kafka 4.3 and 4.4; KIP-1066).
    """
    for (kind, name), values in list(image.configs.items()):
        if kind == BROKER_RESOURCE and CORDONED_LOG_DIRS in values:
            command = _alter(kind, name, f"{CORDONED_LOG_DIRS}=[PATH,...]")
            text = f"{CORDONED_LOG_DIRS}={values.pop(CORDONED_LOG_DIRS)} is left out; to cordon directories: {command}"
            yield Note(NoteKind.SETTING, f"broker {name}" if name else "all brokers", text)
            if not values:
                del image.configs[kind, name]


def hold_unclean_election(image: ClusterImage) -> Iterator[Note]:
    """Switch unclean leader election off wherever it is on, and say how it is switched on again.

    With it a broker that comes up before the best copy's would be elected, and all copies cut to its own.
    """
    for (kind, name), values in image.configs.items():
        if TopicSettings.of(values).is_on(UNCLEAN_LEADER_ELECTION):
            setting = UNCLEAN_LEADER_ELECTION.name
            values[setting] = "false"
            command = _alter(kind, name, f"{setting}=true")
            text = f"{setting}=false for the first start; when all replicas are in sync: {command}"
            yield Note(NoteKind.SETTING, name or "all brokers", text)


def hold_retention(image: ClusterImage, topics: Iterable[str]) -> Iterator[Note]:
    """Switch the retention of these topics off, and say how it is switched on again."""
    for topic in topics:
        values = image.configs.setdefault((TOPIC_RESOURCE, topic), {})
        for name in (RETENTION_MS.name, RETENTION_BYTES.name):
            old = values.get(name)
            values[name] = "-1"
            change = f"--add-config {shell_word(f'{name}={old}')}" if old is not None else f"--delete-config {name}"
            command = f"kafka-configs.sh --bootstrap-server HOST:PORT --alter --topic {shell_word(topic)} {change}"
            yield Note(NoteKind.SETTING, topic, f"{name}=-1 for now; to go back: {command}")


def _alter(kind: int, name: str, change: str) -> str:
    broker = f"--broker {shell_word(name)}" if name else "--broker-defaults"
    what = f"--topic {shell_word(name)}" if kind == TOPIC_RESOURCE else broker
    return f"kafka-configs.sh --bootstrap-server HOST:PORT --alter {what} --add-config {change}"


def next_producer_id(old: ClusterImage, highest_seen: int) -> int:
    """Return the first producer id that nobody has: too low a one makes brokers take new records for old duplicates.

    The old state's is enough, as ids are handed out in blocks that it counts first. Without one there may be blocks
    that were handed out and never used.
    """
    known = int(old.producer_ids["nextProducerId"]) if old.producer_ids else 0
    if old.producer_ids and known > highest_seen:
        return known
    blocks = (max(highest_seen, known) + PRODUCER_ID_BLOCK) // PRODUCER_ID_BLOCK + 1
    return blocks * PRODUCER_ID_BLOCK + UNSEEN_PRODUCERS
