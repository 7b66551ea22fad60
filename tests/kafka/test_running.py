"""Every reading command beside a broker that runs on the directories and has nothing to do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.kafka.answers import Answers, check_nothing_found
from tests.kafka.broker import Broker
from tests.kafka.command import jsonl
from tests.kafka.directories import MADE, State, rich
from tests.kafka.kit import Kit
from tests.kafka.server_log import cleaned
from tests.kafka.tally import Column, Comparison, Tally


class Running(NamedTuple):
    broker: Broker
    truth: dict[str, Any]
    records: Path


@pytest.fixture(scope="module")
def running(release: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A broker on a copy of the directories of a killed one, and what it says."""
    folder = tmp_path_factory.mktemp(f"running-{release}")
    broker = Broker(release, folder, rich(release, State.KILLED).copy(folder))
    try:
        broker.start()
        with Kit(release, MADE, folder / "kit.log") as kit:
            records = folder / "records.jsonl"
            truth = kit.ask("truth", servers=broker.servers, records=str(records))
        yield Running(broker, truth, records)
    finally:
        broker.kill()


def _answers(running: Running, compare: Comparison) -> Answers:
    return Answers(running.broker.log_dirs, running.truth, compare, None, cleaned(running.broker.log))


def test_reading_beside_a_broker(running: Running, tally: Tally) -> None:
    with tally.of(running.broker.release, Column.READ) as compare:
        answers = _answers(running, compare)
        answers.check_offsets()
        answers.check_groups()
        answers.check_metadata()
        answers.check_transactions()
        answers.check_times()
        with running.records.open() as lines:
            answers.check_records(map(json.loads, lines))


def test_verify_beside_a_broker(running: Running, tally: Tally) -> None:
    with tally.of(running.broker.release, Column.VERIFY) as compare:
        # One transaction is open for as long as the data set is old.
        options = ("--deep", "--fail-on", "warning", "--ignore", "KD-TXN-HANGING")
        check_nothing_found(compare, jsonl("verify", *options, *running.broker.log_dirs))


def test_no_plan_is_shown_beside_a_broker(running: Running, tally: Tally) -> None:
    """What would be changed is worthless a moment later."""
    with tally.of(running.broker.release, Column.WRITE) as compare:
        for command in ("repair", "rebuild-index", "trim"):
            done = jsonl(command, *running.broker.log_dirs)
            compare.same(f"{command}: exit code", done.exit_code, 4)
