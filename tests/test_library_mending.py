"""The functions of `import kdump` that mend single files of partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import kdump
from kdump.disk import locks
from kdump.errors import BrokerRunsError, NameFormatError, ProblemError, RefusedError
from kdump.formats import names
from kdump.operations.repair import Repaired
from tests.locked import broker_on
from tests.test_library_operations import content
from tests.verify.building import INTERVAL, Log, build, file, flip

CONFIG = {"index.interval.bytes": str(INTERVAL)}


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "GROWTH_WATCH_SECONDS", 0.01)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return build(tmp_path / "data")


def torn(log: Log) -> None:
    """Let the active segment end in the middle of a batch."""
    *_, last = sorted(path.name for path in log.partition.glob("*.log"))
    log.edit(last, lambda data: data + data[:30])


def test_indexes_are_rebuilt_and_undone(log: Log) -> None:
    sound = content(log.directory)
    log.edit(file(0, "index"), lambda data: data[:-1])
    log.edit(file(6, "index"), lambda data: data[:-1])
    before = content(log.directory)
    (planned,) = kdump.rebuild_index(log.directory)
    assert planned.task is not None
    assert planned.task.plan is not None
    assert {each.name for each in planned.task.plan.operations} == {file(0, "index"), file(6, "index")}
    assert content(log.directory) == before
    (done,) = kdump.rebuild_index(log.partition / file(6, "log"), config=CONFIG, apply=True)
    assert done.change is not None
    assert content(log.directory) == before | {f"orders-0/{file(6, 'index')}": sound[f"orders-0/{file(6, 'index')}"]}
    (done,) = kdump.rebuild_index(log.directory, config=CONFIG, apply=True)
    assert done.change is not None
    assert content(log.directory) == sound
    assert [each.change.command for each in kdump.changes(log.directory).changes] == ["rebuild-index"] * 2
    kdump.undo(log.directory, done.change.id, apply=True)
    assert content(log.directory) != sound


def test_only_indexes_of_some_kinds_are_rebuilt(log: Log) -> None:
    log.edit(file(0, "index"), lambda data: data[:-1])
    (planned,) = kdump.rebuild_index(log.directory, kinds=["timeindexes"])
    assert planned.task is not None
    assert not planned.task.plan
    with pytest.raises(ValueError, match="kinds is 'index': expected indexes, timeindexes, txnindexes"):
        kdump.rebuild_index(log.directory, kinds=["index"])


def test_indexes_of_a_damaged_log_stay(log: Log) -> None:
    log.edit(file(0, "log"), flip(70))
    log.edit(file(0, "index"), lambda data: data[:-1])
    before = content(log.directory)
    (left,) = kdump.rebuild_index(log.directory, apply=True)
    assert left.task is not None
    assert left.task.problems
    assert content(log.directory) == before


def test_trim(log: Log) -> None:
    sound = content(log.directory)
    torn(log)
    before = content(log.directory)
    (planned,) = kdump.trim(log.directory)
    assert planned.task is not None
    assert planned.task.plan
    assert content(log.directory) == before
    (done,) = kdump.trim(log.directory, apply=True)
    assert done.change is not None
    assert content(log.directory) == sound
    kdump.undo(log.directory, done.change.id, apply=True)
    assert content(log.directory) == before


def test_no_originals_are_kept_where_none_are_wanted(log: Log, tmp_path: Path) -> None:
    torn(log)
    with pytest.raises(ValueError, match="none are to be"):
        kdump.trim(log.directory, keep_originals=False, backup_dir=tmp_path)
    (done,) = kdump.trim(log.directory, apply=True, keep_originals=False)
    assert done.change is not None
    assert not done.kept


@pytest.mark.parametrize("function", [kdump.trim, kdump.rebuild_index])
def test_beside_a_broker_everything_is_left_alone(log: Log, function: Callable[..., Iterator[Repaired]]) -> None:
    torn(log)
    with broker_on(log.directory):
        before = content(log.directory)
        for applies in (False, True):
            with pytest.raises(BrokerRunsError):
                list(function(log.directory, apply=applies))
            assert list(function(log.directory, apply=applies, errors="skip")) == []
            (left,) = function(log.directory, apply=applies, errors="yield")
            assert isinstance(left.error, BrokerRunsError)
        assert content(log.directory) == before


@pytest.mark.parametrize("function", [kdump.repair, kdump.trim, kdump.rebuild_index])
def test_what_is_left_alone_does_not_end_the_rest(
    log: Log, tmp_path: Path, function: Callable[..., Iterator[Repaired]]
) -> None:
    other = build(tmp_path / "other")
    torn(other)
    with broker_on(log.directory):
        left, done = function(log.directory, other.directory, apply=True, errors="yield")
    assert isinstance(left.error, BrokerRunsError)
    assert left.path == str(log.directory)
    assert done.error is None


def test_the_lock_goes_before_an_error_is_raised(log: Log) -> None:
    torn(log)
    (log.directory / "dbus-1").mkdir()
    (log.directory / "dbus-1" / "socket").write_text("")
    assert not (log.directory / names.LOCK).exists()
    with pytest.raises(RefusedError, match="has no Kafka files") as raised:
        list(kdump.trim(log.directory, apply=True))
    assert raised.value is not None  # what raised it is still alive
    assert not (log.directory / names.LOCK).exists()
    (done,) = kdump.trim(log.partition, apply=True)
    assert done.change is not None


def test_what_cannot_be_read_beside_a_partition_is_a_problem(log: Log) -> None:
    torn(log)
    path = log.directory / names.LOG_START_CHECKPOINT
    path.unlink(missing_ok=True)
    path.symlink_to(path)
    with pytest.raises(ProblemError) as raised:
        next(kdump.trim(log.directory))
    assert raised.value.problem.path == str(path)
    (skipped,) = kdump.trim(log.directory, errors="skip")
    problem, found = kdump.trim(log.directory, errors="yield")
    assert isinstance(problem.error, ProblemError)
    assert (skipped.task, found.error) == (found.task, None)


@pytest.mark.parametrize("function", [kdump.trim, kdump.rebuild_index])
def test_wrong_calls(log: Log, tmp_path: Path, function: Callable[..., Iterator[Repaired]]) -> None:
    with pytest.raises(FileNotFoundError):
        function(tmp_path / "nothing")
    with pytest.raises(NameFormatError, match=r"expected a \.log, an index"):
        function(log.partition / names.LEADER_EPOCH_CHECKPOINT)
    with pytest.raises(ValueError, match="no path"):
        function()
    with pytest.raises(ValueError, match="ignore"):
        function(log.directory, errors="ignore")
