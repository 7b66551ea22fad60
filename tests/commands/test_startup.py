"""`kdump startup`: what an operator is told of a broker's next start, and what a script can go by."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kdump.formats import names
from kdump.formats.uuids import format_uuid
from kdump.library.verifying import verify
from kdump.releases import KafkaRelease, newest_metadata_version
from tests.agreement.running import Said, kdump
from tests.recovery.building import METADATA, batch, broken, file, produced
from tests.rows import rows_in
from tests.topics.building import ORDERS_ID, Log, cluster_directory, metadata_pairs

FIXTURES = Path(__file__).resolve().parent.parent.parent / "fixtures" / "corpus"
KAFKAS_CLOCK = 1_700_086_400_000
UNIQUE = "0123456789abcdef" * 2
META = "version=1\nnode.id=3\ncluster.id=abc\n"
BASES = (0, 4, 8)
BATCHES = {base: [batch(base, 2), batch(base + 2, 2)] for base in BASES}
SIZE = len(batch(0, 2))

STEP = {"type", "topic", "partition", "path", "action", "file", "why", "position", "size", "lost"}
OUTCOME = {
    "type", "topic", "partition", "path", "state", "isLoaded", "failure", "isClean", "recoveryPoint", "highWatermark",
    "logStartOffset",
    "logEndOffset", "newRecoveryPoint", "hasLoss", "lost", "files", "stray", "expiring",
}  # fmt: skip
FAILURE = {"exception", "message", "file", "position", "isBrokerStartable"}
LOST = {"bytes", "zeros", "batches", "records", "firstOffset", "lastOffset"}
DIRECTORY = {"type", "path", "isOnline", "isController", "isClean", "failures", "warnings"}
BROKER = {"type", "kafka", "isStartable", "offline", "failures", "orderDecides"}


class Run:
    """Runs `kdump startup` in this process and keeps what came out."""

    def __init__(self, capture: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch) -> None:
        self._capture = capture
        self._patch = patch

    def __call__(self, *arguments: object) -> int:
        from kdump.commands.cli import main

        self._patch.setattr(sys, "argv", ["kdump", "startup", *map(str, arguments)])
        with pytest.raises(SystemExit) as done:
            main()
        self.out, self.err = self._capture.readouterr()
        assert "Traceback" not in self.err
        assert isinstance(done.value.code, int)
        return done.value.code

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def rows(self) -> list[dict[str, Any]]:
        return rows_in("\n".join(self.lines))

    def of_type(self, kind: str) -> list[dict[str, Any]]:
        return [row for row in self.rows if row["type"] == kind]

    def line(self, start: str) -> str:
        """The only line that begins so, blanks apart."""
        (found,) = [line for line in self.lines if line.strip().startswith(start)]
        return found.strip()


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    return Run(capfd, monkeypatch)


def partition(path: Path, files: dict[str, bytes] | None = None) -> Path:
    """A partition of three segments with offsets 0 to 11, and these files besides or instead."""
    path.mkdir(parents=True)
    logs = {file(base, "log"): b"".join(batches) for base, batches in BATCHES.items()}
    indexes = {file(base, kind): b"" for base in BASES for kind in ("index", "timeindex")}
    for name, content in (logs | indexes | {names.PARTITION_METADATA: METADATA} | (files or {})).items():
        (path / name).write_bytes(content)
    return path


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A log directory that was not closed in order, with a sound partition."""
    folder = tmp_path / "data"
    partition(folder / "orders-0")
    (folder / names.META_PROPERTIES).write_text(META)
    (folder / names.RECOVERY_POINT_CHECKPOINT).write_text("0\n2\norders 0 8\norders 1 4\n")
    (folder / names.REPLICATION_CHECKPOINT).write_text("0\n2\norders 0 12\norders 1 12\n")
    return folder


@pytest.fixture
def damaged(data: Path) -> Path:
    """The log directory with a second partition, whose middle segment is damaged."""
    partition(data / "orders-1", {file(4, "log"): BATCHES[4][0] + broken(BATCHES[4][1])})
    return data


def test_a_partition_that_loses_data(run: Run, damaged: Path) -> None:
    assert run(damaged / "orders-1") == 1
    assert run.err == ""
    assert run.lines[0] == f"{damaged / 'orders-1'}   loses offsets 6\N{EN DASH}11: 2 valid batches among them"
    assert [line.replace(":", "").split()[:2] for line in run.lines[1:-3]] == [
        ["check", file(4, "log")],
        ["cut", file(4, "log")],
        ["remove", file(8, "log")],
        ["write", file(4, "snapshot")],
        ["write", file(4, "timeindex")],
        ["write", file(6, "snapshot")],
        ["write", names.LEADER_EPOCH_CHECKPOINT],
    ]
    assert run.line("then") == "then    log start offset 0, log end offset 6 (high watermark was 12)"
    cut = f"at byte {SIZE} of {2 * SIZE}: batch 6\N{EN DASH}7 (2 records, {SIZE} bytes) fails its CRC"
    assert cut in run.line("cut")
    assert f"{file(4, 'log')} before it is cut, so later ones are removed" in run.line("remove")
    assert f"({2 * SIZE} bytes)" in run.line("check")
    assert run.lines[-1] == f"Next: before you start it: kdump doctor {damaged / 'orders-1'}"


def test_a_log_directory_tells_the_harmless_as_a_count(run: Run, damaged: Path) -> None:
    assert run(damaged) == 1
    assert run.lines[:2] == [
        f"{damaged}: unclean shutdown (.kafka_cleanshutdown is missing).",
        f"The broker re-checks each log from its recovery point: 2 segments, {4 * SIZE} bytes.",
    ]
    assert "orders-0" not in run.out
    assert [line.split()[0] for line in run.lines[3:7]] == [str(damaged / "orders-1"), "cut", "remove", "then"]
    assert run.lines[8] == "The broker will start. 1 of 2 partitions loses data; 1 loses nothing."
    assert run.lines[-1] == f"Next: before you start it: kdump doctor {damaged}"
    assert run(damaged, "--verbose") == 1
    assert f"  check   {file(8, 'log')} " in run.out
    assert f"{damaged / 'orders-0'}   loses nothing" in run.lines


def test_a_segment_without_an_index_is_counted_once(run: Run, data: Path) -> None:
    """The broker checks it when it opens it, and again where it lies behind the recovery point."""
    run(data, "--unclean", "--recovery-point", "0")
    checked = run.lines[1]
    for index in (data / "orders-0").glob("*.index"):
        index.unlink()
    run(data, "--unclean", "--recovery-point", "0")
    assert run.lines[1] == checked


def test_partitions_come_by_topic_and_number(run: Run, data: Path) -> None:
    for number in (10, 2):
        partition(data / f"orders-{number}")
    assert run(data, "-v") == 0
    shown = [line.split()[0].rpartition("/")[2] for line in run.lines if line.endswith("loses nothing")]
    assert shown == ["orders-0", "orders-2", "orders-10"]


def test_a_clean_shutdown_trusts_everything(run: Run, damaged: Path) -> None:
    (damaged / names.CLEAN_SHUTDOWN).touch()
    assert run(damaged) == 0
    assert run.lines[0] == f"{damaged}: clean shutdown."
    assert run.lines[-1] == "The broker will start. 2 partitions lose nothing."
    assert run(damaged, "--unclean") == 1
    assert run.lines[0].endswith("treated as after an unclean shutdown (--unclean).")
    (damaged / names.CLEAN_SHUTDOWN).unlink()
    assert run(damaged, "--clean") == 0
    assert run.lines[0].endswith("treated as after a clean shutdown (--clean).")


def test_options_stand_in_for_the_checkpoints(run: Run, damaged: Path) -> None:
    assert run(damaged / "orders-1", "--recovery-point", 8) == 0
    assert "loses nothing" in run.lines[0]
    assert run(damaged / "orders-1", "--recovery-point", 8, "--log-start-offset", 5) == 0
    assert "log start offset 5, log end offset 12" in run.out
    assert run(damaged / "orders-1", "--clean", "--log-start-offset", 50) == 1
    assert "loses 666 bytes" in run.lines[0].replace(str(6 * SIZE), "666")
    assert "log start offset 50, log end offset 50" in run.out
    assert "salvage" not in run.out


def test_zeros_are_no_data(run: Run, data: Path) -> None:
    log = data / "orders-0" / file(8, "log")
    log.write_bytes(log.read_bytes() + bytes(1000))
    assert run(data / "orders-0") == 0
    assert run.lines[0].endswith("loses 1000 zero bytes, never written")
    assert "1000 bytes of zeros up to the end" in run.line("cut")


def test_leftovers_and_swaps(run: Run, data: Path) -> None:
    folder = data / "orders-0"
    (folder / file(0, "log.deleted")).touch()
    for kind in ("log", "index", "timeindex"):
        shutil.copy(folder / file(4, kind), folder / file(4, f"{kind}.swap"))
    assert run(folder) == 0
    assert run.line(f"delete  {file(0, 'log.deleted')}").endswith("it was scheduled for deletion")
    assert run.line(f"rename  {file(4, 'log.swap')}").endswith(f"it becomes {file(4, 'log')}")
    assert run.line(f"delete  {file(4, 'log')}").endswith("a complete swap replaces the offsets from 4 to 7")


def test_nothing_changes(run: Run) -> None:
    assert run(FIXTURES / "s-src-none" / "topic-0", "--clean", "--now", KAFKAS_CLOCK) == 0
    assert run.lines[0].endswith("loses nothing")
    assert [line.split()[0] for line in run.lines[1:]] == ["then"]


def test_a_partition_that_does_not_load(run: Run, data: Path) -> None:
    log = data / "orders-0" / file(8, "log")
    log.write_bytes(log.read_bytes() + bytes(1000))
    assert run(data, "--clean") == 1
    assert run.lines[0] == "The broker will NOT start:"
    assert "Found record size 0 smaller than minimum record overhead (14)" in run.lines[1]
    assert run.line(str(data / "orders-0")).endswith("does not load: the process of the broker ends")
    assert run.line("fails").startswith("fails   org.apache.kafka.common.errors.CorruptRecordException: ")
    assert run.line("The broker will NOT start.").endswith("1 of 1 partition would not load.")


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        (names.LEADER_EPOCH_CHECKPOINT, "0\n1\nx 0\n", 'java.lang.NumberFormatException: For input string: "x"'),
        (names.PARTITION_METADATA, "version: 0\n", "java.lang.NullPointerException: Cannot invoke"),
    ],
)
def test_small_files_that_end_the_process(run: Run, data: Path, name: str, content: str, text: str) -> None:
    (data / "orders-0" / name).write_text(content)
    assert run(data) == 1
    assert run.lines[0] == "The broker will NOT start:"
    assert text in run.lines[1]
    assert run.lines[1].endswith(f"({name})")


def test_a_fault_of_the_disk_takes_the_directory_offline(run: Run, data: Path, tmp_path: Path) -> None:
    (data / "orders-0" / names.LEADER_EPOCH_CHECKPOINT).write_text("nonsense")
    assert run(data) == 1
    assert run.line(str(data / "orders-0")).endswith("does not load: the log directory goes offline")
    assert run.lines[0] == f"The broker will NOT start if {data} is all it has:"
    second = tmp_path / "second"
    partition(second / "orders-1")
    (second / names.META_PROPERTIES).write_text(META)
    assert run(data, second) == 1
    assert run.lines[0] == f"The broker starts without {data}:"
    assert "Malformed line in checkpoint file" in run.lines[1]
    assert run(data, second, "--format", "jsonl") == 1
    (broker,) = run.of_type("broker")
    assert set(broker) == BROKER
    assert (broker["isStartable"], broker["offline"], broker["failures"]) == (True, [str(data)], [])


@pytest.mark.parametrize("name", [names.RECOVERY_POINT_CHECKPOINT, names.LOG_START_CHECKPOINT])
def test_a_log_that_is_read_in_a_faulty_directory_ends_the_process(run: Run, data: Path, name: str) -> None:
    (data / name).write_text("0\n9\n")
    assert run(data) == 1
    assert run.lines[0] == f"The broker will NOT start if {data} is all it has:"
    log = data / "orders-0" / file(8, "log")
    log.write_bytes(log.read_bytes() + produced(12, 7, transactional=True))
    assert run(data) == 1
    assert run.lines[0] == "The broker will NOT start:"
    assert f"The log dir {data} is already offline due to a previous IO exception." in run.lines[1]


@pytest.mark.parametrize("first", ["orders-0", "orders-1"])
def test_the_order_of_the_partitions_may_decide(
    run: Run, data: Path, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    """A torn partition.metadata is noted for the whole directory: a log with an open transaction behind it is fatal."""
    partition(data / "orders-1", {names.PARTITION_METADATA: b"version: 0\nno topic id"})
    log = data / "orders-0" / file(8, "log")
    log.write_bytes(log.read_bytes() + produced(12, 7, transactional=True))
    listed = os.scandir

    @contextmanager
    def in_order(path: str) -> Iterator[list[os.DirEntry[str]]]:
        with listed(path) as entries:
            yield sorted(entries, key=lambda entry: entry.name != first)

    monkeypatch.setattr(os, "scandir", in_order)
    assert run(data) == 1
    dies = first == "orders-1"
    assert run.lines[0] == f"The broker will NOT start{'' if dies else f' if {data} is all it has'}:"
    note = "whether the process ends or the directory goes offline depends on the order"
    assert [line for line in run.lines if note in line]
    assert run(data, "--format", "jsonl") == 1
    (broker,) = run.of_type("broker")
    assert (broker["isStartable"], broker["orderDecides"]) == (not dies, [str(data)])
    (data / "orders-1" / names.PARTITION_METADATA).write_bytes(METADATA)
    assert run(data) == 0
    assert note not in run.out


def test_a_checkpoint_that_only_its_reader_stumbles_over_counts_as_empty(run: Run, data: Path) -> None:
    (data / names.RECOVERY_POINT_CHECKPOINT).write_text("0\n1\norders zero 8\n")
    assert run(data) == 0
    assert "the broker treats it as empty, so after an unclean shutdown every segment is checked" in run.line("warning")


def test_directories_of_other_states(run: Run, data: Path) -> None:
    for state in ("delete", "stray", "future"):
        partition(data / f"orders-5.{UNIQUE}-{state}")
    assert run(data) == 0
    shown = {state: run.line(str(data / f"orders-5.{UNIQUE}-{state}")) for state in ("delete", "stray", "future")}
    assert "delete: it waits for its deletion" in shown["delete"]
    assert "until an operator removes it" in shown["stray"]
    assert "a move between log directories" in shown["future"]
    assert run(data, "--format", "jsonl") == 0
    assert sorted(row["state"] for row in run.of_type("outcome")) == ["delete", "future", "live", "stray"]


def test_what_is_wrong_with_the_directory_itself(run: Run, data: Path) -> None:
    for number in range(5):
        (data / f"lost{number}+found").mkdir()
    (data / names.META_PROPERTIES).unlink()
    (data / names.REPLICATION_CHECKPOINT).write_text("0\n1\norders 0 x\n")
    assert run(data) == 1
    assert "every high watermark starts at 0" in run.line("warning")
    assert run.lines[0] == "The broker will NOT start:"
    assert run.lines[1].startswith(f"  java.lang.RuntimeException: No `meta.properties` found in {data} (have you run")
    assert "'lost0+found' is not in the form of topic-partition" in run.lines[2]
    assert run.lines[5] == "  and 2 more like these"


def test_a_partition_in_two_log_directories(run: Run, data: Path, tmp_path: Path) -> None:
    second = tmp_path / "second"
    partition(second / "orders-0")
    (second / names.META_PROPERTIES).write_text(META)
    assert run(data, second) == 1
    assert run.lines[0] == "The broker will NOT start:"
    assert "Duplicate log directories for orders-0 are found in both" in run.lines[1]
    (second / names.META_PROPERTIES).write_text(META.replace("3", "4"))
    assert run(data, second) == 0
    assert "meta.properties is of another broker (node 4 of cluster abc)" in run.line("warning")
    assert run(data, data, "--format", "jsonl") == 0
    assert run.of_type("failure") == []


def test_a_replica_that_lacks_committed_records_is_shown(run: Run, data: Path) -> None:
    (data / "orders-0" / file(8, "log")).unlink()
    assert run(data) == 0
    assert run.line(str(data / "orders-0")).endswith("lacks committed offsets 8\N{EN DASH}11")
    assert run.line("then").endswith("log end offset 8 (high watermark was 12)")


def test_every_field_is_documented() -> None:
    text = (FIXTURES.parent.parent / "docs" / "startup.md").read_text()
    text += (FIXTURES.parent.parent / "docs" / "json.md").read_text()
    for field in (STEP | OUTCOME | FAILURE | LOST | DIRECTORY | BROKER) - {"type"}:
        assert f"`{field}`" in text or f'"{field}"' in text, field


@pytest.mark.parametrize(
    "case", ["i-crc-payload-active", "z-3-93", "i-idx-swap-first", "i-snap-crc", "f-cluster-metadata"]
)
@pytest.mark.parametrize("clean", ["--clean", "--unclean"])
def test_lines_of_json(run: Run, case: str, clean: str) -> None:
    folder = FIXTURES / case
    assert run(folder, clean, "--recovery-point", 0, "--now", KAFKAS_CLOCK, "--format", "jsonl") in (0, 1)
    first, *rest, broker = run.rows
    assert set(broker) == BROKER
    assert set(first) == DIRECTORY
    assert first["type"] == "logDirectory"
    assert first["isClean"] == (clean == "--clean")
    outcomes = [row for row in rest if row["type"] == "outcome"]
    assert len(outcomes) == 1
    assert rest[-1] is outcomes[0]
    for row in rest[:-1]:
        assert row["type"] == "step"
        assert set(row) == STEP
        assert row["lost"] is None or set(row["lost"]) == LOST
    (outcome,) = outcomes
    assert set(outcome) == OUTCOME
    assert set(outcome["lost"]) == LOST
    assert outcome["hasLoss"] == (outcome["lost"]["bytes"] > outcome["lost"]["zeros"])
    assert outcome["lost"]["bytes"] == sum(row["lost"]["bytes"] for row in rest[:-1] if row["lost"])
    assert outcome["isLoaded"]
    assert all(isinstance(size, int) for size in outcome["files"].values())


def test_a_failure_in_json(run: Run, data: Path) -> None:
    log = data / "orders-0" / file(8, "log")
    log.write_bytes(log.read_bytes() + bytes(1000))
    assert run(data / "orders-0", "--clean", "--format", "jsonl") == 1
    outcome = run.rows[-1]
    assert set(outcome["failure"]) == FAILURE
    assert not outcome["isLoaded"]
    assert [outcome[key] for key in ("logStartOffset", "logEndOffset", "newRecoveryPoint", "files")] == [None] * 4
    assert outcome["failure"]["exception"] == "org.apache.kafka.common.errors.CorruptRecordException"
    assert outcome["failure"]["file"] == file(8, "log")
    assert not outcome["failure"]["isBrokerStartable"]


def test_settings_come_from_a_file(run: Run, data: Path, tmp_path: Path) -> None:
    config = tmp_path / "server.properties"
    config.write_text("# ours\nlog.dirs=/data\nlog.index.interval.bytes = 1\n")
    assert run(data / "orders-0", "--recovery-point", 0, "--config", config, "--format", "jsonl") == 0
    assert run.rows[-1]["files"][file(0, "index")] == 8
    assert run(data / "orders-0", "--recovery-point", 0, "--format", "jsonl") == 0
    assert run.rows[-1]["files"][file(0, "index")] == 0


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"log.index.interval.bytes=a lot\n", "log.index.interval.bytes is 'a lot': expected a number from 0"),
        (b"a=\\u12\n", "Malformed \\uxxxx encoding"),
        (b"message.format.version=new\n", "expected a Kafka release"),
    ],
)
def test_settings_that_kafka_would_not_take(run: Run, data: Path, tmp_path: Path, content: bytes, words: str) -> None:
    config = tmp_path / "server.properties"
    config.write_bytes(content)
    assert run(data, "--config", config) == 2
    assert words in " ".join(run.err.split())
    assert run(data, "--config", tmp_path / "none") == 2


def test_paths_that_lead_nowhere_do_not_keep_the_others_from_being_told(run: Run, data: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    paths = tmp_path / "none", tmp_path / "empty", tmp_path / "n*ne", data
    assert run(*paths) == 3
    complaints = run.err.splitlines()
    assert [line.startswith("kdump: ") for line in complaints] == [True] * 3 + [False]
    assert complaints[0].endswith("none does not exist")
    assert "neither a partition directory" in complaints[1]
    assert complaints[2].endswith("nothing matches this pattern")
    assert complaints[3] == "INCOMPLETE. 3 PATHs could not be read; the rest was."
    assert run.lines[-1] == "The broker will start. 1 partition loses nothing."
    assert run(data / names.META_PROPERTIES, data) == 2
    assert "is a file: give the partition directory that it is in" in run.err


def test_a_file_without_permission(run: Run, damaged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kdump.disk import reading as files

    secret = str(damaged / "orders-0" / file(8, "log"))
    real_open = files.open_for_reading

    def refuse(path: str) -> int:
        if path == secret:
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return real_open(path)

    monkeypatch.setattr(files, "open_for_reading", refuse)
    assert run(damaged) == 3
    assert run.err.splitlines() == [
        f"kdump: {secret}: Permission denied",
        "INCOMPLETE. 1 of 2 partitions could not be read.",
    ]
    assert "The broker will start." in run.out
    assert "orders-1   loses offsets" in run.out


@pytest.mark.parametrize("name", [*names.OFFSET_CHECKPOINTS, names.META_PROPERTIES])
def test_an_unreadable_file_of_the_directory_is_named_and_the_rest_is_told(
    run: Run, damaged: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    from kdump.disk import reading as files

    (damaged / names.CLEANER_CHECKPOINT).write_text("0\n0\n")
    (damaged / names.LOG_START_CHECKPOINT).write_text("0\n0\n")
    secret = str(damaged / name)
    real_open = files.open_for_reading

    def refuse(path: str) -> int:
        if path == secret:
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return real_open(path)

    monkeypatch.setattr(files, "open_for_reading", refuse)
    assert run(damaged) == 3
    assert run.err.startswith(f"kdump: {secret}: Permission denied\n")
    assert "orders-1   loses offsets" in run.out
    assert "NOT" not in run.out


def test_a_file_that_vanishes_is_named_and_the_rest_is_told(
    run: Run, damaged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kdump.storage.planned import PlannedPartition

    make = PlannedPartition.__init__

    def make_and_remove(self: PlannedPartition, log: Any) -> None:
        make(self, log)
        if log.path.endswith("orders-0"):
            os.unlink(os.path.join(log.path, file(8, "log")))

    monkeypatch.setattr(PlannedPartition, "__init__", make_and_remove)
    assert run(damaged) == 3
    assert f"{damaged / 'orders-0' / file(8, 'log')}: No such file or directory" in run.err
    assert "orders-1   loses offsets" in run.out


def test_a_name_cannot_drive_the_terminal(run: Run, data: Path) -> None:
    partition(data / "or\x1b[2Jders-7", {"\u202eevil.log.deleted": b""})
    assert run(data, "--verbose") == 0
    assert "\x1b" not in run.out + run.err
    assert "\u202e" not in run.out
    assert run(data, "--format", "jsonl") == 0
    assert "\x1b" not in run.out
    assert any("or\x1b[2Jders-7" in row["path"] for row in run.rows)


def test_colour(run: Run, damaged: Path) -> None:
    assert run(damaged, "--color", "always") == 1
    assert "\x1b[31m\x1b[1mloses offsets" in run.out
    assert run(damaged) == 1
    assert "\x1b" not in run.out


def test_what_the_cluster_does_not_have_goes_out_of_service(run: Run, tmp_path: Path) -> None:
    data = cluster_directory(tmp_path / "data")
    assert run(data) == 1
    stray = {
        line.split()[0].rpartition("/")[2]
        for line in run.lines
        if line.endswith("goes out of service: the broker renames it to -stray")
    }
    assert stray == {"clicks-0", "nameless-0", "orders-1", "orders-7"}
    assert "it has no topic id (partition.metadata); an empty partition takes its place" in run.out
    assert "4 of 7 partitions go out of service; 3 lose nothing." in run.line("The broker will start.")
    assert run(data / "orders-1") == 1
    assert "the cluster has it on the brokers 2, 3, not on 1" in run.line("stray")
    assert run(data, "--format", "jsonl") == 1
    rows = {os.path.basename(row["path"]): row["stray"] for row in run.of_type("outcome")}
    assert rows["orders-0"] is None
    assert rows["clicks-0"] == "the cluster has no topic with the id EBESExQVFhcYGRobHB0eHw"


def test_metadata_that_cannot_be_used_is_a_warning(run: Run, tmp_path: Path) -> None:
    data = cluster_directory(tmp_path / "data")
    log = data / names.CLUSTER_METADATA_DIR / file(0, "log")
    log.write_bytes(broken(log.read_bytes()))
    assert run(data, "--clean") == 1  # the controller checks its log and cuts it
    assert "partitions set aside are not known" in run.line("warning")
    assert "-stray" not in run.out


def test_settings_come_from_the_metadata_beside_the_logs(run: Run, tmp_path: Path) -> None:
    pairs: list[tuple[str, dict[str, Any]]] = [
        ("RegisterBroker", {"brokerId": 3, "brokerEpoch": 10, "rack": None}),
        ("Topic", {"name": "orders", "topicId": ORDERS_ID}),
        ("Partition", {"topicId": ORDERS_ID, "partitionId": 0, "replicas": [3], "isr": [3], "leader": 3}),
        ("Config", {"resourceType": 2, "resourceName": "orders", "name": "index.interval.bytes", "value": "1"}),
    ]
    data, second = tmp_path / "data", tmp_path / "second"
    Log(data / names.CLUSTER_METADATA_DIR).add(*metadata_pairs(*pairs)).write()
    metadata = f"version: 0\ntopic_id: {format_uuid(ORDERS_ID)}".encode()
    partition(second / "orders-0", {names.PARTITION_METADATA: metadata})
    for folder in (data, second):
        (folder / names.META_PROPERTIES).write_text(META)
    assert run(data, second, "--format", "jsonl") == 0
    assert run.of_type("outcome")[-1]["files"][file(0, "index")] == 8
    assert run(second, "--format", "jsonl") == 0
    assert run.of_type("outcome")[-1]["files"][file(0, "index")] == 0


def test_a_repair_goes_by_them_too(run: Run, tmp_path: Path) -> None:
    """The indexes that a broker of the topic's settings rebuilds are those that are planned."""
    pairs: list[tuple[str, dict[str, Any]]] = [
        ("RegisterBroker", {"brokerId": 3, "brokerEpoch": 10, "rack": None}),
        ("Topic", {"name": "orders", "topicId": ORDERS_ID}),
        ("Partition", {"topicId": ORDERS_ID, "partitionId": 0, "replicas": [3], "isr": [3], "leader": 3}),
        ("Config", {"resourceType": 2, "resourceName": "orders", "name": "index.interval.bytes", "value": "1"}),
    ]
    data = tmp_path / "data"
    Log(data / names.CLUSTER_METADATA_DIR).add(*metadata_pairs(*pairs)).write()
    metadata = f"version: 0\ntopic_id: {format_uuid(ORDERS_ID)}".encode()
    (data / names.META_PROPERTIES).write_text(META)
    (partition(data / "orders-0", {names.PARTITION_METADATA: metadata}) / file(0, "index")).unlink()
    said = kdump(tmp_path, "repair", "--strategy", "truncate", "--format", "jsonl", "data/orders-0")
    sizes = {row["file"]: row["size"] for row in said.of_type("operation")}
    assert run(data, "--format", "jsonl") == 0
    assert sizes[file(0, "index")] == run.of_type("outcome")[-1]["files"][file(0, "index")] == 8


def test_a_time_index_that_ends_in_zeros_costs_the_segment(run: Run, data: Path) -> None:
    stamp = (1_000_000_000).to_bytes(8, "big")
    for base in BASES:
        (data / "orders-0" / file(base, "timeindex")).write_bytes(stamp + (3).to_bytes(4, "big"))
    index = data / "orders-0" / file(0, "timeindex")
    index.write_bytes(index.read_bytes() + bytes(24))
    now = ("--now", 1_000_000_500)
    assert run(data, "--clean", *now) == 1
    assert run.line(str(data / "orders-0")).endswith("loses segments: retention deletes them soon after the start")
    assert "its time index ends in zeros" in run.line("expires")
    assert f"kdump rebuild-index {data / 'orders-0'} --apply" in run.line("do ")
    assert run(data, "--clean", "--format", "jsonl", *now) == 1
    assert run.of_type("outcome")[0]["expiring"] == [0]
    assert run(data, "--unclean", "--recovery-point", 0, *now) == 0  # recovery rebuilds it
    config = data.parent / "server.properties"
    config.write_text("log.retention.ms=-1\n")
    assert run(data, "--clean", "--config", config, *now) == 0


@pytest.mark.parametrize(
    ("release", "level", "starts"),
    [
        ("4.0.2", 25, True),
        ("3.9", 25, False),
        ("4.3", 25, True),
        ("4.1", 28, False),
        ("4.0", 6, False),
        ("3.9", 6, True),
    ],
)
def test_a_release_starts_with_the_levels_of_metadata_that_it_knows(
    run: Run, tmp_path: Path, release: str, level: int, starts: bool
) -> None:
    data = cluster_directory(tmp_path / "data")
    for name in ("nameless-0", "renamed-0"):
        shutil.rmtree(data / name)
    feature = {"name": "metadata.version", "featureLevel": level}
    Log(data / "__cluster_metadata-0", 9).add(*metadata_pairs(("FeatureLevel", feature))).write()
    run(data, "--kafka", release, "--format", "jsonl")
    (broker,) = run.of_type("broker")
    assert (broker["kafka"], broker["isStartable"]) == (release[:3], starts)
    run(data, "--kafka", release)
    assert ("will NOT start" in run.out) != starts
    if not starts:
        assert f"metadata.version is {level} (" in run.out
    for said in (kdump(tmp_path, "doctor", "data", "--kafka", release), _asked_by_the_environment(tmp_path, release)):
        assert ("broker will NOT start" in said.out) != starts


def _asked_by_the_environment(folder: Path, release: str) -> Said:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KDUMP_KAFKA", release)
        return kdump(folder, "doctor", "data")


@pytest.mark.parametrize(
    ("release", "size", "starts"),
    [("4.0", "1000", True), ("4.1", "1000", False), ("4.3", "1048575", False), ("4.3", "1048576", True)],
)
def test_brokers_from_4_1_on_do_not_take_small_segments(
    run: Run, tmp_path: Path, release: str, size: str, starts: bool
) -> None:
    """4.0.2 served what 3.9.2 left with segment.bytes=1000; 4.1.2 and 4.3.1 ended: "Value must be at least 1048576"."""
    data = cluster_directory(tmp_path / "data")
    for name in ("nameless-0", "renamed-0"):
        shutil.rmtree(data / name)
    config = {"resourceType": 2, "resourceName": "orders", "name": "segment.bytes", "value": size}
    feature = {"name": "metadata.version", "featureLevel": 21}
    pairs = metadata_pairs(("FeatureLevel", feature), ("Config", config))
    Log(data / "__cluster_metadata-0", 9).add(*pairs).write()
    run(data, "--kafka", release, "--format", "jsonl")
    assert run.of_type("broker")[0]["isStartable"] == starts
    run(data, "--kafka", release)
    assert ("segment.bytes of orders is below 1048576" in run.out) != starts


@pytest.mark.parametrize(
    ("release", "line", "why"),
    [
        ("3.9", "log.segment.bytes=5000", None),
        ("4.0", "log.segment.bytes=5000", "log.segment.bytes is 5000: Kafka 4.0 takes 1048576 and more"),
        ("4.3", "log.segment.bytes = 1048575", "log.segment.bytes is 1048575: Kafka 4.3 takes 1048576 and more"),
        ("4.3", "log.segment.bytes=1048576", None),
        (
            "3.9",
            "metadata.log.segment.bytes=8388607",
            "metadata.log.segment.bytes is 8388607: Kafka 3.9 takes 8388608 and more",
        ),
        (
            "4.3",
            "metadata.log.segment.bytes=12",
            "metadata.log.segment.bytes is 12: Kafka 4.3 takes 8388608 and more",
        ),
        ("4.1", "metadata.log.segment.bytes=8388608", None),
        ("3.9", "log.cleaner.dedupe.buffer.size=1048577", None),
        (
            "3.9",
            "log.cleaner.dedupe.buffer.size=2097153\nlog.cleaner.threads=2",
            "log.cleaner.dedupe.buffer.size is 2097153: Kafka wants more than 1 MiB for each of 2 cleaner threads",
        ),
    ],
)
def test_a_server_properties_that_a_release_refuses(
    run: Run, data: Path, tmp_path: Path, release: str, line: str, why: str | None
) -> None:
    """Seen with 3.9.2 to 4.3.1: "Value must be at least 1048576", "must be at least 1MB per cleaner thread".

    3.9.2 and 4.0.2: "Cannot set metadata.log.segment.bytes below 8388608"; 4.1.2 on: "Value must be at least 8388608".
    """
    config = tmp_path / "server.properties"
    config.write_text(line)
    code = run(data, "--config", config, "--kafka", release)
    if why is None:
        assert code == 0
    else:
        assert (code, why in run.out) == (1, True)
        assert run.lines[0] == "The broker will NOT start:"
        run(data, "--config", config, "--kafka", release, "--format", "jsonl")
        assert not run.of_type("broker")[0]["isStartable"]


@pytest.mark.parametrize("release", ["3.9", "4.0"])
def test_a_server_properties_is_held_against_the_release_that_wrote_the_directory(
    run: Run, tmp_path: Path, release: str
) -> None:
    data = cluster_directory(tmp_path / "data")
    for name in ("nameless-0", "renamed-0"):
        shutil.rmtree(data / name)
    level = newest_metadata_version(KafkaRelease(release))
    features = [{"name": "metadata.version", "minSupportedVersion": 1, "maxSupportedVersion": level}]
    pairs = metadata_pairs(("RegisterBroker", {"brokerId": 1, "brokerEpoch": 11, "rack": None, "features": features}))
    Log(data / "__cluster_metadata-0", 9).add(*pairs).write()
    config = tmp_path / "server.properties"
    config.write_text("log.segment.bytes=5000")
    run(data, "--config", config, "--format", "jsonl")
    assert run.of_type("broker")[0]["isStartable"] == (release == "3.9")


@pytest.mark.parametrize("fault", ["epochs", "checkpoint", "meta"])
def test_a_fault_of_the_disk_with_the_metadata_log_ends_the_process(
    run: Run, data: Path, tmp_path: Path, fault: str
) -> None:
    """ReplicaManager: "Shutdown broker because the metadata log dir ... has failed" (seen on 4.3.1)."""
    second = tmp_path / "second"
    partition(second / "orders-1")
    (second / names.META_PROPERTIES).write_text(META)
    (data / names.CLUSTER_METADATA_DIR).mkdir()
    at = {
        "epochs": data / "orders-0" / names.LEADER_EPOCH_CHECKPOINT,
        "checkpoint": data / names.REPLICATION_CHECKPOINT,
        "meta": data / names.META_PROPERTIES,
    }[fault]
    at.unlink(missing_ok=True)
    if fault == "epochs":
        at.write_text("nonsense")
    elif fault == "checkpoint":
        at.write_text("0\n9\n")
    else:
        at.mkdir()
    assert run(data, second) == 1
    assert run.lines[0] == "The broker will NOT start:"
    assert f"Shutdown broker because the metadata log dir {data} has failed: " in run.lines[1]
    run(data, second, "--format", "jsonl")
    (broker,) = run.of_type("broker")
    assert (broker["isStartable"], broker["offline"]) == (False, [str(data)])
    findings = [finding for finding in verify(str(data)) if "has no" not in finding.message]
    effects = {finding.broker for finding in findings if finding.path == str(at) and finding.severity == "error"}
    assert effects == {"does not start"}
