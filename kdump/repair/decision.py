"""What a person has to decide before a damaged log is repaired: the ways out, those that lose nothing first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from kdump.recovery.outcome import Loss
from kdump.repair.flipped_bit import FlippedBit
from kdump.repair.salvage_partition import GivenUp


class Damaged(NamedTuple):
    """A damaged range of a .log, and the one flipped bit that explains it, if there is one."""

    range: GivenUp
    flipped: FlippedBit | None

    @property
    def records(self) -> int | None:
        """How many records are in it, by the offsets that are free there; None where nothing tells them."""
        first, last = self.range.first_offset, self.range.last_offset
        if first is None or last is None:
            return None
        return max(0, last - first + 1)


@dataclass(frozen=True, slots=True)
class Decision:
    """Why a partition is left alone until somebody decides.

    `damaged` are the ranges in question, `after` counts the valid batches behind the first of them, which a broker's
    recovery drops (None where it would not get through). `dropped` are valid batches that salvage cannot place, and
    `rewrites` says that it changes batches (their leader epochs, or their place) beside giving ranges up.
    """

    damaged: tuple[Damaged, ...]
    after: Loss | None
    dropped: Loss
    rewrites: bool

    @property
    def records(self) -> int | None:
        """How many records are in the damaged ranges; None where nothing tells that of one of them."""
        known = [each.records for each in self.damaged]
        return None if None in known else sum(number or 0 for number in known)

    @property
    def salvage_loses(self) -> int | None:
        """How many records are lost with salvage; None where that is not known."""
        return None if self.records is None else self.records + self.dropped.records

    @property
    def truncate_loses(self) -> int | None:
        """How many records are lost if the log is cut at the first damage; None where that is not known."""
        return None if self.records is None or self.after is None else self.records + self.after.records
