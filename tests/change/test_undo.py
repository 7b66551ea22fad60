"""The life of a change: undone, undone again, refused, rolled back, closed, pruned; killed at every step of each."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import kdump
from kdump.change import journal, place
from kdump.change.apply import apply_plan
from kdump.change.change import Change, ChangeState
from kdump.change.guard import ANY_LOSS
from kdump.change.interrupted import check_finishable, finish_interrupted
from kdump.change.place import new_change
from kdump.change.plan import Plan
from kdump.change.undo import Verdict, close, judge, prune, roll_back, undo
from kdump.change.unfinished import unfinished_in
from kdump.errors import RefusedError
from kdump.formats import names
from kdump.formats.encode import NewBatch, NewRecord, encode_batch
from kdump.mend.proposal import examine
from kdump.mend.task import SALVAGE, TRUNCATE_LOG, Request, Strategy
from tests.change.kept import change_files, killed_after, only_change
from tests.repair.damaged import DAMAGES, STARTUP, build, name
from tests.repair.salvaging import content
from tests.repair.test_crash import KILLED, Saboteur

DAMAGED_BY = ("middle segment, payload", "damage and leftovers", "swap half renamed", "index missing")


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("sound") / "sound").parent


@pytest.fixture
def damage() -> str:
    return "damage and leftovers"


@pytest.fixture
def partition(sound: Path, tmp_path: Path, damage: str) -> Path:
    """A damaged partition in a log directory with checkpoints."""
    shutil.copytree(sound, tmp_path / "logs")
    DAMAGES[damage](tmp_path / "logs" / "orders-0")
    for checkpoint in names.OFFSET_CHECKPOINTS:
        (tmp_path / "logs" / checkpoint).write_text("0\n2\nothers 3 17\norders 0 59\n")
    return tmp_path / "logs" / "orders-0"


def planned(partition: Path, strategy: Strategy = TRUNCATE_LOG) -> Plan:
    plan = examine(kdump.open_log(str(partition)), STARTUP, Request(strategy)).plan
    assert plan
    return plan


def repaired(partition: Path, strategy: Strategy = TRUNCATE_LOG) -> Change:
    return apply_plan(planned(partition, strategy), new_change(str(partition)), command="repair", allowance=ANY_LOSS)


def state(log_dir: Path) -> dict[str, object]:
    """The files of the partition and the lines of the checkpoints beside it."""
    beside: dict[str, object] = {
        path.name: set(path.read_bytes().splitlines())
        for path in log_dir.iterdir()
        if path.is_file() and not path.name.startswith(place.PREFIX)
    }
    return {**content(log_dir / "orders-0"), **beside}


class TestRefused:
    """Where anything is not what the change left, nothing is changed."""

    def check(self, partition: Path, change: Change, verdict: Verdict, why: str) -> None:
        before = state(partition.parent), sorted(path.name for path in change_files(partition.parent))
        assert judge(change, thorough=True).verdict == verdict
        with pytest.raises(RefusedError, match=why):
            undo(change)
        assert (state(partition.parent), sorted(path.name for path in change_files(partition.parent))) == before

    def test_a_log_that_has_grown(self, partition: Path) -> None:
        change = repaired(partition)
        log = max(partition.glob("*.log"))
        with open(log, "ab") as file:
            file.write(encode_batch([NewRecord(24, 5000, None, b"more")], NewBatch()))
        why = r"the log end offset was 24, it is 25 now\. Undo would drop offsets 24"
        self.check(partition, change, Verdict.GROWN, why)

    @pytest.mark.parametrize("kind", ["index", "timeindex", "snapshot", "log"])
    def test_a_file_with_other_content(self, partition: Path, kind: str) -> None:
        """Although its size and its time are what they were."""
        change = repaired(partition)
        digested = next(each for each in sorted(change.digests) if each.endswith(f".{kind}") or kind == "index")
        path = partition / digested
        info, data = path.stat(), bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)
        os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))
        self.check(partition, change, Verdict.CHANGED, f"{digested} has other content")

    def test_a_file_that_was_written(self, partition: Path) -> None:
        change = repaired(partition)
        os.utime(max(partition.glob("*.log")))
        self.check(partition, change, Verdict.CHANGED, "was written since")

    def test_a_new_file(self, partition: Path) -> None:
        change = repaired(partition)
        (partition / name(99, "snapshot")).write_bytes(b"x")
        self.check(partition, change, Verdict.CHANGED, r"99.snapshot is new \(1 bytes\)")

    def test_a_checkpoint(self, partition: Path) -> None:
        change = repaired(partition)
        (partition.parent / names.RECOVERY_POINT_CHECKPOINT).write_text("0\n1\norders 0 7\n")
        why = "recovery-point-offset-checkpoint had [0-9]+ for it, it has 7 now"
        self.check(partition, change, Verdict.CHANGED, why)

    @pytest.mark.parametrize("text", ["0\n1\norders 0 what\n", "\xff"])
    def test_a_checkpoint_that_could_not_be_read_tells_nothing(self, partition: Path, text: str) -> None:
        """Whoever puts the file right may undo: it is not known to have said something else."""
        path = partition.parent / names.REPLICATION_CHECKPOINT
        sound, before = path.read_text(), content(partition)
        path.write_text(text)
        change = repaired(partition)
        path.write_text(sound)
        assert judge(change, thorough=True).verdict == Verdict.CAN_BE_UNDONE
        undo(change)
        assert content(partition) == before

    def test_a_checkpoint_that_cannot_be_read_any_more(self, partition: Path) -> None:
        change = repaired(partition)
        (partition.parent / names.REPLICATION_CHECKPOINT).write_text("0\n1\norders 0 what\n")
        why = "replication-offset-checkpoint had [0-9]+ for it, it cannot be read now"
        self.check(partition, change, Verdict.CHANGED, why)

    def test_a_broker_that_was_stopped_since(self, partition: Path) -> None:
        change = repaired(partition)
        (partition.parent / names.CLEAN_SHUTDOWN).write_text('{"version":0}')
        self.check(partition, change, Verdict.CHANGED, "a broker has run and was stopped since")

    def test_a_partition_that_is_gone(self, partition: Path) -> None:
        change = repaired(partition)
        shutil.rmtree(partition)
        assert judge(change).verdict == Verdict.GONE
        assert change_files(partition.parent) != []
        with pytest.raises(RefusedError, match="orders-0 is not in"):
            undo(change)

    def test_originals_that_are_gone(self, partition: Path) -> None:
        change = repaired(partition)
        change_files(partition.parent, "old")[0].unlink()
        self.check(partition, change, Verdict.NOT_KEPT, "do not exist any more")


def test_later_changes_are_taken_back_first(partition: Path) -> None:
    before = state(partition.parent)
    first = repaired(partition)
    (partition / name(0, "index")).unlink()
    between = state(partition.parent)
    second = apply_plan(planned(partition), new_change(str(partition)), command="repair", allowance=ANY_LOSS)
    with pytest.raises(RefusedError, match="has changed since"):
        undo(first)
    undo(second)
    assert state(partition.parent) == between
    assert before != between


def test_nothing_that_is_kept_is_another_name_of_a_live_file(partition: Path) -> None:
    repaired(partition, SALVAGE)
    live = {path.stat().st_ino for path in partition.iterdir()}
    assert not live & {path.stat().st_ino for path in change_files(partition.parent)}
    assert {path.stat().st_nlink for path in partition.iterdir()} == {1}


def test_who_owns_the_data_owns_what_is_kept(partition: Path) -> None:
    if os.geteuid():
        pytest.skip("only root can give files away")
    for path in (partition.parent, *partition.parent.iterdir(), *partition.iterdir()):
        os.chown(path, 1234, 2345)
    repaired(partition, SALVAGE)
    assert {(path.stat().st_uid, path.stat().st_gid) for path in change_files(partition.parent)} == {(1234, 2345)}
    assert {path.stat().st_uid for path in partition.iterdir()} == {1234}


class TestInterrupted:
    @pytest.mark.parametrize("steps", [0, 1, 4])
    def test_it_is_told_of_and_finished(self, partition: Path, steps: int, tmp_path: Path) -> None:
        shutil.copytree(partition.parent, tmp_path / "other")
        repaired(tmp_path / "other" / "orders-0")
        with killed_after(steps):
            repaired(partition)
        ((path, text),) = unfinished_in(str(partition.parent), [str(partition)])
        assert path == str(partition)
        assert text.endswith("(repair) was interrupted")
        (change,) = finish_interrupted(str(partition))
        assert state(partition.parent) == state(tmp_path / "other")
        assert only_change(partition).state == ChangeState.DONE
        assert undo(only_change(partition)) is not None
        assert change.state == ChangeState.INTERRUPTED

    def test_a_broker_wrote_since(self, partition: Path) -> None:
        with killed_after(6):
            repaired(partition)
        log = max(partition.glob("*.log"))
        with open(log, "ab") as file:
            file.write(b"written by a broker")
        before = state(partition.parent)
        (change,) = journal.unfinished(str(partition))
        for way in (finish_interrupted, lambda _: undo(change), lambda _: roll_back(change)):
            with pytest.raises(RefusedError, match=f"{log.name} had [0-9or ]+ bytes, it has [0-9]+ now"):
                way(str(partition))
        with pytest.raises(RefusedError, match=f"kdump undo {partition} --change {change.id} --close --apply"):
            check_finishable(change)
        assert state(partition.parent) == before
        close(change)
        assert state(partition.parent) == before
        assert only_change(partition).state == ChangeState.CLOSED
        assert list(unfinished_in(str(partition.parent), [str(partition)])) == []
        assert change_files(partition.parent, "new") == []
        assert change_files(partition.parent, "old") != []
        prune(only_change(partition))
        assert change_files(partition.parent) == []

    def test_an_interrupted_undo_can_be_finished_or_rolled_back(self, partition: Path, tmp_path: Path) -> None:
        before = state(partition.parent)
        change = repaired(partition)
        after = state(partition.parent)
        with killed_after(3):
            undo(change)
        (undoing,) = journal.unfinished(str(partition))
        assert undoing.undoes == change.id
        shutil.copytree(partition.parent, tmp_path / "other")
        finish_interrupted(str(tmp_path / "other" / "orders-0"))
        assert state(tmp_path / "other") == before
        undo(undoing)
        assert state(partition.parent) == after
        undo(only_change(partition))
        assert state(partition.parent) == before


# --- killed at every step --------------------------------------------------------------------------------------------


def undo_first(partition: Path) -> None:
    """What a run of undo does: finish an interrupted one, or take the first change back."""
    first = journal.changes_of(str(partition))[0]
    if not finish_interrupted(str(partition)) and first.state == ChangeState.DONE:
        undo(first)


def roll_back_all(partition: Path) -> None:
    for change in journal.unfinished(str(partition)):
        roll_back(change)
    for change in journal.changes_of(str(partition)):
        if change.state == ChangeState.UNDONE:
            prune(change)


def prune_all(partition: Path) -> None:
    for change in journal.changes_of(str(partition)):
        prune(change)


def killed_copies(log_dir: Path, scratch: Path, run: Callable[[Path], None]) -> Iterator[Path]:
    """A copy of the log directory for each change that a run makes, killed right before it."""
    at, is_killed = 0, True
    while is_killed:
        at += 1
        copy = scratch / f"killed-{at}"
        shutil.copytree(log_dir, copy)
        child = os.fork()
        if not child:
            _sabotaged(copy / "orders-0", at, run)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert code in (0, KILLED)
        is_killed = code == KILLED
        yield copy
        shutil.rmtree(copy)


def _sabotaged(partition: Path, at: int, run: Callable[[Path], None]) -> None:
    import gc
    import sys

    status = 1
    try:
        gc.disable()
        saboteur = Saboteur(at, None)
        os.fsync = lambda fd: saboteur.step()
        sys.addaudithook(saboteur.audit)
        run(partition)
        status = 0
    finally:
        os._exit(status)


def check_killed(partition: Path, tmp_path: Path, run: Callable[[Path], None], wanted: dict[str, object]) -> None:
    """Each file is old or new wherever a run is killed, and the next one reaches what is wanted."""
    before, count = state(partition.parent), 0
    for copy in killed_copies(partition.parent, tmp_path, run):
        for file, data in state(copy).items():
            assert data in (before.get(file), wanted.get(file)) or file.endswith(".kdump"), (file, count)
        run(copy / "orders-0")
        assert state(copy) == wanted, count
        assert not journal.unfinished(str(copy / "orders-0")), count
        count += 1
    assert count > 3


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGED_BY)
@pytest.mark.parametrize("strategy", [TRUNCATE_LOG, SALVAGE])
def test_undo_killed_anywhere(partition: Path, tmp_path: Path, strategy: Strategy) -> None:
    before = state(partition.parent)
    repaired(partition, strategy)
    check_killed(partition, tmp_path, undo_first, before)


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGED_BY)
@pytest.mark.parametrize("steps", [2, 5, 100])
def test_rolling_back_killed_anywhere(partition: Path, tmp_path: Path, steps: int) -> None:
    before, plan = state(partition.parent), planned(partition)
    with killed_after(min(steps, len(plan.operations) - 1)):
        apply_plan(plan, new_change(str(partition)), allowance=ANY_LOSS)
    check_killed(partition, tmp_path, roll_back_all, before)


def test_pruning_killed_anywhere(partition: Path, tmp_path: Path) -> None:
    repaired(partition, SALVAGE)
    after = state(partition.parent)
    for copy in killed_copies(partition.parent, tmp_path, prune_all):
        assert state(copy) == after
        prune_all(copy / "orders-0")
        assert change_files(copy) == []
