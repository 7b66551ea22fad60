"""The layouts of the messages of consumer groups.

As the message descriptions of Kafka 4.3 have them (clients/src/main/resources/common/message).
"""

from __future__ import annotations

from kdump.formats.schemas.tables import messages

MESSAGES = messages("""
FindCoordinatorRequest 0-6 flexible 3+
  key             string   0-3
  keyType         int8     1+
  coordinatorKeys []string 4+

FindCoordinatorResponse 0-6 flexible 3+
  throttleTimeMs int32         1+  ignorable
  errorCode      int16         0-3
  errorMessage   string        1-3 nullable 1-3  ignorable
  nodeId         int32         0-3
  host           string        0-3
  port           int32         0-3
  coordinators   []Coordinator 4+
    key          string        4+
    nodeId       int32         4+
    host         string        4+
    port         int32         4+
    errorCode    int16         4+
    errorMessage string        4+  nullable 4+  ignorable

OffsetCommitRequest 2-10 flexible 8+
  groupId                   string
  generationIdOrMemberEpoch int32                              default -1  ignorable
  memberId                  string                             ignorable
  groupInstanceId           string                         7+  nullable 7+  default null
  retentionTimeMs           int64                          2-4 default -1  ignorable
  topics                    []OffsetCommitRequestTopic
    name                    string                         2-9 ignorable
    topicId                 uuid                           10+ ignorable
    partitions              []OffsetCommitRequestPartition
      partitionIndex        int32
      committedOffset       int64
      committedLeaderEpoch  int32                          6+  default -1  ignorable
      committedMetadata     string                             nullable 0+

OffsetCommitResponse 2-10 flexible 8+
  throttleTimeMs     int32                           3+  ignorable
  topics             []OffsetCommitResponseTopic
    name             string                          2-9 ignorable
    topicId          uuid                            10+ ignorable
    partitions       []OffsetCommitResponsePartition
      partitionIndex int32
      errorCode      int16

OffsetFetchRequest 1-10 flexible 6+
  groupId              string                     1-7
  topics               []OffsetFetchRequestTopic  1-7 nullable 2-7
    name               string                     1-7
    partitionIndexes   []int32                    1-7
  groups               []OffsetFetchRequestGroup  8+
    groupId            string                     8+
    memberId           string                     9+  nullable 9+  default null  ignorable
    memberEpoch        int32                      9+  default -1  ignorable
    topics             []OffsetFetchRequestTopics 8+  nullable 8+
      name             string                     8-9 ignorable
      topicId          uuid                       10+ ignorable
      partitionIndexes []int32                    8+
  requireStable        bool                       7+

OffsetFetchResponse 1-10 flexible 6+
  throttleTimeMs             int32                           3+  ignorable
  topics                     []OffsetFetchResponseTopic      1-7
    name                     string                          1-7
    partitions               []OffsetFetchResponsePartition  1-7
      partitionIndex         int32                           1-7
      committedOffset        int64                           1-7
      committedLeaderEpoch   int32                           5-7 default -1  ignorable
      metadata               string                          1-7 nullable 1-7
      errorCode              int16                           1-7
  errorCode                  int16                           2-7 ignorable
  groups                     []OffsetFetchResponseGroup      8+
    groupId                  string                          8+
    topics                   []OffsetFetchResponseTopics     8+
      name                   string                          8-9 ignorable
      topicId                uuid                            10+ ignorable
      partitions             []OffsetFetchResponsePartitions 8+
        partitionIndex       int32                           8+
        committedOffset      int64                           8+
        committedLeaderEpoch int32                           8+  default -1  ignorable
        metadata             string                          8+  nullable 8+
        errorCode            int16                           8+
    errorCode                int16                           8+

JoinGroupRequest 0-9 flexible 6+
  groupId            string
  sessionTimeoutMs   int32
  rebalanceTimeoutMs int32                      1+ default -1  ignorable
  memberId           string
  groupInstanceId    string                     5+ nullable 5+  default null
  protocolType       string
  protocols          []JoinGroupRequestProtocol
    name             string
    metadata         bytes
  reason             string                     8+ nullable 8+  default null  ignorable

JoinGroupResponse 0-9 flexible 6+
  throttleTimeMs    int32                     2+ ignorable
  errorCode         int16
  generationId      int32                        default -1
  protocolType      string                    7+ nullable 7+  default null  ignorable
  protocolName      string                       nullable 7+
  leader            string
  skipAssignment    bool                      9+
  memberId          string
  members           []JoinGroupResponseMember
    memberId        string
    groupInstanceId string                    5+ nullable 5+  default null  ignorable
    metadata        bytes

HeartbeatRequest 0-4 flexible 4+
  groupId         string
  generationId    int32
  memberId        string
  groupInstanceId string 3+ nullable 3+  default null

HeartbeatResponse 0-4 flexible 4+
  throttleTimeMs int32 1+ ignorable
  errorCode      int16

LeaveGroupRequest 0-5 flexible 4+
  groupId           string
  memberId          string           0-2
  members           []MemberIdentity 3+
    memberId        string           3+
    groupInstanceId string           3+  nullable 3+  default null
    reason          string           5+  nullable 5+  default null  ignorable

LeaveGroupResponse 0-5 flexible 4+
  throttleTimeMs    int32            1+ ignorable
  errorCode         int16
  members           []MemberResponse 3+
    memberId        string           3+
    groupInstanceId string           3+ nullable 3+
    errorCode       int16            3+

SyncGroupRequest 0-5 flexible 4+
  groupId         string
  generationId    int32
  memberId        string
  groupInstanceId string                       3+ nullable 3+  default null
  protocolType    string                       5+ nullable 5+  default null  ignorable
  protocolName    string                       5+ nullable 5+  default null  ignorable
  assignments     []SyncGroupRequestAssignment
    memberId      string
    assignment    bytes

SyncGroupResponse 0-5 flexible 4+
  throttleTimeMs int32  1+ ignorable
  errorCode      int16
  protocolType   string 5+ nullable 5+  default null  ignorable
  protocolName   string 5+ nullable 5+  default null  ignorable
  assignment     bytes

DescribeGroupsRequest 0-6 flexible 5+
  groups                      []string
  includeAuthorizedOperations bool     3+

DescribeGroupsResponse 0-6 flexible 5+
  throttleTimeMs         int32                  1+ ignorable
  groups                 []DescribedGroup
    errorCode            int16
    errorMessage         string                 6+ nullable 6+  default null
    groupId              string
    groupState           string
    protocolType         string
    protocolData         string
    members              []DescribedGroupMember
      memberId           string
      groupInstanceId    string                 4+ nullable 4+  default null  ignorable
      clientId           string
      clientHost         string
      memberMetadata     bytes
      memberAssignment   bytes
    authorizedOperations int32                  3+ default -2147483648

ListGroupsRequest 0-5 flexible 3+
  statesFilter []string 4+
  typesFilter  []string 5+

ListGroupsResponse 0-5 flexible 3+
  throttleTimeMs int32         1+ ignorable
  errorCode      int16
  groups         []ListedGroup
    groupId      string
    protocolType string
    groupState   string        4+ ignorable
    groupType    string        5+ ignorable

DeleteGroupsRequest 0-2 flexible 2+
  groupsNames []string

DeleteGroupsResponse 0-2 flexible 2+
  throttleTimeMs int32
  results        []DeletableGroupResult
    groupId      string
    errorCode    int16

ConsumerGroupHeartbeatRequest 0-1 flexible 0+
  groupId              string
  memberId             string
  memberEpoch          int32
  instanceId           string               nullable 0+  default null
  rackId               string               nullable 0+  default null
  rebalanceTimeoutMs   int32                default -1
  subscribedTopicNames []string             nullable 0+  default null
  subscribedTopicRegex string            1+ nullable 1+  default null
  serverAssignor       string               nullable 0+  default null
  topicPartitions      []TopicPartitions    nullable 0+  default null
    topicId            uuid
    partitions         []int32

ConsumerGroupHeartbeatResponse 0-1 flexible 0+
  throttleTimeMs      int32
  errorCode           int16
  errorMessage        string             nullable 0+  default null
  memberId            string             nullable 0+  default null
  memberEpoch         int32
  heartbeatIntervalMs int32
  assignment          Assignment         nullable 0+  default null
    topicPartitions   []TopicPartitions
      topicId         uuid
      partitions      []int32
""")
