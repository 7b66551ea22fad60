"""Which other brokers have a partition, and what that says against a salvage."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

import kdump
from kdump.errors import RefusedError
from kdump.mend.replicas import Replicas, check_only_copy, replicas_of, why_not_only_copy
from kdump.query.inventory import Placement
from kdump.storage.directory import LogDirectory
from kdump.storage.partition import PartitionLog
from kdump.topics.clusters import Clusters

THREE = Replicas((1, 2, 3), (1, 3), 1, 2, 1, 3)


@pytest.mark.parametrize(
    ("replicas", "short", "refuses"),
    [
        (THREE, True, False),
        (THREE._replace(in_sync=(1, 2, 3)), False, False),
        (THREE._replace(in_sync=(1,)), True, True),
        (THREE._replace(in_sync=(1,), min_insync=1), True, False),
        (THREE._replace(in_sync=(1,), min_insync=None), True, False),
    ],
)
def test_how_many_are_in_sync(replicas: Replicas, *, short: bool, refuses: bool) -> None:
    assert (replicas.is_under_replicated, replicas.is_under_min_isr) == (short, refuses)


@pytest.mark.parametrize(
    ("broker", "in_sync", "who"),
    [
        (1, (1, 2), "broker 2 is in sync for orders-0; {}: its copy is"),
        (1, (1, 2, 3), "brokers 2 and 3 are in sync for orders-0; {}: their copies are"),
        (None, (1,), "broker 1 is in sync for orders-0; {}: its copy is"),
        (2, (2,), None),
        (2, (), None),
    ],
)
def test_who_has_what_a_salvage_gives_up(
    partition: Path, broker: int | None, in_sync: tuple[int, ...], who: str | None
) -> None:
    log = kdump.open_log(partition)
    replicas = THREE._replace(broker=broker, in_sync=in_sync)
    found = why_not_only_copy(log, replicas)
    never = "the leader would never send what is given up here again after a salvage"
    assert (found and ": ".join(found)) == (who and who.format(never))
    if who is None:
        check_only_copy(log, replicas)
    else:
        words, _, whose = who.format(never).rpartition(": ")
        with pytest.raises(RefusedError) as refused:
            check_only_copy(log, replicas)
        assert str(refused.value) == f"{words}. Nothing was changed. If {whose} gone: --only-copy"
    assert why_not_only_copy(log, None) is None
    check_only_copy(log, None)


PLACED = Placement(
    "orders", "id", (1, 2), (2,), 2, None, min_insync=1, directories=(b"\7" * 16, b"\x08" * 16), next_leader=1
)
Placing = Callable[[object, object], Placement | None]


@pytest.fixture
def log(partition: Path) -> PartitionLog:
    (partition.parent / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=1\n")
    return kdump.open_log(partition)


def clusters(placing: Placing | None) -> Clusters:
    """Clusters that know where every partition is, by this function; none of them without one."""
    return cast(Clusters, SimpleNamespace(of=lambda directory: SimpleNamespace(placing=placing)))


@pytest.mark.parametrize(
    ("placement", "assigned"),
    [
        (PLACED, b"\7" * 16),
        (PLACED._replace(directories=None), None),
        (PLACED._replace(directories=(bytes(16), b"\x08" * 16)), None),  # an id that stands for none
        (PLACED._replace(directories=(b"\7" * 16,)), b"\7" * 16),
        (PLACED._replace(replicas=(2, 1)), b"\x08" * 16),
    ],
)
def test_as_the_metadata_place_it(log: PartitionLog, placement: Placement, assigned: bytes | None) -> None:
    expected = Replicas(placement.replicas or (), (2,), 1, 1, 2, 1, assigned)
    assert replicas_of(log, clusters(lambda *_: placement)) == expected


def test_without_an_owner_no_directory_is_assigned(partition: Path) -> None:
    found = replicas_of(kdump.open_log(partition), clusters(lambda *_: PLACED))
    assert found == Replicas((1, 2), (2,), None, 1, 2, 1, None)


@pytest.mark.parametrize("placement", [None, PLACED._replace(replicas=None), PLACED._replace(isr=None)])
def test_where_nothing_tells_of_replicas(log: PartitionLog, placement: Placement | None) -> None:
    assert replicas_of(log, clusters(None)) is None
    assert replicas_of(log, clusters(lambda *_: placement)) is None


def test_the_topic_id_is_that_of_the_directory_before_another(log: PartitionLog, partition: Path) -> None:
    asked: list[object] = []

    def placing(name: object, topic_id: object) -> Placement:
        asked.extend((name, topic_id))
        return PLACED

    assert log.metadata is not None
    replicas_of(log, clusters(placing), b"\x09" * 16)
    assert asked == [log.name, log.metadata.topic_id]
    (partition / "partition.metadata").unlink()
    replicas_of(kdump.open_log(partition), clusters(placing), b"\x09" * 16)
    assert asked[2:] == [log.name, b"\x09" * 16]


def test_metadata_of_another_log_directory(log: PartitionLog, tmp_path: Path) -> None:
    """The broker is the one that has the partition all the same."""
    named_by = LogDirectory(str(tmp_path))
    asked: list[LogDirectory] = []

    def of(directory: LogDirectory) -> SimpleNamespace:
        asked.append(directory)
        return SimpleNamespace(placing=lambda *_: PLACED)

    found = replicas_of(log, cast(Clusters, SimpleNamespace(of=of)), named_by=named_by)
    assert asked == [named_by]
    assert found is not None
    assert found.broker == 1
