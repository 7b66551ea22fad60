"""What a follower cuts: by the rules of Kafka's fetcher, from epochs and log ends alone."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kdump.formats.checkpoints import EpochEntry
from kdump.replication.truncation import LoadedLog, Truncation, follow

Entries = tuple[tuple[int, int], ...]


def log(end: int, *epochs: tuple[int, int], start: int = 0, mark: int | None = None) -> LoadedLog:
    return LoadedLog(start, end, start, tuple(EpochEntry(*entry) for entry in epochs), mark)


@pytest.mark.parametrize(
    ("leader", "follower", "cut", "restarts_at"),
    [
        (log(100, (0, 0)), log(100, (0, 0)), None, None),
        (log(100, (0, 0)), log(80, (0, 0)), None, None),
        (log(80, (0, 0)), log(100, (0, 0)), 80, None),
        # two histories from 50 on, either way round
        (log(100, (0, 0), (1, 50)), log(70, (0, 0)), 50, None),
        (log(70, (0, 0)), log(100, (0, 0), (1, 50)), 50, None),
        # an epoch that the leader has never heard of: the follower asks again with the one before it
        (log(100, (0, 0), (3, 60)), log(120, (0, 0), (1, 40), (2, 90)), 40, None),
        (log(100, (0, 0), (2, 60)), log(120, (0, 0), (1, 80)), 60, None),
        # entries at the log end, where a leader has appended nothing
        (log(100, (0, 0), (1, 100)), log(100, (0, 0)), None, None),
        (log(100, (0, 0)), log(100, (0, 0), (1, 100)), None, None),
        # the follower led a term in which it appended nothing, and the leader has a term that the follower has not
        (log(34, (0, 0), (2, 12), (4, 27)), log(33, (0, 0), (2, 12), (3, 27), (6, 33)), 27, None),
        # no epochs: the follower cuts to its high watermark, 0 without one
        (log(100, (0, 0)), log(100, mark=60), 60, None),
        (log(100, (0, 0)), log(100), 0, None),
        (log(40, (0, 0)), log(100, mark=60), 40, None),
        # before the leader's log start: everything goes
        (log(850, (0, 535), start=535), log(150, (0, 0)), None, 535),
        (log(150, (0, 0)), log(850, (0, 535), start=535), 150, 150),
        (log(0), log(133, (0, 0)), 0, None),
        # a mark above the end, or below the log start, moves nothing
        (log(100, (0, 0)), log(60, mark=70), None, None),
        (log(100, (0, 0)), log(60, mark=60), None, None),
        (log(100, (0, 0)), log(60, start=20, mark=10), 20, None),
        (log(100, (0, 0)), log(60, start=20), 20, None),
        (log(0), log(1), 0, None),
        # no epochs, and the end is out of the leader's range
        (log(30, (0, 0)), log(60, mark=50), 30, None),
        (log(50, (0, 0)), log(60, mark=50), 50, None),
        (log(90, (0, 80), start=80), log(60, mark=50), 50, 80),
        (log(90, (0, 50), start=50), log(60, mark=50), 50, None),
        (log(90, (0, 51), start=51), log(60, mark=50), 50, 51),
        (log(30, (0, 0)), log(60, start=40, mark=50), 30, 30),
        # epoch 0 is an epoch
        (log(100, (1, 0)), log(60, (0, 0)), 0, None),
        (log(100, (1, 20), start=20), log(60, (0, 0)), 20, None),
        # the end of the leader's epoch is the follower's end: nothing goes
        (log(100, (0, 0), (1, 70)), log(70, (0, 0)), None, None),
        (log(100, (0, 0), (1, 70)), log(71, (0, 0)), 70, None),
        (log(100, (0, 0), (1, 70)), log(69, (0, 0)), None, None),
        # the leader's log start is the follower's end, or above it
        (log(100, (0, 70), start=70), log(70, (0, 0)), None, None),
        (log(100, (0, 70), start=70), log(69, (0, 0)), None, 70),
        # an epoch that the leader has not, and none before it either
        (log(100, (5, 0)), log(60, (2, 0), (3, 20)), 0, None),
        (log(100, (5, 10), start=10), log(60, (2, 0), (3, 20)), 10, None),
        (log(100, (1, 0), (5, 50)), log(60, (2, 0), (3, 20)), 0, None),
        (log(100, (1, 0), (4, 30)), log(60, (1, 0), (2, 10), (3, 20)), 10, None),
        (log(100, (1, 0), (2, 15), (4, 30)), log(60, (1, 0), (2, 10), (3, 20)), 20, None),
        (log(100, (1, 0), (2, 5), (4, 15)), log(60, (1, 0), (2, 10), (3, 20)), 15, None),
        # an epoch that begins at the follower's end goes, and the one before it counts
        (log(100, (0, 0), (1, 40)), log(60, (0, 0), (3, 60)), 40, None),
        (log(100, (0, 0), (1, 60)), log(60, (0, 0), (3, 60)), None, None),
        # a cut at the follower's first segment keeps it, one before it does not
        (log(100, (0, 0), (1, 50)), log(70, (0, 50), start=50), 50, None),
        (log(100, (0, 0), (1, 49)), log(70, (0, 50), start=50), 49, 49),
    ],
)
def test_what_is_cut(leader: LoadedLog, follower: LoadedLog, cut: int | None, restarts_at: int | None) -> None:
    assert follow(leader, follower) == Truncation(cut, restarts_at)


def test_what_a_leader_notes_when_its_term_begins_hides_no_tail() -> None:
    """Without the new epoch the leader's latest one would be the follower's, and its end the leader's."""
    assert follow(log(80, (0, 0), (1, 50)), log(100, (0, 0), (1, 50))).offset == 80


@st.composite
def logs(draw: st.DrawFn) -> LoadedLog:
    """A log of up to 12 offsets; an epoch may begin at its end, or before its log start."""
    base, start, end = sorted(draw(st.tuples(*[st.integers(0, 12)] * 3)))
    numbers = sorted(draw(st.sets(st.integers(0, 6), max_size=4)))
    starts = sorted(draw(st.sets(st.integers(0, end), max_size=len(numbers))))
    epochs = tuple(EpochEntry(*each) for each in zip(numbers, starts, strict=False))
    return LoadedLog(start, end, base, epochs, draw(st.none() | st.integers(0, 14)))


def by_rules(leader: LoadedLog, follower: LoadedLog) -> Truncation:
    """Fetch after fetch, with the epochs as plain dictionaries."""
    leaders = {entry.epoch: entry.start_offset for entry in leader.epochs if entry.start_offset < leader.log_end}
    leaders[99] = leader.log_end
    own = {entry.epoch: entry.start_offset for entry in follower.epochs}
    end, base = follower.log_end, follower.first_base
    cut = restarts_at = None
    to = None if own else min(end, max(follower.log_start, follower.high_watermark or 0))
    while True:
        if to is not None:
            before = end, dict(own)
            if to < end:
                cut, end = to, to
                if to < base:
                    restarts_at, base, own = to, to, {}
            own = {epoch: start for epoch, start in own.items() if start < end}
            if before == (end, own) and own:
                break
        last = max(own, default=None)
        if end < leader.log_start:
            restarts_at, base, end, own, to = leader.log_start, leader.log_start, leader.log_start, {}, None
        elif last is None:
            if end <= leader.log_end:
                break
            to = leader.log_end
        else:
            theirs = max((epoch for epoch in leaders if epoch <= last), default=last)
            their_end = min(start for epoch, start in leaders.items() if epoch > last)
            if theirs == last and their_end >= end:
                break
            mine = max((epoch for epoch in own if epoch <= theirs), default=theirs)
            my_end = min((start for epoch, start in own.items() if epoch > theirs), default=end)
            to = min(my_end, end, their_end if mine == theirs else end)
    return Truncation(cut, restarts_at)


@given(logs(), logs())
@example(log(5, (0, 0), (2, 5)), log(5, (0, 0), (1, 5)))
@example(log(5, (2, 3)), log(5, (1, 2)))
@example(log(5, (0, 0), start=5), log(5, (0, 0)))
@example(log(5, (0, 0)), log(9, (0, 0), start=5))
@example(log(5, (0, 0)), LoadedLog(6, 9, 5, (EpochEntry(0, 0),)))
@example(log(8, start=8), log(3))
@example(log(5, (1, 3)), log(5, (0, 0), (1, 5)))
@example(log(5, (0, 0), (2, 5)), log(6, (0, 0), (2, 4)))
def test_any_two_logs(leader: LoadedLog, follower: LoadedLog) -> None:
    assert follow(leader, follower) == by_rules(leader, follower)
