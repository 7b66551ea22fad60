"""Small directories of a real broker of each release: kdump reads there what the broker said before it stopped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kdump.findings.finding import Finding
from kdump.library.verifying import verify
from kdump.query.inventory import partition_info
from kdump.releases import KafkaRelease
from kdump.storage.directory import LogDirectory
from kdump.storage.partition import PartitionLog
from kdump.topics.clusters import Clusters
from tests.commands.running import Run
from tests.unpacking import unpack

BROKERS = Path(__file__).resolve().parent.parent.parent / "fixtures" / "brokers"
SAID = [json.loads(line) for line in (BROKERS / "releases.jsonl").read_text().splitlines()]
STOPPED = 1_795_360_000_000
"""A moment (ms) after the brokers stopped."""


@pytest.fixture(params=SAID, ids=lambda said: said["release"])
def said(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """What a broker said; its two log directories are unpacked in `folders`."""
    unpack(BROKERS / f"release-{request.param['release']}.tar.xz", tmp_path)
    return {**request.param, "folders": [tmp_path / "disk1", tmp_path / "disk2"]}


@pytest.fixture
def ask(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Any:
    def ask(kind: str, *arguments: object) -> list[dict[str, Any]]:
        run = Run(capfdbinary, monkeypatch)
        assert run(*arguments, "--format", "jsonl") == 0, run.err
        return [row for row in map(json.loads, run.out.splitlines()) if row["type"] == kind]

    return ask


def test_the_release_is_known(said: dict[str, Any]) -> None:
    clusters = Clusters([str(folder) for folder in said["folders"]])
    for folder in said["folders"]:  # the metadata log is in one of them
        assert clusters.of(LogDirectory(str(folder))).kafka.minor == KafkaRelease.parse(said["release"]).minor


def test_verify_has_no_false_word(said: dict[str, Any]) -> None:
    def is_false(finding: Finding) -> bool:
        # Two transactions were left open on purpose.
        return finding.severity != "note" and finding.code != "KD-TXN-HANGING"

    findings = verify(*said["folders"], deep=True, now=STOPPED)
    assert list(filter(is_false, findings)) == []


def test_logs_end_where_the_broker_said(said: dict[str, Any]) -> None:
    paths = {name: next(path for path in _places(said, name) if path.is_dir()) for name in said["ends"]}
    found = {name: partition_info(PartitionLog(str(path))).end_offset for name, path in paths.items()}
    assert found == {name: end for name, (_, end) in said["ends"].items()}


def _places(said: dict[str, Any], name: str) -> list[Path]:
    return [folder / name for folder in said["folders"]]


def test_groups_have_the_commits_that_the_coordinator_said(said: dict[str, Any], ask: Any) -> None:
    found: dict[str, dict[str, int]] = {name: {} for name in said["commits"]}
    for row in ask("commit", "groups", *said["folders"]):
        if row["pendingProducerId"] is None and row["group"] in found:
            found[row["group"]][f"{row['topic']}-{row['partition']}"] = row["offset"]
    assert found == said["commits"]


def test_transactional_ids_and_topics_are_those_of_the_cluster(said: dict[str, Any], ask: Any) -> None:
    rows = ask("transactionalId", "txns", "--all", "--max-timeout-ms", 2147483647, *said["folders"])
    assert {row["transactionalId"]: row["state"] for row in rows} == said["transactions"]
    assert sorted(row["topic"] for row in ask("topic", "metadata", said["folders"][0])) == said["topics"]
