"""Answers about the cluster: what can be asked, which nodes and topics there are."""

from __future__ import annotations

from kdump.server.cluster import ServedTopic
from kdump.server.context import Context, Fields, partition_nodes, unknown_topic
from kdump.server.protocol.apis import APIS, SASL_KEYS
from kdump.server.protocol.errors import ErrorCode
from kdump.server.protocol.frames import Request

_BROKERS = 1
_NO_ELR: Fields = {"eligibleLeaderReplicas": [], "lastKnownElr": []}
_MAX_LIMIT = 2000
"""Partitions in an answer to DescribeTopicPartitions (max.request.partition.size.limit)."""


def api_versions(_ctx: Context, request: Request, *, with_sasl: bool = False) -> Fields:
    """Name all requests that are answered. A newer ApiVersions request gets error 35 and the same list."""
    return {
        "errorCode": ErrorCode.UNSUPPORTED_VERSION if request.is_newer else ErrorCode.NONE,
        "apiKeys": [
            {"apiKey": api.key, "minVersion": api.first, "maxVersion": api.last}
            for api in sorted(APIS.values(), key=lambda api: api.key)
            if with_sasl or api.key not in SASL_KEYS
        ],
    }


def metadata(ctx: Context, request: Request) -> Fields:
    """Answer Metadata: null stands for all topics, and in version 0 an empty list does."""
    wanted = request.body["topics"]
    if wanted is None or (request.version == 0 and not wanted):
        topics = [_topic(ctx, topic) for topic in ctx.cluster.topics.values()]
    else:
        topics = [_asked(ctx, each) for each in wanted]
    for topic in topics:
        if topic["name"] is None and request.version < 12:
            topic["name"] = ""
    return {
        "brokers": _brokers(ctx, "nodeId"),
        "clusterId": ctx.cluster.cluster_id,
        "controllerId": ctx.cluster.controller_id,
        "topics": topics,
    }


def _brokers(ctx: Context, key: str) -> list[Fields]:
    found = ((node_id, ctx.address(node_id)) for node_id in sorted(ctx.cluster.nodes))
    return [{key: node_id, "host": address.host, "port": address.port, "rack": None} for node_id, address in found]


def _asked(ctx: Context, asked: Fields) -> Fields:
    name, topic_id = asked["name"], asked["topicId"]
    topic = ctx.topic(name, topic_id if name is None else None)
    if topic is not None:
        return _topic(ctx, topic)
    error = unknown_topic(name) if name is not None else ErrorCode.UNKNOWN_TOPIC_ID
    return {"errorCode": error, "name": name, "topicId": topic_id}


def _topic(ctx: Context, topic: ServedTopic) -> Fields:
    nodes: dict[int, object] = {**ctx.cluster.nodes}
    return {
        "errorCode": ErrorCode.NONE,
        "name": topic.name,
        "topicId": topic.topic_id,
        "isInternal": topic.is_internal,
        "partitions": [partition_nodes(place, nodes) for place in topic.places],
    }


def describe_cluster(ctx: Context, request: Request) -> Fields:
    """Answer DescribeCluster; there are no controllers to be reached."""
    if request.body["endpointType"] == _BROKERS:
        answer: Fields = {"clusterId": ctx.cluster.cluster_id, "controllerId": ctx.cluster.controller_id}
        return answer | {"brokers": _brokers(ctx, "brokerId")}
    message = "there are only brokers here, no controllers"
    return {"errorCode": ErrorCode.MISMATCHED_ENDPOINT_TYPE, "errorMessage": message}


def describe_topic_partitions(ctx: Context, request: Request) -> Fields:
    """Answer DescribeTopicPartitions, a page at a time."""
    wanted = {each["name"] for each in request.body["topics"]}
    cursor = request.body["cursor"]
    names = sorted(wanted or ctx.cluster.topics)
    if cursor and wanted and cursor["topicName"] not in wanted:
        error = ErrorCode.INVALID_REQUEST
        return {"topics": [{"errorCode": error, "name": name} for name in names], "nextCursor": None}
    if cursor:
        names = [name for name in names if name >= cursor["topicName"]]
    room = max(1, min(request.body["responsePartitionLimit"], _MAX_LIMIT))
    topics: list[Fields] = []
    for name in names:
        found = ctx.cluster.topics.get(name)
        if found is None:
            topics.append({"errorCode": unknown_topic(name), "name": name})
            continue
        start = max(0, cursor["partitionIndex"]) if cursor and cursor["topicName"] == name else 0
        if room <= 0:
            return {"topics": topics, "nextCursor": {"topicName": name, "partitionIndex": start}}
        shown = _topic(ctx, found)
        shown["partitions"] = [each | _NO_ELR for each in shown["partitions"][start : start + room]]
        topics.append(shown)
        room -= len(shown["partitions"])
        if start + len(shown["partitions"]) < len(found.places):
            following = start + len(shown["partitions"])
            return {"topics": topics, "nextCursor": {"topicName": name, "partitionIndex": following}}
    return {"topics": topics, "nextCursor": None}
