"""__remote_log_metadata: what tiered storage holds of each partition; framing as in `framing.MetadataTopic`.

The apiKeys are the topic's own; every record is version 0.
"""

from __future__ import annotations

from kdump.formats.schemas.description import Field, Schema
from kdump.formats.schemas.framing import MetadataTopic
from kdump.releases import KafkaRelease

SEGMENT_METADATA = 0
SEGMENT_METADATA_UPDATE = 1
PARTITION_DELETE_METADATA = 2
SEGMENT_METADATA_SNAPSHOT = 3

SEGMENT_STATES = (
    "COPY_SEGMENT_STARTED",
    "COPY_SEGMENT_FINISHED",
    "DELETE_SEGMENT_STARTED",
    "DELETE_SEGMENT_FINISHED",
)  # by remoteLogSegmentState
PARTITION_DELETE_STATES = (
    "DELETE_PARTITION_MARKED",
    "DELETE_PARTITION_STARTED",
    "DELETE_PARTITION_FINISHED",
)  # by remotePartitionDeleteState

_TOPIC_ID_PARTITION = Field(
    "topicIdPartition",
    "TopicIdPartitionEntry",
    fields=(Field("name", "string"), Field("id", "uuid"), Field("partition", "int32")),
)
_SEGMENT_ID = Field("remoteLogSegmentId", "RemoteLogSegmentIdEntry", fields=(_TOPIC_ID_PARTITION, Field("id", "uuid")))
_BROKER_ID = Field("brokerId", "int32")
_EVENT_TIMESTAMP = Field("eventTimestampMs", "int64")
_CUSTOM_METADATA = Field("customMetadata", "bytes", nullable="0+", default=None)
_SEGMENT_STATE = Field("remoteLogSegmentState", "int8")
_SEGMENT = (
    Field("startOffset", "int64"),
    Field("endOffset", "int64"),
    _BROKER_ID,
    Field("maxTimestampMs", "int64"),
    _EVENT_TIMESTAMP,
    Field(
        "segmentLeaderEpochs",
        "[]SegmentLeaderEpochEntry",
        fields=(Field("leaderEpoch", "int32"), Field("offset", "int64")),
    ),
    Field("segmentSizeInBytes", "int32"),
    _CUSTOM_METADATA,
    _SEGMENT_STATE,
    Field("txnIndexEmpty", "bool", tag=0, since=KafkaRelease.V4_0),
)

TOPIC = MetadataTopic(
    "__remote_log_metadata",
    {
        SEGMENT_METADATA: Schema("RemoteLogSegmentMetadataRecord", "0", "0+", _SEGMENT_ID, *_SEGMENT),
        SEGMENT_METADATA_UPDATE: Schema(
            "RemoteLogSegmentMetadataUpdateRecord",
            "0",
            "0+",
            _SEGMENT_ID,
            _BROKER_ID,
            _EVENT_TIMESTAMP,
            _CUSTOM_METADATA,
            _SEGMENT_STATE,
        ),
        PARTITION_DELETE_METADATA: Schema(
            "RemotePartitionDeleteMetadataRecord",
            "0",
            "0+",
            _TOPIC_ID_PARTITION,
            _BROKER_ID,
            _EVENT_TIMESTAMP,
            Field("remotePartitionDeleteState", "int8"),
        ),
        SEGMENT_METADATA_SNAPSHOT: Schema(
            "RemoteLogSegmentMetadataSnapshotRecord", "0", "0+", Field("segmentId", "uuid"), *_SEGMENT
        ),
    },
)

decode_value = TOPIC.decode_value
encode_value = TOPIC.encode_value
