"""The functions of `import kdump` across the disks of several nodes."""

from __future__ import annotations

from pathlib import Path

import pytest

import kdump
from kdump.cluster.set_voters import VoterAt
from kdump.cluster.wanted import ControllerAt, Wanted
from kdump.errors import KdumpError, NameFormatError, ProblemError, RefusedError
from kdump.formats import names
from kdump.operations.compared import PartitionReplicas, Verdict
from tests.cluster.building import Disk, three_brokers
from tests.cluster.test_quorum import disks as disks
from tests.cluster.test_quorum import state
from tests.cluster.test_resurrect import flip
from tests.locked import broker_on
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


def test_a_quorum(disks: list[Disk], tmp_path: Path) -> None:
    before = content(tmp_path)
    found = kdump.quorum(*(disk.path for disk in disks))
    assert (found.voters, found.kraft_version, len(found.copies)) == ((1, 2, 3), 1, 4)
    assert {each.voter: each.can_win for each in found.elections} == {1: True, 2: True, 3: False}
    assert content(tmp_path) == before
    with pytest.raises(KdumpError, match="not a log directory"):
        kdump.quorum(tmp_path)
    with pytest.raises(ValueError, match="is empty: expected one path or more"):
        kdump.quorum()


def test_other_voters(disks: list[Disk], tmp_path: Path) -> None:
    given = [disks[0].path, disks[3].path]
    before = content(tmp_path)
    refused = kdump.set_voters(*given, voters=["1@new1:9093"])
    assert [each.subject for each in refused.plan.refusals] == ["voters"]
    with pytest.raises(RefusedError, match="voters 2, 3 are not here"):
        kdump.set_voters(*given, voters=["1@new1:9093"], apply=True)
    planned = kdump.set_voters(*given, voters=[VoterAt(1, "new1", 9093)], others_are_gone=True)
    assert not planned.plan.refusals
    assert planned.changes == ()
    assert content(tmp_path) == before
    (change,) = kdump.set_voters(*given, voters=["1@new1:9093"], others_are_gone=True, apply=True).changes
    assert [voter["voterId"] for voter in state(disks[0]).voters] == [1]
    again = kdump.set_voters(*given, voters=["1@new1:9093"], others_are_gone=True, apply=True)
    assert (again.plan.is_done, again.changes) == (True, ())
    kdump.undo(disks[0].path, change.id, apply=True)
    assert content(tmp_path) == before


def test_no_voters_are_set_beside_a_controller(disks: list[Disk], tmp_path: Path) -> None:
    with broker_on(disks[0].path):
        before = content(tmp_path)
        with pytest.raises(RefusedError, match="running"):
            kdump.set_voters(disks[0].path, voters=["1@new1:9093"], others_are_gone=True, apply=True)
        assert content(tmp_path) == before


@pytest.mark.parametrize(
    ("voters", "why"),
    [
        (["1"], "expected NODE@HOST:PORT"),
        (["1@a:9093", "1@b:9093"], "a node twice"),
        ([], "names no node"),
        ([VoterAt(1, "a", 99999)], "voters: port is 99999: expected a whole number from 1 to 65535"),
    ],
)
def test_wrong_voters(disks: list[Disk], voters: list[VoterAt | str], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        kdump.set_voters(disks[0].path, voters=voters)


def test_a_damaged_copy_of_the_quorum(disks: list[Disk]) -> None:
    flip(disks[0].path / names.CLUSTER_METADATA_DIR / f"{0:020d}.log", 80)
    found = kdump.quorum(*(disk.path for disk in disks), errors="skip")
    assert [copy.disk.node_id for copy in found.copies if not copy.is_sound] == [1]
    with pytest.raises(RefusedError, match="damaged"):
        kdump.set_voters(disks[0].path, voters=["1@a:9093"], others_are_gone=True, apply=True, errors="skip")


def test_resurrection_into_a_new_directory(tmp_path: Path) -> None:
    given = [disk.path for disk in three_brokers(tmp_path / "old")]
    before = content(tmp_path)
    planned = kdump.resurrect(*given, into=tmp_path / "new")
    assert not planned.plan.refusals
    assert planned.done is None
    assert content(tmp_path) == before
    done = kdump.resurrect(*given, into=tmp_path / "new", apply=True).done
    assert done is not None
    assert [each.path for each in done.directories] == [str(tmp_path / "new" / f"node-{node}") for node in (1, 2, 3)]
    assert done.changes == ()
    assert {name: data for name, data in content(tmp_path).items() if name.startswith("old/")} == before
    with pytest.raises(KdumpError, match="exists already"):
        kdump.resurrect(*given, into=tmp_path / "new", apply=True)


def test_resurrection_in_place(tmp_path: Path) -> None:
    given = [disk.path for disk in three_brokers(tmp_path)]
    before = content(tmp_path)
    done = kdump.resurrect(*given, in_place=True, wanted=Wanted(nodes=3), apply=True).done
    assert done is not None
    assert content(tmp_path) != before
    (change,) = {change.id for change in done.changes}
    for path in given:
        kdump.undo(path, change, apply=True)
    assert {name: data for name, data in content(tmp_path).items() if "-stray" not in name} == before


def test_nothing_is_resurrected_beside_a_broker(tmp_path: Path) -> None:
    given = [disk.path for disk in three_brokers(tmp_path)]
    with broker_on(given[0]):
        before = content(tmp_path)
        assert kdump.resurrect(*given, in_place=True).plan.refusals
        with pytest.raises(RefusedError, match="running"):
            kdump.resurrect(*given, in_place=True, apply=True)
        assert content(tmp_path) == before


def test_wrong_resurrections(tmp_path: Path) -> None:
    given = [disk.path for disk in three_brokers(tmp_path)]
    with pytest.raises(ValueError, match="one of into and in_place"):
        kdump.resurrect(*given)
    with pytest.raises(ValueError, match="one of into and in_place"):
        kdump.resurrect(*given, into=tmp_path / "new", in_place=True)
    with pytest.raises(TypeError, match="apply is 'no'"):
        kdump.resurrect(*given, in_place=True, apply="no")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="lies in one of the paths"):
        kdump.resurrect(*given, into=given[0] / "new")
    for wanted, why in (
        (Wanted(nodes=0), "nodes is 0"),
        (Wanted(partitions={"__consumer_offsets": 0}), "partitions of __consumer_offsets is 0"),
        (Wanted(controller=ControllerAt("a", 0)), "controller: port is 0"),
    ):
        with pytest.raises(ValueError, match=why):
            kdump.resurrect(*given, in_place=True, wanted=wanted)
    with pytest.raises(KdumpError, match=r"UUID|base64"):
        kdump.resurrect(*given, in_place=True, wanted=Wanted(cluster_id="x"))
