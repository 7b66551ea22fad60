"""What the checks of .index and .timeindex share: the file, entries as columns, those out of order left out."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from kdump import kernels
from kdump.check.column_checks import increases
from kdump.disk.reading import ReadOnlyFile, is_file
from kdump.errors import CorruptIndexError
from kdump.findings.finding import Finding, found
from kdump.findings.kind import NOTE
from kdump.formats import names
from kdump.formats.index_entries import ENTRY_SIZES, OFFSET_ENTRY_SIZE, TIME_ENTRY_SIZE, absolute_offset
from kdump.formats.words import number_words
from kdump.storage.indexes import OffsetIndex, TimeIndex
from kdump.storage.segment import Segment

CHUNK_ENTRIES = 4096
MAX_HELD = 1000

Pair = tuple[int, int]
Entry = tuple[int, int, int]
"""Its number in the file, and what it says; the number is -1 for the least that a first entry has to be above."""

_LITTLE = sys.byteorder == "little"


def columns_of(data: bytes, typecode: str) -> array[int]:
    """Return big-endian numbers of four bytes; what is left at the end is no number."""
    column = array(typecode, data[: len(data) // 4 * 4])
    if _LITTLE:
        column.byteswap()
    return column


def widened(column: array[int]) -> array[int]:
    """Return numbers of four bytes as a column like all others, which has eight."""
    wide = array("q", bytes(8 * len(column)))
    memoryview(wide).cast("B").cast("i")[0 if _LITTLE else 1 :: 2] = memoryview(column)
    # those below 0 are not right then, and are too large
    return array("q", column) if wide and kernels.column_stats(wide)[1] >= 1 << 31 else wide


def absolute(relative: array[int], base_offset: int) -> array[int]:
    """Return the offsets that entries mean."""
    if not base_offset:
        return relative
    try:
        return array("q", map(base_offset.__add__, relative))
    except OverflowError:
        return array("q", [absolute_offset(each, base_offset) for each in relative])


class Entries:
    """Entries that are still to be looked at: numbers in the file, and two columns that both increase."""

    __slots__ = ("_before", "first", "numbers", "second")

    def __init__(self, lowest: Pair) -> None:
        """Both columns start above `lowest`."""
        self.first: array[int] = array("q")
        self.second: array[int] = array("q")
        self.numbers: list[int] | range = range(0)
        self._before: list[Entry] = [(-1, *lowest)]  # the last two that were in order

    def __len__(self) -> int:
        return len(self.first)

    def fill(self, start: int, first: array[int], second: array[int]) -> list[tuple[Entry, Entry]]:
        """Go on with entries from number `start`; give back those that break the order, and what each contradicts."""
        self.first, self.second = first, second
        self.numbers = range(start, start + len(first))
        if not first:
            return []
        before = self._before[-1]
        if _is_above((start, first[0], second[0]), before) and increases(first) and increases(second):
            self._before = [*self._before, *zip(self.numbers[-2:], first[-2:], second[-2:], strict=True)][-2:]
            return []
        return list(self._sort_out())

    def drop(self, count: int) -> None:
        """Drop the first `count`, which are done with."""
        del self.first[:count], self.second[:count]
        self.numbers = self.numbers[count:]

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        """Yield number, first and second of each."""
        return zip(self.numbers, self.first, self.second, strict=True)

    def _sort_out(self) -> Iterable[tuple[Entry, Entry]]:
        """Leave out the entries that break the order: of two, the one that its neighbours are against."""
        kept: list[Entry] = []
        older = self._before[-1]
        if not _is_above((self.numbers[0], self.first[0], self.second[0]), older):
            older = self._before[0]  # the last entry of the range before may be the wrong one, which the log told
        for entry in self:
            last = kept[-1] if kept else older
            if _is_above(entry, last):
                kept.append(entry)
                continue
            before = kept[-2] if len(kept) > 1 else older
            if kept and _is_above(entry, before):
                yield kept.pop(), entry
                kept.append(entry)
            else:
                yield entry, last
        self.numbers = [entry[0] for entry in kept]
        self.first = array("q", [entry[1] for entry in kept])
        self.second = array("q", [entry[2] for entry in kept])
        self._before = [older, *kept[-2:]][-2:]


def _is_above(entry: Entry, other: Entry) -> bool:
    return entry[1] > other[1] and entry[2] > other[2]


def order_text(entry: Entry, other: Entry, words: Callable[[Entry], str], base_offset: int) -> str:
    """Return which two entries are out of order, or which one where the segment begins above it."""
    one, two = sorted((entry, other))
    if one[0] < 0:
        return f"out of order: entry {two[0]} is {words(two)}, the segment begins at offset {base_offset}"
    return f"out of order: entry {one[0]} is {words(one)}, entry {two[0]} is {words(two)}"


def found_in_entry(code: str, path: str, message: str, number: int, offset: int, size: int) -> Finding:
    """Return a finding about an entry of an index whose entries have `size` bytes each."""
    return found(code, path, message, number * size, offset, length=size, details={"entry": number})


class Leftovers:
    """The findings about single entries of an index that a killed broker left preallocated.

    Truncation lowers the count of entries and zeroes nothing: entries of what was truncated stay after those of the
    log (AbstractIndex.truncateToEntries). The broker rebuilds such an index at its next start.
    """

    def __init__(self, code: str, path: str, entry_size: int, *, may_be: bool) -> None:
        """`code` is that of the note for all of them; without `may_be` every finding is passed on."""
        self._code = code
        self._path = path
        self._entry_size = entry_size
        self._may_be = may_be
        self._held: list[Finding] = []
        self._count = 0
        self.are_there = False

    def pass_on(self, findings: Iterable[Finding]) -> Iterator[Finding]:
        """Hold findings back until the log is over."""
        if not self._may_be:
            yield from findings
            return
        for finding in findings:
            if finding.position is None:
                yield finding
                continue
            self._count += 1
            if self._count <= MAX_HELD:
                self._held.append(finding)

    def settle(self, entries: int) -> Iterator[Finding]:
        """End the log: yield one note where most of what follows the first wrong entry is wrong, of `entries`."""
        if not self._held:
            return
        first = min(finding.position or 0 for finding in self._held) // self._entry_size
        self.are_there = 2 * self._count >= entries - first
        if not self.are_there:
            yield from self._held
            return
        text = f"entries {first} to {entries - 1} are not of this log, but of one that was truncated"
        length = (entries - first) * self._entry_size
        details = {"entry": first, "entries": entries - first}
        yield found(self._code, self._path, text, first * self._entry_size, length=length, details=details)


class IndexCodes(NamedTuple):
    """The codes of what is found in both kinds of indexes."""

    missing: str
    length: str
    order: str
    zeros: str
    preallocated: str
    leftover: str


class IndexCheck:
    """The index of one segment, whose entries are read in ranges while the log is walked; a subclass says which kind.

    `content` is all of the file, where it was read at once.
    """

    _kind: names.FileKind
    _codes: IndexCodes
    _offset_at: int  # where an Entry has its offset

    def __init__(self, segment: Segment, lowest: Pair, *, excused: bool) -> None:
        """Zeros at the end and entries of a truncated log are `excused` where preallocation may have left them."""
        self._segment = segment
        self._entry_size = ENTRY_SIZES[self._kind]
        self._excused = excused
        self.path = segment.path(self._kind)
        self.leftovers = Leftovers(self._codes.leftover, self.path, self._entry_size, may_be=excused)
        self._index: OffsetIndex | TimeIndex | None = None
        self.content = b""
        self._next = 0  # number of the first entry that has not been read
        self._entries = Entries(lowest)

    def open(self) -> Iterator[Finding]:
        """Look at what the file says without its log. Raises OSError, CorruptIndexError."""
        if not self._segment.has(self._kind):
            yield self._missing(is_due=self._is_due())
            return
        self._index = index = self._segment.index(self._kind)
        if rest := index.size % self._entry_size:
            text = f"{index.size} bytes, {rest} more than complete entries"
            yield found(self._codes.length, self.path, text, index.size - rest, length=rest)
        total = index.entries
        index.drop_zero_tail()
        if total == 1 and self._kind == names.TIME_INDEX:
            index.entries = 1  # a single entry of zeros may be meant: timestamp 0 at the base offset
        if zeros := total - index.entries:
            code = self._codes.preallocated if self._excused else self._codes.zeros
            left, used = (number_words(number, "entry", "entries") for number in (zeros, index.entries))
            start, length = index.entries * self._entry_size, zeros * self._entry_size
            details = {"entry": index.entries, "entries": zeros}
            yield found(code, self.path, f"{left} of zeros after {used}", start, length=length, details=details)

    def close(self) -> None:
        """Close the file."""
        if self._index is not None:
            self._index.close()
            self._index = None

    def _is_due(self) -> bool:
        """Return whether a broker has made the file by now; it does with the first entry (LazyIndex)."""
        raise NotImplementedError

    def _columns(self, data: bytes) -> tuple[array[int], array[int]]:
        """Return the two columns of entries."""
        raise NotImplementedError

    def _words(self, entry: Entry) -> str:
        raise NotImplementedError

    def _missing(self, *, is_due: bool) -> Finding:
        """Return the finding of a segment that has no such index.

        The cleaner's new segment may lack it where the broker has not renamed it yet, which it does file by file: its
        next start does.
        """
        text = f"the active segment has no .{self._kind} yet"
        waits = is_due and is_file(f"{self.path}.{names.SWAP}")
        if is_due:
            but = f", but a .{self._kind}.{names.SWAP} that becomes it" if waits else ""
            text = f"the segment has no .{self._kind}{but}"
        severity = "" if is_due and not waits else NOTE
        return found(self._codes.missing, self.path, text, offset=self._segment.base_offset, severity=severity)

    def _load(self) -> Iterator[Finding]:
        """Read on if there are no entries left, those out of order left out: without any the file is over then."""
        size = self._entry_size
        while self._index is not None and not self._entries and self._next < self._index.entries:
            count = min(CHUNK_ENTRIES, self._index.entries - self._next)
            data = self._index.read(self._next * size, count * size)
            self.content = data if len(data) == self._index.size else b""
            for entry, other in self._entries.fill(self._next, *self._columns(data[: len(data) // size * size])):
                text = order_text(entry, other, self._words, self._segment.base_offset)
                yield self._of_entry(self._codes.order, text, entry[0], entry[self._offset_at])
            self._next += max(count, 1)

    def _of_entry(self, code: str, message: str, number: int, offset: int) -> Finding:
        return found_in_entry(code, self.path, message, number, offset, self._entry_size)


_KINDS = (names.OFFSET_INDEX, names.TIME_INDEX)


def used_entries(segment: Segment, kind: str) -> int:
    """Return how many entries an .index or .timeindex has, zeros at its end left out; none where it cannot be read."""
    try:
        with segment.index(kind) as index:
            index.drop_zero_tail()
            return index.entries
    except (OSError, CorruptIndexError):
        return 0


_MIN_ROOM = 1 << 12
"""Bytes of zeros that tell a preallocated index from one that something else has added zeros to."""


def preallocated(segment: Segment) -> frozenset[names.FileKind]:
    """Return which indexes may be as preallocation left them: with zeros at the end.

    Where both have some, their sizes are those that one segment.index.bytes gives them, cut to whole entries of each.
    One may have none. The .index: a broker makes it after the .timeindex, and trims it before (LogSegment). The
    .timeindex: at a start, and after a truncation, a broker makes room in the .index first (LogSegment.resizeIndexes,
    truncateTo). The .index has an entry for each of the .timeindex then, but the last one or two.
    """
    sizes, with_zeros = {}, set()
    for kind in _KINDS:
        entry_size = ENTRY_SIZES[kind]
        try:
            with ReadOnlyFile(segment.path(kind)) as file:
                sizes[kind] = file.size
                if file.size >= entry_size and not any(file.read(file.size - entry_size, entry_size)):
                    with_zeros.add(kind)
        except OSError:
            return frozenset(_KINDS)  # there is nothing to compare with
    offset_size, time_size = sizes.values()
    if len(with_zeros) == len(_KINDS):
        fits = max(offset_size, time_size) < min(offset_size + OFFSET_ENTRY_SIZE, time_size + TIME_ENTRY_SIZE)
    elif names.TIME_INDEX in with_zeros:
        used = (offset_size // OFFSET_ENTRY_SIZE + 1) * TIME_ENTRY_SIZE
        fits = time_size - used >= _MIN_ROOM
    else:
        count = used_entries(segment, names.OFFSET_INDEX)
        has_room = offset_size - count * OFFSET_ENTRY_SIZE >= _MIN_ROOM and not offset_size % OFFSET_ENTRY_SIZE
        fits = bool(with_zeros) and has_room and count >= time_size // TIME_ENTRY_SIZE - 2
    return frozenset(with_zeros if fits else ())
