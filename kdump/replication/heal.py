"""Put back what one copy of a partition lacks from others that have it, byte for byte.

The result is equal to the other copies up to an offset at which a batch ends. Batches are taken, not files: the bounds
of segments need not be the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kdump.disk.reading import status_of
from kdump.errors import RefusedError
from kdump.formats.checkpoints import EpochEntry
from kdump.formats.printable import command_line
from kdump.formats.words import offset_range
from kdump.replication.healed_segments import FoundBatch, HealedSegments, NewSegment, Taken
from kdump.replication.proof import Proof, Unproved
from kdump.replication.rows import BatchRows, walk
from kdump.storage.partition import PartitionLog

MAX_LISTED = 1000
"""Ranges that are told apart; later ones are counted with the last."""


@dataclass(frozen=True, slots=True)
class Peer:
    """Another copy. Only offsets from `start` up to `stop` (absolute, exclusive) are taken from it; None: no limit.

    Above `stop` a broker is writing, below `start` a cleaner has been.
    """

    log: PartitionLog
    stop: int | None = None
    start: int = 0


class Divergence(NamedTuple):
    """From `offset` on the copy has records of leader epoch `epoch` where another one has those of `other_epoch`."""

    offset: int
    epoch: int
    other_epoch: int


@dataclass(frozen=True, slots=True)
class Healing:
    """What makes a copy whole: the segments that change, and what they take from where.

    `lacking` are offsets (inclusive) that no copy has. `end` is the log end offset afterwards. `epochs` are the leader
    epochs that the batches show. `diverged` says where the copy leaves the others' history, None where it does not, and
    `first_damaged` where its first damaged batch was. `gone` are the base offsets of segments that go: nothing in them
    is valid, and a batch that is taken reaches over them, or they begin above the end. `last_damaged` is the last
    offset of the damaged batches after the end, which no copy has; None without any. `before` is the first offset that
    another copy has below the start; None where none has. `unproved` is what nothing shows to be of this partition.
    """

    segments: tuple[NewSegment, ...]
    taken: tuple[Taken, ...]
    lacking: tuple[tuple[int, int], ...]
    start: int
    end: int
    epochs: tuple[EpochEntry, ...]
    diverged: Divergence | None = None
    first_damaged: int | None = None
    gone: tuple[int, ...] = ()
    last_damaged: int | None = None
    before: int | None = None
    unproved: tuple[Unproved, ...] = ()


def heal(
    log: PartitionLog,
    peers: Sequence[Peer],
    terms: Sequence[EpochEntry] = (),
    *,
    has_gaps: bool = False,
    start: int | None = None,
) -> Healing:
    """Find what a copy lacks and the first of its peers that has it valid.

    `terms` are the leader epochs that the copy's own file has. `has_gaps`: offsets may be empty by right (the log is
    compacted). `start` is where the log began (absolute), None for its first segment. Raises RefusedError where a peer
    has an older history or valid batches of the same leader epoch that differ, OSError.
    """
    merge = _Merge(log, peers, terms, has_gaps=has_gaps, start=start)
    merge.run()
    return merge.result()


class _Cursor:
    """The valid batches of a copy, one after the other. `newest_term` is its last known leader epoch, -1 for none."""

    def __init__(self, log: PartitionLog, start: int = 0, stop: int | None = None) -> None:
        self.path = log.path
        self.newest_term = max((entry.epoch for entry in log.known_epochs), default=-1)
        self.first_damaged: int | None = None
        self.last_damaged = -1
        self._batches = self._valid(log, start, stop)
        self.head = next(self._batches, None)

    def _valid(self, log: PartitionLog, start: int, stop: int | None) -> Iterator[FoundBatch]:
        for rows in walk(log, start):
            for row in range(rows.length):
                if stop is not None and rows.last_offset[row] >= stop:
                    return
                if rows.last_offset[row] < start or 0 <= rows.base_offset[row] < start:
                    continue  # also a batch across `start`, of which a cleaner may have left a part
                if rows.valid[row]:
                    yield _batch(rows, row)
                    continue
                self.last_damaged = rows.last_offset[row]
                if self.first_damaged is None:
                    self.first_damaged = rows.base_offset[row]

    def step(self) -> None:
        self.head = next(self._batches, None)

    def close(self) -> None:
        self._batches = iter(())
        self.head = None


def _is_older(one: _Cursor, other: _Cursor) -> bool:
    """Return whether a copy that parts from another one here has the older history.

    The copy of the later leader is right, wherever they part: in between an older leader may have had a higher epoch.
    """
    assert one.head is not None
    assert other.head is not None
    last, other_last = (max(each.newest_term, each.head.epoch) for each in (one, other) if each.head is not None)
    return one.head.epoch < other.head.epoch if last == other_last else last < other_last


def _batch(rows: BatchRows, row: int) -> FoundBatch:
    last = rows.last_offset[row]
    return FoundBatch(
        rows.base_offset[row] if rows.base_offset[row] >= 0 else last,
        last,
        rows.leader_epoch[row],
        rows.crc[row],
        rows.size[row],
        max(1, rows.count[row]),
        rows.path,
        rows.position[row],
    )


class _Merge:
    def __init__(
        self,
        log: PartitionLog,
        peers: Sequence[Peer],
        terms: Sequence[EpochEntry],
        *,
        has_gaps: bool,
        start: int | None,
    ) -> None:
        self._log = log
        self._terms = terms
        self._own = _Cursor(log)
        self._peers = [_Cursor(peer.log, peer.start, peer.stop) for peer in peers]
        self._has_gaps = has_gaps
        self._bases = [segment.base_offset for segment in log.segments]
        self._segments = HealedSegments(log)
        self._taken: list[Taken] = []
        self._lacking: list[tuple[int, int]] = []
        self._epochs: list[EpochEntry] = []
        self._diverged: Divergence | None = None
        self._newest_taken = -1
        self._proof = Proof(log, [peer.log for peer in peers])
        self._before = min((peer.head.base for peer in self._peers if peer.head is not None), default=None)
        self._start = self._first(start)
        self._expected = self._start

    def _first(self, start: int | None) -> int | None:
        """Return where the log is to begin: with its own first segment, or the first batch there is from `start` on."""
        if not self._bases:
            return None
        if start is None or start >= self._bases[0]:
            return self._bases[0]
        bases = [self._bases[0]]
        for peer in self._peers:
            while peer.head is not None and peer.head.last < start:
                peer.step()
            if peer.head is not None:
                bases.append(peer.head.base)
        return min(bases)

    def run(self) -> None:
        while True:
            batch, source = self._next()
            if batch is None:
                return
            if self._diverged is not None and source is not self._own and self._own.head is None:
                return  # the end of an older history, which its broker will cut
            if self._expected is not None and batch.base > self._expected and not self._has_gaps:
                self._lacking.append((self._expected, batch.base - 1))
            if self._start is None:
                self._start = batch.base
            if batch.epoch >= 0 and (not self._epochs or self._epochs[-1].epoch != batch.epoch):
                self._epochs.append(EpochEntry(batch.epoch, batch.base))
            if source is self._own:
                self._check_own(batch)
            else:
                self._newest_taken = max(self._newest_taken, batch.epoch)
            self._expected = batch.last + 1
            following = self._own.head if source is not self._own else None
            self._segments.add(batch, is_own=source is self._own, own_follows=following)
            if source is not self._own:
                self._note(source.path, batch)
                self._proof.takes(batch, source.path)

    def result(self) -> Healing:
        start = self._start or 0
        end = self._end(start)
        self._segments.drop_after(end)
        return Healing(
            self._segments.changed(),
            tuple(self._taken),
            tuple(self._lacking[:MAX_LISTED]),
            start,
            end,
            tuple(self._epochs),
            self._diverged,
            self._own.first_damaged,
            tuple(self._segments.gone),
            self._own.last_damaged if self._own.last_damaged >= end else None,
            self._before if self._before is not None and self._before < start else None,
            tuple(self._proof.unproved()),
        )

    def _end(self, start: int) -> int:
        """Return where the log ends: after its last batch, or with an empty segment that cleaned ones come before."""
        end = start if self._expected is None else self._expected
        is_empty = self._has_gaps and bool(self._bases) and not status_of(self._log.segments[-1].log_path).size
        return max(end, self._bases[-1]) if is_empty else end

    def _next(self) -> tuple[FoundBatch | None, _Cursor]:
        """Return the next batch of the log, and whose it is, after all cursors have gone past the one before."""
        for cursor in (self._own, *self._peers):
            while cursor.head is not None and self._expected is not None and cursor.head.last < self._expected:
                cursor.step()
        own = self._own.head
        bases = [cursor.head.base for cursor in (self._own, *self._peers) if cursor.head is not None]
        if not bases:
            return None, self._own
        lowest = min(bases)
        chosen = self._own if own is not None and own.base == lowest else None
        for peer in self._peers:
            if peer.head is None or peer.head.base != lowest:
                continue
            if chosen is None:
                chosen = peer
                self._check_not_older(peer.head, peer)
            elif chosen.head is not None and chosen.head.identity != peer.head.identity:
                right = self._conflict(chosen, peer)
                (peer if right is chosen else chosen).step()
                chosen = right
            elif chosen is self._own:
                self._proof.shares(peer.path)
        assert chosen is not None
        batch = chosen.head
        assert batch is not None
        if self._expected is not None and batch.base < self._expected:
            raise RefusedError(
                f"{chosen.path}: its batch {offset_range(batch.base, batch.last)} overlaps the batch before it in"
                " another copy."
            )
        return batch, chosen

    def _conflict(self, chosen: _Cursor, peer: _Cursor) -> _Cursor:
        """Say which of two valid batches of the same offset is right: the copy's own, or that of a newer history.

        Raises RefusedError where nothing says so.
        """
        mine, other = chosen.head, peer.head
        assert mine is not None
        assert other is not None
        if mine._replace(epoch=0).identity == other._replace(epoch=0).identity:
            term = max((entry.epoch for entry in self._terms if entry.start_offset <= mine.base), default=-1)
            if term in (mine.epoch, other.epoch):  # no CRC covers the leader epoch, but leader-epoch-checkpoint has it
                return chosen if term == mine.epoch else peer
        if mine.epoch == other.epoch:
            raise RefusedError(
                f"{peer.path} and {chosen.path} have different valid records from offset {other.base} on: kdump cannot"
                f" know which are right (leader epochs {other.epoch} and {mine.epoch}).{_shown(peer, chosen)}"
            )
        is_older = _is_older(peer, chosen)
        if chosen is not self._own:
            (peer if is_older else chosen).close()  # from here on it has another history
            return chosen if is_older else peer
        if is_older and len(self._peers) > 1:
            peer.close()  # the others may have what is missing
            return chosen
        if is_older:
            raise RefusedError(
                f"{peer.path} has an older history: leader epoch {other.epoch} at offset {other.base}, where"
                f" {chosen.path} has {mine.epoch}.{_shown(peer, chosen)}"
            )
        self._diverged = self._diverged or Divergence(mine.base, mine.epoch, other.epoch)
        peer.close()
        return chosen

    def _check_own(self, batch: FoundBatch) -> None:
        """Refuse to put records of a newer leader before those that the copy has of an older one."""
        if 0 <= batch.epoch < self._newest_taken:
            raise RefusedError(
                f"{self._own.path} has records of leader epoch {batch.epoch} from offset {batch.base} on, and the other"
                f" copy has leader epoch {self._newest_taken} before that: the copies diverge inside the damaged range."
            )

    def _check_not_older(self, batch: FoundBatch, peer: _Cursor) -> None:
        """Refuse a batch of a leader whose term was over by what this copy's batches and its epoch file say.

        A term in which nothing was written does not count where the other copy knows of a later leader.
        """
        terms = [entry.epoch for entry in self._terms if entry.start_offset <= batch.base]
        if peer.newest_term > max(terms, default=-1):
            terms = []
        newest = max([*terms, self._epochs[-1].epoch if self._epochs else -1])
        if 0 <= batch.epoch < newest:
            raise RefusedError(
                f"{peer.path} has an older history: leader epoch {batch.epoch} at offset {batch.base}, after {newest}."
            )

    def _note(self, path: str, batch: FoundBatch) -> None:
        last = self._taken[-1] if self._taken else None
        is_next = last is not None and (last.last + 1 == batch.base or self._has_gaps) and last.path == path
        if last is not None and (is_next or len(self._taken) >= MAX_LISTED):
            self._taken[-1] = last._replace(
                last=batch.last, records=last.records + batch.records, size=last.size + batch.size
            )
        else:
            self._taken.append(Taken(path, batch.base, batch.last, batch.records, batch.size))


def fitting_epochs(
    own: Sequence[EpochEntry], others: Sequence[Sequence[EpochEntry]], healing: Healing
) -> list[EpochEntry]:
    """Return the first list of leader epochs that fits the batches of a healed log: the copy's own, or another's.

    Of another's what starts at the end or later is left out. Where none fits, it is what the batches themselves show.
    """
    for number, entries in enumerate((own, *others)):
        end = healing.end if number else healing.end + 1
        kept = [entry for entry in entries if entry.start_offset < end]
        if kept and _fits(kept, healing):
            return kept
    return list(healing.epochs)


def _fits(entries: Sequence[EpochEntry], healing: Healing) -> bool:
    starts = {entry.epoch: entry.start_offset for entry in entries}
    for number, shown in enumerate(healing.epochs):
        start = starts.get(shown.epoch)
        if start is None or start > shown.start_offset or (number and start != shown.start_offset):
            return False
    epochs = [entry.epoch for entry in entries]
    return epochs == sorted(set(epochs))


def _shown(one: _Cursor, other: _Cursor) -> str:
    """Return where to see how two copies differ."""
    return f" See {command_line('kdump', 'replicas', one.path, other.path)}"
