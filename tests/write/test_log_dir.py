"""What is written beside the partitions of a new log directory, closed in order or not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kdump.errors import NameFormatError
from kdump.formats import names
from kdump.formats.uuids import format_uuid
from kdump.library.verifying import verify
from kdump.mend.as_broker import plan_recovery
from kdump.recovery.broker_start import directory_state
from kdump.recovery.outcome import DELETE, RECOVER
from kdump.settings.writing import WritingSettings
from kdump.storage.directory import LogDirectory
from kdump.write.log_dir import LogDirWriter, read_offsets, write_offsets
from kdump.write.sessions import Producer
from tests.write.building import NOW, Clock, files, messages, startup

TOPIC_ID = bytes(15) + b"\7"


def writer(folder: Path, **how: Any) -> LogDirWriter:
    return LogDirWriter(str(folder / "data"), clock=Clock(), durable=False, jitter=lambda limit: 0, **how)


def fill(log_dir: LogDirWriter) -> None:
    config = WritingSettings(segment_bytes=2000, index_interval_bytes=300)
    for topic, partition in (("orders", 0), ("orders", 1), ("a-b.c", 12)):
        log = log_dir.create_log(topic, partition, config, topic_id=TOPIC_ID, start_offset=10 * partition)
        producer = Producer(5, is_transactional=True)
        for number in range(12):
            log.append(messages(5, size=40, start=NOW + number * 10))
            producer.send(log, messages(1))
            producer.commit() if number % 2 else producer.abort()
        log.become_leader(3)
        log.append(messages(1))


def test_closed_in_order(tmp_path: Path) -> None:
    with writer(tmp_path, cluster_id="abc", node_id=4, directory_id=TOPIC_ID, broker_epoch=9) as log_dir:
        fill(log_dir)
    found = files(tmp_path / "data")
    assert found[names.META_PROPERTIES].decode().splitlines() == [
        "#",
        "#Tue Nov 14 22:13:20 UTC 2023",
        "node.id=4",
        f"directory.id={format_uuid(TOPIC_ID)}",
        "version=1",
        "cluster.id=abc",
    ]
    assert found[names.CLEAN_SHUTDOWN] == b'{"version":0,"brokerEpoch":9}'
    assert found["orders-0/partition.metadata"].decode() == f"version: 0\ntopic_id: {format_uuid(TOPIC_ID)}"
    ends = {("orders", 0): 85, ("orders", 1): 95, ("a-b.c", 12): 205}
    for name in (names.RECOVERY_POINT_CHECKPOINT, names.REPLICATION_CHECKPOINT):
        assert read_offsets(log_dir.path, name) == ends
    assert found[names.LOG_START_CHECKPOINT] == b"0\n0\n"
    assert names.LOCK not in found


def test_a_log_closed_before_the_others_is_let_go_of_and_told_of(tmp_path: Path) -> None:
    with writer(tmp_path) as log_dir:
        fill(log_dir)
        log_dir.logs["orders", 1].advance_log_start(20)
        log_dir.close_log("orders", 1)
        assert list(log_dir.logs) == [("orders", 0), ("a-b.c", 12)]
    ends = {("orders", 0): 85, ("orders", 1): 95, ("a-b.c", 12): 205}
    for name in (names.RECOVERY_POINT_CHECKPOINT, names.REPLICATION_CHECKPOINT):
        assert read_offsets(log_dir.path, name) == ends
    assert read_offsets(log_dir.path, names.LOG_START_CHECKPOINT) == {("orders", 1): 20}


@pytest.mark.parametrize("clean", [True, False])
def test_verify_finds_nothing_wrong_and_a_broker_loses_nothing(tmp_path: Path, clean: bool) -> None:
    with writer(tmp_path) as log_dir:
        fill(log_dir)
        log_dir.close(clean=clean)
    found = {finding.code for finding in verify(log_dir.path, deep=True, now=NOW)}
    # the records of fill() go back in time
    expected = {"KD-TIME-ORDER", "KD-TIME-HELD"} | (set() if clean else {"KD-IDX-PREALLOCATED", "KD-TIDX-PREALLOCATED"})
    assert found == expected
    state = directory_state(LogDirectory(log_dir.path))
    assert (state.clean, state.failures, state.warnings) == (clean, (), ())
    for log in LogDirectory(log_dir.path).partitions():
        how = dict(zip(("clean", "recovery_point", "log_start_offset"), state.shutdown_of(log), strict=True))
        outcome, plan = plan_recovery(log, startup(**how))
        assert (outcome.failure, outcome.loss.bytes) == (None, 0)
        assert any(step.action == RECOVER for step in outcome.steps) == (not clean)
        if clean:
            assert not plan
            assert not [step for step in outcome.steps if step.action == DELETE]


def test_killed(tmp_path: Path) -> None:
    with writer(tmp_path) as log_dir:
        log = log_dir.create_log("orders", 0, WritingSettings(segment_index_bytes=240))
        log.append(messages(5))
        log.roll()
        log.append(messages(5))
        log.high_watermark = 7
        log_dir.close(clean=False)
    found = files(log_dir.path)
    assert names.CLEAN_SHUTDOWN not in found
    assert found[names.LOCK] == b""
    assert found[names.RECOVERY_POINT_CHECKPOINT] == b"0\n1\norders 0 5\n"
    assert found[names.REPLICATION_CHECKPOINT] == b"0\n1\norders 0 7\n"
    assert found[f"orders-0/{5:020}.index"] == bytes(240)


def test_log_start_offset_is_told_beyond_the_first_segment_only(tmp_path: Path) -> None:
    with writer(tmp_path) as log_dir:
        for partition in range(2):
            log = log_dir.create_log("orders", partition, start_offset=100)
            log.append(messages(5))
            log.advance_log_start(100 + 3 * partition)
    assert read_offsets(log_dir.path, names.LOG_START_CHECKPOINT) == {("orders", 1): 103}


def test_same_input_same_bytes(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        with writer(tmp_path / folder) as log_dir:
            fill(log_dir)
    assert files(tmp_path / "a") == files(tmp_path / "b")


def test_left_by_an_exception_it_is_as_killed(tmp_path: Path) -> None:
    def fail() -> None:
        with writer(tmp_path) as log_dir:
            log_dir.create_log("orders", 0)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert not (tmp_path / "data" / names.CLEAN_SHUTDOWN).exists()


@pytest.mark.parametrize("topic", ["", "x-delete"])
def test_impossible_topic(tmp_path: Path, topic: str) -> None:
    with writer(tmp_path) as log_dir:
        if topic:
            log_dir.create_log(topic, 0)
            assert (tmp_path / "data" / "x-delete-0").is_dir()
        else:
            with pytest.raises(NameFormatError):
                log_dir.create_log(topic, 0)


def test_log_that_is_there_already(tmp_path: Path) -> None:
    with writer(tmp_path) as log_dir:
        log_dir.create_log("orders", 0)
        with pytest.raises(FileExistsError):
            log_dir.create_log("orders", 0)


def test_unreadable_checkpoint_counts_as_empty(tmp_path: Path) -> None:
    write_offsets(str(tmp_path), "x", {("t", 1): 5}, durable=False)
    assert read_offsets(str(tmp_path), "x") == {("t", 1): 5}
    (tmp_path / "x").write_text("nonsense\n")
    assert read_offsets(str(tmp_path), "x") == {}
    assert read_offsets(str(tmp_path), "y") == {}
