"""Output grows with what is wrong, not with partitions."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdump.commands.cli import COMMANDS
from tests.agreement.running import kdump

SPEC = """
seed: many
clock: 2026-11-20T02:10:00Z
shutdown: killed
topics:
  - name: orders
    partitions: 300
    config: {segment.index.bytes: 4096}
    steps:
      - append: {records: 4, batch_records: 2, value: {shape: text, size: 20}}
faults:
  - {fault: flip-payload-bit, topic: orders, partition: 17, batch: 0}
  - {fault: truncate-tail, topic: orders, partition: 42}
  - {fault: truncate-tail, topic: orders, partition: 142}
  - {fault: timeindex-missing, topic: orders, partition: 7}
"""
A_LINE_EACH = {"ls": (), "lookup": ("--offset", "2")}
"""Commands that list partitions: a line for each, and a few around them."""
OTHER_THINGS = {"dump", "append", "roll", "export", "serve", "fixture", "explain", "help", "completion"}
"""Commands that print records, or are not about partitions."""
NOT_HERE = {"groups", "metadata", "schemas", "quorum", "resurrect"}
"""Commands that want what this directory does not have: they say so in a line."""
SUMMING_UP = sorted({*COMMANDS} - A_LINE_EACH.keys() - OTHER_THINGS - NOT_HERE)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    (folder / "many.yaml").write_text(SPEC)
    assert kdump(folder, "fixture", "build", "many.yaml", "data").code == 0
    return folder


@pytest.mark.parametrize("command", SUMMING_UP)
def test_no_command_prints_more_than_a_screen_or_two(command: str, home: Path) -> None:
    said = kdump(home, command, "data")
    assert said.out
    assert len(said.out.splitlines()) <= 60
    assert len(said.err.splitlines()) <= 6


@pytest.mark.parametrize("command", A_LINE_EACH)
def test_a_list_has_a_line_for_each(command: str, home: Path) -> None:
    said = kdump(home, command, "data", *A_LINE_EACH[command])
    assert 300 <= len(said.out.splitlines()) <= 320
    assert len(said.err.splitlines()) <= 6


@pytest.mark.parametrize("command", sorted(NOT_HERE))
def test_what_is_not_here_is_said_in_a_line(command: str, home: Path) -> None:
    said = kdump(home, command, "data")
    assert said.code in (2, 3)
    assert (said.out, len(said.err.splitlines())) in (("", 1), ("", 2))


def test_a_log_directory_without_partitions(home: Path) -> None:
    (home / "fresh").mkdir()
    (home / "fresh" / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=abc\n")
    (home / "fresh" / "orders-0").mkdir()
    commands = ("ls", "stats", "verify", "dump", "doctor", "startup", "retain", "repair")
    assert [each for each in commands if kdump(home, each, "fresh/orders-0").code] == []
    (home / "fresh" / "orders-0").rmdir()
    assert [each for each in commands if kdump(home, each, "fresh").code] == []
    assert kdump(home, "startup", "fresh").out.endswith("\nThe broker will start.\n")


def test_what_is_not_routine_is_shown(home: Path) -> None:
    for command in ("repair", "doctor"):
        said = kdump(home, command, "data").out
        assert [name for name in ("orders-17", "orders-42", "orders-142") if name not in said] == []
    assert kdump(home, "repair", "data", "--format", "jsonl").out.count('"type":"partition"') == 300
