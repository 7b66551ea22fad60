"""From a cluster's state to records and back: nothing is lost that the state's metadata.version can say."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.formats.schemas.cluster_metadata import TOPIC, decode_value
from kdump.releases import METADATA_VERSION, metadata_version_level
from kdump.topics.cluster_image import ClusterImage, Topic
from kdump.topics.image_records import records_of
from kdump.topics.partition_state import ELR_FEATURE

ids = st.binary(min_size=16, max_size=16)
words = st.text(min_size=1, max_size=12)
int32s = st.integers(-(1 << 31), (1 << 31) - 1)
_SCHEMAS = {schema.name: schema for schema in TOPIC.schemas.values()}
_SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(), "int8": st.integers(-128, 127), "int16": st.integers(-(1 << 15), (1 << 15) - 1),
    "int32": int32s, "int64": st.integers(-(1 << 63), (1 << 63) - 1), "uint16": st.integers(0, (1 << 16) - 1),
    "float64": st.floats(allow_nan=False), "uuid": ids, "string": words, "bytes": st.binary(max_size=20),
}  # fmt: skip


def values(field: Any) -> st.SearchStrategy[Any]:
    """What a field may be."""
    one = messages(field.fields) if field.fields else _SCALARS[field.kind]
    many = st.lists(one, max_size=3) if field.array else one
    return st.none() | many if field.null_last >= 0 else many


def messages(fields: Any) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({field.name: values(field) for field in fields})


def fields_of(name: str, **fixed: Any) -> st.SearchStrategy[dict[str, Any]]:
    return messages(_SCHEMAS[name].fields).map(lambda fields: fields | fixed)


@st.composite
def images(draw: st.DrawFn) -> ClusterImage:
    """A state of 4.3 with eligible leader replicas: every record in its last version."""
    image = ClusterImage(features={METADATA_VERSION: metadata_version_level("4.3-IV0"), ELR_FEATURE: 1})
    for number, (name, topic_id) in enumerate(draw(st.dictionaries(words, ids, max_size=3)).items()):
        key = bytes([number]) + topic_id[1:]
        partitions = {
            partition: draw(fields_of("PartitionRecord", topicId=key, partitionId=partition))
            for partition in range(draw(st.integers(0, 3)))
        }
        image.topics[key] = Topic(name, key, partitions)
    config = st.dictionaries(words, words, min_size=1, max_size=2)
    image.configs = draw(st.dictionaries(st.tuples(st.sampled_from([2, 4, 16, 32]), words), config, max_size=3))
    broker = draw(fields_of("RegisterBrokerRecord", brokerId=3))
    image.brokers = {3: broker}
    image.controllers = {4: draw(fields_of("RegisterControllerRecord", controllerId=4))}
    entity = st.lists(st.tuples(words, st.none() | words), min_size=1, max_size=2, unique=True)
    keys = entity.map(lambda parts: tuple(sorted(parts, key=repr)))
    amounts = st.dictionaries(words, st.floats(allow_nan=False), min_size=1, max_size=2)
    image.quotas = draw(st.dictionaries(keys, amounts, max_size=2))
    image.producer_ids = draw(fields_of("ProducerIdsRecord"))
    for entry in draw(st.lists(fields_of("AccessControlEntryRecord"), max_size=2)):
        image.acls[entry["id"]] = entry
    for credential in draw(st.lists(fields_of("UserScramCredentialRecord"), max_size=2)):
        image.scram[credential["name"], credential["mechanism"]] = credential
    for token in draw(st.lists(fields_of("DelegationTokenRecord"), max_size=2)):
        image.tokens[token["tokenId"]] = token
    return image


def read(image: ClusterImage) -> ClusterImage:
    """The state that the records of a state make."""
    again = ClusterImage()
    for value in [each.encode() for each in records_of(image)]:
        again.apply(decode_value(value))
    return again


def state(image: ClusterImage) -> dict[str, Any]:
    """All fields but what is history: elections that were unclean."""
    fields = asdict(image)
    for topic in fields["topics"].values():
        del topic["unclean_epochs"]
    return fields


@given(images())
def test_a_state_is_read_as_it_was_written(image: ClusterImage) -> None:
    assert state(read(image)) == state(image)


@given(images())
def test_what_is_written_is_written_the_same_again(image: ClusterImage) -> None:
    first = [each.encode() for each in records_of(image)]
    assert [each.encode() for each in records_of(read(image))] == first


@given(st.sampled_from(sorted(_SCHEMAS)), st.data())
def test_every_record_is_read_as_it_was_written(name: str, data: st.DataObject) -> None:
    schema = _SCHEMAS[name]
    api_key = next(key for key, each in TOPIC.schemas.items() if each is schema)
    fields = data.draw(fields_of(name))
    record = decode_value(TOPIC.encode_value(api_key, schema.last, fields))
    assert (record.type, record.version, record.fields) == (api_key, schema.last, fields)
    assert TOPIC.encode_value(api_key, schema.last, record.fields) == TOPIC.encode_value(api_key, schema.last, fields)


@pytest.mark.parametrize(
    ("level", "elr", "partition", "broker"),
    [("3.3-IV3", 0, 0, 1), ("3.6-IV2", 0, 0, 2), ("3.9-IV0", 0, 1, 3), ("4.2-IV1", 1, 2, 3), ("4.3-IV0", 0, 1, 4)],
)
def test_versions_are_those_of_the_metadata_version(level: str, elr: int, partition: int, broker: int) -> None:
    features = {METADATA_VERSION: metadata_version_level(level)} | ({ELR_FEATURE: elr} if elr else {})
    fields = {"topicId": bytes(16), "partitionId": 0, "directories": [bytes(16)], "eligibleLeaderReplicas": [1]}
    image = ClusterImage(features=features)
    image.topics[bytes(16)] = Topic("orders", bytes(16), {0: fields})
    image.brokers[1] = {"brokerId": 1, "isMigratingZkBroker": True, "logDirs": [bytes(16)], "cordonedLogDirs": []}
    versions = {record.name: record.version for record in records_of(image)}
    assert (versions["PartitionRecord"], versions["RegisterBrokerRecord"]) == (partition, broker)
    assert read(image).topics[bytes(16)].partitions[0]["directories"] == ([bytes(16)] if partition else [])


def test_the_metadata_version_comes_first() -> None:
    image = ClusterImage(features={"group.version": 1, METADATA_VERSION: 30, "aaa": 1})
    assert [record.fields["name"] for record in records_of(image)] == [METADATA_VERSION, "aaa", "group.version"]
