"""`kdump compact`: its report for people and for programs, what it refuses, and cleaning in place or into a copy."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kdump.change.journal import unfinished
from kdump.formats import names
from kdump.formats.encode import NewRecord, encode_message
from tests.change.kept import change_files, killed_after
from tests.clean.building import (
    DAY,
    NOW,
    batch,
    build,
    checkpoint_of,
    clean_once,
    contents,
    files_of,
    in_txn,
    name,
    write_checkpoint,
)
from tests.commands.running import Run

A, B = b"a", b"b"
SEGMENTS = {
    0: [batch(0, (A, b"1"), (B, b"1"), (A, b"2"))],
    10: [batch(10, (B, None), (b"c", b"1"))],
    20: [batch(20, (A, b"3"))],
}
AT = f"--now={NOW}"


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """Two segments to clean and the active one."""
    return build(tmp_path / "data", SEGMENTS)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Settings of a compacted topic."""
    path = tmp_path / "users.properties"
    path.write_text("cleanup.policy=compact\nmin.cleanable.dirty.ratio=0.1\n")
    return path


def test_a_dry_run_tells_what_comes_out_and_changes_nothing(run: Run, partition: Path) -> None:
    before = files_of(partition), files_of(partition.parent)
    assert run("compact", partition, AT) == 1
    text = run.out
    assert "dirty ratio 1.000" in text
    assert "above 0.5: the cleaner is due" in text
    assert "bounded by offset 20, where the active segment begins" in text
    assert "segments            2      1" in text
    assert "records             5      3" in text
    assert "drops records: 2 superseded" in text
    assert "keeps 1 tombstone, the first until 1970-01-02T00:16:40.000Z (in 1 d)" in text
    assert "segments 0, 10: " in text
    assert (files_of(partition), files_of(partition.parent)) == before


def test_json_lines(run: Run, partition: Path) -> None:
    assert run("compact", partition, AT, "--format=jsonl") == 1
    (row,) = run.rows
    cleaning = row.pop("cleaning")
    size = sum(sum(map(len, batches)) for batches in SEGMENTS.values())
    cleanable = size - len(SEGMENTS[20][0])
    assert row == {
        "type": "partition",
        "topic": partition.name.rpartition("-")[0],
        "partition": int(partition.name.rpartition("-")[2]),
        "path": str(partition),
        "pass": 1,
        "isDue": True,
        "isDone": False,
        "change": None,
        "output": None,
        "error": None,
        "logStartOffset": 0,
        "logEndOffset": 21,
        "highWatermark": None,
        "lastStableOffset": 21,
        "checkpoint": None,
        "checkpointReset": None,
        "firstDirtyOffset": 0,
        "firstUncleanableOffset": 20,
        "limits": [{"kind": "active segment", "offset": 20}],
        "cleanBytes": 0,
        "cleanableBytes": cleanable,
        "dirtyRatio": 1.0,
        "minCleanableRatio": 0.5,
        "overdueSince": None,
        "bytes": size,
    }
    after = cleaning["after"]["bytes"]
    assert cleaning == {
        "keys": 3,
        "mapCapacity": 5033164,
        "isMapFull": False,
        "endOffset": 20,
        "bytesAfter": after + len(SEGMENTS[20][0]),
        "before": {"segments": 2, "bytes": cleanable, "batches": 2, "records": 5},
        "after": {"segments": 1, "bytes": after, "batches": 2, "records": 3},
        "dropped": {"superseded": 2, "tombstones": 0, "keyless": 0, "aborted": 0, "markers": 0},
        "tombstonesKept": 1,
        "firstDeleteHorizon": NOW + DAY,
        "emptyBatchesKept": 0,
        "batchesConverted": 0,
        "groups": [{"baseOffset": 0, "segments": [0, 10], "bytesBefore": cleanable, "bytesAfter": after}],
    }


def test_apply_cleans_and_keeps_what_was_replaced(run: Run, partition: Path) -> None:
    old = (partition / name(10, "log")).read_bytes()
    assert run("compact", partition, AT, "--apply") == 0
    assert contents(partition) == [(2, A, b"2"), (10, B, None), (11, b"c", b"1"), (20, A, b"3")]
    assert checkpoint_of(partition) == 20
    (kept,) = change_files(partition.parent, f"old+{name(10, 'log')}")
    assert kept.read_bytes() == old
    assert "smaller; the originals are kept, and use their space until kdump undo --prune.\n" in run.out
    assert run("compact", partition, AT, "--apply") == 0
    assert "nothing more can be cleaned now" in run.out


def test_without_a_backup_nothing_else_is_left(run: Run, partition: Path) -> None:
    assert run("compact", partition, AT, "--apply", "--no-backup") == 0
    assert change_files(partition.parent) == []
    assert len(list(partition.glob("*.log"))) == 2


def test_output_writes_a_log_directory_and_leaves_the_source_alone(run: Run, partition: Path, tmp_path: Path) -> None:
    write_checkpoint(partition.parent, names.RECOVERY_POINT_CHECKPOINT, 21)
    before = files_of(partition), files_of(partition.parent)
    output = tmp_path / "out"
    assert run("compact", partition, AT, "--output", output) == 0
    assert f"written to {output / 'users-0'}" in run.out
    assert (files_of(partition), files_of(partition.parent)) == before
    assert contents(output / "users-0") == [(2, A, b"2"), (10, B, None), (11, b"c", b"1"), (20, A, b"3")]
    assert (output / names.CLEANER_CHECKPOINT).read_text() == "0\n1\nusers 0 20\n"
    assert (output / names.RECOVERY_POINT_CHECKPOINT).read_text() == "0\n1\nusers 0 21\n"
    assert run("compact", partition, AT, "--output", output) == 4
    assert "not empty" in run.err


def test_the_ratio_decides(run: Run, partition: Path, config: Path) -> None:
    clean_once(partition)
    write_checkpoint(partition.parent, names.CLEANER_CHECKPOINT, 10)
    assert run("compact", partition, AT, "--config", config, "--min-cleanable-ratio=0.9") == 0
    assert "not above 0.9: the cleaner leaves it alone" in run.out
    assert run("compact", partition, AT, "--config", config) == 1
    assert "above 0.1: the cleaner is due" in run.out


def test_what_bounds_the_cleaner(run: Run, tmp_path: Path) -> None:
    segments = {
        0: [batch(0, (A, b"1"))],
        10: [in_txn(10, 7, (A, b"2"))],
        20: [batch(20, (A, b"3"))],
        30: [batch(30, (B, b"1"))],
    }
    partition = build(tmp_path / "data", segments, high_watermark=25)
    properties = tmp_path / "lag.properties"
    properties.write_text("min.compaction.lag.ms=999500\n")
    assert run("compact", partition, AT, "--config", properties) == 0
    lines = [line.strip() for line in run.out.splitlines()]
    assert (
        "bounded by offset 0, whose segment is too young for min.compaction.lag.ms until 1970-01-01T00:16:40.500Z"
        in (lines[5].replace(" (in 500 ms)", ""))
    )
    assert "and offset 10, where an open transaction of producer 7 begins" in lines
    assert "and offset 25, the high watermark: what follows may not be replicated yet" in lines
    assert "and offset 30, where the active segment begins" in lines


def test_a_log_directory_passes_over_what_is_not_known_to_be_compacted(run: Run, partition: Path, config: Path) -> None:
    data = partition.parent
    assert run("compact", data, AT) == 0
    assert "skipped: not known to be compacted" in run.out
    assert run("compact", data, AT, "--format=jsonl") == 0
    assert [row["type"] for row in run.rows] == ["passedOver"]
    write_checkpoint(data, names.CLEANER_CHECKPOINT, 0)
    assert run("compact", data, AT) == 1
    write_checkpoint(data, names.CLEANER_CHECKPOINT, None)
    assert run("compact", data, AT, "--config", config) == 1
    config.write_text("cleanup.policy=delete\n")
    assert run("compact", data, AT, "--config", config) == 0
    assert "cleanup.policy is delete: the cleaner leaves it alone" in run.out


def test_records_without_a_key_are_not_dropped_unless_the_topic_is_known_to_be_compacted(
    run: Run, tmp_path: Path, config: Path
) -> None:
    partition = build(tmp_path / "data", {0: [batch(0, (None, b"1"), (A, b"1"))], 20: [batch(20, (A, b"2"))]})
    before = files_of(partition)
    assert run("compact", partition, AT, "--apply") == 4
    assert "records without a key, 1 in all and the first at offset 0" in run.err
    assert files_of(partition) == before
    assert change_files(partition.parent) == []
    assert run("compact", partition, AT, "--output", tmp_path / "out") == 4
    assert run("compact", partition, AT) == 1
    assert "1 without a key" in run.out
    assert run("compact", partition, AT, "--apply", "--config", config) == 0
    assert [offset for offset, _, _ in contents(partition)] == [1, 20]


def test_passes_follow_each_other_while_the_map_is_full(run: Run, partition: Path, config: Path) -> None:
    config.write_text("log.cleaner.dedupe.buffer.size=24\nlog.cleaner.io.buffer.load.factor=1.0\nsegment.bytes=14\n")
    settings = ("--config", config, "--min-cleanable-ratio=0")
    assert run("compact", partition, AT, "--apply", *settings) == 0
    assert "the offset map is full (1 keys" in run.out
    assert checkpoint_of(partition) == 1
    assert run("compact", partition, AT, "--apply", "--passes=9", *settings) == 0
    assert checkpoint_of(partition) == 20
    assert contents(partition) == [(2, A, b"2"), (10, B, None), (11, b"c", b"1"), (20, A, b"3")]


def test_exact_keys_and_old_formats_are_options(run: Run, tmp_path: Path) -> None:
    old = [encode_message(NewRecord(at, 1000, A, b"%d" % at), 1) for at in range(3)]
    partition = build(tmp_path / "data", {0: old, 20: [batch(20, (A, b"x"))]})
    assert run("compact", partition, AT, "--compare-keys", "--format=jsonl") == 1
    assert run.rows[0]["cleaning"]["batchesConverted"] == 1
    assert run("compact", partition, AT, "--old-formats=keep", "--apply", "--no-backup") == 0
    assert (partition / name(0, "log")).read_bytes() == old[2]


def test_an_interrupted_run_is_told_of_and_finished(run: Run, partition: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(partition.parent, tmp_path / "copy"))
    clean_once(copy / partition.name, keep_old=True)
    before, after = files_of(partition), files_of(copy / partition.name)
    with killed_after(7):  # before the old segments are removed
        clean_once(partition, keep_old=True)
    assert len(unfinished(str(partition))) == 1
    assert run("compact", partition, AT) in (1, 3)
    assert "was interrupted: --apply finishes it" in run.err
    (change,) = unfinished(str(partition))
    assert run("compact", partition, AT, "--apply") == 0
    assert "is finished now" in run.err
    assert files_of(partition) == after
    assert "Done. 1 interrupted change finished; the originals are kept" in run.out
    assert f"Undo:  kdump undo {partition} --change {change.id}" in run.lines
    assert run("undo", partition, "--change", change.id, "--apply") == 0
    assert files_of(partition) == before


def test_an_interrupted_run_that_kept_nothing_cannot_be_undone(run: Run, partition: Path) -> None:
    with killed_after(7):
        clean_once(partition, keep_old=False)
    assert run("compact", partition, AT, "--apply") == 0
    assert "Done. 1 interrupted change finished." in run.lines
    assert "Undo:" not in run.out


def test_a_running_broker_is_not_interfered_with(run: Run, partition: Path) -> None:
    lock = partition.parent / names.LOCK
    with open(lock, "w") as held:
        fcntl.lockf(held, fcntl.LOCK_EX)
        # a lock of one's own process does not count, so another one has to look
        done = subprocess.run(
            [sys.executable, "-m", "kdump", "compact", str(partition), AT, "--apply"], capture_output=True, text=True
        )
    assert done.returncode == 4
    said = " ".join(done.stderr.split())  # lines break where the path is long
    assert f"Refused: a broker is running on {partition.parent} (process {os.getpid()} holds .lock)." in said
    assert len(list(partition.glob("*.log"))) == 3


def test_what_cannot_be_cleaned_is_said_and_the_others_go_on(run: Run, partition: Path, tmp_path: Path) -> None:
    other = build(tmp_path / "other", SEGMENTS)
    data = bytearray((partition / name(0, "log")).read_bytes())
    data[-1] ^= 1
    (partition / name(0, "log")).write_bytes(data)
    assert run("compact", partition, other, AT, "--apply") == 3
    assert f"{name(0, 'log')} at byte 0: batch " in run.err
    assert "users-0   2 records dropped, 12 bytes smaller: done" in run.out
    assert len(list(partition.glob("*.log"))) == 3
    assert len(list(other.glob("*.log"))) == 2


def test_a_directory_that_is_no_partition_in_use_is_not_changed(run: Run, partition: Path) -> None:
    other = partition.rename(partition.with_name(f"users-0.{'0' * 32}-stray"))
    assert run("compact", other, AT) == 1
    assert run("compact", other, AT, "--apply") == 4
    assert "not named as a partition in use" in run.err
    assert len(list(other.glob("*.log"))) == 3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--apply", "--output=x"), "exclude each other"),
        (("--no-backup",), "--no-backup needs --apply"),
        (("--passes=2",), "--passes needs --apply or --output"),
        (("--min-cleanable-ratio=2",), "2"),
        (("--now=yesterday",), "yesterday"),
    ],
)
def test_wrong_usage(run: Run, partition: Path, arguments: tuple[str, ...], words: str) -> None:
    assert run("compact", partition, *arguments) == 2
    assert words in run.err


def test_a_wrong_setting_and_a_file_instead_of_a_directory(run: Run, partition: Path, config: Path) -> None:
    config.write_text("min.cleanable.dirty.ratio=half\n")
    assert run("compact", partition, "--config", config) == 2
    assert "min.cleanable.dirty.ratio is 'half': expected a number from 0 to 1" in run.err
    assert run("compact", partition / name(0, "log")) == 2
    assert "give the partition directory that it is in" in run.err
    assert run("compact", partition / "nothing") == 3


def test_output_is_not_put_among_the_partitions_of_a_broker(run: Run, partition: Path) -> None:
    before = files_of(partition.parent)
    output = partition / "out"
    assert run("compact", partition, AT, "--output", output) == 2
    assert f"{output} is in Kafka's own {partition}" in run.err
    assert files_of(partition.parent) == before
    assert not output.exists()
