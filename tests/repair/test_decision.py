"""Which ways out of damage are offered, in which order, and what each of them loses."""

from __future__ import annotations

import pytest

from kdump.mend.decision import Damaged, Decision, Way
from kdump.mend.flipped_bit import FlippedBit
from kdump.mend.replicas import Replicas
from kdump.mend.salvaged_files import GivenUp
from kdump.recovery.outcome import Loss

REPLICA, COPY, FIX_BIT, SALVAGE, TRUNCATE = Way


def lost(first: int | None, last: int | None) -> Damaged:
    """A damaged range with these offsets."""
    return Damaged(GivenUp("0.log", 0, 100, first, last, "CRC"), None)


ONE_BIT = Damaged(
    GivenUp("0.log", 0, 100, 4, 9, "CRC"), FlippedBit(8, 0, 1, (0, 100), 4, 5, 800)
)  # the range has free offsets, which the batch does not take
FITS_NOWHERE = Damaged(GivenUp("0.log", 0, 100, 4, 9, "", is_valid=True), None)


@pytest.mark.parametrize(
    ("damaged", "offsets", "records"),
    [
        (lost(4, 9), (4, 9), 6),
        (lost(4, 4), (4, 4), 1),
        (lost(4, 3), (4, 3), 0),
        (lost(9, 4), (9, 4), 0),
        (lost(0, 0), (0, 0), 1),
        (lost(4, None), (4, None), None),
        (lost(None, 9), (None, 9), None),
        (lost(None, None), (None, None), None),
        (ONE_BIT, (4, 5), 2),
        (FITS_NOWHERE, (4, 9), 0),
    ],
)
def test_what_is_in_a_damaged_range(
    damaged: Damaged, offsets: tuple[int | None, int | None], records: int | None
) -> None:
    assert (damaged.offsets, damaged.records) == (offsets, records)


CUT = Loss(300, 0, 3, 7, 10, 16)
"""Three batches of seven records behind the damage."""
TWO = Loss(80, 0, 1, 2, 30, 31)
"""A batch of two records that has no place."""
UNREADABLE = Loss(300)
ZEROS = Loss(300, 300)


@pytest.mark.parametrize(
    ("decision", "offers"),
    [
        # what is behind the damage goes with a cut, and stays with salvage
        (Decision((lost(4, 5),), CUT, Loss(), ()), [(SALVAGE, 2), (TRUNCATE, 9)]),
        (Decision((lost(4, 5), lost(8, 8)), CUT, TWO, ()), [(SALVAGE, 5), (TRUNCATE, 10)]),
        (Decision((lost(4, 5), lost(8, None)), CUT, TWO, ()), [(SALVAGE, None), (TRUNCATE, None)]),
        # with nothing behind the damage salvage is the same as a cut
        (Decision((lost(4, 5),), UNREADABLE, Loss(), ()), [(TRUNCATE, 2)]),
        (Decision((lost(4, 5),), UNREADABLE, Loss(), ("moves",)), [(SALVAGE, 2), (TRUNCATE, 2)]),
        (Decision((lost(4, 5),), UNREADABLE, Loss(80, 0, 1), ()), [(TRUNCATE, 2)]),
        (Decision((lost(4, 5),), UNREADABLE, TWO, ()), [(TRUNCATE, 2), (SALVAGE, 4)]),
        # where a broker cuts nothing, or does not get through, there is no cut to choose
        (Decision((lost(4, 5),), ZEROS, Loss(), ()), [(SALVAGE, 2)]),
        (Decision((lost(4, 5),), Loss(), Loss(), ()), [(SALVAGE, 2)]),
        (Decision((lost(4, 5),), None, Loss(), ()), [(SALVAGE, 2)]),
        (Decision((), CUT, Loss(), ("moves",)), [(SALVAGE, 0), (TRUNCATE, 7)]),
        (Decision((ONE_BIT,), None, Loss(), ()), [(FIX_BIT, 0), (SALVAGE, 2)]),
        (Decision((lost(4, 5), ONE_BIT), CUT, Loss(), ()), [(FIX_BIT, 0), (SALVAGE, 4), (TRUNCATE, 11)]),
    ],
)
def test_the_ways_out(decision: Decision, offers: list[tuple[Way, int | None]]) -> None:
    """Where nobody knows of replicas, another broker may have one, and a copy may be elsewhere."""
    elsewhere = [(REPLICA, 0), (COPY, 0)] if decision.damaged else [(REPLICA, 0)]
    assert [(offer.way, offer.loses) for offer in decision.offers()] == [*elsewhere, *offers]


def test_what_a_way_needs() -> None:
    """Whoever takes it has to accept the loss of what is valid, and to say that other replicas are gone."""
    alone = Decision((lost(4, 5),), CUT, TWO, (), Replicas((1, 2), (1,), 1))
    assert [(offer.way, offer.drops, offer.needs_only_copy) for offer in alone.offers()][-2:] == [
        (SALVAGE, 2, False), (TRUNCATE, 7, False)
    ]  # fmt: skip
    others = alone._replace(replicas=Replicas((1, 2), (1, 2), 1))
    assert [(offer.way, offer.drops, offer.needs_only_copy) for offer in others.offers()][-2:] == [
        (SALVAGE, 2, True), (TRUNCATE, 7, False)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("brokers", "in_sync", "broker", "ways"),
    [
        ((1, 2), (1, 2), 1, [REPLICA, COPY, SALVAGE]),
        ((1, 2), (1,), 1, [COPY, SALVAGE]),
        ((1, 2), (), 1, [COPY, SALVAGE]),
        ((1,), (1,), 1, [SALVAGE]),
        ((1,), (1,), None, [REPLICA, SALVAGE]),
    ],
)
def test_where_the_replicas_are_known(
    brokers: tuple[int, ...], in_sync: tuple[int, ...], broker: int | None, ways: list[Way]
) -> None:
    decision = Decision((lost(4, 5),), None, Loss(), (), Replicas(brokers, in_sync, broker))
    assert [offer.way for offer in decision.offers()] == ways


def test_what_is_known_of_the_losses() -> None:
    decision = Decision((lost(4, 5), lost(8, 8)), CUT, TWO, ())
    assert decision.records == 3
    assert decision._replace(damaged=(lost(4, 5), lost(8, None))).records is None
    assert decision._replace(after=None).records == 3
