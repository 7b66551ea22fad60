"""What retention frees in a log directory, policy by policy."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kdump.retention.partition import DeletedAmount, PartitionRetention
from kdump.retention.policy import Policy


def _nothing() -> dict[Policy, DeletedAmount]:
    return {policy: DeletedAmount() for policy in Policy}


@dataclass(slots=True)
class Totals:
    """Sums over partitions; bytes are those of all files of the segments.

    `shares` is what each policy deletes when they are applied one after the other, `alone` what it would delete without
    the others. `preallocated` bytes of `space` are of index files that are cut at the next start. `blocked` partitions
    have segments that others hold back, `held_space` bytes of them.
    """

    partitions: int = 0
    working: int = 0
    blocked: int = 0
    segments: int = 0
    space: int = 0
    preallocated: int = 0
    held_space: int = 0
    shares: dict[Policy, DeletedAmount] = field(default_factory=_nothing)
    alone: dict[Policy, DeletedAmount] = field(default_factory=_nothing)

    @classmethod
    def of(cls, partitions: Iterable[PartitionRetention]) -> Totals:
        """Return the sums over these partitions."""
        totals = cls()
        for found in partitions:
            totals._add(found)
        return totals

    @property
    def freed(self) -> DeletedAmount:
        """What all policies delete together."""
        shares = self.shares.values()
        return DeletedAmount(sum(share.segments for share in shares), sum(share.space for share in shares))

    def _add(self, found: PartitionRetention) -> None:
        self.partitions += 1
        self.working += found.has_work
        self.segments += len(found.segments)
        self.space += sum(state.space for state in found.segments)
        self.preallocated += sum(state.preallocated for state in found.segments)
        if found.block and found.block.held:
            self.blocked += 1
            self.held_space += found.block.space
        for sums, shares in ((self.shares, found.shares()), (self.alone, found.alone)):
            for policy, share in shares.items():
                before = sums[policy]
                sums[policy] = DeletedAmount(before.segments + share.segments, before.space + share.space)
