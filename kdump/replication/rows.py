"""The batches of a copy as columns, for as long as they are compared: headers and whether the CRC matches."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import NamedTuple

from kdump import kernels
from kdump.blocks import BatchBlock
from kdump.formats.faults import END
from kdump.storage.damage import Damage
from kdump.storage.log_reader import LogFile
from kdump.storage.partition import PartitionLog
from kdump.storage.scan import MAX_OFFSET, MAX_RELATIVE_OFFSET, scan
from kdump.storage.segment import Segment

COMPARED = ("base_offset", "last_offset", "leader_epoch", "crc", "valid", "size")
"""Columns in which batches of the same bytes are equal; CRC and length stand for the content where the CRC matches."""

_COLUMNS = (*COMPARED, "count", "position", "attributes", "max_timestamp", "producer_id")


class Batch(NamedTuple):
    """One batch. Offsets are absolute, `size` is in bytes; `records` is -1 where only the content tells (v0, v1)."""

    base_offset: int
    last_offset: int
    leader_epoch: int
    is_valid: bool
    size: int
    records: int


class BatchRows:
    """Batches of one .log, `length` of them, in columns of the same names as a BatchBlock's.

    The base offset of a compressed v0/v1 wrapper is not in its header: it is -1.
    """

    __slots__ = (*_COLUMNS, "length", "path")

    base_offset: array[int]
    last_offset: array[int]
    leader_epoch: array[int]
    crc: array[int]
    valid: array[int]
    size: array[int]
    count: array[int]
    position: array[int]
    attributes: array[int]
    max_timestamp: array[int]
    producer_id: array[int]

    def __init__(self, path: str, block: BatchBlock, first: int, stop: int) -> None:
        """Copy rows `first` to `stop` - 1 of a block of the .log at `path`."""
        self.path = path
        self.length = stop - first
        for name in _COLUMNS:
            setattr(self, name, getattr(block, name)[first:stop])

    def batch(self, row: int) -> Batch:
        """Return one row."""
        return Batch(
            self.base_offset[row],
            self.last_offset[row],
            self.leader_epoch[row],
            bool(self.valid[row]),
            self.size[row],
            self.count[row],
        )

    def keep(self, rows: list[int]) -> None:
        """Drop all rows but these."""
        for name in _COLUMNS:
            column = getattr(self, name)
            setattr(self, name, array("q", [column[row] for row in rows]))
        self.length = len(rows)


def walk(log: PartitionLog, start_offset: int = 0) -> Iterator[BatchRows]:
    """Yield the batches of a log from the one on that reaches `start_offset`; damaged ones too where they have a frame.

    After bytes that are no batch it continues with the next valid one. Raises OSError.
    """
    expected = 0
    segments = log.segments_from(start_offset) if start_offset else log.segments
    bases = [segment.base_offset for segment in segments]
    for segment, stop in zip(segments, (*bases[1:], MAX_OFFSET), strict=False):
        with segment.open_log() as file:
            start = segment.position_of(file, start_offset) if segment.base_offset < start_offset else 0
            for rows in _rows_of(segment, file, start):
                highest = min(segment.base_offset + MAX_RELATIVE_OFFSET, MAX_OFFSET - 1)
                lowest = max(expected, segment.base_offset)
                if not _is_plausible(rows, lowest, highest):
                    _settle(rows, lowest, highest, min(highest, stop - 1))
                if rows.length:
                    expected = rows.last_offset[rows.length - 1] + 1
                    yield rows


def first_batch_from(log: PartitionLog, offset: int) -> Batch | None:
    """Return the first batch that holds `offset` or comes after it; None without one. Raises OSError."""
    for rows in walk(log, offset):
        for row in range(rows.length):
            if rows.last_offset[row] >= offset:
                return rows.batch(row)
    return None


def _rows_of(segment: Segment, file: LogFile, start: int) -> Iterator[BatchRows]:
    block = None
    for block in file.blocks(start, whole=False, gathers=True):
        if block.length:
            yield BatchRows(segment.log_path, block, 0, block.length)
    if block is None or block.next_position >= file.size or block.status == END:
        return
    for part in scan(file, segment.base_offset, block.next_position, whole=False, gathers=True):
        if not isinstance(part, Damage):
            yield BatchRows(segment.log_path, part.block, part.first, part.stop)


def _is_plausible(rows: BatchRows, lowest: int, highest: int) -> bool:
    """Return whether all CRCs match and the offsets, which no CRC covers, rise from `lowest` to `highest`."""
    lasts = rows.last_offset
    if 0 in rows.valid or lasts[-1] > highest:
        return False
    firsts = rows.base_offset
    if min(firsts) < 0:
        firsts = array("q", [_first(rows, row) for row in range(rows.length)])
    if firsts[0] < lowest or kernels.differences(firsts, lasts)[0] < 0:
        return False
    return rows.length == 1 or kernels.differences(lasts[:-1], firsts[1:])[0] > 0


def _settle(rows: BatchRows, expected: int, highest: int, room: int) -> None:
    """Count batches as damaged whose offsets cannot be right.

    Damaged ones get the offsets that are left for them, from `expected` on.

    Those end at `room`, below the next segment: what a damaged header says must not hide valid batches there. What a
    damaged size field makes of the bytes after it goes.
    """
    trusted = _trusted(rows, expected, highest)
    kept: list[int] = []
    at = 0
    low = expected
    for row in (*trusted, rows.length):
        high = _first(rows, row) - 1 if row < rows.length else room
        group = range(at, row)
        for bad in group:
            if _fit(rows, bad, low, high, is_alone=len(group) == 1, is_last=row == rows.length):
                kept.append(bad)
                low = rows.last_offset[bad] + 1
        if row < rows.length:
            kept.append(row)
            low = rows.last_offset[row] + 1
        at = row + 1
    if len(kept) < rows.length:
        rows.keep(kept)


def _trusted(rows: BatchRows, expected: int, highest: int) -> list[int]:
    """Return the rows of valid batches whose offsets rise; of two that contradict each other the next in turn."""
    trusted: list[int] = []

    def end(number: int) -> int:
        return rows.last_offset[trusted[number]] + 1 if len(trusted) >= -number else expected

    for row in range(rows.length):
        first, last = _first(rows, row), rows.last_offset[row]
        if not rows.valid[row] or not expected <= first <= last <= highest:
            continue
        if first >= end(-1):
            trusted.append(row)
        elif trusted and first >= end(-2) and _first(rows, trusted[-1]) != end(-2):
            trusted[-1] = row
    return trusted


def _fit(rows: BatchRows, row: int, low: int, high: int, *, is_alone: bool, is_last: bool) -> bool:
    """Let a batch that is not trusted have offsets from `low` to `high`; whether there are any for it."""
    first, last = _first(rows, row), rows.last_offset[row]
    rows.valid[row] = 0
    if low > high:
        return False
    if low <= first <= high:
        low, high = first, min(max(first, last), high)
    elif not is_alone:
        return False
    elif is_last:
        high = min(high, low + min(max(0, last - first), MAX_RELATIVE_OFFSET))
    rows.base_offset[row], rows.last_offset[row] = low, high
    return True


def _first(rows: BatchRows, row: int) -> int:
    """Return the first offset of a batch; of a v0/v1 wrapper the last, as its header has no other."""
    return rows.base_offset[row] if rows.base_offset[row] >= 0 else rows.last_offset[row]
