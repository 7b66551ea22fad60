"""__share_group_state: snapshots and updates of share partitions; framing as in `framing.CoordinatorTopic`.

The layouts are those of 4.0, a preview, and of 4.1 and later, which use the same version number.
"""

from __future__ import annotations

from kdump.formats.schemas.description import Field, Schema
from kdump.formats.schemas.framing import CoordinatorTopic, RecordKind, key_schema
from kdump.releases import KafkaRelease

SHARE_SNAPSHOT = 0
SHARE_UPDATE = 1

DELIVERY_STATES = {0: "AVAILABLE", 1: "ACQUIRED", 2: "ACKNOWLEDGED", 4: "ARCHIVED"}

_SHARE_PARTITION = (Field("groupId", "string"), Field("topicId", "uuid"), Field("partition", "int32"))
_STATE_EPOCH = Field("stateEpoch", "int32")
_LEADER_EPOCH = Field("leaderEpoch", "int32")
_START_OFFSET = Field("startOffset", "int64")
_BATCH = (
    Field("firstOffset", "int64"),
    Field("lastOffset", "int64"),
    Field("deliveryState", "int8"),
    Field("deliveryCount", "int16"),
)
_DELIVERY_COMPLETE_COUNT = Field("deliveryCompleteCount", "int32", tag=0, default=-1, since=KafkaRelease.V4_2)

TOPIC = CoordinatorTopic(
    "__share_group_state",
    {
        SHARE_SNAPSHOT: RecordKind(
            "ShareSnapshot",
            key_schema("ShareSnapshotKey", *_SHARE_PARTITION),
            Schema(
                "ShareSnapshotValue",
                "0",
                "0+",
                Field("snapshotEpoch", "uint16"),
                _STATE_EPOCH,
                _LEADER_EPOCH,
                _START_OFFSET,
                Field("stateBatches", "[]StateBatch", "0", fields=_BATCH),
            ),
            later=Schema(
                "ShareSnapshotValue",
                "0",
                "0+",
                Field("snapshotEpoch", "int32"),
                _STATE_EPOCH,
                _LEADER_EPOCH,
                _START_OFFSET,
                _DELIVERY_COMPLETE_COUNT,
                Field("createTimestamp", "int64"),
                Field("writeTimestamp", "int64"),
                Field("stateBatches", "[]StateBatch", fields=_BATCH),
            ),
        ),
        SHARE_UPDATE: RecordKind(
            "ShareUpdate",
            key_schema("ShareUpdateKey", *_SHARE_PARTITION),
            Schema(
                "ShareUpdateValue",
                "0-1",  # early brokers gave version 1 to what is version 0
                "0+",
                Field("snapshotEpoch", "uint16"),
                _LEADER_EPOCH,
                _START_OFFSET,
                Field("stateBatches", "[]StateBatch", "0-1", fields=_BATCH),
            ),
            later=Schema(
                "ShareUpdateValue",
                "0",
                "0+",
                Field("snapshotEpoch", "int32"),
                _LEADER_EPOCH,
                _START_OFFSET,
                _DELIVERY_COMPLETE_COUNT,
                Field("stateBatches", "[]StateBatch", fields=_BATCH),
            ),
        ),
    },
)

decode_key = TOPIC.decode_key
decode_value = TOPIC.decode_value
encode_key = TOPIC.encode_key
encode_value = TOPIC.encode_value
