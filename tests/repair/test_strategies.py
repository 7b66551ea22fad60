"""What each strategy makes of a partition, and where it leaves it alone."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import kdump
from kdump.change.apply import apply_plan
from kdump.change.guard import NOTHING
from kdump.change.place import new_change
from kdump.change.plan import Operation
from kdump.errors import KdumpError
from kdump.formats import names
from kdump.mend import flipped_bit, strategies
from kdump.mend.decision import Way
from kdump.mend.proposal import examine
from kdump.mend.task import FIX_BIT, SAFE, SALVAGE, STRATEGIES, TRUNCATE_LOG, Request, Strategy, Task
from kdump.recovery.startup import Startup
from kdump.storage.partition import PartitionLog
from tests.recovery.building import NOW, batch, broken, file, make_log, produced, with_last_delta
from tests.repair.damaged import DAMAGES, STARTUP, copied, data_batch, edit, flip, lost_by, name, several
from tests.repair.salvaging import content, salvage

CLEAN = STARTUP._replace(clean=True, recovery_point=59)
ALL = (*STRATEGIES, FIX_BIT)


UNREADABLE = with_last_delta(batch(1)[:57] + (3).to_bytes(4, "big") + batch(1)[61:], 2)
"""A batch of one record that is said to have three; its CRC holds."""


def planned(partition: Path, strategy: Strategy, startup: Startup = STARTUP) -> Task:
    return examine(kdump.open_log(str(partition)), startup, Request(strategy))


def operations(task: Task) -> list[Operation]:
    assert task.plan is not None, task.problems
    return [each._replace(inode=0) for each in task.plan.operations]


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("strategy", ALL)
@pytest.mark.parametrize("damage", ["middle segment, payload", "last segment, torn tail", "index missing"])
def test_a_directory_that_is_not_named_as_a_partition(
    partition: Path, damage: str, strategy: Strategy, clean: bool
) -> None:
    DAMAGES[damage](partition)
    startup = CLEAN if clean else STARTUP
    copy = shutil.copytree(partition, partition.with_name("copy"))
    named, unnamed = planned(partition, strategy, startup), planned(copy, strategy, startup)
    if named.plan is None:
        assert unnamed.plan is None
        return
    assert operations(unnamed) == operations(named)
    assert (unnamed.extent, unnamed.dropped) == (named.extent, named.dropped)
    assert (unnamed.decision is None) == (named.decision is None)


class TestWaitsForDeletion:
    """A broker deletes such a directory a minute after its start, whatever is in it."""

    @pytest.fixture
    def deleted(self, partition: Path) -> Path:
        return partition.rename(partition.with_name(f"orders-0.{32 * '1'}-delete"))

    @pytest.mark.parametrize("damage", ["middle segment, payload", "index missing", "cleaned files"])
    def test_it_is_left_to_the_broker(self, deleted: Path, damage: str) -> None:
        DAMAGES[damage](deleted)
        task = planned(deleted, SAFE)
        assert (operations(task), task.decision, task.extent) == ([], None, None)

    def test_whatever_it_has_beside_its_logs(self, deleted: Path) -> None:
        (deleted / "abc.log").write_bytes(b"hello")
        assert operations(planned(deleted, SAFE)) == []


class TestTruncate:
    def test_what_an_index_hides_is_found_again(self, tmp_path: Path) -> None:
        """After an orderly stop a broker believes the indexes, and takes the log to end before its last segment."""
        files = {
            file(0, "log"): batch(0, 8),
            file(8, "log"): batch(8),
            file(8, "index"): b"\0\0\0\1\0\0\1\0",
        }
        log = make_log(tmp_path, files)
        task = examine(log, Startup(NOW, clean=True, recovery_point=9), Request(TRUNCATE_LOG))
        assert task.outcome is not None
        assert not task.outcome.hides
        assert task.extent == (0, 9)
        assert lost_by(task) == NOTHING

    @pytest.mark.parametrize("clean", [True, False])
    def test_damage_is_found_below_the_recovery_point_too(self, tmp_path: Path, clean: bool) -> None:
        files = {file(0, "log"): broken(batch(0)), file(1, "log"): batch(1)}
        log = make_log(tmp_path, files | {file(base, "index"): b"" for base in (0, 1)})
        task = examine(log, Startup(NOW, clean=clean, recovery_point=2), Request(TRUNCATE_LOG))
        assert task.extent == (0, 0)
        assert lost_by(task).records == 1

    def test_valid_batches_behind_the_damage_are_counted(self, partition: Path) -> None:
        DAMAGES["middle segment, payload"](partition)
        assert lost_by(planned(partition, TRUNCATE_LOG)) == (19, 36, 22, 58)

    @pytest.mark.parametrize("damage", ["last segment, torn tail", "last segment, zero tail"])
    def test_an_end_without_a_batch_is_none(self, partition: Path, damage: str) -> None:
        DAMAGES[damage](partition)
        assert lost_by(planned(partition, TRUNCATE_LOG)) == NOTHING

    def test_a_log_that_cannot_be_loaded_is_left_alone(self, partition: Path) -> None:
        (partition / "abc.log").write_bytes(b"hello")
        task = planned(partition, TRUNCATE_LOG)
        assert task.plan is None
        assert task.failure is not None

    @pytest.mark.parametrize("point", [0, 59])
    def test_indexes_of_a_clean_log_are_built_anew_where_they_are_unsound(self, partition: Path, point: int) -> None:
        before = content(partition)
        edit(name(0, "index"), flip(7))(partition)
        task = planned(partition, TRUNCATE_LOG, CLEAN._replace(recovery_point=point))
        assert [each.name for each in operations(task)] == [name(0, "index")]
        assert task.plan is not None
        apply_plan(task.plan, new_change(str(partition)), keep_old=False)
        assert content(partition) == before

    @pytest.mark.parametrize(("clean", "point"), [(False, 59), (False, 30), (True, 0), (False, 0)])
    def test_indexes_below_the_recovery_point_too(self, partition: Path, clean: bool, point: int) -> None:
        """A broker recovers what is above it, and believes the rest."""
        before = content(partition)
        edit(name(0, "index"), flip(7))(partition)
        task = planned(partition, TRUNCATE_LOG, STARTUP._replace(clean=clean, recovery_point=point))
        assert task.plan is not None
        apply_plan(task.plan, new_change(str(partition)), keep_old=False)
        assert content(partition)[name(0, "index")] == before[name(0, "index")]


class TestSalvage:
    def test_of_a_sound_log_nothing_is_counted(self, partition: Path) -> None:
        task = planned(partition, SALVAGE, CLEAN)
        assert task.salvaged is not None
        assert (task.salvaged.kept, task.salvaged.kafka_keeps, task.salvaged.cuts) == (None, None, ())
        assert (operations(task), task.extent) == ([], (0, 59))


    def test_batches_whose_records_cannot_be_read_go(self, tmp_path: Path) -> None:
        log = make_log(tmp_path, {file(0, "log"): batch(0) + UNREADABLE + batch(4)})
        task = examine(log, Startup(NOW, clean=True, recovery_point=5), Request(SALVAGE))
        assert [(cut.start, cut.stop) for cut in task.cuts] == [(len(batch(0)), len(batch(0) + UNREADABLE))]

    def test_open_transactions_of_a_sound_log_are_told_of(self, tmp_path: Path) -> None:
        log = make_log(tmp_path, {file(0, "log"): produced(0, 7, transactional=True) + batch(1)})
        for startup in (Startup(NOW), Startup(NOW, clean=True, recovery_point=2)):  # the first one makes the rest
            task = examine(PartitionLog(log.path), startup, Request(SALVAGE))
            assert task.salvaged is not None
            assert [(each.producer_id, each.current_txn_first_offset) for each in task.salvaged.open_txns] == [(7, 0)]
            assert task.plan is not None
            apply_plan(task.plan, new_change(log.path), keep_old=False)
        assert task.salvaged is not None
        assert task.salvaged.kept is None


class TestFixBit:
    def test_records_that_cannot_be_read_are_no_matter_of_bits(self, tmp_path: Path) -> None:
        log = make_log(tmp_path, {file(0, "log"): batch(0) + UNREADABLE})
        task = examine(log, Startup(NOW), Request(FIX_BIT))
        assert (task.plan, task.problems) == ((log.path, (), {}), ())

    def test_without_damage_there_is_nothing_to_do(self, partition: Path) -> None:
        task = planned(partition, FIX_BIT)
        assert (task.plan, task.problems) == ((str(partition), (), {}), ())

    def test_several_bits_of_a_log_and_of_others(self, partition: Path) -> None:
        before = content(partition)
        later = before[name(0, "log")].index((10).to_bytes(8, "big")) + 70
        several(edit(name(0, "log"), flip(70)), edit(name(0, "log"), flip(later)), edit(name(40, "log"), flip(80)))(
            partition
        )
        task = planned(partition, FIX_BIT, CLEAN)
        assert {(each.range.file, each.flipped and each.flipped.position) for each in task.fixed} == {
            (name(0, "log"), 70),
            (name(0, "log"), later),
            (name(40, "log"), 80),
        }
        assert sorted((each.name, each.why) for each in operations(task)) == [
            (name(0, "log"), "flip the bit back"),
            (name(40, "log"), "flip the bit back"),
        ]
        assert task.plan is not None
        apply_plan(task.plan, new_change(str(partition)), keep_old=False)
        assert content(partition) == before

    def test_what_no_bit_explains_is_named_beside_the_others(self, partition: Path) -> None:
        edit(name(0, "log"), flip(70))(partition)
        edit(name(20, "log"), lambda data: data[:70] + bytes(20) + data[90:])(partition)
        task = planned(partition, FIX_BIT)
        assert [each.range.file for each in task.fixed] == [name(0, "log")]
        assert task.problems == (
            f"{partition}/{name(20, 'log')}: no single flipped bit explains the damage at byte 0",
        )
        assert [each.name for each in operations(task)] == [name(0, "log")]

    def test_damage_that_is_no_range_of_bytes(self, partition: Path) -> None:
        """Batches whose offsets do not increase are whole."""
        size = 12 + int.from_bytes((partition / name(0, "log")).read_bytes()[8:12], "big")
        edit(name(0, "log"), lambda data: data[:size] + data)(partition)
        task = planned(partition, FIX_BIT)
        assert task.plan is None
        assert task.problems == (f"{partition}: no flipped bit explains what is damaged",)


class TestDecision:
    def test_no_more_ranges_are_searched_than_takes_a_moment(
        self, partition: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        several(*(edit(name(base, "log"), flip(70)) for base in (0, 20, 40)))(partition)
        monkeypatch.setattr(strategies, "MAX_SEARCHED", 2)
        decision = planned(partition, SAFE).decision
        assert decision is not None
        assert [each.flipped is not None for each in decision.damaged] == [True, True, False]

    def test_without_a_checksum_nothing_is_searched(
        self, partition: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def none(data: bytes) -> int:
            raise KdumpError("CRC-32C needs the package fastcrc or crcmod")

        edit(name(0, "log"), flip(70))(partition)
        monkeypatch.setattr(flipped_bit, "crc32c", none)
        decision = planned(partition, SAFE).decision
        assert decision is not None
        assert [each.flipped for each in decision.damaged] == [None]

    def test_a_bit_that_makes_an_incomplete_end_whole_is_not_cut_off(self, partition: Path) -> None:
        """Of the size, which leads beyond the end of the log."""
        data = (partition / name(40, "log")).read_bytes()
        last = data.rindex((58).to_bytes(8, "big"))
        edit(name(40, "log"), flip(last + 9))(partition)
        decision = planned(partition, SAFE, CLEAN).decision
        assert decision is not None
        (damaged,) = decision.damaged
        assert damaged.flipped is not None
        assert damaged.flipped.position == last + 9

    def test_ranges_are_in_the_order_of_the_log(self, partition: Path) -> None:
        several(*(edit(name(base, "log"), flip(70)) for base in (40, 0, 20)))(partition)
        edit(name(20, "log"), flip(400))(partition)
        decision = planned(partition, SAFE).decision
        assert decision is not None
        found = [(each.range.file, each.range.start) for each in decision.damaged]
        assert found == sorted(found)
        assert not any(each.range.is_valid for each in decision.damaged)
        assert [each for each, _ in found] == [name(base, "log") for base in (0, 20, 20, 40)]

    def test_a_whole_batch_at_the_end_is_not_cut_off(self, partition: Path) -> None:
        """Nothing tells which offsets it had, but another replica may have it."""
        edit(name(40, "log"), lambda data: data[:-12] + bytes(12))(partition)
        decision = planned(partition, SAFE, CLEAN).decision
        assert decision is not None
        assert [(each.range.last_offset, each.flipped) for each in decision.damaged] == [(None, None)]

    def test_a_batch_of_another_segment_is_not_repaired(self, partition: Path) -> None:
        """But for one bit it is valid; it does not belong where it stands."""
        edit(name(0, "log"), lambda data: data + flip(70)(data_batch(22, 5555)))(partition)
        decision = planned(partition, SAFE).decision
        assert decision is not None
        assert [each.flipped for each in decision.damaged] == [None]

    def test_valid_batches_that_would_go_are_told_of(self, partition: Path) -> None:
        """Nothing is damaged: a segment is there that overlaps another."""
        copied(name(40, "log"), name(38, "log"))(partition)
        decision = planned(partition, SAFE).decision
        assert decision is not None
        assert {each.range.file for each in decision.damaged} <= {name(38, "log"), name(20, "log")}
        assert all(each.range.is_valid for each in decision.damaged)
        assert decision.records == 0

    def test_records_that_cannot_be_read_count_as_well(self, tmp_path: Path) -> None:
        log = make_log(tmp_path, {file(0, "log"): batch(0) + UNREADABLE + broken(batch(4)) + batch(5)})
        decision = examine(log, Startup(NOW), Request(SAFE)).decision
        assert decision is not None
        assert [each.range.start for each in decision.damaged] == [len(batch(0)), len(batch(0) + UNREADABLE)]


    @pytest.mark.parametrize("between", [b"", bytes(1), bytes(64), bytes(5000), b"\xff" * 64])
    @pytest.mark.parametrize("first", [0, 5, 9])
    @pytest.mark.parametrize("epoch", [0, 9])
    def test_valid_batches_at_the_end_are_no_incomplete_batch(
        self, tmp_path: Path, between: bytes, first: int, epoch: int
    ) -> None:
        """Their offsets are below the log end, where nobody looks for a batch; their records are nowhere else."""
        tail = b"".join(batch(n, timestamp=5000 + n, leader_epoch=epoch) for n in range(first, 10))
        epochs = {names.LEADER_EPOCH_CHECKPOINT: b"0\n1\n0 0\n"} if not between else {}
        log = make_log(tmp_path, {file(0, "log"): b"".join(map(batch, range(20))) + between + tail, **epochs})
        decision = examine(log, Startup(NOW), Request(SAFE)).decision
        assert decision is not None
        lost = decision.dropped
        assert (lost.batches, lost.records, lost.first_offset, lost.last_offset) == (10 - first, 10 - first, first, 9)

    def test_a_swap_for_which_a_broker_drops_batches(self, tmp_path: Path) -> None:
        """It ends inside the last segment that it replaces, which goes as a whole."""
        logs = {file(at, "log"): b"".join(map(batch, range(at, at + 5))) for at in (0, 5, 10)}
        swap = {file(5, "log.swap"): b"".join(map(batch, range(5, 11)))}
        log = make_log(tmp_path, {**logs, **swap})
        decision = examine(log, Startup(NOW), Request(SAFE)).decision
        assert decision is not None
        lost = decision.swap_loss
        assert (lost.batches, lost.first_offset, lost.last_offset) == (4, 11, 14)
        assert [(each.way, each.loses) for each in decision.offers()] == [(Way.SALVAGE, 0), (Way.TRUNCATE, 4)]
        salvage(Path(log.path), Startup(NOW))
        assert {name: data for name, data in content(Path(log.path)).items() if ".log" in name} == logs

    def test_a_cleaned_replacement_stands_back_without_a_question(self, tmp_path: Path) -> None:
        """A broker would complete it, but nothing is lost if it cleans the segments again."""
        logs = {file(at, "log"): b"".join(map(batch, range(at, at + 5))) for at in (0, 5)}
        log = make_log(tmp_path, {**logs, file(0, "log.swap"): batch(0) + batch(3)})
        task = examine(log, Startup(NOW), Request(SAFE))
        assert task.decision is None
        assert file(0, "log.swap") in [each.name for each in operations(task)]
        assert not any(each.name.endswith(".log") for each in operations(task))


@pytest.mark.parametrize("strategy", [SAFE, TRUNCATE_LOG, SALVAGE])
@pytest.mark.parametrize("topic", ["__cluster_metadata", "orders"])
def test_leader_epochs_that_recovery_reads_from_the_batches(partition: Path, topic: str, strategy: Strategy) -> None:
    partition = partition.rename(partition.with_name(f"{topic}-0"))
    (partition / names.LEADER_EPOCH_CHECKPOINT).unlink()
    (partition.parent / names.CLEAN_SHUTDOWN).write_text("")
    assert [each.name for each in operations(planned(partition, strategy))] == [names.LEADER_EPOCH_CHECKPOINT]


@pytest.mark.parametrize("strategy", [SAFE, TRUNCATE_LOG, SALVAGE])
@pytest.mark.parametrize("topic", ["__cluster_metadata", "orders"])
def test_the_log_of_the_cluster_metadata_is_recovered_at_every_start(
    partition: Path, topic: str, strategy: Strategy
) -> None:
    """Of it the stop is told by the file beside it alone; what its recovery writes anew is no repair."""
    partition = partition.rename(partition.with_name(f"{topic}-0"))
    (partition / names.PARTITION_METADATA).unlink()
    (partition / name(59, "snapshot")).unlink()
    (partition.parent / names.CLEAN_SHUTDOWN).write_text("")
    task = planned(partition, strategy, STARTUP)
    assert [each.name for each in operations(task)] == ([] if topic.startswith("_") else [name(59, "snapshot")])


def test_after_an_orderly_stop_routine_is_left_to_the_broker_unless_asked_for(partition: Path) -> None:
    (partition / name(59, "snapshot")).unlink()
    log = PartitionLog(str(partition))
    assert operations(examine(log, CLEAN, Request(SAFE))) == []
    for strategy in (SAFE, TRUNCATE_LOG, SALVAGE):
        asked = examine(log, CLEAN, Request(strategy, frozenset({"snapshots"})))
        assert [each.name for each in operations(asked)] == [name(59, "snapshot")]
    edit(name(0, "index"), flip(7))(partition)
    for strategy in (SAFE, TRUNCATE_LOG, SALVAGE):
        assert [each.name for each in operations(planned(partition, strategy, CLEAN))] == [name(0, "index")]


def test_a_sound_log_without_partition_metadata_is_at_rest(partition: Path) -> None:
    (partition / names.PARTITION_METADATA).unlink()
    assert operations(planned(partition, SAFE, CLEAN)) == []
