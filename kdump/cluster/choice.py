"""Which copy of a partition leads, and what the others are to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kdump.cluster.copies import Copy
from kdump.cluster.nodes import Node
from kdump.errors import KdumpError
from kdump.formats import names
from kdump.topics.cluster_image import Fields


@dataclass(slots=True)
class Chosen:
    """A partition of the new cluster.

    `best` is the copy that leads, None where the partition starts empty. `replicas` gives the copy of each node,
    `extra` are further copies of the same nodes, which are set aside. `old` is its PartitionRecord, None without one.
    """

    topic: str
    topic_id: bytes
    partition: int
    old: Fields | None = None
    best: Copy | None = None
    replicas: dict[int, Copy] = field(default_factory=dict)
    extra: list[Copy] = field(default_factory=list)
    empty_on: Node | None = None

    @property
    def name(self) -> str:
        """The name of the partition directory."""
        return names.partition_dir_name(self.topic, self.partition)

    @property
    def copies(self) -> list[Copy]:
        """All copies at hand, the best first."""
        return sorted([*self.replicas.values(), *self.extra], key=lambda copy: copy.rank, reverse=True)

    @property
    def lost_records(self) -> int:
        """How many valid records the other side of a damage has that are in no copy's valid part."""
        end = self.best.valid_end if self.best else 0
        return max((copy.records_after for copy in self.copies if copy.end > end), default=0)

    @property
    def highest_epoch(self) -> int:
        """The highest leader epoch that anything names."""
        old = self.old["leaderEpoch"] if self.old else -1
        return max([old, *(copy.highest_epoch for copy in self.copies)])


def choose(chosen: Chosen, copies: Sequence[Copy], nodes: Sequence[Node]) -> None:
    """Give a partition its copies: the best of each node, and of these the best of all.

    The last leader wins where copies are alike, so that nothing moves that need not.
    """
    live = [copy for copy in copies if copy.name.state == names.LIVE]
    assigned = set(chosen.old["replicas"]) if chosen.old else set()
    usable = [copy for copy in live if copy.disk.node_id is None or copy.disk.node_id in assigned] or live
    usable = usable or [copy for copy in copies if copy.name.state == names.FUTURE]
    leader = chosen.old["leader"] if chosen.old else -1
    ordered = sorted(usable, key=lambda copy: (*copy.rank, copy.disk.node_id == leader), reverse=True)
    for node in nodes:
        own = [copy for copy in ordered if copy.disk in node.disks]
        if own:
            chosen.replicas[node.id] = own[0]
            chosen.extra += own[1:]
    chosen.best = ordered[0] if ordered else None
    chosen.extra += [copy for copy in live if copy not in usable]


def leader_of(chosen: Chosen) -> int:
    """Return the node whose copy leads."""
    if chosen.best is None:
        assert chosen.empty_on is not None
        return chosen.empty_on.id
    leader = next((node for node, copy in chosen.replicas.items() if copy is chosen.best), None)
    if leader is None:
        raise KdumpError(f"{chosen.name}: the copy that should lead is on none of the nodes that keep it")
    return leader


def replica_order(chosen: Chosen, new_ids: dict[int, int]) -> list[int]:
    """Return the nodes with a copy: in the old order, then the others. `new_ids` leads from old to new ids."""
    if chosen.best is None:
        return [leader_of(chosen)]
    old = [new_ids.get(each, -1) for each in chosen.old["replicas"]] if chosen.old else []
    return list(dict.fromkeys(node for node in [*old, *chosen.replicas] if node in chosen.replicas))
