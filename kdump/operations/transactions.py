"""Open transactions of partitions, and which of them hang by Kafka's own rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kdump.errors import Report
from kdump.formats import names
from kdump.settings.defaults import MAX_TIMEOUT_MS
from kdump.storage.replica import Replica, read_replicas
from kdump.topics.hanging import HangReason, hang_reasons, is_hanging
from kdump.topics.transaction_ids import TransactionalId, TransactionalIds
from kdump.txns.partition import OpenTxn, PartitionTxns, transactions_of


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """An open transaction, the transactional id that its producer works for, and what makes it suspect."""

    txn: OpenTxn
    owner: TransactionalId | None
    reasons: tuple[HangReason, ...]
    is_hanging: bool

    @property
    def may_end(self) -> bool:
        """Whether its coordinator may still end it, for all that is known."""
        return HangReason.NOT_COVERED not in self.reasons

    @property
    def is_coordinators(self) -> bool:
        """Whether it is suspect, and yet its coordinator has it and ends it when it runs."""
        return self.owner is not None and bool(self.reasons) and not self.is_hanging


@dataclass(frozen=True, slots=True)
class PartitionTransactions:
    """A partition's transactions: `found` along its log, `open` those that have not ended."""

    found: PartitionTxns
    open: tuple[OpenTransaction, ...]

    @property
    def is_sound(self) -> bool:
        """Whether none hangs, and the transaction index fits the log."""
        return not self.found.mismatches and not any(each.is_hanging for each in self.open)


class TransactionsOf:
    """The transactions in some replicas at the time `now` (ms); `ids` are the transactional ids that are known.

    A transaction is late when its last record is older than `max_timeout_ms`, the brokers' transaction.max.timeout.ms,
    and five minutes more.
    """

    def __init__(self, ids: TransactionalIds, report: Report, now: int, max_timeout_ms: int = MAX_TIMEOUT_MS) -> None:
        """`report` hears of what cannot be read."""
        self.ids = ids
        self._report = report
        self._now = now
        self._max_timeout_ms = max_timeout_ms

    def of(self, partitions: Iterable[Replica], *, keep_ended: bool = False) -> Iterator[PartitionTransactions]:
        """Yield the transactions of each partition to which producers write."""

        def transactions(replica: Replica) -> Iterator[PartitionTransactions]:
            found = transactions_of(replica, self._report, keep_ended=keep_ended)
            yield PartitionTransactions(found, tuple(self._open(found, txn) for txn in found.open))

        return read_replicas(filter(has_transactions, partitions), self._report, transactions)

    def is_stuck(self, found: TransactionalId) -> bool:
        """Return whether a transactional id waits for markers that are not written."""
        return found.is_stuck(self._now, self._max_timeout_ms)

    def _open(self, found: PartitionTxns, txn: OpenTxn) -> OpenTransaction:
        owner = self.ids.of_producer(txn.producer_id)
        place = found.replica
        is_covered = None if owner is None else owner.covers(place.topic, place.partition, txn.producer_epoch)
        limit = self._max_timeout_ms
        reasons = hang_reasons(txn.last_timestamp, self._now, is_covered=is_covered, max_timeout_ms=limit)
        return OpenTransaction(txn, owner, reasons, is_hanging(reasons, is_covered=is_covered))


def has_transactions(replica: Replica) -> bool:
    """Return whether producers write to a partition's topic."""
    return replica.topic not in (names.TRANSACTION_STATE_TOPIC, names.CLUSTER_METADATA_TOPIC)
