"""Specifications as clusters: a real broker starts on what is built, and consumers read what the specification says."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, Producer, TopicPartition

from kdump.fixture.make import make
from tests.kafka.broker import Broker, minor
from tests.kafka.clients import watermarks
from tests.kafka.command import jsonl
from tests.kafka.ports import free_ports
from tests.kafka.tally import Column, Tally

SPECS = sorted((Path(__file__).resolve().parents[2] / "fixtures" / "specs").glob("*.yaml"))
GIVEN: dict[str, Any] = {
    "seed": "given",
    "clock": "2026-01-31T12:00:00Z",
    "topics": [
        {
            "name": "orders",
            "config": {"retention.ms": 864000000000, "segment.bytes": 1048576},
            "steps": [
                {
                    "send": {
                        "records": [
                            {"key": "a", "value": {"json": {"id": 1}}, "headers": {"trace": "x", "none": None}},
                            {"key": {"base64": "AAE="}, "value": None, "timestamp": "2026-01-31T12:00:00Z"},
                        ]
                    }
                },
                {"append": {"records": 48}},
                {"append": {"records": 4, "producer": "payer"}},
                {"commit": "payer"},
            ],
        }
    ],
    "producers": {"payer": {"id": 4000, "transactional": True}},
    "cluster": {
        "groups": {"billing": {"orders-0": 42}},
        "schemas": [{"subject": "orders-value", "schema": {"type": "string"}}],
        "acls": [{"principal": "User:eve", "operation": "read", "resource_type": "topic", "resource": "orders"}],
    },
}


def _brokers(release: str, folder: Path, cluster: Any) -> list[Broker]:
    """A broker for each node, the controller first."""
    ports = free_ports(len(cluster.properties) + 1)
    made = []
    for node in sorted(cluster.properties, key=lambda each: each != cluster.controller):
        listeners = [f"PLAINTEXT://127.0.0.1:{ports.pop()}"]
        if node == cluster.controller:
            listeners.append(f"CONTROLLER://127.0.0.1:{cluster_port(cluster)}")
        broker = Broker(
            release,
            folder / f"broker-{node}",
            [Path(path) for path in cluster.log_dirs[node]],
            **cluster.properties[node],
            **{"listeners": ",".join(listeners), "advertised.listeners": listeners[0]},
            **{"log.cleaner.min.cleanable.ratio": "1.0"},  # or the cleaner could come before the consumers
        )
        made.append(broker)
    return made


def cluster_port(cluster: Any) -> int:
    return int(cluster.properties[cluster.controller]["controller.quorum.voters"].rpartition(":")[2])


def _records(servers: str, topic: str, partition: int, stop: int) -> tuple[int, dict[int, Any]]:
    """The log start offset, and what a read_uncommitted consumer gets: key, value, timestamp, headers by offset."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "reader", "isolation.level": "read_uncommitted"})
    place = TopicPartition(topic, partition, 0)
    low, high = watermarks(consumer, place)
    consumer.assign([TopicPartition(topic, partition, low)])
    found: dict[int, Any] = {}
    while consumer.position([place])[0].offset < min(stop, high) and (message := consumer.poll(20)) is not None:
        if message.error() is None:
            kind, timestamp = message.timestamp()
            timestamp = -1 if kind == TIMESTAMP_NOT_AVAILABLE else timestamp
            offset = message.offset()
            assert offset is not None
            found[offset] = (message.key(), message.value(), timestamp, message.headers() or [])
    consumer.close()
    return low, found


def _bytes(row: dict[str, Any], name: str) -> bytes | None:
    if row[name] is None:
        twin = row.get(f"{name}Base64")
        return None if twin is None else base64.b64decode(twin)
    return str(row[name]).encode()


@pytest.mark.parametrize("spec", [*SPECS, GIVEN], ids=lambda spec: spec.stem if isinstance(spec, Path) else "given")
def test_brokers_serve_what_is_specified(release: str, spec: Any, tmp_path: Path, tally: Tally) -> None:
    source = dict(spec) if isinstance(spec, dict) else spec
    port = free_ports(1)[0]
    built = make(source, tmp_path / "data", kafka=minor(release), cluster=True)
    assert built.cluster is not None
    cluster = built.cluster.listening("127.0.0.1", port)
    brokers = _brokers(release, tmp_path, cluster)
    leaders: dict[tuple[str, int], dict[int, Any]] = {}
    for path in (path for paths in cluster.log_dirs.values() for path in paths):
        for row in jsonl("dump", path).of_type("record"):
            if not row["isControl"] and not row["topic"].startswith("__"):
                headers = [(each["key"], _bytes(each, "value")) for each in row["headers"]]
                value = (_bytes(row, "key"), _bytes(row, "value"), row["timestamp"], headers)
                leaders.setdefault((row["topic"], row["partition"]), {})[row["offset"]] = value
    try:
        for broker in brokers:
            broker.start()
        with tally.of(release, Column.WRITE) as compare:
            servers = ",".join(broker.servers for broker in brokers)
            for (topic, partition), written in sorted(leaders.items())[:40]:
                low, got = _records(servers, topic, partition, max(written) + 1)
                expected = {offset: row for offset, row in written.items() if offset >= low}
                compare.same(f"offsets of {topic}-{partition}", sorted(got), sorted(expected))
                for offset in got.keys() & expected.keys():
                    compare.same(f"{topic}-{partition} at {offset}", got[offset], expected[offset])
            if isinstance(spec, dict):
                consumer = Consumer({"bootstrap.servers": servers, "group.id": "billing"})
                (place,) = consumer.committed([TopicPartition("orders", 0)], 60)
                consumer.close()
                compare.same("what billing committed", place.offset, 42)
                producer = Producer({"bootstrap.servers": servers, "transactional.id": "payer"})
                producer.init_transactions(60)
                producer.begin_transaction()
                producer.produce("orders", b"after", partition=0)
                producer.commit_transaction(60)
                after, end = _records(servers, "orders", 0, 1 << 62)[1], max(leaders["orders", 0])
                written_after = [row[1] for offset, row in after.items() if offset > end]
                compare.same("what the transactional id wrote", written_after, [b"after"])
            strays = [str(path) for path in (tmp_path / "data").rglob("*-stray")]
            compare.same("strays", strays, [])
    finally:
        for broker in brokers:
            broker.kill()
