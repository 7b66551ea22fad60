"""One pass over the log of a segment: what a Selection wants of it, batch by batch, and the damage met on the way."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from kdump.blocks import BatchBlock, RecordBlock
from kdump.formats.codecs import DEFAULT_LIMIT
from kdump.query.selection import Picks, Selection, Source
from kdump.storage.damage import Damage, undecodable
from kdump.storage.decoded import BadBatch, DecodedRows, Passed, decode_rows, walk
from kdump.storage.log_reader import LogFile
from kdump.storage.scan import Run, damaged_batches
from kdump.storage.segment import Segment

_NO_PICKS = range(0)
_NO_RECORDS = RecordBlock(0)


class Selected(NamedTuple):
    """Some of a batch's records.

    The batch is row `row` of `block`; `picks` are the wanted ones among `records` by number, `source` is what these
    have positions in. A batch is given several times where it fills several record blocks (`starts` the first time),
    and once without picks where it has no records or they are not decoded.
    """

    block: BatchBlock
    row: int
    starts: bool
    records: RecordBlock
    picks: Picks
    source: Source

    def spans(self) -> Iterator[tuple[int, ...]]:
        """Yield for each: offset, timestamp, sequence, key and value (position, length), headers (position, count)."""
        records, picks = self.records, self.picks
        columns = (
            records.offset,
            records.timestamp,
            records.sequence,
            records.key_position,
            records.key_length,
            records.value_position,
            records.value_length,
            records.headers_position,
            records.headers_count,
        )
        if len(picks) == 1:
            at = picks[0]
            return iter([tuple([column[at] for column in columns])])
        if isinstance(picks, range):
            return zip(*(column[picks.start : picks.stop] for column in columns), strict=True)
        return zip(*(map(column.__getitem__, picks) for column in columns), strict=True)


class Sweep:
    """Iterate to get it; `position` (bytes) is how far into the log that has led.

    `is_done` tells that the pass ended before the log because nothing wanted can be behind.
    `includes_damaged`: what can be read of damaged batches is given too. `hides` tells that the damage that was given
    last is of bytes that are not.
    """

    def __init__(
        self,
        segment: Segment,
        log: LogFile,
        selection: Selection,
        position: int = 0,
        *,
        batches_only: bool = False,
        growing: bool = False,
        includes_damaged: bool = False,
        limit: int = DEFAULT_LIMIT,
    ) -> None:
        """Begin a pass over `log` at byte `position` (a batch's first).

        With `batches_only` records are decoded only to find out whether a batch is wanted. Of a log that is `growing`,
        what cannot be trusted at its very end is not called damage but left for a later pass. With
        `includes_damaged` what can be read of a damaged batch follows its damage; the row is not valid. `limit` bounds
        the bytes that a batch may decompress to.
        """
        self.position = position
        self.is_done = False
        self._segment = segment
        self._log = log
        self._selection = selection
        self._decodes = selection.reads_records or not batches_only
        self._growing = growing
        self.includes_damaged = includes_damaged
        self.hides = False
        self._limit = limit
        self._shows_all = not (selection.reads_records or selection.bounds_offsets)
        self._records = RecordBlock() if self._decodes else _NO_RECORDS

    def __iter__(self) -> Iterator[Selected | Damage]:
        """Yield what is wanted, and the damage between. The blocks are reused from one to the next. Raises OSError."""
        start, choice = self.position, self._selection
        for part in walk(self._log, self._segment.base_offset, start, choice=choice, whole=self._decodes):
            if isinstance(part, Damage):
                if self._growing and part.resumed >= self._log.size:
                    return
                self.position = part.resumed
                self.hides = not self.includes_damaged
                yield part
                self.hides = False
                if self.includes_damaged:
                    yield from self._damaged(part)
            elif isinstance(part, Passed):
                self.position, self.is_done = part
            else:
                yield from self._given(part)

    def _damaged(self, damage: Damage) -> Iterator[Selected | Damage]:
        """Yield what can be read of the batches between the damage and its end."""
        for block in damaged_batches(self._log, damage, self._segment.base_offset, self._limit):
            for rows in self._selection.runs(block, 0, 1):
                yield from self._given(Run(block, *rows))

    def _given(self, run: Run) -> Iterator[Selected | Damage]:
        return self._contents(*run) if self._decodes else _heads(*run)

    def _contents(self, block: BatchBlock, first: int, stop: int) -> Iterator[Selected | Damage]:
        records, shown = self._records, first
        for part in decode_rows(block, first, stop, limit=self._limit, records=records):
            if isinstance(part, BadBatch):
                if self._shows_all:
                    yield from _heads(block, shown, part.row + 1)
                shown = part.row + 1
                yield undecodable(block, part.row, part.error, self._log.path)
                continue
            for row, picks, source in self._wanted(part):
                if self._shows_all and row > shown:
                    yield from _heads(block, shown, row)
                yield Selected(block, row, row >= shown, records, picks, source)
                shown = row + 1
            yield from part.bad_messages(self._log.path)
        if self._shows_all:
            yield from _heads(block, shown, stop)

    def _wanted(self, decoded: DecodedRows) -> Iterator[tuple[int, Picks, Source]]:
        """Yield the wanted ones among decoded records, row by row, with the row's source."""
        picks = self._selection.pick(decoded.records, decoded.source_of)
        rows = decoded.records.row
        start, end = 0, len(picks)
        while start < end:
            row = rows[picks[start]]
            stop = start + 1
            if isinstance(picks, range):  # of all records: those of a batch stand together
                if stop < end and rows[stop] == row:
                    stop = bisect_right(rows, row, stop, end)
            else:
                while stop < end and rows[picks[stop]] == row:
                    stop += 1
            yield row, picks[start:stop], decoded.source_of(row)
            start = stop


def _heads(block: BatchBlock, first: int, stop: int) -> Iterator[Selected]:
    for row in range(first, stop):
        yield Selected(block, row, True, _NO_RECORDS, _NO_PICKS, b"")
