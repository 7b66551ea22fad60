"""`kdump startup`: what an operator is told of a broker's next start, and what a script can go by."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from kdump.formats import names
from tests.recovery.building import METADATA, batch, broken, file

FIXTURES = Path(__file__).resolve().parent.parent.parent / "fixtures" / "corpus"
KAFKAS_CLOCK = 1_700_086_400_000
UNIQUE = "0123456789abcdef" * 2
META = "version=1\nnode.id=3\ncluster.id=abc\n"
BASES = (0, 4, 8)
BATCHES = {base: [batch(base, 2), batch(base + 2, 2)] for base in BASES}
SIZE = len(batch(0, 2))

STEP = {"type", "path", "action", "file", "why", "position", "size", "lost"}
OUTCOME = {
    "type", "path", "state", "ok", "failure", "clean", "recoveryPoint", "highWatermark", "logStartOffset",
    "logEndOffset", "newRecoveryPoint", "losesData", "lost", "files",
}  # fmt: skip
FAILURE = {"exception", "message", "file", "position", "brokerStarts"}
LOST = {"bytes", "zeros", "batches", "records", "firstOffset", "lastOffset"}
DIRECTORY = {"type", "path", "ok", "clean", "failures", "warnings"}


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
        return [json.loads(line) for line in self.lines]

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
    assert run.lines[:6] == [
        f"{damaged / 'orders-1'}: LOSES DATA",
        f"  lost: {3 * SIZE} bytes with 2 good batches of 4 records, offsets 8 to 11",
        "  the good batches can be kept: kdump repair --strategy salvage, before the broker is started",
        "  log start offset 0, log end offset 6, recovery point 4",
        "  the high watermark was 12: the committed offsets 6 to 11 will not be on this replica",
        "  after an unclean shutdown with recovery point 4 and log start checkpoint 0 the broker",
    ]
    assert [line.replace(":", "").split()[:2] for line in run.lines[6:] if line.strip()] == [
        ["checks", file(4, "log")],
        ["cuts", file(4, "log")],
        ["removes", file(8, "log")],
        ["writes", file(4, "snapshot")],
        ["writes", file(4, "timeindex")],
        ["writes", file(6, "snapshot")],
        ["writes", names.LEADER_EPOCH_CHECKPOINT],
    ]
    assert f"at byte {SIZE}: the CRC of the batch of {SIZE} bytes" in run.line("cuts")
    assert f"(lost: {SIZE} bytes without a whole batch)" in run.line("cuts")
    assert f"{file(4, 'log')} before it is cut, so later ones are removed" in run.line("removes")
    assert f"({2 * SIZE} B)" in run.line("checks")


def test_a_log_directory_shows_the_harmless_in_one_line(run: Run, damaged: Path) -> None:
    assert run(damaged) == 1
    assert run.lines[0].endswith("was not closed in order (no .kafka_cleanshutdown): logs are checked from their"
                                 " recovery points on")  # fmt: skip
    assert run.line(f"{damaged / 'orders-0'}: ") == (
        f"{damaged / 'orders-0'}: nothing is lost; offsets 0 to 12; checks 1 segment"
    )
    assert run.line(f"{damaged / 'orders-1'}: ").endswith("LOSES DATA")
    assert run.lines[-1] == (
        f"2 partitions: 1 would lose data ({3 * SIZE} bytes with 2 good batches of 4 records), 0 would fail to load;"
        f" 2 segments with {4 * SIZE} B would be checked"
    )
    assert run(damaged, "--verbose") == 1
    assert f"    checks   {file(8, 'log')} " in run.out


def test_a_clean_shutdown_trusts_everything(run: Run, damaged: Path) -> None:
    (damaged / names.CLEAN_SHUTDOWN).touch()
    assert run(damaged) == 0
    assert run.lines[0] == f"{damaged} was closed in order: only segments without an index are checked"
    assert "0 would lose data" in run.lines[-1]
    assert run(damaged, "--unclean") == 1
    assert "is taken for not closed in order (--unclean)" in run.lines[0]
    (damaged / names.CLEAN_SHUTDOWN).unlink()
    assert run(damaged, "--clean") == 0
    assert "is taken for closed in order (--clean)" in run.lines[0]


def test_options_stand_in_for_the_checkpoints(run: Run, damaged: Path) -> None:
    assert run(damaged / "orders-1", "--recovery-point", 8) == 0
    assert "nothing is lost" in run.lines[0]
    assert run(damaged / "orders-1", "--recovery-point", 8, "--log-start-offset", 5) == 0
    assert "log start offset 5, log end offset 12" in run.out
    assert run(damaged / "orders-1", "--clean", "--log-start-offset", 50) == 1
    assert run.line("lost: ").endswith("offsets 0 to 11")
    assert "log start offset 50, log end offset 50" in run.out
    assert "salvage" not in run.out


def test_zeros_are_no_data(run: Run, data: Path) -> None:
    log = data / "orders-0" / file(8, "log")
    log.write_bytes(log.read_bytes() + bytes(1000))
    assert run(data / "orders-0") == 0
    assert run.lines[0].endswith("nothing is lost but 1,000 zero bytes, never written")
    assert "(lost: 1,000 zero bytes)" in run.line("cuts")


def test_leftovers_and_swaps(run: Run, data: Path) -> None:
    folder = data / "orders-0"
    (folder / file(0, "log.deleted")).touch()
    for kind in ("log", "index", "timeindex"):
        shutil.copy(folder / file(4, kind), folder / file(4, f"{kind}.swap"))
    assert run(folder) == 0
    assert run.line(f"deletes  {file(0, 'log.deleted')}").endswith("it was scheduled for deletion")
    assert run.line(f"renames  {file(4, 'log.swap')}").endswith(f"it becomes {file(4, 'log')}")
    assert run.line(f"deletes  {file(4, 'log')}").endswith("a complete swap replaces the offsets from 4 to 7")


def test_nothing_changes(run: Run) -> None:
    assert run(FIXTURES / "s-src-none" / "topic-0", "--clean", "--now", KAFKAS_CLOCK) == 0
    assert run.lines[0].endswith("nothing is lost")
    assert run.lines[3] == "    changes nothing"


def test_a_partition_that_does_not_load(run: Run, data: Path) -> None:
    log = data / "orders-0" / file(8, "log")
    log.write_bytes(log.read_bytes() + bytes(1000))
    assert run(data, "--clean") == 1
    assert run.line(f"{data / 'orders-0'}: ").endswith("FAILS, the broker does not start")
    assert "Found record size 0 smaller than minimum record overhead (14)" in run.line("org.apache.kafka.common")
    assert run.line("after a clean").endswith("the broker fails at once")
    assert "1 would fail to load" in run.lines[-2]
    assert run.lines[-1] == "The broker would not start."


def test_a_fault_of_the_disk_takes_the_directory_offline(run: Run, data: Path) -> None:
    (data / "orders-0" / names.LEADER_EPOCH_CHECKPOINT).write_text("nonsense")
    assert run(data) == 1
    assert run.line(f"{data / 'orders-0'}: ").endswith("FAILS, the log directory goes offline")
    assert "The broker would not start." not in run.out


def test_directories_of_other_states(run: Run, data: Path) -> None:
    for state in ("delete", "stray", "future"):
        partition(data / f"orders-5.{UNIQUE}-{state}")
    assert run(data) == 0
    assert "file.delete.delay.ms" in run.line("delete: ")
    assert "until an operator removes it" in run.line("stray: ")
    assert "a move between log directories" in run.line("future: ")
    assert run(data, "--format", "jsonl") == 0
    assert [row["state"] for row in run.of_type("outcome")] == ["live", "delete", "future", "stray"]


def test_what_is_wrong_with_the_directory_itself(run: Run, data: Path) -> None:
    for number in range(5):
        (data / f"lost{number}+found").mkdir()
    (data / names.META_PROPERTIES).unlink()
    (data / names.RECOVERY_POINT_CHECKPOINT).write_text("0\n1\norders zero\n")
    assert run(data) == 1
    warnings = [line for line in run.lines if line.startswith("  warning: ")]
    assert ["Malformed line" in line or "meta.properties" in line for line in warnings] == [True, True]
    failures = [line for line in run.lines if line.startswith("  FAILS, the broker does not start: ")]
    assert len(failures) == 4
    assert "'lost0+found' is not in the form of topic-partition" in failures[0]
    assert failures[3].endswith(": 2 more like these")
    assert f"{data / 'orders-0'}: nothing is lost; offsets 0 to 12; checks 3 segments" in run.lines
    assert run.lines[-1] == "The broker would not start."


def test_a_partition_in_two_log_directories(run: Run, data: Path, tmp_path: Path) -> None:
    second = tmp_path / "second"
    partition(second / "orders-0")
    (second / names.META_PROPERTIES).write_text(META)
    assert run(data, second) == 1
    assert "Duplicate log directories for orders-0 are found in both" in run.line("FAILS")
    assert run.lines[-1] == "The broker would not start."
    (second / names.META_PROPERTIES).write_text(META.replace("3", "4"))
    assert run(data, second) == 0
    assert run(data, data, "--format", "jsonl") == 0
    assert run.of_type("failure") == []


def test_a_replica_that_lacks_committed_records_is_shown(run: Run, data: Path) -> None:
    (data / "orders-0" / file(8, "log")).unlink()
    assert run(data) == 0
    assert run.line("the high watermark was 12").endswith("offsets 8 to 11 will not be on this replica")


def test_every_field_is_documented() -> None:
    text = (FIXTURES.parent.parent / "docs" / "startup.md").read_text()
    for field in (STEP | OUTCOME | FAILURE | LOST | DIRECTORY) - {"type"}:
        assert f"`{field}`" in text or f'"{field}"' in text, field


@pytest.mark.parametrize(
    "case", ["i-crc-payload-active", "z-3-93", "i-idx-swap-first", "i-snap-crc", "f-cluster-metadata"]
)
@pytest.mark.parametrize("clean", ["--clean", "--unclean"])
def test_lines_of_json(run: Run, case: str, clean: str) -> None:
    folder = FIXTURES / case
    assert run(folder, clean, "--recovery-point", 0, "--now", KAFKAS_CLOCK, "--format", "jsonl") in (0, 1)
    first, *rest = run.rows
    assert set(first) == DIRECTORY
    assert first["type"] == "logDirectory"
    assert first["clean"] == (clean == "--clean")
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
    assert outcome["losesData"] == (outcome["lost"]["bytes"] > outcome["lost"]["zeros"])
    assert outcome["lost"]["bytes"] == sum(row["lost"]["bytes"] for row in rest[:-1] if row["lost"])
    assert outcome["ok"]
    assert all(isinstance(size, int) for size in outcome["files"].values())


def test_a_failure_in_json(run: Run, data: Path) -> None:
    log = data / "orders-0" / file(8, "log")
    log.write_bytes(log.read_bytes() + bytes(1000))
    assert run(data / "orders-0", "--clean", "--format", "jsonl") == 1
    outcome = run.rows[-1]
    assert set(outcome["failure"]) == FAILURE
    assert not outcome["ok"]
    assert [outcome[key] for key in ("logStartOffset", "logEndOffset", "newRecoveryPoint", "files")] == [None] * 4
    assert outcome["failure"]["exception"] == "org.apache.kafka.common.errors.CorruptRecordException"
    assert outcome["failure"]["file"] == file(8, "log")
    assert not outcome["failure"]["brokerStarts"]


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
    paths = tmp_path / "none", tmp_path / "empty", data / names.META_PROPERTIES, tmp_path / "n*ne", data
    assert run(*paths) == 3
    complaints = run.err.splitlines()
    assert [line.startswith("kdump: ") for line in complaints] == [True] * 4
    assert complaints[0].endswith("none: no such file or directory")
    assert "neither a partition directory" in complaints[1]
    assert "is a file: give the partition directory that it is in" in complaints[2]
    assert complaints[3].endswith("nothing matches this pattern")
    assert run.line(f"{data / 'orders-0'}: ").startswith(f"{data / 'orders-0'}: nothing is lost")


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
    assert run.err == f"kdump: {secret}: Permission denied\n"
    assert "orders-1: LOSES DATA" in run.out


def test_a_file_that_vanishes_is_named_and_the_rest_is_told(
    run: Run, damaged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kdump.storage.planned import VirtualDirectory

    make = VirtualDirectory.__init__

    def make_and_remove(self: VirtualDirectory, log: Any) -> None:
        make(self, log)
        if log.path.endswith("orders-0"):
            os.unlink(os.path.join(log.path, file(8, "log")))

    monkeypatch.setattr(VirtualDirectory, "__init__", make_and_remove)
    assert run(damaged) == 3
    assert f"{damaged / 'orders-0' / file(8, 'log')}: No such file or directory" in run.err
    assert "orders-1: LOSES DATA" in run.out


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
    assert "\x1b[31m\x1b[1mLOSES DATA\x1b[0m" in run.out
    assert run(damaged) == 1
    assert "\x1b" not in run.out
