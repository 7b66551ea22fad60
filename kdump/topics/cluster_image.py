"""The state of a cluster that KRaft's metadata records add up to: topics, brokers, configurations, access and so on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from typing import Any

from kdump.errors import KdumpError
from kdump.formats.config_resources import TOPIC_RESOURCE
from kdump.formats.schemas.cluster_metadata import NO_LEADER_CHANGE
from kdump.formats.schemas.framing import Decoded
from kdump.formats.uuids import format_uuid
from kdump.releases import METADATA_VERSION

ACL_RESOURCES = {2: "TOPIC", 3: "GROUP", 4: "CLUSTER", 5: "TRANSACTIONAL_ID", 6: "DELEGATION_TOKEN", 7: "USER"}
ACL_PATTERNS = {3: "LITERAL", 4: "PREFIXED"}
ACL_PERMISSIONS = {2: "DENY", 3: "ALLOW"}
ACL_OPERATIONS = {
    2: "ALL",
    3: "READ",
    4: "WRITE",
    5: "CREATE",
    6: "DELETE",
    7: "ALTER",
    8: "DESCRIBE",
    9: "CLUSTER_ACTION",
    10: "DESCRIBE_CONFIGS",
    11: "ALTER_CONFIGS",
    12: "IDEMPOTENT_WRITE",
    13: "CREATE_TOKENS",
    14: "DESCRIBE_TOKENS",
    15: "TWO_PHASE_COMMIT",
}

SCRAM_MECHANISMS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
"""Kafka: ScramMechanism.type."""

_NO_CHANGE = -1

Fields = dict[str, Any]
Handler = Callable[["ClusterImage", Fields], None]


@dataclass(slots=True)
class Topic:
    """A topic: the fields of its partitions' PartitionRecords by number, as changes left them.

    `unclean_epochs` are the leader epochs that began with the last unclean election of a partition, where the records
    that were read tell of one.
    """

    name: str
    topic_id: bytes
    partitions: dict[int, Fields] = field(default_factory=dict)
    unclean_epochs: dict[int, int] = field(default_factory=dict, compare=False)


@dataclass(slots=True)
class ClusterImage:
    """The state. Where nothing else is said the values are the fields of the records (formats.schemas)."""

    topics: dict[bytes, Topic] = field(default_factory=dict)
    configs: dict[tuple[int, str], dict[str, str]] = field(default_factory=dict)
    brokers: dict[int, Fields] = field(default_factory=dict)
    controllers: dict[int, Fields] = field(default_factory=dict)
    features: dict[str, int] = field(default_factory=dict)
    quotas: dict[tuple[tuple[str, str | None], ...], dict[str, float]] = field(default_factory=dict)
    producer_ids: Fields | None = None
    acls: dict[bytes, Fields] = field(default_factory=dict)
    scram: dict[tuple[str, int], Fields] = field(default_factory=dict)
    tokens: dict[str, Fields] = field(default_factory=dict)
    zk_migration_state: int | None = None

    def apply(self, record: Decoded) -> None:
        """Take a record, other than those that frame a transaction, into the state.

        Raises KdumpError for one that does not fit those before it; the state is then as it was.
        """
        handler = _HANDLERS.get(record.name)
        if handler is None:
            raise KdumpError(f"{record.name} has no place in the state")
        handler(self, record.fields)

    def supported_metadata_version(self, broker_id: int | None) -> int | None:
        """Return the highest level of metadata.version that a broker's software supports, which names its release.

        That of any broker where this one is not registered; None where none is.
        """
        own = self.brokers.get(-1 if broker_id is None else broker_id)
        brokers = [own] if own else self.brokers.values()
        features = (feature for broker in brokers for feature in broker["features"])
        levels = [feature["maxSupportedVersion"] for feature in features if feature["name"] == METADATA_VERSION]
        return max(levels, default=None)

    def topic(self, topic_id: bytes) -> Topic:
        """Return the topic of an id. Raises KdumpError."""
        found = self.topics.get(topic_id)
        if found is None:
            raise KdumpError(f"there is no topic with the id {format_uuid(topic_id)}")
        return found

    def broker(self, broker_id: int, epoch: int) -> Fields:
        """Return the broker of an id, in this epoch. Raises KdumpError."""
        found = self.brokers.get(broker_id)
        if found is None:
            raise KdumpError(f"there is no broker {broker_id}")
        if found["brokerEpoch"] != epoch:
            raise KdumpError(f"broker {broker_id} is in epoch {found['brokerEpoch']}, not in {epoch}")
        return found


def _keep(table: str, *key: str) -> Handler:
    """Return what keeps a record whole in a table of the state, by these of its fields."""
    key_of = itemgetter(*key)

    def keep(image: ClusterImage, fields: Fields) -> None:
        getattr(image, table)[key_of(fields)] = fields

    return keep


def _remove(table: str, *key: str, what: str) -> Handler:
    """Return what removes an entry of a table of the state; `what` it is, should there be none."""
    key_of = itemgetter(*key)

    def remove(image: ClusterImage, fields: Fields) -> None:
        if getattr(image, table).pop(key_of(fields), None) is None:
            name = fields[key[0]]
            raise KdumpError(f"there is no {what} {format_uuid(name) if isinstance(name, bytes) else name}")

    return remove


def _topic(image: ClusterImage, fields: Fields) -> None:
    image.topics[fields["topicId"]] = Topic(fields["name"], fields["topicId"])


def _remove_topic(image: ClusterImage, fields: Fields) -> None:
    removed = image.topic(fields["topicId"])
    del image.topics[removed.topic_id]
    image.configs.pop((TOPIC_RESOURCE, removed.name), None)


def _partition(image: ClusterImage, fields: Fields) -> None:
    topic, number = image.topic(fields["topicId"]), fields["partitionId"]
    topic.partitions[number] = fields
    _note_unclean_election(topic, number, fields)


def _note_unclean_election(topic: Topic, number: int, partition: Fields) -> None:
    if partition["leaderRecoveryState"]:
        topic.unclean_epochs[number] = partition["leaderEpoch"]


def _change_partition(image: ClusterImage, change: Fields) -> None:
    topic = image.topic(change["topicId"])
    number = change["partitionId"]
    partition = topic.partitions.get(number)
    if partition is None:
        raise KdumpError(f"there is no partition {number} of topic {topic.name}")
    for name in ("isr", "replicas", "removingReplicas", "addingReplicas", "eligibleLeaderReplicas", "lastKnownElr"):
        if change[name] is not None:
            partition[name] = change[name]
    if change["directories"]:
        partition["directories"] = change["directories"]
    if change["leader"] != NO_LEADER_CHANGE:
        partition["leader"] = change["leader"]
        partition["leaderEpoch"] += 1
    if change["leaderRecoveryState"] != _NO_CHANGE:
        partition["leaderRecoveryState"] = change["leaderRecoveryState"]
        _note_unclean_election(topic, number, partition)
    partition["partitionEpoch"] += 1


def _clear_elr(image: ClusterImage, fields: Fields) -> None:
    """Clear the eligible leader replicas of a topic; without a name, of all topics."""
    name = fields["topicName"]
    chosen = [topic for topic in image.topics.values() if name in ("", topic.name)]
    if name and not chosen:
        raise KdumpError(f"there is no topic {name}")
    for topic in chosen:
        for partition in topic.partitions.values():
            partition["eligibleLeaderReplicas"] = partition["lastKnownElr"] = []


def _config(image: ClusterImage, fields: Fields) -> None:
    key = (fields["resourceType"], fields["resourceName"])
    values = image.configs.setdefault(key, {})
    if fields["value"] is None:
        values.pop(fields["name"], None)
    else:
        values[fields["name"]] = fields["value"]
    if not values:
        del image.configs[key]


def _unregister_broker(image: ClusterImage, fields: Fields) -> None:
    del image.brokers[image.broker(fields["brokerId"], fields["brokerEpoch"])["brokerId"]]


def _fence(image: ClusterImage, fields: Fields, *, is_fenced: bool) -> None:
    image.broker(fields["id"], fields["epoch"])["fenced"] = is_fenced


def _change_broker(image: ClusterImage, fields: Fields) -> None:
    broker = image.broker(fields["brokerId"], fields["brokerEpoch"])
    for name in ("fenced", "inControlledShutdown"):
        if fields[name]:
            broker[name] = fields[name] > 0
    if fields["logDirs"]:
        broker["logDirs"] = fields["logDirs"]
    if fields["cordonedLogDirs"] is not None:
        broker["cordonedLogDirs"] = fields["cordonedLogDirs"]


def _feature(image: ClusterImage, fields: Fields) -> None:
    """Set a feature's level; 0 switches it off."""
    if fields["featureLevel"]:
        image.features[fields["name"]] = fields["featureLevel"]
    else:
        image.features.pop(fields["name"], None)


def _quota(image: ClusterImage, fields: Fields) -> None:
    entity = tuple(sorted(((part["entityType"], part["entityName"]) for part in fields["entity"]), key=repr))
    quotas = image.quotas.setdefault(entity, {})
    if fields["remove"]:
        quotas.pop(fields["key"], None)
    else:
        quotas[fields["key"]] = fields["value"]
    if not quotas:
        del image.quotas[entity]


def _producer_ids(image: ClusterImage, fields: Fields) -> None:
    image.producer_ids = fields


def _zk_migration(image: ClusterImage, fields: Fields) -> None:
    image.zk_migration_state = fields["zkMigrationState"]


def _nothing(image: ClusterImage, fields: Fields) -> None:
    """Do nothing: the record only moves the log's end."""


_HANDLERS: dict[str, Handler] = {
    "RegisterBrokerRecord": _keep("brokers", "brokerId"),
    "UnregisterBrokerRecord": _unregister_broker,
    "TopicRecord": _topic,
    "PartitionRecord": _partition,
    "ConfigRecord": _config,
    "PartitionChangeRecord": _change_partition,
    "FenceBrokerRecord": partial(_fence, is_fenced=True),
    "UnfenceBrokerRecord": partial(_fence, is_fenced=False),
    "RemoveTopicRecord": _remove_topic,
    "DelegationTokenRecord": _keep("tokens", "tokenId"),
    "UserScramCredentialRecord": _keep("scram", "name", "mechanism"),
    "FeatureLevelRecord": _feature,
    "ClientQuotaRecord": _quota,
    "ProducerIdsRecord": _producer_ids,
    "BrokerRegistrationChangeRecord": _change_broker,
    "AccessControlEntryRecord": _keep("acls", "id"),
    "RemoveAccessControlEntryRecord": _remove("acls", "id", what="access control entry"),
    "NoOpRecord": _nothing,
    "ZkMigrationStateRecord": _zk_migration,
    "RemoveUserScramCredentialRecord": _remove("scram", "name", "mechanism", what="SCRAM credential of"),
    "RemoveDelegationTokenRecord": _remove("tokens", "tokenId", what="delegation token"),
    "RegisterControllerRecord": _keep("controllers", "controllerId"),
    "ClearElrRecord": _clear_elr,
    "UnregisterControllerRecord": _remove("controllers", "controllerId", what="controller"),
}
