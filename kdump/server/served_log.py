"""The bytes of a partition that may be sent: what is damaged in it is left out, or sent from another node's copy."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Self

from kdump.disk.reading import status_of
from kdump.errors import KdumpError
from kdump.formats.faults import BLOCK_FULL
from kdump.server.checked import CheckedSegment, Gate, NotCheckedError, Piece
from kdump.server.open_files import KeptFile, OpenFiles
from kdump.server.pieces import CONSEQUENCES, Fetched, FileRange, OnDamage, damage_text
from kdump.storage.damage import Damage
from kdump.storage.facts import log_end_offset
from kdump.storage.log_reader import Entry
from kdump.storage.partition import PartitionLog
from kdump.storage.replica import Replica
from kdump.storage.scan import MAX_OFFSET, scan

CHECKED_AT_ONCE = 64 << 20
"""Bytes of a partition up to which all its batches are checked before its end is told for the first time."""

Log = Callable[[str], object]


class SendableRange(NamedTuple):
    """Bytes of a log that may be sent, whole batches, and the absolute offset behind the last one."""

    segment: CheckedSegment
    log: KeptFile
    start: int
    end: int
    next_offset: int


class ServedLog:
    """The log of one replica, read-only. Offsets are absolute. It may be asked by several threads."""

    def __init__(
        self,
        replica: Replica,
        topic_id: bytes,
        files: OpenFiles,
        on_damage: OnDamage,
        say: Log,
        *,
        copies: Callable[[], Iterable[Replica]] = tuple,
        gate: Gate | None = None,
    ) -> None:
        """Take `say`, which gets a line for each damage, once, and `copies`, the replicas of other nodes.

        Their batches stand in for those that are damaged here.
        """
        self.replica = replica
        self.log = replica.log
        self.topic = replica.topic
        self.number = replica.partition
        self.topic_id = topic_id
        self.log_start_offset = replica.log_start_offset
        self._files = files
        self._on_damage = on_damage
        self._say = say
        self._lock = threading.RLock()
        self._stop: int | None = None
        self._reported: set[tuple[str, int]] = set()
        bases = [segment.base_offset for segment in self.log.segments]
        stops = [*bases[1:], MAX_OFFSET]
        self._is_stale = False
        self._state = self._state_now()
        self._gate = gate or Gate()
        self._copies = copies
        self._copied: dict[tuple[str, int], ReplacementBatches | None] = {}
        pairs = zip(self.log.segments, stops, strict=True)
        self._segments = [CheckedSegment(segment, stop, self._gate) for segment, stop in pairs]

    def has_changed(self) -> bool:
        """Return whether something has been written since it was opened, so that it is to be opened again."""
        return self._is_stale or self._state_now() != self._state

    def _state_now(self) -> tuple[int, ...]:
        """Return what changes when files come and go, and when the last log is written to."""
        with suppress(OSError):
            state = [status_of(self.log.path).modified_ns]
            if self.log.segments:
                state += status_of(self.log.segments[-1].log_path)
            return tuple(state)
        return ()

    def _open(self, segment: CheckedSegment) -> KeptFile:
        """Return the log of a segment; what was checked of one that has changed since counts no more."""
        log = self._files.get(segment.segment.log_path)
        if segment.is_new_to(log.state):
            self._is_stale = True
        return log

    @cached_property
    def size(self) -> int:
        """The bytes of its logs. Raises OSError."""
        return sum(status_of(segment.log_path).size for segment in self.log.segments)

    # --- offsets ---

    @property
    def end_offset(self) -> int:
        """The offset behind the last record that is served. Raises OSError."""
        with self._lock:
            end = self._end_of_log
            return end if self._stop is None else max(self.log_start_offset, min(end, self._stop))

    @cached_property
    def _end_of_log(self) -> int:
        if not self._segments:
            return self.log_start_offset
        if self._on_damage is OnDamage.SERVE:
            return log_end_offset(self.log, self.log_start_offset)
        last = self._segments[-1]
        end = max(self.log_start_offset, last.end_offset(self._open(last)))
        if self._on_damage is OnDamage.STOP and self.size <= CHECKED_AT_ONCE:
            self._check_all(end)
        return end

    def _check_all(self, end: int) -> None:
        for segment in self._segments:
            log = self._open(segment)
            for piece in segment.pieces(log):
                if piece.damage is None or self._instead(segment, piece, end) is not None:
                    continue
                if self._stops_at(segment, piece, end):
                    return

    # --- bytes ---

    def fetch(self, offset: int, stop_offset: int, limit: int, *, is_first: bool) -> Fetched:
        """Return the bytes from the batch that reaches `offset` on, before the batch that holds `stop_offset`.

        No more than `limit` bytes, but a whole batch where it `is_first`. Raises OSError.
        """
        with self._lock:
            return self._fetch(offset, stop_offset, limit, is_first)

    def fetch_known(self, offset: int, stop_offset: int, limit: int, *, is_first: bool) -> Fetched:
        """Fetch as `fetch`, of what was checked before. Raises NotCheckedError where that is not enough, OSError."""
        if not self._lock.acquire(blocking=False):
            raise NotCheckedError("another thread is at it")
        try:
            self._gate.is_open = False
            return self._fetch(offset, stop_offset, limit, is_first)
        finally:
            self._gate.is_open = True
            self._lock.release()

    def needs_check(self, offset: int, size: int) -> bool:
        """Return whether a fetch of `size` bytes at `offset` would have to check some of them first. Raises OSError."""
        if all(segment.is_complete for segment in self._segments[self._segment_at(offset) :]):
            return False
        try:
            self.fetch_known(offset, MAX_OFFSET, size, is_first=False)
        except NotCheckedError:
            return True
        return False

    def check_ahead(self, offset: int, size: int) -> None:
        """Check what a consumer that has read up to `offset` asks for next. Raises OSError."""
        self.fetch(offset, MAX_OFFSET, size, is_first=False)

    def _fetch(self, offset: int, stop_offset: int, limit: int, is_first: bool) -> Fetched:
        ranges: list[FileRange] = []
        room = limit
        reached = offset
        for good in self._good(offset, stop_offset):
            size, behind = good.end - good.start, good.next_offset
            is_cut = size > room
            if is_cut:
                size, behind = self._cut(good, room, must=is_first and not ranges)
            if size:
                _add(ranges, FileRange(good.log, good.start, size))
                reached = max(reached, behind)
            room -= size
            if is_cut or room <= 0:
                break
        return Fetched(tuple(ranges), reached)

    def _good(self, offset: int, stop_offset: int) -> Iterator[SendableRange]:
        """Yield what may be sent, from the batch that reaches `offset`, before the batch that holds `stop_offset`."""
        for segment in self._segments[self._segment_at(offset) :]:
            if segment.base_offset >= stop_offset or (self._stop is not None and offset >= self._stop):
                return
            log = self._open(segment)
            for good in self._good_of(segment, log, offset, stop_offset):
                yield good
                offset = max(offset, good.next_offset)

    def _segment_at(self, offset: int) -> int:
        """Return which segment is the one that has an offset, the first one for those before it."""
        return max(0, bisect_right(self._segments, offset, key=lambda each: each.base_offset) - 1)

    def _good_of(
        self, segment: CheckedSegment, log: KeptFile, offset: int, stop_offset: int
    ) -> Iterator[SendableRange]:
        position = segment.position_of(log, offset)
        is_behind_damage = False
        for piece in segment.pieces(log, position):
            start = max(piece.start, position)
            if piece.damage is not None:
                is_behind_damage = self._on_damage is not OnDamage.SERVE
                instead = self._instead(segment, piece, self._end_of_log)
                if instead is not None:
                    yield from instead.between(max(offset, piece.lowest), stop_offset)
                    continue
                if self._on_damage is OnDamage.STOP and self._stops_at(segment, piece, self._end_of_log):
                    return
                self._report(segment, piece, self._end_of_log)
                if self._on_damage is not OnDamage.SERVE or piece.next_offset >= self._end_of_log:
                    continue
            if is_behind_damage:
                start = max(start, segment.position_in(log, piece, offset))
            if piece.next_offset > stop_offset:
                end = max(start, segment.position_of(log, stop_offset))
                if end > start:
                    yield SendableRange(segment, log, start, end, stop_offset)
                return
            if start < piece.end:
                yield SendableRange(segment, log, start, piece.end, piece.next_offset)

    def _cut(self, good: SendableRange, room: int, *, must: bool) -> tuple[int, int]:
        """Return how many of the bytes to send where not all fit, and the offset behind them.

        They end with a batch where one ends not long before; else a batch is cut, but for the first one of all.
        """
        segment, log, start, _, _ = good
        piece = segment.piece_at(log, start)
        if piece is None or piece.damage is not None:
            return (max(0, room), piece.next_offset if piece else 0)
        mark = bisect_right(piece.positions, start + room) - 1
        if mark >= 0 and piece.positions[mark] > start:
            return piece.positions[mark] - start, piece.offsets[mark]
        entry = log.entry_at(start, log.size)
        if entry.status != BLOCK_FULL:
            return 0, 0
        size = entry.size if must else 0
        if size == 0 and room < entry.size:
            return 0, 0
        return max(size, min(room, piece.end - start)), entry.last_offset + 1

    def _instead(self, segment: CheckedSegment, piece: Piece, end: int) -> ReplacementBatches | None:
        """Return what another node's copy has in place of damage inside the log; None if there is nothing."""
        if self._on_damage is OnDamage.SERVE or piece.next_offset >= end:
            return None
        key = (segment.segment.log_path, piece.start)
        if key not in self._copied:
            if not self._gate.is_open:
                raise NotCheckedError("the other copies have not been looked at yet")
            following = self._entry_after(segment, piece) if self._others else None
            found = following and first_that_has(piece.lowest, following.last_offset, self.log, self._others)
            self._copied[key] = found
            if found is not None:
                self._report(segment, piece, end, f"sent from the copy {found.copy.log.path}")
        return self._copied[key]

    def _entry_after(self, segment: CheckedSegment, piece: Piece) -> Entry | None:
        """Return the first valid batch behind damage."""
        position = piece.end
        for following in self._segments[self._segments.index(segment) :]:
            log = self._open(following)
            for later in following.pieces(log, position):
                if later.damage is None:
                    return log.entry_at(later.start, log.size)
            position = 0
        return None

    @cached_property
    def _others(self) -> list[Self]:
        """The copies of other nodes, of which only good bytes are taken."""
        return [
            type(self)(replica, self.topic_id, self._files, OnDamage.SKIP, lambda _line: None, gate=self._gate)
            for replica in self._copies()
        ]

    def between(self, start: int, stop: int) -> list[SendableRange] | None:
        """Return its bytes from the batch that reaches offset `start` on, before the batch that holds `stop`.

        None where it does not have all of them. Raises OSError.
        """
        is_inside = self.log_start_offset <= start and stop < self.end_offset
        return list(self._good(start, stop)) if is_inside and not self._has_damage(start, stop) else None

    def _has_damage(self, start: int, stop: int) -> bool:
        """Return whether some of the offsets from `start` to `stop` may have been in damage."""
        at = self._segment_at(start)
        is_behind_damage = False
        for segment in self._segments[at:]:
            log = self._open(segment)
            for piece in segment.pieces(log, segment.position_of(log, start)):
                if piece.lowest > stop or (is_behind_damage and piece.damage is None and piece.lowest > start):
                    return is_behind_damage
                is_behind_damage = piece.damage is not None
        return is_behind_damage

    def _stops_at(self, segment: CheckedSegment, piece: Piece, end: int) -> bool:
        """Note damage inside the log, where serving ends; what follows the last batch is none."""
        if piece.next_offset >= end:
            return False
        self._report(segment, piece, end)
        if self._stop is None or piece.next_offset < self._stop:
            self._stop = piece.next_offset
        return True

    def _report(self, segment: CheckedSegment, piece: Piece, end: int, instead: str = "") -> None:
        damage = piece.damage
        if damage is None or piece.next_offset >= end:
            return
        key = (segment.segment.log_path, damage.position)
        if key not in self._reported:
            self._reported.add(key)
            consequence = instead or f"{CONSEQUENCES[self._on_damage]} {piece.next_offset}"
            if self._others and not instead and self._on_damage is not OnDamage.SERVE:
                consequence += ", for no other copy has these batches whole"
            self._say(f"{damage_text(segment.segment.log_path, damage)}: {consequence}")


def _add(ranges: list[FileRange], more: FileRange) -> None:
    """Add a range, as one with the last where it goes on there."""
    last = ranges[-1] if ranges else None
    if last is not None and last.file is more.file and last.start + last.size == more.start:
        ranges[-1] = FileRange(last.file, last.start, last.size + more.size)
    else:
        ranges.append(more)


@dataclass(frozen=True, slots=True)
class ReplacementBatches:
    """A copy that has the batches which damage has destroyed: those before the one whose last offset is `stop`."""

    copy: ServedLog
    stop: int

    def between(self, start: int, stop: int) -> Iterator[SendableRange]:
        """Yield its bytes from the batch that reaches `start`, before the batch that holds `stop`. Raises OSError."""
        yield from self.copy.between(start, min(stop, self.stop)) or ()


def first_that_has(start: int, stop: int, log: PartitionLog, copies: Iterable[ServedLog]) -> ReplacementBatches | None:
    """Return the first copy that has all batches from offset `start` on, before the one whose last offset is `stop`.

    The same leader epochs must have written both logs there, for then they have the same records (KIP-101), and the
    batches must not begin before or end behind these offsets. Raises OSError.
    """
    for copy in copies:
        with suppress(KdumpError, OSError):
            found = copy.between(start, stop)
            if found and _epochs(log, start, stop) == _epochs(copy.log, start, stop) and _fits(found, start, stop):
                return ReplacementBatches(copy, stop)
    return None


def _epochs(log: PartitionLog, start: int, stop: int) -> list[tuple[int, int]]:
    """Return the leader epochs in force from one offset to another, each with the offset from which on it is."""
    entries = [entry for entry in log.leader_epochs if entry.start_offset <= stop]
    before = [(entry.epoch, start) for entry in entries if entry.start_offset <= start]
    return before[-1:] + [(entry.epoch, entry.start_offset) for entry in entries if entry.start_offset > start]


def _fits(found: Iterable[SendableRange], start: int, stop: int) -> bool:
    for good in found:
        for part in scan(good.log, good.segment.base_offset, good.start, good.end, whole=False):
            if isinstance(part, Damage):
                return False
            block, first, last = part
            if any(0 <= each < start for each in block.base_offset[first:last]) or block.last_offset[last - 1] >= stop:
                return False
    return True
