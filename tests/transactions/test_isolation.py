"""What a consumer gets, by its isolation level."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdump.storage.partition import PartitionLog
from kdump.storage.records import Record
from kdump.txns.isolation import consumed
from kdump.txns.isolation_level import Isolation
from tests.topics.building import Log, Pair, checkpoint

A, B = (1000, 0), (2000, 0)


def pairs(*names: str) -> list[Pair]:
    return [(name.encode(), b"") for name in names]


def keys(log: Log, isolation: Isolation = Isolation.READ_COMMITTED, start: int | None = None) -> str:
    found = consumed(PartitionLog(str(log.folder)), isolation, start)
    return "".join(record.key.decode() for record in found if isinstance(record, Record) and record.key is not None)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """Records by no producer (small letters), committed (A to C), aborted (x to z) and open ones (o), and more."""
    made = Log(tmp_path / "orders-0")
    made.add(*pairs("a", "b")).add(*pairs("A"), producer=A).add(*pairs("x"), producer=B)
    made.add(*pairs("B"), producer=A).commit(*A).abort(*B, first=3)
    made.roll()
    made.add(*pairs("y"), producer=A).add(*pairs("c")).roll()
    made.add(*pairs("z"), producer=A).abort(*A, first=7).add(*pairs("C"), producer=A).commit(*A)
    made.add(*pairs("d")).add(*pairs("o"), producer=B).add(*pairs("e"))
    return made.write()


def test_read_committed_ends_at_the_last_stable_offset(log: Log) -> None:
    assert keys(log) == "abABcCd"


def test_read_uncommitted_gets_all_but_markers(log: Log) -> None:
    assert keys(log, Isolation.READ_UNCOMMITTED) == "abAxByczCdoe"


@pytest.mark.parametrize(("start", "expected"), [(1, "bABcCd"), (4, "BcCd"), (7, "cCd"), (11, "Cd"), (99, "")])
def test_an_abort_counts_wherever_reading_begins(start: int, expected: str, log: Log) -> None:
    assert keys(log, start=start) == expected


def test_what_lies_before_the_log_start_offset_is_not_read(log: Log) -> None:
    checkpoint(log.folder.parent, "log-start-offset-checkpoint", ("orders", 0, 4))
    assert keys(log) == "BcCd"


def test_a_commit_whose_marker_is_gone_stays_committed(tmp_path: Path) -> None:
    """The cleaner drops a marker when its delete horizon has passed."""
    made = Log(tmp_path / "orders-0").add(*pairs("A"), producer=A)
    made.offset += 1
    made.add(*pairs("B"), producer=A).commit(*A)
    assert keys(made.write()) == "AB"
