"""Valid batches that salvage cannot place: what is there twice loses nothing, all others are counted as dropped."""

from __future__ import annotations

from pathlib import Path

import pytest

import kdump
from kdump.change.plan import REPLACE, TRUNCATE
from kdump.mend.decision import Way
from kdump.mend.proposal import examine
from kdump.mend.task import SAFE, Request
from tests.repair.damaged import STARTUP, data_batch, lost_by, name
from tests.repair.salvaging import examined


def appended(partition: Path, base: int, *batches: bytes) -> None:
    """Put batches at the end of a segment that is not the last."""
    log = partition / name(base, "log")
    log.write_bytes(log.read_bytes() + b"".join(batches))


@pytest.mark.parametrize("epoch", [0, 1])
def test_a_batch_that_is_there_twice_loses_nothing(partition: Path, epoch: int) -> None:
    """Leaders set the leader epoch, which the CRC does not cover."""
    first = (partition / name(20, "log")).read_bytes()
    size = int.from_bytes(first[8:12], "big") + 12
    copy = first[:12] + epoch.to_bytes(4, "big") + first[16:size]
    appended(partition, 0, copy)
    task = examined(partition)
    assert lost_by(task).records == 0
    assert task.salvaged is not None
    assert task.plan is not None
    assert any(each.action in (TRUNCATE, REPLACE) and each.name == name(0, "log") for each in task.plan.operations)


def test_another_batch_at_offsets_that_are_taken_is_dropped(partition: Path) -> None:
    """Its records are nowhere else: two logs were put together, or an offset was damaged, which no CRC covers."""
    appended(partition, 0, data_batch(20, 5555))
    task = examined(partition)
    assert lost_by(task) == (1, 2, 20, 21)
    decision = examine(kdump.open_log(partition), STARTUP, Request(SAFE)).decision
    assert decision is not None
    assert 2 in [each.loses for each in decision.offers() if each.way is Way.SALVAGE]


def test_of_several_only_those_without_a_copy(partition: Path) -> None:
    first = (partition / name(20, "log")).read_bytes()
    size = int.from_bytes(first[8:12], "big") + 12
    appended(partition, 0, first[:size], data_batch(22, 7777), data_batch(24, 8888))
    assert lost_by(examined(partition)) == (2, 4, 22, 25)
