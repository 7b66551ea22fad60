"""`kdump repair` from the command line: plans, applying, undoing, copies, safety checks, and what scripts get."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kdump
import kdump.change.apply
from kdump.change import journal, place
from kdump.change.apply import apply_plan
from kdump.change.change import Change, ChangeState
from kdump.change.copy_out import PART_SUFFIX
from kdump.change.guard import ANY_LOSS
from kdump.change.place import new_change
from kdump.formats import names
from kdump.formats.encode import NewBatch, NewRecord, encode_batch
from kdump.mend.proposal import examine
from kdump.mend.task import SALVAGE, TRUNCATE_LOG, Request, Strategy
from tests.change.kept import change_files
from tests.commands.running import Run
from tests.repair.damaged import DAMAGES, STARTUP, edit, flip, marker, name, removed
from tests.repair.salvaging import content, errors

ROOT = Path(__file__).resolve().parent.parent.parent
DAMAGED = ("orders-0", "orders-1", "orders-2")
AS_BROKER = ("--strategy", "truncate")
SETTINGS = "index.interval.bytes=300\nsegment.index.bytes=2000\n"


@pytest.fixture
def data(sound: Path, tmp_path: Path) -> Path:
    """A log directory with a sound partition and three damaged ones, closed by a crash."""
    folder = tmp_path / "data"
    folder.mkdir()
    for number, damage in enumerate(("middle segment, payload", "damage and leftovers", "index missing")):
        shutil.copytree(sound / "orders-0", folder / f"orders-{number}")
        DAMAGES[damage](folder / f"orders-{number}")
    shutil.copytree(sound / "orders-0", folder / "orders-3")
    lines = "".join(f"orders {number} 59\n" for number in range(4))
    (folder / names.RECOVERY_POINT_CHECKPOINT).write_text("0\n4\n" + lines.replace("59", "0"))
    (folder / names.REPLICATION_CHECKPOINT).write_text("0\n4\n" + lines)
    (folder / names.META_PROPERTIES).write_text("version=1\nnode.id=3\ncluster.id=abc\n")
    return folder


@pytest.fixture
def config(tmp_path: Path) -> list[str]:
    """The options for the settings and the clock that the partitions were made with; what a plan drops may go."""
    path = tmp_path / "topic.properties"
    path.write_text(SETTINGS)
    return ["--config", str(path), "--now", str(STARTUP.now), "--accept-loss", "all"]


State = dict[str, tuple[bytes, int, int]]


def tree(folder: Path) -> State:
    """Content, modification time and mode of all files, originals included."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            info = path.stat()
            found[str(path.relative_to(folder))] = (path.read_bytes(), info.st_mtime_ns, info.st_mode)
    return found


def bytes_of(folder: Path) -> dict[str, bytes]:
    """The content of all files, originals not included; the lines of checkpoints in their order by partition."""
    found = {}
    for path, (held, _, _) in tree(folder).items():
        if place.PREFIX not in path:
            found[path] = b"\n".join(sorted(held.splitlines())) if "checkpoint" in path else held
    return found


def changes(partition: Path) -> list[Change]:
    return journal.changes_of(str(partition))


class TestPlan:
    @pytest.mark.parametrize("strategy", [TRUNCATE_LOG, SALVAGE])
    @pytest.mark.parametrize("format_", ["text", "jsonl"])
    def test_nothing_is_changed(
        self, run: Run, data: Path, config: list[str], strategy: Strategy, format_: str
    ) -> None:
        before = tree(data)
        assert run("repair", data, "--strategy", strategy, "--format", format_, *config) == 1
        assert run.err == ""
        assert tree(data) == before
        assert sorted(path.name for path in data.iterdir()) == sorted({path.split("/")[0] for path in before})

    def test_damage_is_found_whatever_the_shutdown_was(self, run: Run, data: Path, config: list[str]) -> None:
        """A broker passes it by behind a clean shutdown; a repair does not."""
        (data / names.CLEAN_SHUTDOWN).write_text("")
        for how in ((), AS_BROKER, ("--strategy", "salvage")):
            assert run("repair", data / "orders-0", *how, *config) == 1
            assert name(20, "log") in run.out

    def test_in_words(self, run: Run, data: Path, config: list[str]) -> None:
        run("repair", data, *AS_BROKER, *config[:-2])
        text = run.out
        assert "  needs --accept-loss " in text
        assert f"{data}/orders-0\n  drops: " in text
        assert "log start offset 0, log end offset 20" in text
        assert f"cut     {name(20, 'log')} at byte 0 (of 1213): batch 20" in text
        assert f"remove  {name(40, 'log')}: {name(20, 'log')} before it is cut, so later ones are removed" in text
        assert f"Safe: 1 partition\n  {data}/orders-2   rebuild 1 offset index\n" in text
        assert "orders-3" not in text
        assert text.endswith(
            "Dry run: nothing was changed. 3 partitions would be.\n"
            "Next: kdump repair without --strategy lists the ways that lose nothing, or less.\n"
            "To drop them all the same: this command with --apply and the --accept-loss of each partition\n"
        )
        run("repair", data, "-v", *AS_BROKER, *config)
        assert "--accept-loss" not in run.out
        assert run.out.endswith("To drop them all the same: this command with --apply\n")
        assert f"{data}/orders-2\n  no valid batch is dropped\n" in run.out
        assert f"write   {name(0, 'index')}" in run.out

    def test_of_salvage_in_words(self, run: Run, data: Path, config: list[str]) -> None:
        run("repair", data / "orders-0", "--strategy", "salvage", *config)
        text = run.out
        assert f"given up: 203 bytes of {name(20, 'log')} from byte 0: batch 20" in text
        assert "kept: 55 records in 29 batches, offsets 0\N{EN DASH}58\n" in text
        assert "Kafka's own recovery would keep: 19 records in 10 batches, offsets 0\N{EN DASH}18\n" in text

    def test_a_sound_directory(self, run: Run, data: Path, config: list[str]) -> None:
        assert run("repair", data / "orders-3", *AS_BROKER, *config) == 0
        assert run.out == "Nothing to do.\n"

    def test_nothing_there(self, run: Run, tmp_path: Path) -> None:
        assert run("repair", tmp_path / "nowhere") == 3
        assert "does not exist" in run.err


class TestApply:
    @pytest.mark.parametrize("strategy", [TRUNCATE_LOG, SALVAGE])
    @pytest.mark.parametrize("jobs", ["1", "2"])
    def test_a_whole_log_directory(
        self, run: Run, data: Path, config: list[str], strategy: Strategy, jobs: str
    ) -> None:
        arguments = ["repair", data, "--strategy", strategy, "--jobs", jobs, *config]
        assert run(*arguments, "--apply") == 0
        assert run.err == ""
        id_ = changes(data / "orders-0")[0].id
        assert "Done. 3 partitions changed, " in run.out
        assert run.out.endswith(f"Check: kdump verify {data}\nUndo:  kdump undo {data} --change {id_}\n")
        after = bytes_of(data)
        assert run(*arguments) == 0
        assert run(*arguments, "--apply") == 0
        assert bytes_of(data) == after
        for partition in (*DAMAGED, "orders-3"):
            assert errors(data / partition) == [], partition
        end = "59" if strategy == SALVAGE else "20"
        assert f"orders 0 {end}\n" in (data / names.REPLICATION_CHECKPOINT).read_text()
        assert not (data / names.LOCK).exists()
        assert changes(data / "orders-3") == []

    def test_the_number_of_jobs_makes_no_difference(self, run: Run, data: Path, config: list[str]) -> None:
        other = Path(shutil.copytree(data, data.parent / "other"))
        assert run("repair", data, "--apply", "--jobs", "1", *AS_BROKER, *config) == 0
        one = run.out
        assert run("repair", other, "--apply", "--jobs", "2", *AS_BROKER, *config) == 0
        assert bytes_of(data) == bytes_of(other)
        assert len(one.splitlines()) == len(run.out.splitlines())

    def test_as_kafka_would(self, run: Run, data: Path, config: list[str]) -> None:
        wanted = {}
        for partition in DAMAGED:
            copy = Path(shutil.copytree(data / partition, data.parent / "copies" / partition))
            plan = examine(kdump.open_log(str(copy)), STARTUP, Request(TRUNCATE_LOG)).plan
            assert plan is not None
            apply_plan(plan, new_change(str(copy)), allowance=ANY_LOSS)
            wanted[partition] = content(copy)
        assert run("repair", data, "--apply", *AS_BROKER, *config) == 0
        assert {partition: content(data / partition) for partition in DAMAGED} == wanted

    def test_undo_brings_back_every_byte(self, run: Run, data: Path, config: list[str]) -> None:
        before = bytes_of(data)
        times = {path: each[1] for path, each in tree(data).items() if path.endswith(".log")}
        assert run("repair", data, "--strategy", "salvage", "--apply", *config) == 0
        assert bytes_of(data) != before
        id_ = changes(data / "orders-0")[0].id
        assert run("undo", data, "--change", id_, "--apply") == 0
        assert bytes_of(data) == before
        assert {path: each[1] for path, each in tree(data).items() if path in times} == times
        assert run("repair", data, *AS_BROKER, *config) == 1
        assert "interrupted" not in run.out

    def test_undo_of_one_partition(self, run: Run, data: Path, config: list[str]) -> None:
        before = content(data / "orders-1")
        run("repair", data, "--apply", *AS_BROKER, *config)
        repaired = content(data / "orders-0")
        (change,) = changes(data / "orders-1")
        assert run("undo", data / "orders-1", "--change", change.id, "--apply") == 0
        assert content(data / "orders-1") == before
        assert content(data / "orders-0") == repaired

    def test_without_a_backup(self, run: Run, data: Path, config: list[str]) -> None:
        assert run("repair", data, "--apply", "--no-backup", *AS_BROKER, *config) == 0
        assert "Undo:" not in run.out
        assert change_files(data) == []

    def test_what_salvage_cuts_out_stays_without_a_backup(self, run: Run, data: Path, config: list[str]) -> None:
        assert run("repair", data / "orders-0", "--strategy", "salvage", "--apply", "--no-backup", *config) == 0
        (change,) = changes(data / "orders-0")
        (kept,) = change.cuts
        assert set(change_files(data)) == {Path(change.file(kept.file)), Path(change.files.path(place.JOURNAL))}
        assert f"kept    {change.file(kept.file)}\n" in run.out

    def test_a_backup_elsewhere(self, run: Run, data: Path, config: list[str], tmp_path: Path) -> None:
        kept = tmp_path / "kept"
        kept.mkdir()
        before = bytes_of(data)
        assert run("repair", data, "--apply", "--backup-dir", kept, *AS_BROKER, *config) == 0
        assert sorted(path.name for path in kept.iterdir()) == list(DAMAGED)
        assert {path.name.rpartition("+")[2] for path in change_files(data)} == {"elsewhere"}
        (id_,) = {change.id for each in DAMAGED for change in journal.changes_of(str(data / each), str(kept))}
        assert run("undo", data, "--change", id_, "--backup-dir", kept, "--apply") == 0
        assert bytes_of(data) == before

    def test_a_backup_in_another_file_system(
        self, run: Run, data: Path, config: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        kept = tmp_path / "kept"
        kept.mkdir()
        real = os.stat

        def stat(path: int | str | os.PathLike[str], **more: Any) -> os.stat_result:
            info = real(path, **more)
            return os.stat_result((*info[:2], -1, *info[3:])) if path == str(kept) else info  # another device

        monkeypatch.setattr(os, "stat", stat)
        before = tree(data)
        assert run("repair", data, "--apply", "--backup-dir", kept, *AS_BROKER, *config) == 4
        assert f"Refused: {kept} is in another file system than {data}/orders-0" in run.err
        assert tree(data) == before

    def test_a_backup_among_the_partitions(self, run: Run, data: Path, config: list[str]) -> None:
        (data / "kept").mkdir()
        assert run("repair", data / "orders-0", "--apply", "--backup-dir", data / "kept", *AS_BROKER, *config) == 4
        assert "where the broker treats every directory as a partition" in run.err

    def test_backup_options_contradict_each_other(self, run: Run, data: Path) -> None:
        assert run("repair", data, "--backup-dir", data, "--no-backup") == 2
        assert "contradict" in run.err


class TestOnly:
    def test_some_kinds(self, run: Run, data: Path, config: list[str]) -> None:
        removed(name(20, "timeindex"))(data / "orders-2")
        before = content(data / "orders-2")
        assert run("repair", data / "orders-2", "--only", "indexes, snapshots", "--apply", *AS_BROKER, *config) == 0
        assert set(content(data / "orders-2")) - set(before) == {name(0, "index")}

    def test_an_index_of_a_log_that_needs_repair(self, run: Run, data: Path, config: list[str]) -> None:
        assert run("repair", data / "orders-0", "--only", "indexes", "--apply", *AS_BROKER, *config) == 3
        assert ". Indexes were not rebuilt. First: kdump repair " in run.err

    def test_an_unknown_kind(self, run: Run, data: Path) -> None:
        assert run("repair", data, "--only", "indices") == 2
        assert "'indices' is not one of log, indexes, timeindexes, txnindexes, snapshots" in run.err


def holder(path: Path) -> subprocess.Popen[str]:
    """A process that holds the lock of a log directory, as a broker does."""
    program = (
        "import fcntl, sys; f = open(sys.argv[1], 'a'); fcntl.lockf(f, fcntl.LOCK_EX); print('locked', flush=True)"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", f"{program}; sys.stdin.read()", str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "locked\n"
    return child


@pytest.fixture
def locked(data: Path) -> Iterator[Path]:
    """The log directory while a live process holds its lock."""
    child = holder(data / names.LOCK)
    yield data
    child.communicate("")


class TestRails:
    @pytest.mark.parametrize(
        "arguments", [["repair"], ["rebuild-index"], ["trim"], ["repair", "--strategy", "salvage"]]
    )
    def test_a_live_process_holds_the_lock(self, run: Run, locked: Path, arguments: list[str]) -> None:
        before = tree(locked)
        assert run(*arguments, locked, "--apply") == 4
        assert f"Refused: a broker is running on {locked} (process " in run.err
        assert " holds .lock)." in run.err
        assert "Nothing was changed. Stop the broker, then run this again." in run.err
        assert tree(locked) == before

    @pytest.mark.parametrize("command", ["repair", "rebuild-index", "trim"])
    def test_a_plan_beside_a_broker_is_worth_nothing(
        self, run: Run, locked: Path, command: str, tmp_path: Path
    ) -> None:
        before = tree(locked)
        assert run(command, locked) == 4
        assert f"Refused: a broker is running on {locked} (process " in run.err
        assert "would" not in run.out
        assert not run.out or run.out.startswith(f"Nothing was changed: a broker is running on {locked} (process ")
        assert tree(locked) == before

    def test_a_lock_file_without_a_lock_is_a_leftover(self, run: Run, data: Path, config: list[str]) -> None:
        (data / names.LOCK).write_text("")
        assert run("repair", data, "--apply", *AS_BROKER, *config) == 0
        assert (data / names.LOCK).exists()

    def test_an_undo_is_refused_too(self, run: Run, data: Path, config: list[str]) -> None:
        run("repair", data, "--apply", *AS_BROKER, *config)
        after = tree(data)
        child = holder(data / names.LOCK)
        try:
            id_ = changes(data / "orders-0")[0].id
            assert run("undo", data, "--change", id_, "--apply") == 4
        finally:
            child.communicate("")
        assert {path: each for path, each in tree(data).items() if path != names.LOCK} == after

    def test_a_log_that_grows(self, run: Run, data: Path, config: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
        log = data / "orders-2" / name(40, "log")

        def grow(seconds: float) -> None:
            with open(log, "ab") as file:
                file.write(b"x")

        monkeypatch.setattr(time, "sleep", grow)
        told = f"Refused: {log}: this file is being written; stop the broker, or work on a copy\n"
        for target in ([], ["--output", data.parent / "copy"]):
            assert run("repair", data, "--apply", *target, *AS_BROKER, *config) == 4
            assert run.err.count(told) == 1
        assert change_files(data) == []
        assert sorted(path.name for path in data.parent.iterdir()) == ["data", "topic.properties"]

    @pytest.mark.parametrize("which", ["data", "orders-0"])
    def test_the_name_of_the_directory_forces_it(self, run: Run, locked: Path, config: list[str], which: str) -> None:
        target = locked if which == "data" else locked / which
        assert run("repair", target, "--apply", "--ignore-lock", which, *AS_BROKER, *config) == 0
        assert "done" in run.out

    @pytest.mark.parametrize("wrong", ["yes", "", "orders", "Data"])
    def test_another_name_does_not(self, run: Run, locked: Path, config: list[str], wrong: str) -> None:
        before = tree(locked)
        assert run("repair", locked, "--apply", "--ignore-lock", wrong, *AS_BROKER, *config) == 4
        assert "the directory is called data" in run.err
        assert tree(locked) == before
        assert run("repair", locked / "orders-0", "--apply", "--ignore-lock", wrong, *AS_BROKER, *config) == 4
        assert "the directory is called data, the partition directory orders-0" in run.err

    def test_a_partition_that_is_a_symbolic_link(self, run: Run, data: Path, tmp_path: Path, config: list[str]) -> None:
        os.rename(data / "orders-0", tmp_path / "orders-0")
        (data / "orders-0").symlink_to(tmp_path / "orders-0")
        before = tree(tmp_path / "orders-0")
        assert run("repair", data, "--apply", *AS_BROKER, *config) == 4
        assert "a symbolic link that leads out of" in run.err
        assert tree(tmp_path / "orders-0") == before
        assert errors(data / "orders-2") == []  # the others are repaired

    def test_a_log_that_is_a_symbolic_link(self, run: Run, data: Path, tmp_path: Path, config: list[str]) -> None:
        log = data / "orders-0" / name(20, "log")
        os.rename(log, tmp_path / "elsewhere")
        log.symlink_to(tmp_path / "elsewhere")
        before = (tmp_path / "elsewhere").read_bytes()
        assert run("repair", data / "orders-0", "--apply", *AS_BROKER, *config) == 4
        assert "a symbolic link: kdump does not change what it leads to" in run.err
        assert (tmp_path / "elsewhere").read_bytes() == before
        assert log.is_symlink()

    def test_missing_permission(self, run: Run, data: Path, config: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
        allowed = os.access
        forbidden = str(data / "orders-0")
        monkeypatch.setattr(os, "access", lambda path, mode: path != forbidden and allowed(path, mode))
        before = tree(data / "orders-0")
        assert run("repair", data, "--apply", *AS_BROKER, *config) == 3
        assert f"{forbidden}: cannot be written (permissions, or a read-only file system)" in run.err
        assert tree(data / "orders-0") == before


class TestWhereKafkaDies:
    @pytest.fixture
    def dying(self, data: Path) -> Path:
        """A partition whose loading ends in an exception: a marker of no known type."""
        bad = encode_batch([NewRecord(59, 5000, b"\0\0\0\7", b"\0\0\0\0\0\3")], NewBatch(0x30, 7, 0, -1, 2))
        edit(name(40, "log"), lambda held: held + bad)(data / "orders-3")
        return data / "orders-3"

    def test_no_strategy_makes_room_in_a_full_index(self, run: Run, data: Path, tmp_path: Path) -> None:
        settings = tmp_path / "tiny.properties"
        settings.write_text("index.interval.bytes=300\nsegment.index.bytes=16\n")
        assert run("repair", data / "orders-3", "--strategy", "salvage", "--config", settings) == 3
        assert "Attempt to append to a full " in run.out
        assert "segment.index.bytes is too small for this log: set a larger one, in --config too" in run.out

    def test_strategy_kafka_refuses(self, run: Run, dying: Path, config: list[str]) -> None:
        before = tree(dying)
        assert run("repair", dying, "--apply", *AS_BROKER, *config) == 3
        assert "cannot be repaired this way: loading it ends in java.lang.IllegalArgumentException" in run.out
        assert "kdump repair without --strategy shows the ways out" in run.out
        assert "1 partition cannot be repaired this way" in run.out
        assert tree(dying) == before

    def test_salvage_repairs_it(self, run: Run, dying: Path, config: list[str]) -> None:
        assert run("repair", dying, "--strategy", "salvage", "--apply", *config) == 0
        assert "Kafka's own recovery would fail" in run.out
        assert errors(dying) == []
        assert run("repair", dying, *AS_BROKER, *config) == 0

    def test_the_others_are_repaired(self, run: Run, data: Path, dying: Path, config: list[str]) -> None:
        assert run("repair", data, "--apply", *AS_BROKER, *config) == 3
        assert errors(data / "orders-0") == []


class TestOutput:
    def test_a_repaired_copy(self, run: Run, data: Path, config: list[str], tmp_path: Path) -> None:
        before = tree(data)
        target = tmp_path / "rescued"
        arguments = ["repair", data, "--strategy", "salvage", "--output", target, *config]
        assert run(*arguments) == 1
        assert not target.exists()
        assert run(*arguments, "--apply") == 0
        assert tree(data) == before
        assert f"{target}/orders-0\n" in run.out
        for partition in (*DAMAGED, "orders-3"):
            assert errors(target / partition) == []
        assert (target / names.META_PROPERTIES).exists()
        assert run("repair", target, "--strategy", "salvage", *config) == 0
        (change,) = changes(target / "orders-0")
        assert len(change.cuts) == 1
        assert Path(change.file(change.cuts[0].file)).exists()

    def test_the_plan_is_what_is_done_and_nothing_is_left_to_do(
        self, run: Run, data: Path, config: list[str], tmp_path: Path
    ) -> None:
        """The copy has no marker of a clean shutdown: it is planned for as such, also where the source has one."""
        (data / names.CLEAN_SHUTDOWN).write_text('{"version":0,"brokerEpoch":-1}')
        for index in (data / "orders-3").glob("*.index"):  # which a broker makes again after an unclean shutdown
            os.truncate(index, 1 << 20)
        target = tmp_path / "rescued"
        arguments = ["repair", data, "--strategy", "salvage", "--output", target, *config]
        assert run(*arguments) == 1
        planned = re.search(r"\d+ partitions? would be", run.out)
        assert planned is not None
        assert run(*arguments, "--apply") == 0
        assert f"Done. {planned[0].removesuffix(' would be')} changed" in run.out
        assert f"    kept    {target}/.kdump-" in run.out
        assert str(target) + PART_SUFFIX not in run.out
        assert run("repair", target, "--strategy", "salvage", *config) == 0

    def test_of_one_partition_alone(self, run: Run, data: Path, config: list[str], tmp_path: Path) -> None:
        target = tmp_path / "rescued"
        assert run("repair", data / "orders-0", "--output", target, "--apply", *AS_BROKER, *config) == 0
        assert [path.name for path in target.iterdir() if path.is_dir()] == ["orders-0"]

    def test_something_is_there(self, run: Run, data: Path, config: list[str], tmp_path: Path) -> None:
        (tmp_path / "rescued").write_text("mine")
        assert run("repair", data, "--output", tmp_path / "rescued", "--apply", *AS_BROKER, *config) == 3
        assert "exists already" in run.err

    def test_among_the_partitions_of_a_broker(self, run: Run, data: Path, config: list[str]) -> None:
        before = tree(data)
        assert run("repair", data / "orders-0", "--output", data / "rescued", "--apply", *AS_BROKER, *config) == 2
        assert f"{data / 'rescued'} is in Kafka's own {data}" in run.err
        assert tree(data) == before

    def test_of_two_log_directories(self, run: Run, data: Path, sound: Path, tmp_path: Path) -> None:
        assert run("repair", data, sound, "--output", tmp_path / "rescued") == 2
        assert "--output takes the partitions of one log directory" in run.err

    def test_a_locked_source(self, run: Run, locked: Path, config: list[str], tmp_path: Path) -> None:
        assert run("repair", locked, "--output", tmp_path / "rescued", "--apply", *AS_BROKER, *config) == 4
        assert not (tmp_path / "rescued").exists()


class TestInterrupted:
    def interrupt(self, partition: Path, strategy: Strategy = TRUNCATE_LOG, *, operations: int | None = None) -> str:
        """Leave a repair behind, or the first operations of one, that was killed after its first changes."""
        task = examine(kdump.open_log(str(partition)), STARTUP, Request(strategy))
        assert task.plan is not None
        plan = task.plan._replace(operations=task.plan.operations[:operations])
        files = new_change(str(partition))
        left = 2

        def kill(*args: Any) -> None:
            nonlocal left
            left -= 1
            if not left:
                raise KeyboardInterrupt
            real(*args)

        module = kdump.change.apply
        real = module._carry_out
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "_carry_out", kill)
            with pytest.raises(KeyboardInterrupt):
                apply_plan(plan, files, command="repair", cuts=task.cuts, allowance=ANY_LOSS)
        return files.id

    @pytest.mark.parametrize("strategy", [TRUNCATE_LOG, SALVAGE])
    def test_the_next_run_finishes_it(self, run: Run, data: Path, config: list[str], strategy: Strategy) -> None:
        undisturbed = Path(shutil.copytree(data, data.parent / "undisturbed"))
        assert run("repair", undisturbed, "--strategy", strategy, "--apply", *config) == 0
        id_ = self.interrupt(data / "orders-1", strategy)
        arguments = ["repair", data, "--strategy", strategy, *config]
        assert run(*arguments) == 1
        assert f"change {id_} (repair) was interrupted: --apply finishes it\n" in run.out
        assert run(*arguments, "--apply") == 0
        assert f"change {id_} (repair) was interrupted, and is finished now\n" in run.out
        assert f" --change {id_}\n" in run.out
        assert bytes_of(data) == bytes_of(undisturbed)
        assert [change.state for change in changes(data / "orders-1")] == [ChangeState.DONE]

    def test_what_was_finished_is_undone_after_what_followed(self, run: Run, data: Path, config: list[str]) -> None:
        before = bytes_of(data)
        finished = self.interrupt(data / "orders-1", operations=3)
        assert run("repair", data, "--apply", *AS_BROKER, *config) == 0
        undo = [line.removeprefix("Undo:  kdump ").split() for line in run.lines if line.startswith("Undo:")]
        (made,) = {change.id for change in changes(data / "orders-0")}
        assert [words[-1] for words in undo] == [made, finished]
        for words in undo:
            assert run(*words, "--apply") == 0
        assert bytes_of(data) == before

    def test_what_was_finished_where_somebody_has_to_decide(self, run: Run, data: Path, config: list[str]) -> None:
        before = bytes_of(data / "orders-0")
        id_ = self.interrupt(data / "orders-0", operations=2)
        assert run("repair", data / "orders-0", *config) == 1
        assert "Dry run: nothing was changed. 1 partition would be, 1 needs a decision." in run.lines
        assert run("repair", data / "orders-0", "--apply", *config) == 1
        assert "Done. 1 partition changed, no valid batch dropped, 1 needs a decision." in run.lines
        assert f"Undo:  kdump undo {data / 'orders-0'} --change {id_}" in run.lines
        assert run("undo", data / "orders-0", "--change", id_, "--apply") == 0
        assert bytes_of(data / "orders-0") == before

    def test_rows(self, run: Run, data: Path, config: list[str]) -> None:
        id_ = self.interrupt(data / "orders-1")
        run("repair", data, "--format", "jsonl", *AS_BROKER, *config)
        told = {row["path"]: row["interrupted"] for row in run.of_type("partition")}
        assert told[str(data / "orders-1")] == [id_]
        assert told[str(data / "orders-0")] == []

    def test_ctrl_c(self, data: Path, config: list[str], run: Run) -> None:
        undisturbed = Path(shutil.copytree(data, data.parent / "undisturbed"))
        assert run("repair", undisturbed, "--apply", *AS_BROKER, *config) == 0
        program = textwrap.dedent(
            """
            import os, signal, sys
            import kdump.change.apply as module
            from kdump.commands.cli import main
            real = module._carry_out
            left = 3
            def interrupted(*args):
                global left
                left -= 1
                if not left:
                    os.kill(os.getpid(), signal.SIGINT)
                real(*args)
            module._carry_out = interrupted
            main()
            """
        )
        arguments = ["repair", str(data), "--apply", "--jobs", "1", *AS_BROKER, *config]
        command = [sys.executable, "-c", program, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ))
        assert done.returncode == 130
        assert "interrupted: the same command continues from here" in done.stderr
        assert "Traceback" not in done.stderr
        assert bytes_of(data) != bytes_of(undisturbed)
        assert run("repair", data, "--apply", *AS_BROKER, *config) == 0
        assert bytes_of(data) == bytes_of(undisturbed)

    def test_ctrl_c_ends_at_a_safe_boundary_with_several_jobs(self, data: Path, config: list[str], run: Run) -> None:
        program = textwrap.dedent(
            """
            import os, signal, sys, threading, time
            import kdump.change.apply as module
            from kdump.commands.cli import main
            real = module._carry_out
            once = threading.Lock()
            def slow(*args):
                if once.acquire(blocking=False):
                    os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.02)
                real(*args)
            module._carry_out = slow
            main()
            """
        )
        arguments = ["repair", str(data), "--apply", "--jobs", "2", *config]
        command = [sys.executable, "-c", program, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ))
        assert done.returncode == 130
        assert "interrupted: the same command continues from here" in done.stderr
        assert not [change for each in DAMAGED for change in journal.unfinished(str(data / each))]
        assert run("repair", data, "--apply", *AS_BROKER, *config) == 0
        assert run("repair", data, *AS_BROKER, *config) == 0


OPERATION = {"type", "topic", "partition", "path", "action", "file", "size", "oldSize", "source", "why"}
LEFT_OUT = {"type", "topic", "partition", "path", "file", "start", "stop", "why"}
PARTITION = {
    "type", "topic", "partition", "path", "isComplete", "operations", "isApplied", "change", "interrupted", "failure",
    "problems", "notes",
    "logStartOffset", "logEndOffset", "lost", "kept", "kafkaKeeps", "markers", "openTransactions",
    "isDecisionNeeded", "dropped", "droppedByKind",
}  # fmt: skip


def test_a_copy_of_what_has_no_kafka_files_is_not_made(run: Run, tmp_path: Path) -> None:
    (tmp_path / "data" / "dbus-1").mkdir(parents=True)
    (tmp_path / "data" / "dbus-1" / "socket").write_text("")
    for path in (tmp_path / "data", tmp_path / "data" / "dbus-1"):
        assert run("repair", path, "--output", tmp_path / "out", "--apply") == 4
        assert f"Refused: {tmp_path}/data/dbus-1 has no Kafka files. Nothing was changed." in run.err
        assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]


class TestRows:
    def test_of_a_plan(self, run: Run, data: Path, config: list[str]) -> None:
        run("repair", data, "--format", "jsonl", *AS_BROKER, *config)
        operations = [row for row in run.of_type("operation") if row["path"] == f"{data}/orders-0"]
        assert all(set(row) == OPERATION for row in operations)
        cut = next(row for row in operations if row["action"] == "truncate")
        assert (cut["file"], cut["size"], cut["oldSize"], cut["source"]) == (name(20, "log"), 0, 1213, None)
        set_to = next(row for row in operations if row["action"] == "checkpoint")
        assert (set_to["file"], set_to["size"], set_to["oldSize"]) == (names.REPLICATION_CHECKPOINT, 20, 59)
        row = next(row for row in run.of_type("partition") if row["path"] == f"{data}/orders-0")
        assert set(row) == PARTITION
        assert (row["isComplete"], row["isApplied"], row["change"], row["failure"]) == (True, False, None, None)
        assert row["operations"] == len(operations)
        assert (row["logStartOffset"], row["logEndOffset"]) == (0, 20)
        assert row["lost"]["batches"] == 19
        assert row["kept"] is row["kafkaKeeps"] is row["openTransactions"] is row["markers"] is None
        (end,) = run.of_type("summary")
        assert end == {
            "type": "summary", "partitionsWithWork": 3, "partitionsFailed": 0, "isApplied": False,
            "nothingChanged": None,
            "verdict": "found", "exitCode": 1,
        }  # fmt: skip

    def test_of_salvage(self, run: Run, data: Path, config: list[str]) -> None:
        run("repair", data / "orders-0", "--strategy", "salvage", "--apply", "--format", "jsonl", *config)
        (left_out,) = run.of_type("leftOut")
        assert set(left_out) == LEFT_OUT
        assert (left_out["file"], left_out["start"], left_out["stop"]) == (name(20, "log"), 0, 203)
        (row,) = run.of_type("partition")
        assert (row["isApplied"], row["lost"]) == (True, None)
        assert row["kept"] == {"bytes": 3436, "batches": 29, "records": 55, "firstOffset": 0, "lastOffset": 58}
        assert row["kafkaKeeps"]["batches"] == 10
        assert row["openTransactions"] == row["markers"] == []
        assert row["change"] == changes(data / "orders-0")[0].id

    def test_of_a_failure(self, run: Run, data: Path, config: list[str]) -> None:
        (data / "orders-3" / "leader-epoch-checkpoint").write_text("garbage")
        assert run("repair", data / "orders-3", "--format", "jsonl", *AS_BROKER, *config) == 3
        (row,) = run.of_type("partition")
        assert row["isComplete"] is False
        assert row["failure"]["file"] == "leader-epoch-checkpoint"
        assert row["failure"]["exception"].startswith("org.apache.kafka.")
        assert row["logEndOffset"] is None

    def test_without_a_backup(self, run: Run, data: Path, config: list[str]) -> None:
        run("repair", data / "orders-2", "--apply", "--no-backup", "--format", "jsonl", *AS_BROKER, *config)
        (row,) = run.of_type("partition")
        assert (row["isApplied"], row["change"]) == (True, None)

    def test_the_fields_are_documented(self, run: Run) -> None:
        text = "".join((ROOT / "docs" / page).read_text() for page in ("json.md", "repair.md"))
        for field in OPERATION | LEFT_OUT | PARTITION:
            assert f"`{field}`" in text, field

    def test_nothing_in_a_path_drives_the_terminal(self, run: Run, data: Path, config: list[str]) -> None:
        strange = data.parent / "da\x1b[31mta"
        os.rename(data, strange)
        run("repair", strange, *AS_BROKER, *config)
        assert "\x1b" not in run.out
        run("repair", strange, "--format", "jsonl", *AS_BROKER, *config)
        assert "\x1b" not in run.out
        assert run.of_type("partition")[0]["path"].startswith(str(strange))


class TestCodecs:
    def test_what_cannot_be_judged_is_not_left_out(self, data: Path, config: list[str], tmp_path: Path) -> None:
        corpus = ROOT / "fixtures" / "corpus" / "i-zstd-trunc"
        copy = shutil.copytree(corpus, tmp_path / "zstd")
        before = tree(copy)
        program = "import sys; sys.modules['zstandard'] = None\nfrom kdump.commands.cli import main; main()"
        arguments = ["repair", str(copy), "--strategy", "salvage", "--apply", *config]
        command = [sys.executable, "-c", program, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ))
        assert done.returncode == 3
        assert "zstd needs the package zstandard, which is not installed: pip install zstandard" in done.stderr
        assert tree(copy) == before


class TestLostMarkers:
    def test_only_with_salvage(self, run: Run, data: Path) -> None:
        assert run("repair", data, "--missing-markers", "abort") == 2
        assert "--missing-markers goes with --strategy salvage" in run.err

    @pytest.fixture
    def lost(self, data: Path) -> Path:
        """A transaction whose last marker is cut off; no index tells what became of it."""
        whole = len(marker(58, 1040, "commit"))
        edit(name(40, "log"), lambda held: flip(len(held) - whole + 70)(held))(data / "orders-3")
        return data / "orders-3"

    def test_open_by_default(self, run: Run, lost: Path, config: list[str]) -> None:
        assert run("repair", lost, "--strategy", "salvage", *config) == 1
        assert "open transaction: producer 7 (epoch 0) from offset 40 on; if its marker was among" in run.out
        assert "put in:" not in run.out

    def test_aborted(self, run: Run, lost: Path, config: list[str]) -> None:
        arguments = ["repair", lost, "--strategy", "salvage", "--missing-markers", "abort", *config]
        assert run(*arguments, "--apply") == 0
        told = "put in: an ABORT marker at offset 58 ends the transaction of producer 7 from offset 40 on"
        assert f"{told}: it may have lost its marker ({name(40, 'log')})" in run.out
        assert "open transaction" not in run.out
        assert run(*arguments) == 0
        assert errors(lost) == []

    def test_rows(self, run: Run, lost: Path, config: list[str]) -> None:
        run("repair", lost, "--strategy", "salvage", "--missing-markers", "abort", "--format", "jsonl", *config)
        (row,) = run.of_type("partition")
        assert row["markers"] == [
            {
                "file": name(40, "log"), "offset": 58, "producerId": 7, "producerEpoch": 0, "firstOffset": 40,
                "isProven": False,
            }
        ]  # fmt: skip
        assert row["openTransactions"] == []
        run("repair", lost, "--strategy", "salvage", "--format", "jsonl", *config)
        (row,) = run.of_type("partition")
        assert row["openTransactions"] == [{"producerId": 7, "producerEpoch": 0, "firstOffset": 40}]


def test_no_path(run: Run) -> None:
    assert run("repair") == 2
    assert "Missing argument 'PATH...'" in run.err


def test_a_file_is_no_path_for_repair(run: Run, data: Path) -> None:
    assert run("repair", data / "orders-0" / name(0, "log")) == 2
    assert "is a file: give the partition directory that it is in" in run.err


@pytest.mark.parametrize("setting", ["index.interval.bytes=many\n", "remote.storage.enable=perhaps\n"])
def test_settings_that_kafka_would_not_take(run: Run, data: Path, tmp_path: Path, setting: str) -> None:
    (tmp_path / "bad.properties").write_text(setting)
    assert run("repair", data, "--config", tmp_path / "bad.properties") == 2
    assert setting.split("=")[0] in run.err


def test_the_settings_count(run: Run, data: Path, config: list[str]) -> None:
    assert run("repair", data / "orders-3", *AS_BROKER, *config) == 0
    assert run("repair", data / "orders-3", "--now", str(STARTUP.now)) == 1
    assert "rebuilt from the log" in run.out


def test_how_it_stopped_counts(run: Run, data: Path, config: list[str]) -> None:
    assert run("repair", data / "orders-0", "--clean", *AS_BROKER, *config) == 1
    assert run("repair", data / "orders-0", "--unclean", *AS_BROKER, *config) == 1
    assert run("repair", data / "orders-0", "--recovery-point", "40", *AS_BROKER, *config) == 1
    assert run("repair", data / "orders-3", "--log-start-offset", "30", *AS_BROKER, *config) == 1


def test_undo_of_renames_that_follow_each_other(run: Run, data: Path, config: list[str]) -> None:
    partition = data / "orders-3"
    log = partition / name(20, "log")
    for suffix in ("log.swap", "log.swap.swap"):
        shutil.copy2(log, partition / name(20, suffix))
    log.unlink()
    before = bytes_of(data)
    assert run("repair", partition, "--apply", *AS_BROKER, *config) == 0
    assert log.exists()
    assert not (partition / name(20, "log.swap.swap")).exists()
    (change,) = changes(partition)
    assert run("undo", data, "--change", change.id, "--apply") == 0
    assert bytes_of(data) == before


def test_a_checkpoint_that_cannot_be_read_stops_only_what_cuts_a_log(run: Run, data: Path, config: list[str]) -> None:
    """orders-2 lacks an index; of the others' logs a part goes, and the checkpoint may have offsets beyond that."""
    checkpoint = data / names.REPLICATION_CHECKPOINT
    checkpoint.unlink()
    checkpoint.symlink_to(checkpoint.name)  # in a circle, which no reader follows
    assert run("repair", *AS_BROKER, "--apply", data, *config) == 3
    assert errors(data / "orders-2") == []
    assert errors(data / "orders-0") != []
    assert "2 partitions cannot be repaired this way." in run.out
