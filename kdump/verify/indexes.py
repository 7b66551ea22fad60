"""The .index and .timeindex of a segment, held against its log entry by entry while the log is walked.

Entries are read in stretches and looked up in the sheet that they lead to: nothing grows with the length of a file.
An offset entry may name the last offset of a later batch than the one whose position it has, up to the next entry's
position: followers, and the cleaner, wrote one entry an append of many batches before Kafka 4.1.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate
from operator import add, lt

from kdump.formats import names
from kdump.formats.index_entries import OFFSET_ENTRY_SIZE, TIME_ENTRY_SIZE
from kdump.storage.files import ReadOnlyFile
from kdump.storage.index_files import OffsetIndex, TimeIndex
from kdump.storage.segment import Segment
from kdump.verify.findings import Finding, found
from kdump.verify.sheets import BadBytes, Sheet

CHUNK_ENTRIES = 4096
SPARSE_BYTES = (1 << 20) + (1 << 16)
"""Bytes of a log without an index entry from which on it is worth a word: more than a follower fetches at once."""

_LITTLE = sys.byteorder == "little"


def _columns(data: bytes, typecode: str) -> array[int]:
    column = array(typecode, data)
    if _LITTLE:
        column.byteswap()
    return column



def _may_end_at(sheet: Sheet, row: int, offset: int) -> bool:
    """Whether an entry may name `offset` for a batch: its last one or, where the cleaner took records out of the
    batch and so wrote the offset of the last record left, one inside.
    """
    last, base = sheet.last_offset[row], sheet.base_offset[row]
    return offset == last or (base <= offset < last and 0 < sheet.count[row] <= last - base)


def fits_preallocation(segment: Segment) -> bool:
    """Whether both indexes may be as preallocation left them: zeros at the end, and sizes that one segment.index.bytes
    gives them, which is cut to whole entries of each.
    """
    kinds = ((names.OFFSET_INDEX, OFFSET_ENTRY_SIZE), (names.TIME_INDEX, TIME_ENTRY_SIZE))
    sizes = []
    for kind, entry_size in kinds:
        try:
            with ReadOnlyFile(segment.path(kind)) as file:
                sizes.append(file.size)
                if file.size < entry_size or any(file.read(file.size - entry_size, entry_size)):
                    return False
        except OSError:
            return True  # there is nothing to compare with
    offset_size, time_size = sizes
    return max(offset_size, time_size) < min(offset_size + OFFSET_ENTRY_SIZE, time_size + TIME_ENTRY_SIZE)


class OffsetIndexCheck:
    """The .index of one segment."""

    def __init__(self, segment: Segment, *, excused: bool) -> None:
        """A zero tail is `excused` where preallocation may have left it."""
        self._segment = segment
        self.path = segment.path(names.OFFSET_INDEX)
        self._excused = excused
        self._last_position = -1
        self._index: OffsetIndex | None = None
        self._next = 0  # number of the first entry that is not in the columns
        self._offsets: array[int] = array("q")
        self._positions: array[int] = array("q")
        self._numbers: list[int] | range = range(0)
        self._kept: list[tuple[int, int]] = []  # offset and position of the last two entries in order
        self._waiting: tuple[int, int, int] | None = None  # an entry that names a later batch's last offset
        self._gap_from = 0
        self._gap = (0, 0)
        self._end = 0

    def open(self) -> Iterator[Finding]:
        """Look at what the file says without its log. Raises OSError."""
        if not self._segment.has(names.OFFSET_INDEX):
            yield found("KD-IDX-MISSING", self.path, "the segment has no .index", offset=self._segment.base_offset)
            return
        self._index = index = self._segment.offset_index()
        if index.size % OFFSET_ENTRY_SIZE:
            text = f"{index.size} bytes, {index.size % OFFSET_ENTRY_SIZE} more than whole entries"
            yield found("KD-IDX-LENGTH", self.path, text, index.size // OFFSET_ENTRY_SIZE * OFFSET_ENTRY_SIZE)
        total = index.entries
        index.drop_zero_tail()
        if zeros := total - index.entries:
            code = "KD-IDX-PREALLOCATED" if self._excused else "KD-IDX-ZEROS"
            text = f"{zeros} entries of zeros behind {index.entries} entries"
            yield found(code, self.path, text, index.entries * OFFSET_ENTRY_SIZE)

    def close(self) -> None:
        """Close the file."""
        if self._index is not None:
            self._index.close()
            self._index = None

    def _load(self) -> Iterator[Finding]:
        """The next entries, those out of order left out."""
        assert self._index is not None
        count = min(CHUNK_ENTRIES, self._index.entries - self._next)
        data = self._index.read(self._next * OFFSET_ENTRY_SIZE, count * OFFSET_ENTRY_SIZE)
        columns = _columns(data[: len(data) // OFFSET_ENTRY_SIZE * OFFSET_ENTRY_SIZE], "i")
        base = self._segment.base_offset
        self._offsets = array("q", map(base.__add__, columns[0::2]))
        self._positions = array("q", columns[1::2])
        self._numbers = range(self._next, self._next + len(self._offsets))
        self._next += max(count, 1)
        before = self._kept[-1] if self._kept else (base - 1, -1)
        in_order = (
            bool(self._offsets)
            and before[0] < self._offsets[0]
            and before[1] < self._positions[0]
            and all(map(lt, self._offsets, self._offsets[1:]))
            and all(map(lt, self._positions, self._positions[1:]))
        )
        if in_order:
            self._kept = list(zip(self._offsets[-2:], self._positions[-2:], strict=True))
        elif self._offsets:
            yield from self._sort_out()

    def _sort_out(self) -> Iterator[Finding]:
        """Leave out the entries that break the order: of two, the one that its neighbours are against."""
        kept: list[tuple[int, int, int]] = []
        lowest = (self._segment.base_offset - 1, -1)
        older = self._kept[-1] if self._kept else lowest
        for number, offset, position in zip(self._numbers, self._offsets, self._positions, strict=True):
            last = kept[-1][1:] if kept else older
            if offset > last[0] and position > last[1]:
                kept.append((number, offset, position))
                continue
            before = kept[-2][1:] if len(kept) > 1 else older
            if kept and offset > before[0] and position > before[1]:
                wrong = kept.pop()
                kept.append((number, offset, position))
            else:
                wrong = (number, offset, position)
            yield found(
                "KD-IDX-ORDER",
                self.path,
                f"entry {wrong[0]} (offset {wrong[1]}, position {wrong[2]}) is not between its neighbours",
                wrong[0] * OFFSET_ENTRY_SIZE,
                wrong[1],
            )
        self._numbers = [entry[0] for entry in kept]
        self._offsets = array("q", [entry[1] for entry in kept])
        self._positions = array("q", [entry[2] for entry in kept])
        if kept:
            self._kept = [entry[1:] for entry in kept[-2:]]

    def sheet(self, sheet: Sheet) -> Iterator[Finding]:
        """Good batches."""
        if self._index is None:
            return
        self._end = sheet.end
        batches: dict[int, int] | None = None
        while True:
            if not self._positions:
                if self._next >= self._index.entries:
                    break
                yield from self._load()
                continue
            stop = bisect_left(self._positions, sheet.end)
            if not stop:
                break
            if batches is None:
                batches = dict(zip(sheet.position, sheet.last_offset, strict=True))
            positions, offsets = self._positions[:stop], self._offsets[:stop]
            if self._waiting or list(map(batches.get, positions)) != offsets.tolist():
                yield from self._one_by_one(sheet, batches, stop)
            self._last_position = positions[-1]
            self._measure(positions)
            del self._positions[:stop], self._offsets[:stop]
            self._numbers = self._numbers[stop:]
        if self._waiting and sheet.last_offset[-1] >= self._waiting[1]:
            upto = self._positions[0] if self._positions else None
            yield from self._settle(sheet, upto)

    def covered(self, sheet: Sheet) -> int:
        """Rows of the sheet up to the batch that the last entry leads to: the time index has been told of them."""
        return bisect_left(sheet.position, self._last_position + 1)

    def bad_bytes(self, bad: BadBytes) -> Iterator[Finding]:
        """Bytes that are no batches: entries that lead there cannot be judged, and are not the index's fault."""
        self._waiting = None
        while self._index is not None:
            if not self._positions:
                if self._next >= self._index.entries:
                    break
                yield from self._load()
                continue
            stop = bisect_left(self._positions, bad.resumed)
            if not stop:
                break
            del self._positions[:stop], self._offsets[:stop]
            self._numbers = self._numbers[stop:]

    def _measure(self, positions: array[int]) -> None:
        """Keep the longest stretch without an entry."""
        if positions[-1] - self._gap_from > SPARSE_BYTES:
            for position in positions:
                if position - self._gap_from > self._gap[1] - self._gap[0]:
                    self._gap = self._gap_from, position
                self._gap_from = position
        self._gap_from = positions[-1]

    def _one_by_one(self, sheet: Sheet, batches: dict[int, int], stop: int) -> Iterator[Finding]:
        for at in range(stop):
            number, offset, position = self._numbers[at], self._offsets[at], self._positions[at]
            if self._waiting:
                yield from self._settle(sheet, position)
            last = batches.get(position)
            if last is None:
                text = f"entry {number} (offset {offset}) leads to byte {position}, where no good batch starts"
                yield found("KD-IDX-POSITION", self.path, text, number * OFFSET_ENTRY_SIZE, offset)
            elif offset < last:
                if not _may_end_at(sheet, bisect_left(sheet.position, position), offset):
                    yield self._misnamed(number, offset, position)
            elif offset > last:
                self._waiting = number, offset, position

    def _settle(self, sheet: Sheet, upto: int | None) -> Iterator[Finding]:
        """Whether the waiting entry's offset is the last one of a batch before byte `upto`, the next entry's."""
        if self._waiting is None:
            return
        number, offset, position = self._waiting
        row = bisect_left(sheet.last_offset, offset)
        if row < len(sheet.last_offset) and _may_end_at(sheet, row, offset):
            if upto is None or sheet.position[row] < upto:
                self._waiting = None
                return
        elif row == len(sheet.last_offset) and (upto is None or upto >= sheet.end):
            return
        self._waiting = None
        yield self._misnamed(number, offset, position)

    def _misnamed(self, number: int, offset: int, position: int) -> Finding:
        text = f"entry {number} (position {position}) names offset {offset}, which is not the last one of a batch there"
        return found("KD-IDX-OFFSET", self.path, text, number * OFFSET_ENTRY_SIZE, offset)

    def finish(self) -> Iterator[Finding]:
        """The log is over: what is left leads beyond it."""
        if self._index is None:
            return
        if self._waiting:
            yield self._misnamed(*self._waiting)
        while True:
            for number, offset, position in zip(self._numbers, self._offsets, self._positions, strict=True):
                text = f"entry {number} (offset {offset}) leads to byte {position}"
                text += f", the last good batch ends at {self._end}"
                yield found("KD-IDX-POSITION", self.path, text, number * OFFSET_ENTRY_SIZE, offset)
            self._offsets, self._positions, self._numbers = array("q"), array("q"), range(0)
            if self._next >= self._index.entries:
                break
            yield from self._load()
        if self._end - self._gap_from > max(SPARSE_BYTES, self._gap[1] - self._gap[0]):
            self._gap = self._gap_from, self._end
        if self._gap[1] - self._gap[0] > SPARSE_BYTES:
            start, stop = self._gap
            text = f"{self._index.entries} entries; the longest stretch without one has {stop - start} bytes"
            text += f" (from byte {start})"
            yield found("KD-IDX-SPARSE", self.path, text)


class TimeIndexCheck:
    """The .timeindex of one segment."""

    def __init__(self, segment: Segment, *, excused: bool, is_open: bool) -> None:
        """A zero tail is `excused` where preallocation may have left it; of a segment that `is_open`, neither rolled
        nor closed, the last entry is not written yet.
        """
        self._segment = segment
        self.path = segment.path(names.TIME_INDEX)
        self._excused = excused
        self._is_open = is_open
        self._covered = -1
        self._index: TimeIndex | None = None
        self._next = 0
        self._times: array[int] = array("q")
        self._offsets: array[int] = array("q")
        self._numbers: list[int] | range = range(0)
        self._kept: list[tuple[int, int]] = []
        self._largest = -1
        self._last_time = -1
        self._end_offset = segment.base_offset
        self._hole = False

    def open(self) -> Iterator[Finding]:
        """Look at what the file says without its log. Raises OSError."""
        if not self._segment.has(names.TIME_INDEX):
            text = "the segment has no .timeindex"
            yield found("KD-TIDX-MISSING", self.path, text, offset=self._segment.base_offset)
            return
        self._index = index = self._segment.time_index()
        if index.size % TIME_ENTRY_SIZE:
            text = f"{index.size} bytes, {index.size % TIME_ENTRY_SIZE} more than whole entries"
            yield found("KD-TIDX-LENGTH", self.path, text, index.size // TIME_ENTRY_SIZE * TIME_ENTRY_SIZE)
        total = index.entries
        index.drop_zero_tail()
        if total == 1:
            index.entries = 1  # a single entry of zeros may be meant: timestamp 0 at the base offset
        if zeros := total - index.entries:
            code = "KD-TIDX-PREALLOCATED" if self._excused else "KD-TIDX-ZEROS"
            text = f"{zeros} entries of zeros behind {index.entries} entries"
            yield found(code, self.path, text, index.entries * TIME_ENTRY_SIZE)

    def close(self) -> None:
        """Close the file."""
        if self._index is not None:
            self._index.close()
            self._index = None

    def _load(self) -> Iterator[Finding]:
        assert self._index is not None
        count = min(CHUNK_ENTRIES, self._index.entries - self._next)
        data = self._index.read(self._next * TIME_ENTRY_SIZE, count * TIME_ENTRY_SIZE)
        words = _columns(data[: len(data) // TIME_ENTRY_SIZE * TIME_ENTRY_SIZE], "I")
        highs = _columns(data[: len(words) * 4], "i")[0::3]
        base = self._segment.base_offset
        relative = _columns(data[: len(words) * 4], "i")[2::3]
        self._times = array("q", map(add, map((1 << 32).__mul__, highs), words[1::3]))
        self._offsets = array("q", map(base.__add__, relative))
        self._numbers = range(self._next, self._next + len(self._times))
        self._next += max(count, 1)
        before = self._kept[-1] if self._kept else (-1, base - 1)
        in_order = (
            bool(self._times)
            and before[0] < self._times[0]
            and before[1] < self._offsets[0]
            and all(map(lt, self._times, self._times[1:]))
            and all(map(lt, self._offsets, self._offsets[1:]))
        )
        if in_order:
            self._kept = list(zip(self._times[-2:], self._offsets[-2:], strict=True))
        elif self._times:
            yield from self._sort_out()

    def _sort_out(self) -> Iterator[Finding]:
        kept: list[tuple[int, int, int]] = []
        older = self._kept[-1] if self._kept else (-1, self._segment.base_offset - 1)
        for number, timestamp, offset in zip(self._numbers, self._times, self._offsets, strict=True):
            last = kept[-1][1:] if kept else older
            if timestamp > last[0] and offset > last[1]:
                kept.append((number, timestamp, offset))
                continue
            before = kept[-2][1:] if len(kept) > 1 else older
            if kept and timestamp > before[0] and offset > before[1]:
                wrong = kept.pop()
                kept.append((number, timestamp, offset))
            else:
                wrong = (number, timestamp, offset)
            yield found(
                "KD-TIDX-ORDER",
                self.path,
                f"entry {wrong[0]} (timestamp {wrong[1]}, offset {wrong[2]}) is not between its neighbours",
                wrong[0] * TIME_ENTRY_SIZE,
                wrong[2],
            )
        self._numbers = [entry[0] for entry in kept]
        self._times = array("q", [entry[1] for entry in kept])
        self._offsets = array("q", [entry[2] for entry in kept])
        if kept:
            self._kept = [entry[1:] for entry in kept[-2:]]

    def sheet(self, sheet: Sheet, covered: int) -> Iterator[Finding]:
        """Good batches; those before row `covered` were there when the offset index got its last entry."""
        if self._index is None:
            return
        if self._is_open and covered:
            self._covered = max(self._largest, max(sheet.max_timestamp[:covered]))
        times = sheet.max_timestamp
        running: list[int] | array[int] = times
        before = self._largest
        if times[0] < before or not all(map(lt, times, times[1:])):
            running = list(accumulate(times, max, initial=before))[1:]
        self._largest = max(before, running[-1])
        self._end_offset = max(self._end_offset, sheet.last_offset[-1] + 1)
        batches: dict[int, int] | None = None
        while True:
            if not self._offsets:
                if self._next >= self._index.entries:
                    return
                yield from self._load()
                continue
            stop = bisect_left(self._offsets, sheet.last_offset[-1] + 1)
            if not stop:
                return
            if self._hole:
                self._hole = False
                gone = bisect_left(self._offsets, max(sheet.base_offset[0], 0) or sheet.last_offset[0])
                if gone:
                    self._last_time = self._times[gone - 1]
                    del self._times[:gone], self._offsets[:gone]
                    self._numbers = self._numbers[gone:]
                    continue
            if batches is None:
                batches = dict(zip(sheet.last_offset, running, strict=True))
            wanted = list(map(batches.get, self._offsets[:stop]))
            if wanted != self._times[:stop].tolist() or (running is not times and not self._are_own(sheet, stop)):
                yield from self._one_by_one(sheet, running, stop)
            self._last_time = self._times[stop - 1]
            del self._times[:stop], self._offsets[:stop]
            self._numbers = self._numbers[stop:]

    def bad_bytes(self) -> None:
        """Bytes that are no batches: entries that name offsets of the gap cannot be judged."""
        self._hole = True

    def _are_own(self, sheet: Sheet, stop: int) -> bool:
        """Whether the batches that entries name have the entries' timestamps themselves."""
        own = dict(zip(sheet.last_offset, sheet.max_timestamp, strict=True))
        return list(map(own.get, self._offsets[:stop])) == self._times[:stop].tolist()

    def _one_by_one(self, sheet: Sheet, running: list[int] | array[int], stop: int) -> Iterator[Finding]:
        for at in range(stop):
            number, timestamp, offset = self._numbers[at], self._times[at], self._offsets[at]
            row = bisect_left(sheet.last_offset, offset)
            known = row < len(sheet.last_offset) and (
                sheet.last_offset[row] == offset or sheet.base_offset[row] <= offset
            )
            if not known:
                text = f"entry {number} (timestamp {timestamp}) names offset {offset}, where there is no batch"
                yield found("KD-TIDX-OFFSET", self.path, text, number * TIME_ENTRY_SIZE, offset)
            elif sheet.max_timestamp[row] != timestamp:
                text = (
                    f"entry {number} (offset {offset}) has timestamp {timestamp}, its batch has"
                    f" {sheet.max_timestamp[row]}"
                )
                yield found("KD-TIDX-TIMESTAMP", self.path, text, number * TIME_ENTRY_SIZE, offset)
            elif running[row] > timestamp:
                text = f"entry {number} (offset {offset}) has timestamp {timestamp}, a batch before it {running[row]}"
                yield found("KD-TIDX-TIMESTAMP", self.path, text, number * TIME_ENTRY_SIZE, offset)

    def finish(self, largest: int, *, has_batches: bool, is_damaged: bool) -> Iterator[Finding]:
        """The log is over; the largest timestamp of its batches is `largest`."""
        if self._index is None:
            return
        beyond = 0
        while True:
            for number, timestamp, offset in zip(self._numbers, self._times, self._offsets, strict=True):
                beyond += 1
                if self._hole:
                    continue
                text = f"entry {number} (timestamp {timestamp}) names offset {offset}, the log ends before"
                text += f" {self._end_offset}"
                yield found("KD-TIDX-OFFSET", self.path, text, number * TIME_ENTRY_SIZE, offset)
            self._times, self._offsets, self._numbers = array("q"), array("q"), range(0)
            if self._next >= self._index.entries:
                break
            yield from self._load()
        wanted = self._covered if self._is_open else largest
        if has_batches and not beyond and wanted >= 0 and wanted != self._last_time:
            if (is_damaged or self._is_open) and self._last_time > wanted:
                return  # the batch that has it may be among the damaged ones, or have come after the last entry
            says = f"the last entry has timestamp {self._last_time}" if self._index.entries else "the file is empty"
            yield found("KD-TIDX-LAST", self.path, f"{says}, the largest in the log up to there is {wanted}")
