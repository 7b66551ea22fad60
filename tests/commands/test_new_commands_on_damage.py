"""Commands about copies and clusters, on a damaged directory: what they call lost, and what they refuse."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from tests.commands.running import Run

SPECS = Path(__file__).parents[1] / "transcripts" / "specs"


@pytest.fixture
def damaged(run: Run, tmp_path: Path) -> Path:
    """A log directory without cluster metadata in which orders-7 has valid batches after a damaged one."""
    assert run("fixture", "build", SPECS / "four.yaml", tmp_path / "data") == 0
    return tmp_path / "data"


def test_a_leader_that_cuts_its_own_log_does_not_lose_nothing(run: Run, damaged: Path) -> None:
    assert run("replicas", damaged, "--topic", "orders") == 1
    row = next(line for head, line in pairwise(run.lines) if head.startswith("IF IT LEADS"))
    assert row.endswith("280\u2013299, cut at its own start")


def test_a_new_cluster_is_not_built_inside_an_old_log_directory(run: Run, damaged: Path) -> None:
    for inside in (damaged, damaged / "new"):
        assert run("resurrect", damaged, "--into", inside) == 2
        assert "lies in one of the PATHs" in run.err
    assert run("resurrect", damaged, "--into", f"{damaged}-new") != 2
