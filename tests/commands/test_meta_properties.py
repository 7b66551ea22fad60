"""What a broker (4.3.1, tried) says of its meta.properties, startup foretells, and verify and doctor call an error."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kdump.formats import names
from tests.agreement.directories import EVERYTHING, build
from tests.agreement.running import kdump

OTHER_CLUSTER, OTHER_ID, RESERVED = "b3RoZXIgaXMgYSB0b29sLg", "8LwiWg6Z6nRT7UCpZESjrA", "AAAAAAAAAAAAAAAAAAAAAg"
Change = Callable[[list[Path]], None]


def put(number: int, key: str, value: str | None) -> Change:
    """Give a key of the meta.properties of a log directory another value; None: leave it out."""

    def change(properties: list[Path]) -> None:
        line = "" if value is None else f"{key}={value}\n"
        text = properties[number].read_text()
        text = re.sub(rf"^{re.escape(key)}=.*\n", line, text, flags=re.MULTILINE)
        properties[number].write_text(text if value is None or line in text else text + line)

    return change


def both(key: str, value: str) -> Change:
    def change(properties: list[Path]) -> None:
        for number in range(len(properties)):
            put(number, key, value)(properties)

    return change


def same_id(properties: list[Path]) -> None:
    for number in range(2):
        put(number, "directory.id", OTHER_ID)(properties)


def removed(*numbers: int) -> Change:
    def change(properties: list[Path]) -> None:
        for number in numbers:
            properties[number].unlink()

    return change


def emptied(properties: list[Path]) -> None:
    properties[1].write_text("")


STARTS, OFFLINE, ENDS = "starts", "offline", "ends"
CASES: dict[str, tuple[Change, str]] = {
    "another cluster": (put(1, "cluster.id", OTHER_CLUSTER), ENDS),
    "another cluster in both": (both("cluster.id", OTHER_CLUSTER), STARTS),
    "reserved directory id": (put(1, "directory.id", RESERVED), ENDS),
    "unregistered directory id": (put(1, "directory.id", OTHER_ID), STARTS),
    "no directory id": (put(1, "directory.id", None), STARTS),
    "one directory id": (same_id, ENDS),
    "missing": (removed(0), ENDS),
    "missing beside the metadata log": (removed(1), ENDS),
    "missing in both": (removed(0, 1), ENDS),
    "empty": (emptied, ENDS),
    "no node id": (put(0, "node.id", None), OFFLINE),
    "no cluster id": (put(0, "cluster.id", None), OFFLINE),
}


@pytest.fixture
def disks(tmp_path: Path) -> Path:
    build(EVERYTHING, tmp_path / "all")
    shutil.rmtree(tmp_path / "all" / "follower", ignore_errors=True)
    return tmp_path / "all"


def properties_of(disks: Path) -> list[Path]:
    return [disks / name / names.META_PROPERTIES for name in ("disk-1", "disk-2")]


@pytest.mark.parametrize("case", CASES)
def test_all_say_what_the_broker_does(disks: Path, case: str) -> None:
    change, what = CASES[case]
    change(properties_of(disks))
    (broker,) = kdump(disks, "startup", "--format", "jsonl", "disk-1", "disk-2").of_type("broker")
    found = ENDS if not broker["isStartable"] else OFFLINE if broker["offline"] else STARTS
    assert found == what
    said = kdump(disks, "verify", "--jobs", "1", "--format", "jsonl", "disk-1", "disk-2")
    effects = {row["broker"] for row in said.of_type("finding") if row["code"] == "KD-META-PROPERTIES"}
    assert effects == {STARTS: set(), OFFLINE: {"takes the log directory offline"}, ENDS: {"does not start"}}[what]
    assert said.code == (0 if what == STARTS else 1)
    doctor = kdump(disks, "doctor", "--jobs", "1", "--max-duration", "0", "disk-1", "disk-2")
    assert doctor.code == said.code


def test_partitions_alone_are_a_copy(disks: Path) -> None:
    """There was never a broker on them."""
    for path in disks.glob("*/*"):
        if path.is_file():
            path.unlink()
    said = kdump(disks, "verify", "--jobs", "1", "--format", "jsonl", "disk-1")
    assert "KD-META-PROPERTIES" not in {row["code"] for row in said.of_type("finding")}


@pytest.mark.parametrize("numbers", [(0, 1), (1,)])
def test_a_broker_of_another_node_does_not_start(disks: Path, numbers: tuple[int, ...]) -> None:
    """The server.properties says which node it is; without them directories of two nodes are of two brokers."""
    for number in numbers:
        put(number, "node.id", "7")(properties_of(disks))
    (disks / "server.properties").write_text("node.id=1\n")
    said = kdump(disks, "startup", "--config", "server.properties", "--format", "jsonl", "disk-1", "disk-2")
    (broker,) = said.of_type("broker")
    assert said.code == 1
    assert not broker["isStartable"]
    assert "Stored node id 7 doesn't match previous node id 1 in disk-" in broker["failures"][0]["message"]
