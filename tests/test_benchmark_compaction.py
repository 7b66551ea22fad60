"""The benchmark of compaction runs, and its log is one that compaction has work with."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import kdump

PROGRAM = Path(__file__).parent.parent / "benchmarks" / "compaction.py"


@pytest.mark.slow
def test_a_run(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), "--dir", str(tmp_path), "--divisor", "4096", "--repeat", "1"],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    names = [line.split("  ")[0].strip() for line in done.stdout.splitlines()[1:]]
    assert names == ["copy", "read and rewrite", "dry run", "compact"]
    (log_dir,) = tmp_path.iterdir()
    log = kdump.open_log(str(log_dir / "users-0"))
    keys = [record.key for record in log.records() if isinstance(record, kdump.Record)]
    assert 244 * 0.5 < len(set(keys)) <= 244 < len(keys)
