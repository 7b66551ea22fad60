"""What an append means to the producers of a partition: what is refused, what is a duplicate, what changes.

The last five batches of every producer are known, as long as the log is open; of those before, the last one.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from kdump.blocks import BatchBlock
from kdump.formats.batch import CONTROL, TRANSACTIONAL
from kdump.formats.index_entries import ABORTED_TXN_VERSION, AbortedTxn
from kdump.formats.sequences import MAX_SEQUENCE, NO_SEQUENCE, decrement_sequence, last_sequence
from kdump.recovery.markers import Marker, read_marker
from kdump.recovery.producer_state import CompletedTxn, Producer, ProducerStates
from kdump.storage.planned_log import LogView
from kdump.write.errors import (
    InvalidProducerEpochError,
    InvalidTxnStateError,
    OutOfOrderSequenceError,
    TransactionCoordinatorFencedError,
)
from kdump.write.incoming import CLIENT, REPLICATION

CACHED_BATCHES = 5
NO_EPOCH = -1


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


class Pending:
    """The changes of one append, before they count."""

    def __init__(self) -> None:
        self.producers: dict[int, Producer] = {}
        self.batches: dict[int, list[SentBatch]] = {}
        self.started: list[tuple[int, int]] = []
        self.completed: list[CompletedTxn] = []


class ProducerAppends:
    """The producers of an open log; `partition` is what Kafka's texts call it."""

    def __init__(self, states: ProducerStates, partition: str) -> None:
        self.states = states
        self.partition = partition
        self._recent: dict[int, deque[SentBatch]] = {}

    def find_duplicate(self, block: BatchBlock) -> SentBatch | None:
        """The batch in the log that a producer sends again; the block's last batches may be new nonetheless."""
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

    def prepare(self, block: BatchBlock, origin: str, log: LogView) -> Pending:
        """What the batches, with their final offsets, change. Raises AppendError, LoadError for a broken marker."""
        pending = Pending()
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
        """The entries of the transaction index that the append calls for."""
        open_txns = {**self.states.open_txns, **{offset: producer for producer, offset in pending.started}}
        found = []
        for txn in pending.completed:
            others = (offset for offset, producer in open_txns.items() if producer != txn.producer_id)
            stable = min(others, default=txn.last_offset + 1)
            open_txns.pop(txn.first_offset, None)
            if txn.is_abort:
                found.append(
                    AbortedTxn(ABORTED_TXN_VERSION, txn.producer_id, txn.first_offset, txn.last_offset, stable)
                )
        return found

    def apply(self, pending: Pending) -> None:
        """Let the changes count."""
        for producer_id, changed in pending.producers.items():
            producer = self.states.producers.setdefault(producer_id, Producer())
            recent = self._recent.get(producer_id)
            if recent is None:
                recent = self._recent[producer_id] = deque(self._sent(producer_id, producer), CACHED_BATCHES)
            if producer.epoch != changed.epoch:
                recent.clear()
            recent.extend(pending.batches.get(producer_id, ()))
            producer.take(changed)
        for producer_id, first_offset in pending.started:
            self.states.open_txns[first_offset] = producer_id
        for txn in pending.completed:
            self.states.open_txns.pop(txn.first_offset, None)

    def _sent(self, producer_id: int, producer: Producer) -> list[SentBatch]:
        recent = self._recent.get(producer_id)
        if recent is not None:
            return list(recent)
        if producer.last_offset < 0:
            return []
        first = decrement_sequence(producer.last_sequence, producer.offset_delta)
        start = producer.last_offset - producer.offset_delta
        return [SentBatch(first, producer.last_sequence, start, producer.last_offset, producer.timestamp)]

    def _pending(self, pending: Pending, producer_id: int) -> Producer:
        producer = pending.producers.get(producer_id)
        if producer is None:
            producer = self.states.producers.get(producer_id, Producer()).pending()
            pending.producers[producer_id] = producer
        return producer

    def _add_batch(self, pending: Pending, block: BatchBlock, row: int, origin: str) -> None:
        producer_id, epoch = block.producer_id[row], block.producer_epoch[row]
        first_offset, last_offset = block.base_offset[row], block.last_offset[row]
        producer = self._pending(pending, producer_id)
        self._check_epoch(producer, producer_id, epoch, first_offset, origin)
        if origin == CLIENT:
            self._check_sequence(producer, producer_id, epoch, block.base_sequence[row], first_offset)
        transactional = block.attributes[row] & TRANSACTIONAL
        if producer.txn_first_offset >= 0 and not transactional:
            raise InvalidTxnStateError(
                f"Expected transactional write from producer {producer_id} at offset {first_offset} in partition"
                f" {self.partition}"
            )
        batches = pending.batches.setdefault(producer_id, [])
        if producer.epoch != epoch:
            batches.clear()
        producer.enter_epoch(epoch)
        producer.last_offset = last_offset
        producer.offset_delta = last_offset - first_offset
        producer.last_sequence = last_sequence(block.base_sequence[row], producer.offset_delta)
        producer.timestamp = block.max_timestamp[row]
        batches.append(
            SentBatch(block.base_sequence[row], producer.last_sequence, first_offset, last_offset, producer.timestamp)
        )
        if transactional and producer.txn_first_offset < 0:
            producer.txn_first_offset = first_offset
            pending.started.append((producer_id, first_offset))

    def _end_txn(self, pending: Pending, block: BatchBlock, row: int, marker: Marker, origin: str) -> None:
        producer_id, epoch, offset = block.producer_id[row], block.producer_epoch[row], block.base_offset[row]
        producer = self._pending(pending, producer_id)
        self._check_epoch(producer, producer_id, epoch, offset, origin)
        if producer.coordinator_epoch > marker.coordinator_epoch and origin != REPLICATION:
            raise TransactionCoordinatorFencedError(
                f"Invalid coordinator epoch for producerId {producer_id} at offset {offset} in partition"
                f" {self.partition}: {marker.coordinator_epoch} (zombie), {producer.coordinator_epoch} (current)"
            )
        if producer.epoch != epoch:
            pending.batches.pop(producer_id, None)
        first_offset = producer.end_txn(epoch, marker)
        if first_offset >= 0:
            pending.completed.append(CompletedTxn(producer_id, first_offset, offset, marker.is_abort))

    def _check_epoch(self, producer: Producer, producer_id: int, epoch: int, offset: int, origin: str) -> None:
        if epoch < producer.epoch and origin != REPLICATION:
            raise InvalidProducerEpochError(
                f"Epoch of producer {producer_id} at offset {offset} in {self.partition} is {epoch}, which is smaller"
                f" than the last seen epoch {producer.epoch}"
            )

    def _check_sequence(self, pending: Producer, producer_id: int, epoch: int, first: int, offset: int) -> None:
        current = self.states.producers.get(producer_id, Producer())
        if epoch != pending.epoch:
            if first != 0 and pending.epoch != NO_EPOCH:
                raise OutOfOrderSequenceError(
                    f"Invalid sequence number for new epoch of producer {producer_id} at offset {offset} in partition"
                    f" {self.partition}: {epoch} (request epoch), {first} (seq. number), {pending.epoch} (current"
                    " producer epoch)"
                )
            return
        if pending.last_offset >= 0:
            last = pending.last_sequence
        else:
            last = current.last_sequence if epoch == current.epoch else NO_SEQUENCE
        follows = first == last + 1 or (first == 0 and last == MAX_SEQUENCE)
        if current.epoch != NO_EPOCH and not follows:
            raise OutOfOrderSequenceError(
                f"Out of order sequence number for producer {producer_id} at offset {offset} in partition"
                f" {self.partition}: {first} (incoming seq. number), {last} (current end sequence number)"
            )
