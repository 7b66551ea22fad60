"""`kdump explain`: codes, lines of a broker's log, and whole logs."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdump.findings.catalogue import CATALOGUE
from tests.commands.running import Run

LINE = "Found invalid messages in log segment /data/orders-17/00000000000000000235.log at byte offset 839."
LOG = f"""[2026-11-22 10:00:00,001] INFO starting (kafka.server.KafkaServer)
[2026-11-22 10:00:01,001] INFO Recovering 3 logs from /data since no clean shutdown file was found (LogManager)
[2026-11-22 10:00:02,001] WARN {LINE} (org.apache.kafka.storage.internals.log.LogSegment)
org.apache.kafka.common.errors.CorruptRecordException: Record is corrupt (stored crc = 1, computed crc = 2)
[2026-11-22 10:00:03,001] WARN {LINE} (org.apache.kafka.storage.internals.log.LogSegment)
"""


def test_every_code(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for code in CATALOGUE:
        assert run("explain", code) == 0
        assert run.lines[0].startswith(f"{code} (")
        labels = [line.split()[0] for line in run.lines[1:] if line and not line.startswith(" ")]
        assert labels[:4] == ["Meaning", "Broker", "Consumers", "Causes"], code
        assert "Do" in labels, code
        assert [line for line in run.lines if len(line) > 80] == []


def test_a_list_of_codes(run: Run) -> None:
    assert run("explain") == 0
    assert [line.split()[0] for line in run.lines] == list(CATALOGUE)
    assert run("explain", "kd-ckpt-*") == 0
    assert {line.split("-")[1] for line in run.lines} == {"CKPT"}


def test_a_code_that_does_not_exist(run: Run) -> None:
    assert run("explain", "KD-LOG-CRX") == 2
    assert "Did you mean 'KD-LOG-CRC'?" in run.err


def test_a_line(run: Run) -> None:
    assert run("explain", LINE) == 0
    assert run.lines[0] == "This is KD-LOG-CRC or KD-LOG-SIZE."
    assert "Where  /data/orders-17" in run.lines
    assert run.lines[-1] == "More   kdump explain KD-LOG-CRC"
    assert run("explain", *LINE.split()) == 0
    assert run.lines[0] == "This is KD-LOG-CRC or KD-LOG-SIZE."
    folded = LINE.replace(" log segment ", " log segment \\\n    ")
    assert run("explain", folded) == 0
    assert "/data/orders-17" in run.out
    assert run("explain", "an unknown line") == 1
    assert "does not know this line" in run.out


def test_a_log(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_text(LOG)
    assert run("explain", "--log", path) == 1
    assert run.lines[0] == "2026-11-22 10:00:02, 2 lines  /data/orders-17"
    assert "Routine: 1 line about a start after a shutdown. Do nothing." in run.lines
    assert "FOUND: 3 lines about 2 places." in run.lines
    assert run("explain", "--log", path, "--format", "jsonl") == 1
    assert [(row["path"], row["lines"], row["isRoutine"]) for row in run.rows] == [
        ("/data/orders-17", 2, False), (None, 1, False), (None, 1, True)
    ]  # fmt: skip


OFFLINE = """\
[2026-11-22 10:00:02,001] ERROR Error while reading checkpoint file /d/recovery-point-offset-checkpoint (kafka.Channel)
[2026-11-22 10:00:02,002] WARN Stopping serving replicas in dir /d with uuid Some(xTmeLO9UfrsqunfuCLctww) because (k.R)
[2026-11-22 10:00:02,003] WARN Stopping cleaning logs in dir /d (kafka.log.LogCleaner)
[2026-11-22 10:00:02,004] ERROR Stopping serving logs in dir /d (kafka.log.LogManager)
[2026-11-22 10:00:02,005] WARN Resetting first dirty offset of c-3 to log start offset 84 since (kafka.log.LogCleaner)
"""


def test_lines_that_mean_the_same_are_one_entry(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_text(OFFLINE)
    assert run("explain", "--log", path) == 1
    assert run.lines[0] == "2026-11-22 10:00:02  /d"
    assert "kdump doctor /d" in run.out  # the directory of a checkpoint file, not the file
    assert "2026-11-22 10:00:02, 3 lines  /d" in run.lines
    assert "FOUND: 4 lines about 1 place." in run.lines


def test_a_log_about_many_partitions_is_a_screen(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_text("".join(LINE.replace("orders-17", f"orders-{number}") + "\n" for number in range(3000)))
    assert run("explain", "--log", path) == 1
    assert "2026-11-22" not in run.lines[0]
    assert "orders-0, " in run.lines[0]
    assert "and 2998 more" in run.lines[0]
    assert len(run.lines) < 20


def test_a_log_without_anything(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_bytes(b"\xff\0 nothing\n" + b"x" * 100_000)
    assert run("explain", "--log", path) == 0
    assert run.lines[0] == "OK. No line needs you."
    assert run("explain", "--log", tmp_path / "none") == 2
    assert run("explain", "--log", path, "KD-LOG-CRC") == 2


def test_rows(run: Run) -> None:
    assert run("explain", "KD-LOG-CRC", "--format", "jsonl") == 0
    (row,) = run.rows
    assert row["type"] == "explanation"
    assert row["actions"][0]["loses"] == "nothing"
    assert "Record is corrupt (stored crc = N, computed crc = M)" in row["kafkaSays"]
