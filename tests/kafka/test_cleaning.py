"""`compact` against the release's own log cleaner: the same bytes of logs, indexes and checkpoint."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.kafka.broker import Broker
from tests.kafka.clients import CLIENTS, Librdkafka, Record
from tests.kafka.command import jsonl
from tests.kafka.directories import MADE, copy_tree
from tests.kafka.kit import Kit
from tests.kafka.tally import Column, Comparison, Tally

DELETE_RETENTION_MS = 100_000_000
BACKOFF_MS = 1_000_000_000
SEGMENT_MS = 400
ROUNDS = 4

_COMMON = {
    "cleanup.policy": "compact",
    "segment.ms": str(SEGMENT_MS),
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": str(DELETE_RETENTION_MS),
    "index.interval.bytes": "200",
}
TOPICS = {
    "plain": _COMMON,
    "gzip": _COMMON | {"compression.type": "gzip"},
    "zstd": _COMMON | {"index.interval.bytes": "0"},
    "deletes": _COMMON | {"index.interval.bytes": "1"},
    "txn": _COMMON,
    "append-time": _COMMON | {"message.timestamp.type": "LogAppendTime"},
    "sparse": _COMMON | {"index.interval.bytes": "4096"},
}
_SUFFIXES = (".log", ".index", ".timeindex", ".txnindex")
ALL_CLEANED = re.compile(r"cleaned log (\S+?)-0 ")


def _records(topic: str, random: Random) -> Iterator[Record]:
    for _ in range(300):
        value = None if topic == "deletes" and random.random() < 0.3 else random.randbytes(random.randint(0, 60))
        yield Record(f"key-{random.randrange(120)}".encode(), value)


def _produce(servers: str) -> None:
    random = Random(5)
    for _ in range(ROUNDS):
        for topic in TOPICS:
            codec = topic if topic in ("gzip", "zstd") else "none"
            producer = Librdkafka(servers, codec=codec, transactional_id="cleaning" if topic == "txn" else None)
            records = list(_records(topic, random))
            if topic == "txn":
                for number in range(0, len(records), 50):
                    producer.transaction(topic, records[number : number + 50], commit=random.random() < 0.6)
            else:
                producer.send(topic, records)
        time.sleep(SEGMENT_MS / 1000)


def _wait_until_cleaned(broker: Broker) -> None:
    for _ in range(600):
        if set(ALL_CLEANED.findall(broker.log)) >= TOPICS.keys():
            return
        time.sleep(0.1)
    raise AssertionError(f"not all are cleaned: {sorted(set(ALL_CLEANED.findall(broker.log)))}, see {broker.log_file}")


@pytest.mark.skipif(not CLIENTS["librdkafka"].is_installed, reason="confluent-kafka is not installed")
def test_compact_writes_what_the_cleaner_writes(release: str, tally: Tally, tmp_path: Path) -> None:
    """A broker whose cleaner works when it is told to: that leaves what it had to do, and what it did."""
    log_dir, before = tmp_path / "data", tmp_path / "before"
    broker = Broker(release, tmp_path, [log_dir], **{"log.cleaner.backoff.ms": str(BACKOFF_MS)})
    broker.format()
    try:
        broker.start()
        with Kit(release, MADE, tmp_path / "kit.log") as kit:
            for topic, configs in TOPICS.items():
                kit.ask("admin", servers=broker.servers, step="create", topic=topic, configs=configs)
        _produce(broker.servers)
        broker.stop()
        copy_tree(log_dir, before)
        broker.start()
        # A changed setting restarts the cleaner's threads, which look for work before they wait.
        with Kit(release, MADE, tmp_path / "kit.log") as kit:
            more = str(BACKOFF_MS + 1)
            kit.ask("admin", servers=broker.servers, step="configure", name="log.cleaner.backoff.ms", value=more)
        _wait_until_cleaned(broker)
        broker.stop()
    finally:
        broker.kill()
    with tally.of(release, Column.WRITE) as compare:
        for topic in TOPICS:
            _compact(compare, before / f"{topic}-0", log_dir / f"{topic}-0")
        name = "cleaner-offset-checkpoint"
        ours, theirs = (_lines(path / name) for path in (before, log_dir))
        compare.same(name, ours, {line for line in theirs if not line.startswith("__")})


def _compact(compare: Comparison, ours: Path, theirs: Path) -> None:
    done = jsonl("compact", "--apply", "--no-backup", "--now", _cleaned_at(theirs), ours)
    compare.same(f"compact {ours.name}: exit code", (done.exit_code, done.err), (0, ""))
    active = max(path.stem for path in theirs.glob("*.log"))
    mine, wanted = _closed_segments(ours, active), _closed_segments(theirs, active)
    compare.same(f"compact {ours.name}: files", sorted(mine), sorted(wanted))
    for name in sorted(mine.keys() & wanted.keys()):
        sizes = len(mine[name]), len(wanted[name])
        pairs = zip(mine[name], wanted[name], strict=False)
        differs = next((number for number, (one, other) in enumerate(pairs) if one != other), min(sizes))
        what = f"compact {ours.name}/{name}: sizes {sizes}, the first difference is at byte {differs}"
        compare.holds(what, mine[name] == wanted[name])


def _closed_segments(partition: Path, active: str) -> dict[str, bytes]:
    files = (path for path in partition.iterdir() if path.suffix in _SUFFIXES and path.stem < active)
    return {path.name: path.read_bytes() for path in files}


def _cleaned_at(partition: Path) -> int:
    """When the cleaner was at work, by the delete horizon that it gave to a batch."""
    rows = jsonl("dump", "--batches-only", partition).of_type("batch")
    horizons = {row["deleteHorizonMs"] for row in rows if row["deleteHorizonMs"] is not None}
    assert len(horizons) <= 1
    return next(iter(horizons), int(time.time() * 1000) + DELETE_RETENTION_MS) - DELETE_RETENTION_MS


def _lines(checkpoint: Path) -> set[str]:
    return set(checkpoint.read_text().splitlines()[2:])
