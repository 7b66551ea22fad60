"""A rich set of log directories of a real broker: many disks, short segments, transactions, compaction, two ends."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

from tests.kafka.broker import Broker

DISKS = 24

SETTINGS = {
    # nothing happens by itself between the start and the stop
    "log.initial.task.delay.ms": "600000",
    "log.retention.check.interval.ms": "600000",
    "log.flush.offset.checkpoint.interval.ms": "600000",
    "log.flush.start.offset.checkpoint.interval.ms": "600000",
    "log.cleaner.backoff.ms": "600000",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "log.segment.delete.delay.ms": "60000",
    "log.index.size.max.bytes": "65536",
    "num.recovery.threads.per.data.dir": "1",
}
_BUSY = {**SETTINGS, "log.initial.task.delay.ms": "500", "log.flush.offset.checkpoint.interval.ms": "2000"}
_BUSY |= {"log.cleaner.backoff.ms": "1000"}

_TOPICS = {
    "plain": (24, {"segment.ms": "600"}),
    "txn": (24, {"segment.ms": "700", "index.interval.bytes": "128"}),
    "dense": (12, {"segment.ms": "600", "index.interval.bytes": "0"}),
    "compacted": (
        12,
        {"segment.ms": "600", "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01",
         "index.interval.bytes": "512"},
    ),
}  # fmt: skip
_ROUNDS = 7


@dataclass
class Rich:
    """The log directories of one release, as a broker left them."""

    release: str
    folder: Path

    def copy(self, target: Path, names: Sequence[str] = ()) -> list[Path]:
        """Copy all disks or those of these names; the copies."""
        target.mkdir(parents=True, exist_ok=True)
        names = names or [f"disk{number}" for number in range(DISKS)]
        subprocess.run(
            ["cp", "-a", "--sparse=always", *(str(self.folder / name) for name in names), str(target)], check=True
        )
        return [target / name for name in names]


def rich(release: str, state: str, keep: Path) -> Rich:
    """The directories of a release in a state, made if they are not there."""
    folder = keep / f"rich-{release}"
    if not (folder / "done").exists():
        shutil.rmtree(folder, ignore_errors=True)
        _make(release, folder)
        (folder / "done").touch()
    return Rich(release, folder / state)


def _make(release: str, folder: Path) -> None:
    live = folder / "live"
    broker = Broker(release, folder / "node", [live / f"disk{number}" for number in range(DISKS)], **_BUSY)
    broker.format()
    try:
        broker.start()
        admin = KafkaAdminClient(bootstrap_servers=broker.servers)
        topics = [
            NewTopic(name, number, 1, topic_configs=configs) for name, (number, configs) in _TOPICS.items()
        ]
        admin.create_topics(topics)
        time.sleep(2)
        _load(broker.servers, "a", _ROUNDS)
        admin.delete_records({_partition("plain", number): 7 + number for number in range(4)})
        time.sleep(3)
        admin.close()
        broker.stop()
        shutil.copytree(live, folder / "stopped")
        broker.start()
        _load(broker.servers, "b", 3)
        broker.kill()
        shutil.copytree(live, folder / "killed")
    finally:
        broker.kill()
    shutil.rmtree(live)


def _partition(topic: str, number: int) -> object:
    from kafka import TopicPartition

    return TopicPartition(topic, number)


def _load(servers: str, prefix: str, rounds: int) -> None:
    """Some batches for every partition in each round, with codecs, transactions, aborts; one is left open."""
    plain = KafkaProducer(bootstrap_servers=servers, linger_ms=5)
    packed = KafkaProducer(bootstrap_servers=servers, linger_ms=5, compression_type="lz4", enable_idempotence=True)
    txns = [KafkaProducer(bootstrap_servers=servers, linger_ms=5, transactional_id=f"{prefix}{n}") for n in range(2)]
    for producer in txns:
        producer.init_transactions()
    for turn in range(rounds):
        for part in range(3):
            for producer in txns:
                producer.begin_transaction()
            for number in range(24):
                for record in range(4):
                    key = b"%d" % (record + part)
                    value = b"%d-%d " % (turn, record) * (number + 1)
                    plain.send("plain", value, key, partition=number)
                    txns[number % 2].send("txn", value, key, partition=number)
                    if number < 12:
                        packed.send("dense", value, key, partition=number)
                        packed.send("compacted", value if record else None, key, partition=number)
            plain.flush()
            packed.flush()
            txns[0].commit_transaction()
            if part == 1:
                txns[1].abort_transaction()
            else:
                txns[1].commit_transaction()
        time.sleep(0.4)
    txns[0].begin_transaction()
    for number in range(0, 24, 3):
        txns[0].send("txn", b"open", b"k", partition=number)
    txns[0].flush()
    if prefix == "a":
        txns[0].abort_transaction()
    for producer in (plain, packed, txns[1]):
        producer.close()
