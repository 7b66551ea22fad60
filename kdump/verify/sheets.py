"""The batch table of a log as the checks see it: sheets of columns, in order, with the damage between them.

A log is walked once. `walk` gives it piece by piece; pieces of one log that are cut at index entries can be walked by
several threads (kernels release the interpreter's lock), and what they give is put back in order.
"""

from __future__ import annotations

import os
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeVar

from kdump.errors import CorruptIndexError
from kdump.formats.faults import BLOCK_FULL, END, PARTIAL, UNDERSIZED
from kdump.storage.files import open_for_reading
from kdump.storage.log_file import BUFFER_SIZE, LogFile
from kdump.storage.scan import Damage, Run, scan
from kdump.storage.segment import Segment
from kdump.verify.findings import Finding
from kdump.verify.markers import Marker, markers_of
from kdump.verify.records import DeepCheck

PIECE_BYTES = 8 << 20

CRC, SIZE, TORN, ZEROS = "crc", "size", "torn", "zeros"

Task = TypeVar("Task")
Result = TypeVar("Result")


class Sheet(NamedTuple):
    """Consecutive good batches: the columns of kdump.blocks, `markers` by row, and what a deep look found."""

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
    markers: dict[int, Marker]
    deep: list[Finding]

    @property
    def end(self) -> int:
        """The byte position behind the last batch."""
        return self.position[-1] + self.size[-1]


class BadBytes(NamedTuple):
    """Bytes that cannot be trusted, from `position` up to `resumed`; `kind` is CRC, SIZE, TORN or ZEROS."""

    position: int
    resumed: int
    kind: str
    text: str


Part = Sheet | BadBytes


class Reading(NamedTuple):
    """How logs are read: whether records are decoded (`decoder` names the internal topic), what a batch may
    decompress to, whether pages are dropped behind.
    """

    deep: bool
    limit: int
    drops_pages: bool
    topic: str = ""


class Piece(NamedTuple):
    """A stretch of a segment's log: bytes `start` to `stop` (None: up to the end).

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


def walk(piece: Piece, resume_after: int = -1) -> Iterator[Part]:
    """The parts of a piece. Batches that start before byte `resume_after` are left out. Raises OSError."""
    segment, start, stop, reading, _ = piece
    with segment.open_log() as log, PageDropper(log.path, reading.drops_pages) as pages:
        deep = DeepCheck(segment.log_path, reading.topic, reading.limit) if reading.deep else None
        for part in scan(log, segment.base_offset, start, stop, whole=reading.deep):
            if isinstance(part, Damage):
                yield classified(log, part, stop)
                continue
            first = part.first
            while first < part.stop and part.block.position[first] < resume_after:
                first += 1
            if first < part.stop:
                sheet = sheet_of(log, Run(part.block, first, part.stop), deep)
                yield sheet
                pages.drop(start, sheet.end)
        pages.drop(start, log.size if stop is None else stop, last=True)


def sheet_of(log: LogFile, run: Run, deep: DeepCheck | None) -> Sheet:
    """A run as a sheet of its own; the run's block may be reused afterwards."""
    block, first, stop = run
    return Sheet(
        block.position[first:stop],
        block.size[first:stop],
        block.base_offset[first:stop],
        block.last_offset[first:stop],
        block.magic[first:stop],
        block.attributes[first:stop],
        block.base_timestamp[first:stop],
        block.max_timestamp[first:stop],
        block.producer_id[first:stop],
        block.producer_epoch[first:stop],
        block.base_sequence[first:stop],
        block.count[first:stop],
        block.leader_epoch[first:stop],
        markers_of(log, block, first, stop),
        deep.findings(block, first, stop) if deep else [],
    )


def classified(log: LogFile, damage: Damage, stop: int | None = None) -> BadBytes:
    """Which kind of damage it is, by the frame that stands where it begins."""
    position, resumed, text = damage
    end = log.size if stop is None else min(stop, log.size)
    entry = log.entry_at(position, end)
    if entry.status == BLOCK_FULL:
        return BadBytes(position, resumed, SIZE if "minimum allowed overhead" in text else CRC, text)
    if entry.status in (END, PARTIAL) and resumed >= end:
        if _is_zero(log, position, end):
            return BadBytes(position, resumed, ZEROS, f"{end - position} bytes of zeros up to the end")
        return BadBytes(position, resumed, TORN, text)
    if entry.status == UNDERSIZED and entry.size == 0 and resumed >= end and _is_zero(log, position, end):
        return BadBytes(position, resumed, ZEROS, text)
    return BadBytes(position, resumed, SIZE, text)


def _is_zero(log: LogFile, position: int, end: int) -> bool:
    pieces = (log.read(at, min(BUFFER_SIZE, end - at)) for at in range(position, end, BUFFER_SIZE))
    return all(piece.count(0) == len(piece) for piece in pieces)


class PageDropper:
    """Tells the system that the pages of a file that were read are not needed again (posix_fadvise)."""

    def __init__(self, path: str, enabled: bool) -> None:
        self._fd = open_for_reading(path) if enabled and hasattr(os, "posix_fadvise") else -1
        self._dropped = -1

    def __enter__(self) -> PageDropper:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._fd >= 0:
            os.close(self._fd)

    def drop(self, start: int, stop: int, *, last: bool = False) -> None:
        """Drop the pages of bytes `start` to `stop`, those already dropped left out, a few MiB at a time."""
        start = max(start, self._dropped)
        if self._fd >= 0 and (last or stop - start >= PIECE_BYTES):
            os.posix_fadvise(self._fd, start, stop - start, os.POSIX_FADV_DONTNEED)
            self._dropped = stop


def pieces_of(segment: Segment, reading: Reading, size: int) -> list[Piece]:
    """The pieces that a log of `size` bytes is walked in by threads; one where its index gives no places to cut."""
    whole = [Piece(segment, 0, None, reading, size <= 2 * PIECE_BYTES)]
    wanted = size // PIECE_BYTES
    if wanted < 2:
        return whole
    cuts: list[int] = []
    try:
        with segment.offset_index() as index:
            index.drop_zero_tail()
            for number in range(1, wanted):
                if index.entries:
                    cuts.append(index.entry(number * index.entries // wanted).position)
    except (OSError, CorruptIndexError):
        return whole  # which is for the check of the index to say
    starts = [0]
    for cut in cuts:
        if starts[-1] < cut < size:
            starts.append(cut)
    if max(b - a for a, b in zip(starts, [*starts[1:], size], strict=True)) > 4 * PIECE_BYTES:
        return whole  # pieces are held in memory as a whole
    return [Piece(segment, a, b, reading, True) for a, b in zip(starts, [*starts[1:], None], strict=True)]


def ordered(
    tasks: Iterable[Task], work: Callable[[Task], Result] | None, jobs: int, ahead: int = 2
) -> Iterator[tuple[Task, Result | BaseException | None]]:
    """Each task with what `work` made of it, or the exception that it raised, in the tasks' order.

    Up to `ahead` tasks a thread are begun before they are asked for. Without `work` the result is None.
    """
    if work is None:
        for task in tasks:
            yield task, None
        return
    from concurrent.futures import Future, ThreadPoolExecutor

    with ThreadPoolExecutor(jobs, thread_name_prefix="kdump-verify") as pool:
        begun: deque[tuple[Task, Future[Result]]] = deque()
        waiting = iter(tasks)
        try:
            while True:
                while len(begun) < jobs * ahead:
                    try:
                        task = next(waiting)
                    except StopIteration:
                        break
                    begun.append((task, pool.submit(work, task)))
                if not begun:
                    return
                task, future = begun.popleft()
                error = future.exception()
                yield task, error if error is not None else future.result()
        finally:
            for _, future in begun:
                future.cancel()

