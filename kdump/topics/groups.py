"""Consumer, share and streams groups with their members, committed offsets and cost, out of __consumer_offsets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from kdump.formats.schemas.consumer_offsets import (
    CLASSIC_CONSUMER_PROTOCOL,
    CONSUMER_PROTOCOL_ASSIGNMENT,
    CONSUMER_PROTOCOL_SUBSCRIPTION,
    GROUP_METADATA,
    OFFSET_COMMIT,
    decode_consumer_protocol,
)
from kdump.formats.schemas.description import SchemaError
from kdump.formats.uuids import format_uuid
from kdump.topics.group_log import GroupLog, Slot, Value
from kdump.topics.share_state import ShareStart


class GroupType(StrEnum):
    """The protocol that a group's members speak (Kafka: Group.GroupType)."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


class GroupState(StrEnum):
    """The state of a group of any type, by Kafka's names (org.apache.kafka.common.GroupState)."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"


_STABLE_MEMBER = "Stable"
_MEMBER_STATES = {0: _STABLE_MEMBER, 1: "UnrevokedPartitions", 2: "UnreleasedPartitions"}
MEMBER_STATES = {
    GroupType.CONSUMER: _MEMBER_STATES,
    GroupType.SHARE: _MEMBER_STATES,
    GroupType.STREAMS: {1: _STABLE_MEMBER, 2: "UnrevokedTasks", 3: "UnreleasedTasks"},
}
"""By the type of the group, the names of its members' states (Kafka: MemberState of each group's package)."""

_CONSUMER_TOPICS = 4
_REGULAR_EXPRESSION = 16
_EPOCHS = {3: GroupType.CONSUMER, 11: GroupType.SHARE, 17: GroupType.STREAMS}
_MEMBERS = {5: GroupType.CONSUMER, 10: GroupType.SHARE, 19: GroupType.STREAMS}
_TARGET_EPOCHS = {6: GroupType.CONSUMER, 12: GroupType.SHARE, 20: GroupType.STREAMS}
_CURRENT = {8: GroupType.CONSUMER, 14: GroupType.SHARE, 22: GroupType.STREAMS}
_KINDS = _EPOCHS | _MEMBERS | _TARGET_EPOCHS | _CURRENT
_ASSIGNMENTS = ("assignedPartitions", "activeTasks")

Assignment = list[tuple[str, list[int]]]


@dataclass(slots=True)
class Member:
    """A member. `epoch` and `state` are those of the newer protocols; None in a classic group, which has neither.

    `topics` are those that it subscribes to, None where they cannot be told. `assignment` has topics by name, or by id
    where no name is at hand, and in a streams group subtopologies. Timeouts are in ms.
    """

    member_id: str
    instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rack: str | None = None
    epoch: int | None = None
    state: str | None = None
    topics: list[str] | None = None
    regex: str | None = None
    assignment: Assignment = field(default_factory=list)
    session_timeout: int | None = None
    rebalance_timeout: int | None = None


@dataclass(frozen=True, slots=True)
class Commit:
    """A committed offset; timestamps in ms, `leader_epoch` and `expire_timestamp` -1 where the record has none.

    `producer_id` is that of the open transaction that the commit waits for, -1 where it counts.
    """

    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: int
    expire_timestamp: int
    record_offset: int
    producer_id: int = -1


@dataclass(slots=True)
class Group:
    """A group.

    `kind` is its protocol, `epoch` the generation of a classic group and the group epoch of the others,
    `partition` the one of __consumer_offsets that holds it. `subscribed` are the topics that it subscribes to, None
    where that cannot be told: it may be any. `state_timestamp` (ms) is when a classic group entered its
    state. Of a dead group only superseded records and tombstones are left, which compaction has not removed yet.
    `share_starts` are where a share group is in the partitions that it reads, by the topic's name.
    Bytes are those that its records take in the log: equal parts of their batches, headers included.
    """

    name: str
    partition: int
    kind: GroupType = GroupType.CLASSIC
    state: GroupState = GroupState.EMPTY
    protocol_type: str = ""
    protocol: str | None = None
    leader: str | None = None
    epoch: int | None = None
    assignment_epoch: int | None = None
    state_timestamp: int = -1
    members: list[Member] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    pending: list[Commit] = field(default_factory=list)
    subscribed: frozenset[str] | None = frozenset()
    share_starts: list[tuple[str, ShareStart]] = field(default_factory=list)
    live_bytes: int = 0
    live_records: int = 0
    superseded_bytes: int = 0
    superseded_records: int = 0

    @property
    def is_dead(self) -> bool:
        """Whether nothing but superseded records is left of it."""
        return self.state is GroupState.DEAD

    def expires_at(self, commit: Commit, retention_ms: int) -> int | None:
        """Return when (ms) a coordinator drops the commit; None where the group's state keeps it for now.

        A commit with an expire timestamp of its own goes by that. Else retention counts from the commit in a group
        without a protocol and in one of the newer protocols, and in a classic one from when the group became empty.
        A topic that the group subscribes to is kept, as is a commit that a transaction is about to replace, and every
        commit of a classic group that has members but is not one of Kafka's consumers.
        """
        waiting = any((p.topic, p.partition) == (commit.topic, commit.partition) for p in self.pending)
        if waiting or self.subscribed is None or commit.topic in self.subscribed:
            return None
        since = commit.commit_timestamp
        if self.kind is GroupType.CLASSIC and self.protocol_type:
            if self.state is GroupState.EMPTY:
                since = since if self.state_timestamp < 0 else self.state_timestamp
            elif self.protocol_type != CLASSIC_CONSUMER_PROTOCOL:
                return None
        return since + retention_ms if commit.expire_timestamp < 0 else commit.expire_timestamp

    def is_expired(self, commit: Commit, retention_ms: int, now: int) -> bool:
        """Return whether a coordinator drops the commit at its next check at the time `now` (ms)."""
        expires = self.expires_at(commit, retention_ms)
        return expires is not None and now >= expires

    def of_partitions(self, wants: Callable[[str, int], bool]) -> Group:
        """Return the group with the offsets of some partitions alone, chosen by topic and number."""
        return replace(
            self,
            commits=[commit for commit in self.commits if wants(commit.topic, commit.partition)],
            pending=[commit for commit in self.pending if wants(commit.topic, commit.partition)],
            share_starts=[(topic, start) for topic, start in self.share_starts if wants(topic, start.partition)],
        )

    @property
    def has_offsets(self) -> bool:
        """Whether it has committed offsets, some that wait for a transaction, or share partitions."""
        return bool(self.commits or self.pending or self.share_starts)


def groups_of(log: GroupLog, topic_names: dict[bytes, str]) -> Iterator[Group]:
    """Yield the groups of a partition of __consumer_offsets by name, the dead among them.

    `topic_names` are names by topic id, for the assignments of the newer protocols; the partition's own records add
    to them.
    """
    slots: dict[str, list[Slot]] = {}
    for slot in log.keys.values():
        slots.setdefault(slot.group, []).append(slot)
    for name in sorted(slots):
        if not any(slot.value or slot.pending or slot.dead_records for slot in slots[name]):
            continue  # of keys that nothing but undecodable values belong to
        yield _Builder(Group(name, log.replica.partition), dict(topic_names)).build(slots[name])


class _Builder:
    """Puts a group together out of its keys."""

    def __init__(self, group: Group, topic_names: dict[bytes, str]) -> None:
        self._group = group
        self._topic_names = topic_names
        self._members: dict[str, Member] = {}
        self._regexes: dict[str, list[str]] = {}

    def build(self, slots: list[Slot]) -> Group:
        group = self._group
        # types in ascending order: topic names come before assignments, members before what is theirs
        for slot in sorted(slots, key=lambda slot: slot.type):
            group.superseded_bytes += slot.dead_bytes
            group.superseded_records += slot.dead_records
            if slot.value is not None:
                self._count(slot.value)
                self._take(slot, slot.value)
            for producer_id, value in slot.pending.items():
                self._count(value)
                group.pending.append(_commit(slot, value, producer_id))
        group.members.extend(self._members[name] for name in sorted(self._members))
        group.commits.sort(key=lambda commit: (commit.topic, commit.partition))
        group.pending.sort(key=lambda commit: (commit.topic, commit.partition, commit.record_offset))
        if not group.live_records:
            group.state = GroupState.EMPTY if _is_known(slots) else GroupState.DEAD
        elif group.kind is not GroupType.CLASSIC:
            group.state = self._state()
            group.subscribed = self._subscribed()
        return group

    def _count(self, value: Value) -> None:
        self._group.live_bytes += value.size
        self._group.live_records += 1

    def _take(self, slot: Slot, value: Value) -> None:
        group = self._group
        if slot.type <= OFFSET_COMMIT:
            group.commits.append(_commit(slot, value, -1))
            return
        fields = slot.decoded(value)
        group.kind = _KINDS.get(slot.type, group.kind)
        if slot.type == GROUP_METADATA:
            self._classic(fields)
        elif slot.type in _EPOCHS:
            group.epoch = fields["epoch"]
        elif slot.type in _TARGET_EPOCHS:
            group.assignment_epoch = fields["assignmentEpoch"]
        elif slot.type == _CONSUMER_TOPICS:
            self._topic_names |= {topic["topicId"]: topic["topicName"] for topic in fields["topics"]}
        elif slot.type in _MEMBERS:
            self._member(slot.fields["memberId"], fields)
        elif slot.type in _CURRENT:
            self._current(slot.fields["memberId"], fields)
        elif slot.type == _REGULAR_EXPRESSION:
            self._regexes[slot.fields["regularExpression"]] = fields["topics"]

    def _classic(self, fields: dict[str, Any]) -> None:
        group = self._group
        group.protocol_type = fields["protocolType"]
        group.protocol = fields["protocol"]
        group.leader = fields["leader"]
        group.epoch = fields["generation"]
        group.state_timestamp = fields["currentStateTimestamp"]
        group.state = GroupState.STABLE if fields["members"] else GroupState.EMPTY
        is_consumer = group.protocol_type == CLASSIC_CONSUMER_PROTOCOL
        members = [_classic_member(member, is_consumer) for member in fields["members"]]
        group.members = sorted(members, key=lambda member: member.member_id)
        if is_consumer and members:
            group.subscribed = _union(member.topics for member in members)

    def _member(self, member_id: str, fields: dict[str, Any]) -> None:
        classic = fields.get("classicMemberMetadata")
        self._members[member_id] = Member(
            member_id,
            fields.get("instanceId"),
            fields["clientId"],
            fields["clientHost"],
            fields["rackId"],
            topics=fields.get("subscribedTopicNames"),
            regex=fields.get("subscribedTopicRegex"),
            session_timeout=classic["sessionTimeoutMs"] if classic else None,
            rebalance_timeout=fields.get("rebalanceTimeoutMs"),
        )

    def _current(self, member_id: str, fields: dict[str, Any]) -> None:
        member = self._members.setdefault(member_id, Member(member_id))
        member.epoch = fields["memberEpoch"]
        member.state = MEMBER_STATES[self._group.kind].get(fields["state"], f"state {fields['state']}")
        for name in _ASSIGNMENTS:
            for assigned in fields.get(name, ()):
                topic = assigned["subtopologyId"] if "subtopologyId" in assigned else self._name(assigned["topicId"])
                member.assignment.append((topic, sorted(assigned["partitions"])))
        member.assignment.sort()

    def _name(self, topic_id: bytes) -> str:
        return self._topic_names.get(topic_id) or format_uuid(topic_id)

    def _state(self) -> GroupState:
        group = self._group
        if not group.members:
            return GroupState.EMPTY
        if group.kind is GroupType.SHARE:
            return GroupState.STABLE
        if (group.epoch or 0) > (group.assignment_epoch or 0):
            return GroupState.ASSIGNING
        settled = all(m.state == _STABLE_MEMBER and m.epoch == group.assignment_epoch for m in group.members)
        return GroupState.STABLE if settled else GroupState.RECONCILING

    def _subscribed(self) -> frozenset[str] | None:
        """Return the topics that members subscribe to, by name or by a regular expression that the log resolves."""
        if self._group.kind is GroupType.STREAMS and self._group.members:
            return None
        found: list[list[str] | None] = [member.topics for member in self._group.members]
        found += [self._regexes.get(member.regex) for member in self._group.members if member.regex]
        return _union(found)


def _is_known(slots: list[Slot]) -> bool:
    """Return whether a coordinator has the group after loading although nothing of it counts.

    Every committed offset makes a classic group without a protocol, an aborted or deleted one too (Kafka:
    OffsetMetadataManager.replay); only a tombstone of the group itself removes it.
    """
    removed = max((slot.last_tombstone for slot in slots if slot.type > OFFSET_COMMIT), default=-1)
    return any(slot.last_value > removed for slot in slots if slot.type <= OFFSET_COMMIT)


def _union(topics: Iterable[list[str] | None]) -> frozenset[str] | None:
    found: set[str] = set()
    for some in topics:
        if some is None:
            return None
        found.update(some)
    return frozenset(found)


def _classic_member(fields: dict[str, Any], is_consumer: bool) -> Member:
    member = Member(
        fields["memberId"],
        fields["groupInstanceId"],
        fields["clientId"],
        fields["clientHost"],
        session_timeout=fields["sessionTimeout"],
        rebalance_timeout=fields["rebalanceTimeout"],
    )
    if is_consumer:
        # clients wrote these bytes, and no coordinator minds if it cannot read them
        with suppress(SchemaError):
            subscription = decode_consumer_protocol(CONSUMER_PROTOCOL_SUBSCRIPTION, fields["subscription"])[1]
            member.topics = subscription["topics"]
            member.rack = subscription["rackId"]
        with suppress(SchemaError):
            assigned = decode_consumer_protocol(CONSUMER_PROTOCOL_ASSIGNMENT, fields["assignment"])[1]
            member.assignment = sorted(
                (topic["topic"], sorted(topic["partitions"])) for topic in assigned["assignedPartitions"]
            )
    return member


def _commit(slot: Slot, value: Value, producer_id: int) -> Commit:
    fields = slot.decoded(value)
    return Commit(
        slot.fields["topic"],
        slot.fields["partition"],
        fields["offset"],
        fields["leaderEpoch"],
        fields["metadata"],
        fields["commitTimestamp"],
        fields["expireTimestamp"],
        value.offset,
        producer_id,
    )
