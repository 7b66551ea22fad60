"""The .log files: frames, checksums, offsets within and across segments, and what every batch's header says of itself.

The checks work on whole columns of a sheet and look at single batches only where a column is not as it should be.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from itertools import starmap
from operator import gt, lt, sub

from kdump.formats.batch import (
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
)
from kdump.formats.codecs import NAMES, ZSTD
from kdump.storage.scan import MAX_RELATIVE_OFFSET
from kdump.verify.findings import Finding, found
from kdump.verify.sheets import CRC, SIZE, TORN, ZEROS, BadBytes, Sheet

MAX_SEGMENT_BYTES = (1 << 31) - 1
KNOWN_ATTRIBUTES = CODEC_MASK | LOG_APPEND_TIME | TRANSACTIONAL | CONTROL | DELETE_HORIZON

_CODES = {CRC: "KD-LOG-CRC", SIZE: "KD-LOG-SIZE", TORN: "KD-LOG-TORN", ZEROS: "KD-LOG-ZEROS"}


def is_uniform(column: array[int], value: int) -> bool:
    """Whether all of a column is `value`; at the speed of C."""
    return column == array("q", (value,)) * len(column)


class LogCheck:
    """The state that goes from one batch of a partition's log to the next."""

    def __init__(self, last_offset: int | None = None) -> None:
        """`last_offset` is that of the batch before the first one looked at, where one is known."""
        self.last_offset = last_offset
        self.end_offset: int | None = None
        self._path = ""
        self._base = 0
        self._next_base: int | None = None
        self._is_active = False
        self._was_closed = True
        self._damage: BadBytes | None = None
        self._beyond = [0, 0, 0]  # batches, records, bytes behind the first damage
        self._overlaps = self._overflows = False
        self.is_empty = True
        self.is_damaged = False

    def open_segment(self, path: str, base: int, next_base: int | None, *, was_closed: bool) -> Iterator[Finding]:
        """Go on with the segment of this base offset; the one after it, if any, has `next_base`."""
        self._path, self._base, self._next_base = path, base, next_base
        self._is_active, self._was_closed = next_base is None, was_closed
        self._damage, self._beyond = None, [0, 0, 0]
        self._overlaps = self._overflows = False
        self.is_empty, self.is_damaged = True, False
        self.end_offset = max(base, self.end_offset or base)
        if self.last_offset is not None and self.last_offset >= base:
            self.last_offset = base - 1  # said of the segment before, as an overlap
        yield from ()

    def close_segment(self, size: int, later: int) -> Iterator[Finding]:
        """The segment, of `size` bytes, is over; `later` segments follow."""
        if size > MAX_SEGMENT_BYTES:
            yield found("KD-LOG-LARGE", self._path, f"the log has {size} bytes")
        if size == 0 and not self._is_active:
            yield found("KD-LOG-EMPTY", self._path, "the segment is empty", offset=self._base)
        if self._damage and (self._beyond[0] or later):
            batches, records, length = self._beyond
            kept = f"{batches} good batches ({records} records, {length} bytes) behind it in this segment"
            more = f" and {later} later segments" if later else ""
            yield found(
                "KD-LOG-BEYOND",
                self._path,
                f"the first damage is at byte {self._damage.position}; {kept}{more} would be dropped by a broker's"
                " recovery and kept by salvage",
                self._damage.position,
            )

    def bad_bytes(self, bad: BadBytes) -> Iterator[Finding]:
        """Bytes that are no batches."""
        position, resumed, kind, text = bad
        if kind == ZEROS and self._is_active and not self._was_closed:
            yield found("KD-LOG-PREALLOCATED", self._path, text, position, self.last_offset)
            return
        self.is_damaged = True
        if self._damage is None:
            self._damage = bad
        where = f"; {resumed - position} bytes from byte {position} on"
        expected = None if self.last_offset is None else self.last_offset + 1
        yield found(_CODES[kind], self._path, text + where, position, expected)

    def sheet(self, sheet: Sheet) -> Iterator[Finding]:
        """Good batches."""
        self.is_empty = False
        if self._damage:
            self._beyond[0] += len(sheet.position)
            self._beyond[1] += sum(count for count in sheet.count if count > 0)
            self._beyond[2] += sheet.end - sheet.position[0]
        yield from sheet.deep
        if is_uniform(sheet.magic, 2):
            yield from self._batches(sheet)
        else:
            yield from self._mixed(sheet)
        yield from self._attributes(sheet)
        for row, marker in sheet.markers.items():
            if marker.fault:
                yield self._at("KD-BATCH-CONTROL", sheet, row, f"the control record is broken: {marker.fault}")
            elif marker.odd:
                yield self._at("KD-BATCH-CONTROL-VERSION", sheet, row, f"the control record is odd: {marker.odd}")

    def _at(self, code: str, sheet: Sheet, row: int, message: str) -> Finding:
        return found(code, self._path, message, sheet.position[row], sheet.last_offset[row])

    def _batches(self, sheet: Sheet) -> Iterator[Finding]:
        """Offsets and counts where all batches are of format v2."""
        base, last, count = sheet.base_offset, sheet.last_offset, sheet.count
        length = len(last)
        if base == last:
            counts_hold = is_uniform(count, 1)
            deltas_hold = True
        else:
            deltas = list(map(sub, last, base))
            deltas_hold = min(deltas) >= 0
            counts_hold = all(map(gt, count, deltas)) and sum(count) == sum(deltas) + length
        before = self._base - 1 if self.last_offset is None else self.last_offset
        if not (deltas_hold and base[0] > before and all(map(lt, last, base[1:])) and self._fits(last[-1])):
            yield from self._rows(sheet)
        else:
            self.last_offset = last[-1]
            self.end_offset = last[-1] + 1
        if not counts_hold:
            for row in range(length):
                yield from self._count(sheet, row)
        if not (is_uniform(sheet.producer_id, -1) and is_uniform(sheet.base_sequence, -1)):
            yield from self._producers(sheet)

    def _mixed(self, sheet: Sheet) -> Iterator[Finding]:
        """The same where there are other formats too."""
        last, length = sheet.last_offset, len(sheet.last_offset)
        before = self._base - 1 if self.last_offset is None else self.last_offset
        if max(sheet.magic) < 2 and before < last[0] and self._fits(last[-1]) and all(map(lt, last, last[1:])):
            self.last_offset = last[-1]
            self.end_offset = last[-1] + 1
        else:
            yield from self._rows(sheet)
        for row in range(length):
            magic = sheet.magic[row]
            if not 0 <= magic <= 2:
                yield self._at("KD-LOG-MAGIC", sheet, row, f"the batch has magic {magic}")
            if magic >= 2:
                yield from self._count(sheet, row)
        if max(sheet.magic) >= 2:
            yield from self._producers(sheet)

    def _fits(self, last: int) -> bool:
        """Whether an offset is inside the segment, above its base offset as known."""
        if self._next_base is not None and last >= self._next_base:
            return False
        return last - self._base <= MAX_RELATIVE_OFFSET

    def _rows(self, sheet: Sheet) -> Iterator[Finding]:
        """Offsets, batch by batch, where something is wrong with them."""
        before = self.last_offset
        for row in range(len(sheet.position)):
            base, last = sheet.base_offset[row], sheet.last_offset[row]
            if sheet.magic[row] < 2:
                base = last  # where a wrapper's offsets begin only its content tells
            elif last < base:
                yield self._at("KD-BATCH-DELTA", sheet, row, f"the last offset delta is {last - base}")
            if base < self._base:
                yield self._at(
                    "KD-LOG-BASE", sheet, row, f"offset {base} is below the base offset {self._base} of the file name"
                )
            elif before is not None and base <= before:
                text = f"offset {base} comes after offset {before}"
                yield self._at("KD-LOG-ORDER", sheet, row, text)
            if last - self._base > MAX_RELATIVE_OFFSET:
                if not self._overflows:
                    self._overflows = True
                    yield self._at(
                        "KD-LOG-OVERFLOW", sheet, row, f"offset {last} is {last - self._base} above the base offset"
                    )
            elif self._next_base is not None and last >= self._next_base and not self._overlaps:
                self._overlaps = True
                yield self._at(
                    "KD-LOG-OVERLAP",
                    sheet,
                    row,
                    f"offset {last} belongs to the next segment, whose base offset is {self._next_base}",
                )
            before = last if before is None else max(before, last) if self._plausible(last, before) else before
        self.last_offset = before
        if before is not None:
            self.end_offset = before + 1

    def _plausible(self, last: int, before: int) -> bool:
        """Whether later offsets are to be compared with this one, or whether it is the one that is wrong."""
        return last >= before and self._fits(last)

    def _count(self, sheet: Sheet, row: int) -> Iterator[Finding]:
        count = sheet.count[row]
        offsets = sheet.last_offset[row] - sheet.base_offset[row] + 1
        if count < 0:
            yield self._at("KD-BATCH-COUNT", sheet, row, f"the record count is {count}")
        elif count == 0:
            if sheet.size[row] > HEADER_SIZE:
                left = sheet.size[row] - HEADER_SIZE
                text = f"the record count is 0, but {left} bytes of records follow"
                yield self._at("KD-BATCH-COUNT", sheet, row, text)
        elif count > offsets > 0:
            text = f"{count} records, but the last offset delta {offsets - 1} leaves room for {offsets}"
            yield self._at("KD-BATCH-DELTA", sheet, row, text)

    def _producers(self, sheet: Sheet) -> Iterator[Finding]:
        columns = sheet.producer_id, sheet.producer_epoch, sheet.base_sequence, sheet.attributes, sheet.magic
        for row, (producer, epoch, sequence, attributes, magic) in enumerate(zip(*columns, strict=True)):
            if producer >= 0 and epoch >= 0 and (sequence >= 0 or attributes & CONTROL):
                continue
            if magic < 2 or (producer == -1 and epoch == -1 and sequence == -1):
                continue
            if producer < -1 or epoch < -1 or sequence < -1:
                text = "one of them is below -1"
            elif producer == -1:
                text = "there is no producer id"
            elif epoch == -1:
                text = "there is no producer epoch"
            else:
                text = "there is no sequence"
            text = f"producer id {producer}, epoch {epoch}, base sequence {sequence}: {text}"
            yield self._at("KD-BATCH-PRODUCER", sheet, row, text)

    def _attributes(self, sheet: Sheet) -> Iterator[Finding]:
        attributes = sheet.attributes
        if is_uniform(attributes, 0):
            return
        if is_uniform(attributes, attributes[0]) and is_uniform(sheet.magic, 2):
            suspects = {attributes[0]}
        else:
            suspects = set(attributes)
        has_legacy = min(sheet.magic) < 2
        if not has_legacy and all(map(_is_plain, suspects)):
            return
        for row in range(len(attributes)):
            yield from starmap(
                lambda code, text, row=row: self._at(code, sheet, row, text),
                _attribute_faults(sheet.magic[row], attributes[row], sheet.producer_id[row]),
            )


def _is_plain(attributes: int) -> bool:
    """Whether v2 attributes need no look at the batch's other fields."""
    return attributes & CODEC_MASK <= ZSTD and not attributes & ~(CODEC_MASK | LOG_APPEND_TIME | DELETE_HORIZON)


def _attribute_faults(magic: int, attributes: int, producer_id: int) -> Iterator[tuple[str, str]]:
    codec = attributes & CODEC_MASK
    if codec > ZSTD:
        yield "KD-BATCH-CODEC", f"codec id {codec} is none that a release knows"
    elif magic < 2 and codec == ZSTD:
        yield "KD-BATCH-CODEC", f"{NAMES[codec]} is not allowed in format v{magic}"
    if magic < 2:
        if attributes & ~(CODEC_MASK | LOG_APPEND_TIME):
            yield "KD-BATCH-BITS", f"the attributes are {attributes:#x}"
        return
    if attributes & ~KNOWN_ATTRIBUTES:
        yield "KD-BATCH-BITS", f"the attributes are {attributes:#x}"
    if attributes & TRANSACTIONAL and producer_id < 0:
        yield "KD-BATCH-ATTRIBUTES", "the batch is transactional, but has no producer id"
    if attributes & CONTROL and not attributes & TRANSACTIONAL and producer_id >= 0:
        yield "KD-BATCH-ATTRIBUTES", "the control batch has a producer id, but is not transactional"
