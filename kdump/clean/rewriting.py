"""Copy a segment into a new one without what the cleaner drops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from kdump.blocks import BatchBlock
from kdump.clean.batches import emptied, mixes_formats, rebuilt
from kdump.clean.config import CleanerConfig
from kdump.clean.errors import CleaningError
from kdump.clean.new_segment import NewSegment, Written
from kdump.clean.offset_map import OffsetMap, Progress, control_type
from kdump.clean.read_buffer import ReadBuffer
from kdump.clean.reading import Batches, read_batches
from kdump.clean.state import PartitionState, SegmentFacts
from kdump.clean.transactions import Transactions
from kdump.formats.batch import CONTROL, DELETE_HORIZON, TRANSACTIONAL
from kdump.kernels.fates import DISCARDED, EXPIRED, KEPT, KEPT_TOMBSTONE, KEYLESS, SUPERSEDED
from kdump.storage.log_file import LogFile


@dataclass(slots=True)
class Counts:
    """What a pass met and what it did with it. Sizes in bytes, times in ms.

    `superseded` records had a later value, `expired` were tombstones whose horizon was reached, `keyless` had no key,
    `aborted` belonged to aborted transactions, `markers` ended transactions of which nothing was left. `tombstones`
    stay, until `first_horizon` at the earliest; those of format v0 and v1 have none. `emptied` batches stay without
    records, `converted` ones changed from format v0 or v1 to v2. `first_keyless` is an offset, -1 without one.
    """

    size_before: int = 0
    size_after: int = 0
    batches_before: int = 0
    batches_after: int = 0
    records_before: int = 0
    records_after: int = 0
    superseded: int = 0
    expired: int = 0
    keyless: int = 0
    aborted: int = 0
    markers: int = 0
    tombstones: int = 0
    emptied: int = 0
    converted: int = 0
    first_horizon: int | None = None
    first_keyless: int = -1


class Rewriting:
    """The state of one pass that goes from segment to segment."""

    def __init__(
        self,
        state: PartitionState,
        config: CleanerConfig,
        found: OffsetMap,
        buffer: ReadBuffer,
        now: int,
        progress: Progress,
    ) -> None:
        self.transactions = Transactions()
        self.counts = Counts()
        self._last_records = state.last_records
        self._upper_bound = state.first_uncleanable_offset
        self._config = config
        self._map = found
        self._buffer = buffer
        self._now = now
        self._horizon = now + config.delete_retention_ms
        self._progress = progress
        self._target: NewSegment | None = None

    def copy(self, facts: SegmentFacts, target: NewSegment, keeps_legacy_tombstones: bool) -> None:
        """Copy a segment into `target`. Raises OSError, CleaningError, CodecError."""
        self._target = target
        self._buffer.start(0)
        with facts.segment.open_log() as log:
            for batches in read_batches(log, facts.base_offset):
                self._copy(log, batches, keeps_legacy_tombstones)
                block, last = batches.block, batches.stop - 1
                size = block.position[last] + block.size[last] - block.position[batches.first]
                self.counts.size_before += size
                self._progress(log.path, size)
            target.end_chunk()
        self._buffer.restore()

    def _copy(self, log: LogFile, batches: Batches, keeps_legacy_tombstones: bool) -> None:
        block, first, stop, payloads, records = batches
        buffer, target = self._buffer, self._target
        assert target is not None
        fates = self._map.keys.sift(
            block, records, first, payloads, self._map.latest_offset, self._now, keeps_legacy_tombstones
        )
        waiting = first  # rows from here on stay as they are, and are not written yet
        for row, start, end in batches.rows():
            position, size = block.position[row], block.size[row]
            if buffer.begins(position, size):
                self._put_unchanged(batches, waiting, row)
                waiting = row
                target.end_chunk()
            fate = self._judge(batches, row, start, end, fates)
            if fate.stays_unchanged:
                waiting_size = position + size - block.position[waiting]
            else:
                if waiting < row:
                    self._put_unchanged(batches, waiting, row)
                waiting, waiting_size = row + 1, 0
                self._put_changed(log, batches, row, start, end, fates, fate)
            if target.chunk_size + waiting_size > buffer.size:
                self._put_unchanged(batches, waiting, row + 1)
                waiting = row + 1
                target.end_chunk()
                buffer.start(position + size)
        self._put_unchanged(batches, waiting, stop)
        self._count(batches, fates)

    def _judge(self, batches: Batches, row: int, start: int, end: int, fates: bytearray) -> _BatchFate:
        """Decide on a batch; `fates` of its records are changed where something else than their keys decides."""
        block, counts = batches.block, self.counts
        magic, attributes = block.magic[row], block.attributes[row]
        is_plain = magic >= 2 and not attributes & (CONTROL | TRANSACTIONAL) and self.transactions.is_idle
        if is_plain and fates.count(KEPT, start, end) == end - start > 0:
            return _UNCHANGED
        horizon = block.base_timestamp[row] if magic >= 2 and attributes & DELETE_HORIZON else None
        if magic >= 2 and attributes & CONTROL:
            ends_nothing = self._judge_marker(batches, row, start, end, fates, horizon)
        else:
            ends_nothing = False
            self._judge_data(batches, row, start, end, fates)
        tombstones = fates.count(KEPT_TOMBSTONE, start, end)
        kept = fates.count(KEPT, start, end) + tombstones
        if not kept:
            if block.last_offset[row] + 1 == self._upper_bound or self._is_last_of_producer(block, row):
                counts.emptied += 1
                return _EMPTIED
            counts.batches_after -= 1
            return _GONE
        converts = magic < 2 and self._config.converts_legacy
        is_due = horizon is None and (magic >= 2 or converts) and (tombstones > 0 or ends_nothing)
        if is_due:
            horizon = self._horizon
        if tombstones and horizon is not None and (counts.first_horizon is None or horizon < counts.first_horizon):
            counts.first_horizon = horizon
        counts.converted += converts
        unchanged = kept == end - start and not is_due and not converts and not self._is_mixed(batches, row)
        return _BatchFate(unchanged, horizon, kept)

    def _judge_marker(
        self, batches: Batches, row: int, start: int, end: int, fates: bytearray, horizon: int | None
    ) -> bool:
        """Decide on a control batch, whose key does not count; whether nothing is left of what it ends."""
        block, records = batches.block, batches.records
        type_ = control_type(batches, row, start, end)
        ends_nothing, txn = self.transactions.discards_marker(block.last_offset[row], block.producer_id[row], type_)
        if txn and self._target:
            self._target.note_aborted((txn,))
        is_over = ends_nothing and horizon is not None and horizon <= self._now
        for at in range(start, end):
            stays = KEPT_TOMBSTONE if records.value_length[at] < 0 else KEPT
            fates[at] = DISCARDED if is_over else stays
        self.counts.markers += end - start if is_over else 0
        return ends_nothing

    def _judge_data(self, batches: Batches, row: int, start: int, end: int, fates: bytearray) -> None:
        """Drop the records of a data batch if its transaction was aborted."""
        block = batches.block
        transactional = block.magic[row] >= 2 and bool(block.attributes[row] & TRANSACTIONAL)
        if self.transactions.discards_data(block.last_offset[row], block.producer_id[row], transactional):
            fates[start:end] = bytes((DISCARDED,)) * (end - start)
            self.counts.aborted += end - start

    def _count(self, batches: Batches, fates: bytearray) -> None:
        """Count what became of these batches' records; of batches, those that are gone are not among the rest."""
        counts = self.counts
        counts.batches_before += batches.stop - batches.first
        counts.batches_after += batches.stop - batches.first
        counts.records_before += len(fates)
        tombstones = fates.count(KEPT_TOMBSTONE)
        kept = fates.count(KEPT) + tombstones
        counts.records_after += kept
        counts.tombstones += tombstones
        if kept < len(fates):
            keyless = fates.count(KEYLESS)
            counts.superseded += fates.count(SUPERSEDED)
            counts.expired += fates.count(EXPIRED)
            counts.keyless += keyless
            if keyless and counts.first_keyless < 0:
                counts.first_keyless = batches.records.offset[fates.index(KEYLESS)]

    def _is_last_of_producer(self, block: BatchBlock, row: int) -> bool:
        """Whether it is the last that is known of an active producer, whose state must not be lost with it."""
        producer_id = block.producer_id[row]
        last = self._last_records.get(producer_id) if producer_id >= 0 else None
        if last is None:
            return False
        if last.last_offset >= 0:
            return block.last_offset[row] == last.last_offset
        return bool(block.attributes[row] & CONTROL) and block.producer_epoch[row] == last.producer_epoch

    def _is_mixed(self, batches: Batches, row: int) -> bool:
        payload = batches.payload(row)
        return batches.block.magic[row] < 2 and payload is not None and mixes_formats(batches.block.magic[row], payload)

    def _put_unchanged(self, batches: Batches, first: int, stop: int) -> None:
        """Write rows that stay as they are."""
        if first >= stop:
            return
        block, target = batches.block, self._target
        assert target is not None
        start = block.position[first]
        end = block.position[stop - 1] + block.size[stop - 1]
        timestamps = block.max_timestamp[first:stop]
        largest = max(timestamps)
        offset = block.last_offset[first + timestamps.index(largest)]
        at = start - block.data_position
        data = memoryview(block.data)[at : at + end - start]
        target.put(data, Written(end - start, block.last_offset[stop - 1], largest, offset))

    def _put_changed(
        self, log: LogFile, batches: Batches, row: int, start: int, end: int, fates: bytearray, fate: _BatchFate
    ) -> None:
        """Write what is left of a batch. Raises CleaningError."""
        block, target = batches.block, self._target
        assert target is not None
        if fate.records:
            converts = self._config.converts_legacy
            target.put(*rebuilt(batches, row, start, end, fates, fate.records, fate.horizon, convert=converts))
        elif fate is _EMPTIED:
            if block.magic[row] < 2:
                raise CleaningError(
                    f"{log.path} at byte {block.position[row]}: nothing is left of a batch of format"
                    f" v{block.magic[row]} that has to stay for its offset {block.last_offset[row]}, where Kafka's"
                    " cleaner fails (Empty batches are only supported for magic v2 and above)"
                )
            target.put(*emptied(batches, row))


class _BatchFate(NamedTuple):
    """What becomes of a batch: so many of its records stay, under this delete horizon (ms) if it has one."""

    stays_unchanged: bool
    horizon: int | None
    records: int


_UNCHANGED = _BatchFate(True, None, 0)
_GONE = _BatchFate(False, None, 0)
_EMPTIED = _BatchFate(False, 0, 0)
