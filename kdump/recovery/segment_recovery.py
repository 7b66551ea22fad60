"""Recover one segment as Kafka does: check its batches, rebuild indexes, note epochs and producers, cut the rest."""

from __future__ import annotations

from kdump import kernels
from kdump.blocks import BatchBlock
from kdump.errors import ILLEGAL_ARGUMENT, InvalidMarkerError, LoadError, OffsetOverflowError
from kdump.formats import names
from kdump.formats.batch import wrap64
from kdump.formats.index_entries import ABORTED_TXN_VERSION, AbortedTxn, encode_aborted_txns
from kdump.recovery.outcome import TRUNCATE, Loss, Step, total_loss
from kdump.recovery.producer_batches import RecoveredBatches
from kdump.recovery.producer_state import ProducerStates
from kdump.recovery.segments import LoadedSegment, fits
from kdump.settings.loading import LoadingSettings
from kdump.storage.leader_epochs import EpochCache
from kdump.storage.planned_log import LogView
from kdump.storage.scan import MAX_RELATIVE_OFFSET, first_bad
from kdump.storage.segment_indexes import SegmentIndexes
from kdump.txns.producers import CompletedTxn


class SegmentRecovery:
    """The recovery of one segment, to be `run` once."""

    def __init__(
        self,
        segment: LoadedSegment,
        config: LoadingSettings,
        states: ProducerStates,
        epochs: EpochCache | None,
        partition: str,
    ) -> None:
        """`states` must be those at the segment's base offset; `partition` names it in Kafka's texts."""
        self.segment = segment
        self.config = config
        self.states = states
        self.epochs = epochs
        self.partition = partition
        self.indexes = SegmentIndexes(
            segment.base_offset, config.segment_index_bytes, config.index_interval_bytes, segment.directory.full
        )
        self.aborted: list[AbortedTxn] = []
        self.valid_bytes = 0
        self._marker_error: InvalidMarkerError | None = None
        self._cut_loss = Loss()

    def run(self) -> Step | None:
        """Recover; the step that cuts the .log, if it has to be cut. Raises LoadError, OSError.

        Where it raises, the files are left as Kafka would leave them half-way.
        """
        segment = self.segment
        segment.open_index(names.OFFSET_INDEX)
        segment.open_index(names.TIME_INDEX)
        txn_index = segment.file(names.TXN_INDEX)
        if segment.directory.exists(txn_index):
            segment.directory.write(txn_index, b"")
        with segment.open_log() as log:
            try:
                self._walk(log)
                step = self._cut(log)
                self.indexes.finish()
            finally:
                self._store()
        segment.close()
        return step

    def empty(self) -> tuple[int, Loss]:
        """Truncate the segment to its base offset, after `run` has raised InvalidOffsetError.

        Gives the number of bytes cut and all that is lost, with what `run` cut before. Nothing is left unless an
        index entry names the base offset itself. Raises LoadError, OSError.
        """
        from kdump.recovery.losses import count_loss

        segment, directory = self.segment, self.segment.directory
        loss = Loss()
        with segment.open_log() as log:
            position = segment.find(log, segment.base_offset)
            if position is not None:
                loss, _ = count_loss(log, segment.base_offset, position)
                directory.cut(log.name, position)
        self.aborted.clear()
        if directory.exists(segment.file(names.TXN_INDEX)):
            directory.write(segment.file(names.TXN_INDEX), b"")
        had_timestamps = self.indexes.max_timestamp >= 0
        self.indexes.begin()
        if had_timestamps:
            with segment.open_log() as log:
                for block in log.blocks():
                    self.indexes.note_max_timestamp(block, 0, block.length)
            self.indexes.finish()
        self._store()
        segment.close()
        return loss.bytes, total_loss((self._cut_loss, loss))

    def _walk(self, log: LogView) -> None:
        batches = RecoveredBatches(self.states, log, self.partition, self._abort)
        for block in log.blocks(gathers=True):
            stop = first_bad(block)
            self._take(log, block, stop, batches)
            if stop < block.length or self._marker_error:
                return

    def _take(self, log: LogView, block: BatchBlock, stop: int, batches: RecoveredBatches) -> None:
        """Take the valid rows of a block, in the order in which Kafka would find something wrong with them."""
        limit = self._first_overflow(block, stop)
        error: LoadError | None = None
        if limit < stop:
            error = OffsetOverflowError(block.last_offset[limit], self.segment.base_offset, log.name)
        before = self.indexes.state()
        invalid_row, invalid = self.indexes.add(block, limit)
        if invalid:
            limit, error = invalid_row, invalid
        try:
            batches.apply(block, 0, limit)
        except InvalidMarkerError as marker_error:
            self._end_map(block, marker_error.row)
            limit = marker_error.row + 1
            self._marker_error, error = marker_error, None
            self.indexes.restore(before)
            self.indexes.add(block, limit)
        else:
            self._end_map(block, limit)
        self._assign_epochs(log, block, limit)
        if limit:
            self.valid_bytes = block.position[limit - 1] + block.size[limit - 1]
        if error:
            try:
                raise error
            finally:
                del error, invalid  # else they and their traceback would keep each other, and the block, alive

    def _first_overflow(self, block: BatchBlock, stop: int) -> int:
        """Return the first row whose last offset is too far from the base offset; `stop` without any."""
        base = self.segment.base_offset
        last_offsets = block.last_offset[:stop]
        if not last_offsets:
            return stop
        lowest, largest, *_ = kernels.column_stats(last_offsets)
        if lowest >= base and largest - base <= MAX_RELATIVE_OFFSET:
            return stop
        return next((row for row, offset in enumerate(last_offsets) if not fits(offset, base)), stop)

    def _end_map(self, block: BatchBlock, stop: int) -> None:
        """Move the end of the producer state behind the last v2 batch before row `stop`."""
        for row in range(stop - 1, -1, -1):
            if block.magic[row] >= 2:
                self.states.map_end_offset = wrap64(block.last_offset[row] + 1)
                return

    def _assign_epochs(self, log: LogView, block: BatchBlock, stop: int) -> None:
        epochs = self.epochs
        leader_epochs = block.leader_epoch[:stop]
        if epochs is None or not leader_epochs or kernels.column_stats(leader_epochs)[1] <= epochs.latest_epoch:
            return
        for row, epoch in enumerate(leader_epochs):
            if epoch > epochs.latest_epoch:
                epochs.assign(epoch, block.base_offset[row], log.name)

    def _abort(self, txn: CompletedTxn, last_stable_offset: int) -> None:
        """Add an aborted transaction to the .txnindex. Raises LoadError where the markers' offsets do not increase."""
        name = self.segment.file(names.TXN_INDEX)
        if self.aborted and self.aborted[-1].last_offset >= txn.last_offset:
            text = (
                f"The last offset of appended transactions must increase sequentially, but {txn.last_offset} is not"
                f" greater than current last offset {self.aborted[-1].last_offset} of index"
                f" {self.segment.directory.full(name)}"
            )
            raise LoadError(ILLEGAL_ARGUMENT, text, name)
        offsets = txn.first_offset, txn.last_offset, last_stable_offset
        self.aborted.append(AbortedTxn(ABORTED_TXN_VERSION, txn.producer_id, *offsets))

    def _cut(self, log: LogView) -> Step | None:
        if log.size <= self.valid_bytes:
            return None
        from kdump.recovery.losses import count_loss

        loss, damage = count_loss(log, self.segment.base_offset, self.valid_bytes)
        why = str(self._marker_error) if self._marker_error else damage or "what follows is not a complete batch"
        self.segment.directory.cut(log.name, self.valid_bytes)
        self._cut_loss = loss
        return Step(TRUNCATE, log.name, why, position=self.valid_bytes, size=self.valid_bytes, loss=loss)

    def _store(self) -> None:
        """Put the indexes as they are into the files, which have their full size until they are trimmed."""
        segment, directory = self.segment, self.segment.directory
        for kind, index in ((names.OFFSET_INDEX, self.indexes.offsets), (names.TIME_INDEX, self.indexes.times)):
            directory.write(index.name, index.content(), index.full_size)
            segment.entries[kind] = len(index)
        if self.aborted:
            directory.write(segment.file(names.TXN_INDEX), encode_aborted_txns(self.aborted))
