"""The records that make a cluster's state: the way back from `cluster_image`, in the order of Kafka's ImageWriter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from kdump.formats.schemas.cluster_metadata import TOPIC, encode_value
from kdump.releases import METADATA_VERSION, metadata_version_level
from kdump.topics.cluster_image import ClusterImage, Fields
from kdump.topics.partition_state import ELR_FEATURE

_API_KEYS = {schema.name: api_key for api_key, schema in TOPIC.schemas.items()}

# from which metadata.version on a record is written in a version (Kafka: MetadataVersion)
_IN_SHUTDOWN = metadata_version_level("3.3-IV3")
_FROM_ZOOKEEPER = metadata_version_level("3.4-IV0")
_CONTROLLERS_REGISTER = metadata_version_level("3.7-IV0")
_DIRECTORIES = metadata_version_level("3.7-IV2")
_CORDONED = metadata_version_level("4.3-IV0")


class MetadataRecord(NamedTuple):
    """A metadata record to be written: its name as Kafka's schemas have it, its version, its fields."""

    name: str
    version: int
    fields: Fields

    def encode(self) -> bytes:
        """Return the record's value. Raises SchemaError."""
        return encode_value(_API_KEYS[self.name], self.version, self.fields)


def records_of(image: ClusterImage) -> Iterator[MetadataRecord]:
    """Yield the records that make this state of an empty cluster, in the versions of its metadata.version.

    First the features, with the metadata.version before all others: it decides how all that follows is read.
    """
    level = image.features.get(METADATA_VERSION, 0)
    for name in sorted(image.features, key=lambda name: (name != METADATA_VERSION, name)):
        yield MetadataRecord("FeatureLevelRecord", 0, {"name": name, "featureLevel": image.features[name]})
    for broker in image.brokers.values():
        yield _of_version("RegisterBrokerRecord", broker_version(level), broker)
    if level >= _CONTROLLERS_REGISTER:
        for controller in image.controllers.values():
            yield MetadataRecord("RegisterControllerRecord", 0, controller)
    for topic in image.topics.values():
        yield MetadataRecord("TopicRecord", 0, {"name": topic.name, "topicId": topic.topic_id})
        version = partition_version(image.features)
        for _, partition in sorted(topic.partitions.items()):
            yield _of_version("PartitionRecord", version, partition)
    for (resource_type, resource_name), values in image.configs.items():
        for name, value in values.items():
            fields = {"resourceType": resource_type, "resourceName": resource_name, "name": name, "value": value}
            yield MetadataRecord("ConfigRecord", 0, fields)
    yield from _clients(image)


def _clients(image: ClusterImage) -> Iterator[MetadataRecord]:
    """Yield what clients may do, and who they are."""
    for entity, quotas in image.quotas.items():
        parts = [{"entityType": kind, "entityName": name} for kind, name in entity]
        for key, value in quotas.items():
            yield MetadataRecord("ClientQuotaRecord", 0, {"entity": parts, "key": key, "value": value})
    if image.producer_ids is not None:
        yield MetadataRecord("ProducerIdsRecord", 0, image.producer_ids)
    for entry in image.acls.values():
        yield MetadataRecord("AccessControlEntryRecord", 0, entry)
    for credential in image.scram.values():
        yield MetadataRecord("UserScramCredentialRecord", 0, credential)
    for token in image.tokens.values():
        yield MetadataRecord("DelegationTokenRecord", 0, token)


def partition_version(features: dict[str, int]) -> int:
    """Return the version of PartitionRecord that a cluster with these features writes."""
    if features.get(ELR_FEATURE, 0) > 0:
        return 2
    return 1 if features.get(METADATA_VERSION, 0) >= _DIRECTORIES else 0


def broker_version(level: int) -> int:
    """Return the version of RegisterBrokerRecord that a metadata.version writes."""
    since = (_IN_SHUTDOWN, _FROM_ZOOKEEPER, _DIRECTORIES, _CORDONED)
    return sum(level >= each for each in since)


def _of_version(name: str, version: int, fields: dict[str, Any]) -> MetadataRecord:
    """Return a record without the fields that this version lacks: what they said has no meaning at this level."""
    schema = TOPIC.schemas[_API_KEYS[name]]
    lacking = {field.name for field in schema.layout(version).absent}
    return MetadataRecord(name, version, {key: value for key, value in fields.items() if key not in lacking})
