"""How the batches of a log change what the broker knows of the producers.

Between two markers only the last batch of each producer counts, so a stretch of data batches is taken at once, out of
the columns of a block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import groupby

from kdump import kernels
from kdump.blocks import BatchBlock
from kdump.errors import INVALID_TXN_STATE, LoadError
from kdump.formats.batch import CONTROL, TRANSACTIONAL, wrap64
from kdump.formats.sequences import last_sequence
from kdump.recovery.markers import read_marker
from kdump.recovery.producer_state import CompletedTxn, Producer, ProducerStates
from kdump.storage.planned_log import LogView

_KIND = CONTROL | TRANSACTIONAL


class ProducerBatches:
    """Takes the batches of one .log in order; a subclass says when they count."""

    def __init__(self, states: ProducerStates, log: LogView, partition: str) -> None:
        """Change `states` by the batches of `log`; `partition` is the partition's name in Kafka's texts."""
        self.states = states
        self.log = log
        self.partition = partition

    def apply(self, block: BatchBlock, first: int, stop: int) -> None:
        """Take the rows from `first` up to `stop`. Raises LoadError; InvalidMarkerError once the rows before are in."""
        if first == stop or kernels.survey(block.producer_id[first:stop])[1] < 0:
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

    def _producer(self, producer_id: int) -> Producer:
        """The state that a batch changes."""
        raise NotImplementedError

    def _start(self, producer_id: int, first_offset: int) -> None:
        """A transaction begins."""
        raise NotImplementedError

    def _complete(self, txn: CompletedTxn) -> None:
        """A transaction ends."""
        raise NotImplementedError

    def _data(self, block: BatchBlock, first: int, stop: int, transactional: bool) -> None:
        ids = block.producer_id[first:stop]
        rows = range(first, stop)
        first_rows = dict(zip(reversed(ids), reversed(rows), strict=True))
        for producer_id, row in dict(zip(ids, rows, strict=True)).items():
            if producer_id < 0:
                continue
            producer = self._producer(producer_id)
            begins = first_rows[producer_id]
            if producer.txn_first_offset >= 0 and not transactional:
                with _naming(block, begins):
                    raise self._outside_txn(block.base_offset[begins], producer_id)
            if producer.txn_first_offset < 0 and transactional:
                producer.txn_first_offset = block.base_offset[begins]
                self._start(producer_id, producer.txn_first_offset)
            producer.epoch = block.producer_epoch[row]
            producer.last_offset = block.last_offset[row]
            producer.offset_delta = wrap64(block.last_offset[row] - block.base_offset[row])
            producer.last_sequence = last_sequence(block.base_sequence[row], producer.offset_delta)
            producer.timestamp = block.max_timestamp[row]

    def _control(self, block: BatchBlock, row: int) -> None:
        producer_id = block.producer_id[row]
        if producer_id < 0:
            return
        marker = read_marker(self.log, block, row)
        if marker is None:
            return
        first_offset = self._producer(producer_id).end_txn(block.producer_epoch[row], marker)
        if first_offset >= 0:
            self._complete(CompletedTxn(producer_id, first_offset, block.base_offset[row], marker.is_abort))

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
        super().__init__(states, log, partition)
        self.on_abort = on_abort

    def _producer(self, producer_id: int) -> Producer:
        return self.states.producers.setdefault(producer_id, Producer())

    def _start(self, producer_id: int, first_offset: int) -> None:
        self.states.open_txns[first_offset] = producer_id

    def _complete(self, txn: CompletedTxn) -> None:
        if txn.is_abort:
            other = self.states.first_open_txn(txn.producer_id)
            self.on_abort(txn, txn.last_offset + 1 if other is None else other)
        self.states.complete(txn, self.partition, self.log.name)


class LoadedBatches(ProducerBatches):
    """Nothing counts before `finish`: then all producers change, and only after that transactions end."""

    def __init__(self, states: ProducerStates, log: LogView, partition: str) -> None:
        super().__init__(states, log, partition)
        self.pending: dict[int, Producer] = {}
        self.started: list[tuple[int, int]] = []
        self.completed: list[CompletedTxn] = []

    def finish(self) -> None:
        """Let everything count. Raises LoadError."""
        for producer_id, pending in self.pending.items():
            self.states.producers.setdefault(producer_id, Producer()).take(pending)
        for producer_id, first_offset in self.started:
            self.states.open_txns[first_offset] = producer_id
        for txn in self.completed:
            self.states.complete(txn, self.partition, self.log.name)

    def _producer(self, producer_id: int) -> Producer:
        producer = self.pending.get(producer_id)
        if producer is None:
            producer = self.states.producers.get(producer_id, Producer()).pending()
            self.pending[producer_id] = producer
        return producer

    def _start(self, producer_id: int, first_offset: int) -> None:
        self.started.append((producer_id, first_offset))

    def _complete(self, txn: CompletedTxn) -> None:
        self.completed.append(txn)


@contextmanager
def _naming(block: BatchBlock, row: int) -> Iterator[None]:
    """Let a LoadError tell which batch it is about."""
    try:
        yield
    except LoadError as error:
        error.batch = (block.position[row], block.size[row])
        raise
