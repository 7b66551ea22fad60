"""What a power cut may leave of kdump's changes: a broker starts on it, and finds each log as `kdump startup` says.

Nobody runs kdump a second time here. States of many changes are partitions of two log directories, of which one was
shut down cleanly, so that one start tries hundreds of them. `--rounds` says how many states are drawn.
"""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from kdump.change import place
from kdump.formats import names
from kdump.formats.checkpoints import OffsetCheckpointEntry, format_offset_checkpoint, parse_offset_checkpoint
from tests.campaigns.crash_states import Campaign, Seen
from tests.campaigns.disk_model import State, put
from tests.campaigns.scenarios import PARTITION, SCENARIOS, Scenario
from tests.kafka.broker import Broker
from tests.kafka.command import jsonl
from tests.kafka.server_log import loaded, offline
from tests.kafka.tally import Column, Comparison, Tally
from tests.kafka.test_damage import forecast

_OF_EACH = 14
"""States that are drawn of each change."""
_AT_ONCE = 250
"""States that one broker is started on."""
_MOST = 12
"""Combinations at one point of a change that are drawn from."""
_SEVERAL_DISKS = ("resurrect", "set-voters")
"""Commands that change whole log directories, how these begin."""


class Left(NamedTuple):
    """A state that a power cut may leave, and what it was that it cut off."""

    what: str
    scenario: Scenario
    state: State


def test_starts_on_what_a_power_cut_left(
    release: str, tally: Tally, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    rounds, seed = pytestconfig.getoption("--rounds"), pytestconfig.getoption("--seed")
    left = list(_drawn(rounds, Random(seed), tmp_path))
    with tally.of(release, Column.FORECAST) as compare:
        for first in range(0, len(left), _AT_ONCE):
            folder = tmp_path / f"broker-{first}"
            before = len(compare.differences)
            _start(compare, release, folder, left[first : first + _AT_ONCE])
            if len(compare.differences) == before:
                shutil.rmtree(folder)


def _drawn(rounds: int, numbers: Random, scratch: Path) -> Iterator[Left]:
    """States of all commands that change one partition; the last of each is what the whole command leaves."""
    scenarios = [each for each in SCENARIOS if not each.command.startswith(_SEVERAL_DISKS)]
    todo = rounds
    for number, scenario in enumerate(numbers.sample(scenarios, len(scenarios))):
        folder = scratch / f"change-{number}"
        change, seen = Campaign(scenario, folder), Seen()
        states = [(at, state) for at, state in change.cut(_MOST, numbers) if state is not None and seen.is_new(state)]
        shutil.rmtree(folder)
        drawn = [*numbers.sample(states[:-1], min(_OF_EACH - 1, len(states) - 1)), *states[-1:]][:todo]
        todo -= len(drawn)
        yield from (Left(f"{scenario.name}, power cut after event {at}", scenario, state) for at, state in drawn)


def _start(compare: Comparison, release: str, folder: Path, left: list[Left]) -> None:
    log_dirs = {is_clean: folder / ("clean" if is_clean else "unclean") for is_clean in (True, False)}
    broker = Broker(release, folder, list(log_dirs.values()))
    broker.format()
    (log_dirs[True] / names.CLEAN_SHUTDOWN).write_text('{"version":0,"brokerEpoch":-1}')
    points: dict[Path, list[OffsetCheckpointEntry]] = defaultdict(list)
    partitions = {}
    for number, each in enumerate(left):
        made = folder / "made"
        made.mkdir()
        put(each.state, made)
        source = each.scenario.partition(made).parent
        into = log_dirs[(source / names.CLEAN_SHUTDOWN).exists()]
        partitions[str(into / f"orders-{number}")] = each.what
        _join(source, into, number, points)
        shutil.rmtree(made)
    for checkpoint, entries in points.items():
        checkpoint.write_bytes(format_offset_checkpoint(entries))
    _compare(compare, broker, partitions)


def _join(source: Path, into: Path, number: int, points: dict[Path, list[OffsetCheckpointEntry]]) -> None:
    """Put the partition of one log directory into another, with a number, its part of checkpoints, and its changes."""
    for path in source.iterdir():
        if path.name in names.OFFSET_CHECKPOINTS:
            entries = parse_offset_checkpoint(path.read_bytes(), str(path))
            points[into / path.name] += (entry._replace(partition=number) for entry in entries)
        elif path.is_dir() or path.name.startswith(place.PREFIX):
            path.rename(into / path.name.replace(PARTITION, f"orders-{number}"))


def _compare(compare: Comparison, broker: Broker, partitions: dict[str, str]) -> None:
    done = jsonl("startup", "--config", broker.config, *broker.log_dirs)
    compare.holds(f"startup ends with {done.exit_code}: {done.err[-300:]}", done.exit_code in (0, 1))
    serves, log = broker.tried()
    told = done.of_type("broker")[0]
    compare.same("the broker serves", told["isStartable"], serves)
    compare.same("log directories that went offline", sorted(told["offline"]), sorted(offline(log)))
    logs = {_as_named(path): load for path, load in loaded(log).items()}
    outcomes = {row["path"]: row for row in done.of_type("outcome")}
    assert partitions.keys() <= outcomes.keys()
    for path, what in partitions.items():
        compare.same(f"{path} ({what})", forecast(outcomes.get(path)), logs.get(path))


def _as_named(path: str) -> str:
    """The partition's path without what a broker adds that sets it aside (NAME.ID-stray)."""
    return path.rpartition(".")[0] if path.endswith("-stray") else path
