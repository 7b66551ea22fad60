"""An idempotent or transactional producer, and what it sends to the partitions of one or several log directories.

    producer = Producer(7, transactional=True)
    producer.send(orders, [Message(b"value")])      # begins a transaction
    producer.send(payments, [Message(b"value")])
    producer.commit()                               # or abort(): a marker in both logs
    producer.bump_epoch()

Sequence numbers go on where the log has the producer's last batch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from kdump.formats.sequences import NO_SEQUENCE, increment_sequence
from kdump.write.incoming import AppendInfo
from kdump.write.log_writer import LogWriter
from kdump.write.packing import Packing, pack
from kdump.write.record_source import Message, RecordSource

EPOCH_PER_TRANSACTION = 2
"""The lowest level of transaction.version at which every transaction has a producer epoch of its own."""


def epoch_of_markers(epoch: int, transaction_version: int) -> int:
    """Return the producer epoch of the markers that end a transaction of this epoch."""
    return epoch + 1 if transaction_version >= EPOCH_PER_TRANSACTION else epoch


class Producer:
    """A producer of one id and producer epoch.

    `coordinator_epoch` is that of its markers, None for that of the last one in the log.

    `partitions` are the logs in which its transaction is open. `transaction_version` is the level of the cluster's
    feature transaction.version: with EPOCH_PER_TRANSACTION the end of a transaction begins the next producer epoch,
    which its markers have already (KIP-890).
    """

    def __init__(
        self,
        producer_id: int,
        epoch: int = 0,
        *,
        is_transactional: bool = False,
        coordinator_epoch: int | None = None,
        packing: Packing | None = None,
        transaction_version: int = 0,
    ) -> None:
        """`packing` says how batches are made; what it says of the producer itself is of no importance."""
        self.producer_id = producer_id
        self.epoch = epoch
        self.transactional = is_transactional
        self.coordinator_epoch = coordinator_epoch
        self.packing = packing or Packing()
        self.transaction_version = transaction_version
        self.partitions: list[LogWriter] = []

    def send(self, log: LogWriter, records: Iterable[Message] | RecordSource) -> list[AppendInfo]:
        """Append records to a log, within a transaction if the producer is transactional.

        Raises AppendError and the others of LogWriter.append_as_leader; the batches before the refused one stay.
        """
        packing = self.packing_for(log)
        sent = []
        for batch in pack(records, packing):
            sent.append(log.append_as_leader(batch))
            if self.transactional and log not in self.partitions:
                self.partitions.append(log)
        return sent

    def packing_for(self, log: LogWriter, base_sequence: int | None = None) -> Packing:
        """Return how the producer packs what it sends to a log; its first sequence is the one due unless given."""
        return replace(
            self.packing,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self.next_sequence(log) if base_sequence is None else base_sequence,
            transactional=self.transactional,
        )

    def next_sequence(self, log: LogWriter) -> int:
        """Return the sequence number that is due in a log."""
        known = log.states.producers.get(self.producer_id)
        if known is None or known.epoch != self.epoch or known.last_sequence == NO_SEQUENCE:
            return 0
        return increment_sequence(known.last_sequence, 1)

    def commit(self) -> list[AppendInfo]:
        """End the transaction in all of its partitions. Raises as `send`."""
        return self._end(is_commit=True)

    def abort(self) -> list[AppendInfo]:
        """Throw the transaction away in all of its partitions. Raises as `send`."""
        return self._end(is_commit=False)

    def bump_epoch(self) -> None:
        """Begin the next producer epoch; sequence numbers begin again, the one before is fenced."""
        self.epoch += 1

    def _end(self, *, is_commit: bool) -> list[AppendInfo]:
        markers = []
        if self.partitions:
            self.epoch = epoch_of_markers(self.epoch, self.transaction_version)
        while self.partitions:
            log, epoch = self.partitions[0], self.coordinator_epoch
            markers.append(
                log.end_transaction(self.producer_id, self.epoch, is_commit=is_commit, coordinator_epoch=epoch)
            )
            del self.partitions[0]
        return markers
