"""Partitions against the cluster's metadata that lies beside them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kdump.check.options import Options
from kdump.check.run import Verification
from kdump.check.work import PartitionRange
from tests.topics.building import Log, cluster_directory
from tests.verify.building import NOW, found

FIXTURES = Path(__file__).parent.parent.parent / "fixtures"
KNOWN, UNKNOWN = "AAECAwQFBgcICQoLDA0ODw", "EBESExQVFhcYGRobHB0eHw"
ASIDE = "; a broker renames the directory at start (-stray) and serves nothing of it"
CODES = ("KD-DIR-UNASSIGNED", "KD-META-PARTITION-MISSING", "KD-META-TOPIC-CLUSTER", "KD-META-CLUSTER")


def said(*paths: Path, **options: object) -> dict[str, tuple[str, str]]:
    """Code and message of each finding by the partition directory, or file, that it is about."""
    return {
        Path(finding.path).parent.name if finding.path.endswith("metadata") else Path(finding.path).name: (
            finding.code,
            finding.message,
        )
        for finding in found(*paths, now=NOW, **options)
        if finding.code in CODES
    }


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return cluster_directory(tmp_path / "data")


def topic_id(partition: Path, text: str) -> None:
    (partition / "partition.metadata").write_text(f"version: 0\ntopic_id: {text}")


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_a_broker_would_set_aside(data: Path, jobs: int) -> None:
    assert said(data, jobs=jobs) == {
        "clicks-0": ("KD-DIR-UNASSIGNED", f"the cluster has no topic with the id {UNKNOWN}" + ASIDE),
        "nameless-0": ("KD-META-PARTITION-MISSING", "there is no such file"),
        "orders-1": ("KD-DIR-UNASSIGNED", "the cluster has it on the brokers 2, 3, not on 1" + ASIDE),
        "orders-7": ("KD-DIR-UNASSIGNED", "the topic has no such partition in the cluster" + ASIDE),
        "renamed-0": (
            "KD-META-TOPIC-CLUSTER",
            f"the topic id {KNOWN} is that of orders in the cluster, which has no topic renamed",
        ),
    }


def test_a_topic_that_was_made_anew(data: Path) -> None:
    topic_id(data / "orders-0", UNKNOWN)
    code, text = said(data)["orders-0"]
    assert code == "KD-META-TOPIC-CLUSTER"
    assert text == (f"the topic id {UNKNOWN} is of no topic in the cluster, which has orders with {KNOWN}{ASIDE}")


def test_each_path_by_itself(data: Path) -> None:
    assert set(said(data / "orders-1")) == {"orders-1"}
    assert set(said(data / "orders-0")) == set()
    assert set(said(data / "renamed-0" / "partition.metadata")) == {"renamed-0"}
    assert set(said(data / "__cluster_metadata-0")) == set()


def test_the_metadata_is_not_read_for_a_file_that_it_does_not_know_of(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kdump.topics.placement.cluster_beside", lambda *_: pytest.fail("read"))
    assert said(data / "orders-1" / f"{0:020}.log") == {}


def test_directories_that_are_aside_already(data: Path) -> None:
    for state in ("stray", "delete"):
        (data / "orders-1").rename(data / f"orders-1.{'0' * 32}-{state}")
        assert f"orders-1.{'0' * 32}-{state}" not in said(data)
        (data / f"orders-1.{'0' * 32}-{state}").rename(data / "orders-1")


def test_another_log_directory_of_the_same_broker(data: Path, tmp_path: Path) -> None:
    """With several log.dirs the metadata is in one of them."""
    other = tmp_path / "other"
    Log(other / "orders-1").add((b"k", b"v")).write()
    topic_id(other / "orders-1", KNOWN)
    (other / "meta.properties").write_bytes((data / "meta.properties").read_bytes())
    shutil.rmtree(data / "orders-1")
    assert said(other) == {}
    assert "orders-1" in said(other, data)
    assert "orders-1" in said(data, other)
    (other / "meta.properties").write_text("version=1\nnode.id=2\ncluster.id=made-up\n")
    assert "orders-1" not in said(data, other)


def test_metadata_that_cannot_be_taken_in_accuses_nobody(data: Path) -> None:
    log = Log(data / "__cluster_metadata-0", base_offset=8).add((None, b"\0\2\0"), (None, b"\0\2\0")).write()
    message = (
        "offset 8: Could not deserialize metadata record with frame version 0. Note that upgrades from the preview"
        " release of KRaft in 2.8 to newer versions are not supported. (byte 0) (and 1 more)"
    )
    assert said(data) == {
        f"{log.base_offset:020}.log": ("KD-META-CLUSTER", message),
        "nameless-0": ("KD-META-PARTITION-MISSING", "there is no such file"),
    }


def test_records_that_are_newer_accuse_nobody(data: Path) -> None:
    """They are no fault, and what they say may be that a partition is where it should be."""
    before = said(data)
    assert "KD-DIR-UNASSIGNED" in {code for code, _ in before.values()}
    Log(data / "__cluster_metadata-0", base_offset=8).add((None, b"\1\x63\0")).write()
    assert said(data) == {name: found for name, found in before.items() if found[0] != "KD-DIR-UNASSIGNED"}


def test_an_unreadable_topic_id_is_no_missing_one(data: Path) -> None:
    topic_id(data / "orders-0", "what")
    assert "orders-0" not in said(data)


def test_runs_that_share_the_work(data: Path) -> None:
    """Each finds what is true of its own partitions; the metadata is judged once."""
    Log(data / "__cluster_metadata-0", base_offset=8).write()
    options = Options(now=NOW)
    whole = list(Verification(options).run([str(data)]))
    ranges = PartitionRange(0, 1), PartitionRange(1, 4), PartitionRange(4)
    parts = [Verification(options, share=share).run([str(data)]) for share in ranges]
    assert [finding for part in parts for finding in part] == whole
    assert {finding.code for finding in whole} >= {"KD-DIR-UNASSIGNED", "KD-META-TOPIC-CLUSTER"}


def test_damage_in_a_snapshot_is_not_that_of_a_log(tmp_path: Path) -> None:
    """No broker cuts a snapshot, and repair leaves it alone: the way out is another one."""
    data = tmp_path / "data"
    shutil.copytree(FIXTURES / "corpus" / "f-cluster-metadata", data)
    path = data / "__cluster_metadata-0" / "00000000000000000212-0000000005.checkpoint"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)
    about = [finding for finding in found(data, now=NOW) if finding.path == str(path)]
    assert {finding.code for finding in about} == {"KD-META-CLUSTER", "KD-KRAFT-SNAPSHOT"}
    assert not [remedy for finding in about for remedy in finding.remedies if remedy.command == "repair"]
