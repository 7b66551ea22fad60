"""The progress of `kdump verify`: a bar on a terminal, findings that nobody has to wait for."""

from __future__ import annotations

import os
import pty
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kdump.commands.cli import cli
from kdump.commands.shell import progress
from kdump.commands.shell.progress import PathCounter, ProgressBar, total_size
from kdump.commands.verify.command import PeriodicFlush
from tests.commands.running import Run
from tests.verify.building import NOW, Log, build, file, flip


def verify(log: Log) -> int:
    code: int = cli.main(["verify", str(log.directory), f"--now={NOW}", "--color=never"], standalone_mode=False)
    return code


@pytest.fixture
def log(tmp_path: Path) -> Log:
    for number in range(3):
        built = build(tmp_path / "data", name=f"orders-{number}")
    built.edit(file(0, "log"), flip(70))
    return built


class Terminal:
    """A terminal that stderr is."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._master, slave = pty.openpty()
        self._stream = os.fdopen(slave, "w")
        patch.setattr(sys, "stderr", self._stream)
        patch.setenv("TERM", "xterm")

    def shown(self) -> str:
        self._stream.close()
        shown = b""
        while True:
            try:
                piece = os.read(self._master, 1 << 16)
            except OSError:  # the other end is closed
                piece = b""
            if not piece:
                os.close(self._master)
                return shown.decode()
            shown += piece


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    monkeypatch.setattr(progress, "INTERVAL", 0.0)
    monkeypatch.setattr(PeriodicFlush, "INTERVAL", 0.0)


def test_a_bar_on_a_terminal(
    log: Log, impatient: None, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    terminal = Terminal(monkeypatch)
    assert verify(log) == 1
    shown = terminal.shown()
    assert "orders-1" in shown
    assert "1602 bytes of 1602 bytes" in shown
    out = capfd.readouterr().out
    assert "KD-LOG-CRC" in out
    assert "orders-1" not in out


def test_none_before_a_second_is_over(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal(monkeypatch)
    assert verify(log) == 1
    assert terminal.shown() == ""


def test_none_where_stderr_is_no_terminal(log: Log, impatient: None, capfd: pytest.CaptureFixture[str]) -> None:
    assert verify(log) == 1
    assert capfd.readouterr().err == ""


def test_findings_go_out_while_the_rest_is_read(
    log: Log, impatient: None, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    seen: list[str] = []
    monkeypatch.setattr(ProgressBar, "add", lambda *_: seen.append(capfd.readouterr().out))
    (log.directory / "lost+found").mkdir()
    assert verify(log) == 1
    assert "KD-DIR-NAME" in seen[0]
    assert "sound:" not in "".join(seen)


def test_the_whole_is_the_size_of_all_logs(log: Log, tmp_path: Path) -> None:
    assert total_size([str(log.directory)]) == 6 * 267
    assert total_size([str(log.partition), str(log.path(0, "log"))]) == 3 * 267
    assert total_size([str(tmp_path / "none")]) == 0


def test_verify_tells_how_far_it_has_got(log: Log, monkeypatch: pytest.MonkeyPatch, run_main: Run) -> None:
    lines: list[str] = []
    really = ProgressBar.add

    def add(bar: ProgressBar, path: str, size: int) -> None:
        really(bar, path, size)
        lines.append(bar.line())

    monkeypatch.setattr(ProgressBar, "add", add)
    assert run_main("verify", log.directory, f"--now={NOW}", "--jobs=1") == 1
    assert re.fullmatch(r"\d+ %  \d+ bytes of 1602 bytes  [0-9.]+ \w+/s  .+ left  orders-0", lines[0])
    assert re.fullmatch(r"100 %  1602 bytes of 1602 bytes  [0-9.]+ \w+/s  <1 s left  orders-2", lines[-1])


def test_a_count_of_partitions_tells_too(log: Log, monkeypatch: pytest.MonkeyPatch, run_main: Run) -> None:
    lines: list[str] = []
    really = PathCounter.over

    def over(counter: PathCounter, paths: list[str]) -> Iterator[str]:
        for path in really(counter, paths):
            lines.append(counter.line())
            yield path

    monkeypatch.setattr(PathCounter, "over", over)
    assert run_main("ls", log.directory) == 0
    assert lines == [f"{number} of 3 partitions" for number in range(3)]


@pytest.fixture
def run_main(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Run:
    return Run(capfdbinary, monkeypatch)
