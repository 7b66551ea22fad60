"""The functions of `import kdump` that repair single files of partitions."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import kdump
from kdump.errors import BrokerRunsError, KdumpError, NameFormatError, ProblemError, RefusedError
from kdump.formats import names
from kdump.operations.repair import Repaired
from kdump.operations.results import Failed
from tests.locked import broker_on
from tests.replicas.building import OnDisk, chain, write_copy
from tests.replicas.building import flip as damage
from tests.test_library_operations import content
from tests.verify.building import INTERVAL, Log, build, file, flip

CONFIG = {"index.interval.bytes": str(INTERVAL)}


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


COMPACTS = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}


@pytest.mark.parametrize(("function", "settings"), [(kdump.retain, None), (kdump.compact, COMPACTS)])
def test_one_refused_log_directory_leaves_the_others(
    log: Log, tmp_path: Path, function: Callable[..., Iterator[object]], settings: dict[str, str] | None
) -> None:
    other = build(tmp_path / "other")
    with broker_on(log.directory):
        found = list(function(log.directory, other.directory, apply=True, config=settings, errors="yield"))
    assert isinstance(found[0], Failed)
    assert isinstance(found[0].error, BrokerRunsError)
    assert len(found) > 1


def test_retain_gives_the_lock_up_before_an_error_is_raised(log: Log) -> None:
    with pytest.raises(RefusedError, match="does not know this topic's retention") as raised:
        list(kdump.retain(log.directory, apply=True))
    assert raised.value is not None  # what raised it is still alive
    assert not (log.directory / names.LOCK).exists()


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
    with pytest.raises(ValueError, match="is empty: expected one path or more"):
        function()
    with pytest.raises(ValueError, match="ignore"):
        function(log.directory, errors="ignore")


BATCHES = chain(0, (0, 20), (2, 20))


@pytest.fixture
def copies(tmp_path: Path) -> tuple[Path, Path]:
    """A copy with a damaged batch, and a whole one."""
    first = write_copy(tmp_path, 1, OnDisk(BATCHES, high_watermark=190, roll=(50, 100, 150)))
    second = write_copy(tmp_path, 2, OnDisk(BATCHES, high_watermark=195, roll=(75, 125)))
    damage(first / f"{50:020d}.log", 300)
    return first, second


def records(folder: Path) -> list[tuple[int, bytes | None]]:
    found = kdump.open_log(folder).records(errors="raise")
    return [(record.offset, record.value) for record in found if isinstance(record, kdump.Record)]


def test_what_a_copy_lacks_comes_from_another_one(copies: tuple[Path, Path], tmp_path: Path) -> None:
    first, second = copies
    before = content(tmp_path)
    (planned,) = kdump.heal(first, sources=[second])
    assert planned.task is not None
    assert planned.task.plan
    assert content(tmp_path) == before
    (done,) = kdump.heal(first.parent, sources=[second.parent], apply=True)
    assert done.change is not None
    assert done.change.command == "repair from"
    assert records(first) == records(second)
    kdump.undo(first, done.change.id, apply=True)
    assert content(tmp_path) == before


def test_a_partition_that_is_gone_is_made(copies: tuple[Path, Path]) -> None:
    first, second = copies
    shutil.rmtree(first)
    (done,) = kdump.heal(first, sources=[second], apply=True)
    assert done.change is not None
    assert records(first) == records(second)


def test_copies_that_are_none(copies: tuple[Path, Path], tmp_path: Path) -> None:
    first, second = copies
    with pytest.raises(RefusedError, match="is the copy to repair"):
        list(kdump.heal(first, sources=[first], apply=True))
    other = build(tmp_path / "other", name="payments-0")
    with pytest.raises(KdumpError, match="no copy of these partitions"):
        list(kdump.heal(first, sources=[other.directory]))
    with pytest.raises(ValueError, match="sources is empty"):
        kdump.heal(first, sources=[])
    with pytest.raises(KdumpError, match="No such file"):
        kdump.heal(first, sources=[tmp_path / "nothing"])
    with pytest.raises(RefusedError, match="Kafka's own"):
        kdump.heal(first, sources=[second], output=second / "copy")
