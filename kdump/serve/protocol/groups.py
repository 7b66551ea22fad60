"""The layouts of the messages of consumer groups.

As the message descriptions of Kafka 4.3 have them (clients/src/main/resources/common/message).
"""

from __future__ import annotations

from kdump.formats.schemas.description import Field, Schema

FIND_COORDINATOR_REQUEST = Schema(
    "FindCoordinatorRequest",
    "0-6",
    "3+",
    Field("key", "string", "0-3"),
    Field("keyType", "int8", "1+"),
    Field("coordinatorKeys", "[]string", "4+"),
)

FIND_COORDINATOR_RESPONSE = Schema(
    "FindCoordinatorResponse",
    "0-6",
    "3+",
    Field("throttleTimeMs", "int32", "1+", ignorable=True),
    Field("errorCode", "int16", "0-3"),
    Field("errorMessage", "string", "1-3", nullable="1-3", ignorable=True),
    Field("nodeId", "int32", "0-3"),
    Field("host", "string", "0-3"),
    Field("port", "int32", "0-3"),
    Field(
        "coordinators", "[]Coordinator", "4+",
        fields=(
            Field("key", "string", "4+"),
            Field("nodeId", "int32", "4+"),
            Field("host", "string", "4+"),
            Field("port", "int32", "4+"),
            Field("errorCode", "int16", "4+"),
            Field("errorMessage", "string", "4+", nullable="4+", ignorable=True),
        ),
    ),
)

OFFSET_COMMIT_REQUEST = Schema(
    "OffsetCommitRequest",
    "2-10",
    "8+",
    Field("groupId", "string"),
    Field("generationIdOrMemberEpoch", "int32", default=-1, ignorable=True),
    Field("memberId", "string", ignorable=True),
    Field("groupInstanceId", "string", "7+", nullable="7+", default=None),
    Field("retentionTimeMs", "int64", "2-4", default=-1, ignorable=True),
    Field(
        "topics", "[]OffsetCommitRequestTopic",
        fields=(
            Field("name", "string", "2-9", ignorable=True),
            Field("topicId", "uuid", "10+", ignorable=True),
            Field(
                "partitions", "[]OffsetCommitRequestPartition",
                fields=(
                    Field("partitionIndex", "int32"),
                    Field("committedOffset", "int64"),
                    Field("committedLeaderEpoch", "int32", "6+", default=-1, ignorable=True),
                    Field("committedMetadata", "string", nullable="0+"),
                ),
            ),
        ),
    ),
)

OFFSET_COMMIT_RESPONSE = Schema(
    "OffsetCommitResponse",
    "2-10",
    "8+",
    Field("throttleTimeMs", "int32", "3+", ignorable=True),
    Field(
        "topics", "[]OffsetCommitResponseTopic",
        fields=(
            Field("name", "string", "2-9", ignorable=True),
            Field("topicId", "uuid", "10+", ignorable=True),
            Field(
                "partitions", "[]OffsetCommitResponsePartition",
                fields=(
                    Field("partitionIndex", "int32"),
                    Field("errorCode", "int16"),
                ),
            ),
        ),
    ),
)

OFFSET_FETCH_REQUEST = Schema(
    "OffsetFetchRequest",
    "1-10",
    "6+",
    Field("groupId", "string", "1-7"),
    Field(
        "topics", "[]OffsetFetchRequestTopic", "1-7", nullable="2-7",
        fields=(
            Field("name", "string", "1-7"),
            Field("partitionIndexes", "[]int32", "1-7"),
        ),
    ),
    Field(
        "groups", "[]OffsetFetchRequestGroup", "8+",
        fields=(
            Field("groupId", "string", "8+"),
            Field("memberId", "string", "9+", nullable="9+", default=None, ignorable=True),
            Field("memberEpoch", "int32", "9+", default=-1, ignorable=True),
            Field(
                "topics", "[]OffsetFetchRequestTopics", "8+", nullable="8+",
                fields=(
                    Field("name", "string", "8-9", ignorable=True),
                    Field("topicId", "uuid", "10+", ignorable=True),
                    Field("partitionIndexes", "[]int32", "8+"),
                ),
            ),
        ),
    ),
    Field("requireStable", "bool", "7+"),
)

OFFSET_FETCH_RESPONSE = Schema(
    "OffsetFetchResponse",
    "1-10",
    "6+",
    Field("throttleTimeMs", "int32", "3+", ignorable=True),
    Field(
        "topics", "[]OffsetFetchResponseTopic", "1-7",
        fields=(
            Field("name", "string", "1-7"),
            Field(
                "partitions", "[]OffsetFetchResponsePartition", "1-7",
                fields=(
                    Field("partitionIndex", "int32", "1-7"),
                    Field("committedOffset", "int64", "1-7"),
                    Field("committedLeaderEpoch", "int32", "5-7", default=-1, ignorable=True),
                    Field("metadata", "string", "1-7", nullable="1-7"),
                    Field("errorCode", "int16", "1-7"),
                ),
            ),
        ),
    ),
    Field("errorCode", "int16", "2-7", ignorable=True),
    Field(
        "groups", "[]OffsetFetchResponseGroup", "8+",
        fields=(
            Field("groupId", "string", "8+"),
            Field(
                "topics", "[]OffsetFetchResponseTopics", "8+",
                fields=(
                    Field("name", "string", "8-9", ignorable=True),
                    Field("topicId", "uuid", "10+", ignorable=True),
                    Field(
                        "partitions", "[]OffsetFetchResponsePartitions", "8+",
                        fields=(
                            Field("partitionIndex", "int32", "8+"),
                            Field("committedOffset", "int64", "8+"),
                            Field("committedLeaderEpoch", "int32", "8+", default=-1, ignorable=True),
                            Field("metadata", "string", "8+", nullable="8+"),
                            Field("errorCode", "int16", "8+"),
                        ),
                    ),
                ),
            ),
            Field("errorCode", "int16", "8+"),
        ),
    ),
)

JOIN_GROUP_REQUEST = Schema(
    "JoinGroupRequest",
    "0-9",
    "6+",
    Field("groupId", "string"),
    Field("sessionTimeoutMs", "int32"),
    Field("rebalanceTimeoutMs", "int32", "1+", default=-1, ignorable=True),
    Field("memberId", "string"),
    Field("groupInstanceId", "string", "5+", nullable="5+", default=None),
    Field("protocolType", "string"),
    Field(
        "protocols", "[]JoinGroupRequestProtocol",
        fields=(
            Field("name", "string"),
            Field("metadata", "bytes"),
        ),
    ),
    Field("reason", "string", "8+", nullable="8+", default=None, ignorable=True),
)

JOIN_GROUP_RESPONSE = Schema(
    "JoinGroupResponse",
    "0-9",
    "6+",
    Field("throttleTimeMs", "int32", "2+", ignorable=True),
    Field("errorCode", "int16"),
    Field("generationId", "int32", default=-1),
    Field("protocolType", "string", "7+", nullable="7+", default=None, ignorable=True),
    Field("protocolName", "string", nullable="7+"),
    Field("leader", "string"),
    Field("skipAssignment", "bool", "9+"),
    Field("memberId", "string"),
    Field(
        "members", "[]JoinGroupResponseMember",
        fields=(
            Field("memberId", "string"),
            Field("groupInstanceId", "string", "5+", nullable="5+", default=None, ignorable=True),
            Field("metadata", "bytes"),
        ),
    ),
)

HEARTBEAT_REQUEST = Schema(
    "HeartbeatRequest",
    "0-4",
    "4+",
    Field("groupId", "string"),
    Field("generationId", "int32"),
    Field("memberId", "string"),
    Field("groupInstanceId", "string", "3+", nullable="3+", default=None),
)

HEARTBEAT_RESPONSE = Schema(
    "HeartbeatResponse",
    "0-4",
    "4+",
    Field("throttleTimeMs", "int32", "1+", ignorable=True),
    Field("errorCode", "int16"),
)

LEAVE_GROUP_REQUEST = Schema(
    "LeaveGroupRequest",
    "0-5",
    "4+",
    Field("groupId", "string"),
    Field("memberId", "string", "0-2"),
    Field(
        "members", "[]MemberIdentity", "3+",
        fields=(
            Field("memberId", "string", "3+"),
            Field("groupInstanceId", "string", "3+", nullable="3+", default=None),
            Field("reason", "string", "5+", nullable="5+", default=None, ignorable=True),
        ),
    ),
)

LEAVE_GROUP_RESPONSE = Schema(
    "LeaveGroupResponse",
    "0-5",
    "4+",
    Field("throttleTimeMs", "int32", "1+", ignorable=True),
    Field("errorCode", "int16"),
    Field(
        "members", "[]MemberResponse", "3+",
        fields=(
            Field("memberId", "string", "3+"),
            Field("groupInstanceId", "string", "3+", nullable="3+"),
            Field("errorCode", "int16", "3+"),
        ),
    ),
)

SYNC_GROUP_REQUEST = Schema(
    "SyncGroupRequest",
    "0-5",
    "4+",
    Field("groupId", "string"),
    Field("generationId", "int32"),
    Field("memberId", "string"),
    Field("groupInstanceId", "string", "3+", nullable="3+", default=None),
    Field("protocolType", "string", "5+", nullable="5+", default=None, ignorable=True),
    Field("protocolName", "string", "5+", nullable="5+", default=None, ignorable=True),
    Field(
        "assignments", "[]SyncGroupRequestAssignment",
        fields=(
            Field("memberId", "string"),
            Field("assignment", "bytes"),
        ),
    ),
)

SYNC_GROUP_RESPONSE = Schema(
    "SyncGroupResponse",
    "0-5",
    "4+",
    Field("throttleTimeMs", "int32", "1+", ignorable=True),
    Field("errorCode", "int16"),
    Field("protocolType", "string", "5+", nullable="5+", default=None, ignorable=True),
    Field("protocolName", "string", "5+", nullable="5+", default=None, ignorable=True),
    Field("assignment", "bytes"),
)

DESCRIBE_GROUPS_REQUEST = Schema(
    "DescribeGroupsRequest",
    "0-6",
    "5+",
    Field("groups", "[]string"),
    Field("includeAuthorizedOperations", "bool", "3+"),
)

DESCRIBE_GROUPS_RESPONSE = Schema(
    "DescribeGroupsResponse",
    "0-6",
    "5+",
    Field("throttleTimeMs", "int32", "1+", ignorable=True),
    Field(
        "groups", "[]DescribedGroup",
        fields=(
            Field("errorCode", "int16"),
            Field("errorMessage", "string", "6+", nullable="6+", default=None),
            Field("groupId", "string"),
            Field("groupState", "string"),
            Field("protocolType", "string"),
            Field("protocolData", "string"),
            Field(
                "members", "[]DescribedGroupMember",
                fields=(
                    Field("memberId", "string"),
                    Field("groupInstanceId", "string", "4+", nullable="4+", default=None, ignorable=True),
                    Field("clientId", "string"),
                    Field("clientHost", "string"),
                    Field("memberMetadata", "bytes"),
                    Field("memberAssignment", "bytes"),
                ),
            ),
            Field("authorizedOperations", "int32", "3+", default=-2147483648),
        ),
    ),
)

LIST_GROUPS_REQUEST = Schema(
    "ListGroupsRequest",
    "0-5",
    "3+",
    Field("statesFilter", "[]string", "4+"),
    Field("typesFilter", "[]string", "5+"),
)

LIST_GROUPS_RESPONSE = Schema(
    "ListGroupsResponse",
    "0-5",
    "3+",
    Field("throttleTimeMs", "int32", "1+", ignorable=True),
    Field("errorCode", "int16"),
    Field(
        "groups", "[]ListedGroup",
        fields=(
            Field("groupId", "string"),
            Field("protocolType", "string"),
            Field("groupState", "string", "4+", ignorable=True),
            Field("groupType", "string", "5+", ignorable=True),
        ),
    ),
)

DELETE_GROUPS_REQUEST = Schema(
    "DeleteGroupsRequest",
    "0-2",
    "2+",
    Field("groupsNames", "[]string"),
)

DELETE_GROUPS_RESPONSE = Schema(
    "DeleteGroupsResponse",
    "0-2",
    "2+",
    Field("throttleTimeMs", "int32"),
    Field(
        "results", "[]DeletableGroupResult",
        fields=(
            Field("groupId", "string"),
            Field("errorCode", "int16"),
        ),
    ),
)

CONSUMER_GROUP_HEARTBEAT_REQUEST = Schema(
    "ConsumerGroupHeartbeatRequest",
    "0-1",
    "0+",
    Field("groupId", "string"),
    Field("memberId", "string"),
    Field("memberEpoch", "int32"),
    Field("instanceId", "string", nullable="0+", default=None),
    Field("rackId", "string", nullable="0+", default=None),
    Field("rebalanceTimeoutMs", "int32", default=-1),
    Field("subscribedTopicNames", "[]string", nullable="0+", default=None),
    Field("subscribedTopicRegex", "string", "1+", nullable="1+", default=None),
    Field("serverAssignor", "string", nullable="0+", default=None),
    Field(
        "topicPartitions", "[]TopicPartitions", nullable="0+", default=None,
        fields=(
            Field("topicId", "uuid"),
            Field("partitions", "[]int32"),
        ),
    ),
)

CONSUMER_GROUP_HEARTBEAT_RESPONSE = Schema(
    "ConsumerGroupHeartbeatResponse",
    "0-1",
    "0+",
    Field("throttleTimeMs", "int32"),
    Field("errorCode", "int16"),
    Field("errorMessage", "string", nullable="0+", default=None),
    Field("memberId", "string", nullable="0+", default=None),
    Field("memberEpoch", "int32"),
    Field("heartbeatIntervalMs", "int32"),
    Field(
        "assignment", "Assignment", nullable="0+", default=None,
        fields=(
            Field(
                "topicPartitions", "[]TopicPartitions",
                fields=(
                    Field("topicId", "uuid"),
                    Field("partitions", "[]int32"),
                ),
            ),
        ),
    ),
)
