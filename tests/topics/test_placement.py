"""Partition directories against the cluster's metadata beside them."""

from __future__ import annotations

from pathlib import Path

from kdump.errors import Problem
from kdump.formats.names import parse_partition_dir
from kdump.storage.directory import LogDirectory
from kdump.storage.partition import PartitionLog
from kdump.topics.placement import Cluster, cluster_beside
from tests.topics.building import ORDERS_ID, OTHER_ID, Log, cluster_directory, metadata_pairs, unexpected

UNIQUE = "0123456789abcdef" * 2


def cluster(folder: Path) -> Cluster:
    found = cluster_beside(LogDirectory(str(folder)), unexpected)
    assert found is not None
    return found


def strays(folder: Path) -> dict[str, str | None]:
    """Of every partition directory, why it is stray."""
    beside = cluster(folder)
    found = {}
    for log in LogDirectory(str(folder)).partitions():
        placement = beside.placement(log.name, log.metadata.topic_id if log.metadata else None)
        if placement is not None:
            found[Path(log.path).name] = placement.stray
    return found


def test_which_partitions_are_stray(tmp_path: Path) -> None:
    assert strays(cluster_directory(tmp_path)) == {
        "clicks-0": "the cluster has no topic with the id EBESExQVFhcYGRobHB0eHw",
        "nameless-0": "it has no topic id (partition.metadata)",
        "orders-0": None,
        "orders-1": "the cluster has it on the brokers 2, 3, not on 1",
        "orders-7": "the topic has no such partition in the cluster",
        "renamed-0": None,
    }


def test_whose_directory_it_is_matters(tmp_path: Path) -> None:
    found = strays(cluster_directory(tmp_path, broker_id=3))
    assert found["orders-0"] == "the cluster has it on the brokers 1, 2, not on 3"
    assert found["orders-1"] is None


def test_without_meta_properties_no_replica_is_doubted(tmp_path: Path) -> None:
    cluster_directory(tmp_path)
    (tmp_path / "meta.properties").unlink()
    found = strays(tmp_path)
    assert found["orders-0"] is found["orders-1"] is None
    assert found["clicks-0"] is not None


def test_what_the_cluster_knows_of_a_partition(tmp_path: Path) -> None:
    beside = cluster(cluster_directory(tmp_path))
    known = beside.placement(parse_partition_dir("orders-0"), ORDERS_ID)
    assert known is not None
    assert (known.topic, known.topic_id) == ("orders", "AAECAwQFBgcICQoLDA0ODw")
    assert (known.replicas, known.isr, known.leader) == ((1, 2), (2,), 1)
    made_anew = beside.placement(parse_partition_dir("orders-0"), OTHER_ID)
    assert made_anew is not None
    assert (made_anew.topic, made_anew.topic_id) == (None, "AAECAwQFBgcICQoLDA0ODw")
    assert made_anew.replicas is None


def test_directories_in_other_states(tmp_path: Path) -> None:
    beside = cluster(cluster_directory(tmp_path))
    assert beside.placement(parse_partition_dir(f"clicks-0.{UNIQUE}-delete"), OTHER_ID) is None
    assert beside.placement(parse_partition_dir("__cluster_metadata-0"), None) is None
    assert beside.placement(None, None) is None
    aside = beside.placement(parse_partition_dir(f"ord-1.{UNIQUE}-stray"), ORDERS_ID)
    assert aside is not None
    assert (aside.topic, aside.stray) == ("orders", None)
    future = beside.placement(parse_partition_dir(f"orders-1.{UNIQUE}-future"), ORDERS_ID)
    assert future is not None
    assert future.stray is not None


def test_metadata_that_is_damaged_accuses_nobody(tmp_path: Path) -> None:
    cluster_directory(tmp_path)
    path = next((tmp_path / "__cluster_metadata-0").glob("*.log"))
    data = bytearray(path.read_bytes())
    data[80] ^= 1
    path.write_bytes(data)
    problems: list[Problem] = []
    assert cluster_beside(LogDirectory(str(tmp_path)), problems.append) is None
    assert [(problem.path, problem.position) for problem in problems] == [(str(path), 0)]


def test_metadata_that_is_not_there(tmp_path: Path) -> None:
    Log(tmp_path / "orders-0").add((b"k", b"v")).write()
    assert cluster_beside(LogDirectory(str(tmp_path)), unexpected) is None
    (tmp_path / "__cluster_metadata-0").mkdir()
    problems: list[Problem] = []
    assert cluster_beside(LogDirectory(str(tmp_path)), problems.append) is None
    assert len(problems) == 1


def test_a_broker_that_has_no_metadata_yet_waits(tmp_path: Path) -> None:
    log = Log(tmp_path / "__cluster_metadata-0").add(*metadata_pairs(("NoOp", {}))).write()
    assert PartitionLog(str(log.folder)).segments
    assert not cluster(tmp_path).is_filled
