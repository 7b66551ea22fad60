"""The layouts of Produce, Fetch, ListOffsets and OffsetForLeaderEpoch.

As the message descriptions of Kafka 4.3 have them (clients/src/main/resources/common/message).
"""

from __future__ import annotations

from kdump.formats.schemas.tables import messages

MESSAGES = messages("""
ProduceRequest 3-13 flexible 9+
  transactionalId string                      nullable 0+  default null
  acks            int16
  timeoutMs       int32
  topicData       []TopicProduceData
    name          string                 3-12 ignorable
    topicId       uuid                   13+  ignorable
    partitionData []PartitionProduceData
      index       int32
      records     bytes                       nullable 0+

ProduceResponse 3-13 flexible 9+
  responses                    []TopicProduceResponse
    name                       string                      3-12 ignorable
    topicId                    uuid                        13+  ignorable
    partitionResponses         []PartitionProduceResponse
      index                    int32
      errorCode                int16
      baseOffset               int64
      logAppendTimeMs          int64                            default -1  ignorable
      logStartOffset           int64                       5+   default -1  ignorable
      recordErrors             []BatchIndexAndErrorMessage 8+   ignorable
        batchIndex             int32                       8+
        batchIndexErrorMessage string                      8+   nullable 8+  default null
      errorMessage             string                      8+   nullable 8+  default null  ignorable
      currentLeader            LeaderIdAndEpoch            10+  tag 0
        leaderId               int32                       10+  default -1
        leaderEpoch            int32                       10+  default -1
  throttleTimeMs               int32                            ignorable
  nodeEndpoints                []NodeEndpoint              10+  tag 0
    nodeId                     int32                       10+
    host                       string                      10+
    port                       int32                       10+
    rack                       string                      10+  nullable 10+  default null

FetchRequest 4-18 flexible 12+
  clusterId              string           12+  nullable 12+  tag 0  default null  ignorable
  replicaId              int32            4-14 default -1
  replicaState           ReplicaState     15+  tag 1
    replicaId            int32            15+  default -1
    replicaEpoch         int64            15+  default -1
  maxWaitMs              int32
  minBytes               int32
  maxBytes               int32                 default 2147483647  ignorable
  isolationLevel         int8                  ignorable
  sessionId              int32            7+   ignorable
  sessionEpoch           int32            7+   default -1  ignorable
  topics                 []FetchTopic
    topic                string           4-12 ignorable
    topicId              uuid             13+  ignorable
    partitions           []FetchPartition
      partition          int32
      currentLeaderEpoch int32            9+   default -1  ignorable
      fetchOffset        int64
      lastFetchedEpoch   int32            12+  default -1
      logStartOffset     int64            5+   default -1  ignorable
      partitionMaxBytes  int32
      replicaDirectoryId uuid             17+  tag 0  ignorable
      highWatermark      int64            18+  tag 1  default 9223372036854775807  ignorable
  forgottenTopicsData    []ForgottenTopic 7+
    topic                string           7-12 ignorable
    topicId              uuid             13+  ignorable
    partitions           []int32          7+
  rackId                 string           11+  ignorable

FetchResponse 4-18 flexible 12+
  throttleTimeMs           int32                         ignorable
  errorCode                int16                    7+   ignorable
  sessionId                int32                    7+
  responses                []FetchableTopicResponse
    topic                  string                   4-12 ignorable
    topicId                uuid                     13+  ignorable
    partitions             []PartitionData
      partitionIndex       int32
      errorCode            int16
      highWatermark        int64
      lastStableOffset     int64                         default -1  ignorable
      logStartOffset       int64                    5+   default -1  ignorable
      divergingEpoch       EpochEndOffset           12+  tag 0
        epoch              int32                    12+  default -1
        endOffset          int64                    12+  default -1
      currentLeader        LeaderIdAndEpoch         12+  tag 1
        leaderId           int32                    12+  default -1
        leaderEpoch        int32                    12+  default -1
      snapshotId           SnapshotId               12+  tag 2
        endOffset          int64                         default -1
        epoch              int32                         default -1
      abortedTransactions  []AbortedTransaction          nullable 0+  ignorable
        producerId         int64
        firstOffset        int64
      preferredReadReplica int32                    11+  default -1
      records              bytes                         nullable 0+
  nodeEndpoints            []NodeEndpoint           16+  tag 0
    nodeId                 int32                    16+
    host                   string                   16+
    port                   int32                    16+
    rack                   string                   16+  nullable 16+  default null

ListOffsetsRequest 1-11 flexible 6+
  replicaId              int32
  isolationLevel         int8                   2+
  topics                 []ListOffsetsTopic
    name                 string
    partitions           []ListOffsetsPartition
      partitionIndex     int32
      currentLeaderEpoch int32                  4+  default -1  ignorable
      timestamp          int64
  timeoutMs              int32                  10+ ignorable

ListOffsetsResponse 1-11 flexible 6+
  throttleTimeMs     int32                          2+ ignorable
  topics             []ListOffsetsTopicResponse
    name             string
    partitions       []ListOffsetsPartitionResponse
      partitionIndex int32
      errorCode      int16
      timestamp      int64                             default -1
      offset         int64                             default -1
      leaderEpoch    int32                          4+ default -1

OffsetForLeaderEpochRequest 2-4 flexible 4+
  replicaId              int32                      3+ default -2  ignorable
  topics                 []OffsetForLeaderTopic
    topic                string
    partitions           []OffsetForLeaderPartition
      partition          int32
      currentLeaderEpoch int32                         default -1  ignorable
      leaderEpoch        int32

OffsetForLeaderEpochResponse 2-4 flexible 4+
  throttleTimeMs  int32                         ignorable
  topics          []OffsetForLeaderTopicResult
    topic         string
    partitions    []EpochEndOffset
      errorCode   int16
      partition   int32
      leaderEpoch int32                         default -1  ignorable
      endOffset   int64                         default -1
""")
