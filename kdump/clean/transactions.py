"""The transactions that the cleaner meets on its way through a log: which batches and markers it may discard."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush

from kdump.clean.state import PartitionState
from kdump.formats import names
from kdump.formats.batch import ABORT, COMMIT
from kdump.formats.index_entries import AbortedTxn, check_aborted_txn_version
from kdump.storage.segment import Segment


class Transactions:
    """The state that goes from batch to batch of one run over a log."""

    def __init__(self) -> None:
        self._ahead: list[tuple[int, AbortedTxn]] = []
        self._aborted: dict[int, AbortedTxn] = {}
        self._observed: set[int] = set()  # the producers of those of which a batch was met
        self._committed: set[int] = set()

    @property
    def is_idle(self) -> bool:
        """Whether no aborted transaction is known to be ahead or under way."""
        return not self._ahead and not self._aborted

    def add(self, txns: Iterable[AbortedTxn]) -> None:
        """Know of aborted transactions; those that are known already do no harm."""
        for txn in txns:
            heappush(self._ahead, (txn.first_offset, txn))

    def discards_data(self, last_offset: int, producer_id: int, is_transactional: bool) -> bool:
        """Return whether a data batch belongs to an aborted transaction."""
        self._begin(last_offset)
        if not is_transactional:
            return False
        if producer_id in self._aborted:
            self._observed.add(producer_id)
            return True
        self._committed.add(producer_id)
        return False

    def discards_marker(
        self, last_offset: int, producer_id: int, control_type: int | None
    ) -> tuple[bool, AbortedTxn | None]:
        """Return whether nothing is left of what a marker ends; if not, the aborted transaction that it ends.

        `control_type` is None where the marker was taken out of the batch before.
        """
        self._begin(last_offset)
        if control_type is None:
            return True, None
        if control_type == ABORT:
            txn = self._aborted.pop(producer_id, None)
            if txn is None or producer_id not in self._observed:
                return True, None
            self._observed.remove(producer_id)
            return False, txn
        if control_type == COMMIT:
            if producer_id not in self._committed:
                return True, None
            self._committed.remove(producer_id)
        return False, None

    def _begin(self, last_offset: int) -> None:
        """Let the transactions begin that start up to this offset."""
        while self._ahead and self._ahead[0][0] <= last_offset:
            txn = heappop(self._ahead)[1]
            self._aborted.setdefault(txn.producer_id, txn)


def aborted_from(state: PartitionState, start: int, upper_bound: int) -> Iterator[AbortedTxn]:
    """Yield the aborted transactions that start below `upper_bound` and may have batches from `start` on.

    `start` is a segment's base offset: only what the indexes from there on say is known. Raises OSError,
    CorruptIndexError.
    """
    segments = [each.segment for each in state.segments if each.base_offset >= start]
    return aborted_in(segments, state.log_start_offset, upper_bound)


def aborted_in(segments: Sequence[Segment], log_start_offset: int, upper_bound: int) -> Iterator[AbortedTxn]:
    """Yield what the transaction indexes of `segments` say, until they tell of nothing that starts below `upper_bound`.

    Transactions whose marker lies before the log start offset are left out. All offsets are absolute. Raises OSError,
    CorruptIndexError.
    """
    for segment in segments:
        if not segment.has(names.TXN_INDEX):
            continue
        with segment.txn_index() as index:
            for txn in index:
                check_aborted_txn_version(txn, index.path)
                if txn.last_offset >= log_start_offset and txn.first_offset < upper_bound:
                    yield txn
                if txn.last_stable_offset >= upper_bound:
                    return
