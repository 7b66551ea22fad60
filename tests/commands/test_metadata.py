"""`kdump metadata`, through the command: a cluster's state out of its metadata log and snapshots."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kdump.commands.cli import cli
from kdump.commands.metadata import text
from tests.rows import rows_in
from tests.topics.building import ORDERS_ID, OTHER_ID, Log, cluster_directory, metadata_pairs, snapshot_file

ROOT = Path(__file__).resolve().parents[2]
CORPUS = ROOT / "fixtures" / "corpus"

KEYS = {
    "cluster": [
        "snapshot", "endOffset", "epoch", "timestamp", "metadataVersion", "metadataVersionName", "leader", "voters",
        "kraftVersion", "nextProducerId", "zkMigrationState", "heldBackRecords", "heldBackSince", "topics",
        "partitions", "brokers", "release", "newerRecords",
    ],
    "feature": ["name", "level"],
    "broker": [
        "brokerId", "brokerEpoch", "rack", "fenced", "inControlledShutdown", "isMigratingZkBroker", "incarnationId",
        "endpoints", "features", "logDirs", "cordonedLogDirs", "release",
    ],
    "controller": ["controllerId", "zkMigrationReady", "incarnationId", "endpoints", "features"],
    "topic": ["topic", "topicId", "partitions"],
    "partition": [
        "topic", "partition", "leader", "leaderEpoch", "partitionEpoch", "replicas", "isr", "eligibleLeaderReplicas",
        "lastKnownElr", "addingReplicas", "removingReplicas", "leaderRecoveryState", "directories",
        "minInsyncReplicas", "isUnderReplicated", "isUnderMinIsr", "nextLeader",
    ],
    "config": ["resourceType", "resource", "name", "value", "hiddenLength"],
    "quota": ["entity", "key", "value"],
    "scramCredential": ["user", "mechanism", "iterations", "saltBytes", "storedKeyBytes", "serverKeyBytes"],
    "delegationToken": [
        "tokenId", "owner", "requester", "renewers", "issueTimestamp", "maxTimestamp", "expirationTimestamp",
    ],
    "acl": ["id", "resourceType", "resource", "patternType", "principal", "host", "operation", "permission"],
}  # fmt: skip


def run(*arguments: object) -> Result:
    """The command in this process; its return value is the exit code, as in the real one."""
    result = CliRunner().invoke(cli, ["metadata", *map(str, arguments)], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result


def objects(*arguments: object) -> list[dict[str, Any]]:
    return rows_in(run(*arguments, "--format", "jsonl").stdout)


def of_type(kind: str, *arguments: object) -> list[dict[str, Any]]:
    return [row for row in objects(*arguments) if row["type"] == kind]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return cluster_directory(tmp_path)


def test_text(data: Path) -> None:
    result = run(data)
    assert result.return_value == 0
    assert result.stderr == ""
    assert result.stdout == (
        "state before offset 8, epoch 0, 2023-11-14T22:13:20.000Z\n"
        "from the beginning of the log, without a snapshot\n"
        "metadata.version 25 (4.0-IV3); 1 topic, 2 partitions, 3 brokers\n"
        "quorum leader unknown, voters unknown, kraft.version 0\n"
        "\n"
        "FEATURE           LEVEL\n"
        "metadata.version     25\n"
        "\n"
        "BROKER  BROKER EPOCH  STATE   RACK  ENDPOINTS  LOG DIRECTORIES  KAFKA\n"
        "1                 11  fenced  -     -          -                -\n"
        "2                 12  fenced  -     -          -                -\n"
        "3                 13  fenced  -     -          -                -\n"
        "\n"
        "TOPIC   ID                      PARTITIONS\n"
        "orders  AAECAwQFBgcICQoLDA0ODw           2\n"
        "\n"
        "TOPIC   PARTITION  LEADER  NEXT  LEADER EPOCH  PARTITION EPOCH  REPLICAS  ISR  ELR  REMARKS\n"
        "orders          0       1     2             4                0  1,2       2    -    under-replicated\n"
        "orders          1       1     2             4                0  2,3       2,3  -\n"
        "\n"
        "CONFIGURATION OF  NAME    SETTING       VALUE\n"
        "TOPIC             orders  retention.ms  1000\n"
    )


def test_json_lines(data: Path) -> None:
    log = Log(data / "__cluster_metadata-0", base_offset=8)
    endpoint = {"name": "PLAINTEXT", "host": "h", "port": 9092, "securityProtocol": 0}
    level = {"name": "metadata.version", "minSupportedVersion": 7, "maxSupportedVersion": 30}
    log.add(
        *metadata_pairs(
            ("RegisterBroker", {"brokerId": 4, "rack": "r", "endPoints": [endpoint], "logDirs": [OTHER_ID],
                                "cordonedLogDirs": [OTHER_ID], "features": [level]}),
            ("RegisterController", {"controllerId": 9, "endPoints": [endpoint]}),
            ("ClientQuota", {"entity": [{"entityType": "user", "entityName": None}], "key": "k", "value": 1.5}),
            ("UserScramCredential", {"name": "u", "mechanism": 2, "salt": b"12", "storedKey": b"123", "iterations": 9}),
            ("DelegationToken", {"tokenId": "x", "owner": "User:a"}),
            ("AccessControlEntry", {"id": OTHER_ID, "resourceType": 3, "patternType": 4, "permissionType": 2,
                                    "operation": 9, "principal": "User:a", "resourceName": "g"}),
            ("BeginTransaction", {}),
            ("NoOp", {}),
        )
    ).write()  # fmt: skip
    found = objects(data)
    for row in found:
        assert list(row) == ["type", *KEYS[row["type"]]]
    assert {row["type"] for row in found} == set(KEYS)
    by_type = {row["type"]: row for row in found}
    cluster = by_type["cluster"]
    assert (cluster["endOffset"], cluster["metadataVersion"], cluster["metadataVersionName"]) == (16, 25, "4.0-IV3")
    assert (cluster["topics"], cluster["partitions"], cluster["brokers"]) == (1, 2, 4)
    assert (cluster["heldBackSince"], cluster["heldBackRecords"]) == (14, 1)
    broker = by_type["broker"]
    assert (broker["brokerId"], broker["rack"], broker["fenced"]) == (4, "r", True)
    assert broker["endpoints"] == [{"name": "PLAINTEXT", "host": "h", "port": 9092, "securityProtocol": "PLAINTEXT"}]
    assert broker["logDirs"] == broker["cordonedLogDirs"] == ["EBESExQVFhcYGRobHB0eHw"]
    assert (broker["release"], cluster["release"]) == ("4.3", "4.3")
    assert "written by Kafka 4.3\n" in run(data).stdout
    assert "EBESExQVFhcYGRobHB0eHw (cordoned)" in run(data).stdout
    assert (by_type["partition"]["replicas"], by_type["partition"]["isr"]) == ([2, 3], [2, 3])
    assert by_type["config"]["value"] == "1000"
    assert by_type["quota"]["entity"] == [{"type": "user", "name": None}]
    assert (by_type["scramCredential"]["mechanism"], by_type["scramCredential"]["saltBytes"]) == ("SCRAM-SHA-512", 2)
    acl = by_type["acl"]
    assert (acl["resourceType"], acl["patternType"], acl["permission"]) == ("GROUP", "PREFIXED", "DENY")
    assert acl["operation"] == "CLUSTER_ACTION"
    assert "a metadata transaction is open since offset 14: 1 record will count when it ends" in run(data).stdout


def test_nothing_secret_is_printed(data: Path) -> None:
    config = {"resourceType": 4, "resourceName": "1", "value": "hush-hush"}
    Log(data / "__cluster_metadata-0", base_offset=8).add(
        *metadata_pairs(
            ("Config", config | {"name": "ssl.keystore.password"}),
            ("Config", config | {"name": "listener.name.x.plain.sasl.jaas.config"}),
            ("UserScramCredential", {"name": "u", "salt": b"hush-hush", "storedKey": b"hush-hush"}),
        )
    ).write()
    for form in ("text", "jsonl"):
        shown = run(data, "--format", form).stdout
        assert "hush" not in shown
        assert "aHVzaC" not in shown
    assert [row["hiddenLength"] for row in of_type("config", data) if row["value"] is None] == [9, 9]


def test_the_places_that_it_can_be_in(data: Path) -> None:
    folder = data / "__cluster_metadata-0"
    assert run(folder).stdout == run(data).stdout
    path = snapshot_file(folder, 8, 0, metadata_pairs(("Topic", {"name": "snapped", "topicId": ORDERS_ID})))
    assert [row["topic"] for row in of_type("topic", path)] == ["snapped"]
    assert [row["topic"] for row in of_type("topic", data)] == ["snapped"]
    copied = path.rename(data / path.name)
    assert [row["topic"] for row in of_type("topic", copied)] == ["snapped"]


def test_the_state_at_an_offset(data: Path) -> None:
    assert of_type("topic", data, "--at", 3) == []
    assert [row["partitions"] for row in of_type("topic", data, "--at", 5)] == [1]
    assert [row["partitions"] for row in of_type("topic", data, "--at", 6)] == [2]
    with pytest.raises(Exception, match="there is no offset 8, the log ends before 8"):
        run(data, "--at", 8)


def test_only_some_topics(data: Path) -> None:
    Log(data / "__cluster_metadata-0", base_offset=8).add(
        *metadata_pairs(("Topic", {"name": "clicks", "topicId": OTHER_ID}))
    ).write()
    rows = objects(data, "--topic", "cl*")
    assert [row["type"] for row in rows] == ["cluster", "topic"]
    assert [row["type"] for row in objects(data, "--topic", "ord*")] == [
        "cluster", "topic", "partition", "partition", "config",
    ]  # fmt: skip
    with pytest.raises(Exception, match=r"no topic matches x\*"):
        run(data, "--topic", "x*")


def test_damage_is_told_and_the_rest_stays(data: Path) -> None:
    log = Log(data / "__cluster_metadata-0", base_offset=8)
    log.add((None, b"\x01\x02\x00\x63")).add(*metadata_pairs(("Topic", {"name": "later", "topicId": OTHER_ID}))).write()
    result = run(data)
    assert result.return_value == 1
    path = data / "__cluster_metadata-0" / f"{8:020d}.log"
    assert result.stderr == (
        f"kdump: {path}: byte 0: offset 8: Error reading byte array of 98 byte(s): only 0 byte(s) available"
        " (field name, byte 4)\n"
    )
    assert "later" in result.stdout


def test_what_is_newer_is_noted_and_the_rest_stays(data: Path) -> None:
    log = Log(data / "__cluster_metadata-0", base_offset=8)
    log.add((None, b"\x01\x63\x00")).add((None, b"\x01\x02\x07\x63"))
    log.add(*metadata_pairs(("Topic", {"name": "later", "topicId": OTHER_ID}))).write()
    result = run(data)
    assert result.return_value == 0
    path = data / "__cluster_metadata-0" / f"{8:020d}.log"
    assert result.stderr == (
        f"kdump: note: {path}: byte 0: offset 8: Unknown metadata id 99 in __cluster_metadata:"
        " newer than this kdump, skipped\n"
    )
    assert "later" in result.stdout
    assert "2 records newer than this kdump, skipped" in result.stdout


def test_what_there_is_nothing_of(tmp_path: Path) -> None:
    Log(tmp_path / "orders-0").add((b"k", b"v")).write()
    for path in (tmp_path, tmp_path / "orders-0"):
        with pytest.raises(Exception, match="__cluster_metadata"):
            run(path)
    with pytest.raises(Exception, match=r"expected a \.checkpoint file or a directory"):
        run(tmp_path / "orders-0" / f"{0:020d}.log")


def test_kafkas_own_log_of_random_records() -> None:
    """None of its records is undecodable but the broken ones; most do not fit each other, which is told."""
    result = run(CORPUS / "f-cluster-metadata")
    assert result.return_value == 1
    assert result.stdout.startswith("state before offset 212, epoch 5, ")
    assert "Unknown" not in result.stderr
    before = run(CORPUS / "f-cluster-metadata", "--at", 210).stderr
    assert "offset 208: Could not deserialize metadata record with frame version 0." in before
    assert "offset 209: Error while reading version (byte 2)" in before
    assert "offset 210: " not in before


def test_names_do_not_drive_the_terminal(tmp_path: Path) -> None:
    Log(tmp_path / "__cluster_metadata-0").add(
        *metadata_pairs(("Topic", {"name": "\x1b[2J", "topicId": ORDERS_ID}))
    ).write()
    for form in ("text", "jsonl"):
        assert "\x1b" not in run(tmp_path, "--format", form).stdout


def test_many_objects_are_not_all_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = str(cluster_directory(tmp_path))
    every = run(data).stdout.splitlines()
    monkeypatch.setattr(text, "MAX_ROWS", 1)
    monkeypatch.setattr(text, "MIN_ROWS", 1)
    short = run(data).stdout.splitlines()
    assert len(short) < len(every)
    counts = {kind: len(of_type(kind, data)) for kind in ("broker", "partition")}
    assert f"{counts['broker'] - 1} more, {counts['broker']} in all: -v lists them." in short
    assert f"{counts['partition'] - 1} more, {counts['partition']} in all: -v lists them." in short
    assert run("-v", data).stdout.splitlines() == every
    monkeypatch.undo()
    heading = ("TOPIC", "LEADER", "REMARKS")
    well, leaderless, behind = ("a", "1", ""), ("b", "none", ""), ("c", "1", "under-replicated")
    assert text._some(heading, [well, well, leaderless, behind], 4) == [leaderless, behind]
