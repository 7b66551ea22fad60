"""Strategy salvage: keep every good batch of a damaged log, also those behind the damage.

What Kafka's recovery throws away with the first bad batch is kept here: the log is read on behind the damage, from the
next entry whose header is plausible, whose CRC holds and whose records can be read. The gap stays a gap in the offsets,
as after compaction. The rules for batches that do not fit:

- A batch whose records cannot be read to their end is left out, although its CRC holds; so is a transaction marker
  that the broker cannot read, and a batch whose header and records contradict each other in count or offsets.
- Offsets increase. Of all ways to leave out batches so that they do, the one that keeps most batches is taken; of two
  that keep as many, the one in which more of them have a record for each of their offsets, then the one in which more
  of them begin where the one before ends. No more than 4096 batches are weighed against each other at a time.
- A batch that does not fit where it stands, but fills a hole in the offsets exactly, is put there.
- A batch belongs to its segment: it neither starts before the segment's base offset nor reaches the base offset of the
  next segment that holds anything. A last batch more than 2^31 - 1 behind the base offset is believed only if it goes
  on where the one before it ends; no batch holds offsets further apart than that.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import repeat

from kdump import kernels
from kdump.blocks import BatchBlock
from kdump.errors import CodecLimitError, CodecMissingError, KdumpError, LoadError
from kdump.formats.batch import CONTROL
from kdump.formats.codecs import DEFAULT_LIMIT
from kdump.formats.java_text import LONG_MAX
from kdump.formats.words import offset_words
from kdump.named_tuples import NamedTuple
from kdump.recovery.markers import read_marker
from kdump.storage.damage import Damage
from kdump.storage.decoded import first_offset
from kdump.storage.payloads import Stretch as Payloads
from kdump.storage.payloads import inflate
from kdump.storage.planned_log import LogView
from kdump.storage.scan import MAX_RELATIVE_OFFSET, scan
from kdump.verify.column import is_uniform

WINDOW = 4096
"""How many parts of a log are looked at together where offsets are in dispute."""

_ROWS = WINDOW // 4
"""So many batches at most are one part as long as nothing is in dispute."""

_BATCH, _DENSE, _LINK = 1 << 40, 1 << 20, 1
"""What a batch counts in a chain; besides if it has no offset without a record, and if it follows without a gap."""


class Stretch(NamedTuple):
    """Bytes of a .log from `start` up to `stop`, and the offsets (absolute) and number of the batches in them.

    `is_dense`: as far as the headers tell, no offset is without a record. `is_moved`: it stood elsewhere in the file
    than its offsets ask for.
    """

    start: int
    stop: int
    first_offset: int
    last_offset: int
    batches: int
    is_dense: bool
    is_moved: bool = False


class _Orderly(NamedTuple):
    """Good batches of format v2 one after the other, whose offsets increase: a column for each field of theirs.

    Nearly all batches are such; they are looked at one by one only where their offsets are in dispute.
    """

    position: array[int]
    size: array[int]
    base_offset: array[int]
    last_offset: array[int]
    records: array[int]

    @property
    def start(self) -> int:
        return self.position[0]

    @property
    def stop(self) -> int:
        return self.position[-1] + self.size[-1]

    @property
    def first_offset(self) -> int:
        return self.base_offset[0]

    @property
    def end(self) -> int:
        """The last offset of the last batch."""
        return self.last_offset[-1]

    def together(self) -> Stretch:
        """Return all of them as one stretch."""
        if len(self.position) == 1:
            return next(self.apart())
        return Stretch(self.start, self.stop, self.first_offset, self.end, len(self.position), False)

    def apart(self) -> Iterator[Stretch]:
        """Yield each of them as a stretch of its own."""
        for start, size, first, last, records in zip(*self, strict=True):
            yield Stretch(start, start + size, first, last, 1, records in (-1, last - first + 1))


class LeftOut(NamedTuple):
    """Bytes of a .log, from `start` up to `stop`, that are not kept, and why.

    `valid` is set where they are valid batches, whose offsets do not fit.
    """

    start: int
    stop: int
    why: str
    valid: Stretch | None = None


def sort_out(
    log: LogView,
    base_offset: int,
    next_base: int | None,
    faults: Sequence[tuple[int, str]] = (),
    limit: int = DEFAULT_LIMIT,
    suspects: AbstractSet[int] | None = None,
) -> Iterator[Stretch | LeftOut]:
    """Yield what to keep of a .log, in the order of the offsets, and what to leave out.

    `base_offset` is the segment's, `next_base` that of the next segment. `faults` are what else is wrong with batches:
    byte positions inside them, ascending, and why. `limit` bounds what one batch may decompress to, in bytes; of one
    that would be larger the header has to do. `suspects` are where the batches begin whose records are in doubt, if
    that is known already; None: those of all batches are read. Raises OSError, and CodecMissingError where a codec's
    library is not installed.
    """
    highest = LONG_MAX - 1 if next_base is None else next_base - 1
    batches = _readable(log, base_offset, limit) if suspects is None else _known(log, base_offset, limit, suspects)
    parts = _without(faults, batches)
    yield from _joined(_increasing(parts, base_offset, highest))


def _without(
    faults: Sequence[tuple[int, str]], parts: Iterable[Stretch | _Orderly | LeftOut]
) -> Iterator[Stretch | _Orderly | LeftOut]:
    """Leave out the batches that have faults."""
    for part in parts:
        at = bisect_left(faults, (part.start, ""))
        if isinstance(part, LeftOut) or at == len(faults) or faults[at][0] >= part.stop:
            yield part
        elif isinstance(part, _Orderly):
            yield from _without(faults, part.apart())
        else:
            yield LeftOut(part.start, part.stop, faults[at][1])


def _readable(log: LogView, base_offset: int, limit: int) -> Iterator[Stretch | _Orderly | LeftOut]:
    """Yield the good batches, those that are not orderly each as a stretch of its own, and what is not good."""
    for part in scan(log, base_offset):
        if isinstance(part, Damage):
            yield LeftOut(part.position, part.resumed, part.text)
            continue
        row = part.first
        while row < part.stop:
            stretch = inflate(part.block, row, min(part.stop, row + _ROWS), limit)
            if isinstance(stretch.error, CodecMissingError):
                raise stretch.error  # what cannot be judged must not be left out
            orderly = _orderly(part.block, row, stretch.stop)
            if orderly is not None and _are_whole(part.block, stretch):
                yield orderly
                row = stretch.stop
                continue
            for at, payload in enumerate(stretch.payloads, row):
                failure = stretch.error if at == stretch.stop - 1 else None
                yield _judged(log, part.block, at, payload, failure, limit)
            row = stretch.stop


def _are_whole(block: BatchBlock, payloads: Payloads) -> bool:
    """Return whether the records of all rows whose payloads are given can be read."""
    rows = range(payloads.first, payloads.stop)
    return payloads.error is None and not any(map(kernels.check, repeat(block), rows, payloads.payloads))


def _known(
    log: LogView, base_offset: int, limit: int, suspects: AbstractSet[int]
) -> Iterator[Stretch | _Orderly | LeftOut]:
    """Yield as `_readable`, of a log that was walked: only the batches that are in doubt are read again."""
    for part in scan(log, base_offset, whole=False):
        if isinstance(part, Damage):
            yield LeftOut(part.position, part.resumed, part.text)
            continue
        block = part.block
        for first in range(part.first, part.stop, _ROWS):
            stop = min(part.stop, first + _ROWS)
            is_doubtful = bool(suspects) and not suspects.isdisjoint(block.position[first:stop])
            orderly = None if is_doubtful else _orderly(block, first, stop)
            if orderly is not None:
                yield orderly
                continue
            for row in range(first, stop):
                if _needs_look(block, row, suspects):
                    yield _read_again(log, block, row, limit)
                else:
                    yield _of_header(block, row, block.base_offset[row])


def _needs_look(block: BatchBlock, row: int, suspects: AbstractSet[int]) -> bool:
    """Return whether the header of a batch is not enough to judge it by."""
    return block.magic[row] != 2 or bool(block.attributes[row] & CONTROL) or block.position[row] in suspects


def _of_header(block: BatchBlock, row: int, first: int) -> Stretch:
    last, start = block.last_offset[row], block.position[row]
    return Stretch(start, start + block.size[row], first, last, 1, block.count[row] in (-1, last - first + 1))


def _read_again(log: LogView, block: BatchBlock, row: int, limit: int) -> Stretch | LeftOut:
    held, at = log.held(block, row)
    stretch = inflate(held, at, at + 1, limit)
    if isinstance(stretch.error, CodecMissingError):
        raise stretch.error
    return _judged(log, held, at, stretch.payloads[0], stretch.error, limit)


def _orderly(block: BatchBlock, first: int, stop: int) -> _Orderly | None:
    """Return the rows from `first` up to `stop`; None where the header of one of them needs a closer look."""
    if not is_uniform(block.magic[first:stop], 2):
        return None
    if block.controls and any(attributes & CONTROL for attributes in block.attributes[first:stop]):
        return None
    starts, ends = block.base_offset[first:stop], block.last_offset[first:stop]
    if kernels.differences(starts, ends)[0] < 0:
        return None
    if len(starts) > 1 and kernels.differences(ends[:-1], starts[1:])[0] <= 0:
        return None
    return _Orderly(block.position[first:stop], block.size[first:stop], starts, ends, block.count[first:stop])


def _judged(
    log: LogView, block: BatchBlock, row: int, payload: bytes | None, failure: KdumpError | None, limit: int
) -> Stretch | LeftOut:
    """Return a batch, of which `failure` says why its payload cannot be had, by itself."""
    start = block.position[row]
    stop = start + block.size[row]
    if isinstance(failure, CodecLimitError):  # its CRC holds, and that has to do
        first = block.base_offset[row] if block.count[row] >= 0 else block.last_offset[row]
        return Stretch(start, stop, first, block.last_offset[row], 1, False)
    if failure or not 0 <= block.magic[row] <= 2 or kernels.check(block, row, payload):
        return LeftOut(start, stop, f"the records of the batch at offset {block.last_offset[row]} cannot be read")
    if block.attributes[row] & CONTROL and block.producer_id[row] >= 0:
        try:
            read_marker(log, block, row)
        except LoadError as error:
            return LeftOut(start, stop, f"the transaction marker at offset {block.last_offset[row]}: {error}")
    return _of_header(block, row, first_offset(block, row, limit))


def _increasing(
    parts: Iterable[Stretch | _Orderly | LeftOut], lowest: int, highest: int
) -> Iterator[Stretch | LeftOut]:
    """Leave out the batches whose offsets do not fit."""
    choice = _Choice(lowest)
    for part in parts:
        held: list[Stretch | _Orderly | LeftOut]
        if isinstance(part, _Orderly) and not lowest <= part.first_offset <= part.end <= highest:
            held = [each if _is_possible(each, lowest, highest) else _misplaced(each) for each in part.apart()]
        elif isinstance(part, Stretch) and not _is_possible(part, lowest, highest):
            held = [_misplaced(part)]
        else:
            held = [part]
        choice.hold(held)
        if choice.number >= WINDOW:
            yield from choice.settle(WINDOW // 2)
    yield from choice.settle(choice.number, last=True)


def _is_possible(part: Stretch, lowest: int, highest: int) -> bool:
    """Return whether a batch may be in this segment at all."""
    first, last = part.first_offset, part.last_offset
    return lowest <= first <= last <= min(highest, first + MAX_RELATIVE_OFFSET)


class _Choice:
    """The parts of a log that are not decided about, `held`, and what precedes them."""

    def __init__(self, lowest: int) -> None:
        """`lowest` is the first offset that is possible (absolute)."""
        self.number = 0  # of batches and of ranges that are left out, among what is held
        self._held: list[Stretch | _Orderly | LeftOut] = []
        self._end = lowest - 1  # the last offset that is sure
        self._far = lowest + MAX_RELATIVE_OFFSET  # behind that a last batch has to be confirmed

    def hold(self, parts: Iterable[Stretch | _Orderly | LeftOut]) -> None:
        """Add parts that follow."""
        for part in parts:
            self._held.append(part)
            self.number += _number(part)

    def settle(self, number: int, *, last: bool = False) -> list[Stretch | LeftOut]:
        """Decide about the first `number` parts, or a few more; `last`: there are no others."""
        settled = self._settle_orderly(number) if self._is_orderly(last=last) else self._choose(number, last=last)
        self.number = sum(map(_number, self._held))
        return settled

    def _is_orderly(self, *, last: bool) -> bool:
        """Return whether the offsets of all that is held increase, so that there is nothing to choose."""
        end = self._end
        for part in self._held:
            if isinstance(part, LeftOut):
                continue
            if part.first_offset <= end:
                return False
            end = _end(part)
        return not last or end <= self._far

    def _settle_orderly(self, number: int) -> list[Stretch | LeftOut]:
        """Keep all batches among the first `number` parts, or a few more."""
        settled: list[Stretch | LeftOut] = []
        for at, part in enumerate(self._held):
            if number <= 0:
                self._held = self._held[at:]
                return settled
            number -= _number(part)
            settled.append(part.together() if isinstance(part, _Orderly) else part)
            if not isinstance(part, LeftOut):
                self._end = _end(part)
        self._held = []
        return settled

    def _choose(self, number: int, *, last: bool) -> list[Stretch | LeftOut]:
        """Decide about the first `number` parts by weighing all batches that are held against each other."""
        held = [each for part in self._held for each in (part.apart() if isinstance(part, _Orderly) else (part,))]
        batches = {at: part for at, part in enumerate(held) if isinstance(part, Stretch)}
        chain = _best_chain(batches, self._end)
        if last and chain and not self._is_believed([batches[at] for at in chain]):
            chain.pop()
        fillers = self._fillers(batches, chain, len(held) if last else None) if len(chain) < len(batches) else {}
        target = {filler: at for at, group in fillers.items() for filler in group}
        for filler in sorted(target):
            if filler < number:
                number = max(number, target[filler] + 1)
        settled: list[Stretch | LeftOut] = []
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
        if last:
            settled += (batches[filler]._replace(is_moved=True) for filler in fillers.get(len(held), ()))
        self._held = [part for at, part in enumerate(held) if at >= number and target.get(at, number) >= number]
        return settled

    def _is_believed(self, chain: Sequence[Stretch]) -> bool:
        """Return whether the last batch of a chain is near enough, or goes on where the one before it ends."""
        end = chain[-2].last_offset if len(chain) > 1 else self._end
        return chain[-1].last_offset <= self._far or chain[-1].first_offset == end + 1

    def _fillers(self, batches: Mapping[int, Stretch], chain: Sequence[int], stop: int | None) -> dict[int, list[int]]:
        """Return batches out of place that fill holes in the offsets of the chain exactly, by the part that follows a
        hole.

        `stop` is the number of what follows the last part; None where there is more to come.
        """
        in_chain = set(chain)
        others = {batch.first_offset: at for at, batch in batches.items() if at not in in_chain}
        fillers = {}
        end = self._end
        for at in chain if stop is None else (*chain, stop):
            filling = []
            while end + 1 in others:
                filling.append(others[end + 1])
                end = batches[filling[-1]].last_offset
            if filling and (at == stop or batches[at].first_offset == end + 1):
                fillers[at] = filling
            if at != stop:
                end = batches[at].last_offset
        return fillers


def _number(part: Stretch | _Orderly | LeftOut) -> int:
    """Return how many parts it is, every batch one."""
    return len(part.position) if isinstance(part, _Orderly) else 1


def _end(part: Stretch | _Orderly) -> int:
    """Return the last offset of a part."""
    return part.end if isinstance(part, _Orderly) else part.last_offset


def _best_chain(batches: Mapping[int, Stretch], end: int) -> list[int]:
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


def _misplaced(part: Stretch) -> LeftOut:
    why = f"out of place: {offset_words(part.first_offset, part.last_offset)}"
    return LeftOut(part.start, part.stop, why, part)


def _joined(parts: Iterator[Stretch | LeftOut]) -> Iterator[Stretch | LeftOut]:
    """Yield neighbouring stretches as one."""
    held: Stretch | None = None
    for part in parts:
        if held and isinstance(part, Stretch) and held.stop == part.start and not (held.is_moved or part.is_moved):
            held = part._replace(
                start=held.start, first_offset=held.first_offset, batches=held.batches + part.batches, is_dense=False
            )
            continue
        if held:
            yield held
        held = part if isinstance(part, Stretch) else None
        if isinstance(part, LeftOut):
            yield part
    if held:
        yield held
