"""What kafka-dump-log of a release prints for a record of an internal topic, and for KRaft's control records.

Where Kafka's tool prints a message and goes on, the message is given; where it dies of an exception,
JavaError is raised with that exception's class and text.
"""

from __future__ import annotations

from typing import Any, cast

from kdump.errors import (
    BUFFER_UNDERFLOW,
    ILLEGAL_ARGUMENT,
    ILLEGAL_STATE,
    NULL_POINTER,
    RUNTIME,
    UNSUPPORTED_VERSION,
    JavaError,
)
from kdump.formats import names
from kdump.formats.batch import wrap32
from kdump.formats.schemas.decoding import tables_of
from kdump.formats.schemas.description import PACKERS, Schema, SchemaError
from kdump.formats.schemas.framing import CoordinatorTopic, MetadataTopic, leading_int16, read_frame
from kdump.formats.schemas.java_values import json_text, string_hash
from kdump.formats.schemas.json_form import to_json
from kdump.formats.schemas.reader import decode_as_broker
from kdump.releases import (
    COORDINATOR_API_KEYS,
    DUMP_IN_JAVA,
    LEADER_CHANGE_JSON,
    TRANSACTION_LOG_JSON,
    TRANSACTION_STATUS_NAMES,
    TXN_INDEX_EMPTY,
    KafkaRelease,
)

DECODERS = (
    "offsets-decoder",
    "transaction-log-decoder",
    "cluster-metadata-decoder",
    "remote-log-metadata-decoder",
    "share-group-state-decoder",
)  # when several are given, the first in this order counts

TOMBSTONE = "<DELETE>"

_RECORD_PACKAGE = "org.apache.kafka.common.record"
_INT16 = PACKERS["int16"]
_TRANSACTION_VERSIONS = range(3)
_CONTROL_NAMES = {2: "LeaderChange:", 3: "SnapshotHeader", 4: "SnapshotFooter", 5: "KRaftVersion", 6: "KRaftVoters"}
_LEADER_CHANGE = 2
_ADDED_SINGLY = 4  # elements of the largest immutable set that Scala has a class for


def parse(
    decoder: str, offset: int, key: bytes | None, value: bytes | None, release: KafkaRelease
) -> tuple[str | None, str | None]:
    """Return the texts after `key: ` and `payload: ` for a record at an absolute offset; None is not printed.

    `decoder` is one of DECODERS. Raises JavaError where Kafka's tool dies.
    """
    if decoder == "cluster-metadata-decoder":
        return None, _cluster_metadata(offset, value, release)
    if decoder == "remote-log-metadata-decoder":
        return None, _remote_log_metadata(offset, value, release)
    if decoder == "transaction-log-decoder" and not release.has(TRANSACTION_LOG_JSON):
        return _parse_transaction(key, value)
    return _parse_coordinator(decoder, offset, key, value, release)


def control_text(control_type: int, value: bytes | None, release: KafkaRelease) -> str:
    """Return what is printed for a control record of the types LEADER_CHANGE (2) to KRAFT_VOTERS (6).

    Raises JavaError for a value that Kafka's tool dies of, and KeyError for another control type.
    """
    from kdump.formats.control import SCHEMAS

    name = _CONTROL_NAMES[control_type]
    if control_type == _LEADER_CHANGE and not release.has(LEADER_CHANGE_JSON):
        return f"controlType: LEADER_CHANGE({_LEADER_CHANGE})"
    if value is None:
        text = 'Cannot invoke "java.nio.ByteBuffer.slice()" because "<parameter1>" is null'
        raise JavaError(NULL_POINTER, text)
    schema = SCHEMAS[control_type]
    try:
        fields, _ = decode_as_broker(schema, 0, value)
    except SchemaError as error:
        raise JavaError(error.java_class, error.kafka_message) from error
    return f"{name} {json_text(to_json(schema, fields['version'], fields))}"


# --- __consumer_offsets, __share_group_state, and __transaction_state from Kafka 4.1 on ---


_TOPICS = {
    "offsets-decoder": names.CONSUMER_OFFSETS_TOPIC,
    "transaction-log-decoder": names.TRANSACTION_STATE_TOPIC,
}


def _coordinator_topic(decoder: str) -> CoordinatorTopic:
    return cast("CoordinatorTopic", tables_of(_TOPICS.get(decoder, names.SHARE_GROUP_STATE_TOPIC)))


def _parse_coordinator(
    decoder: str, offset: int, key: bytes | None, value: bytes | None, release: KafkaRelease
) -> tuple[str, str | None]:
    if key is None:
        raise _missing_key(offset, decoder, release)
    try:
        record_type, key_text = _coordinator_key(_coordinator_topic(decoder), key, release)
        if value is None:
            return key_text, TOMBSTONE
        version, data = _coordinator_value(_coordinator_topic(decoder), record_type, value, release)
    except _UnknownRecordTypeError as unknown:
        return f"Unknown record type {unknown.record_type} at offset {offset}, skipping.", None
    except SchemaError as error:
        return _skipped(offset, error), None
    has_type = decoder == "share-group-state-decoder" and not release.has(COORDINATOR_API_KEYS)
    return key_text, json_text({"type" if has_type else "version": str(version), "data": data})


class _UnknownRecordTypeError(Exception):
    def __init__(self, record_type: int) -> None:
        super().__init__(record_type)
        self.record_type = record_type


def _missing_key(offset: int, decoder: str, release: KafkaRelease) -> JavaError:
    which = f"{'offset' if decoder == 'offsets-decoder' else 'share group state'} topic"
    if release.has(COORDINATOR_API_KEYS):
        which = "the specified"
    text = f"Failed to decode message at offset {offset} using {which} decoder (message had a missing key)"
    return JavaError(RUNTIME, text)


def _skipped(offset: int, error: SchemaError) -> str:
    return f"Error at offset {offset}, skipping. {_or_null(error.kafka_message)}"


def _or_null(message: str | None) -> str:
    return "null" if message is None else message


def _coordinator_key(topic: CoordinatorTopic, key: bytes, release: KafkaRelease) -> tuple[int, str]:
    record_type = leading_int16(key, "key")
    kind = topic.kinds.get(record_type)
    if kind is None or not kind.is_known_to(release):
        raise _UnknownRecordTypeError(record_type)
    data = _message(kind.key, record_type, key, "key", release)
    return record_type, json_text({"type": str(record_type), "data": data})


def _coordinator_value(
    topic: CoordinatorTopic, record_type: int, value: bytes, release: KafkaRelease
) -> tuple[int, dict[str, Any]]:
    from kdump.formats.schemas.consumer_offsets import open_consumer_protocol

    version = leading_int16(value, "value")
    schema = topic.kinds[record_type].value_of(release)
    if release.has(COORDINATOR_API_KEYS) and not schema.first <= version <= schema.last_of(release):
        raise _wrapped(f"Found an unknown record version {version} for {record_type} type")
    data = _message(schema, version, value, "value", release)
    if schema.name == "GroupMetadataValue":
        open_consumer_protocol(data)
    elif release.has(TRANSACTION_STATUS_NAMES) and schema.name == "TransactionLogValue":
        from kdump.formats.schemas.transaction_state import state_of

        data["transactionStatus"] = str(state_of(data["transactionStatus"]))
    return version, data


def _message(schema: Schema, version: int, data: bytes, what: str, release: KafkaRelease) -> dict[str, Any]:
    try:
        fields, _ = decode_as_broker(schema, version, data, _INT16.size, release)
    except SchemaError as error:
        cause = _or_null(error.kafka_message)
        raise _wrapped(f"Could not read record with version {version} from {what}'s buffer due to: {cause}.") from error
    return to_json(schema, version, fields, release)


def _wrapped(message: str) -> SchemaError:
    return SchemaError(message, kafka_message=message)


# --- __transaction_state up to Kafka 4.0 ---


def _parse_transaction(key: bytes | None, value: bytes | None) -> tuple[str, str | None]:
    from kdump.formats.schemas.transaction_state import TOPIC, TRANSACTION_LOG

    if key is None:
        text = 'Cannot invoke "java.nio.ByteBuffer.getShort()" because "buffer" is null'
        raise JavaError(NULL_POINTER, text)
    record_type = _short_or_abort(key)
    if record_type != TRANSACTION_LOG:
        return f"unknown::version={record_type}", None
    kind = TOPIC.kinds[TRANSACTION_LOG]
    try:
        fields, _ = decode_as_broker(kind.key, record_type, key, _INT16.size)
        key_text = f"transaction_metadata::transactionalId={fields['transactionalId']}"
        return key_text, TOMBSTONE if value is None else _transaction(kind.value, value)
    except SchemaError as error:
        raise JavaError(error.java_class, error.kafka_message) from error


def _transaction(schema: Schema, value: bytes) -> str:
    from kdump.formats.schemas.transaction_state import STATES

    version = _short_or_abort(value)
    if not schema.first <= version <= schema.last:
        raise JavaError(ILLEGAL_STATE, f"Unknown version {version} from the transaction log message value")
    fields, _ = decode_as_broker(schema, version, value, _INT16.size)
    status, client_version = fields["transactionStatus"], fields["clientTransactionVersion"]
    if not 0 <= status < len(STATES):
        text = f"Unknown transaction state id {status} from the transaction status message"
        raise JavaError(ILLEGAL_STATE, text)
    if client_version not in _TRANSACTION_VERSIONS:
        text = f"No feature:transaction.version with feature level {client_version}"
        raise JavaError(ILLEGAL_ARGUMENT, text)
    partitions = ",".join(_partitions_in_set_order(fields["transactionPartitions"]) if status else ())
    return (
        f"producerId:{fields['producerId']},producerEpoch:{fields['producerEpoch']},state={STATES[status]},"
        f"partitions=[{partitions}],txnLastUpdateTimestamp={fields['transactionLastUpdateTimestampMs']},"
        f"txnTimeoutMs={fields['transactionTimeoutMs']}"
    )


def _short_or_abort(data: bytes) -> int:
    if len(data) < _INT16.size:
        raise JavaError(BUFFER_UNDERFLOW)
    number: int = _INT16.unpack_from(data)[0]
    return number


def _partitions_in_set_order(topics: list[dict[str, Any]] | None) -> list[str]:
    """Return each topic-partition once, in the order of the Scala mutable.HashSet that Kafka collects them in.

    Its table has a power of two of buckets and is walked bucket by bucket, each ordered by hash. Partitions arrive
    topic by topic: up to four one at a time, more as one immutable set, which is added without the look at the load
    that single additions take before each.
    """
    if topics is None:
        raise JavaError(
            NULL_POINTER,
            'Cannot invoke "java.util.List.forEach(java.util.function.Consumer)" because the return value of'
            ' "org.apache.kafka.coordinator.transaction.generated.TransactionLogValue.transactionPartitions()" is null',
        )
    buckets = 16
    hashes: dict[tuple[str, int], int] = {}
    for topic in topics:
        name, partitions = topic["topic"], dict.fromkeys(topic["partitionIds"])
        topic_hash = string_hash(name)
        buckets = max(buckets, _buckets_for(len(partitions)))
        for partition in partitions:
            if len(partitions) <= _ADDED_SINGLY and len(hashes) + 1 >= buckets * 3 // 4:
                buckets *= 2
            plain = (31 * (31 + partition) + topic_hash) & 0xFFFFFFFF
            hashes.setdefault((name, partition), wrap32(plain ^ plain >> 16))
    ordered = sorted(hashes, key=lambda element: (hashes[element] & buckets - 1, hashes[element]))
    return [f"{name}-{partition}" for name, partition in ordered]


def _buckets_for(size: int) -> int:
    """Return the table that the set makes room with for a hint of so many elements, at a load of 3/4."""
    capacity = int((size + 1) / 0.75)
    return 1 << max(capacity - 1, 4).bit_length()


# --- __cluster_metadata and __remote_log_metadata ---


def _cluster_metadata(offset: int, value: bytes | None, release: KafkaRelease) -> str:
    from kdump.formats.schemas.cluster_metadata import TOPIC, type_name

    try:
        schema, version, fields = _metadata_message(TOPIC, value or b"", release)
    except SchemaError as error:
        return f"Error at {offset}, skipping. {_or_null(error.kafka_message)}"
    data = to_json(schema, version, fields, release)
    return json_text({"type": type_name(schema.name), "version": version, "data": data})


def _metadata_message(topic: MetadataTopic, value: bytes, release: KafkaRelease) -> tuple[Schema, int, dict[str, Any]]:
    api_key, version, position = read_frame(value)
    schema = topic.schema_of(api_key, release)
    if schema is None:
        raise _wrapped(f"{UNSUPPORTED_VERSION}: Unknown metadata id {api_key}")
    try:
        fields, end = decode_as_broker(schema, version, value, position, release)
    except SchemaError as error:
        raise _wrapped(f"Failed to deserialize record with type {api_key}") from error
    if end != len(value):
        raise _wrapped(f"Found {len(value) - end} byte(s) of garbage after {api_key}")
    return schema, version, fields


def _remote_log_metadata(offset: int, value: bytes | None, release: KafkaRelease) -> str:
    from kdump.formats.schemas.remote_log_metadata import TOPIC
    from kdump.formats.schemas.remote_log_text import to_string

    try:
        if value is None:
            package = "org.apache.kafka.common.record.internal" if release.has(DUMP_IN_JAVA) else _RECORD_PACKAGE
            raise _wrapped(
                'Cannot invoke "java.nio.ByteBuffer.remaining()" because the return value of'
                f' "{package}.Record.value()" is null'
            )
        schema, _, fields = _metadata_message(TOPIC, value, release)
        return to_string(schema.name, fields, has_txn_index_empty=release.has(TXN_INDEX_EMPTY))
    except SchemaError as error:
        return _skipped(offset, error)
