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
    ],
)
def test_what_is_cut(leader: LoadedLog, follower: LoadedLog, cut: int | None, restarts_at: int | None) -> None:
    assert follow(leader, follower) == Truncation(cut, restarts_at)


def test_what_a_leader_notes_when_its_term_begins_hides_no_tail() -> None:
    """Without the new epoch the leader's latest one would be the follower's, and its end the leader's."""
    assert follow(log(80, (0, 0), (1, 50)), log(100, (0, 0), (1, 50))).offset == 80
