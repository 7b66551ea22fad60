"""Rich log directories of each release, stopped in order and killed under load, with what the broker said of them.

Making them takes a minute a release. They are kept under a name that holds a digest of all that makes them.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from enum import StrEnum
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from tests.kafka import chance
from tests.kafka.broker import Broker, BrokerError, minor, settings_of
from tests.kafka.jars import LOCKS, made, made_once
from tests.kafka.kit import Kit, sources

DISKS = ("disk1", "disk2")

FEATURES = {
    "4.1": ("share.version=1",),
    "4.2": ("share.version=1", "streams.version=1"),
    "4.3": ("share.version=1", "streams.version=1"),
}

LOAD_SECONDS = 5

_FOR_SINGLE_TESTS = frozenset({"Loading.java", "Search.java", "Settings.java", "Steps.java"})
"""Java sources that have no part in what is made."""


_BY_CHANCE = "Wild.java"
"""Has a part in what is made only with a seed."""


class State(StrEnum):
    """How the broker ended that wrote a directory."""

    STOPPED = "stopped"
    KILLED = "killed"


MADE = made()


class Rich:
    """The directories of one release in one state, and what a broker started on a copy of them said: the truth."""

    def __init__(self, release: str, state: State, folder: Path) -> None:
        self.release = release
        self.state = state
        self.folder = folder

    @property
    def log_dirs(self) -> list[Path]:
        return [self.folder / disk for disk in DISKS]

    @property
    def partitions(self) -> Iterator[Path]:
        """The directories of partitions, without those that wait for deletion."""
        for log_dir in self.log_dirs:
            for path in sorted(log_dir.iterdir()):
                if path.is_dir() and not path.name.endswith(("-delete", "-future", "-stray")):
                    yield path

    @cached_property
    def truth(self) -> dict[str, Any]:
        """What the broker said after it had been started on these directories. See Truth.java."""
        truth: dict[str, Any] = json.loads((self.folder / "truth.json").read_text())
        return truth

    @cached_property
    def before(self) -> dict[str, Any]:
        """What it said before it ended; for a killed one: before the load began."""
        before: dict[str, Any] = json.loads((self.folder / "before.json").read_text())
        return before

    @cached_property
    def server_log(self) -> str:
        """What the broker logged when it started on these directories."""
        return (self.folder / "restart.log").read_text()

    @property
    def recovered(self) -> list[Path]:
        """The log directories after that start, and an orderly stop."""
        return [self.folder / "recovered" / disk for disk in DISKS]

    @cached_property
    def cleaned(self) -> frozenset[str]:
        """The partitions that the broker cleaned after that start: what it said of them may be of before or after."""
        lines = zip(map(_cleaner_lines, self.log_dirs), map(_cleaner_lines, self.recovered), strict=True)
        return frozenset(
            f"{topic}-{number}" for before, after in lines for topic, number, _ in map(str.split, after - before)
        )

    def records(self) -> Iterator[dict[str, Any]]:
        """All records as consumers got them after that start. See Truth.java."""
        with (self.folder / "records.jsonl").open() as file:
            for line in file:
                yield json.loads(line)

    def copy(self, target: Path) -> list[Path]:
        """Copy the log directories with their times; returns the copies."""
        copies = []
        for log_dir in self.log_dirs:
            copies.append(target / log_dir.name)
            copy_tree(log_dir, copies[-1])
        return copies


def _cleaner_lines(log_dir: Path) -> set[str]:
    path = log_dir / "cleaner-offset-checkpoint"
    return set(path.read_text().splitlines()[2:]) if path.exists() else set()


def copy_tree(source: Path, target: Path) -> None:
    """Copy with times, and with the holes of preallocated index files."""
    target.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cp", "-a", "--sparse=always", str(source), str(target)], check=True)


SEED = "KDUMP_KAFKA_DATA_SEED"
"""The environment variable with a number that adds data by chance (Wild.java); 0 or nothing adds none."""


def _seed() -> int:
    return int(os.environ.get(SEED) or 0)


def rich(release: str, state: State) -> Rich:
    """The directories, made if they are not there."""
    folder = MADE / f"{release}-{_made_by(release)}{f'-{_seed()}' if _seed() else ''}"
    made_once(folder, partial(_make, release))
    return Rich(release, state, folder / state)


def _made_by(release: str) -> str:
    """A digest of all that decides what is in the directories."""
    digest = hashlib.sha256((LOCKS / f"{release}.sha256").read_bytes())
    for path in sources(release):
        if path.name not in _FOR_SINGLE_TESTS and (_seed() or path.name != _BY_CHANCE):
            digest.update(path.read_bytes())
    settings = [settings_of(release), DISKS, FEATURES.get(minor(release)), LOAD_SECONDS]
    functions = [inspect.getsource(function) for function in (_make, _formatting, _say, _keep, _restart)]
    if _seed():
        functions.append(inspect.getsource(chance))
    digest.update(repr([settings, functions]).encode())
    return digest.hexdigest()[:12]


def _make(release: str, folder: Path) -> None:
    chosen = chance.settings(_seed())
    broker = Broker(release, folder / "live", [folder / "live" / disk for disk in DISKS], **chosen)
    broker.format(*_formatting(release))
    try:
        with Kit(release, MADE, folder / "kit.log") as kit:
            broker.start()
            kit.ask("make", servers=broker.servers, seed=_seed())
            _say(folder, State.STOPPED, kit.ask("truth", servers=broker.servers))
            broker.stop()
            _keep(broker, folder / State.STOPPED)
        with Kit(release, MADE, folder / "kit.log") as kit:
            broker.start()
            _say(folder, State.KILLED, kit.ask("truth", servers=broker.servers))
            kit.ask("load", servers=broker.servers, prefix="busy")
            time.sleep(LOAD_SECONDS)
            broker.kill()
            _keep(broker, folder / State.KILLED)
    finally:
        broker.kill()
    shutil.rmtree(folder / "live")
    for state in State:
        _restart(release, state, folder / state)


def _formatting(release: str) -> list[str]:
    if _seed():
        return chance.formatting(release, _seed())
    return [part for feature in FEATURES.get(minor(release), ()) for part in ("--feature", feature)]


def _say(folder: Path, state: State, truth: dict[str, Any]) -> None:
    (folder / state).mkdir()
    (folder / state / "before.json").write_text(json.dumps(truth, indent=1))


def _keep(broker: Broker, target: Path) -> None:
    for log_dir in broker.log_dirs:
        copy_tree(log_dir, target / log_dir.name)
    shutil.copy(broker.config, target / "server.properties")
    shutil.copy(broker.log_file, target / "server.log")


_GIVES_UP = "these partitions are likely deleted already and hence can be skipped"
"""What the log says of markers of prepared transactions that a coordinator does not write (docs/kafka-bugs.md)."""
_STARTS = 5


def _restart(release: str, state: State, folder: Path) -> None:
    """Start a broker on a copy, ask it everything, stop it, and keep what it left.

    One that gave markers up is asked again on a new copy: the next broker on these directories writes them.
    """
    for _ in range(_STARTS):
        if _GIVES_UP not in _restarted(release, state, folder):
            return
        shutil.rmtree(folder / "recovered")
    raise BrokerError(f"{release} gave markers up in each of {_STARTS} starts")


def _restarted(release: str, state: State, folder: Path) -> str:
    copies = Rich(release, state, folder).copy(folder / "recovered")
    broker = Broker(release, folder / "recovered", copies, **chance.settings(_seed()))
    try:
        with Kit(release, MADE, folder.parent / "kit.log") as kit:
            broker.start()
            truth = kit.ask("truth", servers=broker.servers, records=str(folder / "records.jsonl"))
        (folder / "truth.json").write_text(json.dumps(truth, indent=1))
        broker.stop()
        (folder / "restart.log").write_text(broker.log)
    finally:
        broker.kill()
    return broker.log


if __name__ == "__main__":
    for wanted in sys.argv[1:]:
        for state in State:
            print(rich(wanted, state).folder, flush=True)
