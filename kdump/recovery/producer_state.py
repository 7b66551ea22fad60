"""What the broker knows of the producers of a partition: entries, open transactions, and how batches change them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kdump.errors import ILLEGAL_ARGUMENT, CorruptSnapshotError, LoadError
from kdump.formats.batch import wrap64
from kdump.formats.producer_snapshot import ProducerEntry, decode_producer_snapshot, encode_producer_snapshot
from kdump.recovery.markers import Marker
from kdump.recovery.snapshots import SnapshotFiles


class CompletedTxn(NamedTuple):
    """A transaction that a marker ends; offsets are absolute, `last_offset` is the marker's."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_abort: bool

    def __str__(self) -> str:
        return (
            f"CompletedTxn(producerId={self.producer_id}, firstOffset={self.first_offset},"
            f" lastOffset={self.last_offset}, isAborted={str(self.is_abort).lower()})"
        )


class Producer:
    """One producer: the fields of ProducerEntry that can change. Of its batches only the last one is kept.

    `last_offset` is -1 where no batch is known, `txn_first_offset` where no transaction is open.
    """

    __slots__ = (
        "coordinator_epoch",
        "epoch",
        "last_offset",
        "last_sequence",
        "offset_delta",
        "timestamp",
        "txn_first_offset",
    )

    def __init__(self, epoch: int = -1, timestamp: int = -1, coordinator_epoch: int = -1, txn: int = -1) -> None:
        self.epoch = epoch
        self.timestamp = timestamp
        self.coordinator_epoch = coordinator_epoch
        self.txn_first_offset = txn
        self.forget_batch()

    def forget_batch(self) -> None:
        """Know no batch any more."""
        self.last_sequence = self.last_offset = -1
        self.offset_delta = 0

    def enter_epoch(self, epoch: int) -> None:
        """Take the epoch of a batch; a new one starts without batches."""
        if self.epoch != epoch:
            self.epoch = epoch
            self.forget_batch()

    def end_txn(self, epoch: int, marker: Marker) -> int:
        """Take a marker; the first offset of the transaction that it ends, -1 where none was open."""
        first_offset = self.txn_first_offset
        self.enter_epoch(epoch)
        self.coordinator_epoch = marker.coordinator_epoch
        self.timestamp = marker.timestamp
        self.txn_first_offset = -1
        return first_offset

    def pending(self) -> Producer:
        """The state to collect several batches in before they count."""
        return Producer(self.epoch, self.timestamp, self.coordinator_epoch, self.txn_first_offset)

    def take(self, pending: Producer) -> None:
        """Let what was collected count."""
        self.enter_epoch(pending.epoch)
        if pending.last_offset >= 0:
            self.last_sequence = pending.last_sequence
            self.last_offset = pending.last_offset
            self.offset_delta = pending.offset_delta
        self.timestamp = pending.timestamp
        self.coordinator_epoch = pending.coordinator_epoch
        self.txn_first_offset = pending.txn_first_offset

    def entry(self, producer_id: int) -> ProducerEntry:
        """The producer as a snapshot has it."""
        return ProducerEntry(
            producer_id,
            self.epoch,
            self.last_sequence,
            self.last_offset,
            self.offset_delta,
            self.timestamp,
            self.coordinator_epoch,
            self.txn_first_offset,
        )


class ProducerStates:
    """The producers up to `map_end_offset` (absolute, exclusive), and the transactions that are open there.

    `open_txns` maps the first offset of each to its producer. `snapshot_offset` is that of the newest snapshot.
    """

    def __init__(self, snapshots: SnapshotFiles) -> None:
        self.snapshots = snapshots
        self.producers: dict[int, Producer] = {}
        self.open_txns: dict[int, int] = {}
        self.map_end_offset = 0
        self.snapshot_offset = 0

    def truncate_and_reload(self, log_start_offset: int, end_offset: int, now: int, expiration_ms: int) -> None:
        """Go back to the newest snapshot between the two offsets; `now` and `expiration_ms` decide who has expired."""
        self.snapshots.delete_outside(log_start_offset, end_offset)
        if end_offset != self.map_end_offset:
            self.producers.clear()
            self.open_txns.clear()
            self._load(log_start_offset, now, expiration_ms)
            return
        self.map_end_offset = max(self.map_end_offset, log_start_offset)
        latest = self.snapshots.latest()
        self.snapshot_offset = log_start_offset if latest is None else latest

    def truncate_fully(self, offset: int) -> None:
        """Forget everything and start at `offset`."""
        self.producers.clear()
        self.open_txns.clear()
        for snapshot in list(self.snapshots.by_offset):
            self.snapshots.delete(snapshot, f"all segments are removed and the log starts again at offset {offset}")
        self.snapshot_offset = 0
        self.map_end_offset = offset

    def take_snapshot(self) -> None:
        """Write a snapshot unless there is one that is as new."""
        if self.map_end_offset <= self.snapshot_offset:
            return
        entries = (producer.entry(producer_id) for producer_id, producer in self.producers.items())
        self.snapshots.write(self.map_end_offset, encode_producer_snapshot(entries, java_order=True))
        self.snapshot_offset = self.map_end_offset

    def first_open_txn(self, other_than: int) -> int | None:
        """Where the earliest open transaction of another producer than the given one begins; None without any."""
        return min((offset for offset, producer in self.open_txns.items() if producer != other_than), default=None)

    def complete(self, txn: CompletedTxn, partition: str, file: str) -> None:
        """End a transaction. Raises LoadError where it is not open; `file` is the .log with the marker."""
        if self.open_txns.pop(txn.first_offset, None) is None:
            text = f"Attempted to complete transaction {txn} on partition {partition} which was not started"
            raise LoadError(ILLEGAL_ARGUMENT, text, file)

    def _load(self, log_start_offset: int, now: int, expiration_ms: int) -> None:
        offset = self.snapshots.latest()
        while offset is not None:
            try:
                entries = decode_producer_snapshot(self.snapshots.read(offset))
            except CorruptSnapshotError as error:
                self.snapshots.delete(offset, str(error))
                offset = self.snapshots.latest()
                continue
            alive = (e for e in entries if e.has_open_txn or wrap64(now - e.timestamp) < expiration_ms)
            self._put(alive)
            break
        self.map_end_offset = self.snapshot_offset = log_start_offset if offset is None else offset

    def _put(self, entries: Iterable[ProducerEntry]) -> None:
        for entry in entries:
            txn = entry.current_txn_first_offset if entry.has_open_txn else -1
            producer = Producer(entry.producer_epoch, entry.timestamp, entry.coordinator_epoch, txn)
            if entry.has_batch:
                producer.last_sequence = entry.last_sequence
                producer.last_offset = entry.last_offset
                producer.offset_delta = entry.offset_delta
            self.producers[entry.producer_id] = producer
            if txn >= 0:
                self.open_txns[txn] = entry.producer_id
