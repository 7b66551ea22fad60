"""The layouts of the messages about brokers, topics, configurations, log directories and access.

As the message descriptions of Kafka 4.3 have them (clients/src/main/resources/common/message).
"""

from __future__ import annotations

from kdump.formats.schemas.description import Field, Schema

METADATA_REQUEST = Schema(
    "MetadataRequest",
    "0-13",
    "9+",
    Field(
        "topics", "[]MetadataRequestTopic", nullable="1+",
        fields=(
            Field("topicId", "uuid", "10+", ignorable=True),
            Field("name", "string", nullable="10+"),
        ),
    ),
    Field("allowAutoTopicCreation", "bool", "4+", default=True),
    Field("includeClusterAuthorizedOperations", "bool", "8-10"),
    Field("includeTopicAuthorizedOperations", "bool", "8+"),
)

METADATA_RESPONSE = Schema(
    "MetadataResponse",
    "0-13",
    "9+",
    Field("throttleTimeMs", "int32", "3+", ignorable=True),
    Field(
        "brokers", "[]MetadataResponseBroker",
        fields=(
            Field("nodeId", "int32"),
            Field("host", "string"),
            Field("port", "int32"),
            Field("rack", "string", "1+", nullable="1+", default=None, ignorable=True),
        ),
    ),
    Field("clusterId", "string", "2+", nullable="2+", default=None, ignorable=True),
    Field("controllerId", "int32", "1+", default=-1, ignorable=True),
    Field(
        "topics", "[]MetadataResponseTopic",
        fields=(
            Field("errorCode", "int16"),
            Field("name", "string", nullable="12+"),
            Field("topicId", "uuid", "10+", ignorable=True),
            Field("isInternal", "bool", "1+", ignorable=True),
            Field(
                "partitions", "[]MetadataResponsePartition",
                fields=(
                    Field("errorCode", "int16"),
                    Field("partitionIndex", "int32"),
                    Field("leaderId", "int32"),
                    Field("leaderEpoch", "int32", "7+", default=-1, ignorable=True),
                    Field("replicaNodes", "[]int32"),
                    Field("isrNodes", "[]int32"),
                    Field("offlineReplicas", "[]int32", "5+", ignorable=True),
                ),
            ),
            Field("topicAuthorizedOperations", "int32", "8+", default=-2147483648),
        ),
    ),
    Field("clusterAuthorizedOperations", "int32", "8-10", default=-2147483648),
    Field("errorCode", "int16", "13+", ignorable=True),
)

API_VERSIONS_REQUEST = Schema(
    "ApiVersionsRequest",
    "0-4",
    "3+",
    Field("clientSoftwareName", "string", "3+", ignorable=True),
    Field("clientSoftwareVersion", "string", "3+", ignorable=True),
)

API_VERSIONS_RESPONSE = Schema(
    "ApiVersionsResponse",
    "0-4",
    "3+",
    Field("errorCode", "int16"),
    Field(
        "apiKeys", "[]ApiVersion",
        fields=(
            Field("apiKey", "int16"),
            Field("minVersion", "int16"),
            Field("maxVersion", "int16"),
        ),
    ),
    Field("throttleTimeMs", "int32", "1+", ignorable=True),
    Field(
        "supportedFeatures", "[]SupportedFeatureKey", "3+", tag=0, ignorable=True,
        fields=(
            Field("name", "string", "3+"),
            Field("minVersion", "int16", "3+"),
            Field("maxVersion", "int16", "3+"),
        ),
    ),
    Field("finalizedFeaturesEpoch", "int64", "3+", tag=1, default=-1, ignorable=True),
    Field(
        "finalizedFeatures", "[]FinalizedFeatureKey", "3+", tag=2, ignorable=True,
        fields=(
            Field("name", "string", "3+"),
            Field("maxVersionLevel", "int16", "3+"),
            Field("minVersionLevel", "int16", "3+"),
        ),
    ),
    Field("zkMigrationReady", "bool", "3+", tag=3, ignorable=True),
)

DESCRIBE_CLUSTER_REQUEST = Schema(
    "DescribeClusterRequest",
    "0-2",
    "0+",
    Field("includeClusterAuthorizedOperations", "bool"),
    Field("endpointType", "int8", "1+", default=1),
    Field("includeFencedBrokers", "bool", "2+"),
)

DESCRIBE_CLUSTER_RESPONSE = Schema(
    "DescribeClusterResponse",
    "0-2",
    "0+",
    Field("throttleTimeMs", "int32"),
    Field("errorCode", "int16"),
    Field("errorMessage", "string", nullable="0+", default=None),
    Field("endpointType", "int8", "1+", default=1),
    Field("clusterId", "string"),
    Field("controllerId", "int32", default=-1),
    Field(
        "brokers", "[]DescribeClusterBroker",
        fields=(
            Field("brokerId", "int32"),
            Field("host", "string"),
            Field("port", "int32"),
            Field("rack", "string", nullable="0+", default=None),
            Field("isFenced", "bool", "2+"),
        ),
    ),
    Field("clusterAuthorizedOperations", "int32", default=-2147483648),
)

DESCRIBE_TOPIC_PARTITIONS_REQUEST = Schema(
    "DescribeTopicPartitionsRequest",
    "0",
    "0+",
    Field(
        "topics", "[]TopicRequest",
        fields=(
            Field("name", "string"),
        ),
    ),
    Field("responsePartitionLimit", "int32", default=2000),
    Field(
        "cursor", "Cursor", nullable="0+", default=None,
        fields=(
            Field("topicName", "string"),
            Field("partitionIndex", "int32"),
        ),
    ),
)

DESCRIBE_TOPIC_PARTITIONS_RESPONSE = Schema(
    "DescribeTopicPartitionsResponse",
    "0",
    "0+",
    Field("throttleTimeMs", "int32", ignorable=True),
    Field(
        "topics", "[]DescribeTopicPartitionsResponseTopic",
        fields=(
            Field("errorCode", "int16"),
            Field("name", "string", nullable="0+"),
            Field("topicId", "uuid", ignorable=True),
            Field("isInternal", "bool", ignorable=True),
            Field(
                "partitions", "[]DescribeTopicPartitionsResponsePartition",
                fields=(
                    Field("errorCode", "int16"),
                    Field("partitionIndex", "int32"),
                    Field("leaderId", "int32"),
                    Field("leaderEpoch", "int32", default=-1, ignorable=True),
                    Field("replicaNodes", "[]int32"),
                    Field("isrNodes", "[]int32"),
                    Field("eligibleLeaderReplicas", "[]int32", nullable="0+", default=None),
                    Field("lastKnownElr", "[]int32", nullable="0+", default=None),
                    Field("offlineReplicas", "[]int32", ignorable=True),
                ),
            ),
            Field("topicAuthorizedOperations", "int32", default=-2147483648),
        ),
    ),
    Field(
        "nextCursor", "Cursor", nullable="0+", default=None,
        fields=(
            Field("topicName", "string"),
            Field("partitionIndex", "int32"),
        ),
    ),
)

DESCRIBE_CONFIGS_REQUEST = Schema(
    "DescribeConfigsRequest",
    "1-4",
    "4+",
    Field(
        "resources", "[]DescribeConfigsResource",
        fields=(
            Field("resourceType", "int8"),
            Field("resourceName", "string"),
            Field("configurationKeys", "[]string", nullable="0+"),
        ),
    ),
    Field("includeSynonyms", "bool"),
    Field("includeDocumentation", "bool", "3+"),
)

DESCRIBE_CONFIGS_RESPONSE = Schema(
    "DescribeConfigsResponse",
    "1-4",
    "4+",
    Field("throttleTimeMs", "int32"),
    Field(
        "results", "[]DescribeConfigsResult",
        fields=(
            Field("errorCode", "int16"),
            Field("errorMessage", "string", nullable="0+"),
            Field("resourceType", "int8"),
            Field("resourceName", "string"),
            Field(
                "configs", "[]DescribeConfigsResourceResult",
                fields=(
                    Field("name", "string"),
                    Field("value", "string", nullable="0+"),
                    Field("readOnly", "bool"),
                    Field("configSource", "int8", default=-1, ignorable=True),
                    Field("isSensitive", "bool"),
                    Field(
                        "synonyms", "[]DescribeConfigsSynonym", ignorable=True,
                        fields=(
                            Field("name", "string"),
                            Field("value", "string", nullable="0+"),
                            Field("source", "int8"),
                        ),
                    ),
                    Field("configType", "int8", "3+", ignorable=True),
                    Field("documentation", "string", "3+", nullable="0+", ignorable=True),
                ),
            ),
        ),
    ),
)

DESCRIBE_LOG_DIRS_REQUEST = Schema(
    "DescribeLogDirsRequest",
    "1-5",
    "2+",
    Field(
        "topics", "[]DescribableLogDirTopic", nullable="0+",
        fields=(
            Field("topic", "string"),
            Field("partitions", "[]int32"),
        ),
    ),
)

DESCRIBE_LOG_DIRS_RESPONSE = Schema(
    "DescribeLogDirsResponse",
    "1-5",
    "2+",
    Field("throttleTimeMs", "int32"),
    Field("errorCode", "int16", "3+", ignorable=True),
    Field(
        "results", "[]DescribeLogDirsResult",
        fields=(
            Field("errorCode", "int16"),
            Field("logDir", "string"),
            Field(
                "topics", "[]DescribeLogDirsTopic",
                fields=(
                    Field("name", "string"),
                    Field(
                        "partitions", "[]DescribeLogDirsPartition",
                        fields=(
                            Field("partitionIndex", "int32"),
                            Field("partitionSize", "int64"),
                            Field("offsetLag", "int64"),
                            Field("isFutureKey", "bool"),
                        ),
                    ),
                ),
            ),
            Field("totalBytes", "int64", "4+", default=-1, ignorable=True),
            Field("usableBytes", "int64", "4+", default=-1, ignorable=True),
            Field("isCordoned", "bool", "5+", ignorable=True),
        ),
    ),
)

LIST_CONFIG_RESOURCES_REQUEST = Schema(
    "ListConfigResourcesRequest",
    "0-1",
    "0+",
    Field("resourceTypes", "[]int8", "1+"),
)

LIST_CONFIG_RESOURCES_RESPONSE = Schema(
    "ListConfigResourcesResponse",
    "0-1",
    "0+",
    Field("throttleTimeMs", "int32"),
    Field("errorCode", "int16"),
    Field(
        "configResources", "[]ConfigResource",
        fields=(
            Field("resourceName", "string"),
            Field("resourceType", "int8", "1+", default=16, ignorable=True),
        ),
    ),
)

DESCRIBE_ACLS_REQUEST = Schema(
    "DescribeAclsRequest",
    "1-3",
    "2+",
    Field("resourceTypeFilter", "int8"),
    Field("resourceNameFilter", "string", nullable="0+"),
    Field("patternTypeFilter", "int8", default=3),
    Field("principalFilter", "string", nullable="0+"),
    Field("hostFilter", "string", nullable="0+"),
    Field("operation", "int8"),
    Field("permissionType", "int8"),
)

DESCRIBE_ACLS_RESPONSE = Schema(
    "DescribeAclsResponse",
    "1-3",
    "2+",
    Field("throttleTimeMs", "int32"),
    Field("errorCode", "int16"),
    Field("errorMessage", "string", nullable="0+"),
    Field(
        "resources", "[]DescribeAclsResource",
        fields=(
            Field("resourceType", "int8"),
            Field("resourceName", "string"),
            Field("patternType", "int8", default=3),
            Field(
                "acls", "[]AclDescription",
                fields=(
                    Field("principal", "string"),
                    Field("host", "string"),
                    Field("operation", "int8"),
                    Field("permissionType", "int8"),
                ),
            ),
        ),
    ),
)
