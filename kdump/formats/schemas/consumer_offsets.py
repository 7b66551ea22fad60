"""__consumer_offsets: committed offsets, and groups with their members and assignments, of every group protocol.

The key's record type decides the schema of the value; framing as in `framing.CoordinatorTopic`. The subscription and
the assignment of a classic consumer group's member are messages of their own, int16 version in front.
"""

from __future__ import annotations

from binascii import a2b_base64
from typing import Any

from kdump.formats.schemas.description import PACKERS, Field, Schema, SchemaError
from kdump.formats.schemas.framing import CoordinatorTopic, RecordKind, key_schema
from kdump.formats.schemas.schema import decode_as_broker, to_json
from kdump.releases import KafkaRelease

_V4_0, _V4_1, _V4_2 = KafkaRelease.V4_0, KafkaRelease.V4_1, KafkaRelease.V4_2
_V4_3, _V4_4 = KafkaRelease.V4_3, KafkaRelease.V4_4

OFFSET_COMMIT_LEGACY = 0
OFFSET_COMMIT = 1
GROUP_METADATA = 2

CLASSIC_CONSUMER_PROTOCOL = "consumer"  # the protocolType of classic groups whose members are Kafka consumers

_GROUP_ID = Field("groupId", "string")
_MEMBER_ID = Field("memberId", "string")
_TOPIC_ID = Field("topicId", "uuid")
_TOPIC_NAME = Field("topicName", "string")
_EPOCH = Field("epoch", "int32")
_PARTITIONS = Field("partitions", "[]int32")
_ASSIGNED = (_TOPIC_ID, _PARTITIONS)
_NAMED_ASSIGNED = (_TOPIC_ID, _TOPIC_NAME, _PARTITIONS)

_OFFSET_COMMIT_KEY = key_schema(
    "OffsetCommitKey",
    Field("group", "string"),
    Field("topic", "string"),
    Field("partition", "int32"),
)
_OFFSET_COMMIT_VALUE = Schema(
    "OffsetCommitValue",
    "0-4",
    "4+",
    Field("offset", "int64"),
    Field("leaderEpoch", "int32", "3+", default=-1, ignorable=True),
    Field("metadata", "string"),
    Field("commitTimestamp", "int64"),
    Field("expireTimestamp", "int64", "1", default=-1, ignorable=True),
    Field("topicId", "uuid", "4+", tag=0, ignorable=True, since=_V4_1),
)
_LEGACY_OFFSET_COMMIT_VALUE = Schema(
    "LegacyOffsetCommitValue",
    "0",
    "none",
    Field("offset", "int64"),
    Field("metadata", "string"),
    Field("commitTimestamp", "int64"),
)
_GROUP_METADATA_VALUE = Schema(
    "GroupMetadataValue",
    "0-4",
    "4+",
    Field("protocolType", "string"),
    Field("generation", "int32"),
    Field("protocol", "string", nullable="0+"),
    Field("leader", "string", nullable="0+"),
    Field("currentStateTimestamp", "int64", "2+", default=-1, ignorable=True),
    Field(
        "members",
        "[]MemberMetadata",
        fields=(
            _MEMBER_ID,
            Field("groupInstanceId", "string", "3+", nullable="3+", default=None, ignorable=True),
            Field("clientId", "string"),
            Field("clientHost", "string"),
            Field("rebalanceTimeout", "int32", "1+", default=-1, ignorable=True),
            Field("sessionTimeout", "int32"),
            Field("subscription", "bytes"),
            Field("assignment", "bytes"),
        ),
    ),
)
_TOPIC_METADATA = Field(
    "topics",
    "[]TopicMetadata",
    fields=(
        _TOPIC_ID,
        _TOPIC_NAME,
        Field("numPartitions", "int32"),
        Field(
            "partitionMetadata",
            "[]PartitionMetadata",
            fields=(Field("partition", "int32"), Field("racks", "[]string")),
        ),
    ),
)
_CLASSIC_MEMBER_METADATA = Field(
    "classicMemberMetadata",
    "ClassicMemberMetadata",
    nullable="0+",
    tag=0,
    fields=(
        Field("sessionTimeoutMs", "int32"),
        Field(
            "supportedProtocols",
            "[]ClassicProtocol",
            fields=(Field("name", "string"), Field("metadata", "bytes")),
        ),
    ),
)
_CONSUMER_MEMBER_METADATA_VALUE = Schema(
    "ConsumerGroupMemberMetadataValue",
    "0",
    "0+",
    Field("instanceId", "string", nullable="0+"),
    Field("rackId", "string", nullable="0+"),
    Field("clientId", "string"),
    Field("clientHost", "string"),
    Field("subscribedTopicNames", "[]string"),
    Field("subscribedTopicRegex", "string", nullable="0+"),
    Field("rebalanceTimeoutMs", "int32", default=-1),
    Field("serverAssignor", "string", nullable="0+"),
    _CLASSIC_MEMBER_METADATA,
)
_MEMBER_STATE = (
    Field("memberEpoch", "int32"),
    Field("previousMemberEpoch", "int32"),
    Field("state", "int8"),
)
_ASSIGNED_PARTITIONS = Field("assignedPartitions", "[]TopicPartitions", fields=_ASSIGNED)
_OWNED = (
    *_ASSIGNED,
    Field("assignmentEpochs", "[]int32", nullable="0+", tag=0, default=None, since=_V4_3),
)
_TASK_IDS = (Field("subtopologyId", "string"), _PARTITIONS)
_OWNED_TASK_IDS = (
    *_TASK_IDS,
    Field("assignmentEpochs", "[]int32", nullable="0+", tag=0, default=None, since=_V4_2),
)
_TARGET_ASSIGNMENT = (
    Field("assignmentEpoch", "int32"),
    Field("assignmentTimestamp", "int64", tag=0, since=_V4_3),
)
_CHANGELOG_TOPIC = (
    Field("name", "string"),
    Field("partitions", "int32"),
    Field("replicationFactor", "int16"),
    Field("topicConfigs", "[]TopicConfig", fields=(Field("key", "string"), Field("value", "string"))),
)


def _value(name: str, *fields: Field) -> Schema:
    return Schema(name, "0", "0+", *fields)


def _group_key(name: str) -> Schema:
    return key_schema(name, _GROUP_ID)


def _member_key(name: str) -> Schema:
    return key_schema(name, _GROUP_ID, _MEMBER_ID)


TOPIC = CoordinatorTopic(
    "__consumer_offsets",
    {
        OFFSET_COMMIT_LEGACY: RecordKind(
            "OffsetCommit", _OFFSET_COMMIT_KEY, _OFFSET_COMMIT_VALUE, later=_LEGACY_OFFSET_COMMIT_VALUE
        ),
        OFFSET_COMMIT: RecordKind("OffsetCommit", _OFFSET_COMMIT_KEY, _OFFSET_COMMIT_VALUE),
        GROUP_METADATA: RecordKind(
            "GroupMetadata", key_schema("GroupMetadataKey", Field("group", "string")), _GROUP_METADATA_VALUE
        ),
        3: RecordKind(
            "ConsumerGroupMetadata",
            _group_key("ConsumerGroupMetadataKey"),
            _value("ConsumerGroupMetadataValue", _EPOCH, Field("metadataHash", "int64", tag=0, since=_V4_1)),
        ),
        4: RecordKind(
            "ConsumerGroupPartitionMetadata",
            _group_key("ConsumerGroupPartitionMetadataKey"),
            _value("ConsumerGroupPartitionMetadataValue", _TOPIC_METADATA),
        ),
        5: RecordKind(
            "ConsumerGroupMemberMetadata",
            _member_key("ConsumerGroupMemberMetadataKey"),
            _CONSUMER_MEMBER_METADATA_VALUE,
        ),
        6: RecordKind(
            "ConsumerGroupTargetAssignmentMetadata",
            _group_key("ConsumerGroupTargetAssignmentMetadataKey"),
            _value("ConsumerGroupTargetAssignmentMetadataValue", *_TARGET_ASSIGNMENT),
        ),
        7: RecordKind(
            "ConsumerGroupTargetAssignmentMember",
            _member_key("ConsumerGroupTargetAssignmentMemberKey"),
            _value(
                "ConsumerGroupTargetAssignmentMemberValue",
                Field("topicPartitions", "[]TopicPartition", fields=_ASSIGNED),
            ),
        ),
        8: RecordKind(
            "ConsumerGroupCurrentMemberAssignment",
            _member_key("ConsumerGroupCurrentMemberAssignmentKey"),
            _value(
                "ConsumerGroupCurrentMemberAssignmentValue",
                *_MEMBER_STATE,
                Field("assignedPartitions", "[]TopicPartitions", fields=_OWNED),
                Field("partitionsPendingRevocation", "[]TopicPartitions", fields=_OWNED),
            ),
        ),
        9: RecordKind(
            "ShareGroupPartitionMetadata",
            _group_key("ShareGroupPartitionMetadataKey"),
            _value("ShareGroupPartitionMetadataValue", _TOPIC_METADATA),
            since=_V4_0,
            until=_V4_1,
        ),
        10: RecordKind(
            "ShareGroupMemberMetadata",
            _member_key("ShareGroupMemberMetadataKey"),
            _value(
                "ShareGroupMemberMetadataValue",
                Field("rackId", "string", nullable="0+"),
                Field("clientId", "string"),
                Field("clientHost", "string"),
                Field("subscribedTopicNames", "[]string"),
            ),
            since=_V4_0,
        ),
        11: RecordKind(
            "ShareGroupMetadata",
            _group_key("ShareGroupMetadataKey"),
            _value("ShareGroupMetadataValue", _EPOCH),
            later=_value("ShareGroupMetadataValue", _EPOCH, Field("metadataHash", "int64")),
            since=_V4_0,
        ),
        12: RecordKind(
            "ShareGroupTargetAssignmentMetadata",
            _group_key("ShareGroupTargetAssignmentMetadataKey"),
            _value("ShareGroupTargetAssignmentMetadataValue", *_TARGET_ASSIGNMENT),
            since=_V4_0,
        ),
        13: RecordKind(
            "ShareGroupTargetAssignmentMember",
            _member_key("ShareGroupTargetAssignmentMemberKey"),
            _value(
                "ShareGroupTargetAssignmentMemberValue",
                Field("topicPartitions", "[]TopicPartition", fields=_ASSIGNED),
            ),
            since=_V4_0,
        ),
        14: RecordKind(
            "ShareGroupCurrentMemberAssignment",
            _member_key("ShareGroupCurrentMemberAssignmentKey"),
            _value("ShareGroupCurrentMemberAssignmentValue", *_MEMBER_STATE, _ASSIGNED_PARTITIONS),
            since=_V4_0,
        ),
        15: RecordKind(
            "ShareGroupStatePartitionMetadata",
            _group_key("ShareGroupStatePartitionMetadataKey"),
            _value(
                "ShareGroupStatePartitionMetadataValue",
                Field("initializedTopics", "[]TopicPartitionsInfo", fields=_NAMED_ASSIGNED),
                Field("deletingTopics", "[]TopicInfo", fields=(_TOPIC_ID, _TOPIC_NAME)),
            ),
            later=_value(
                "ShareGroupStatePartitionMetadataValue",
                Field("initializingTopics", "[]TopicPartitionsInfo", fields=_NAMED_ASSIGNED),
                Field("initializedTopics", "[]TopicPartitionsInfo", fields=_NAMED_ASSIGNED),
                Field("deletingTopics", "[]TopicInfo", fields=(_TOPIC_ID, _TOPIC_NAME)),
            ),
            since=_V4_0,
        ),
        16: RecordKind(
            "ConsumerGroupRegularExpression",
            key_schema("ConsumerGroupRegularExpressionKey", _GROUP_ID, Field("regularExpression", "string")),
            _value(
                "ConsumerGroupRegularExpressionValue",
                Field("topics", "[]string"),
                Field("version", "int64"),
                Field("timestamp", "int64"),
            ),
            since=_V4_0,
        ),
        17: RecordKind(
            "StreamsGroupMetadata",
            _group_key("StreamsGroupMetadataKey"),
            _value(
                "StreamsGroupMetadataValue",
                _EPOCH,
                Field("metadataHash", "int64"),
                Field("validatedTopologyEpoch", "int32", tag=0, default=-1, since=_V4_2),
                Field(
                    "lastAssignmentConfigs",
                    "[]LastAssignmentConfig",
                    nullable="0+",
                    tag=1,
                    since=_V4_2,
                    fields=(Field("key", "string"), Field("value", "string")),
                ),
                Field("storedDescriptionTopologyEpoch", "int32", tag=2, default=-1, since=_V4_4),
                Field("failedDescriptionTopologyEpoch", "int32", tag=3, default=-1, since=_V4_4),
            ),
            since=_V4_1,
        ),
        19: RecordKind(
            "StreamsGroupMemberMetadata",
            _member_key("StreamsGroupMemberMetadataKey"),
            _value(
                "StreamsGroupMemberMetadataValue",
                Field("instanceId", "string", nullable="0+"),
                Field("rackId", "string", nullable="0+"),
                Field("clientId", "string"),
                Field("clientHost", "string"),
                Field("rebalanceTimeoutMs", "int32", default=-1),
                Field("topologyEpoch", "int32"),
                Field("processId", "string"),
                Field(
                    "userEndpoint",
                    "Endpoint",
                    nullable="0+",
                    default=None,
                    fields=(Field("host", "string"), Field("port", "uint16")),
                ),
                Field("clientTags", "[]KeyValue", fields=(Field("key", "string"), Field("value", "string"))),
            ),
            since=_V4_1,
        ),
        20: RecordKind(
            "StreamsGroupTargetAssignmentMetadata",
            _group_key("StreamsGroupTargetAssignmentMetadataKey"),
            _value("StreamsGroupTargetAssignmentMetadataValue", *_TARGET_ASSIGNMENT),
            since=_V4_1,
        ),
        21: RecordKind(
            "StreamsGroupTargetAssignmentMember",
            _member_key("StreamsGroupTargetAssignmentMemberKey"),
            _value(
                "StreamsGroupTargetAssignmentMemberValue",
                Field("activeTasks", "[]TaskIds", fields=_TASK_IDS),
                Field("standbyTasks", "[]TaskIds", fields=_TASK_IDS),
                Field("warmupTasks", "[]TaskIds", fields=_TASK_IDS),
            ),
            since=_V4_1,
        ),
        22: RecordKind(
            "StreamsGroupCurrentMemberAssignment",
            _member_key("StreamsGroupCurrentMemberAssignmentKey"),
            _value(
                "StreamsGroupCurrentMemberAssignmentValue",
                *_MEMBER_STATE,
                Field("activeTasks", "[]TaskIds", fields=_OWNED_TASK_IDS),
                Field("standbyTasks", "[]TaskIds", fields=_OWNED_TASK_IDS),
                Field("warmupTasks", "[]TaskIds", fields=_OWNED_TASK_IDS),
                Field("activeTasksPendingRevocation", "[]TaskIds", fields=_OWNED_TASK_IDS),
                Field("standbyTasksPendingRevocation", "[]TaskIds", fields=_OWNED_TASK_IDS),
                Field("warmupTasksPendingRevocation", "[]TaskIds", fields=_OWNED_TASK_IDS),
            ),
            since=_V4_1,
        ),
        23: RecordKind(
            "StreamsGroupTopology",
            _group_key("StreamsGroupTopologyKey"),
            _value(
                "StreamsGroupTopologyValue",
                _EPOCH,
                Field(
                    "subtopologies",
                    "[]Subtopology",
                    fields=(
                        Field("subtopologyId", "string"),
                        Field("sourceTopics", "[]string"),
                        Field("sourceTopicRegex", "[]string"),
                        Field("stateChangelogTopics", "[]TopicInfo", fields=_CHANGELOG_TOPIC),
                        Field("repartitionSinkTopics", "[]string"),
                        Field("repartitionSourceTopics", "[]TopicInfo", fields=_CHANGELOG_TOPIC),
                        Field(
                            "copartitionGroups",
                            "[]CopartitionGroup",
                            fields=(
                                Field("sourceTopics", "[]int16"),
                                Field("sourceTopicRegex", "[]int16"),
                                Field("repartitionSourceTopics", "[]int16"),
                            ),
                        ),
                    ),
                ),
            ),
            since=_V4_1,
        ),
    },
)

decode_key = TOPIC.decode_key
decode_value = TOPIC.decode_value
encode_key = TOPIC.encode_key
encode_value = TOPIC.encode_value

CONSUMER_PROTOCOL_SUBSCRIPTION = Schema(
    "ConsumerProtocolSubscription",
    "0-3",
    "none",
    Field("topics", "[]string"),
    Field("userData", "bytes", nullable="0+", default=None),
    Field(
        "ownedPartitions",
        "[]TopicPartition",
        "1+",
        ignorable=True,
        fields=(Field("topic", "string", "1+"), Field("partitions", "[]int32", "1+")),
    ),
    Field("generationId", "int32", "2+", default=-1, ignorable=True),
    Field("rackId", "string", "3+", nullable="3+", default=None, ignorable=True),
)
CONSUMER_PROTOCOL_ASSIGNMENT = Schema(
    "ConsumerProtocolAssignment",
    "0-3",
    "none",
    Field("assignedPartitions", "[]TopicPartition", fields=(Field("topic", "string"), _PARTITIONS)),
    Field("userData", "bytes", nullable="0+", default=None),
)


def decode_consumer_protocol(schema: Schema, data: bytes) -> tuple[int, dict[str, Any]]:
    """Version and fields of a classic consumer's subscription or assignment (the two schemas above).

    Clients wrote these bytes, maybe in a later version: they are read as leniently as Kafka does, and what follows
    the known fields is ignored. Raises SchemaError where not even that succeeds.
    """
    packer = PACKERS["int16"]
    if len(data) < packer.size:
        raise SchemaError(f"{schema.name} has only {len(data)} byte(s)", 0)
    version: int = packer.unpack_from(data)[0]
    return version, decode_as_broker(schema, version, data, packer.size)[0]


def open_consumer_protocol(data: dict[str, Any]) -> None:
    """Replace the members' subscriptions and assignments in a GroupMetadataValue's JSON by what they say.

    Only in groups of consumers, and only those that can be decoded; the others stay base64.
    """
    if data["protocolType"] != CLASSIC_CONSUMER_PROTOCOL:
        return
    schemas = {"subscription": CONSUMER_PROTOCOL_SUBSCRIPTION, "assignment": CONSUMER_PROTOCOL_ASSIGNMENT}
    for member in data["members"]:
        for name, schema in schemas.items():
            try:
                version, fields = decode_consumer_protocol(schema, a2b_base64(member[name]))
            except SchemaError:
                continue
            member[name] = to_json(schema, version, fields)
