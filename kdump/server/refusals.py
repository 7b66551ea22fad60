"""Requests that would write: each is refused at once, with an error after which no client tries again."""

from __future__ import annotations

from kdump.server.context import Context, Fields
from kdump.server.protocol.errors import ErrorCode
from kdump.server.protocol.frames import Request

READ_ONLY = "kdump serve is read-only: nothing can be written to these log directories"
NO_CONSUMER_PROTOCOL = (
    "kdump serve has no groups of the consumer protocol (KIP-848): set group.protocol=classic in this consumer"
)


def produce(_ctx: Context, request: Request) -> Fields:
    """Refuse Produce, for each partition."""
    topics = []
    for topic in request.body["topicData"]:
        partitions = []
        for each in topic["partitionData"]:
            refused: Fields = {"index": each["index"], "errorCode": ErrorCode.POLICY_VIOLATION, "baseOffset": -1}
            partitions.append(refused | {"errorMessage": READ_ONLY})
        topics.append({"name": topic["name"], "topicId": topic["topicId"], "partitionResponses": partitions})
    return {"responses": topics}


def init_producer_id(_ctx: Context, request: Request) -> Fields:
    """Refuse InitProducerId, which idempotent and transactional producers begin with."""
    error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    if request.body["transactionalId"] is not None:
        error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return {"errorCode": error, "producerId": -1, "producerEpoch": -1}


def delete_groups(_ctx: Context, request: Request) -> Fields:
    """Refuse DeleteGroups."""
    error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return {"results": [{"groupId": group, "errorCode": error} for group in request.body["groupsNames"]]}


def describe_acls(_ctx: Context, _request: Request) -> Fields:
    """Say that there is no authorizer, as a broker without one does."""
    return {"errorCode": ErrorCode.SECURITY_DISABLED, "errorMessage": "No Authorizer is configured."}


def consumer_group_heartbeat(_ctx: Context, _request: Request) -> Fields:
    """Refuse the consumer protocol; a consumer that is not told waits for ever."""
    return {"errorCode": ErrorCode.UNSUPPORTED_VERSION, "errorMessage": NO_CONSUMER_PROTOCOL}
