"""dump-log prints what kafka-dump-log.sh prints: every invocation in `fixtures/expected`, byte for byte."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import golden
from tests.sampling import sampled

ROOT = golden.FIXTURES.parent


@pytest.mark.parametrize("case", golden.cases())
def test_same_as_kafka(case: str) -> None:
    rows = golden.rows(case)
    assert rows
    found = [
        f"{row['args']}: {', '.join(different)}"
        for row in rows
        if (different := golden.differences(row, golden.in_process(row["args"])))
    ]
    assert found == []


@pytest.mark.parametrize("case", sampled(golden.cases(), 2))
def test_same_through_the_console_command(case: str) -> None:
    command = Path(sys.executable).with_name("dump-log")
    assert command.is_file(), "the project is not installed beside this Python"
    rows = golden.rows(case)
    row = next((row for row in rows if row["variant"] == "print"), rows[0])
    environment = {**os.environ, "KDUMP_KAFKA": golden.RELEASE}
    done = subprocess.run([command, *row["args"]], cwd=golden.CORPUS, env=environment, capture_output=True, check=False)
    assert golden.differences(row, golden.Outcome(done.stdout, done.stderr, done.returncode)) == []


def test_same_with_the_portable_kernels() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.commands.golden"],
        cwd=ROOT,
        env={**os.environ, "KDUMP_KERNELS": "portable", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_difference_is_noticed() -> None:
    row = golden.rows("s-src-gzip")[0]
    got = golden.in_process(row["args"])
    assert golden.differences(row, got) == []
    assert golden.differences(row, got._replace(out=got.out + b"\n")) == ["stdout"]
    assert golden.differences(row, got._replace(err=b"more\n")) == ["stderr"]
    assert golden.differences(row, got._replace(code=1)) == ["exit code 1 for 0"]
