"""docs/spark.md: its code runs, its options are those that there are, its settings start a session."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tomllib
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest
from pyspark.sql.streaming.query import StreamingQuery

from kdump.spark.java import find_java
from kdump.spark.options import READ_OPTIONS
from kdump.spark.write_options import WRITE_OPTIONS
from tests.columns.reading import ROOT
from tests.schemas.registries import avro, framed, partition, schema_record
from tests.spark.building import log_directory
from tests.spark.session import environment
from tests.topics.building import Log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = (ROOT / "docs" / "spark.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return [code for name, code in found if name == language]


def named_in_tables(section: str) -> set[str]:
    """The words in the first columns of a section's tables."""
    text = PAGE.partition(f"\n{section}\n")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| (`[^|]*) \|", text, re.MULTILINE)
    return {word for cell in cells for word in re.findall(r"`([^`]+)`", cell)}


def test_the_python_code(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logs = log_directory(tmp_path / "kafka-logs", orders_0=9, orders_1=4)
    _payments(logs)
    monkeypatch.delenv("JAVA_HOME", raising=False)  # which the code sets: it comes back afterwards
    found = []
    for code in blocks("python"):
        lines = code.replace("/data/", f"{tmp_path}/").strip()
        names = {"spark": spark, "df": spark.createDataFrame([(b"one",), (b"two",)], "value binary")}
        if lines.startswith(("spark", "(")):
            result = eval(lines, names)
            found.append(result)
            if isinstance(result, StreamingQuery):
                result.awaitTermination()
                assert result.exception() is None
        else:
            exec(lines, names)
    everything, typed, _, _ = found
    assert everything.where("topic = 'orders'").count() == 13
    assert [(row.id, row.price, bool(row.valueError)) for row in typed.orderBy("offset").collect()] == [
        (7, Decimal("9.90"), False), (None, None, True),
    ]  # fmt: skip
    assert spark.read.parquet(f"{tmp_path}/out").count() == everything.count()
    assert len(list((tmp_path / "made").glob("orders-*"))) == 12
    assert spark.read.format("kafka-log").load(f"{tmp_path}/made").count() == 2


def _payments(logs: Path) -> None:
    """A topic whose values have a schema; one of them does not decode."""
    price = {"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2}
    fields = [{"name": "id", "type": "long"}, {"name": "price", "type": price}]
    schema = {"type": "record", "name": "Payment", "fields": fields}
    partition(logs, schema_record("payments-value", 1, 1, schema))
    good = avro(schema, {"id": 7, "price": Decimal("9.90")})
    Log(logs / "payments-0").add((b"k", framed(1, good)), (b"k", framed(1, good[:1]))).write()


def test_the_options_are_all_of_them() -> None:
    reading, writing = PAGE.split("\n## Writing\n")
    assert {name for name in READ_OPTIONS if f"`{name}`" not in reading} <= {"path", "paths"}
    assert named_in_tables("### Options") <= {*READ_OPTIONS}
    assert {name for name in WRITE_OPTIONS if f"`{name}`" not in writing} <= {"path"}


def test_the_settings_are_those_of_our_own_sessions(spark: SparkSession) -> None:
    settings = dict(re.findall(r"`(spark\.[a-zA-Z.]+)=(\w+)`", PAGE.partition("## Speed")[2]))
    assert settings
    assert {name: spark.conf.get(name) for name in settings} == settings


JOB = """
from pyspark.sql import SparkSession
print("rows:", SparkSession.builder.getOrCreate().read.format("kafka-log").load("logs").count())
"""


def test_what_is_installed_are_extras_that_there_are() -> None:
    named = set(re.findall(r"kafka-kdump\[([\w,-]+)\]", PAGE))
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert len(named) >= 3
    assert {name for names in named for name in names.split(",")} <= extras.keys()


def test_the_archive_for_executors_and_a_job_with_it(tmp_path: Path) -> None:
    archive, submit = next(block for block in blocks("") if "kdump.spark.archive" in block).splitlines()
    words = archive.partition(" # ")[0].split()
    assert words[:2] == ["python", "-m"]
    subprocess.run([sys.executable, *words[1:]], cwd=tmp_path, check=True, env={"PYTHONPATH": str(ROOT)})
    with tarfile.open(tmp_path / words[-1]) as packed:
        assert "kdump/spark/data_source.py" in {name.removeprefix("./") for name in packed.getnames()}
    (tmp_path / "job.py").write_text(JOB)
    log_directory(tmp_path / "logs", x_0=7)
    program = Path(pyspark.__file__).parent / "bin" / submit.split()[0]
    more = {"JAVA_HOME": find_java().home or "", "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [program, *submit.split()[1:]], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, **environment(), **more},
    )  # fmt: skip
    assert done.stdout == "rows: 7\n", done.stderr[-2000:]
