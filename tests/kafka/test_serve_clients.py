"""`kdump serve` and Python's Kafka clients: the records that a broker gave of the same directories, both isolations."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import kafka
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from kdump.server.background import serve
from kdump.server.cluster import ServedCluster
from kdump.server.pieces import OnDamage
from kdump.storage.open import open_directory
from tests.kafka.directories import Rich
from tests.kafka.tally import Column, Tally
from tests.serve.clients import COMMITTED, READERS, UNCOMMITTED
from tests.serve.data import Seen


def _unchanged(directory: Rich) -> set[str]:
    """The partitions of users that the broker did not change when it started: open transactions end then, what has
    expired goes, and a killed broker's cleaning is done.
    """
    cluster = ServedCluster(map(open_directory, map(str, directory.log_dirs)), OnDamage.STOP, print, print)
    found = set()
    for name, offsets in directory.truth["offsets"].items():
        topic, _, number = name.rpartition("-")
        served_one = cluster.partition(1, topic, int(number))
        assert served_one is not None
        ends = (served_one.log_start_offset, served_one.end_offset, served_one.last_stable_offset)
        is_same = ends == (offsets["earliest"], offsets["latest"], offsets["lastStable"])
        if is_same and not topic.startswith(("__", "busy-compacted")):
            found.add(name)
    return found


def _expected(directory: Rich, isolation: str) -> Iterator[Seen]:
    """What consumers got of a broker that was started on these directories."""
    return (_seen(row) for row in directory.records() if isolation == UNCOMMITTED or row["committed"])


def _seen(row: dict[str, Any]) -> Seen:
    headers = tuple((name, _bytes(value)) for name, value in row["headers"])
    return Seen(row["partition"], row["offset"], row["timestamp"], _bytes(row["key"]), _bytes(row["value"]), headers)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


@pytest.fixture
def server(directory: Rich) -> Iterator[str]:
    with serve(*map(str, directory.log_dirs)) as servers:
        yield servers


@pytest.mark.parametrize("isolation", [UNCOMMITTED, COMMITTED])
@pytest.mark.parametrize("name", READERS)
def test_records_are_those_of_the_broker(name: str, isolation: str, directory: Rich, tally: Tally) -> None:
    names = _unchanged(directory)
    if isolation == COMMITTED and name != "confluent-kafka":
        # They break at a control batch whose marker the cleaner has removed.
        names = {each for each in names if not each.startswith("txn-compacted")}
    paths = [str(path) for path in directory.partitions if path.name in names]
    assert len(names) > 20
    wanted = {seen[:2]: seen for seen in _expected(directory, isolation) if seen.partition in names}
    with serve(*paths) as servers:
        found = {seen[:2]: seen for seen in READERS[name](servers, isolation)}
    with tally.of(directory.release, Column.READ) as compare:
        for key in wanted.keys() | found.keys():
            compare.same(f"{name}, {isolation}: {key}", found.get(key), wanted.get(key))


def test_offsets_by_time(server: str, directory: Rich, tally: Tally) -> None:
    """As librdkafka's admin client gets them."""
    admin = AdminClient({"bootstrap.servers": server})
    names = sorted(_unchanged(directory))
    times = {_partition(name): directory.truth["offsets"][name]["times"] for name in names}
    with tally.of(directory.release, Column.READ) as compare:
        for row in range(max(map(len, times.values()))):
            asked = {place: found[row] for place, found in times.items() if row < len(found)}
            specs = {place: OffsetSpec.for_timestamp(answer[0]) for place, answer in asked.items()}
            for place, result in admin.list_offsets(specs, request_timeout=30).items():
                time, offset, *_ = asked[place]
                compare.same(f"{place.topic}-{place.partition} at {time}", result.result().offset, offset)


def test_commits_of_groups(server: str, directory: Rich, tally: Tally) -> None:
    """As kafka-python gets them."""
    with tally.of(directory.release, Column.READ) as compare:
        for group, told in directory.truth["groups"].items():
            consumer = kafka.KafkaConsumer(bootstrap_servers=server, group_id=group, enable_auto_commit=False)
            for name, (offset, metadata, *_) in told["commits"].items():
                topic, _, number = name.rpartition("-")
                found = consumer.committed(kafka.TopicPartition(topic, int(number)), metadata=True)
                compare.same(f"{group}: {name}", (found.offset, found.metadata), (offset, metadata))
            consumer.close()


def _partition(name: str) -> TopicPartition:
    topic, _, number = name.rpartition("-")
    return TopicPartition(topic, int(number))
