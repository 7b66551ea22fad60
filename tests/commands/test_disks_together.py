"""Log directories that are given together: what their broker says of those that do not go together.

A broker of 4.3.1 and one of 3.9.2 ended with these texts (MetaPropertiesEnsemble.verify).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kdump.formats import names
from tests.commands.running import Run
from tests.recovery.building import METADATA, batch, file

OWN_ID = "jxLn1LKXwwJy26fmqbvVjA"
OTHER_ID = "8LwiWg6Z6nRT7UCpZESjrQ"


@pytest.fixture
def disks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Two log directories of one broker, with a partition each."""
    monkeypatch.chdir(tmp_path)
    for name, topic, id_ in (("disk1", "orders", OWN_ID), ("disk2", "clicks", OTHER_ID)):
        partition = Path(name, f"{topic}-0")
        partition.mkdir(parents=True)
        (partition / file(0, "log")).write_bytes(batch(0, 2))
        (partition / names.PARTITION_METADATA).write_bytes(METADATA)
        Path(name, names.CLEAN_SHUTDOWN).write_text('{"version":0,"brokerEpoch":-1}')
        write(Path(name), id_)
    return [Path("disk1"), Path("disk2")]


def write(disk: Path, id_: str, *, cluster: str = "abc") -> None:
    """Write the meta.properties of a log directory."""
    text = f"version=1\nnode.id=1\ncluster.id={cluster}\ndirectory.id={id_}\n"
    (disk / names.META_PROPERTIES).write_text(text)


def told(run: Run, command: str, disks: list[Path]) -> str:
    """What a command prints, in one line."""
    assert run(command, *disks) == 1
    return " ".join(run.out.split())


def test_of_one_broker(run: Run, disks: list[Path]) -> None:
    for command in ("verify", "startup", "doctor"):
        assert run(command, *disks) == 0, run.out


@pytest.mark.parametrize("command", ["verify", "startup", "doctor"])
def test_of_another_cluster(run: Run, disks: list[Path], command: str) -> None:
    write(disks[1], OTHER_ID, cluster="xyz")
    text = told(run, command, disks)
    assert "Invalid cluster.id in: disk2/meta.properties. Expected abc, but read xyz" in text
    assert "write it again" not in text.lower()
    if command != "verify":
        assert "The broker will NOT start" in text


@pytest.mark.parametrize("command", ["verify", "startup", "doctor"])
def test_with_the_same_directory_id(run: Run, disks: list[Path], command: str) -> None:
    write(disks[1], OWN_ID)
    expected = f"Duplicate directory ID Optional[{OWN_ID}] found. It was the ID of disk1, but also of disk2"
    text = told(run, command, disks)
    assert expected in text
    if command != "verify":
        assert "The broker will NOT start" in text


@pytest.mark.parametrize("command", ["verify", "startup", "doctor"])
def test_without_a_node_id(run: Run, disks: list[Path], command: str) -> None:
    (disks[1] / names.META_PROPERTIES).write_text("neither a key nor a value")
    text = told(run, command, disks)
    assert "Error: node ID not found in disk2" in text
    assert "None" not in text


def test_one_directory_by_two_paths_has_no_twin(run: Run, disks: list[Path]) -> None:
    Path("link").symlink_to("disk1")
    assert run("startup", disks[0], "link") in (0, 1)
    assert "Duplicate directory ID" not in run.out


def test_a_disk_that_does_not_say_whose_it_is_may_be_that_of_the_broker(run: Run, disks: list[Path]) -> None:
    (disks[1] / names.META_PROPERTIES).unlink()
    assert run("verify", *disks, "--format", "jsonl") == 1
    errors = [finding["code"] for finding in run.of_type("finding") if finding["severity"] == "error"]
    assert errors == ["KD-META-PROPERTIES"]
    assert "KD-COPY-ABSENT" not in run.out
