"""Commands with `--engine spark` in processes of their own: what the local engine gives, by another way."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow.dataset as ds

from tests.columns.reading import FIXTURES
from tests.commands.logs import batch, write_segment
from tests.spark.session import environment
from tests.storage.building import flipped

SPARK = ("--engine", "spark", "--master", "local[2]", "--conf", "spark.driver.memory=1g")
TXN = FIXTURES / "corpus" / "s-src-txn"


def kdump(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kdump", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment()}, check=False)


def test_export(tmp_path: Path) -> None:
    """The same files with the same rows, damage and all."""
    bad = tmp_path / "data" / "orders-0"
    write_segment(bad, 0, [batch(0, 5), flipped(batch(5, 5), -1), batch(10, 5)])
    write_segment(bad, 15, [batch(15, 5)])
    local = kdump("export", TXN, tmp_path / "data", "--to", tmp_path / "local", "--control")
    spark = kdump("export", TXN, tmp_path / "data", "--to", tmp_path / "spark", "--control", *SPARK)
    assert (spark.returncode, spark.stderr) == (local.returncode, local.stderr)
    assert spark.returncode == 1
    assert spark.stdout == local.stdout.replace(str(tmp_path / "local"), str(tmp_path / "spark"))
    tables = [ds.dataset(tmp_path / name, partitioning="hive").to_table() for name in ("local", "spark")]
    rows = [sorted(map(repr, table.to_pylist())) for table in tables]
    assert rows[0] == rows[1]
    assert len(rows[0]) == 572
    again = kdump("export", TXN, tmp_path / "data", "--to", tmp_path / "spark", "--control")
    assert "(7 of 7 segments were there already)" in again.stdout


def test_stats(tmp_path: Path) -> None:
    local = kdump("stats", TXN, "--records", "--format", "jsonl")
    spark = kdump("stats", TXN, "--records", "--format", "jsonl", *SPARK)
    assert (spark.returncode, spark.stderr) == (0, "")
    assert [json.loads(line) for line in spark.stdout.splitlines()] == [
        json.loads(line) for line in local.stdout.splitlines()
    ]


def test_verify() -> None:
    """The same findings in the same order and format."""
    cases = ("i-crc-payload-active", "i-txn-trunc-1entry", "s-src-txn", "i-idx-swap-first")
    paths = [FIXTURES / "corpus" / name for name in cases]
    arguments = ("verify", "--deep", "--now", 1_700_000_000_000, "--format", "junit", *paths)
    local, spark = kdump(*arguments), kdump(*arguments, *SPARK)
    assert (spark.returncode, spark.stderr) == (local.returncode, local.stderr)
    assert without_seconds(spark.stdout) == without_seconds(local.stdout)
    assert "KD-" in spark.stdout


def without_seconds(text: str) -> str:
    return re.sub(r'(time|seconds)="[0-9.]+"', r'\1=""', text)


def test_partitions_are_shared_out() -> None:
    from kdump.spark.verification import shares
    from kdump.verify.tasks import Share

    assert shares([], 4) == [Share(0, None)]
    assert shares([5] * 4, 2) == [Share(0, 2), Share(2, None)]
    assert shares([100, 1, 1, 1], 4) == [Share(0, 1), Share(1, None)]
    for sizes in ([1] * 100, [3, 1, 4, 1, 5, 9, 2, 6], [7]):
        for tasks in (1, 3, 8, 200):
            found = shares(sizes, tasks)
            assert len(found) <= tasks
            assert [each.first for each in found[1:]] == [each.stop for each in found[:-1]]
            assert all(each.first < each.stop for each in found if each.stop is not None)
            assert (found[0].first, found[-1].stop) == (0, None)


def test_what_fails_is_one_line(tmp_path: Path) -> None:
    result = kdump("stats", TXN, "--engine", "spark", "--master", "nowhere://")
    assert result.returncode == 3
    assert result.stderr.startswith("kdump: Spark ")
    assert len(result.stderr.splitlines()) == 1
    assert kdump("stats", TXN, "--engine", "spark", "--conf", "memory=1").returncode == 2
    assert kdump("stats", TXN, "--conf", "spark.executor.memory=1g").returncode == 2
    assert kdump("verify", TXN, "--engine", "spark", "--max-duration", "1m").returncode == 2
    log = next(TXN.rglob("*.log"))
    assert "is a file: Spark verifies" in kdump("verify", log, "--engine", "spark").stderr
