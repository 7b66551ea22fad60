"""What the logs of a planned directory hold at some offsets: batches, their leader epochs, records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from kdump.blocks import BatchBlock
from kdump.errors import KdumpError
from kdump.formats.batch import CONTROL, MAGIC_AT, TRANSACTIONAL
from kdump.storage.decoded import BadBatch, first_offset
from kdump.storage.planned import PlannedFiles
from kdump.storage.planned_log import LogView
from kdump.storage.recipe import SourceBytes, parts_of
from kdump.storage.records import Record
from kdump.storage.records import records_of as read_records
from kdump.storage.scan import Run
from kdump.storage.valid_batches import valid_runs


class Identity(NamedTuple):
    """What tells one batch from another, wherever it is and whatever leader epoch it has; `size` in bytes."""

    magic: int
    size: int
    crc: int


def identity_of(block: BatchBlock, row: int) -> Identity:
    """Return the identity of the batch in a row."""
    return Identity(block.magic[row], block.size[row], block.crc[row])


_ROLE = TRANSACTIONAL | CONTROL


class KeptRecord(NamedTuple):
    """A record, and what its batch says of it: the producer's id and epoch (-1: none), transactional and control."""

    record: Record
    producer_id: int
    producer_epoch: int
    role: int


def records_of(block: BatchBlock, row: int) -> dict[int, KeptRecord]:
    """Return the records of a batch that the block holds, by offset (absolute). Raises KdumpError where one is bad."""
    role = block.attributes[row] & _ROLE if block.magic[row] >= 2 else 0
    kept: dict[int, KeptRecord] = {}
    for record in read_records(block, row, row + 1):
        if isinstance(record, BadBatch):
            raise record.error
        kept[record.offset] = KeptRecord(
            record._replace(row=0), block.producer_id[row], block.producer_epoch[row], role
        )
    return kept


def offsets_of(block: BatchBlock, row: int) -> tuple[int, int]:
    """Return the first and the last offset (absolute) of a batch that the block holds.

    A v0/v1 wrapper that cannot be read is taken for one message.
    """
    last = block.last_offset[row]
    try:
        return min(first_offset(block, row), last), last
    except KdumpError:
        return last, last


class Overlap(NamedTuple):
    """What the result has at some offsets.

    `batches` are the identities of its batches, each with its last offset (absolute), `spans` the first and the last
    offset of each with its leader epoch (-1: none), `records` those by offset, of the batches that can be read.
    `producers` are the last offset of each batch with its producer's id and epoch: what a batch without records tells.
    """

    batches: set[tuple[int, Identity]]
    spans: list[tuple[int, int, int]]
    records: dict[int, KeptRecord]
    producers: set[tuple[int, int, int]]

    def has_later_epoch(self, first: int, last: int, epoch: int) -> bool:
        """Return whether a batch at one of these offsets is of a later leader epoch."""
        return epoch >= 0 and any(low <= last and first <= high and later > epoch for low, high, later in self.spans)


class _Place(NamedTuple):
    """A run of valid batches: the log, its bytes, the lowest and the highest offset (absolute)."""

    name: str
    start: int
    stop: int
    lowest: int
    highest: int


class ResultLogs:
    """The logs of a planned directory, which are read when they are asked for first."""

    def __init__(self, planned: PlannedFiles) -> None:
        """`planned` has only logs."""
        self._planned = planned
        self._places: list[_Place] | None = None
        self._foreign: Counter[Identity] | None = None

    def between(self, first: int, last: int) -> Overlap:
        """Return what batches with offsets from `first` to `last` (absolute) have. Raises OSError."""
        if self._places is None:
            self._places = list(self._read_places())
        overlap = Overlap(set(), [], {}, set())
        for place in self._places:
            if place.lowest <= last and first <= place.highest:
                with LogView(self._planned, place.name) as log:
                    for block in log.blocks(place.start, place.stop):
                        self._add(log, block, first, last, overlap)
        return overlap

    def take_new(self, identity: Identity) -> bool:
        """Return whether new content has this batch, at whatever offset; it counts for one batch only.

        Raises OSError.
        """
        if self._foreign is None:
            self._foreign = Counter(self._read_new())
        has_one = self._foreign[identity] > 0
        self._foreign[identity] -= has_one
        return has_one

    def _add(self, log: LogView, block: BatchBlock, first: int, last: int, overlap: Overlap) -> None:
        for row in range(block.length):
            high = block.last_offset[row]
            if not block.valid[row] or high < first or (block.count[row] >= 0 and block.base_offset[row] > last):
                continue
            held, at = log.held(block, row)
            low, high = offsets_of(held, at)
            if low > last:
                continue
            overlap.batches.add((high, identity_of(held, at)))
            overlap.spans.append((low, high, held.leader_epoch[at]))
            overlap.producers.add((high, held.producer_id[at], held.producer_epoch[at]))
            try:
                overlap.records.update(records_of(held, at))
            except KdumpError:
                continue  # only the same batch proves then that nothing goes

    def _runs(self, name: str) -> Iterator[Run]:
        with LogView(self._planned, name) as log:
            yield from valid_runs(log)

    def _read_places(self) -> Iterator[_Place]:
        for name in sorted(self._planned.files):
            for block, first, stop in self._runs(name):
                lasts = block.last_offset[first:stop]
                bases = [base for base in block.base_offset[first:stop] if base >= 0]
                end = block.position[stop - 1] + block.size[stop - 1]
                is_wrapped = min(block.count[first:stop]) < 0  # only their content tells where they begin
                lowest = 0 if is_wrapped else min(bases, default=0)
                yield _Place(name, block.position[first], end, lowest, max(lasts))

    def _read_new(self) -> Iterator[Identity]:
        """Yield the batches whose content is in no file that the directory has now."""
        for name, recipe in self._planned.files.items():
            own: list[tuple[int, int]] = []
            position = 0
            for part in parts_of(recipe):
                if isinstance(part, SourceBytes) and self._planned.full(part.name) != part.name:
                    own.append((position, position + part.size))
                position += part.size
            if own == [(0, recipe.size)]:
                continue
            for block, first, stop in self._runs(name):
                for row in range(first, stop):
                    start = block.position[row] + MAGIC_AT
                    end = block.position[row] + block.size[row]
                    if not any(low <= start and end <= high for low, high in own):
                        yield identity_of(block, row)
