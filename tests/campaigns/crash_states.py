"""What a power cut may leave of every changing command: a second run finishes, and nothing is lost.

For each scenario the command runs once while its file system calls are recorded (`recording`). `disk_model` lists the
states that a power cut may leave. In each of them that was not met before the same command runs again: it must end as
well as the undisturbed one did, with the same files, and `kdump undo` must bring back what was there in the beginning.

`./dev campaign crash-states [--seed N] [--most N] [--seconds N] [--resume FILE] [NAME...]`
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

from click.testing import CliRunner

from kdump.commands.cli import cli
from kdump.formats import names
from tests.campaigns.disk_model import Disk, State, crash_states, put
from tests.campaigns.recording import recording
from tests.change.kept import is_kept
from tests.repair.damaged import DAMAGES, build

PARTITION = "orders-0"
SALVAGE = ("repair", "--strategy", "salvage", "--only-copy", "--apply")
SAFE = ("repair", "--apply")
COMMANDS: dict[str, tuple[str, ...]] = {
    "salvage": SALVAGE,
    "repair": SAFE,
    "trim": ("trim", "--apply"),
    "rebuild-index": ("rebuild-index", "--apply"),
    "retain": ("retain", "--apply", "--retention-bytes", "0", "--cleanup-policy", "delete"),
    "compact": ("compact", "--apply", "--min-cleanable-ratio", "0"),
    "undo": ("undo", "--apply"),
}
MEMORY = "/dev/shm"


@dataclass(frozen=True, slots=True)
class Scenario:
    command: str
    damage: str

    @property
    def name(self) -> str:
        return f"{self.command}: {self.damage}"


SCENARIOS = [
    *(Scenario("salvage", damage) for damage in DAMAGES),
    *(Scenario("repair", damage) for damage in DAMAGES),
    Scenario("trim", "last segment, zero tail"),
    Scenario("trim", "index with a zero tail"),
    Scenario("trim", "time index with a zero tail"),
    Scenario("rebuild-index", "index missing"),
    Scenario("rebuild-index", "all indexes missing"),
    Scenario("rebuild-index", "time index damaged"),
    Scenario("retain", "none"),
    Scenario("compact", "none"),
    Scenario("undo", "damage in all segments"),
    Scenario("undo", "middle segment, payload"),
    Scenario("undo", "damage and leftovers"),
]


@dataclass
class Tally:
    """What a scenario gave: states in all, different ones, and what was wrong."""

    events: int = 0
    states: int = 0
    different: int = 0
    wrong: list[str] = field(default_factory=list)


def run(command: str, log_dir: Path, change: str = "") -> tuple[int, str]:
    """A command on the partition: exit code and output."""
    first, *rest = COMMANDS[command]
    chosen = ["--change", change] if change else []
    with mock.patch("kdump.disk.locks.GROWTH_WATCH_SECONDS", 0):  # nobody else writes
        result = CliRunner().invoke(cli, [first, str(log_dir / PARTITION), *rest, *chosen], standalone_mode=False)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        return 3, f"{result.output}{result.exception!r}"
    return (result.return_value or 0) if result.exception is None else result.exit_code, result.output


def change_ids(log_dir: Path) -> list[str]:
    """The ids of the changes that are kept and can be undone, the newest first."""
    result = CliRunner().invoke(cli, ["undo", str(log_dir / PARTITION), "--format", "jsonl"], standalone_mode=False)
    rows = [json.loads(line) for line in result.output.splitlines()]
    return [row["id"] for row in reversed(rows) if row.get("type") == "change" and row["state"] == "can be undone"]


def files(log_dir: Path) -> dict[str, bytes]:
    """The files of the log directory and of its partition, but for those of changes."""
    found = [path for path in log_dir.rglob("*") if path.is_file() and not is_kept(path)]
    return {str(path.relative_to(log_dir)): path.read_bytes() for path in found if path.name != names.LOCK}


def prepare(scenario: Scenario, log_dir: Path) -> None:
    """The log directory before the command runs."""
    build(log_dir)
    if scenario.damage != "none":
        DAMAGES[scenario.damage](log_dir / PARTITION)
    for checkpoint in (names.RECOVERY_POINT_CHECKPOINT, names.REPLICATION_CHECKPOINT):
        (log_dir / checkpoint).write_text("0\n1\norders 0 59\n")
    (log_dir / names.CLEANER_CHECKPOINT).write_text("0\n0\n")
    (log_dir / names.LOCK).touch()


class Campaign:
    """One scenario: what its command did, and what it does in every state that a power cut may leave."""

    def __init__(self, scenario: Scenario, scratch: Path) -> None:
        self.scenario = scenario
        self.scratch = scratch
        log_dir = scratch / "logs"
        prepare(scenario, log_dir)
        self.original = files(log_dir)
        self.change = ""
        if scenario.command == "undo":
            run("salvage", log_dir)
            (self.change,) = change_ids(log_dir)
        self.root = os.stat(log_dir).st_ino
        self.before = Disk.of(log_dir)
        with recording(log_dir) as events:
            self.code, self.output = run(scenario.command, log_dir, self.change)
        self.events = list(events)
        if not self.events:
            raise AssertionError(f"{scenario.name}: nothing was changed: {self.output}")
        self.expected = files(log_dir)
        recorded = self.before.after(self.events).state(self.root)
        if recorded != Disk.of(log_dir).state(self.root):
            raise AssertionError(f"{scenario.name}: the recorded events do not lead to what is there")

    def states(self, most: int, numbers: random.Random) -> Iterator[tuple[int, State]]:
        """The states, with the number of events before the power cut."""
        return crash_states(self.before, self.events, self.root, most, numbers)

    def check(self, state: State) -> str:
        """What is wrong once the command has run again in this state; "" if nothing is."""
        log_dir = self.scratch / "crashed"
        shutil.rmtree(log_dir, ignore_errors=True)
        log_dir.mkdir()
        put(state, log_dir)
        code, output = run(self.scenario.command, log_dir, self.change)
        if self.change:
            return self._check_undone(log_dir, code, output)
        if code != self.code:
            return f"exit code {code} instead of {self.code}: {output.strip()[-300:]}"
        if files(log_dir) != self.expected:
            return f"other files than an undisturbed run leaves: {_differences(self.expected, files(log_dir))}"
        for change in change_ids(log_dir):
            run("undo", log_dir, change)
        if files(log_dir) != self.original:
            return f"undo does not bring back what was there: {_differences(self.original, files(log_dir))}"
        return ""

    def _check_undone(self, log_dir: Path, code: int, output: str) -> str:
        """A change that was undone before the power cut cannot be undone again: that is no error here."""
        if files(log_dir) == self.original:
            return ""
        return f"exit code {code}, not undone: {output.strip()[-300:]} {_differences(self.original, files(log_dir))}"


def _differences(expected: dict[str, bytes], found: dict[str, bytes]) -> str:
    names_of = sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))
    return ", ".join(names_of[:5])


def campaign(scenario: Scenario, scratch: Path, most: int, seed: int, stop: Callable[[], bool]) -> Tally:
    """All states of one scenario, each different one once."""
    subject = Campaign(scenario, scratch)
    tally = Tally(len(subject.events))
    seen: set[bytes] = set()
    for at, state in subject.states(most, random.Random(seed)):
        tally.states += 1
        key = hashlib.blake2b(repr(sorted(state, key=lambda each: each[0])).encode(), digest_size=16).digest()
        if key in seen:
            continue
        seen.add(key)
        tally.different += 1
        if wrong := subject.check(state):
            tally.wrong.append(f"{scenario.name}, power cut after event {at} of {tally.events}: {wrong}")
        if stop():
            break
    return tally


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--most", type=int, default=2000, help="combinations at one point; more are drawn from")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long")
    parser.add_argument("--resume", type=Path, help="keep the figures of finished scenarios here, and go on from them")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only scenarios whose names begin so")
    asked = parser.parse_args(arguments)
    end = time.monotonic() + asked.seconds
    done = json.loads(asked.resume.read_text()) if asked.resume and asked.resume.exists() else {}
    for scenario in SCENARIOS:
        if scenario.name in done or (asked.names and not scenario.name.startswith(tuple(asked.names))):
            continue
        if time.monotonic() > end:
            break
        with tempfile.TemporaryDirectory(dir=MEMORY if os.access(MEMORY, os.W_OK) else None) as scratch:
            tally = campaign(scenario, Path(scratch), asked.most, asked.seed, lambda: time.monotonic() > end)
        done[scenario.name] = {"states": tally.states, "different": tally.different, "wrong": tally.wrong}
        print(f"{scenario.name}: {tally.events} events, {tally.states} states, {tally.different} different,"
              f" {len(tally.wrong)} wrong", flush=True)  # fmt: skip
        for line in tally.wrong[:5]:
            print(f"  {line}", flush=True)
        if asked.resume:
            asked.resume.write_text(json.dumps(done))
    states, different, wrong = (
        sum(len(each[key]) if key == "wrong" else each[key] for each in done.values())
        for key in ("states", "different", "wrong")
    )
    print(f"{len(done)} scenarios: {states:,} states, {different:,} different, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
