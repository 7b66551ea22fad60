"""The tables of every internal topic: golden bytes, round trips in every version, and damage."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kdump.errors import JavaError, KdumpError
from kdump.formats import batch, control
from kdump.formats.schemas import (
    cluster_metadata,
    consumer_offsets,
    dump_text,
    remote_log_metadata,
    share_group_state,
    transaction_state,
)
from kdump.formats.schemas.description import Column, Layout, Schema, SchemaError
from kdump.formats.schemas.framing import CoordinatorTopic, MetadataTopic
from kdump.formats.schemas.java_values import json_text
from kdump.formats.schemas.json_form import to_json
from kdump.formats.schemas.reader import decode, decode_as_broker
from kdump.formats.schemas.writer import encode
from kdump.releases import KafkaRelease
from tests.sampling import sampled

COORDINATOR_TOPICS: dict[str, CoordinatorTopic] = {
    "offsets-decoder": consumer_offsets.TOPIC,
    "transaction-log-decoder": transaction_state.TOPIC,
    "share-group-state-decoder": share_group_state.TOPIC,
}
METADATA_TOPICS: dict[str, MetadataTopic] = {
    "cluster-metadata-decoder": cluster_metadata.TOPIC,
    "remote-log-metadata-decoder": remote_log_metadata.TOPIC,
}


def every_schema() -> Iterator[Schema]:
    for coordinator in COORDINATOR_TOPICS.values():
        for kind in coordinator.kinds.values():
            yield kind.key
            yield from kind.layouts
    for metadata in METADATA_TOPICS.values():
        yield from metadata.schemas.values()
    yield from control.SCHEMAS.values()
    yield consumer_offsets.CONSUMER_PROTOCOL_SUBSCRIPTION
    yield consumer_offsets.CONSUMER_PROTOCOL_ASSIGNMENT


SCHEMAS = list(dict.fromkeys(every_schema()))
VERSIONS = [
    pytest.param(schema, version, id=f"{schema.name}-v{version}-{number}")
    for number, schema in enumerate(SCHEMAS)
    for version in range(schema.first, schema.last + 1)
]


# --- golden values ---


def test_topic_record() -> None:
    data = bytes.fromhex("010200" + "04666f6f" + "000102030405060708090a0b0c0d0e0f" + "00")
    record = cluster_metadata.decode_value(data)
    assert (record.type, record.name, record.version) == (2, "TopicRecord", 0)
    assert record.fields == {"name": "foo", "topicId": bytes(range(16))}
    assert record.json() == {"name": "foo", "topicId": "AAECAwQFBgcICQoLDA0ODw"}
    assert cluster_metadata.encode_value(2, 0, record.fields) == data


def test_offset_commit() -> None:
    key = bytes.fromhex("0001" + "000167" + "000174" + "00000000")
    value = bytes.fromhex("0003" + "0000000000000005" + "ffffffff" + "0000" + "0000018bcfe56800")
    decoded_key = consumer_offsets.decode_key(key)
    assert (decoded_key.type, decoded_key.name) == (consumer_offsets.OFFSET_COMMIT, "OffsetCommit")
    assert decoded_key.fields == {"group": "g", "topic": "t", "partition": 0}
    decoded_value = consumer_offsets.decode_value(decoded_key.type, value)
    assert decoded_value.version == 3
    assert decoded_value.fields == {
        "offset": 5,
        "leaderEpoch": -1,
        "metadata": "",
        "commitTimestamp": 1700000000000,
        "expireTimestamp": -1,
        "topicId": bytes(16),
    }
    assert consumer_offsets.encode_key(1, decoded_key.fields) == key
    assert consumer_offsets.encode_value(1, 3, {"offset": 5, "commitTimestamp": 1700000000000}) == value


def test_transaction() -> None:
    """Written by Kafka 4.0: the tagged clientTransactionVersion is 1."""
    value = bytes.fromhex(
        "0001" + "00000000000003f8" + "0004" + "0000ea60" + "01" + "03" + "08616c70686174300200000000" + "00"
        "09626574612d317431" + "03" + "0000000000000001" + "00" + "0000018bcfe56864" + "0000018bcfe56670" + "0102020001"
    )
    record = transaction_state.decode_value(0, value)
    assert transaction_state.STATES[record.fields["transactionStatus"]] == "Ongoing"
    assert record.fields["transactionPartitions"] == [
        {"topic": "alphat0", "partitionIds": [0]},
        {"topic": "beta-1t1", "partitionIds": [0, 1]},
    ]
    assert record.fields["clientTransactionVersion"] == 1
    assert record.fields["previousProducerId"] == record.fields["nextProducerId"] == -1
    assert transaction_state.encode_value(0, 1, record.fields) == value
    assert "previousProducerId" not in record.json()


def test_share_snapshot_in_both_layouts() -> None:
    fields = {"snapshotEpoch": 61343, "stateEpoch": -1, "leaderEpoch": 99642, "startOffset": 143}
    preview = bytes.fromhex("0000" + "ef9f" + "ffffffff" + "0001853a" + "000000000000008f" + "01" + "00")
    assert share_group_state.encode_value(0, 0, fields) == preview
    assert share_group_state.decode_value(0, preview).fields == fields | {"stateBatches": []}
    later = share_group_state.encode_value(0, 0, fields | {"writeTimestamp": 7}, later=True)
    decoded = share_group_state.decode_value(0, later)
    assert decoded.schema is share_group_state.TOPIC.kinds[0].later
    assert (decoded.fields["snapshotEpoch"], decoded.fields["writeTimestamp"]) == (61343, 7)


def test_early_brokers_gave_share_updates_version_1() -> None:
    value = share_group_state.encode_value(1, 1, {"snapshotEpoch": 3, "stateBatches": [{"lastOffset": 9}]})
    assert value[:2] == b"\0\1"
    assert share_group_state.decode_value(1, value).fields["stateBatches"][0]["lastOffset"] == 9


def test_layouts_of_later_releases() -> None:
    for record_type, fields in ((11, {"epoch": 3, "metadataHash": -5}), (15, {"initializingTopics": []})):
        value = consumer_offsets.encode_value(record_type, 0, fields, later=True)
        decoded = consumer_offsets.decode_value(record_type, value)
        assert decoded.schema is consumer_offsets.TOPIC.kinds[record_type].later
        assert decoded.fields.items() >= fields.items()
    with_hash = consumer_offsets.encode_value(3, 0, {"epoch": 3, "metadataHash": 77})
    assert with_hash == bytes.fromhex("0000" + "00000003" + "01" + "0008" + "000000000000004d")
    assert consumer_offsets.decode_value(3, with_hash).fields == {"epoch": 3, "metadataHash": 77}


def test_remote_partition_delete() -> None:
    value = bytes.fromhex(
        "010200" + "07746965726564" + "000000000000000b0000000000000002" + "00000002" + "00" + "00000001"
        "0000018bcfe56864" + "02" + "00"
    )
    record = remote_log_metadata.decode_value(value)
    assert record.name == "RemotePartitionDeleteMetadataRecord"
    assert record.json() == {
        "topicIdPartition": {"name": "tiered", "id": "AAAAAAAAAAsAAAAAAAAAAg", "partition": 2},
        "brokerId": 1,
        "eventTimestampMs": 1700000000100,
        "remotePartitionDeleteState": 2,
    }
    assert remote_log_metadata.encode_value(2, 0, record.fields) == value


def test_consumer_protocol() -> None:
    data = bytes.fromhex("0001" + "00000001000174" + "ffffffff" + "00000001000174" + "0000000100000004" + "0909")
    version, fields = consumer_offsets.decode_consumer_protocol(consumer_offsets.CONSUMER_PROTOCOL_SUBSCRIPTION, data)
    assert version == 1
    assert fields["topics"] == ["t"]
    assert fields["ownedPartitions"] == [{"topic": "t", "partitions": [4]}]
    assert (fields["generationId"], fields["rackId"]) == (-1, None)
    for cut in (data[:1], data[:9]):
        with pytest.raises(SchemaError):
            consumer_offsets.decode_consumer_protocol(consumer_offsets.CONSUMER_PROTOCOL_SUBSCRIPTION, cut)


def test_control_records() -> None:
    header = bytes.fromhex("0000" + "000000000000007b" + "00")
    record = control.decode_value(batch.SNAPSHOT_HEADER, header)
    assert record.fields == {"version": 0, "lastContainedLogTimestamp": 123}
    assert control.encode_value(batch.SNAPSHOT_HEADER, 0, {"lastContainedLogTimestamp": 123}) == header
    for version, voter in ((0, "0000000100"), (1, "00000001" + "00" * 15 + "0500")):
        value = bytes.fromhex(f"000{version}" + "00000001" + "02" + voter + "01" + "00")
        change = control.decode_value(batch.LEADER_CHANGE, value)
        assert change.fields["voters"][0]["voterDirectoryId"] == bytes(15) + (b"\5" if version else b"\0")
        assert control.encode_value(batch.LEADER_CHANGE, version, change.fields) == value


@pytest.mark.parametrize(
    ("record", "constant"),
    [
        ("TopicRecord", "TOPIC_RECORD"),
        ("ZkMigrationStateRecord", "ZK_MIGRATION_STATE_RECORD"),
        ("NoOpRecord", "NO_OP_RECORD"),
    ],
)
def test_type_names(record: str, constant: str) -> None:
    assert cluster_metadata.type_name(record) == constant


@pytest.mark.parametrize(
    ("decode_damaged", "found"),
    [
        (lambda: consumer_offsets.decode_key(bytes.fromhex("0063")), "Unknown record type 99 of __consumer_offsets"),
        (lambda: consumer_offsets.decode_key(b"\0"), "Could not read version from key's buffer"),
        (lambda: consumer_offsets.decode_key(bytes.fromhex("0002000167ff")), r"1 byte\(s\) left over after GroupMeta"),
        (lambda: consumer_offsets.decode_value(3, b""), "Could not read version from value's buffer"),
        (lambda: consumer_offsets.decode_value(3, bytes.fromhex("0001")), "Unknown version 1 of ConsumerGroupMetadata"),
        (lambda: consumer_offsets.decode_value(3, bytes.fromhex("0000000000010009")), r"1 byte\(s\) left over"),
        (lambda: consumer_offsets.decode_value(99, b"\0\0"), "Unknown record type 99"),
        (lambda: cluster_metadata.decode_value(b""), "Error while reading frame version"),
        (lambda: cluster_metadata.decode_value(b"\0"), "with frame version 0"),
        (lambda: cluster_metadata.decode_value(b"\2\2\0"), r"unknown frame version 2\(only"),
        (lambda: cluster_metadata.decode_value(b"\1\2"), "Error while reading version"),
        (lambda: cluster_metadata.decode_value(bytes.fromhex("01808002")), "Value for type was too large"),
        (lambda: cluster_metadata.decode_value(bytes.fromhex("010600")), "Unknown metadata id 6 in __cluster_metadata"),
        (lambda: cluster_metadata.decode_value(bytes.fromhex("011405")), "Unknown version 5 of NoOpRecord"),
        (lambda: cluster_metadata.decode_value(bytes.fromhex("0114000005")), r"1 byte\(s\) left over after NoOp"),
        (lambda: control.decode_value(4, b"\0"), "SnapshotFooterRecord has only 1"),
        (lambda: control.decode_value(4, bytes.fromhex("00000009")), r"1 byte\(s\) left over"),
        (lambda: control.decode_value(4, bytes.fromhex("000900")), "Unknown version 9"),
        (lambda: control.decode_value(9, b""), "Control type 9"),
    ],
)
def test_unknown_and_left_over_bytes_are_reported(decode_damaged: Any, found: str) -> None:
    with pytest.raises(SchemaError, match=found):
        decode_damaged()


# --- round trips ---

INTEGERS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
SCALARS: dict[str, st.SearchStrategy[Any]] = {
    **{kind: st.integers(-(1 << bits - 1), (1 << bits - 1) - 1) for kind, bits in INTEGERS.items()},
    "uint16": st.integers(0, 0xFFFF),
    "uint32": st.integers(0, 0xFFFFFFFF),
    "bool": st.booleans(),
    "float64": st.floats(allow_nan=False),
    "uuid": st.binary(min_size=16, max_size=16),
    "string": st.text(max_size=12),
    "bytes": st.binary(max_size=12),
}


def values(layout: Layout) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({column.name: field_values(column) for column in layout.columns})


def field_values(column: Column) -> st.SearchStrategy[Any]:
    strategy = SCALARS[column.kind] if column.layout is None else values(column.layout)
    if column.array:
        strategy = st.lists(strategy, max_size=3)
    if column.tag is not None:
        strategy = st.just(column.field.initial()) | strategy
    return st.none() | strategy if column.nullable else strategy


def completed(layout: Layout, value: dict[str, Any]) -> dict[str, Any]:
    """The value as decoding gives it: with the defaults of the fields that its version lacks."""
    for column in layout.columns:
        item = value[column.name]
        if column.layout is not None and item is not None:
            nested = column.layout
            value[column.name] = [completed(nested, i) for i in item] if column.array else completed(nested, item)
    return layout.blank() | value


@pytest.mark.parametrize(("schema", "version"), VERSIONS)
@settings(max_examples=15)
@given(data=st.data())
def test_round_trip(schema: Schema, version: int, data: st.DataObject) -> None:
    value = data.draw(values(schema.layout(version)))
    encoded = encode(schema, version, value)
    expected = completed(schema.layout(version), value)
    assert decode(schema, version, b"\xff" + encoded + b"\xff", 1) == (expected, len(encoded) + 1)
    assert encode(schema, version, expected) == encoded
    assert decode_as_broker(schema, version, encoded) == (expected, len(encoded))
    as_json = to_json(schema, version, expected)
    assert json.loads(json_text(as_json)) == as_json
    assert as_json.keys() >= {column.name for column in schema.layout(version).plain}


# --- damage ---


def sample(layout: Layout) -> dict[str, Any]:
    """A value with nothing left out: one element in every array, nothing null, every tagged field written."""
    value: dict[str, Any] = {}
    for column in layout.columns:
        scalar = {"string": "ü\U0001f600", "bytes": b"\0\1", "uuid": bytes(range(16)), "bool": True}.get(column.kind, 2)
        item = scalar if column.layout is None else sample(column.layout)
        value[column.name] = [item] if column.array else item
    return value


RECORDS = [
    pytest.param(decoder, record_type, layout, id=f"{kind.name}-{record_type}-{layout}")
    for decoder, topic in COORDINATOR_TOPICS.items()
    for record_type, kind in topic.kinds.items()
    for layout in range(len(kind.layouts))
]
METADATA_RECORDS = [
    pytest.param(decoder, api_key, id=schema.name)
    for decoder, topic in METADATA_TOPICS.items()
    for api_key, schema in topic.schemas.items()
]


def flips(data: bytes) -> Iterator[bytes]:
    for bit in range(len(data) * 8):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        yield bytes(damaged)


def check_texts(decoder: str, key: bytes | None, value: bytes | None) -> None:
    for release in (KafkaRelease.V4_0, KafkaRelease.V4_4):
        try:
            texts: tuple[str | None, ...] = dump_text.parse(decoder, 7, key, value, release)
        except JavaError as abort:
            texts = (abort.java_class,)
        assert any(texts)


def check_error(error: KdumpError, data: bytes) -> None:
    assert isinstance(error, SchemaError)
    assert error.position is None or 0 <= error.position <= len(data)
    assert str(error)


@pytest.mark.parametrize(("decoder", "record_type", "layout"), sampled(RECORDS, 6))
def test_damaged_coordinator_records(decoder: str, record_type: int, layout: int) -> None:
    topic = COORDINATOR_TOPICS[decoder]
    kind = topic.kinds[record_type]
    schema = kind.layouts[layout]
    key = topic.encode_key(record_type, sample(kind.key.layout(0)))
    value = topic.encode_value(record_type, schema.last, sample(schema.layout(schema.last)), later=layout > 0)
    assert topic.decode_value(record_type, value).fields.keys() >= {column.name for column in schema.layout(0).plain}
    for size in range(len(key)):
        with pytest.raises(SchemaError):
            topic.decode_key(key[:size])
        check_texts(decoder, key[:size], value)
    for size in range(len(value)):
        try:
            assert (
                topic.decode_value(record_type, value[:size]).schema is not schema
            )  # what is left fits another layout
        except KdumpError as error:
            check_error(error, value)
        check_texts(decoder, key, value[:size])
    for damaged in flips(key):
        try:
            topic.decode_key(damaged)
        except KdumpError as error:
            check_error(error, key)
        check_texts(decoder, damaged, value)
    for damaged in flips(value):
        try:
            topic.decode_value(record_type, damaged)
        except KdumpError as error:
            check_error(error, value)
        check_texts(decoder, key, damaged)


@pytest.mark.parametrize(("decoder", "api_key"), sampled(METADATA_RECORDS, 6))
def test_damaged_metadata_records(decoder: str, api_key: int) -> None:
    topic = METADATA_TOPICS[decoder]
    schema = topic.schemas[api_key]
    value = topic.encode_value(api_key, schema.last, sample(schema.layout(schema.last)))
    assert topic.decode_value(value).type == api_key
    for size in range(len(value)):
        with pytest.raises(SchemaError):
            topic.decode_value(value[:size])
        check_texts(decoder, None, value[:size])
    for damaged in flips(value):
        try:
            topic.decode_value(damaged)
        except KdumpError as error:
            check_error(error, value)
        check_texts(decoder, None, damaged)


@pytest.mark.parametrize("control_type", sorted(control.SCHEMAS))
def test_damaged_control_records(control_type: int) -> None:
    schema = control.SCHEMAS[control_type]
    value = control.encode_value(control_type, schema.last, sample(schema.layout(schema.last)))
    assert control.decode_value(control_type, value).name == schema.name
    for size in range(len(value)):
        try:
            decoded = control.decode_value(control_type, value[:size])
        except SchemaError:
            continue
        # what is left may be a whole message of version 0, which Kafka takes it for
        assert schema.last > decoded.version == 0
        assert encode(schema, 0, decoded.fields) == value[:size]
    for damaged in flips(value):
        try:
            control.decode_value(control_type, damaged)
        except KdumpError as error:
            check_error(error, value)
        if control_type != batch.LEADER_CHANGE:
            try:
                text = dump_text.control_text(control_type, damaged, KafkaRelease.V4_1)
            except JavaError as abort:
                text = abort.java_class
            assert text.startswith((f"{schema.name.removesuffix('Record')} ", "KRaftVoters ", "java."))
