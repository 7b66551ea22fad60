"""The layouts of the messages about brokers, topics, configurations, log directories and access.

As the message descriptions of Kafka 4.3 have them (clients/src/main/resources/common/message). Version 0 of
SaslHandshake, after which tokens come without requests around them, is left out.
"""

from __future__ import annotations

from kdump.formats.schemas.tables import messages

MESSAGES = messages("""
MetadataRequest 0-13 flexible 9+
  topics                             []MetadataRequestTopic      nullable 1+
    topicId                          uuid                   10+  ignorable
    name                             string                      nullable 10+
  allowAutoTopicCreation             bool                   4+   default true
  includeClusterAuthorizedOperations bool                   8-10
  includeTopicAuthorizedOperations   bool                   8+

MetadataResponse 0-13 flexible 9+
  throttleTimeMs              int32                       3+   ignorable
  brokers                     []MetadataResponseBroker
    nodeId                    int32
    host                      string
    port                      int32
    rack                      string                      1+   nullable 1+  default null  ignorable
  clusterId                   string                      2+   nullable 2+  default null  ignorable
  controllerId                int32                       1+   default -1  ignorable
  topics                      []MetadataResponseTopic
    errorCode                 int16
    name                      string                           nullable 12+
    topicId                   uuid                        10+  ignorable
    isInternal                bool                        1+   ignorable
    partitions                []MetadataResponsePartition
      errorCode               int16
      partitionIndex          int32
      leaderId                int32
      leaderEpoch             int32                       7+   default -1  ignorable
      replicaNodes            []int32
      isrNodes                []int32
      offlineReplicas         []int32                     5+   ignorable
    topicAuthorizedOperations int32                       8+   default -2147483648
  clusterAuthorizedOperations int32                       8-10 default -2147483648
  errorCode                   int16                       13+  ignorable

ApiVersionsRequest 0-4 flexible 3+
  clientSoftwareName    string 3+ ignorable
  clientSoftwareVersion string 3+ ignorable

ApiVersionsResponse 0-4 flexible 3+
  errorCode              int16
  apiKeys                []ApiVersion
    apiKey               int16
    minVersion           int16
    maxVersion           int16
  throttleTimeMs         int32                 1+ ignorable
  supportedFeatures      []SupportedFeatureKey 3+ tag 0  ignorable
    name                 string                3+
    minVersion           int16                 3+
    maxVersion           int16                 3+
  finalizedFeaturesEpoch int64                 3+ tag 1  default -1  ignorable
  finalizedFeatures      []FinalizedFeatureKey 3+ tag 2  ignorable
    name                 string                3+
    maxVersionLevel      int16                 3+
    minVersionLevel      int16                 3+
  zkMigrationReady       bool                  3+ tag 3  ignorable

DescribeClusterRequest 0-2 flexible 0+
  includeClusterAuthorizedOperations bool
  endpointType                       int8 1+ default 1
  includeFencedBrokers               bool 2+

DescribeClusterResponse 0-2 flexible 0+
  throttleTimeMs              int32
  errorCode                   int16
  errorMessage                string                     nullable 0+  default null
  endpointType                int8                    1+ default 1
  clusterId                   string
  controllerId                int32                      default -1
  brokers                     []DescribeClusterBroker
    brokerId                  int32
    host                      string
    port                      int32
    rack                      string                     nullable 0+  default null
    isFenced                  bool                    2+
  clusterAuthorizedOperations int32                      default -2147483648

DescribeTopicPartitionsRequest 0 flexible 0+
  topics                 []TopicRequest
    name                 string
  responsePartitionLimit int32           default 2000
  cursor                 Cursor          nullable 0+  default null
    topicName            string
    partitionIndex       int32

DescribeTopicPartitionsResponse 0 flexible 0+
  throttleTimeMs              int32                                       ignorable
  topics                      []DescribeTopicPartitionsResponseTopic
    errorCode                 int16
    name                      string                                      nullable 0+
    topicId                   uuid                                        ignorable
    isInternal                bool                                        ignorable
    partitions                []DescribeTopicPartitionsResponsePartition
      errorCode               int16
      partitionIndex          int32
      leaderId                int32
      leaderEpoch             int32                                       default -1  ignorable
      replicaNodes            []int32
      isrNodes                []int32
      eligibleLeaderReplicas  []int32                                     nullable 0+  default null
      lastKnownElr            []int32                                     nullable 0+  default null
      offlineReplicas         []int32                                     ignorable
    topicAuthorizedOperations int32                                       default -2147483648
  nextCursor                  Cursor                                      nullable 0+  default null
    topicName                 string
    partitionIndex            int32

DescribeConfigsRequest 1-4 flexible 4+
  resources            []DescribeConfigsResource
    resourceType       int8
    resourceName       string
    configurationKeys  []string                     nullable 0+
  includeSynonyms      bool
  includeDocumentation bool                      3+

DescribeConfigsResponse 1-4 flexible 4+
  throttleTimeMs    int32
  results           []DescribeConfigsResult
    errorCode       int16
    errorMessage    string                             nullable 0+
    resourceType    int8
    resourceName    string
    configs         []DescribeConfigsResourceResult
      name          string
      value         string                             nullable 0+
      readOnly      bool
      configSource  int8                               default -1  ignorable
      isSensitive   bool
      synonyms      []DescribeConfigsSynonym           ignorable
        name        string
        value       string                             nullable 0+
        source      int8
      configType    int8                            3+ ignorable
      documentation string                          3+ nullable 0+  ignorable

DescribeLogDirsRequest 1-5 flexible 2+
  topics       []DescribableLogDirTopic  nullable 0+
    topic      string
    partitions []int32

DescribeLogDirsResponse 1-5 flexible 2+
  throttleTimeMs       int32
  errorCode            int16                      3+ ignorable
  results              []DescribeLogDirsResult
    errorCode          int16
    logDir             string
    topics             []DescribeLogDirsTopic
      name             string
      partitions       []DescribeLogDirsPartition
        partitionIndex int32
        partitionSize  int64
        offsetLag      int64
        isFutureKey    bool
    totalBytes         int64                      4+ default -1  ignorable
    usableBytes        int64                      4+ default -1  ignorable
    isCordoned         bool                       5+ ignorable

ListConfigResourcesRequest 0-1 flexible 0+
  resourceTypes []int8 1+

ListConfigResourcesResponse 0-1 flexible 0+
  throttleTimeMs  int32
  errorCode       int16
  configResources []ConfigResource
    resourceName  string
    resourceType  int8             1+ default 16  ignorable

DescribeAclsRequest 1-3 flexible 2+
  resourceTypeFilter int8
  resourceNameFilter string  nullable 0+
  patternTypeFilter  int8    default 3
  principalFilter    string  nullable 0+
  hostFilter         string  nullable 0+
  operation          int8
  permissionType     int8

DescribeAclsResponse 1-3 flexible 2+
  throttleTimeMs     int32
  errorCode          int16
  errorMessage       string                  nullable 0+
  resources          []DescribeAclsResource
    resourceType     int8
    resourceName     string
    patternType      int8                    default 3
    acls             []AclDescription
      principal      string
      host           string
      operation      int8
      permissionType int8

SaslHandshakeRequest 1 flexible none
  mechanism string

SaslHandshakeResponse 1 flexible none
  errorCode  int16
  mechanisms []string

SaslAuthenticateRequest 0-2 flexible 2+
  authBytes bytes

SaslAuthenticateResponse 0-2 flexible 2+
  errorCode         int16
  errorMessage      string    nullable 0+
  authBytes         bytes
  sessionLifetimeMs int64  1+ ignorable
""")
