"""Timestamps: which cannot be meant, and what they do to retention.

Retention by time goes by a segment's largest timestamp, and stops at the first segment that it has to keep.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from operator import le

from kdump.formats.batch import LOG_APPEND_TIME
from kdump.verify.findings import Finding, found
from kdump.verify.log import is_uniform
from kdump.verify.sheets import Sheet

FUTURE_MS = 3_600_000
"""How far in the future a broker allows timestamps (message.timestamp.after.max.ms since Kafka 4.0)."""

RETENTION_MS = 604_800_000
"""retention.ms where nothing else is configured: seven days."""

PLAUSIBLE_FROM = 946_684_800_000  # the year 2000
_DAY = 86_400_000
_UNITS = (("seconds", 1, 1000), ("microseconds", 1000, 1), ("nanoseconds", 1_000_000, 1))


def unit_of(timestamp: int, now: int) -> str | None:
    """The unit that a timestamp is in, if taken so it lies between the year 2000 and `now` (ms); None for ms."""
    latest = now + FUTURE_MS
    if PLAUSIBLE_FROM <= timestamp <= latest:
        return None
    for unit, divisor, factor in _UNITS:
        if PLAUSIBLE_FROM <= timestamp * factor // divisor <= latest:
            return unit
    return None


def distance(ms: int) -> str:
    """A length of time for people."""
    if ms < 120_000:
        return f"{ms // 1000} s"
    if ms < 2 * _DAY:
        return f"{ms / 3_600_000:.1f} hours"
    return f"{ms // _DAY} days" if ms < 1000 * _DAY else f"{ms // (365 * _DAY)} years"


class _Tally:
    """How many batches have something, and the first of them."""

    __slots__ = ("count", "first_offset", "position", "producer", "timestamp")

    def __init__(self) -> None:
        self.count = 0
        self.position = self.first_offset = self.timestamp = self.producer = -1

    def add(self, sheet: Sheet, row: int) -> None:
        if not self.count:
            self.position = sheet.position[row]
            self.first_offset = max(sheet.base_offset[row], 0) or sheet.last_offset[row]
            self.timestamp = sheet.max_timestamp[row]
            self.producer = sheet.producer_id[row]
        self.count += 1


class TimestampCheck:
    """Collects what is odd about a segment's timestamps and says it once for the segment."""

    def __init__(self, now: int, retention_ms: int) -> None:
        """`now` is the clock, in ms."""
        self._now = now
        self._retention = retention_ms
        self._path = ""
        self._reset()

    def _reset(self) -> None:
        self.largest = -1
        self._row: tuple[int, int, int, int] | None = None  # position, base and last offset, producer of the largest
        self._future, self._negative, self._absent, self._order = _Tally(), _Tally(), _Tally(), _Tally()
        self._units: dict[str, _Tally] = {}
        self._batches = 0
        self._type: int | None = None  # of the batch before
        self._type_changes = 0
        self._odd_type: tuple[int, int] | None = None  # position and last offset of the first batch of another type

    def open_segment(self, path: str) -> None:
        """Go on with this segment."""
        self._path = path
        self._reset()

    def sheet(self, sheet: Sheet) -> None:
        """Good batches."""
        times = sheet.max_timestamp
        self._batches += len(times)
        if times[0] >= self.largest and all(map(le, times, times[1:])):
            lowest, largest = times[0], times[-1]
            if largest > self.largest:
                self._hold(sheet, bisect_left(times, largest))
        else:
            lowest, largest = min(times), max(times)
            self._disorder(sheet)
            if largest > self.largest:
                self._hold(sheet, times.index(largest))
        if lowest < PLAUSIBLE_FROM or largest > self._now + FUTURE_MS:
            for row, timestamp in enumerate(times):
                if not PLAUSIBLE_FROM <= timestamp <= self._now + FUTURE_MS:
                    self._odd(sheet, row, timestamp)
        if min(sheet.base_timestamp) < -1:
            for row, timestamp in enumerate(sheet.base_timestamp):
                if timestamp < -1 and times[row] >= -1:
                    self._negative.add(sheet, row)
        self._types(sheet)

    def _hold(self, sheet: Sheet, row: int) -> None:
        self.largest = sheet.max_timestamp[row]
        self._row = sheet.position[row], sheet.base_offset[row], sheet.last_offset[row], sheet.producer_id[row]

    def _disorder(self, sheet: Sheet) -> None:
        largest = self.largest
        for row, timestamp in enumerate(sheet.max_timestamp):
            if timestamp >= largest:
                largest = timestamp
            elif timestamp >= 0:
                self._order.add(sheet, row)

    def _odd(self, sheet: Sheet, row: int, timestamp: int) -> None:
        if timestamp == -1:
            if sheet.magic[row] > 0:
                self._absent.add(sheet, row)
        elif timestamp < 0:
            self._negative.add(sheet, row)
        elif unit := unit_of(timestamp, self._now):
            self._units.setdefault(unit, _Tally()).add(sheet, row)
        elif timestamp > self._now + FUTURE_MS:
            self._future.add(sheet, row)

    def _types(self, sheet: Sheet) -> None:
        """Look for a single batch whose timestamp type differs from that of all others."""
        attributes = sheet.attributes
        first = attributes[0]
        if is_uniform(attributes, first) and sheet.magic[0] > 0 and min(sheet.magic) > 0:
            kinds: list[int] = [first & LOG_APPEND_TIME] * min(2, len(attributes))
        else:
            kinds = [a & LOG_APPEND_TIME if magic > 0 else -1 for a, magic in zip(attributes, sheet.magic, strict=True)]
        for row, kind in enumerate(kinds):
            if kind >= 0:
                if self._type is not None and kind != self._type:
                    self._type_changes += 1
                    self._odd_type = self._odd_type or (sheet.position[row], sheet.last_offset[row])
                elif self._type_changes == 1:
                    self._type_changes = 3  # more than one batch has the other type
                self._type = kind

    def close_segment(self, modified: int) -> Iterator[Finding]:
        """The segment is over; its .log was last modified at `modified` (ms)."""
        if not self._batches:
            return
        for unit, tally in self._units.items():
            yield self._unit(unit, tally)
        if self._future.count:
            ahead = distance(self._future.timestamp - self._now)
            yield self._said("KD-TIME-FUTURE", self._future, f"up to {self.largest} ms; the first is {ahead} ahead")
        if self._negative.count:
            yield self._said("KD-TIME-NEGATIVE", self._negative, f"the first is {self._negative.timestamp}")
        if self._absent.count:
            yield self._said("KD-TIME-ABSENT", self._absent, "no timestamp")
        if self._order.count:
            yield self._said("KD-TIME-ORDER", self._order, "older than what comes before them")
        if self._type_changes == 2 and self._odd_type:
            text = "the batch's timestamp type is not that of all the other batches of the segment"
            yield found("KD-TIME-TYPE", self._path, text, *self._odd_type)
        yield self._held(modified)

    def _said(self, code: str, tally: _Tally, text: str) -> Finding:
        producer = f" (producer {tally.producer})" if tally.producer >= 0 else ""
        batches = f"{tally.count} of {self._batches} batches, the first at offset {tally.first_offset}{producer}"
        return found(code, self._path, f"{batches}: {text}", tally.position, tally.first_offset)

    def _unit(self, unit: str, tally: _Tally) -> Finding:
        off = abs(tally.timestamp - self._now)
        side = "ahead of" if tally.timestamp > self._now else "behind"
        effect = "kept for as long" if tally.timestamp > self._now else "so the segment may be deleted at once"
        text = f"{tally.timestamp} is a time in {unit}; as ms it is {distance(off)} {side} the clock, {effect}"
        return self._said("KD-TIME-UNIT", tally, text)

    def _held(self, modified: int) -> Finding:
        if self.largest < 0 or self._row is None:
            until = modified + self._retention
            text = f"no timestamp, so the file's time counts ({modified}): with retention.ms={self._retention} held"
            return found("KD-TIME-HELD", self._path, f"{text} until {until}")
        position, base, last, producer = self._row
        who = f" of producer {producer}" if producer >= 0 else ""
        records = f"offset {last}" if base in (last, -1) else f"offsets {base} to {last}"
        text = (
            f"the largest timestamp {self.largest} is that of the batch{who} with {records}: with"
            f" retention.ms={self._retention} the segment is held until {self.largest + self._retention}"
        )
        return found("KD-TIME-HELD", self._path, text, position, last)
