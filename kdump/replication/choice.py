"""What each choice of leader does to the other copies of a partition."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from kdump.replication.compacted import KeyRecord
from kdump.replication.compare import Compared, OffsetRange
from kdump.replication.front import LostFront
from kdump.replication.loss import Bounds, Loss, LostKeys, LostRange, Shared, Span, lost_range
from kdump.replication.lost_keys import PartitionKeys
from kdump.replication.rows import first_batch_from
from kdump.replication.truncation import LoadedLog, Truncation, follow
from kdump.storage.partition import PartitionLog
from kdump.topics.partition_state import PartitionState, Standing

NO_LOG = LoadedLog(0, 0, 0, ())
"""The log of a broker that has no directory of a partition: it makes an empty one."""


@dataclass(frozen=True, slots=True)
class Replica:
    """A replica of a partition. `number` is that of its copy in the comparison, None where the disk has none.

    `log` is what comes of loading it, None where its broker cannot load it. `damaged` are its batches that fail their
    CRC, `front` is what was lost before its first segment.
    """

    broker: int | None
    number: int | None
    log: LoadedLog | None
    directory: PartitionLog | None
    damaged: tuple[OffsetRange, ...] = ()
    front: LostFront | None = None

    @property
    def loaded(self) -> LoadedLog:
        """What comes of loading one that its broker can load."""
        assert self.log is not None
        return self.log


@dataclass(frozen=True, slots=True)
class Followed:
    """What a follower does. `cut_at` is the base offset of the first batch that goes (None: no batch goes).

    `restarts_at` is the offset at which it starts over, having deleted everything; None where it keeps its log.
    """

    replica: Replica
    cut_at: int | None
    restarts_at: int | None


@dataclass(frozen=True, slots=True)
class Choice:
    """One replica leads. `standing` says why it may, None without the cluster's metadata.

    `blocked_at` is the offset of the first damaged batch that it would serve: followers and consumers stop there.
    """

    leader: Replica
    standing: Standing | None
    followers: tuple[Followed, ...]
    loss: Loss
    blocked_at: int | None = None


def choices(
    replicas: Sequence[Replica], compared: Compared, state: PartitionState | None, keys: PartitionKeys | None = None
) -> tuple[Choice, ...]:
    """Say of each replica that can be loaded what its leading does to the others. Raises OSError.

    `keys` are those of a compacted topic, of which a copy may lack offsets by right.
    """
    return tuple(_choice(leader, replicas, compared, state, keys) for leader in replicas if leader.log is not None)


def _choice(
    leader: Replica,
    replicas: Sequence[Replica],
    compared: Compared,
    state: PartitionState | None,
    keys: PartitionKeys | None,
) -> Choice:
    followers: list[Followed] = []
    lost: list[LostRange] = []
    others = [each for each in replicas if each is not leader and each.log is not None and each.directory is not None]
    others.sort(key=lambda each: (-each.loaded.log_end, each.loaded.log_start, each.number or 0))
    latest = keys.lost(leader.number, [each.number for each in others if each.number is not None]) if keys else None
    counted: list[tuple[int, Sequence[Span]]] = []  # copies whose loss is counted, and where it is
    for replica in others:
        followed, truncation = _follows(leader, replica)
        followers.append(followed)
        assert replica.directory is not None
        assert replica.number is not None
        cut = _lost_from(leader, replica, truncation, compared)
        gaps = () if keys else _gaps(leader, replica, cut, compared)
        tail = () if cut is None else (Span(cut, replica.loaded.log_end),)
        known = [Shared(spans, compared.pair(replica.number, number).only_first) for number, spans in counted]
        counted.append((replica.number, (*gaps, *tail)))
        bounds = _bounds(replica, replicas, compared, state)
        records = None if latest is None else latest[replica.number]
        kept = _kept_keys(replica, records, cut, bounds)
        cut_keys = None if records is None else LostKeys.of([each for each in records if _is_cut(each, cut)], bounds)
        lose = partial(lost_range, replica.directory, replica.number, bounds=bounds, known=known)
        found = (lose(gaps, is_cut=False), kept, lose(tail, log_start=replica.loaded.log_start, keys=cut_keys))
        lost += [each for each in found if each is not None]
    followers.sort(key=lambda each: (each.replica.broker is None, each.replica.broker or 0, each.replica.number or 0))
    standing = state.standing(leader.broker) if state is not None and leader.broker is not None else None
    return Choice(leader, standing, tuple(followers), Loss(tuple(lost), keys is not None), _blocked_at(leader))


def _is_cut(record: KeyRecord, cut: int | None) -> bool:
    return cut is not None and record.offset >= cut


def _kept_keys(
    replica: Replica, records: Sequence[KeyRecord] | None, cut: int | None, bounds: Bounds
) -> LostRange | None:
    """Return the latest records that a follower keeps below its cut, and the leader has nothing as late of the keys."""
    kept = [each for each in records or () if not _is_cut(each, cut)]
    if not kept:
        return None
    assert replica.directory is not None
    assert replica.number is not None
    spans = (Span(kept[0].offset, kept[-1].offset + 1),)
    keys = LostKeys.of(kept, bounds)
    return lost_range(replica.directory, replica.number, spans, bounds, is_cut=False, keys=keys)


def _follows(leader: Replica, follower: Replica) -> tuple[Followed, Truncation]:
    assert follower.directory is not None
    truncation = follow(leader.loaded, follower.loaded)
    cut_at = None
    if truncation.offset is not None:
        batch = first_batch_from(follower.directory, truncation.offset)
        first = batch.base_offset if batch and batch.base_offset >= 0 else truncation.offset
        cut_at = first if batch is not None and first < follower.loaded.log_end else None
    return Followed(follower, cut_at, truncation.restarts_at), truncation


def _lost_from(leader: Replica, follower: Replica, truncation: Truncation, compared: Compared) -> int | None:
    """Return the first offset of what the follower loses and the leader has not; None where it loses nothing."""
    if truncation.offset is None:
        return None
    if leader.number is None or follower.number is None:
        return follower.loaded.log_start
    pair = compared.pair(leader.number, follower.number)
    return max(truncation.offset, min(pair.same_up_to, leader.loaded.log_end), follower.loaded.log_start)


def _gaps(leader: Replica, follower: Replica, cut: int | None, compared: Compared) -> tuple[Span, ...]:
    """Return what the follower keeps below its cut and the leader has not: the leader's log has no such offsets.

    Or it has another history there, and one of the two does not know: it has lost its leader epochs.
    """
    if leader.number is None or follower.number is None:
        return ()
    pair = compared.pair(leader.number, follower.number)
    start = max(leader.loaded.log_start, follower.loaded.log_start)
    stop = min(leader.loaded.log_end, follower.loaded.log_end if cut is None else cut)
    found = []
    if leader.front is not None:
        # A follower moves its log start to the leader's.
        front = Span(max(leader.front.start, follower.loaded.log_start), min(leader.loaded.log_start, stop))
        found += [front] if front.start < front.stop else []
    for lacking in pair.only_second:
        at = bisect_right(pair.only_first, lacking.last, key=lambda each: each.first)
        other = pair.only_first[at - 1] if at and pair.only_first[at - 1].last >= lacking.first else None
        counts = other is None or not (other.is_damaged or lacking.is_relabelled)
        span = Span(max(lacking.first, start), min(lacking.last + 1, stop))
        if counts and not lacking.is_damaged and span.start < span.stop:
            found.append(span)
    return tuple(found)


def _bounds(replica: Replica, replicas: Sequence[Replica], compared: Compared, state: PartitionState | None) -> Bounds:
    """Return how far the records of a copy were committed, by checkpoints and ISR of all that share its history."""
    committed = 0
    for each in replicas:
        if each.log is not None and each.log.high_watermark is not None:
            committed = max(committed, min(each.log.high_watermark, _shared(replica, each, compared)))
    if state is None:
        return Bounds(committed)
    in_sync = [each for each in replicas if each.broker in state.isr and each.number is not None]
    possible = min((_shared(replica, each, compared) for each in in_sync), default=None)
    return Bounds(committed, possible, state.unclean_epoch)


def _shared(replica: Replica, other: Replica, compared: Compared) -> int:
    """Return up to which offset another replica has the same records."""
    if other.log is None:
        return 0
    if replica is other:
        return other.log.log_end
    assert other.number is not None
    assert replica.number is not None
    return min(compared.pair(replica.number, other.number).same_up_to, other.log.log_end)


def _blocked_at(leader: Replica) -> int | None:
    log = leader.loaded
    served = (each.first for each in leader.damaged if each.last >= log.log_start and each.first < log.log_end)
    return next(served, None)
