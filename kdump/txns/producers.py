"""Producers and transactions along a log: the state that a broker keeps of them, and what batches do to it.

As Kafka's ProducerStateManager and ProducerAppendInfo. What is out of the ordinary in a batch or a marker, and what it
opens or ends, is told as events; who follows the log decides what an event means: recovery fails where Kafka fails,
an append is refused, verify reports, a list of transactions takes it down.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kdump.formats.batch import wrap64
from kdump.formats.producer_snapshot import ProducerEntry
from kdump.formats.sequences import MAX_SEQUENCE, NO_SEQUENCE, last_sequence

NO_EPOCH = -1


class EpochWentBack(NamedTuple):
    """A batch or a marker has a lower epoch than its producer had already."""

    epoch: int
    known_epoch: int


class SequenceGap(NamedTuple):
    """A batch does not begin with the sequence number that follows the producer's last one of its epoch.

    `missing` numbers lie between, counted around the wrap; `last` is -1 where no batch of the epoch is known.
    """

    first: int
    last: int
    missing: int
    epoch: int
    known_epoch: int


class CoordinatorWentBack(NamedTuple):
    """A marker has a lower coordinator epoch than the producer's marker before."""

    epoch: int
    known_epoch: int


class NotInTransaction(NamedTuple):
    """A batch is not transactional, although its producer has a transaction open from `first_offset` on."""

    first_offset: int


class TransactionOpened(NamedTuple):
    """A batch is the first one of a transaction."""

    first_offset: int


class TransactionEnded(NamedTuple):
    """A marker ends the transaction that is open from `first_offset` on."""

    first_offset: int


def opens_transaction(count: int) -> bool:
    """Return whether a transactional data batch of `count` records begins a transaction, if its producer has none open.

    One without records does not: the cleaner keeps a producer's last batch for its sequence when it has removed all
    records, and drops the marker (Cleaner.cleanInto, KIP-98). The transaction is over.
    """
    return count != 0


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

    `last_offset` is -1 where no batch is known, `txn_first_offset` where no transaction is open, `epoch` where nothing
    is known. Offsets are absolute, `timestamp` in ms.
    """

    __slots__ = (
        "_counts_on",
        "coordinator_epoch",
        "epoch",
        "last_offset",
        "last_sequence",
        "offset_delta",
        "timestamp",
        "txn_first_offset",
    )

    def __init__(self, epoch: int = NO_EPOCH, timestamp: int = -1, coordinator_epoch: int = -1, txn: int = -1) -> None:
        self.epoch = epoch
        self.timestamp = timestamp
        self.coordinator_epoch = coordinator_epoch
        self.txn_first_offset = txn
        self._counts_on: Producer | None = None
        self._forget_batch()

    def _forget_batch(self) -> None:
        self.last_sequence = self.last_offset = -1
        self.offset_delta = 0

    def enter_epoch(self, epoch: int) -> None:
        """Take the epoch of a batch; a new one starts without batches."""
        if self.epoch != epoch:
            self.epoch = epoch
            self._forget_batch()

    def check_batch(self, epoch: int, base_sequence: int) -> EpochWentBack | SequenceGap | None:
        """Return what is out of order in a data batch's epoch or sequence; nothing where the producer was unknown."""
        if epoch < self.epoch:
            return EpochWentBack(epoch, self.epoch)
        counted = self._counts_on or self
        if epoch == self.epoch:
            is_believed, last = counted.epoch == NO_EPOCH, self.last_sequence
            if self.last_offset < 0 and counted.epoch == epoch:
                last = counted.last_sequence
        else:
            is_believed, last = self.epoch == NO_EPOCH, NO_SEQUENCE
        missing = (base_sequence - last - 1) % (MAX_SEQUENCE + 1)
        if is_believed or (missing == 0 and base_sequence >= 0):
            return None
        return SequenceGap(base_sequence, last, missing, epoch, self.epoch)

    def join_txn(self, first_offset: int, *, is_transactional: bool) -> NotInTransaction | TransactionOpened | None:
        """Take a data batch into the transaction that is open, or begin one with it."""
        if self.txn_first_offset >= 0:
            return None if is_transactional else NotInTransaction(self.txn_first_offset)
        if not is_transactional:
            return None
        self.txn_first_offset = first_offset
        return TransactionOpened(first_offset)

    def take_batch(self, epoch: int, base_sequence: int, first_offset: int, last_offset: int, timestamp: int) -> None:
        """Let a data batch be the last one."""
        self.epoch = epoch
        self.last_offset = last_offset
        self.offset_delta = wrap64(last_offset - first_offset)
        self.last_sequence = last_sequence(base_sequence, self.offset_delta)
        self.timestamp = timestamp

    def check_marker(self, epoch: int, coordinator_epoch: int) -> EpochWentBack | CoordinatorWentBack | None:
        """Return what is out of order in a marker's epochs."""
        if epoch < self.epoch:
            return EpochWentBack(epoch, self.epoch)
        if coordinator_epoch < self.coordinator_epoch:
            return CoordinatorWentBack(coordinator_epoch, self.coordinator_epoch)
        return None

    def take_marker(self, epoch: int, coordinator_epoch: int, timestamp: int) -> TransactionEnded | None:
        """End the transaction that is open, if one is."""
        first_offset = self.txn_first_offset
        self.enter_epoch(epoch)
        self.coordinator_epoch = coordinator_epoch
        self.timestamp = timestamp
        self.txn_first_offset = -1
        return TransactionEnded(first_offset) if first_offset >= 0 else None

    def pending(self) -> Producer:
        """Return the state to collect several batches in before they count."""
        pending = Producer(self.epoch, self.timestamp, self.coordinator_epoch, self.txn_first_offset)
        pending._counts_on = self
        return pending

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
        """Return the producer as a snapshot has it."""
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

    @classmethod
    def of(cls, entry: ProducerEntry) -> Producer:
        """Return the producer that a snapshot tells of."""
        txn = entry.current_txn_first_offset if entry.has_open_txn else -1
        producer = cls(entry.producer_epoch, entry.timestamp, entry.coordinator_epoch, txn)
        if entry.has_batch:
            producer.last_sequence = entry.last_sequence
            producer.last_offset = entry.last_offset
            producer.offset_delta = entry.offset_delta
        return producer


class ProducerTable:
    """The producers of a log up to an offset, and the transactions that are open there.

    `open_txns` maps the first offset of each to its producer, the earliest one first.
    """

    def __init__(self) -> None:
        self.producers: dict[int, Producer] = {}
        self.open_txns: dict[int, int] = {}

    def load(self, entries: Iterable[ProducerEntry]) -> None:
        """Know what a snapshot tells."""
        for entry in entries:
            producer = self.producers[entry.producer_id] = Producer.of(entry)
            if producer.txn_first_offset >= 0:
                self.open_txns[producer.txn_first_offset] = entry.producer_id
        self._sort()

    def entries(self) -> Iterator[ProducerEntry]:
        """Return all producers as a snapshot has them."""
        return (producer.entry(producer_id) for producer_id, producer in self.producers.items())

    def clear(self) -> None:
        """Know nothing."""
        self.producers.clear()
        self.open_txns.clear()

    def producer(self, producer_id: int) -> Producer:
        """Return the state that a batch of a producer changes."""
        producer = self.producers.get(producer_id)
        if producer is None:
            producer = self.producers[producer_id] = Producer()
        return producer

    def begin(self, producer_id: int, first_offset: int) -> None:
        """Know a transaction that begins."""
        is_last = not self.open_txns or next(reversed(self.open_txns)) < first_offset
        self.open_txns[first_offset] = producer_id
        if not is_last:
            self._sort()

    def end(self, txn: CompletedTxn) -> bool:
        """Know that a transaction has ended; whether it was open."""
        return self.open_txns.pop(txn.first_offset, None) is not None

    def forget_txn(self, producer: Producer) -> None:
        """Know no open transaction of a producer any more."""
        self.open_txns.pop(producer.txn_first_offset, None)
        producer.txn_first_offset = -1

    def stable_after(self, txn: CompletedTxn) -> int:
        """Return the last stable offset behind a marker: what a broker notes in the transaction index with an abort."""
        others = (offset for offset, producer in self.open_txns.items() if producer != txn.producer_id)
        return next(others, txn.last_offset + 1)

    def _sort(self) -> None:
        self.open_txns = dict(sorted(self.open_txns.items()))


class PendingProducers:
    """Changes to a table that do not count yet: those of one append, or of a segment that is loaded."""

    def __init__(self, known: ProducerTable) -> None:
        self._known = known
        self.producers: dict[int, Producer] = {}
        self.started: list[tuple[int, int]] = []
        self.completed: list[CompletedTxn] = []

    def producer(self, producer_id: int) -> Producer:
        """Return the state that a batch of a producer changes."""
        producer = self.producers.get(producer_id)
        if producer is None:
            producer = self._known.producers.get(producer_id, Producer()).pending()
            self.producers[producer_id] = producer
        return producer

    def begin(self, producer_id: int, first_offset: int) -> None:
        """Know a transaction that begins."""
        self.started.append((producer_id, first_offset))

    def end(self, txn: CompletedTxn) -> None:
        """Know that a transaction has ended."""
        self.completed.append(txn)

    def ended(self) -> Iterator[tuple[CompletedTxn, int]]:
        """Yield the transactions that end, each with the last stable offset behind its marker."""
        table = ProducerTable()
        table.open_txns = dict(self._known.open_txns)
        for producer_id, first_offset in self.started:
            table.begin(producer_id, first_offset)
        for txn in self.completed:
            yield txn, table.stable_after(txn)
            table.end(txn)

    def apply(self) -> list[CompletedTxn]:
        """Let everything count: all producers change, and only after that transactions end. Those that were not open.

        The transactions that begin are known before any ends.
        """
        for producer_id, pending in self.producers.items():
            self._known.producer(producer_id).take(pending)
        for producer_id, first_offset in self.started:
            self._known.begin(producer_id, first_offset)
        return [txn for txn in self.completed if not self._known.end(txn)]
