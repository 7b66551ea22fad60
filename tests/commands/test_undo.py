"""`kdump undo` from the command line, and the safety checks that all changes share."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kdump.change import journal, place
from kdump.formats import names
from kdump.formats.encode import NewBatch, NewRecord, encode_batch
from kdump.storage.live import tally
from tests.change.kept import change_files, killed_after
from tests.commands.running import Run
from tests.repair.damaged import DAMAGES, STARTUP, build, name
from tests.repair.salvaging import content
from tests.topics.building import cluster_directory

SETTINGS = "index.interval.bytes=300\nsegment.index.bytes=2000\n"


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("sound") / "sound")


@pytest.fixture
def data(sound: Path, tmp_path: Path) -> Path:
    """A log directory with two damaged partitions and a sound one."""
    folder = tmp_path / "data"
    for number, damage in enumerate(("middle segment, payload", "damage and leftovers")):
        shutil.copytree(sound, folder / f"orders-{number}")
        DAMAGES[damage](folder / f"orders-{number}")
    shutil.copytree(sound, folder / "orders-2")
    (folder / names.META_PROPERTIES).write_text("version=1\nnode.id=3\ncluster.id=abc\n")
    return folder


@pytest.fixture
def config(tmp_path: Path) -> list[str]:
    (tmp_path / "topic.properties").write_text(SETTINGS)
    return ["--config", str(tmp_path / "topic.properties"), "--now", str(STARTUP.now)]


TRUNCATE = ("--strategy", "truncate", "--accept-loss", "all")


@pytest.fixture
def id_(run: Run, data: Path, config: list[str]) -> str:
    """The change of a repair of both damaged partitions."""
    assert run("repair", data, *TRUNCATE, *config, "--apply") == 0
    return journal.changes_of(str(data / "orders-0"))[0].id


def contents(data: Path) -> dict[str, dict[str, bytes]]:
    return {path.name: content(path) for path in sorted(data.iterdir()) if path.is_dir()}


def kept(data: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in change_files(data)}


class TestList:
    def test_nothing(self, run: Run, data: Path) -> None:
        assert run("undo", data) == 0
        assert run.out == "No changes are kept here.\n"

    def test_partitions_of_one_run_share_a_row(self, run: Run, data: Path, id_: str) -> None:
        assert run("undo", data) == 0
        heading, row, total = run.out.splitlines()
        assert heading.split() == ["CHANGE", "PARTITION", "COMMAND", "AGE", "KEEPS", "STATE"]
        assert row.startswith(f"{id_}  orders-0 and 1 more  repair truncate")
        assert row.endswith("can be undone")
        assert total.startswith("2 changes in 2 partitions keep ")
        assert run("undo", data, "-v") == 0
        assert len(run.out.splitlines()) == 4

    def test_of_a_partition_that_is_gone(self, run: Run, data: Path, id_: str) -> None:
        shutil.rmtree(data / "orders-0")
        assert run("undo", data / "orders-0") == 0
        assert run.out.splitlines()[1].endswith("partition is gone")
        assert run("undo", data, "--change", id_, "--apply") == 4
        assert f"Refused: orders-0 is not in {data} any more\n" in run.err

    def test_rows(self, run: Run, data: Path, id_: str) -> None:
        assert run("undo", data, "--format", "jsonl") == 0
        first, second = run.of_type("change")
        assert (first["id"], first["topic"], first["partition"], second["partition"]) == (id_, "orders", 0, 1)
        assert (first["state"], first["why"], first["command"]) == ("can be undone", None, "repair truncate")
        assert first["logEndOffset"] == 20
        text = (Path(__file__).resolve().parents[2] / "docs" / "repair.md").read_text()
        for field in first:
            assert f"`{field}`" in text, field

    def test_a_journal_that_cannot_be_read(self, run: Run, data: Path, id_: str) -> None:
        (data / f".kdump-{id_}+orders-0+journal").write_text("{}")
        assert run("undo", data) == 3
        assert "not a journal of a change" in run.err
        assert "orders-1" in run.out


class TestUndo:
    def test_a_plan_changes_nothing(self, run: Run, data: Path, id_: str) -> None:
        before = contents(data), kept(data)
        assert run("undo", data / "orders-0", "--change", id_) == 1
        assert f"{data}/orders-0  restores " in run.out
        again = f"kdump undo {data / 'orders-0'} --change {id_} --apply"
        assert run.out.endswith(f"Dry run: nothing was changed.\nNext: {again}\n")
        assert (contents(data), kept(data)) == before

    def test_and_undone_again(self, run: Run, data: Path, config: list[str], tmp_path: Path) -> None:
        before = contents(data)
        assert run("repair", data, *TRUNCATE, *config, "--apply") == 0
        after, id_ = contents(data), journal.changes_of(str(data / "orders-0"))[0].id
        assert run("undo", data, "--change", id_, "--apply") == 0
        assert contents(data) == before
        undo_line = run.out.splitlines()[-1]
        assert undo_line.startswith(f"Undo:  kdump undo {data} --change ")
        assert run("undo", data, "--change", undo_line.split()[-1], "--apply") == 0
        assert contents(data) == after

    def test_records_that_came_since_are_not_dropped(self, run: Run, data: Path, id_: str) -> None:
        with open(max((data / "orders-0").glob("*.log")), "ab") as log:
            log.write(encode_batch([NewRecord(20, 5000, None, b"new")], NewBatch()))
        before = contents(data), kept(data)
        assert run("undo", data / "orders-0", "--change", id_, "--apply") == 4
        assert run.err == (
            f"Refused: orders-0 has changed since change {id_}: the log end offset was 20, it is 21 now. Undo would"
            " drop offsets 20\n"
        )
        assert run.out.startswith("Nothing was changed: orders-0 has changed since")
        assert (contents(data), kept(data)) == before
        assert run("undo", data) == 0
        assert "log has grown" in run.out

    def test_an_unknown_change(self, run: Run, data: Path, id_: str) -> None:
        assert run("undo", data, "--change", "20200101T000000", "--apply") == 3
        assert "there is no change '20200101T000000' here" in run.err
        assert run.out.startswith("Nothing was changed: ")

    @pytest.mark.parametrize(
        "options", [["--apply"], ["--older-than", "1d"], ["--close"], ["--prune", "--older-than", "x"]]
    )
    def test_usage(self, run: Run, data: Path, options: list[str]) -> None:
        assert run("undo", data, *options) == 2


class TestPrune:
    def test_by_age(self, run: Run, data: Path, id_: str) -> None:
        before = contents(data), kept(data)
        assert run("undo", data, "--prune", "--older-than", "1h", "--apply") == 0
        assert run.out == "Nothing to do.\n"
        assert run("undo", data, "--prune") == 1
        assert run.lines[-2:] == [
            "Dry run: nothing was deleted. 2 changes would be.", f"Next: kdump undo {data} --prune --apply"
        ]  # fmt: skip
        assert (contents(data), kept(data)) == before
        assert run("undo", data, "--prune", "--older-than", "0s", "--apply") == 0
        assert kept(data) == {}
        assert contents(data) == before[0]

    def test_interrupted_ones_stay(self, run: Run, data: Path, config: list[str]) -> None:
        with killed_after(2):
            run("repair", data / "orders-1", *TRUNCATE, *config, "--apply")
        before = kept(data)
        assert run("undo", data) == 1
        assert "INTERRUPTED" in run.out
        assert "--strategy truncate --apply (finishes the interrupted change)" in run.out
        assert run("undo", data, "--prune", "--apply") == 0
        assert kept(data) == before


class TestInterrupted:
    @pytest.fixture
    def interrupted(self, run: Run, data: Path, config: list[str]) -> str:
        with killed_after(6):
            run("repair", data / "orders-1", *TRUNCATE, *config, "--apply")
        tally.clear()  # whose process is gone
        (change,) = journal.unfinished(str(data / "orders-1"))
        return change.id

    def test_who_reports_it(self, run: Run, data: Path, interrupted: str) -> None:
        assert run("verify", data, "--format", "jsonl") == 1
        told = [row for row in run.rows if row.get("code") == "KD-CHANGE-UNFINISHED"]
        assert [(row["severity"], row["path"]) for row in told] == [("error", f"{data}/orders-1")]
        text = f"note: {data}/orders-1: change {interrupted} (repair truncate) was interrupted"
        for command in ("ls", "startup"):
            for path in (data, data / "orders-1"):
                run(command, path)
                assert text in run.err
            run(command, data / "orders-0")
            assert text not in run.err

    def test_a_dump_of_a_file_says_it_with_the_path_as_given(
        self, run: Run, data: Path, interrupted: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(data)
        file = min(path.name for path in Path("orders-1").glob("*.log"))
        text = f"note: orders-1: change {interrupted} (repair truncate) was interrupted: kdump undo orders-1 shows"
        for words in (("dump", f"orders-1/{file}"), ("dump", "orders-1"), ("stats", "orders-1"), ("txns", ".")):
            run(*words)
            assert run.err.count("was interrupted") == 1, words
            assert text in run.err.replace("./orders-1", "orders-1"), words
        run("dump", "orders-2/" + min(path.name for path in Path("orders-2").glob("*.log")))
        assert "was interrupted" not in run.err

    @pytest.mark.parametrize("wrote", [False, True])
    def test_every_reader_says_it(self, run: Run, data: Path, interrupted: str, wrote: bool, tmp_path: Path) -> None:
        """What they print is of half a change; and once, whoever says it."""
        if wrote:
            with open(max((data / "orders-1").glob("*.log")), "ab") as log:
                log.write(b"more")
        readers = (
            ["stats"], ["txns"], ["lookup", "--offset", "3"], ["dump"], ["dump", "--batches-only"], ["ls"], ["startup"],
            ["replicas"], ["export", "--to", str(tmp_path / "out"), "--format", "jsonl"],
        )  # fmt: skip
        for command in readers:
            run(command[0], data / "orders-1", *command[1:])
            text = f"{data}/orders-1: change {interrupted} (repair truncate) was interrupted"
            assert run.err.count(text) == 1, command
            run(command[0], data / "orders-2", *command[1:])
            assert "was interrupted" not in run.err
        for other in ("retain", "compact", "verify", "doctor", "repair", "trim", "rebuild-index", "undo"):
            run(other, data / "orders-1")
            assert interrupted in run.out + run.err, other

    def test_taken_back(self, run: Run, data: Path, sound: Path, interrupted: str) -> None:
        wanted = data.parent / "wanted"
        shutil.copytree(sound, wanted)
        DAMAGES["damage and leftovers"](wanted)
        assert content(data / "orders-1") != content(wanted)
        assert run("undo", data / "orders-1", "--change", interrupted, "--apply") == 0
        assert content(data / "orders-1") == content(wanted)
        assert kept(data) == {}

    def test_not_over_what_was_written_since(self, run: Run, data: Path, config: list[str], interrupted: str) -> None:
        with open(max((data / "orders-1").glob("*.log")), "ab") as log:
            log.write(b"more")
        before = contents(data)
        assert run("repair", data / "orders-1", *TRUNCATE, *config, "--apply") == 4
        assert "was interrupted, and the partition was changed since" in run.err
        assert run("undo", data / "orders-1", "--change", interrupted, "--apply") == 4
        assert contents(data) == before
        assert run("undo", data / "orders-1", "--change", interrupted, "--close") == 1
        assert run("undo", data / "orders-1", "--change", interrupted, "--close", "--apply") == 0
        assert contents(data) == before
        assert run("repair", data / "orders-1", *TRUNCATE, *config, "--apply") == 0


class TestSafetyChecks:
    def test_the_number_of_records_has_to_be_right(self, run: Run, data: Path, config: list[str]) -> None:
        arguments = ["repair", data / "orders-0", "--strategy", "truncate", *config, "--apply"]
        before = contents(data)
        for options in ([], ["--accept-loss", "35"], ["--accept-loss", "0"]):
            assert run(*arguments, *options) == 4
            assert "this plan drops 36 valid records of orders-0 (offsets 22\N{EN DASH}58)" in run.err
            assert "To drop them all the same: --accept-loss 36" in run.err
            assert run.out.splitlines()[-1].startswith("Nothing was changed: this plan drops 36 valid records")
            assert contents(data) == before
            assert kept(data) == {}
        assert run(*arguments, "--accept-loss", "x") == 2
        assert run(*arguments, "--accept-loss", "36") == 0

    def test_other_replicas_in_sync(self, run: Run, sound: Path, config: list[str], tmp_path: Path) -> None:
        data = cluster_directory(tmp_path / "data")
        partition = data / "orders-0"
        metadata = (partition / names.PARTITION_METADATA).read_bytes()
        shutil.rmtree(partition)
        shutil.copytree(sound, partition)
        (partition / names.PARTITION_METADATA).write_bytes(metadata)
        DAMAGES["middle segment, payload"](partition)
        before = content(partition)
        arguments = ["repair", partition, "--strategy", "salvage", *config, "--apply"]
        assert run(*arguments) == 4
        assert "broker 2 is in sync for orders-0; the leader would never send" in run.err
        assert content(partition) == before
        assert run(*arguments, "--only-copy") == 0
        assert content(partition) != before

    def test_a_saved_plan(self, run: Run, data: Path, config: list[str], tmp_path: Path) -> None:
        plan = tmp_path / "plan.json"
        arguments = ["repair", data, *TRUNCATE, *config]
        assert run(*arguments, "--plan-out", plan) == 1
        assert {os.path.basename(row["path"]) for row in json.loads(plan.read_text())["partitions"]} >= {"orders-0"}
        before = contents(data)
        index = data / "orders-0" / name(0, "timeindex")
        os.utime(index)
        assert run(*arguments, "--apply-plan", plan) == 4
        assert f"{index.name} changed since the plan {plan} was made" in run.err
        assert run(*arguments, "--plan-out", plan, "--apply") == 2
        assert "leave out --apply and --apply-plan" in run.err
        assert contents(data)["orders-0"] == before["orders-0"]
        assert run(*arguments, "--plan-out", plan) == 1
        assert run(*arguments, "--apply-plan", plan) == 0
        assert contents(data)["orders-0"] != before["orders-0"]

    def test_a_saved_plan_of_other_options(self, run: Run, data: Path, config: list[str], tmp_path: Path) -> None:
        plan, before = tmp_path / "plan.json", contents(data)
        assert run("repair", data / "orders-0", *TRUNCATE, *config, "--plan-out", plan) == 1
        assert "--apply-plan" in run.out
        assert "--apply" not in run.out.replace("--apply-plan", "")  # which --plan-out refuses
        assert run("repair", data / "orders-0", "--strategy", "salvage", *config, "--apply-plan", plan) == 4
        assert f"the plan differs from {plan}" in run.err
        assert run("repair", data / "orders-1", *TRUNCATE, *config, "--apply-plan", plan) == 4
        assert "this partition is not in" in run.err
        assert contents(data) == before
        plan.write_text("{}")
        assert run("repair", data / "orders-0", *config, "--apply-plan", plan) == 3
        assert "not a plan file" in run.err

    def test_the_originals_stay_when_the_partition_goes(self, data: Path, id_: str) -> None:
        before = kept(data)
        for name_ in ("orders-0", "orders-1"):
            os.rename(data / name_, data / f"{name_}.{'0' * 32}-delete")
            shutil.rmtree(data / f"{name_}.{'0' * 32}-delete")
        assert kept(data) == before
        assert any(f"+{place.OLD}+" in path for path in before)

    def test_a_read_only_source_with_a_lock_file(self, data: Path, config: list[str], tmp_path: Path) -> None:
        """As an unprivileged user, for whom root's files are as on a read-only file system."""
        if os.geteuid():
            pytest.skip("only root can become somebody else")
        (data / names.LOCK).write_text("")
        for path in (tmp_path, *tmp_path.parents):
            if path.stat().st_mode & 0o005 != 0o005 and path.stat().st_uid == 0:
                path.chmod(path.stat().st_mode | 0o005)
        out = tmp_path / "out"
        out.mkdir()
        out.chmod(0o777)
        program = (  # the modules are loaded first: that user may not see where they are
            "import os, sys\n"
            "from kdump.commands.cli import main\n"
            "wanted = sys.argv[:]\n"
            "sys.argv = wanted[:-3] + ['--output', wanted[-2] + '-first', '--apply']\n"
            "try:\n    main()\nexcept SystemExit:\n    pass\n"
            "os.setgroups([]); os.setgid(12345); os.setuid(12345)\n"
            "sys.argv = wanted\n"
            "main()\n"
        )
        arguments = ["repair", str(data), "--strategy", "salvage", *config, "--output", str(out / "copy"), "--apply"]
        done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert (out / "copy" / "orders-0").is_dir()


class TestBackupDir:
    """--backup-dir is asked for once: the log directory knows from then on where the originals are."""

    @pytest.fixture
    def backups(self, tmp_path: Path) -> Path:
        (tmp_path / "backups").mkdir()
        return tmp_path / "backups"

    @pytest.fixture
    def salvaged(self, run: Run, data: Path, config: list[str], backups: Path) -> str:
        before = ("--strategy", "salvage", "--only-copy", "--backup-dir", backups, "--apply")
        assert run("repair", data / "orders-0", *before, *config) == 0
        return journal.changes_of(str(data / "orders-0"))[0].id

    def test_listed_shown_and_undone(self, run: Run, data: Path, salvaged: str, sound: Path, tmp_path: Path) -> None:
        for path in (data, data / "orders-0"):
            assert run("undo", path) == 0
            assert salvaged in run.out
            assert run("dump", path, "--kept", "--batches-only") in (0, 1)
            assert salvaged in run.out
        assert run("undo", data / "orders-0", "--change", salvaged, "--apply") == 0
        wanted = Path(shutil.copytree(sound, tmp_path / "wanted"))
        DAMAGES["middle segment, payload"](wanted)
        assert content(data / "orders-0") == content(wanted)

    @pytest.mark.parametrize("moves_backups", [True, False])
    def test_mounted_elsewhere(
        self, run: Run, data: Path, salvaged: str, backups: Path, tmp_path: Path, moves_backups: bool
    ) -> None:
        (tmp_path / "mnt").mkdir()
        data.rename(tmp_path / "mnt" / "data")
        if moves_backups:
            backups.rename(tmp_path / "mnt" / "backups")
        options = () if moves_backups else ("--backup-dir", backups)
        partition = tmp_path / "mnt" / "data" / "orders-0"
        assert run("undo", partition, *options) == 0
        assert "can be undone" in run.out
        assert run("undo", partition, "--change", salvaged, "--apply", *options) == 0

    def test_an_interrupted_one_is_not_overlooked(self, run: Run, data: Path, config: list[str], backups: Path) -> None:
        with killed_after(6):
            run("repair", data / "orders-1", *TRUNCATE, *config, "--backup-dir", backups, "--apply")
        assert run("verify", data, "--format", "jsonl") == 1
        assert "KD-CHANGE-UNFINISHED" in {row.get("code") for row in run.rows}
        gone = backups.rename(backups.with_name("unmounted"))
        before = contents(data)
        assert run("repair", data / "orders-1", *TRUNCATE, *config, "--apply") == 3
        assert "does not exist, and change" in run.err
        assert contents(data) == before
        gone.rename(backups)
        assert run("repair", data / "orders-1", *TRUNCATE, *config, "--apply") == 0
        assert journal.unfinished(str(data / "orders-1")) == []

    def test_all_of_it_belongs_to_whom_the_data_does(
        self, run: Run, data: Path, config: list[str], backups: Path
    ) -> None:
        """As a broker's user has to be able to delete it, whoever ran kdump."""
        owner = (1234, 2345) if os.geteuid() == 0 else (os.getuid(), os.getgid())
        for path in (data, *data.rglob("*")):
            os.chown(path, *owner)
        assert run("repair", data, *TRUNCATE, *config, "--backup-dir", backups, "--apply") == 0
        made = [*data.glob(".kdump-*"), *backups.rglob("*")]
        assert {(path.stat().st_uid, path.stat().st_gid) for path in made} == {owner}

    def test_nothing_stays_of_what_is_pruned(self, run: Run, data: Path, salvaged: str, backups: Path) -> None:
        assert len(kept(data)) == 1
        assert run("undo", data, "--prune", "--apply") == 0
        assert kept(data) == {}
        assert list(backups.iterdir()) == []

    def test_originals_that_somebody_deleted(
        self, run: Run, data: Path, config: list[str], salvaged: str, backups: Path
    ) -> None:
        shutil.rmtree(backups)
        assert run("undo", data) == 0
        assert run("repair", data / "orders-0", *config) == 0
        assert run("repair", data, *TRUNCATE, *config, "--apply") == 0, run.err
        assert not any("elsewhere" in each for each in kept(data))


def test_paths_are_shown_as_they_were_given(
    run: Run, data: Path, id_: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("undo", "data", "--format", "jsonl") == 0
    assert {row["path"] for row in run.of_type("change")} == {"data/orders-0", "data/orders-1"}
    assert run("undo", "data/orders-0", "--change", id_) == 1
    assert run.out.startswith("data/orders-0  ")


def test_what_is_refused_names_paths_as_they_were_given(
    run: Run, data: Path, id_: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command = (sys.executable, "-m", "kdump", "undo", "--change", id_, "--apply")
    with open("data/.lock", "w") as held:
        fcntl.lockf(held, fcntl.LOCK_EX)
        for given in ("data", "data/orders-0"):
            done = subprocess.run((*command, given), capture_output=True, text=True)
            assert done.returncode == 4
            assert str(tmp_path) not in done.stdout + done.stderr
            assert "is running on data" in done.stderr
    change_files(data, place.JOURNAL)[0].write_text("{")
    assert run("undo", "data") == 3
    assert run.err.startswith("kdump: data/.kdump-")
    assert str(tmp_path) not in run.out + run.err


@pytest.mark.parametrize(
    ("options", "finishes"),
    [(("--fix-bit",), "--fix-bit --apply"), (("--strategy", "salvage", "--only-copy"), "--strategy salvage --apply")],
)
def test_the_command_that_finishes_a_change_is_one(
    run: Run, data: Path, config: list[str], options: tuple[str, ...], finishes: str
) -> None:
    with killed_after(0):
        run("repair", data / "orders-0", *options, *config, "--apply")
    assert run("undo", data) == 1
    (line,) = [line for line in run.lines if line.startswith("Next: kdump ")]
    assert finishes in line
    words = line.removeprefix("Next: kdump ").partition(" (")[0].split()
    assert run(*words, *config) == 0
    assert "was interrupted, and is finished now" in run.out


def test_a_directory_around_log_directories_is_not_taken_for_one_without_changes(
    run: Run, data: Path, id_: str, tmp_path: Path
) -> None:
    (data / "meta.properties").write_text("version=1\nnode.id=1\n")
    assert run("undo", tmp_path) == 3
    assert f"not a log directory; it holds 1: kdump undo {data}" in run.err
    assert "No changes are kept" not in run.out
    assert run("undo", data) == 0
