"""Which record keeps a segment from being old enough, and what is odd about its timestamp."""

from __future__ import annotations

from array import array
from dataclasses import dataclass

from kdump.formats.batch import LOG_APPEND_TIME
from kdump.formats.time_units import unit_of
from kdump.retention.segments import SegmentState
from kdump.storage.damage import Damage
from kdump.storage.log_reader import LogFile
from kdump.storage.records import Record, records_of
from kdump.storage.scan import scan


@dataclass(frozen=True, slots=True)
class BlockingBatch:
    """The first batch with the largest timestamp of a segment. Offsets are absolute, timestamps in ms, sizes in bytes.

    `record_offset` is that of its first record with that timestamp, None where the records cannot be read;
    `producer_id` is -1 without an idempotent producer. `unit` is the one that the timestamp seems to be in where that
    is not ms (seconds, microseconds or nanoseconds). Of the segment's `batches`, `young` keep it from being old enough;
    `largest_of_others` (-1 none) is the largest timestamp of the rest.
    """

    timestamp: int
    position: int
    size: int
    base_offset: int
    last_offset: int
    record_offset: int | None
    producer_id: int
    producer_epoch: int
    is_append_time: bool
    unit: str | None
    batches: int
    young: int
    largest_of_others: int


def find_blocking_batch(state: SegmentState, now: int, limit_ms: int) -> BlockingBatch | None:
    """Return the batch that holds a segment at `now` (ms), `limit_ms` being retention.ms; None without timestamps.

    It is the one with the largest timestamp that the batches have, whatever the time index says. Raises OSError.
    """
    tally = _Tally(now, limit_ms)
    with state.segment.open_log() as log:
        for part in scan(log, state.base_offset, whole=False):
            if not isinstance(part, Damage):
                tally.add(part.block.max_timestamp[part.first : part.stop], part.block.position, part.first)
        if tally.largest < 0:
            return None
        return _blocking_batch(log, tally, unit_of(tally.largest, now))


class _Tally:
    """The largest timestamp so far and where it is; how many batches are young, and the largest of the others."""

    def __init__(self, now: int, limit_ms: int) -> None:
        self.oldest_young = now - limit_ms
        self.largest = self.others = self.position = -1
        self.batches = self.young = 0

    def add(self, timestamps: array[int], positions: array[int], first: int) -> None:
        self.batches += len(timestamps)
        largest = max(timestamps)
        if largest > self.largest:
            self.largest = largest
            self.position = positions[first + timestamps.index(largest)]
        if largest < self.oldest_young:
            self.others = max(self.others, largest)
            return
        for timestamp in timestamps:
            if timestamp >= self.oldest_young:
                self.young += 1
            else:
                self.others = max(self.others, timestamp)


def _blocking_batch(log: LogFile, tally: _Tally, unit: str | None) -> BlockingBatch:
    block = log.batch_at(tally.position, log.entry_at(tally.position, log.size).size)
    base_offset, last_offset = block.base_offset[0], block.last_offset[0]
    records = (item for item in records_of(block) if isinstance(item, Record) and item.timestamp == tally.largest)
    record = next(records, None)
    return BlockingBatch(
        tally.largest,
        tally.position,
        block.size[0],
        last_offset if base_offset < 0 else base_offset,
        last_offset,
        record.offset if record else None,
        block.producer_id[0],
        block.producer_epoch[0],
        block.magic[0] > 0 and bool(block.attributes[0] & LOG_APPEND_TIME),
        unit,
        tally.batches,
        tally.young,
        tally.others,
    )
