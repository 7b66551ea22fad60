"""The files beside the logs as rows: indexes, snapshots, checkpoints and the small metadata files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence

from kdump.disk.reading import read_small
from kdump.errors import CorruptIndexError, KdumpError
from kdump.formats import names
from kdump.formats.checkpoints import parse_leader_epochs, parse_offset_checkpoint
from kdump.formats.index_entries import (
    ABORTED_TXN_SIZE,
    OFFSET_ENTRY_SIZE,
    TIME_ENTRY_SIZE,
    check_aborted_txn_version,
)
from kdump.formats.metadata_files import (
    parse_clean_shutdown,
    parse_meta_properties,
    parse_partition_metadata,
    parse_quorum_state,
)
from kdump.formats.producer_snapshot import decode_producer_snapshot
from kdump.formats.uuids import format_uuid
from kdump.interchange.fields import Table, Value
from kdump.storage.indexes import OffsetIndex, TimeIndex, TxnIndex

from ..shell.paths import KafkaFile

MAX_BYTES = 1 << 28
"""What is read of a file that has to be in memory as a whole: a snapshot, a text file."""

Row = Sequence[Value]
Report = Callable[[int, str], object]
"""Told the byte position and what is wrong there."""

_OFFSET_CHECKPOINT = Table("offsetCheckpoint", ("topic", "partition", "offset"), within=False)

TABLES: dict[str, Table] = {
    names.OFFSET_INDEX: Table("offsetIndexEntry", ("offset", "position"), number="segment"),
    names.TIME_INDEX: Table("timeIndexEntry", ("timestamp", "offset"), number="segment"),
    names.TXN_INDEX: Table(
        "abortedTransaction",
        ("version", "producerId", "firstOffset", "lastOffset", "lastStableOffset"),
        number="segment",
    ),
    names.PRODUCER_SNAPSHOT: Table(
        "producerState",
        (
            "producerId",
            "producerEpoch",
            "lastSequence",
            "lastOffset",
            "offsetDelta",
            "timestamp",
            "coordinatorEpoch",
            "currentTxnFirstOffset",
        ),
        number="snapshotOffset",
    ),
    **dict.fromkeys(names.OFFSET_CHECKPOINTS, _OFFSET_CHECKPOINT),
    names.LEADER_EPOCH_CHECKPOINT: Table("leaderEpoch", ("epoch", "startOffset")),
    names.PARTITION_METADATA: Table("partitionMetadata", ("version", "topicId")),
    names.QUORUM_STATE: Table(
        "quorumState",
        (
            "dataVersion",
            "leaderId",
            "leaderEpoch",
            "votedId",
            "votedDirectoryId",
            "clusterId",
            "appliedOffset",
            "currentVoters",
        ),
    ),
    names.META_PROPERTIES: Table("metaProperties", ("version", "clusterId", "nodeId", "directoryId"), within=False),
    names.CLEAN_SHUTDOWN: Table("cleanShutdown", ("brokerEpoch",), within=False),
}
"""The table of each kind of file (formats.names) that is not a log."""


def rows_of(file: KafkaFile, report: Report) -> Iterator[Row]:
    """Yield the rows of a file; `report` is told of what is wrong but does not end them. Raises OSError, KdumpError."""
    kind = file.name.kind
    base_offset = file.name.offset or 0
    if kind == names.OFFSET_INDEX:
        with OffsetIndex(file.path, base_offset) as index:
            yield from _without_zero_tail(index, (base_offset, 0))
            _check_tail(index.size, OFFSET_ENTRY_SIZE, report)
    elif kind == names.TIME_INDEX:
        with TimeIndex(file.path, base_offset) as times:
            yield from _without_zero_tail(times, (0, base_offset))
            _check_tail(times.size, TIME_ENTRY_SIZE, report)
    elif kind == names.TXN_INDEX:
        with TxnIndex(file.path) as transactions:
            for number, entry in enumerate(transactions):
                try:
                    check_aborted_txn_version(entry, os.path.basename(file.path))
                except CorruptIndexError as error:
                    report(number * ABORTED_TXN_SIZE, str(error))
                yield entry
            _check_tail(transactions.size, ABORTED_TXN_SIZE, report)
    else:
        yield from _small_rows(kind, file.path)


def _small_rows(kind: str, path: str) -> Iterable[Row]:
    data = read_small(path, MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise KdumpError(f"{len(data)} bytes and more are too many for a file of this kind")
    name = os.path.basename(path)
    if kind == names.PRODUCER_SNAPSHOT:
        return decode_producer_snapshot(data)
    if kind in names.OFFSET_CHECKPOINTS:
        return parse_offset_checkpoint(data, name)
    if kind == names.LEADER_EPOCH_CHECKPOINT:
        return parse_leader_epochs(data, name)
    return [_metadata_row(kind, data, name)]


def _metadata_row(kind: str, data: bytes, name: str) -> Row:
    if kind == names.PARTITION_METADATA:
        metadata = parse_partition_metadata(data, name)
        return metadata.version, format_uuid(metadata.topic_id)
    if kind == names.META_PROPERTIES:
        meta = parse_meta_properties(data, name)
        return meta.version, meta.cluster_id, meta.node_id, _uuid(meta.directory_id)
    if kind == names.CLEAN_SHUTDOWN:
        return (parse_clean_shutdown(data, name).broker_epoch,)
    quorum = parse_quorum_state(data, name)
    return (
        quorum.data_version,
        quorum.leader_id,
        quorum.leader_epoch,
        quorum.voted_id,
        _uuid(quorum.voted_directory_id),
        quorum.cluster_id,
        quorum.applied_offset,
        None if quorum.current_voters is None else ",".join(map(str, quorum.current_voters)),
    )


def _uuid(raw: bytes | None) -> str | None:
    return None if raw is None else format_uuid(raw)


def _without_zero_tail(entries: Iterable[Row], zero: tuple[int, int]) -> Iterator[Row]:
    """Yield the entries of an index up to its last one that is not zero: a preallocated file ends with zeros."""
    held = 0
    for entry in entries:
        if entry == zero:
            held += 1
            continue
        for _ in range(held):
            yield zero
        held = 0
        yield entry


def _check_tail(size: int, entry_size: int, report: Report) -> None:
    left = size % entry_size
    if left:
        report(size - left, f"{left} bytes are left, and an entry has {entry_size}")
