"""A KRaft quorum by the copies of its log: who has what, who could win with whom, what each choice would lose."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from kdump.cluster.metadata_copies import MetadataCopy, newest
from kdump.formats.config_resources import RESOURCE_TYPES
from kdump.formats.names import parse_file_name
from kdump.topics.cluster_image import ClusterImage


@dataclass(frozen=True, slots=True)
class Election:
    """A voter's chances among the copies at hand: the voters that would vote for it, itself included.

    A voter votes for nobody whose log is older than its own (Kafka: KafkaRaftClient.handleVoteRequest).
    """

    voter: int
    votes: tuple[int, ...]
    needed: int

    @property
    def can_win(self) -> bool:
        """Whether these are a majority."""
        return len(self.votes) >= self.needed


@dataclass(slots=True)
class Quorum:
    """All copies, the newest first. `voters` are those that the newest copy names, `kraft_version` is its own.

    `committed` is an offset (exclusive) up to which the log was committed for certain; it may have been more.
    """

    copies: list[MetadataCopy] = field(default_factory=list)
    best: MetadataCopy | None = None
    voters: tuple[int, ...] = ()
    kraft_version: int = 0
    elections: list[Election] = field(default_factory=list)
    committed: int = 0

    @property
    def highest_epoch(self) -> int:
        """The highest epoch that any copy or quorum-state names."""
        return max((copy.highest_epoch for copy in self.copies), default=-1)


def read_quorum(copies: Iterable[MetadataCopy]) -> Quorum:
    """Compare copies of one quorum's log."""
    quorum = Quorum(sorted(copies, key=lambda copy: (copy.rank, copy.path), reverse=True))
    quorum.best = newest(quorum.copies)
    if quorum.best is None or quorum.best.state is None:
        return quorum
    state = quorum.best.state
    quorum.kraft_version = state.kraft_version
    quorum.voters = _voters(quorum.best)
    of_voters: dict[int, MetadataCopy] = {}
    for copy in quorum.copies:
        if copy.disk.node_id is not None and copy.disk.node_id in quorum.voters:
            of_voters.setdefault(copy.disk.node_id, copy)
    needed = len(quorum.voters) // 2 + 1
    for voter in quorum.voters:
        if voter in of_voters:
            votes = sorted(each for each, copy in of_voters.items() if copy.rank <= of_voters[voter].rank)
            quorum.elections.append(Election(voter, tuple(votes), needed))
    quorum.committed = _committed(quorum, list(of_voters.values()), needed)
    return quorum


def _voters(copy: MetadataCopy) -> tuple[int, ...]:
    """Return the voters that a copy names; those of quorum-state in a static quorum whose log names none."""
    assert copy.state is not None
    named = tuple(voter["voterId"] for voter in copy.state.voters)
    return named or (copy.quorum.current_voters if copy.quorum else None) or ()


def _committed(quorum: Quorum, of_voters: Sequence[MetadataCopy], needed: int) -> int:
    """Return what a majority of voters has at hand, and what snapshots are made of: only committed records are."""
    known = [0]
    for copy in quorum.copies:
        if copy.state and copy.state.snapshot:
            known.append(parse_file_name(copy.state.snapshot.rpartition("/")[2]).offset or 0)
    ends = sorted((copy.rank for copy in of_voters), reverse=True)
    if needed <= len(ends) and ends[0][0] == ends[needed - 1][0]:
        known.append(ends[needed - 1][1])
    return max(known)


# --- what a choice would lose ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Difference:
    """Something that one state has, or has otherwise than another: what it is, its name, what differs."""

    kind: str
    name: str
    text: str


def lost(chosen: MetadataCopy, best: MetadataCopy) -> Iterator[Difference]:
    """Yield what the state of the newest copy has and another copy's has not, or has otherwise; by name."""
    if chosen.state is None or best.state is None:
        return
    old, new = chosen.state.image, best.state.image
    yield from _topics(old, new)
    for (kind, name), values in sorted(new.configs.items()):
        yield from _values(f"{RESOURCE_TYPES.get(kind, kind)} config", name, old.configs.get((kind, name), {}), values)
    for (kind, name), values in sorted(old.configs.items()):
        if (kind, name) not in new.configs:
            yield from _values(f"{RESOURCE_TYPES.get(kind, kind)} config", name, values, {})
    yield from _values("feature", "", old.features, new.features)
    for what, before, after in (
        ("ACL", old.acls, new.acls),
        ("SCRAM user", old.scram, new.scram),
        ("quota", old.quotas, new.quotas),
        ("delegation token", old.tokens, new.tokens),
    ):
        yield from _entries(what, before, after)


def _topics(old: ClusterImage, new: ClusterImage) -> Iterator[Difference]:
    for topic_id, topic in new.topics.items():
        before = old.topics.get(topic_id)
        if before is None:
            yield Difference("topic", topic.name, "created: brokers would set its directories aside as stray")
            continue
        added = topic.partitions.keys() - before.partitions.keys()
        if added:
            yield Difference("partition", topic.name, f"{len(added)} added: brokers would set them aside as stray")
        moved = [
            number
            for number, partition in topic.partitions.items()
            if number in before.partitions and partition["replicas"] != before.partitions[number]["replicas"]
        ]
        if moved:
            yield Difference("partition", topic.name, f"{len(moved)} moved to other brokers")
    for topic_id, topic in old.topics.items():
        if topic_id not in new.topics:
            yield Difference("topic", topic.name, "deleted: it would come back, without its records")


def _values(kind: str, name: str, old: dict[str, Any], new: dict[str, Any]) -> Iterator[Difference]:
    for key in sorted({*old, *new}):
        if old.get(key) != new.get(key):
            yield Difference(kind, name, f"{key}: {_shown(new.get(key))} would be {_shown(old.get(key))}")


def _shown(value: object) -> str:
    return "unset" if value is None else str(value)


def _entries(kind: str, old: dict[Any, Any], new: dict[Any, Any]) -> Iterator[Difference]:
    for key, value in new.items():
        if old.get(key) != value:
            yield Difference(kind, _entry_name(kind, key, value), "added or changed")
    for key, value in old.items():
        if key not in new:
            yield Difference(kind, _entry_name(kind, key, value), "removed: it would come back")


def _entry_name(kind: str, key: Any, value: Any) -> str:
    if kind == "ACL":
        return f"{value['principal']} on {value['resourceName']}"
    if kind == "quota":
        return ", ".join(f"{part} {name or 'default'}" for part, name in key)
    return str(key[0] if isinstance(key, tuple) else key)
