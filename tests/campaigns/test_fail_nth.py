"""A short run of the campaign in which every call to the file system fails once."""

from __future__ import annotations

import errno
import importlib.util
from pathlib import Path

import pytest

from tests.campaigns.fail_nth import change_with_faults, drawn_allocations, every_call, read_with_faults
from tests.campaigns.scenarios import Scenario

pytestmark = pytest.mark.slow


def test_lookup_says_so_when_a_call_fails(tmp_path: Path) -> None:
    tally = read_with_faults("lookup", tmp_path, every_call(errno.EIO), lambda: False)
    assert tally.runs > 10
    assert tally.wrong == []


def test_trim_loses_nothing_when_a_call_fails(tmp_path: Path) -> None:
    scenario = Scenario("trim", "index with a zero tail")
    tally = change_with_faults(scenario, tmp_path, every_call(errno.ENOSPC), lambda: False)
    assert tally.runs > 20
    assert tally.wrong == []


def test_no_record_of_a_quorum_is_lost_when_a_call_fails(tmp_path: Path) -> None:
    """A log that could not be read was taken for an empty one."""
    tally = change_with_faults(Scenario("set-voters", "none"), tmp_path, every_call(errno.EIO), lambda: False)
    assert tally.runs > 100
    assert tally.wrong == []


def test_repair_plans_nothing_for_a_directory_that_it_cannot_list(tmp_path: Path) -> None:
    assert read_with_faults("repair", tmp_path, every_call(errno.EIO), lambda: False).wrong == []


def test_verify_finds_nothing_missing_that_it_cannot_look_at(tmp_path: Path) -> None:
    tally = read_with_faults("verify", tmp_path, every_call(errno.EACCES), lambda: False)
    assert tally.runs > 50
    assert tally.wrong == []


def test_replicas_says_so_when_it_cannot_tell_whose_a_copy_is(tmp_path: Path) -> None:
    assert read_with_faults("replicas", tmp_path, every_call(errno.EIO), lambda: False).wrong == []


needs_failing_allocations = pytest.mark.skipif(
    importlib.util.find_spec("_testcapi") is None, reason="this Python came without its test modules"
)


@needs_failing_allocations
def test_dump_says_so_when_there_is_no_memory(tmp_path: Path) -> None:
    tally = read_with_faults("dump", tmp_path, drawn_allocations(5, 1), lambda: False)
    assert tally.runs == 5
    assert tally.wrong == []


@needs_failing_allocations
def test_verify_shows_no_traceback_of_threads_and_generators(tmp_path: Path) -> None:
    tally = read_with_faults("verify rows", tmp_path, drawn_allocations(5, 3), lambda: False)
    assert tally.runs == 5
    assert tally.wrong == []


@needs_failing_allocations
def test_repair_loses_nothing_when_there_is_no_memory(tmp_path: Path) -> None:
    scenario = Scenario("repair", "time index missing")
    tally = change_with_faults(scenario, tmp_path, drawn_allocations(5, 1), lambda: False)
    assert tally.runs == 5
    assert tally.wrong == []
