"""Build the offset map of a pass: the latest offset of each key in the dirty section, as far as memory reaches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kdump import kernels
from kdump.blocks import content_at
from kdump.clean.read_buffer import ReadBuffer
from kdump.clean.reading import read_batches
from kdump.clean.state import PartitionState, between
from kdump.clean.transactions import Transactions, aborted_from
from kdump.errors import CleaningError
from kdump.formats.batch import CONTROL, TRANSACTIONAL
from kdump.formats.control import ControlError, control_type_of
from kdump.kernels.portable.compaction import KeyOffsets
from kdump.settings.cleaning import CleaningSettings
from kdump.storage.decoded import DecodedRows
from kdump.storage.facts import SegmentFacts

Progress = Callable[[str, int], None]

ENTRY_BYTES = 160
"""What an entry of ExactKeys takes in memory besides the bytes of its key, about."""


@dataclass(slots=True)
class OffsetMap:
    """The keys of the dirty section up to `latest_offset` (absolute); `is_full` if it goes on behind that.

    `taken` has the positions of the batches in each segment that were taken whole, by base offset: where there was no
    more room for a key, neither that batch nor what is behind it.
    """

    keys: KeyOffsets
    latest_offset: int = -1
    is_full: bool = False
    taken: dict[int, range] = field(default_factory=dict)

    @property
    def end_offset(self) -> int:
        """Up to where (absolute, exclusive) the log is clean after the pass."""
        return self.latest_offset + 1


class ExactKeys(KeyOffsets):
    """Keys as they are, so that no two are taken for one, and offsets, in a dictionary of at most `memory` bytes."""

    def __init__(self, memory: int) -> None:
        self._left = memory
        self._offsets: dict[bytes, int] = {}

    @property
    def size(self) -> int:  # type: ignore[override]
        """The number of different keys."""
        return len(self._offsets)

    def put(self, key: bytes, offset: int) -> bool:
        """Note that `key` has `offset`; False where there is no room for another key."""
        if key not in self._offsets:
            needed = ENTRY_BYTES + len(key)
            if needed > self._left and self._offsets:
                return False
            self._left -= needed
        self._offsets[key] = offset
        return True

    def get(self, key: bytes) -> int:
        """Return the offset noted for `key`; -1 where there is none."""
        return self._offsets.get(key, -1)


def new_keys(config: CleaningSettings, *, compares_keys: bool) -> KeyOffsets:
    """Return an empty map; `compares_keys`: keys are kept as they are, not as MD5 sums."""
    if compares_keys:

        return ExactKeys(config.map_bytes)
    return kernels.OffsetMap(config.map_bytes, config.map_keys)


def build_map(
    keys: KeyOffsets, state: PartitionState, buffer: ReadBuffer, progress: Progress, config: CleaningSettings
) -> OffsetMap:
    """Read the dirty section of a log. `buffer` is left as Kafka's cleaner leaves its own.

    Raises OSError, CleaningError, CorruptIndexError.
    """
    building = _Building(OffsetMap(keys), state, buffer, progress, config)
    building.run()
    return building.map


class _Building:
    def __init__(
        self,
        found: OffsetMap,
        state: PartitionState,
        buffer: ReadBuffer,
        progress: Progress,
        config: CleaningSettings,
    ) -> None:
        self.map = found
        self._start = state.first_dirty_offset
        self._end = state.first_uncleanable_offset
        self._state = state
        self._segments = between(state.segments, self._start, self._end)
        self._buffer = buffer
        self._progress = progress
        self._transactions = Transactions()
        self._max_record_bytes = config.max_decompressed_message_bytes

    def run(self) -> None:
        if self._segments:
            self._transactions.add(aborted_from(self._state, self._segments[0].base_offset, self._end))
        ends = [each.base_offset for each in self._segments[1:]] + [self._end]
        for facts, end in zip(self._segments, ends, strict=False):
            self._read(facts)
            if self.map.is_full:
                return
            self.map.latest_offset = end - 1
            self._buffer.restore()

    def _read(self, facts: SegmentFacts) -> None:
        with facts.segment.open_log() as log:
            position = facts.segment.position_of(log, self._start)
            start = position
            self._buffer.start(position)
            limit = self._max_record_bytes
            for batches in read_batches(log, facts.base_offset, position, max_record_bytes=limit):
                taken = self._take(batches)
                end = batches.block.position[batches.stop - 1] + batches.block.size[batches.stop - 1]
                stop = batches.block.position[taken] if taken < batches.stop else end
                self.map.taken[facts.base_offset] = range(start, stop)
                self._progress(log.path, end - position)
                position = end
                if self.map.is_full:
                    return

    def _take(self, batches: DecodedRows) -> int:
        """Note the keys of batches; the first row that was not taken whole."""
        block, first, stop, records, payloads = batches
        wanted = self._wanted(batches)
        full_at = self.map.keys.take(block, records, first, payloads, wanted, self._start)
        last = stop if full_at == records.length else records.row[full_at]
        for row in range(first, min(last + 1, stop)):
            self._buffer.begins(block.position[row], block.size[row])
        if last > first and block.last_offset[last - 1] >= self._start:
            self.map.latest_offset = block.last_offset[last - 1]
        if full_at == records.length:
            return last
        self.map.is_full = True
        for at in range(full_at - 1, -1, -1):
            if records.row[at] != last:
                break
            if records.key_length[at] >= 0 and records.offset[at] >= self._start:
                self.map.latest_offset = records.offset[at]
                break
        return last

    def _wanted(self, batches: DecodedRows) -> bytes | bytearray:
        """Tell of which rows the keys count: not of markers, nor of what was aborted."""
        block, first, stop = batches.block, batches.first, batches.stop
        wanted = bytearray(b"\1") * (stop - first)
        attributes = block.attributes
        if self._transactions.is_idle and not any(map((CONTROL | TRANSACTIONAL).__and__, attributes[first:stop])):
            return wanted
        for row, start, end in batches.rows():
            last_offset, producer_id = block.last_offset[row], block.producer_id[row]
            if block.magic[row] >= 2 and attributes[row] & CONTROL:
                self._transactions.discards_marker(last_offset, producer_id, control_type(batches, row, start, end))
                wanted[row - first] = 0
            else:
                transactional = block.magic[row] >= 2 and bool(attributes[row] & TRANSACTIONAL)
                if self._transactions.discards_data(last_offset, producer_id, transactional):
                    wanted[row - first] = 0
        return wanted


def control_type(batches: DecodedRows, row: int, start: int, end: int) -> int | None:
    """Return the type of the marker in a control batch, of records `start` to `end` - 1; None without one.

    Raises CleaningError where it is none.
    """
    if start == end:
        return None
    records = batches.records
    key = content_at(batches.source_of(row), records.key_position[start], records.key_length[start])
    try:
        return control_type_of(key)
    except ControlError as error:
        raise CleaningError(f"the control record at offset {records.offset[start]}: {error}") from None
