"""kind=findings: what `kdump verify` finds, in its order, however many tasks share the work."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from kdump.findings.finding import Finding
from kdump.library.verifying import verify
from kdump.spark.findings import finding_tasks, read_findings
from kdump.spark.options import OptionError
from tests.columns.reading import FIXTURES, cases
from tests.spark.building import NOW, log_directory, options_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def roots() -> list[str]:
    """The log directories of all fixtures."""
    return sorted({str(case.folder.parent) for case in cases()})


class Row(NamedTuple):
    """A finding as a row has it: what a broker does and the repair as texts."""

    code: str
    severity: str
    path: str
    position: int | None
    offset: int | None
    message: str
    broker: str
    repair: str


def row_of(finding: Finding) -> Row:
    """The row that stands for a finding."""
    return Row(*finding[:6], finding.broker, finding.repair)


def findings(*paths: str | Path, parts: int = 1, **options: Any) -> list[Row]:
    """The rows of all tasks, put in order."""
    asked = options_of(*paths, kind="findings", now=NOW, minPartitions=parts, **options)
    rows: list[dict[str, Any]] = []
    for task in reversed(finding_tasks(asked, 2)):
        for part in read_findings(task, asked):
            rows += part.to_pylist()
    rows.sort(key=lambda row: row["number"])
    return [Row(*(row[name] for name in Row._fields)) for row in rows]


@pytest.mark.parametrize("parts", [1, 3, 1000])
@pytest.mark.parametrize("deep", [False, True])
def test_the_same_as_without_spark(parts: int, deep: bool) -> None:
    expected = [row_of(each) for each in verify(*roots(), deep=deep, now=NOW)]
    assert findings(*roots(), parts=parts, deep=deep) == expected
    assert len({finding.code for finding in expected}) > 10


def test_what_spans_partitions_is_found_by_every_task(tmp_path: Path) -> None:
    """A duplicate and a second topic id: with what, is decided by a partition that another task verifies."""
    for broker in ("a", "b"):
        root = log_directory(tmp_path / broker, x_0=3, y_0=3)
        (root / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=1\n")
    metadata = tmp_path / "b" / "y-0" / "partition.metadata"
    metadata.write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n")
    paths = [str(tmp_path / "a"), str(tmp_path / "b")]
    expected = [row_of(each) for each in verify(*paths, now=NOW)]
    assert findings(*paths, parts=1000) == expected
    assert {"KD-DIR-DUPLICATE", "KD-META-TOPIC-ID"} <= {finding.code for finding in expected}


def test_options_of_a_verification() -> None:
    root = str(FIXTURES / "corpus" / "i-crc-payload-active")
    everything = findings(root)
    assert findings(root, select="KD-LOG-*") == [each for each in everything if each.code.startswith("KD-LOG-")]
    assert {each.severity for each in findings(root, select="KD-LOG-CRC", severities="KD-LOG-CRC=note")} == {"note"}
    with pytest.raises(OptionError, match="no code matches"):
        findings(root, select="KD-LOG-CRX")


def test_some_partitions_only(tmp_path: Path) -> None:
    root = log_directory(tmp_path, x_0=3, y_0=3)
    os.remove(root / "x-0" / f"{0:020d}.index")
    os.remove(root / "y-0" / f"{0:020d}.index")
    assert {os.path.basename(os.path.dirname(each.path)) for each in findings(root, topics="x")} == {"x-0"}


def test_as_rows_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    folder = FIXTURES / "corpus" / "i-crc-payload-active"
    copy = tmp_path / "logs"
    shutil.copytree(folder, copy)
    frame = spark.read.format("kafka-log").options(kind="findings", now=str(NOW), deep="true").load(str(copy))
    expected = [row_of(each) for each in verify(str(copy), deep=True, now=NOW)]
    rows = frame.orderBy("number").collect()
    assert [tuple(row[name] for name in Row._fields) for row in rows] == expected
    assert {(row.broker, row.repair) for row in rows} == {(each.broker, each.repair) for each in expected}
    assert json.dumps([row.code for row in rows])
