"""The layouts of the messages about producers and transactions.

As the message descriptions of Kafka 4.3 have them (clients/src/main/resources/common/message).
"""

from __future__ import annotations

from kdump.formats.schemas.tables import messages

MESSAGES = messages("""
InitProducerIdRequest 0-5 flexible 2+
  transactionalId      string    nullable 0+
  transactionTimeoutMs int32
  producerId           int64  3+ default -1
  producerEpoch        int16  3+ default -1

InitProducerIdResponse 0-5 flexible 2+
  throttleTimeMs int32  ignorable
  errorCode      int16
  producerId     int64  default -1
  producerEpoch  int16

DescribeProducersRequest 0 flexible 0+
  topics             []TopicRequest
    name             string
    partitionIndexes []int32

DescribeProducersResponse 0 flexible 0+
  throttleTimeMs              int32
  topics                      []TopicResponse
    name                      string
    partitions                []PartitionResponse
      partitionIndex          int32
      errorCode               int16
      errorMessage            string               nullable 0+  default null
      activeProducers         []ProducerState
        producerId            int64
        producerEpoch         int32
        lastSequence          int32                default -1
        lastTimestamp         int64                default -1
        coordinatorEpoch      int32
        currentTxnStartOffset int64                default -1

DescribeTransactionsRequest 0 flexible 0+
  transactionalIds []string

DescribeTransactionsResponse 0 flexible 0+
  throttleTimeMs           int32
  transactionStates        []TransactionState
    errorCode              int16
    transactionalId        string
    transactionState       string
    transactionTimeoutMs   int32
    transactionStartTimeMs int64
    producerId             int64
    producerEpoch          int16
    topics                 []TopicData
      topic                string
      partitions           []int32

ListTransactionsRequest 0-2 flexible 0+
  stateFilters           []string
  producerIdFilters      []int64
  durationFilter         int64    1+ default -1
  transactionalIdPattern string   2+ nullable 2+  default null

ListTransactionsResponse 0-2 flexible 0+
  throttleTimeMs      int32
  errorCode           int16
  unknownStateFilters []string
  transactionStates   []TransactionState
    transactionalId   string
    producerId        int64
    transactionState  string
""")
