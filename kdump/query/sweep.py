"""One pass over the log of a segment: what a Selection wants of it, batch by batch, and the damage met on the way."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from kdump import kernels
from kdump.blocks import BatchBlock, RecordBlock
from kdump.errors import KdumpError
from kdump.formats.codecs import DEFAULT_LIMIT
from kdump.formats.faults import fault_error
from kdump.query.selection import Picks, Selection, Source
from kdump.storage.log_reader import LogFile
from kdump.storage.payloads import Stretch, inflate
from kdump.storage.scan import Damage, damaged_batches, scan
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
        """Of each record: offset, timestamp, sequence, key and value (position, length), headers (position, count)."""
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
        """A pass over `log` from byte `position` (a batch's first) on.

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
        """What is wanted, and the damage between. The blocks are reused from one to the next. Raises OSError."""
        for part in scan(self._log, self._segment.base_offset, self.position, whole=self._decodes):
            if isinstance(part, Damage):
                if self._growing and part.resumed >= self._log.size:
                    return
                self.position = part.resumed
                self.hides = not self.includes_damaged
                yield part
                self.hides = False
                if self.includes_damaged:
                    yield from self._damaged(part)
                continue
            block, first, stop = part
            for start, end in self._selection.runs(block, first, stop):
                yield from self._contents(block, start, end) if self._decodes else _heads(block, start, end)
            self.position = block.position[stop - 1] + block.size[stop - 1]
            if self._selection.is_behind(block, stop - 1):
                self.is_done = True
                return

    def _damaged(self, damage: Damage) -> Iterator[Selected | Damage]:
        """What can be read of the batches between the damage and its end."""
        for block in damaged_batches(self._log, damage, self._segment.base_offset, self._limit):
            for start, end in self._selection.runs(block, 0, 1):
                yield from self._contents(block, start, end) if self._decodes else _heads(block, start, end)

    def _contents(self, block: BatchBlock, first: int, stop: int) -> Iterator[Selected | Damage]:
        row = first
        while row < stop:
            stretch = inflate(block, row, stop, self._limit)
            yield from self._stretch(block, stretch)
            row = stretch.stop

    def _stretch(self, block: BatchBlock, stretch: Stretch) -> Iterator[Selected | Damage]:
        """The batches of a stretch; the last one of it may be one whose payload could not be had."""
        is_broken = stretch.error is not None or stretch.fault is not None
        stop = stretch.stop - is_broken
        shown = stretch.first
        records = self._records
        records.seek(stretch.first)
        while records.next_row < stop:
            kernels.decode(block, records, stretch.first, stop, stretch.payloads)
            for row, picks, source in self._wanted(block, stretch):
                if self._shows_all and row > shown:
                    yield from _heads(block, shown, row)
                yield Selected(block, row, row >= shown, records, picks, source)
                shown = row + 1
            if block.magic[stretch.first] < 2 or block.magic[stop - 1] < 2:
                yield from map(self._placed, bad_messages(block, records))
            if records.fault:
                row = records.next_row
                if self._shows_all:
                    yield from _heads(block, shown, row + 1)
                shown = row + 1
                yield self._placed(undecodable(block, row, fault_error(records.fault)))
                records.seek(row + 1)
        if self._shows_all:
            yield from _heads(block, shown, stretch.stop)
        if is_broken:
            yield self._placed(undecodable(block, stop, stretch.error or fault_error(stretch.fault or (0, 0, 0))))

    def _wanted(self, block: BatchBlock, stretch: Stretch) -> Iterator[tuple[int, Picks, Source]]:
        """The wanted ones among the records decoded last, row by row, with the row's source."""
        payloads, first = stretch.payloads, stretch.first

        def source_of(row: int) -> Source:
            payload = payloads[row - first]
            return block.data if payload is None else payload

        picks = self._selection.pick(self._records, source_of)
        rows = self._records.row
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
            yield row, picks[start:stop], source_of(row)
            start = stop

    def _placed(self, damage: Damage) -> Damage:
        return damage._replace(path=self._log.path)


def _heads(block: BatchBlock, first: int, stop: int) -> Iterator[Selected]:
    for row in range(first, stop):
        yield Selected(block, row, True, _NO_RECORDS, _NO_PICKS, b"")


def bad_messages(block: BatchBlock, records: RecordBlock) -> Iterator[Damage]:
    """The v0/v1 messages in `records` whose own CRC does not hold, though that of the wrapper around them does."""
    at = -1
    while True:
        try:
            at = records.valid.index(0, at + 1, records.length)
        except ValueError:
            return
        row = records.row[at]
        end = block.position[row] + block.size[row]
        text = f"the message at offset {records.offset[at]} inside a compressed batch fails its CRC"
        yield Damage(block.position[row], end, text)


def undecodable(block: BatchBlock, row: int, error: KdumpError) -> Damage:
    """A batch whose frame and CRC hold but whose records cannot all be read, and why."""
    position, base_offset, last_offset = block.position[row], block.base_offset[row], block.last_offset[row]
    one = base_offset in (last_offset, -1)  # of a v0/v1 wrapper only the last one is known
    offsets = f"at offset {last_offset}" if one else f"of offsets {base_offset} to {last_offset}"
    text = f"the records of the batch {offsets} cannot all be read: {error}"
    return Damage(position, position + block.size[row], text)
