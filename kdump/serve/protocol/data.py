"""The layouts of Produce, Fetch, ListOffsets and OffsetForLeaderEpoch.

As the message descriptions of Kafka 4.3 have them (clients/src/main/resources/common/message).
"""

from __future__ import annotations

from kdump.formats.schemas.description import Field, Schema

PRODUCE_REQUEST = Schema(
    "ProduceRequest",
    "3-13",
    "9+",
    Field("transactionalId", "string", nullable="0+", default=None),
    Field("acks", "int16"),
    Field("timeoutMs", "int32"),
    Field(
        "topicData", "[]TopicProduceData",
        fields=(
            Field("name", "string", "3-12", ignorable=True),
            Field("topicId", "uuid", "13+", ignorable=True),
            Field(
                "partitionData", "[]PartitionProduceData",
                fields=(
                    Field("index", "int32"),
                    Field("records", "bytes", nullable="0+"),
                ),
            ),
        ),
    ),
)

PRODUCE_RESPONSE = Schema(
    "ProduceResponse",
    "3-13",
    "9+",
    Field(
        "responses", "[]TopicProduceResponse",
        fields=(
            Field("name", "string", "3-12", ignorable=True),
            Field("topicId", "uuid", "13+", ignorable=True),
            Field(
                "partitionResponses", "[]PartitionProduceResponse",
                fields=(
                    Field("index", "int32"),
                    Field("errorCode", "int16"),
                    Field("baseOffset", "int64"),
                    Field("logAppendTimeMs", "int64", default=-1, ignorable=True),
                    Field("logStartOffset", "int64", "5+", default=-1, ignorable=True),
                    Field(
                        "recordErrors", "[]BatchIndexAndErrorMessage", "8+", ignorable=True,
                        fields=(
                            Field("batchIndex", "int32", "8+"),
                            Field("batchIndexErrorMessage", "string", "8+", nullable="8+", default=None),
                        ),
                    ),
                    Field("errorMessage", "string", "8+", nullable="8+", default=None, ignorable=True),
                    Field(
                        "currentLeader", "LeaderIdAndEpoch", "10+", tag=0,
                        fields=(
                            Field("leaderId", "int32", "10+", default=-1),
                            Field("leaderEpoch", "int32", "10+", default=-1),
                        ),
                    ),
                ),
            ),
        ),
    ),
    Field("throttleTimeMs", "int32", ignorable=True),
    Field(
        "nodeEndpoints", "[]NodeEndpoint", "10+", tag=0,
        fields=(
            Field("nodeId", "int32", "10+"),
            Field("host", "string", "10+"),
            Field("port", "int32", "10+"),
            Field("rack", "string", "10+", nullable="10+", default=None),
        ),
    ),
)

FETCH_REQUEST = Schema(
    "FetchRequest",
    "4-18",
    "12+",
    Field("clusterId", "string", "12+", nullable="12+", tag=0, default=None, ignorable=True),
    Field("replicaId", "int32", "4-14", default=-1),
    Field(
        "replicaState", "ReplicaState", "15+", tag=1,
        fields=(
            Field("replicaId", "int32", "15+", default=-1),
            Field("replicaEpoch", "int64", "15+", default=-1),
        ),
    ),
    Field("maxWaitMs", "int32"),
    Field("minBytes", "int32"),
    Field("maxBytes", "int32", default=2147483647, ignorable=True),
    Field("isolationLevel", "int8", ignorable=True),
    Field("sessionId", "int32", "7+", ignorable=True),
    Field("sessionEpoch", "int32", "7+", default=-1, ignorable=True),
    Field(
        "topics", "[]FetchTopic",
        fields=(
            Field("topic", "string", "4-12", ignorable=True),
            Field("topicId", "uuid", "13+", ignorable=True),
            Field(
                "partitions", "[]FetchPartition",
                fields=(
                    Field("partition", "int32"),
                    Field("currentLeaderEpoch", "int32", "9+", default=-1, ignorable=True),
                    Field("fetchOffset", "int64"),
                    Field("lastFetchedEpoch", "int32", "12+", default=-1),
                    Field("logStartOffset", "int64", "5+", default=-1, ignorable=True),
                    Field("partitionMaxBytes", "int32"),
                    Field("replicaDirectoryId", "uuid", "17+", tag=0, ignorable=True),
                    Field("highWatermark", "int64", "18+", tag=1, default=9223372036854775807, ignorable=True),
                ),
            ),
        ),
    ),
    Field(
        "forgottenTopicsData", "[]ForgottenTopic", "7+",
        fields=(
            Field("topic", "string", "7-12", ignorable=True),
            Field("topicId", "uuid", "13+", ignorable=True),
            Field("partitions", "[]int32", "7+"),
        ),
    ),
    Field("rackId", "string", "11+", ignorable=True),
)

FETCH_RESPONSE = Schema(
    "FetchResponse",
    "4-18",
    "12+",
    Field("throttleTimeMs", "int32", ignorable=True),
    Field("errorCode", "int16", "7+", ignorable=True),
    Field("sessionId", "int32", "7+"),
    Field(
        "responses", "[]FetchableTopicResponse",
        fields=(
            Field("topic", "string", "4-12", ignorable=True),
            Field("topicId", "uuid", "13+", ignorable=True),
            Field(
                "partitions", "[]PartitionData",
                fields=(
                    Field("partitionIndex", "int32"),
                    Field("errorCode", "int16"),
                    Field("highWatermark", "int64"),
                    Field("lastStableOffset", "int64", default=-1, ignorable=True),
                    Field("logStartOffset", "int64", "5+", default=-1, ignorable=True),
                    Field(
                        "divergingEpoch", "EpochEndOffset", "12+", tag=0,
                        fields=(
                            Field("epoch", "int32", "12+", default=-1),
                            Field("endOffset", "int64", "12+", default=-1),
                        ),
                    ),
                    Field(
                        "currentLeader", "LeaderIdAndEpoch", "12+", tag=1,
                        fields=(
                            Field("leaderId", "int32", "12+", default=-1),
                            Field("leaderEpoch", "int32", "12+", default=-1),
                        ),
                    ),
                    Field(
                        "snapshotId", "SnapshotId", "12+", tag=2,
                        fields=(
                            Field("endOffset", "int64", default=-1),
                            Field("epoch", "int32", default=-1),
                        ),
                    ),
                    Field(
                        "abortedTransactions", "[]AbortedTransaction", nullable="0+", ignorable=True,
                        fields=(
                            Field("producerId", "int64"),
                            Field("firstOffset", "int64"),
                        ),
                    ),
                    Field("preferredReadReplica", "int32", "11+", default=-1),
                    Field("records", "bytes", nullable="0+"),
                ),
            ),
        ),
    ),
    Field(
        "nodeEndpoints", "[]NodeEndpoint", "16+", tag=0,
        fields=(
            Field("nodeId", "int32", "16+"),
            Field("host", "string", "16+"),
            Field("port", "int32", "16+"),
            Field("rack", "string", "16+", nullable="16+", default=None),
        ),
    ),
)

LIST_OFFSETS_REQUEST = Schema(
    "ListOffsetsRequest",
    "1-11",
    "6+",
    Field("replicaId", "int32"),
    Field("isolationLevel", "int8", "2+"),
    Field(
        "topics", "[]ListOffsetsTopic",
        fields=(
            Field("name", "string"),
            Field(
                "partitions", "[]ListOffsetsPartition",
                fields=(
                    Field("partitionIndex", "int32"),
                    Field("currentLeaderEpoch", "int32", "4+", default=-1, ignorable=True),
                    Field("timestamp", "int64"),
                ),
            ),
        ),
    ),
    Field("timeoutMs", "int32", "10+", ignorable=True),
)

LIST_OFFSETS_RESPONSE = Schema(
    "ListOffsetsResponse",
    "1-11",
    "6+",
    Field("throttleTimeMs", "int32", "2+", ignorable=True),
    Field(
        "topics", "[]ListOffsetsTopicResponse",
        fields=(
            Field("name", "string"),
            Field(
                "partitions", "[]ListOffsetsPartitionResponse",
                fields=(
                    Field("partitionIndex", "int32"),
                    Field("errorCode", "int16"),
                    Field("timestamp", "int64", default=-1),
                    Field("offset", "int64", default=-1),
                    Field("leaderEpoch", "int32", "4+", default=-1),
                ),
            ),
        ),
    ),
)

OFFSET_FOR_LEADER_EPOCH_REQUEST = Schema(
    "OffsetForLeaderEpochRequest",
    "2-4",
    "4+",
    Field("replicaId", "int32", "3+", default=-2, ignorable=True),
    Field(
        "topics", "[]OffsetForLeaderTopic",
        fields=(
            Field("topic", "string"),
            Field(
                "partitions", "[]OffsetForLeaderPartition",
                fields=(
                    Field("partition", "int32"),
                    Field("currentLeaderEpoch", "int32", default=-1, ignorable=True),
                    Field("leaderEpoch", "int32"),
                ),
            ),
        ),
    ),
)

OFFSET_FOR_LEADER_EPOCH_RESPONSE = Schema(
    "OffsetForLeaderEpochResponse",
    "2-4",
    "4+",
    Field("throttleTimeMs", "int32", ignorable=True),
    Field(
        "topics", "[]OffsetForLeaderTopicResult",
        fields=(
            Field("topic", "string"),
            Field(
                "partitions", "[]EpochEndOffset",
                fields=(
                    Field("errorCode", "int16"),
                    Field("partition", "int32"),
                    Field("leaderEpoch", "int32", default=-1, ignorable=True),
                    Field("endOffset", "int64", default=-1),
                ),
            ),
        ),
    ),
)
