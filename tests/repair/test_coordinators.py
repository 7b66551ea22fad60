"""Batches of the group, share and transaction coordinators: a real broker's, which no strategy may take for damage."""

from __future__ import annotations

from pathlib import Path

import pytest

import kdump
from kdump.check.options import Options
from kdump.check.run import Verification
from kdump.disk.reading import ReadOnlyFile
from kdump.findings.kind import ERROR
from kdump.mend.proposal import examine
from kdump.mend.task import SALVAGE, STRATEGIES, Request, Strategy
from kdump.recovery.startup import Startup
from tests.repair.salvaging import salvage
from tests.unpacking import unpack

ARCHIVE = Path(__file__).resolve().parent.parent.parent / "fixtures" / "brokers" / "coordinators-4.3.1.tar.xz"
NOW = 1_795_343_900_000
STARTUP = Startup(now=NOW, clean=True)
PARTITIONS = {
    "__cluster_metadata-0": 544,
    "__consumer_offsets-0": 110,
    "__consumer_offsets-1": 78,
    "__share_group_state-0": 4,
    "__transaction_state-0": 25,
    "orders-0": 212,
    "orders-1": 200,
}
"""The log end offsets that the broker wrote to its checkpoints when it was stopped."""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """The log directory of a broker that was stopped orderly."""
    unpack(ARCHIVE, tmp_path)
    return tmp_path


def test_coordinators_write_base_sequence_0_without_a_producer(directory: Path) -> None:
    found = {
        (block.producer_id[row], block.producer_epoch[row], block.base_sequence[row])
        for segment in kdump.open_log(str(directory / "__consumer_offsets-0")).segments
        for block in segment.open_log().blocks()
        for row in range(block.length)
    }
    assert (-1, -1, 0) in found
    assert {sequence for producer, _, sequence in found if producer >= 0} == {0, -1}  # transactional commits, markers


def test_nothing_is_wrong_with_it(directory: Path) -> None:
    found = Verification(Options(deep=True, now=NOW)).run([str(directory)])
    assert [finding for finding in found if finding.severity == ERROR] == []


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("partition", PARTITIONS)
def test_there_is_nothing_to_repair(directory: Path, partition: str, strategy: Strategy) -> None:
    task = examine(kdump.open_log(str(directory / partition)), STARTUP, Request(strategy))
    assert task.plan is not None
    assert task.plan.operations == ()
    assert task.extent == (0, PARTITIONS[partition])


def test_salvage_gives_up_the_damaged_commit_alone(directory: Path) -> None:
    partition = directory / "__consumer_offsets-0"
    path = partition / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    data[8000] ^= 4
    path.write_bytes(data)
    salvaged = salvage(partition, STARTUP)
    with ReadOnlyFile(str(path)) as file:
        kept = file.read(0, file.size)
    (cut,) = salvaged.cuts
    assert kept == bytes(data[: cut.start] + data[cut.stop :])
    assert cut.start <= 8000 < cut.stop
    assert salvaged.kept is not None
    assert salvaged.kept.batches == 84
    assert examine(kdump.open_log(str(partition)), STARTUP, Request(SALVAGE)).plan is not None
