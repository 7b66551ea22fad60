"""Every reading command on directories that a broker left, held against what the broker said of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.kafka.answers import Answers, check_nothing_found
from tests.kafka.command import jsonl
from tests.kafka.directories import Rich
from tests.kafka.server_log import cleaned, loaded
from tests.kafka.tally import Column, Tally


@contextmanager
def reading(directory: Rich, tally: Tally) -> Iterator[Answers]:
    with tally.of(directory.release, Column.READ) as compare:
        loads = {Path(path).name: one for path, one in loaded(directory.server_log).items()}
        yield Answers(directory.log_dirs, directory.truth, compare, loads, cleaned(directory.server_log))


def _state_of(log_dirs: list[Path]) -> dict[str, tuple[int, int]]:
    paths = (path for log_dir in log_dirs for path in log_dir.rglob("*"))
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in paths}


@pytest.fixture(scope="module", autouse=True)
def untouched(directory: Rich) -> Iterator[None]:
    """Reading changes nothing."""
    before = _state_of(directory.log_dirs)
    yield
    assert _state_of(directory.log_dirs) == before


def test_logs_begin_and_end_where_the_broker_says(directory: Rich, tally: Tally) -> None:
    with reading(directory, tally) as answers:
        answers.check_offsets()


def test_groups_are_those_of_the_coordinators(directory: Rich, tally: Tally) -> None:
    with reading(directory, tally) as answers:
        answers.check_groups()


def test_metadata_is_that_of_the_controller(directory: Rich, tally: Tally) -> None:
    with reading(directory, tally) as answers:
        answers.check_metadata()


def test_transactions_are_those_of_the_coordinators(directory: Rich, tally: Tally) -> None:
    with reading(directory, tally) as answers:
        answers.check_transactions()


def test_times_lead_where_list_offsets_leads(directory: Rich, tally: Tally) -> None:
    with reading(directory, tally) as answers:
        answers.check_times()


def test_records_are_those_that_consumers_get(directory: Rich, tally: Tally) -> None:
    with reading(directory, tally) as answers:
        answers.check_records(directory.records())


def test_verify_finds_nothing_in_sound_directories(directory: Rich, tally: Tally) -> None:
    with tally.of(directory.release, Column.VERIFY) as compare:
        now = int((directory.folder / "server.log").stat().st_mtime * 1000)
        done = jsonl("verify", "--deep", "--fail-on", "warning", "--now", now, *directory.log_dirs)
        check_nothing_found(compare, done)
