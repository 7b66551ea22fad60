"""Control records whose key has another version: what the cleaner of each release does with them, and `compact`."""

from __future__ import annotations

import struct
import time
from pathlib import Path

from kdump.formats import names
from kdump.formats.batch import CONTROL, TRANSACTIONAL
from kdump.formats.encode import NewBatch, NewRecord, encode_batch
from kdump.formats.names import segment_file_name
from kdump.formats.producer_snapshot import encode_producer_snapshot
from tests.kafka.broker import Broker
from tests.kafka.command import jsonl
from tests.kafka.directories import MADE
from tests.kafka.kit import Kit
from tests.kafka.tally import Column, Tally

VERSIONS = {"negative": -1, "least": -32768, "known": 0, "later": 7}
"""Of the key, by topic: ControlRecordType.parse refuses those below 0, and takes later ones."""
_CONFIGS = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}
_COMMIT, _PRODUCER, _END = 1, 7, 3


def _batches(version: int, now: int) -> tuple[bytes, bytes]:
    """Two records of one key in a transaction, and its marker; and what is in the active segment."""
    records = [NewRecord(offset, now, b"k", b"v%d" % offset) for offset in (0, 1)]
    data = encode_batch(records, NewBatch(TRANSACTIONAL, _PRODUCER, 0, 0, leader_epoch=0))
    key, value = struct.pack(">hh", version, _COMMIT), struct.pack(">hi", 0, 1)
    marker = NewBatch(TRANSACTIONAL | CONTROL, _PRODUCER, 0, -1, leader_epoch=0)
    data += encode_batch([NewRecord(2, now, key, value)], marker)
    return data, encode_batch([NewRecord(_END, now, b"k", b"last")], NewBatch(0, leader_epoch=0))


def _plant(partition: Path, version: int, now: int) -> None:
    """Write the log of a broker that has stopped in order: its next start reads no batch of it."""
    for path in partition.iterdir():
        if path.name != names.PARTITION_METADATA:
            path.unlink()
    for base, data in zip((0, _END), _batches(version, now), strict=True):
        for kind, content in ((names.LOG, data), (names.OFFSET_INDEX, b""), (names.TIME_INDEX, b"")):
            (partition / segment_file_name(base, f".{kind}")).write_bytes(content)
    (partition / segment_file_name(_END + 1, f".{names.PRODUCER_SNAPSHOT}")).write_bytes(encode_producer_snapshot([]))
    (partition / names.LEADER_EPOCH_CHECKPOINT).write_text("0\n1\n0 0\n")


def _ended(broker: Broker, topic: str) -> bool:
    """Whether the cleaner is done with a topic, or has given it up."""
    return any(f"{topic}-0" in line and ("uncleanable" in line or " cleaned log " in line.lower())
               for line in broker.log.splitlines())  # fmt: skip


def test_the_cleaner_refuses_negative_versions(release: str, tally: Tally, tmp_path: Path) -> None:
    data, now = tmp_path / "data", int(time.time() * 1000)
    broker = Broker(release, tmp_path, [data])
    broker.format()
    try:
        broker.start()
        with Kit(release, MADE, tmp_path / "kit.log") as kit:
            for topic in VERSIONS:
                kit.ask("admin", servers=broker.servers, step="create", topic=topic, configs=_CONFIGS)
        broker.stop()
        for topic, version in VERSIONS.items():
            _plant(data / f"{topic}-0", version, now)
        broker.start()
        deadline = time.monotonic() + 60
        while not all(_ended(broker, topic) for topic in VERSIONS) and time.monotonic() < deadline:
            time.sleep(0.2)
        lines = broker.log.splitlines()
        broker.stop()
    finally:
        broker.kill()
    with tally.of(release, Column.FORECAST) as compare:
        for topic, version in VERSIONS.items():
            is_given_up = any("uncleanable" in line and f"{topic}-0" in line for line in lines)
            compare.same(f"{topic}: refused", is_given_up, version < 0)
            plan = jsonl("compact", data / f"{topic}-0")  # what the cleaner gave up is to be done still
            compare.same(f"compact {topic}: exit code", plan.exit_code, 3 if is_given_up else 0)
            text = f"Invalid version found for control record: {version}. May indicate data corruption"
            compare.same(f"{topic}: the text", text in plan.out.decode(), any(text in line for line in lines))
