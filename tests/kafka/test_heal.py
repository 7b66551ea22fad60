"""A replica that kdump has healed joins the ISR from where it was healed to, and cuts nothing."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kdump.storage.partition import PartitionLog
from tests.kafka.broker import minor
from tests.kafka.cluster import NODES, Cluster
from tests.kafka.command import jsonl, kdump
from tests.kafka.jars import RELEASES

TOPIC = "orders"
HEALED = 3
PEER = 2


def _flip(folder: Path) -> None:
    """One bit in a closed segment."""
    path = Path(PartitionLog(str(folder)).segments[1].log_path)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


def _lose_segment(folder: Path) -> None:
    """All files of a closed segment."""
    base = PartitionLog(str(folder)).segments[1].base_offset
    for path in folder.glob(f"{base:020d}.*"):
        path.unlink()


def _lose_first_segment(folder: Path) -> None:
    """All files of the first segment, which no retention has deleted."""
    base = PartitionLog(str(folder)).segments[0].base_offset
    for path in folder.glob(f"{base:020d}.*"):
        path.unlink()


def _power_cut(folder: Path) -> None:
    """The end of the log, below the high watermark, and half a batch left of it."""
    segments = PartitionLog(str(folder)).segments
    for segment in segments[2:]:
        for path in folder.glob(f"{segment.base_offset:020d}.*"):
            path.unlink()
    path = Path(segments[1].log_path)
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2 + 7)


def _flip_and_lose_epochs(folder: Path) -> None:
    """A bit, and leader-epoch-checkpoint, without which a follower cuts to its high watermark."""
    _flip(folder)
    (folder / "leader-epoch-checkpoint").unlink()


def _wipe(folder: Path) -> None:
    """Everything, the directory too."""
    shutil.rmtree(folder)


DAMAGES: tuple[Callable[[Path], None], ...] = (
    _flip, _lose_segment, _lose_first_segment, _power_cut, _flip_and_lose_epochs, _wipe,
)  # fmt: skip

SMALL_SEGMENTS: dict[bool, dict[str, Any]] = {
    True: {"segment_bytes": "32768"},
    False: {"internal_segment_bytes": "32768"},
}
"""Up to Kafka 4.0, and from 4.1 on, which takes segment.bytes from 1 MiB on."""


@pytest.fixture
def cluster(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    release = (request.config.getoption("--release") or RELEASES)[-1]
    settings: dict[str, Any] = {"offsets.topic.replication.factor": "1", "unclean.leader.election.enable": "true"}
    with Cluster(release, tmp_path, **settings) as made:
        made.start()
        yield made


@pytest.mark.parametrize("ends", ["killed", "stopped"])
def test_a_healed_replica_joins_from_where_it_was_healed_to(cluster: Cluster, ends: str) -> None:
    number = len(DAMAGES)
    healed = cluster.nodes[HEALED]
    cluster.create(TOPIC, number, **SMALL_SEGMENTS[minor(healed.release) in ("3.9", "4.0")])
    cluster.produce(TOPIC, number, 500)
    healed.kill() if ends == "killed" else healed.stop()
    cluster.until(lambda: all(HEALED not in isr for isr in cluster.isr(TOPIC).values()))
    cluster.produce(TOPIC, number, 40)
    expected = {}
    for partition, damage in enumerate(DAMAGES):
        folder = cluster.data(HEALED) / f"{TOPIC}-{partition}"
        damage(folder)
        done = kdump("repair", folder, "--from", cluster.data(PEER), "--apply")
        assert done.exit_code == 0, done.out.decode() + done.err
        found = re.search(rb"log end offset (\d+)", done.out)
        assert found
        expected[partition] = int(found[1])
        assert expected[partition] > 400
    healed.start()
    cluster.until(lambda: all(isr == list(NODES) for isr in cluster.isr(TOPIC).values()))
    log = healed.log
    for partition, end in expected.items():
        starts = re.findall(rf"Follower {TOPIC}-{partition} starts at leader epoch \d+ from offset (\d+)", log)
        assert starts[0] == str(end), DAMAGES[partition].__name__
    assert not [line for line in log.splitlines() if "Truncating" in line and f"{TOPIC}-" in line]
    for node in cluster.nodes.values():
        node.kill()  # the last of them would wait for a quorum if it were told to stop
    compared = jsonl("replicas", *map(cluster.data, NODES), "--topic", TOPIC)
    assert {row["relation"] for row in compared.of_type("pair")} == {"identical"}
    assert [row["isr"] for row in compared.of_type("partition")] == [list(NODES)] * number
    assert compared.exit_code == 0, compared.err


def test_a_heal_that_would_be_wrong_is_refused(cluster: Cluster) -> None:
    """Node 1 led until node 3 was elected uncleanly: its longer log is the older history."""
    cluster.create(TOPIC, 1, replicas=[(1, 3)], **SMALL_SEGMENTS[minor(cluster.nodes[1].release) in ("3.9", "4.0")])
    cluster.produce(TOPIC, 1, 200)
    cluster.nodes[3].kill()
    cluster.until(lambda: cluster.isr(TOPIC) == {0: [1]})
    cluster.produce(TOPIC, 1, 100)
    cluster.nodes[1].kill()
    cluster.nodes[3].start()
    cluster.until(lambda: cluster.isr(TOPIC) == {0: [3]})
    cluster.produce(TOPIC, 1, 20)
    for node in cluster.nodes.values():
        node.kill()
    old, new = (cluster.data(node) / f"{TOPIC}-0" for node in (1, 3))
    before = [path.read_bytes() for path in sorted(new.glob("*.log"))]
    refused = kdump("repair", new, "--from", old, "--apply")
    assert refused.exit_code == 4, refused.out.decode()
    assert "has an older history" in refused.err
    assert [path.read_bytes() for path in sorted(new.glob("*.log"))] == before
    left = kdump("repair", old, "--from", new)
    assert left.out.decode().endswith("Nothing to do.\n"), "the end of an older history is its broker's to cut"
    (pair,) = jsonl("replicas", cluster.data(1), cluster.data(3), "--topic", TOPIC).of_type("pair")
    assert (pair["relation"], pair["sameUpTo"]) == ("epoch", 200)
    for node in cluster.nodes.values():
        node.launch()
    assert all(node.serves() for node in cluster.nodes.values())
    cluster.until(lambda: cluster.isr(TOPIC) == {0: [1, 3]})
    for node in cluster.nodes.values():
        node.kill()
    (pair,) = jsonl("replicas", cluster.data(1), cluster.data(3), "--topic", TOPIC).of_type("pair")
    assert pair["relation"] == "identical"
