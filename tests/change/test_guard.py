"""What the guard below all plans counts: each valid batch that goes, and why."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kdump.change.apply import apply_plan
from kdump.change.guard import ANY_LOSS, Allowance, DropKind, Dropped, DroppedBatches, DropsError, dropped_batches
from kdump.change.place import new_change
from kdump.change.plan import REMOVE, RENAME, REPLACE, TRUNCATE, Operation, Plan, make_plan
from kdump.change.splice import spliced
from kdump.formats.batch import CONTROL, DELETE_HORIZON, TRANSACTIONAL
from kdump.formats.encode import NewBatch, NewRecord, encode_batch, encode_message, encode_wrapper
from kdump.storage.recipe import NewContent, Recipe, SourceBytes
from tests.repair.damaged import marker, name
from tests.storage.building import flipped, with_valid_crc

LOST, OLDER, DUPLICATE = DropKind.LOST, DropKind.OLDER_EPOCH, DropKind.DUPLICATE
REPACKED, COMPACTED, RETENTION = DropKind.REPACKED, DropKind.COMPACTED, DropKind.RETENTION
A, B = name(0, "log"), name(10, "log")


def batch(
    offset: int, count: int = 2, *, key: bytes = b"", epoch: int = 0, codec: int = 0, value: bytes | None = b"v"
) -> bytes:
    """Records from an absolute offset on, each with a key of its own unless there is one for all."""
    records = [NewRecord(offset + n, 1000 + n, key or b"key %d" % (offset + n), value) for n in range(count)]
    return encode_batch(records, NewBatch(attributes=codec, leader_epoch=epoch))


class Case:
    """A partition directory, and plans for it."""

    def __init__(self, folder: Path, **files: bytes) -> None:
        """Write files by the names A, B, or their names with a dot for each underscore."""
        self.path = folder / "orders-0"
        self.path.mkdir()
        for key, data in files.items():
            self.write({"A": A, "B": B}.get(key, key), data)

    def write(self, file: str, data: bytes) -> None:
        """Write a file."""
        (self.path / file).write_bytes(data)

    def dropped(self, wanted: dict[str, Recipe], allowance: Allowance | None = None) -> Dropped:
        """What goes where these are the files afterwards."""
        plan = make_plan(str(self.path), wanted, {})
        return dropped_batches(plan.path, plan.operations, plan.recipes, allowance or Allowance())

    def whole(self, file: str, size: int | None = None) -> SourceBytes:
        """A file as it is, or its first bytes."""
        return SourceBytes(file, 0, os.path.getsize(self.path / file) if size is None else size)


@pytest.fixture
def case(tmp_path: Path) -> Case:
    """Two segments of three batches each."""
    return Case(tmp_path, A=batch(0) + batch(2) + batch(4), B=batch(10) + batch(12) + batch(14))


def new(data: bytes) -> NewContent:
    return NewContent(data, len(data))


class TestLost:
    def test_what_is_cut_off(self, case: Case) -> None:
        cut = len(batch(10))
        assert case.dropped({A: case.whole(A), B: case.whole(B, cut)}) == {LOST: DroppedBatches(2, 4, 12, 15)}
        assert case.dropped({A: case.whole(A), B: case.whole(B, cut + 1)}) == {LOST: DroppedBatches(2, 4, 12, 15)}
        assert case.dropped({A: case.whole(A), B: case.whole(B, cut - 1)}) == {LOST: DroppedBatches(3, 6, 10, 15)}

    def test_what_is_removed_replaced_and_renamed_away(self, case: Case) -> None:
        assert case.dropped({A: case.whole(A)}) == {LOST: DroppedBatches(3, 6, 10, 15)}
        assert case.dropped({A: case.whole(A), B: new(b"other")}) == {LOST: DroppedBatches(3, 6, 10, 15)}
        assert case.dropped({A: case.whole(A), B + ".bak": case.whole(B)}) == {LOST: DroppedBatches(3, 6, 10, 15)}

    def test_what_no_walk_would_reach(self, case: Case) -> None:
        case.write(B, b"\xff" * 40 + batch(3, 1) + bytes(100) + batch(1 << 40, 3))
        assert case.dropped({A: case.whole(A), B: new(b"")}) == {LOST: DroppedBatches(2, 4, 3, (1 << 40) + 2)}

    def test_incomplete_batches_zeros_and_indexes_are_no_loss(self, case: Case) -> None:
        case.write(B, batch(10) + batch(12)[:-4] + bytes(5000))
        case.write(name(10, "index"), b"\0\0\0\1" * 400)
        case.write("leader-epoch-checkpoint", b"0\n0\n")
        assert case.dropped({A: case.whole(A), B: case.whole(B, len(batch(10)))}) == {}

    def test_a_log_under_the_name_of_an_index_is_found(self, case: Case) -> None:
        case.write(name(20, "index"), batch(20))
        assert case.dropped({A: case.whole(A), B: case.whole(B)}) == {LOST: DroppedBatches(1, 2, 20, 21)}

    def test_old_formats(self, case: Case) -> None:
        records = [NewRecord(20 + n, 1000, b"k", b"v") for n in range(3)]
        wrapper = encode_wrapper(records, 1, 1)
        case.write(B, encode_message(NewRecord(9, -1, b"k", b"v"), 0) + wrapper)
        assert case.dropped({A: case.whole(A)}) == {LOST: DroppedBatches(2, 4, 9, 22)}

    def test_a_wrapper_that_cannot_be_read_counts_as_a_record(self, case: Case) -> None:
        inner = encode_message(NewRecord(20, 1000, b"k", b"not compressed"), 1, 1)
        case.write(B, inner)
        assert case.dropped({A: case.whole(A)}) == {LOST: DroppedBatches(1, 1, 20, 20)}

    def test_another_one_of_the_same_content_is_no_copy(self, case: Case) -> None:
        one, other = batch(10, 1, key=b"k"), batch(11, 1, key=b"k")
        assert one[16:] == other[16:]
        case.write(B, one + other)
        assert case.dropped({A: case.whole(A), B: case.whole(B, len(one))}) == {LOST: DroppedBatches(1, 1, 11, 11)}


class TestKept:
    def test_with_another_base_offset_or_leader_epoch(self, case: Case) -> None:
        start, data = len(batch(10)), batch(112)
        case.write(B, batch(10) + data + batch(14))
        offset = spliced(case.whole(B), [(start, start + 8, (12).to_bytes(8, "big"))])
        assert case.dropped({A: case.whole(A), B: offset}) == {}
        epoch = spliced(case.whole(B), [(start + 12, start + 16, (3).to_bytes(4, "big"))])
        assert case.dropped({A: case.whole(A), B: epoch}) == {}
        size = spliced(case.whole(B), [(start + 8, start + 12, (100).to_bytes(4, "big"))])
        assert LOST in case.dropped({A: case.whole(A), B: size})

    def test_in_another_file_or_split_over_several(self, case: Case) -> None:
        size = len(batch(10))
        parts: dict[str, Recipe] = {
            name(10, "log"): SourceBytes(B, 0, size),
            name(12, "log"): SourceBytes(B, size, 2 * size),
        }
        assert case.dropped({A: case.whole(A), **parts}) == {}

    def test_written_anew_at_another_offset(self, case: Case) -> None:
        case.write(B, batch(10) + batch(112))
        healed = new(batch(10) + (12).to_bytes(8, "big") + batch(112)[8:])
        assert case.dropped({A: case.whole(A), B: healed}) == {DUPLICATE: DroppedBatches(1, 2, 10, 11)}
        twice = new(healed.data + healed.data[len(batch(10)) :])
        assert DropKind.LOST not in case.dropped({A: case.whole(A), B: twice})

    def test_a_second_time_or_in_other_batches(self, case: Case) -> None:
        case.write(B, batch(4) + batch(10))
        assert case.dropped({A: case.whole(A), B: case.whole(B)}) == {}
        gone = SourceBytes(B, len(batch(4)), len(batch(10)))
        assert case.dropped({A: case.whole(A), B: gone}) == {DUPLICATE: DroppedBatches(1, 2, 4, 5)}
        assert case.dropped({A: case.whole(A), B: new(batch(10, codec=4))}) == {
            DUPLICATE: DroppedBatches(0, 0, None, None).plus(DroppedBatches(1, 2, 4, 5)),
            REPACKED: DroppedBatches(1, 2, 10, 11),
        }

    @pytest.mark.parametrize(
        "other",
        [
            encode_batch([NewRecord(10, 1000, b"k", b"v", ((b"h", b"2"),))], NewBatch()),
            encode_batch([NewRecord(10, 1000, b"k", b"v", ((b"h", b"1"),))], NewBatch(producer_id=7, producer_epoch=0)),
            encode_batch([NewRecord(10, 1000, b"k", b"v", ((b"h", b"1"),))], NewBatch(attributes=TRANSACTIONAL)),
        ],
        ids=["headers", "producer", "transactional"],
    )
    def test_the_same_key_and_value_are_not_the_same_record(self, case: Case, other: bytes) -> None:
        case.write(B, encode_batch([NewRecord(10, 1000, b"k", b"v", ((b"h", b"1"),))], NewBatch()))
        assert case.dropped({A: case.whole(A), B: new(other)}) == {LOST: DroppedBatches(1, 1, 10, 10)}

    def test_a_batch_without_records_tells_only_of_its_producer(self, case: Case) -> None:
        kept = NewBatch(0, 7, 0, base_offset=0, last_offset=0, base_timestamp=1, max_timestamp=1)
        case.write(A, encode_batch([NewRecord(0, 1, b"k", b"v")], kept))
        case.write(A + ".cleaned", encode_batch([], kept) + encode_batch([], kept._replace(producer_id=8)))
        assert case.dropped({A: case.whole(A), B: case.whole(B)}) == {
            REPACKED: DroppedBatches(1, 0, 0, 0),
            LOST: DroppedBatches(1, 0, 0, 0),
        }

    def test_a_file_that_the_broker_deletes(self, case: Case) -> None:
        case.write(B + ".deleted", batch(30))
        assert case.dropped({A: case.whole(A), B: case.whole(B)}) == {DropKind.SET_ASIDE: DroppedBatches(1, 2, 30, 31)}

    def test_the_cleaners_unfinished_file_is_no_exception(self, case: Case) -> None:
        case.write(B + ".cleaned", batch(10) + batch(30))
        assert case.dropped({A: case.whole(A), B: case.whole(B)}) == {
            DUPLICATE: DroppedBatches(1, 2, 10, 11),
            LOST: DroppedBatches(1, 2, 30, 31),
        }

    def test_what_cannot_be_read_is_only_kept_by_the_same_batch(self, case: Case) -> None:
        unreadable = with_valid_crc(batch(12)[:-3] + b"\xff\xff\xff")
        case.write(B, unreadable + batch(14))
        (case.path / "folder").mkdir()
        assert case.dropped({A: case.whole(A), B: new(unreadable)}) == {LOST: DroppedBatches(1, 2, 14, 15)}
        other = new(batch(13, 1) + batch(14, codec=4))
        assert case.dropped({A: case.whole(A), B: other}) == {
            LOST: DroppedBatches(1, 2, 12, 13),
            REPACKED: DroppedBatches(1, 2, 14, 15),
        }
        assert case.dropped({A: case.whole(A), B: new(b"\0" + unreadable)}) == {
            DUPLICATE: DroppedBatches(1, 2, 12, 13),
            LOST: DroppedBatches(1, 2, 14, 15),
        }

    def test_messages_in_wrappers_stay_in_batches(self, case: Case) -> None:
        records = [NewRecord(20 + n, 1000 + n, b"key %d" % (20 + n), b"v") for n in range(3)]
        case.write(B, encode_wrapper(records, 1, 1))
        assert case.dropped({A: case.whole(A), B: new(batch(20, 3) + batch(40))}) == {
            REPACKED: DroppedBatches(1, 3, 20, 22)
        }
        case.write(B, batch(20, 3) + batch(40))
        wrapper = new(encode_wrapper(records, 1, 1) + batch(40))
        assert case.dropped({A: case.whole(A), B: wrapper})[REPACKED] == DroppedBatches(1, 3, 20, 22)
        case.write(B, batch(10))
        assert case.dropped({A: case.whole(A), B: wrapper}) == {LOST: DroppedBatches(1, 2, 10, 11)}


class TestEpochs:
    def test_an_older_one_at_the_same_offsets_is_named(self, case: Case) -> None:
        case.write(B, batch(12, epoch=1, key=b"later"))
        case.write(A, batch(12, epoch=0))
        assert case.dropped({B: case.whole(B)}) == {OLDER: DroppedBatches(1, 2, 12, 13)}
        assert case.dropped({A: case.whole(A)}) == {LOST: DroppedBatches(1, 2, 12, 13)}


class TestAllowed:
    def test_retention_deletes_below_the_new_start_and_nothing_else(self, case: Case) -> None:
        declared = Allowance(below=6)
        assert case.dropped({B: case.whole(B)}, declared) == {RETENTION: DroppedBatches(3, 6, 0, 5)}
        case.write(A, batch(0) + batch(20))
        assert case.dropped({B: case.whole(B)}, declared) == {
            RETENTION: DroppedBatches(1, 2, 0, 1),
            LOST: DroppedBatches(1, 2, 20, 21),
        }

    def test_a_compaction_drops_what_is_superseded_deleted_or_aborted(self, tmp_path: Path) -> None:
        aborted = encode_batch([NewRecord(4, 1000, b"x", b"v")], NewBatch(TRANSACTIONAL, 7, 0, 0))
        tombstone = batch(2, 1, key=b"gone", value=None)
        keyless = encode_batch([NewRecord(3, 1000, None, b"v")])
        case = Case(tmp_path, A=batch(0, 1, key=b"k") + batch(1, 1, key=b"gone") + tombstone + keyless + aborted)
        case.write(B, marker(10, 1000, "abort") + batch(11, 1, key=b"k"))
        wanted: dict[str, Recipe] = {A: new(b""), B: case.whole(B)}
        assert case.dropped(wanted, Allowance(compacts=True)) == {COMPACTED: DroppedBatches(5, 5, 0, 4)}
        assert case.dropped(wanted) == {LOST: DroppedBatches(5, 5, 0, 4)}

    def test_a_compaction_drops_nothing_else(self, tmp_path: Path) -> None:
        committed = encode_batch([NewRecord(1, 1000, b"x", b"v")], NewBatch(TRANSACTIONAL, 7, 0, 0))
        case = Case(tmp_path, A=batch(0, 1, key=b"only") + committed, B=marker(10, 1000, "commit"))
        dropped = case.dropped({A: new(b""), B: new(b"")}, Allowance(compacts=True))
        assert dropped == {LOST: DroppedBatches(2, 2, 0, 1), COMPACTED: DroppedBatches(1, 1, 10, 10)}

    def test_exactly_as_many_records_as_were_named(self, case: Case) -> None:
        plan = make_plan(str(case.path), {A: case.whole(A), B: case.whole(B, 0)}, {})
        for allowance in (Allowance(), Allowance(5), Allowance(7)):
            with pytest.raises(DropsError, match=r"drops 6 valid records \(offsets 10.15\)"):
                apply_plan(plan, new_change(plan.path), allowance=allowance)
        assert sorted(os.listdir(case.path.parent)) == ["orders-0"]
        assert sorted(os.listdir(case.path)) == [A, B]
        apply_plan(plan, new_change(plan.path), allowance=Allowance(6))
        assert os.path.getsize(case.path / B) == 0


class TestReplacements:
    """A .swap that becomes a log: the work of a cleaner, or of a split."""

    def test_what_the_cleaner_left_out(self, tmp_path: Path) -> None:
        horizon = encode_batch([NewRecord(3, 1000, b"t", None)], NewBatch(DELETE_HORIZON, base_timestamp=1000))
        case = Case(tmp_path, A=batch(0, 1, key=b"k") + batch(1, 1, key=b"k") + batch(2, 1) + horizon + batch(4, 1))
        swap = f"{A}.swap"
        case.write(swap, batch(1, 1, key=b"k") + batch(2, 1) + batch(4, 1))
        assert case.dropped({A: case.whole(swap)}) == {
            COMPACTED: DroppedBatches(2, 2, 0, 3),
            DUPLICATE: DroppedBatches(3, 3, 1, 4),
        }

    def test_what_lies_behind_it_is_lost(self, tmp_path: Path) -> None:
        case = Case(tmp_path, A=batch(0, 1, key=b"k") + batch(1, 1, key=b"k"), B=batch(10, 1, key=b"k"))
        swap = f"{A}.swap"
        case.write(swap, batch(0, 1, key=b"k"))
        assert case.dropped({A: case.whole(swap), B: case.whole(B)}) == {
            DUPLICATE: DroppedBatches(1, 1, 0, 0),
            LOST: DroppedBatches(1, 1, 1, 1),
        }

    def test_one_whose_offsets_are_damaged_explains_nothing(self, tmp_path: Path) -> None:
        case = Case(tmp_path, A=batch(0, 1) + batch(1, 1, key=b"k") + batch(2, 1, key=b"k"))
        swap = f"{A}.swap"
        case.write(swap, batch(0, 1) + flipped(batch(2, 1, key=b"k"), 6, 4))
        dropped = case.dropped({A: case.whole(swap)})
        assert dropped[LOST] == DroppedBatches(2, 2, 1, 2)

    def test_records_without_a_key_are_not_the_cleaners_to_drop(self, tmp_path: Path) -> None:
        keyless = encode_batch([NewRecord(1, 1000, None, b"v")])
        case = Case(tmp_path, A=batch(0, 1) + keyless + batch(2, 1))
        swap = f"{A}.swap"
        case.write(swap, batch(0, 1) + batch(2, 1))
        assert case.dropped({A: case.whole(swap)})[LOST] == DroppedBatches(1, 1, 1, 1)


def test_operations_may_be_in_any_order(case: Case) -> None:
    size = len(batch(10))
    operations = (
        Operation(TRUNCATE, B, size),
        Operation(RENAME, name(12, "log"), size, source=B),
        Operation(REPLACE, B, 0),
        Operation(REMOVE, "not there"),
        Operation(TRUNCATE, "not there"),
        Operation(RENAME, "not there either", source="not there"),
    )
    plan = Plan(str(case.path), operations, {B: new(b"")})
    assert dropped_batches(*plan) == {LOST: DroppedBatches(2, 4, 12, 15)}


def test_many_records_are_compared_in_parts(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kdump.change.guard._CHUNK_RECORDS", 3)
    assert case.dropped({A: new(batch(2) + batch(0)), B: new(b"")}) == {
        DUPLICATE: DroppedBatches(2, 4, 0, 3),
        LOST: DroppedBatches(4, 8, 4, 15),
    }


def test_a_control_batch_that_breaks_off_ends_no_transaction(tmp_path: Path) -> None:
    broken = encode_batch([NewRecord(10, 1000, b"\0", b"")], NewBatch(TRANSACTIONAL | CONTROL, 7, 0))
    data = encode_batch([NewRecord(0, 1000, b"x", b"v")], NewBatch(TRANSACTIONAL, 7, 0, 0))
    case = Case(tmp_path, A=data, B=broken)
    assert case.dropped({A: new(b""), B: case.whole(B)}, Allowance(compacts=True)) == {LOST: DroppedBatches(1, 1, 0, 0)}


def test_an_emptied_marker_and_a_batch_larger_than_the_buffer(tmp_path: Path) -> None:
    unreadable = with_valid_crc(batch(40)[:-3] + b"\xff\xff\xff")
    emptied = encode_batch([], NewBatch(TRANSACTIONAL | CONTROL, 7, 0, -1, 0, 20, 20, 1000, 1000))
    large = batch(30, 1, key=b"k", value=b"v" * (3 << 20))
    case = Case(tmp_path, A=batch(0, 1, key=b"k"), B=emptied + batch(25, 1) + large + unreadable)
    assert case.dropped({B: case.whole(B)}, Allowance(compacts=True)) == {COMPACTED: DroppedBatches(1, 1, 0, 0)}


def test_any_loss_may_be_accepted(case: Case) -> None:
    assert ANY_LOSS.allows(case.dropped({A: new(b"")}))
