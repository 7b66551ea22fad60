"""The .timeindex of a segment, compared with its log entry by entry while the log is walked.

Two things that old brokers did are legal. An entry for a v0 message that 0.10 converted has the timestamp that was
thrown away then: nothing can be said of it. The cleaner up to 2.0 did not count the timestamp of a batch that it had
emptied.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from operator import add

from kdump import kernels
from kdump.check.batch_rows import BatchRows
from kdump.check.column_checks import is_sorted
from kdump.check.entries import Entry, IndexCheck, IndexCodes, absolute, columns_of, used_entries, widened
from kdump.findings.finding import Finding, found
from kdump.formats import names
from kdump.formats.iso_times import shown
from kdump.storage.segment import Segment


class TimeIndexCheck(IndexCheck):
    """The .timeindex of one segment; its entries are timestamps and offsets."""

    _kind, _offset_at = names.TIME_INDEX, 2
    _codes = IndexCodes(
        "KD-TIDX-MISSING", "KD-TIDX-LENGTH", "KD-TIDX-ORDER", "KD-TIDX-ZEROS", "KD-TIDX-PREALLOCATED",
        "KD-TIDX-LEFTOVER",
    )  # fmt: skip

    def __init__(self, segment: Segment, *, excused: bool, is_open: bool) -> None:
        """`excused` as for IndexCheck.

        Of a segment that `is_open`, neither rolled nor closed, the last entry is not written yet, and that beside the
        last entry of the .index may not be: a broker writes them one after the other (LogSegment.append).
        """
        super().__init__(segment, (-1, segment.base_offset - 1), excused=excused)
        self._is_open = is_open
        self._covered = -1  # the largest timestamp up to the last entry of the offset index
        self._covered_before = -1  # up to the one before it: the index has been told of it
        self._largest = -1  # of the batches that have records
        self._emptied = -1  # with those that have none, where there are any
        self._last_time = -1
        self._last_is_v0 = False  # whether the last entry is one for a message without timestamp
        self._end_offset = segment.base_offset
        self._hole = self._is_beyond = False

    def open(self) -> Iterator[Finding]:
        """Look at what the file says without its log. Raises OSError, CorruptIndexError."""
        for finding in super().open():
            if finding.code == self._codes.zeros:
                from kdump.storage.timestamps import has_zero_tail

                if has_zero_tail(self._segment):
                    harm = "a broker treats the records as written in 1970, and retention deletes the segment"
                    finding = finding._replace(text=f"{finding.text}: {harm}")
            yield finding

    def _is_due(self) -> bool:
        return not self._is_open or used_entries(self._segment, names.OFFSET_INDEX) > 0

    def _columns(self, data: bytes) -> tuple[array[int], array[int]]:
        signed, unsigned = columns_of(data, "i"), columns_of(data, "I")
        times = array("q", map(add, map((1 << 32).__mul__, signed[0::3]), unsigned[1::3]))
        return times, absolute(widened(signed[2::3]), self._segment.base_offset)

    def _words(self, entry: Entry) -> str:
        return f"timestamp {shown(entry[1])} at offset {entry[2]}"

    def take(self, rows: BatchRows, covered: tuple[int, int]) -> Iterator[Finding]:
        """Take valid batches, and `covered` of the offset index when it got its last entry. Raises OSError."""
        return self.leftovers.pass_on(self._take(rows, covered))

    def _take(self, rows: BatchRows, covered: tuple[int, int]) -> Iterator[Finding]:
        if self._index is None:
            return
        before = self._largest
        times = _counted_times(rows)
        self._largest = max(before, kernels.column_stats(times)[1])
        if times is not rows.max_timestamp:
            self._emptied = max(self._emptied, max(rows.max_timestamp))
        if self._is_open and covered[0]:
            self._covered_before = max(before, max(times[: covered[1]])) if covered[1] else self._covered
            self._covered = max(before, max(times[: covered[0]]))
        self._end_offset = max(self._end_offset, rows.last_offset[-1] + 1)
        entries = self._entries
        while True:
            yield from self._load()
            stop = bisect_left(entries.second, rows.last_offset[-1] + 1)
            if not stop:
                return
            if self._hole:
                self._hole = False
                base = rows.base_offset[0]
                gone = bisect_left(entries.second, base if base >= 0 else rows.last_offset[0])
                if gone:
                    self._last_time = entries.first[gone - 1]
                    entries.drop(gone)
                    continue
            if not _agree(rows, times, entries.first[:stop], entries.second[:stop], before):
                yield from self._one_by_one(rows, times, stop, before)
            self._last_time = entries.first[stop - 1]
            self._last_is_v0 = _is_v0(rows, entries.second[stop - 1])
            entries.drop(stop)

    def bad_bytes(self) -> None:
        """Take bytes that are no batches: entries that name offsets of the gap cannot be judged."""
        self._hole = True

    def _one_by_one(self, rows: BatchRows, times: array[int], stop: int, before: int) -> Iterator[Finding]:
        """Yield the next `stop` entries, all of which name offsets of the rows or before it."""
        done, running = 0, before
        length = len(rows.last_offset)
        row_of = dict(zip(reversed(rows.last_offset), range(length - 1, -1, -1), strict=True))
        for at in range(stop):
            number = self._entries.numbers[at]
            timestamp, offset = self._entries.first[at], self._entries.second[at]
            row = row_of.get(offset, -1)
            if row < 0:  # of a cleaned batch the last record may be gone
                row = bisect_left(rows.last_offset, offset)
            if row == length or rows.base_offset[row] > offset:
                text = f"entry {number} (timestamp {shown(timestamp)}) names offset {offset}, where there is no batch"
                yield self._of_entry("KD-TIDX-OFFSET", text, number, offset)
                continue
            if row >= done:
                running = max(running, max(times[done : row + 1]))
                done = row + 1
            if rows.magic[row] == 0:
                continue
            text = ""
            if rows.max_timestamp[row] != timestamp:
                text = f"its batch has {shown(rows.max_timestamp[row])}"
            elif running > timestamp:
                text = f"a batch before it has {shown(running)}"
            if text:
                text = f"entry {number} (offset {offset}) has timestamp {shown(timestamp)}, {text}"
                yield self._of_entry("KD-TIDX-TIMESTAMP", text, number, offset)

    def finish(self, *, has_batches: bool, is_damaged: bool, is_misled: bool) -> Iterator[Finding]:
        """Yield the log is over. The offset index `is_misled`, and so what was said to be covered. Raises OSError."""
        if self._index is None:
            return
        yield from self.leftovers.pass_on(self._beyond())
        yield from self.leftovers.settle(self._index.entries)
        if self.leftovers.are_there or is_misled or self._is_beyond or not has_batches:
            return
        wanted = self._covered if self._is_open else self._largest
        if wanted < 0 or wanted == self._last_time:
            return
        if self._is_open and self._last_time >= self._covered_before:
            return
        if self._last_time > wanted:
            if self._last_is_v0 or self._emptied >= self._last_time:
                return
            if is_damaged:
                return  # the batch that has it may be among the damaged ones
        what = f"the last entry has timestamp {shown(self._last_time)}" if self._index.entries else "the file is empty"
        yield found("KD-TIDX-LAST", self.path, f"{what}, the largest in the log up to there is {shown(wanted)}")

    def _beyond(self) -> Iterator[Finding]:
        """Yield the entries for offsets beyond the log."""
        yield from self._load()
        while self._entries:
            for number, timestamp, offset in self._entries:
                self._is_beyond = True
                if self._hole:
                    continue
                text = f"entry {number} (timestamp {shown(timestamp)}) names offset {offset}, the log ends before"
                text += f" {self._end_offset}"
                yield self._of_entry("KD-TIDX-OFFSET", text, number, offset)
            self._entries.drop(len(self._entries))
            yield from self._load()


def _counted_times(rows: BatchRows) -> array[int]:
    """Return the timestamps of batches that an index must count: those of its batches, of emptied ones -1."""
    if 0 not in rows.count:
        return rows.max_timestamp
    return array("q", [time if count else -1 for time, count in zip(rows.max_timestamp, rows.count, strict=True)])


def _is_v0(rows: BatchRows, offset: int) -> bool:
    """Return whether the message at an offset of the rows is of format v0, which has no timestamps."""
    row = bisect_left(rows.last_offset, offset)
    return row < len(rows.magic) and rows.magic[row] == 0


def _agree(rows: BatchRows, counted: array[int], times: array[int], offsets: array[int], before: int) -> bool:
    """Return whether entries name last offsets of batches with their timestamps, and no batch before has a larger one.

    `before` is the largest timestamp before the rows, `counted` those of its batches that count.
    """
    last, own = rows.last_offset, rows.max_timestamp
    count, first = len(offsets), bisect_left(last, offsets[0])
    if last[first : first + count] == offsets:  # as where every batch has an entry
        reached: range | list[int] = range(first, first + count)
        agrees = own[first : first + count] == times
    else:
        reached = [bisect_left(last, offset) for offset in offsets]
        if reached[-1] == len(last) or [last[row] for row in reached] != offsets.tolist():
            return False
        agrees = [own[row] for row in reached] == times.tolist()
    if not agrees or before > times[0]:
        return False
    until = reached[-1] + 1
    if is_sorted(counted[:until]):
        return True
    start = 0
    for row, timestamp in zip(reached, times, strict=True):
        if max(counted[start : row + 1]) > timestamp:
            return False
        start = row
    return True
