"""Which bytes of a segment may be sent: those of batches whose CRCs were computed and hold.

A segment is checked piece by piece, as it is asked for; what was found is remembered as long as the file does not
change. Of a good piece a mark is kept every few KiB, so that most reads find their batch without a search.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import ge

from kdump.blocks import BATCH_ROWS, BatchBlock
from kdump.errors import InvalidRecordError, KdumpError
from kdump.formats.faults import BLOCK_FULL
from kdump.storage.damage import Damage, DamageKind
from kdump.storage.log_reader import LogFile
from kdump.storage.scan import MAX_OFFSET, MAX_RELATIVE_OFFSET, Run, scan
from kdump.storage.segment import Segment

PIECE_BYTES = 4 << 20
"""What is checked at once, more than most fetches ask for."""
MARK_BYTES = 8 << 10
_UNKNOWN = -1
_LAST_MAGIC = 2


_spares: list[BatchBlock] = []
"""Blocks with their buffers, as many as threads have checked at one time: a new one is filled with zeros first."""


@contextmanager
def _spare() -> Iterator[BatchBlock]:
    spare = _spares.pop() if _spares else BatchBlock(BATCH_ROWS)
    try:
        yield spare
    finally:
        _spares.append(spare)


class NotCheckedError(KdumpError):
    """Bytes have not been checked yet, and there is no time for it."""


class Gate:
    """Whether bytes may be checked now; where not, NotCheckedError is raised in place of a check."""

    __slots__ = ("is_open",)

    def __init__(self) -> None:
        self.is_open = True


@dataclass(slots=True)
class Piece:
    """Bytes `start` to `end` of a log. `damage` is None where all batches in it are good.

    `lowest` is the lowest offset (absolute) that it can have, `next_offset` the one behind the last batch, of damage
    `lowest` again. At byte `positions[n]` a batch begins, whose offsets are `offsets[n]` or higher.
    """

    start: int
    end: int
    lowest: int
    next_offset: int
    damage: Damage | None = None
    positions: array[int] = field(default_factory=lambda: array("q"))
    offsets: array[int] = field(default_factory=lambda: array("q"))


class CheckedSegment:
    """A segment, and what is known of its bytes. `stop_offset` is the next segment's base offset, or above all.

    `is_complete`: all of them have been checked.
    """

    def __init__(self, segment: Segment, stop_offset: int, gate: Gate) -> None:
        self.segment = segment
        self.base_offset = segment.base_offset
        self.stop_offset = min(stop_offset, segment.base_offset + MAX_RELATIVE_OFFSET + 1)
        self._pieces: list[Piece] = []
        self._starts: list[int] = []
        self._state: tuple[int, ...] = ()
        self._gate = gate
        self._checked = 0
        self.is_complete = False

    def is_new_to(self, state: tuple[int, ...]) -> bool:
        """Forget what was checked if the file's `state` is another one than before; whether it had been."""
        before, self._state = self._state, state
        if before == state:
            return False
        self._pieces.clear()
        self._starts.clear()
        self._checked = 0
        self.is_complete = False
        return before != ()

    def piece_at(self, log: LogFile, position: int) -> Piece | None:
        """Return the piece that byte `position`, a batch's first, is in; checked now if need be. None at the end."""
        if position >= log.size:
            return None
        at = bisect_right(self._starts, position) - 1
        if at >= 0 and position < self._pieces[at].end:
            return self._pieces[at]
        self._check(log, position)
        at = bisect_right(self._starts, position) - 1
        return self._pieces[at] if at >= 0 and position < self._pieces[at].end else None

    def pieces(self, log: LogFile, position: int = 0) -> Iterator[Piece]:
        """Yield the pieces from byte `position`, a batch's first, to the log's end."""
        while (piece := self.piece_at(log, position)) is not None:
            yield piece
            position = piece.end

    def position_of(self, log: LogFile, offset: int) -> int:
        """Return where the first batch that reaches `offset`, or damage before it, begins; or the log's size."""
        position = self._near(log, offset)
        for piece in self.pieces(log, position):
            if piece.damage is not None:
                return piece.start
            if piece.next_offset > offset:
                return self.position_in(log, piece, offset)
        return log.size

    def end_offset(self, log: LogFile) -> int:
        """Return the (absolute) offset behind the last valid batch; the base offset without one."""
        last = self.base_offset
        for piece in self.pieces(log, self.segment.position_of(log, MAX_OFFSET)):
            if piece.damage is None:
                last = max(last, piece.next_offset)
        return last

    def offset_before(self, log: LogFile, position: int) -> int:
        """Return the absolute offset behind the last valid batch before byte `position`; the base offset if none."""
        best = self.base_offset
        for piece in self.pieces(log):
            if piece.start >= position:
                break
            if piece.damage is None:
                best = max(best, piece.next_offset)
        return best

    def _near(self, log: LogFile, offset: int) -> int:
        """Return a batch's first byte from which a walk meets the batch that reaches an offset.

        It is in a known piece, if one is there, else by the index.
        """
        at = bisect_right(self._pieces, offset, key=lambda each: each.lowest) - 1
        if at >= 0 and self._pieces[at].damage is None and offset <= self._pieces[at].next_offset:
            return self._pieces[at].start
        return self.segment.position_of(log, offset)

    def position_in(self, log: LogFile, piece: Piece, offset: int) -> int:
        """Return the byte where the first batch of a good piece begins that reaches absolute `offset`, else its end."""
        at = max(0, bisect_right(piece.offsets, offset) - 1)
        position = piece.positions[at]
        while position < piece.end:
            entry = log.entry_at(position, log.size)
            if entry.status != BLOCK_FULL or entry.last_offset >= offset:
                break
            position += entry.size
        return position

    def _check(self, log: LogFile, position: int) -> None:
        """Add the pieces from byte `position` on, up to one that is known or as many as are checked at once."""
        if not self._gate.is_open:
            raise NotCheckedError("not checked yet")
        at = bisect_right(self._starts, position)
        known = self._starts[at] if at < len(self._starts) else log.size
        found: list[Piece] = []
        lowest = self.base_offset if position == 0 else _UNKNOWN
        if at and self._pieces[at - 1].end == position:
            lowest = self._pieces[at - 1].next_offset
        with _spare() as spare:
            for part in scan(log, self.base_offset, position, known, whole=False, spare=spare):
                if isinstance(part, Damage):
                    if lowest == _UNKNOWN:  # only what comes before the damage tells which offsets are lost in it
                        self.offset_before(log, position)
                        return
                    found.append(Piece(part.position, part.resumed, lowest, lowest, part))
                else:
                    lowest = _add(found, part, lowest, self.stop_offset, log.path)
                if found[-1].end >= position + PIECE_BYTES:
                    break
        self._pieces[at:at] = found
        self._starts[at:at] = [piece.start for piece in found]
        self._checked += sum(piece.end - piece.start for piece in found)
        self.is_complete = self._checked >= log.size


def _add(found: list[Piece], run: Run, lowest: int, stop_offset: int, path: str) -> int:
    """Take in valid batches and return the next offset.

    Those whose offsets cannot be, which no CRC covers, and those of a magic that no client knows, are damage.
    """
    block, first, stop = run
    last = block.last_offset[first:stop]
    if lowest == _UNKNOWN:
        lowest = last[0] if block.base_offset[first] < 0 else block.base_offset[first]
    is_unknown = max(block.magic[first:stop]) > _LAST_MAGIC
    if is_unknown or last[0] < lowest or last[-1] >= stop_offset or any(map(ge, last, last[1:])):
        for row in range(first, stop):
            lowest = _add_one(found, run, row, lowest, stop_offset, path)
        return lowest
    piece = found[-1] if found else None
    if piece is None or piece.damage is not None or piece.end != block.position[first]:
        start = block.position[first]
        piece = Piece(start, start, max(lowest, block.base_offset[first]), lowest)
        found.append(piece)
    row = first
    while row < stop:
        piece.positions.append(block.position[row])
        piece.offsets.append(lowest if row == first else block.last_offset[row - 1] + 1)
        row = bisect_left(block.position, block.position[row] + MARK_BYTES, row + 1, stop)
    piece.end = block.position[stop - 1] + block.size[stop - 1]
    piece.next_offset = last[-1] + 1
    return piece.next_offset


def _add_one(found: list[Piece], run: Run, row: int, lowest: int, stop_offset: int, path: str) -> int:
    last_offset, magic = run.block.last_offset[row], run.block.magic[row]
    if lowest <= last_offset < stop_offset and magic <= _LAST_MAGIC:
        return _add(found, Run(run.block, row, row + 1), lowest, stop_offset, path)
    start = run.block.position[row]
    kind = DamageKind.OFFSETS
    text = f"the batch's last offset {last_offset} is not from {lowest} to {stop_offset - 1}"
    if magic > _LAST_MAGIC:
        kind, text = DamageKind.MAGIC, f"no client knows the batch's magic {magic}"
    end = start + run.block.size[row]
    damage = Damage(kind, start, end, InvalidRecordError(text), path)
    found.append(Piece(start, end, lowest, lowest, damage))
    return lowest
