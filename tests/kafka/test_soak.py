"""Every reading command in a loop beside a broker under load: each ends well, or with what has been planted."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from tests.kafka.broker import Broker
from tests.kafka.command import Ran, jsonl
from tests.kafka.directories import MADE, State, rich
from tests.kafka.jars import RELEASES
from tests.kafka.kit import Kit
from tests.kafka.planted import PLANTS, plant
from tests.kafka.tally import Column, Comparison, Tally

READING: Sequence[Sequence[str]] = (
    ("ls",),
    ("ls", "--segments", "--count"),
    ("stats",),
    ("txns", "--all", "--max-timeout-ms", "2147483647"),
    ("groups",),
    ("dump",),
    ("dump", "--batches-only"),
    ("lookup", "--timestamp", "latest"),
)

VERIFYING: Sequence[Sequence[str]] = (("verify",), ("verify", "--deep"))

PLANNING: Sequence[Sequence[str]] = (("repair",), ("repair", "--strategy", "salvage"), ("rebuild-index",), ("trim",))

_TOPICS = {
    "soak": {
        "partitions": 4,
        "configs": {"segment.ms": "1500", "retention.ms": "8000", "file.delete.delay.ms": "3000"},
    },
    "soak-compacted": {
        "partitions": 2,
        "configs": {"cleanup.policy": "compact", "segment.ms": "1000", "min.cleanable.dirty.ratio": "0.01"},
    },
    "soak-expired": {"partitions": 1, "configs": {"segment.ms": "1000", "retention.ms": "2000"}},
    "soak-txn": {"partitions": 2, "configs": {"segment.ms": "2000", "retention.ms": "10000"}},
}

Finding = tuple[str, str, int | None]


def _findings(done: Ran, log_dirs: Sequence[Path]) -> set[Finding]:
    """Errors and warnings: code, path below the log directory, offset."""
    return {
        (row["code"], _below(row["path"], log_dirs), row["firstOffset"])
        for row in done.of_type("finding")
        if row["severity"] != "info" and row["code"] != "KD-TXN-HANGING"
    }


def _below(path: str, log_dirs: Sequence[Path]) -> str:
    return next((str(Path(path).relative_to(one)) for one in log_dirs if Path(path).is_relative_to(one)), path)


@contextmanager
def _churn(kit: Kit, servers: str) -> Iterator[None]:
    """Topics come and go."""
    end = threading.Event()

    def come_and_go() -> None:
        for number in count():
            if end.wait(1):
                return
            topic = f"churn-{number}"
            kit.ask("admin", servers=servers, step="create", topic=topic, partitions=2)
            kit.ask("admin", servers=servers, step="produce", topic=topic, values=["a", "b", "c"])
            if number > 1:
                kit.ask("admin", servers=servers, step="delete", topic=f"churn-{number - 2}")

    thread = threading.Thread(target=come_and_go)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


def test_reading_beside_a_broker_under_load(
    release: str, tally: Tally, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    stopped = rich(release, State.STOPPED)
    offline = stopped.copy(tmp_path / "offline")
    damaged = plant(offline)
    expected = _findings(jsonl("verify", "--deep", *offline), offline)
    broker = Broker(release, tmp_path / "live", stopped.copy(tmp_path / "live"))
    try:
        broker.start()
        with Kit(release, MADE, tmp_path / "kit.log") as kit:
            for topic, settings in _TOPICS.items():
                kit.ask("admin", servers=broker.servers, step="create", topic=topic, **settings)
            assert plant(broker.log_dirs).keys() == damaged.keys()
            kit.ask("load", servers=broker.servers, prefix="soak")
            with _churn(kit, broker.servers):
                # The releases share the time; each has one round at least.
                shares = len(pytestconfig.getoption("--release") or RELEASES)
                end = time.monotonic() + pytestconfig.getoption("--seconds") / shares
                with tally.of(release, Column.VERIFY) as compare:
                    _check_plants(compare, expected)
                    _round(compare, broker, expected)
                    while time.monotonic() < end:
                        _round(compare, broker, expected)
    finally:
        broker.kill()


def _check_plants(compare: Comparison, expected: set[Finding]) -> None:
    """All ten kinds are found where nothing runs, and nothing else is."""
    found = {path.split("/")[0] for _, path, _ in expected}
    compare.same("partitions with findings, offline", sorted(found), sorted(name for name, _ in PLANTS))


def _round(compare: Comparison, broker: Broker, expected: set[Finding]) -> None:
    for command in VERIFYING:
        done = jsonl(*command, *broker.log_dirs)
        _check_exit(compare, command, done, (1,))
        found = _findings(done, broker.log_dirs)
        if "--deep" in command:
            compare.same(f"{' '.join(command)}: findings missed", sorted(map(str, expected - found)), [])
        compare.same(f"{' '.join(command)}: findings of none", sorted(map(str, found - expected)), [])
    for command in READING:
        done = jsonl(*command, *(broker.log_dirs if command[0] != "lookup" else broker.log_dirs[:1]))
        # A planted file that cannot be read is the end of a lookup.
        _check_exit(compare, command, done, (0, 1, 3) if command[0] == "lookup" else (0, 1))
    _check_exit(compare, ("metadata",), jsonl("metadata", broker.log_dirs[0]), (0,))
    for command in PLANNING:
        _check_exit(compare, command, jsonl(*command, *broker.log_dirs), (4,))


def _check_exit(compare: Comparison, command: Sequence[str], done: Ran, codes: tuple[int, ...]) -> None:
    """A complaint is about what was planted, or none."""
    name = " ".join(command)
    compare.holds(f"{name}: exit code {done.exit_code}, not of {codes}", done.exit_code in codes)
    planted = [f"/{partition}" for partition, _ in PLANTS]
    lines = [line for line in done.err.splitlines() if "note:" not in line.lower()]
    other = [line for line in lines if not any(part in line for part in planted)]
    compare.same(f"{name}: complaints of none", other[:3] if 4 not in codes else [], [])
