"""Answers about groups: the protocol's messages on one side, the coordinator on the other."""

from __future__ import annotations

from kdump.server.context import Context, Fields
from kdump.server.group import CommittedOffset, Group, GroupError
from kdump.server.groups import Joining
from kdump.server.producers import known_ids
from kdump.server.protocol.errors import ErrorCode
from kdump.server.protocol.frames import Request
from kdump.topics.groups import GroupState

_GROUP, _TRANSACTION = 0, 1
NO_COORDINATOR = "kdump serve is read-only: it has no transactions to coordinate"


def find_coordinator(ctx: Context, request: Request) -> Fields:
    """Answer FindCoordinator: one node has all groups, and tells of the transactional ids in the log directories.

    Whoever asks for another transactional id wants to write. Raises OSError.
    """
    kind = request.body["keyType"]
    if request.version < 4:
        return _coordinator(ctx, kind, request.body["key"], request.version)
    keys = request.body["coordinatorKeys"]
    return {"coordinators": [{"key": key} | _coordinator(ctx, kind, key, request.version) for key in keys]}


def _coordinator(ctx: Context, kind: int, key: str, version: int) -> Fields:
    if kind == _GROUP or (kind == _TRANSACTION and key in known_ids(ctx)):
        address = ctx.address(ctx.cluster.controller_id)
        return {"nodeId": ctx.cluster.controller_id, "host": address.host, "port": address.port}
    is_transaction = kind == _TRANSACTION
    error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED if is_transaction else ErrorCode.INVALID_REQUEST
    failed: Fields = {"nodeId": -1, "host": "", "port": -1, "errorCode": error}
    return failed | ({"errorMessage": NO_COORDINATOR} if version else {})


async def join_group(ctx: Context, request: Request) -> Fields:
    """Answer JoinGroup when the others have joined, too."""
    body = request.body
    is_first_version = request.version == 0
    asked = Joining(
        body["groupId"],
        body["memberId"],
        body["groupInstanceId"],
        request.client_id or "",
        f"/{ctx.client_host}",
        body["sessionTimeoutMs"],
        body["sessionTimeoutMs"] if is_first_version else body["rebalanceTimeoutMs"],
        body["protocolType"],
        {each["name"]: each["metadata"] for each in body["protocols"]},
    )
    try:
        group, member = await ctx.coordinator.join(asked)
    except GroupError as error:
        failed: Fields = {"errorCode": error.code, "generationId": -1, "memberId": asked.member_id}
        return failed | {"protocolName": "" if request.version < 7 else None}
    is_leader = group.leader == member.member_id
    return {
        "generationId": group.generation,
        "protocolType": group.protocol_type,
        "protocolName": group.protocol,
        "leader": group.leader,
        "memberId": member.member_id,
        "members": [
            {
                "memberId": each.member_id,
                "groupInstanceId": each.instance_id,
                "metadata": each.protocols.get(group.protocol, b""),
            }
            for each in (group.members.values() if is_leader else ())
        ],
    }


async def sync_group(ctx: Context, request: Request) -> Fields:
    """Answer SyncGroup when the leader has sent its assignment."""
    body = request.body
    assignments = {each["memberId"]: each["assignment"] for each in body["assignments"]}
    try:
        group, member = await ctx.coordinator.sync(
            body["groupId"], body["generationId"], body["memberId"], body["groupInstanceId"], assignments
        )
    except GroupError as error:
        return {"errorCode": error.code}
    return {"protocolType": group.protocol_type, "protocolName": group.protocol, "assignment": member.assignment}


async def heartbeat(ctx: Context, request: Request) -> Fields:
    """Answer Heartbeat."""
    body = request.body
    try:
        ctx.coordinator.heartbeat(body["groupId"], body["generationId"], body["memberId"], body["groupInstanceId"])
    except GroupError as error:
        return {"errorCode": error.code}
    return {}


async def leave_group(ctx: Context, request: Request) -> Fields:
    """Answer LeaveGroup, of one member or, from version 3 on, of several."""
    body = request.body
    if request.version < 3:
        return {"errorCode": _leave(ctx, body["groupId"], body["memberId"], None)}
    members = []
    for each in body["members"]:
        code = _leave(ctx, body["groupId"], each["memberId"], each["groupInstanceId"])
        left = {"memberId": each["memberId"], "groupInstanceId": each["groupInstanceId"], "errorCode": code}
        members.append(left)
    return {"members": members}


def _leave(ctx: Context, group: str, member_id: str, instance_id: str | None) -> ErrorCode:
    try:
        ctx.coordinator.leave(group, member_id, instance_id)
    except GroupError as error:
        return error.code
    return ErrorCode.NONE


async def offset_commit(ctx: Context, request: Request) -> Fields:
    """Answer OffsetCommit; topics come by id from version 10 on."""
    body = request.body
    refused = ErrorCode.NONE
    group: Group | None = None
    try:
        group = ctx.coordinator.check_commit(
            body["groupId"], body["generationIdOrMemberEpoch"], body["memberId"], body["groupInstanceId"]
        )
    except GroupError as error:
        refused = error.code
    topics = []
    for topic in body["topics"]:
        found = ctx.topic(topic["name"], topic["topicId"])
        partitions = []
        for each in topic["partitions"]:
            number = each["partitionIndex"]
            code = refused
            if group is not None:
                code = ErrorCode.UNKNOWN_TOPIC_ID if request.version >= 10 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                if found is not None and found.place(number) is not None:
                    committed = CommittedOffset(
                        each["committedOffset"], each["committedLeaderEpoch"], each["committedMetadata"] or ""
                    )
                    code = ctx.coordinator.commit(group, found.name, number, committed)
            partitions.append({"partitionIndex": number, "errorCode": code})
        topics.append({"name": topic["name"], "topicId": topic["topicId"], "partitions": partitions})
    return {"topics": topics}


async def offset_fetch(ctx: Context, request: Request) -> Fields:
    """Answer OffsetFetch: of one group, or of several from version 8 on; by topic id from version 10 on."""
    body = request.body
    if request.version >= 8:
        return {"groups": [_fetched(ctx, each, request.version) for each in body["groups"]]}
    return {"topics": _fetched(ctx, body, request.version)["topics"]}


def _fetched(ctx: Context, asked: Fields, version: int) -> Fields:
    group = ctx.coordinator.groups.get(asked["groupId"])
    commits = group.commits if group else {}
    wanted: list[tuple[str, bytes | None, list[int]]] = []
    if asked["topics"] is None:
        by_topic: dict[str, list[int]] = {}
        for name, number in commits:
            by_topic.setdefault(name, []).append(number)
        wanted = [(name, None, sorted(numbers)) for name, numbers in sorted(by_topic.items())]
    else:
        wanted = [(topic["name"], topic.get("topicId"), topic["partitionIndexes"]) for topic in asked["topics"]]
    topics = []
    for name, topic_id, numbers in wanted:
        found = ctx.topic(name, topic_id if version >= 10 else None)
        if found is None and version >= 10 and asked["topics"] is None:
            continue  # a topic that is no longer there has no id
        unknown = ErrorCode.UNKNOWN_TOPIC_ID if found is None and version >= 10 else ErrorCode.NONE
        partitions = [_committed(commits.get((found.name if found else name, each)), each, version) for each in numbers]
        for each in partitions:
            each["errorCode"] = unknown
        shown: Fields = {"partitions": partitions}
        shown |= {"topicId": found.topic_id if found else topic_id} if version >= 10 else {"name": name}
        topics.append(shown)
    return {"groupId": asked["groupId"], "topics": topics}


def _committed(commit: CommittedOffset | None, number: int, version: int) -> Fields:
    offset, epoch, metadata = commit or CommittedOffset(-1, -1, "")
    answer: Fields = {"partitionIndex": number, "committedOffset": offset, "metadata": metadata}
    return answer | ({"committedLeaderEpoch": epoch} if version >= 5 else {})


async def list_groups(ctx: Context, request: Request) -> Fields:
    """Answer ListGroups; only the coordinator's node has any."""
    states = {each.lower() for each in request.body["statesFilter"]}
    kinds = {each.lower() for each in request.body["typesFilter"]}
    groups = [
        {
            "groupId": each.name,
            "protocolType": each.protocol_type,
            "groupState": each.state,
            "groupType": each.kind,
        }
        for each in ctx.coordinator.groups.values()
        if ctx.node_id == ctx.cluster.controller_id
        and (not states or each.state.lower() in states)
        and (not kinds or each.kind in kinds)
    ]
    return {"groups": groups}


async def describe_groups(ctx: Context, request: Request) -> Fields:
    """Answer DescribeGroups: a group that is not there is Dead, from version 6 on also an error."""
    groups = []
    for name in request.body["groups"]:
        group = ctx.coordinator.groups.get(name)
        if group is None:
            missing: Fields = {"groupId": name, "groupState": GroupState.DEAD}
            if request.version >= 6:
                missing |= {"errorCode": ErrorCode.GROUP_ID_NOT_FOUND, "errorMessage": f"Group {name} not found."}
            groups.append(missing)
            continue
        groups.append(_described(group))
    return {"groups": groups}


def _described(group: Group) -> Fields:
    is_stable = group.state is GroupState.STABLE
    return {
        "groupId": group.name,
        "groupState": group.state,
        "protocolType": group.protocol_type,
        "protocolData": group.protocol if is_stable else "",
        "members": [
            {
                "memberId": each.member_id,
                "groupInstanceId": each.instance_id,
                "clientId": each.client_id,
                "clientHost": each.client_host,
                "memberMetadata": each.protocols.get(group.protocol, b"") if is_stable else b"",
                "memberAssignment": each.assignment,
            }
            for each in group.members.values()
        ],
    }
