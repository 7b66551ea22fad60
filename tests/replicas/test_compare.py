"""Two copies of a partition, batch by batch."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdump.replicas.compare import Compared, Relation, compare
from kdump.storage.partition import PartitionLog
from tests.replicas.building import OnDisk, Sent, chain, flip, write_copy


def compared(root: Path, *copies: OnDisk, threads: bool = True) -> Compared:
    folders = [write_copy(root, number, copy) for number, copy in enumerate(copies, 1)]
    return compare([PartitionLog(str(folder)) for folder in folders], threads=threads)


@pytest.mark.parametrize("threads", [True, False])
def test_segments_may_end_elsewhere(tmp_path: Path, threads: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kdump.replicas.compare.THREADS_FROM", 0)
    batches = chain(0, (0, 40))
    found = compared(tmp_path, OnDisk(batches, roll=[50, 120]), OnDisk(batches, roll=[75]), threads=threads)
    assert found.pairs[0].relation is Relation.IDENTICAL
    assert found.pairs[0].same_up_to == 200


def test_one_ends_before_the_other(tmp_path: Path) -> None:
    found = compared(tmp_path, OnDisk(chain(0, (0, 3))), OnDisk(chain(0, (0, 5)), roll=[10]))
    pair = found.pair(0, 1)
    assert (pair.relation, pair.same_up_to) == (Relation.BEHIND, 15)
    assert [(each.first, each.last, each.records) for each in pair.only_second] == [(15, 24, 10)]
    assert found.pair(1, 0).relation is Relation.AHEAD


def test_two_histories(tmp_path: Path) -> None:
    shared = chain(0, (0, 4))
    found = compared(
        tmp_path, OnDisk([*shared, *chain(20, (0, 3), mark="a")]), OnDisk([*shared, *chain(20, (1, 5), size=4)])
    )
    pair = found.pairs[0]
    assert (pair.relation, pair.same_up_to) == (Relation.EPOCH, 20)
    assert [(each.first, each.last) for each in pair.only_first] == [(20, 34)]
    assert [(each.first, each.last) for each in pair.only_second] == [(20, 39)]


def test_the_same_epoch_with_other_bytes(tmp_path: Path) -> None:
    batches = chain(0, (0, 6))
    other = [*batches[:2], Sent(10, 5, 0, "other"), *batches[3:]]
    pair = compared(tmp_path, OnDisk(batches), OnDisk(other)).pairs[0]
    assert (pair.relation, pair.same_up_to) == (Relation.BYTES, 10)
    assert [(each.first, each.last) for each in pair.only_first] == [(10, 14)]


def test_a_flipped_bit_leaves_the_header_as_it_was(tmp_path: Path) -> None:
    batches = chain(0, (0, 6))
    first = write_copy(tmp_path, 1, OnDisk(batches))
    second = write_copy(tmp_path, 2, OnDisk(batches))
    size = len(batches[0].data)
    flip(second / f"{0:020d}.log", 2 * size + 70)
    found = compare([PartitionLog(str(first)), PartitionLog(str(second))])
    assert (found.pairs[0].relation, found.pairs[0].same_up_to) == (Relation.BYTES, 10)
    assert [(each.first, each.last) for each in found.contents[1].damaged] == [(10, 14)]
    assert found.contents[0].damaged == ()


def test_both_damaged_in_the_same_batch(tmp_path: Path) -> None:
    """Equal headers say nothing where no CRC matches."""
    batches = chain(0, (0, 3))
    folders = [write_copy(tmp_path, number, OnDisk(batches)) for number in (1, 2, 3)]
    for folder, position in zip(folders, (70, 70, 71), strict=True):
        flip(folder / f"{0:020d}.log", position)
    found = compare([PartitionLog(str(folder)) for folder in folders])
    assert found.pair(0, 1).relation is Relation.IDENTICAL
    assert (found.pair(0, 2).relation, found.pair(0, 2).same_up_to) == (Relation.BYTES, 0)


def test_a_lost_segment(tmp_path: Path) -> None:
    batches = chain(0, (0, 9))
    first = write_copy(tmp_path, 1, OnDisk(batches, roll=[15, 30]))
    second = write_copy(tmp_path, 2, OnDisk(batches, roll=[15, 30]))
    for path in second.glob(f"{15:020d}.*"):
        path.unlink()
    pair = compare([PartitionLog(str(first)), PartitionLog(str(second))]).pairs[0]
    assert (pair.relation, pair.same_up_to) == (Relation.BYTES, 15)
    assert [(each.first, each.last) for each in pair.only_first] == [(15, 29)]
    assert pair.only_second == ()


def test_log_starts_differ(tmp_path: Path) -> None:
    batches = chain(0, (0, 9))
    pair = compared(tmp_path, OnDisk(batches), OnDisk(batches[4:])).pairs[0]
    assert (pair.relation, pair.compared_from, pair.only_first) == (Relation.IDENTICAL, 20, ())


def test_a_damaged_size_field(tmp_path: Path) -> None:
    """The bytes after it are no batches; what follows is found again."""
    batches = chain(0, (0, 8))
    first = write_copy(tmp_path, 1, OnDisk(batches))
    second = write_copy(tmp_path, 2, OnDisk(batches))
    flip(second / f"{0:020d}.log", 3 * len(batches[0].data) + 11, 8)
    pair = compare([PartitionLog(str(first)), PartitionLog(str(second))]).pairs[0]
    assert (pair.relation, pair.same_up_to) == (Relation.BYTES, 15)
    assert [(each.first, each.last) for each in pair.only_first] == [(15, 19)]


def test_what_cannot_be_read_is_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kdump.replicas.compare.THREADS_FROM", 0)
    logs = [
        PartitionLog(str(write_copy(tmp_path, number, OnDisk(chain(0, (0, 5)), roll=[10])))) for number in (1, 2)
    ]
    Path(logs[1].segments[1].log_path).unlink()
    with pytest.raises(FileNotFoundError):
        compare(logs)


def test_more_than_a_block_of_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kdump.replicas.compare.THREADS_FROM", 0)
    batches = chain(0, (0, 5000), size=1)
    other = [*batches[:4100], Sent(4100, 1, 0, "other"), *batches[4101:4990]]
    pair = compared(tmp_path, OnDisk(batches, roll=[3000]), OnDisk(other, roll=[10, 4500])).pairs[0]
    assert (pair.relation, pair.same_up_to) == (Relation.BYTES, 4100)
    assert [(each.first, each.last) for each in pair.only_first] == [(4100, 4100), (4990, 4999)]
    assert [(each.first, each.last) for each in pair.only_second] == [(4100, 4100)]
