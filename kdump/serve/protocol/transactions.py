"""The layouts of the messages about producers and transactions.

As the message descriptions of Kafka 4.3 have them (clients/src/main/resources/common/message).
"""

from __future__ import annotations

from kdump.formats.schemas.description import Field, Schema

INIT_PRODUCER_ID_REQUEST = Schema(
    "InitProducerIdRequest",
    "0-5",
    "2+",
    Field("transactionalId", "string", nullable="0+"),
    Field("transactionTimeoutMs", "int32"),
    Field("producerId", "int64", "3+", default=-1),
    Field("producerEpoch", "int16", "3+", default=-1),
)

INIT_PRODUCER_ID_RESPONSE = Schema(
    "InitProducerIdResponse",
    "0-5",
    "2+",
    Field("throttleTimeMs", "int32", ignorable=True),
    Field("errorCode", "int16"),
    Field("producerId", "int64", default=-1),
    Field("producerEpoch", "int16"),
)

DESCRIBE_PRODUCERS_REQUEST = Schema(
    "DescribeProducersRequest",
    "0",
    "0+",
    Field(
        "topics", "[]TopicRequest",
        fields=(
            Field("name", "string"),
            Field("partitionIndexes", "[]int32"),
        ),
    ),
)

DESCRIBE_PRODUCERS_RESPONSE = Schema(
    "DescribeProducersResponse",
    "0",
    "0+",
    Field("throttleTimeMs", "int32"),
    Field(
        "topics", "[]TopicResponse",
        fields=(
            Field("name", "string"),
            Field(
                "partitions", "[]PartitionResponse",
                fields=(
                    Field("partitionIndex", "int32"),
                    Field("errorCode", "int16"),
                    Field("errorMessage", "string", nullable="0+", default=None),
                    Field(
                        "activeProducers", "[]ProducerState",
                        fields=(
                            Field("producerId", "int64"),
                            Field("producerEpoch", "int32"),
                            Field("lastSequence", "int32", default=-1),
                            Field("lastTimestamp", "int64", default=-1),
                            Field("coordinatorEpoch", "int32"),
                            Field("currentTxnStartOffset", "int64", default=-1),
                        ),
                    ),
                ),
            ),
        ),
    ),
)

DESCRIBE_TRANSACTIONS_REQUEST = Schema(
    "DescribeTransactionsRequest",
    "0",
    "0+",
    Field("transactionalIds", "[]string"),
)

DESCRIBE_TRANSACTIONS_RESPONSE = Schema(
    "DescribeTransactionsResponse",
    "0",
    "0+",
    Field("throttleTimeMs", "int32"),
    Field(
        "transactionStates", "[]TransactionState",
        fields=(
            Field("errorCode", "int16"),
            Field("transactionalId", "string"),
            Field("transactionState", "string"),
            Field("transactionTimeoutMs", "int32"),
            Field("transactionStartTimeMs", "int64"),
            Field("producerId", "int64"),
            Field("producerEpoch", "int16"),
            Field(
                "topics", "[]TopicData",
                fields=(
                    Field("topic", "string"),
                    Field("partitions", "[]int32"),
                ),
            ),
        ),
    ),
)

LIST_TRANSACTIONS_REQUEST = Schema(
    "ListTransactionsRequest",
    "0-2",
    "0+",
    Field("stateFilters", "[]string"),
    Field("producerIdFilters", "[]int64"),
    Field("durationFilter", "int64", "1+", default=-1),
    Field("transactionalIdPattern", "string", "2+", nullable="2+", default=None),
)

LIST_TRANSACTIONS_RESPONSE = Schema(
    "ListTransactionsResponse",
    "0-2",
    "0+",
    Field("throttleTimeMs", "int32"),
    Field("errorCode", "int16"),
    Field("unknownStateFilters", "[]string"),
    Field(
        "transactionStates", "[]TransactionState",
        fields=(
            Field("transactionalId", "string"),
            Field("producerId", "int64"),
            Field("transactionState", "string"),
        ),
    ),
)
