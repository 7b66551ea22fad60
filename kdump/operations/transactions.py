"""Open transactions of partitions, and which of them hang by Kafka's own rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from kdump.errors import Report
from kdump.formats import names
from kdump.storage.replica import Replica, farthest, held_replicas
from kdump.topics.transaction_ids import TransactionalId, TransactionalIds
from kdump.transactions.partition import MAX_TIMEOUT_MS, OpenTxn, PartitionTxns, transactions_of


class HangReason(StrEnum):
    """What makes a transaction suspect: its age (brokers' late transactions), or that its coordinator has left it.

    One that is only late hangs where no coordinator is known to end it: so does kafka-transactions.sh find-hanging.
    """

    LATE = "late"
    NOT_COVERED = "not covered"


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """An open transaction, the transactional id that its producer works for, and what makes it suspect."""

    txn: OpenTxn
    owner: TransactionalId | None
    reasons: tuple[HangReason, ...]

    @property
    def is_hanging(self) -> bool:
        """Whether no marker will end it, as far as is known here."""
        return HangReason.NOT_COVERED in self.reasons or (bool(self.reasons) and self.owner is None)


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

    def __init__(
        self, states: Iterable[Replica], report: Report, now: int, max_timeout_ms: int = MAX_TIMEOUT_MS
    ) -> None:
        """`states` are the replicas of __transaction_state, one of each partition."""
        self.ids = TransactionalIds.of(states, report)
        self._report = report
        self._now = now
        self._max_timeout_ms = max_timeout_ms

    @classmethod
    def among(cls, found: Iterable[Replica], report: Report, now: int, max_timeout_ms: int) -> TransactionsOf:
        """Take the transactional ids from those of the replicas that are of __transaction_state."""
        states = [replica for replica in found if replica.topic == names.TRANSACTION_STATE_TOPIC]
        return cls(farthest(states, report), report, now, max_timeout_ms)

    def of(self, partitions: Iterable[Replica], *, keep_ended: bool = False) -> Iterator[PartitionTransactions]:
        """Yield the transactions of each partition to which producers write."""
        for replica in held_replicas(filter(has_transactions, partitions), self._report):
            found = transactions_of(replica, self._report, keep_ended=keep_ended)
            yield PartitionTransactions(found, tuple(self._open(found, txn) for txn in found.open))

    def is_stuck(self, found: TransactionalId) -> bool:
        """Whether a transactional id waits for markers that are not written."""
        return found.is_stuck(self._now, self._max_timeout_ms)

    def _open(self, found: PartitionTxns, txn: OpenTxn) -> OpenTransaction:
        reasons = []
        if txn.is_late(self._now, self._max_timeout_ms):
            reasons.append(HangReason.LATE)
        owner = self.ids.of_producer(txn.producer_id)
        is_overdue = txn.is_overdue(self._now, self._max_timeout_ms)
        if owner and is_overdue and not owner.covers(found.replica.topic, found.replica.partition, txn.producer_epoch):
            reasons.append(HangReason.NOT_COVERED)
        return OpenTransaction(txn, owner, tuple(reasons))


def has_transactions(replica: Replica) -> bool:
    """Whether producers write to a partition's topic."""
    return replica.topic not in (names.TRANSACTION_STATE_TOPIC, names.CLUSTER_METADATA_TOPIC)
