"""A tiered topic (KIP-405): what is before the first local segment is in remote storage, and nobody says it is gone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kdump.formats import names
from kdump.formats.uuids import format_uuid
from tests.commands.logs import EPOCH, batch, write_segment
from tests.commands.running import Run
from tests.topics.building import ORDERS_ID, Log, metadata_pairs


@pytest.fixture
def run(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Run:
    return Run(capfdbinary, monkeypatch)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A broker's log directory: orders-0 starts at offset 2 in remote storage and at 20 on the disk."""
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / names.META_PROPERTIES).write_text("version=1\nnode.id=1\ncluster.id=made-up\n")
    partition = {"topicId": ORDERS_ID, "partitionId": 0, "replicas": [1], "isr": [1], "leader": 1, "leaderEpoch": 0}
    settings = {"remote.storage.enable": "true", "local.retention.ms": "1000", "retention.ms": "-1"}
    Log(folder / names.CLUSTER_METADATA_DIR).add(
        *metadata_pairs(
            ("RegisterBroker", {"brokerId": 1, "brokerEpoch": 11, "rack": None}),
            ("FeatureLevel", {"name": "metadata.version", "featureLevel": 25}),
            ("Topic", {"name": "orders", "topicId": ORDERS_ID}),
            ("Partition", partition | {"partitionEpoch": 0}),
            *(
                ("Config", {"resourceType": 2, "resourceName": "orders", "name": name, "value": value})
                for name, value in settings.items()
            ),
        )
    ).write()
    write_segment(folder / "orders-0", 20, [batch(20, 5), batch(25, 5)])
    (folder / "orders-0" / names.PARTITION_METADATA).write_text(f"version: 0\ntopic_id: {format_uuid(ORDERS_ID)}")
    (folder / "orders-0" / names.LEADER_EPOCH_CHECKPOINT).write_text("0\n2\n3 0\n4 11\n")
    (folder / names.LOG_START_CHECKPOINT).write_text("0\n1\norders 0 2\n")
    return folder


def test_an_offset_that_is_not_on_this_disk(run: Run, data: Path) -> None:
    assert run("lookup", data / "orders-0", "--offset", 7) == 1
    assert run.out == "offset 7 is in remote storage, not on this disk: log start offset 2, local log start offset 20\n"
    assert run("lookup", data / "orders-0", "--offset", 1) == 1
    assert run.out == "offset 1 does not exist: log start offset 2 (OFFSET_OUT_OF_RANGE)\n"
    assert run("lookup", data / "orders-0", "--offset", 7, "--format=jsonl") == 1
    (row,) = (row for row in run.rows if row["type"] == "answer")
    assert (row["logStartOffset"], row["remoteLogStartOffset"]) == (20, 2)


def test_a_time_may_be_in_remote_storage(run: Run, data: Path) -> None:
    assert run("lookup", data / "orders-0", "--timestamp", "earliest") == 0
    assert run.out == "offset 2, the log start offset, leader epoch 3, in remote storage\n"
    requests = data.parent / "requests"
    requests.write_text('{"timestamp": -4}\n')
    assert run("lookup", data / "orders-0", "--batch", requests) == 0
    assert json.loads(run.out)["result"] == {"offset": 20, "timestamp": -1, "leaderEpoch": 4}
    assert run("lookup", data / "orders-0", "--timestamp", EPOCH) == 0
    assert run.lines[1] == "On this disk only: offsets 2\u201319 are in remote storage, where a broker looks first"


def test_of_another_topic_they_are_gone(run: Run, data: Path) -> None:
    """Its checkpoint is older than what retention deleted since."""
    write_segment(data / "plain-0", 20, [batch(20, 5)])
    (data / names.LOG_START_CHECKPOINT).write_text("0\n2\norders 0 2\nplain 0 2\n")
    assert run("lookup", data / "plain-0", "--offset", 7) == 1
    assert run.out == "offset 7 does not exist: log start offset 20 (OFFSET_OUT_OF_RANGE)\n"
    assert run("lookup", data / "plain-0", "--timestamp", "earliest") == 0
    assert run.out == "offset 20, the log start offset\n"


def test_ls_says_what_is_elsewhere(run: Run, data: Path) -> None:
    assert run("ls", data) == 0
    assert "Tiered: of 1 partition what is before LOG START is in remote storage." in run.lines
    assert run("ls", data / "orders-0") == 0
    assert "  in remote storage: offsets 2\u201319" in run.lines
    assert run("ls", data, "--format=jsonl") == 0
    starts = {row["topic"]: row["remoteLogStartOffset"] for row in run.rows if row["type"] == "partition"}
    assert starts == {"orders": 2, "__cluster_metadata": None}


def test_verify_and_retain_go_by_the_same_retention(run: Run, data: Path) -> None:
    verify = ("verify", data, "--format=jsonl", "--min-severity=note", "--select=KD-TIME-HELD", f"--now={EPOCH}")
    assert run(*verify) == 0
    (held,) = (row["message"] for row in run.rows if row["type"] == "finding")
    assert "local.retention.ms=1000 keeps the segment until" in held
    assert run("retain", data, f"--now={EPOCH}", "--format=jsonl") in (0, 1)
    (row,) = (json.loads(line) for line in run.lines if '"type":"partition"' in line)
    assert (row["isTiered"], row["config"]["local.retention.ms"]) == (True, 1000)
    assert run(*verify, "--retention-ms=5000") == 0
    Log(data / names.CLUSTER_METADATA_DIR, base_offset=7).add(
        *metadata_pairs(
            ("Config", {"resourceType": 2, "resourceName": "orders", "name": "cleanup.policy", "value": "compact"})
        )
    ).write()
    assert run(*verify) == 0
    assert [row for row in run.rows if row["type"] == "finding"] == []
