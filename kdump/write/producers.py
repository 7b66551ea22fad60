"""What an append means to the producers of a partition: what is refused, what is a duplicate, what changes.

The last five batches of every producer are known, as long as the log is open; of those before, the last one.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from kdump.blocks import BatchBlock
from kdump.formats.batch import CONTROL, TRANSACTIONAL
from kdump.formats.index_entries import ABORTED_TXN_VERSION, AbortedTxn
from kdump.formats.sequences import decrement_sequence, last_sequence
from kdump.recovery.markers import read_marker
from kdump.recovery.producer_state import ProducerStates
from kdump.storage.control_batches import Marker
from kdump.storage.planned_log import LogView
from kdump.txns.producers import (
    CompletedTxn,
    CoordinatorWentBack,
    EpochWentBack,
    NotInTransaction,
    PendingProducers,
    Producer,
    SequenceGap,
    TransactionOpened,
)
from kdump.write.errors import (
    InvalidProducerEpochError,
    InvalidTxnStateError,
    OutOfOrderSequenceError,
    TransactionCoordinatorFencedError,
)
from kdump.write.incoming import AppendOrigin

CACHED_BATCHES = 5


class SentBatch(NamedTuple):
    """A batch of a producer in the log: its sequence numbers and absolute offsets, its max timestamp (ms)."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


class InMemory(LogView):
    """The .log of batches that are in memory and nowhere else yet."""

    def __init__(self, name: str, path: str) -> None:
        self.name = name
        self.path = path
        self.size = 0
        self.file = None


class Pending(PendingProducers):
    """The changes of one append, before they count."""

    def __init__(self, states: ProducerStates) -> None:
        super().__init__(states)
        self.batches: dict[int, list[SentBatch]] = {}


class ProducerAppends:
    """The producers of an open log; `partition` is what Kafka's texts call it."""

    def __init__(self, states: ProducerStates, partition: str) -> None:
        self.states = states
        self.partition = partition
        self._recent: dict[int, deque[SentBatch]] = {}

    def find_duplicate(self, block: BatchBlock) -> SentBatch | None:
        """Return the batch in the log that a producer sends again; the block's last batches may be new nonetheless."""
        for row in range(block.length):
            producer = self.states.producers.get(block.producer_id[row])
            if producer is None or producer.epoch != block.producer_epoch[row]:
                continue
            first = block.base_sequence[row]
            last = last_sequence(first, block.last_offset[row] - block.base_offset[row])
            for sent in self._sent(block.producer_id[row], producer):
                if (sent.first_sequence, sent.last_sequence) == (first, last):
                    return sent
        return None

    def prepare(self, block: BatchBlock, origin: AppendOrigin, log: LogView) -> Pending:
        """Return what the batches, with their final offsets, change. Raises AppendError; LoadError for a bad marker."""
        pending = Pending(self.states)
        for row in range(block.length):
            if block.producer_id[row] < 0:
                continue
            if block.attributes[row] & CONTROL:
                marker = read_marker(log, block, row)
                if marker is not None:
                    self._end_txn(pending, block, row, marker, origin)
            else:
                self._add_batch(pending, block, row, origin)
        return pending

    def aborted(self, pending: Pending) -> list[AbortedTxn]:
        """Return the entries of the transaction index that the append calls for."""
        return [
            AbortedTxn(ABORTED_TXN_VERSION, txn.producer_id, txn.first_offset, txn.last_offset, stable_offset)
            for txn, stable_offset in pending.ended()
            if txn.is_abort
        ]

    def apply(self, pending: Pending) -> None:
        """Let the changes count."""
        for producer_id, changed in pending.producers.items():
            producer = self.states.producer(producer_id)
            recent = self._recent.get(producer_id)
            if recent is None:
                recent = self._recent[producer_id] = deque(self._sent(producer_id, producer), CACHED_BATCHES)
            if producer.epoch != changed.epoch:
                recent.clear()
            recent.extend(pending.batches.get(producer_id, ()))
        pending.apply()

    def _sent(self, producer_id: int, producer: Producer) -> list[SentBatch]:
        recent = self._recent.get(producer_id)
        if recent is not None:
            return list(recent)
        if producer.last_offset < 0:
            return []
        first = decrement_sequence(producer.last_sequence, producer.offset_delta)
        start = producer.last_offset - producer.offset_delta
        return [SentBatch(first, producer.last_sequence, start, producer.last_offset, producer.timestamp)]

    def _add_batch(self, pending: Pending, block: BatchBlock, row: int, origin: AppendOrigin) -> None:
        producer_id, epoch, sequence = block.producer_id[row], block.producer_epoch[row], block.base_sequence[row]
        first_offset, last_offset = block.base_offset[row], block.last_offset[row]
        producer = pending.producer(producer_id)
        match producer.check_batch(epoch, sequence):
            case EpochWentBack() as event if origin is not AppendOrigin.REPLICATION:
                raise self._fenced_producer(producer_id, first_offset, event)
            case SequenceGap() as event if origin is AppendOrigin.CLIENT:
                raise self._out_of_order(producer_id, first_offset, event)
        match producer.join_txn(first_offset, is_transactional=bool(block.attributes[row] & TRANSACTIONAL)):
            case NotInTransaction():
                raise InvalidTxnStateError(
                    f"Expected transactional write from producer {producer_id} at offset {first_offset} in partition"
                    f" {self.partition}"
                )
            case TransactionOpened():
                pending.begin(producer_id, first_offset)
        batches = pending.batches.setdefault(producer_id, [])
        if producer.epoch != epoch:
            batches.clear()
        timestamp = block.max_timestamp[row]
        producer.take_batch(epoch, sequence, first_offset, last_offset, timestamp)
        batches.append(SentBatch(sequence, producer.last_sequence, first_offset, last_offset, timestamp))

    def _end_txn(self, pending: Pending, block: BatchBlock, row: int, marker: Marker, origin: AppendOrigin) -> None:
        producer_id, epoch, offset = block.producer_id[row], block.producer_epoch[row], block.base_offset[row]
        producer = pending.producer(producer_id)
        match producer.check_marker(epoch, marker.coordinator_epoch):
            case EpochWentBack() as event if origin is not AppendOrigin.REPLICATION:
                raise self._fenced_producer(producer_id, offset, event)
            case CoordinatorWentBack() as event if origin is not AppendOrigin.REPLICATION:
                raise TransactionCoordinatorFencedError(
                    f"Invalid coordinator epoch for producerId {producer_id} at offset {offset} in partition"
                    f" {self.partition}: {event.epoch} (zombie), {event.known_epoch} (current)"
                )
        if producer.epoch != epoch:
            pending.batches.pop(producer_id, None)
        ended = producer.take_marker(epoch, marker.coordinator_epoch, marker.timestamp)
        if ended:
            pending.end(CompletedTxn(producer_id, ended.first_offset, offset, marker.is_abort))

    def _fenced_producer(self, producer_id: int, offset: int, event: EpochWentBack) -> InvalidProducerEpochError:
        return InvalidProducerEpochError(
            f"Epoch of producer {producer_id} at offset {offset} in {self.partition} is {event.epoch}, which is smaller"
            f" than the last seen epoch {event.known_epoch}"
        )

    def _out_of_order(self, producer_id: int, offset: int, event: SequenceGap) -> OutOfOrderSequenceError:
        if event.epoch != event.known_epoch:
            return OutOfOrderSequenceError(
                f"Invalid sequence number for new epoch of producer {producer_id} at offset {offset} in partition"
                f" {self.partition}: {event.epoch} (request epoch), {event.first} (seq. number), {event.known_epoch}"
                " (current producer epoch)"
            )
        return OutOfOrderSequenceError(
            f"Out of order sequence number for producer {producer_id} at offset {offset} in partition"
            f" {self.partition}: {event.first} (incoming seq. number), {event.last} (current end sequence number)"
        )
