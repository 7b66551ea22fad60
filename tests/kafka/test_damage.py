"""Random damages of what a broker left: `kdump startup` tells beforehand what the broker does with them."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random
from typing import Any

import pytest

from commands.shell.exit_codes import INCOMPLETE
from kdump.findings.kind import BrokerEffect
from tests.kafka.broker import Broker
from tests.kafka.command import Ran, jsonl
from tests.kafka.damages import Damaged, damage
from tests.kafka.directories import State, rich
from tests.kafka.server_log import Loaded, loaded, offline
from tests.kafka.tally import Column, Comparison, Tally


def test_starts_on_damaged_directories(release: str, tally: Tally, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    rounds, seed = pytestconfig.getoption("--rounds"), pytestconfig.getoption("--seed")
    with tally.of(release, Column.FORECAST) as compare:
        done = number = 0
        while done < rounds:
            random = Random(f"{seed} {number}")
            number += 1
            folder = tmp_path / str(number)
            state = random.choice(list(State))
            log_dirs = rich(release, state).copy(folder)
            done += len(damages := damage(log_dirs, random, rounds - done))
            before = len(compare.differences)
            _start(compare, Broker(release, folder, log_dirs), damages, f"seed {seed} {number - 1}, {state}")
            if len(compare.differences) == before:
                shutil.rmtree(folder)


def _start(compare: Comparison, broker: Broker, damages: list[Damaged], name: str) -> None:
    done = jsonl("startup", "--config", broker.config, *broker.log_dirs)
    verified = jsonl("verify", *broker.log_dirs)
    refused = _is_refused(verified) or verified.exit_code == INCOMPLETE  # a disk that is not there
    damaged = "; ".join(f"{one.path.relative_to(broker.folder)} {one.how}" for one in damages)
    what = f"{broker.folder} ({name}: {damaged})"
    compare.holds(f"{what}: startup ends with {done.exit_code}: {done.err[-300:]}", done.exit_code in (0, 1))
    serves, log = broker.tried()
    told = done.of_type("broker")[0]
    compare.same(f"{what}: the broker serves", told["isStartable"], serves)
    if serves:
        _compare_logs(compare, broker, done, log, what)
    if not serves or offline(log):
        compare.same(f"{what}: verify says that a broker refuses it", refused, True)


def _is_refused(done: Ran) -> bool:
    """Whether verification names something with which a broker does not start, or takes a log directory offline."""
    return any(row["broker"] in (BrokerEffect.REFUSES, BrokerEffect.GOES_OFFLINE) for row in done.of_type("finding"))


def _compare_logs(compare: Comparison, broker: Broker, done: Ran, log: str, what: str) -> None:
    failed, lost = set(done.of_type("broker")[0]["offline"]), offline(log)
    compare.same(f"{what}: log directories without which the broker serves", sorted(failed), sorted(lost))
    outcomes = {row["path"]: row for row in done.of_type("outcome")}
    for path, load in loaded(log).items():
        if str(Path(path).parent) not in failed | lost:
            compare.same(f"{what}: {Path(path).name}", forecast(_outcome_of(outcomes, path)), load)
    strays = {path.name.rpartition(".")[0] for one in broker.log_dirs for path in one.glob("*-stray")}
    if not failed | lost:
        compare.same(f"{what}: strays", _strays(done), sorted(strays))


def _outcome_of(outcomes: dict[str, dict[str, Any]], path: str) -> dict[str, Any] | None:
    """What is forecast of a partition, which the broker may have set aside as NAME.ID-stray before it told of it."""
    return outcomes.get(path.rpartition(".")[0] if path.endswith("-stray") else path)


def forecast(row: dict[str, Any] | None) -> Loaded | None:
    if row is None or not row["isLoaded"]:
        return None
    segments = sum(file.endswith(".log") for file in row["files"])
    return Loaded(row["logStartOffset"], row["logEndOffset"], segments)


def _strays(done: Ran) -> list[str]:
    """Partitions of which the forecast says that the broker sets them aside."""
    return sorted(Path(row["path"]).name for row in done.of_type("outcome") if row.get("stray"))
