"""`--isolation read_committed` on directories that a broker left, compared with what its consumers got of them."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from kdump.storage.partition import PartitionLog
from kdump.storage.records import Record
from kdump.txns.isolation import consumed
from kdump.txns.isolation_level import Isolation
from tests.kafka.broker import Broker
from tests.kafka.command import jsonl
from tests.kafka.directories import DISKS, Rich, copy_tree
from tests.kafka.tally import Column, Tally

Records = dict[tuple[str, int], tuple[Any, ...]]
"""Timestamp, key and value of records by partition and offset."""


def test_committed_records_are_those_that_consumers_get(directory: Rich, tally: Tally) -> None:
    consumed: dict[str, set[int]] = defaultdict(set)
    for row in directory.records():
        if row["committed"]:
            consumed[row["partition"]].add(row["offset"])
    folders = [path for disk in directory.recovered for path in sorted(disk.iterdir()) if path.is_dir()]
    folders = [path for path in folders if not path.name.startswith("__") and path.name[-1].isdigit()]
    with tally.of(directory.release, Column.READ) as compare:
        done = jsonl("dump", "--raw", "--isolation", "read_committed", *folders)
        compare.same("dump: exit code", done.exit_code, 0)
        found: dict[str, set[int]] = defaultdict(set)
        for row in map(json.loads, done.out.splitlines()):
            if row["type"] == "record":
                found[f"{row['topic']}-{row['partition']}"].add(row["offset"])
        for folder in folders:
            compare.same(f"committed offsets of {folder.name}", found[folder.name], consumed[folder.name])


def test_committed_records_are_those_that_librdkafka_gets(directory: Rich, tmp_path: Path, tally: Tally) -> None:
    """A broker serves a copy of what it recovered; then it stops, and its files are read."""
    disks = [tmp_path / disk for disk in DISKS]
    for source, target in zip(directory.recovered, disks, strict=True):
        copy_tree(source, target)
    broker = Broker(directory.release, tmp_path / "broker", disks)
    try:
        broker.start()
        wanted = _committed(broker.servers)
        broker.stop()
    finally:
        broker.kill()
    found: Records = {}
    for folder in (path for disk in disks for path in disk.iterdir() if _is_users(path.name)):
        for record in consumed(PartitionLog(str(folder)), Isolation.READ_COMMITTED):
            assert isinstance(record, Record), record
            found[folder.name, record.offset] = (record.timestamp, record.key, record.value)
    with tally.of(directory.release, Column.READ) as compare:
        compare.holds("there are records", len(wanted) > 500)
        for key in found.keys() | wanted.keys():
            compare.same(f"librdkafka: {key}", found.get(key), wanted.get(key))


def _is_users(name: str) -> bool:
    return name.rpartition("-")[2].isdigit() and not name.startswith("__")


def _committed(servers: str) -> Records:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

    settings = {"bootstrap.servers": servers, "group.id": "reader", "isolation.level": "read_committed"}
    consumer = Consumer(settings | {"enable.partition.eof": True, "enable.auto.commit": False})
    found: Records = {}
    try:
        topics = consumer.list_topics(timeout=30).topics
        places = [TopicPartition(name, at, OFFSET_BEGINNING) for name, each in topics.items() for at in each.partitions]
        places = [each for each in places if _is_users(f"{each.topic}-{each.partition}")]
        consumer.assign(places)
        left = {(each.topic, each.partition) for each in places}
        while left:
            for message in consumer.consume(1000, 1.0):
                error = message.error()
                place = (message.topic() or "", message.partition() or 0)
                if error is None:
                    value = (message.timestamp()[1], message.key(), message.value())
                    found[f"{place[0]}-{place[1]}", message.offset() or 0] = value
                else:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    left.discard(place)
    finally:
        consumer.close()
    return found
