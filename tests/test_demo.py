"""The demo runs to its end, shows what it says, and leaves the fixtures alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("sh") is None, reason="there is no shell")
def test_the_demo(tmp_path: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in FIXTURES.rglob("*")}
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["sh", FIXTURES / "demo.sh"], env=environment, capture_output=True, text=True, check=False, encoding="utf-8"
    )
    assert (done.returncode, done.stderr) == (0, "")
    shown = [line for line in done.stdout.splitlines() if line.startswith("$ ")]
    assert [line.split()[1:3] for line in shown[:2]] == [["kdump", "ls"]] * 2
    assert {line.split()[1] for line in shown} == {"kdump", "dump-log"}
    assert any("--format jsonl" in line for line in shown)
    assert "(exit code 1: something was found)" in done.stdout
    assert "the dump continues at byte 1895" in done.stdout
    assert "Kafka's own recovery would keep: 273 records" in done.stdout
    assert "OK. No errors in" in done.stdout
    assert "kafka-transactions.sh" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("  kdump ")
    (scratch,) = tmp_path.iterdir()
    assert str(scratch / "data") in done.stdout
    assert {path: path.stat().st_mtime_ns for path in FIXTURES.rglob("*")} == before
