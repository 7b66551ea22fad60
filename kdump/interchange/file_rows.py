"""The files beside the logs as rows: indexes, snapshots, checkpoints and the small metadata files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from kdump.disk.reading import read_small
from kdump.errors import CorruptIndexError, KdumpError
from kdump.formats import names
from kdump.formats.checkpoints import EpochEntry, parse_leader_epochs, parse_offset_checkpoint
from kdump.formats.index_entries import (
    ABORTED_TXN_SIZE,
    OFFSET_ENTRY_SIZE,
    TIME_ENTRY_SIZE,
    AbortedTxn,
    OffsetIndexEntry,
    TimeIndexEntry,
    check_aborted_txn_version,
)
from kdump.formats.metadata_files import (
    CleanShutdown,
    MetaProperties,
    PartitionMetadata,
    QuorumState,
    parse_clean_shutdown,
    parse_meta_properties,
    parse_partition_metadata,
    parse_quorum_state,
)
from kdump.formats.producer_snapshot import ProducerEntry, decode_producer_snapshot
from kdump.formats.uuids import format_uuid
from kdump.interchange.fields import camel_case
from kdump.interchange.rows import Table, Value
from kdump.storage.indexes import OffsetIndex, TimeIndex, TxnIndex
from kdump.storage.open import KafkaFile

MAX_BYTES = 1 << 28
"""What is read of a file that has to be in memory as a whole: a snapshot, a text file."""

Row = Sequence[Value]
Report = Callable[[int, str], object]
"""Told the byte position and what is wrong there."""

_METADATA: dict[str, Callable[[bytes, str], tuple[Any, ...]]] = {
    names.PARTITION_METADATA: parse_partition_metadata,
    names.META_PROPERTIES: parse_meta_properties,
    names.CLEAN_SHUTDOWN: parse_clean_shutdown,
    names.QUORUM_STATE: parse_quorum_state,
}


def _columns(kind: Any) -> tuple[str, ...]:
    """Return the fields of a kind of entry by the names that they have in rows."""
    return tuple(map(camel_case, kind._fields))


_OFFSET_CHECKPOINT = Table("offsetCheckpoint", ("topic", "partition", "offset"), within=False)

TABLES: dict[str, Table] = {
    names.OFFSET_INDEX: Table("offsetIndexEntry", _columns(OffsetIndexEntry), number="segment"),
    names.TIME_INDEX: Table("timeIndexEntry", _columns(TimeIndexEntry), number="segment"),
    names.TXN_INDEX: Table("abortedTransaction", _columns(AbortedTxn), number="segment"),
    names.PRODUCER_SNAPSHOT: Table("producerState", _columns(ProducerEntry), number="snapshotOffset"),
    **dict.fromkeys(names.OFFSET_CHECKPOINTS, _OFFSET_CHECKPOINT),
    names.LEADER_EPOCH_CHECKPOINT: Table("leaderEpoch", _columns(EpochEntry)),
    names.PARTITION_METADATA: Table("partitionMetadata", _columns(PartitionMetadata)),
    names.QUORUM_STATE: Table("quorumState", _columns(QuorumState)),
    names.META_PROPERTIES: Table("metaProperties", _columns(MetaProperties), within=False),
    names.CLEAN_SHUTDOWN: Table("cleanShutdown", _columns(CleanShutdown), within=False),
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
    return [tuple(map(_value, _METADATA[kind](data, name)))]


def _value(value: Any) -> Value:
    """Return a field of a metadata file as a row has it: bytes are an id, several numbers a list."""
    if isinstance(value, bytes):
        return format_uuid(value)
    return ",".join(map(str, value)) if isinstance(value, tuple) else value


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
