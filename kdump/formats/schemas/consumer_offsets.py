"""__consumer_offsets: committed offsets, and groups with their members and assignments, of every group protocol.

The key's record type decides the schema of the value; framing as in `framing.CoordinatorTopic`. The subscription and
the assignment of a classic consumer group's member are messages of their own, int16 version in front.
"""

from __future__ import annotations

from binascii import a2b_base64
from typing import Any

from kdump.formats.schemas.description import PACKERS, Field, Schema, SchemaError
from kdump.formats.schemas.framing import CoordinatorTopic, RecordKind, key_schema
from kdump.formats.schemas.json_form import to_json
from kdump.formats.schemas.reader import decode_as_broker
from kdump.formats.schemas.tables import messages
from kdump.releases import KafkaRelease

_V4_0, _V4_1 = KafkaRelease.V4_0, KafkaRelease.V4_1

OFFSET_COMMIT_LEGACY = 0
OFFSET_COMMIT = 1
GROUP_METADATA = 2

CLASSIC_CONSUMER_PROTOCOL = "consumer"  # the protocolType of classic groups whose members are Kafka consumers

_VALUES = messages("""
OffsetCommitValue 0-4 flexible 4+
  offset          int64
  leaderEpoch     int32  3+ default -1  ignorable
  metadata        string
  commitTimestamp int64
  expireTimestamp int64  1  default -1  ignorable
  topicId         uuid   4+ tag 0  ignorable  since 4.1

GroupMetadataValue 0-4 flexible 4+
  protocolType          string
  generation            int32
  protocol              string              nullable 0+
  leader                string              nullable 0+
  currentStateTimestamp int64            2+ default -1  ignorable
  members               []MemberMetadata
    memberId            string
    groupInstanceId     string           3+ nullable 3+  default null  ignorable
    clientId            string
    clientHost          string
    rebalanceTimeout    int32            1+ default -1  ignorable
    sessionTimeout      int32
    subscription        bytes
    assignment          bytes

ConsumerGroupMetadataValue 0 flexible 0+
  epoch        int32
  metadataHash int64  tag 0  since 4.1

ConsumerGroupPartitionMetadataValue 0 flexible 0+
  topics              []TopicMetadata
    topicId           uuid
    topicName         string
    numPartitions     int32
    partitionMetadata []PartitionMetadata
      partition       int32
      racks           []string

ConsumerGroupMemberMetadataValue 0 flexible 0+
  instanceId            string                 nullable 0+
  rackId                string                 nullable 0+
  clientId              string
  clientHost            string
  subscribedTopicNames  []string
  subscribedTopicRegex  string                 nullable 0+
  rebalanceTimeoutMs    int32                  default -1
  serverAssignor        string                 nullable 0+
  classicMemberMetadata ClassicMemberMetadata  nullable 0+  tag 0
    sessionTimeoutMs    int32
    supportedProtocols  []ClassicProtocol
      name              string
      metadata          bytes

ConsumerGroupTargetAssignmentMetadataValue 0 flexible 0+
  assignmentEpoch     int32
  assignmentTimestamp int64  tag 0  since 4.3

ConsumerGroupTargetAssignmentMemberValue 0 flexible 0+
  topicPartitions []TopicPartition
    topicId       uuid
    partitions    []int32

ConsumerGroupCurrentMemberAssignmentValue 0 flexible 0+
  memberEpoch                 int32
  previousMemberEpoch         int32
  state                       int8
  assignedPartitions          []TopicPartitions
    topicId                   uuid
    partitions                []int32
    assignmentEpochs          []int32            nullable 0+  tag 0  default null  since 4.3
  partitionsPendingRevocation []TopicPartitions

ShareGroupPartitionMetadataValue 0 flexible 0+
  topics              []TopicMetadata
    topicId           uuid
    topicName         string
    numPartitions     int32
    partitionMetadata []PartitionMetadata
      partition       int32
      racks           []string

ShareGroupMemberMetadataValue 0 flexible 0+
  rackId               string    nullable 0+
  clientId             string
  clientHost           string
  subscribedTopicNames []string

ShareGroupMetadataValue 0 flexible 0+
  epoch int32

ShareGroupTargetAssignmentMetadataValue 0 flexible 0+
  assignmentEpoch     int32
  assignmentTimestamp int64  tag 0  since 4.3

ShareGroupTargetAssignmentMemberValue 0 flexible 0+
  topicPartitions []TopicPartition
    topicId       uuid
    partitions    []int32

ShareGroupCurrentMemberAssignmentValue 0 flexible 0+
  memberEpoch         int32
  previousMemberEpoch int32
  state               int8
  assignedPartitions  []TopicPartitions
    topicId           uuid
    partitions        []int32

ShareGroupStatePartitionMetadataValue 0 flexible 0+
  initializedTopics []TopicPartitionsInfo
    topicId         uuid
    topicName       string
    partitions      []int32
  deletingTopics    []TopicInfo
    topicId         uuid
    topicName       string

ConsumerGroupRegularExpressionValue 0 flexible 0+
  topics    []string
  version   int64
  timestamp int64

StreamsGroupMetadataValue 0 flexible 0+
  epoch                          int32
  metadataHash                   int64
  validatedTopologyEpoch         int32                   tag 0  default -1  since 4.2
  lastAssignmentConfigs          []LastAssignmentConfig  nullable 0+  tag 1  since 4.2
    key                          string
    value                        string
  storedDescriptionTopologyEpoch int32                   tag 2  default -1  since 4.4
  failedDescriptionTopologyEpoch int32                   tag 3  default -1  since 4.4

StreamsGroupMemberMetadataValue 0 flexible 0+
  instanceId         string      nullable 0+
  rackId             string      nullable 0+
  clientId           string
  clientHost         string
  rebalanceTimeoutMs int32       default -1
  topologyEpoch      int32
  processId          string
  userEndpoint       Endpoint    nullable 0+  default null
    host             string
    port             uint16
  clientTags         []KeyValue
    key              string
    value            string

StreamsGroupTargetAssignmentMetadataValue 0 flexible 0+
  assignmentEpoch     int32
  assignmentTimestamp int64  tag 0  since 4.3

StreamsGroupTargetAssignmentMemberValue 0 flexible 0+
  activeTasks     []TaskIds
    subtopologyId string
    partitions    []int32
  standbyTasks    []TaskIds
  warmupTasks     []TaskIds

StreamsGroupCurrentMemberAssignmentValue 0 flexible 0+
  memberEpoch                   int32
  previousMemberEpoch           int32
  state                         int8
  activeTasks                   []TaskIds
    subtopologyId               string
    partitions                  []int32
    assignmentEpochs            []int32    nullable 0+  tag 0  default null  since 4.2
  standbyTasks                  []TaskIds
  warmupTasks                   []TaskIds
  activeTasksPendingRevocation  []TaskIds
  standbyTasksPendingRevocation []TaskIds
  warmupTasksPendingRevocation  []TaskIds

StreamsGroupTopologyValue 0 flexible 0+
  epoch                       int32
  subtopologies               []Subtopology
    subtopologyId             string
    sourceTopics              []string
    sourceTopicRegex          []string
    stateChangelogTopics      []TopicInfo
      name                    string
      partitions              int32
      replicationFactor       int16
      topicConfigs            []TopicConfig
        key                   string
        value                 string
    repartitionSinkTopics     []string
    repartitionSourceTopics   []TopicInfo
    copartitionGroups         []CopartitionGroup
      sourceTopics            []int16
      sourceTopicRegex        []int16
      repartitionSourceTopics []int16

ConsumerProtocolSubscription 0-3 flexible none
  topics          []string
  userData        bytes               nullable 0+  default null
  ownedPartitions []TopicPartition 1+ ignorable
    topic         string           1+
    partitions    []int32          1+
  generationId    int32            2+ default -1  ignorable
  rackId          string           3+ nullable 3+  default null  ignorable

ConsumerProtocolAssignment 0-3 flexible none
  assignedPartitions []TopicPartition
    topic            string
    partitions       []int32
  userData           bytes             nullable 0+  default null
""")

_LATER = messages("""
LegacyOffsetCommitValue 0 flexible none
  offset          int64
  metadata        string
  commitTimestamp int64

ShareGroupMetadataValue 0 flexible 0+
  epoch        int32
  metadataHash int64

ShareGroupStatePartitionMetadataValue 0 flexible 0+
  initializingTopics []TopicPartitionsInfo
    topicId          uuid
    topicName        string
    partitions       []int32
  initializedTopics  []TopicPartitionsInfo
  deletingTopics     []TopicInfo
    topicId          uuid
    topicName        string
""")
"""Layouts that came without a new version number."""


def _kind(name: str, *key: str, since: KafkaRelease | None = None, until: KafkaRelease | None = None) -> RecordKind:
    """Return the record type whose key has these fields, all text."""
    value = f"{name}Value"
    fields = (Field(field, "string") for field in key)
    return RecordKind(
        name, key_schema(f"{name}Key", *fields), _VALUES[value], later=_LATER.get(value), since=since, until=until
    )


_OFFSET_COMMIT_KEY = key_schema(
    "OffsetCommitKey", Field("group", "string"), Field("topic", "string"), Field("partition", "int32")
)
_OFFSET_COMMIT_VALUE = _VALUES["OffsetCommitValue"]
_GROUP = ("groupId",)
_MEMBER = ("groupId", "memberId")

TOPIC = CoordinatorTopic(
    "__consumer_offsets",
    {
        OFFSET_COMMIT_LEGACY: RecordKind(
            "OffsetCommit", _OFFSET_COMMIT_KEY, _OFFSET_COMMIT_VALUE, later=_LATER["LegacyOffsetCommitValue"]
        ),
        OFFSET_COMMIT: RecordKind("OffsetCommit", _OFFSET_COMMIT_KEY, _OFFSET_COMMIT_VALUE),
        GROUP_METADATA: _kind("GroupMetadata", "group"),
        3: _kind("ConsumerGroupMetadata", *_GROUP),
        4: _kind("ConsumerGroupPartitionMetadata", *_GROUP),
        5: _kind("ConsumerGroupMemberMetadata", *_MEMBER),
        6: _kind("ConsumerGroupTargetAssignmentMetadata", *_GROUP),
        7: _kind("ConsumerGroupTargetAssignmentMember", *_MEMBER),
        8: _kind("ConsumerGroupCurrentMemberAssignment", *_MEMBER),
        9: _kind("ShareGroupPartitionMetadata", *_GROUP, since=_V4_0, until=_V4_1),
        10: _kind("ShareGroupMemberMetadata", *_MEMBER, since=_V4_0),
        11: _kind("ShareGroupMetadata", *_GROUP, since=_V4_0),
        12: _kind("ShareGroupTargetAssignmentMetadata", *_GROUP, since=_V4_0),
        13: _kind("ShareGroupTargetAssignmentMember", *_MEMBER, since=_V4_0),
        14: _kind("ShareGroupCurrentMemberAssignment", *_MEMBER, since=_V4_0),
        15: _kind("ShareGroupStatePartitionMetadata", *_GROUP, since=_V4_0),
        16: _kind("ConsumerGroupRegularExpression", "groupId", "regularExpression", since=_V4_0),
        17: _kind("StreamsGroupMetadata", *_GROUP, since=_V4_1),
        19: _kind("StreamsGroupMemberMetadata", *_MEMBER, since=_V4_1),
        20: _kind("StreamsGroupTargetAssignmentMetadata", *_GROUP, since=_V4_1),
        21: _kind("StreamsGroupTargetAssignmentMember", *_MEMBER, since=_V4_1),
        22: _kind("StreamsGroupCurrentMemberAssignment", *_MEMBER, since=_V4_1),
        23: _kind("StreamsGroupTopology", *_GROUP, since=_V4_1),
    },
)

decode_key = TOPIC.decode_key
decode_value = TOPIC.decode_value
encode_key = TOPIC.encode_key
encode_value = TOPIC.encode_value

CONSUMER_PROTOCOL_SUBSCRIPTION = _VALUES["ConsumerProtocolSubscription"]
CONSUMER_PROTOCOL_ASSIGNMENT = _VALUES["ConsumerProtocolAssignment"]


def decode_consumer_protocol(schema: Schema, data: bytes) -> tuple[int, dict[str, Any]]:
    """Return version and fields of a classic consumer's subscription or assignment (the two schemas above).

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
