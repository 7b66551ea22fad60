"""The batch table of a log as the checks see it: columns of batches, in order, with the damage between.

A log is walked once. `walk` gives it piece by piece; pieces of one log that are cut at index entries can be walked by
several threads (kernels release the interpreter's lock), and what they give is put back in order. The pieces are the
same for any number of threads, and so is all that is found.
"""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from kdump.blocks import BatchBlock, RecordBlock
from kdump.check.markers import Marker, markers_of
from kdump.disk.pace import Pace
from kdump.disk.page_cache import PageDropper
from kdump.errors import CorruptIndexError
from kdump.findings.finding import Finding
from kdump.storage.damage import Damage
from kdump.storage.log_reader import BUFFER_SIZE, LogFile
from kdump.storage.scan import Run, scan
from kdump.storage.segment import Segment

if TYPE_CHECKING:
    from kdump.check.records import DeepCheck

PIECE_BYTES = 16 << 20
MIN_AHEAD = 64 << 10
"""Bytes of a log from which on another thread gains more than it costs."""
SMALLER = 4
"""How many pieces at the end are half as large."""
ROWS_AT_ONCE = 1024
BYTES_AT_ONCE = 16 << 20
"""BatchRows end with the run of batches that reaches one of the two: starting the checks costs more than a row."""

Task = TypeVar("Task")
Result = TypeVar("Result")


class BatchRows(NamedTuple):
    """Consecutive valid batches: the columns of kdump.blocks, `markers` by row, and what a deep look found.

    A deep look knows the base offsets of v0/v1 wrappers too.
    """

    position: array[int]
    size: array[int]
    base_offset: array[int]
    last_offset: array[int]
    magic: array[int]
    attributes: array[int]
    base_timestamp: array[int]
    max_timestamp: array[int]
    producer_id: array[int]
    producer_epoch: array[int]
    base_sequence: array[int]
    count: array[int]  # type: ignore[assignment]  # tuple's method of that name is not needed
    leader_epoch: array[int]
    crc: array[int]
    markers: dict[int, Marker]
    deep: list[Finding]

    @property
    def end(self) -> int:
        """The byte position behind the last batch."""
        return self.position[-1] + self.size[-1]

    @property
    def is_full(self) -> bool:
        """Whether it is as large as they are to be."""
        return len(self.position) >= ROWS_AT_ONCE or self.end - self.position[0] >= BYTES_AT_ONCE

    def extend(self, other: BatchRows) -> None:
        """Add the batches that follow."""
        length = len(self.position)
        for column, more in zip(self[:-2], other[:-2], strict=True):
            column.extend(more)
        for row, marker in other.markers.items():
            self.markers[length + row] = marker
        self.deep.extend(other.deep)


_columns = attrgetter(*BatchRows._fields[:-2])
Part = BatchRows | Damage


class Reading(NamedTuple):
    """How logs are read: whether records are decoded, what a batch may decompress to, how fast.

    `topic` is the partition's, whose records may be of a form that Kafka knows; pages may be dropped behind.
    """

    deep: bool
    limit: int
    drops_pages: bool
    topic: str = ""
    pace: Pace | None = None


class Piece(NamedTuple):
    """A range of a segment's log: bytes `start` to `stop` (None: up to the end).

    What it holds is small enough to be walked `ahead` of its turn, and kept.
    """

    segment: Segment
    start: int
    stop: int | None
    reading: Reading
    ahead: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether it is all of the log."""
        return self.start == 0 and self.stop is None


class _Spare(threading.local):
    """Blocks that the thread uses again for its next piece.

    Threads that ask for new memory wait for each other, and the records of a small log take less time than the memory
    for a block of them.
    """

    block: BatchBlock | None = None
    records: RecordBlock | None = None


_spare = _Spare()


@contextmanager
def spare_block() -> Iterator[BatchBlock]:
    """Hold the thread's spare block, or a new one while that is in use."""
    block, _spare.block = _spare.block or BatchBlock(), None
    try:
        yield block
    finally:
        if len(block.data) <= BUFFER_SIZE:
            _spare.block = block


@contextmanager
def _spare_records(wanted: bool) -> Iterator[RecordBlock | None]:
    """Hold the thread's spare block of records, or a new one while that is in use; None where none is `wanted`."""
    if not wanted:
        yield None
        return
    records, _spare.records = _spare.records or RecordBlock(), None
    try:
        yield records
    finally:
        _spare.records = records


def walk(piece: Piece, resume_after: int = -1) -> Iterator[Part]:
    """Yield the parts of a piece. Batches that start before byte `resume_after` are left out. Raises OSError."""
    segment, start, stop, reading, _ = piece
    with (
        segment.open_log() as log,
        PageDropper(log.path, reading.drops_pages) as pages,
        spare_block() as spare,
        _spare_records(reading.deep) as records,
    ):
        deep = None
        if records:
            from kdump.check.records import DeepCheck

            deep = DeepCheck(segment.log_path, reading.topic, reading.limit, records)
        held: BatchRows | None = None
        for part in scan(
            log, segment.base_offset, start, stop, whole=reading.deep, gathers=not reading.deep, spare=spare
        ):
            if isinstance(part, Damage):
                if held:
                    yield held
                    held = None
                yield part
                continue
            block, first, last = part
            if reading.pace is not None:
                reading.pace.take(block.position[last - 1] + block.size[last - 1] - block.position[first])
            first = bisect_left(block.position, resume_after, first, last)
            if first < last:
                rows = rows_of(log, Run(block, first, last), deep)
                if held:
                    held.extend(rows)
                else:
                    held = rows
                if held.is_full:
                    yield held
                    pages.drop(start, held.end)
                    held = None
        if held:
            yield held
        pages.drop(start, log.size if stop is None else stop, is_last=True)


def rows_of(log: LogFile, run: Run, deep: DeepCheck | None) -> BatchRows:
    """Return a run as batches of its own; the run's block may be reused afterwards."""
    block, first, stop = run
    findings = deep.findings(block, first, stop) if deep else []
    columns = [column[first:stop] for column in _columns(block)]
    rows = BatchRows._make((*columns, markers_of(log, block, first, stop), findings))
    if deep:
        for row, base in deep.base_offsets.items():
            rows.base_offset[row - first] = base
    return rows


def pieces_of(segment: Segment, reading: Reading, size: int) -> list[Piece]:
    """Return the pieces that a log of `size` bytes is walked in by threads; one where its index gives no places to cut.

    The last ones are smaller, so that all threads have something to do until shortly before the end.
    """
    whole = [Piece(segment, 0, None, reading, MIN_AHEAD <= size <= 2 * PIECE_BYTES)]
    if size < 2 * PIECE_BYTES:
        return whole
    try:
        with segment.offset_index() as index:
            index.drop_zero_tail()
            halves = size // PIECE_BYTES * 2
            at = (*range(2, halves - SMALLER, 2), *range(max(1, halves - SMALLER), halves)) if index.entries else ()
            cuts = [index.entry(half * index.entries // halves).position for half in at]
    except (OSError, CorruptIndexError):
        return whole  # which is for the check of the index to say
    starts = [0]
    for cut in cuts:
        if starts[-1] < cut < size:
            starts.append(cut)
    if max(b - a for a, b in zip(starts, [*starts[1:], size], strict=True)) > 4 * PIECE_BYTES:
        return whole  # pieces are held in memory as a whole
    return [Piece(segment, a, b, reading, True) for a, b in zip(starts, [*starts[1:], None], strict=True)]
