"""Partitions whose only .log is gone: what is left is repaired all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdump.mend.proposal import examine
from kdump.mend.task import SAFE, SALVAGE, Request, Strategy
from kdump.storage.partition import PartitionLog
from tests.repair.damaged import STARTUP


@pytest.mark.parametrize("strategy", [SAFE, SALVAGE])
def test_a_partition_without_a_log_has_no_gap_for_markers(strategy: Strategy, tmp_path: Path) -> None:
    partition = tmp_path / "orders-0"
    partition.mkdir()
    for name in ("partition.metadata", "leader-epoch-checkpoint", f"{0:020}.index"):
        (partition / name).write_bytes(b"\xff noise")
    task = examine(PartitionLog(str(partition)), STARTUP, Request(strategy))
    assert task.plan is not None
    assert task.extent == (0, 0)
