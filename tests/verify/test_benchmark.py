"""The benchmark of verify measures what it says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent.parent.parent / "benchmarks" / "run.py"


@pytest.mark.slow
def test_a_run(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    arguments = ("--dir", tmp_path, "--divisor", "256", "--repeat", "1", "--json", figures, "--only", "verify")
    done = subprocess.run([sys.executable, PROGRAM, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    result = json.loads(figures.read_text())
    assert len(result["verify"]) == 6
    assert all(taken["wall"] > 0 and taken["cpu"] > 0 for taken in result["verify"].values())
    names = {target["name"] for target in result["targets"]}
    assert names >= {
        "verify: CPU against reading with CRC-32C",
        "verify --deep, zstd: CPU against decompressing",
        "verify: a small partition, CPU",
    }
    assert all(name in done.stdout for name in (*names, *result["verify"]))
    (small,) = tmp_path.glob("sizes-by-256/small-*")
    assert len(list(small.glob("orders-*"))) == 39
