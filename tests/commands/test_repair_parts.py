"""`kdump rebuild-index` and `kdump trim`: the same machinery as `kdump repair` with narrower plans."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from kdump.formats import names
from kdump.formats.names import parse_file_name
from tests.change.kept import change_files, killed_after, only_change
from tests.commands.running import Run
from tests.repair.damaged import BASES, STARTUP, edit, flip, name, removed
from tests.repair.salvaging import content

COMMANDS = ("rebuild-index", "trim")


@pytest.fixture
def data(sound: Path, tmp_path: Path) -> Path:
    """A log directory of two sound partitions."""
    folder = tmp_path / "data"
    for number in range(2):
        shutil.copytree(sound / "orders-0", folder / f"orders-{number}")
    (folder / names.META_PROPERTIES).write_text("version=1\n")
    (folder / names.RECOVERY_POINT_CHECKPOINT).write_text("0\n1\norders 0 500\n")
    return folder


@pytest.fixture
def partition(data: Path) -> Path:
    return data / "orders-0"


@pytest.fixture
def config(tmp_path: Path) -> list[str]:
    path = tmp_path / "topic.properties"
    path.write_text("index.interval.bytes=300\nsegment.index.bytes=2000\n")
    return ["--config", str(path)]


def spoil(partition: Path) -> dict[str, bytes]:
    """Put entries into all indexes that do not belong there; the files as they were."""
    before = content(partition)
    for each in before:
        if parse_file_name(each).kind in names.INDEX_KINDS:
            edit(each, lambda held: held + b"\1" * 24)(partition)
    return before


def changed(partition: Path, before: dict[str, bytes]) -> set[str]:
    """The files that are not as they were."""
    return {each for each, held in content(partition).items() if held != before.get(each)}


class TestBoth:
    @pytest.mark.parametrize("command", COMMANDS)
    def test_nothing_to_do(self, run: Run, data: Path, config: list[str], command: str) -> None:
        options = config if command == "rebuild-index" else []
        assert run(command, data, *options) == 0
        assert run.out == "Nothing to do.\n"
        assert run(command, data, "--apply", *options) == 0

    @pytest.mark.parametrize("command", COMMANDS)
    def test_a_plan_changes_nothing(self, run: Run, data: Path, config: list[str], command: str) -> None:
        spoil(data / "orders-0")
        before = content(data / "orders-0")
        options = config if command == "rebuild-index" else []
        assert run(command, data, *options) == 1
        assert "Dry run: nothing was changed. 1 partition would be." in run.out
        assert content(data / "orders-0") == before
        assert change_files(data) == []

    @pytest.mark.parametrize("command", COMMANDS)
    def test_applied_and_undone(self, run: Run, data: Path, config: list[str], command: str) -> None:
        before = spoil(data / "orders-0")
        spoiled = content(data / "orders-0")
        options = config if command == "rebuild-index" else []
        assert run(command, data, "--apply", *options) == 0
        assert content(data / "orders-0").keys() == before.keys()
        assert changed(data / "orders-0", spoiled) >= {name(0, "index"), name(20, "timeindex")}
        if command == "rebuild-index":
            assert content(data / "orders-0") == before
        assert run(command, data, *options) == 0
        assert run("undo", data, "--change", only_change(data / "orders-0").id, "--apply") == 0
        assert content(data / "orders-0") == spoiled

    @pytest.mark.parametrize("command", COMMANDS)
    def test_checkpoints_are_no_matter_of_theirs(self, run: Run, data: Path, command: str) -> None:
        spoil(data / "orders-0")
        assert run(command, data, "--apply") == 0
        assert (data / names.RECOVERY_POINT_CHECKPOINT).read_text() == "0\n1\norders 0 500\n"

    @pytest.mark.parametrize("command", COMMANDS)
    @pytest.mark.parametrize("kind", ["log", "index", "timeindex"])
    def test_a_file_stands_for_its_segment(
        self, run: Run, partition: Path, config: list[str], command: str, kind: str
    ) -> None:
        spoil(partition)
        spoiled = content(partition)
        options = config if command == "rebuild-index" else []
        assert run(command, partition / name(20, kind), "--apply", *options) == 0
        found = changed(partition, spoiled)
        assert {name(20, "index"), name(20, "timeindex")} <= found
        assert {parse_file_name(each).offset for each in found} == {20}

    @pytest.mark.parametrize("command", COMMANDS)
    def test_several_files_and_directories(self, run: Run, data: Path, config: list[str], command: str) -> None:
        for number in range(2):
            spoil(data / f"orders-{number}")
        spoiled = [content(data / f"orders-{number}") for number in range(2)]
        paths = [data / "orders-0" / name(0, "log"), data / "orders-0" / name(40, "index"), data / "orders-1"]
        options = config if command == "rebuild-index" else []
        assert run(command, *paths, "--apply", *options) == 0
        found = [changed(data / f"orders-{number}", spoiled[number]) for number in range(2)]
        assert {parse_file_name(each).offset for each in found[0]} == {0, 40}
        assert {parse_file_name(each).offset for each in found[1]} == set(BASES)

    @pytest.mark.parametrize("command", COMMANDS)
    def test_a_pattern(self, run: Run, partition: Path, command: str) -> None:
        spoil(partition)
        spoiled = content(partition)
        assert run(command, f"{partition}/*20.log", "--apply") == 0
        assert {parse_file_name(each).offset for each in changed(partition, spoiled)} == {20}

    @pytest.mark.parametrize("command", COMMANDS)
    @pytest.mark.parametrize("file", ["leader-epoch-checkpoint", name(20, "snapshot"), "partition.metadata"])
    def test_other_files_are_no_segments(self, run: Run, partition: Path, command: str, file: str) -> None:
        assert run(command, partition / file) == 2
        assert "expected a .log, an index or a directory" in run.err

    @pytest.mark.parametrize("command", COMMANDS)
    @pytest.mark.parametrize(
        ("arguments", "told"),
        [
            ([], "Missing argument"),
            ([".", "--kind", "log"], ""),
            ([".", "--strategy", "salvage"], "unknown option"),
            ([".", "--no-backup", "--backup-dir", "."], "contradict"),
        ],
    )
    def test_usage(
        self, run: Run, data: Path, command: str, arguments: list[str], told: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(data)
        assert run(command, *arguments) == 2
        assert told in run.err

    @pytest.mark.parametrize("command", COMMANDS)
    def test_nothing_there(self, run: Run, data: Path, command: str) -> None:
        assert run(command, data / "nowhere", data / "orders-1") == 3
        assert "does not exist" in run.err
        assert "Nothing to do" not in run.out

    @pytest.mark.parametrize("command", COMMANDS)
    def test_rows(self, run: Run, partition: Path, config: list[str], command: str) -> None:
        spoil(partition)
        options = config if command == "rebuild-index" else []
        assert run(command, partition, "--format", "jsonl", *options) == 1
        operations = run.of_type("operation")
        assert {parse_file_name(row["file"]).kind for row in operations} >= {names.OFFSET_INDEX, names.TIME_INDEX}
        assert {row["action"] for row in operations} == {"truncate"}  # what is right about them is their beginning
        (row,) = run.of_type("partition")
        assert (row["isComplete"], row["operations"], row["logEndOffset"]) == (True, len(operations), None)


class TestRebuildIndex:
    def test_what_is_missing(self, run: Run, partition: Path, config: list[str]) -> None:
        before = content(partition)
        removed(*(each for each in before if parse_file_name(each).kind in names.INDEX_KINDS))(partition)
        assert run("rebuild-index", partition, "--apply", *config) == 0
        assert content(partition) == before
        assert f"write   {name(20, 'txnindex')} (new, 34 bytes): rebuilt from the log: 1 aborted transaction" in run.out

    @pytest.mark.parametrize("kinds", [["indexes"], ["timeindexes", "txnindexes"]])
    def test_kinds(self, run: Run, partition: Path, config: list[str], kinds: list[str]) -> None:
        spoil(partition)
        spoiled = content(partition)
        options = [argument for kind in kinds for argument in ("--kind", kind)]
        assert run("rebuild-index", partition, "--apply", *options, *config) == 0
        suffixes = {parse_file_name(each).kind for each in changed(partition, spoiled)}
        assert suffixes == {"index"} if kinds == ["indexes"] else {"timeindex", "txnindex"}

    def test_a_damaged_log(self, run: Run, partition: Path) -> None:
        edit(name(20, "log"), flip(300))(partition)
        before = content(partition)
        assert run("rebuild-index", partition, "--apply") == 3
        assert f"{name(20, 'log')}: byte 203: batch 22" in run.err
        assert "Indexes were not rebuilt. First: kdump repair " in run.err
        assert content(partition) == before

    def test_the_owner_of_new_indexes_is_that_of_the_old_ones(
        self, run: Run, partition: Path, config: list[str]
    ) -> None:
        edit(name(20, "index"), lambda held: b"\1" * 8 + held)(partition)
        index = partition / name(20, "index")
        index.chmod(0o600)
        if os.geteuid() == 0:
            os.chown(index, 1234, 2345)
        before = index.stat()
        assert run("rebuild-index", partition, "--apply", *config) == 0
        after = index.stat()
        assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
        assert after.st_ino != before.st_ino

    def test_old_settings(self, run: Run, partition: Path) -> None:
        assert run("rebuild-index", partition, "--now", str(STARTUP.now)) == 2  # no option of this command
        assert run("rebuild-index", partition) == 0  # an entry each 4096 bytes: none of these segments has one
        assert run("rebuild-index", partition, "--all") == 1


class TestTrim:
    def test_a_torn_end_and_zeros(self, run: Run, data: Path) -> None:
        edit(name(40, "log"), lambda held: held + bytes(900))(data / "orders-0")
        edit(name(40, "log"), lambda held: held[:-5])(data / "orders-1")
        assert run("trim", data, "--apply") == 0
        assert f"cut     {name(40, 'log')} at byte 1213 (of 2113): 900 bytes of zeros up to the end" in run.out
        assert f"cut     {name(40, 'log')} at byte 1135 (of 1208): the log ends inside " in run.out
        assert run("trim", data) == 0

    def test_good_batches_behind_damage(self, run: Run, data: Path) -> None:
        edit(name(20, "log"), flip(300))(data / "orders-0")
        edit(name(40, "log"), lambda held: held + bytes(900))(data / "orders-1")
        before = content(data / "orders-0")
        assert run("trim", data, "--apply") == 3
        assert "valid batches follow the damage at byte 203" in run.err
        assert content(data / "orders-0") == before
        assert (data / "orders-1" / name(40, "log")).stat().st_size == 1213

    @pytest.mark.parametrize("kills", [False, True])
    def test_what_has_another_name_elsewhere_is_not_cut(
        self, run: Run, data: Path, tmp_path: Path, kills: bool
    ) -> None:
        """As a copy made by `cp -al` before the repair."""
        path = data / "orders-0" / name(40, "log")
        edit(name(40, "log"), lambda held: held + bytes(900))(data / "orders-0")
        os.link(path, tmp_path / "copy")
        before = path.stat()
        if kills:
            with killed_after(0):
                run("trim", data, "--apply")
        assert run("trim", data, "--apply") == 0
        assert (tmp_path / "copy").stat().st_size == before.st_size
        after = path.stat()
        assert (after.st_size, after.st_mtime_ns, after.st_mode) == (1213, before.st_mtime_ns, before.st_mode)
        assert not change_files(data, "spare")
        assert run("undo", data, "--change", only_change(data / "orders-0").id, "--apply") == 0
        assert path.read_bytes() == (tmp_path / "copy").read_bytes()
