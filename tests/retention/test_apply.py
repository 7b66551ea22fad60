"""Deleting: what is on the disk afterwards, what is refused, and kills at every step."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kdump.change.apply import apply_plan
from kdump.change.guard import ANY_LOSS
from kdump.change.interrupted import finish_interrupted
from kdump.change.journal import unfinished
from kdump.change.place import new_change
from kdump.change.plan import Plan
from kdump.change.undo import undo
from kdump.errors import KdumpError
from kdump.formats import names
from kdump.recovery.loader import load_log
from kdump.recovery.startup import Startup
from kdump.retention.partition import Circumstances, PartitionRetention, examine
from kdump.retention.plan import partition_plan, why_not_allowed
from kdump.retention.segments import Shutdown
from kdump.settings.retention import RetentionSettings
from kdump.storage.checkpoints import Checkpoints, PartitionCheckpoints
from kdump.storage.partition import PartitionLog
from tests.change.kept import change_files, is_kept, only_change
from tests.repair.test_crash import KILLED, Saboteur
from tests.retention.building import (
    DAY,
    NOW,
    checkpoint,
    log_names,
    look,
    read_checkpoint,
    settings,
    settle,
    write_log,
)
from tests.sampling import sampled

OLD, YOUNG = NOW - 8 * DAY, NOW - DAY


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """A log directory with a partition of three old segments and two young ones, closed in order."""
    folder = tmp_path / "data"
    partition = write_log(folder / "orders-0", [[[OLD, OLD]]] * 3 + [[[YOUNG, YOUNG]]] * 2)
    (partition / names.LEADER_EPOCH_CHECKPOINT).write_text("0\n3\n0 0\n1 3\n2 9\n")
    settle(partition)
    checkpoint(folder, names.LOG_START_CHECKPOINT, clicks=5, orders=1)
    checkpoint(folder, names.RECOVERY_POINT_CHECKPOINT, orders=2, clicks=9)
    checkpoint(folder, names.REPLICATION_CHECKPOINT, orders=10, clicks=9)
    return folder


def found_in(log_dir: Path, **properties: Any) -> PartitionRetention:
    log = PartitionLog(str(log_dir / "orders-0"))
    checkpoints = Checkpoints.read(str(log_dir)).of(log.name)
    return look(log_dir / "orders-0", checkpoints=checkpoints, **properties)


def carry_out(plan: Plan, *, keep_old: bool = True) -> None:
    apply_plan(plan, new_change(plan.path), command="retain", keep_old=keep_old, allowance=ANY_LOSS)


def retain(log_dir: Path, *, keep_old: bool = True, **properties: Any) -> None:
    """One run of the command, as far as it changes things."""
    finish_interrupted(str(log_dir / "orders-0"))
    found = found_in(log_dir, **properties)
    if found.has_work:
        carry_out(partition_plan(found), keep_old=keep_old)


def content(log_dir: Path) -> dict[str, bytes]:
    """Every file, but for what is kept and what is half written."""
    files = (path for path in log_dir.rglob("*") if path.is_file() and not is_kept(path))
    return {str(path.relative_to(log_dir)): path.read_bytes() for path in files if path.suffix != ".kdump"}


def test_segments_go_with_their_files_and_the_checkpoints_follow(log_dir: Path) -> None:
    before = content(log_dir)
    retain(log_dir)
    after = content(log_dir)
    gone = {name for name in before if any(name.startswith(f"orders-0/{base:020d}.") for base in (0, 2, 4))}
    assert len(gone) == 11
    assert before.keys() - after.keys() == gone
    changed = {name for name in after if after[name] != before[name]}
    assert changed == {
        f"orders-0/{names.LEADER_EPOCH_CHECKPOINT}",
        names.LOG_START_CHECKPOINT,
        names.RECOVERY_POINT_CHECKPOINT,
    }
    assert after[f"orders-0/{names.LEADER_EPOCH_CHECKPOINT}"] == b"0\n2\n1 6\n2 9\n"
    # the log starts where its first segment does, which needs no entry
    assert read_checkpoint(log_dir, names.LOG_START_CHECKPOINT) == {"clicks": 5}
    assert read_checkpoint(log_dir, names.RECOVERY_POINT_CHECKPOINT) == {"orders": 6, "clicks": 9}
    assert not found_in(log_dir).has_work
    assert not partition_plan(found_in(log_dir)).operations


def test_what_is_left_is_what_a_broker_leaves_alone(log_dir: Path) -> None:
    retain(log_dir)
    partition = log_dir / "orders-0"
    outcome = load_log(PartitionLog(str(partition)), Startup(NOW, clean=True, recovery_point=10))
    assert outcome.ok
    assert (outcome.log_start_offset, outcome.log_end_offset) == (6, 10)
    assert {step.file for step in outcome.steps} <= {names.PARTITION_METADATA, f"{6:020d}.snapshot"}


def test_a_log_start_offset_inside_a_segment(log_dir: Path) -> None:
    retain(log_dir, start=7, retention_ms=-1)
    assert log_names(log_dir / "orders-0") == ["6", "8"]
    assert read_checkpoint(log_dir, names.LOG_START_CHECKPOINT) == {"orders": 7, "clicks": 5}
    assert (log_dir / "orders-0" / names.LEADER_EPOCH_CHECKPOINT).read_text() == "0\n2\n1 7\n2 9\n"


def test_a_log_start_offset_that_deletes_no_segment(log_dir: Path) -> None:
    checkpoint(log_dir, names.LOG_START_CHECKPOINT)
    found = found_in(log_dir, start=1, retention_ms=-1)
    assert (found.reasons, found.moves_start, found.has_work) == ((), True, True)
    retain(log_dir, start=1, retention_ms=-1)
    assert len(log_names(log_dir / "orders-0")) == 5
    assert read_checkpoint(log_dir, names.LOG_START_CHECKPOINT)["orders"] == 1


def test_an_entry_that_says_nothing_any_more_is_dropped(log_dir: Path) -> None:
    checkpoint(log_dir, names.LOG_START_CHECKPOINT, orders=0)
    found = found_in(log_dir, retention_ms=-1)
    assert (found.reasons, found.moves_start, found.has_work) == ((), False, True)
    (operation,) = partition_plan(found).operations
    assert operation[:3] == ("checkpoint", names.LOG_START_CHECKPOINT, -1)
    retain(log_dir, retention_ms=-1)
    assert read_checkpoint(log_dir, names.LOG_START_CHECKPOINT) == {}


@pytest.mark.parametrize("snapshot", [True, False])
def test_where_all_segments_go_a_new_one_is_begun(log_dir: Path, snapshot: bool) -> None:
    partition = log_dir / "orders-0"
    kept = (partition / f"{10:020d}.snapshot").read_bytes()
    if not snapshot:
        (partition / f"{10:020d}.snapshot").unlink()
    retain(log_dir, retention_ms=0)
    left = {path.name: path.read_bytes() for path in partition.iterdir() if path.is_file()}
    assert left == {
        f"{10:020d}.log": b"",
        f"{10:020d}.index": b"",
        f"{10:020d}.timeindex": b"",
        f"{10:020d}.snapshot": kept,
        names.LEADER_EPOCH_CHECKPOINT: b"0\n1\n2 10\n",
    }
    assert read_checkpoint(log_dir, names.RECOVERY_POINT_CHECKPOINT)["orders"] == 10
    assert not found_in(log_dir, retention_ms=0).has_work


def test_no_new_segment_where_the_producers_cannot_be_told(log_dir: Path) -> None:
    partition = log_dir / "orders-0"
    (partition / f"{10:020d}.snapshot").unlink()
    log = partition / f"{8:020d}.log"
    log.write_bytes(log.read_bytes() + b"\0\0garbage that a start cuts off")
    found = look(partition, shutdown=Shutdown(clean=False, recovery_point=10), retention_ms=0)
    with pytest.raises(KdumpError, match="Repair it first"):
        partition_plan(found)


def test_what_comes_into_the_directory_meanwhile_stays(log_dir: Path) -> None:
    found = found_in(log_dir)
    (log_dir / "orders-0" / f"{10:020d}.log").write_bytes(b"new")
    carry_out(partition_plan(found))
    assert (log_dir / "orders-0" / f"{10:020d}.log").read_bytes() == b"new"


def test_the_order_of_the_changes(log_dir: Path) -> None:
    operations = partition_plan(found_in(log_dir, retention_ms=0)).operations
    done = [(operation.action, operation.name.lstrip("0")) for operation in operations]
    assert done[:5] == [
        ("replace", "10.log"),
        ("replace", "10.index"),
        ("replace", "10.timeindex"),
        ("remove", ".log"),
        ("remove", ".index"),
    ]
    assert [name for _, name in done if name.endswith(".log")] == ["10.log", ".log", "2.log", "4.log", "6.log", "8.log"]
    assert done[-3:] == [
        ("replace", names.LEADER_EPOCH_CHECKPOINT),
        ("checkpoint", names.LOG_START_CHECKPOINT),
        ("checkpoint", names.RECOVERY_POINT_CHECKPOINT),
    ]
    assert all(operation.why for operation in operations)


def test_undone(log_dir: Path) -> None:
    before = content(log_dir)
    retain(log_dir, retention_ms=0)
    assert content(log_dir) != before
    undo(only_change(log_dir / "orders-0"))
    assert content(log_dir) == before


def examined(partition: Path, given: RetentionSettings) -> PartitionRetention:
    return examine(PartitionLog(str(partition)), Circumstances(Shutdown(True), PartitionCheckpoints(), NOW), given)


def test_refused_where_it_might_be_wrong(log_dir: Path) -> None:
    partition = log_dir / "orders-0"
    assert "kdump does not know this topic's retention" in (
        why_not_allowed(examined(partition, RetentionSettings())) or ""
    )
    assert "tiered" in (why_not_allowed(look(partition, remote_storage_enable="true")) or "")
    assert not why_not_allowed(examined(partition, settings()))
    assert not why_not_allowed(examined(shutil.copytree(partition, log_dir / "no name"), settings()))
    aside = shutil.copytree(partition, log_dir / f"orders-0.{'0' * 32}-stray")
    assert "set aside" in (why_not_allowed(examined(aside, settings())) or "")
    assert not look(aside, checkpoints=PartitionCheckpoints(log_start=0)).checkpoint_changes()
    assert not why_not_allowed(look(partition, remote_storage_enable="true", retention_ms=-1))
    (partition / f"{0:020d}.log.cleaned").write_bytes(b"")
    assert "Repair it first" in (why_not_allowed(look(partition)) or "")


# --- kills -----------------------------------------------------------------------------------------------------------


def killed_copies(log_dir: Path, scratch: Path, *, keep_old: bool, retention_ms: int) -> Iterator[Path]:
    """A copy of the log directory for every change that a run makes, killed right before it."""
    at, is_killed = 0, True
    while is_killed:
        at += 1
        copy = scratch / f"killed-{at}"
        shutil.copytree(log_dir, copy)
        child = os.fork()
        if not child:
            _sabotaged(copy, at, keep_old=keep_old, retention_ms=retention_ms)
        is_killed = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == KILLED
        yield copy
        shutil.rmtree(copy)


def _sabotaged(log_dir: Path, at: int, *, keep_old: bool, retention_ms: int) -> None:
    status = 1
    try:
        saboteur = Saboteur(at, None)
        real_fsync = os.fsync

        def fsync(fd: Any) -> None:
            saboteur.step()
            real_fsync(fd)

        os.fsync = fsync
        sys.addaudithook(saboteur.audit)
        retain(log_dir, keep_old=keep_old, retention_ms=retention_ms)
        status = 0
    finally:
        os._exit(status)


@pytest.mark.parametrize("retention_ms", sampled([7 * DAY, 0], 1))
@pytest.mark.parametrize("keep_old", [True, False])
def test_killed_anywhere_a_broker_could_start_and_a_rerun_finishes(
    log_dir: Path, tmp_path: Path, keep_old: bool, retention_ms: int
) -> None:
    before = content(log_dir)
    done = tmp_path / "done"
    shutil.copytree(log_dir, done)
    retain(done, keep_old=keep_old, retention_ms=retention_ms)
    after = content(done)
    kills = waiting = 0
    for copy in killed_copies(log_dir, tmp_path, keep_old=keep_old, retention_ms=retention_ms):
        kills += 1
        for name, data in content(copy).items():
            assert data in (before.get(name), after.get(name)), (name, kills)
        start = read_checkpoint(copy, names.LOG_START_CHECKPOINT).get("orders", 0)
        loaded = load_log(PartitionLog(str(copy / "orders-0")), Startup(NOW, True, 10, start))
        assert loaded.ok, kills
        assert loaded.log_end_offset == 10, kills
        assert not loaded.loss.has_data, kills
        waiting += bool(unfinished(str(copy / "orders-0")))
        retain(copy, keep_old=keep_old, retention_ms=retention_ms)
        assert content(copy) == after, kills
        assert not list(copy.glob("*.kdump")), kills
        assert not unfinished(str(copy / "orders-0")), kills
        assert keep_old or not change_files(copy), kills
    assert kills > 30
    assert waiting > 10
