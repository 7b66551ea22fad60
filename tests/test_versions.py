"""The table of versions: each cell names a test that exists, or says that there is none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.kafka.jars import RELEASES

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "versions.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if line.startswith("| ") and not re.match(r"\| (?:Kafka|content|where) \|", line)
]
UNTESTED = re.compile(r"not tested|not read by kdump|by hand only")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_each_cell_names_its_test(row: list[str]) -> None:
    for cell in row[1:]:
        tests = re.findall(r"`(tests/[\w/.]*)`", cell)
        assert tests or UNTESTED.search(cell), cell
        assert [name for name in tests if not (ROOT / name).exists()] == []


def test_each_release_that_is_compared_has_a_row() -> None:
    assert {row[0] for row in ROWS} >= {str(release) for release in RELEASES}
