"""Two copies of a partition, batch by batch."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import active_count
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.formats.codecs import GZIP
from kdump.formats.encode import NewBatch, NewRecord, encode_batch, encode_wrapper
from kdump.replication.compare import Compared, Comparison, Contents, OffsetRange, Relation, compare
from kdump.replication.rows import BatchRows
from kdump.storage.partition import PartitionLog
from tests.replicas.building import NOW, OnDisk, Sent, chain, flip, write_copy


def compared(root: Path, *copies: OnDisk, threads: bool = True) -> Compared:
    folders = [write_copy(root, number, copy) for number, copy in enumerate(copies, 1)]
    return compare([PartitionLog(str(folder)) for folder in folders], uses_threads=threads)


@pytest.mark.parametrize("threads", [True, False])
def test_segments_may_end_elsewhere(tmp_path: Path, threads: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kdump.replication.compare.THREADS_FROM", 0)
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
    monkeypatch.setattr("kdump.replication.compare.THREADS_FROM", 0)
    logs = [PartitionLog(str(write_copy(tmp_path, number, OnDisk(chain(0, (0, 5)), roll=[10])))) for number in (1, 2)]
    Path(logs[1].segments[1].log_path).unlink()
    with pytest.raises(FileNotFoundError):
        compare(logs)


def test_more_than_a_block_of_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kdump.replication.compare.THREADS_FROM", 0)
    batches = chain(0, (0, 5000), size=1)
    other = [*batches[:4100], Sent(4100, 1, 0, "other"), *batches[4101:4990]]
    pair = compared(tmp_path, OnDisk(batches, roll=[3000]), OnDisk(other, roll=[10, 4500])).pairs[0]
    assert (pair.relation, pair.same_up_to) == (Relation.BYTES, 4100)
    assert [(each.first, each.last) for each in pair.only_first] == [(4100, 4100), (4990, 4999)]
    assert [(each.first, each.last) for each in pair.only_second] == [(4100, 4100)]


class Held(NamedTuple):
    """A batch on a disk; `flipped` is the byte of its content in which a bit has changed (0: none)."""

    sent: Sent
    flipped: int = 0

    @property
    def data(self) -> bytes:
        data = bytearray(self.sent.data)
        if self.flipped:
            data[60 + self.flipped] ^= 1
        return bytes(data)

    @property
    def range(self) -> OffsetRange:
        sent = self.sent
        return OffsetRange(sent.base, sent.end - 1, 1, sent.count, len(sent.data), self.flipped > 0)

    def is_relabelled(self, other: Held) -> bool:
        """Whether only the leader epoch differs. Of damaged batches nobody knows."""
        same = self.sent.base, self.sent.count, self.sent.mark
        return same == (other.sent.base, other.sent.count, other.sent.mark) and not self.flipped and not other.flipped


Copy = list[Held]


def joined(ranges: list[OffsetRange], most: int) -> tuple[OffsetRange, ...]:
    """What follows directly and is of one kind as one range; all after so many in the last one."""
    found: list[OffsetRange] = []
    for each in ranges:
        last = found[-1] if found else None
        is_next = last is not None and last.last + 1 >= each.first and last[5:] == each[5:]
        if last is not None and (is_next or len(found) == most):
            sums = (last.batches + 1, last.records + each.records, last.size + each.size)
            found[-1] = OffsetRange(last.first, each.last, *sums, *last[5:])
        else:
            found.append(each)
    return tuple(found)


def contents(copy: Copy, most: int, begin: int = 0) -> Contents:
    bases = [each.sent.base for each in copy[::4]]
    read = copy[4 * max(0, bisect_right(bases, begin) - 1) :]
    first = copy[0].sent.base if copy else 0
    end = max(first, begin)
    damaged = joined([each.range for each in read if each.flipped], most)
    return Contents(first, read[-1].sent.end if read else end, len(read), damaged)


def comparison(a: Copy, b: Copy, most: int, start: int = 0) -> Comparison:
    """The same, one batch after the other."""
    start = max(start, *(copy[0].sent.base if copy else 0 for copy in (a, b)))
    ours, theirs = ([each for each in copy if each.sent.end > start] for copy in (a, b))
    same_up_to, relation, i, j = start, Relation.IDENTICAL, 0, 0
    only: tuple[list[OffsetRange], list[OffsetRange]] = ([], [])
    while i < len(ours) or j < len(theirs):
        one, other = (side[at] if at < len(side) else None for side, at in ((ours, i), (theirs, j)))
        if one is not None and one == other:
            i, j = i + 1, j + 1
            same_up_to = one.sent.end if relation is Relation.IDENTICAL else same_up_to
            continue
        if relation is Relation.IDENTICAL:
            same_up_to = max(same_up_to, min(each.sent.base for each in (one, other) if each is not None))
            is_epoch = one is not None and other is not None and one.sent.epoch != other.sent.epoch
            relation = Relation.EPOCH if is_epoch else Relation.BYTES
            relation = Relation.BEHIND if one is None else Relation.AHEAD if other is None else relation
        is_relabelled = (
            one is not None
            and other is not None
            and one != other
            and one.sent.epoch != other.sent.epoch
            and one.is_relabelled(other)
        )
        takes = (
            one is not None and (other is None or one.sent.end <= other.sent.end),
            other is not None and (one is None or other.sent.end <= one.sent.end),
        )
        for side, each in enumerate((one, other)):
            if takes[side] and each is not None:
                only[side].append(each.range._replace(is_relabelled=is_relabelled))
        i, j = i + takes[0], j + takes[1]
    return Comparison(0, 1, relation, same_up_to, start, joined(only[0], most), joined(only[1], most))


def on_disk(folder: Path, copy: Copy) -> PartitionLog:
    """A copy that begins a segment at every fourth batch."""
    folder.mkdir(parents=True)
    for first in range(0, len(copy), 4):
        part = copy[first : first + 4]
        (folder / f"{part[0].sent.base:020d}.log").write_bytes(b"".join(each.data for each in part))
    if not copy:
        (folder / f"{0:020d}.log").write_bytes(b"")
    return PartitionLog(str(folder))


BATCHES = st.tuples(
    st.sampled_from([0, 0, 0, 0, 1]), st.sampled_from(["", "", "", "x"]), st.sampled_from([0] * 8 + [5, 7])
)


@st.composite
def copies(draw: st.DrawFn, *, overlap: bool) -> list[Copy]:
    """Two copies of one log of which some batches are lost, or others, or damaged, or (`overlap`) cut otherwise."""
    slots = draw(st.integers(1, 14))
    found: list[Copy] = []
    for _ in range(2):
        first, last = sorted(draw(st.tuples(st.integers(0, 4), st.integers(0, slots))))
        copy: Copy = []
        lost = draw(st.sets(st.integers(0, slots), max_size=2))
        at = 3 * first
        for slot in range(first, last):
            if slot in lost or 3 * slot < at:
                continue
            epoch, mark, flipped = draw(BATCHES)
            count = draw(st.sampled_from([3, 3, 3, 5, 7])) if overlap else 3
            copy.append(Held(Sent(3 * slot, count, epoch, mark), flipped))
            at = 3 * slot + count
        found.append(copy)
    return found


@given(st.data(), st.sampled_from([1, 2, 3, 2048]), st.sampled_from([1, 2, 1000]), st.booleans(), st.integers(0, 20))
def test_any_two_copies(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, rows: int, most: int, threads: bool, start: int
) -> None:
    """However many batches are read at once, and whether threads read them."""
    first, second = data.draw(copies(overlap=rows == 2048))
    root = tmp_path_factory.mktemp("copies")
    logs = [on_disk(root / str(number) / "t-0", copy) for number, copy in enumerate((first, second))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kdump.storage.log_reader.BATCH_ROWS", rows)
        for module in ("compare.MAX_RANGES", "compare._FIRST_CHUNK"):
            patch.setattr(f"kdump.replication.{module}", most)
        patch.setattr("kdump.replication.compare.THREADS_FROM", 0)
        found = compare(logs, uses_threads=threads)
        turned = compare(logs[::-1], uses_threads=threads)
        later = compare(logs, [start, 0], uses_threads=threads)
    assert found.contents == (contents(first, most), contents(second, most))
    assert found.pairs == (comparison(first, second, most),)
    assert replace(turned.pair(1, 0), first=0, second=1) == found.pair(0, 1)
    assert replace(turned.pairs[0], first=1, second=0) == found.pair(1, 0)
    assert found.pair(1, 0).swapped() == found.pair(0, 1)
    assert later.contents == found.contents
    assert later.pairs == (comparison(first, second, most, start),)


def test_a_batch_that_reaches_over_one_of_the_other_copy_begins_the_difference(tmp_path: Path) -> None:
    """Whichever of the two is read first: the other copy lacks offsets 9 to 11."""
    one, other = (
        [Held(Sent(base, count, 0)) for base, count in copy]
        for copy in ([(3, 3), (6, 3), (12, 3)], [(3, 3), (6, 3), (9, 7)])
    )
    logs = [on_disk(tmp_path / name / "t-0", copy) for name, copy in (("a", one), ("b", other), ("c", other[2:]))]
    for number, expected in ((1, comparison(one, other, 9)), (2, comparison(one, other[2:], 9))):
        assert expected.same_up_to == 9
        assert compare([logs[0], logs[number]]).pairs == (expected,)
        assert compare([logs[number], logs[0]]).pairs == (replace(expected.swapped(), first=0, second=1),)


def test_from_an_offset_on(tmp_path: Path) -> None:
    """What ends before it is not read."""
    whole = [Held(each) for each in chain(5, (0, 12))]
    other = [*whole[:2], Held(Sent(15, 5, 0, "x")), *whole[3:9], Held(Sent(50, 5, 0, "x"), 5)]
    logs = [on_disk(tmp_path / name / "t-0", copy) for name, copy in (("a", whole), ("b", other))]
    for begin in (0, 5, 6, 20, 24, 25, 26, 50, 54, 55, 90):
        found = compare(logs, begin=begin)
        assert found.contents == (contents(whole, 1000, begin), contents(other, 1000, begin)), begin
        assert found.pairs == (comparison(whole, other, 1000, begin),), begin


def test_threads_read_large_copies_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logs = [on_disk(tmp_path / name / "t-0", [Held(each) for each in chain(0, (0, 6))]) for name in "abc"]
    used: list[object] = []

    def prefetched(items: Iterator[BatchRows]) -> Iterator[BatchRows]:
        used.append(items)
        return items

    monkeypatch.setattr("kdump.replication.compare.prefetched", prefetched)
    size = sum(path.stat().st_size for path in tmp_path.glob("[ab]/t-0/*.log"))
    for number, most, threads, expected in (
        (2, size, True, 2), (2, size + 1, True, 0), (2, size, False, 0), (1, 0, True, 0), (3, size, True, 3),
    ):  # fmt: skip
        used.clear()
        monkeypatch.setattr("kdump.replication.compare.THREADS_FROM", most)
        compare(logs[:number], uses_threads=threads)
        assert len(used) == expected
    monkeypatch.setattr("kdump.replication.compare.THREADS_FROM", 0)
    used.clear()
    compare(logs)
    assert len(used) == 3


def test_copies_are_closed_whatever_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kdump.replication.compare.THREADS_FROM", 0)
    monkeypatch.setattr("kdump.storage.log_reader.BATCH_ROWS", 1)
    logs = [on_disk(tmp_path / name / "t-0", [Held(each) for each in chain(0, (0, 30))]) for name in "ab"]
    before = active_count()

    def fail(self: object, first: object, second: object) -> None:
        raise OSError("broken")

    monkeypatch.setattr("kdump.replication.compare._Pair.feed", fail)
    with pytest.raises(OSError, match="broken"):
        compare(logs)
    assert active_count() == before


def test_pace_is_asked_for_each_stretch_that_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kdump.storage.log_reader.BATCH_ROWS", 2)
    taken: list[int] = []

    class Counting:
        def take(self, size: int) -> None:
            taken.append(size)

    log = on_disk(tmp_path / "t-0", [Held(each) for each in chain(0, (0, 4))])
    compare([log], pace=Counting())  # type: ignore[arg-type]
    sizes = [len(each.data) for each in chain(0, (0, 4))]
    assert taken == [sum(sizes[:2]), sum(sizes[2:])]


def test_damaged_batches_of_a_mebibyte_are_compared_to_their_end(tmp_path: Path) -> None:
    """Piece by piece; the header says nothing of their bytes."""
    records = [NewRecord(5, NOW, None, bytes((1 << 20) + 4000), ())]
    large = encode_batch(records, NewBatch(leader_epoch=0))
    first = chain(0, (0, 1))[0].data
    for at, same in ((100, True), (1 << 20, False), (len(large) - 1, False)):
        logs = []
        for number, (prefix, position) in enumerate(((first, b"")[number], (100, at)[number]) for number in (0, 1)):
            folder = tmp_path / f"{at}-{number}" / "t-0"
            folder.mkdir(parents=True)
            data = bytearray(large)
            data[100] ^= 1
            data[position] ^= position != 100
            behind = Sent(6, 5, 0, str(number)).data  # which is not the batch's
            (folder / f"{0 if prefix else 5:020d}.log").write_bytes(prefix + bytes(data) + behind)
            logs.append(PartitionLog(str(folder)))
        for copies in (logs, logs[::-1]):
            assert compare(copies).pairs[0].same_up_to == (6 if same else 5), at


def test_a_wrapper_has_one_record_and_its_last_offset(tmp_path: Path) -> None:
    records = [NewRecord(offset, NOW, None, b"v", ()) for offset in range(10, 15)]
    folders = []
    for name, data in (("a", encode_wrapper(records, 1, GZIP)), ("b", b"")):
        folder = tmp_path / name / "t-0"
        folder.mkdir(parents=True)
        (folder / f"{8:020d}.log").write_bytes(data)
        folders.append(str(folder))
    found = compare([PartitionLog(folder) for folder in folders])
    assert found.contents == (Contents(8, 15, 1, ()), Contents(8, 8, 0, ()))
    (pair,) = found.pairs
    assert (pair.relation, pair.compared_from) == (Relation.AHEAD, 8)
    size = len(encode_wrapper(records, 1, GZIP))
    assert pair.only_first == (OffsetRange(14, 14, 1, 1, size),)


def test_an_unknown_pair(tmp_path: Path) -> None:
    logs = [on_disk(tmp_path / name / "t-0", []) for name in "ab"]
    with pytest.raises(KeyError):
        compare(logs).pair(0, 2)


def test_a_copy_without_a_segment_begins_at_0(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    tail = [Held(each) for each in chain(5, (0, 2))]
    found = compare([PartitionLog(str(tmp_path / "t-0")), on_disk(tmp_path / "a" / "t-0", tail)])
    assert found.contents == (Contents(0, 0, 0, ()), contents(tail, 9))
    assert found.pairs == (comparison([], tail, 9),)


def test_a_copy_without_any_segment_has_nothing(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    log = PartitionLog(str(tmp_path / "t-0"))
    found = compare([log, log])
    assert found.contents == (Contents(0, 0, 0, ()),) * 2
    assert found.pairs == (Comparison(0, 1, Relation.IDENTICAL, 0, 0),)
