"""What a broker makes of a log directory as a whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdump.formats import names
from kdump.formats.names import PartitionDirName, parse_partition_dir
from kdump.recovery.broker_start import (
    DirectoryState,
    already_offline,
    directory_state,
    duplicate_failures,
    metadata_directory_failed,
    not_formatted_directory,
    not_together,
    pending_state,
    small_segments,
    unknown_metadata_version,
)
from kdump.recovery.outcome import Failure
from kdump.releases import KafkaRelease, metadata_version_level, newest_metadata_version
from kdump.storage.broker import BrokerIdentity
from kdump.storage.directory import LogDirectory
from kdump.storage.partition import PartitionLog
from tests.recovery.building import file, make_log

UNIQUE = "0123456789abcdef" * 2
META = "version=1\nnode.id=3\ncluster.id=abc\n"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A log directory with checkpoints."""
    folder = tmp_path / "data"
    make_log(folder, {file(0, "log"): b""}, "orders-0")
    (folder / names.META_PROPERTIES).write_text(META)
    (folder / names.RECOVERY_POINT_CHECKPOINT).write_text("0\n1\norders 0 5\n")
    (folder / names.LOG_START_CHECKPOINT).write_text("0\n1\norders 0 2\n")
    (folder / names.REPLICATION_CHECKPOINT).write_text("0\n1\norders 0 4\n")
    return folder


def state_of(folder: Path) -> DirectoryState:
    return directory_state(LogDirectory(str(folder)))


def test_the_checkpoints_of_a_partition(data: Path) -> None:
    log = PartitionLog(str(data / "orders-0"))
    other = make_log(data, {}, "orders-1")
    state = state_of(data)
    assert (state.broker, state.failures, state.warnings) == (("abc", 3), (), ())
    assert state.shutdown_of(log) == (False, 5, 2)
    assert state.high_watermark_of(log) == 4
    assert state.shutdown_of(other) == (False, 0, 0)
    assert state.high_watermark_of(other) is None
    (data / names.CLEAN_SHUTDOWN).touch()
    assert state_of(data).shutdown_of(log) == (True, 5, 2)


def test_the_cluster_metadata_log_trusts_neither_marker_nor_checkpoints(data: Path) -> None:
    log = make_log(data, {}, names.CLUSTER_METADATA_DIR)
    (data / names.CLEAN_SHUTDOWN).touch()
    (data / names.RECOVERY_POINT_CHECKPOINT).write_text("0\n1\n__cluster_metadata 0 5\n")
    assert state_of(data).shutdown_of(log) == (False, 0, 0)


@pytest.mark.parametrize(
    ("name", "consequence"),
    [
        (names.RECOVERY_POINT_CHECKPOINT, "every segment is checked"),
        (names.LOG_START_CHECKPOINT, "deleted records whose segments are still there come back"),
        (names.REPLICATION_CHECKPOINT, "every high watermark starts at 0"),
    ],
)
def test_a_checkpoint_that_cannot_be_read_counts_as_empty(data: Path, name: str, consequence: str) -> None:
    (data / name).write_text("0\n1\norders 0 zero\n")
    state = state_of(data)
    assert state.failures == ()
    (warning,) = state.warnings
    assert f"{data / name}" in warning
    assert consequence in warning
    log = PartitionLog(str(data / "orders-0"))
    assert 0 in (*state.shutdown_of(log)[1:], state.high_watermark_of(log) or 0)


@pytest.mark.parametrize("name", names.OFFSET_CHECKPOINTS)
@pytest.mark.parametrize("content", ["1\n0\n", "x\n", "0\nx\n", "0\n2\norders 0 5\n", "0\n1\norders 0\n"])
def test_a_checkpoint_that_breaks_its_frame_takes_the_directory_offline(data: Path, name: str, content: str) -> None:
    (data / name).write_text(content)
    state = state_of(data)
    (failure,) = state.failures
    assert (failure.file, failure.offline) == (name, True)
    assert state.has_fault == (name in (names.RECOVERY_POINT_CHECKPOINT, names.LOG_START_CHECKPOINT))


def test_directories_that_are_no_partitions(data: Path) -> None:
    for name in ("lost+found", "orders-x", f"orders-1.{UNIQUE}-gone", names.REMOTE_LOG_INDEX_CACHE_DIR, "zz"):
        (data / name).mkdir()
    failures = state_of(data).failures
    assert [failure.file for failure in failures] == ["lost+found", f"orders-1.{UNIQUE}-gone", "orders-x", "zz"]
    assert not any(failure.offline for failure in failures)
    assert "'lost+found' is not in the form of topic-partition" in failures[0].text


@pytest.mark.parametrize(
    ("content", "offline"),
    [
        ("version=1\nnode.id=x\n", True),
        ("version=2\n", True),
        ("version=1\nnode.id=3\n", True),
        ("a=\\u00zz\n", True),
        ("", False),
        ("version=0\ncluster.id=abc\n", False),
        (META + "directory.id=AAAAAAAAAAAAAAAAAAAAAQ\n", False),
    ],
)
def test_a_broken_meta_properties(data: Path, content: str, offline: bool) -> None:
    (data / names.META_PROPERTIES).write_text(content)
    (failure,) = state_of(data).failures
    assert (failure.file, failure.offline) == (names.META_PROPERTIES, offline)


def test_a_missing_meta_properties(data: Path) -> None:
    (data / names.META_PROPERTIES).unlink()
    (failure,) = state_of(data).failures
    assert (failure.exception, failure.offline) == ("java.lang.RuntimeException", False)
    for name in names.OFFSET_CHECKPOINTS:
        (data / name).unlink(missing_ok=True)
    assert state_of(data).failures == ()
    assert "not formatted" in state_of(data).warnings[0]


def test_what_becomes_of_a_partition_by_its_name(data: Path) -> None:
    fates = {}
    for name in ("a-0", f"a-0.{UNIQUE}-delete", f"a-0.{UNIQUE}-stray", f"a-0.{UNIQUE}-future", "no partition"):
        fates[name.rpartition("-")[2]] = pending_state(make_log(data, {}, name))
    assert fates["0"] is None
    assert fates["no partition"] is None
    assert "file.delete.delay.ms" in (fates["delete"] or "")
    assert "operator removes it" in (fates["stray"] or "")
    assert "move between log directories" in (fates["future"] or "")


def place(path: str, broker: int = 1) -> tuple[BrokerIdentity, str, PartitionDirName]:
    return BrokerIdentity("abc", broker), path, parse_partition_dir(path.rpartition("/")[2])


def test_a_partition_in_two_directories_of_a_broker() -> None:
    (failure,) = duplicate_failures([place("/a/orders-0"), place("/a/orders-1"), place("/b/orders-0")])
    assert not failure.offline
    assert "orders-0 are found in both /a/orders-0 and /b/orders-0" in failure.text


@pytest.mark.parametrize(
    "other",
    [
        place("/a/./orders-0"),
        place("/b/orders-0", broker=2),
        *(place(f"/b/orders-0.{UNIQUE}-{state}") for state in ("delete", "stray", "future")),
    ],
)
def test_no_duplicates(other: tuple[BrokerIdentity, str, PartitionDirName]) -> None:
    assert duplicate_failures([place("/a/orders-0"), other]) == []


def test_two_moves_of_one_partition_are_duplicates() -> None:
    places = [place(f"/{folder}/orders-0.{UNIQUE}-future") for folder in "ab"]
    assert len(duplicate_failures(places)) == 1


def test_a_controller_leaves_everything_but_its_log_alone(data: Path) -> None:
    make_log(data, {}, names.CLUSTER_METADATA_DIR)
    (data / "lost+found").mkdir()
    (data / names.RECOVERY_POINT_CHECKPOINT).write_text("x\n")

    def warnings() -> tuple[str, ...]:
        state = directory_state(LogDirectory(str(data)), is_controller=True)
        assert (state.failures, state.problems, state.is_controller) == ((), (), True)
        return state.warnings

    assert [text.partition(".")[0] for text in warnings()] == [
        "a controller loads __cluster_metadata-0 only: it leaves 1 other partition alone"
    ]
    make_log(data, {}, "orders-1")
    assert "leaves 2 other partitions alone" in warnings()[0]
    for name in ("orders-0", "orders-1"):
        for file_ in (data / name).iterdir():
            file_.unlink()
        (data / name).rmdir()
    assert warnings() == ()
    assert len(state_of(data).failures) == 2


@pytest.mark.parametrize(
    ("topics", "text"), [(1, "t1 is"), (5, "t1, t2, t3, t4, t5 is"), (6, "t1, t2, t3, t4, t5 and 1 more is"),
                         (8, "t1, t2, t3, t4, t5 and 3 more is")],
)  # fmt: skip
def test_topics_whose_segments_are_too_small(topics: int, text: str) -> None:
    found = small_segments(KafkaRelease.V4_3, [f"t{number}" for number in range(1, topics + 1)])
    assert found.text.startswith(f"segment.bytes of {text} below 1048576, the least that Kafka 4.3 takes")
    assert not found.offline


def test_the_metadata_versions_of_a_release() -> None:
    oldest = metadata_version_level("3.3-IV3")
    for release, first in ((KafkaRelease.V3_9, 1), (KafkaRelease.V4_1, oldest)):
        newest = newest_metadata_version(release)
        known = [level for level in range(newest + 5) if unknown_metadata_version(release, level) is None]
        assert known == list(range(first, newest + 1))
    # 4.4.0: "Tried to apply FeatureLevelRecord …, but this controller only supports versions 7-33"
    assert unknown_metadata_version(KafkaRelease.V4_4, 34) is not None
    assert unknown_metadata_version(KafkaRelease.V4_4, 34, with_unstable=True) is None
    failure = unknown_metadata_version(KafkaRelease.V4_1, 1)
    assert failure is not None
    newest = newest_metadata_version(KafkaRelease.V4_1)
    assert failure.text.startswith(
        f"metadata.version is 1 (3.0-IV1), and Kafka 4.1 runs with {oldest} to {newest}: its broker ends"
    )
    assert not failure.offline
    later = unknown_metadata_version(KafkaRelease.V4_1, 999)
    assert later is not None
    assert later.text.startswith("metadata.version is 999 (newer than this kdump), and")


def test_what_ends_the_process_is_no_fault_of_one_disk() -> None:
    failure = Failure("java.io.IOException", "broken", "file", offline=True)
    ended = metadata_directory_failed("/data", failure)
    text = "Shutdown broker because the metadata log dir /data has failed: broken"
    assert ended == Failure("java.io.IOException", text, "file", offline=False)
    assert already_offline("/data", "orders-0") == Failure(
        "org.apache.kafka.common.errors.KafkaStorageException",
        "The log dir /data is already offline due to a previous IO exception.", "orders-0", offline=False,
    )  # fmt: skip
    missing = not_formatted_directory("/data")
    assert (missing.file, missing.offline, bool(missing.remedies)) == ("/data", False, True)
    assert not_together("why") == Failure("java.lang.RuntimeException", "why", names.META_PROPERTIES, offline=False)
