"""How the transaction ended that a batch belongs to: what tells records of aborted transactions from the others."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from typing import NamedTuple

from kdump.storage.partition import PartitionLog
from kdump.storage.records import Batch, TxnState
from kdump.storage.replica import Replica
from kdump.transactions.partition import PartitionTxns, transactions_of


class _End(NamedTuple):
    """The marker at `last_offset`, and where the transaction began that it ended (absolute offsets)."""

    last_offset: int
    state: TxnState
    first_offset: int


class TransactionStates:
    """The states of a partition's transactions; its batch headers are walked when the first one is asked for.

    Where an aborted transaction begins is what the transaction index says, as for consumers: the cleaner may have
    removed the COMMIT of an earlier one of the same producer. Damage is skipped: whoever reads the records reports it.
    """

    def __init__(self, log: PartitionLog) -> None:
        self._log = log
        self._found: PartitionTxns | None = None
        self._ends: dict[int, list[_End]] = defaultdict(list)

    def of(self, batch: Batch) -> TxnState:
        """Return the state of the transaction that a batch belongs to, or that its marker ended. Raises OSError."""
        if not batch.is_transactional or batch.producer_id < 0:
            return TxnState.NONE
        if self._found is None or batch.last_offset >= self._found.end_offset:
            self._walk()
        ends = self._ends.get(batch.producer_id, [])
        at = bisect_left(ends, batch.last_offset, key=lambda end: end.last_offset)
        if at < len(ends):
            return ends[at].state if ends[at].first_offset <= batch.last_offset else TxnState.COMMITTED
        return TxnState.OPEN if self._is_open(batch) else TxnState.COMMITTED

    def _walk(self) -> None:
        self._found = transactions_of(Replica(self._log, 0, None), lambda problem: None, keep_ended=True)
        self._ends.clear()
        begins = {(each.producer_id, each.last_offset): each.first_offset for each in self._found.mismatches}
        for txn in self._found.ended:
            state = TxnState.ABORTED if txn.is_abort else TxnState.COMMITTED
            first_offset = begins.get((txn.producer_id, txn.last_offset), txn.first_offset)
            self._ends[txn.producer_id].append(_End(txn.last_offset, state, first_offset))

    def _is_open(self, batch: Batch) -> bool:
        """Whether it is in an open transaction: of one that ended the cleaner may have removed the marker."""
        assert self._found is not None
        return any(
            txn.producer_id == batch.producer_id and txn.first_offset <= batch.base_offset for txn in self._found.open
        )
