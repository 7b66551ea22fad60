"""How the batches of a log change what the broker knows of the producers.

Between two markers only the last batch of each producer counts, so a range of data batches is taken at once, out of
the columns of a block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import groupby

from kdump import kernels
from kdump.blocks import BatchBlock
from kdump.errors import INVALID_TXN_STATE, LoadError
from kdump.formats.batch import CONTROL, TRANSACTIONAL
from kdump.recovery.producer_state import ProducerStates, never_started
from kdump.storage.planned_log import LogView
from kdump.txns.producers import (
    CompletedTxn,
    NotInTransaction,
    PendingProducers,
    ProducerTable,
    TransactionOpened,
)

_KIND = CONTROL | TRANSACTIONAL


class ProducerBatches:
    """Takes the batches of one .log in order; a subclass says what it means that a transaction ends."""

    def __init__(
        self, table: ProducerTable | PendingProducers, log: LogView, partition: str, *, short_markers_end: bool
    ) -> None:
        """Change `table` by the batches of `log`; `partition` is the partition's name in Kafka's texts."""
        self._short_markers_end = short_markers_end
        self.log = log
        self.partition = partition
        self._table = table

    def apply(self, block: BatchBlock, first: int, stop: int) -> None:
        """Take the rows from `first` up to `stop`. Raises LoadError; InvalidMarkerError once the rows before are in."""
        if first == stop or kernels.column_stats(block.producer_id[first:stop])[1] < 0:
            return
        row = first
        for kind, run in groupby([attributes & _KIND for attributes in block.attributes[first:stop]]):
            end = row + len(list(run))
            if kind & CONTROL:
                for marker_row in range(row, end):
                    with _naming(block, marker_row):
                        self._control(block, marker_row)
            else:
                self._data(block, row, end, bool(kind))
            row = end

    def _complete(self, txn: CompletedTxn) -> None:
        """End a transaction."""
        raise NotImplementedError

    def _data(self, block: BatchBlock, first: int, stop: int, is_transactional: bool) -> None:
        ids = block.producer_id[first:stop]
        rows = range(first, stop)
        first_rows = dict(zip(reversed(ids), reversed(rows), strict=True))
        for producer_id, row in dict(zip(ids, rows, strict=True)).items():
            if producer_id < 0:
                continue
            producer = self._table.producer(producer_id)
            begins = first_rows[producer_id]
            base_offset = block.base_offset[begins]
            match producer.join_txn(base_offset, is_transactional=is_transactional):
                case NotInTransaction():
                    with _naming(block, begins):
                        raise self._outside_txn(base_offset, producer_id)
                case TransactionOpened():
                    self._table.begin(producer_id, base_offset)
            producer.take_batch(
                block.producer_epoch[row],
                block.base_sequence[row],
                block.base_offset[row],
                block.last_offset[row],
                block.max_timestamp[row],
            )

    def _control(self, block: BatchBlock, row: int) -> None:
        from kdump.recovery.markers import read_marker

        producer_id = block.producer_id[row]
        if producer_id < 0:
            return
        marker = read_marker(self.log, block, row, short_ends=self._short_markers_end)
        producer = self._table.producer(producer_id)  # which Kafka knows from then on, also by an empty batch
        if marker is None:
            return
        ended = producer.take_marker(block.producer_epoch[row], marker.coordinator_epoch, marker.timestamp)
        if ended:
            txn = CompletedTxn(producer_id, ended.first_offset, block.base_offset[row], marker.is_abort)
            self._complete(txn)

    def _outside_txn(self, offset: int, producer_id: int) -> LoadError:
        text = (
            f"Expected transactional write from producer {producer_id} at offset (offset={offset}, segment=[-1:-1]) in"
            f" partition {self.partition}"
        )
        return LoadError(INVALID_TXN_STATE, text, self.log.name)


class RecoveredBatches(ProducerBatches):
    """Every batch counts at once, and `on_abort` is told every aborted transaction with the last stable offset."""

    def __init__(
        self, states: ProducerStates, log: LogView, partition: str, on_abort: Callable[[CompletedTxn, int], None]
    ) -> None:
        super().__init__(states, log, partition, short_markers_end=states.short_markers_end)
        self._states = states
        self._on_abort = on_abort

    def _complete(self, txn: CompletedTxn) -> None:
        if txn.is_abort:
            self._on_abort(txn, self._states.stable_after(txn))
        if not self._states.end(txn):
            raise never_started(txn, self.partition, self.log.name)


class LoadedBatches(ProducerBatches):
    """Nothing counts before `finish`."""

    def __init__(self, states: ProducerStates, log: LogView, partition: str) -> None:
        self._pending = PendingProducers(states)
        super().__init__(self._pending, log, partition, short_markers_end=states.short_markers_end)

    def finish(self) -> None:
        """Let everything count. Raises LoadError."""
        for txn in self._pending.apply():
            raise never_started(txn, self.partition, self.log.name)

    def _complete(self, txn: CompletedTxn) -> None:
        self._pending.end(txn)


@contextmanager
def _naming(block: BatchBlock, row: int) -> Iterator[None]:
    """Let a LoadError tell which batch it is about."""
    try:
        yield
    except LoadError as error:
        error.batch = (block.position[row], block.size[row])
        raise
