"""Transactions that lost their marker with what salvage leaves out."""

from __future__ import annotations

from pathlib import Path

import pytest

import kdump
from kdump.formats import names
from kdump.formats.batch import ABORT, CONTROL, TRANSACTIONAL
from kdump.formats.encode import NewBatch, encode_batch
from kdump.formats.index_entries import AbortedTxn, decode_aborted_txns, encode_aborted_txns
from kdump.formats.producer_snapshot import ProducerEntry
from kdump.mend.lost_markers import Gap, NewMarker, aborting_markers, find_gaps, proven_markers
from kdump.mend.salvage_partition import Salvaged
from kdump.mend.task import ABORTED
from kdump.recovery.startup import Startup
from kdump.storage.planned import PlannedPartition
from kdump.storage.recipe import SourceBytes, joined
from kdump.storage.records import Record
from tests.recovery.building import batch, broken, file, make_log, marker, produced
from tests.repair.salvaging import batches, errors, examined, salvage

STARTUP = Startup(now=1_000_000)
P, Q = 7, 8


def data(offset: int, producer: int = P, sequence: int = 0) -> bytes:
    return produced(offset, producer, transactional=True, base_sequence=sequence)


def partition_of(folder: Path, *segments: list[bytes], bases: tuple[int, ...] = (0,)) -> Path:
    """A partition of these segments, with the transaction indexes that a broker has for `aborted`."""
    make_log(folder, {file(base, names.LOG): b"".join(parts) for base, parts in zip(bases, segments, strict=True)})
    return folder / "topic-0"


def note_aborted(partition: Path, base: int, *txns: tuple[int, int, int]) -> None:
    """Write a .txnindex of (producer, first offset, last offset)."""
    entries = [AbortedTxn(0, producer, first, last, last + 1) for producer, first, last in txns]
    (partition / file(base, names.TXN_INDEX)).write_bytes(encode_aborted_txns(entries))


def offsets(partition: Path) -> list[int]:
    return [int.from_bytes(each[:8], "big") for each in batches(partition)]


def open_txns(salvaged: Salvaged) -> list[tuple[int, int]]:
    return [(each.producer_id, each.current_txn_first_offset) for each in salvaged.open_txns]


def aborted(partition: Path, base: int = 0) -> list[tuple[int, int, int]]:
    path = partition / file(base, names.TXN_INDEX)
    found = decode_aborted_txns(path.read_bytes()) if path.exists() else ()
    return [(txn.producer_id, txn.first_offset, txn.last_offset) for txn in found]


LOST = [data(0), data(1, sequence=1), broken(marker(2, P)), batch(3), batch(4)]
"""A transaction whose end cannot be read."""


class TestByDefault:
    def test_it_stays_open(self, tmp_path: Path) -> None:
        partition = partition_of(tmp_path, LOST)
        salvaged = salvage(partition, STARTUP)
        assert salvaged.markers == ()
        assert open_txns(salvaged) == [(P, 0)]
        assert offsets(partition) == [0, 1, 3, 4]

    def test_where_a_txn_index_tells_of_the_abort_the_marker_is_put_back(self, tmp_path: Path) -> None:
        partition = partition_of(tmp_path, LOST)
        note_aborted(partition, 0, (P, 0, 2))
        salvaged = salvage(partition, STARTUP)
        (put_in,) = salvaged.markers
        assert (put_in.offset, put_in.is_proven) == (2, True)
        assert open_txns(salvaged) == []
        assert offsets(partition) == [0, 1, 2, 3, 4]
        assert aborted(partition) == [(P, 0, 2)]
        assert errors(partition, STARTUP) == []

    def test_of_an_index_that_is_to_be_deleted_nothing_is_taken(self, tmp_path: Path) -> None:
        partition = partition_of(tmp_path, LOST)
        note_aborted(partition, 0, (P, 0, 2))
        index = partition / file(0, names.TXN_INDEX)
        index.rename(f"{index}.deleted")
        assert salvage(partition, STARTUP).markers == ()

    def test_so_that_a_later_commit_does_not_commit_what_was_aborted(self, tmp_path: Path) -> None:
        later = [data(5, sequence=2), marker(6, P, commit=True)]
        partition = partition_of(tmp_path, [*LOST, *later])
        note_aborted(partition, 0, (P, 0, 2))
        salvage(partition, STARTUP)
        assert aborted(partition) == [(P, 0, 2)]

    @pytest.mark.parametrize("entry", [(Q, 0, 2), (P, 1, 2), (P, 0, 1), (P, 0, 3), (P, 0, 77), (P, -5, -3)])
    def test_an_index_that_tells_of_something_else_proves_nothing(
        self, tmp_path: Path, entry: tuple[int, int, int]
    ) -> None:
        partition = partition_of(tmp_path, LOST)
        note_aborted(partition, 0, entry)
        salvaged = salvage(partition, STARTUP)
        assert salvaged.markers == ()
        assert open_txns(salvaged) == [(P, 0)]

    def test_its_first_batches_may_be_lost_too(self, tmp_path: Path) -> None:
        partition = partition_of(tmp_path, [broken(data(0)), data(1, sequence=1), broken(marker(2, P)), batch(3)])
        note_aborted(partition, 0, (P, 0, 2))
        assert salvage(partition, STARTUP).markers[0].offset == 2
        assert aborted(partition) == [(P, 1, 2)]

    def test_without_a_gap_an_open_transaction_is_nobodys_business(self, tmp_path: Path) -> None:
        partition = partition_of(tmp_path, [data(0), batch(1)])
        note_aborted(partition, 0, (P, 0, 2))
        salvaged = salvage(partition, STARTUP, ABORTED)
        assert salvaged.markers == ()
        assert open_txns(salvaged) == [(P, 0)]

    def test_the_index_of_a_later_segment_tells_as_well(self, tmp_path: Path) -> None:
        partition = partition_of(tmp_path, [data(0)], [broken(marker(1, P)), batch(2)], bases=(0, 1))
        note_aborted(partition, 1, (P, 0, 1))
        salvage(partition, STARTUP)
        assert offsets(partition) == [0, 1, 2]
        assert aborted(partition, 1) == [(P, 0, 1)]


class TestAbort:
    def test_a_marker_is_put_where_bytes_were_left_out(self, tmp_path: Path) -> None:
        partition = partition_of(tmp_path, LOST)
        salvaged = salvage(partition, STARTUP, ABORTED)
        (put_in,) = salvaged.markers
        assert (put_in.offset, put_in.is_proven, put_in.gap.name) == (2, False, file(0, names.LOG))
        assert open_txns(salvaged) == []
        assert aborted(partition) == [(P, 0, 2)]
        assert errors(partition, STARTUP) == []
        again = examined(partition, STARTUP, ABORTED)
        assert again.plan is not None
        assert again.plan.operations == ()

    def test_the_marker_is_one_that_kafka_would_write(self, tmp_path: Path) -> None:
        partition = partition_of(tmp_path, LOST)
        salvage(partition, STARTUP, ABORTED)
        log = kdump.open_log(str(partition))
        with log.segments[0].open_log() as opened:
            (block,) = opened.blocks()
            row = block.last_offset[: block.length].index(2)
            assert block.attributes[row] == TRANSACTIONAL | CONTROL
            assert (block.producer_id[row], block.producer_epoch[row], block.base_sequence[row]) == (P, 0, -1)
            assert (block.leader_epoch[row], block.count[row], block.size[row]) == (0, 1, 78)
        record = next(each for each in log.records() if isinstance(each, Record) and each.offset == 2)
        assert (record.key, record.value) == (b"\0\0" + ABORT.to_bytes(2, "big"), bytes(6))

    def test_counts_of_what_is_kept_are_without_it(self, tmp_path: Path) -> None:
        partition = partition_of(tmp_path, LOST)
        salvaged = salvage(partition, STARTUP, ABORTED)
        assert salvaged.kept is not None
        assert (salvaged.kept.batches, salvaged.kept.records) == (4, 4)
        assert salvaged.kept.bytes == sum(map(len, LOST)) - len(LOST[2])

    def test_several_transactions_end_in_one_gap(self, tmp_path: Path) -> None:
        lost = [broken(marker(2, P)), broken(marker(3, Q))]
        partition = partition_of(tmp_path, [data(0), data(1, Q), *lost, batch(4)])
        salvaged = salvage(partition, STARTUP, ABORTED)
        assert [(each.producer.producer_id, each.offset) for each in salvaged.markers] == [(P, 2), (Q, 3)]
        assert aborted(partition) == [(P, 0, 2), (Q, 1, 3)]

    def test_what_has_no_room_stays_open(self, tmp_path: Path) -> None:
        partition = partition_of(tmp_path, [data(0), data(1, Q), broken(marker(2, P)), batch(3)])
        salvaged = salvage(partition, STARTUP, ABORTED)
        assert [each.producer.producer_id for each in salvaged.markers] == [P]
        assert open_txns(salvaged) == [(Q, 1)]

    def test_a_gap_without_a_free_offset_holds_none(self, tmp_path: Path) -> None:
        partition = partition_of(tmp_path, [data(0), b"\xff" * 70, batch(1)])
        salvaged = salvage(partition, STARTUP, ABORTED)
        assert salvaged.markers == ()
        assert open_txns(salvaged) == [(P, 0)]

    def test_a_transaction_that_begins_behind_the_gap_lost_nothing(self, tmp_path: Path) -> None:
        partition = partition_of(tmp_path, [batch(0), broken(batch(1)), data(2)])
        salvaged = salvage(partition, STARTUP, ABORTED)
        assert salvaged.markers == ()
        assert open_txns(salvaged) == [(P, 2)]

    def test_what_its_producer_wrote_behind_the_gap_is_another_transaction(self, tmp_path: Path) -> None:
        partition = partition_of(tmp_path, [data(0), broken(marker(1, P)), data(2, sequence=1)])
        salvaged = salvage(partition, STARTUP, ABORTED)
        assert aborted(partition) == [(P, 0, 1)]
        assert open_txns(salvaged) == [(P, 2)]

    def test_the_last_of_several_gaps(self, tmp_path: Path) -> None:
        parts = [data(0), broken(batch(1)), data(2, sequence=1), broken(marker(3, P)), batch(4)]
        partition = partition_of(tmp_path, parts)
        salvaged = salvage(partition, STARTUP, ABORTED)
        assert [each.offset for each in salvaged.markers] == [3]
        assert aborted(partition) == [(P, 0, 3)]

    def test_a_torn_end_is_a_gap(self, tmp_path: Path) -> None:
        partition = partition_of(tmp_path, [data(0), marker(1, P)[:-1]])
        salvaged = salvage(partition, STARTUP, ABORTED)
        assert [each.offset for each in salvaged.markers] == [1]
        assert salvaged.outcome.log_end_offset == 2

    def test_zeros_behind_the_end_are_none(self, tmp_path: Path) -> None:
        partition = partition_of(tmp_path, [data(0), bytes(500)])
        assert salvage(partition, STARTUP, ABORTED).markers == ()

    def test_the_end_of_a_segment(self, tmp_path: Path) -> None:
        partition = partition_of(tmp_path, [data(0), broken(marker(1, P))], [batch(2)], bases=(0, 2))
        salvaged = salvage(partition, STARTUP, ABORTED)
        assert [(each.gap.name, each.offset) for each in salvaged.markers] == [(file(0, names.LOG), 1)]
        assert offsets(partition) == [0, 1, 2]

    def test_a_segment_that_is_lost_as_a_whole(self, tmp_path: Path) -> None:
        partition = partition_of(tmp_path, [data(0)], [b"\xff" * 80], [batch(9)], bases=(0, 1, 9))
        salvaged = salvage(partition, STARTUP, ABORTED)
        assert [(each.gap.name, each.offset) for each in salvaged.markers] == [(file(0, names.LOG), 1)]
        assert errors(partition, STARTUP) == []

    def test_a_last_segment_of_which_nothing_is_kept(self, tmp_path: Path) -> None:
        partition = partition_of(tmp_path, [data(0)], [b"\xff" * 80], bases=(0, 1))
        salvaged = salvage(partition, STARTUP, ABORTED)
        assert [(each.gap.name, each.offset) for each in salvaged.markers] == [(file(1, names.LOG), 1)]
        assert errors(partition, STARTUP) == []
        assert salvaged.outcome.log_end_offset == 2

    def test_compressed_and_old_batches_around_the_gap(self, tmp_path: Path) -> None:
        partition = partition_of(tmp_path, [data(0), broken(marker(1, P)), batch(2, 3, attributes=1)])
        assert len(salvage(partition, STARTUP, ABORTED).markers) == 1
        assert errors(partition, STARTUP) == []


def producer(number: int, first: int) -> ProducerEntry:
    return ProducerEntry(number, 3, 0, first, 0, 1000, 5, first)


def gap(first: int, last: int, *txns: ProducerEntry) -> Gap:
    return Gap(file(0, names.LOG), first, first, last, 4, txns)


def test_a_marker_has_the_epochs_of_what_it_ends() -> None:
    encoded = NewMarker(gap(5, 9, producer(P, 2)), 6, producer(P, 2), False).encoded()
    assert int.from_bytes(encoded[:8], "big") == 6
    assert int.from_bytes(encoded[12:16], "big") == 4  # leader epoch
    assert int.from_bytes(encoded[51:53], "big") == 3  # producer epoch
    assert encoded.endswith(b"\0\0\0\0\0\5\0")  # version, coordinator epoch, no headers


@pytest.mark.parametrize(
    ("is_proven", "how"),
    [(True, "a .txnindex shows that it was aborted there"), (False, "it may have lost its marker")],
)
def test_a_marker_in_words(is_proven: bool, how: str) -> None:
    words = str(NewMarker(gap(5, 9), 6, producer(P, 2), is_proven))
    assert words == f"an ABORT marker at offset 6 ends the transaction of producer 7 from offset 2 on: {how}"


class TestGaps:
    """Where bytes are left out on paper; each batch has 70 bytes and the leader epoch of its offset."""

    LOG = file(0, names.LOG)

    def gaps(self, folder: Path, keeps: tuple[int, ...], *removed: int, tail: bytes = b"") -> list[tuple[int, ...]]:
        """The gaps of a log of offsets 0 to 4 of which these are kept, in front of a segment that begins at 9."""
        parts = [batch(offset, leader_epoch=offset) for offset in range(5)]
        log = make_log(folder, {self.LOG: b"".join(parts) + tail, file(9, names.LOG): batch(9)})
        directory = PlannedPartition(log)
        directory.put(self.LOG, joined([SourceBytes(self.LOG, 70 * each, 70) for each in keeps]))
        gaps, still_open = find_gaps(directory, removed)
        assert still_open == []
        assert {each.name for each in gaps} <= {self.LOG}
        return [(each.position, each.first, each.last, each.leader_epoch) for each in gaps]

    def test_nothing_is_left_out(self, tmp_path: Path) -> None:
        assert self.gaps(tmp_path, (0, 1, 2, 3, 4)) == []

    def test_at_the_beginning(self, tmp_path: Path) -> None:
        assert self.gaps(tmp_path, (2, 3, 4)) == [(0, 0, 1, -1)]

    def test_inside(self, tmp_path: Path) -> None:
        assert self.gaps(tmp_path, (0, 2, 4)) == [(70, 1, 1, 0), (140, 3, 3, 2)]

    def test_at_the_end_up_to_the_next_segment(self, tmp_path: Path) -> None:
        assert self.gaps(tmp_path, (0, 1, 2)) == [(210, 3, 8, 2)]

    def test_zeros_at_the_end_are_none(self, tmp_path: Path) -> None:
        assert self.gaps(tmp_path, (0, 1, 2, 3, 4), tail=bytes(300)) == []
        assert self.gaps(tmp_path, (0, 1, 2, 3, 4), tail=bytes(300) + b"\1") == [(350, 5, 8, 4)]

    @pytest.mark.parametrize("base", [5, 8])
    def test_a_segment_that_is_gone(self, tmp_path: Path, base: int) -> None:
        assert self.gaps(tmp_path, (0, 1, 2, 3, 4), base) == [(350, 5, 8, 4)]

    def test_in_front_of_a_batch_that_compaction_emptied(self, tmp_path: Path) -> None:
        fields = NewBatch(base_offset=2, last_offset=2, base_timestamp=1000, max_timestamp=1000, leader_epoch=0)
        data = batch(0) + broken(batch(1)) + encode_batch([], fields)
        log = make_log(tmp_path, {self.LOG: data})
        directory = PlannedPartition(log)
        directory.put(self.LOG, joined([SourceBytes(self.LOG, 0, 70), SourceBytes(self.LOG, 140, len(data) - 140)]))
        ((found,), _) = find_gaps(directory, ())
        assert (found.position, found.first, found.last) == (70, 1, 1)


def test_the_choice_of_gaps() -> None:
    p, q = producer(P, 2), producer(Q, 3)
    gaps = [gap(5, 5, p, q), gap(8, 9, p)]
    assert [(each.producer, each.offset) for each in aborting_markers(gaps, [q, p])] == [(p, 8), (q, 5)]
    elsewhere = [AbortedTxn(0, P, 2, 99, 0), AbortedTxn(0, P, 2, 7, 0)]
    proofs = [*elsewhere, AbortedTxn(0, P, 2, 9, 0), AbortedTxn(0, Q, 1, 5, 0)]
    assert [(each.producer, each.offset) for each in proven_markers(gaps, proofs)] == [(q, 5), (p, 9)]


def test_as_many_markers_in_a_gap_as_it_has_offsets() -> None:
    txns = [producer(number, number) for number in range(4)]
    assert [(each.producer, each.offset) for each in aborting_markers([gap(5, 7, *txns)], txns)] == [
        (txns[0], 5),
        (txns[1], 6),
        (txns[2], 7),
    ]
