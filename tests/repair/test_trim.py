"""Trimming: what is cut, and what is left to a repair."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import kdump
from kdump.change.apply import apply_plan
from kdump.change.place import new_change
from kdump.errors import KdumpError, RefusedError
from kdump.formats import names
from kdump.formats.batch import LENGTH_AT
from kdump.formats.encode import NewBatch, NewRecord, encode_batch, encode_message
from kdump.formats.index_entries import (
    ABORTED_TXN_SIZE,
    AbortedTxn,
    OffsetIndexEntry,
    TimeIndexEntry,
    decode_offset_entries,
    decode_time_entries,
    encode_aborted_txns,
    encode_offset_entries,
    encode_time_entries,
)
from kdump.mend import flipped_bit
from kdump.mend.proposal import examine_trim
from kdump.mend.task import Task
from tests.repair.damaged import BASES, edit, flip, name
from tests.repair.salvaging import content, errors

CORPUS = Path(__file__).resolve().parent.parent.parent / "fixtures" / "corpus"


def trimmed(partition: Path, *bases: int) -> Task:
    task = examine_trim(kdump.open_log(str(partition)), frozenset(bases) if bases else None)
    assert task.plan is not None
    if task.plan:
        apply_plan(task.plan, new_change(str(partition)), keep_old=False)
    return task


def test_a_sound_partition_is_left_alone(partition: Path) -> None:
    task = trimmed(partition)
    assert task.plan is not None
    assert (task.plan.operations, task.problems) == ((), ())


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("tail", [bytes(5000), b"\xff" * 300, b"\1" * 9, b"\0" * 60 + b"\7" * 80])
def test_a_log_is_cut_behind_its_last_good_batch(partition: Path, base: int, tail: bytes) -> None:
    before = content(partition)
    modified = (partition / name(base, "log")).stat().st_mtime_ns
    edit(name(base, "log"), lambda data: data + tail)(partition)
    os.utime(partition / name(base, "log"), ns=(modified, modified))
    task = trimmed(partition)
    assert content(partition) == before
    assert task.problems == ()
    assert (partition / name(base, "log")).stat().st_mtime_ns == modified
    assert trimmed(partition).plan == (str(partition), (), {})


def test_a_torn_batch(partition: Path) -> None:
    edit(name(40, "log"), lambda data: data[:-10])(partition)
    trimmed(partition)
    size = (partition / name(40, "log")).stat().st_size
    kept = [s for s in kdump.open_log(str(partition)).segments if s.base_offset == 40]
    with kept[0].open_log() as log:
        (block,) = log.blocks()
        assert block.next_position == size
        assert block.last_offset[block.length - 1] == 57


@pytest.mark.parametrize(
    ("kind", "tail"),
    [
        ("index", bytes(800)),
        ("index", b"\0\0\0\1\0\0\0\1"),  # goes back
        ("index", b"\0\0\0\x11\x7f\0\0\0"),  # leads out of the log
        ("index", b"\0\0\0"),
        ("timeindex", bytes(1200)),
        ("timeindex", b"\0\0\0\0\0\0\0\5\0\0\0\1"),
        ("txnindex", b"\0" * 33),
    ],
)
def test_an_index_is_cut_behind_its_last_valid_entry(partition: Path, kind: str, tail: bytes) -> None:
    before = content(partition)
    (partition / name(20, kind)).write_bytes(before.get(name(20, kind), b"") + tail)
    trimmed(partition)
    after = content(partition)
    assert after.pop(name(20, kind)) == before.pop(name(20, kind), b"")
    assert after == before


def test_entries_that_lead_behind_the_last_good_batch_go_with_what_they_told_of(partition: Path) -> None:
    before = content(partition)
    edit(name(20, "log"), lambda data: data[:400])(partition)
    trimmed(partition)
    after = content(partition)
    assert before[name(20, "txnindex")] != b""
    assert after[name(20, "txnindex")] == b""  # its marker was the last batch
    times = after[name(20, "timeindex")]
    (segment,) = (each for each in kdump.open_log(str(partition)).segments if each.base_offset == 20)
    with segment.open_log() as log:
        *_, block = log.blocks()
        assert block.next_position == len(after[name(20, "log")])
        end = block.last_offset[block.length - 1]
        latest = max(block.max_timestamp[: block.length])
    *_, last = decode_time_entries(times, 20)
    assert (last.timestamp, last.offset <= end) == (latest, True)  # as when a broker closes the segment
    assert [error for error in errors(partition) if "IDX" in error] == []
    assert trimmed(partition).plan == (str(partition), (), {})


def test_of_two_entries_out_of_order_the_wrong_one_goes(partition: Path) -> None:
    entries = list(decode_offset_entries((partition / name(20, "index")).read_bytes(), 20))
    assert len(entries) > 2
    wrong = [entries[0], entries[1]._replace(offset=entries[2].offset + 1), *entries[2:]]
    (partition / name(20, "index")).write_bytes(encode_offset_entries(wrong, 20))
    trimmed(partition)
    assert content(partition)[name(20, "index")] == encode_offset_entries(entries[:1], 20)
    assert errors(partition) == []


class TestOffsetEntries:
    """Of a segment with single records at offsets 20 to 27, each batch SIZE bytes long."""

    def trimmed_to(self, folder: Path, *entries: tuple[int, int], zeros: int = 0) -> list[tuple[int, ...]]:
        partition = segment(folder, *range(1000, 1008), base=20)
        path = partition / name(20, "index")
        path.write_bytes(encode_offset_entries([OffsetIndexEntry(*entry) for entry in entries], 20) + bytes(zeros))
        trimmed(partition)
        return [tuple(entry) for entry in decode_offset_entries(path.read_bytes(), 20)]

    @pytest.mark.parametrize("zeros", [0, 80])
    @pytest.mark.parametrize(
        ("before", "after"),
        [
            ([1, 3, 6], [1, 3, 6]),
            ([7], [7]),
            ([3, 3, 6], [3]),
            ([3, 2, 6], [3]),
            ([3, 9, 6], [3]),
        ],
    )
    def test_they_increase_and_stay_in_the_log(
        self, tmp_path: Path, before: list[int], after: list[int], zeros: int
    ) -> None:
        found = self.trimmed_to(tmp_path, *((20 + each, SIZE * each) for each in before), zeros=zeros)
        assert found == [(20 + each, SIZE * each) for each in after]

    def test_the_same_offset_at_another_place(self, tmp_path: Path) -> None:
        entries = (21, SIZE), (21, 2 * SIZE), (23, 3 * SIZE)
        assert self.trimmed_to(tmp_path, *entries) == [(21, SIZE)]

    def test_below_the_base_offset(self, tmp_path: Path) -> None:
        assert self.trimmed_to(tmp_path, (19, SIZE), (23, 3 * SIZE)) == []

    def test_in_front_of_zeros_the_last_one_has_to_lead_to_its_batch(self, tmp_path: Path) -> None:
        entries = (21, SIZE), (23, 3 * SIZE + 1)
        assert self.trimmed_to(tmp_path, *entries, zeros=80) == [(21, SIZE)]

    def test_an_index_that_increases_to_its_end_is_not_compared_with_its_batches(self, tmp_path: Path) -> None:
        """That is for rebuild-index, which writes right ones."""
        entries = (21, SIZE), (23, 3 * SIZE + 1)
        assert self.trimmed_to(tmp_path, *entries) == list(entries)

    def test_entries_of_old_brokers_name_the_first_offset(self, partition: Path) -> None:
        (found,) = (each for each in kdump.open_log(str(partition)).segments if each.base_offset == 20)
        with found.open_log() as log:
            (block,) = log.blocks()
            rows = range(1, block.length)
            old = [OffsetIndexEntry(block.base_offset[row], block.position[row]) for row in rows]
        data = encode_offset_entries(old, 20)
        (partition / name(20, "index")).write_bytes(data + bytes(80))
        trimmed(partition)
        assert content(partition)[name(20, "index")] == data


def test_the_indexes_of_a_log_that_is_left_alone_stay(partition: Path) -> None:
    edit(name(20, "log"), flip(300))(partition)
    edit(name(20, "index"), lambda data: data + b"\x7f" * 8)(partition)
    before = content(partition)
    assert len(trimmed(partition).problems) == 1
    assert content(partition) == before


def test_the_batches_of_another_segment_are_left_to_repair(partition: Path) -> None:
    (partition / name(40, "log")).write_bytes((partition / name(0, "log")).read_bytes())
    before = content(partition)
    (problem,) = trimmed(partition).problems
    assert problem.startswith(f"{partition / name(40, 'log')}: it has offsets below 40")
    assert content(partition) == before


def test_only_the_segments_that_are_named(partition: Path) -> None:
    before = content(partition)
    for base in (0, 20):
        edit(name(base, "index"), lambda data: data + bytes(80))(partition)
    trimmed(partition, 20)
    after = content(partition)
    assert after[name(20, "index")] == before[name(20, "index")]
    assert after[name(0, "index")] == before[name(0, "index")] + bytes(80)


def test_good_batches_behind_damage_are_left_to_repair(partition: Path) -> None:
    edit(name(20, "log"), flip(300))(partition)
    edit(name(40, "log"), lambda data: data + bytes(100))(partition)
    before = content(partition)
    task = trimmed(partition)
    (problem,) = task.problems
    assert problem.startswith(f"{partition / name(20, 'log')}: valid batches follow the damage at byte ")
    assert "--strategy" not in problem
    assert content(partition)[name(20, "log")] == before[name(20, "log")]
    assert content(partition)[name(40, "log")] == before[name(40, "log")][:-100]


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize(
    ("at", "bits", "said"),
    [
        (-5, 0xFF, "a complete batch is damaged at byte "),
        (LENGTH_AT + 2, 0x01, "one flipped bit explains the damage at byte "),  # of a size that leads beyond the end
    ],
)
def test_a_whole_batch_at_the_end_is_left_to_repair(
    partition: Path, base: int, at: int, bits: int, said: str
) -> None:
    """Its records may be in another replica, or one bit away: nobody is asked by trim."""
    (segment,) = (each for each in kdump.open_log(str(partition)).segments if each.base_offset == base)
    with segment.open_log() as log:
        *_, block = log.blocks()
        last, size = block.position[block.length - 1], log.size
    edit(name(base, "log"), lambda data: changed_byte(data, at % size if at < 0 else last + at, bits))(partition)
    before = content(partition)
    task = trimmed(partition)
    (problem,) = task.problems
    assert problem.startswith(f"{partition / name(base, 'log')}: {said}{last} (")
    assert "kdump repair shows the ways out" in problem
    assert content(partition) == before


def changed_byte(data: bytes, at: int, bits: int) -> bytes:
    return data[:at] + bytes((data[at] ^ bits,)) + data[at + 1 :]


def test_a_preallocated_segment_that_was_never_closed(tmp_path: Path) -> None:
    partition = shutil.copytree(CORPUS / "h-prealloc-log" / "topic-0", tmp_path / "topic-0")
    log = next(partition.glob("*.log"))
    size = log.stat().st_size
    task = trimmed(partition)
    assert task.problems == ()
    assert log.stat().st_size < size
    for kind in (names.OFFSET_INDEX, names.TIME_INDEX):
        assert next(partition.glob(f"*.{kind}")).stat().st_size < 10485000
    batches = kdump.open_log(str(partition)).segments[0]
    with batches.open_log() as opened:
        *_, last = opened.blocks()
        assert last.next_position == log.stat().st_size


def test_nothing_else_is_touched(partition: Path) -> None:
    (partition / "notes.txt").write_text("mine")
    (partition / name(0, "log.deleted")).write_text("old")
    before = content(partition)
    edit(name(0, "log"), lambda data: data + bytes(100))(partition)
    trimmed(partition)
    assert content(partition) == before


def segment(folder: Path, *timestamps: int, spare: int = 1200, base: int = 0) -> Path:
    """A partition with one record a batch, as a killed broker leaves it: indexes preallocated, without an entry."""
    partition = folder / "small-0"
    partition.mkdir()
    batches = [encode_batch([NewRecord(at, time, b"k", b"v")], NewBatch()) for at, time in enumerate(timestamps, base)]
    (partition / name(base, "log")).write_bytes(b"".join(batches))
    (partition / name(base, "index")).write_bytes(bytes(spare))
    (partition / name(base, "timeindex")).write_bytes(bytes(spare))
    return partition


SIZE = len(encode_batch([NewRecord(0, 0, b"k", b"v")], NewBatch()))


class TestZerosOfAKilledBroker:
    """Preallocated zeros are no entry: one that is kept names timestamp 0, and retention deletes the segment by it."""

    def test_no_zero_entry_stays(self, tmp_path: Path) -> None:
        partition = segment(tmp_path, 5000, 7000, 6000)
        trimmed(partition)
        assert (partition / name(0, "index")).read_bytes() == b""
        entries = list(decode_time_entries((partition / name(0, "timeindex")).read_bytes(), 0))
        assert entries == [(7000, 1)]
        assert [error for error in errors(partition) if "IDX" in error] == []

    def test_a_real_entry_of_timestamp_0_stays(self, tmp_path: Path) -> None:
        partition = segment(tmp_path, 0, 0)
        trimmed(partition)
        assert list(decode_time_entries((partition / name(0, "timeindex")).read_bytes(), 0)) == [(0, 0)]

    def test_a_real_entry_of_timestamp_0_stays_in_front_of_others(self, tmp_path: Path) -> None:
        partition = segment(tmp_path, 0, 5000)
        path = partition / name(0, "timeindex")
        path.write_bytes(encode_time_entries([TimeIndexEntry(0, 0), TimeIndexEntry(5000, 1)], 0) + bytes(1200))
        trimmed(partition)
        assert list(decode_time_entries(path.read_bytes(), 0)) == [(0, 0), (5000, 1)]

    def test_records_without_a_timestamp(self, tmp_path: Path) -> None:
        partition = segment(tmp_path, -1, -1)
        trimmed(partition)
        assert (partition / name(0, "timeindex")).read_bytes() == b""

    def test_zeros_are_no_aborted_transaction(self, tmp_path: Path) -> None:
        partition = segment(tmp_path, 5000)
        (partition / name(0, "txnindex")).write_bytes(bytes(34))
        trimmed(partition)
        assert (partition / name(0, "txnindex")).read_bytes() == b""


class TestEntriesFromTheFuture:
    """Retention goes by the last entry: with one that is later than all batches it never deletes the segment."""

    @staticmethod
    def trimmed_to(folder: Path, *entries: tuple[int, int], zeros: int = 0) -> list[tuple[int, ...]]:
        partition = segment(folder, 1000, 2000, 3000, 4000)
        path = partition / name(0, "timeindex")
        path.write_bytes(encode_time_entries([TimeIndexEntry(*entry) for entry in entries], 0) + bytes(zeros))
        trimmed(partition)
        return [tuple(entry) for entry in decode_time_entries(path.read_bytes(), 0)]

    @pytest.mark.parametrize("zeros", [0, 120])
    def test_where_right_ones_follow_it(self, tmp_path: Path, zeros: int) -> None:
        entries = (1000, 0), (1 << 60, 1), (3000, 2), (4000, 3)
        assert self.trimmed_to(tmp_path, *entries, zeros=zeros) == [(1000, 0), (4000, 3)]

    @pytest.mark.parametrize("zeros", [0, 120])
    def test_at_the_end(self, tmp_path: Path, zeros: int) -> None:
        """Old brokers left such entries, of timestamps that they threw away when they converted records."""
        assert self.trimmed_to(tmp_path, (1000, 0), (9000, 2), zeros=zeros) == [(1000, 0), (9000, 2)]


class TestTimeEntries:
    """Of a segment with single records at offsets 20 to 24; its largest timestamp is at offset 22 first."""

    TIMES = (1000, 2000, 4000, 4000, 3000)

    def trimmed_to(self, folder: Path, *entries: tuple[int, int], tail: bytes = b"") -> list[tuple[int, ...]]:
        partition = segment(folder, *self.TIMES, base=20)
        path = partition / name(20, "timeindex")
        path.write_bytes(encode_time_entries([TimeIndexEntry(*entry) for entry in entries], 20) + tail)
        trimmed(partition)
        return [tuple(entry) for entry in decode_time_entries(path.read_bytes(), 20)]

    @pytest.mark.parametrize(
        ("before", "after"),
        [
            # behind the first wrong entry nothing counts; the last one is that of the segment
            ([(1000, 20), (2000, 21), (1500, 21), (4000, 22)], [(1000, 20), (2000, 21), (4000, 22)]),
            ([(1000, 20), (2000, 99), (4000, 22)], [(1000, 20), (4000, 22)]),
            ([(1000, 19), (4000, 22)], [(4000, 22)]),
            ([(-1, 20), (4000, 22)], [(4000, 22)]),
            ([(1000, 20), (1000, 21), (4000, 22)], [(1000, 20), (4000, 22)]),
            # one of an append of several batches may name the last of them
            ([(1000, 20), (4000, 23), (2000, 21)], [(1000, 20), (4000, 23)]),
        ],
    )
    def test_timestamps_increase_and_offsets_stay_in_the_log(
        self, tmp_path: Path, before: list[tuple[int, int]], after: list[tuple[int, int]]
    ) -> None:
        assert self.trimmed_to(tmp_path, *before) == after

    def test_an_offset_may_come_again(self, tmp_path: Path) -> None:
        entries = (1000, 21), (2000, 21), (4000, 22)
        assert self.trimmed_to(tmp_path, *entries, tail=bytes(120)) == list(entries)

    @pytest.mark.parametrize(("times", "last"), [((5000,), (5000, 0)), ((0, 0), (0, 0)), ((-1, -1), None)])
    def test_the_last_entry_may_be_the_first(
        self, tmp_path: Path, times: tuple[int, ...], last: tuple[int, int] | None
    ) -> None:
        base = 1 << 40
        partition = segment(tmp_path, *times, base=base)
        path = partition / name(base, "timeindex")
        path.write_bytes(b"\xff" * 24)
        trimmed(partition)
        assert list(decode_time_entries(path.read_bytes(), 0)) == ([] if last is None else [last])

    def test_the_first_of_many_batches_with_the_largest_timestamp(self, tmp_path: Path) -> None:
        partition = segment(tmp_path, *(2500 * [1000]))
        path = partition / name(0, "timeindex")
        path.write_bytes(b"\xff" * 24)
        trimmed(partition)
        assert list(decode_time_entries(path.read_bytes(), 0)) == [(1000, 0)]

    def test_of_a_log_without_a_batch_nothing_stays(self, tmp_path: Path) -> None:
        partition = segment(tmp_path, base=20)
        path = partition / name(20, "timeindex")
        path.write_bytes(encode_time_entries([TimeIndexEntry(1000, 20), TimeIndexEntry(2000, 21)], 20))
        trimmed(partition)
        assert path.read_bytes() == b""


@pytest.mark.parametrize(
    ("before", "kept"),
    [
        ([(20, 21), (20, 23)], 2),
        ([(15, 20), (20, 23)], 2),  # the marker may be the first batch
        ([(15, 19), (20, 23)], 0),
        ([(20, 23), (21, 23)], 1),
        ([(20, 21), (22, 22)], 1),
        ([(20, 21), (22, 24)], 2),
        ([(20, 21), (22, 25)], 1),
    ],
)
def test_aborted_transactions_whose_markers_are_in_the_log(
    tmp_path: Path, before: list[tuple[int, int]], kept: int
) -> None:
    partition = segment(tmp_path, *range(1000, 1005), base=20)
    data = encode_aborted_txns(AbortedTxn(0, 7, first, last, last + 1) for first, last in before)
    path = partition / name(20, "txnindex")
    path.write_bytes(data + b"\0")
    trimmed(partition)
    assert path.read_bytes() == data[: kept * ABORTED_TXN_SIZE]


def test_where_a_checksum_cannot_be_computed_an_end_is_cut_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of old formats: their own needs no library, but the search for a flipped bit tries others."""
    message = encode_message(NewRecord(0, 1000, b"k", b"v" * 40), 1, 0)
    torn = encode_batch([NewRecord(1, 1000, b"k", b"v")], NewBatch())
    length = len(torn) - LENGTH_AT - 4
    torn = torn[: -(length & -length)]  # but for one bit its size is right
    partition = tmp_path / "old-0"
    partition.mkdir()
    (partition / name(0, "log")).write_bytes(message + torn)

    def none(data: bytes) -> int:
        raise KdumpError("CRC-32C needs the package fastcrc or crcmod")

    monkeypatch.setattr(flipped_bit, "crc32c", none)
    assert trimmed(partition).problems == ()
    assert (partition / name(0, "log")).read_bytes() == message


def test_a_directory_without_kafka_files_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "dbus-1"
    (folder / "system.d").mkdir(parents=True)
    with pytest.raises(RefusedError, match=r"has no Kafka files\. Nothing was changed\."):
        examine_trim(kdump.open_log(str(folder)), None)
    (folder / "system.d").rmdir()
    with pytest.raises(RefusedError):
        examine_trim(kdump.open_log(str(folder)), None)
    (tmp_path / "meta.properties").write_text("version=1\n")  # a broker was killed while it made the topic
    assert not examine_trim(kdump.open_log(str(folder)), None).plan
