"""The .index of a segment, compared with its log entry by entry while the log is walked.

Entries are read in ranges and looked up in the rows that they lead to: nothing grows with the length of a file.
An entry may name the last offset of a later batch than the one whose position it has, up to the next entry's position:
followers, and the cleaner, wrote one entry an append of many batches before Kafka 4.1. Before Kafka 2.0 an entry named
the first offset of the batch whose position it has; such entries stay as long as their segment does.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from operator import sub

from kdump import kernels
from kdump.check.batch_rows import BatchRows
from kdump.check.entries import Entry, IndexCheck, IndexCodes, absolute, columns_of, used_entries, widened
from kdump.findings.finding import Finding, found
from kdump.formats import names
from kdump.formats.index_entries import OFFSET_ENTRY_SIZE
from kdump.storage.damage import Damage
from kdump.storage.indexes import may_end_at
from kdump.storage.segment import Segment

SPARSE_BYTES = (1 << 20) + (1 << 16)
"""Bytes of a log without an index entry from which on it is worth a word: more than a follower fetches at once."""

PROVING_ENTRIES = 3
"""Entries of a .timeindex that prove that the .index had some: each is written with one of those, but the last one
that a rolled or closed segment gets; truncation may leave one more.
"""


def _begins_at(rows: BatchRows, row: int, offset: int) -> bool:
    """Return whether `offset` is a batch's first; of a v0/v1 wrapper that was not decompressed, whether it may be."""
    base = rows.base_offset[row]
    if base < 0 and rows.magic[row] < 2:
        return (rows.last_offset[row - 1] if row else -1) < offset <= rows.last_offset[row]
    return offset == base


def _may_end_at(rows: BatchRows, row: int, offset: int) -> bool:
    return may_end_at(offset, rows.base_offset[row], rows.last_offset[row], rows.count[row])


class OffsetIndexCheck(IndexCheck):
    """The .index of one segment; its entries are offsets and positions."""

    _kind, _offset_at = names.OFFSET_INDEX, 1
    _codes = IndexCodes(
        "KD-IDX-MISSING", "KD-IDX-LENGTH", "KD-IDX-ORDER", "KD-IDX-ZEROS", "KD-IDX-PREALLOCATED", "KD-IDX-LEFTOVER"
    )

    def __init__(self, segment: Segment, *, excused: bool, is_last: bool = False, is_open: bool = False) -> None:
        """`excused` as for IndexCheck.

        `is_last`: the segment is the partition's last one; `is_open`: it was neither rolled nor closed.
        """
        super().__init__(segment, (segment.base_offset - 1, -1), excused=excused)
        self._is_last, self._is_open = is_last, is_open
        self._waiting: tuple[int, int, int] | None = None  # an entry that names a later batch's last offset
        self._last_position = self._position_before = -1  # where the last entry leads to, and the one before it
        self._gap_from = 0
        self._gap = (0, 0)
        self._end = 0

    def open(self) -> Iterator[Finding]:
        """Look at what the file says without its log. Raises OSError, CorruptIndexError."""
        yield from super().open()
        if self._index is None or self._index.size >= OFFSET_ENTRY_SIZE or self._is_open:
            return
        times = used_entries(self._segment, names.TIME_INDEX)
        if times >= PROVING_ENTRIES:
            text = f"no entries, but the .timeindex has {times}: lookups read the log from its start"
            yield found("KD-IDX-EMPTY", self.path, text)

    def _is_due(self) -> bool:
        return not self._is_last or used_entries(self._segment, names.TIME_INDEX) > 1

    def _columns(self, data: bytes) -> tuple[array[int], array[int]]:
        columns = columns_of(data, "i")
        return absolute(widened(columns[0::2]), self._segment.base_offset), widened(columns[1::2])

    def _words(self, entry: Entry) -> str:
        return f"offset {entry[1]} at byte {entry[2]}"

    def take(self, rows: BatchRows) -> Iterator[Finding]:
        """Take valid batches; yield what is found. Raises OSError."""
        return self.leftovers.pass_on(self._take(rows))

    def _take(self, rows: BatchRows) -> Iterator[Finding]:
        if self._index is None:
            return
        self._end = rows.end
        entries = self._entries
        while True:
            yield from self._load()
            stop = bisect_left(entries.second, rows.end)
            if not stop:
                break
            offsets, positions = entries.first[:stop], entries.second[:stop]
            if self._waiting or not _agree(rows, offsets, positions):
                yield from self._one_by_one(rows, stop)
            self._position_before = positions[-2] if stop > 1 else self._last_position
            self._last_position = positions[-1]
            self._measure(positions)
            entries.drop(stop)
        if self._waiting and rows.last_offset[-1] >= self._waiting[1]:
            yield from self._settle(rows, entries.second[0] if entries else None)

    def covered(self, rows: BatchRows) -> tuple[int, int]:
        """Return how many rows go up to the batch that the last entry leads to, and to that of the one before.

        The time index is told of them right after.
        """
        at = rows.position
        return bisect_left(at, self._last_position + 1), bisect_left(at, self._position_before + 1)

    def bad_bytes(self, bad: Damage) -> Iterator[Finding]:
        """Take bytes that are no batches: entries that lead there cannot be judged, and are not the index's fault."""
        self._waiting = None
        while True:
            yield from self._load()
            stop = bisect_left(self._entries.second, bad.resumed)
            if not stop:
                break
            self._entries.drop(stop)

    def _measure(self, positions: array[int]) -> None:
        """Keep the longest stretch without an entry."""
        if positions[-1] - self._gap_from > SPARSE_BYTES:
            before = array("q", (self._gap_from,)) + positions[:-1]
            longest = kernels.differences(before, positions)[1]
            if longest > max(SPARSE_BYTES, self._gap[1] - self._gap[0]):
                row = list(map(sub, positions, before)).index(longest)
                self._gap = before[row], positions[row]
        self._gap_from = positions[-1]

    def _one_by_one(self, rows: BatchRows, stop: int) -> Iterator[Finding]:
        """Yield the next `stop` entries, all of which lead into these rows or before it."""
        for at in range(stop):
            number = self._entries.numbers[at]
            offset, position = self._entries.first[at], self._entries.second[at]
            if self._waiting:
                yield from self._settle(rows, position)
            row = bisect_left(rows.position, position)
            if row == len(rows.position) or rows.position[row] != position:
                text = f"entry {number} (offset {offset}) leads to byte {position}, where no valid batch starts"
                yield self._of_entry("KD-IDX-POSITION", text, number, offset)
            elif offset > rows.last_offset[row]:
                self._waiting = number, offset, position
            elif not (_may_end_at(rows, row, offset) or _begins_at(rows, row, offset)):
                yield self._misnamed(number, offset, position)

    def _settle(self, rows: BatchRows, upto: int | None) -> Iterator[Finding]:
        """Yield whether the waiting entry's offset is the last one of a batch before byte `upto`, the next entry's."""
        if self._waiting is None:
            return
        number, offset, position = self._waiting
        row = bisect_left(rows.last_offset, offset)
        if row < len(rows.last_offset) and _may_end_at(rows, row, offset):
            if upto is None or rows.position[row] < upto:
                self._waiting = None
                return
        elif row == len(rows.last_offset) and (upto is None or upto >= rows.end):
            return
        self._waiting = None
        yield self._misnamed(number, offset, position)

    def _misnamed(self, number: int, offset: int, position: int) -> Finding:
        text = f"entry {number} (position {position}) names offset {offset}, which no batch there begins or ends with"
        return self._of_entry("KD-IDX-OFFSET", text, number, offset)

    def finish(self) -> Iterator[Finding]:
        """Yield the log is over: what is left leads beyond it. Raises OSError."""
        if self._index is None:
            return
        yield from self.leftovers.pass_on(self._rest())
        yield from self.leftovers.settle(self._index.entries)
        if self._end - self._gap_from > max(SPARSE_BYTES, self._gap[1] - self._gap[0]):
            self._gap = self._gap_from, self._end
        if self._gap[1] - self._gap[0] > SPARSE_BYTES:
            start, stop = self._gap
            text = f"{self._index.entries} entries; the longest stretch without one has {stop - start} bytes, from byte"
            yield found("KD-IDX-SPARSE", self.path, f"{text} {start} on")

    def _rest(self) -> Iterator[Finding]:
        """Yield the entries that lead beyond the log."""
        if self._waiting:
            yield self._misnamed(*self._waiting)
        yield from self._load()
        while self._entries:
            for number, offset, position in self._entries:
                text = f"entry {number} (offset {offset}) leads to byte {position}, the last valid batch ends at"
                text += f" {self._end}"
                yield self._of_entry("KD-IDX-POSITION", text, number, offset)
            self._entries.drop(len(self._entries))
            yield from self._load()


def _agree(rows: BatchRows, offsets: array[int], positions: array[int]) -> bool:
    """Return whether all entries lead to these batches and name their last offsets."""
    at = rows.position
    count, first = len(positions), bisect_left(at, positions[0])
    if at[first : first + count] == positions:  # as where every batch has an entry
        return rows.last_offset[first : first + count] == offsets
    reached = [bisect_left(at, position) for position in positions]
    if reached[-1] == len(at):
        return False
    return [at[row] for row in reached] == positions.tolist() and [
        rows.last_offset[row] for row in reached
    ] == offsets.tolist()
