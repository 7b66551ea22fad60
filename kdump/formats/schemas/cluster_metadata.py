"""__cluster_metadata and its checkpoint files: KRaft's metadata records; framing as in `framing.MetadataTopic`.

The apiKeys 6, 13 and 16 belonged to previews and are unknown here.
"""

from __future__ import annotations

from kdump.formats.schemas.description import Field, Schema
from kdump.formats.schemas.framing import MetadataTopic
from kdump.releases import KafkaRelease

_V4_3 = KafkaRelease.V4_3

NO_LEADER = -1
NO_LEADER_CHANGE = -2

_BROKER_ID = Field("brokerId", "int32")
_BROKER_EPOCH = Field("brokerEpoch", "int64")
_TOPIC_ID = Field("topicId", "uuid")
_NAME = Field("name", "string")
_ENDPOINT = (
    _NAME,
    Field("host", "string"),
    Field("port", "uint16"),
    Field("securityProtocol", "int16"),
)
_FEATURE = (
    _NAME,
    Field("minSupportedVersion", "int16"),
    Field("maxSupportedVersion", "int16"),
)
_PARTITION_ID = Field("partitionId", "int32", default=-1)


def _optional(name: str, kind: str, tag: int, versions: str = "0+") -> Field:
    """Return a tagged field that is null where it is not written: nothing known, or nothing changed."""
    return Field(name, kind, versions, nullable=versions, tag=tag, default=None)


TOPIC = MetadataTopic(
    "__cluster_metadata",
    {
        0: Schema(
            "RegisterBrokerRecord",
            "0-4",
            "0+",
            _BROKER_ID,
            Field("isMigratingZkBroker", "bool", "2+"),
            Field("incarnationId", "uuid"),
            _BROKER_EPOCH,
            Field("endPoints", "[]BrokerEndpoint", fields=_ENDPOINT),
            Field("features", "[]BrokerFeature", fields=_FEATURE),
            Field("rack", "string", nullable="0+"),
            Field("fenced", "bool", default=True),
            Field("inControlledShutdown", "bool", "1+"),
            Field("logDirs", "[]uuid", "3+", tag=0),
            Field("cordonedLogDirs", "[]uuid", "4+", nullable="4+", tag=1, default=None, since=_V4_3),
            since={4: _V4_3},
        ),
        1: Schema("UnregisterBrokerRecord", "0", "0+", _BROKER_ID, _BROKER_EPOCH),
        2: Schema("TopicRecord", "0", "0+", _NAME, _TOPIC_ID),
        3: Schema(
            "PartitionRecord",
            "0-2",
            "0+",
            _PARTITION_ID,
            _TOPIC_ID,
            Field("replicas", "[]int32"),
            Field("isr", "[]int32"),
            Field("removingReplicas", "[]int32"),
            Field("addingReplicas", "[]int32"),
            Field("leader", "int32", default=NO_LEADER),
            Field("leaderRecoveryState", "int8", tag=0),
            Field("leaderEpoch", "int32", default=-1),
            Field("partitionEpoch", "int32", default=-1),
            Field("directories", "[]uuid", "1+"),
            _optional("eligibleLeaderReplicas", "[]int32", 1, "2+"),
            _optional("lastKnownElr", "[]int32", 2, "2+"),
        ),
        4: Schema(
            "ConfigRecord",
            "0",
            "0+",
            Field("resourceType", "int8"),
            Field("resourceName", "string"),
            _NAME,
            Field("value", "string", nullable="0+"),
        ),
        5: Schema(
            "PartitionChangeRecord",
            "0-2",
            "0+",
            _PARTITION_ID,
            _TOPIC_ID,
            _optional("isr", "[]int32", 0),
            Field("leader", "int32", tag=1, default=NO_LEADER_CHANGE),
            _optional("replicas", "[]int32", 2),
            _optional("removingReplicas", "[]int32", 3),
            _optional("addingReplicas", "[]int32", 4),
            Field("leaderRecoveryState", "int8", tag=5, default=-1),
            _optional("directories", "[]uuid", 8, "1+"),
            _optional("eligibleLeaderReplicas", "[]int32", 6, "2+"),
            _optional("lastKnownElr", "[]int32", 7, "2+"),
        ),
        7: Schema("FenceBrokerRecord", "0", "0+", Field("id", "int32"), Field("epoch", "int64")),
        8: Schema("UnfenceBrokerRecord", "0", "0+", Field("id", "int32"), Field("epoch", "int64")),
        9: Schema("RemoveTopicRecord", "0", "0+", _TOPIC_ID),
        10: Schema(
            "DelegationTokenRecord",
            "0",
            "0+",
            Field("owner", "string"),
            Field("requester", "string"),
            Field("renewers", "[]string"),
            Field("issueTimestamp", "int64"),
            Field("maxTimestamp", "int64"),
            Field("expirationTimestamp", "int64"),
            Field("tokenId", "string"),
        ),
        11: Schema(
            "UserScramCredentialRecord",
            "0",
            "0+",
            _NAME,
            Field("mechanism", "int8"),
            Field("salt", "bytes"),
            Field("storedKey", "bytes"),
            Field("serverKey", "bytes"),
            Field("iterations", "int32"),
        ),
        12: Schema("FeatureLevelRecord", "0", "0+", _NAME, Field("featureLevel", "int16")),
        14: Schema(
            "ClientQuotaRecord",
            "0",
            "0+",
            Field(
                "entity",
                "[]EntityData",
                fields=(Field("entityType", "string"), Field("entityName", "string", nullable="0+")),
            ),
            Field("key", "string"),
            Field("value", "float64"),
            Field("remove", "bool"),
        ),
        15: Schema(
            "ProducerIdsRecord",
            "0",
            "0+",
            _BROKER_ID,
            Field("brokerEpoch", "int64", default=-1),
            Field("nextProducerId", "int64"),
        ),
        17: Schema(
            "BrokerRegistrationChangeRecord",
            "0-3",
            "0+",
            _BROKER_ID,
            _BROKER_EPOCH,
            Field("fenced", "int8", tag=0),
            Field("inControlledShutdown", "int8", "1+", tag=1),
            Field("logDirs", "[]uuid", "2+", tag=2),
            Field("cordonedLogDirs", "[]uuid", "3+", nullable="3+", tag=3, default=None, since=_V4_3),
            since={3: _V4_3},
        ),
        18: Schema(
            "AccessControlEntryRecord",
            "0",
            "0+",
            Field("id", "uuid"),
            Field("resourceType", "int8"),
            Field("resourceName", "string"),
            Field("patternType", "int8"),
            Field("principal", "string"),
            Field("host", "string"),
            Field("operation", "int8"),
            Field("permissionType", "int8"),
        ),
        19: Schema("RemoveAccessControlEntryRecord", "0", "0+", Field("id", "uuid")),
        20: Schema("NoOpRecord", "0", "0+"),
        21: Schema("ZkMigrationStateRecord", "0", "0+", Field("zkMigrationState", "int8")),
        22: Schema("RemoveUserScramCredentialRecord", "0", "0+", _NAME, Field("mechanism", "int8")),
        23: Schema("BeginTransactionRecord", "0", "0+", _optional("name", "string", 0)),
        24: Schema("EndTransactionRecord", "0", "0+"),
        25: Schema("AbortTransactionRecord", "0", "0+", _optional("reason", "string", 0)),
        26: Schema("RemoveDelegationTokenRecord", "0", "0+", Field("tokenId", "string")),
        27: Schema(
            "RegisterControllerRecord",
            "0",
            "0+",
            Field("controllerId", "int32"),
            Field("incarnationId", "uuid"),
            Field("zkMigrationReady", "bool"),
            Field("endPoints", "[]ControllerEndpoint", fields=_ENDPOINT),
            Field("features", "[]ControllerFeature", fields=_FEATURE),
        ),
        28: Schema("ClearElrRecord", "0", "0+", Field("topicName", "string")),
        29: Schema("UnregisterControllerRecord", "0", "0+", Field("controllerId", "int32")),
    },
    since={28: KafkaRelease.V4_0, 29: KafkaRelease.V4_4},
)

decode_value = TOPIC.decode_value
encode_value = TOPIC.encode_value


def type_name(record: str) -> str:
    """Return Kafka's constant for a record: TopicRecord is TOPIC_RECORD."""
    return "".join(f"_{letter}" if letter.isupper() else letter.upper() for letter in record)[1:]
