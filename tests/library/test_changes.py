"""Changes that are ended as they are, and originals that are deleted, from Python."""

from __future__ import annotations

from pathlib import Path

import pytest

import kdump
from kdump.change.change import ChangeState
from kdump.change.undo import Verdict
from kdump.errors import BrokerRunsError, KdumpError, RefusedError
from kdump.operations.results import Failed
from kdump.operations.undo import Closed, Pruned
from tests.change.kept import change_files, killed_after
from tests.locked import broker_on
from tests.test_library_operations import content
from tests.verify.building import Log, build, file

DAY = 86_400_000


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """A log with two indexes that are cut off."""
    built = build(tmp_path / "data")
    for base_offset in (0, 6):
        built.edit(file(base_offset, "index"), lambda data: data[:-1])
    return built


@pytest.fixture
def interrupted(log: Log) -> str:
    """The id of a change that was interrupted."""
    with killed_after(1):
        list(kdump.rebuild_index(log.directory, apply=True))
    (listed,) = kdump.changes(log.directory).changes
    assert listed.judged.verdict == Verdict.INTERRUPTED
    return listed.change.id


def test_an_interrupted_change_ends_as_things_are(log: Log, interrupted: str) -> None:
    before = content(log.directory)
    (planned,) = kdump.undo(log.directory, interrupted, close=True)
    assert isinstance(planned, Closed)
    assert not planned.is_done
    assert kdump.changes(log.directory).changes[0].change.state == ChangeState.INTERRUPTED
    (closed,) = kdump.undo(log.directory, interrupted, close=True, apply=True)
    assert isinstance(closed, Closed)
    assert closed.is_done
    assert kdump.changes(log.directory).changes[0].change.state != ChangeState.INTERRUPTED
    assert content(log.directory) == before


def test_only_an_interrupted_change_can_be_closed(log: Log) -> None:
    (done,) = kdump.rebuild_index(log.directory, apply=True)
    assert done.change is not None
    with pytest.raises(RefusedError, match="was not interrupted"):
        kdump.undo(log.directory, done.change.id, close=True, apply=True)
    with pytest.raises(KdumpError, match="there is no change"):
        kdump.undo(log.directory, "20200101T000000", close=True)
    with pytest.raises(TypeError, match="close is 1"):
        kdump.undo(log.directory, done.change.id, close=1)  # type: ignore[arg-type]


def test_originals_are_deleted_once_they_are_old(log: Log) -> None:
    (done,) = kdump.rebuild_index(log.directory, apply=True)
    assert done.change is not None
    now, kept = done.change.begun + DAY, sorted(change_files(log.directory))
    assert kdump.prune(log.directory, older_than_ms=DAY + 1, now=now, apply=True) == []
    assert kdump.prune(log.directory, change="20200101T000000", apply=True) == []
    (planned,) = kdump.prune(log.directory, older_than_ms=DAY, now=now)
    assert isinstance(planned, Pruned)
    assert (planned.path, planned.is_done, planned.size > 0) == (str(log.partition), False, True)
    assert sorted(change_files(log.directory)) == kept
    (pruned,) = kdump.prune(log.directory, change=done.change.id, apply=True)
    assert isinstance(pruned, Pruned)
    assert pruned.is_done
    assert not sorted(change_files(log.directory))
    assert not kdump.changes(log.directory).changes


def test_originals_of_an_interrupted_change_stay(log: Log, interrupted: str) -> None:
    kept = sorted(change_files(log.directory))
    assert kdump.prune(log.directory, change=interrupted, apply=True) == []
    assert sorted(change_files(log.directory)) == kept


def test_beside_a_broker_nothing_is_deleted_or_closed(log: Log, interrupted: str) -> None:
    other = build(log.directory.parent / "other")
    other.edit(file(0, "index"), lambda data: data[:-1])
    (done,) = kdump.rebuild_index(other.directory, apply=True)
    assert done.change is not None
    with broker_on(other.directory):
        with pytest.raises(BrokerRunsError):
            kdump.prune(other.directory, apply=True)
        (left,) = kdump.prune(other.directory, apply=True, errors="yield")
        assert isinstance(left, Failed)
        assert kdump.prune(other.directory, apply=True, errors="skip") == []
        (pruned,) = kdump.prune(other.directory, apply=True, ignore_lock="other")
        assert isinstance(pruned, Pruned)
    with broker_on(log.directory), pytest.raises(BrokerRunsError):
        kdump.undo(log.directory, interrupted, close=True, apply=True)


def test_wrong_calls(log: Log) -> None:
    with pytest.raises(ValueError, match="older_than_ms is -1: expected a whole number, 0 or more"):
        kdump.prune(log.directory, older_than_ms=-1)
    with pytest.raises(TypeError, match="change is 7"):
        kdump.prune(log.directory, change=7)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="ignore_lock is 1"):
        kdump.prune(log.directory, ignore_lock=1)  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError):
        kdump.prune(log.directory / "absent")
