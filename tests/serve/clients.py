"""Consumers of three libraries, which all give what they read in the same way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import aiokafka
import confluent_kafka
import kafka
from confluent_kafka.admin import AdminClient

from tests.serve.data import Seen

COMMITTED, UNCOMMITTED = "read_committed", "read_uncommitted"

Reader = Callable[[str, str], list[Seen]]
"""From a bootstrap address and an isolation level to all records, by partition and offset."""

_PARTITION_EOF = confluent_kafka.KafkaError._PARTITION_EOF


def _sorted(found: Iterable[Seen]) -> list[Seen]:
    return sorted(found, key=lambda seen: (seen.partition, seen.offset))


def _headers(headers: Any) -> tuple[tuple[str, bytes | None], ...]:
    return tuple((name, value) for name, value in headers or ())


def partitions_of(server: str) -> list[tuple[str, int]]:
    """All partitions at hand of topics that are not Kafka's own."""
    topics = AdminClient({"bootstrap.servers": server}).list_topics(timeout=20).topics
    users = {name: each.partitions for name, each in topics.items() if not name.startswith("__")}
    return [(name, number) for name, parts in users.items() for number, found in parts.items() if found.leader >= 0]


def confluent(server: str, isolation: str) -> list[Seen]:
    """librdkafka, which checks CRCs here."""
    beginning = confluent_kafka.OFFSET_BEGINNING
    partitions = [confluent_kafka.TopicPartition(*each, beginning) for each in partitions_of(server)]
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": server,
            "group.id": "reader",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "check.crcs": True,
        }
    )
    found = []
    rest = {(each.topic, each.partition) for each in partitions}
    try:
        consumer.assign(partitions)
        while rest:
            message = consumer.poll(30)
            assert message is not None, f"nothing more came of {sorted(rest)}"
            error = message.error()
            if error is not None:
                assert error.code() == _PARTITION_EOF, error
                rest.discard((message.topic(), message.partition()))
                continue
            partition = f"{message.topic()}-{message.partition()}"
            headers, offset = _headers(message.headers()), message.offset()
            assert offset is not None
            found.append(Seen(partition, offset, message.timestamp()[1], message.key(), message.value(), headers))
    finally:
        consumer.close()
    return _sorted(found)


def kafka_python(server: str, isolation: str) -> list[Seen]:
    """kafka-python, from the beginning of each partition to its end."""
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=server.split(","),
        isolation_level=isolation,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    found = []
    try:
        partitions = [kafka.TopicPartition(*each) for each in partitions_of(server)]
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        ends = consumer.end_offsets(partitions)
        while any(consumer.position(each) < ends[each] for each in partitions):
            for partition, records in consumer.poll(timeout_ms=500).items():
                name = f"{partition.topic}-{partition.partition}"
                found += [
                    Seen(name, each.offset, each.timestamp, each.key, each.value, _headers(each.headers))
                    for each in records
                ]
    finally:
        consumer.close()
    return _sorted(found)


def aio(server: str, isolation: str) -> list[Seen]:
    """aiokafka."""
    return asyncio.run(_aio(server, isolation))


async def _aio(server: str, isolation: str) -> list[Seen]:
    consumer = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=server, isolation_level=isolation, enable_auto_commit=False, auto_offset_reset="earliest"
    )
    await consumer.start()
    found = []
    try:
        partitions = [aiokafka.TopicPartition(*each) for each in partitions_of(server)]
        consumer.assign(partitions)
        await consumer.seek_to_beginning(*partitions)
        ends = await consumer.end_offsets(partitions)
        while any([await consumer.position(each) < ends[each] for each in partitions]):
            batches = await consumer.getmany(timeout_ms=500)
            for partition, records in batches.items():
                name = f"{partition.topic}-{partition.partition}"
                found += [
                    Seen(name, each.offset, each.timestamp, each.key, each.value, _headers(each.headers))
                    for each in records
                ]
    finally:
        await consumer.stop()
    return _sorted(found)


READERS: dict[str, Reader] = {"confluent-kafka": confluent, "kafka-python": kafka_python, "aiokafka": aio}
