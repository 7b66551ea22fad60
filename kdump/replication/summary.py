"""What a comparison comes to: the copy to take for the reference, how each other one differs, the best choice.

Plain data for whoever prints it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import combinations
from typing import NamedTuple

from kdump.replication.choice import Choice
from kdump.replication.compare import Compared, Comparison, Contents, OffsetRange, Relation
from kdump.replication.loss import Loss
from kdump.topics.partition_state import PartitionState, Standing

_RANK = {Standing.IN_SYNC: 0, Standing.ELIGIBLE: 1, Standing.LAST_KNOWN: 2, Standing.UNCLEAN: 3, None: 0}


class Difference(StrEnum):
    """How offsets of a copy differ from the reference's."""

    DAMAGED = "damaged"
    OTHER_EPOCH = "other epoch"
    OTHER_BYTES = "other bytes"
    MISSING = "missing"
    NOT_YET = "not yet"
    ONLY_HERE = "only here"


class Span(NamedTuple):
    """Offsets `first` to `last` (inclusive, absolute) of a copy that differ."""

    kind: Difference
    first: int
    last: int


def best_choice(
    choices: Sequence[Choice], state: PartitionState | None, alone: frozenset[int] = frozenset()
) -> Choice | None:
    """Return the choice that loses least: records that may have been acknowledged by all, then a blocked partition.

    `alone` are the numbers of copies that alone have other bytes: theirs are not lost if another one leads. Then one
    that loses nothing counts, one that needs no unclean election, the newest history, fewer records, the present
    leader, and the first by assignment. The longest log is not the best one: it may be the tail of a leader that nobody
    followed.
    """
    assigned = state.replicas if state else ()

    def cost(choice: Choice) -> tuple[int, ...]:
        broker = choice.leader.broker
        order = assigned.index(broker) if broker in assigned else len(assigned)
        figures = _without_alone(choice, alone).figures
        return (
            figures.committed + figures.possible,
            choice.blocked_at is not None,
            figures.lost > 0,
            _RANK[choice.standing],
            -_newest_epoch(choice),
            figures.lost,
            state is None or broker != state.leader,
            order,
        )

    return min((each for each in choices if each.leader.number is not None), key=cost, default=None)


def odd_copies(compared: Compared) -> frozenset[int]:
    """Return the copies (numbers) that have other valid bytes of a leader epoch than two others, which agree."""
    differing = {(pair.first, pair.second) for pair in compared.pairs if _contradicts(pair)}
    numbers = range(len(compared.contents))

    def differ(one: int, other: int) -> bool:
        return (min(one, other), max(one, other)) in differing

    return frozenset(
        alone
        for alone in numbers
        for one, other in combinations([each for each in numbers if each != alone], 2)
        if differ(alone, one) and differ(alone, other) and not differ(one, other)
    )


def _contradicts(pair: Comparison) -> bool:
    if pair.relation is not Relation.BYTES:
        return False
    valid = [each for each in pair.only_second if not each.is_damaged]
    return any(_overlap(one, other) for one in pair.only_first if not one.is_damaged for other in valid)


def _without_alone(choice: Choice, alone: frozenset[int]) -> Loss:
    """Return what a choice loses, without what copies keep that are alone with it."""
    if choice.leader.number in alone:
        return choice.loss
    ranges = (each for each in choice.loss.ranges if each.is_cut or each.copy not in alone)
    return replace(choice.loss, ranges=tuple(ranges))


def _newest_epoch(choice: Choice) -> int:
    """Return the leader epoch of the last records of the leader's log; -1 without any."""
    log = choice.leader.log
    epochs = [entry.epoch for entry in log.epochs if entry.start_offset < log.log_end] if log else []
    return max(epochs, default=-1)


def differences(pair: Comparison, copy: Contents) -> tuple[Span, ...]:
    """Say how the second copy of a pair differs from the first, the reference; by offset."""
    spans: list[Span] = []
    theirs = list(pair.only_second)
    for lacking in pair.only_first:
        if not any(_overlap(lacking, each) for each in theirs):
            kind = Difference.NOT_YET if lacking.first >= copy.end_offset else Difference.MISSING
            spans.append(Span(kind, lacking.first, lacking.last))
    is_epoch = pair.relation is Relation.EPOCH
    for each in theirs:
        if each.is_damaged:
            kind = Difference.DAMAGED
        elif not any(_overlap(each, other) for other in pair.only_first):
            kind = Difference.ONLY_HERE
        else:
            kind = Difference.OTHER_EPOCH if is_epoch else Difference.OTHER_BYTES
        if all(other.is_damaged for other in pair.only_first if _overlap(each, other)) and kind in (
            Difference.OTHER_EPOCH,
            Difference.OTHER_BYTES,
        ):
            continue  # it is the reference that is damaged there
        spans.append(Span(kind, each.first, each.last))
    return tuple(sorted(_joined(spans), key=lambda span: (span.first, span.kind)))


def agreed(pairs: Sequence[Comparison], contents: Sequence[Contents]) -> tuple[tuple[int, int], ...]:
    """Return the ranges of offsets (inclusive) in which all copies are the same; none for fewer than two copies."""
    if not pairs:
        return ()
    start = max(pair.compared_from for pair in pairs)
    end = min(each.end_offset for each in contents)
    taken = sorted((each.first, each.last) for pair in pairs for each in (*pair.only_first, *pair.only_second))
    found: list[tuple[int, int]] = []
    at = start
    for first, last in taken:
        if first > at:
            found.append((at, min(first, end) - 1))
        at = max(at, last + 1)
    if at < end:
        found.append((at, end - 1))
    return tuple((first, last) for first, last in found if first <= last < end)


def _joined(spans: list[Span]) -> list[Span]:
    """Return spans of one kind that follow each other as one."""
    found: list[Span] = []
    for span in sorted(spans, key=lambda each: (each.kind, each.first)):
        last = found[-1] if found else None
        if last is not None and last.kind is span.kind and last.last + 1 >= span.first:
            found[-1] = last._replace(last=max(last.last, span.last))
        else:
            found.append(span)
    return found


def _overlap(one: OffsetRange, other: OffsetRange) -> bool:
    return one.first <= other.last and other.first <= one.last


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a partition's leaders may lose. `best` loses least.

    `risky` are the choices that may come about without an administrator and lose something else, or block.
    `to_heal` are the copies (numbers) to which all can be given back that the best one has and they have not.
    """

    best: Choice | None
    risky: tuple[Choice, ...]
    to_heal: tuple[int, ...]

    @property
    def is_healed(self) -> bool:
        """Whether nothing is risky any more once these copies are healed."""
        return all(each.leader.number in self.to_heal for each in self.risky)


def outlook(choices: Sequence[Choice], compared: Compared, state: PartitionState | None) -> Outlook:
    """Weigh the choices of a partition."""
    best = best_choice(choices, state, odd_copies(compared))
    wanted = _harm(best) if best else None
    risky = tuple(each for each in choices if _harm(each) != wanted and _may_lead(each, state))
    return Outlook(best, risky, _to_heal(best, choices, compared, state))


def _to_heal(
    best: Choice | None, choices: Sequence[Choice], compared: Compared, state: PartitionState | None
) -> tuple[int, ...]:
    """Return the copies that are damaged, lost their beginning, or may lead and end before the best one.

    The latter have the same history up to there.
    """
    if best is None or best.leader.number is None or best.blocked_at is not None:
        return ()
    found = []
    for choice in choices:
        number = choice.leader.number
        if number is None or number == best.leader.number:
            continue
        pair = compared.pair(best.leader.number, number)
        is_history = all(each.is_damaged for each in pair.only_second)
        is_damaged = choice.leader.damaged or (choice.leader.front is not None and best.leader.front is None)
        if is_history and (is_damaged or (_may_lead(choice, state) and pair.only_first)):
            found.append(number)
    return tuple(found)


def _may_lead(choice: Choice, state: PartitionState | None) -> bool:
    """Return whether it can come about without an administrator, for all that is known."""
    broker = choice.leader.broker
    return state is None or broker is None or state.may_lead(broker)


def _harm(choice: Choice) -> tuple[int | None, list[tuple[int, tuple[object, ...]]]]:
    """Return what a choice loses, of which copies, and where it blocks the partition."""
    if choice.loss.keys is not None:
        keys = ((each.copy, each.keys.offsets) for each in choice.loss.ranges if each.keys is not None)
        return choice.blocked_at, [(copy, tuple(offsets)) for copy, offsets in keys if offsets]
    return choice.blocked_at, [(each.copy, each.spans) for each in choice.loss.ranges]
