"""verify beside a running broker: what it is in the middle of is none of the findings, and all damage still is."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

from kdump.check import live
from kdump.check.live import key_of
from kdump.disk.locks import LockHolder
from kdump.disk.reading import list_directory
from kdump.findings.finding import Finding
from kdump.formats import names
from kdump.formats.names import parse_file_name
from kdump.storage import live as reading
from kdump.storage.live import tally
from tests.sampling import sampled
from tests.topics.building import OTHER_ID, cluster_directory, metadata_pairs
from tests.topics.building import Log as MetadataLog
from tests.verify.building import Log, batch, build, codes, file, flip, found
from tests.verify.cases import CASES, Case


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "lock_holder", lambda path: LockHolder(4711))


def doubtful(findings: list[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.severity != "note"]


def is_the_brokers_work(finding: Finding) -> bool:
    """Whether a finding is one of those that the files of a running broker may have at any moment."""
    if finding.code in live._OF_CHECKPOINTS | live._IN_TRANSIT or finding.code.startswith(live._STATES):
        return True
    folder = os.path.dirname(finding.path)
    parsed = parse_file_name(os.path.basename(finding.path))
    of_kind = [
        each.offset
        for each in map(parse_file_name, os.listdir(folder))
        if each.kind == (parsed.kind if parsed.kind == names.PRODUCER_SNAPSHOT else names.LOG)
    ]
    is_newest = parsed.offset == max((offset for offset in of_kind if offset is not None), default=None)
    growing = (*live._OF_GROWING_LOGS, "KD-SNAP-CORRUPT", "KD-TXN-LENGTH")
    return is_newest and (finding.code in growing or finding.code.startswith(live._OF_GROWING_INDEXES))


@pytest.mark.parametrize("case", sampled(CASES, 16), ids=lambda case: case.code)
def test_every_kind_of_damage_survives_every_rule(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for attribute, value in case.changes.items():
        module, _, name = attribute.rpartition(".")
        monkeypatch.setattr(import_module(module), name, value)
    paths = case.prepare(tmp_path)
    before = doubtful(found(*paths, **case.options))
    monkeypatch.setattr(reading, "lock_holder", lambda path: LockHolder(4711))
    after = set(map(key_of, doubtful(found(*paths, **case.options))))
    lost = [finding for finding in before if key_of(finding) not in after and not is_the_brokers_work(finding)]
    assert lost == []
    assert after <= set(map(key_of, before))


def between_looks(monkeypatch: pytest.MonkeyPatch, change: Callable[[], object]) -> None:
    """Change something where verify waits, and only there: other threads of this process wait as well."""
    monkeypatch.setattr(live, "time", SimpleNamespace(sleep=lambda _: change(), monotonic=time.monotonic))


def test_what_comes_once_is_not_said(log: Log, broker: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The damage goes away between the two looks."""
    whole = log.path(0, "log").read_bytes()
    log.edit(file(0, "log"), flip(70))
    between_looks(monkeypatch, lambda: log.path(0, "log").write_bytes(whole))
    assert codes(found(log.directory)) == set()


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return build(tmp_path / "data", closed=False)


@pytest.mark.parametrize("jobs", [1, 3])
def test_what_comes_twice_is(log: Log, broker: None, jobs: int) -> None:
    log.edit(file(0, "log"), flip(70))
    assert codes(found(log.directory, jobs=jobs)) == {"KD-LOG-CRC", "KD-LOG-BEYOND"}


def test_damage_that_moves_is_another_one(log: Log, broker: None, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = log.path(0, "log").read_bytes()
    log.edit(file(0, "log"), flip(70))
    between_looks(monkeypatch, lambda: log.path(0, "log").write_bytes(flip(-1)(whole)))
    assert "KD-LOG-CRC" not in codes(found(log.directory))


@pytest.mark.parametrize("tail", [batch(12)[:-1], batch(12)[:30], bytes(100)], ids=["a batch", "a header", "zeros"])
def test_a_growing_end_is_no_damage(log: Log, broker: None, tail: bytes) -> None:
    log.edit(file(6, "log"), lambda data: data + tail)
    assert codes(found(log.directory)) == set()
    log.path(6, "index").unlink()
    log.path(6, "timeindex").unlink()
    assert codes(found(log.directory)) == set()


def test_the_same_in_a_closed_segment_is(log: Log, broker: None) -> None:
    log.edit(file(0, "log"), lambda data: data + batch(6)[:-1])
    assert "KD-LOG-TORN" in codes(found(log.directory))
    log.path(0, "index").unlink()
    assert "KD-IDX-MISSING" in codes(found(log.directory))


def test_a_partition_that_is_deleted_meanwhile(log: Log, broker: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def listed(path: str) -> tuple[list[str], list[str]]:
        found = list_directory(path)
        if log.partition.exists():
            log.partition.rename(f"{log.partition}.0123456789abcdef0123456789abcdef-delete")
        return found

    monkeypatch.setattr(reading, "list_directory", listed)
    assert codes(found(log.directory)) == set()
    assert tally.deleted == {str(log.partition)}


def test_one_file_of_a_segment(log: Log, broker: None) -> None:
    log.edit(file(0, "log"), flip(70))
    assert codes(found(log.path(0, "log"))) == {"KD-LOG-CRC", "KD-LOG-BEYOND"}
    assert codes(found(log.path(6, "log"))) == set()


def test_a_topic_that_was_made_meanwhile(tmp_path: Path, broker: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The metadata is read first; what it lacks of a new partition directory is in it a moment later."""
    data = cluster_directory(tmp_path / "data")
    assert "clicks-0" in unassigned(data)

    def make_it_known() -> None:
        log = MetadataLog(data / "__cluster_metadata-0", 100)
        partition = {"partitionId": 0, "replicas": [1], "isr": [1], "leader": 1}
        topic = {"topicId": OTHER_ID}
        log.add(*metadata_pairs(("Topic", topic | {"name": "clicks"}), ("Partition", partition | topic))).write()

    between_looks(monkeypatch, make_it_known)
    assert unassigned(data) == {"orders-1", "orders-7"}


def unassigned(data: Path) -> set[str]:
    """What the running broker has no use for, which is no more than a note."""
    named = [finding for finding in found(data) if finding.code == "KD-DIR-UNASSIGNED"]
    assert {finding.severity for finding in named} == {"note"}
    return {os.path.basename(finding.path) for finding in named}
