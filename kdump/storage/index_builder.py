"""The offset index and the time index of a segment while they are built batch by batch."""

from __future__ import annotations

from array import array
from sys import byteorder

from kdump.errors import BUFFER_OVERFLOW, ILLEGAL_ARGUMENT, ILLEGAL_STATE, InvalidOffsetError, LoadError
from kdump.formats.index_entries import OFFSET_ENTRY_SIZE, TIME_ENTRY, TIME_ENTRY_SIZE

_RELATIVE = (1 << 31) - 1  # that offsets fit has been seen to; this is for those that Java wraps around 2^63


class OffsetIndexBuilder:
    """Entries of an .index; `size` is its full size in bytes, `path` what Kafka's texts call it."""

    def __init__(self, base_offset: int, size: int, name: str, path: str) -> None:
        self.base_offset = base_offset
        self.most = size // OFFSET_ENTRY_SIZE
        self.name = name
        self.path = path
        self.offsets = array("q")
        self.positions = array("q")

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def full_size(self) -> int:
        """The size in bytes of the file before it is trimmed."""
        return self.most * OFFSET_ENTRY_SIZE

    def has_room(self, entries: int) -> bool:
        """Return whether so many entries can be added."""
        return len(self.offsets) + entries <= self.most

    def append(self, offset: int, position: int) -> None:
        """Add an entry. Raises LoadError when the index is full, InvalidOffsetError where offsets do not increase."""
        entries = len(self.offsets)
        if entries >= self.most:
            text = f"Attempt to append to a full index (size = {entries})."
            raise LoadError(ILLEGAL_ARGUMENT, text, self.name)
        if entries and offset <= self.offsets[-1]:
            text = f"Attempt to append an offset {offset} to position {entries} no larger than the last offset appended"
            raise InvalidOffsetError(f"{text} ({self.offsets[-1]}) to {self.path}", self.name)
        self.put(offset, position)

    def put(self, offset: int, position: int) -> None:
        """Add an entry that is known to be right."""
        self.offsets.append(offset)
        self.positions.append(position)

    def extend(self, offsets: array[int], positions: array[int]) -> None:
        """Add entries that are known to be right."""
        self.offsets.extend(offsets)
        self.positions.extend(positions)

    def cut(self, entries: int) -> None:
        """Go back to the first `entries` entries."""
        del self.offsets[entries:], self.positions[entries:]

    def content(self) -> bytes:
        """Return the bytes of the entries."""
        words = array("i", bytes(OFFSET_ENTRY_SIZE * len(self)))
        base = self.base_offset
        words[::2] = array("i", [offset - base & _RELATIVE for offset in self.offsets])
        words[1::2] = array("i", self.positions)
        if byteorder == "little":
            words.byteswap()
        return words.tobytes()


class TimeIndexBuilder:
    """Entries of a .timeindex; `size` is its full size in bytes, `path` what Kafka's texts call it."""

    def __init__(self, base_offset: int, size: int, name: str, path: str) -> None:
        self.base_offset = base_offset
        self.most = size // TIME_ENTRY_SIZE
        self.name = name
        self.path = path
        self.timestamps = array("q")
        self.offsets = array("q")

    def __len__(self) -> int:
        return len(self.timestamps)

    @property
    def full_size(self) -> int:
        """The size in bytes of the file before it is trimmed."""
        return self.most * TIME_ENTRY_SIZE

    @property
    def last_timestamp(self) -> int:
        """The timestamp (ms) of the last entry; -1 without any."""
        return self.timestamps[-1] if self.timestamps else -1

    def has_room(self, entries: int) -> bool:
        """Return whether so many entries can be added, besides the last one."""
        return len(self.timestamps) + entries < self.most

    def maybe_append(self, timestamp: int, offset: int, *, is_last: bool = False) -> None:
        """Add an entry if `timestamp` (ms) is beyond all others; `is_last` may use the slot kept free for the end.

        Raises LoadError when the index is full, InvalidOffsetError where offsets decrease.
        """
        entries = len(self.timestamps)
        if not is_last and entries >= self.most - 1:
            text = f"Attempt to append to a full time index (size = {entries})."
            raise LoadError(ILLEGAL_ARGUMENT, text, self.name)
        if entries and offset < self.offsets[-1]:
            text = f"Attempt to append an offset ({offset}) to slot {entries} no larger than the last offset appended"
            raise InvalidOffsetError(f"{text} ({self.offsets[-1]}) to {self.path}", self.name)
        if entries and timestamp < self.timestamps[-1]:
            text = f"Attempt to append a timestamp ({timestamp}) to slot {entries} no larger than the last timestamp"
            raise LoadError(ILLEGAL_STATE, f"{text} appended ({self.timestamps[-1]}) to {self.path}", self.name)
        if timestamp <= self.last_timestamp:
            return
        if entries >= self.most:
            raise LoadError(BUFFER_OVERFLOW, f"{self.path} has no room for entry {entries}", self.name)
        self.put(timestamp, offset)

    def put(self, timestamp: int, offset: int) -> None:
        """Add an entry that is known to be right."""
        self.timestamps.append(timestamp)
        self.offsets.append(offset)

    def cut(self, entries: int) -> None:
        """Go back to the first `entries` entries."""
        del self.timestamps[entries:], self.offsets[entries:]

    def content(self) -> bytes:
        """Return the bytes of the entries."""
        base, pack = self.base_offset, TIME_ENTRY.pack
        entries = zip(self.timestamps, self.offsets, strict=True)
        return b"".join(pack(timestamp, offset - base & _RELATIVE) for timestamp, offset in entries)
