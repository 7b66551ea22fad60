"""The segments of a log while it is loaded: their files in the plan, their indexes, the broker's searches in them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from kdump.errors import ILLEGAL_ARGUMENT, KAFKA, LoadError
from kdump.formats import names
from kdump.formats.batch import wrap64
from kdump.formats.index_entries import (
    ABORTED_TXN_SIZE,
    ENTRY_SIZES,
    OFFSET_ENTRY_SIZE,
    OffsetIndexEntry,
    check_txn_index,
    decode_aborted_txns,
    offset_entry_at,
)
from kdump.recovery.offset_search import find
from kdump.settings.loading import OffsetSearch
from kdump.storage.indexes import floor_slot
from kdump.storage.planned import PlannedPartition
from kdump.storage.planned_log import LogView
from kdump.storage.scan import MAX_LOG_SIZE, MAX_RELATIVE_OFFSET

_CHUNK = 4096 * ABORTED_TXN_SIZE


def fits(offset: int, base_offset: int) -> bool:
    """Return whether an offset can be told relative to a base offset, in 31 bits (with Java's arithmetic)."""
    return 0 <= wrap64(offset - base_offset) <= MAX_RELATIVE_OFFSET


def file_name(base_offset: int, kind: str, suffix: str = "") -> str:
    """Return the name of the file of a kind (names.LOG, …) for this base offset."""
    return names.segment_file_name(base_offset, f".{kind}{suffix}")


class LoadedSegment:
    """A segment that the broker has opened. Its indexes are opened when first used, and then closed cleanly.

    `entries` are the numbers of entries of the indexes that are open, by kind. Of an index that exists already the
    whole length counts.
    """

    __slots__ = ("_names", "base_offset", "directory", "entries", "max_index_size", "search", "suffix")

    def __init__(
        self,
        directory: PlannedPartition,
        base_offset: int,
        max_index_size: int,
        suffix: str = "",
        *,
        search: OffsetSearch = OffsetSearch.BY_FIRST,
    ) -> None:
        """Open the segment of this base offset; its .log is made where it is missing. Raises LoadError.

        `search`: how the release searches for an offset (LoadingSettings).
        """
        self.search = search
        self.directory = directory
        self.base_offset = base_offset
        self.max_index_size = max_index_size
        self.suffix = suffix
        self._names: dict[str, str] = {}
        self.entries: dict[str, int] = {}
        name = self.file(names.LOG)
        if not directory.exists(name):
            directory.write(name, b"")
        if self.size > MAX_LOG_SIZE:
            text = f"The size of segment {directory.full(name)} ({self.size}) is larger than the maximum allowed"
            raise LoadError(KAFKA, f"{text} segment size of {MAX_LOG_SIZE}", name)

    def file(self, kind: str) -> str:
        """Return the name of the segment's file of a kind."""
        name = self._names.get(kind)
        if name is None:
            name = self._names[kind] = file_name(self.base_offset, kind, self.suffix)
        return name

    @property
    def size(self) -> int:
        """The size of the .log in bytes."""
        return self.directory.size(self.file(names.LOG))

    def open_log(self) -> LogView:
        """Return the .log, open for reading. Raises OSError."""
        return LogView(self.directory, self.file(names.LOG))

    def open_index(self, kind: str) -> int:
        """Open the .index or .timeindex, making it where it is missing; the number of its entries. Raises LoadError."""
        if kind not in self.entries:
            self.entries[kind] = self._open_index(kind, ENTRY_SIZES[kind])
        return self.entries[kind]

    def make_empty_time_index(self) -> None:
        """Make the missing .timeindex, without entries. Raises LoadError."""
        self.open_index(names.TIME_INDEX)
        self.directory.write(self.file(names.TIME_INDEX), b"")

    def resize_indexes(self) -> None:
        """Give the indexes of what is now the active segment their full size (which closing undoes).

        Raises LoadError where an index has more entries than that.
        """
        opened = {kind: self.open_index(kind) for kind in (names.OFFSET_INDEX, names.TIME_INDEX)}
        for kind, entries in opened.items():
            entry_size = ENTRY_SIZES[kind]
            limit = self.max_index_size // entry_size * entry_size
            if entries * entry_size > limit:
                text = f"newPosition > limit: ({entries * entry_size} > {limit})"
                raise LoadError(ILLEGAL_ARGUMENT, text, self.file(kind))

    def close(self) -> None:
        """Trim the indexes that were opened to their entries."""
        for kind, entries in self.entries.items():
            self.directory.cut(self.file(kind), entries * ENTRY_SIZES[kind])

    def check_txn_index(self, *, is_int16: bool = True) -> None:
        """Make Kafka's sanity check of the .txnindex. Raises CorruptIndexError or UnknownTxnVersionError."""
        name = self.file(names.TXN_INDEX)
        for position in range(0, self.directory.size(name), _CHUNK):
            # all at once: Python 3.11 crashes when it collects an unfinished iter_unpack() of a memoryview as garbage
            txns = list(decode_aborted_txns(self.directory.read(name, position, _CHUNK)))
            check_txn_index(txns, self.base_offset, self.directory.full(name), is_int16=is_int16)

    def last_indexed_offset(self) -> int:
        """Return the offset of the last entry of the .index; the base offset without any. Raises LoadError."""
        entries = self.open_index(names.OFFSET_INDEX)
        return self._offset_entry(entries - 1).offset if entries else self.base_offset

    def find(self, log: LogView, offset: int) -> int | None:
        """Return where the batch starts that has `offset`, or else the first one behind it, as the broker finds it.

        None where there is none. Raises LoadError.
        """
        entries = self.open_index(names.OFFSET_INDEX)
        slot = floor_slot(entries, OFFSET_ENTRY_SIZE, offset, lambda number: self._offset_entry(number).offset)
        position = 0 if slot < 0 else self._offset_entry(slot).position
        return find(log, offset, max(0, position), self.search)

    def next_offset(self) -> int:
        """Return the offset after the segment's last one, found from the last index entry on. Raises LoadError."""
        with self.open_log() as log:
            position = self.find(log, self.last_indexed_offset())
            end = None if position is None else log.end_offset(position)
        return self.base_offset if end is None else end

    def _open_index(self, kind: str, entry_size: int) -> int:
        name = self.file(kind)
        if self.directory.exists(name):
            return self.directory.size(name) // entry_size
        if self.max_index_size < entry_size:
            raise LoadError(ILLEGAL_ARGUMENT, f"Invalid max index size: {self.max_index_size}", name)
        self.directory.write(name, b"", self.max_index_size // entry_size * entry_size)
        return 0

    def _offset_entry(self, number: int) -> OffsetIndexEntry:
        data = self.directory.read(self.file(names.OFFSET_INDEX), number * OFFSET_ENTRY_SIZE, OFFSET_ENTRY_SIZE)
        return offset_entry_at(data.ljust(OFFSET_ENTRY_SIZE, b"\0"), 0, self.base_offset)


class Segments:
    """The segments of a log by base offset."""

    def __init__(self) -> None:
        self._by_base: dict[int, LoadedSegment] = {}

    def __len__(self) -> int:
        return len(self._by_base)

    def __contains__(self, base_offset: int) -> bool:
        return base_offset in self._by_base

    def add(self, segment: LoadedSegment) -> None:
        """Put a segment in; one of the same base offset goes."""
        self._by_base[segment.base_offset] = segment

    def remove(self, base_offset: int) -> None:
        """Take a segment out if it is there."""
        self._by_base.pop(base_offset, None)

    def clear(self) -> None:
        """Take all segments out."""
        self._by_base.clear()

    def bases(self) -> list[int]:
        """Return the base offsets in order."""
        return sorted(self._by_base)

    def all(self) -> list[LoadedSegment]:
        """Return the segments in order."""
        return [self._by_base[base] for base in self.bases()]

    def last(self) -> LoadedSegment:
        """Return the active segment; there must be one."""
        return self._by_base[max(self._by_base)]

    def floor(self, offset: int) -> LoadedSegment | None:
        """Return the segment with the greatest base offset that is not above `offset`."""
        bases = self.bases()
        at = bisect_right(bases, offset)
        return self._by_base[bases[at - 1]] if at else None

    def between(self, start: int, stop: int | None = None) -> list[LoadedSegment]:
        """Return the segments from the one on that `start` belongs to, up to those with a base offset below `stop`."""
        bases = self.bases()
        first = max(0, bisect_right(bases, start) - 1)
        end = len(bases) if stop is None else bisect_left(bases, stop)
        return [self._by_base[base] for base in bases[first:end]]
