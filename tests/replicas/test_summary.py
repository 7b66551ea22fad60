"""The best choice of leader, and how copies differ: from comparisons and losses as they stand, without any log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kdump.formats.checkpoints import EpochEntry
from kdump.replication.choice import Choice, Replica
from kdump.replication.compare import Compared, Comparison, Contents, OffsetRange, Relation
from kdump.replication.front import LostFront
from kdump.replication.loss import Loss, LostKeys, LostRange
from kdump.replication.summary import Difference, Outlook, Span, agreed, best_choice, differences, odd_copies, outlook
from kdump.replication.truncation import LoadedLog
from kdump.topics.partition_state import PartitionState, Standing

STATE = PartitionState(replicas=(3, 1, 2), isr=(1, 2, 3), leader=2)
END = 100


def lost(copy: int, records: int = 10, **fields: Any) -> LostRange:
    return LostRange(copy, 50, 59, 1, records, 100, spans=((50, 59),), **fields)


def choice(
    broker: int | None, *ranges: LostRange, number: int | None = -1, standing: Standing | None = None,
    epochs: Sequence[tuple[int, int]] = ((0, 0),), is_compacted: bool = False, damaged: bool = False,
    front: bool = False, **fields: Any,
) -> Choice:  # fmt: skip
    """Broker N has copy N unless `number` says otherwise."""
    log = LoadedLog(0, END, 0, tuple(EpochEntry(*each) for each in epochs))
    broken = (OffsetRange(5, 9, 1, 5, 100, is_damaged=True),) if damaged else ()
    leader = Replica(
        broker, broker if number == -1 else number, log, None, broken, LostFront(0, "so") if front else None
    )
    return Choice(leader, standing, (), Loss(tuple(ranges), is_compacted), **fields)


def best(*choices: Choice, state: PartitionState | None = STATE, alone: Sequence[int] = ()) -> int | None:
    """The broker of the best choice, which must not depend on their order."""
    found = {
        None if each is None else each.leader.broker
        for order in (choices, choices[::-1])
        for each in [best_choice(order, state, frozenset(alone))]
    }
    (broker,) = found
    return broker


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        # what may have been acknowledged by all, above all else
        (choice(1, lost(2, 90), blocked_at=5), choice(2, lost(1, 2, committed=1))),
        (choice(1, lost(2, 90), blocked_at=5), choice(2, lost(1, 2, possible=1))),
        (choice(1, lost(2, 9, committed=1, possible=1)), choice(2, lost(1, 9, committed=3))),
        (choice(1, lost(2, 9, committed=2)), choice(2, lost(1, 9, committed=2, possible=1))),
        # then a partition that is not blocked
        (choice(1, lost(2, 90)), choice(2, blocked_at=0)),
        # one that loses nothing
        (choice(1, standing=Standing.UNCLEAN), choice(2, lost(1, 1))),
        # by its standing
        (choice(1, standing=Standing.IN_SYNC), choice(2, standing=Standing.ELIGIBLE, epochs=[(9, 0)])),
        (choice(1, standing=Standing.ELIGIBLE), choice(2, standing=Standing.LAST_KNOWN, epochs=[(9, 0)])),
        (choice(1, standing=Standing.LAST_KNOWN), choice(2, standing=Standing.UNCLEAN, epochs=[(9, 0)])),
        # the newest history
        (choice(1, lost(2, 90), epochs=[(0, 0), (4, 99)]), choice(2, lost(1, 1), epochs=[(3, 0)])),
        (choice(1, epochs=[(0, 0)]), choice(2, epochs=[])),
        # fewer records
        (choice(1, lost(2, 1)), choice(2, lost(1, 2))),
        # the present leader
        (choice(2), choice(3)),
        # by assignment
        (choice(3), choice(1)),
        (choice(1), choice(9)),
        (choice(3), choice(9)),
    ],
)
def test_the_better_choice(better: Choice, worse: Choice) -> None:
    assert best(better, worse) == better.leader.broker


def test_an_epoch_at_the_end_of_the_log_is_no_history() -> None:
    """In it nothing was written."""
    assert best(choice(3, epochs=[(0, 0)]), choice(1, epochs=[(0, 0), (9, END)])) == 3
    assert best(choice(3, epochs=[(0, 0)]), choice(1, epochs=[(0, 0), (9, END - 1)])) == 1


def test_a_broker_that_is_no_replica_comes_after_all_that_are() -> None:
    """However many of the replicas are there."""
    state = STATE._replace(replicas=(4, 5, 6, 1), leader=4)
    assert best(choice(9), choice(1), state=state) == 1


def test_a_broker_without_a_copy_is_no_choice() -> None:
    assert best(choice(2, number=None), choice(1, lost(3, committed=9))) == 1
    assert best(choice(2, number=None)) is None
    assert best() is None


def test_without_metadata_the_first_one_counts() -> None:
    choices = [choice(1), choice(2)]
    assert best_choice(choices, None) is choices[0]
    assert best_choice(choices[::-1], None) is choices[1]
    unknown = [choice(None, number=0), choice(3)]
    assert best_choice(unknown, STATE) is unknown[1]


def test_copy_0_is_a_copy() -> None:
    assert best(choice(2, number=0), choice(1, lost(0))) == 2


def test_what_a_copy_keeps_that_is_alone_with_it_does_not_count() -> None:
    """Copy 1 alone has other bytes: it keeps them if another one leads, but what it would cut counts."""
    kept = [lost(1, 5, committed=5, is_cut=False)]
    odd = choice(1, lost(2, 4, committed=4, is_cut=False))
    assert best(odd, choice(2, *kept)) == 1
    assert best(odd, choice(2, *kept), alone=[1]) == 2
    assert best(odd, choice(2, *kept), alone=[3]) == 1
    cut = [lost(1, 5, committed=5)]
    assert best(odd, choice(2, *cut), alone=[1]) == 1
    # what the one that is alone loses itself counts whoever has it
    both = choice(1, lost(2, 4, committed=4, is_cut=False), lost(1, 9, committed=9, is_cut=False))
    assert best(both, choice(2, lost(3, 10, committed=10)), alone=[1]) == 2


def test_keys_count_in_a_compacted_topic() -> None:
    few = choice(1, lost(2, 90, committed=90, keys=LostKeys([50], 0, 1)), is_compacted=True)
    many = choice(2, lost(1, 1, keys=LostKeys([50, 51], 1, 1)), is_compacted=True)
    assert best(few, many) == 1


def stretch(first: int, last: int, *, damaged: bool = False, relabelled: bool = False) -> OffsetRange:
    return OffsetRange(first, last, 1, last - first + 1, 100, damaged, relabelled)


def pair(
    first: int, second: int, relation: Relation = Relation.BYTES, only_first: Sequence[OffsetRange] = (),
    only_second: Sequence[OffsetRange] = (), start: int = 0,
) -> Comparison:  # fmt: skip
    return Comparison(first, second, relation, 0, start, tuple(only_first), tuple(only_second))


def compared(*pairs: Comparison, end: int = END, copies: int = 3) -> Compared:
    return Compared((Contents(0, end, 10, ()),) * copies, pairs)


def same(first: int, second: int) -> Comparison:
    return pair(first, second, Relation.IDENTICAL)


def other(first: int, second: int) -> Comparison:
    return pair(first, second, Relation.BYTES, [stretch(10, 14)], [stretch(14, 19)])


def test_a_copy_is_odd_where_two_others_agree() -> None:
    assert odd_copies(compared(other(0, 1), other(0, 2), same(1, 2))) == {0}
    assert odd_copies(compared(other(0, 1), same(0, 2), other(1, 2))) == {1}
    assert odd_copies(compared(same(0, 1), other(0, 2), other(1, 2))) == {2}
    assert odd_copies(compared(same(0, 1), same(0, 2), same(1, 2))) == frozenset()


def test_where_all_or_only_two_differ_none_is_odd() -> None:
    assert odd_copies(compared(other(0, 1), other(0, 2), other(1, 2))) == frozenset()
    assert odd_copies(compared(other(0, 1), same(0, 2), same(1, 2))) == frozenset()
    assert odd_copies(compared(other(0, 1), copies=2)) == frozenset()


def test_of_four_copies_two_may_be_odd() -> None:
    pairs = [other(0, 1), other(0, 2), other(0, 3), other(1, 2), other(1, 3), same(2, 3)]
    assert odd_copies(compared(*pairs, copies=4)) == {0, 1}


@pytest.mark.parametrize(
    ("relation", "only_first", "only_second", "differs"),
    [
        (Relation.BYTES, [stretch(10, 14)], [stretch(10, 14)], True),
        (Relation.EPOCH, [stretch(10, 14)], [stretch(10, 14)], False),
        (Relation.AHEAD, [stretch(10, 14)], [], False),
        (Relation.BYTES, [stretch(10, 14, damaged=True)], [stretch(10, 14)], False),
        (Relation.BYTES, [stretch(10, 14)], [stretch(10, 14, damaged=True)], False),
        (Relation.BYTES, [stretch(10, 14)], [stretch(15, 19)], False),
        (Relation.BYTES, [stretch(15, 19)], [stretch(10, 14)], False),
        (Relation.BYTES, [stretch(10, 14)], [stretch(14, 19)], True),
        (Relation.BYTES, [stretch(14, 19)], [stretch(10, 14)], True),
        (Relation.BYTES, [stretch(10, 14), stretch(30, 34)], [stretch(20, 24), stretch(33, 36)], True),
    ],
)
def test_only_valid_bytes_of_one_offset_make_a_copy_odd(
    relation: Relation, only_first: list[OffsetRange], only_second: list[OffsetRange], differs: bool
) -> None:
    pairs = [pair(number, 2, relation, only_first, only_second) for number in (0, 1)]
    assert odd_copies(compared(same(0, 1), *pairs)) == ({2} if differs else frozenset())


D = Difference


@pytest.mark.parametrize(
    ("relation", "only_first", "only_second", "expected"),
    [
        (Relation.IDENTICAL, [], [], []),
        # the other copy ends at 100
        (Relation.AHEAD, [stretch(100, 109)], [], [Span(D.NOT_YET, 100, 109)]),
        (Relation.BYTES, [stretch(99, 99)], [], [Span(D.MISSING, 99, 99)]),
        (Relation.BYTES, [stretch(10, 14), stretch(100, 104)], [],
         [Span(D.MISSING, 10, 14), Span(D.NOT_YET, 100, 104)]),
        (Relation.BEHIND, [], [stretch(90, 99)], [Span(D.ONLY_HERE, 90, 99)]),
        (Relation.BYTES, [stretch(10, 14)], [stretch(10, 14, damaged=True)], [Span(D.DAMAGED, 10, 14)]),
        (Relation.BYTES, [], [stretch(10, 14, damaged=True)], [Span(D.DAMAGED, 10, 14)]),
        (Relation.BYTES, [stretch(10, 14, damaged=True)], [stretch(10, 14, damaged=True)], [Span(D.DAMAGED, 10, 14)]),
        (Relation.BYTES, [stretch(10, 14)], [stretch(10, 14)], [Span(D.OTHER_BYTES, 10, 14)]),
        (Relation.EPOCH, [stretch(10, 14)], [stretch(10, 14)], [Span(D.OTHER_EPOCH, 10, 14)]),
        # the reference is damaged there
        (Relation.BYTES, [stretch(10, 14, damaged=True)], [stretch(10, 14)], []),
        (Relation.EPOCH, [stretch(10, 14, damaged=True)], [stretch(10, 14), stretch(20, 24)],
         [Span(D.ONLY_HERE, 20, 24)]),
        (Relation.BYTES, [stretch(10, 12, damaged=True), stretch(13, 14)], [stretch(10, 14)],
         [Span(D.OTHER_BYTES, 10, 14)]),
        (Relation.BYTES, [stretch(10, 14, damaged=True)], [stretch(10, 14), stretch(30, 34, damaged=True)],
         [Span(D.DAMAGED, 30, 34)]),
        # by offset, then by kind; what follows of one kind is one
        (Relation.BYTES, [stretch(10, 14), stretch(15, 19), stretch(30, 34)], [],
         [Span(D.MISSING, 10, 19), Span(D.MISSING, 30, 34)]),
        (Relation.BYTES, [stretch(10, 14), stretch(16, 19)], [], [Span(D.MISSING, 10, 14), Span(D.MISSING, 16, 19)]),
        (Relation.BYTES, [stretch(10, 30), stretch(15, 19)], [], [Span(D.MISSING, 10, 30)]),
        (Relation.BYTES, [stretch(15, 19), stretch(40, 44)], [stretch(10, 14), stretch(40, 44, damaged=True)],
         [Span(D.ONLY_HERE, 10, 14), Span(D.MISSING, 15, 19), Span(D.DAMAGED, 40, 44)]),
    ],
)  # fmt: skip
def test_how_a_copy_differs_from_the_reference(
    relation: Relation, only_first: list[OffsetRange], only_second: list[OffsetRange], expected: list[Span]
) -> None:
    found = differences(pair(0, 1, relation, only_first, only_second), Contents(0, END, 10, ()))
    assert found == tuple(expected)


@pytest.mark.parametrize(
    ("start", "ends", "taken", "expected"),
    [
        (0, (10, 10), [], [(0, 9)]),
        (3, (10, 12), [], [(3, 9)]),
        (0, (10, 10), [(4, 5)], [(0, 3), (6, 9)]),
        (0, (10, 10), [(0, 3)], [(4, 9)]),
        (2, (10, 10), [(0, 3)], [(4, 9)]),
        (0, (10, 10), [(1, 3)], [(0, 0), (4, 9)]),
        (0, (10, 10), [(8, 9)], [(0, 7)]),
        (0, (10, 10), [(8, 8)], [(0, 7), (9, 9)]),
        (0, (10, 14), [(7, 12)], [(0, 6)]),
        (0, (10, 20), [(12, 14)], [(0, 9)]),
        (0, (10, 20), [(10, 14)], [(0, 9)]),
        (0, (10, 10), [(2, 7), (4, 5)], [(0, 1), (8, 9)]),
        (0, (10, 10), [(2, 3), (4, 5)], [(0, 1), (6, 9)]),
        (0, (10, 10), [(6, 7), (2, 3)], [(0, 1), (4, 5), (8, 9)]),
        (10, (10, 10), [], []),
        (12, (10, 10), [], []),
        (0, (1, 1), [], [(0, 0)]),
    ],
)
def test_where_all_copies_are_the_same(
    start: int, ends: tuple[int, int], taken: list[tuple[int, int]], expected: list[tuple[int, int]]
) -> None:
    contents = [Contents(0, end, 10, ()) for end in ends]
    ranges = [stretch(*each) for each in taken]
    for sides in ((ranges, []), ([], ranges), (ranges[:1], ranges[1:])):
        assert agreed([pair(0, 1, Relation.BYTES, *sides, start=start)], contents) == tuple(expected)


def test_what_any_two_copies_do_not_share_is_not_agreed_on() -> None:
    pairs = [pair(0, 1, only_first=[stretch(4, 5)], start=1), pair(0, 2, only_second=[stretch(7, 7)], start=2)]
    contents = [Contents(0, end, 10, ()) for end in (12, 10, 11)]
    assert agreed(pairs, contents) == ((2, 3), (6, 6), (8, 9))
    assert agreed([], contents[:1]) == ()


def outlook_of(*choices: Choice, pairs: Sequence[Comparison], state: PartitionState | None = STATE) -> Outlook:
    return outlook(choices, compared(*pairs, copies=4), state)


def brokers(choices: Sequence[Choice]) -> list[int | None]:
    return [each.leader.broker for each in choices]


TAIL = [stretch(50, 59)]


def test_a_choice_is_risky_where_it_loses_something_else_and_may_come_about() -> None:
    first, second = choice(2), choice(1, lost(2))
    pairs = [pair(1, 2, Relation.BEHIND, only_second=TAIL)]
    found = outlook_of(first, second, pairs=pairs)
    assert (found.best, brokers(found.risky), found.to_heal, found.is_healed) == (first, [1], (1,), True)
    for state in (STATE._replace(isr=(2,), is_unclean_allowed=True), None):
        assert brokers(outlook_of(first, second, pairs=pairs, state=state).risky) == [1]
    found = outlook_of(first, second, pairs=pairs, state=STATE._replace(isr=(2,)))
    assert (brokers(found.risky), found.to_heal, found.is_healed) == ([], (), True)


def test_a_choice_that_does_the_same_harm_is_not_risky() -> None:
    harms: tuple[dict[str, Any], ...] = ({}, {"blocked_at": 7})
    for harm in harms:
        choices = [choice(1, lost(3), **harm), choice(2, lost(3), **harm)]
        assert outlook_of(*choices, pairs=[same(1, 2)]).risky == ()
    found = outlook_of(choice(2), choice(1, blocked_at=7), pairs=[same(1, 2)])
    assert brokers(found.risky) == [1]


def test_an_unknown_broker_may_lead() -> None:
    choices = [choice(2), choice(None, lost(2), number=0)]
    found = outlook_of(*choices, pairs=[pair(0, 2, Relation.BEHIND, only_second=TAIL)])
    assert (brokers(found.risky), found.to_heal) == ([None], (0,))


def test_in_a_compacted_topic_lost_keys_are_the_harm() -> None:
    def of(broker: int, keys: LostKeys, **fields: Any) -> Choice:
        return choice(broker, lost(3, keys=keys), is_compacted=True, **fields)

    none, one = LostKeys([], 0, 0), LostKeys([50], 0, 0)
    assert outlook_of(choice(2, is_compacted=True), of(1, none), pairs=[same(1, 2)]).risky == ()
    assert brokers(outlook_of(choice(2, is_compacted=True), of(1, one), pairs=[same(1, 2)]).risky) == [1]
    assert outlook_of(of(2, one), of(1, one), pairs=[same(1, 2)]).risky == ()
    assert brokers(outlook_of(of(2, one), of(1, LostKeys([51], 0, 0)), pairs=[same(1, 2)]).risky) == [1]
    assert brokers(outlook_of(of(2, one), of(1, one, blocked_at=3), pairs=[same(1, 2)]).risky) == [1]


@pytest.mark.parametrize(
    ("fields", "relation", "only_best", "only_other", "is_to_heal"),
    [
        # behind: only one that may lead
        ({}, Relation.AHEAD, TAIL, [], True),
        ({}, Relation.IDENTICAL, [], [], False),
        ({}, Relation.EPOCH, TAIL, TAIL, False),
        ({}, Relation.BEHIND, [], TAIL, False),
        # broken: the same history but for its damage
        ({"damaged": True}, Relation.BYTES, TAIL, [stretch(50, 59, damaged=True)], True),
        ({"damaged": True}, Relation.IDENTICAL, [], [], True),
        ({"damaged": True}, Relation.BYTES, TAIL, [stretch(50, 59, damaged=True), stretch(60, 64)], False),
        ({"front": True}, Relation.IDENTICAL, [], [], True),
        ({"front": True}, Relation.BEHIND, [], TAIL, False),
    ],
)
def test_a_copy_is_healed_from_the_best_one_of_its_history(
    fields: dict[str, Any], relation: Relation, only_best: list[OffsetRange], only_other: list[OffsetRange],
    is_to_heal: bool,
) -> None:  # fmt: skip
    leading, following = choice(2), choice(1, lost(2), **fields)
    turned = pair(2, 1, relation, only_best, only_other)
    for each in (turned, turned.swapped()):
        assert outlook_of(leading, following, pairs=[each]).to_heal == ((1,) if is_to_heal else ())
    # out of sync it is healed only where it is broken
    out = outlook_of(leading, following, pairs=[turned], state=STATE._replace(isr=(2,)))
    assert out.to_heal == ((1,) if is_to_heal and fields else ())


def test_what_the_best_copy_has_lost_itself_is_put_back_nowhere() -> None:
    found = outlook_of(choice(2, front=True), choice(1, lost(2), front=True), pairs=[same(1, 2)])
    assert found.to_heal == ()
    found = outlook_of(choice(2, blocked_at=9), choice(1, lost(2), blocked_at=9, damaged=True), pairs=[same(1, 2)])
    assert found.to_heal == ()
    nothing = outlook_of(choice(2, number=None), pairs=[])
    assert (nothing.best, brokers(nothing.risky), nothing.to_heal) == (None, [2], ())


def test_a_broker_without_a_copy_is_not_healed_and_the_others_are() -> None:
    choices = [choice(1, lost(2), number=None), choice(2), choice(3, lost(2))]
    found = outlook_of(*choices, pairs=[pair(2, 3, Relation.AHEAD, only_first=TAIL)])
    assert (brokers(found.risky), found.to_heal, found.is_healed) == ([1, 3], (3,), False)
