"""A server.properties that is given for its log.dirs: its settings count where they decide something."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands.running import Run, invoked
from tests.rows import rows_in
from tests.topics.building import NOW, Log, commit_pair

MINUTE = 60_000
PAIR = (b"k", b"v")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A log directory: producer 7 has a transaction open since NOW, and a group has committed then."""
    folder = tmp_path / "data"
    folder.mkdir()
    Log(folder / "orders-0").add(PAIR, producer=(7, 5)).write()
    Log(folder / "__consumer_offsets-0").add(commit_pair("idle", "orders", 0, 1)).write()
    return folder


def properties(data: Path, **settings: object) -> Path:
    path = data.parent / "server.properties"
    lines = [f"{name.replace('_', '.')}={value}\n" for name, value in settings.items()]
    path.write_text(f"log.dirs={data}\n{''.join(lines)}")
    return path


def hanging(config: Path, *options: object, late: int) -> bool:
    rows = rows_in(invoked("txns", "--config", config, *options, "--now", NOW + late, "--format", "jsonl").stdout)
    [found] = [row["isHanging"] for row in rows if row["type"] == "openTransaction"]
    return bool(found)


def test_txns_goes_by_the_longest_timeout_of_the_file(data: Path) -> None:
    config = properties(data, transaction_max_timeout_ms=MINUTE)
    assert hanging(config, late=7 * MINUTE)
    assert not hanging(properties(data), late=7 * MINUTE)
    config = properties(data, transaction_max_timeout_ms=MINUTE)
    assert not hanging(config, "--max-timeout-ms", 900_000, late=7 * MINUTE), "what is given outright counts"


@pytest.mark.parametrize("command", ["verify", "doctor"])
def test_the_longest_timeout_of_the_file_counts(command: str, data: Path) -> None:
    def rows(config: Path) -> str:
        return str(invoked(command, "--config", config, "--now", NOW + 7 * MINUTE, "--format", "jsonl").stdout)

    assert "KD-TXN-HANGING" in rows(properties(data, transaction_max_timeout_ms=MINUTE))
    assert "KD-TXN-HANGING" not in rows(properties(data))


def test_verify_goes_by_the_retention_of_the_file(data: Path) -> None:
    def held(config: Path) -> str:
        return str(invoked("verify", "--config", config, "--now", NOW, "-v", "--select", "KD-TIME-HELD").stdout)

    Log(data / "late-0").add(PAIR, at=NOW + 400 * 24 * 60 * MINUTE).write()
    Log(data / "late-0", base_offset=1).add(PAIR).write()
    assert "retention.ms=604800000 keeps" in held(properties(data))
    assert "retention.ms=3600000 keeps" in held(properties(data, log_retention_hours=1))
    assert held(properties(data, log_retention_ms=-1)).count("keeps") == 0


def test_groups_goes_by_the_offsets_retention_of_the_file(data: Path) -> None:
    def is_expired(config: Path, *options: object) -> bool:
        done = invoked("groups", "--config", config, *options, "--now", NOW + 5 * MINUTE, "--format", "jsonl")
        [found] = [row["isExpired"] for row in rows_in(done.stdout) if row["type"] == "commit"]
        return bool(found)

    assert is_expired(properties(data, offsets_retention_minutes=1))
    assert not is_expired(properties(data))
    assert not is_expired(properties(data, offsets_retention_minutes=1), "--retention-ms", 10 * MINUTE)


def test_stats_draws_the_outlook_of_the_files_retention(data: Path) -> None:
    def outlook(config: Path) -> str:
        page = data.parent / "page.html"
        invoked("stats", "--config", config, "--report", page, "--now", NOW)
        return page.read_text(encoding="utf-8").partition("Outlook on retention of ")[2].partition("<")[0]

    assert outlook(properties(data, log_retention_hours=5)) == "5 h"
    assert outlook(properties(data)) == "7 d"


@pytest.mark.parametrize("command", ["ls", "txns", "groups", "stats", "verify", "replicas"])
def test_names_that_kafka_has_not_are_noted_once(command: str, data: Path) -> None:
    config = properties(data, num_partitons=3, log_segment_bytes=20_000_000)
    done = invoked(command, "--config", config)
    note = "num.partitons is not known to this kdump (newest: Kafka 4.4): not used. Did you mean 'num.partitions'?"
    assert done.stderr.count(note) == 1
    assert done.stderr.count("server.properties: not used here: log.segment.bytes\n") == 1


VALUES = {
    "txns": "transaction_max_timeout_ms",
    "groups": "offsets_retention_minutes",
    "replicas": "log_segment_bytes",
}


@pytest.mark.parametrize("command", VALUES)
def test_a_value_that_kafka_would_not_take_is_refused(command: str, run: Run, data: Path) -> None:
    assert run(command, "--config", properties(data, **{VALUES[command]: "soon"})) == 2
    assert f"{VALUES[command].replace('_', '.')} is 'soon': expected a number" in run.err
