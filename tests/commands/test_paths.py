"""PATHs in all commands: what is not there, or is nothing of Kafka's, is exit code 3; paths are printed as given."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.agreement.directories import EVERYTHING, build
from tests.agreement.running import kdump

COMMANDS = {
    "verify": (), "ls": (), "dump": (), "stats": (), "txns": (), "groups": (), "startup": (), "repair": (), "trim": (),
    "rebuild-index": (), "retain": (), "compact": (), "undo": (), "lookup": ("--offset", "0"), "metadata": (),
    "append": (), "roll": (),
}  # fmt: skip
"""The commands that take PATHs, with what they want besides."""


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("damaged") / "all"
    build(EVERYTHING, root, "wrong-crc")
    return root


@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_not_there_is_exit_code_3(tmp_path: Path, command: str) -> None:
    said = kdump(tmp_path, command, *COMMANDS[command], "nowhere/orders-0")
    assert said.code == 3
    assert "nowhere/orders-0 does not exist" in said.err
    assert "No changes" not in said.out


@pytest.mark.parametrize("command", [each for each in COMMANDS if each != "undo"])
def test_a_directory_of_nothing_of_kafkas_is_exit_code_3(tmp_path: Path, command: str) -> None:
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs" / "notes.txt").write_text("")
    assert kdump(tmp_path, command, *COMMANDS[command], "specs").code == 3


@pytest.mark.parametrize(
    "arguments",
    [
        ("repair",), ("repair", "--fix-bit"), ("repair", "--strategy", "truncate"), ("rebuild-index",),
        ("trim",), ("repair", "--strategy", "salvage", "--only-copy", "--apply"), ("repair", "--output", "out"),
        ("retain", "--retention-ms", "1", "--apply"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("form", ["text", "jsonl"])
def test_paths_are_printed_as_they_were_given(
    damaged: Path, tmp_path: Path, arguments: tuple[str, ...], form: str
) -> None:
    shutil.copytree(damaged / "disk-1", tmp_path / "d")
    said = kdump(tmp_path, arguments[0], "--format", form, *arguments[1:], "d")
    assert str(tmp_path) not in said.out + said.err
    assert "d/" in said.out


def test_retention_is_applied_to_a_path_that_is_relative(damaged: Path, tmp_path: Path) -> None:
    shutil.copytree(damaged / "disk-1", tmp_path / "d")
    said = kdump(tmp_path, "retain", "--retention-ms", "1", "--cleanup-policy", "delete", "--apply", "d/orders-1")
    assert said.code == 0, said.err
    assert len(list((tmp_path / "d" / "orders-1").glob("*.log"))) == 1


def test_pruning_says_what_it_frees(damaged: Path, tmp_path: Path) -> None:
    shutil.copytree(damaged / "disk-1", tmp_path / "d")
    kdump(tmp_path, "repair", "--strategy", "salvage", "--only-copy", "--apply", "d")
    size = sum(path.stat().st_size for path in (tmp_path / "d").glob(".kdump-*"))
    said = kdump(tmp_path, "undo", "--prune", "--older-than", "0s", "--format", "jsonl", "d")
    (row,) = [row for row in map(json.loads, said.out.splitlines()) if row["type"] == "prune"]
    assert row["bytes"] == size


@pytest.mark.parametrize("command", ["doctor", "ls", "verify", "startup", "stats", "txns", "repair", "undo", "retain"])
def test_without_paths_the_log_dirs_of_the_server_count(damaged: Path, command: str) -> None:
    (damaged.parent / "server.properties").write_text(f"log.dirs={damaged}/disk-1\n")
    named = kdump(damaged.parent, command, str(damaged / "disk-1"), "--format", "jsonl", "--no-header")
    found = kdump(damaged.parent, command, "--config", "server.properties", "--format", "jsonl", "--no-header")
    assert found.code == named.code
    assert len(found.rows) == len(named.rows) > 0 or command == "undo"


@pytest.mark.parametrize("command", ["doctor", "ls", "verify", "dump", "repair"])
def test_without_paths_and_settings_the_command_line_is_wrong(tmp_path: Path, command: str) -> None:
    said = kdump(tmp_path, command)
    assert said.code == 2
    assert "--config FILE" in said.err


@pytest.mark.parametrize("command", ["ls", "verify", "stats", "txns", "dump", "startup", "doctor"])
def test_the_same_partition_twice_counts_once(damaged: Path, tmp_path: Path, command: str) -> None:
    folder = damaged / "disk-1"
    (tmp_path / "link").symlink_to(folder)
    once = kdump(tmp_path, command, folder, "--format", "jsonl", "--no-header")
    twice = kdump(
        tmp_path, command, folder, "link", f"{folder}/orders-1", folder, "--format", "jsonl", "--no-header"
    )
    assert len(twice.rows) == len(once.rows)
