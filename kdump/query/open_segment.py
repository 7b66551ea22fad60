"""A segment with the files that lookups read, and what a broker finds in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cached_property
from typing import Any

from kdump.disk.reading import status_of
from kdump.errors import CorruptRecordError
from kdump.formats import names
from kdump.formats.faults import BLOCK_FULL, SHORT_HEADER, UNDERSIZED, undersized_error
from kdump.formats.index_entries import OffsetIndexEntry, TimeIndexEntry
from kdump.storage.indexes import OffsetIndex, TimeIndex
from kdump.storage.log_reader import Entry, LogFile
from kdump.storage.segment import Segment, segment_end_offset

Trace = Callable[[str], object]


def no_trace(_: str) -> None:
    """Do nothing: nobody wants to know the steps."""


class OpenSegment:
    """A segment with the files that lookups read, opened when first needed."""

    def __init__(self, segment: Segment, files: ExitStack, *, trims: bool, recovers: bool) -> None:
        """Open the files of a segment; zeros at the end of a file do not count if `trims`.

        A segment that a broker `recovers` first gets its indexes from the batches: entries beyond the log go, and the
        largest timestamp counts all batches.
        """
        self.segment = segment
        self.base_offset = segment.base_offset
        self._files = files
        self._trim = trims
        self._recovers = recovers

    @cached_property
    def log(self) -> LogFile:
        """The log, open. Raises OSError."""
        return self._files.enter_context(self.segment.open_log())

    @property
    def log_bytes_read(self) -> int:
        """How many bytes of the log have been read."""
        return self.log.bytes_read if "log" in vars(self) else 0

    @cached_property
    def index(self) -> OffsetIndex | None:
        """The offset index; None without the file, which a broker would rebuild."""
        if not self.segment.has(names.OFFSET_INDEX):
            return None
        index = self._files.enter_context(self.segment.offset_index())
        if self._trim:
            index.drop_zero_tail()
        if self._recovers:
            _drop_beyond(index, lambda entry: entry.position >= self.log.size)
        return index

    @cached_property
    def times(self) -> TimeIndex | None:
        """The time index; None without the file."""
        if not self.segment.has(names.TIME_INDEX):
            return None
        times = self._files.enter_context(self.segment.time_index())
        if self._trim:
            times.drop_zero_tail()
        if self._recovers:
            end = self.next_offset
            _drop_beyond(times, lambda entry: entry.offset >= end)
        return times

    def index_entry(self, offset: int, trace: Trace) -> OffsetIndexEntry:
        """Return the offset index's entry where a search for `offset` begins. Raises OSError, CorruptIndexError."""
        if self.index is None:
            return OffsetIndexEntry(self.base_offset, 0)
        entry = self.index.lookup(offset, _about("offset index", trace))
        if self._recovers and self.segment.position_of(self.log, offset) != entry.position:
            return OffsetIndexEntry(self.base_offset, 0)  # it is of a log that was truncated
        return entry

    def time_entry(self, timestamp: int, trace: Trace) -> TimeIndexEntry:
        """Return the time index's entry where a search for a time (ms) begins. Raises OSError, CorruptIndexError."""
        if self.times is None:
            return TimeIndexEntry(-1, self.base_offset)
        return self.times.lookup(timestamp, _about("time index", trace))

    @cached_property
    def last_time_entry(self) -> TimeIndexEntry:
        """What a broker that just opened the segment takes for its largest timestamp and that one's offset."""
        last, times = TimeIndexEntry(-1, self.base_offset), self.times
        if times is not None and times.entries:
            last = times.entry(times.entries - 1)
        return self._with_tail(last) if self._recovers else last

    def _with_tail(self, last: TimeIndexEntry) -> TimeIndexEntry:
        """Return the last entry after recovery: the newest maximum is in the broker's memory until a roll or close."""
        for block in self.log.blocks(self.segment.position_of(self.log, last.offset), whole=False):
            times = block.max_timestamp[: block.length]
            if times and (highest := max(times)) > last.timestamp:
                last = TimeIndexEntry(highest, block.last_offset[times.index(highest)])
        return last

    def largest_timestamp(self, trace: Trace) -> int:
        """Return it in ms, by the time index, else the time of the .log file."""
        timestamp = self.last_time_entry.timestamp
        source = "by its batches" if self._recovers else "of its time index's last entry"
        if timestamp < 0:
            timestamp = status_of(self.segment.log_path).modified_ns // 1_000_000
            source = "that of the file's last change, for its time index is empty"
        trace(f"segment {self.base_offset}: largest timestamp {timestamp}, {source}")
        return timestamp

    def entries(self, position: int) -> Iterator[tuple[int, Entry]]:
        """Yield the entries from byte `position` on, each with its position. Raises CorruptRecordError."""
        log = self.log
        if position > log.size:
            raise CorruptRecordError(
                f"{self.segment.path(names.OFFSET_INDEX)}: an entry leads to byte {position} of a log of {log.size}"
                " bytes: rebuild the index"
            )
        while True:
            entry = log.entry_at(position, log.size)
            if entry.status == UNDERSIZED and not (self._trim and entry.size == 0):
                raise undersized_error(entry.size, f"{log.path} at byte {position}")
            if entry.status == SHORT_HEADER:
                raise CorruptRecordError(f"{log.path}: the header at byte {position} runs over the end of the file")
            if entry.status != BLOCK_FULL:
                return
            yield position, entry
            position += entry.size

    def is_valid(self, position: int, entry: Entry) -> bool:
        """Return whether the whole entry at byte `position` passes its CRC."""
        block = next(self.log.blocks(position, position + entry.size, whole=False))
        return block.length == 1 and bool(block.valid[0])

    @cached_property
    def next_offset(self) -> int:
        """The offset behind the last whole batch."""
        return segment_end_offset(self.segment, self.log)


def _drop_beyond(index: OffsetIndex | TimeIndex, is_beyond: Callable[[Any], bool]) -> None:
    """Count only the entries before those at the end that lead beyond the log, as a truncation leaves them."""
    while index.entries and is_beyond(index.entry(index.entries - 1)):
        index.entries -= 1


def _about(index: str, trace: Trace) -> Trace | None:
    """Return `trace` for the search of an index; None where nobody listens, which makes it faster."""
    return None if trace is no_trace else lambda step: trace(f"{index}: {step}")
