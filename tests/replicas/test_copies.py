"""Copies of several brokers: `kdump verify` does not call them sound where they differ, `kdump doctor` says what is at
stake."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import kdump as kdump_library
from kdump.findings.catalogue import CATALOGUE, COPIES
from tests.agreement.running import kdump
from tests.replicas.building import OnDisk, Sent, chain, flip, partition_fields, write_copy, write_metadata

SHARED = chain(0, (0, 4))
WHOLE = [*SHARED, *chain(20, (0, 6))]
NEWER = [*SHARED, *chain(20, (1, 5))]
OTHER = [*chain(0, (0, 2)), Sent(10, 5, 0, "other"), *chain(15, (0, 7))]
HOLE = [batch for batch in WHOLE if batch.base != 25]


def codes(root: Path, *arguments: object) -> list[tuple[str, str, int]]:
    """The findings between copies: code, path, offset."""
    rows = kdump(root, "verify", "b1", "b2", *arguments, "--format", "jsonl").of_type("finding")
    return [(row["code"], row["path"], row["firstOffset"]) for row in rows if row["code"].startswith("KD-COPY-")]


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (WHOLE, WHOLE, []),
        (WHOLE, SHARED, []),
        (WHOLE, NEWER, [("KD-COPY-EPOCH", "b1/orders-0", 20)]),
        (WHOLE, OTHER, [("KD-COPY-BYTES", "b2/orders-0", 10)]),
        (WHOLE, HOLE, [("KD-COPY-MISSING", "b2/orders-0", 25)]),
    ],
    ids=["identical", "behind", "other-epoch", "other-bytes", "hole"],
)
def test_what_verify_says(
    first: list[Sent], second: list[Sent], expected: list[tuple[str, str, int]], tmp_path: Path
) -> None:
    write_copy(tmp_path, 1, OnDisk(first))
    write_copy(tmp_path, 2, OnDisk(second))
    assert codes(tmp_path) == expected
    said = kdump(tmp_path, "verify", "b1", "b2")
    assert said.code == (1 if expected else 0), said.out
    assert kdump(tmp_path, "replicas", "b1", "b2").code == said.code
    assert codes(tmp_path, "--ignore", "KD-COPY-*") == []
    found = kdump_library.verify(tmp_path / "b1", tmp_path / "b2")
    assert [each.code for each in found if each.code.startswith("KD-COPY-")] == [code for code, _, _ in expected]
    one = kdump(tmp_path, "verify", "b2", "--format", "jsonl").of_type("finding")
    assert not [row for row in one if row["code"].startswith("KD-COPY-")]


@pytest.mark.parametrize("name", ["replication", "recovery-point"])
def test_copies_are_compared_since_the_lowest_recovery_point(tmp_path: Path, name: str) -> None:
    """Where a copy differs below what both are known to have on the disk is not looked at again."""
    for broker, batches in ((1, WHOLE), (2, OTHER)):
        write_copy(tmp_path, broker, OnDisk(batches, roll=(20,)))
    assert codes(tmp_path, "--since-checkpoint") == []
    (tmp_path / "b2" / f"{name}-offset-checkpoint").write_text("0\n1\norders 0 10\n")
    expected = [("KD-COPY-BYTES", "b2/orders-0", 10)] if name == "recovery-point" else []
    assert codes(tmp_path, "--since-checkpoint") == expected
    found = kdump_library.verify(tmp_path / "b1", tmp_path / "b2", since_checkpoint=True)
    assert [each.code for each in found if each.code.startswith("KD-COPY-")] == [code for code, _, _ in expected]


def test_a_copy_that_is_behind_is_so_since_its_recovery_point(tmp_path: Path) -> None:
    for broker, batches in ((1, WHOLE), (2, SHARED)):
        write_copy(tmp_path, broker, OnDisk(batches, roll=(20,)))
    assert codes(tmp_path, "--since-checkpoint") == []
    write_copy(tmp_path, 3, OnDisk([], roll=(20,)))
    assert kdump(tmp_path, "verify", "b1", "b3", "--since-checkpoint").code == 0


def test_copies_are_read_no_faster_than_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    for broker, batches in ((1, WHOLE), (2, OTHER)):
        write_copy(tmp_path, broker, OnDisk(batches))
    assert codes(tmp_path) == codes(tmp_path, "--max-rate", "1G") != []
    monkeypatch.setattr("kdump.disk.pace.Pace.take", lambda _, size: taken.append(size))
    codes(tmp_path, "--max-rate", "1G")
    read = sum(path.stat().st_size for path in tmp_path.glob("b*/orders-0/*.log"))
    assert sum(taken) >= 2 * read


def test_a_missing_directory_of_an_in_sync_replica(tmp_path: Path) -> None:
    write_copy(tmp_path, 1, OnDisk(WHOLE))
    shutil.rmtree(write_copy(tmp_path, 2, OnDisk(WHOLE)))
    write_metadata(tmp_path, 1, partition_fields([1, 2], [1, 2], 1))
    assert [code for code, _, _ in codes(tmp_path)] == ["KD-COPY-ABSENT"]
    (row,) = diagnoses(tmp_path)
    assert row["codes"] == ["KD-COPY-ABSENT"]
    assert {each["leader"]: each["lostRecords"] for each in row["leaders"]} == {1: 0, 2: 50}


def test_compacted_copies_that_differ_by_right_and_not(tmp_path: Path) -> None:
    """Below the cleaner's offset other batches are right, another latest record of a key is not."""
    cleaned = [batch for number, batch in enumerate(WHOLE) if number >= 8 or number % 2]
    for broker, batches in ((1, WHOLE), (2, cleaned)):
        write_copy(tmp_path, broker, OnDisk(batches))
        (tmp_path / f"b{broker}" / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 40\n")
    assert [code for code, _, _ in codes(tmp_path)] == ["KD-COPY-KEYS"]  # every key is there once
    assert kdump(tmp_path, "replicas", "b1", "b2").code == 1


def test_every_code_of_copies_has_a_test() -> None:
    source = Path(__file__).read_text()
    for code, kind in CATALOGUE.items():
        assert kind.checked_by != COPIES or f'"{code}"' in source


def diagnoses(root: Path, *brokers: str) -> list[dict[str, Any]]:
    said = kdump(root, "doctor", *(brokers or ("b1", "b2")), "--format", "jsonl")
    assert said.code in (0, 1), said.err
    return said.of_type("diagnosis")


def test_doctor_says_what_a_leader_may_lose(tmp_path: Path) -> None:
    write_copy(tmp_path, 1, OnDisk(WHOLE, high_watermark=45))
    write_copy(tmp_path, 2, OnDisk(SHARED, high_watermark=20))
    write_metadata(tmp_path, 1, partition_fields([1, 2], [1, 2], 1))
    (row,) = diagnoses(tmp_path)
    assert (row["stake"], row["firstOffset"], row["lastOffset"]) == ("committed", 20, 49)
    losses = {each["leader"]: (each["standing"], each["lostRecords"], each["lostCommitted"]) for each in row["leaders"]}
    assert losses == {1: ("inSync", 0, 0), 2: ("inSync", 30, 25)}
    assert row["actions"][0]["command"] == ["kdump", "repair", "b2/orders-0", "--from", "b1/orders-0"]
    text = kdump(tmp_path, "doctor", "b1", "b2").out
    lines = " ".join(text.split())
    assert "1 b2/orders-0 A REPLICA THAT MAY LEAD LACKS RECORDS: committed offsets 20\u201349 are at stake" in lines
    assert "broker 2: 20\u201349 not there yet" in text
    assert "2 (in sync): loses 30 records (25 committed" in text


def test_doctor_says_nothing_of_a_replica_that_is_behind_and_out_of_sync(tmp_path: Path) -> None:
    write_copy(tmp_path, 1, OnDisk(WHOLE, high_watermark=45))
    write_copy(tmp_path, 2, OnDisk(SHARED, high_watermark=20))
    write_metadata(tmp_path, 1, partition_fields([1, 2], [1], 1))
    assert diagnoses(tmp_path) == []
    assert "Copies: 1 partition on several brokers: in 1 a copy is only behind." in kdump(
        tmp_path, "doctor", "b1", "b2"
    ).out.replace("\n", " ")


def test_doctor_takes_the_other_copy_for_the_first_way_out_of_damage(tmp_path: Path) -> None:
    write_copy(tmp_path, 1, OnDisk(WHOLE))
    flip(write_copy(tmp_path, 2, OnDisk(WHOLE)) / f"{0:020d}.log", 300)
    (row,) = diagnoses(tmp_path)
    assert row["title"] == "damaged batch"
    assert row["actions"][0]["command"] == ["kdump", "repair", "b2/orders-0", "--from", "b1/orders-0"]


def test_doctor_of_copies_that_differ(tmp_path: Path) -> None:
    write_copy(tmp_path, 1, OnDisk(WHOLE))
    write_copy(tmp_path, 2, OnDisk(NEWER))
    (row,) = diagnoses(tmp_path)
    assert (row["title"], row["codes"]) == ("copies differ", ["KD-COPY-EPOCH"])
    assert row["actions"][0]["command"][:3] == ["kdump", "export", "--lost"]
    (summary,) = kdump(tmp_path, "doctor", "b1", "b2", "--format", "jsonl").of_type("summary")
    assert (summary["comparedPartitions"], summary["differingPartitions"]) == (1, 1)
    screen = kdump(tmp_path, "doctor", "b1", "b2").out
    assert "The brokers will start. 1 partition needs you." in screen
    assert "does not start" not in screen
