"""The latest record of each key: which ones a leader lacks, by every rule at its edges, and how they are read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kdump.formats.batch import CONTROL, TRANSACTIONAL
from kdump.formats.checkpoints import EpochEntry
from kdump.formats.encode import NewBatch, NewRecord, encode_batch, encode_message
from kdump.replicas import compacted
from kdump.replicas.compacted import CopyKeys, KeyComparison, KeyRecord, compare_keys, latest_records, lost_keys
from kdump.replicas.compare import Compared, Comparison, Contents, Relation
from kdump.replicas.front import LostFront
from kdump.replicas.lost_keys import PartitionKeys, key_comparisons, partition_keys
from kdump.replicas.truncation import LoadedLog
from kdump.storage.partition import PartitionLog
from tests.commands.logs import write_segment
from tests.replicas.building import NOW

COMMON = 10
KEY = b"k"


def put(offset: int, epoch: int = 0, value: bytes | None = b"v") -> KeyRecord:
    return KeyRecord(offset, epoch, value)


Keys = Mapping[bytes, KeyRecord]


class Copies:
    """Makes copies whose keys are known; None: too many of them."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.log = PartitionLog(str(folder))

    def of(self, below: Keys | None = None, above: Keys | None = None, **fields: Any) -> CopyKeys:
        given = {"log": self.log, "log_start": 0, "log_end": 20, "common": COMMON} | fields
        return CopyKeys(**given, _below=[below], _above=[above])  # type: ignore[arg-type]


@pytest.fixture
def copies(tmp_path: Path) -> Copies:
    return Copies(tmp_path / "t-0")


DEAD = None
"""The value of a tombstone."""


@pytest.mark.parametrize(
    ("record", "own", "fields", "is_lost"),
    [
        # the leader has nothing of the key: it has lost what is live, not a tombstone
        (put(5), None, {}, True),
        (put(5, value=DEAD), None, {}, False),
        (put(15), None, {}, True),
        (put(15, value=DEAD), None, {}, False),
        # what is below its log start was deleted by right
        (put(5), None, {"log_start": 5}, True),
        (put(5), None, {"log_start": 6}, False),
        # below `history` a tombstone may have been there that its cleaner, which was farther, has removed
        (put(5), None, {"cleaned": 21, "history": 6}, False),
        (put(5), None, {"cleaned": 20, "history": 6}, True),
        (put(5), None, {"cleaned": 21, "history": 5}, True),
        # from the common offset on nothing is looked for below it
        (put(10), None, {"cleaned": 21, "history": 11}, True),
        (put(9), None, {"cleaned": 21, "history": 11}, False),
        # the same record, or the same but for its offset
        (put(5), put(5), {"history": 6}, False),
        (put(5), put(4), {"history": 6}, True),
        (put(5), put(6), {"history": 6}, False),
        (put(5, value=b"w"), put(5), {"history": 6}, True),
        (put(5, value=DEAD), put(4, value=DEAD), {"history": 6}, False),
        (put(5, value=DEAD), put(4), {"history": 6}, True),
        (put(5), put(4, value=DEAD), {"history": 6}, True),
        # of one history the offset counts, of two the epoch comes first
        (put(5, 1), put(6, 0), {"history": 6}, False),
        (put(5, 1), put(6, 0), {"history": 5}, True),
        (put(5, 1), put(4, 2), {"history": 5}, False),
        (put(5, 1), put(4, 2), {"history": 6}, True),
        (put(5, 1, b"w"), put(5, 1), {"history": 5}, True),
        (put(5, 1), put(6, 1), {"history": 5}, False),
        # what the leader has from the common offset on is later than what it has below
        (put(5), put(12), {"history": 6}, False),
        (put(12), put(15), {"history": 20}, False),
        (put(15), put(12), {"history": 20}, True),
        (put(15, value=DEAD), put(5), {"history": 20}, True),
    ],
)
def test_what_a_leader_lacks(
    record: KeyRecord, own: KeyRecord | None, fields: dict[str, int], is_lost: bool, copies: Copies
) -> None:
    def held(one: KeyRecord | None, **others: Any) -> CopyKeys:
        parts: list[Keys] = [{}, {}]
        if one is not None:
            parts[one.offset >= COMMON] = {KEY: one}
        return copies.of(*parts, **others)

    others = {name: value for name, value in fields.items() if name != "history"}
    found = lost_keys(held(record), held(own, **others), fields.get("history", 0), is_cleaned=True)
    assert found is not None
    assert list(found) == ([(KEY, record)] if is_lost else [])


def test_each_key_is_lost_once_by_its_latest_record(copies: Copies) -> None:
    follower = copies.of({b"a": put(1), b"b": put(2), b"c": put(3)}, {b"b": put(12), b"d": put(13)})
    leader = copies.of({b"a": put(1)}, {})
    found = lost_keys(follower, leader, 10, is_cleaned=True)
    assert found is not None
    assert list(found) == [(b"c", put(3)), (b"b", put(12)), (b"d", put(13))]
    # what all have is the same where no cleaner has been, and counts where the leader has no log at all
    found = lost_keys(follower, leader, 10, is_cleaned=False)
    assert found is not None
    assert list(found) == [(b"b", put(12)), (b"d", put(13))]
    found = lost_keys(follower, copies.of({}, {}, log=None), 10, is_cleaned=False)
    assert found is not None
    assert len(list(found)) == 4


@pytest.mark.parametrize("part", ["below", "above"])
@pytest.mark.parametrize("whose", [0, 1])
def test_too_many_keys(part: str, whose: int, copies: Copies) -> None:
    both = [copies.of({}, {}), copies.of({}, {})]
    both[whose] = copies.of(**{"below": {}, "above": {}, part: None})
    assert lost_keys(*both, 10, is_cleaned=True) is None
    is_asked = part == "above"
    assert (lost_keys(*both, 10, is_cleaned=False) is None) is is_asked
    assert compare_keys(*both, 10) == KeyComparison(COMMON, None)
    assert compare_keys(*both, 10).is_equivalent is None


def test_with_too_many_keys_below_a_tombstone_above_is_lost(copies: Copies) -> None:
    """Nothing tells whether it deletes something of the leader's."""
    follower, leader = copies.of({}, {KEY: put(12, value=DEAD)}), copies.of(None, {})
    found = lost_keys(follower, leader, 10, is_cleaned=False)
    assert found is not None
    assert list(found) == [(KEY, put(12, value=DEAD))]


def test_copies_by_keys(copies: Copies, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys that have later records do not count; of a key that differs the later record's offset is told."""
    first = copies.of(
        {b"a": put(1), b"b": put(4), b"c": put(3), b"d": put(7), b"e": put(9, value=DEAD)}, {b"f": put(12)}
    )
    second = copies.of(
        {b"a": put(1), b"b": put(2), b"c": put(3, value=b"w"), b"f": put(5), b"g": put(0)}, {b"d": put(11)}
    )
    expected = KeyComparison(COMMON, 7, 3, (0, 3, 4))
    assert compare_keys(first, second, 10) == expected
    assert compare_keys(second, first, 10) == expected
    assert not expected.is_equivalent
    monkeypatch.setattr(compacted, "MAX_OFFSETS", 2)
    assert compare_keys(first, second, 10) == KeyComparison(COMMON, 7, 3, (0, 3))
    assert compare_keys(first, first, 10) == KeyComparison(COMMON, 5)
    assert compare_keys(first, first, 10).is_equivalent is True
    # both have a record of it that the other has not, of two histories: the later offset counts
    one, other = copies.of({KEY: put(4, 1, b"w")}, {}), copies.of({KEY: put(4, 1)}, {})
    assert compare_keys(one, other, 0) == KeyComparison(COMMON, 1, 1, (4,))


def test_keys_are_read_once_and_between_the_offsets_of_the_log(copies: Copies, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []

    def latest(log: PartitionLog, start: int, stop: int) -> Keys:
        asked.append((start, stop))
        return {}

    monkeypatch.setattr(compacted, "latest_records", latest)
    for start, end, common, expected in (
        (2, 20, 10, [(2, 10), (10, 20)]),
        (12, 20, 10, [(12, 20)]),
        (2, 8, 10, [(2, 8)]),
        (10, 20, 10, [(10, 20)]),
        (2, 10, 10, [(2, 10)]),
        (9, 11, 10, [(9, 10), (10, 11)]),
    ):
        copy = CopyKeys(copies.log, start, end, common)
        assert [copy.below(), copy.above(), copy.below(), copy.above()] == [{}] * 4
        assert asked == expected
        asked.clear()
    assert CopyKeys(None, 0, 20, 10).below() == CopyKeys(None, 0, 20, 10).above() == {}
    assert asked == []


def sent(offset: int, key: bytes | None, value: bytes | None = b"v", **batch: Any) -> bytes:
    return encode_batch([NewRecord(offset, NOW, key, value, ())], NewBatch(**batch))


def marker(offset: int, producer: int, kind: int) -> bytes:
    record = NewRecord(offset, NOW, bytes([0, 0, 0, kind]), bytes(6), ())
    return encode_batch([record], NewBatch(TRANSACTIONAL | CONTROL, producer, 0, leader_epoch=1))


def keys_of(found: Keys | None) -> list[tuple[int, int, bool]]:
    assert found is not None
    return sorted((each.offset, each.epoch, each.value is not None) for each in found.values())


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    """Keys a to d; producer 5 commits, 6 aborts, 7 does neither."""
    open_txn = {"attributes": TRANSACTIONAL, "producer_epoch": 0, "base_sequence": 0, "leader_epoch": 1}
    parts = [
        encode_message(NewRecord(0, -1, b"a", b"v"), 0),
        encode_message(NewRecord(1, NOW, b"", None), 1),
        sent(2, None, leader_epoch=0),
        sent(3, b"a", None, leader_epoch=0),
        sent(4, b"b", b"", producer_id=5, **open_txn),
        sent(5, b"c", producer_id=6, **open_txn),
        sent(6, b"b", producer_id=7, **open_txn),
        marker(7, 5, 1),
        marker(8, 6, 0),
        encode_batch([NewRecord(at, NOW, b"d", b"%d" % at, ()) for at in (9, 10, 11)], NewBatch(leader_epoch=2)),
    ]
    write_segment(tmp_path / "t-0", 0, parts[:5])
    write_segment(tmp_path / "t-0", 5, parts[5:])
    return PartitionLog(str(tmp_path / "t-0"))


def test_the_latest_records_of_a_log(log: PartitionLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of an aborted transaction, no marker, no record without a key; an empty key is one."""
    every = [(1, -1, False), (3, 0, False), (6, 1, True), (11, 2, True)]
    assert keys_of(latest_records(log, 0, 12)) == every
    assert keys_of(latest_records(log, 0, 11)) == [*every[:3], (10, 2, True)]
    assert keys_of(latest_records(log, 0, 6)) == [*every[:2], (4, 1, True)]
    assert keys_of(latest_records(log, 1, 3)) == every[:1]
    assert keys_of(latest_records(log, 10, 11)) == [(10, 2, True)]
    assert keys_of(latest_records(log, 12, 20)) == []
    for most, is_known in ((4, True), (3, False)):
        monkeypatch.setattr(compacted, "MAX_KEYS", most)
        assert (latest_records(log, 0, 12) is not None) is is_known


def test_values_are_told_apart(log: PartitionLog) -> None:
    found = [latest_records(log, at, at + 1) for at in (0, 4, 9, 10)]
    values = [record.value for keys in found if keys for record in keys.values()]
    assert len(set(values)) == 4
    assert None not in values
    names = [key for keys in found if keys for key in keys]
    assert len(set(names)) == 3


# --- the keys of a partition -----------------------------------------------------------------------------------------


def loaded(start: int, end: int, *epochs: tuple[int, int]) -> LoadedLog:
    return LoadedLog(start, end, start, tuple(EpochEntry(*each) for each in epochs))


def pair(first: int, second: int, relation: Relation, same_up_to: int) -> Comparison:
    return Comparison(first, second, relation, same_up_to, 0)


IDENTICAL = [pair(0, 1, Relation.IDENTICAL, 20)]


def keys_for(
    logs: list[LoadedLog | None],
    pairs: list[Comparison],
    cleaned: list[int] | None = None,
    fronts: list[LostFront | None] | None = None,
    end: int = 20,
) -> PartitionKeys:
    contents = tuple(Contents(0, end + number, 1, ()) for number in range(len(logs)))
    nothing = [0] * len(logs)
    found = partition_keys(
        [None] * len(logs),  # type: ignore[list-item]
        logs,
        Compared(contents, tuple(pairs)),
        cleaned or nothing,
        fronts or [None] * len(logs),
    )
    assert [each.cleaned for each in found.copies] == (cleaned or nothing)
    return found


WHOLE = loaded(0, 30, (0, 0))


@pytest.mark.parametrize(
    ("logs", "pairs", "others", "starts", "ends", "common", "history", "is_cleaned"),
    [
        # what is compared ends where the shorter of the two does; without a cleaner where they stop being the same
        ([WHOLE, WHOLE], IDENTICAL, {}, [0, 0], [20, 21], 20, 20, False),
        ([WHOLE, WHOLE], [pair(0, 1, Relation.AHEAD, 7)], {}, [0, 0], [20, 21], 7, 20, False),
        ([WHOLE, WHOLE], [pair(0, 1, Relation.AHEAD, 7)], {"cleaned": [0, 5]}, [0, 0], [20, 21], 20, 20, True),
        ([WHOLE, WHOLE], [pair(0, 1, Relation.BYTES, 7)], {}, [0, 0], [20, 21], 20, 20, True),
        ([WHOLE, WHOLE], [pair(0, 1, Relation.EPOCH, 7)], {}, [0, 0], [20, 21], 7, 7, False),
        ([WHOLE, WHOLE], [pair(0, 1, Relation.EPOCH, 7)], {"cleaned": [1, 0]}, [0, 0], [20, 21], 7, 7, True),
        # a broker loads less than is there, or nothing
        ([loaded(3, 9, (0, 0)), WHOLE], IDENTICAL, {}, [3, 0], [9, 21], 9, 9, False),
        ([None, loaded(2, 15, (0, 0))], IDENTICAL, {}, [0, 2], [20, 15], 15, 15, False),
        ([loaded(2, 15, (0, 0)), None], IDENTICAL, {}, [2, 0], [15, 21], 15, 15, False),
        # a front that was lost begins where it was
        ([loaded(6, 30, (0, 0)), WHOLE], IDENTICAL, {"fronts": [LostFront(2, ""), None]}, [2, 0], [20, 21], 20, 20,
         True),
        # by their leader epochs two part at 5, either way
        ([WHOLE, loaded(0, 30, (0, 0), (1, 5))], IDENTICAL, {}, [0, 0], [20, 21], 5, 5, False),
        ([loaded(0, 30, (0, 0), (1, 5)), WHOLE], IDENTICAL, {}, [0, 0], [20, 21], 5, 5, False),
        ([loaded(0, 30, (0, 0), (1, 5)), loaded(0, 30, (0, 0), (2, 8))], IDENTICAL, {}, [0, 0], [20, 21], 5, 5, False),
    ],
)  # fmt: skip
def test_what_two_copies_share(
    logs: list[LoadedLog | None],
    pairs: list[Comparison],
    others: dict[str, Any],
    starts: list[int],
    ends: list[int],
    common: int,
    history: int,
    is_cleaned: bool,
) -> None:
    keys = keys_for(logs, pairs, **others)
    assert [each.log_start for each in keys.copies] == starts
    assert [each.log_end for each in keys.copies] == ends
    assert {each.common for each in keys.copies} == {common}
    assert keys.history(0, 1) == keys.history(1, 0) == history
    assert keys.is_cleaned is is_cleaned


def test_one_copy_has_all_in_common() -> None:
    (one,) = keys_for([WHOLE], []).copies
    assert (one.log_end, one.common) == (20, 20)
    assert keys_for([], []) == PartitionKeys([], {}, is_cleaned=False)


def test_a_record_that_several_copies_have_counts_for_the_first(copies: Copies) -> None:
    both = {b"x": put(12), b"y": put(11)}
    keys = PartitionKeys(
        [
            copies.of({}, {}),
            copies.of({}, {b"x": put(12), b"y": put(13), b"z": put(15, 1)}),
            copies.of({}, {**both, b"z": put(14, 2), b"w": put(19)}),
        ],
        {(0, 1): 10, (0, 2): 10, (1, 2): 10},
        is_cleaned=False,
    )
    assert keys.lost(0, [1, 2]) == {1: [put(12), put(13)], 2: [put(14, 2), put(19)]}
    assert keys.lost(0, [2, 1]) == {1: [put(13)], 2: [put(12), put(14, 2), put(19)]}
    assert keys.lost(0, []) == {}
    assert keys.lost(2, [1]) == {1: [put(13)]}
    nobody = keys.lost(None, [1, 2])
    assert nobody == {1: [put(12), put(13)], 2: [put(14, 2), put(19)]}


def test_with_too_many_keys_in_one_copy_nothing_is_said(copies: Copies) -> None:
    keys = PartitionKeys(
        [copies.of({}, {}), copies.of({}, {}), copies.of({}, None)], {(0, 1): 0, (0, 2): 0, (1, 2): 0}, is_cleaned=False
    )
    assert keys.lost(0, [1, 2]) is None
    assert keys.lost(0, [1]) == {1: []}
    assert keys.lost(None, [2]) is None


def test_the_history_of_two_copies_decides_what_one_lacks(copies: Copies) -> None:
    """Of one history the offset counts, of two the leader epoch."""
    older, newer = copies.of({}, {KEY: put(12, 1)}), copies.of({}, {KEY: put(11, 2)})
    for history, lost in ((13, [put(12, 1)]), (12, [])):
        keys = PartitionKeys([newer, older], {(0, 1): history}, is_cleaned=False)
        assert keys.lost(0, [1]) == {1: lost}
        compared = Compared((), (pair(0, 1, Relation.EPOCH, 10),))
        assert key_comparisons(keys, compared) == {(0, 1): KeyComparison(COMMON, 0)}
