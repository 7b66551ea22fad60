"""The objects of `kdump metadata`: rows in JSON, and what the tables show; docs/groups-txns-metadata.md has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import isfinite
from typing import Any, NamedTuple

from kdump.formats.config_resources import RESOURCE_TYPES, TOPIC_RESOURCE
from kdump.formats.uuids import format_uuid
from kdump.releases import METADATA_VERSION, metadata_version_name, release_name
from kdump.topics.cluster_image import (
    ACL_OPERATIONS,
    ACL_PATTERNS,
    ACL_PERMISSIONS,
    ACL_RESOURCES,
    SCRAM_MECHANISMS,
    ClusterImage,
    Topic,
)
from kdump.topics.metadata_log import MetadataState
from kdump.topics.partition_state import PartitionState, state_of_partition
from kdump.topics.secrets import is_secret

from ..shell.rows import fields_of

SECURITY_PROTOCOLS = {0: "PLAINTEXT", 1: "SSL", 2: "SASL_PLAINTEXT", 3: "SASL_SSL"}
ZK_MIGRATION_STATES = {0: "NONE", 1: "MIGRATION", 2: "PRE_MIGRATION", 3: "POST_MIGRATION", 4: "ZK"}
RECOVERY_STATES = {0: "RECOVERED", 1: "RECOVERING"}

Fields = dict[str, Any]


class Row(NamedTuple):
    """An object and its type."""

    type: str
    fields: Fields


def rows_of(
    state: MetadataState, chosen: Callable[[str], bool], has_partition: Callable[[int], bool], *, only_topics: bool
) -> Iterator[Row]:
    """Yield the objects of a state: the cluster, and then its parts; of topics those of chosen name and number."""
    image = state.image
    yield Row("cluster", _cluster(state))
    if not only_topics:
        yield from _nodes(image)
    for topic in sorted(image.topics.values(), key=lambda topic: (topic.name, topic.topic_id)):
        if chosen(topic.name):
            yield Row("topic", _topic(topic))
            for number in filter(has_partition, sorted(topic.partitions)):
                found = state_of_partition(image, topic, number)
                yield Row("partition", {"topic": topic.name} | _partition(topic.partitions[number], found))
    for (resource_type, name), values in sorted(image.configs.items()):
        if not only_topics or (resource_type == TOPIC_RESOURCE and chosen(name)):
            for key in sorted(values):
                yield Row("config", _config(resource_type, name, key, values[key]))
    if not only_topics:
        yield from _access(image)


def _nodes(image: ClusterImage) -> Iterator[Row]:
    for name, level in sorted(image.features.items()):
        yield Row("feature", {"name": name, "level": level})
    for broker_id in sorted(image.brokers):
        yield Row("broker", _broker(image.brokers[broker_id]))
    for controller_id in sorted(image.controllers):
        yield Row("controller", _controller(image.controllers[controller_id]))


def _access(image: ClusterImage) -> Iterator[Row]:
    for entity, quotas in sorted(image.quotas.items(), key=lambda item: repr(item[0])):
        who = [{"type": kind, "name": name} for kind, name in entity]
        for key in sorted(quotas):
            value = quotas[key]
            yield Row("quota", {"entity": who, "key": key, "value": value if isfinite(value) else str(value)})
    for name, mechanism in sorted(image.scram):
        yield Row("scramCredential", _scram(image.scram[name, mechanism]))
    for token_id in sorted(image.tokens):
        yield Row("delegationToken", _token(image.tokens[token_id]))
    for acl_id in sorted(image.acls):
        yield Row("acl", _acl(image.acls[acl_id]))


def _cluster(state: MetadataState) -> Fields:
    image = state.image
    level = image.features.get(METADATA_VERSION)
    supported, zk = image.supported_metadata_version(None), image.zk_migration_state
    return {
        **fields_of(state, "snapshot end_offset epoch timestamp?"),
        "metadataVersion": level,
        "metadataVersionName": None if level is None else metadata_version_name(level),
        "leader": state.leader,
        "voters": [_voter(voter) for voter in state.voters],
        "kraftVersion": state.kraft_version,
        "nextProducerId": image.producer_ids["nextProducerId"] if image.producer_ids else None,
        "zkMigrationState": None if zk is None else _named(ZK_MIGRATION_STATES, zk),
        **fields_of(state, "heldBackRecords=held_back held_back_since?"),
        "topics": len(image.topics),
        "partitions": sum(len(topic.partitions) for topic in image.topics.values()),
        "brokers": len(image.brokers),
        "release": None if supported is None else release_name(supported),
        "newerRecords": state.newer_records,
    }


def _voter(voter: Fields) -> Fields:
    return {
        "voterId": voter["voterId"],
        "directoryId": format_uuid(voter["voterDirectoryId"]),
        "endpoints": [_pick(endpoint, "name", "host", "port") for endpoint in voter.get("endpoints", ())],
    }


def _broker(broker: Fields) -> Fields:
    return _pick(broker, "brokerId", "brokerEpoch", "rack", "fenced", "inControlledShutdown", "isMigratingZkBroker") | {
        "incarnationId": format_uuid(broker["incarnationId"]),
        "endpoints": _endpoints(broker),
        "features": _features(broker),
        "logDirs": [format_uuid(directory) for directory in broker["logDirs"]],
        "cordonedLogDirs": [format_uuid(directory) for directory in broker["cordonedLogDirs"] or ()],
        "release": _release(broker),
    }


def _release(broker: Fields) -> str | None:
    """Return the release of a broker's software, by the highest level of metadata.version that it supports."""
    for feature in broker["features"]:
        if feature["name"] == METADATA_VERSION:
            return release_name(feature["maxSupportedVersion"])
    return None


def _controller(controller: Fields) -> Fields:
    return _pick(controller, "controllerId", "zkMigrationReady") | {
        "incarnationId": format_uuid(controller["incarnationId"]),
        "endpoints": _endpoints(controller),
        "features": _features(controller),
    }


def _endpoints(node: Fields) -> list[Fields]:
    return [
        _pick(endpoint, "name", "host", "port")
        | {"securityProtocol": _named(SECURITY_PROTOCOLS, endpoint["securityProtocol"])}
        for endpoint in node["endPoints"]
    ]


def _features(node: Fields) -> list[Fields]:
    return [_pick(feature, "name", "minSupportedVersion", "maxSupportedVersion") for feature in node["features"]]


def _topic(topic: Topic) -> Fields:
    return {"topic": topic.name, "topicId": format_uuid(topic.topic_id), "partitions": len(topic.partitions)}


def _partition(partition: Fields, state: PartitionState) -> Fields:
    return {
        "partition": partition["partitionId"],
        "leader": partition["leader"] if partition["leader"] >= 0 else None,
        **_pick(partition, "leaderEpoch", "partitionEpoch", "replicas", "isr"),
        "eligibleLeaderReplicas": partition["eligibleLeaderReplicas"] or [],
        "lastKnownElr": partition["lastKnownElr"] or [],
        **_pick(partition, "addingReplicas", "removingReplicas"),
        "leaderRecoveryState": _named(RECOVERY_STATES, partition["leaderRecoveryState"]),
        "directories": [format_uuid(directory) for directory in partition["directories"]],
        **fields_of(state, "minInsyncReplicas=min_insync is_under_replicated is_under_min_isr"),
        **fields_of(state, "nextLeader=leader_after?"),
    }


def _config(resource_type: int, name: str, key: str, value: str) -> Fields:
    is_hidden = is_secret(key)
    return {
        "resourceType": _named(RESOURCE_TYPES, resource_type),
        "resource": name,
        "name": key,
        "value": None if is_hidden else value,
        "hiddenLength": len(value) if is_hidden else None,
    }


def _scram(credential: Fields) -> Fields:
    return {
        "user": credential["name"],
        "mechanism": _named(SCRAM_MECHANISMS, credential["mechanism"]),
        "iterations": credential["iterations"],
        "saltBytes": len(credential["salt"]),
        "storedKeyBytes": len(credential["storedKey"]),
        "serverKeyBytes": len(credential["serverKey"]),
    }


def _token(token: Fields) -> Fields:
    return _pick(
        token, "tokenId", "owner", "requester", "renewers", "issueTimestamp", "maxTimestamp", "expirationTimestamp"
    )


def _acl(acl: Fields) -> Fields:
    return {
        "id": format_uuid(acl["id"]),
        "resourceType": _named(ACL_RESOURCES, acl["resourceType"]),
        "resource": acl["resourceName"],
        "patternType": _named(ACL_PATTERNS, acl["patternType"]),
        "principal": acl["principal"],
        "host": acl["host"],
        "operation": _named(ACL_OPERATIONS, acl["operation"]),
        "permission": _named(ACL_PERMISSIONS, acl["permissionType"]),
    }


def _pick(fields: Fields, *names: str) -> Fields:
    return {name: fields[name] for name in names}


def _named(table: dict[int, str], number: int) -> str:
    return table.get(number, f"UNKNOWN({number})")
