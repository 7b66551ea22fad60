"""Six brokers' disks, all of them or any: what `kdump resurrect` plans of them is what real brokers then serve.

These tests take long, so that the daily job leaves them out: ./dev kafka tests/kafka/test_disks.py
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.kafka.clients import watermarks
from tests.kafka.cluster import Cluster
from tests.kafka.command import jsonl
from tests.kafka.directories import copy_tree
from tests.kafka.jars import RELEASES
from tests.kafka.ports import free_ports
from tests.kafka.tally import Column, Tally
from tests.kafka.test_resurrect import RECORDS, _commit, _destroy_metadata, _resurrect, _served, _values

NODES = (1, 2, 3, 4, 5, 6)
THREE = tuple(tuple(NODES[(first + at) % 6] for at in range(3)) for first in range(6))
TWO = tuple(each[:2] for each in THREE)
ONE = tuple(each[:1] for each in THREE)
TOPICS = {"orders": (6, THREE), "events": (3, TWO), "single": (6, ONE)}
MORE = 30
"""Records of orders that one broker has not, which had been killed before."""


@pytest.fixture(scope="module")
def release(request: pytest.FixtureRequest) -> str:
    releases: list[str] = request.config.getoption("--release") or list(RELEASES)
    return releases[-1]


@pytest.fixture(scope="module")
def disks(release: str, tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """The log directories of six brokers that were killed, one of them a while before the others."""
    folder = tmp_path_factory.mktemp("six")
    settings = {"offsets.topic.replication.factor": "3", "offsets.topic.num.partitions": "3"}
    found = {}
    with Cluster(release, folder / "live", nodes=NODES, **settings) as cluster:
        cluster.start()
        for topic, (partitions, replicas) in TOPICS.items():
            cluster.create(topic, partitions, replicas)
            cluster.produce(topic, partitions, RECORDS)
        _commit(",".join(cluster.servers), "billing")
        cluster.nodes[5].kill()
        cluster.until(lambda: all(5 not in isr for isr in cluster.isr("orders").values()))
        cluster.produce("orders", TOPICS["orders"][0], MORE)
        for node in NODES:
            cluster.nodes[node].kill()
        for node in NODES:
            found[node] = folder / f"disk-{node}"
            copy_tree(cluster.data(node), found[node])
    return found


def _written(topic: str, partition: int) -> list[bytes]:
    """The values that producers sent, by offset."""
    numbers = [*range(RECORDS), *range(MORE if topic == "orders" else 0)]
    return [f"record {number} of {topic}-{partition} ".encode().ljust(300, b".") for number in numbers]


def _copies(disks: dict[int, Path], nodes: list[int], folder: Path) -> list[Path]:
    found = [folder / f"disk-{node}" for node in nodes]
    for node, path in zip(nodes, found, strict=True):
        copy_tree(disks[node], path)
    return found


def test_six_brokers_become_three(disks: dict[int, Path], release: str, tmp_path: Path, tally: Tally) -> None:
    log_dirs = _copies(disks, list(NODES), tmp_path)
    ports = free_ports(4)
    controller = ("--controller", f"127.0.0.1:{ports[3]}")
    done = _resurrect(*log_dirs, "--into", tmp_path / "new", "--nodes", 3, *controller, "--kafka", release)
    nodes = [row["nodeId"] for row in done.of_type("node")]
    assert len(nodes) == 3
    places = {node: (port, ports[3]) for node, port in zip(nodes, ports, strict=False)}
    with tally.of(release, Column.WRITE) as compare, _served(release, tmp_path, done, places) as brokers:
        servers = ",".join(broker.servers for broker in brokers)
        for topic, (partitions, _) in TOPICS.items():
            for partition in range(partitions):
                values = _values(servers, topic, partition)
                compare.same(f"{topic}-{partition}", values, _written(topic, partition))
        consumer = Consumer({"bootstrap.servers": servers, "group.id": "billing"})
        commits = consumer.committed([TopicPartition("orders", each) for each in range(TOPICS["orders"][0])], 60)
        compare.same("what billing has read", sum(max(0, each.offset) for each in commits), RECORDS)
        consumer.close()
        strays = [path.name for path in (tmp_path / "new").glob("*/*-stray")]
        compare.same("strays", strays, [])


@pytest.mark.parametrize("seed", range(20))
def test_what_is_planned_of_any_disks_is_what_boots(
    seed: int, disks: dict[int, Path], release: str, tmp_path: Path, tally: Tally
) -> None:
    draw = random.Random(seed)
    nodes = sorted(draw.sample(NODES, draw.randint(1, 6)))
    log_dirs = _copies(disks, nodes, tmp_path)
    options: list[object] = ["--new-empty", "--nodes", 1, "--offsets-partitions", 3, "--kafka", release]
    if draw.random() < 0.3:
        _destroy_metadata(log_dirs)
    ports = free_ports(2)
    controller = ("--controller", f"127.0.0.1:{ports[1]}")
    done = _resurrect(*log_dirs, "--into", tmp_path / "new", *options, *controller)
    planned = {(row["topic"], row["partition"]): row for row in done.of_type("partition")}
    (node,) = done.of_type("node")
    places = {node["nodeId"]: (ports[0], ports[1])}
    with tally.of(release, Column.WRITE) as compare, _served(release, tmp_path, done, places) as (broker,):
        consumer = Consumer({"bootstrap.servers": broker.servers, "group.id": "reader"})
        for (topic, partition), row in planned.items():
            _check(compare, consumer, broker.servers, topic, partition, row)
        consumer.close()
        listed = jsonl("metadata", tmp_path / "new" / f"node-{node['nodeId']}")
        ids = {row["topic"]: row["topicId"] for row in listed.of_type("topic")}
        wanted = {row["topic"]: row["topicId"] for row in planned.values()}
        # of commits on none of the disks nobody knows: a broker makes that topic anew for the consumers of this test
        compare.same("topic ids", {topic: ids.get(topic) for topic in wanted}, wanted)
        strays = [path.name for path in (tmp_path / "new").glob("*/*-stray")]
        compare.same("strays", strays, [])


def _check(compare: Any, consumer: Consumer, servers: str, topic: str, partition: int, row: dict[str, Any]) -> None:
    """The offsets of a partition are those planned, and its records those that were sent."""
    expected = (row["logStartOffset"] or 0, row["logEndOffset"] or 0)
    offsets = watermarks(consumer, TopicPartition(topic, partition))
    compare.same(f"offsets of {topic}-{partition}", offsets, expected)
    if topic in TOPICS:
        values = _values(servers, topic, partition)
        compare.same(f"{topic}-{partition}", values, _written(topic, partition)[: expected[1]])
