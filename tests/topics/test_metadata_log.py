"""The state of a cluster out of its metadata log and the snapshots of it."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from kdump.errors import KdumpError, Problem
from kdump.formats import control
from kdump.formats.batch import CONTROL, KRAFT_VOTERS, LEADER_CHANGE
from kdump.formats.schemas import cluster_metadata
from kdump.storage.partition import PartitionLog
from kdump.topics.cluster_image import ClusterImage
from kdump.topics.metadata_log import MetadataState, state_of_directory, state_of_snapshot
from tests.topics.building import NOW, ORDERS_ID, OTHER_ID, Log, metadata_pairs, snapshot_file, unexpected

TOPIC = ("Topic", {"name": "orders", "topicId": ORDERS_ID})
PARTITION = (
    "Partition",
    {"topicId": ORDERS_ID, "partitionId": 0, "replicas": [1, 2], "isr": [1, 2], "leader": 1, "leaderEpoch": 4,
     "partitionEpoch": 9},
)  # fmt: skip


def broker(number: int, epoch: int = 7, **fields: Any) -> tuple[str, dict[str, Any]]:
    return "RegisterBroker", {"brokerId": number, "brokerEpoch": epoch} | fields


def change(**fields: Any) -> tuple[str, dict[str, Any]]:
    return "PartitionChange", {"topicId": ORDERS_ID, "partitionId": 0} | fields


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "__cluster_metadata-0")


def state(log: Log, problems: list[Problem] | None = None, at: int | None = None) -> MetadataState:
    """The state of a log; no problem is expected unless there is a list for it."""
    met: list[Problem] = [] if problems is None else problems
    found = state_of_directory(PartitionLog(str(log.write().folder)), met.append, at)
    if problems is None:
        assert met == []
    return found


def image(log: Log, *records: tuple[str, dict[str, Any]]) -> ClusterImage:
    return state(log.add(*metadata_pairs(*records))).image


def texts(problems: list[Problem]) -> list[str]:
    return [problem.text for problem in problems]


# --- what records do to the state ---


def test_a_topic_and_its_partition(log: Log) -> None:
    found = image(log, TOPIC, PARTITION)
    (topic,) = found.topics.values()
    assert (topic.name, topic.topic_id, list(topic.partitions)) == ("orders", ORDERS_ID, [0])
    assert topic.partitions[0]["replicas"] == [1, 2]


@pytest.mark.parametrize(
    ("fields", "changed"),
    [
        ({}, {"partitionEpoch": 10}),
        ({"isr": [2]}, {"isr": [2], "partitionEpoch": 10}),
        ({"isr": []}, {"isr": [], "partitionEpoch": 10}),
        ({"leader": 2}, {"leader": 2, "leaderEpoch": 5, "partitionEpoch": 10}),
        ({"leader": -1}, {"leader": -1, "leaderEpoch": 5, "partitionEpoch": 10}),
        ({"replicas": [3], "addingReplicas": [3]}, {"replicas": [3], "addingReplicas": [3], "partitionEpoch": 10}),
        ({"leaderRecoveryState": 1}, {"leaderRecoveryState": 1, "partitionEpoch": 10}),
        ({"eligibleLeaderReplicas": [2]}, {"eligibleLeaderReplicas": [2], "partitionEpoch": 10}),
        ({"directories": [OTHER_ID]}, {"directories": [OTHER_ID], "partitionEpoch": 10}),
    ],
)
def test_a_change_of_a_partition(log: Log, fields: dict[str, Any], changed: dict[str, Any]) -> None:
    before = image(log, TOPIC, PARTITION).topics[ORDERS_ID].partitions[0]
    after = image(log, change(**fields)).topics[ORDERS_ID].partitions[0]
    assert after == before | changed


def test_a_topic_goes_with_its_configuration(log: Log) -> None:
    config = ("Config", {"resourceType": 2, "resourceName": "orders", "name": "a", "value": "1"})
    other = ("Config", {"resourceType": 4, "resourceName": "orders", "name": "a", "value": "1"})
    found = image(log, TOPIC, PARTITION, config, other, ("RemoveTopic", {"topicId": ORDERS_ID}))
    assert found.topics == {}
    assert found.configs == {(4, "orders"): {"a": "1"}}


def test_a_configuration_without_a_value_is_dropped(log: Log) -> None:
    fields = {"resourceType": 2, "resourceName": "t", "name": "a"}
    assert image(log, ("Config", fields | {"value": "1"}), ("Config", fields | {"value": ""})).configs == {
        (2, "t"): {"a": ""}
    }
    assert image(log, ("Config", fields | {"value": None})).configs == {}


def test_brokers(log: Log) -> None:
    found = image(
        log,
        broker(1),
        broker(2),
        broker(3),
        ("UnfenceBroker", {"id": 1, "epoch": 7}),
        ("UnregisterBroker", {"brokerId": 2, "brokerEpoch": 7}),
        ("BrokerRegistrationChange", {"brokerId": 3, "brokerEpoch": 7, "fenced": -1, "inControlledShutdown": 1}),
    )
    assert {number: fields["fenced"] for number, fields in found.brokers.items()} == {1: False, 3: False}
    assert found.brokers[3]["inControlledShutdown"] is True
    assert image(log, ("FenceBroker", {"id": 1, "epoch": 7})).brokers[1]["fenced"] is True


def test_everything_else_that_is_kept(log: Log) -> None:
    quota = {"entity": [{"entityType": "user", "entityName": None}], "key": "producer_byte_rate"}
    found = image(
        log,
        ("FeatureLevel", {"name": "metadata.version", "featureLevel": 25}),
        ("FeatureLevel", {"name": "group.version", "featureLevel": 1}),
        ("FeatureLevel", {"name": "group.version", "featureLevel": 0}),
        ("ClientQuota", quota | {"value": 2.5}),
        ("ProducerIds", {"brokerId": 1, "nextProducerId": 5000}),
        ("AccessControlEntry", {"id": OTHER_ID, "principal": "User:a"}),
        ("UserScramCredential", {"name": "a", "mechanism": 1}),
        ("DelegationToken", {"tokenId": "x"}),
        ("RegisterController", {"controllerId": 9}),
        ("ZkMigrationState", {"zkMigrationState": 3}),
        ("NoOp", {}),
    )
    assert found.features == {"metadata.version": 25}
    assert found.quotas == {(("user", None),): {"producer_byte_rate": 2.5}}
    assert found.producer_ids is not None
    assert found.producer_ids["nextProducerId"] == 5000
    assert (list(found.acls), list(found.scram), list(found.tokens)) == ([OTHER_ID], [("a", 1)], ["x"])
    assert (list(found.controllers), found.zk_migration_state) == ([9], 3)
    found = image(
        log,
        ("ClientQuota", quota | {"remove": True}),
        ("RemoveAccessControlEntry", {"id": OTHER_ID}),
        ("RemoveUserScramCredential", {"name": "a", "mechanism": 1}),
        ("RemoveDelegationToken", {"tokenId": "x"}),
    )
    assert (found.quotas, found.acls, found.scram, found.tokens) == ({}, {}, {}, {})


@pytest.mark.parametrize("name", ["orders", ""])
def test_eligible_leader_replicas_are_cleared(log: Log, name: str) -> None:
    found = image(log, TOPIC, PARTITION, change(eligibleLeaderReplicas=[2]), ("ClearElr", {"topicName": name}))
    assert found.topics[ORDERS_ID].partitions[0]["eligibleLeaderReplicas"] == []


@pytest.mark.parametrize(
    ("record", "text"),
    [
        (("RemoveTopic", {"topicId": OTHER_ID}), "there is no topic with the id EBESExQVFhcYGRobHB0eHw"),
        (("Partition", {"topicId": OTHER_ID}), "there is no topic with the id EBESExQVFhcYGRobHB0eHw"),
        (change(partitionId=5), "there is no partition 5 of topic orders"),
        (("FenceBroker", {"id": 1, "epoch": 6}), "broker 1 is in epoch 7, not in 6"),
        (("UnregisterBroker", {"brokerId": 4, "brokerEpoch": 7}), "there is no broker 4"),
        (("ClearElr", {"topicName": "x"}), "there is no topic x"),
        (("RemoveDelegationToken", {"tokenId": "x"}), "there is no delegation token x"),
        (("RemoveUserScramCredential", {"name": "u", "mechanism": 1}), "there is no SCRAM credential of u"),
        (("EndTransaction", {}), "EndTransactionRecord without a transaction"),
    ],
)
def test_a_record_that_does_not_fit(log: Log, record: tuple[str, dict[str, Any]], text: str) -> None:
    """It is told, with its place, and what follows still counts."""
    log.add(*metadata_pairs(TOPIC, PARTITION, broker(1)))
    position = len(log.data)
    log.add(*metadata_pairs(record, ("FeatureLevel", {"name": "f", "featureLevel": 1})))
    problems: list[Problem] = []
    found = state(log, problems).image
    assert len(problems) == 1
    assert problems[0].position == position
    assert problems[0].text.startswith("offset 3: ")
    assert text in problems[0].text
    assert found.features == {"f": 1}


def test_every_record_type_has_a_place() -> None:
    """But for those that frame a transaction, none is taken for unknown."""
    homeless = []
    for number, schema in cluster_metadata.TOPIC.schemas.items():
        record = cluster_metadata.decode_value(cluster_metadata.encode_value(number, schema.last, {}))
        try:
            ClusterImage().apply(record)
        except KdumpError as error:
            homeless += [schema.name] if "has no place" in str(error) else []
    assert homeless == ["BeginTransactionRecord", "EndTransactionRecord", "AbortTransactionRecord"]


# --- transactions of the metadata ---


def test_a_transaction_counts_when_it_ends(log: Log) -> None:
    log.add(*metadata_pairs(TOPIC, ("BeginTransaction", {"name": "x"}), PARTITION))
    before = state(log)
    assert before.image.topics[ORDERS_ID].partitions == {}
    assert (before.held_back, before.held_back_since) == (1, 1)
    after = state(log.add(*metadata_pairs(("EndTransaction", {}))))
    assert list(after.image.topics[ORDERS_ID].partitions) == [0]
    assert (after.held_back, after.held_back_since) == (0, -1)


def test_an_aborted_transaction_never_counts(log: Log) -> None:
    abort = ("AbortTransaction", {"reason": "no"})
    found = image(log, ("BeginTransaction", {}), TOPIC, abort, ("FeatureLevel", {"name": "f", "featureLevel": 1}))
    assert (found.topics, found.features) == ({}, {"f": 1})


# --- the quorum ---


def test_leader_and_voters(log: Log) -> None:
    leader = {"leaderId": 2, "voters": [{"voterId": 1}, {"voterId": 2}]}
    pair = (struct.pack(">hh", 0, LEADER_CHANGE), control.encode_value(LEADER_CHANGE, 0, leader))
    log.add(pair, attributes=CONTROL).add(*metadata_pairs(TOPIC))
    found = state(log)
    assert (found.leader, [voter["voterId"] for voter in found.voters]) == (2, [1, 2])
    voters = {"voters": [{"voterId": 5, "voterDirectoryId": OTHER_ID, "endpoints": []}]}
    pair = (struct.pack(">hh", 0, KRAFT_VOTERS), control.encode_value(KRAFT_VOTERS, 0, voters))
    assert [voter["voterId"] for voter in state(log.add(pair, attributes=CONTROL)).voters] == [5]


# --- snapshots ---


def test_the_log_goes_on_behind_the_newest_snapshot(log: Log) -> None:
    log.add(*metadata_pairs(("Topic", {"name": "replaced", "topicId": OTHER_ID}), *[("NoOp", {})] * 4))
    log.add(*metadata_pairs(PARTITION))
    snapshot_file(log.folder, 3, 1, metadata_pairs())
    path = snapshot_file(log.folder, 5, 2, metadata_pairs(TOPIC))
    found = state(log)
    assert (found.snapshot, found.end_offset) == (str(path), 6)
    assert [topic.name for topic in found.image.topics.values()] == ["orders"]
    assert list(found.image.topics[ORDERS_ID].partitions) == [0]


def test_an_incomplete_snapshot_is_skipped(log: Log) -> None:
    log.add(*metadata_pairs(TOPIC, PARTITION, ("NoOp", {})))
    snapshot_file(log.folder, 1, 1, metadata_pairs(TOPIC))
    bad = snapshot_file(log.folder, 3, 1, metadata_pairs(), footer=False)
    problems: list[Problem] = []
    found = state(log, problems)
    assert texts(problems) == ["the snapshot has no footer record: it is not complete"]
    assert problems[0].path == str(bad)
    assert found.end_offset == 3
    assert list(found.image.topics[ORDERS_ID].partitions) == [0]


def test_every_truncation_of_a_snapshot_is_told(tmp_path: Path) -> None:
    path = snapshot_file(tmp_path, 9, 1, metadata_pairs(TOPIC, PARTITION))
    whole = path.read_bytes()
    good: list[Problem] = []
    assert state_of_snapshot(str(path), good.append) is not None
    assert good == []
    for size in range(0, len(whole), 7):
        path.write_bytes(whole[:size])
        problems: list[Problem] = []
        assert state_of_snapshot(str(path), problems.append) is None
        assert problems


def test_the_state_at_an_offset(log: Log) -> None:
    for batch in ((TOPIC,), (PARTITION, change(isr=[2])), (change(isr=[]),)):
        log.add(*metadata_pairs(*batch))
    snapshot_file(log.folder, 4, 1, metadata_pairs(TOPIC))

    def isr(at: int) -> list[Any]:
        found = state(log, at=at)
        assert found.end_offset == at + 1
        return [partition["isr"] for partition in found.image.topics[ORDERS_ID].partitions.values()]

    assert [isr(at) for at in range(4)] == [[], [[1, 2]], [[2]], []]
    with pytest.raises(KdumpError, match="there is no offset 4, the log ends before 4"):
        state(log, at=4)


def test_a_log_without_its_beginning(tmp_path: Path) -> None:
    log = Log(tmp_path / "__cluster_metadata-0", base_offset=5).add(*metadata_pairs(TOPIC))
    with pytest.raises(KdumpError, match="the log starts at offset 5 and there is no usable snapshot to start from"):
        state(log)
    snapshot_file(log.folder, 3, 1, metadata_pairs())
    problems: list[Problem] = []
    assert list(state(log, problems).image.topics) == [ORDERS_ID]
    assert texts(problems) == ["the records from offset 3 up to 5 are missing"]


def test_a_cluster_that_has_never_run(log: Log) -> None:
    """Its bootstrap.checkpoint, beside the partition directories, says what it begins with."""
    feature = ("FeatureLevel", {"name": "metadata.version", "featureLevel": 25})
    snapshot = snapshot_file(log.folder, 0, 0, metadata_pairs(feature))
    snapshot.rename(log.folder.parent / "bootstrap.checkpoint")
    assert state(log).image.features == {"metadata.version": 25}
    assert state(log.add(*metadata_pairs(TOPIC))).image.features == {}


def test_an_empty_directory_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "__cluster_metadata-0").mkdir()
    with pytest.raises(KdumpError, match="neither a usable snapshot nor a log"):
        state_of_directory(PartitionLog(str(tmp_path / "__cluster_metadata-0")), unexpected)


def test_damage_in_the_log(log: Log) -> None:
    log.add(*metadata_pairs(TOPIC))
    position = len(log.data)
    log.add(*metadata_pairs(PARTITION)).add(*metadata_pairs(("FeatureLevel", {"name": "f", "featureLevel": 1})))
    log.data[position + 70] ^= 1
    problems: list[Problem] = []
    found = state(log, problems)
    assert [problem.position for problem in problems] == [position]
    assert (found.image.topics[ORDERS_ID].partitions, found.image.features) == ({}, {"f": 1})
    assert found.timestamp == NOW + 2
