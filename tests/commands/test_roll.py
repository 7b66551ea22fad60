"""`kdump roll`: a new segment at the end of a log, and nothing where there is one already."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kdump.disk.locks import LockHolder
from kdump.formats import names
from kdump.settings.writing import WritingSettings
from kdump.write.log_dir import LogDirWriter, read_offsets
from tests.commands.running import Run
from tests.write.building import Clock, files, messages


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A log directory with two partitions, closed in order."""
    with LogDirWriter(str(tmp_path / "data"), clock=Clock(), durable=False) as log_dir:
        for partition in range(2):
            log_dir.create_log("orders", partition, WritingSettings()).append(messages(3 + partition))
    return tmp_path / "data"


def test_rolled_once(run: Run, data: Path) -> None:
    assert run("roll", data / "orders-0", data / "orders-1") == 0
    assert run.lines == [
        f"orders-0: {3:020}.log begins at offset 3",
        f"orders-1: {4:020}.log begins at offset 4",
    ]
    found = files(data)
    assert (found[f"orders-0/{3:020}.log"], found[f"orders-0/{3:020}.index"]) == (b"", b"")
    assert read_offsets(str(data), names.RECOVERY_POINT_CHECKPOINT) == {("orders", 0): 3, ("orders", 1): 4}
    assert run("roll", data / "orders-0") == 0
    assert run.lines == ["orders-0: the last segment is empty, so there is nothing to roll"]
    assert files(data) == found


def test_preallocated(run: Run, data: Path) -> None:
    """The file is cut to its size again when the log is closed in order."""
    settings = ("--topic-config", "preallocate=true", "--topic-config", "segment.bytes=100000")
    assert run("roll", data / "orders-0", *settings) == 0
    assert (data / "orders-0" / f"{3:020}.log").stat().st_size == 0


def test_one_of_several_is_refused(run: Run, data: Path) -> None:
    path = data / "orders-0" / f"{0:020}.log"
    path.write_bytes(path.read_bytes() + b"x")
    before = files(data / "orders-0")
    assert run("roll", data / "orders-0", data / "orders-1") == 4
    assert "orders-0" in run.err
    assert "first: kdump repair" in run.err
    assert run.lines == [f"orders-1: {4:020}.log begins at offset 4"]
    assert files(data / "orders-0") == before


@pytest.mark.parametrize(
    ("path", "code", "complaint"),
    [("orders", 3, "does not exist"), ("nowhere-0", 3, "does not exist")],
)
def test_not_there(path: str, code: int, complaint: str, run: Run, data: Path) -> None:
    assert run("roll", data / path) == code
    assert complaint in run.err
    assert "Traceback" not in run.err


def test_locked(run: Run, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kdump.disk.locks._holder", lambda descriptor: LockHolder(4711))
    (data / names.LOCK).touch()
    before = files(data)
    assert run("roll", data / "orders-0") == 4
    assert "process 4711 holds .lock" in run.err
    assert files(data) == before
    assert run("roll", data / "orders-0", "--ignore-lock", "orders-0") == 0


def test_a_file_of_settings_that_a_broker_would_not_take(run: Run, data: Path, tmp_path: Path) -> None:
    settings = tmp_path / "server.properties"
    settings.write_text("segment.bytes=much\n")
    before = files(data)
    assert run("roll", data / "orders-0", "--config", settings) == 2
    assert f"{settings}: segment.bytes is 'much': expected a number" in run.err
    assert files(data) == before


def test_a_name_that_could_drive_a_terminal(run: Run, data: Path) -> None:
    assert run("roll", data / "\x1b[2Jorders-0") == 3
    assert run.err == f"kdump: {data}/\\x1b[2Jorders-0 does not exist. Did you mean '{data}/orders-0'?\n"


def test_rows_have_the_segments_before_and_after(run: Run, data: Path) -> None:
    partition = data / "orders-0"
    for base_offset, previous in ((3, 0), (None, 3)):
        assert run("roll", partition, "--format", "jsonl") == 0
        assert run.rows == [
            {
                "type": "roll", "topic": "orders", "partition": 0, "path": str(partition),
                "previousBaseOffset": previous, "baseOffset": base_offset, "logEndOffset": 3, "change": None,
            }
        ]  # fmt: skip


def test_rows_of_those_that_are_not_refused(run: Run, data: Path) -> None:
    path = data / "orders-0" / f"{0:020}.log"
    path.write_bytes(path.read_bytes() + b"x")
    assert run("roll", data / "orders-0", data / "orders-1", "--format", "json") == 4
    document = json.loads(run.out)
    assert [row["path"] for row in document["rows"]] == [str(data / "orders-1")]
    assert document["summary"] == {"type": "summary", "verdict": "refused", "exitCode": 4}
