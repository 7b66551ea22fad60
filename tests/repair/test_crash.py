"""Kill a repair at every step that changes the disk: nothing is lost, and a rerun reaches the same bytes.

A child process carries out the repair and ends itself (no cleanup, as by SIGKILL) at the n-th change, or the change
fails: audit events of Python tell every open for writing, link, rename, removal, cut, change of mode or time; fsync is
counted besides.
"""

from __future__ import annotations

import errno
import gc
import os
import resource
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import kdump
from kdump.change import journal
from kdump.change.apply import apply_plan
from kdump.change.guard import ANY_LOSS
from kdump.change.interrupted import finish_interrupted
from kdump.change.place import PREFIX, new_change
from kdump.formats import names
from kdump.mend.proposal import examine
from kdump.mend.task import SALVAGE, TRUNCATE_LOG, Request, Strategy, Task
from tests.change.kept import is_kept
from tests.repair.damaged import DAMAGES, STARTUP, build
from tests.repair.salvaging import content, errors
from tests.sampling import sampled

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

KILLED_WITH = (
    "first segment, payload",
    "middle segment, payload",
    "last segment, zero tail",
    "index missing",
    "stray snapshot",
    "swap complete",
    "swap and cleaned",
    "damage and leftovers",
)
"""The damages whose repair is killed as by SIGKILL; that of all others fails, which is the same and faster to try."""

ALIKE = ("first segment, second batch", "first segment, CRC field", "first segment, size field")
"""Damages that are repaired by the same steps as others."""

RECOVERED = [(damage, None) for damage in KILLED_WITH] + [
    (damage, (errno.EIO, errno.ENOSPC)[number % 2])
    for number, damage in enumerate(DAMAGES)
    if damage not in (*KILLED_WITH, *ALIKE)
]
SALVAGED = (
    ("first segment, payload", errno.EIO),
    ("first segment, size field", errno.ENOSPC),
    ("middle segment, payload", None),
    ("middle segment, torn tail", errno.EIO),
    ("last segment, garbage tail", errno.ENOSPC),
    ("swap half renamed", None),
    ("damage and leftovers", errno.EIO),
)
"""The damages that are salvaged, too."""


@pytest.fixture(scope="module")
def sound() -> Iterator[Path]:
    """The log directory of the sound partition, to be copied; in memory where that can be had, for there are many."""
    memory = "/dev/shm"
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        build(Path(folder) / "sound")
        yield Path(folder) / "sound"


@pytest.fixture
def scratch(sound: Path) -> Iterator[Path]:
    """A directory beside the sound one."""
    with tempfile.TemporaryDirectory(dir=sound.parent) as folder:
        yield Path(folder)


@pytest.fixture
def damaged(sound: Path, scratch: Path, request: pytest.FixtureRequest) -> Path:
    """A damaged copy of the sound log directory."""
    return copy_with(DAMAGES[request.param], sound, scratch)


def copy_with(damage: Callable[[Path], object], sound: Path, scratch: Path) -> Path:
    """A copy of the sound log directory, damaged; its checkpoints lie beyond what any repair leaves."""
    log_dir = scratch / "logs"
    shutil.copytree(sound, log_dir)
    damage(log_dir / "orders-0")
    for checkpoint in (names.RECOVERY_POINT_CHECKPOINT, names.REPLICATION_CHECKPOINT, names.CLEANER_CHECKPOINT):
        (log_dir / checkpoint).write_text("0\n2\nothers 3 17\norders 0 59\n")
    return log_dir


def files(log_dir: Path) -> dict[str, bytes]:
    """The files of the log directory, those of changes excepted, and those of the partition."""
    around = {name: data for name, data in content(log_dir).items() if not name.startswith(PREFIX)}
    return around | content(log_dir / "orders-0")


def planned(log_dir: Path, strategy: Strategy) -> Task:
    return examine(kdump.open_log(str(log_dir / "orders-0")), STARTUP, Request(strategy))


def repair(log_dir: Path, strategy: Strategy = TRUNCATE_LOG, *, keep_old: bool = True) -> None:
    """What one run of the repair does: finish an interrupted one, then plan and apply."""
    partition = str(log_dir / "orders-0")
    finish_interrupted(partition)
    task = planned(log_dir, strategy)
    assert task.plan is not None
    if task.plan:
        apply_plan(task.plan, new_change(partition), keep_old=keep_old, cuts=task.cuts, allowance=ANY_LOSS)


class Saboteur:
    """Ends the process, or fails, at the n-th change."""

    def __init__(self, at: int, error: int | None) -> None:
        self.left = at
        self.error = error

    def step(self) -> None:
        """One change is about to be made."""
        self.left -= 1
        if self.left == 0:
            if self.error is None:
                os._exit(KILLED)
            raise OSError(self.error, os.strerror(self.error))

    def audit(self, event: str, args: tuple[object, ...]) -> None:
        """Python's audit hook."""
        if event in CHANGES or (event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR)):
            self.step()


def run_child(log_dir: Path, strategy: Strategy, at: int, *, keep_old: bool) -> bool:
    """Repair in a child that is killed at change number `at`; whether it got that far."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == KILLED
    status = 1
    try:
        gc.disable()  # it would touch, and so copy, all of the parent's memory
        saboteur = Saboteur(at, None)
        os.fsync = lambda fd: saboteur.step()
        sys.addaudithook(saboteur.audit)
        repair(log_dir, strategy, keep_old=keep_old)
        status = 0
    finally:
        os._exit(status)


class Watchman:
    """The audit hook of this process, which cannot be taken back: it hands on to one saboteur at a time."""

    saboteur: Saboteur | None = None
    is_there = False

    @classmethod
    def hook(cls, event: str, args: tuple[object, ...]) -> None:
        if cls.saboteur is not None:
            cls.saboteur.audit(event, args)


def run_failing(log_dir: Path, strategy: Strategy, at: int, error: int, *, keep_old: bool) -> bool:
    """Repair with an error at change number `at`; whether it got that far."""
    if not Watchman.is_there:
        sys.addaudithook(Watchman.hook)
        Watchman.is_there = True
    saboteur = Saboteur(at, error)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: saboteur.step())
        Watchman.saboteur = saboteur
        try:
            repair(log_dir, strategy, keep_old=keep_old)
        except OSError as failure:
            if failure.errno != error or saboteur.left > 0:
                raise
        finally:
            Watchman.saboteur = None
    return saboteur.left <= 0  # there may be errors that are no reason to give up


def kill_points(
    log_dir: Path, scratch: Path, strategy: Strategy, error: int | None = None, *, keep_old: bool
) -> Iterator[Path]:
    """A copy of the directory for every change of the repair, interrupted there; one more that was not."""
    at = 0
    interrupted = True
    while interrupted:
        at += 1
        copy = scratch / f"killed-{at}"
        shutil.copytree(log_dir, copy)
        if error is None:
            interrupted = run_child(copy, strategy, at, keep_old=keep_old)
        else:
            interrupted = run_failing(copy, strategy, at, error, keep_old=keep_old)
        yield copy
        shutil.rmtree(copy)


def outcome(log_dir: Path, scratch: Path, strategy: Strategy, *, keep_old: bool = True) -> dict[str, bytes]:
    """The files that an undisturbed repair leaves."""
    done = scratch / "done"
    shutil.copytree(log_dir, done)
    repair(done, strategy, keep_old=keep_old)
    return files(done)


def saved_cuts(log_dir: Path) -> set[tuple[object, bytes]]:
    """What changes that were carried out took out of logs."""
    changes = journal.changes_of(str(log_dir / "orders-0"))
    return {(kept.cut, Path(each.file(kept.file)).read_bytes()) for each in changes for kept in each.cuts}


TXNS_TOO_MANY = "KD-TXN-ORPHAN"
"""Between a log that is cut and its .txnindex: nobody asks for what it says, and without .index it is made anew."""

UNFINISHED = "KD-CHANGE-UNFINISHED"
"""What verify says of a change that was killed."""


def codes(log_dir: Path) -> set[str]:
    """The errors that verification finds, by code."""
    return {error.split("'")[1] for error in errors(log_dir / "orders-0")}


def state(log_dir: Path) -> frozenset[tuple[str, bytes]]:
    """Everything on disk that decides how a rerun ends; the times and inodes in names and plans do not."""
    found = set()
    for path in log_dir.rglob("*"):
        where = str(path.relative_to(log_dir))
        if where.startswith(PREFIX):
            where = where.split("+", 1)[1]
        is_journal = where.endswith(("+journal", "+staging", "+part"))
        found.add((where, path.read_bytes() if path.is_file() and not is_journal else b""))
    return frozenset(found)


def check_killed(damaged: Path, scratch: Path, strategy: Strategy, error: int | None = None, *, keep_old: bool) -> None:
    """Kill a repair at each of its steps, and look at what is there then and after a rerun."""
    before, known = files(damaged), codes(damaged)
    after = outcome(damaged, scratch, strategy, keep_old=keep_old)
    cuts = saved_cuts(scratch / "done")
    seen = set()
    count = -1
    for count, copy in enumerate(kill_points(damaged, scratch, strategy, error, keep_old=keep_old)):
        now = state(copy)
        if now in seen:
            continue
        seen.add(now)
        for file, data in files(copy).items():
            assert data in (before.get(file), after.get(file)) or file.endswith(".kdump"), (file, count)
        assert codes(copy) <= known | {TXNS_TOO_MANY, UNFINISHED}, count
        repair(copy, strategy, keep_old=keep_old)
        assert files(copy) == after, count
        assert saved_cuts(copy) == cuts, count
        assert keep_old or cuts or not any(is_kept(path) for path in copy.iterdir()), count
    assert count > 0 or before == after


@pytest.mark.parametrize(
    ("strategy", "damaged", "error"),
    sampled([(TRUNCATE_LOG, *each) for each in RECOVERED] + [(SALVAGE, *each) for each in SALVAGED], 5),
    indirect=["damaged"],
)
def test_killed_anywhere_nothing_is_lost_and_a_rerun_finishes(
    damaged: Path, scratch: Path, strategy: Strategy, error: int | None
) -> None:
    check_killed(damaged, scratch, strategy, error, keep_old=True)


WITHOUT_BACKUP = (
    (TRUNCATE_LOG, "damage and leftovers", None),
    (TRUNCATE_LOG, "damage and leftovers", errno.ENOSPC),
    (TRUNCATE_LOG, "swap half renamed", errno.EIO),
    (SALVAGE, "damage and leftovers", errno.ENOSPC),
    (SALVAGE, "middle segment, payload", None),
)


@pytest.mark.parametrize(("strategy", "damaged", "error"), sampled(WITHOUT_BACKUP, 1), indirect=["damaged"])
def test_without_a_backup_too(damaged: Path, scratch: Path, strategy: Strategy, error: int | None) -> None:
    check_killed(damaged, scratch, strategy, error, keep_old=False)
    assert bool(saved_cuts(scratch / "done")) == (strategy == SALVAGE)


@pytest.mark.parametrize("damaged", ["damage in all segments"], indirect=True)
def test_short_writes(damaged: Path, scratch: Path) -> None:
    after = outcome(damaged, scratch, SALVAGE)
    failed = 0
    for limit in (1, 50, 300, 700, 1000):  # no file may become longer than that: its last write is cut short
        copy = scratch / f"limited-{limit}"
        shutil.copytree(damaged, copy)
        failed += not run_limited(copy, limit)
        before = files(damaged)
        assert all(data in (before.get(file), after.get(file)) for file, data in files(copy).items()), limit
        repair(copy, SALVAGE)
        assert files(copy) == after, limit
    assert failed >= 4


def run_limited(log_dir: Path, limit: int) -> bool:
    """Salvage in a child whose files cannot grow beyond `limit` bytes; whether it succeeded."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    status = 1
    try:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        repair(log_dir, SALVAGE)
        status = 0
    finally:
        os._exit(status)


@pytest.mark.parametrize("damaged", sampled(list(DAMAGES), 9), indirect=True)
@pytest.mark.parametrize("strategy", [TRUNCATE_LOG, SALVAGE])
def test_a_second_run_finds_nothing_to_do(damaged: Path, strategy: Strategy) -> None:
    repair(damaged, strategy)
    plan = planned(damaged, strategy).plan
    assert plan is not None
    assert plan.operations == ()


def test_kafkas_loading_need_not_be_a_fixed_point(sound: Path, scratch: Path) -> None:
    # leader epochs are only learnt from batches beyond the last known one, which here is cut away in the end
    log_dir = scratch / "logs"
    shutil.copytree(sound, log_dir)
    checkpoint = log_dir / "orders-0" / "leader-epoch-checkpoint"
    checkpoint.write_text("0\n2\n0 0\n9 500\n")
    repair(log_dir)
    assert checkpoint.read_text() == "0\n1\n0 0\n"
    repair(log_dir)
    assert checkpoint.read_text() == "0\n3\n0 0\n1 20\n2 40\n"
