"""What the copies of a partition are, and how they compare."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from kdump.recovery.outcome import Failure
from kdump.recovery.outcome import Loss as LoadLoss
from kdump.replication.choice import Choice
from kdump.replication.compacted import KeyComparison
from kdump.replication.compare import Compared, Comparison, Contents, Relation
from kdump.replication.front import LostFront
from kdump.replication.joined import PartitionKey
from kdump.replication.truncation import LoadedLog
from kdump.topics.partition_state import PartitionState


@dataclass(frozen=True, slots=True)
class Copy:
    """One copy of a partition, by its directory.

    `clean` and `load_loss` say how its broker stopped and what loading it cuts; `failure` why it cannot be loaded.
    `high_watermark` is the checkpoint's, None without an entry. `front` is what was lost before its first segment, None
    where nothing shows a loss. Offsets are absolute.
    """

    path: str
    broker: int | None
    clean: bool
    contents: Contents
    high_watermark: int | None
    log: LoadedLog | None
    load_loss: LoadLoss
    failure: Failure | None = None
    front: LostFront | None = None


@dataclass(frozen=True, slots=True)
class MetadataSource:
    """Which copy of the cluster's metadata was used: the newest of all. `timestamp` (ms) is that of its last record."""

    path: str
    node_id: int | None
    end_offset: int
    timestamp: int


class Verdict(StrEnum):
    """How the copies of a partition compare."""

    SAME = "same"
    BEHIND = "behind"
    DIFFERS = "differs"


@dataclass(frozen=True, slots=True)
class PartitionReplicas:
    """A partition and its copies; `pairs` are by the copies' numbers.

    `state` is what the cluster's metadata says of it, None where it is not on these disks. `absent` are the brokers
    among those given, and replicas by the metadata, that have no directory of it; `not_given` replicas whose log
    directories are not among the places: a choice counts them as empty. `aside` are the paths of directories that no
    broker serves, `namesakes` the ids of other topics of that name. `compacts`: the topic is compacted, so batches
    below `compared_from` of a pair may differ by right: `keys` compares the latest records of such copies, by their
    numbers.
    """

    key: PartitionKey
    copies: tuple[Copy, ...]
    pairs: tuple[Comparison, ...]
    choices: tuple[Choice, ...]
    state: PartitionState | None
    source: MetadataSource | None
    absent: tuple[int, ...] = ()
    not_given: tuple[int, ...] = ()
    aside: tuple[str, ...] = ()
    namesakes: tuple[bytes, ...] = ()
    compacts: bool = False
    keys: Mapping[tuple[int, int], KeyComparison] = field(default_factory=dict)

    @property
    def verdict(self) -> Verdict:
        """Whether copies differ in more than being behind: other records, damage, a copy that is not there at all."""
        is_damaged = any(copy.contents.damaged or copy.failure or self.missing_front(copy) for copy in self.copies)
        is_gone = bool(self.state and set(self.absent) & {*self.state.isr, *self.state.elr})
        relations = {pair.relation for pair in self.pairs if not self._is_equivalent(pair)}
        if any(each.is_equivalent is False for each in self.keys.values()):
            return Verdict.DIFFERS
        if is_damaged or is_gone or relations & {Relation.EPOCH, Relation.BYTES}:
            return Verdict.DIFFERS
        return Verdict.BEHIND if relations - {Relation.IDENTICAL} or self.absent else Verdict.SAME

    def missing_front(self, copy: Copy, other: Copy | None = None) -> tuple[int, int] | None:
        """Return the offsets (inclusive) that a copy has lost before its first segment, and another one (any) has."""
        others = self.copies if other is None else (other,)
        if copy.front is None:
            return None
        start = max(copy.front.start, min(each.contents.first_offset for each in others))
        return (start, copy.contents.first_offset - 1) if start < copy.contents.first_offset else None

    def _is_equivalent(self, pair: Comparison) -> bool:
        """Return whether two copies that differ in batches of the same leader epoch have the same latest records."""
        keys = self.keys.get((pair.first, pair.second))
        return pair.relation is Relation.BYTES and keys is not None and keys.is_equivalent is True

    @property
    def known_choices(self) -> tuple[Choice, ...]:
        """The choices without those of brokers whose disks were not given."""
        return tuple(choice for choice in self.choices if choice.leader.broker not in self.not_given)

    @property
    def compared(self) -> Compared:
        """The copies compared, by their numbers."""
        return Compared(tuple(copy.contents for copy in self.copies), self.pairs)
