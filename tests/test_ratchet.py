"""The ratchet reads the conformance programs' closing lines and holds them to the record."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ratchet

LINES = [
    (
        "dump_log",
        "dump-log: 12 of 20 invocations identical; exception texts 3 of 4; 2 of 9 cases with a difference",
        {"identical": 12, "messages": 3},
    ),
    ("lookup", "lookup: 12 of 20 answers are Kafka's", {"answers": 12}),
    ("verify", "verify: sound cases passed 12 of 20; damaged cases found 3 of 4", {"sound": 12, "damaged": 3}),
    ("startup", "startup: 12 of 20 outcomes foretold", {"outcomes": 12}),
    ("recovery", "recovery: 12 of 20 directories are Kafka's, byte for byte", {"directories": 12}),
    ("compaction", "compaction: 12 of 20 rounds are Kafka's", {"rounds": 12}),
    ("replicas", "replicas: pairs 12 of 20, cuts 3 of 4 as the real cluster had them", {"pairs": 12, "cuts": 3}),
    ("schemas", "schemas: 12 of 20 records are as the official deserializers have them", {"records": 12}),
    (
        "old_brokers",
        "old brokers: directories without a false word 1 of 2, records 3 of 4, log ends 5 of 6, times 7 of 8",
        {"directories": 1, "records": 3, "ends": 5, "times": 7},
    ),
]


@pytest.mark.parametrize(("program", "line", "figures"), LINES)
def test_reads_every_closing_line(program: str, line: str, figures: dict[str, int]) -> None:
    assert ratchet.figures(program, f"a-case: 1 of 2 differ\n{line}\n") == figures


def test_every_program_has_its_line_here() -> None:
    assert {program for program, _, _ in LINES} == set(ratchet.SUMMARIES)


def test_a_program_without_a_closing_line_is_an_error() -> None:
    with pytest.raises(ratchet.RatchetError, match="no summary in its output, which ends: Killed"):
        ratchet.figures("lookup", "Killed")


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "conformance.json"
    path.write_text('{"lookup": {"answers": 12}}')
    monkeypatch.setattr(ratchet, "RECORD", path)
    return path


def ratchet_at(number: int, folder: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    (folder / "lookup.py").write_text(f"print('lookup: {number} of 20 answers are')")
    monkeypatch.setattr(sys, "argv", ["ratchet.py", "--programs", str(folder), *arguments])
    return ratchet.main()


@pytest.mark.parametrize(("number", "code", "says"), [(11, 1, "fell: "), (12, 0, ""), (13, 0, "record them")])
def test_fails_only_below_the_record(
    number: int, code: int, says: str, record: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert ratchet_at(number, record.parent, monkeypatch) == code
    assert says in capfd.readouterr().out


@pytest.mark.parametrize(("number", "recorded"), [(11, 12), (13, 13)])
def test_update_never_lowers_the_record(
    number: int, recorded: int, record: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ratchet_at(number, record.parent, monkeypatch, "--update")
    assert json.loads(record.read_text()) == {"lookup": {"answers": recorded}}


def test_a_missing_program_fails(record: Path) -> None:
    command = [sys.executable, ratchet.__file__, "--programs", str(record.parent), "startup"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "startup.py does not exist" in done.stdout
