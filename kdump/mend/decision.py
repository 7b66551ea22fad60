"""What a person has to decide before a damaged log is repaired: the ways out, those that lose nothing first."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from sys import maxsize
from typing import TYPE_CHECKING, NamedTuple

from kdump.recovery.outcome import Loss

if TYPE_CHECKING:
    from kdump.mend.flipped_bit import FlippedBit
    from kdump.mend.replicas import Replicas
    from kdump.mend.salvaged_files import GivenUp


class Way(Enum):
    """A way out of damage, in the order in which they are offered: of the last two that which loses less is first."""

    REPLICA = "replica"
    COPY = "copy"
    FIX_BIT = "fix-bit"
    SALVAGE = "salvage"
    TRUNCATE = "truncate"


class Offer(NamedTuple):
    """A way out, and how many records it loses; None where that is not known.

    `drops` of them are valid, for which SafetyOptions have to accept the loss. `needs_only_copy`: other replicas are in
    sync, and whoever repairs has to say that their copies are gone.
    """

    way: Way
    loses: int | None
    drops: int = 0
    needs_only_copy: bool = False


class Damaged(NamedTuple):
    """A damaged range of a .log, and the one flipped bit that explains it, if there is one."""

    range: GivenUp
    flipped: FlippedBit | None

    @property
    def records(self) -> int | None:
        """How many damaged records are in it, by the offsets that are free there; None where nothing tells them."""
        if self.range.is_valid:
            return 0
        first, last = self.offsets
        return None if first is None or last is None else max(0, last - first + 1)

    @property
    def offsets(self) -> tuple[int | None, int | None]:
        """The offsets (absolute) that are lost with it; None where nothing tells them."""
        if self.flipped is not None:
            return self.flipped.first_offset, self.flipped.last_offset
        return self.range.first_offset, self.range.last_offset


class Decision(NamedTuple):
    """Why a partition is left alone until somebody decides.

    `damaged` are the ranges in question, `after` counts the valid batches behind the first of them, which a broker's
    recovery drops (None where it would not get through). `dropped` are valid batches that salvage cannot place, and
    `rewritten` says why it changes batches (their leader epochs, or their place) beside giving ranges up. `swap_loss`
    is what a broker loses that completes a swap at its start, which salvage moves away. `replicas` is None where no
    cluster metadata is at hand.
    """

    damaged: tuple[Damaged, ...]
    after: Loss | None
    dropped: Loss
    rewritten: tuple[str, ...]
    replicas: Replicas | None = None
    swap_loss: Loss = Loss()

    def offers(self) -> Iterator[Offer]:
        """Yield the ways out, those that lose nothing first."""
        if not self.swap_loss.batches and (self.replicas is None or self.replicas.others_in_sync):
            yield Offer(Way.REPLICA, 0)
        if self.damaged and (self.replicas is None or len(self.replicas.brokers) > 1):
            yield Offer(Way.COPY, 0)
        if any(each.flipped for each in self.damaged):
            yield Offer(Way.FIX_BIT, 0)
        is_cut = self.after is not None and self.after.has_data
        is_worth_it = not is_cut or self.rewritten or self.dropped.records or (self.after and self.after.records)
        has_others = bool(self.damaged) and self.replicas is not None and bool(self.replicas.others_in_sync)
        loses = None if self.records is None else self.records + self.dropped.records
        salvage = Offer(Way.SALVAGE, loses, self.dropped.records, has_others)
        loses = None if self.records is None or self.after is None else self.records + self.after.records
        truncate = Offer(Way.TRUNCATE, loses, self.after.records if self.after else 0)
        lossy = [salvage] * bool(is_worth_it) + [truncate] * is_cut
        # salvage drops what stands in another place, which recovery may leave where it is
        yield from sorted(lossy, key=lambda offer: maxsize if offer.loses is None else offer.loses)

    @property
    def records(self) -> int | None:
        """How many records are in the damaged ranges; None where nothing tells that of one of them."""
        known = [each.records for each in self.damaged]
        return None if None in known else sum(number or 0 for number in known)
