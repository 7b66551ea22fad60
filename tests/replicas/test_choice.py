"""What each choice of leader does to the other copies: where they cut, what goes, what was committed of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kdump.formats.checkpoints import EpochEntry
from kdump.replication.choice import NO_LOG, Choice, Replica, choices
from kdump.replication.compacted import KeyRecord
from kdump.replication.compare import Compared, compare
from kdump.replication.front import LostFront
from kdump.replication.loss import Bounds, LostKeys
from kdump.replication.truncation import LoadedLog
from kdump.storage.partition import PartitionLog
from kdump.topics.partition_state import PartitionState, Standing
from tests.replicas.building import OnDisk, Sent, chain, flip, write_copy


@dataclass
class Copy:
    """A copy of a broker; `log_start`, `log_end` and `epochs` are those of its batches unless they are given."""

    batches: Sequence[Sent]
    mark: int | None = None
    log_start: int | None = None
    log_end: int | None = None
    epochs: Sequence[tuple[int, int]] | None = None
    front: int | None = None
    flipped: Sequence[int] = ()
    broker: int | None = -1
    is_loaded: bool = True

    def on_disk(self) -> OnDisk:
        return OnDisk(list(self.batches), epochs=self.epochs)


@dataclass
class Cluster:
    """Copies of brokers 1, 2, … in this order."""

    root: Path
    copies: Sequence[Copy]
    logs: list[PartitionLog] = field(default_factory=list)
    replicas: list[Replica] = field(default_factory=list)

    def __post_init__(self) -> None:
        for number, copy in enumerate(self.copies):
            folder = write_copy(self.root, number + 1, copy.on_disk())
            for base in copy.flipped:
                data = [each.data for each in copy.batches if each.base < base]
                flip(next(folder.glob("*.log")), sum(map(len, data)) + 70)
            self.logs.append(PartitionLog(str(folder)))
        self.compared: Compared = compare(self.logs)
        for number, (copy, log) in enumerate(zip(self.copies, self.logs, strict=True)):
            first = copy.batches[0].base if copy.batches else 0
            end = copy.batches[-1].end if copy.batches else 0
            loaded = LoadedLog(
                first if copy.log_start is None else copy.log_start,
                end if copy.log_end is None else copy.log_end,
                first,
                tuple(EpochEntry(*each) for each in copy.on_disk().entries()),
                copy.mark,
            )
            self.replicas.append(
                Replica(
                    number + 1 if copy.broker == -1 else copy.broker,
                    number,
                    loaded if copy.is_loaded else None,
                    log,
                    self.compared.contents[number].damaged,
                    None if copy.front is None else LostFront(copy.front, "so"),
                )
            )

    def choices(self, state: PartitionState | None = None) -> list[Choice]:
        return list(choices(self.replicas, self.compared, state))


Lost = tuple[int, int, int, int, int, int, bool]


def lost(choice: Choice) -> list[Lost]:
    """Of each range: copy, first and last offset, records, committed, possible, and whether it is cut."""
    return [
        (each.copy, each.first, each.last, each.records, each.committed, each.possible, each.is_cut)
        for each in choice.loss.ranges
    ]


def cuts(choice: Choice) -> list[tuple[int | None, int | None, int | None]]:
    """Of each follower: its broker, where it cuts, and where it starts over."""
    return [(each.replica.broker, each.cut_at, each.restarts_at) for each in choice.followers]


SHARED = chain(0, (0, 4))
LONG = [*SHARED, *chain(20, (0, 6))]
NEWER = [*SHARED, *chain(20, (1, 3))]


def test_the_longer_one_and_the_shorter_one(tmp_path: Path) -> None:
    long, short = Cluster(tmp_path, [Copy(LONG), Copy(SHARED)]).choices()
    assert (cuts(long), lost(long)) == ([(2, None, None)], [])
    assert (cuts(short), lost(short)) == ([(1, 20, None)], [(0, 20, 49, 30, 0, 0, True)])
    assert (long.standing, long.blocked_at, long.loss.is_compacted) == (None, None, False)
    assert long.leader.broker == 1


def test_what_was_committed_by_the_marks_of_all_that_share_it(tmp_path: Path) -> None:
    """A mark says nothing beyond the history that its copy shares, or its end."""
    for marks, committed in (
        ((None, None, None), 0),
        ((30, None, None), 10),
        ((None, 40, None), 0),
        ((20, 15, None), 0),
        ((None, None, 35), 15),
        ((26, None, 29), 10),
        ((90, None, None), 30),
    ):
        copies = [Copy(LONG, marks[0]), Copy(SHARED, marks[1]), Copy(LONG[:8], marks[2])]
        found = Cluster(tmp_path / str(marks), copies).choices()
        assert lost(found[1])[0][:5] == (0, 20, 49, 30, committed), marks


@pytest.mark.parametrize(
    ("isr", "unclean", "possible"),
    [((1,), -1, 30), ((2,), -1, 0), ((3,), -1, 20), ((1, 3), -1, 20), ((1, 2, 3), -1, 0), ((), -1, 0), ((9,), -1, 0),
     ((2,), 1, 30), ((2,), 0, 0)],
)  # fmt: skip
def test_what_may_have_been_acknowledged_by_all_in_sync(
    tmp_path: Path, isr: tuple[int, ...], unclean: int, possible: int
) -> None:
    cluster = Cluster(tmp_path, [Copy(LONG), Copy(SHARED), Copy(LONG[:8])])
    state = PartitionState((1, 2, 3), isr, 1, unclean_epoch=unclean)
    found = cluster.choices(state)
    assert lost(found[1])[0] == (0, 20, 49, 30, 0, possible, True)
    assert [each.standing for each in found] == [
        Standing.IN_SYNC if broker in isr else Standing.UNCLEAN for broker in (1, 2, 3)
    ]
    cluster.replicas.append(Replica(9, None, NO_LOG, None))
    assert lost(cluster.choices(state)[1])[0] == (0, 20, 49, 30, 0, possible, True)


def test_what_several_copies_lose_counts_once_for_the_longest(tmp_path: Path) -> None:
    found = Cluster(tmp_path, [Copy(LONG[:8]), Copy(LONG), Copy(SHARED), Copy(LONG[:6])]).choices()
    assert lost(found[2]) == [(1, 20, 49, 30, 0, 0, True)]
    assert cuts(found[2]) == [(1, 20, None), (2, 20, None), (4, 20, None)]
    assert lost(found[0]) == [(1, 40, 49, 10, 0, 0, True)]
    other = [*SHARED, *chain(20, (0, 3), mark="x")]
    found = Cluster(tmp_path / "other", [Copy(SHARED), Copy(LONG[:6]), Copy(other)]).choices()
    assert lost(found[0]) == [(2, 20, 34, 15, 0, 0, True), (1, 20, 29, 10, 0, 0, True)]


def test_of_equally_long_ones_the_one_that_begins_first_counts(tmp_path: Path) -> None:
    tail = LONG[5:]
    found = Cluster(tmp_path, [Copy(tail), Copy(LONG), Copy(LONG), Copy(SHARED)]).choices()
    assert [each[:3] for each in lost(found[3])] == [(1, 20, 49)]


def test_histories_part_by_their_epochs(tmp_path: Path) -> None:
    older, newer = Cluster(tmp_path, [Copy(LONG, 45), Copy(NEWER, 25)]).choices()
    assert (cuts(newer), lost(newer)) == ([(1, 20, None)], [(0, 20, 49, 30, 25, 0, True)])
    assert (cuts(older), lost(older)) == ([(2, 20, None)], [(1, 20, 34, 15, 5, 0, True)])


def test_a_cut_inside_a_batch_takes_all_of_it(tmp_path: Path) -> None:
    leader = Copy(SHARED, epochs=[(0, 0), (1, 17)])
    first, second = Cluster(tmp_path, [leader, Copy(LONG)]).choices()
    assert cuts(first) == [(2, 15, None)]
    assert lost(first) == [(1, 20, 49, 30, 0, 0, True)]
    assert cuts(second) == [(1, 15, None)]
    assert lost(second) == []


def test_a_cut_behind_the_last_batch_takes_none(tmp_path: Path) -> None:
    """The log ends behind its last batch: the broker has cleaned, or cut, what was there."""
    first, _ = Cluster(tmp_path, [Copy(LONG, log_end=55), Copy(LONG, log_end=60)]).choices()
    assert cuts(first) == [(2, None, None)]
    first, _ = Cluster(tmp_path / "cut", [Copy(LONG, log_end=40), Copy(LONG, log_end=45)]).choices()
    assert cuts(first) == [(2, 40, None)]
    assert [each[:3] for each in lost(first)] == [(1, 40, 44)]


def test_a_follower_before_the_leader_s_log_start_starts_over(tmp_path: Path) -> None:
    late = chain(60, (0, 3))
    first, second = Cluster(tmp_path, [Copy(late), Copy(SHARED)]).choices()
    assert (cuts(first), lost(first)) == ([(2, None, 60)], [])
    assert cuts(second) == [(1, 60, 20)]
    assert lost(second) == [(0, 60, 74, 15, 0, 0, True)]


def test_a_hole_of_the_leader_s_is_what_followers_keep(tmp_path: Path) -> None:
    hole = [each for each in LONG if each.base not in (10, 30)]
    whole, holed = Cluster(tmp_path, [Copy(LONG, 12), Copy(hole)]).choices()
    assert lost(whole) == []
    assert lost(holed) == [(0, 10, 34, 10, 5, 0, False)]
    assert holed.loss.ranges[0].spans == ((10, 14), (30, 34))
    # below both log starts nothing is missing, nor above the end
    for start, ranges in ((10, [(0, 10, 34)]), (12, [(0, 12, 34)]), (15, [(0, 30, 34)]), (35, [])):
        copies = [Copy(LONG, log_start=start), Copy(hole)]
        assert [each[:3] for each in lost(Cluster(tmp_path / f"a{start}", copies).choices()[1])] == ranges
        copies = [Copy(LONG), Copy(hole, log_start=start)]
        assert [each[:3] for each in lost(Cluster(tmp_path / f"b{start}", copies).choices()[1])] == ranges
    for end, ranges in ((30, [(0, 10, 14)]), (31, [(0, 10, 34)])):
        copies = [Copy(LONG, log_end=end), Copy(hole)]
        assert [each[:3] for each in lost(Cluster(tmp_path / f"c{end}", copies).choices()[1])] == ranges


def test_what_is_below_the_cut_is_kept_and_the_rest_goes(tmp_path: Path) -> None:
    hole = [each for each in SHARED if each.base != 10]
    _, holed = Cluster(tmp_path, [Copy(LONG), Copy(hole)]).choices()
    assert lost(holed) == [(0, 10, 14, 5, 0, 0, False), (0, 20, 49, 30, 0, 0, True)]
    assert cuts(holed) == [(1, 20, None)]


def test_other_bytes_are_kept_while_the_leader_has_its_own(tmp_path: Path) -> None:
    other = [*LONG[:4], Sent(20, 5, 0, "x"), *LONG[5:]]
    for found in Cluster(tmp_path, [Copy(LONG), Copy(other)]).choices():
        assert [each[1:] for each in lost(found)] == [(20, 24, 5, 0, 0, False)]


def test_damage_of_the_leader_s_blocks_and_that_of_a_follower_s_is_no_loss(tmp_path: Path) -> None:
    broken, whole = Cluster(tmp_path, [Copy(LONG, flipped=[20, 40]), Copy(LONG)]).choices()
    assert (broken.blocked_at, lost(broken)) == (20, [])
    assert (whole.blocked_at, lost(whole)) == (None, [])
    for start, end, blocked in (
        (24, 50, 20),
        (25, 50, 40),
        (45, 50, None),
        (25, 40, None),
        (25, 41, 40),
        (0, 20, None),
    ):
        copies = [Copy(LONG, flipped=[20, 40], log_start=start, log_end=end), Copy(LONG)]
        assert Cluster(tmp_path / f"{start}-{end}", copies).choices()[0].blocked_at == blocked


def test_the_same_records_under_another_epoch_are_no_loss(tmp_path: Path) -> None:
    """No CRC covers the leader epoch."""
    other = [*LONG[:4], LONG[4].__class__(20, 5, 7, LONG[4].mark), *LONG[5:]]
    copies = [Copy(LONG), Copy(other, epochs=[(0, 0)])]
    assert [lost(each) for each in Cluster(tmp_path, copies).choices()] == [[], []]


def test_a_lost_front_is_what_followers_keep(tmp_path: Path) -> None:
    tail = LONG[6:]
    whole, front = Cluster(tmp_path, [Copy(LONG), Copy(tail, front=10)]).choices()
    assert (lost(whole), lost(front)) == ([], [(0, 10, 29, 20, 0, 0, False)])
    for front_start, log_start, ranges in ((0, 20, [(0, 20, 29)]), (10, 30, []), (29, 0, [(0, 29, 29)])):
        copies = [Copy(LONG, log_start=log_start), Copy(tail, front=front_start)]
        found = Cluster(tmp_path / f"{front_start}-{log_start}", copies).choices()[1]
        assert [each[:3] for each in lost(found)] == ranges
    copies = [Copy(LONG[:4]), Copy(tail, front=10)]
    found = Cluster(tmp_path / "short", copies).choices()[1]
    assert [each[:3] for each in lost(found)] == [(0, 10, 19)]


def test_a_broker_without_a_directory(tmp_path: Path) -> None:
    """All goes where it leads, from the log start on; as a follower it loses nothing."""
    cluster = Cluster(tmp_path, [Copy(LONG, 7, log_start=3), Copy(SHARED, log_start=3)])
    cluster.replicas.append(Replica(3, None, NO_LOG, None))
    first, _, third = cluster.choices(PartitionState((1, 2, 3), (3,), 1))
    assert cuts(first) == [(2, None, None)]
    assert cuts(third) == [(1, 0, None), (2, 0, None)]
    assert lost(third) == [(0, 3, 49, 47, 7, 0, True)]
    assert third.standing is Standing.IN_SYNC


def test_a_copy_in_sync_that_cannot_be_loaded_says_nothing_of_what_is_acknowledged(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, [Copy(LONG), Copy(SHARED, is_loaded=False)])
    cluster.replicas.append(Replica(3, None, NO_LOG, None))
    _, third = cluster.choices(PartitionState((1, 2, 3), (1, 2), 1))
    assert lost(third) == [(0, 0, 49, 50, 0, 0, True)]


def test_brokers_0_and_1_and_copies_0_and_1_stand_in_their_order(tmp_path: Path) -> None:
    copies = [Copy(SHARED, broker=1), Copy(LONG, broker=0), Copy(SHARED[:2], broker=2)]
    found = Cluster(tmp_path / "brokers", copies).choices()[2]
    assert [each.replica.broker for each in found.followers] == [0, 1]
    copies = [Copy(SHARED, broker=None), Copy(LONG, broker=None), Copy(SHARED[:2], broker=2)]
    found = Cluster(tmp_path / "copies", copies).choices()[2]
    assert [each.replica.number for each in found.followers] == [0, 1]


def test_of_equal_copies_the_first_one_counts_in_whichever_order_they_are_given(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, [Copy(LONG), Copy(LONG), Copy(SHARED)])
    for replicas in (cluster.replicas, cluster.replicas[::-1]):
        (found,) = [each for each in choices(replicas, cluster.compared, None) if each.leader.number == 2]
        assert [each[:3] for each in lost(found)] == [(0, 20, 49)]


def test_a_batch_that_begins_at_0_may_be_cut(tmp_path: Path) -> None:
    leader = Copy(SHARED, epochs=[(0, 0), (1, 2)])
    assert cuts(Cluster(tmp_path, [leader, Copy(LONG, epochs=[(0, 0)])]).choices()[0]) == [(2, 0, None)]


def test_batches_above_the_end_of_the_log_are_not_cut(tmp_path: Path) -> None:
    gap = [each for each in LONG if each.base not in (30, 35)]
    leader = Copy(SHARED, epochs=[(0, 0), (1, 31)], log_end=60)
    for end, cut in ((40, None), (41, 40)):
        found = Cluster(tmp_path / str(end), [leader, Copy(gap, epochs=[(0, 0)], log_end=end)]).choices()[0]
        assert cuts(found) == [(2, cut, None)]


def test_single_records_that_are_damaged_or_missing(tmp_path: Path) -> None:
    batches = chain(0, (0, 9), size=1)
    hole = [each for each in batches if each.base != 4]
    _, second = Cluster(tmp_path / "hole", [Copy(batches), Copy(hole)]).choices()
    assert lost(second) == [(0, 4, 4, 1, 0, 0, False)]
    first, second = Cluster(tmp_path / "damaged", [Copy(batches, flipped=[4]), Copy(batches)]).choices()
    assert (lost(first), lost(second)) == ([], [])


def test_other_bytes_and_damage_in_one_copy(tmp_path: Path) -> None:
    other = [*LONG[:2], Sent(10, 5, 0, "x"), *LONG[3:]]
    for number, copies in enumerate(([Copy(other, flipped=[20]), Copy(LONG)], [Copy(LONG), Copy(other, flipped=[20])])):
        found = Cluster(tmp_path / str(number), copies).choices()[number]
        assert [each[1:4] for each in lost(found)] == [(10, 14, 5)]


def test_what_cannot_be_loaded_neither_leads_nor_follows(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, [Copy(LONG, is_loaded=False), Copy(SHARED), Copy(LONG[:6])])
    found = cluster.choices()
    assert [each.leader.broker for each in found] == [2, 3]
    assert [cuts(each) for each in found] == [[(3, 20, None)], [(2, None, None)]]
    assert lost(found[0]) == [(2, 20, 29, 10, 0, 0, True)]


def test_followers_stand_in_the_order_of_their_brokers(tmp_path: Path) -> None:
    brokers = (5, None, 2, 0, None)
    cluster = Cluster(tmp_path, [Copy(SHARED[:number], broker=broker) for number, broker in enumerate(brokers, 1)])
    found = cluster.choices(PartitionState((5, 0, 2), (5,), 5))
    assert [each.replica.broker for each in found[0].followers] == [0, 2, None, None]
    assert [each.replica.number for each in found[0].followers] == [3, 2, 1, 4]
    assert [each.standing for each in found] == [Standing.IN_SYNC, None, Standing.UNCLEAN, Standing.UNCLEAN, None]


class Keys:
    """Latest records that a leader's log lacks, as they are given for each leader."""

    def __init__(self, lost: dict[int, dict[int, list[int]]] | None) -> None:
        self._lost = lost
        self.asked: list[tuple[int | None, list[int]]] = []

    def lost(self, leader: int | None, followers: list[int]) -> dict[int, list[KeyRecord]] | None:
        self.asked.append((leader, followers))
        if self._lost is None:
            return None
        found = self._lost.get(-1 if leader is None else leader, {})
        return {each: [KeyRecord(offset, 0, b"v") for offset in found.get(each, ())] for each in followers}


def test_of_a_compacted_topic_keys_are_lost_above_and_below_the_cut(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, [Copy(LONG, 22), Copy(SHARED, 22), Copy(LONG[:6], 22)])
    keys = Keys({1: {0: [7, 12, 20, 41], 2: [3]}, 0: {1: [16]}})
    found = choices(cluster.replicas, cluster.compared, None, keys)  # type: ignore[arg-type]
    assert keys.asked == [(0, [2, 1]), (1, [0, 2]), (2, [0, 1])]
    assert [each.loss.is_compacted for each in found] == [True] * 3
    assert lost(found[1]) == [
        (0, 7, 14, 2, 2, 0, False),
        (0, 20, 49, 30, 5, 0, True),
        (2, 3, 4, 1, 1, 0, False),
    ]
    assert [each.keys for each in found[1].loss.ranges] == [
        LostKeys.of([KeyRecord(7, 0, b"v"), KeyRecord(12, 0, b"v")], Bounds(20)),
        LostKeys.of([KeyRecord(20, 0, b"v"), KeyRecord(41, 0, b"v")], Bounds(22)),
        LostKeys.of([KeyRecord(3, 0, b"v")], Bounds(20)),
    ]
    assert lost(found[0]) == [(1, 16, 19, 1, 1, 0, False)]
    unknown = choices(cluster.replicas, cluster.compared, None, Keys(None))  # type: ignore[arg-type]
    assert [each.keys for each in unknown[1].loss.ranges] == [None]
    assert lost(unknown[1]) == [(0, 20, 49, 30, 5, 0, True)]
