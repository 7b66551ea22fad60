"""How the transaction ended that a batch belongs to: what tells records of aborted transactions from the others."""

from __future__ import annotations

import errno
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import NamedTuple

from kdump.errors import KdumpError, Problem
from kdump.formats.batch import CONTROL, TRANSACTIONAL
from kdump.storage.partition import PartitionLog
from kdump.storage.records import Batch
from kdump.storage.segment import Segment
from kdump.storage.txn_state import TxnState


class _End(NamedTuple):
    """The marker at `last_offset`, and where the transaction began that it ended (absolute offsets)."""

    last_offset: int
    state: TxnState
    first_offset: int


class TransactionStates:
    """The states of a partition's transactions; its batch headers are walked when the first one is asked for.

    A transaction ends at its producer's next marker in the log, as for a broker's recovery (ProducerStateManager).
    Where an aborted transaction begins is what the transaction index says, as for consumers: the cleaner may have
    removed the COMMIT of an earlier one of the same producer. Damage is skipped: whoever reads the records reports it.
    """

    def __init__(self, log: PartitionLog) -> None:
        self._log = log
        self._found: _Ends | None = None

    def of(self, batch: Batch) -> TxnState:
        """Return the state of the transaction that a batch belongs to, or that its marker ended. Raises OSError."""
        return self.state_of(batch.producer_id, batch.last_offset) if batch.is_transactional else TxnState.NONE

    def state_of(self, producer_id: int, offset: int) -> TxnState:
        """Return the state of the transaction of a transactional record, by its absolute offset. Raises OSError."""
        if producer_id < 0:
            return TxnState.NONE
        found = self._found
        if found is None or offset >= found.end_offset:
            found = self._found = _Ends(self._log)
        return found.state_of(producer_id, offset)

    def last_stable_offset(self) -> int:
        """Return the offset up to which all transactions have ended, by the log alone. Raises OSError."""
        if self._found is None:
            self._found = _Ends(self._log)
        return self._found.last_stable_offset


def state_by_next_marker(log: PartitionLog, segment: Segment, batch: Batch) -> TxnState:
    """Return what `TransactionStates(log).of(batch)` does, read from the batch to its producer's next marker alone.

    `segment` is the one of `log` that the batch is in. Without such a marker, as of an open transaction, the log is
    read to its end. Raises OSError.
    """
    if not batch.is_transactional or batch.producer_id < 0:
        return TxnState.NONE
    from kdump.txns.partition import next_marker
    from kdump.txns.producers import opens_transaction
    from kdump.txns.txn_index import index_entries

    behind = log.segments[log.segments.index(segment) :]
    marker = next_marker(behind, batch.position, batch.producer_id, _raise_unreadable)
    if marker is None:
        is_open = opens_transaction(batch.record_count)  # of one that opens none, what lies before it decides
        return TxnState.OPEN if is_open else TransactionStates(log).of(batch)
    if not marker.is_abort:
        return TxnState.COMMITTED
    entry = index_entries(marker.segment, _raise_unreadable).get((batch.producer_id, marker.last_offset))
    return TxnState.ABORTED if entry is None or entry.first_offset <= batch.last_offset else TxnState.COMMITTED


def _raise_unreadable(problem: Problem) -> None:
    """Raise what kept something from being read: that could have told of an abort."""
    if problem.is_unreadable and not problem.is_missing:
        raise OSError(errno.EIO, problem.text, problem.path)


class _Ends:
    """The ends of all transactions of a partition, in the order of their markers, and what is open."""

    def __init__(self, log: PartitionLog) -> None:
        from kdump.storage.replica import Replica
        from kdump.txns.partition import transactions_of  # for which most partitions have no use

        txns = transactions_of(Replica(log, 0, None), _raise_unreadable, keep_ended=True)
        self.end_offset = txns.end_offset
        self.last_stable_offset = txns.last_stable_offset
        self._open = {txn.producer_id: txn.first_offset for txn in txns.open}
        self._unordered = {} if txns.is_ordered else dict(_states_in_order(log, self._open))
        self._ends: dict[int, list[_End]] = defaultdict(list)
        begins = {(each.producer_id, each.last_offset): each.first_offset for each in txns.mismatches}
        for txn in txns.ended:
            state = TxnState.ABORTED if txn.is_abort else TxnState.COMMITTED
            first_offset = begins.get((txn.producer_id, txn.last_offset), txn.first_offset)
            self._ends[txn.producer_id].append(_End(txn.last_offset, state, first_offset))

    def state_of(self, producer_id: int, offset: int) -> TxnState:
        """Return how the transaction ended; of one without a marker that is not open the cleaner removed the COMMIT."""
        known = self._unordered.get((producer_id, offset))
        if known is not None:
            return known
        ends = self._ends.get(producer_id, [])
        at = bisect_left(ends, offset, key=lambda end: end.last_offset)
        if at < len(ends):
            return ends[at].state if ends[at].first_offset <= offset else TxnState.COMMITTED
        return TxnState.OPEN if self._open.get(producer_id, offset + 1) <= offset else TxnState.COMMITTED


def _states_in_order(log: PartitionLog, open_producers: Collection[int]) -> Iterator[tuple[tuple[int, int], TxnState]]:
    """Yield the state of each transactional batch, by producer id and last offset, in a log whose offsets go back.

    There the offsets do not tell what a marker ends. An aborted transaction begins where its first batch, by the index,
    is reached: the cleaner may have removed the COMMIT of one before it. Raises OSError.
    """
    from kdump.query.contents import marker_in, runs
    from kdump.txns.txn_index import index_entries

    waiting: dict[int, list[int]] = defaultdict(list)
    for segment, run in runs(log.segments, _raise_unreadable, whole=False):
        block = run.block
        for row in range(run.first, run.stop):
            producer_id, attributes, offset = block.producer_id[row], block.attributes[row], block.last_offset[row]
            if block.magic[row] < 2 or producer_id < 0 or not attributes & (TRANSACTIONAL | CONTROL):
                continue
            marker = None
            with suppress(KdumpError):  # whoever reads the records reports it
                marker = marker_in(block, row) if attributes & CONTROL else None
            if marker is None:
                waiting[producer_id].append(offset)
                continue
            ended = waiting.pop(producer_id, [])
            if marker.is_abort:
                entry = index_entries(segment, _raise_unreadable).get((producer_id, offset))
                first = -1 if entry is None else entry.first_offset
                begin = next((at for at, each in enumerate(ended) if first <= each), len(ended))
                yield from (((producer_id, each), TxnState.COMMITTED) for each in ended[:begin])
                yield from (((producer_id, each), TxnState.ABORTED) for each in (*ended[begin:], offset))
            else:
                yield from (((producer_id, each), TxnState.COMMITTED) for each in (*ended, offset))
    for producer_id, offsets in waiting.items():
        state = TxnState.OPEN if producer_id in open_producers else TxnState.COMMITTED
        yield from (((producer_id, each), state) for each in offsets)
