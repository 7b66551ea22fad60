"""Real clients in Python: librdkafka (confluent-kafka), kafka-python and aiokafka. What is not installed is skipped."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from confluent_kafka import Consumer, TopicPartition

TIMEOUT = 60
_ELECTION = 60
"""Seconds in which a partition has to get its leader."""


def watermarks(consumer: Consumer, place: TopicPartition) -> tuple[int, int]:
    """The first and the end offset of a partition, whose leader may have to be elected. Raises KafkaException."""
    from confluent_kafka import KafkaError, KafkaException

    electing = (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE, KafkaError.UNKNOWN_TOPIC_OR_PART)
    until = time.monotonic() + _ELECTION
    while True:
        try:
            low, high = consumer.get_watermark_offsets(place, timeout=TIMEOUT)
        except KafkaException as error:
            if error.args[0].code() not in electing or time.monotonic() > until:
                raise
            time.sleep(0.5)
        else:
            return low, high


class Record(NamedTuple):
    """What is sent and what is got; offset and timestamp (ms) are those that the client says."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    offset: int = -1
    timestamp: int = -1


class Librdkafka:
    """A producer of confluent-kafka, idempotent, transactional with an id."""

    def __init__(self, servers: str, *, codec: str = "none", transactional_id: str | None = None) -> None:
        from confluent_kafka import Producer

        settings: dict[str, Any] = {"bootstrap.servers": servers, "compression.codec": codec, "linger.ms": 5}
        settings |= {"enable.idempotence": True, "batch.num.messages": 7}
        if transactional_id:
            settings["transactional.id"] = transactional_id
        self._producer = Producer(settings)
        if transactional_id:
            self._producer.init_transactions(TIMEOUT)

    def send(self, topic: str, records: Sequence[Record]) -> None:
        for record in records:
            headers: list[Any] | None = list(record.headers) or None
            self._producer.produce(topic, record.value, record.key, partition=0, headers=headers)
        assert not self._producer.flush(TIMEOUT)

    def transaction(self, topic: str, records: Sequence[Record], *, commit: bool) -> None:
        self._producer.begin_transaction()
        self.send(topic, records)
        if commit:
            self._producer.commit_transaction(TIMEOUT)
        else:
            self._producer.abort_transaction(TIMEOUT)


class Client(NamedTuple):
    """A library, with the calls that send records to partition 0 of a topic and that read it from its start."""

    module: str
    send: Callable[[str, str, Sequence[Record], str], None]
    read: Callable[[str, str, int], list[Record]]
    codecs: tuple[str, ...]

    @property
    def is_installed(self) -> bool:
        return find_spec(self.module) is not None


def _librdkafka_send(servers: str, topic: str, records: Sequence[Record], codec: str) -> None:
    Librdkafka(servers, codec=codec).send(topic, records)


def _librdkafka_read(servers: str, topic: str, count: int) -> list[Record]:
    from confluent_kafka import Consumer, TopicPartition

    settings = {"bootstrap.servers": servers, "group.id": "reader", "enable.auto.commit": False}
    consumer = Consumer(settings | {"check.crcs": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[Record] = []
    while len(found) < count:
        messages = consumer.consume(count - len(found), TIMEOUT)
        assert messages, f"{topic}: {len(found)} of {count} records"
        for message in messages:
            assert message.error() is None
            headers: Any = message.headers()
            at, offset = message.timestamp()[1], message.offset()
            assert offset is not None
            found.append(Record(message.key(), message.value(), tuple(headers or ()), offset, at))
    consumer.close()
    return found


def _kafka_python_send(servers: str, topic: str, records: Sequence[Record], codec: str) -> None:
    from kafka import KafkaProducer

    kind = None if codec == "none" else codec
    producer = KafkaProducer(bootstrap_servers=servers, compression_type=kind, linger_ms=5)
    for record in records:
        producer.send(topic, record.value, record.key, headers=list(record.headers), partition=0)
    producer.flush(TIMEOUT)
    producer.close()


def _kafka_python_read(servers: str, topic: str, count: int) -> list[Record]:
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=servers, check_crcs=True, consumer_timeout_ms=TIMEOUT * 1000)
    partition = TopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek(partition, 0)
    found = [
        Record(got.key, got.value, tuple(got.headers), got.offset, got.timestamp)
        for _, got in zip(range(count), consumer, strict=False)
    ]
    consumer.close()
    return found


def _aiokafka_send(servers: str, topic: str, records: Sequence[Record], codec: str) -> None:
    from aiokafka import AIOKafkaProducer

    async def send() -> None:
        kind = None if codec == "none" else codec
        async with AIOKafkaProducer(bootstrap_servers=servers, compression_type=kind, linger_ms=5) as producer:
            sent = [
                await producer.send(topic, record.value, record.key, partition=0, headers=list(record.headers))
                for record in records
            ]
            await asyncio.gather(*sent)

    asyncio.run(asyncio.wait_for(send(), TIMEOUT))


def _aiokafka_read(servers: str, topic: str, count: int) -> list[Record]:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    async def read() -> list[Record]:
        found: list[Record] = []
        async with AIOKafkaConsumer(bootstrap_servers=servers, check_crcs=True) as consumer:
            partition = TopicPartition(topic, 0)
            consumer.assign([partition])
            consumer.seek(partition, 0)
            while len(found) < count:
                got = await consumer.getone()
                found.append(Record(got.key, got.value, tuple(got.headers), got.offset, got.timestamp))
        return found

    return asyncio.run(asyncio.wait_for(read(), TIMEOUT))


CLIENTS = {
    "librdkafka": Client(
        "confluent_kafka", _librdkafka_send, _librdkafka_read, ("none", "gzip", "snappy", "lz4", "zstd")
    ),
    "kafka-python": Client("kafka", _kafka_python_send, _kafka_python_read, ("none", "gzip", "snappy", "lz4", "zstd")),
    "aiokafka": Client("aiokafka", _aiokafka_send, _aiokafka_read, ("none", "gzip")),
}


KCAT = shutil.which("kcat")
"""The program; a test that needs it is skipped where there is none, and the job says so."""


def absent() -> list[str]:
    """The clients that are not installed here."""
    found = [name for name, client in CLIENTS.items() if not client.is_installed]
    return found if KCAT else [*found, "kcat"]
