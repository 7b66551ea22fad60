"""Which batches and records of a log are wanted, and the shortest way to them.

Bounds by offset and time lead through the index files to the place where reading starts; batch headers decide next,
before anything is decompressed; keys, headers and the bounds themselves are then compared record by record.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple, Protocol

from kdump.blocks import BatchBlock, RecordBlock
from kdump.errors import check_callable, check_number, check_several, check_type
from kdump.formats.batch import LOG_APPEND_TIME
from kdump.storage.log_reader import LogFile
from kdump.storage.partition import PartitionLog
from kdump.storage.records import header_pairs
from kdump.storage.segment import Segment

Source = bytes | bytearray
Picks = range | list[int]

Test = Callable[[Source], bool]
"""Whether a key, or a header's value, is one that is looked for; a null never is."""


class Visible(Protocol):
    """The batches of one partition that a consumer gets; none has offsets from `stop_offset` (absolute) on."""

    stop_offset: int

    def has(self, block: BatchBlock, row: int) -> bool:
        """Return whether the batch is one of them. Raises OSError."""


class Selection(NamedTuple):
    """What is wanted of a log; everything given must hold.

    start_offset, stop_offset   absolute; the first that is wanted, and the first that is not any more
    since, until                ms; in the same way. A record without a timestamp (-1) is in no bounded time
    producer_ids                of the batch, -1 where it has none; empty: any
    key                         a test of the record's key
    headers                     names, each with a test of the value (None: any value, null too)
    visible                     the batches that a consumer gets, of one partition; None: all
    """

    start_offset: int | None = None
    stop_offset: int | None = None
    since: int | None = None
    until: int | None = None
    producer_ids: frozenset[int] = frozenset()
    key: Test | None = None
    headers: tuple[tuple[bytes, Test | None], ...] = ()
    visible: Visible | None = None

    def check(self) -> None:
        """Raise ValueError, TypeError for what no log can be asked for."""
        check_number("start_offset", self.start_offset, 0, may_be_none=True)
        check_number("stop_offset", self.stop_offset, 0, may_be_none=True)
        check_number("since", self.since, may_be_none=True)
        check_number("until", self.until, may_be_none=True)
        check_several("producer_ids", self.producer_ids)
        for producer_id in self.producer_ids:
            check_number("producer_ids", producer_id, -1)
        check_callable("key", self.key, may_be_none=True)
        check_several("headers", self.headers, tuple)
        for name, test in self.headers:
            check_type("headers", name, bytes)
            check_callable("headers", test, may_be_none=True)
        if self.visible is not None and not callable(getattr(self.visible, "has", None)):
            raise TypeError(f"visible is {self.visible!r}: expected the batches that a consumer gets")

    @property
    def bounds_offsets(self) -> bool:
        """Whether offsets are compared."""
        return self.start_offset is not None or self.stop_offset is not None

    @property
    def reads_records(self) -> bool:
        """Whether a batch's header does not tell if anything in the batch is wanted."""
        return not (self.since is None and self.until is None and self.key is None and not self.headers)

    @property
    def compares_headers(self) -> bool:
        """Whether any batch can be left out by its header."""
        bounds_times = self.since is not None or self.until is not None
        return self.bounds_offsets or bounds_times or bool(self.producer_ids) or self.visible is not None

    def segments(self, partition: PartitionLog, *, use_indexes: bool = True) -> Iterator[Segment]:
        """Yield the segments of `partition` that may hold what is wanted; no .log is opened to find out.

        The largest timestamp of a segment is that of its time index, which is complete in all but the last one.
        """
        segments = partition.segments if self.start_offset is None else partition.segments_from(self.start_offset)
        for number, segment in enumerate(segments, 1):
            if self.stop_offset is not None and segment.base_offset >= self.stop_offset:
                return
            if use_indexes and number < len(segments) and self._is_older(segment, segments[number].base_offset):
                continue
            yield segment

    def _is_older(self, segment: Segment, next_base_offset: int) -> bool:
        """Return whether all of a segment is from before `since`."""
        largest = None
        if self.since is not None:
            from kdump.storage.timestamps import TimestampRule, largest_timestamp

            with suppress(OSError):
                largest = largest_timestamp(segment, TimestampRule.CHECKED, next_base_offset)
        return largest is not None and self.since is not None and largest < self.since

    def start(self, segment: Segment, log: LogFile) -> int:
        """Return the byte position in `log` from which on everything is that is wanted, as the index files tell it.

        0 where they cannot be read: they are a shortcut and nothing more.
        """
        position = 0
        with suppress(OSError):
            if self.start_offset is not None:
                position = segment.position_of(log, self.start_offset)
            if self.since is not None:
                position = max(position, segment.position_of_time(log, self.since))
        return position

    def runs(self, block: BatchBlock, first: int, stop: int) -> Iterator[tuple[int, int]]:
        """Yield the rows from `first` to `stop` - 1 that may hold what is wanted by their headers: (first, stop)."""
        if not self.compares_headers:
            yield first, stop
            return
        row = first
        while row < stop:
            if not self._may_hold(block, row):
                row += 1
                continue
            start = row
            row += 1
            while row < stop and self._may_hold(block, row):
                row += 1
            yield start, row

    def _may_hold(self, block: BatchBlock, row: int) -> bool:
        if self.start_offset is not None and max(block.last_offset[row], block.base_offset[row]) < self.start_offset:
            return False
        if self.stop_offset is not None and block.base_offset[row] >= self.stop_offset:
            return False
        if self.since is not None and block.max_timestamp[row] < self.since:
            return False
        if self.until is not None and self._appended_late(block, row, self.until):
            return False
        if self.producer_ids and block.producer_id[row] not in self.producer_ids:
            return False
        return self.visible is None or self.visible.has(block, row)

    def is_behind(self, block: BatchBlock, row: int) -> bool:
        """Return whether nothing from row `row` of a log on can be wanted, if offsets and append times only grow."""
        if self.until is not None and self._appended_late(block, row, self.until):
            return True
        if self.visible is not None and block.last_offset[row] >= self.visible.stop_offset:
            return True
        if self.stop_offset is None:
            return False
        base_offset = block.base_offset[row]
        if base_offset < 0:  # of a v0/v1 wrapper only its last offset is known
            return row > 0 and block.last_offset[row - 1] >= self.stop_offset - 1
        return base_offset >= self.stop_offset

    @staticmethod
    def _appended_late(block: BatchBlock, row: int, until: int) -> bool:
        """Return whether all records of a row have an append time, and one that is not before `until`."""
        return (
            block.magic[row] > 0
            and bool(block.attributes[row] & LOG_APPEND_TIME)
            and block.max_timestamp[row] >= until
        )

    def pick(self, records: RecordBlock, sources: Callable[[int], Source]) -> Picks:
        """Return the records of a block that are wanted, by number; `sources` gives the source of a row."""
        picks: Picks = range(records.length)
        if self.bounds_offsets:
            picks = _within(records.offset, picks, self.start_offset, self.stop_offset)
        if self.since is not None or self.until is not None:
            picks = _within(records.timestamp, picks, 0 if self.since is None else self.since, self.until)
        if self.key is not None:
            picks = [at for at in picks if records.key_length[at] >= 0 and self._key_fits(records, at, sources)]
        if self.headers:
            picks = [at for at in picks if records.headers_count[at] and self._headers_fit(records, at, sources)]
        return picks

    def _key_fits(self, records: RecordBlock, at: int, sources: Callable[[int], Source]) -> bool:
        position = records.key_position[at]
        assert self.key is not None
        return self.key(sources(records.row[at])[position : position + records.key_length[at]])

    def _headers_fit(self, records: RecordBlock, at: int, sources: Callable[[int], Source]) -> bool:
        pairs = header_pairs(sources(records.row[at]), records.headers_position[at], records.headers_count[at])
        return all(
            any(found == name and (test is None or (value is not None and test(value))) for found, value in pairs)
            for name, test in self.headers
        )


EVERYTHING = Selection()
"""All of a log."""


def _within(column: array[int], picks: Picks, start: int | None, stop: int | None) -> Picks:
    """Return those of `picks` whose value in a column is in [start, stop)."""
    if stop is None:
        return picks if start is None else [at for at in picks if column[at] >= start]
    if start is None:
        return [at for at in picks if column[at] < stop]
    return [at for at in picks if start <= column[at] < stop]
