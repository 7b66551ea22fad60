"""Which broker a log directory belongs to, and the partitions that it has twice: one rule for every command."""

from __future__ import annotations

import shutil
from pathlib import Path

from kdump.formats.names import parse_partition_dir
from kdump.query.inventory import duplicates, owner_of, partition_info
from kdump.recovery.broker_start import duplicate_failures
from kdump.storage.broker import BrokerIdentity, Duplicate, PartitionPlaces
from kdump.storage.directory import LogDirectory
from tests.verify.building import build, codes, found

MOVING = f"orders-0.{'0' * 32}-future"
BROKER = BrokerIdentity("abcdefghijklmnopqrstuv", 3)


def test_only_what_a_broker_would_load_twice_counts() -> None:
    places = PartitionPlaces()
    for state in ("", "-future", "-delete", "-stray"):
        name = f"orders-0.{'0' * 32}{state}" if state else "orders-0"
        assert places.add(BROKER, parse_partition_dir(name), f"/a/{name}") is None
    assert places.add(BROKER, parse_partition_dir("orders-0"), "/a/../a/orders-0") is None
    assert places.add(BROKER._replace(node_id=4), parse_partition_dir("orders-0"), "/b/orders-0") is None
    assert places.add(BROKER, parse_partition_dir("orders-0"), "/c/orders-0") == "/a/orders-0"
    assert list(places.duplicates()) == [Duplicate("orders", 0, ("/a/orders-0", "/c/orders-0"))]


def test_two_moves_of_one_partition_are_found_by_all(tmp_path: Path) -> None:
    for disk in ("one", "two"):
        build(tmp_path / disk, name="payments-0" if disk == "two" else "orders-0")
    shutil.copytree(tmp_path / "one" / "orders-0", tmp_path / "one" / MOVING)
    shutil.copytree(tmp_path / "one" / "orders-0", tmp_path / "two" / MOVING)
    directories = [LogDirectory(str(tmp_path / disk)) for disk in ("one", "two")]
    logs = [(owner_of(directory), log) for directory in directories for log in directory.partitions()]
    assert {owner for owner, _ in logs} == {BROKER}
    paths = tuple(str(tmp_path / disk / MOVING) for disk in ("one", "two"))
    assert duplicates((owner, partition_info(log)) for owner, log in logs) == [Duplicate("orders", 0, paths)]
    places = [(owner, log.path, log.name) for owner, log in logs if log.name]
    assert [failure.file for failure in duplicate_failures(places)] == [paths[1]]
    findings = [each for each in found(tmp_path / "one", tmp_path / "two") if each.code == "KD-DIR-DUPLICATE"]
    assert [finding.path for finding in findings] == [paths[1]]
    assert codes(found(tmp_path / "one")) == set()
