"""Random disks of random clusters, any of them left: what is planned is what a broker would find, by our own reader."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kdump.cluster.files import NewDirectory
from kdump.cluster.wanted import ALL_LOSSES, UnknownTopics, Wanted
from kdump.formats import names
from kdump.operations import cluster
from kdump.storage.directory import LogDirectory
from kdump.storage.partition import PartitionLog
from kdump.topics.cluster_image import ClusterImage
from kdump.topics.metadata_log import state_of_directory
from tests.cluster.building import NOW, Disk, image_of, topic_id
from tests.cluster.test_resurrect import flip
from tests.sampling import sampled
from tests.topics.building import unexpected

SEEDS = range(20)
SUBSETS = 10
TOPICS = {"orders": 3, "events": 2, "clicks": 1}


def make(folder: Path, draw: random.Random) -> tuple[list[Disk], dict[tuple[str, str], tuple[int, int]]]:
    """Six disks of three brokers; of each copy its last epoch and valid end, by path and partition."""
    disks = [Disk(folder / f"d{number}", (number + 1) // 2, number) for number in range(1, 7)]
    places: dict[str, list[list[int]]] = {}
    truth = {}
    for topic, partitions in TOPICS.items():
        places[topic] = []
        for number in range(partitions):
            nodes = draw.sample([1, 2, 3], draw.choice([1, 2, 3]))
            places[topic].append(nodes)
            for node in nodes:
                disk = draw.choice([each for each in disks if each.node == node])
                batches = [(0, draw.randint(1, 9)), (0, draw.randint(1, 9)), (draw.choice([0, 2]), draw.randint(1, 9))]
                path = disk.partition(f"{topic}-{number}", *batches, producer_id=draw.choice([-1, 5, 8000]))
                end = sum(count for _, count in batches)
                truth[str(disk.path), path.name] = (batches[-1][0], end)
                if draw.random() < 0.15:
                    flip(path / f"{0:020d}.log", 70)  # in the first batch
                    truth[str(disk.path), path.name] = (-1, 0)
    image = image_of(places)
    for disk in draw.sample(disks, draw.choice([0, 1, 3])):
        disk.metadata(image)
    return disks, truth


@pytest.mark.parametrize("seed", sampled(SEEDS, 2))
def test_what_is_planned_is_what_is_there(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    disks, truth = make(tmp_path / "old", draw)
    for number in range(SUBSETS):
        given = draw.sample(disks, draw.randint(1, len(disks)))
        nodes = draw.choice([None, 1])
        wanted = Wanted(new_empty=True, accept_loss=ALL_LOSSES, nodes=nodes, unknown_topics=UnknownTopics.ADOPT)
        found = cluster.plan(
            [str(disk.path) for disk in given], wanted, now=NOW, in_place=False, progress=lambda copy: None
        )
        assert found.refusals == []
        target = tmp_path / f"new-{number}"
        done = cluster.build(found, str(target), NOW, cluster.watch(found))
        _check(done.directories, given, truth)


def _check(
    directories: tuple[NewDirectory, ...], given: list[Disk], truth: dict[tuple[str, str], tuple[int, int]]
) -> None:
    images = [_image(each.path) for each in directories if names.CLUSTER_METADATA_DIR in _names(each.path)]
    (image,) = images
    paths = {str(disk.path) for disk in given}
    for topic in image.topics.values():
        assert sorted(topic.partitions) == list(range(len(topic.partitions)))
        assert topic.topic_id == topic_id(topic.name)
        for number, record in topic.partitions.items():
            name = f"{topic.name}-{number}"
            copies = {path: rank for (path, each), rank in truth.items() if each == name and path in paths}
            holders = [each for each in directories if name in _names(each.path)]
            assert sorted(each.node.id for each in holders) == sorted(record["replicas"]) or not copies
            assert len(record["isr"]) == 1
            assert set(record["isr"]) <= set(record["replicas"])
            assert record["leaderEpoch"] > max([-1, *(epoch for epoch, _ in copies.values())])
            if copies:
                leader = next(each for each in holders if each.node.id == record["isr"][0])
                best = max(copies.values())
                led = [truth[str(disk.path), name] for disk in leader.node.disks if (str(disk.path), name) in truth]
                assert best in led
    for each in directories:
        for name in _names(each.path):
            if name != names.CLUSTER_METADATA_DIR:
                topic_name, _, number_text = name.rpartition("-")
                record = image.topics[topic_id(topic_name)].partitions[int(number_text)]
                assert each.node.id in record["replicas"]
    assert image.producer_ids is not None
    assert image.producer_ids["nextProducerId"] > 0


def _names(path: str) -> list[str]:
    return LogDirectory(path).partition_names


def _image(path: str) -> ClusterImage:
    log = PartitionLog(str(Path(path) / names.CLUSTER_METADATA_DIR))
    return state_of_directory(log, unexpected).image
