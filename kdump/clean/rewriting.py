"""Copy a segment into a new one without what the cleaner drops."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import NamedTuple

from kdump import kernels
from kdump.blocks import BatchBlock
from kdump.clean.batches import emptied, mixes_formats, rebuilt, unchanged
from kdump.clean.new_segment import NO_TIMESTAMP, NewSegment, Written
from kdump.clean.offset_map import OffsetMap, Progress, control_type
from kdump.clean.read_buffer import ReadBuffer
from kdump.clean.reading import read_batches
from kdump.clean.state import PartitionState
from kdump.clean.transactions import Transactions
from kdump.errors import CleaningError
from kdump.formats.batch import CONTROL, TRANSACTIONAL
from kdump.kernels.batch_verdicts import GONE, OTHER
from kdump.kernels.verdicts import DISCARDED, EXPIRED, KEYLESS, RETAINED, RETAINED_TOMBSTONE, SUPERSEDED
from kdump.settings.cleaning import CleaningSettings
from kdump.storage.decoded import DecodedRows, delete_horizon
from kdump.storage.facts import SegmentFacts
from kdump.storage.log_reader import LogFile

_TRANSACTIONS = CONTROL | TRANSACTIONAL


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


class Rewritten(NamedTuple):
    """The batches of the rows from `first` on that are copied or rebuilt, as kdump.kernels.rewrite gives them."""

    data: bytearray
    kinds: bytearray
    ends: array[int]
    max_offset: array[int]
    max_timestamp: array[int]
    first_horizon: int | None
    first: int

    def start(self, row: int) -> int:
        """Return where in the data a row begins; those of which nothing stays are where the next one begins."""
        return self.ends[row - self.first - 1] if row > self.first else 0

    def row_beyond(self, size: int, row: int, stop: int) -> int:
        """Return the row after the first one, from `row` on, to reach beyond `size` bytes of data; at most `stop`."""
        beyond = bisect_right(self.ends, size, row - self.first, stop - self.first)
        return min(self.first + beyond + 1, stop)

    def between(self, block: BatchBlock, row: int, stop: int) -> tuple[bytearray, Written, int]:
        """Return the data with the rows from `row` up to `stop`, what they amount to, and their first byte in it."""
        start, end = self.start(row), self.start(stop)
        timestamps = self.max_timestamp[row - self.first : stop - self.first]
        largest = max(timestamps, default=NO_TIMESTAMP)
        offset = block.last_offset[row + timestamps.index(largest)]
        last = max(self.max_offset[row - self.first : stop - self.first])
        return self.data, Written(end - start, last, largest, offset), start


class Rewriting:
    """The state of one pass that goes from segment to segment."""

    def __init__(
        self,
        state: PartitionState,
        config: CleaningSettings,
        found: OffsetMap,
        buffer: ReadBuffer,
        now: int,
        progress: Progress,
    ) -> None:
        self.transactions = Transactions()
        self.counts = Counts()
        self._last_records = state.last_records
        at_high_watermark = config.keeps_batch_at_high_watermark
        self._upper_bound = state.high_watermark if at_high_watermark else state.first_uncleanable_offset
        self._config = config
        self._map = found
        self._buffer = buffer
        self._now = now
        self._horizon = now + config.delete_retention_ms
        self._progress = progress
        self._target: NewSegment  # which copy() sets

    def copy(self, facts: SegmentFacts, target: NewSegment, keeps_legacy_tombstones: bool) -> None:
        """Copy a segment into `target`. Raises OSError, CleaningError, CodecError."""
        self._target = target
        self._buffer.start(0)
        found = self._map
        taken = found.taken.get(facts.base_offset, range(0))
        with facts.segment.open_log() as log:
            limit = self._config.max_decompressed_message_bytes
            for batches in read_batches(log, facts.base_offset, max_record_bytes=limit):
                block, first, stop, records, payloads = batches
                verdicts = found.keys.classify(
                    block,
                    records,
                    first,
                    payloads,
                    found.latest_offset,
                    self._now,
                    keeps_legacy_tombstones,
                    bisect_left(block.position, taken.start, first, stop),
                    bisect_left(block.position, taken.stop, first, stop),
                )
                self._copy(log, batches, verdicts)
                size = block.position[stop - 1] + block.size[stop - 1] - block.position[first]
                self.counts.size_before += size
                self._progress(log.path, size)
            target.end_chunk()
        self._buffer.restore()

    def _copy(self, log: LogFile, batches: DecodedRows, verdicts: bytearray) -> None:
        """Write what stays of batches, now that it is known what becomes of each record as far as its key tells."""
        block, first, stop, records, _ = batches
        markers = self._judge_transactions(batches, verdicts)
        rewritten = Rewritten(*kernels.rewrite(block, records, first, stop, verdicts, self._horizon), first)
        waiting = first  # rows from here on have not been written yet
        for row in self._rows_apart(block, rewritten):
            self._put(block, rewritten, waiting, row)
            self._put_apart(log, batches, row, verdicts, markers)
            waiting = row + 1
        self._put(block, rewritten, waiting, stop)
        self._count(batches, verdicts, rewritten)

    def _judge_transactions(self, batches: DecodedRows, verdicts: bytearray) -> dict[int, bool]:
        """Change `verdicts` where a transaction decides, not a key; of control batches: whether they end nothing."""
        block, first, stop = batches.block, batches.first, batches.stop
        markers: dict[int, bool] = {}
        if self.transactions.is_idle and not any(map(_TRANSACTIONS.__and__, block.attributes[first:stop])):
            return markers
        for row, start, end in batches.rows():
            is_new = block.magic[row] >= 2
            if is_new and block.attributes[row] & CONTROL:
                markers[row] = self._judge_marker(batches, row, start, end, verdicts)
                continue
            transactional = is_new and bool(block.attributes[row] & TRANSACTIONAL)
            if self.transactions.discards_data(block.last_offset[row], block.producer_id[row], transactional):
                verdicts[start:end] = bytes((DISCARDED,)) * (end - start)
                self.counts.aborted += end - start
        return markers

    def _judge_marker(self, batches: DecodedRows, row: int, start: int, end: int, verdicts: bytearray) -> bool:
        """Decide on a control batch, whose key does not count; whether nothing is left of what it ends."""
        block, records = batches.block, batches.records
        type_ = control_type(batches, row, start, end)
        ends_nothing, txn = self.transactions.discards_marker(block.last_offset[row], block.producer_id[row], type_)
        if txn:
            self._target.note_aborted(txn)
        horizon = delete_horizon(block, row)
        is_over = ends_nothing and horizon is not None and horizon <= self._now
        for at in range(start, end):
            stays = RETAINED_TOMBSTONE if records.value_length[at] < 0 else RETAINED
            verdicts[at] = DISCARDED if is_over else stays
        self.counts.markers += end - start if is_over else 0
        return ends_nothing

    def _rows_apart(self, block: BatchBlock, rewritten: Rewritten) -> list[int]:
        """Return the rows that the kernel does not decide on, and those that stay with nothing left."""
        first, kinds = rewritten.first, rewritten.kinds
        may_stay = self._last_records or self._upper_bound - 1 in block.last_offset[first : first + len(kinds)]
        if not (may_stay and GONE in kinds) and OTHER not in kinds:
            return []
        return [
            row
            for row, kind in enumerate(kinds, first)
            if kind == OTHER or (kind == GONE and may_stay and self._has_to_stay(block, row))
        ]

    def _put(self, block: BatchBlock, rewritten: Rewritten, row: int, stop: int) -> None:
        """Write rows that the kernel decided on, chunk by chunk."""
        buffer, target = self._buffer, self._target
        while row < stop:
            if buffer.begins(block.position[row], block.size[row]):
                target.end_chunk()
            end = bisect_right(block.position, buffer.limit, row, stop)
            if block.position[end - 1] + block.size[end - 1] > buffer.limit:
                end -= 1
            end = rewritten.row_beyond(rewritten.start(row) + buffer.size - target.chunk_size, row, end)
            target.put(*rewritten.between(block, row, end))
            self._end_large_chunk(block, end - 1)
            row = end

    def _put_apart(
        self, log: LogFile, batches: DecodedRows, row: int, verdicts: bytearray, markers: dict[int, bool]
    ) -> None:
        """Decide on a row that the kernel did not decide on, and write what is left of it. Raises CleaningError."""
        block, target = batches.block, self._target
        if self._buffer.begins(block.position[row], block.size[row]):
            target.end_chunk()
        start, end = batches.span(row)
        tombstones = verdicts.count(RETAINED_TOMBSTONE, start, end)
        kept = verdicts.count(RETAINED, start, end) + tombstones
        if not kept:
            self._put_emptied(log, block, row)
            return
        horizon = delete_horizon(block, row)
        converts = block.magic[row] < 2 and self._config.converts_legacy
        is_due = horizon is None and (block.magic[row] >= 2 or converts) and (tombstones or markers.get(row, False))
        if is_due:
            horizon = self._horizon
        if tombstones and horizon is not None:
            self._note_horizon(horizon)
        self.counts.converted += converts
        self.counts.batches_after += 1
        if kept == end - start and not is_due and not converts and not mixes_formats(batches, row):
            target.put(*unchanged(block, row))
        else:
            target.put(*rebuilt(batches, row, range(start, end), verdicts, kept, horizon, converts=converts))
        self._end_large_chunk(block, row)

    def _put_emptied(self, log: LogFile, block: BatchBlock, row: int) -> None:
        """Write the header of a batch with nothing left, if it has to stay."""
        if not self._has_to_stay(block, row):
            return
        if block.magic[row] < 2:
            raise CleaningError(
                f"{log.path} at byte {block.position[row]}: nothing is left of a batch of format"
                f" v{block.magic[row]} that has to stay for its offset {block.last_offset[row]}, where Kafka's"
                " cleaner fails (Empty batches are only supported for magic v2 and above)"
            )
        self._target.put(*emptied(block, row))
        self.counts.batches_after += 1
        self.counts.emptied += 1
        self._end_large_chunk(block, row)

    def _end_large_chunk(self, block: BatchBlock, row: int) -> None:
        """End, after this row, a chunk that has become larger than what it was made of."""
        target = self._target
        if target.chunk_size > self._buffer.size:
            target.end_chunk()
            self._buffer.start(block.position[row] + block.size[row])

    def _note_horizon(self, horizon: int) -> None:
        """Note that some tombstones stay until then."""
        counts = self.counts
        if counts.first_horizon is None or horizon < counts.first_horizon:
            counts.first_horizon = horizon

    def _count(self, batches: DecodedRows, verdicts: bytearray, rewritten: Rewritten) -> None:
        """Count what became of these batches' records."""
        counts, kinds = self.counts, rewritten.kinds
        counts.batches_before += batches.stop - batches.first
        counts.batches_after += len(kinds) - kinds.count(GONE) - kinds.count(OTHER)
        counts.records_before += len(verdicts)
        tombstones = verdicts.count(RETAINED_TOMBSTONE)
        kept = verdicts.count(RETAINED) + tombstones
        counts.records_after += kept
        counts.tombstones += tombstones
        if kept < len(verdicts):
            keyless = verdicts.count(KEYLESS)
            counts.superseded += verdicts.count(SUPERSEDED)
            counts.expired += verdicts.count(EXPIRED)
            counts.keyless += keyless
            if keyless and counts.first_keyless < 0:
                counts.first_keyless = batches.records.offset[verdicts.index(KEYLESS)]
        if rewritten.first_horizon is not None:
            self._note_horizon(rewritten.first_horizon)

    def _has_to_stay(self, block: BatchBlock, row: int) -> bool:
        """Return whether the header of a batch stays when nothing else of it does."""
        return block.last_offset[row] + 1 == self._upper_bound or self._is_last_of_producer(block, row)

    def _is_last_of_producer(self, block: BatchBlock, row: int) -> bool:
        """Return whether it is the last that is known of an active producer, whose state must not be lost with it."""
        producer_id = block.producer_id[row]
        last = self._last_records.get(producer_id) if producer_id >= 0 else None
        if last is None:
            return False
        if last.last_offset >= 0:
            return block.last_offset[row] == last.last_offset
        return bool(block.attributes[row] & CONTROL) and block.producer_epoch[row] == last.producer_epoch
