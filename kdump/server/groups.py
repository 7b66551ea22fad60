"""Groups in memory: those of the log directories with their offsets, and a coordinator of the classic protocol.

The coordinator is that of Kafka's GroupMetadataManager, without what only durability needs: nothing is written, and
what clients commit is forgotten when the server ends.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import NamedTuple

from kdump.errors import Report
from kdump.formats import names
from kdump.server.cluster import ServedCluster
from kdump.server.group import CommittedOffset, Group, GroupError, Member
from kdump.server.protocol.errors import ErrorCode
from kdump.topics.group_log import GroupLog
from kdump.topics.groups import Group as LoggedGroup
from kdump.topics.groups import GroupState, GroupType, groups_of

MAX_GROUPS = 10_000
MAX_MEMBERS = 1_000
MAX_COMMITS = 1_000_000
"""Limits of what clients can make the server keep."""
MAX_METADATA = 4096
"""Bytes of a commit's metadata (offset.metadata.max.bytes)."""
MIN_SESSION_MS, MAX_SESSION_MS = 6_000, 1_800_000
"""Kafka's group.min.session.timeout.ms and group.max.session.timeout.ms."""
EXPIRY_SECONDS = 0.5
"""How often members are looked through for those that are gone."""


class Commits(StrEnum):
    """What becomes of offsets that clients commit."""

    KEEP = "memory"
    REFUSE = "refuse"


class Joining(NamedTuple):
    """What a JoinGroup request says; timeouts in ms."""

    group: str
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: dict[str, bytes]


class Coordinator:
    """All groups. Everything but the loading of `groups` happens in the event loop."""

    def __init__(self, commits: Commits = Commits.KEEP) -> None:
        self.commits = commits
        self.groups: dict[str, Group] = {}
        self._committed = 0

    def add(self, groups: Iterable[Group]) -> None:
        """Take in the groups of the log directories."""
        for group in groups:
            self.groups.setdefault(group.name, group)

    def group(self, name: str) -> Group:
        """Return a group that is there. Raises GroupError."""
        found = self.groups.get(name)
        if found is None:
            raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
        return found

    def _group_or_new(self, name: str) -> Group:
        if not name:
            raise GroupError(ErrorCode.INVALID_GROUP_ID)
        found = self.groups.get(name)
        if found is None:
            if len(self.groups) >= MAX_GROUPS:
                raise GroupError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            found = self.groups[name] = Group(name)
        return found

    async def join(self, asked: Joining) -> tuple[Group, Member]:
        """Wait for the next generation. Raises GroupError."""
        if not MIN_SESSION_MS <= asked.session_timeout_ms <= MAX_SESSION_MS:
            raise GroupError(ErrorCode.INVALID_SESSION_TIMEOUT)
        if asked.member_id and asked.group not in self.groups:
            raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
        group = self._group_or_new(asked.group)
        member = self._member_for(group, asked)
        is_known = asked.member_id == member.member_id and bool(member.protocols)
        is_unchanged = is_known and list(member.protocols.items()) == list(asked.protocols.items())
        _update(member, asked)
        if not group.members or len(group.members) == 1:
            group.protocol_type = asked.protocol_type
        group.kind = GroupType.CLASSIC
        member.is_alive()
        is_follower = group.leader != member.member_id
        if is_unchanged and (
            group.state is GroupState.COMPLETING or (group.state is GroupState.STABLE and is_follower)
        ):
            return group, member
        member.answer_join(ErrorCode.UNKNOWN_MEMBER_ID)
        future = member.joining = asyncio.get_running_loop().create_future()
        group.prepare()
        group.complete_if_joined()
        code = await future
        if code:
            raise GroupError(code)
        return group, member

    def _member_for(self, group: Group, asked: Joining) -> Member:
        """Return the member that joins: a known one, a static one that came back, or a new one. Raises GroupError."""
        static = group.by_instance(asked.instance_id) if asked.instance_id is not None else None
        known = group.members.get(asked.member_id)
        if asked.member_id:
            if static is not None and static is not known:
                raise GroupError(ErrorCode.FENCED_INSTANCE_ID)
            if known is None:
                raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
        group.check_protocols(asked.protocol_type, asked.protocols, known or static)
        if known is not None and asked.member_id:
            return known
        member_id = f"{asked.instance_id or asked.client_id or 'consumer'}-{uuid.uuid4()}"
        if static is not None:
            group.replace(static, member_id)
            return static
        if len(group.members) >= MAX_MEMBERS:
            raise GroupError(ErrorCode.GROUP_MAX_SIZE_REACHED)
        member = Member(member_id, asked.instance_id, asked.client_id, asked.client_host, 0.0, 0.0, {})
        group.members[member_id] = member
        return member

    async def sync(
        self, name: str, generation: int, member_id: str, instance_id: str | None, assignments: dict[str, bytes]
    ) -> tuple[Group, Member]:
        """Wait for the leader's assignment, which its own request brings. Raises GroupError."""
        group = self.group(name)
        member = group.member(member_id, instance_id)
        group.check_generation(generation)
        if group.state is GroupState.PREPARING:
            raise GroupError(ErrorCode.REBALANCE_IN_PROGRESS)
        member.is_alive()
        if group.state is GroupState.COMPLETING:
            member.answer_sync(ErrorCode.UNKNOWN_MEMBER_ID)
            future = member.syncing = asyncio.get_running_loop().create_future()
            if member_id == group.leader:
                group.assign(assignments)
            code = await future
            if code:
                raise GroupError(code)
        return group, member

    def heartbeat(self, name: str, generation: int, member_id: str, instance_id: str | None) -> None:
        """Keep a member alive. Raises GroupError, also where it has to join again."""
        group = self.group(name)
        member = group.member(member_id, instance_id)
        group.check_generation(generation)
        member.is_alive()
        if group.state is GroupState.PREPARING:
            raise GroupError(ErrorCode.REBALANCE_IN_PROGRESS)

    def leave(self, name: str, member_id: str, instance_id: str | None) -> None:
        """Let a member go, by its id or as a static one. Raises GroupError."""
        group = self.group(name)
        if instance_id is not None and not member_id:
            member = group.by_instance(instance_id)
            if member is None:
                raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
        else:
            member = group.member(member_id, instance_id)
        group.remove(member)

    def check_commit(self, name: str, generation: int, member_id: str, instance_id: str | None) -> Group:
        """Return the group of one who may commit. Raises GroupError."""
        if self.commits is Commits.REFUSE:
            raise GroupError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        group = self._group_or_new(name)
        if generation < 0 and not group.members:
            return group
        if generation < 0 and not member_id:
            raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
        member = group.member(member_id, instance_id)
        group.check_generation(generation)
        if group.state is GroupState.COMPLETING:
            raise GroupError(ErrorCode.REBALANCE_IN_PROGRESS)
        member.is_alive()
        return group

    def commit(self, group: Group, topic: str, partition: int, committed: CommittedOffset) -> ErrorCode:
        """Keep an offset in memory."""
        if len(committed.metadata.encode()) > MAX_METADATA:
            return ErrorCode.OFFSET_METADATA_TOO_LARGE
        key = (topic, partition)
        if key not in group.commits:
            if self._committed >= MAX_COMMITS:
                return ErrorCode.COORDINATOR_NOT_AVAILABLE
            self._committed += 1
        group.commits[key] = committed
        return ErrorCode.NONE

    def expire(self, now: float) -> None:
        """Let go the members that have not been heard of, and do not wait for them any longer."""
        for group in list(self.groups.values()):
            for member in list(group.members.values()):
                if member.joining is None and member.syncing is None and member.expires < now:
                    group.remove(member)
            if group.state is GroupState.PREPARING and group.deadline < now:
                group.complete()

    async def watch(self) -> None:
        """Look through all members for ever."""
        while True:
            await asyncio.sleep(EXPIRY_SECONDS)
            self.expire(time.monotonic())


def _update(member: Member, asked: Joining) -> None:
    member.session_timeout = asked.session_timeout_ms / 1000
    member.rebalance_timeout = max(asked.rebalance_timeout_ms, 0) / 1000
    member.client_id, member.client_host = asked.client_id, asked.client_host
    member.protocols = asked.protocols


def logged_groups(cluster: ServedCluster, report: Report) -> Iterator[Group]:
    """Yield the groups with their committed offsets; whoever was a member is gone. Raises OSError."""
    for replica in cluster.replicas(names.CONSUMER_OFFSETS_TOPIC):
        for group in groups_of(GroupLog(replica, report), cluster.names):
            if not group.is_dead:
                yield _served(group)


def _served(group: LoggedGroup) -> Group:
    commits = {
        (each.topic, each.partition): CommittedOffset(each.offset, each.leader_epoch, each.metadata)
        for each in group.commits
    }
    protocol_type = group.protocol_type if group.kind is GroupType.CLASSIC else group.kind
    return Group(group.name, group.kind, protocol_type, generation=group.epoch or 0, commits=commits)
