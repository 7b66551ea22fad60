"""__transaction_state: the last state of each transactional id; framing as in `framing.CoordinatorTopic`.

Value version 1 is written where the feature transaction.version is 1 or more. `transactionPartitions` is null in state
Empty.
"""

from __future__ import annotations

from enum import StrEnum

from kdump.formats.schemas.description import Field, Schema
from kdump.formats.schemas.framing import CoordinatorTopic, RecordKind, key_schema
from kdump.releases import KafkaRelease

TRANSACTION_LOG = 0


class TransactionState(StrEnum):
    """The state of a transactional id, in the order of transactionStatus (Kafka: TransactionState)."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"


STATES = tuple(TransactionState)
"""By transactionStatus."""


def state_of(status: int) -> TransactionState | str:
    """Return the state of a transactionStatus; in words where no release that kdump knows has it."""
    return STATES[status] if 0 <= status < len(STATES) else f"state {status}"


TOPIC = CoordinatorTopic(
    "__transaction_state",
    {
        TRANSACTION_LOG: RecordKind(
            "TransactionLog",
            key_schema("TransactionLogKey", Field("transactionalId", "string")),
            Schema(
                "TransactionLogValue",
                "0-1",
                "1+",
                Field("producerId", "int64"),
                Field("previousProducerId", "int64", "1+", tag=0, default=-1, ignorable=True),
                Field("nextProducerId", "int64", "1+", tag=1, default=-1, ignorable=True),
                Field("producerEpoch", "int16"),
                Field("nextProducerEpoch", "int16", "1+", tag=3, default=-1, ignorable=True, since=KafkaRelease.V4_1),
                Field("transactionTimeoutMs", "int32"),
                Field("transactionStatus", "int8"),
                Field(
                    "transactionPartitions",
                    "[]PartitionsSchema",
                    nullable="0+",
                    fields=(Field("topic", "string"), Field("partitionIds", "[]int32")),
                ),
                Field("transactionLastUpdateTimestampMs", "int64"),
                Field("transactionStartTimestampMs", "int64"),
                Field("clientTransactionVersion", "int16", "1+", tag=2, default=0, ignorable=True),
            ),
        ),
    },
)

decode_key = TOPIC.decode_key
decode_value = TOPIC.decode_value
encode_key = TOPIC.encode_key
encode_value = TOPIC.encode_value
