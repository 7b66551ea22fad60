"""`kdump verify` as a job that comes back every night: its place, its state, its pace, its figures."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kdump.commands.shell.values import duration_seconds
from kdump.commands.verify import command as verify_command
from kdump.disk.pace import Pace
from kdump.disk.reading import list_directory
from kdump.formats import names
from tests.commands.running import Run
from tests.verify.building import NOW, Log, batch, build, file, flip, marker, produced

SEGMENTS = {base: [batch(base), batch(base + 2), batch(base + 4)] for base in range(0, 24, 6)}
AT = f"--now={NOW}"
_TELLS_NICENESS = """
import atexit, os, sys
atexit.register(lambda: print('nice', os.nice(0), file=sys.stderr))
from kdump.commands.cli import main
main()
"""


@pytest.fixture
def log(tmp_path: Path) -> Log:
    build(tmp_path / "data", SEGMENTS)
    return build(tmp_path / "data", SEGMENTS, name="orders-1")


@pytest.fixture
def broker(log: Log) -> Iterator[int]:
    """A process that holds the lock of the log directory."""
    (log.directory / names.CLEAN_SHUTDOWN).unlink()
    (log.directory / names.LOCK).touch()
    ready, done = os.pipe(), os.pipe()
    child = os.fork()
    if not child:
        try:
            with open(log.directory / names.LOCK, "r+b") as held:
                fcntl.lockf(held, fcntl.LOCK_EX)
                os.write(ready[1], b"x")
                os.close(done[1])
                os.read(done[0], 1)
        finally:
            os._exit(0)
    os.read(ready[0], 1)
    yield child
    os.close(done[1])
    os.waitpid(child, 0)


def summary(run: Run) -> dict[str, Any]:
    row: dict[str, Any] = json.loads(run.lines[-1])
    return row


class TestState:
    def check(self, run: Run, log: Log, *options: object, at: str = AT) -> tuple[int, object, object]:
        code = run("verify", log.directory, at, "--state", log.directory.parent / "state", "--format=jsonl", *options)
        return code, summary(run)["segments"], summary(run)["segmentsSkipped"]

    def test_closed_segments_are_read_once(self, run: Run, log: Log) -> None:
        assert self.check(run, log) == (0, 8, 0)
        assert self.check(run, log) == (0, 2, 6)
        assert summary(run)["isComplete"]

    def test_those_behind_one_that_has_changed_again(self, run: Run, log: Log) -> None:
        self.check(run, log)
        log.edit(file(6, "log"), flip(70))
        assert self.check(run, log) == (1, 4, 4)
        assert self.check(run, log) == (1, 5, 3)  # nothing is taken for granted where something is wrong
        log.edit(file(6, "log"), flip(70))
        assert self.check(run, log) == (0, 5, 3)
        assert self.check(run, log) == (0, 2, 6)

    def test_a_file_that_was_written_into_is_told_by_the_checksum_of_its_batches(self, run: Run, log: Log) -> None:
        """A disk or a restore may bring other sound batches; neither a broker nor the cleaner writes into a file."""
        assert self.check(run, log) == (0, 8, 0)
        path = log.directory / "orders-0" / file(6, "log")
        data = b"".join(batch(base, value=b"eulav") for base in (6, 8, 10))
        assert len(data) == path.stat().st_size
        with path.open("r+b") as opened:
            opened.write(data)
        self.check(run, log)
        changed = [row for row in map(json.loads, run.lines) if row.get("code") == "KD-LOG-REWRITTEN"]
        assert [row["path"] for row in changed] == [str(path)]

    def test_an_index_counts_too(self, run: Run, log: Log) -> None:
        self.check(run, log)
        log.path(0, "timeindex").unlink()
        assert self.check(run, log)[1:] == (5, 3)

    def test_a_deep_look_is_another_one(self, run: Run, log: Log) -> None:
        self.check(run, log)
        assert self.check(run, log, "--deep") == (0, 8, 0)
        assert self.check(run, log) == (0, 2, 6)

    def test_an_open_transaction_is_followed_from_its_beginning(self, run: Run, tmp_path: Path) -> None:
        segments = {0: [batch(0)], 2: [produced(2, 7, 0)], 4: [batch(4)], 6: [batch(6)]}
        log = build(tmp_path / "data", segments)
        assert self.check(run, log) == (0, 4, 0)
        assert self.check(run, log) == (0, 3, 1)
        later = f"--now={NOW + 100 * 86_400_000}"
        self.check(run, log, "-v", at=later)
        assert any(row.get("code") == "KD-TXN-HANGING" for row in run.rows)

    def test_ended_transactions_need_no_second_look(self, run: Run, tmp_path: Path) -> None:
        segments = {0: [produced(0, 7, 0)], 2: [marker(2, 7, commit=True)], 3: [batch(3)], 5: [produced(5, 7, 2)]}
        log = build(tmp_path / "data", segments)
        first = self.check(run, log)
        assert self.check(run, log) == (first[0], 1, 3)

    @pytest.mark.parametrize("content", [b"{", b"[]", b'{"kdump_verify_state": 9}', b'{"kdump_verify_state": 1}'])
    def test_another_file_is_left_alone(self, run: Run, log: Log, tmp_path: Path, content: bytes) -> None:
        (tmp_path / "other").write_bytes(content)
        assert run("verify", log.directory, "--state", tmp_path / "other") == 3
        assert "is not a state file of kdump verify" in run.err
        assert (tmp_path / "other").read_bytes() == content


class TestPlace:
    @pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
    def test_it_is_kept_when_a_signal_ends_the_run(
        self, run: Run, log: Log, tmp_path: Path, number: signal.Signals, code: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        place, seen = tmp_path / "place", []
        progress = verify_command.PeriodicFlush.progress

        def stop(showing: verify_command.PeriodicFlush, path: str, size: int) -> None:
            progress(showing, path, size)
            seen.append(path)
            if len(seen) == 6:
                os.kill(os.getpid(), number)

        with monkeypatch.context() as patch:
            patch.setattr(verify_command.PeriodicFlush, "progress", stop)
            assert run("verify", log.directory, AT, "--jobs=1", "--resume", place, "--format=jsonl") == code
        assert not summary(run)["isComplete"]
        assert json.loads(place.read_text())["base_offset"] == 6
        assert run("verify", log.directory, AT, "--resume", place, "--format=jsonl") == 0
        assert summary(run)["segments"] == 3
        assert not place.exists()

    def test_the_totals_of_a_pass_are_those_of_all_its_runs(self, run: Run, log: Log, tmp_path: Path) -> None:
        log.edit(file(0, "log"), flip(70))
        assert run("verify", log.directory, AT, "--format=jsonl") == 1
        at_once = summary(run)
        place = tmp_path / "place"
        rows: list[dict[str, Any]] = []
        while not rows or place.exists():
            run("verify", log.directory, AT, "--jobs=1", "--max-duration=0s", "--resume", place, "--format=jsonl")
            rows.append(summary(run))
        whole = rows[-1]["pass"]
        assert whole["runs"] == len(rows) > 3
        for name in ("errors", "warnings", "partitions", "segments", "bytes"):
            assert whole[name] == at_once[name], name

    def test_text_says_when_a_pass_is_finished(self, run: Run, log: Log, tmp_path: Path) -> None:
        place = tmp_path / "place"
        said: list[str] = []
        while not said or place.exists():
            run("verify", log.directory, AT, "--jobs=1", "--max-duration=0s", "--resume", place)
            said.append(next(line for line in run.lines if "pass" in line))
        assert said[0].startswith("The pass is not complete; so far: no error; ")
        assert re.match(r"Complete pass finished in \d+ runs: no error; 2 partitions, 8 segments, ", said[-1])
        run("verify", log.directory, AT)
        assert "pass" not in run.out

    @pytest.mark.parametrize("option", ["--resume", "--state", "--report"])
    def test_it_is_looked_at_first_whether_it_can_be_written(self, run: Run, log: Log, option: str) -> None:
        target = log.directory.parent / "nowhere" / "file"
        assert run("verify", log.directory, option, f"prom:{target}" if option == "--report" else target) == 3
        assert run.out == ""
        assert f"{target} cannot be written: No such file or directory. Nothing was done." in run.err

    @pytest.mark.parametrize("option", ["--resume", "--state", "--report"])
    def test_it_is_no_file_among_kafkas(self, run: Run, log: Log, option: str) -> None:
        target = log.directory / "file"
        assert run("verify", log.directory, option, f"prom:{target}" if option == "--report" else target) == 2
        assert not target.exists()


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("15m", 900), ("1h30m", 5400), ("1h5m2s", 3902)])
def test_lengths_of_time(text: str, seconds: float) -> None:
    assert duration_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "x", "1h30", "30 m", "-5s", "m"])
def test_what_is_none(text: str, run: Run, log: Log) -> None:
    assert run("verify", log.directory, f"--max-duration={text}") == 2


class TestFigures:
    def read(self, path: Path) -> dict[str, str]:
        return dict(line.rsplit(" ", 1) for line in path.read_text().splitlines() if not line.startswith("#"))

    def test_prometheus(self, run: Run, log: Log, tmp_path: Path) -> None:
        report = tmp_path / "kdump.prom"
        log.edit(file(6, "log"), flip(70))
        assert run("verify", log.directory, AT, "--report", f"prom:{report}") == 1
        figures = self.read(report)
        assert figures['kdump_verify_findings{code="KD-LOG-CRC",severity="error"}'] == "1"
        assert figures["kdump_verify_partitions"] == "2"
        assert figures["kdump_verify_segments"] == "8"
        assert figures["kdump_verify_complete"] == "1"
        last = figures["kdump_verify_last_complete_pass_timestamp_seconds"]
        assert abs(int(last) - time.time()) < 600
        for line in report.read_text().splitlines():
            assert re.fullmatch(r'# (HELP|TYPE) \w+ .+|\w+(\{code="[A-Z-]+",severity="\w+"\})? [0-9.]+', line)

    def test_the_last_complete_pass_is_remembered(self, run: Run, log: Log, tmp_path: Path) -> None:
        report = tmp_path / "kdump.prom"
        report.write_text("kdump_verify_last_complete_pass_timestamp_seconds 1700000000\n")
        assert run("verify", log.directory, AT, "--max-duration=0s", "--report", f"prom:{report}") == 0
        figures = self.read(report)
        assert figures["kdump_verify_complete"] == "0"
        assert figures["kdump_verify_last_complete_pass_timestamp_seconds"] == "1700000000"

    @pytest.mark.parametrize("format_", ["text", "json", "jsonl", "junit", "sarif"])
    def test_other_formats_are_as_on_stdout(self, run: Run, log: Log, tmp_path: Path, format_: str) -> None:
        log.edit(file(6, "log"), flip(70))
        assert run("verify", log.directory, AT, "-v", "--format", format_) == 1
        varying = re.compile(
            r'in [0-9.]+ s|"(?:seconds|startedAt|options)": ?(?:[0-9.]+|"[^"]*"|\{[^{}]*\})|"header"'
        )
        alone = varying.sub("", run.out.strip())
        report = f"{format_}:{tmp_path / 'report'}"
        assert run("verify", log.directory, AT, "-v", "--format=jsonl", "--report", report) == 1
        assert varying.sub("", (tmp_path / "report").read_text().strip()) == alone

    def test_another_format(self, run: Run, log: Log) -> None:
        assert run("verify", log.directory, "--report", "pdf:x") == 2
        assert "expected FORMAT:FILE" in run.err


class TestBesideABroker:
    def test_it_is_said(self, run: Run, log: Log, broker: int) -> None:
        with open(log.path(18, "log"), "ab") as growing:
            growing.write(batch(24)[:-1])
        assert run("verify", log.directory, AT, "--priority=normal") == 0
        assert run.err == (f"Note: a broker is running on {log.directory}. The growing end of 1 log was skipped.\n")

    def test_it_is_said_once(
        self, run: Run, log: Log, broker: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A directory that is named in two ways is one."""
        monkeypatch.chdir(log.directory.parent)
        data = log.directory.name
        assert run("verify", data, log.partition, AT, "--priority=normal") == 0
        assert run.err == f"Note: a broker is running on {data}.\n"
        assert run("ls", data) == 0
        assert "running; " in run.out
        assert "unclean shutdown" not in run.out

    def test_low_priority_and_the_page_cache(self, log: Log, broker: int) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "kdump", "verify", str(log.directory), AT, "-v"], capture_output=True, text=True
        )
        assert f"low priority: nice {os.nice(0) + 10}" in done.stderr
        assert "pages that were read are given back to the system" in done.stderr

    @pytest.mark.parametrize(
        "command",
        ["ls", "dump", "stats", "txns", "startup", "doctor", "retain", "replicas"],
    )
    def test_every_reader_comes_after_it(self, log: Log, broker: int, command: str) -> None:
        words = [sys.executable, "-c", _TELLS_NICENESS, command, str(log.directory)]
        usual = dict(os.environ)
        usual.pop("KDUMP_PRIORITY", None)
        done = subprocess.run(words, capture_output=True, text=True, env=usual)
        assert done.stderr.splitlines()[-1] == f"nice {os.nice(0) + 10}", done.stderr
        asked = {**usual, "KDUMP_PRIORITY": "normal"}
        done = subprocess.run(words, capture_output=True, text=True, env=asked)
        assert done.stderr.splitlines()[-1] == f"nice {os.nice(0)}", done.stderr

    def test_it_says_what_it_has_done(self, log: Log, broker: int) -> None:
        usual = {name: value for name, value in os.environ.items() if name != "KDUMP_PRIORITY"}
        words = [sys.executable, "-m", "kdump", "stats", str(log.directory), "-v"]
        done = subprocess.run(words, capture_output=True, text=True, env=usual)
        assert "low priority while a broker runs: nice " in done.stderr

    def test_neither_without_one(self, run: Run, log: Log) -> None:
        before = os.nice(0)
        assert run("verify", log.directory, AT, "-v") == 0
        assert run.err == ""
        assert os.nice(0) == before

    @pytest.mark.parametrize(
        "command", [["ls"], ["dump"], ["stats"], ["txns"], ["startup"], ["lookup", "--offset", "3"]]
    )
    def test_a_batch_that_is_being_written_is_the_end(
        self, run: Run, log: Log, broker: int, command: list[str]
    ) -> None:
        with open(log.path(18, "log"), "ab") as growing:
            growing.write(batch(24)[:-1])
        assert run(command[0], log.directory, *command[1:]) == 0
        assert "The growing end of 1 log was skipped." in run.err
        assert (command[0] == "startup") == ("A broker is running. This is what a crash now would leave." in run.out)


def test_a_pace_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "monotonic", lambda: sum(slept))
    monkeypatch.setattr(time, "sleep", slept.append)
    pace = Pace(1000)
    for _ in range(4):
        pace.take(500)
    assert slept == [0, 0.5, 0.5, 0.5]


@pytest.mark.parametrize("jobs", [1, 2])
def test_the_rate_bounds_a_whole_run(run: Run, log: Log, monkeypatch: pytest.MonkeyPatch, jobs: int) -> None:
    """All threads together: what is read takes at least as long as the rate says."""
    size = sum(path.stat().st_size for path in log.directory.glob("*/*.log"))
    assert run("verify", log.directory, AT, f"--jobs={jobs}", "--format=jsonl") == 0
    at_once = summary(run)
    began = time.monotonic()
    assert run("verify", log.directory, AT, f"--jobs={jobs}", f"--max-rate={size}", "--format=jsonl") == 0
    assert time.monotonic() - began > 0.6  # the last piece is read when its turn has come
    assert {**summary(run), "seconds": 0} == {**at_once, "seconds": 0}


def test_an_unreadable_partition_ends_nothing(run: Run, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    from kdump.storage import partition

    def refuse(path: str) -> tuple[list[str], list[str]]:
        if path.endswith("orders-0"):
            raise PermissionError(13, "Permission denied", path)
        return list_directory(path)

    monkeypatch.setattr(partition, "list_directory", refuse)
    for command in (["ls"], ["dump"], ["stats"], ["txns"], ["startup"], ["verify", AT], ["lookup", "--offset", "3"]):
        assert run(command[0], log.directory, *command[1:]) == 3, command
        assert (run.out + run.err).count("INCOMPLETE. 1 ") == 1, command
        assert run.out, command
