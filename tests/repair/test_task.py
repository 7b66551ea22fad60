"""What a request makes of a partition: plans for some kinds of files, and indexes made anew."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import kdump
from kdump.change.apply import apply_plan
from kdump.change.guard import ANY_LOSS, NOTHING
from kdump.change.place import new_change
from kdump.change.plan import REMOVE, Operation, Plan
from kdump.errors import RefusedError
from kdump.formats import names
from kdump.formats.names import parse_file_name
from kdump.mend.decision import Damaged, Decision, Way
from kdump.mend.indexes import examine_indexes
from kdump.mend.proposal import examine
from kdump.mend.salvaged_files import GivenUp
from kdump.mend.task import (
    ALL_KINDS,
    INDEX_KINDS,
    SAFE,
    SALVAGE,
    TRUNCATE_LOG,
    Request,
    Strategy,
    Task,
    changed_log,
    first_damage,
)
from kdump.recovery.outcome import DROP, LEAVE_OUT, TRUNCATE, LoadOutcome, Loss, Step
from kdump.recovery.startup import Startup
from kdump.settings.loading import LoadingSettings
from tests.recovery.building import make_log
from tests.repair.damaged import BASES, DAMAGES, STARTUP, build, edit, flip, lost_by, name, removed
from tests.repair.salvaging import content


def examined(partition: Path, *kinds: str, strategy: Strategy = TRUNCATE_LOG, startup: Startup = STARTUP) -> Task:
    return examine(kdump.open_log(str(partition)), startup, Request(strategy, frozenset(kinds) or None))


def touched(task: Task) -> list[str]:
    assert task.plan is not None, task.problems
    return sorted({each.name for each in task.plan.operations})


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize(
    "misnamed", ["x0000000000000000040.snapshot", "abc.index", "abc.cleaned", "abc.swap", "abc.log.swap", "a.log"]
)
def test_a_name_without_an_offset_goes_for_no_broker_starts_with_it(
    partition: Path, misnamed: str, clean: bool
) -> None:
    startup = STARTUP._replace(clean=clean)
    (partition / misnamed).write_bytes(b"hello")
    task = examined(partition, strategy=SALVAGE, startup=startup)
    assert task.plan is not None
    (gone,) = (each for each in task.plan.operations if each.name == misnamed)
    assert gone.action == REMOVE
    assert gone.why == "the name does not begin with an offset"
    apply_plan(task.plan, new_change(str(partition)), command="repair")
    assert touched(examined(partition, strategy=SALVAGE, startup=startup)) == []


def test_truncate_mends_indexes_beside_leftover_files_in_one_run(partition: Path) -> None:
    startup = STARTUP._replace(clean=True, recovery_point=60)
    (partition / name(20, "log.cleaned")).write_bytes(b"unfinished")
    (partition / name(20, "timeindex")).write_bytes(bytes(11) + b"\1")
    task = examined(partition, startup=startup)
    assert touched(task) == [name(20, "log.cleaned"), name(20, "timeindex")]
    assert task.plan is not None
    apply_plan(task.plan, new_change(str(partition)), command="repair")
    assert touched(examined(partition, startup=startup)) == []


class TestOnly:
    @pytest.fixture
    def damaged(self, partition: Path) -> Path:
        """Something is wrong with a file of each kind but the logs."""
        DAMAGES["orphaned indexes"](partition)
        DAMAGES["cleaned files"](partition)
        removed(name(0, "index"), name(20, "timeindex"), name(20, "txnindex"), name(40, "snapshot"))(partition)
        (partition / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
        (partition.parent / names.RECOVERY_POINT_CHECKPOINT).write_text("0\n1\norders 0 500\n")
        return partition

    @pytest.mark.parametrize(
        ("kind", "files"),
        [
            ("indexes", [name(0, "index")]),
            ("timeindexes", [name(20, "timeindex")]),
            ("txnindexes", [name(20, "txnindex")]),
            ("snapshots", [name(40, "snapshot")]),
            ("epochs", ["leader-epoch-checkpoint"]),
            ("checkpoints", [names.RECOVERY_POINT_CHECKPOINT]),
            ("log", []),
            ("orphans", [name(0, "log.cleaned"), name(7, "index"), name(7, "timeindex")]),
        ],
    )
    def test_one_kind(self, damaged: Path, kind: str, files: list[str]) -> None:
        assert touched(examined(damaged, kind)) == files

    def test_all_kinds_together_are_the_whole(self, damaged: Path) -> None:
        whole = examined(damaged).plan
        assert examined(damaged, *ALL_KINDS).plan == whole
        assert whole is not None
        parts = [each for kind in ALL_KINDS for each in touched(examined(damaged, kind))]
        assert sorted(parts) == touched(examined(damaged))

    @pytest.mark.parametrize("strategy", [TRUNCATE_LOG, SALVAGE])
    def test_indexes_of_a_log_that_needs_repair_itself(self, partition: Path, strategy: Strategy) -> None:
        edit(name(20, "log"), flip(300))(partition)
        task = examined(partition, "indexes", "epochs", strategy=strategy)
        assert task.plan is None
        (problem,) = task.problems
        assert ". Indexes were not rebuilt. First: kdump repair " in problem

    @pytest.mark.parametrize("strategy", [TRUNCATE_LOG, SALVAGE])
    def test_a_log_without_its_indexes(self, partition: Path, strategy: Strategy) -> None:
        edit(name(20, "log"), flip(300))(partition)
        task = examined(partition, "log", strategy=strategy)
        assert task.plan is None
        assert "it has to change with its log: allow indexes, timeindexes, txnindexes, too" in task.problems[0]
        assert examined(partition, "log", *INDEX_KINDS, strategy=strategy).plan


class TestCheckpoints:
    """Offsets beyond the end of the log, which ends at 59."""

    @pytest.fixture
    def beyond(self, partition: Path) -> Path:
        marks = {names.RECOVERY_POINT_CHECKPOINT: 500, names.REPLICATION_CHECKPOINT: 400, names.CLEANER_CHECKPOINT: 300}
        for file, offset in marks.items():
            (partition.parent / file).write_text(f"0\n1\norders 0 {offset}\n")
        return partition

    def test_records_that_are_gone_are_told_of_as_long_as_nothing_is_cut(self, beyond: Path) -> None:
        task = examined(beyond, strategy=SAFE)
        assert touched(task) == [names.CLEANER_CHECKPOINT]
        (note,) = task.notes
        assert note.startswith(
            "offsets 59\N{EN DASH}499 are not on this disk; kept: recovery point 500 and high watermark 400. "
        )

    def test_one_mark_is_named_alone(self, beyond: Path) -> None:
        (beyond.parent / names.RECOVERY_POINT_CHECKPOINT).unlink()
        (note,) = examined(beyond, strategy=SAFE).notes
        assert note.startswith("offsets 59\N{EN DASH}399 are not on this disk; kept: high watermark 400. ")

    @pytest.mark.parametrize("strategy", [TRUNCATE_LOG, SALVAGE])
    def test_other_strategies_set_them_to_the_end(self, beyond: Path, strategy: Strategy) -> None:
        task = examined(beyond, strategy=strategy)
        assert task.notes == ()
        assert len(touched(task)) == 3

    def test_so_does_who_asks_for_them(self, beyond: Path) -> None:
        task = examined(beyond, "checkpoints", strategy=SAFE)
        assert task.notes == ()
        assert task.plan is not None
        assert {each.name: each.size for each in task.plan.operations} == {
            names.CLEANER_CHECKPOINT: -1,
            names.RECOVERY_POINT_CHECKPOINT: 59,
            names.REPLICATION_CHECKPOINT: 59,
        }
        assert touched(examined(beyond, "indexes", strategy=SAFE)) == []

    def test_and_a_log_that_is_cut(self, beyond: Path) -> None:
        edit(name(40, "log"), lambda data: data[:-10])(beyond)
        task = examined(beyond, strategy=SAFE)
        assert task.plan is not None
        assert [each.size for each in task.plan.operations[:3] if each.name != names.CLEANER_CHECKPOINT] == [58, 58]
        assert task.notes == ()

    def test_a_directory_without_a_partitions_name_has_none(self, beyond: Path) -> None:
        assert touched(examined(beyond.rename(beyond.with_name("copy")))) == []


@pytest.mark.parametrize("clean", [True, False])
def test_how_the_broker_stopped(partition: Path, clean: bool) -> None:
    assert examined(partition, startup=STARTUP._replace(clean=clean)).was_closed is clean


@pytest.mark.parametrize("strategy", [SAFE, TRUNCATE_LOG, SALVAGE])
def test_a_directory_without_kafka_files_is_refused(tmp_path: Path, strategy: Strategy) -> None:
    (tmp_path / "dbus-1" / "system.d").mkdir(parents=True)
    with pytest.raises(RefusedError, match=r"has no Kafka files\. Nothing was changed\."):
        examined(tmp_path / "dbus-1", strategy=strategy)


def test_where_a_log_is_cut_first() -> None:
    """Segments that go because of it may be told of earlier."""
    steps = (
        Step(DROP, name(20, "log"), "behind the cut"),
        Step(TRUNCATE, name(40, "log"), "nowhere"),
        Step(TRUNCATE, name(0, "log"), "CRC", 70),
        Step(TRUNCATE, name(20, "log"), "later", 5),
    )
    assert first_damage(LoadOutcome(steps)) == (name(0, "log"), "byte 70: CRC")
    left_out = Step(LEAVE_OUT, name(40, "log"), "garbage", 0)
    assert first_damage(LoadOutcome((left_out,))) == (name(40, "log"), "byte 0: garbage")
    assert first_damage(LoadOutcome(steps[:2])) is None
    assert first_damage(None) is None


def test_the_first_log_that_a_plan_changes() -> None:
    names_ = ("leader-epoch-checkpoint", name(7, "log.deleted"), name(20, "index"), name(40, "log"), name(60, "log"))
    operations = tuple(Operation(REMOVE, each) for each in names_)
    assert changed_log(Plan("orders-0", operations, {})) == name(40, "log")
    assert changed_log(Plan("orders-0", operations[:3], {})) == ""


class TestOnlyWithTruncate:
    def test_the_damage_is_named(self, partition: Path) -> None:
        edit(name(20, "log"), flip(70))(partition)
        (problem,) = examined(partition, "indexes").problems
        said = f"{partition}/{name(20, 'log')}: byte 0: "
        assert problem.startswith(said)
        assert problem.endswith(f". Indexes were not rebuilt. First: kdump repair {partition}")

    @pytest.mark.parametrize(
        ("kinds", "left"),
        [
            (("log", "indexes", "txnindexes"), name(40, "timeindex")),
            (("log", "timeindexes", "txnindexes"), name(40, "index")),
        ],
    )
    def test_an_index_that_has_to_change_with_its_log(self, partition: Path, kinds: tuple[str, ...], left: str) -> None:
        edit(name(40, "log"), flip(70))(partition)
        task = examined(partition, *kinds)
        assert (task.plan, task.extent) == (None, None)
        assert task.problems == (
            f"{partition}/{left}: it has to change with its log: allow indexes, timeindexes, txnindexes, too",
        )

    def test_indexes_of_other_segments_may_stay(self, partition: Path) -> None:
        edit(name(40, "log"), lambda data: data[:-10])(partition)
        (partition / name(0, "index")).unlink()
        (partition / name(20, "timeindex")).unlink()
        assert touched(examined(partition, "log", "txnindexes")) == [name(40, "log")]

    def test_without_a_segment_nothing_is_made(self, tmp_path: Path) -> None:
        log = make_log(tmp_path, {name(0, "index"): b"x"}, "orders-0")
        task = examined(Path(log.path), "indexes", "log")
        assert touched(task) == []


def rebuilt(partition: Path, kinds: frozenset[str] = frozenset(INDEX_KINDS), *bases: int) -> Task:
    log = kdump.open_log(str(partition))
    task = examine_indexes(log, STARTUP, kinds, frozenset(bases) if bases else None)
    if task.plan:
        apply_plan(task.plan, new_change(str(partition)), keep_old=False)
    return task


class TestIndexes:
    def spoil(self, partition: Path) -> dict[str, bytes]:
        """Spoil all indexes; the files as they were."""
        before = content(partition)
        for each in before:
            if parse_file_name(each).kind in names.INDEX_KINDS:
                edit(each, lambda data: b"\1" * 24 + data)(partition)
        return before

    def test_all_of_them(self, partition: Path) -> None:
        before = self.spoil(partition)
        rebuilt(partition)
        assert content(partition) == before

    def test_none_is_there(self, partition: Path) -> None:
        before = content(partition)
        removed(*(each for each in before if parse_file_name(each).kind in names.INDEX_KINDS))(partition)
        rebuilt(partition)
        assert content(partition) == before

    @pytest.mark.parametrize("file", ["leader-epoch-checkpoint", "partition.metadata", name(40, "snapshot")])
    def test_other_files_do_not_matter(self, partition: Path, file: str) -> None:
        (partition / file).write_bytes(b"garbage")
        before = self.spoil(partition)
        rebuilt(partition)
        assert content(partition) == before

    def test_a_partition_that_needs_none(self, partition: Path) -> None:
        plan = rebuilt(partition).plan
        assert plan is not None
        assert plan.operations == ()

    @pytest.mark.parametrize(
        ("kind", "suffix"), [("indexes", "index"), ("timeindexes", "timeindex"), ("txnindexes", "txnindex")]
    )
    def test_of_one_kind(self, partition: Path, kind: str, suffix: str) -> None:
        before = self.spoil(partition)
        rebuilt(partition, frozenset({kind}))
        for each, data in content(partition).items():
            is_index = parse_file_name(each).kind in names.INDEX_KINDS
            assert (data == before[each]) == (not is_index or each.endswith(f".{suffix}")), each

    @pytest.mark.parametrize("base", BASES)
    def test_of_one_segment(self, partition: Path, base: int) -> None:
        before = self.spoil(partition)
        rebuilt(partition, frozenset(INDEX_KINDS), base)
        for each, data in content(partition).items():
            parsed = parse_file_name(each)
            assert (data == before[each]) == (parsed.kind not in names.INDEX_KINDS or parsed.offset == base), each

    def test_whatever_the_checkpoints_say(self, partition: Path) -> None:
        # a clean shutdown and a recovery point behind everything would have the broker look at nothing
        before = self.spoil(partition)
        log = kdump.open_log(str(partition))
        startup = Startup(STARTUP.now, True, 59, 0, STARTUP.config)
        plan = examine_indexes(log, startup, frozenset(INDEX_KINDS), None).plan
        assert isinstance(plan, Plan)
        apply_plan(plan, new_change(str(partition)), keep_old=False)
        assert content(partition) == before

    def test_nothing_but_indexes_changes(self, partition: Path) -> None:
        removed(name(40, "snapshot"), "leader-epoch-checkpoint")(partition)
        (partition.parent / names.RECOVERY_POINT_CHECKPOINT).write_text("0\n1\norders 0 500\n")
        assert touched(rebuilt(partition)) == []

    @pytest.mark.parametrize(("damage", "base"), [("middle segment, payload", 20), ("last segment, torn tail", 40)])
    def test_the_indexes_of_a_damaged_log_are_left(self, partition: Path, damage: str, base: int) -> None:
        before = self.spoil(partition)
        DAMAGES[damage](partition)
        spoiled = content(partition)
        task = rebuilt(partition)
        assert any(name(base, "log") in problem for problem in task.problems)
        assert all("Indexes were not rebuilt. First: kdump repair " in each for each in task.problems)
        after = content(partition)
        for each, data in after.items():
            parsed = parse_file_name(each)
            if parsed.kind in (names.OFFSET_INDEX, names.TIME_INDEX):
                assert data == (spoiled if parsed.offset == base else before)[each], each

    def test_a_transaction_may_have_begun_in_a_damaged_log(self, partition: Path) -> None:
        edit(name(20, "txnindex"), lambda data: b"")(partition)
        edit(name(0, "log"), flip(300))(partition)
        before = content(partition)
        task = rebuilt(partition)
        assert content(partition) == before
        (damage, depends) = task.problems
        assert name(0, "log") in damage
        assert f"{name(20, 'txnindex')}: what aborted transactions it has depends on {name(0, 'log')}" in depends

    @pytest.mark.parametrize("base", [0, 40])
    def test_other_segments_of_a_damaged_log(self, partition: Path, base: int) -> None:
        before = self.spoil(partition)
        edit(name(20, "log"), flip(300))(partition)
        task = rebuilt(partition, frozenset({"indexes", "timeindexes"}), base)
        assert task.problems == ()
        for suffix in ("index", "timeindex"):
            assert (partition / name(base, suffix)).read_bytes() == before[name(base, suffix)]

    def test_a_sound_index_with_other_entries(self, partition: Path) -> None:
        sparse = STARTUP._replace(config=LoadingSettings())
        log = kdump.open_log(str(partition))
        every = frozenset(INDEX_KINDS)
        plan = examine_indexes(log, sparse, every, None).plan
        assert plan is not None
        assert not plan.operations
        all_of_them = examine_indexes(log, sparse, every, None, wants_all=True).plan
        assert all_of_them is not None
        assert name(0, "index") in {each.name for each in all_of_them.operations}


def test_a_sound_index_of_a_segment_that_stays_keeps_its_entries(tmp_path: Path) -> None:
    """It was written batch by batch, or with a smaller index.interval.bytes: a rebuild would have fewer entries."""
    partition = build(tmp_path)
    DAMAGES["middle segment, payload"](partition)
    dense = (partition / name(0, "index")).read_bytes()
    assert dense
    sparse = STARTUP._replace(config=LoadingSettings())
    task = examine(kdump.open_log(str(partition)), sparse, Request(SALVAGE))
    assert task.plan is not None
    assert name(20, "index") in {operation.name for operation in task.plan.operations}
    assert not {name(0, "index"), name(0, "timeindex")} & {operation.name for operation in task.plan.operations}


def test_a_preallocated_index_of_a_segment_that_stays_is_trimmed(tmp_path: Path) -> None:
    partition = build(tmp_path)
    path = partition / name(0, "index")
    path.write_bytes(path.read_bytes() + bytes(800))
    task = examine(kdump.open_log(str(partition)), STARTUP, Request(SALVAGE))
    assert task.plan is not None
    assert name(0, "index") in {operation.name for operation in task.plan.operations}


@pytest.mark.parametrize("without", [None, "index", "timeindex"])
def test_truncate_mends_indexes_beside_an_interrupted_replacement_in_one_run(
    partition: Path, without: str | None
) -> None:
    """Of the segment that a replacement concerns, too, where it came without an index."""
    startup = STARTUP._replace(clean=True, recovery_point=60)
    before = content(partition)
    DAMAGES["swap complete"](partition)
    edit(name(20, "index"), flip(7))(partition)
    if without:
        removed(name(0, f"{without}.swap"))(partition)
    task = examined(partition, startup=startup)
    assert task.plan is not None
    apply_plan(task.plan, new_change(str(partition)), keep_old=False)
    assert content(partition) == before
    assert touched(examined(partition, startup=startup)) == []


def test_what_loses_fewer_records_is_offered_first() -> None:
    """Salvage drops a batch that stands in another place; recovery leaves it there."""
    damaged = Damaged(GivenUp("0.log", 0, 100, 4, 5, "CRC"), None)
    decision = Decision((damaged,), Loss(100), Loss(80, 0, 1, 2, 9, 10), ())
    assert [(offer.way, offer.loses) for offer in decision.offers()][-2:] == [(Way.TRUNCATE, 2), (Way.SALVAGE, 4)]


def test_what_waits_to_replace_a_log_does_not_count_for_its_indexes(partition: Path) -> None:
    """A damaged .log.swap would come back in the place of the log that is left out for its damage, without end."""
    for kind in ("log", "index", "timeindex"):
        (partition / name(0, f"{kind}.swap")).write_bytes((partition / name(0, kind)).read_bytes())
    edit(name(0, "log.swap"), flip(200))(partition)
    before = (partition / name(0, "index")).read_bytes()
    (partition / name(0, "index")).write_bytes(before[:-3])
    task = examine_indexes(kdump.open_log(str(partition)), STARTUP, frozenset(INDEX_KINDS), None)
    assert touched(task) == [name(0, "index")]
    assert task.problems == ()


def test_an_empty_snapshot_goes_with_the_new_one(partition: Path) -> None:
    """It is what a kill leaves as long as it is the newest one; a second run would find it damaged."""
    last = max(partition.glob("*.snapshot"))
    for each in (*partition.glob("*.snapshot"), *partition.glob(name(0, "*")), *partition.glob(name(20, "*"))):
        each.unlink(missing_ok=True)
    (partition / name(40, "snapshot")).write_bytes(b"")
    task = examined(partition, strategy=SAFE, startup=STARTUP._replace(clean=False))
    assert task.plan is not None
    apply_plan(task.plan, new_change(str(partition)), keep_old=False)
    assert {each.name for each in partition.glob("*.snapshot")} == {last.name}
    assert examined(partition, strategy=SAFE, startup=STARTUP._replace(clean=False)).plan == (str(partition), (), {})


def test_a_stray_snapshot_goes_with_the_new_one(partition: Path) -> None:
    """It is the newest until then, which no broker deletes; a second run would find it out of place."""
    startup = STARTUP._replace(clean=False)
    for each in partition.glob("*.snapshot"):
        each.rename(partition / name(45, "snapshot"))
    task = examined(partition, strategy=SAFE, startup=startup)
    assert task.plan is not None
    apply_plan(task.plan, new_change(str(partition)), keep_old=False)
    assert not (partition / name(45, "snapshot")).exists()
    assert touched(examined(partition, strategy=SAFE, startup=startup)) == []


def test_a_sound_transaction_index_of_the_last_segment_stays(tmp_path: Path) -> None:
    """Of a transaction that began before the log a start knows by a snapshot, which it removes; the next one does not.

    So each of two starts of a real broker leaves other entries, and the log is as good with those that are there.
    """
    corpus = Path(__file__).resolve().parents[2] / "fixtures" / "corpus"
    partition = shutil.copytree(corpus / "s-src-txn" / "topic-0", tmp_path / "topic-0")
    (partition / name(0, "log")).unlink()
    index = partition / name(538, "txnindex")
    before = index.read_bytes()
    assert before
    startup = Startup(now=1_700_086_400_000)
    task = examined(partition, strategy=Strategy.SAFE, startup=startup)
    assert task.plan is not None
    assert index.name not in touched(task)
    apply_plan(task.plan, new_change(str(partition)), command="repair")
    assert index.read_bytes() == before
    assert touched(examined(partition, strategy=Strategy.SAFE, startup=startup)) == []


def test_truncate_leaves_wrong_leader_epochs_as_a_broker_does_and_repair_mends_them(partition: Path) -> None:
    """As with Kafka 4.3.1: what is below the new log end stays, and two starts of it change nothing more."""
    path = partition / names.LEADER_EPOCH_CHECKPOINT
    path.write_text("0\n4\n0 0\n1 20\n2 40\n28 10\n")
    edit(name(0, "log"), flip(-10))(partition)
    task = examined(partition)
    assert task.plan is not None
    apply_plan(task.plan, new_change(str(partition)), command="repair", allowance=ANY_LOSS)
    assert path.read_text() == "0\n2\n0 0\n28 10\n"
    assert "KD-EPOCH-CHECKPOINT" in {finding.code for finding in kdump.verify(str(partition))}
    assert touched(examined(partition)) == []
    task = examined(partition, strategy=Strategy.SAFE)
    assert task.plan is not None
    assert lost_by(task) == NOTHING
    apply_plan(task.plan, new_change(str(partition)), command="repair")
    assert path.read_text() == "0\n1\n0 0\n"
