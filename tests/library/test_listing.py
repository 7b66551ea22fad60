"""Which directories a call is about: those of a server.properties, and partitions by topic and number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import kdump
from kdump.errors import ConfigError, KdumpError, NameFormatError
from tests.verify.building import build, file

SETTINGS = "broker.id=1\nlog.dirs=/disk1, /disk2\n"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for name in ("orders-0", "orders-1", "returns-0"):
        build(tmp_path / name)
        (tmp_path / name / "orders-0").rename(tmp_path / f"{name}.moved")
        (tmp_path / "data").mkdir(exist_ok=True)
        (tmp_path / f"{name}.moved").rename(tmp_path / "data" / name)
    return tmp_path / "data"


CHOICES: list[tuple[dict[str, Any], list[str]]] = [
    ({}, ["orders-0", "orders-1", "returns-0"]),
    ({"topics": ["orders"]}, ["orders-0", "orders-1"]),
    ({"topics": ["o*", "returns"], "numbers": [0]}, ["orders-0", "returns-0"]),
    ({"numbers": range(1, 5)}, ["orders-1"]),
]


@pytest.mark.parametrize(("options", "names"), CHOICES)
def test_partitions_by_topic_and_number(data: Path, options: dict[str, Any], names: list[str]) -> None:
    found = kdump.partitions(data, **options)
    assert list(found) == [str(data / name) for name in names]
    assert {kdump.open_log(path).path for path in found} == set(found)


def test_partitions_that_are_named_themselves(data: Path) -> None:
    assert kdump.partitions(data / "orders-1", data / "returns-0", topics=["orders"]) == (str(data / "orders-1"),)


def test_wrong_choices(data: Path) -> None:
    with pytest.raises(KdumpError, match="no such partition"):
        kdump.partitions(data, topics=["payments"])
    with pytest.raises(TypeError, match=r"expected several, as in \['orders'\]"):
        kdump.partitions(data, topics="orders")
    with pytest.raises(ValueError, match="numbers is -1"):
        kdump.partitions(data, numbers=[-1])
    with pytest.raises(NameFormatError):
        kdump.partitions(data / "orders-0" / file(0, "log"))


def test_log_directories_of_a_server(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text(SETTINGS)
    assert kdump.log_directories(path) == kdump.log_directories({"log.dirs": "/disk1,/disk2"}) == ("/disk1", "/disk2")
    with pytest.raises(ConfigError, match=r"config has no log\.dirs"):
        kdump.log_directories({"broker.id": "1"})
    with pytest.raises(FileNotFoundError):
        kdump.log_directories(tmp_path / "absent")


TXN = Path(__file__).resolve().parents[2] / "fixtures" / "corpus" / "s-src-txn"
AN_HOUR_LATER = 1_700_003_600_000
LONG = "7200000"
HANGING = "KD-TXN-HANGING"


def codes(**options: Any) -> set[str]:
    return {finding.code for finding in kdump.verify(TXN, now=AN_HOUR_LATER, **options)}


def test_a_servers_properties_count_for_verify(tmp_path: Path) -> None:
    assert HANGING in codes()
    assert HANGING not in codes(config={"transaction.max.timeout.ms": LONG})
    assert HANGING not in codes(max_timeout_ms=int(LONG))
    assert HANGING in codes(config={"transaction.max.timeout.ms": LONG}, max_timeout_ms=60_000)


def test_a_servers_properties_are_looked_at_by_the_call(tmp_path: Path) -> None:
    log = build(tmp_path / "data")
    with pytest.raises(ConfigError):
        kdump.verify(log.directory, config={"retention.ms": "soon"})
    with pytest.raises(ConfigError):
        kdump.verify(log.directory, config={"transaction.max.timeout.ms": "soon"})
    with pytest.raises(ValueError, match="max_timeout_ms is -1"):
        kdump.verify(log.directory, max_timeout_ms=-1)
    with pytest.raises(ConfigError):
        kdump.replicas(log.directory, config={"retention.ms": "soon"})
