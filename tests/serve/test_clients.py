"""Real clients read what is on the disk, and are told at once that nothing can be written."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import aiokafka
import confluent_kafka
import kafka
import pytest
from kafka.errors import ClusterAuthorizationFailedError, KafkaError, PolicyViolationError

from kdump.server.background import serve
from tests.serve.clients import COMMITTED, READERS, UNCOMMITTED
from tests.serve.data import build, records_in

STARTS = {"trimmed-0": 23}
UNSTABLE = 11
"""Where the open transaction of payments-0 begins: 4 records, COMMIT, 3 records, ABORT, 2 records."""
ABORTED = range(5, 8)


@pytest.fixture(scope="module")
def log_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("served") / "data")


@pytest.fixture(scope="module")
def server(log_dir: Path) -> Iterator[str]:
    with serve(str(log_dir)) as address:
        yield address


@pytest.mark.parametrize("name", READERS)
def test_all_records_are_read(name: str, server: str, log_dir: Path) -> None:
    expected = records_in(log_dir, STARTS)
    assert len(expected) > 800
    assert READERS[name](server, UNCOMMITTED) == expected


@pytest.mark.parametrize("name", READERS)
def test_committed_records_are_read(name: str, server: str, log_dir: Path) -> None:
    expected = [
        seen
        for seen in records_in(log_dir, STARTS)
        if seen.partition != "payments-0" or (seen.offset < UNSTABLE and seen.offset not in ABORTED)
    ]
    assert READERS[name](server, COMMITTED) == expected


@pytest.mark.parametrize(
    ("name", "old"),
    [
        *((name, old) for name in READERS for old in ("s-src-v1-gzip", "s-src-v1-snappy")),
        # the others cannot read LZ4 with the checksum of version 0
        *(("confluent-kafka", old) for old in ("s-src-v0-lz4", "b-v0-lz4-gaps")),
    ],
)
def test_old_message_formats_are_read(name: str, old: str) -> None:
    folder = Path(__file__).resolve().parent.parent.parent / "fixtures" / "corpus" / old
    expected = records_in(folder)
    assert expected
    with serve(str(folder)) as address:
        found = READERS[name](address, UNCOMMITTED)
    # of a message without a time each library makes something of its own
    assert [each[:2] + each[3:] for each in found] == [each[:2] + each[3:] for each in expected]


def test_offsets_by_time(server: str, log_dir: Path) -> None:
    records = [seen for seen in records_in(log_dir) if seen.partition == "codec-zstd-1"]
    consumer = kafka.KafkaConsumer(bootstrap_servers=server)
    partition = kafka.TopicPartition("codec-zstd", 1)
    try:
        for seen in records[::7]:
            found = consumer.offsets_for_times({partition: seen.timestamp})[partition]
            assert (found.offset, found.timestamp) == (seen.offset, seen.timestamp)
        assert consumer.offsets_for_times({partition: records[-1].timestamp + 1})[partition] is None
        trimmed = kafka.TopicPartition("trimmed", 0)
        assert consumer.beginning_offsets([trimmed]) == {trimmed: 23}
        assert consumer.end_offsets([partition]) == {partition: 80}
    finally:
        consumer.close()


def subscribed(server: str, group: str) -> confluent_kafka.Consumer:
    settings = {"bootstrap.servers": server, "group.id": group, "auto.offset.reset": "earliest"}
    consumer = confluent_kafka.Consumer({**settings, "enable.auto.commit": False, "heartbeat.interval.ms": 200})
    consumer.subscribe(["codec-lz4"])
    return consumer


def test_a_group_shares_partitions_and_commits_in_memory(server: str) -> None:
    first, second = subscribed(server, "workers"), subscribed(server, "workers")
    try:
        while len(first.assignment()) != 1 or len(second.assignment()) != 1:
            first.poll(0.1)
            second.poll(0.1)
        assert {each.partition for one in (first, second) for each in one.assignment()} == {0, 1}
        mine = first.assignment()[0].partition
        offset = confluent_kafka.TopicPartition("codec-lz4", mine, 17, "half way")
        first.commit(offsets=[offset], asynchronous=False)
    finally:
        first.close()
        second.close()
    later = kafka.KafkaConsumer(bootstrap_servers=server, group_id="workers", enable_auto_commit=False)
    found = later.committed(kafka.TopicPartition("codec-lz4", mine), metadata=True)
    later.close()
    # librdkafka's text ends with the zero that C puts there
    assert (found.offset, found.metadata.rstrip("\0")) == (17, "half way")


def test_kafka_python_reads_as_a_group(server: str, log_dir: Path) -> None:
    settings = {"group_id": "alone", "auto_offset_reset": "earliest", "consumer_timeout_ms": 3000}
    consumer = kafka.KafkaConsumer("codec-gzip", bootstrap_servers=server, **settings)
    found = {(each.partition, each.offset) for each in consumer}
    consumer.close()
    assert len(found) == 160


async def _in_a_group(server: str) -> set[tuple[int, int]]:
    settings = {"group_id": "aio", "auto_offset_reset": "earliest"}
    consumer = aiokafka.AIOKafkaConsumer("codec-gzip", bootstrap_servers=server, **settings)
    await consumer.start()
    try:
        return {(each.partition, each.offset) for each in [await consumer.getone() for _ in range(160)]}
    finally:
        await consumer.stop()


def test_aiokafka_reads_as_a_group(server: str) -> None:
    assert len(asyncio.run(_in_a_group(server))) == 160


def test_commits_can_be_refused(log_dir: Path) -> None:
    from kdump.server.groups import Commits
    from kdump.server.server import ServeOptions

    with serve(str(log_dir), options=ServeOptions(port=0, commits=Commits.REFUSE)) as address:
        consumer = confluent_kafka.Consumer({"bootstrap.servers": address, "group.id": "g"})
        with pytest.raises(confluent_kafka.KafkaException, match="GROUP_AUTHORIZATION_FAILED"):
            consumer.commit(offsets=[confluent_kafka.TopicPartition("nothing", 0, 1)], asynchronous=False)
        consumer.close()


def test_what_would_write_is_refused_at_once(server: str) -> None:
    plain = kafka.KafkaProducer(bootstrap_servers=server, enable_idempotence=False)
    with pytest.raises(PolicyViolationError, match="read-only"):
        plain.send("nothing", b"value").get(timeout=20)
    plain.close()
    idempotent = kafka.KafkaProducer(bootstrap_servers=server)
    with pytest.raises(KafkaError) as refused:
        idempotent.send("nothing", b"value").get(timeout=20)
    assert isinstance(refused.value, ClusterAuthorizationFailedError) or "ClusterAuthorization" in repr(refused.value)
    idempotent.close()
    reports: list[str] = []
    # its threads may outlive the server, and would say so in the output of later tests
    producer = confluent_kafka.Producer({"bootstrap.servers": server, "log_level": 0})
    producer.produce("nothing", b"value", on_delivery=lambda error, _: reports.append(error.name() if error else ""))
    assert producer.flush(20) == 0
    assert reports == ["POLICY_VIOLATION"]
