"""`kdump retain`: its report for people and for programs, where settings come from, and deleting."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Any

import pytest

from kdump.change.journal import unfinished
from kdump.formats import names
from kdump.formats.config_resources import BROKER_RESOURCE, TOPIC_RESOURCE
from tests.change.kept import change_files, killed_after, only_change
from tests.commands.running import Run
from tests.retention.building import (
    DAY,
    HOUR,
    NOW,
    checkpoint,
    log_names,
    read_checkpoint,
    settle,
    write_log,
)
from tests.topics.building import Log, metadata_pairs

CORPUS = Path(__file__).resolve().parent.parent.parent / "fixtures" / "corpus"
OLD, YOUNG = NOW - 8 * DAY, NOW - HOUR
WEEK = f"--retention-ms={7 * DAY}"
AT = f"--now={NOW}"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A log directory with old segments, blocked ones, and a compacted topic."""
    folder = tmp_path / "data"
    write_log(folder / "orders-0", [[[OLD]], [[OLD]], [[YOUNG]]])
    write_log(folder / "stuck-0", [[[OLD, OLD * 1000]], [[OLD]], [[YOUNG]]])
    write_log(folder / "keyed-0", [[[OLD]], [[OLD]], [[YOUNG]]])
    for name in ("orders-0", "stuck-0", "keyed-0"):
        settle(folder / name)
    checkpoint(folder, names.REPLICATION_CHECKPOINT, orders=3, stuck=4, keyed=3)
    checkpoint(folder, names.RECOVERY_POINT_CHECKPOINT, orders=3, stuck=4, keyed=3)
    checkpoint(folder, names.LOG_START_CHECKPOINT)
    checkpoint(folder, names.CLEANER_CHECKPOINT, keyed=2)
    (folder / names.CLEAN_SHUTDOWN).write_text('{"version":0,"brokerEpoch":-1}')
    (folder / names.META_PROPERTIES).write_text("version=1\nnode.id=3\ncluster.id=abc\n")
    return folder


def only(rows: list[dict[str, Any]], kind: str, **wanted: object) -> dict[str, Any]:
    """The one row of a type in which these fields have these values."""
    found = [row for row in rows if row["type"] == kind and all(row[name] == value for name, value in wanted.items())]
    assert len(found) == 1, found
    return found[0]


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_log_directory_in_words(run: Run, data: Path) -> None:
    before = tree(data)
    assert run("retain", data, WEEK, AT) == 1
    assert run.err == ""
    assert tree(data) == before
    text = run.out
    assert "1 partition deletes nothing now (-v)" in text
    assert "Dry run: nothing was changed. 1 partition would be.\nNext: kdump retain " in text
    assert f"{data}/keyed-0" not in text
    assert run("retain", data, WEEK, AT, "-v") == 1
    text = run.out
    assert f"{data}/orders-0   delete; retention.ms 7 d, retention.bytes no limit (from the command line" in text
    assert "deletes 2 segments (2 by time)" in text
    assert "the log then starts at 2" in text
    assert "Next deletion: segment 2, at 2027-01-22T07:00:00.001Z, in 6 d 23 h" in text
    assert "BLOCKED: retention stops at 00000000000000000000.log, which is not older than retention.ms" in text
    assert "record 1 in batch 0\N{EN DASH}1 at byte 0 has timestamp" in text
    assert f"{OLD * 1000} is a time in microseconds; Kafka treats it as ms" in text
    assert "kafka-delete-records.sh --bootstrap-server HOST:9092 --offset-json-file delete.json" in text
    assert "compact: nothing is deleted by time or by size" in text
    assert "the cleaner's checkpoint, which names the partition" in text
    assert "no tombstones" in text
    rows = run.table("POLICY")
    assert [(row["POLICY"], row["SEGMENTS"]) for row in rows[:4]] == [
        ("log start offset", "0"),
        ("size", "0"),
        ("time", "2"),
        ("together", "2"),
    ]
    assert "1 partition blocked" in text


def test_a_partition_lists_its_segments(run: Run, data: Path) -> None:
    assert run("retain", data / "stuck-0", WEEK, AT) == 0
    rows = run.table("BASE OFFSET")
    assert [(row["BASE OFFSET"], row["LAST"]) for row in rows[:3]] == [
        ("0", "1"),
        ("2", "2"),
        ("3", "3"),
    ]
    assert [row["DELETED IN"] for row in rows[1:3]] == ["blocked", "6 d 23 h"]
    assert run("retain", data / "stuck-0", WEEK, AT, "--no-segments") == 0
    assert "BASE OFFSET" not in run.out


def test_json_lines(run: Run, data: Path) -> None:
    assert run("retain", data, WEEK, AT, "--format", "jsonl", "--segments") == 1
    orders = only(run.rows, "partition", topic="orders")
    fields = ("deletes", "logStartOffset", "newLogStartOffset", "isRolled", "blocked")
    assert {name: orders[name] for name in fields} == {
        "deletes": 2,
        "logStartOffset": 0,
        "newLogStartOffset": 2,
        "isRolled": False,
        "blocked": None,
    }
    assert orders["config"] == {
        "cleanup.policy": "delete",
        "retention.ms": 7 * DAY,
        "retention.bytes": -1,
        "delete.retention.ms": 86_400_000,
    }
    assert orders["configFrom"] == ["the command line"]
    assert orders["byPolicy"]["time"] == {"segments": 2, "space": orders["frees"]}
    assert orders["next"] == {
        "baseOffset": 2,
        "due": YOUNG + 7 * DAY + 1,
        "moreBytes": None,
        "logStartOffset": None,
    }
    stuck = only(run.rows, "partition", topic="stuck")
    assert stuck["blocked"]["blockedSegments"] == [2]
    assert stuck["blocked"]["freeOffset"] == 3
    assert stuck["blocked"]["blockedBy"]["recordOffset"] == 1
    assert stuck["blocked"]["blockedBy"]["seemsToBeIn"] == "microseconds"
    assert [item["text"] for item in stuck["advice"]]
    first = only(run.rows, "segment", topic="orders", baseOffset=0)
    assert (first["deletedBy"], first["isBlocked"], first["timestampFrom"]) == ("time", False, "timeindex")
    assert only(run.rows, "segment", topic="stuck", baseOffset=2)["isBlocked"]
    keyed = only(run.rows, "partition", topic="keyed")
    assert keyed["tombstones"] == {"due": 0, "waiting": 0, "unset": 0, "nextHorizon": None, "lastHorizon": None}
    total = only(run.rows, "logDirectory")
    assert (total["partitions"], total["partitionsWithWork"], total["partitionsBlocked"]) == (3, 1, 1)
    assert total["frees"] == {"segments": 2, "space": orders["frees"]}
    assert run("retain", data / "orders-0", WEEK, AT, "--format", "jsonl", "--no-segments") == 1
    assert [row["type"] for row in run.rows] == ["partition"]


def test_settings_from_files(run: Run, data: Path, tmp_path: Path) -> None:
    server = tmp_path / "server.properties"
    server.write_text("log.retention.hours=720\nlog.retention.bytes=12\n")
    topic = tmp_path / "orders.properties"
    topic.write_text("retention.ms=-1\nretention.bytes=-1\n")
    files = ("--config", server, "--config", f"ord*={topic}")
    assert run("retain", data, AT, "--format=jsonl", *files) == 1
    assert only(run.rows, "partition", topic="orders")["deletes"] == 0
    assert only(run.rows, "partition", topic="orders")["configFrom"] == [str(server), str(topic)]
    stuck = only(run.rows, "partition", topic="stuck")
    assert (stuck["byPolicy"]["size"]["segments"], stuck["config"]["retention.ms"]) == (2, 720 * HOUR)
    server.write_text("log.retention.hours=soon\n")
    assert run("retain", data, "--config", server) == 2
    assert "log.retention.hours is 'soon'" in run.err
    assert run("retain", data, "--config", tmp_path / "missing") == 2
    assert "No such file" in run.err


def test_settings_from_the_metadata_log_beside(run: Run, data: Path) -> None:
    metadata = data / names.CLUSTER_METADATA_DIR

    def config(kind: int, resource: str, name: str, value: str) -> tuple[str, dict[str, Any]]:
        return "Config", {"resourceType": kind, "resourceName": resource, "name": name, "value": value}

    records = metadata_pairs(
        config(TOPIC_RESOURCE, "orders", "retention.ms", str(30 * DAY)),
        config(BROKER_RESOURCE, "", "log.retention.ms", str(20 * DAY)),
        config(BROKER_RESOURCE, "3", "log.retention.bytes", "12"),
    )
    Log(metadata).add(*records).write()
    assert run("retain", data, AT, "--format=jsonl") == 1
    assert [row["topic"] for row in run.of_type("partition")] == ["keyed", "orders", "stuck"]
    orders, stuck = (only(run.rows, "partition", topic=topic) for topic in ("orders", "stuck"))
    assert orders["configFrom"] == ["the cluster's metadata log"]
    assert (orders["config"]["retention.ms"], orders["config"]["retention.bytes"]) == (30 * DAY, 12)
    assert stuck["config"]["retention.ms"] == 20 * DAY
    other = data.parent / "other"
    other.mkdir()
    (other / names.META_PROPERTIES).write_bytes((data / names.META_PROPERTIES).read_bytes())
    (data / "stuck-0").rename(other / "stuck-0")
    assert run("retain", data, other, AT, "--format=jsonl") == 1
    assert only(run.rows, "partition", topic="stuck")["config"]["retention.ms"] == 20 * DAY
    log = metadata / f"{0:020d}.log"
    log.write_bytes(log.read_bytes()[:-1] + b"\xff")
    assert run("retain", data, AT, "--format=jsonl") == 1
    assert "settings of topics in it do not count" in run.err
    assert only(run.rows, "partition", topic="orders")["configFrom"] == ["Kafka's defaults"]


def test_flags_that_cannot_be(run: Run, data: Path) -> None:
    assert run("retain", data, "--cleanup-policy", "shrink") == 2
    assert "cleanup.policy is 'shrink'" in run.err
    assert run("retain", data, "--no-backup") == 2
    assert "--no-backup needs --apply" in run.err
    assert run("retain", data / "orders-0" / f"{0:020d}.log") == 2
    assert "is a file: give the partition directory that it is in" in run.err
    assert run("retain", data, "--topic", "nothing*") == 3
    assert "no partition has a topic that matches nothing*" in run.err
    assert run("retain", data / "missing-0") == 3
    write_log(data / names.CLUSTER_METADATA_DIR, [[[OLD]], [[YOUNG]]])
    assert run("retain", data / names.CLUSTER_METADATA_DIR) == 3
    assert "KRaft trims this log by its snapshots" in run.err
    assert run("retain", data / "orders-0", f"{data}/./orders-0", WEEK, AT, "--format=jsonl") == 1
    assert len(run.of_type("partition")) == 1


def test_a_high_watermark_and_a_log_start_offset_that_are_given(run: Run, data: Path) -> None:
    assert run("retain", data / "orders-0", WEEK, AT, "--high-watermark", 1, "--format=jsonl") == 1
    found = only(run.rows, "partition")
    assert (found["deletes"], found["blocked"]["reason"]) == (1, "highWatermark")
    assert run("retain", data / "orders-0", AT, "--log-start-offset", 4) == 3
    assert "the log cannot start at 4, for its high watermark is 3" in run.err
    assert run("retain", data / "stuck-0", AT, "--log-start-offset", 3, "--format=jsonl") == 1
    found = only(run.rows, "partition")
    assert found["byPolicy"]["logStart"]["segments"] == 2
    assert found["configFrom"] == ["nothing but --log-start-offset, so only that counts"]


def test_the_command_that_is_advised_does_what_it_says(run: Run, data: Path) -> None:
    assert run("retain", data / "stuck-0", WEEK, AT, "--format=jsonl") == 0
    (command,) = [
        line for item in only(run.rows, "partition")["advice"] for line in item["commands"] if line.startswith("kdump")
    ]
    assert run(*command.split()[1:], AT) == 0
    assert log_names(data / "stuck-0") == ["3"]


def test_apply(run: Run, data: Path) -> None:
    assert run("retain", data, WEEK, AT, "--apply") == 0
    assert log_names(data / "orders-0") == ["2"]
    assert log_names(data / "stuck-0") == ["0", "2", "3"]
    assert log_names(data / "keyed-0") == ["0", "1", "2"]
    change = only_change(data / "orders-0")
    where = data / "orders-0"
    end = f"Check: kdump verify {where}\nUndo:  kdump undo {where} --change {change.id}\n"
    assert run.out.endswith(f"until kdump undo --prune.\n{end}")
    assert len(change_files(data, f"old+{0:020d}.log")) == 1
    assert run("retain", data, WEEK, AT, "--apply") == 0
    assert run.lines[-1] == "Nothing is deleted now."
    assert run("retain", data, WEEK, AT) == 0


def test_apply_without_a_backup_as_json(run: Run, data: Path) -> None:
    checkpoint(data, names.RECOVERY_POINT_CHECKPOINT, orders=1, stuck=4, keyed=3)
    assert run("retain", data / "orders-0", WEEK, AT, "--apply", "--no-backup", "--format=jsonl") == 0
    assert change_files(data) == []
    assert read_checkpoint(data, names.RECOVERY_POINT_CHECKPOINT)["orders"] == 2
    files = [row["file"] for row in run.of_type("operation")]
    assert f"{0:020d}.log" in files
    change = only(run.rows, "operation", file=names.RECOVERY_POINT_CHECKPOINT)
    assert (change["action"], change["oldOffset"], change["offset"], change["size"]) == ("checkpoint", 1, 2, None)
    applied = only(run.rows, "applied")
    assert (applied["operations"], applied["change"]) == (len(files), None)
    assert run.rows[-1] == applied


def test_apply_needs_to_know_the_settings(run: Run, data: Path) -> None:
    before = tree(data)
    assert run("retain", data, AT) == 1
    assert run("retain", data, AT, "--apply") == 4
    assert "orders-0: kdump does not know this topic's retention" in run.err
    assert tree(data) == before


def test_apply_is_refused_where_a_broker_holds_the_lock(run: Run, data: Path) -> None:
    (data / names.LOCK).touch()
    before = tree(data)
    holder = os.fork()  # a lock is no obstacle to the process that has it
    if not holder:
        with open(data / names.LOCK, "r+") as lock:
            fcntl.lockf(lock, fcntl.LOCK_EX)
            (data / "held").touch()
            while (data / "held").exists():
                pass
        os._exit(0)
    while not (data / "held").exists():
        pass
    try:
        assert run("retain", data, WEEK, AT, "--apply") == 4
        assert f"Refused: a broker is running on {data} (process {holder} holds .lock)." in run.err
        assert run("retain", data, WEEK, AT) == 1  # what the broker will do is shown
        assert f"Note: a broker is running on {data}." in run.err
    finally:
        (data / "held").unlink()
        os.waitpid(holder, 0)
    assert tree(data) == before


def test_apply_is_refused_where_a_log_grows(run: Run, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = data / "orders-0" / f"{2:020d}.log"
    monkeypatch.setattr("kdump.disk.locks.time.sleep", lambda _: log.write_bytes(log.read_bytes() + b"more"))
    assert run("retain", data, WEEK, AT, "--apply") == 4
    assert "is being written" in run.err
    assert log_names(data / "orders-0") == ["0", "1", "2"]


def test_an_interrupted_run_is_told_of_and_finished(run: Run, data: Path) -> None:
    before = tree(data / "orders-0")
    with killed_after(2):
        run("retain", data, WEEK, AT, "--apply")
    assert run("retain", data, WEEK, AT) == 1
    assert "was interrupted: --apply finishes it" in run.err
    (id_,) = {change.id for change in unfinished(str(data / "orders-0"))}
    assert run("retain", data, WEEK, AT, "--apply") == 0
    assert "was interrupted, and is finished now" in run.err
    assert "Done. 1 partition changed; the originals are kept" in run.out
    assert f"Undo:  kdump undo {data}/orders-0 --change {id_}" in run.lines
    assert run("retain", data, WEEK, AT) == 0
    assert run("undo", data / "orders-0", "--change", id_, "--apply") == 0
    assert tree(data / "orders-0") == before


def test_what_cannot_be_read_is_told_and_the_rest_done(run: Run, data: Path) -> None:
    (data / "orders-0" / f"{1:020d}.log").unlink()
    (data / "orders-0" / f"{1:020d}.log").symlink_to(data / "orders-0" / "nowhere")
    checkpoint(data, names.LOG_START_CHECKPOINT, stuck=99)
    assert run("retain", data, WEEK, AT, "-v") == 3
    assert "the log start offset 99 is above the log end offset 4" in run.err
    assert f"{data}/keyed-0" in run.out


def test_names_and_times_cannot_drive_a_terminal(run: Run, tmp_path: Path) -> None:
    folder = write_log(tmp_path / "bad\x1b[31m" / "orders-0", [[[OLD]], [[NOW * 1000]], [[OLD]], [[YOUNG]]])
    assert run("retain", folder.parent, WEEK, AT) == 1
    assert "\x1b" not in run.out + run.err
    assert run("retain", folder.parent, WEEK, AT, "--format=jsonl") == 1
    assert "\x1b" not in run.out


def test_of_kafkas_own_logs_nothing_is_changed_by_looking(run: Run) -> None:
    seen = 0
    for case in sorted(CORPUS.iterdir()):
        before = {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in case.rglob("*")}
        code = run("retain", case, "--now", 1_700_086_400_000, "--retention-ms", 1000, "--segments")
        assert code in (0, 1, 3), case
        assert "Traceback" not in run.err
        assert {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in case.rglob("*")} == before
        seen += 1
    assert seen > 30


def padded(path: Path) -> None:
    """A time index that was not cut to its entries."""
    path.write_bytes(path.read_bytes() + bytes(24))


def flipped(path: Path) -> None:
    """A last entry with an older timestamp."""
    data = bytearray(path.read_bytes())
    data[-12:-4] = OLD.to_bytes(8, "big")
    path.write_bytes(data)


@pytest.mark.parametrize("damage", [padded, flipped, Path.unlink])
def test_a_deletion_by_a_damaged_time_index_is_refused(run: Run, data: Path, damage: Any) -> None:
    """What the log proves to be old goes; nothing of a partition of which it does not prove a part."""
    write_log(data / "clicks-0", [[[YOUNG]], [[YOUNG]], [[YOUNG]]])
    settle(data / "clicks-0")
    partition = data / "clicks-0"
    damage(partition / f"{0:020d}.timeindex")
    os.utime(partition / f"{0:020d}.log", (OLD / 1000, OLD / 1000))
    before = tree(partition)
    assert run("retain", data, WEEK, AT) == 1
    rebuild = f"kdump rebuild-index {partition} --apply"
    assert f"Next: {rebuild}" in run.out
    assert run("retain", data, WEEK, AT, "--apply") == 4
    assert tree(partition) == before
    assert rebuild in run.err
    assert log_names(data / "orders-0") == ["2"]
    assert run(*rebuild.split()[1:]) == 0
    assert run("retain", partition, WEEK, AT, "--apply") == 0
    assert log_names(partition) == ["0", "1", "2"]


def test_a_deletion_by_timestamps_in_seconds_is_refused(run: Run, data: Path) -> None:
    write_log(data / "clicks-0", [[[YOUNG // 1000]], [[YOUNG // 1000]], [[YOUNG]]])
    settle(data / "clicks-0")
    assert run("retain", data / "clicks-0", WEEK, AT, "--apply") == 4
    assert "retention.ms=-1" in run.err
    delete = run.err.partition("To delete them all the same: kdump ")[2].split("\n")[0]
    assert run(*delete.split()) == 0
    assert log_names(data / "clicks-0") == ["2"]


def test_a_deletion_by_a_contradicted_log_start_offset_is_refused(run: Run, data: Path) -> None:
    checkpoint(data, names.REPLICATION_CHECKPOINT, orders=1, stuck=4, keyed=3)
    checkpoint(data, names.LOG_START_CHECKPOINT, orders=2)
    assert run("retain", data / "orders-0", "--retention-ms=-1", AT, "--apply") == 4
    assert "log-start-offset-checkpoint: 2 is above the high watermark 1" in run.err
