"""What the checks of .index and .timeindex share: entries as columns, those out of order left out."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Iterable, Iterator

from kdump import kernels
from kdump.disk.reading import ReadOnlyFile, is_file
from kdump.errors import CorruptIndexError
from kdump.findings.finding import Finding, found
from kdump.findings.kind import NOTE
from kdump.formats import names
from kdump.formats.index_entries import OFFSET_ENTRY_SIZE, TIME_ENTRY_SIZE, absolute_offset
from kdump.formats.words import number_words
from kdump.storage.segment import Segment
from kdump.verify.column_checks import increases

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


def zeros_text(zeros: int, entries: int) -> str:
    """Return how many entries of zeros an index ends with, behind so many others."""
    return f"{number_words(zeros, 'entry', 'entries')} of zeros after {number_words(entries, 'entry', 'entries')}"


def missing(code: str, segment: Segment, kind: str, *, is_due: bool) -> Finding:
    """Return the finding of a segment that has no index of a kind.

    An active one may lack it where it `is_due` with the first entry only (LazyIndex); the cleaner's new segment where
    the broker has not renamed it yet, which it does file by file: its next start does.
    """
    path, text = segment.path(kind), f"the active segment has no .{kind} yet"
    waits = is_due and is_file(f"{path}.{names.SWAP}")
    if is_due:
        text = f"the segment has no .{kind}" + (f", but a .{kind}.{names.SWAP} that becomes it" if waits else "")
    return found(code, path, text, offset=segment.base_offset, severity="" if is_due and not waits else NOTE)


_ENTRY_SIZES = {names.OFFSET_INDEX: OFFSET_ENTRY_SIZE, names.TIME_INDEX: TIME_ENTRY_SIZE}


def used_entries(segment: Segment, kind: str) -> int:
    """Return how many entries an .index or .timeindex has, zeros at its end left out; none where it cannot be read."""
    try:
        with segment.offset_index() if kind == names.OFFSET_INDEX else segment.time_index() as index:
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
    for kind, entry_size in _ENTRY_SIZES.items():
        try:
            with ReadOnlyFile(segment.path(kind)) as file:
                sizes[kind] = file.size
                if file.size >= entry_size and not any(file.read(file.size - entry_size, entry_size)):
                    with_zeros.add(kind)
        except OSError:
            return frozenset(_ENTRY_SIZES)  # there is nothing to compare with
    offset_size, time_size = sizes.values()
    if len(with_zeros) == len(_ENTRY_SIZES):
        fits = max(offset_size, time_size) < min(offset_size + OFFSET_ENTRY_SIZE, time_size + TIME_ENTRY_SIZE)
    elif names.TIME_INDEX in with_zeros:
        used = (offset_size // OFFSET_ENTRY_SIZE + 1) * TIME_ENTRY_SIZE
        fits = time_size - used >= _MIN_ROOM
    else:
        count = used_entries(segment, names.OFFSET_INDEX)
        has_room = offset_size - count * OFFSET_ENTRY_SIZE >= _MIN_ROOM and not offset_size % OFFSET_ENTRY_SIZE
        fits = bool(with_zeros) and has_room and count >= time_size // TIME_ENTRY_SIZE - 2
    return frozenset(with_zeros if fits else ())
