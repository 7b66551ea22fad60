"""What kafka-dump-log of Kafka 4.0 prints for a record of an internal topic, and for KRaft's control records.

Where Kafka's tool prints a message and goes on, the message is given; where it dies of an exception, `DecoderAbort`
is raised with that exception's class and text.
"""

from __future__ import annotations

from typing import Any

from kdump.errors import KdumpError
from kdump.formats.schemas.description import PACKERS, UNSUPPORTED_VERSION, Schema, SchemaError
from kdump.formats.schemas.framing import CoordinatorTopic, MetadataTopic, read_frame
from kdump.formats.schemas.java_values import json_text, string_hash
from kdump.formats.schemas.schema import BUFFER_UNDERFLOW, decode_as_broker, to_json

DECODERS = (
    "offsets-decoder",
    "transaction-log-decoder",
    "cluster-metadata-decoder",
    "remote-log-metadata-decoder",
    "share-group-state-decoder",
)  # when several are given, the first in this order counts

TOMBSTONE = "<DELETE>"

_NULL_POINTER = "java.lang.NullPointerException"
_ILLEGAL_ARGUMENT = "java.lang.IllegalArgumentException"
_ILLEGAL_STATE = "java.lang.IllegalStateException"
_INT16 = PACKERS["int16"]
_TRANSACTION_VERSIONS = range(3)
_CONTROL_NAMES = {3: "SnapshotHeader", 4: "SnapshotFooter", 5: "KRaftVersion", 6: "KRaftVoters"}


class DecoderAbort(KdumpError):
    """Kafka's tool ends here with an uncaught exception: its class, and its text (None where it has none)."""

    def __init__(self, java_class: str, message: str | None) -> None:
        super().__init__(java_class if message is None else f"{java_class}: {message}")
        self.java_class = java_class
        self.message = message


def parse(decoder: str, offset: int, key: bytes | None, value: bytes | None) -> tuple[str | None, str | None]:
    """The texts after `key: ` and `payload: ` for a record at an absolute offset; None is not printed.

    `decoder` is one of DECODERS. Raises DecoderAbort where Kafka's tool dies.
    """
    if decoder == "offsets-decoder":
        return _parse_offsets(offset, key, value)
    if decoder == "transaction-log-decoder":
        return _parse_transaction(key, value)
    if decoder == "cluster-metadata-decoder":
        return None, _cluster_metadata(offset, value)
    if decoder == "remote-log-metadata-decoder":
        return None, _remote_log_metadata(offset, value)
    return _parse_share_group(offset, key, value)


def control_text(control_type: int, value: bytes | None) -> str:
    """What is printed for a control record of the types SNAPSHOT_HEADER (3) to KRAFT_VOTERS (6).

    Raises DecoderAbort for a value that Kafka's tool dies of, and KeyError for another control type.
    """
    from kdump.formats.control import SCHEMAS

    name = _CONTROL_NAMES[control_type]
    if value is None:
        raise DecoderAbort(_NULL_POINTER, 'Cannot invoke "java.nio.ByteBuffer.slice()" because "<parameter1>" is null')
    schema = SCHEMAS[control_type]
    try:
        fields, _ = decode_as_broker(schema, 0, value)
    except SchemaError as error:
        raise DecoderAbort(error.java_class, error.kafka_message) from error
    return f"{name} {json_text(to_json(schema, fields['version'], fields))}"


# --- __consumer_offsets and __share_group_state ---


def _parse_offsets(offset: int, key: bytes | None, value: bytes | None) -> tuple[str, str | None]:
    from kdump.formats.schemas.consumer_offsets import GROUP_METADATA, TOPIC, open_consumer_protocol

    if key is None:
        raise _missing_key(offset, "offset")
    try:
        record_type, key_text = _coordinator_key(TOPIC, key)
        if value is None:
            return key_text, TOMBSTONE
        version, data = _coordinator_value(TOPIC, record_type, value)
        if record_type == GROUP_METADATA:
            open_consumer_protocol(data)
        return key_text, json_text({"version": str(version), "data": data})
    except _UnknownRecordType as unknown:
        return f"Unknown record type {unknown.record_type} at offset {offset}, skipping.", None
    except SchemaError as error:
        return _skipped(offset, error), None


def _parse_share_group(offset: int, key: bytes | None, value: bytes | None) -> tuple[str, str | None]:
    from kdump.formats.schemas.share_group_state import TOPIC

    if key is None:
        raise _missing_key(offset, "share group state")
    try:
        record_type, key_text = _coordinator_key(TOPIC, key)
        if value is None:
            return key_text, TOMBSTONE
        version, data = _coordinator_value(TOPIC, record_type, value)
        return key_text, json_text({"type": str(version), "data": data})
    except _UnknownRecordType as unknown:
        return f"Unknown record type {unknown.record_type} at offset {offset}, skipping.", None
    except SchemaError as error:
        return _skipped(offset, error), None


class _UnknownRecordType(Exception):
    def __init__(self, record_type: int) -> None:
        super().__init__(record_type)
        self.record_type = record_type


def _missing_key(offset: int, topic: str) -> DecoderAbort:
    text = f"Failed to decode message at offset {offset} using {topic} topic decoder (message had a missing key)"
    return DecoderAbort("java.lang.RuntimeException", text)


def _skipped(offset: int, error: SchemaError) -> str:
    return f"Error at offset {offset}, skipping. {_or_null(error.kafka_message)}"


def _or_null(message: str | None) -> str:
    return "null" if message is None else message


def _coordinator_key(topic: CoordinatorTopic, key: bytes) -> tuple[int, str]:
    record_type = _leading_int16(key, "key")
    kind = topic.kinds.get(record_type)
    if kind is None or kind.since:
        raise _UnknownRecordType(record_type)
    data = _message(kind.key, record_type, key, "key")
    return record_type, json_text({"type": str(record_type), "data": data})


def _coordinator_value(topic: CoordinatorTopic, record_type: int, value: bytes) -> tuple[int, dict[str, Any]]:
    version = _leading_int16(value, "value")
    return version, _message(topic.kinds[record_type].values[0], version, value, "value")


def _leading_int16(data: bytes, what: str) -> int:
    if len(data) < _INT16.size:
        raise _wrapped(f"Could not read version from {what}'s buffer.")
    number: int = _INT16.unpack_from(data)[0]
    return number


def _message(schema: Schema, version: int, data: bytes, what: str) -> dict[str, Any]:
    try:
        fields, _ = decode_as_broker(schema, version, data, _INT16.size)
    except SchemaError as error:
        cause = _or_null(error.kafka_message)
        raise _wrapped(f"Could not read record with version {version} from {what}'s buffer due to: {cause}.") from error
    return to_json(schema, version, fields)


def _wrapped(message: str) -> SchemaError:
    return SchemaError(message, kafka_message=message)


# --- __transaction_state ---


def _parse_transaction(key: bytes | None, value: bytes | None) -> tuple[str, str | None]:
    from kdump.formats.schemas.transaction_state import TOPIC, TRANSACTION_LOG

    if key is None:
        text = 'Cannot invoke "java.nio.ByteBuffer.getShort()" because "buffer" is null'
        raise DecoderAbort(_NULL_POINTER, text)
    record_type = _short_or_abort(key)
    if record_type != TRANSACTION_LOG:
        return f"unknown::version={record_type}", None
    kind = TOPIC.kinds[TRANSACTION_LOG]
    try:
        fields, _ = decode_as_broker(kind.key, record_type, key, _INT16.size)
        key_text = f"transaction_metadata::transactionalId={fields['transactionalId']}"
        return key_text, TOMBSTONE if value is None else _transaction(kind.values[0], value)
    except SchemaError as error:
        raise DecoderAbort(error.java_class, error.kafka_message) from error


def _transaction(schema: Schema, value: bytes) -> str:
    from kdump.formats.schemas.transaction_state import STATES

    version = _short_or_abort(value)
    if not schema.first <= version <= schema.last:
        raise DecoderAbort(_ILLEGAL_STATE, f"Unknown version {version} from the transaction log message value")
    fields, _ = decode_as_broker(schema, version, value, _INT16.size)
    status, client_version = fields["transactionStatus"], fields["clientTransactionVersion"]
    if not 0 <= status < len(STATES):
        text = f"Unknown transaction state id {status} from the transaction status message"
        raise DecoderAbort(_ILLEGAL_STATE, text)
    if client_version not in _TRANSACTION_VERSIONS:
        text = f"No feature:transaction.version with feature level {client_version}"
        raise DecoderAbort(_ILLEGAL_ARGUMENT, text)
    partitions = ",".join(_partitions_in_set_order(fields["transactionPartitions"]) if status else ())
    return (
        f"producerId:{fields['producerId']},producerEpoch:{fields['producerEpoch']},state={STATES[status]},"
        f"partitions=[{partitions}],txnLastUpdateTimestamp={fields['transactionLastUpdateTimestampMs']},"
        f"txnTimeoutMs={fields['transactionTimeoutMs']}"
    )


def _short_or_abort(data: bytes) -> int:
    if len(data) < _INT16.size:
        raise DecoderAbort(BUFFER_UNDERFLOW, None)
    number: int = _INT16.unpack_from(data)[0]
    return number


def _partitions_in_set_order(topics: list[dict[str, Any]] | None) -> list[str]:
    """Each topic-partition once, in the order of the Scala mutable.HashSet that Kafka collects them in.

    Its table has a power of two of buckets and is walked bucket by bucket, each ordered by hash. Partitions arrive
    topic by topic: up to four one at a time, more as one immutable set, which is added without the look at the load
    that single additions take before each.
    """
    if topics is None:
        raise DecoderAbort(
            _NULL_POINTER,
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
            if len(partitions) <= 4 and len(hashes) + 1 >= buckets * 3 // 4:
                buckets *= 2
            plain = (31 * (31 + partition) + topic_hash) & 0xFFFFFFFF
            improved = plain ^ plain >> 16
            hashes.setdefault((name, partition), (improved ^ 0x80000000) - 0x80000000)
    ordered = sorted(hashes, key=lambda element: (hashes[element] & buckets - 1, hashes[element]))
    return [f"{name}-{partition}" for name, partition in ordered]


def _buckets_for(size: int) -> int:
    """The table that the set makes room with for a hint of so many elements, at a load of 3/4."""
    capacity = int((size + 1) / 0.75)
    return 1 << max(capacity - 1, 4).bit_length()


# --- __cluster_metadata and __remote_log_metadata ---


def _cluster_metadata(offset: int, value: bytes | None) -> str:
    from kdump.formats.schemas.cluster_metadata import TOPIC, type_name

    try:
        schema, version, fields = _metadata_message(TOPIC, value or b"")
    except SchemaError as error:
        return f"Error at {offset}, skipping. {_or_null(error.kafka_message)}"
    data = to_json(schema, version, fields)
    return json_text({"type": type_name(schema.name), "version": version, "data": data})


def _metadata_message(topic: MetadataTopic, value: bytes) -> tuple[Schema, int, dict[str, Any]]:
    api_key, version, position = read_frame(value)
    schema = topic.schemas.get(api_key)
    if schema is None:
        raise _wrapped(f"{UNSUPPORTED_VERSION}: Unknown metadata id {api_key}")
    try:
        fields, end = decode_as_broker(schema, version, value, position)
    except SchemaError as error:
        raise _wrapped(f"Failed to deserialize record with type {api_key}") from error
    if end != len(value):
        raise _wrapped(f"Found {len(value) - end} byte(s) of garbage after {api_key}")
    return schema, version, fields


def _remote_log_metadata(offset: int, value: bytes | None) -> str:
    from kdump.formats.schemas.remote_log_metadata import TOPIC
    from kdump.formats.schemas.remote_log_text import to_string

    try:
        if value is None:
            raise _wrapped(
                'Cannot invoke "java.nio.ByteBuffer.remaining()" because the return value of'
                ' "org.apache.kafka.common.record.Record.value()" is null'
            )
        schema, _, fields = _metadata_message(TOPIC, value)
        return to_string(schema.name, fields)
    except SchemaError as error:
        return _skipped(offset, error)
