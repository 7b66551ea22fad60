"""What a follower cuts from its log before it follows a leader: truncation by leader epoch (KIP-101, KIP-279, KIP-595).

Rules of AbstractFetcherThread, UnifiedLog.read and LeaderEpochFileCache, from Kafka 2.7 on (truncation on fetch).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from kdump.formats.checkpoints import EpochEntry
from kdump.storage.leader_epochs import EpochCache, EpochEnd, end_of_epoch


@dataclass(frozen=True, slots=True)
class LoadedLog:
    """A copy once its broker has loaded it. Offsets are absolute.

    `first_base` is the base offset of its first segment, `high_watermark` the checkpoint's, None without an entry.
    """

    log_start: int
    log_end: int
    first_base: int
    epochs: tuple[EpochEntry, ...]
    high_watermark: int | None = None


class Truncation(NamedTuple):
    """Where a follower cuts its log (None: it does not), and the offset at which it starts over (None: it does not).

    A log that starts over is deleted completely: its end is before the leader's log start, or the cut before its own.
    """

    offset: int | None
    restarts_at: int | None = None


def follow(leader: LoadedLog, follower: LoadedLog) -> Truncation:
    """Return what a follower cuts when this leader's term begins, by the fetches that lead to its first append."""
    cache = EpochCache(leader.epochs)
    cache.truncate_from_end(leader.log_end)  # the epoch that the new leader notes there puts out what begins there
    terms = _Terms(cache, leader.log_end)
    own = _Terms(EpochCache(follower.epochs), follower.log_end)
    log = _Follower(follower, own)
    if not own.cache.entries:
        log.truncate(max(follower.log_start, follower.high_watermark or 0))
    while _fetch(leader, terms, log):
        pass
    return Truncation(log.cut, log.restarts_at)


class _Terms:
    """The epochs of a log and its end."""

    def __init__(self, cache: EpochCache, end: int) -> None:
        self.cache = cache
        self.end = end

    def end_of(self, epoch: int) -> EpochEnd:
        """Return where the largest epoch up to `epoch` ends, which is not above all that the log has."""
        return end_of_epoch(self.cache.entries, epoch, self.end)


class _Follower:
    def __init__(self, log: LoadedLog, terms: _Terms) -> None:
        self.terms = terms
        self.cut: int | None = None
        self.restarts_at: int | None = None
        self._first_base = log.first_base

    def truncate(self, offset: int) -> None:
        """Cut everything from `offset` on; LocalLog.truncateTo, UnifiedLog.truncateTo.

        Where that is nothing, an epoch that begins at the log's end goes all the same: a leader may have noted it and
        appended nothing.
        """
        if offset < self.terms.end:
            self.cut = self.terms.end = offset
            if offset < self._first_base:
                self.start_over(offset)
        self.terms.cache.truncate_from_end(self.terms.end)

    def start_over(self, offset: int) -> None:
        """Delete everything and begin at `offset`."""
        self.restarts_at = self._first_base = self.terms.end = offset
        self.terms.cache.clear()


def _fetch(leader: LoadedLog, terms: _Terms, follower: _Follower) -> bool:
    """Let a follower fetch and do what the answer asks for; return whether that changes anything: it asks again."""
    own = follower.terms
    last_epoch = own.cache.latest_epoch
    before = own.end, last_epoch
    if own.end < leader.log_start:  # OFFSET_OUT_OF_RANGE, as fetchOffsetAndTruncate deals with it
        follower.start_over(leader.log_start)
    elif last_epoch < 0:
        follower.truncate(leader.log_end)
    else:
        end = terms.end_of(last_epoch)
        if end.epoch < last_epoch or end.offset < own.end:
            follower.truncate(_diverging(own, end))
    return (own.end, own.cache.latest_epoch) != before


def _diverging(own: _Terms, end: EpochEnd) -> int:
    """Return the offset to cut at, by the epoch and the end that the leader names: getOffsetTruncationState."""
    mine = own.end_of(end.epoch)
    if mine.epoch != end.epoch:
        return min(mine.offset, own.end)
    return min(mine.offset, end.offset, own.end)
