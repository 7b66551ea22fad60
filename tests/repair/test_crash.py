"""Kill a repair at every step that changes the disk: nothing is lost, and a rerun reaches the same bytes.

A child process carries out the repair and ends itself (no cleanup, as by SIGKILL) at the n-th change: audit events of
Python tell every open for writing, link, rename, removal, cut, change of mode or time; fsync is counted besides.
"""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import kdump
from kdump.repair import journal
from kdump.repair.apply import apply_plan, clear_leftovers, finish
from kdump.repair.kafka import plan_recovery
from tests.repair.damaged import DAMAGES, STARTUP, build

CHANGES = {
    "os.rename",
    "os.remove",
    "os.rmdir",
    "os.mkdir",
    "os.link",
    "os.truncate",
    "os.chmod",
    "os.chown",
    "os.utime",
}
KILLED = 77


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log directory of the sound partition, to be copied."""
    log_dir = tmp_path_factory.mktemp("sound") / "logs"
    build(log_dir)
    return log_dir


@pytest.fixture
def damaged(sound: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A damaged copy of the sound log directory."""
    log_dir = tmp_path / "logs"
    shutil.copytree(sound, log_dir)
    DAMAGES[request.param](log_dir / "orders-0")
    return log_dir


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written is seen by the next process whether or not it has reached the disk."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def content(folder: Path) -> dict[str, bytes]:
    """The files of a partition directory."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def repair(log_dir: Path, *, keep_old: bool = True) -> None:
    """What one run of the repair does: finish an interrupted one, or plan and apply."""
    partition = str(log_dir / "orders-0")
    interrupted = list(journal.unfinished(partition))
    for folder in interrupted:
        finish(folder, keep_old=keep_old)
    clear_leftovers(partition)
    if interrupted:
        return
    _, plan = plan_recovery(kdump.open_log(partition), STARTUP)
    assert plan is not None
    if plan:
        apply_plan(plan, journal.new_folder(partition), keep_old=keep_old)


class Saboteur:
    """Ends the process, or fails, at the n-th change."""

    def __init__(self, at: int, error: int | None) -> None:
        self.left = at
        self.error = error
        self.on = True

    def step(self) -> None:
        """One change is about to be made."""
        if not self.on:
            return
        self.left -= 1
        if self.left == 0:
            if self.error is None:
                os._exit(KILLED)
            raise OSError(self.error, os.strerror(self.error))

    def audit(self, event: str, args: tuple[object, ...]) -> None:
        """Python's audit hook."""
        if event in CHANGES or (event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR)):
            self.step()


def run_child(log_dir: Path, at: int, error: int | None, *, keep_old: bool) -> bool:
    """Repair in a child that is sabotaged at change number `at`; whether it got that far."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == KILLED
    status = 1
    try:
        saboteur = Saboteur(at, error)
        os.fsync = lambda descriptor: saboteur.step()
        sys.addaudithook(saboteur.audit)
        try:
            repair(log_dir, keep_old=keep_old)
            status = 0
        except OSError as failure:
            status = KILLED if failure.errno == error else 1
    finally:
        os._exit(status)


def kill_points(log_dir: Path, scratch: Path, error: int | None, *, keep_old: bool) -> Iterator[Path]:
    """A copy of the directory for every change of the repair, interrupted there."""
    at = 0
    interrupted = True
    while interrupted:
        at += 1
        copy = scratch / f"killed-{at}"
        shutil.copytree(log_dir, copy)
        interrupted = run_child(copy, at, error, keep_old=keep_old)
        yield copy
        shutil.rmtree(copy)


@pytest.mark.parametrize("damaged", DAMAGES, indirect=True)
def test_killed_anywhere_nothing_is_lost_and_a_rerun_finishes(damaged: Path, tmp_path: Path) -> None:
    before = content(damaged / "orders-0")
    done = tmp_path / "done"
    shutil.copytree(damaged, done)
    repair(done)
    after = content(done / "orders-0")
    count = 0
    for copy in kill_points(damaged, tmp_path, None, keep_old=True):
        count += 1
        for file, data in content(copy / "orders-0").items():
            assert data in (before.get(file), after.get(file)), (file, count)
        repair(copy)
        assert content(copy / "orders-0") == after, count
    assert count > 1 or before == after


@pytest.mark.parametrize("damaged", ["damage and leftovers", "swap half renamed"], indirect=True)
@pytest.mark.parametrize("error", [None, errno.ENOSPC, errno.EIO])
def test_without_a_backup_too(damaged: Path, tmp_path: Path, error: int | None) -> None:
    before = content(damaged / "orders-0")
    done = tmp_path / "done"
    shutil.copytree(damaged, done)
    repair(done, keep_old=False)
    after = content(done / "orders-0")
    assert not (done / "orders-0" / journal.BACKUP_FOLDER).exists()
    for number, copy in enumerate(kill_points(damaged, tmp_path, error, keep_old=False)):
        for file, data in content(copy / "orders-0").items():
            assert data in (before.get(file), after.get(file)), (file, number)
        repair(copy, keep_old=False)
        assert content(copy / "orders-0") == after, number
        assert not (copy / "orders-0" / journal.BACKUP_FOLDER).exists(), number


@pytest.mark.parametrize("damaged", DAMAGES, indirect=True)
def test_a_second_run_finds_nothing_to_do(damaged: Path) -> None:
    repair(damaged)
    _, plan = plan_recovery(kdump.open_log(str(damaged / "orders-0")), STARTUP)
    assert plan is not None
    assert plan.operations == ()


def test_kafkas_loading_need_not_be_a_fixed_point(sound: Path, tmp_path: Path) -> None:
    # leader epochs are only learnt from batches beyond the last known one, which here is cut away in the end
    log_dir = tmp_path / "logs"
    shutil.copytree(sound, log_dir)
    checkpoint = log_dir / "orders-0" / "leader-epoch-checkpoint"
    checkpoint.write_text("0\n2\n0 0\n9 500\n")
    repair(log_dir)
    assert checkpoint.read_text() == "0\n1\n0 0\n"
    repair(log_dir)
    assert checkpoint.read_text() == "0\n3\n0 0\n1 20\n2 40\n"
