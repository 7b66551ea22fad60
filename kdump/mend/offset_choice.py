"""Which batches of a damaged log are kept where their offsets are in dispute (kdump.mend.salvage has the rules)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from kdump.formats.checkpoints import EpochEntry
from kdump.formats.java_text import LONG_MAX
from kdump.formats.words import offset_words
from kdump.mend.leader_epochs import outdated_batches
from kdump.mend.ranges import ByteRange, LeftOut, Orderly
from kdump.storage.scan import MAX_RELATIVE_OFFSET

WINDOW = 4096
"""How many parts of a log are looked at together where offsets are in dispute."""

_BATCH, _DENSE, _LINK = 1 << 40, 1 << 20, 1
"""What a batch counts in a chain; besides if it has no offset without a record, and if it follows without a gap."""


def increasing(
    parts: Iterable[ByteRange | Orderly | LeftOut],
    lowest: int,
    highest: int,
    epoch_starts: Sequence[EpochEntry] = (),
    is_copy: Callable[[ByteRange], bool] = lambda _: False,
) -> Iterator[ByteRange | LeftOut]:
    """Leave out the batches whose offsets do not fit.

    `epoch_starts` are the entries of leader-epoch-checkpoint, none where it tells nothing. `is_copy` tells of a batch
    whether the same content is elsewhere in the partition.
    """
    choice = _Choice(lowest, highest, epoch_starts, is_copy)
    for part in parts:
        held: list[ByteRange | Orderly | LeftOut]
        if isinstance(part, Orderly) and not lowest <= part.first_offset <= part.end <= highest:
            held = [_or_stray(each, lowest, highest) for each in part.apart()]
        elif isinstance(part, ByteRange):
            held = [_or_stray(part, lowest, highest)]
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


class _Way(NamedTuple):
    """Batches that stay, by their place among what is held.

    `chain` are those that stay where they are, `fillers` those that move, by the part that follows, and `placed` those
    that get the offsets of the hole they stand in.
    """

    chain: list[int]
    fillers: dict[int, list[int]]
    placed: dict[int, ByteRange]


def _by_batch(part: ByteRange) -> int:
    return _BATCH + _DENSE * part.is_dense


def _by_record(part: ByteRange) -> int:
    return _BATCH * _records(part) + _DENSE * part.is_dense


def _records(part: ByteRange) -> int:
    return part.width if part.records < 0 else part.records


def _dropped(batches: Mapping[int, ByteRange], way: _Way) -> int:
    """Return how many records go."""
    kept = {*way.chain, *way.placed, *(filler for group in way.fillers.values() for filler in group)}
    return sum(_records(part) for at, part in batches.items() if at not in kept)


def _or_stray(part: ByteRange, lowest: int, highest: int) -> ByteRange:
    return part if _is_possible(part, lowest, highest) else part._replace(is_stray=True)


class _Choice:
    """The parts of a log that are not decided about, `held`, and what precedes them."""

    def __init__(
        self, lowest: int, highest: int, epoch_starts: Sequence[EpochEntry], is_copy: Callable[[ByteRange], bool]
    ) -> None:
        """`lowest` and `highest` are the offsets that are possible (absolute)."""
        self._lowest = lowest
        self._highest = highest
        self._epoch_starts = epoch_starts
        self._is_copy = is_copy
        self.number = 0  # of batches and of ranges that are left out, among what is held
        self._held: list[ByteRange | Orderly | LeftOut] = []
        self._end = lowest - 1  # the last offset that is sure
        self._stop = 0  # and where its batch ends, in bytes
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
            if part.first_offset <= end or (isinstance(part, ByteRange) and part.is_stray):
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
                self._end, self._stop = _end(part), part.stop
        self._held = []
        return settled

    def _choose(self, number: int, *, is_last: bool) -> list[ByteRange | LeftOut]:
        """Decide about the first `number` parts by weighing all batches that are compared with each other."""
        held = [each for part in self._held for each in (part.apart() if isinstance(part, Orderly) else (part,))]
        batches = {at: part for at, part in enumerate(held) if isinstance(part, ByteRange)}
        outdated = outdated_batches(batches, self._epoch_starts)
        ways = [self._way(held, batches, outdated, weight, is_last=is_last) for weight in (_by_batch, _by_record)]
        chain, fillers, placed = min(ways, key=lambda way: _dropped(batches, way))
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
                settled += (batches[filler]._replace(is_moved=True, is_stray=False) for filler in fillers.get(at, ()))
                settled.append(part)
                self._end, self._stop = part.last_offset, part.stop
            elif at in placed:
                settled.append(placed[at])
                self._end, self._stop = placed[at].last_offset, part.stop
            elif at in outdated:
                settled.append(_outdated(part, outdated[at]))
            elif at not in target:
                settled.append(_misplaced(part))
        if is_last:
            moved = (batches[filler]._replace(is_moved=True, is_stray=False) for filler in fillers.get(len(held), ()))
            settled += moved
        self._held = [part for at, part in enumerate(held) if at >= number and target.get(at, number) >= number]
        return settled

    def _way(
        self,
        held: Sequence[ByteRange | LeftOut],
        batches: Mapping[int, ByteRange],
        outdated: Collection[int],
        weight: Callable[[ByteRange], int],
        *,
        is_last: bool,
    ) -> _Way:
        """Return which of the batches among what is held stay, so that those that stay have the most weight."""
        valid = {at: part for at, part in batches.items() if at not in outdated}
        chain = _best_chain({at: part for at, part in valid.items() if not part.is_stray}, self._end, weight)
        if is_last and chain and not self._is_believed([batches[at] for at in chain]):
            chain.pop()
        if len(chain) == len(batches):
            return _Way(chain, {}, {})
        fillers = self._fillers(valid, chain, len(held) if is_last else None)
        return _Way(chain, fillers, self._placed(held, batches, _Way(chain, fillers, {}), is_last=is_last))

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
        others = {
            batch.first_offset: at
            for at, batch in batches.items()
            if at not in in_chain and _is_possible(batch, self._lowest, self._highest)
        }
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


    def _placed(
        self, held: Sequence[ByteRange | LeftOut], batches: Mapping[int, ByteRange], way: _Way, *, is_last: bool
    ) -> dict[int, ByteRange]:
        """Return the batches whose base offset is wrong, with the offsets of the hole that they stand in.

        No CRC covers a base offset. Batches that follow each other by their own offsets are a piece of another log, and
        one whose content is elsewhere too is a copy: neither gets other offsets.
        """
        moved = {filler for group in way.fillers.values() for filler in group}
        chain = [batches[at] for at in way.chain]
        is_dense = bool(chain) and all(part.is_dense for part in chain) and all(map(_is_linked, chain, chain[1:]))
        stays = {part.identity for part in chain}
        placed: dict[int, ByteRange] = {}
        for before, after in pairwise((-1, *way.chain, len(held))):
            strays = [at for at in range(before + 1, after) if at in batches and at not in moved]
            if not strays or after in way.fillers or (after == len(held) and not is_last):
                continue
            parts = [batches[at] for at in strays]
            if any(part.last_offset + 1 == other.first_offset for part, other in pairwise(parts)):
                continue
            if any(part.identity in stays or self._is_copy(part) for part in parts):
                continue
            end, stop = (self._end, self._stop) if before < 0 else (batches[before].last_offset, batches[before].stop)
            following = batches.get(after)
            limit = self._highest + 1 if following is None else following.first_offset
            if limit >= LONG_MAX:  # the log ends there: any offset would do
                continue
            place = stop, held[-1].stop if following is None else following.start
            offsets = _offsets_in_hole(parts, place, (end + 1, limit), is_dense=is_dense)
            for at, part, offset in zip(strays, parts, offsets, strict=True):
                if offset is not None:
                    placed[at] = part._replace(
                        first_offset=offset,
                        last_offset=offset + part.width - 1,
                        is_stray=False,
                        stored_offset=part.first_offset,
                    )
        return placed


def _is_linked(part: ByteRange, following: ByteRange) -> bool:
    """Return whether no offset is missing between two batches, unless something else stands between them."""
    return part.stop != following.start or part.last_offset + 1 == following.first_offset


def _offsets_in_hole(
    parts: Sequence[ByteRange], place: tuple[int, int], hole: tuple[int, int], *, is_dense: bool
) -> list[int | None]:
    """Return the first offset that each of the batches in a hole must have; None where that is not certain.

    `place` are the bytes between the batches around the hole, `hole` the offsets, stop excluded. Batches that fill the
    hole have its offsets. Where damage is beside them, those right next to the batches around it have the offsets next
    to theirs, if no offset of the log is without a record (`is_dense`): it is not compacted.
    """
    (at, stop), (first, limit) = place, hole
    free = limit - first - sum(part.width for part in parts)
    offsets: list[int | None] = [None] * len(parts)
    nothing_else = [at, *(part.stop for part in parts)] == [*(part.start for part in parts), stop]
    is_certain = free == 0 if nothing_else else is_dense and free > 0
    if not is_certain or any(not 1 <= part.width <= MAX_RELATIVE_OFFSET + 1 for part in parts):
        return offsets
    for number, part in enumerate(parts):
        if part.start != at:
            break
        offsets[number] = first
        at, first = part.stop, first + part.width
    for number, part in reversed(list(enumerate(parts))):
        if offsets[number] is not None or part.stop != stop:
            break
        limit -= part.width
        offsets[number], stop = limit, part.start
    return offsets


def _number(part: ByteRange | Orderly | LeftOut) -> int:
    """Return how many parts it is, every batch one."""
    return len(part.position) if isinstance(part, Orderly) else 1


def _end(part: ByteRange | Orderly) -> int:
    """Return the last offset of a part."""
    return part.end if isinstance(part, Orderly) else part.last_offset


def _best_chain(batches: Mapping[int, ByteRange], end: int, weight: Callable[[ByteRange], int]) -> list[int]:
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
        score += weight(part)
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


def _outdated(part: ByteRange, epoch: int) -> LeftOut:
    offsets = offset_words(part.first_offset, part.last_offset)
    why = f"{offsets} of leader epoch {part.leader_epoch}: those of leader epoch {epoch} replace them"
    return LeftOut(part.start, part.stop, why, part)


def joined(parts: Iterator[ByteRange | LeftOut]) -> Iterator[ByteRange | LeftOut]:
    """Yield neighbouring ranges as one."""
    held: ByteRange | None = None
    for part in parts:
        if held and isinstance(part, ByteRange) and held.stop == part.start and not _is_changed(held, part):
            held = part._replace(
                start=held.start,
                first_offset=held.first_offset,
                batches=held.batches + part.batches,
                is_dense=False,
                leader_epoch=-1,
                records=-1,
                crc=-1,
            )
            continue
        if held:
            yield held
        held = part if isinstance(part, ByteRange) else None
        if isinstance(part, LeftOut):
            yield part
    if held:
        yield held


def _is_changed(*parts: ByteRange) -> bool:
    return any(part.is_moved or part.stored_offset is not None for part in parts)
