"""A group of consumers: its members, its generation, and what it has committed."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from kdump.server.protocol.errors import ErrorCode
from kdump.topics.groups import GroupState, GroupType


class GroupError(Exception):
    """What a coordinator answers in place of what was asked for."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


class CommittedOffset(NamedTuple):
    """An absolute offset, and the leader epoch of the record before (-1: not known)."""

    offset: int
    leader_epoch: int
    metadata: str


@dataclass(slots=True, eq=False)
class Member:
    """A member of a group. Timeouts are in seconds, `expires` is a time of the monotonic clock."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout: float
    rebalance_timeout: float
    protocols: dict[str, bytes]
    assignment: bytes = b""
    expires: float = 0.0
    joining: asyncio.Future[ErrorCode] | None = None
    syncing: asyncio.Future[ErrorCode] | None = None

    def is_alive(self) -> None:
        """Let the session begin again."""
        self.expires = time.monotonic() + self.session_timeout

    def answer_join(self, code: ErrorCode) -> None:
        """End the wait for the others."""
        if self.joining is not None and not self.joining.done():
            self.joining.set_result(code)
        self.joining = None

    def answer_sync(self, code: ErrorCode) -> None:
        """End the wait for the leader."""
        if self.syncing is not None and not self.syncing.done():
            self.syncing.set_result(code)
        self.syncing = None


@dataclass(slots=True, eq=False)
class Group:
    """A group. `kind` is its type in Kafka: classic, consumer, share or streams."""

    name: str
    kind: GroupType = GroupType.CLASSIC
    protocol_type: str = ""
    protocol: str = ""
    leader: str = ""
    generation: int = 0
    state: GroupState = GroupState.EMPTY
    members: dict[str, Member] = field(default_factory=dict)
    commits: dict[tuple[str, int], CommittedOffset] = field(default_factory=dict)
    deadline: float = 0.0

    def member(self, member_id: str, instance_id: str | None = None) -> Member:
        """Return the member of an id. Raises GroupError."""
        if instance_id is not None:
            known = self.by_instance(instance_id)
            if known is not None and known.member_id != member_id:
                raise GroupError(ErrorCode.FENCED_INSTANCE_ID)
        found = self.members.get(member_id)
        if found is None:
            raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
        return found

    def by_instance(self, instance_id: str) -> Member | None:
        """Return the static member of an instance id (KIP-345)."""
        return next((member for member in self.members.values() if member.instance_id == instance_id), None)

    def check_generation(self, generation: int) -> None:
        """Raise GroupError for another generation than the present one."""
        if generation != self.generation:
            raise GroupError(ErrorCode.ILLEGAL_GENERATION)

    def common_protocols(self) -> set[str]:
        """Return the protocols that all members have."""
        common: set[str] | None = None
        for member in self.members.values():
            common = set(member.protocols) if common is None else common & member.protocols.keys()
        return common or set()

    def check_protocols(self, protocol_type: str, names: Iterable[str], member: Member | None) -> None:
        """Raise GroupError where a member's protocols do not fit those of the others."""
        names = set(names)
        if not protocol_type or not names:
            raise GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        others = [each for each in self.members.values() if each is not member]
        for other in others:
            names &= other.protocols.keys()
        if not names or (others and protocol_type != self.protocol_type):
            raise GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)

    def prepare(self) -> None:
        """Begin a rebalance: all members have to join again."""
        for member in self.members.values():
            member.answer_sync(ErrorCode.REBALANCE_IN_PROGRESS)
            member.assignment = b""
        if self.state is not GroupState.PREPARING:
            self.state = GroupState.PREPARING
            longest = max((member.rebalance_timeout for member in self.members.values()), default=0.0)
            self.deadline = time.monotonic() + longest

    def complete_if_joined(self) -> None:
        """Begin the next generation if nobody is missing any more."""
        if self.state is GroupState.PREPARING and all(member.joining for member in self.members.values()):
            self.complete()

    def complete(self) -> None:
        """Begin the next generation with those who have joined."""
        for member in [each for each in self.members.values() if each.joining is None]:
            self._drop(member)
        self.generation += 1
        if not self.members:
            self.state = GroupState.EMPTY
            self.protocol = self.leader = ""
            return
        self.state = GroupState.COMPLETING
        self.protocol = self._elected_protocol()
        if self.leader not in self.members:
            self.leader = next(iter(self.members))
        for member in self.members.values():
            member.is_alive()
            member.answer_join(ErrorCode.NONE)

    def _elected_protocol(self) -> str:
        """Return the protocol that most members like best of those that all have."""
        common = self.common_protocols()
        votes = Counter(next(name for name in member.protocols if name in common) for member in self.members.values())
        return votes.most_common(1)[0][0]

    def assign(self, assignments: dict[str, bytes]) -> None:
        """Take the leader's assignment, and give everybody theirs."""
        for member in self.members.values():
            member.assignment = assignments.get(member.member_id, b"")
        self.state = GroupState.STABLE
        for member in self.members.values():
            member.answer_sync(ErrorCode.NONE)

    def remove(self, member: Member) -> None:
        """Let a member go, and the others share what it had."""
        self._drop(member)
        if self.state in (GroupState.STABLE, GroupState.COMPLETING):
            self.prepare()
        self.complete_if_joined()

    def _drop(self, member: Member) -> None:
        self.members.pop(member.member_id, None)
        member.answer_join(ErrorCode.UNKNOWN_MEMBER_ID)
        member.answer_sync(ErrorCode.UNKNOWN_MEMBER_ID)

    def replace(self, member: Member, member_id: str) -> None:
        """Give a static member that has come back another id; whoever has the old one is fenced (KIP-345)."""
        member.answer_join(ErrorCode.FENCED_INSTANCE_ID)
        member.answer_sync(ErrorCode.FENCED_INSTANCE_ID)
        del self.members[member.member_id]
        if self.leader == member.member_id:
            self.leader = member_id
        member.member_id = member_id
        self.members[member_id] = member
