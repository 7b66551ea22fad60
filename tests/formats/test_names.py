"""Names of partition directories and files, and what Kafka would not take for one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.errors import NameFormatError
from kdump.formats.names import (
    DELETE,
    FUTURE,
    INTERNAL_TOPICS,
    STRAY,
    FileName,
    PartitionDirName,
    State,
    is_partition_dir,
    kraft_snapshot_name,
    offset_in_name,
    parse_file_name,
    parse_partition_dir,
    partition_dir_name,
    segment_file_name,
)

UNIQUE_ID = "0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("00000000000000001360.log", FileName(1360, "log")),
        ("00000000000000000000.index", FileName(0, "index")),
        ("09223372036854775807.timeindex", FileName(2**63 - 1, "timeindex")),
        ("00000000000000000142.txnindex", FileName(142, "txnindex")),
        ("00000000000000003150.snapshot", FileName(3150, "snapshot")),
        ("5.log", FileName(5, "log")),
        ("00000000000000000005.log.deleted", FileName(5, "log", State("deleted"))),
        ("00000000000000000005.index.cleaned", FileName(5, "index", State("cleaned"))),
        ("00000000000000000005.txnindex.swap", FileName(5, "txnindex", State("swap"))),
        ("00000000000000000005.snapshot.deleted", FileName(5, "snapshot", State("deleted"))),
        ("00000000000000000162-0000000005.checkpoint", FileName(162, "checkpoint", epoch=5)),
        ("00000000000000000162-0000000005.checkpoint.deleted", FileName(162, "checkpoint", State("deleted"), 5)),
        ("00000000000000000162-0000000005-8873.checkpoint.part", FileName(162, "checkpoint", State("part"), 5)),
        ("leader-epoch-checkpoint", FileName(None, "leader-epoch-checkpoint")),
        ("leader-epoch-checkpoint.tmp", FileName(None, "leader-epoch-checkpoint", State("tmp"))),
        ("partition.metadata", FileName(None, "partition.metadata")),
        ("partition.metadata.tmp", FileName(None, "partition.metadata", State("tmp"))),
        ("quorum-state", FileName(None, "quorum-state")),
        ("bootstrap.checkpoint", FileName(None, "bootstrap.checkpoint")),
        ("recovery-point-offset-checkpoint", FileName(None, "recovery-point-offset-checkpoint")),
        ("meta.properties.tmp", FileName(None, "meta.properties", State("tmp"))),
        (".kafka_cleanshutdown", FileName(None, ".kafka_cleanshutdown")),
        (".lock", FileName(None, ".lock")),
    ],
)
def test_file_names(name: str, expected: FileName) -> None:
    assert parse_file_name(name) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("00000000000000000000 (1).log", FileName(None, "log")),
        (".log", FileName(None, "log")),
        ("09223372036854775808.log", FileName(None, "log")),
        ("+12.log", FileName(12, "log")),
        ("-12.log", FileName(-12, "log")),
        ("12.old.log", FileName(12, "log")),
        ("12.txt", FileName(12, "other")),
        ("12", FileName(None, "other")),
        ("", FileName(None, "other")),
        ("lost+found", FileName(None, "other")),
        ("x.deleted", FileName(None, "other", State("deleted"))),
        ("deleted", FileName(None, "other")),
        ("12-5.checkpoint", FileName(None, "other")),
        ("\u0661.log", FileName(1, "log")),
        ("\U0001d7ce.log", FileName(None, "log")),
    ],
)
def test_unusual_file_names(name: str, expected: FileName) -> None:
    assert parse_file_name(name) == expected


@given(st.integers(0, 2**63 - 1), st.sampled_from(["log", "index", "timeindex", "txnindex", "snapshot"]))
def test_segment_file_names_round_trip(base_offset: int, kind: str) -> None:
    name = segment_file_name(base_offset, f".{kind}")
    assert len(name) == 21 + len(kind)
    assert offset_in_name(name) == base_offset
    assert parse_file_name(name) == FileName(base_offset, kind)
    assert parse_file_name(name + ".swap") == FileName(base_offset, kind, State("swap"))


@given(st.integers(0, 2**63 - 1), st.integers(0, 2**31 - 1))
def test_kraft_snapshot_names_round_trip(end_offset: int, epoch: int) -> None:
    name = kraft_snapshot_name(end_offset, epoch)
    assert parse_file_name(name) == FileName(end_offset, "checkpoint", epoch=epoch)


def test_kraft_snapshots_have_no_offset_before_the_dot() -> None:
    assert offset_in_name("00000000000000000162-0000000005.checkpoint") is None


@given(st.text(max_size=60))
def test_any_file_name_is_named_something(name: str) -> None:
    assert parse_file_name(name).kind


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("my-topic-0", PartitionDirName("my-topic", 0)),
        ("__cluster_metadata-0", PartitionDirName("__cluster_metadata", 0)),
        ("a.b-future-0", PartitionDirName("a.b-future", 0)),
        ("t-delete-3", PartitionDirName("t-delete", 3)),
        (f"t-1.{UNIQUE_ID}-future", PartitionDirName("t", 1, UNIQUE_ID, State("future"))),
        (f"a.b-1.{UNIQUE_ID}-delete", PartitionDirName("a.b", 1, UNIQUE_ID, State("delete"))),
        (f"t-2147483647.{UNIQUE_ID}-stray", PartitionDirName("t", 2**31 - 1, UNIQUE_ID, State("stray"))),
        ("t-+5", PartitionDirName("t", 5)),
        ("t--5", PartitionDirName("t-", 5)),
        ("my topic-0", PartitionDirName("my topic", 0)),
    ],
)
def test_partition_directories(name: str, expected: PartitionDirName) -> None:
    assert parse_partition_dir(name) == expected
    assert is_partition_dir(name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "lost+found",
        "topic",
        "topic-",
        "-0",
        "topic-x",
        "topic-2147483648",
        "topic-1.5",
        "remote-log-index-cache",
        "topic-0-delete",
        "topic-0.-delete",
        f"topic.{UNIQUE_ID}-delete",
        f"-0.{UNIQUE_ID}-delete",
        f"to pic-0.{UNIQUE_ID}-delete",
        f"topic-x.{UNIQUE_ID}-stray",
        f"topic-0.{UNIQUE_ID}-deleted",
    ],
)
def test_not_partition_directories(name: str) -> None:
    with pytest.raises(NameFormatError) as caught:
        parse_partition_dir(name, f"/data/{name}")
    assert str(caught.value) == (
        f"Found directory /data/{name}, '{name}' is not in the form of topic-partition or "
        "topic-partition.uniqueId-delete (if marked for deletion)."
    )
    assert not is_partition_dir(name)


TOPICS = st.text(alphabet="abcXYZ0189._-", min_size=1, max_size=249)
PARTITIONS = st.integers(0, 2**31 - 1)


@given(TOPICS, PARTITIONS)
def test_partition_directories_round_trip(topic: str, partition: int) -> None:
    assert parse_partition_dir(partition_dir_name(topic, partition)) == PartitionDirName(topic, partition)


@given(TOPICS, PARTITIONS, st.sampled_from([FUTURE, DELETE, STRAY]))
def test_directories_with_a_unique_id_round_trip(topic: str, partition: int, state: State) -> None:
    name = partition_dir_name(topic, partition, UNIQUE_ID, state)
    parsed = parse_partition_dir(name)
    assert topic.startswith(parsed.topic)
    assert parsed[1:] == (partition, UNIQUE_ID, state)
    assert state == FUTURE or len(name) <= 255
    assert parsed.topic == topic or len(name) == 255


def test_future_directories_are_not_cut() -> None:
    assert partition_dir_name("t" * 249, 0, UNIQUE_ID, FUTURE).startswith("t" * 249 + "-0.")
    assert len(partition_dir_name("t" * 249, 0, UNIQUE_ID, DELETE)) == 255


@given(st.text(alphabet="ab-.0 +", max_size=12), st.sampled_from(["", "-delete", "-future", "-stray"]))
def test_any_directory_name_is_parsed_or_refused(body: str, suffix: str) -> None:
    try:
        parsed = parse_partition_dir(body + suffix)
    except NameFormatError:
        return
    assert parsed.topic
    assert parsed.state == suffix[1:]


def test_internal_topics() -> None:
    assert {"__consumer_offsets", "__transaction_state", "__share_group_state"} == INTERNAL_TOPICS
