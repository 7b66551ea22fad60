"""What a follower cuts: by the rules of Kafka's fetcher, from epochs and log ends alone."""

from __future__ import annotations

import pytest

from kdump.formats.checkpoints import EpochEntry
from kdump.replicas.truncation import LoadedLog, Truncation, follow

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
