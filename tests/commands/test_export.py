"""`kdump export`: what it says, what it refuses, and how it exits."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.commands.logs import batch, write_segment
from tests.commands.running import Run
from tests.storage.building import flipped

needs_pyarrow = pytest.mark.skipif(find_spec("pyarrow") is None, reason="pyarrow is not installed")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A log directory with two topics."""
    folder = tmp_path / "data"
    for name, count in (("orders-0", 3), ("orders-1", 2), ("clicks-0", 1)):
        write_segment(folder / name, 0, [batch(10 * number, 10) for number in range(count)])
    return folder


@needs_pyarrow
def test_a_log_directory(run: Run, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run("export", data, "--to", out) == 0
    assert run.err == ""
    assert run.out.startswith("Done. 60 records in 3 files of ")
    assert run.out.endswith(f" bytes in {out}\n")
    assert sorted(path.name for path in out.iterdir()) == ["_SUCCESS", "_kdump", "topic=clicks", "topic=orders"]
    assert run("export", data, "--to", out) == 0
    assert run.out.endswith("(3 of 3 parts were there already)\n")


@needs_pyarrow
def test_topics_bounds_and_levels(run: Run, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ("--topic", "orders", "--offsets", "5:15", "--by", "none", "--format", "jsonl", "--columns", "offset")
    assert run("export", data, "--to", out, *arguments) == 0
    assert run.out.startswith("Done. 20 records in 2 files")
    lines = "".join(path.read_text() for path in sorted(out.glob("part-*.jsonl"))).splitlines()
    assert lines == [f'{{"offset":{offset}}}' for offset in range(5, 15)] * 2
    assert run("export", data, "--to", out, "--topic", "none-such") == 3
    assert run.err == "kdump: no partition has a topic that matches none-such\n"


@needs_pyarrow
def test_damage(run: Run, tmp_path: Path) -> None:
    good = batch(0, 3)
    log = write_segment(tmp_path / "orders-0", 0, [good, flipped(batch(3, 3), -1), batch(6, 3)])
    out = tmp_path / "out"
    assert run("export", log.parent, "--to", out) == 1
    assert run.err.startswith(f"kdump: {log}: byte {len(good)}: batch ")
    assert run.out.endswith("; not complete, so there is no _SUCCESS\n")
    assert run("export", log.parent, "--to", out, "--skip-damage") == 1
    assert "not whole" not in run.out
    assert (out / "_SUCCESS").exists()


@needs_pyarrow
def test_what_cannot_be_read_keeps_it_from_being_whole(run: Run, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run("export", data, tmp_path / "nothing", "--to", out, "--skip-damage") == 3
    assert run.err.startswith(f"kdump: {tmp_path / 'nothing'} does not exist\n")
    assert run.out.endswith("; not complete, so there is no _SUCCESS\n")
    assert not (out / "_SUCCESS").exists()
    assert run("export", data, "--to", out, "--skip-damage") == 0
    assert (out / "_SUCCESS").exists()


@needs_pyarrow
def test_the_replica_that_reaches_farthest(run: Run, tmp_path: Path) -> None:
    for broker, count in (("a", 1), ("b", 2)):
        write_segment(tmp_path / broker / "orders-0", 0, [batch(10 * number, 10) for number in range(count)])
    assert run("export", tmp_path / "a", tmp_path / "b", "--to", tmp_path / "out") == 0
    assert run.out.startswith("Done. 20 records")
    assert f"{tmp_path / 'a' / 'orders-0'}: not used" in run.err


@needs_pyarrow
def test_usage(run: Run, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run("export", data, "--to", out, "--columns", "kye") == 2
    assert "there is no column 'kye': did you mean key?" in run.err
    assert run("export", data, "--to", out, "--by", "hour") == 2
    assert "'hour' is not a level: there are topic, partition, date" in run.err
    assert run("export", data, "--to", out, "--format", "csv", "--codec", "snappy") == 2
    assert "csv has the codecs none, gzip, zstd, not snappy" in run.err
    assert run("export", data, "--to", out, "--columns", ",") == 2
    assert run("export", data / "nothing", "--to", out) == 3
    assert run("export", data / "orders-0", "--to", data / "orders-0" / "out") == 2
    assert "is in Kafka's own" in run.err
    assert run("export", next((data / "orders-0").glob("*.log")), "--to", out) == 2
    assert not out.exists()


@needs_pyarrow
def test_another_directory_is_refused(run: Run, data: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("mine")
    assert run("export", data, "--to", tmp_path / "out") == 4
    assert run.err == (
        f"kdump: {tmp_path / 'out'} is not empty, and no export was begun in it: give another directory\n"
    )


@needs_pyarrow
def test_where_nothing_can_be_written(run: Run, data: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert run("export", data, "--to", tmp_path / "file" / "out") == 3
    assert run.err.startswith(f"kdump: {tmp_path / 'file'}")


def test_without_pyarrow(run: Run, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "pyarrow" or "kdump.columns" in name]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert run("export", data, "--to", tmp_path / "out") == 3
    assert "pip install 'kafka-kdump[columns]'" in run.err
    assert not (tmp_path / "out").exists()


@needs_pyarrow
def test_rows_have_what_became_of_each_unit(run: Run, data: Path, tmp_path: Path) -> None:
    out, before = tmp_path / "out", ("--report-format", "jsonl", "--format", "jsonl", "--by", "none")
    assert run("export", data, "--to", out, *before) == 0
    units, (summary,) = run.of_type("unit"), run.of_type("summary")
    assert {row["path"]: row["records"] for row in units} == {
        str(data / name): 10 * count for name, count in (("orders-0", 3), ("orders-1", 2), ("clicks-0", 1))
    }
    for row in units:
        [source], [file] = row["sources"], row["files"]
        assert (source["position"], source["length"]) == (0, Path(source["path"]).stat().st_size)
        assert (out / file["path"]).stat().st_size == file["bytes"]
        assert file["records"] == row["records"]
        assert (row["isResumed"], row["damage"], row["error"]) == (False, [], None)
    assert (summary["units"], summary["records"], summary["files"], summary["isComplete"]) == (3, 60, 3, True)
    assert summary["bytes"] == sum(row["files"][0]["bytes"] for row in units)
    assert run("export", data, "--to", out, *before) == 0
    assert [row["isResumed"] for row in run.of_type("unit")] == [True, True, True]


@needs_pyarrow
def test_rows_have_damage_and_failures(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = batch(0, 3)
    log = write_segment(tmp_path / "orders-0", 0, [good, flipped(batch(3, 3), -1), batch(6, 3)])
    assert run("export", log.parent, "--to", tmp_path / "out", "-o", "jsonl") == 1
    [unit], [summary] = run.of_type("unit"), run.of_type("summary")
    [damage] = unit["damage"]
    assert (damage["path"], damage["position"]) == (str(log), len(good))
    assert damage["length"] == len(batch(3, 3))
    assert (summary["damagedRanges"], summary["isComplete"], summary["verdict"]) == (1, False, "found")

    def fail(*_: object) -> None:
        raise PermissionError(13, "Permission denied", str(log))

    monkeypatch.setattr("kdump.exports.work._make", fail)
    assert run("export", log.parent, "--to", tmp_path / "other", "-o", "jsonl") == 3
    [unit], [summary] = run.of_type("unit"), run.of_type("summary")
    assert (unit["error"], unit["records"], unit["files"]) == ("Permission denied", 0, [])
    assert (summary["failures"], summary["isComplete"], summary["verdict"]) == (1, False, "incomplete")
