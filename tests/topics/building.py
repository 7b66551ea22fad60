"""Logs of internal topics and of transactions, batch by batch."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kdump.errors import Problem
from kdump.formats import control
from kdump.formats.batch import ABORT, COMMIT, CONTROL, SNAPSHOT_FOOTER, SNAPSHOT_HEADER, TRANSACTIONAL
from kdump.formats.checkpoints import OffsetCheckpointEntry, format_offset_checkpoint
from kdump.formats.encode import NewBatch, NewRecord, encode_batch
from kdump.formats.index_entries import AbortedTxn, encode_aborted_txns
from kdump.formats.schemas import cluster_metadata, consumer_offsets, transaction_state
from kdump.formats.uuids import format_uuid
from kdump.storage.partition import PartitionLog
from kdump.storage.replica import Replica, replicas

NOW = 1_700_000_000_000
ORDERS_ID = bytes(range(16))
OTHER_ID = bytes(range(16, 32))
Pair = tuple[bytes | None, bytes | None]


def unexpected(problem: Problem) -> None:
    """Fail the test: it has no problems."""
    pytest.fail(str(problem))


class Log:
    """A partition directory in the making. Offsets go on from `base_offset`, a millisecond between batches."""

    def __init__(self, folder: Path, base_offset: int = 0) -> None:
        self.folder = folder
        self.base_offset = self.offset = base_offset
        self.timestamp = NOW
        self.data = bytearray()
        self.aborted: list[AbortedTxn] = []
        folder.mkdir(parents=True, exist_ok=True)

    def add(self, *pairs: Pair, producer: tuple[int, int] | None = None, attributes: int = 0, at: int = -1) -> Log:
        """A batch of records; with a producer (id and epoch) a transactional one. `at` is its timestamp (ms)."""
        timestamp = self.timestamp if at < 0 else at
        self.timestamp += 1
        records = [NewRecord(self.offset + n, timestamp, key, value) for n, (key, value) in enumerate(pairs)]
        batch = NewBatch(attributes, leader_epoch=0)
        if producer:
            batch = NewBatch(attributes | TRANSACTIONAL, producer[0], producer[1], 0, leader_epoch=0)
        self.offset += len(records)
        self.data += encode_batch(records, batch)
        return self

    def marker(self, kind: int, producer: tuple[int, int], *, epoch: int = 3, first: int | None = None) -> Log:
        """The end of a transaction; with `first`, and an entry in the transaction index that begins there."""
        if first is not None:
            self.aborted.append(AbortedTxn(0, producer[0], first, self.offset, self.offset + 1))
        pair = (struct.pack(">hh", 0, kind), struct.pack(">hi", 0, epoch))
        return self.add(pair, producer=producer, attributes=CONTROL)

    def commit(self, *producer: int) -> Log:
        """A COMMIT marker."""
        return self.marker(COMMIT, (producer[0], producer[1]))

    def abort(self, *producer: int, first: int | None = None) -> Log:
        """An ABORT marker."""
        return self.marker(ABORT, (producer[0], producer[1]), first=first)

    def roll(self) -> Log:
        """Write what there is as a segment, and go on in another one."""
        self.write()
        self.base_offset = self.offset
        self.data.clear()
        self.aborted.clear()
        return self

    def write(self) -> Log:
        """Write the segment."""
        stem = self.folder / f"{self.base_offset:020d}"
        stem.with_suffix(".log").write_bytes(self.data)
        if self.aborted:
            stem.with_suffix(".txnindex").write_bytes(encode_aborted_txns(self.aborted))
        return self


def replica(log: Log) -> Replica:
    """The replica that was written."""
    problems: list[Problem] = []
    found = next(replicas([PartitionLog(str(log.folder))], problems.append))
    assert problems == []
    return found


def checkpoint(folder: Path, name: str, *entries: tuple[str, int, int]) -> None:
    """Write an offset checkpoint."""
    (folder / name).write_bytes(format_offset_checkpoint(OffsetCheckpointEntry(*entry) for entry in entries))


def commit_pair(
    group: str, topic: str, partition: int, offset: int | None, *, version: int = 3, **fields: Any
) -> Pair:
    """Key and value of a committed offset; a tombstone without an offset."""
    key = consumer_offsets.encode_key(1, {"group": group, "topic": topic, "partition": partition})
    if offset is None:
        return key, None
    value = {"offset": offset, "metadata": "", "commitTimestamp": NOW} | fields
    return key, consumer_offsets.encode_value(1, version, value)


def group_pair(record_type: int, fields: dict[str, Any] | None, *, version: int = 0, **key: Any) -> Pair:
    """Key and value of another record of __consumer_offsets."""
    value = None if fields is None else consumer_offsets.encode_value(record_type, version, fields)
    return consumer_offsets.encode_key(record_type, key), value


def transaction_pair(transactional_id: str, **fields: Any) -> Pair:
    """Key and value of a transactional id's state."""
    key = transaction_state.encode_key(0, {"transactionalId": transactional_id})
    value = {"transactionTimeoutMs": 60_000, "transactionPartitions": None, "transactionStartTimestampMs": NOW} | fields
    return key, transaction_state.encode_value(0, 1, value)


def metadata_pairs(*records: tuple[str, dict[str, Any]]) -> Sequence[Pair]:
    """Metadata records by name, in the newest version."""
    by_name = {schema.name: (api_key, schema.last) for api_key, schema in cluster_metadata.TOPIC.schemas.items()}
    return [(None, cluster_metadata.encode_value(*by_name[f"{name}Record"], fields)) for name, fields in records]


def snapshot_file(folder: Path, end_offset: int, epoch: int, pairs: Sequence[Pair], *, footer: bool = True) -> Path:
    """A KRaft .checkpoint."""
    header = control.encode_value(SNAPSHOT_HEADER, 0, {"lastContainedLogTimestamp": NOW})
    log = Log(folder)
    log.add((struct.pack(">hh", 0, SNAPSHOT_HEADER), header), attributes=CONTROL)
    if pairs:
        log.add(*pairs)
    if footer:
        value = control.encode_value(SNAPSHOT_FOOTER, 0, {})
        log.add((struct.pack(">hh", 0, SNAPSHOT_FOOTER), value), attributes=CONTROL)
    path = folder / f"{end_offset:020d}-{epoch:010d}.checkpoint"
    path.write_bytes(log.data)
    return path


def cluster_directory(folder: Path, *, broker_id: int = 1) -> Path:
    """A log directory of a KRaft broker: its metadata has the brokers 1 to 3 and the topic orders on two of them.

    In it, beside that metadata, are partitions that the broker serves, and some of each kind that it does not.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "meta.properties").write_text(f"version=1\nnode.id={broker_id}\ncluster.id=made-up\n")
    partition = {"topicId": ORDERS_ID, "leader": 1, "leaderEpoch": 4, "partitionEpoch": 0}
    log = Log(folder / "__cluster_metadata-0")
    log.add(
        *metadata_pairs(
            *(("RegisterBroker", {"brokerId": each, "brokerEpoch": 10 + each, "rack": None}) for each in (1, 2, 3)),
            ("FeatureLevel", {"name": "metadata.version", "featureLevel": 25}),
            ("Topic", {"name": "orders", "topicId": ORDERS_ID}),
            ("Partition", partition | {"partitionId": 0, "replicas": [1, 2], "isr": [2]}),
            ("Partition", partition | {"partitionId": 1, "replicas": [2, 3], "isr": [2, 3]}),
            ("Config", {"resourceType": 2, "resourceName": "orders", "name": "retention.ms", "value": "1000"}),
        )
    ).write()
    for name, topic_id in (
        ("orders-0", ORDERS_ID),
        ("orders-1", ORDERS_ID),
        ("orders-7", ORDERS_ID),
        ("clicks-0", OTHER_ID),
        ("renamed-0", ORDERS_ID),
        ("nameless-0", None),
    ):
        Log(folder / name).add((b"k", b"v")).write()
        if topic_id:
            (folder / name / "partition.metadata").write_text(f"version: 0\ntopic_id: {format_uuid(topic_id)}")
    return folder
