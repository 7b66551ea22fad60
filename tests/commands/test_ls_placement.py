"""`kdump ls` where the cluster's metadata lies beside the partitions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kdump.commands.cli import cli
from tests.rows import rows_in
from tests.topics.building import Log, cluster_directory


def run(*arguments: object) -> str:
    """What the command prints; it ends well."""
    result = CliRunner().invoke(cli, ["ls", *map(str, arguments)], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    assert result.return_value == 0
    return result.stdout


def placements(*arguments: object) -> dict[str, Any]:
    rows = rows_in(run(*arguments, "--format", "jsonl", "--no-segments"))
    return {Path(row["path"]).name: row["placement"] for row in rows if row["type"] == "partition"}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return cluster_directory(tmp_path / "data")


def test_strays_are_named(data: Path) -> None:
    notes = [line.strip() for line in run(data).splitlines() if line.lstrip().startswith("!")]
    assert notes == [
        "! clicks-0: stray, a broker will set it aside: the cluster has no topic with the id EBESExQVFhcYGRobHB0eHw",
        "! nameless-0: stray, a broker will set it aside: it has no topic id (partition.metadata)",
        "! orders-1: stray, a broker will set it aside: the cluster has it on the brokers 2, 3, not on 1",
        "! orders-7: stray, a broker will set it aside: the topic has no such partition in the cluster",
        "! renamed-0: its topic id is that of orders in the cluster, another name than the directory's",
    ]


def test_json_lines(data: Path) -> None:
    found = placements(data)
    assert found["orders-0"] == {
        "topic": "orders", "topicId": "AAECAwQFBgcICQoLDA0ODw", "replicas": [1, 2], "isr": [2], "leader": 1,
        "stray": None,
        "minInsyncReplicas": 1,
        "isUnderReplicated": True,
        "isUnderMinIsr": False,
        "nextLeader": 2,
    }  # fmt: skip
    assert found["clicks-0"] == {
        "topic": None, "topicId": None, "replicas": None, "isr": None, "leader": None,
        "stray": "the cluster has no topic with the id EBESExQVFhcYGRobHB0eHw",
        "minInsyncReplicas": None,
        "isUnderReplicated": None,
        "isUnderMinIsr": None,
        "nextLeader": None,
    }  # fmt: skip
    assert found["__cluster_metadata-0"] is None


def test_a_partition_that_is_named_itself(data: Path) -> None:
    assert "in the cluster: replicas 1, 2; in sync 2; leader 1, after it 2; under-replicated" in run(data / "orders-0")
    shown = run(data / "orders-1")
    assert "stray, a broker will set it aside" in shown
    assert "in the cluster: replicas 2, 3" in shown


def test_a_directory_says_how_many_partitions_lack_in_sync_replicas(data: Path) -> None:
    """Strays are replicas no more, so that they lack nobody."""
    found = [each for each in placements(data).values() if each and each["isr"] is not None and each["stray"] is None]
    count = sum(each["isUnderReplicated"] for each in found)
    assert f"In the cluster: {count} partition{'s' if count != 1 else ''} under-replicated.\n" in run(data)


def test_a_topic_that_was_made_anew(data: Path) -> None:
    path = data / "orders-0" / "partition.metadata"
    path.write_text("version: 0\ntopic_id: EBESExQVFhcYGRobHB0eHw")
    assert "the topic orders of the cluster has the id AAECAwQFBgcICQoLDA0ODw" in run(data / "orders-0")


def test_it_can_be_left_out(data: Path) -> None:
    assert set(placements(data, "--no-metadata").values()) == {None}
    assert "stray" not in run(data, "--no-metadata")


def test_another_log_directory_of_the_same_broker(data: Path, tmp_path: Path) -> None:
    """With several log.dirs the metadata is in one of them."""
    other = tmp_path / "other"
    Log(other / "orders-1").add((b"k", b"v")).write()
    (other / "orders-1" / "partition.metadata").write_text("version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw")
    (other / "meta.properties").write_bytes((data / "meta.properties").read_bytes())
    assert placements(other) == {"orders-1": None}
    for paths in ((other, data), (data, other)):
        assert placements(*paths)["orders-1"]["stray"] is not None
    (other / "meta.properties").write_text("version=1\nnode.id=2\ncluster.id=made-up\n")
    assert placements(data, other / "orders-1")["orders-1"] is None


def test_damaged_metadata_accuses_nobody(data: Path) -> None:
    Log(data / "__cluster_metadata-0", base_offset=8).add((None, b"\0\x63\0"), (None, b"\0\x63\0")).write()
    shown = run(data)
    assert (
        "! __cluster_metadata-0 says nothing of the partitions: offset 8: Could not deserialize metadata record with"
        " frame version 0. Note that upgrades from the preview release of KRaft in 2.8 to newer versions are not"
        " supported. (byte 0) (and 1 more)"
    ) in shown
    assert "stray" not in shown
    assert set(placements(data).values()) == {None}


def test_an_unreadable_topic_id_is_no_missing_one(data: Path) -> None:
    (data / "orders-0" / "partition.metadata").write_text("version: 0\ntopic_id: what")
    assert placements(data)["orders-0"] is None
