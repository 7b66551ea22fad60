"""Timestamps: which cannot be meant, and what they do to retention.

Retention by time goes by a segment's largest timestamp, and stops at the first segment that it has to keep.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from kdump import kernels
from kdump.check.batch_findings import batch_offsets, found_in_batch
from kdump.check.batch_rows import BatchRows
from kdump.check.column_checks import is_uniform
from kdump.findings.filter import FindingFilter
from kdump.findings.finding import Finding, found
from kdump.formats.batch import CODEC_MASK, LOG_APPEND_TIME
from kdump.formats.iso_times import shown
from kdump.formats.time_units import FUTURE_MS, MS, PLAUSIBLE_FROM, unit_of
from kdump.formats.words import offset_range
from kdump.settings.retention import RetentionSettings
from kdump.storage.segment import Segment

TIME_CODES = (
    "KD-TIME-FUTURE",
    "KD-TIME-NEGATIVE",
    "KD-TIME-ABSENT",
    "KD-TIME-ORDER",
    "KD-TIME-TYPE",
    "KD-TIME-UNIT",
    "KD-TIME-HELD",
)
"""What is found when a segment is over."""

_DAY = 86_400_000
_ODD_TYPE = "the batch's timestamp type is not that of all the other batches of the segment"


@cache
def checks_times(wanted: FindingFilter) -> bool:
    """Return whether anything that is found when a segment is over is wanted."""
    return any(map(wanted.wants, TIME_CODES))


def distance(ms: int) -> str:
    """Return a length of time for people."""
    if ms < 2 * MS["min"]:
        return f"{ms // 1000} s"
    if ms < 2 * _DAY:
        return f"{ms / 3_600_000:.1f} hours"
    return f"{ms // _DAY} days" if ms < 1000 * _DAY else f"{ms // (365 * _DAY)} years"


class BlockingBatch(NamedTuple):
    """The batch by whose timestamp a segment is kept, or is to be told of: its fields as in kdump.blocks."""

    position: int
    size: int
    base_offset: int
    last_offset: int
    max_timestamp: int
    magic: int
    attributes: int
    producer_id: int

    def record(self, segment: Segment, limit: int | None) -> int | None:
        """Return the offset of the first record with the timestamp; None where only the whole batch can be named.

        `limit` bounds the bytes that the batch may decompress to; None: it is not decompressed. Raises OSError.
        """
        if self.attributes & LOG_APPEND_TIME and self.magic:
            return None
        if self.attributes & CODEC_MASK and limit is None:
            return None
        if self.base_offset == self.last_offset:
            return self.last_offset
        from kdump.storage.records import Record, records_of

        with segment.open_log() as log:
            block = log.batch_at(self.position, self.size)
        for record in records_of(block, limit=limit or 0):
            if isinstance(record, Record) and record.timestamp == self.max_timestamp:
                return record.offset
        return None


def _batch(rows: BatchRows, row: int) -> BlockingBatch:
    return BlockingBatch(*(getattr(rows, name)[row] for name in BlockingBatch._fields))


def _falls(times: array[int]) -> tuple[int, int]:
    """Return how many batches are older than the one before, and the first of them; without a timestamp none is."""
    older = [later >= 0 and earlier > later for earlier, later in pairwise(times)]
    return sum(older), older.index(True) + 1 if any(older) else -1


class _Tally:
    """How many batches have something, and the first of them with the timestamp that it is about."""

    __slots__ = ("count", "first", "timestamp")

    def __init__(self) -> None:
        self.count, self.timestamp = 0, -1

    def add(self, rows: BatchRows, row: int, timestamp: int) -> None:
        if not self.count:
            self.first, self.timestamp = _batch(rows, row), timestamp
        self.count += 1


class TimestampCheck:
    """Collects what is odd about a segment's timestamps and says it once for the segment."""

    def __init__(self, now: int, retention: RetentionSettings) -> None:
        """`now` is the clock, in ms."""
        self._now = now
        self._retention = retention
        self._path = ""
        self._reset()

    def _reset(self) -> None:
        self.largest = self._last = -1
        self.blocking: BlockingBatch | None = None
        self._future, self._negative, self._absent, self._order = _Tally(), _Tally(), _Tally(), _Tally()
        self._units: dict[str, _Tally] = {}
        self._batches = 0
        self._type: int | None = None  # of the batch before
        self._type_changes = 0
        self._odd_type: Finding | None = None  # about the first batch of another type

    def open_segment(self, path: str) -> None:
        """Go on with this segment."""
        self._path = path
        self._reset()

    def take(self, rows: BatchRows) -> None:
        """Take valid batches."""
        times = rows.max_timestamp
        self._batches += len(times)
        lowest, largest, falls, first_fall, _ = kernels.column_stats(times)
        if lowest < 0:
            falls, first_fall = _falls(times)
        if self._last > times[0] >= 0:
            self._order.add(rows, 0, times[0])
        if falls:
            self._order.add(rows, first_fall, times[first_fall])
            self._order.count += falls - 1
        self._last = times[-1]
        if largest > self.largest:
            self.largest, self.blocking = largest, _batch(rows, times.index(largest))
        if lowest < PLAUSIBLE_FROM or largest > self._now + FUTURE_MS:
            for row, timestamp in enumerate(times):
                if not PLAUSIBLE_FROM <= timestamp <= self._now + FUTURE_MS:
                    self._odd(rows, row, timestamp)
        if rows.base_timestamp != times:
            self._base_timestamps(rows)
        self._types(rows)

    def _base_timestamps(self, rows: BatchRows) -> None:
        if kernels.column_stats(rows.base_timestamp)[0] < -1:
            for row, timestamp in enumerate(rows.base_timestamp):
                if timestamp < -1 <= rows.max_timestamp[row]:
                    self._negative.add(rows, row, timestamp)

    def _odd(self, rows: BatchRows, row: int, timestamp: int) -> None:
        if timestamp == -1:
            if rows.magic[row] > 0:
                self._absent.add(rows, row, timestamp)
        elif timestamp < 0:
            self._negative.add(rows, row, timestamp)
        elif unit := unit_of(timestamp, self._now):
            self._units.setdefault(unit, _Tally()).add(rows, row, timestamp)
        elif timestamp > self._now + FUTURE_MS:
            self._future.add(rows, row, timestamp)

    def _types(self, rows: BatchRows) -> None:
        """Look for a single batch whose timestamp type differs from that of all others."""
        attributes = rows.attributes
        first = attributes[0]
        if is_uniform(attributes, first) and is_uniform(rows.magic, rows.magic[0]) and rows.magic[0] > 0:
            kinds: list[int] = [first & LOG_APPEND_TIME] * min(2, len(attributes))
        else:
            kinds = [a & LOG_APPEND_TIME if magic > 0 else -1 for a, magic in zip(attributes, rows.magic, strict=True)]
        for row, kind in enumerate(kinds):
            if kind >= 0:
                if self._type is not None and kind != self._type:
                    self._type_changes += 1
                    self._odd_type = self._odd_type or found_in_batch(
                        "KD-TIME-TYPE", self._path, _ODD_TYPE, rows, row, rows.last_offset[row]
                    )
                elif self._type_changes == 1:
                    self._type_changes = 3  # more than one batch has the other type
                self._type = kind

    def close_segment(self, modified: int, record: int | None) -> Iterator[Finding]:
        """End the segment, its .log last modified at `modified` (ms); `record` is the blocking batch's, if known."""
        if not self._batches:
            return
        for unit, tally in self._units.items():
            yield self._unit(unit, tally)
        if self._future.count:
            ahead = distance(self._future.timestamp - self._now)
            yield self._said("KD-TIME-FUTURE", self._future, f"up to {shown(self.largest)}; the first is {ahead} ahead")
        if self._negative.count:
            yield self._said("KD-TIME-NEGATIVE", self._negative, f"the first is {self._negative.timestamp}")
        if self._absent.count:
            yield self._said("KD-TIME-ABSENT", self._absent, "no timestamp")
        if self._order.count:
            yield self._said("KD-TIME-ORDER", self._order, "older than the batch before")
        if self._type_changes == 2 and self._odd_type:
            yield self._odd_type
        if self._retention.deletes and self._retention.time_limit_ms >= 0:
            yield self._held(modified, record)

    def _said(self, code: str, tally: _Tally, text: str) -> Finding:
        first = tally.first
        base, last = offsets = batch_offsets(first.base_offset, first.last_offset)
        offset = last if base is None else base
        producer = f" (producer {first.producer_id})" if first.producer_id >= 0 else ""
        text = f"{tally.count} of {self._batches} batches, the first at offset {offset}{producer}: {text}"
        details = {"batches": tally.count, "segmentBatches": self._batches, "firstTimestamp": tally.timestamp}
        finding = found(code, self._path, text, first.position, offset, length=first.size, details=details)
        return finding._replace(offsets=offsets)

    def _unit(self, unit: str, tally: _Tally) -> Finding:
        off = abs(tally.timestamp - self._now)
        side = "ahead of" if tally.timestamp > self._now else "before"
        effect = "kept for as long" if tally.timestamp > self._now else "so the segment may be deleted at once"
        text = f"{tally.timestamp} is a time in {unit}; as ms it is {distance(off)} {side} the clock, {effect}"
        return self._said("KD-TIME-UNIT", tally, text)

    def _held(self, modified: int, record: int | None) -> Finding:
        limit = self._retention.time_limit_ms
        rule = f"{self._retention.time_name}={limit} keeps the segment until"
        blocking = self.blocking
        if self.largest < 0 or blocking is None:
            until = shown(modified + limit)
            text = f"no timestamp, so the file's time counts, {shown(modified)}: {rule} {until}"
            details = {"maxTimestamp": None, "keptUntilTimestamp": modified + limit}
            return found("KD-TIME-HELD", self._path, text, details=details)
        who = f" of producer {blocking.producer_id}" if blocking.producer_id >= 0 else ""
        base, last = blocking.base_offset, blocking.last_offset
        batch = f"the batch{who} with offset{f' {last}' if base in (last, -1) else f's {offset_range(base, last)}'}"
        which = batch if record is None else f"the record at offset {record} in {batch}"
        until = shown(self.largest + limit)
        text = f"the largest timestamp {shown(self.largest)} is that of {which}: {rule} {until}"
        offset = last if record is None else record
        offsets = batch_offsets(base, last) if record is None else None
        details = {"maxTimestamp": self.largest, "keptUntilTimestamp": self.largest + limit}
        return found("KD-TIME-HELD", self._path, text, blocking.position, offset,
                     length=blocking.size, offsets=offsets, details=details)  # fmt: skip
