"""What toString gives for the objects that Kafka makes of remote log metadata records.

The objects' constructors refuse some records that can be decoded; that is a SchemaError with their message.
"""

from __future__ import annotations

from typing import Any

from kdump.formats.schemas.description import SchemaError
from kdump.formats.schemas.remote_log_metadata import PARTITION_DELETE_STATES, SEGMENT_STATES
from kdump.formats.uuids import format_uuid


def to_string(record: str, fields: dict[str, Any], *, has_txn_index_empty: bool) -> str:
    """Return the text for a record of that schema name; that it has no transaction index, from Kafka 4.0 on."""
    text = _TEXTS[record](fields)
    if has_txn_index_empty and "txnIndexEmpty" in fields:
        text = f"{text[:-1]}, txnIdxEmpty={'true' if fields['txnIndexEmpty'] else 'false'}}}"
    return text


def _remote_segment(fields: dict[str, Any]) -> str:
    start, end = fields["startOffset"], fields["endOffset"]
    if start < 0:
        raise _refused(f"Unexpected start offset = {start}. StartOffset for a remote segment cannot be negative")
    if end < start:
        raise _refused(
            f"Unexpected end offset = {end}. EndOffset for a remote segment cannot be less than startOffset = {start}"
        )
    epochs, state = _leader_epochs(fields), _segment_state(fields)
    return (
        f"RemoteLogSegmentMetadata{{remoteLogSegmentId={_segment_id(fields)}, startOffset={start}, endOffset={end},"
        f" brokerId={fields['brokerId']}, maxTimestampMs={fields['maxTimestampMs']},"
        f" eventTimestampMs={fields['eventTimestampMs']}, segmentLeaderEpochs={epochs},"
        f" segmentSizeInBytes={fields['segmentSizeInBytes']}, customMetadata={_custom_metadata(fields)},"
        f" state={state}}}"
    )


def _remote_segment_update(fields: dict[str, Any]) -> str:
    return (
        f"RemoteLogSegmentMetadataUpdate{{remoteLogSegmentId={_segment_id(fields)},"
        f" customMetadata={_custom_metadata(fields)}, state={_segment_state(fields)},"
        f" eventTimestampMs={fields['eventTimestampMs']}, brokerId={fields['brokerId']}}}"
    )


def _remote_partition_delete(fields: dict[str, Any]) -> str:
    state = fields["remotePartitionDeleteState"]
    if not 0 <= state < len(PARTITION_DELETE_STATES):
        raise SchemaError(f"Unknown delete state {state}")  # a requireNonNull without a message
    return (
        f"RemotePartitionDeleteMetadata{{topicPartition={_topic_id_partition(fields)},"
        f" state={PARTITION_DELETE_STATES[state]}, eventTimestampMs={fields['eventTimestampMs']},"
        f" brokerId={fields['brokerId']}}}"
    )


def _remote_segment_snapshot(fields: dict[str, Any]) -> str:
    state, epochs = _segment_state(fields), _leader_epochs(fields)
    return (
        f"RemoteLogSegmentMetadataSnapshot{{segmentId={format_uuid(fields['segmentId'])},"
        f" startOffset={fields['startOffset']}, endOffset={fields['endOffset']},"
        f" maxTimestampMs={fields['maxTimestampMs']}, segmentLeaderEpochs={epochs},"
        f" segmentSizeInBytes={fields['segmentSizeInBytes']}, customMetadata={_custom_metadata(fields)},"
        f" state={state}}}"
    )


def _segment_id(fields: dict[str, Any]) -> str:
    segment = fields["remoteLogSegmentId"]
    return f"RemoteLogSegmentId{{topicIdPartition={_topic_id_partition(segment)}, id={format_uuid(segment['id'])}}}"


def _topic_id_partition(fields: dict[str, Any]) -> str:
    entry = fields["topicIdPartition"]
    return f"{format_uuid(entry['id'])}:{entry['name']}-{entry['partition']}"


def _leader_epochs(fields: dict[str, Any]) -> str:
    """Return a Java TreeMap: ascending, the last of equal epochs counts."""
    epochs = {entry["leaderEpoch"]: entry["offset"] for entry in fields["segmentLeaderEpochs"]}
    if not epochs:
        raise _refused("segmentLeaderEpochs can not be null or empty")
    return "{" + ", ".join(f"{epoch}={epochs[epoch]}" for epoch in sorted(epochs)) + "}"


def _segment_state(fields: dict[str, Any]) -> str:
    state = fields["remoteLogSegmentState"]
    if not 0 <= state < len(SEGMENT_STATES):
        raise _refused("state can not be null")
    return SEGMENT_STATES[state]


def _custom_metadata(fields: dict[str, Any]) -> str:
    data = fields["customMetadata"]
    return "Optional.empty" if data is None else f"Optional[CustomMetadata{{{len(data)} bytes}}]"


def _refused(message: str) -> SchemaError:
    return SchemaError(message, kafka_message=message)


_TEXTS = {
    "RemoteLogSegmentMetadataRecord": _remote_segment,
    "RemoteLogSegmentMetadataUpdateRecord": _remote_segment_update,
    "RemotePartitionDeleteMetadataRecord": _remote_partition_delete,
    "RemoteLogSegmentMetadataSnapshotRecord": _remote_segment_snapshot,
}
