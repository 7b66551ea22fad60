"""Copies of a compacted topic by their keys: which record is a key's latest, and whether another copy lacks it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdump.formats.batch import CONTROL, TRANSACTIONAL
from kdump.formats.checkpoints import EpochEntry
from kdump.formats.encode import NewBatch, NewRecord, encode_batch, encode_message
from kdump.replication import compacted
from kdump.replication.compacted import (
    CopyKeys,
    KeyComparison,
    KeyRecord,
    Latest,
    compare_keys,
    latest_records,
    lost_keys,
)
from kdump.replication.compare import Compared, Comparison, Contents, Relation
from kdump.replication.front import LostFront
from kdump.replication.lost_keys import NO_KEYS, PartitionKeys, key_comparisons, partition_keys
from kdump.replication.truncation import LoadedLog
from kdump.storage.partition import PartitionLog
from tests.commands.logs import write_segment

COMMON, END = 100, 200
KEY = b"key"


def no_log() -> PartitionLog:
    """A log that nobody reads: what there is of it is known."""
    return object.__new__(PartitionLog)


def copy_of(
    below: Latest | None = None, above: Latest | None = None, *, cleaned: int = 0, start: int = 0, end: int = END,
    unknown: str = "", has_log: bool = True,
) -> CopyKeys:  # fmt: skip
    """A copy with these latest records below and above the common offset; `unknown`: there are too many of them."""
    parts = {"below": below or {}, "above": above or {}}
    copy = CopyKeys(no_log() if has_log else None, start, end, COMMON, cleaned)
    for name, records in parts.items():
        setattr(copy, name, None if unknown == name else records)
    return copy


def at(offset: int, value: bytes | None = b"v", epoch: int = 0) -> Latest:
    return {KEY: KeyRecord(offset, epoch, value)}


def lacks(follower: CopyKeys, leader: CopyKeys, history: int = END, *, is_cleaned: bool = True) -> list[KeyRecord]:
    found = lost_keys(follower, leader, history, is_cleaned=is_cleaned)
    assert found is not None
    return [record for _, record in found]


@pytest.mark.parametrize(
    ("follower", "leader", "history", "is_lost"),
    [
        # above the common offset
        (copy_of(above=at(150)), copy_of(), 100, True),
        (copy_of(above=at(100)), copy_of(), 100, True),
        (copy_of(above=at(100), end=120), copy_of(cleaned=150), 200, True),
        (copy_of(above=at(150, None)), copy_of(), 100, False),
        (copy_of(above=at(150, None)), copy_of(below=at(50)), 100, True),
        (copy_of(above=at(150)), copy_of(below=at(50)), 100, True),
        (copy_of(above=at(150)), copy_of(above=at(150)), 200, False),
        (copy_of(above=at(150)), copy_of(above=at(150, b"w")), 200, True),
        (copy_of(above=at(150)), copy_of(above=at(150, None)), 200, True),
        (copy_of(above=at(150)), copy_of(above=at(160)), 200, False),
        (copy_of(above=at(150)), copy_of(above=at(140)), 200, True),
        # two histories: the later leader's is the newer one, then the later offset
        (copy_of(above=at(150, epoch=1)), copy_of(above=at(140, epoch=2)), 100, False),
        (copy_of(above=at(150, epoch=1)), copy_of(above=at(160, epoch=0)), 100, True),
        (copy_of(above=at(150, epoch=1)), copy_of(above=at(160, epoch=1)), 100, False),
        (copy_of(above=at(150, epoch=1)), copy_of(above=at(150, b"w", epoch=1)), 100, True),
        (copy_of(above=at(150, epoch=1)), copy_of(above=at(150, b"v", epoch=0)), 100, False),
        (copy_of(above=at(150, epoch=1)), copy_of(above=at(149, b"v", epoch=1)), 100, True),
        # in one history only the offset counts
        (copy_of(above=at(150, epoch=1)), copy_of(above=at(160, epoch=0)), 151, False),
        (copy_of(above=at(150, epoch=1)), copy_of(above=at(160, epoch=0)), 150, True),
        # tombstones that say the same
        (copy_of(above=at(150, None)), copy_of(above=at(140, None)), 200, False),
        (copy_of(above=at(150, None)), copy_of(above=at(140, None)), 100, False),
        # deleted by right: below the leader's log start
        (copy_of(below=at(30)), copy_of(start=31), 200, False),
        (copy_of(below=at(30)), copy_of(start=30), 200, True),
        # below the common offset
        (copy_of(below=at(30)), copy_of(), 200, True),
        (copy_of(below=at(30, None)), copy_of(), 200, False),
        (copy_of(below=at(30)), copy_of(below=at(30)), 200, False),
        (copy_of(below=at(30)), copy_of(below=at(40)), 200, False),
        (copy_of(below=at(30)), copy_of(below=at(20)), 200, True),
        (copy_of(below=at(30)), copy_of(above=at(120)), 200, False),
        # the leader's cleaner may have removed a tombstone that a copy which is behind never had
        (copy_of(below=at(30), end=120), copy_of(cleaned=121), 200, False),
        (copy_of(below=at(30), end=120), copy_of(cleaned=120), 200, True),
        (copy_of(below=at(30), end=120), copy_of(cleaned=121), 30, True),
        (copy_of(below=at(30, None), end=120), copy_of(cleaned=90), 200, False),
        # a later record of the copy's own counts instead
        (copy_of(below=at(30), above=at(150)), copy_of(above=at(150)), 200, False),
    ],
)
def test_what_a_leader_lacks(follower: CopyKeys, leader: CopyKeys, history: int, is_lost: bool) -> None:
    record = {**(follower.below or {}), **(follower.above or {})}[KEY]
    assert lacks(follower, leader, history) == [record] * is_lost


def test_below_the_common_offset_copies_are_the_same_where_no_cleaner_has_been() -> None:
    follower = copy_of(below=at(30), above={b"other": KeyRecord(150, 0, b"v")})
    assert [each.offset for each in lacks(follower, copy_of(), is_cleaned=True)] == [30, 150]
    assert [each.offset for each in lacks(follower, copy_of(), is_cleaned=False)] == [150]
    nothing = copy_of(has_log=False)
    assert [each.offset for each in lacks(follower, nothing, is_cleaned=False)] == [30, 150]


@pytest.mark.parametrize(
    ("follower", "leader", "is_cleaned", "is_known"),
    [
        ("above", "", False, False),
        ("", "above", False, False),
        ("below", "", True, False),
        ("", "below", True, False),
        ("below", "", False, True),
        ("", "below", False, True),
        ("", "", True, True),
    ],
)
def test_too_many_keys(follower: str, leader: str, is_cleaned: bool, is_known: bool) -> None:
    found = lost_keys(copy_of(unknown=follower), copy_of(unknown=leader), 200, is_cleaned=is_cleaned)
    assert (found is not None) == is_known


def test_a_tombstone_counts_where_nobody_knows_what_it_deletes() -> None:
    assert lacks(copy_of(above=at(150, None)), copy_of(unknown="below"), is_cleaned=False) == [KeyRecord(150, 0, None)]


def test_two_copies_by_their_keys() -> None:
    first = copy_of({b"a": KeyRecord(10, 0, b"v"), b"b": KeyRecord(20, 0, b"v"), b"c": KeyRecord(30, 0, b"v")})
    second = copy_of({b"a": KeyRecord(10, 0, b"v"), b"b": KeyRecord(20, 0, b"w"), b"d": KeyRecord(5, 0, b"v")})
    for one, other in ((first, second), (second, first)):
        found = compare_keys(one, other, 200)
        assert (found, found.is_equivalent) == (KeyComparison(COMMON, 4, 3, (5, 20, 30)), False)
    same = compare_keys(first, first, 200)
    assert (same, same.is_equivalent) == (KeyComparison(COMMON, 3), True)
    later = copy_of({**(first.below or {})}, {b"a": KeyRecord(120, 0, b"w")})
    assert compare_keys(first, later, 200) == KeyComparison(COMMON, 3)
    # the latest of both counts
    assert compare_keys(copy_of(at(10)), copy_of(at(20, b"w")), 200) == KeyComparison(COMMON, 1, 1, (20,))
    assert compare_keys(copy_of(at(20, b"w")), copy_of(at(10)), 200) == KeyComparison(COMMON, 1, 1, (20,))
    for name in ("below", "above"):
        for pair in ((copy_of(unknown=name), first), (first, copy_of(unknown=name))):
            unknown = compare_keys(*pair, 200)
            assert (unknown, unknown.is_equivalent) == (KeyComparison(COMMON, None), None)


def test_only_so_many_offsets_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compacted, "MAX_OFFSETS", 2)
    first = copy_of({b"%d" % number: KeyRecord(number, 0, b"v") for number in range(5)})
    assert compare_keys(first, copy_of(), 200) == KeyComparison(COMMON, 5, 5, (0, 1))


def key(text: bytes) -> bytes:
    return compacted._digest(text)


def record(offset: int, name: bytes | None, value: bytes | None) -> NewRecord:
    return NewRecord(offset, 1000, name, value, ())


def keyed_log(folder: Path) -> PartitionLog:
    path = folder / "t-0"
    txn = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    write_segment(
        path,
        0,
        [
            encode_message(record(0, b"old", b"1"), 1, CONTROL),
            encode_batch([record(1, b"a", b"2"), record(2, b"", b""), record(3, None, b"x")], NewBatch(leader_epoch=1)),
            encode_batch([record(4, b"gone", b"y")], NewBatch(TRANSACTIONAL, leader_epoch=1, **txn)),
            encode_batch([record(5, b"\0\0\0\0", b"\0\0\0\0\0\0")], NewBatch(CONTROL | TRANSACTIONAL, 7, 0)),
            encode_batch([record(6, b"a", None), record(7, b"b", b"3")], NewBatch(leader_epoch=2)),
            encode_batch([record(8, b"kept", b"4")], NewBatch(TRANSACTIONAL, leader_epoch=2, **txn)),
            encode_batch([record(9, b"\0\0\0\1", b"\0\0\0\0\0\0")], NewBatch(CONTROL | TRANSACTIONAL, 7, 0)),
        ],
    )
    write_segment(path, 10, [encode_batch([record(10, b"b", b"5")], NewBatch(leader_epoch=3))])
    return PartitionLog(str(path))


def test_the_latest_record_of_each_key(tmp_path: Path) -> None:
    """Without records that the cleaner drops: markers, what was aborted, and records without a key."""
    log = keyed_log(tmp_path)
    expected = {
        key(b"old"): KeyRecord(0, -1, key(b"1")),
        key(b"a"): KeyRecord(6, 2, None),
        key(b""): KeyRecord(2, 1, key(b"")),
        key(b"b"): KeyRecord(10, 3, key(b"5")),
        key(b"kept"): KeyRecord(8, 2, key(b"4")),
    }
    assert latest_records(log, 0, 11) == expected
    assert latest_records(log, 0, 10) == {**expected, key(b"b"): KeyRecord(7, 2, key(b"3"))}
    assert latest_records(log, 2, 6) == {key(b""): expected[key(b"")]}
    assert latest_records(log, 8, 11) == {name: expected[name] for name in (key(b"kept"), key(b"b"))}


def test_so_many_keys_are_compared_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = keyed_log(tmp_path)
    monkeypatch.setattr(compacted, "MAX_KEYS", 5)
    assert latest_records(log, 0, 11) is not None
    monkeypatch.setattr(compacted, "MAX_KEYS", 4)
    assert latest_records(log, 0, 11) is None


def test_records_are_read_once_on_each_side_of_the_common_offset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, int]] = []

    def read(log: PartitionLog, start: int, stop: int) -> Latest:
        asked.append((start, stop))
        return at(start)

    monkeypatch.setattr(compacted, "latest_records", read)
    log = no_log()
    for start, end, common, below, above in (
        (3, 20, 10, [(3, 10)], [(10, 20)]), (3, 8, 10, [(3, 8)], []), (12, 20, 10, [], [(12, 20)]),
        (10, 10, 10, [], []),
    ):  # fmt: skip
        asked.clear()
        copy = CopyKeys(log, start, end, common)
        found = [(copy.below, copy.above) for _ in range(2)]
        assert asked == below + above
        assert found == [tuple(at(side[0][0]) if side else {} for side in (below, above))] * 2
    asked.clear()
    nothing = CopyKeys(None, 0, 20, 10)
    assert (nothing.below, nothing.above, asked) == ({}, {}, [])


def kept(offset: int, epoch: int = 0) -> KeyRecord:
    return KeyRecord(offset, epoch, b"v")


def test_of_a_record_that_several_copies_have_the_first_one_has_it() -> None:
    copies = [
        copy_of(),
        copy_of(above={b"a": kept(160), b"b": kept(110), b"c": kept(120, 1), b"d": kept(130)}),
        copy_of(above={b"a": kept(160), b"b": kept(111), b"c": kept(190), b"e": kept(105)}),
    ]
    keys = PartitionKeys(copies, {(0, 1): 100, (0, 2): 100, (1, 2): 100}, is_cleaned=True)
    assert keys.lost(0, [1, 2]) == {1: [kept(120, 1), kept(130), kept(160)], 2: [kept(105), kept(111)]}
    assert keys.lost(0, [2, 1]) == {2: [kept(105), kept(111), kept(160)], 1: [kept(120, 1), kept(130)]}
    assert keys.lost(None, [1]) == {1: [kept(110), kept(120, 1), kept(130), kept(160)]}
    assert keys.lost(2, [0]) == {0: []}
    assert keys.history(2, 1) == keys.history(1, 2) == 100
    many = PartitionKeys([copy_of(unknown="above"), copies[1]], {(0, 1): 100}, is_cleaned=True)
    assert many.lost(1, [0]) is None
    assert many.lost(0, [1]) is None


def test_a_broker_without_a_log_shares_no_history() -> None:
    """A record at offset 0 is none of its history either."""
    copies = [copy_of(below={b"a": KeyRecord(0, 0, b"v")}, end=50)]
    assert PartitionKeys(copies, {}, is_cleaned=False).lost(None, [0]) == {0: [KeyRecord(0, 0, b"v")]}
    assert (NO_KEYS.log, NO_KEYS.log_start, NO_KEYS.log_end, NO_KEYS.common, NO_KEYS.cleaned) == (None, 0, 0, 0, 0)


def comparison(first: int, second: int, relation: Relation = Relation.IDENTICAL, same_up_to: int = 100) -> Comparison:
    return Comparison(first, second, relation, same_up_to, 0)


def loaded(end: int, *epochs: tuple[int, int], start: int = 0) -> LoadedLog:
    return LoadedLog(start, end, 0, tuple(EpochEntry(*each) for each in epochs or ((0, 0),)))


def test_what_copies_come_to_once_they_are_loaded() -> None:
    logs = [no_log() for _ in range(3)]
    contents = tuple(Contents(0, end, 1, ()) for end in (100, 90, 80))
    pairs = (
        comparison(0, 1, Relation.AHEAD, 90),
        comparison(0, 2, Relation.BYTES, 60),
        comparison(1, 2, same_up_to=80),
    )
    found = partition_keys(
        logs,
        [loaded(95, start=5), loaded(90), None],
        Compared(contents, pairs),
        [0, 40, 0],
        [None, LostFront(7, "so"), None],
    )
    assert found.histories == {(0, 1): 90, (0, 2): 80, (1, 2): 80}
    assert found.is_cleaned
    assert list(found.copies) == [
        CopyKeys(logs[0], 5, 95, 80, 0), CopyKeys(logs[1], 7, 90, 80, 40), CopyKeys(logs[2], 0, 80, 80, 0),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("relation", "cleaned", "front", "is_cleaned"),
    [
        (Relation.AHEAD, 0, None, False),
        (Relation.EPOCH, 0, None, False),
        (Relation.BYTES, 0, None, True),
        (Relation.AHEAD, 1, None, True),
        (Relation.AHEAD, 0, LostFront(5, "so"), True),
    ],
)
def test_where_no_cleaner_has_been_batches_count(
    relation: Relation, cleaned: int, front: LostFront | None, is_cleaned: bool
) -> None:
    logs = [no_log() for _ in range(2)]
    compared = Compared((Contents(0, 100, 1, ()), Contents(0, 90, 1, ())), (comparison(0, 1, relation, same_up_to=70),))
    found = partition_keys(logs, [loaded(100), loaded(90)], compared, [0, cleaned], [None, front])
    assert found.is_cleaned == is_cleaned
    history = 70 if relation is Relation.EPOCH else 90
    assert found.histories == {(0, 1): history}
    assert [each.common for each in found.copies] == [history if is_cleaned else 70] * 2


def test_histories_part_where_a_follower_would_cut() -> None:
    logs = [no_log() for _ in range(2)]
    compared = Compared((Contents(0, 100, 1, ()), Contents(0, 90, 1, ())), (comparison(0, 1, Relation.AHEAD, 90),))
    for one, other, history in (
        (loaded(100, (0, 0), (1, 60)), loaded(90, (0, 0)), 60),
        (loaded(100, (0, 0)), loaded(90, (0, 0), (1, 50)), 50),
        (None, loaded(90, (0, 0), (1, 50)), 90),
        (loaded(100, (0, 0), (1, 60)), None, 90),
        (loaded(85), loaded(90), 85),
    ):
        found = partition_keys(logs, [one, other], compared, [0, 0], [None, None])
        assert found.histories == {(0, 1): history}


def test_every_two_copies_are_compared() -> None:
    copies = [copy_of(below=at(10)), copy_of(below=at(10)), copy_of()]
    histories = {(0, 1): 200, (0, 2): 200, (1, 2): 200}
    compared = Compared((), tuple(comparison(*each) for each in histories))
    found = key_comparisons(PartitionKeys(copies, histories, is_cleaned=True), compared)
    assert {pair: each.differing for pair, each in found.items()} == {(0, 1): 0, (0, 2): 1, (1, 2): 1}
