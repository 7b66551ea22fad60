"""`kdump doctor`: whether it is safe to start, what needs somebody, what is at stake, and what to do first."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from kdump.operations.actions import Action, Stake
from kdump.operations.diagnosis import Diagnosis, merged
from tests.agreement.running import Said, kdump

SPECS = Path(__file__).resolve().parents[1] / "transcripts" / "specs"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    for name, spec, *faults in (
        ("four", "four"),
        ("sound", "shop"),
        ("lost", "shop", "lost-directory"),
        ("offline", "shop"),
        ("hanging", "shop", "hanging-transaction"),
        ("zeros", "shop", "timeindex-zero-tail"),
    ):
        arguments = [word for fault in faults for word in ("--fault", fault)]
        assert kdump(folder, "fixture", "build", SPECS / f"{spec}.yaml", name, *arguments).code == 0
    (folder / "offline" / "orders-0" / "leader-epoch-checkpoint").write_text("version\n")
    return folder


def diagnoses(said: Said) -> dict[str, str]:
    """What is at stake, by partition."""
    return {os.path.basename(row["path"]): row["stake"] for row in said.of_type("diagnosis")}


def test_all_is_well(home: Path) -> None:
    said = kdump(home, "doctor", "sound")
    assert (said.code, said.err) == (0, "")
    first, checked, following = said.out.splitlines()
    assert first == "OK. The broker will start; 5 partitions, all routine."
    assert checked.startswith("Checked: everything (records not decoded), ")
    assert following == "Next: kdump verify sound (at any time, also while it runs)"


def test_an_index_that_hides_the_end_of_the_log(home: Path, tmp_path: Path) -> None:
    """The broker would give the same offsets again, whichever broker has other copies: the index is to be rebuilt."""
    shutil.copytree(home / "sound", tmp_path / "hidden", symlinks=True)
    index = max((tmp_path / "hidden" / "orders-0").glob("*.index"))
    with index.open("ab") as file:
        file.write(bytes.fromhex("7fffffff") * 2)
    said = kdump(tmp_path, "doctor", "hidden", "--format", "jsonl")
    assert said.code == 1
    (row,) = said.of_type("diagnosis")
    base = int(index.stem)
    assert (row["firstOffset"], row["stake"]) == (base, "committed")
    assert row["broker"].startswith(f"treats offset {base} as the log end, and gives the offsets of ")
    (action,) = row["actions"]
    assert action["command"] == ["kdump", "rebuild-index", "hidden/orders-0", "--apply"]
    startup = kdump(tmp_path, "startup", "hidden")
    assert startup.code == 1
    assert "do      kdump rebuild-index hidden/orders-0 --apply   (loses nothing)" in startup.out
    effects = {row["broker"] for row in kdump(tmp_path, "verify", "hidden", "--format", "jsonl").of_type("finding")}
    assert "opens the log as if it were empty" in effects
    truncate = kdump(tmp_path, "repair", "hidden", "--strategy", "truncate", "--apply")
    assert truncate.code == 0, truncate.err
    assert kdump(tmp_path, "startup", "hidden").code == 0


def test_mending_indexes_that_hide_logs_is_not_what_the_next_start_does(home: Path, tmp_path: Path) -> None:
    shutil.copytree(home / "sound", tmp_path / "hidden", symlinks=True)
    for partition in (tmp_path / "hidden").glob("orders-*"):
        with max(partition.glob("*.index")).open("ab") as file:
            file.write(bytes.fromhex("7fffffff") * 2)
    text = kdump(tmp_path, "repair", "hidden").out
    assert "rebuild 1 offset index" in text
    assert "as the broker's next start" not in text


def test_a_missing_meta_properties_is_to_be_written_again(home: Path, tmp_path: Path) -> None:
    shutil.copytree(home / "sound", tmp_path / "nobodys", symlinks=True)
    (tmp_path / "nobodys" / "meta.properties").unlink()
    said = kdump(tmp_path, "doctor", "nobodys", "--format", "jsonl")
    (row,) = (row for row in said.of_type("diagnosis") if row["stake"] == "start")
    (action,) = row["actions"]
    assert row["codes"] == ["KD-META-PROPERTIES"]
    assert action["text"].startswith("Write it again: cluster.id and node.id as in another log directory")
    assert kdump(tmp_path, "startup", "nobodys").code == 1


def test_faults_by_what_is_at_stake(home: Path) -> None:
    said = kdump(home, "doctor", "four", "--format", "jsonl")
    assert said.code == 1
    assert list(diagnoses(said).items()) == [
        ("orders-7", "committed"),
        ("clicks-2", "committed"),
        ("clicks-5", "answers"),
    ]
    damaged, cut, index = said.of_type("diagnosis")
    assert (damaged["firstOffset"], damaged["lastOffset"]) == (275, 299)
    assert (cut["firstOffset"], cut["lastOffset"]) == (220, 239)
    assert damaged["codes"][0] == "KD-LOG-CRC"
    assert index["actions"][0]["command"] == ["kdump", "rebuild-index", "four/clicks-5", "--apply"]
    (summary,) = said.of_type("summary")
    assert (summary["isStartable"], summary["partitionsThatNeedYou"], summary["isComplete"]) == (True, 3, True)


def test_what_loses_nothing_comes_first(home: Path) -> None:
    for name in ("four", "lost", "offline", "zeros", "hanging"):
        for row in kdump(home, "doctor", name, "--format", "jsonl").of_type("diagnosis"):
            losing = [action["loses"] != "nothing" for action in row["actions"]]
            assert losing
            assert losing == sorted(losing)


def test_lines_fit_a_terminal(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("four", "lost", "offline", "zeros", "hanging"):
        assert all(len(line) <= 80 for line in kdump(home, "doctor", name).out.splitlines())


def test_a_broker_that_does_not_start(home: Path) -> None:
    said = kdump(home, "doctor", "lost")
    assert said.code == 1
    assert "The broker will NOT start." in said.out
    assert "BROKER DOES NOT START" in said.out
    (row,) = [row for row in kdump(home, "doctor", "lost", "--format", "jsonl").of_type("diagnosis") if row["failure"]]
    assert row["stake"] == "start"


def test_a_disk_that_goes_offline(home: Path) -> None:
    said = kdump(home, "doctor", "offline", "--format", "jsonl")
    assert said.code == 1
    assert {row["stake"] for row in said.of_type("diagnosis")} <= {"start", "disk"}
    assert "if offline is all it has" in kdump(home, "doctor", "offline").out


def test_a_segment_that_retention_would_delete(home: Path) -> None:
    (row,) = kdump(home, "doctor", "zeros", "--now", 1769947200000, "--format", "jsonl").of_type("diagnosis")
    assert row["codes"] == ["KD-TIDX-ZEROS"]
    assert row["stake"] == "committed"


def test_hours_without_a_broker_make_no_transaction_a_hanging_one(home: Path) -> None:
    assert kdump(home, "verify", "four", "-v").out.count("KD-TXN-HANGING") == 10
    assert kdump(home, "doctor", "four").out.count("TRANSACTION") == 0
    assert "HANGING TRANSACTION" in kdump(home, "doctor", "four", "--now", "2030-01-01").out
    assert "HANGING TRANSACTION" in kdump(home, "doctor", "hanging").out


def test_one_partition(home: Path) -> None:
    said = kdump(home, "doctor", "four/clicks-2")
    assert said.code == 1
    assert "1 four/clicks-2   INCOMPLETE BATCH: committed offsets 220\N{EN DASH}239 are at stake" in said.out
    assert kdump(home, "doctor", "four/clicks-1").code == 0


def test_equal_ones_are_one_entry(home: Path, tmp_path: Path) -> None:
    shutil.copytree(home / "four", tmp_path / "data")
    for number in range(10):
        log = max((tmp_path / "data" / f"clicks-{number}").glob("*.log"))
        before = log.stat()
        os.truncate(log, before.st_size - (number != 2))
        os.utime(log, ns=(before.st_atime_ns, before.st_mtime_ns))
    said = kdump(tmp_path, "doctor", "data")
    assert "clicks-0, clicks-1 and 8 more" in said.out
    assert len(said.out.splitlines()) < 60
    (row,) = [
        row
        for row in kdump(tmp_path, "doctor", "data", "--format", "jsonl").of_type("diagnosis")
        if "KD-LOG-TORN" in row["codes"]
    ]
    assert len(row["paths"]) == 10


def test_brief(home: Path) -> None:
    lines = kdump(home, "doctor", "four", "--brief").out.splitlines()
    assert [line.split()[:2] for line in lines[1:4]] == [["1", "orders-7"], ["2", "clicks-2"], ["3", "clicks-5"]]
    assert lines[-1] == "FOUND: 3 of 40 partitions need you, 2 with committed data at stake."


def test_a_path_is_a_command(home: Path) -> None:
    assert kdump(home, "./four", "--brief").out == kdump(home, "doctor", "./four", "--brief").out
    assert kdump(home, "sound").code == 0
    said = kdump(home, "./nothing")
    assert said.code == 3
    assert "nothing" in said.err


def test_log_dirs_of_a_server(home: Path, tmp_path: Path) -> None:
    settings = tmp_path / "server.properties"
    settings.write_text(f"log.dirs={home}/four, {home}/sound\n")
    rows = kdump(home, "doctor", "--config", settings, "--format", "jsonl").of_type("logDirectory")
    assert [os.path.basename(row["path"]) for row in rows] == ["four", "sound"]
    settings.write_text("node.id=1\n")
    assert kdump(home, "doctor", "--config", settings).code == 2


def test_paths_that_are_nothing(home: Path) -> None:
    said = kdump(home, "doctor", "nothing", "sound")
    assert said.code == 3
    assert said.out.startswith("INCOMPLETE. Not everything could be read.")
    assert "INCOMPLETE" not in said.err  # the verdict is on stdout, once
    assert said.err == "kdump: nothing does not exist\n"
    assert kdump(home, "doctor").code == 2
    assert kdump(home, "doctor", "four/clicks-1/00000000000000000000.log").code == 2
    assert kdump(home, "doctor", home.parent / "nothing").code == 3


def test_a_time_limit(home: Path) -> None:
    said = kdump(home, "doctor", "four", "--max-duration", "1s", "--jobs", "1")
    assert said.code == 1
    assert kdump(home, "doctor", "four", "--max-duration", "1x").code == 2


def test_merging_keeps_the_first_ones_details() -> None:
    def each(path: str, stake: Stake = Stake.ANSWERS) -> Diagnosis:
        return Diagnosis(stake, "title", (path,), (f"found in {path}",), actions=(Action("do"),))

    found = merged([each("d/b-10"), each("d/b-2"), each("d/a-0", Stake.COMMITTED), each("d/b-1")])
    assert [diagnosis.paths for diagnosis in found] == [("d/a-0",), ("d/b-1", "d/b-2", "d/b-10")]
    assert found[1].found == ("found in d/b-1",)
