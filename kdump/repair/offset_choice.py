"""Which batches of a damaged log are kept where their offsets are in dispute (kdump.repair.salvage has the rules)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence

from kdump.formats.words import offset_words
from kdump.repair.ranges import ByteRange, LeftOut, Orderly
from kdump.storage.scan import MAX_RELATIVE_OFFSET

WINDOW = 4096
"""How many parts of a log are looked at together where offsets are in dispute."""

_BATCH, _DENSE, _LINK = 1 << 40, 1 << 20, 1
"""What a batch counts in a chain; besides if it has no offset without a record, and if it follows without a gap."""


def increasing(
    parts: Iterable[ByteRange | Orderly | LeftOut], lowest: int, highest: int
) -> Iterator[ByteRange | LeftOut]:
    """Leave out the batches whose offsets do not fit."""
    choice = _Choice(lowest)
    for part in parts:
        held: list[ByteRange | Orderly | LeftOut]
        if isinstance(part, Orderly) and not lowest <= part.first_offset <= part.end <= highest:
            held = [each if _is_possible(each, lowest, highest) else _misplaced(each) for each in part.apart()]
        elif isinstance(part, ByteRange) and not _is_possible(part, lowest, highest):
            held = [_misplaced(part)]
        else:
            held = [part]
        choice.hold(held)
        if choice.number >= WINDOW:
            yield from choice.settle(WINDOW // 2)
    yield from choice.settle(choice.number, is_last=True)


def _is_possible(part: ByteRange, lowest: int, highest: int) -> bool:
    """Return whether a batch may be in this segment at all."""
    first, last = part.first_offset, part.last_offset
    return lowest <= first <= last <= min(highest, first + MAX_RELATIVE_OFFSET)


class _Choice:
    """The parts of a log that are not decided about, `held`, and what precedes them."""

    def __init__(self, lowest: int) -> None:
        """`lowest` is the first offset that is possible (absolute)."""
        self.number = 0  # of batches and of ranges that are left out, among what is held
        self._held: list[ByteRange | Orderly | LeftOut] = []
        self._end = lowest - 1  # the last offset that is sure
        self._far = lowest + MAX_RELATIVE_OFFSET  # behind that a last batch has to be confirmed

    def hold(self, parts: Iterable[ByteRange | Orderly | LeftOut]) -> None:
        """Add parts that follow."""
        for part in parts:
            self._held.append(part)
            self.number += _number(part)

    def settle(self, number: int, *, is_last: bool = False) -> list[ByteRange | LeftOut]:
        """Decide about the first `number` parts, or a few more; `is_last`: there are no others."""
        is_orderly = self._is_orderly(is_last=is_last)
        settled = self._settle_orderly(number) if is_orderly else self._choose(number, is_last=is_last)
        self.number = sum(map(_number, self._held))
        return settled

    def _is_orderly(self, *, is_last: bool) -> bool:
        """Return whether the offsets of all that is held increase, so that there is nothing to choose."""
        end = self._end
        for part in self._held:
            if isinstance(part, LeftOut):
                continue
            if part.first_offset <= end:
                return False
            end = _end(part)
        return not is_last or end <= self._far

    def _settle_orderly(self, number: int) -> list[ByteRange | LeftOut]:
        """Keep all batches among the first `number` parts, or a few more."""
        settled: list[ByteRange | LeftOut] = []
        for at, part in enumerate(self._held):
            if number <= 0:
                self._held = self._held[at:]
                return settled
            number -= _number(part)
            settled.append(part.together() if isinstance(part, Orderly) else part)
            if not isinstance(part, LeftOut):
                self._end = _end(part)
        self._held = []
        return settled

    def _choose(self, number: int, *, is_last: bool) -> list[ByteRange | LeftOut]:
        """Decide about the first `number` parts by weighing all batches that are compared with each other."""
        held = [each for part in self._held for each in (part.apart() if isinstance(part, Orderly) else (part,))]
        batches = {at: part for at, part in enumerate(held) if isinstance(part, ByteRange)}
        chain = _best_chain(batches, self._end)
        if is_last and chain and not self._is_believed([batches[at] for at in chain]):
            chain.pop()
        fillers = self._fillers(batches, chain, len(held) if is_last else None) if len(chain) < len(batches) else {}
        target = {filler: at for at, group in fillers.items() for filler in group}
        for filler in sorted(target):
            if filler < number:
                number = max(number, target[filler] + 1)
        settled: list[ByteRange | LeftOut] = []
        in_chain = set(chain)
        for at, part in enumerate(held[:number]):
            if isinstance(part, LeftOut):
                settled.append(part)
            elif at in in_chain:
                settled += (batches[filler]._replace(is_moved=True) for filler in fillers.get(at, ()))
                settled.append(part)
                self._end = part.last_offset
            elif at not in target:
                settled.append(_misplaced(part))
        if is_last:
            settled += (batches[filler]._replace(is_moved=True) for filler in fillers.get(len(held), ()))
        self._held = [part for at, part in enumerate(held) if at >= number and target.get(at, number) >= number]
        return settled

    def _is_believed(self, chain: Sequence[ByteRange]) -> bool:
        """Return whether the last batch of a chain is near enough, or goes on where the one before it ends."""
        end = chain[-2].last_offset if len(chain) > 1 else self._end
        return chain[-1].last_offset <= self._far or chain[-1].first_offset == end + 1

    def _fillers(
        self, batches: Mapping[int, ByteRange], chain: Sequence[int], stop: int | None
    ) -> dict[int, list[int]]:
        """Return batches out of place that fill holes in the chain's offsets exactly, by the part that follows.

        `stop` is the number of what follows the last part; None where there is more to come.
        """
        in_chain = set(chain)
        others = {batch.first_offset: at for at, batch in batches.items() if at not in in_chain}
        fillers = {}
        end = self._end
        for at in chain if stop is None else (*chain, stop):
            filling = []
            following = None if at == stop else batches[at].first_offset
            while end + 1 != following and end + 1 in others:  # not a copy of what follows
                filling.append(others[end + 1])
                end = batches[filling[-1]].last_offset
            if filling and following in (None, end + 1):
                fillers[at] = filling
            if at != stop:
                end = batches[at].last_offset
        return fillers


def _number(part: ByteRange | Orderly | LeftOut) -> int:
    """Return how many parts it is, every batch one."""
    return len(part.position) if isinstance(part, Orderly) else 1


def _end(part: ByteRange | Orderly) -> int:
    """Return the last offset of a part."""
    return part.end if isinstance(part, Orderly) else part.last_offset


def _best_chain(batches: Mapping[int, ByteRange], end: int) -> list[int]:
    """Return the keys of the batches that make the weightiest chain of increasing offsets behind offset `end`."""
    lasts, scores, tips = [end], [0], [-1]  # of the chains so far: each is worth more than all that end before it
    ending_at = {end: (0, -1)}  # the best chain by its very last offset
    before = {}
    for at, part in batches.items():
        if part.first_offset <= end:
            continue
        place = bisect_left(lasts, part.first_offset) - 1
        score, before[at] = scores[place], tips[place]
        linked = ending_at.get(part.first_offset - 1)
        if linked and linked[0] + _LINK > score:
            score, before[at] = linked[0] + _LINK, linked[1]
        score += _BATCH + _DENSE * part.is_dense
        if part.last_offset not in ending_at or ending_at[part.last_offset][0] < score:
            ending_at[part.last_offset] = score, at
        place = stop = bisect_left(lasts, part.last_offset)
        if scores[place - 1] >= score or (lasts[place : place + 1] == [part.last_offset] and scores[place] >= score):
            continue
        while stop < len(lasts) and scores[stop] <= score:
            stop += 1
        lasts[place:stop], scores[place:stop], tips[place:stop] = [part.last_offset], [score], [at]
    chain = []
    at = tips[-1]
    while at >= 0:
        chain.append(at)
        at = before[at]
    return chain[::-1]


def _misplaced(part: ByteRange) -> LeftOut:
    why = f"out of place: {offset_words(part.first_offset, part.last_offset)}"
    return LeftOut(part.start, part.stop, why, part)


def joined(parts: Iterator[ByteRange | LeftOut]) -> Iterator[ByteRange | LeftOut]:
    """Yield neighbouring ranges as one."""
    held: ByteRange | None = None
    for part in parts:
        if held and isinstance(part, ByteRange) and held.stop == part.start and not (held.is_moved or part.is_moved):
            held = part._replace(
                start=held.start, first_offset=held.first_offset, batches=held.batches + part.batches, is_dense=False
            )
            continue
        if held:
            yield held
        held = part if isinstance(part, ByteRange) else None
        if isinstance(part, LeftOut):
            yield part
    if held:
        yield held
