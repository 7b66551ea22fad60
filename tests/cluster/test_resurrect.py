"""`kdump resurrect`: what it plans and writes from log directories of dead brokers, and what it refuses."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kdump.change import apply
from kdump.cluster.wanted import ControllerAt
from kdump.disk.locks import holding
from kdump.formats import names
from kdump.formats.kraft_snapshot import Voter
from kdump.formats.uuids import format_uuid
from kdump.storage.directory import LogDirectory
from kdump.storage.partition import PartitionLog
from kdump.topics.cluster_image import ClusterImage
from kdump.topics.metadata_log import MetadataState, state_of_directory
from tests.cluster.building import (
    CLUSTER,
    NOW,
    Disk,
    directory_id,
    image_of,
    partition_record,
    paths,
    three_brokers,
    topic_id,
)
from tests.commands.conftest import run as run
from tests.commands.running import Run
from tests.sampling import sampled
from tests.test_read_only import listing
from tests.topics.building import unexpected


def state(path: Path) -> MetadataState:
    found = state_of_directory(PartitionLog(str(path / names.CLUSTER_METADATA_DIR)), unexpected)
    assert found.newer_records == 0
    return found


def partition(image: ClusterImage, topic: str, number: int) -> dict[str, Any]:
    return image.topics[topic_id(topic)].partitions[number]


def refusals(run: Run) -> str:
    return "\n".join(f"{row['subject']}: {row['reason']} -> {row['do']}" for row in run.of_type("refusal"))


def notes(run: Run, kind: str) -> list[tuple[str, str]]:
    return [(row["subject"], row["message"]) for row in run.of_type("note") if row["kind"] == kind]


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 4
    path.write_bytes(data)


# --- what is planned and written ---


def test_a_plan_changes_nothing(run: Run, tmp_path: Path) -> None:
    disks = three_brokers(tmp_path)
    before = listing(tmp_path)
    for where in (["--into", tmp_path / "new"], ["--in-place"]):
        for format_ in ("text", "jsonl", "json"):
            assert run("resurrect", *paths(disks), *where, "--format", format_) == 1
    assert listing(tmp_path) == before


def test_three_brokers_into_a_new_directory(run: Run, tmp_path: Path) -> None:
    disks = three_brokers(tmp_path, ends=(90, 100, 100))
    before = listing(tmp_path)
    new = tmp_path / "new"
    assert run("resurrect", *paths(disks), "--into", new, "--apply") == 0, run.err
    assert {name: entry for name, entry in listing(tmp_path).items() if name.split("/")[0] not in (".", "new")} == {
        name: entry for name, entry in before.items() if name != "."
    }
    image = state(new / "node-1").image
    assert {each: (new / each / names.CLUSTER_METADATA_DIR).exists() for each in ("node-1", "node-2", "node-3")} == {
        "node-1": True, "node-2": False, "node-3": False,
    }  # fmt: skip
    orders = partition(image, "orders", 0)
    assert (orders["replicas"], orders["isr"], orders["leader"]) == ([1, 2, 3], [2], -1)
    assert (orders["leaderEpoch"], orders["partitionEpoch"]) == (5, 10)
    assert image.configs == {(2, "orders"): {"retention.ms": "-1"}}
    assert image.producer_ids == {"brokerId": -1, "brokerEpoch": -1, "nextProducerId": 7000}
    assert (image.brokers, image.controllers) == ({}, {})
    directories = []
    for node in (1, 2, 3):
        meta = LogDirectory(str(new / f"node-{node}")).meta_properties()
        assert meta is not None
        assert meta.node_id == node
        assert meta.cluster_id != CLUSTER
        directories.append(meta.directory_id)
    assert orders["directories"] == directories
    for node, disk in zip((1, 2, 3), disks, strict=True):
        for name in ("orders-0", "orders-1"):
            log = f"{name}/{0:020d}.log"
            assert (new / f"node-{node}" / log).read_bytes() == (disk.path / log).read_bytes()


def test_in_place_and_back(run: Run, tmp_path: Path) -> None:
    disks = three_brokers(tmp_path)
    (disks[1].path / names.CLEAN_SHUTDOWN).write_text('{"version":0,"brokerEpoch":7}')
    (disks[1].path / names.BOOTSTRAP_CHECKPOINT).write_bytes(b"")
    disks[2].line(names.LOG_START_CHECKPOINT, "orders-0", 10)
    disks[2].line(names.LOG_START_CHECKPOINT, "gone-0", 10)
    before = _contents(tmp_path)
    assert run("resurrect", *paths(disks), "--in-place", "--apply", "--format", "jsonl") == 0, run.err
    change = run.of_type("summary")[0]["change"]
    found = state(disks[0].path)
    assert (found.end_offset, found.epoch) == (1000, 7)
    assert partition(found.image, "orders", 0)["directories"] == [directory_id(node) for node in (1, 2, 3)]
    assert not (disks[1].path / names.CLEAN_SHUTDOWN).exists()
    assert not (disks[1].path / names.BOOTSTRAP_CHECKPOINT).exists()
    assert LogDirectory(str(disks[2].path)).checkpoint(names.LOG_START_CHECKPOINT) == {("orders", 0): 10}
    assert [path.name for path in disks[0].path.glob("__cluster_metadata-0.*-stray")] != []

    assert run("undo", *paths(disks), "--change", change) == 1
    assert run("undo", *paths(disks), "--change", change, "--apply") == 0, run.err
    after = _contents(tmp_path)
    assert {name: data for name, data in after.items() if "-stray" not in name} == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_what_is_made_in_a_log_directory_belongs_to_its_owner(run: Run, tmp_path: Path) -> None:
    disks = three_brokers(tmp_path)
    for path in (disks[0].path, *disks[0].path.rglob("*")):
        os.chown(path, 1234, 2345)
    assert run("resurrect", *paths(disks), "--in-place", "--apply") == 0, run.err
    made = disks[0].path / names.CLUSTER_METADATA_DIR
    assert {(path.stat().st_uid, path.stat().st_gid) for path in (made, *made.iterdir())} == {(1234, 2345)}


def _contents(folder: Path) -> dict[str, bytes]:
    """All files, but for those of changes."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith(".kdump-")
    }


def test_what_is_in_place_can_be_planned_again(run: Run, tmp_path: Path) -> None:
    disks = three_brokers(tmp_path)
    assert run("resurrect", *paths(disks), "--in-place", "--apply") == 0
    first = state(disks[0].path)
    assert run("resurrect", *paths(disks), "--in-place", "--apply") == 0, run.out
    again = state(disks[0].path)
    assert again.epoch > first.epoch
    assert again.end_offset > first.end_offset
    assert partition(again.image, "orders", 0)["leaderEpoch"] == 6


@pytest.mark.parametrize(
    ("text", "found"),
    [("k1:9093", ControllerAt("k1", 9093)), ("3@[::1]:1", ControllerAt("::1", 1, node=3))],
)
def test_where_the_controller_listens(text: str, found: ControllerAt) -> None:
    assert ControllerAt.parse(text) == found


@pytest.mark.parametrize("text", ["k1", ":9093", "k1:0", "k1:65536", "@k1:1", "x@k1:1"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ValueError, match="expected HOST:PORT or NODE@HOST:PORT"):
        ControllerAt.parse(text)


@pytest.mark.parametrize("given", [(0,), (1,), (0, 2), (1, 2)])
def test_any_of_the_brokers(run: Run, tmp_path: Path, given: tuple[int, ...]) -> None:
    disks = three_brokers(tmp_path)
    chosen = [disks[each] for each in given]
    new = tmp_path / "new"
    if 0 not in given:
        assert run("resurrect", *paths(chosen), "--into", new, "--apply") == 0, run.out
        assert "ACLs, SCRAM users, quotas" in run.out
    else:
        assert run("resurrect", *paths(chosen), "--into", new, "--apply") == 0, run.out
    first = new / f"node-{min(given) + 1}"
    image = state(first).image
    for number in (0, 1):
        record = partition(image, "orders", number)
        assert sorted(record["replicas"]) == [each + 1 for each in given]
        assert len(record["isr"]) == 1


def test_nodes_are_renamed_with_their_settings(run: Run, tmp_path: Path) -> None:
    disks = three_brokers(tmp_path)
    image = state(disks[0].path).image
    image.configs[4, "3"] = {"log.cleaner.threads": "2"}
    image.configs[4, "9"] = {"log.cleaner.threads": "9"}
    image.configs[4, ""] = {"min.insync.replicas": "2"}
    disks[1].metadata(image, epoch=4)
    assert run("resurrect", *paths(disks), "--into", tmp_path / "new", "--map", "3=7", "--apply") == 0, run.out
    found = state(tmp_path / "new" / "node-1").image
    assert partition(found, "orders", 0)["replicas"] == [1, 2, 7]
    assert found.configs[4, "7"] == {"log.cleaner.threads": "2"}
    assert found.configs[4, ""] == {"min.insync.replicas": "2"}
    assert (4, "3") not in found.configs
    assert (4, "9") not in found.configs


def test_three_brokers_become_one(run: Run, tmp_path: Path) -> None:
    disks = three_brokers(tmp_path, ends=(90, 100, 95))
    disks[1].line(names.CLEANER_CHECKPOINT, "orders-0", 50)
    disks[2].line(names.CLEANER_CHECKPOINT, "orders-0", 60)
    new = tmp_path / "new"
    assert run("resurrect", *paths(disks), "--into", new, "--nodes", 1, "--apply") == 0, run.out
    record = partition(state(new / "node-1").image, "orders", 0)
    assert (record["replicas"], record["isr"]) == ([1], [1])
    directory = LogDirectory(str(new / "node-1"))
    assert directory.checkpoint(names.CLEANER_CHECKPOINT) == {("orders", 0): 50}
    assert directory.partition_names == ["__cluster_metadata-0", "orders-0", "orders-1"]


def test_three_brokers_become_one_in_place(run: Run, tmp_path: Path) -> None:
    disks = three_brokers(tmp_path, ends=(90, 100, 95))
    for disk in disks:
        disk.line(names.CLEANER_CHECKPOINT, "orders-0", 50)
    assert run("resurrect", *paths(disks), "--in-place", "--nodes", 1, "--apply") == 0, run.out
    record = partition(state(disks[0].path).image, "orders", 0)
    assert (record["replicas"], record["directories"]) == ([1], [directory_id(2)])
    live = [[name for name in LogDirectory(path).partition_names if "stray" not in name] for path in paths(disks)]
    assert sorted(name for own in live for name in own) == ["__cluster_metadata-0", "orders-0", "orders-1"]
    lines = [LogDirectory(path).checkpoint(names.CLEANER_CHECKPOINT) for path in paths(disks)]
    assert lines == [{}, {("orders", 0): 50}, {}]


def test_one_broker_becomes_two(run: Run, tmp_path: Path) -> None:
    disks = [Disk(tmp_path / "d1", 1, 1), Disk(tmp_path / "d2", 1, 2)]
    disks[0].partition("orders-0", (0, 5))
    disks[1].partition("orders-1", (0, 5))
    disks[0].metadata(image_of({"orders": [[1], [1]]}))
    assert run("resurrect", *paths(disks), "--in-place", "--nodes", 2, "--apply") == 0, run.out
    image = state(disks[0].path).image
    assert [partition(image, "orders", number)["replicas"] for number in (0, 1)] == [[1], [2]]
    meta = LogDirectory(str(disks[1].path)).meta_properties()
    assert meta is not None
    assert meta.node_id == 2


def test_a_dynamic_quorum_has_one_voter(run: Run, tmp_path: Path) -> None:
    disks = three_brokers(tmp_path)
    options = ("--quorum", "dynamic", "--controller", "2@kafka2:9093")
    assert run("resurrect", *paths(disks), "--in-place", *options, "--apply") == 0, run.out
    found = state(disks[1].path)
    assert found.kraft_version == 1
    (voter,) = found.voters
    assert (voter["voterId"], voter["voterDirectoryId"]) == (2, directory_id(2))
    assert voter["endpoints"] == [{"name": "CONTROLLER", "host": "kafka2", "port": 9093}]
    assert "controller.quorum.bootstrap.servers=kafka2:9093" in run.out
    assert "controller.quorum.voters" not in run.out


def test_eligible_leader_replicas_need_registrations(run: Run, tmp_path: Path) -> None:
    disk = Disk(tmp_path / "d1", 1, 1)
    disk.partition("orders-0", (0, 5))
    disk.metadata(image_of({"orders": [[1]]}, eligible_leader_replicas_version=1))
    assert run("resurrect", disk.path, "--in-place", "--apply") == 0, run.out
    (broker,) = state(disk.path).image.brokers.values()
    assert (broker["brokerId"], broker["brokerEpoch"], broker["fenced"]) == (1, -1, True)
    assert broker["logDirs"] == [directory_id(1)]


# --- which copy leads ---


def test_a_damaged_copy_does_not_lead(run: Run, tmp_path: Path) -> None:
    disks = three_brokers(tmp_path)
    flip(disks[0].path / "orders-0" / f"{0:020d}.log", 100)
    assert run("resurrect", *paths(disks), "--in-place", "--apply", "--format", "jsonl") == 0, run.err
    assert partition(state(disks[0].path).image, "orders", 0)["isr"] == [2]
    assert [subject for subject, _ in notes(run, "damaged")] == ["orders-0"]


def test_an_epoch_without_a_record_does_not_lead(run: Run, tmp_path: Path) -> None:
    disks = [Disk(tmp_path / f"b{node}", node, node) for node in (1, 2)]
    disks[0].partition("orders-0", (0, 100))
    empty = disks[1].partition("orders-0")
    (empty / names.LEADER_EPOCH_CHECKPOINT).write_text("0\n1\n1 100\n")
    disks[0].metadata(image_of({"orders": [[1, 2]]}))
    assert run("resurrect", *paths(disks), "--in-place", "--apply") == 0, run.out
    record = partition(state(disks[0].path).image, "orders", 0)
    assert (record["isr"], record["leaderEpoch"]) == ([1], 5)


def test_a_later_epoch_wins_over_more_records(run: Run, tmp_path: Path) -> None:
    disks = [Disk(tmp_path / f"b{node}", node, node) for node in (1, 2)]
    disks[0].partition("orders-0", (0, 100))
    disks[1].partition("orders-0", (0, 50), (6, 1))
    disks[0].metadata(image_of({"orders": [[1, 2]]}))
    assert run("resurrect", *paths(disks), "--in-place", "--apply") == 0, run.out
    record = partition(state(disks[0].path).image, "orders", 0)
    assert (record["isr"], record["leaderEpoch"]) == ([2], 7)


def test_a_log_that_retention_emptied_leads_over_an_old_one(run: Run, tmp_path: Path) -> None:
    disks = [Disk(tmp_path / f"b{node}", node, node) for node in (1, 2)]
    disks[0].partition("orders-0", (0, 300))
    empty = disks[1].partition("orders-0", start=480)
    (empty / names.LEADER_EPOCH_CHECKPOINT).write_text("0\n1\n2 480\n")
    disks[0].metadata(image_of({"orders": [[1, 2]]}))
    assert run("resurrect", *paths(disks), "--in-place", "--apply") == 0, run.out
    assert partition(state(disks[0].path).image, "orders", 0)["isr"] == [2]


# --- what would destroy data ---


def test_unclean_election_is_off_for_the_first_start(run: Run, tmp_path: Path) -> None:
    disk = Disk(tmp_path / "d1", 1, 1)
    disk.partition("orders-0", (0, 5))
    image = image_of({"orders": [[1]]})
    image.configs[2, "orders"] = {"unclean.leader.election.enable": "true"}
    image.configs[4, ""] = {"unclean.leader.election.enable": "true"}
    disk.metadata(image)
    assert run("resurrect", disk.path, "--in-place", "--apply", "--format", "jsonl") == 0, run.err
    configs = state(disk.path).image.configs
    assert {values["unclean.leader.election.enable"] for values in configs.values()} == {"false"}
    said = dict(notes(run, "setting"))
    assert said["orders"].endswith("--alter --topic orders --add-config unclean.leader.election.enable=true")
    assert "--broker-defaults" in said["all brokers"]


def test_cordoned_directories_are_left_out_and_said(run: Run, tmp_path: Path) -> None:
    """A broker refuses paths that are not its own, and every other dynamic config with them."""
    disk = Disk(tmp_path / "d1", 1, 1)
    disk.partition("orders-0", (0, 5))
    image = image_of({"orders": [[1]]})
    image.configs[4, "1"] = {"cordoned.log.dirs": "/old/d2", "log.cleaner.threads": "2"}
    image.configs[4, ""] = {"cordoned.log.dirs": "/old/d1"}
    disk.metadata(image)
    assert run("resurrect", disk.path, "--in-place", "--apply", "--format", "jsonl") == 0, run.err
    assert state(disk.path).image.configs == {(4, "1"): {"log.cleaner.threads": "2"}}
    said = dict(notes(run, "setting"))
    assert said["broker 1"].startswith("cordoned.log.dirs=/old/d2 is left out; to cordon directories: kafka-configs.sh")
    assert "--broker-defaults" in said["all brokers"]


def test_producer_ids_go_on_after_every_one_that_was_used(run: Run, tmp_path: Path) -> None:
    disk = Disk(tmp_path / "d1", 1, 1)
    disk.partition("orders-0", (0, 5), producer_id=41_234)
    image = image_of({"orders": [[1]]})
    image.producer_ids = {"brokerId": 1, "brokerEpoch": 1, "nextProducerId": 2000}
    disk.metadata(image)
    assert run("resurrect", disk.path, "--in-place", "--apply") == 0, run.out
    ids = state(disk.path).image.producer_ids
    assert ids is not None
    assert ids["nextProducerId"] == 1_043_000


def test_a_log_start_above_the_end_is_left_out(run: Run, tmp_path: Path) -> None:
    disks = three_brokers(tmp_path)
    disks[0].line(names.LOG_START_CHECKPOINT, "orders-0", 99_999)
    disks[0].line(names.RECOVERY_POINT_CHECKPOINT, "orders-0", 500)
    assert run("resurrect", disks[0].path, "--in-place", "--apply", "--format", "jsonl") == 0, run.err
    directory = LogDirectory(str(disks[0].path))
    assert directory.checkpoint(names.LOG_START_CHECKPOINT) == {}
    assert directory.checkpoint(names.RECOVERY_POINT_CHECKPOINT) == {("orders", 0): 100}
    assert [subject for subject, _ in notes(run, "checkpoint")] == ["orders-0"]


def test_retention_can_be_held(run: Run, tmp_path: Path) -> None:
    disk = Disk(tmp_path / "d1", 1, 1)
    disk.partition("orders-0", (0, 5))
    image = image_of({"orders": [[1]]})
    image.configs[2, "orders"] = {"retention.ms": "1000"}
    disk.metadata(image)
    now = ("--now", "2030-01-01T00:00:00Z")
    assert run("resurrect", disk.path, "--in-place", *now, "--format", "jsonl") == 1
    assert [(subject, "all of its 5 records" in text) for subject, text in notes(run, "retention")] == [
        ("orders", True)
    ]
    assert run("resurrect", disk.path, "--in-place", *now, "--hold-retention", "--apply", "--format", "jsonl") == 0
    assert state(disk.path).image.configs[2, "orders"]["retention.ms"] == "-1"
    assert any(text.endswith("--add-config retention.ms=1000") for _, text in notes(run, "setting"))


# --- without metadata ---


def test_without_metadata_nothing_is_deleted(run: Run, tmp_path: Path) -> None:
    disk = Disk(tmp_path / "d1", 1, 1)
    disk.partition("orders-0", (3, 5), producer_id=20)
    disk.partition("__consumer_offsets-1", (3, 5))
    assert run("resurrect", disk.path, "--in-place", "--format", "jsonl") == 4
    assert "--offsets-partitions N" in refusals(run)
    options = ("--offsets-partitions", 2, "--new-empty", "--kafka", "4.1")
    assert run("resurrect", disk.path, "--in-place", *options, "--apply") == 0, run.out
    image = state(disk.path).image
    assert image.features == {"metadata.version": 27, "group.version": 1, "transaction.version": 2, "share.version": 1}
    assert image.configs[2, "orders"] == {"retention.ms": "-1", "retention.bytes": "-1"}
    assert image.configs[2, "__consumer_offsets"]["cleanup.policy"] == "compact"
    assert sorted(image.topics[topic_id("__consumer_offsets")].partitions) == [0, 1]
    record = partition(image, "orders", 0)
    assert (record["leaderEpoch"], record["partitionEpoch"]) == (4, 0)
    ids = image.producer_ids
    assert ids is not None
    assert ids["nextProducerId"] > 1_000_000


# --- refusals ---


def test_holes_are_refused(run: Run, tmp_path: Path) -> None:
    disk = Disk(tmp_path / "d1", 1, 1)
    disk.partition("orders-1", (0, 5))
    disk.metadata(image_of({"orders": [[2], [1], [2]]}))
    before = listing(tmp_path)
    assert run("resurrect", disk.path, "--in-place", "--apply") == 4
    assert "no PATH has a copy of orders-0, orders-2" in run.out
    assert "--new-empty" in run.out
    assert listing(tmp_path) == before
    assert run("resurrect", disk.path, "--in-place", "--new-empty", "--apply") == 0
    image = state(disk.path).image
    assert [partition(image, "orders", number)["replicas"] for number in range(3)] == [[1], [1], [1]]


def test_a_running_broker_is_refused(run: Run, tmp_path: Path) -> None:
    disks = three_brokers(tmp_path)
    (disks[0].path / names.LOCK).touch()
    lock = str(disks[0].path / names.LOCK)
    program = f"import fcntl,sys;f=open({lock!r},'r+');fcntl.lockf(f,fcntl.LOCK_EX);print();sys.stdin.read()"
    holder = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None
        holder.stdout.readline()
        assert run("resurrect", *paths(disks), "--into", tmp_path / "new", "--apply", "--format", "jsonl") == 4
    finally:
        holder.communicate()
    assert "a broker is running on it" in refusals(run)
    assert not (tmp_path / "new").exists()


def test_two_ids_for_one_name(run: Run, tmp_path: Path) -> None:
    disks = [Disk(tmp_path / f"b{node}", node, node) for node in (1, 2)]
    disks[0].partition("orders-0", (0, 5))
    disks[1].partition("orders-0", (0, 5), id_of="others")
    assert run("resurrect", *paths(disks), "--in-place", "--format", "jsonl") == 4
    assert "two topic ids for one name" in refusals(run)


def test_one_id_under_two_names(run: Run, tmp_path: Path) -> None:
    disk = Disk(tmp_path / "d1", 1, 1)
    disk.partition("orders-0", (0, 5))
    disk.partition("others-0", (0, 5), id_of="orders")
    assert run("resurrect", disk.path, "--in-place", "--format", "jsonl") == 4
    assert "one topic id under two names" in refusals(run)


def test_a_missing_topic_id(run: Run, tmp_path: Path) -> None:
    disks = three_brokers(tmp_path)
    (disks[0].path / "orders-0" / names.PARTITION_METADATA).unlink()
    assert run("resurrect", *paths(disks), "--in-place", "--apply") == 0, run.out
    written = (disks[0].path / "orders-0" / names.PARTITION_METADATA).read_text()
    assert written == f"version: 0\ntopic_id: {format_uuid(topic_id('orders'))}"

    alone = Disk(tmp_path / "alone", 5, 5)
    (alone.partition("secrets-0", (0, 5)) / names.PARTITION_METADATA).unlink()
    assert run("resurrect", alone.path, "--in-place", "--format", "jsonl") == 4
    assert "no copy has a partition.metadata" in refusals(run)


def test_older_metadata_is_refused(run: Run, tmp_path: Path) -> None:
    disks = three_brokers(tmp_path)
    disks[1].metadata(state(disks[0].path).image, epoch=3, more=2)
    assert run("resurrect", *paths(disks), "--in-place", "--metadata", disks[0].path, "--format", "jsonl") == 4
    assert f"{disks[1].path}/__cluster_metadata-0 is newer" in refusals(run)
    assert run("resurrect", *paths(disks), "--in-place", "--new-empty", "--format", "jsonl") == 1, run.out
    assert run.of_type("cluster")[0]["metadata"] == f"{disks[1].path}/__cluster_metadata-0"


def test_damaged_metadata_is_refused(run: Run, tmp_path: Path) -> None:
    disks = three_brokers(tmp_path)
    flip(disks[0].path / names.CLUSTER_METADATA_DIR / f"{0:020d}.log", 300)
    assert run("resurrect", *paths(disks), "--in-place", "--format", "jsonl") == 4
    assert "--metadata none" in refusals(run)
    assert run("resurrect", *paths(disks), "--in-place", "--metadata", "none") == 1


def test_a_release_that_does_not_know_the_features(run: Run, tmp_path: Path) -> None:
    disks = three_brokers(tmp_path)
    assert run("resurrect", *paths(disks), "--in-place", "--kafka", "4.1", "--format", "jsonl") == 4
    assert "Kafka 4.1 does not know that" in refusals(run)


def test_topics_that_the_metadata_does_not_know(run: Run, tmp_path: Path) -> None:
    disks = three_brokers(tmp_path)
    disks[0].partition("later-0", (0, 5))
    assert run("resurrect", *paths(disks), "--in-place", "--format", "jsonl") == 4
    assert "--unknown-topics adopt" in refusals(run)
    assert run("resurrect", *paths(disks), "--in-place", "--unknown-topics", "leave-out", "--format", "jsonl") == 1
    assert {row["topic"] for row in run.of_type("partition")} == {"orders"}
    assert run("resurrect", *paths(disks), "--in-place", "--unknown-topics", "adopt", "--apply") == 0
    assert state(disks[0].path).image.configs[2, "later"]["retention.ms"] == "-1"


def test_valid_records_after_damage_are_not_lost_unasked(run: Run, tmp_path: Path) -> None:
    disks = three_brokers(tmp_path)
    flip(disks[0].path / "orders-0" / f"{0:020d}.log", 100)
    assert run("resurrect", disks[0].path, "--in-place", "--format", "jsonl") == 4
    assert "kdump repair" in refusals(run)
    assert "--accept-loss 80" in refusals(run)
    assert run("resurrect", disks[0].path, "--in-place", "--accept-loss", 79) == 4
    assert run("resurrect", disks[0].path, "--in-place", "--accept-loss", 80, "--apply") == 0, run.out
    assert LogDirectory(str(disks[0].path)).checkpoint(names.RECOVERY_POINT_CHECKPOINT) == {}


def test_tiered_topics_need_their_objects(run: Run, tmp_path: Path) -> None:
    disk = Disk(tmp_path / "d1", 1, 1)
    disk.partition("orders-0", (0, 5))
    image = image_of({"orders": [[1]]})
    image.configs[2, "orders"] = {"remote.storage.enable": "true"}
    disk.metadata(image)
    assert run("resurrect", disk.path, "--in-place", "--format", "jsonl") == 4
    assert "--remote-storage" in refusals(run)
    assert run("resurrect", disk.path, "--in-place", "--remote-storage") == 1


def test_directories_of_two_clusters(run: Run, tmp_path: Path) -> None:
    disks = three_brokers(tmp_path)
    meta = disks[1].path / names.META_PROPERTIES
    meta.write_text(meta.read_text().replace(CLUSTER, "AAAAAAAAAAAAAAAAAAAAAQ"))
    assert run("resurrect", *paths(disks), "--in-place", "--format", "jsonl") == 4
    assert "different clusters" in refusals(run)


def test_a_directory_without_a_node_needs_one(run: Run, tmp_path: Path) -> None:
    disks = three_brokers(tmp_path)
    (disks[2].path / names.META_PROPERTIES).unlink()
    assert run("resurrect", *paths(disks), "--in-place", "--format", "jsonl") == 4
    assert f"--map {disks[2].path}=NODE" in refusals(run)
    assert run("resurrect", *paths(disks), "--into", tmp_path / "new", "--map", f"{disks[2].path}=3", "--apply") == 0
    assert partition(state(tmp_path / "new" / "node-1").image, "orders", 0)["replicas"] == [1, 2, 3]


def test_a_directory_given_twice_under_another_name(run: Run, tmp_path: Path) -> None:
    disks = three_brokers(tmp_path)
    meta = disks[0].path / names.META_PROPERTIES
    (disks[1].path / names.META_PROPERTIES).write_bytes(meta.read_bytes())
    assert run("resurrect", *paths(disks), "--in-place", "--format", "jsonl") == 4
    assert "one is a copy of the other" in refusals(run)


def test_an_occupied_target_is_refused(run: Run, tmp_path: Path) -> None:
    disks = three_brokers(tmp_path)
    new = tmp_path / "new"
    new.mkdir()
    (new / "something").touch()
    assert run("resurrect", *paths(disks), "--into", new, "--apply") == 3
    assert "exists already" in run.err


def test_directories_that_wait_or_stray_are_no_copies(run: Run, tmp_path: Path) -> None:
    disks = three_brokers(tmp_path)
    disks[0].partition(f"orders-0.{'ab' * 16}-delete", (9, 500))
    disks[0].partition(f"orders-1.{'cd' * 16}-stray", (9, 500))
    assert run("resurrect", *paths(disks), "--into", tmp_path / "new", "--apply", "--format", "jsonl") == 0, run.out
    assert len(notes(run, "leftOut")) == 2
    assert LogDirectory(str(tmp_path / "new" / "node-1")).partition_names == [
        "__cluster_metadata-0", "orders-0", "orders-1",
    ]  # fmt: skip


def test_what_is_no_log_directory(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert run("resurrect", tmp_path / "empty", "--in-place") == 3
    assert "not a log directory" in run.err
    assert run("resurrect", tmp_path / "nowhere", "--in-place") == 3
    assert run("resurrect", tmp_path) == 2
    assert run("resurrect", tmp_path, "--in-place", "--map", "x") == 2
    assert run("resurrect", tmp_path, "--in-place", "--controller", "nonsense") == 2


def test_reassignments_end(run: Run, tmp_path: Path) -> None:
    disk = Disk(tmp_path / "d1", 1, 1)
    disk.partition("orders-0", (0, 5))
    image = image_of({"orders": [[1]]})
    moving = partition_record("orders", 0, [1, 9], addingReplicas=[9], removingReplicas=[1])
    image.topics[topic_id("orders")].partitions[0] = moving
    disk.metadata(image)
    assert run("resurrect", disk.path, "--in-place", "--apply") == 0, run.out
    record = partition(state(disk.path).image, "orders", 0)
    assert (record["replicas"], record["addingReplicas"], record["removingReplicas"]) == ([1], [], [])


def test_the_lock_is_held_while_it_is_applied(run: Run, tmp_path: Path) -> None:
    disks = three_brokers(tmp_path)
    with holding(str(disks[0].path)):
        assert run("resurrect", *paths(disks), "--in-place") == 1


def test_a_dead_controller_s_disk_is_the_controller_again(run: Run, tmp_path: Path) -> None:
    controller, broker = Disk(tmp_path / "c", 100, 1), Disk(tmp_path / "b", 1, 2)
    broker.partition("orders-0", (0, 5))
    image = image_of({"orders": [[1]]})
    voter = Voter(100, directory_id(1), "CONTROLLER", "old", 9093)
    controller.metadata(image, voters=[voter], more=0)
    assert run("resurrect", controller.path, broker.path, "--in-place", "--apply", "--format", "jsonl") == 0, run.err
    (cluster,) = run.of_type("cluster")
    assert (cluster["controller"], cluster["quorum"]) == (100, "dynamic")
    roles = {row["nodeId"]: row["properties"]["process.roles"] for row in run.of_type("node")}
    assert roles == {100: "controller", 1: "broker"}
    assert partition(state(controller.path).image, "orders", 0)["replicas"] == [1]
    assert not (broker.path / names.CLUSTER_METADATA_DIR).exists()


def test_the_old_cluster_id_is_remarked_upon(run: Run, tmp_path: Path) -> None:
    disks = three_brokers(tmp_path)
    assert run("resurrect", *paths(disks), "--in-place", "--cluster-id", CLUSTER, "--format", "jsonl") == 1
    assert any("nothing of the old cluster runs" in text for _, text in notes(run, "metadata"))


def test_small_segments_end_brokers_of_later_releases(run: Run, tmp_path: Path) -> None:
    disk = Disk(tmp_path / "d1", 1, 1)
    disk.partition("orders-0", (0, 5))
    image = image_of({"orders": [[1]]})
    image.features = {"metadata.version": 21}
    image.configs[2, "orders"] = {"segment.bytes": "20000"}
    disk.metadata(image)
    assert run("resurrect", disk.path, "--in-place", "--kafka", "4.1", "--format", "jsonl") == 4
    assert "segment.bytes is below 1 MiB" in refusals(run)
    assert run("resurrect", disk.path, "--in-place", "--kafka", "4.0") == 1


@pytest.mark.parametrize("steps", sampled(range(9), 2))
def test_an_interrupted_resurrection_is_taken_back(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    disks = three_brokers(tmp_path)
    for disk in disks:
        disk.line(names.CLEANER_CHECKPOINT, "orders-0", 50)
        (disk.path / names.CLEAN_SHUTDOWN).write_text("")
    before = _contents(tmp_path)
    done = 0
    carry_out = apply._carry_out

    def interrupted(*arguments: Any) -> None:
        nonlocal done
        if done == steps:
            raise OSError(5, "Input/output error")
        done += 1
        carry_out(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(apply, "_carry_out", interrupted)
        assert run("resurrect", *paths(disks), "--in-place", "--nodes", 1, "--apply") == 3
    assert run("resurrect", *paths(disks), "--in-place", "--nodes", 1, "--format", "jsonl") == 4
    assert "was interrupted" in refusals(run)
    id_ = run.of_type("refusal")[0]["do"].split("--change ")[1].split()[0]
    assert run("undo", *paths(disks), "--change", id_, "--apply") == 0, run.err
    after = _contents(tmp_path)
    assert {name: data for name, data in after.items() if "-stray" not in name} == before
    assert run("resurrect", *paths(disks), "--in-place", "--nodes", 1, "--apply") == 0, run.out


# --- server.properties of the old nodes ---


def _properties(path: Path, *lines: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    return path


def test_old_server_properties_tell_what_the_directories_do_not(run: Run, tmp_path: Path) -> None:
    disk = Disk(tmp_path / "b1" / "data", 1, 1)
    disk.partition("orders-0", (0, 20))
    for number in range(4):
        disk.partition(f"__consumer_offsets-{number}", (0, 1))
    arguments = ("resurrect", disk.path, "--into", tmp_path / "new")
    assert run(*arguments, "--format", "jsonl") == 4
    assert "nothing says how many partitions it had" in refusals(run)
    file = _properties(
        tmp_path / "b1" / "config" / "server.properties",
        *("node.id=1", f"log.dirs={disk.path},/mnt/other", "offsets.topic.num.partitions=4"),
        *("log.retention.hours=-1", "unclean.leader.election.enable=true", "ssl.key.password=secret"),
    )
    assert run(*arguments, "--format", "jsonl") == 1, refusals(run)
    (node,) = run.of_type("node")
    assert node["properties"]["offsets.topic.num.partitions"] == "4"
    assert node["properties"]["log.retention.hours"] == "-1"
    assert node["properties"]["unclean.leader.election.enable"] == "false"
    assert "secret" not in run.out
    assert any("names 2 log directories" in text and "1 was given" in text for _, text in notes(run, "lost"))
    assert any(subject == str(file) and "becomes false" in text for subject, text in notes(run, "setting"))
    assert run(*arguments) == 1
    assert f"and the other lines of {file}" in run.out


def test_old_server_properties_that_are_named(run: Run, tmp_path: Path) -> None:
    """They tell whose a log directory is that has lost its meta.properties; a node of another id is not meant."""
    disk = Disk(tmp_path / "d", 1, 1)
    disk.partition("orders-0", (0, 20))
    (disk.path / names.META_PROPERTIES).unlink()
    _properties(tmp_path / "server.properties", "node.id=7", "offsets.topic.num.partitions=9")
    file = _properties(tmp_path / "etc" / "kafka.properties", "broker.id=5", f"log.dir={disk.path}")
    arguments = ("resurrect", disk.path, "--into", tmp_path / "new", "--format", "jsonl")
    assert run(*arguments) == 4
    assert "does not say which node" in refusals(run)
    assert run(*arguments, "--config", file) == 1, refusals(run)
    assert [row["nodeId"] for row in run.of_type("node")] == [5]
    file.write_text("node.id=five\n")
    assert run(*arguments, "--config", file) == 3
    assert "is not a node id" in run.err


def test_settings_of_old_brokers_count_for_retention(run: Run, tmp_path: Path) -> None:
    disk = Disk(tmp_path / "b1", 1, 1)
    disk.partition("orders-0", (0, 20))
    disk.metadata(image_of({"orders": [[1]]}))
    arguments = ("resurrect", disk.path, "--into", tmp_path / "new", "--format", "jsonl", "--now", NOW + (1 << 40))
    assert run(*arguments) == 1
    assert notes(run, "retention")
    _properties(tmp_path / "b1" / "server.properties", "node.id=1", "log.retention.ms=-1")
    assert run(*arguments) == 1
    assert not notes(run, "retention")
