"""Plans in files, and a lock that is not looked at: what the commands that repair have, as arguments."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import kdump
from kdump.errors import BrokerRunsError, KdumpError, RefusedError
from kdump.operations.repair import Repaired
from tests.locked import broker_on
from tests.test_library_operations import content
from tests.verify.building import Log, build, file

Function = Callable[..., Iterator[Repaired]]
FUNCTIONS = [kdump.repair, kdump.trim, kdump.rebuild_index]


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """A log that ends in the middle of a batch, with an index that is cut off."""
    built = build(tmp_path / "data")
    *_, last = sorted(path.name for path in built.partition.glob("*.log"))
    built.edit(last, lambda data: data + data[:30])
    built.edit(file(0, "index"), lambda data: data[:-1])
    return built


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_plan_that_was_saved_is_applied(log: Log, tmp_path: Path, function: Function) -> None:
    plan, before = tmp_path / "plan.json", content(log.directory)
    (planned,) = function(log.directory, plan_out=plan)
    assert plan.exists()
    (same,) = function(log.directory, apply_plan=plan)
    assert same.task == planned.task
    assert content(log.directory) == before  # without `apply` nothing is changed
    (done,) = function(log.directory, apply_plan=os.fspath(plan), apply=True)
    assert done.change is not None
    assert content(log.directory) != before


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_plan_is_refused_once_files_have_changed(log: Log, tmp_path: Path, function: Function) -> None:
    plan = tmp_path / "plan.json"
    list(function(log.directory, plan_out=plan))
    log.edit(file(0, "timeindex"), lambda data: data[:-1])
    before = content(log.directory)
    with pytest.raises(RefusedError, match="changed since the plan"):
        list(function(log.directory, apply_plan=plan, apply=True))
    (left,) = function(log.directory, apply_plan=plan, apply=True, errors="yield")
    assert isinstance(left.error, RefusedError)
    assert content(log.directory) == before


def test_what_is_wrong_with_a_plan_file_is_said_by_the_call(log: Log, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        kdump.trim(log.directory, apply_plan=tmp_path / "absent")
    (tmp_path / "other").write_text("{}")
    with pytest.raises(KdumpError, match="not a plan file"):
        kdump.trim(log.directory, apply_plan=tmp_path / "other")
    with pytest.raises(RefusedError, match="give another directory"):
        kdump.trim(log.directory, plan_out=log.directory / "plan.json")
    with pytest.raises(TypeError, match="plan_out is 3: expected str or"):
        kdump.trim(log.directory, plan_out=3)  # type: ignore[arg-type]
    with pytest.raises(KdumpError, match="is a directory: expected a file"):
        kdump.trim(log.directory, plan_out=tmp_path)
    with pytest.raises(ValueError, match="plan_out saves a plan for later: leave out apply"):
        kdump.trim(log.directory, plan_out=tmp_path / "plan.json", apply=True)


@pytest.mark.parametrize("field", ["path", "operations", "files", "offsets", "newContent"])
@pytest.mark.parametrize("value", [None, []])
def test_a_plan_file_that_lacks_something_is_none(log: Log, tmp_path: Path, field: str, value: object) -> None:
    plan = tmp_path / "plan.json"
    list(kdump.trim(log.directory, plan_out=plan))
    document = json.loads(plan.read_text())
    (row,) = document["partitions"]
    row.pop(field)
    plan.write_text(json.dumps(document))
    with pytest.raises(KdumpError, match="not a plan file"):
        kdump.trim(log.directory, apply_plan=plan)
    row[field] = value
    plan.write_text(json.dumps(document))
    with pytest.raises(KdumpError):  # not a plan file, or another plan
        list(kdump.trim(log.directory, apply_plan=plan, apply=True))


def test_a_plan_file_that_nests_too_deep_is_none(log: Log, tmp_path: Path) -> None:
    (tmp_path / "deep").write_text("[" * 100_000)
    with pytest.raises(KdumpError, match="not a plan file"):
        kdump.trim(log.directory, apply_plan=tmp_path / "deep")


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_lock_is_not_looked_at_for_who_names_the_directory(log: Log, function: Function) -> None:
    with broker_on(log.directory):
        with pytest.raises(BrokerRunsError):
            list(function(log.directory, apply=True))
        with pytest.raises(RefusedError, match="ignore_lock is 'other': the directory is called data"):
            list(function(log.directory, apply=True, ignore_lock="other"))
        (done,) = function(log.directory, apply=True, ignore_lock="data")
    assert done.change is not None
    with pytest.raises(TypeError, match="ignore_lock is True"):
        function(log.directory, ignore_lock=True)


def test_a_repair_is_listed_by_its_strategy(log: Log) -> None:
    list(kdump.repair(log.directory, request=kdump.Request(kdump.Strategy.SALVAGE), apply=True))
    assert [each.change.command for each in kdump.changes(log.directory).changes] == ["repair salvage"]
