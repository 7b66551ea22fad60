"""Offsets from one batch to the next: increasing, within the segment, and below the next segment's base offset.

Of two batches that are out of order the one is named that does not fit its other neighbours, so that one wrong offset
makes one finding and not one for every batch behind it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kdump import kernels
from kdump.check.batch_findings import batch_offsets
from kdump.check.batch_rows import BatchRows
from kdump.check.column_checks import increases
from kdump.findings.finding import Finding, found
from kdump.storage.scan import MAX_OFFSET, MAX_RELATIVE_OFFSET


class _Batch(NamedTuple):
    """A batch that others are compared with; `may_err` where its offsets leave out some that were to be expected.

    `stored` is its base offset as its header has it.
    """

    position: int
    size: int
    stored: int
    base: int
    last: int
    may_err: bool


class OrderCheck:
    """Follows the offsets of a partition's log."""

    def __init__(self, last_offset: int | None = None) -> None:
        """`last_offset` is that of the batch before the first one looked at, where one is known."""
        self.last_offset = last_offset
        self._path = ""
        self._base = 0
        self._next_base: int | None = None
        self._floor = -1  # the last offset before the last batch's
        self._last: _Batch | None = None
        self._far: list[_Batch] = []  # batches too far from the base offset: the first and the last one of them
        self._overlaps = False

    def open_segment(self, path: str, base: int, next_base: int | None) -> None:
        """Go on with the segment of this base offset; the one after it, if any, has `next_base`."""
        self._path, self._base, self._next_base = path, base, next_base
        if self.last_offset is not None and self.last_offset >= base:
            self.last_offset = base - 1  # said of the segment before, as an overlap
        self._last = None
        self._far = []
        self._overlaps = False

    @property
    def overflows(self) -> bool:
        """Whether batches of the segment at hand are too far from its base offset."""
        return bool(self._far)

    def close_segment(self) -> Iterator[Finding]:
        """Yield the segment is over: a log that ends too far from its base offset is one that a broker splits."""
        if self._far:
            first = self._far[0]
            yield self._found("KD-LOG-OVERFLOW", first, f"from offset {first.last} on, {self._distance(first)}")
            self.last_offset = self._far[-1].last

    def in_order(self, rows: BatchRows) -> bool:
        """Take in batches whose offsets are as they should be; False where they are not, and nothing is taken in."""
        base, last = rows.base_offset, rows.last_offset
        if rows.magic[0] < 2 and max(rows.magic) < 2 and min(base) < 0:
            base = last  # where a wrapper's offsets begin only its content tells
        before = self._before()
        if self._far or base[0] <= before or not self._fits(last[-1]):
            return False
        if base is last or base == last:
            if not increases(last):
                return False
        elif len(last) > 1 and kernels.differences(last[:-1], base[1:])[0] < 1:
            return False
        self._floor = last[-2] if len(last) > 1 else before
        self._last = self._batch(rows, len(last) - 1, base[-1], self._floor)
        self.last_offset = last[-1]
        return True

    def rows(self, rows: BatchRows) -> Iterator[Finding]:
        """Take in batches batch by batch."""
        for row, last in enumerate(rows.last_offset):
            base = rows.base_offset[row]
            if base < 0 and rows.magic[row] < 2:
                base = last
            batch = self._batch(rows, row, base, self._before())
            if base < self._base:
                text = f"offset {base} is below the base offset {self._base} of the file name"
                yield self._found("KD-LOG-BASE", batch, text)
            elif max(base, last) == MAX_OFFSET:
                text = f"offset {MAX_OFFSET} leaves none for the next record"
                yield self._found("KD-LOG-OFFSET", batch, text)
            elif max(base, last) - self._base > MAX_RELATIVE_OFFSET:
                yield from self._too_far(batch)
            else:
                yield from self._in_range(batch._replace(last=max(base, last)))

    def _before(self) -> int:
        return self._base - 1 if self.last_offset is None else max(self.last_offset, self._base - 1)

    def _fits(self, last: int) -> bool:
        """Return whether an offset is inside the segment, above its base offset as known."""
        if self._next_base is not None and last >= self._next_base:
            return False
        return last - self._base <= MAX_RELATIVE_OFFSET

    def _batch(self, rows: BatchRows, row: int, base: int, before: int) -> _Batch:
        last = rows.last_offset[row]
        may_err = base > before + 1 or 0 <= rows.count[row] < last - base + 1
        return _Batch(rows.position[row], rows.size[row], rows.base_offset[row], base, last, may_err)

    def _too_far(self, batch: _Batch) -> Iterator[Finding]:
        if self._far and batch.base <= self._far[-1].last:
            text = f"offset {batch.base} comes after offset {self._far[-1].last}"
            yield self._found("KD-LOG-ORDER", batch, text)
        self._far = [*self._far[:1], batch]

    def _in_range(self, batch: _Batch) -> Iterator[Finding]:
        if self._far:
            first, self._far = self._far[0], []
            text = f"{self._distance(first)}, but offset {batch.base} comes after it"
            yield self._found("KD-LOG-OFFSET", first, text)
        if self._next_base is not None and batch.last >= self._next_base:
            if not self._overlaps:
                self._overlaps = True
                text = f"offset {batch.last} belongs to the next segment, whose base offset is {self._next_base}"
                yield self._found("KD-LOG-OVERLAP", batch, text)
            return
        before = self._before()
        if batch.base > before:
            self._floor, self._last, self.last_offset = before, batch, batch.last
            return
        last = self._last
        if last is not None and last.may_err and self._floor < batch.base != last.base:
            yield self._found("KD-LOG-ORDER", last, f"offset {last.last} comes before offset {batch.base}")
            self._last, self.last_offset = batch, batch.last
            return
        yield self._found("KD-LOG-ORDER", batch, f"offset {batch.base} comes after offset {before}")
        if batch.last > before:
            self.last_offset = batch.last

    def _distance(self, batch: _Batch) -> str:
        return f"offset {batch.last} is {batch.last - self._base} above the base offset"

    def _found(self, code: str, batch: _Batch, text: str) -> Finding:
        offsets = batch_offsets(batch.stored, batch.last)
        return found(code, self._path, text, batch.position, batch.last, length=batch.size, offsets=offsets)
