"""The benchmark of starting runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent.parent / "benchmarks" / "starting.py"


@pytest.mark.slow
def test_a_run(tmp_path: Path) -> None:
    options = ["--dir", str(tmp_path), "--repeat", "1", "--against", str(Path(sys.executable).parent)]
    done = subprocess.run([sys.executable, str(PROGRAM), *options], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    rows = [line.split() for line in done.stdout.splitlines()]
    assert [row[0] for row in rows] == ["dump-log", "dump", "lookup", "ls", "verify", "startup", "repair"]
    assert all(row[2::2] == ["ms", "ms", "x"] for row in rows)
