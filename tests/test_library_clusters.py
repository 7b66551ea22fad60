"""The functions of `import kdump` across the disks of several nodes."""

from __future__ import annotations

from pathlib import Path

import pytest

import kdump
from kdump.errors import NameFormatError, ProblemError
from kdump.formats import names
from kdump.operations.compared import PartitionReplicas, Verdict
from tests.replicas.building import OnDisk, chain, partition_fields, write_copy, write_metadata
from tests.test_library_operations import content

SHARED = chain(0, (0, 40))
LONGER = chain(0, (0, 48))


@pytest.fixture
def copies(tmp_path: Path) -> list[Path]:
    """Three in-sync replicas; the third is behind."""
    for broker, batches in ((1, LONGER), (2, LONGER), (3, SHARED)):
        write_copy(tmp_path, broker, OnDisk(batches, high_watermark=200, clean=False))
        write_metadata(tmp_path, broker, partition_fields([3, 1, 2], [1, 2, 3], 1))
    return sorted(tmp_path.iterdir())


def test_copies_are_compared(copies: list[Path], tmp_path: Path) -> None:
    before = content(tmp_path)
    (found,) = kdump.replicas(*copies)
    assert isinstance(found, PartitionReplicas)
    assert found.verdict is Verdict.BEHIND
    assert {each.leader.broker: each.loss.records for each in found.choices} == {1: 0, 2: 0, 3: 40}
    (alone,) = kdump.replicas(copies[0] / "orders-0")
    assert isinstance(alone, PartitionReplicas)
    assert len(alone.copies) == 1
    assert content(tmp_path) == before


def test_an_empty_disk_is_that_of_a_replica(copies: list[Path], tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (found,) = kdump.replicas(*copies[:2], tmp_path / "empty")
    assert isinstance(found, PartitionReplicas)
    assert (found.absent, found.not_given) == ((3,), ())


def test_problems_of_copies_are_raised_as_they_are(copies: list[Path]) -> None:
    (copies[0] / "orders-0" / names.PARTITION_METADATA).write_text("nothing such\n")
    with pytest.raises(ProblemError) as raised:
        next(kdump.replicas(*copies))
    assert not raised.value.problem.text.startswith(str(copies[0]))
    assert all(not isinstance(each, kdump.Problem) for each in kdump.replicas(*copies, errors="skip"))
    assert any(isinstance(each, kdump.Problem) for each in kdump.replicas(*copies, errors="yield"))


def test_wrong_calls(copies: list[Path], tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        kdump.replicas(*copies, tmp_path / "nothing")
    with pytest.raises(NameFormatError):
        kdump.replicas(copies[0] / "meta.properties")
    with pytest.raises(ValueError, match="ignore"):
        kdump.replicas(*copies, errors="ignore")
