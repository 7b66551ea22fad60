"""The benchmark of comparing copies runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent.parent / "benchmarks" / "comparing.py"


@pytest.mark.slow
def test_a_run(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), "--dir", str(tmp_path), "--divisor", "512", "--repeat", "1"],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    names = [line.split("  ")[0].strip() for line in done.stdout.splitlines() if not line.startswith("two copies of")]
    assert names == ["verify both", "compare them"] * 2
