"""Strategy salvage: keep every good batch of a damaged log, also those behind the damage.

What Kafka's recovery throws away with the first bad batch is kept here: the log is read on behind the damage, from the
next entry whose header is plausible, whose CRC holds and whose records can be read. The gap stays a gap in the offsets,
as after compaction. The rules for batches that do not fit:

- A batch whose records cannot be read to their end is left out, although its CRC holds.
- Offsets increase. Where a batch does not fit the next ones, the longer of the two chains of batches stays that lead
  on from what precedes them; of two equally long ones that which goes on without a gap, else the one that comes first.
- A batch belongs to its segment: it neither starts before the segment's base offset nor reaches the base offset of the
  next segment that holds anything, nor lies more than 2^31 - 1 behind its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kdump import kernels
from kdump.blocks import BatchBlock
from kdump.formats.codecs import DEFAULT_LIMIT
from kdump.payloads import inflate
from kdump.storage.log_file import LogFile
from kdump.storage.scan import MAX_RELATIVE_OFFSET, Damage, scan
from kdump.storage.segment import Segment


class Stretch(NamedTuple):
    """Bytes of a .log from `start` up to `stop`, and the offsets (absolute) and number of the batches in them."""

    start: int
    stop: int
    first_offset: int
    last_offset: int
    batches: int


class LeftOut(NamedTuple):
    """Bytes of a .log, from `start` up to `stop`, that are not kept, and why."""

    start: int
    stop: int
    why: str


def sort_out(segment: Segment, next_base: int | None, limit: int = DEFAULT_LIMIT) -> Iterator[Stretch | LeftOut]:
    """What to keep of a segment's .log and what to leave out, in the order of the file.

    `next_base` is the base offset of the next segment. `limit` bounds what one batch may decompress to, in bytes.
    Raises OSError.
    """
    highest = segment.base_offset + MAX_RELATIVE_OFFSET
    if next_base is not None:
        highest = min(highest, next_base - 1)
    with segment.open_log() as log:
        yield from _joined(_increasing(_readable(log, segment.base_offset, limit), segment.base_offset, highest))


def _readable(log: LogFile, base_offset: int, limit: int) -> Iterator[Stretch | LeftOut]:
    """Every good batch as a stretch of its own, and what is not good."""
    for part in scan(log, base_offset):
        if isinstance(part, Damage):
            yield LeftOut(part.position, part.resumed, part.text)
            continue
        row = part.first
        while row < part.stop:
            stretch = inflate(part.block, row, part.stop, limit)
            for at, payload in enumerate(stretch.payloads, row):
                broken = at == stretch.stop - 1 and (stretch.error or stretch.fault)
                yield _judged(part.block, at, payload, bool(broken))
            row = stretch.stop


def _judged(block: BatchBlock, row: int, payload: bytes | None, broken: bool) -> Stretch | LeftOut:
    start = block.position[row]
    stop = start + block.size[row]
    if broken or not 0 <= block.magic[row] <= 2 or kernels.check(block, row, payload):
        return LeftOut(start, stop, f"the records of the batch at offset {block.last_offset[row]} cannot be read")
    base = block.base_offset[row] if block.base_offset[row] >= 0 else block.last_offset[row]
    return Stretch(start, stop, base, block.last_offset[row], 1)


def _increasing(parts: Iterator[Stretch | LeftOut], lowest: int, highest: int) -> Iterator[Stretch | LeftOut]:
    """Leave out the batches whose offsets do not fit."""
    dispute = _Dispute(lowest - 1)
    for part in parts:
        if isinstance(part, LeftOut):
            dispute.note(part)
        elif not dispute.end < part.first_offset <= part.last_offset <= highest:
            dispute.note(_misplaced(part))
        elif dispute.joins(part):
            yield from dispute.settle()
            dispute.first.append(part)
    yield from dispute.settle()


class _Dispute:
    """Batches that follow `end`, the last offset that is sure, in two chains of which only one can be right.

    Mostly the second chain is empty and the first one batch long: it fits what precedes it, but what follows may tell
    that it is the one that is wrong.
    """

    def __init__(self, end: int) -> None:
        self.end = end
        self.first: list[Stretch] = []
        self.second: list[Stretch] = []
        self._left_out: list[LeftOut] = []

    def note(self, part: LeftOut) -> None:
        """Something is left out whichever chain is right."""
        self._left_out.append(part)

    def joins(self, part: Stretch) -> bool:
        """Whether `part` follows both chains, so that one of them can be chosen; else it is put where it fits."""
        after_first = not self.first or self.first[-1].last_offset < part.first_offset
        after_second = not self.second or self.second[-1].last_offset < part.first_offset
        if after_first and (after_second or not self.second):
            return True
        if after_first:
            self.first.append(part)
        elif after_second:
            self.second.append(part)
        else:
            self.note(_misplaced(part))
        return False

    def settle(self) -> list[Stretch | LeftOut]:
        """The longer chain and what is left out, in the order of the file; of two equal ones that which goes on."""
        kept, dropped = self.first, self.second
        if dropped and (len(dropped), dropped[0].first_offset == self.end + 1) > (
            len(kept),
            kept[0].first_offset == self.end + 1,
        ):
            kept, dropped = dropped, kept
        if kept:
            self.end = kept[-1].last_offset
        parts: list[Stretch | LeftOut] = [*kept, *map(_misplaced, dropped), *self._left_out]
        parts.sort(key=lambda part: part.start)
        self.first, self.second, self._left_out = [], [], []
        return parts


def _misplaced(part: Stretch) -> LeftOut:
    return LeftOut(part.start, part.stop, f"offsets {part.first_offset} to {part.last_offset} do not belong here")


def _joined(parts: Iterator[Stretch | LeftOut]) -> Iterator[Stretch | LeftOut]:
    """Neighbouring stretches as one."""
    held: Stretch | None = None
    for part in parts:
        if held and isinstance(part, Stretch) and held.stop == part.start:
            held = Stretch(held.start, part.stop, held.first_offset, part.last_offset, held.batches + part.batches)
            continue
        if held:
            yield held
        held = part if isinstance(part, Stretch) else None
        if isinstance(part, LeftOut):
            yield part
    if held:
        yield held
