"""The index files beside a segment, open for reading: entries by number, and the broker's searches over them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator

from kdump.disk.reading import ReadOnlyFile
from kdump.errors import CorruptIndexError
from kdump.formats.index_entries import (
    ABORTED_TXN_SIZE,
    OFFSET_ENTRY_SIZE,
    TIME_ENTRY_SIZE,
    AbortedTxn,
    OffsetIndexEntry,
    TimeIndexEntry,
    check_offset_index,
    check_time_index,
    decode_aborted_txns,
    decode_offset_entries,
    decode_time_entries,
    offset_entry_at,
    time_entry_at,
)
from kdump.formats.words import number_words

WARM_BYTES = 8192  # what a busy broker has in memory of an index
CHUNK_ENTRIES = 8192

Trace = Callable[[str], object]


class OffsetIndex(ReadOnlyFile):
    """An .index file. `entries` counts its whole length, as Kafka does when it opens one: a zero tail is entries."""

    def __init__(self, path: str, base_offset: int) -> None:
        """Open `path`, the index of the segment with this base offset. Raises OSError."""
        super().__init__(path)
        self.base_offset = base_offset
        self.entries = self.size // OFFSET_ENTRY_SIZE

    def entry(self, number: int) -> OffsetIndexEntry:
        """Return entry `number`, 0 <= number < entries. Raises CorruptIndexError where the file has shrunk since."""
        return offset_entry_at(_entry_bytes(self, number, OFFSET_ENTRY_SIZE), 0, self.base_offset)

    def __iter__(self) -> Iterator[OffsetIndexEntry]:
        """Yield all entries."""
        for chunk in _chunks(self, self.entries, OFFSET_ENTRY_SIZE):
            yield from decode_offset_entries(chunk, self.base_offset)

    def lookup(self, offset: int, trace: Trace | None = None) -> OffsetIndexEntry:
        """Return the entry from whose position a scan finds absolute `offset`: the segment's start where no entry does.

        `trace` is told the entries that are looked at.
        """
        slot = floor_slot(self.entries, OFFSET_ENTRY_SIZE, offset, lambda number: self.entry(number).offset, trace)
        return OffsetIndexEntry(self.base_offset, 0) if slot < 0 else self.entry(slot)

    def drop_zero_tail(self) -> None:
        """Count only the entries before the zeros that a preallocated index ends with."""
        self.entries = _used(self.entries, lambda number: self.entry(number) == (self.base_offset, 0))

    def check(self) -> None:
        """Make Kafka's sanity check. Raises CorruptIndexError."""
        last = self.entry(self.entries - 1).offset - self.base_offset if self.entries else 0
        check_offset_index(self.size, self.base_offset, last, self.path)


class TimeIndex(ReadOnlyFile):
    """A .timeindex file; `entries` counts its whole length."""

    def __init__(self, path: str, base_offset: int) -> None:
        """Open `path`, the time index of the segment with this base offset. Raises OSError."""
        super().__init__(path)
        self.base_offset = base_offset
        self.entries = self.size // TIME_ENTRY_SIZE

    def entry(self, number: int) -> TimeIndexEntry:
        """Return entry `number`, 0 <= number < entries. Raises CorruptIndexError where the file has shrunk since."""
        return time_entry_at(_entry_bytes(self, number, TIME_ENTRY_SIZE), 0, self.base_offset)

    def __iter__(self) -> Iterator[TimeIndexEntry]:
        """Yield all entries."""
        for chunk in _chunks(self, self.entries, TIME_ENTRY_SIZE):
            yield from decode_time_entries(chunk, self.base_offset)

    def lookup(self, timestamp: int, trace: Trace | None = None) -> TimeIndexEntry:
        """Return the last entry at or before `timestamp` (ms): all later records lie behind its offset.

        `trace` is told the entries that are looked at.
        """
        slot = floor_slot(self.entries, TIME_ENTRY_SIZE, timestamp, lambda number: self.entry(number).timestamp, trace)
        return TimeIndexEntry(-1, self.base_offset) if slot < 0 else self.entry(slot)

    def drop_zero_tail(self) -> None:
        """Count only the entries before the zeros that a preallocated index ends with."""
        self.entries = _used(self.entries, lambda number: self.entry(number) == (0, self.base_offset))

    def check(self) -> None:
        """Make Kafka's sanity check. Raises CorruptIndexError."""
        first = self.entry(0) if self.entries else TimeIndexEntry(-1, self.base_offset)
        last = self.entry(self.entries - 1) if self.entries else first
        check_time_index(
            self.size, self.base_offset, first.timestamp, last.timestamp, last.offset - self.base_offset, self.path
        )


class TxnIndex(ReadOnlyFile):
    """A .txnindex file: the transactions aborted in its segment."""

    def __iter__(self) -> Iterator[AbortedTxn]:
        """Yield all entries; an incomplete last one is left out, as Kafka does."""
        for chunk in _chunks(self, self.size // ABORTED_TXN_SIZE, ABORTED_TXN_SIZE):
            yield from decode_aborted_txns(chunk)


def may_end_at(offset: int, base: int, last: int, count: int) -> bool:
    """Return whether an offset index's entry may name `offset` for the batch from `base` to `last` (absolute).

    It is its last offset or, where the cleaner took records out so that `count` are left, and so wrote the offset of
    the last one left, one inside.
    """
    return offset == last or (base <= offset < last and 0 < count <= last - base)


def floor_slot(
    entries: int, entry_size: int, target: int, key: Callable[[int], int], trace: Trace | None = None
) -> int:
    """Return the largest slot whose key is not above `target`, or -1, found as the broker finds it.

    It looks first into the last 8192 bytes, which a busy broker has in memory; on an index that is not sorted
    (damage, a zero tail) this decides which slot comes out.
    """
    first_hot = max(0, entries - 1 - WARM_BYTES // entry_size)
    if trace:
        count = number_words(entries, "entry", "entries")
        trace(f"{count}, its hot section begins at slot {first_hot}" if entries else "no entries")
        key = _traced(key, trace)
    if entries == 0:
        return -1
    if key(first_hot) < target:
        return _search(first_hot, entries - 1, target, key)
    if key(0) > target:
        return -1
    return _search(0, first_hot, target, key)


def _traced(key: Callable[[int], int], trace: Trace) -> Callable[[int], int]:
    def traced(number: int) -> int:
        found = key(number)
        trace(f"slot {number} is for {found}")
        return found

    return traced


def _used(entries: int, is_zero: Callable[[int], bool]) -> int:
    """Return how many entries come before a tail of zeros; of nothing but zeros, none."""
    if entries == 0 or not is_zero(entries - 1):
        return entries
    return bisect_left(range(entries - 1), True, key=is_zero)


def _search(low: int, high: int, target: int, key: Callable[[int], int]) -> int:
    while low < high:
        middle = (low + high + 1) // 2
        found = key(middle)
        if found == target:
            return middle
        if found > target:
            high = middle - 1
        else:
            low = middle
    return low


def _entry_bytes(file: ReadOnlyFile, number: int, entry_size: int) -> bytes:
    data = file.read(number * entry_size, entry_size)
    if len(data) < entry_size:
        raise CorruptIndexError(f"{file.path} became shorter while it was read")
    return data


def _chunks(file: ReadOnlyFile, entries: int, entry_size: int) -> Iterator[bytes]:
    step = CHUNK_ENTRIES * entry_size
    for position in range(0, entries * entry_size, step):
        yield file.read(position, min(step, entries * entry_size - position))
