"""The .log files: frames, checksums, offsets within and across segments, and what every batch's header says of itself.

The checks work on whole columns of batches and look at single batches only where a column is not as it should be.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter, sub

from kdump import kernels
from kdump.check.batch_findings import batch_offsets, found_in_batch
from kdump.check.batch_rows import BatchRows
from kdump.check.column_checks import is_uniform
from kdump.check.order import OrderCheck
from kdump.findings import remedies as ways
from kdump.findings.finding import Finding, Offsets, found
from kdump.findings.kind import BrokerEffect
from kdump.formats.batch import (
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    HEADER_SIZE,
    KNOWN_ATTRIBUTES,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
)
from kdump.formats.codecs import NAMES, ZSTD
from kdump.formats.message_set import KNOWN_ATTRIBUTES_V1
from kdump.formats.producer_fields import NO_PRODUCER, producer_fault
from kdump.formats.words import byte_words, number_words
from kdump.storage.damage import Damage, DamageKind
from kdump.storage.scan import MAX_LOG_SIZE

_CODES = {
    DamageKind.CRC: "KD-LOG-CRC",
    DamageKind.SIZE: "KD-LOG-SIZE",
    DamageKind.TORN: "KD-LOG-TORN",
    DamageKind.GARBAGE: "KD-LOG-GARBAGE",
    DamageKind.ZEROS: "KD-LOG-ZEROS",
}
_INSIDE = (DamageKind.CRC, DamageKind.SIZE)
_BY_POSITION = attrgetter("position")


class LogCheck:
    """The state that goes from one batch of a partition's log to the next."""

    def __init__(self, last_offset: int | None = None, *, holds_metadata: bool = False) -> None:
        """`last_offset` is that of the batch before the first one looked at, where one is known.

        A log that `holds_metadata` (KRaft's) has control batches that no producer wrote.
        """
        self._order = OrderCheck(last_offset)
        self._holds_metadata = holds_metadata
        self._path = ""
        self._base = 0
        self._is_active = False
        self._was_closed = True
        self._damage: Damage | None = None
        self._beyond = [0, 0, 0]  # batches, records, bytes behind the first damage
        self._offsets_beyond: Offsets | None = None
        self.is_empty = True
        self.is_damaged = False

    @property
    def last_offset(self) -> int | None:
        """The last offset so far; None where there is none yet."""
        return self._order.last_offset

    @property
    def overflows(self) -> bool:
        """Whether the segment at hand ends too far from its base offset."""
        return self._order.overflows

    @property
    def is_opened_as_it_is(self) -> bool:
        """Whether a broker opens the segment at hand without recovery; its own metadata log it always recovers."""
        return self._is_active and self._was_closed and not self._holds_metadata

    @property
    def end_offset(self) -> int:
        """The offset behind the last one, which is at least the base offset of the segment at hand."""
        last = self._order.last_offset
        return self._base if last is None else max(self._base, last + 1)

    def open_segment(self, path: str, base: int, next_base: int | None, *, was_closed: bool) -> None:
        """Go on with the segment of this base offset; the one after it, if any, has `next_base`."""
        self._order.open_segment(path, base, next_base)
        self._path, self._base = path, base
        self._is_active, self._was_closed = next_base is None, was_closed
        self._damage, self._beyond, self._offsets_beyond = None, [0, 0, 0], None
        self.is_empty, self.is_damaged = True, False

    def close_segment(self, size: int, later: int) -> Iterator[Finding]:
        """Yield the segment, of `size` bytes, is over; `later` segments follow."""
        yield from self._order.close_segment()
        if size > MAX_LOG_SIZE:
            yield found("KD-LOG-LARGE", self._path, f"the log has {size} bytes")
        if size == 0 and not self._is_active:
            yield found("KD-LOG-EMPTY", self._path, "the segment is empty", offset=self._base)
        if self._damage and (self._beyond[0] or later):
            batches, records, length = self._beyond
            extent = f"({number_words(records, 'record')}, {byte_words(length)})"
            kept = [f"{number_words(batches, 'valid batch', 'valid batches')} {extent}"] if batches else []
            kept += [number_words(later, "later segment")] if later else []
            verb = "follows" if batches + later == 1 else "follow"
            text = f"{' and '.join(kept)} {verb} the damage at byte {self._damage.position}"
            details = {"batches": batches, "records": records, "bytes": length, "laterSegments": later}
            position, offsets = self._damage.position, self._offsets_beyond
            yield found("KD-LOG-BEYOND", self._path, text, position, offsets=offsets, details=details)

    def bad_bytes(self, bad: Damage, effect: BrokerEffect | None = None) -> Iterator[Finding]:
        """Take bytes that are no batches, with their effect where it is not the usual; yield what is to say of them."""
        position, kind, text = bad.position, bad.kind, bad.text
        if kind is DamageKind.ZEROS and self._is_active and not self._was_closed:
            nothing = (None, None)
            yield found("KD-LOG-PREALLOCATED", self._path, text, position, self.end_offset,
                        length=bad.size, offsets=nothing)  # fmt: skip
            return
        self.is_damaged = True
        if self._damage is None:
            self._damage = bad
        if kind is DamageKind.GARBAGE:
            text = "bytes up to the end that are not the beginning of a batch"
        length = byte_words(bad.size)
        where = f"; {length} are damaged" if kind in _INSIDE and length not in text else ""
        end, details = self.end_offset, _header_details(bad)
        offsets = (bad.header.offsets if bad.header else None) or (end, None)
        finding = found(_CODES[kind], self._path, text + where, position, end,
                        effect=effect, length=bad.size, offsets=offsets, details=details)  # fmt: skip
        # what follows is at stake, too: `repair` cuts only the end of the log without a decision
        yield finding if self._is_active else finding._replace(ways=ways.DAMAGED_BATCH)

    def take(self, rows: BatchRows) -> list[Finding]:
        """Take valid batches; what is found comes in their order."""
        self.is_empty = False
        if self._damage:
            self._beyond[0] += len(rows.position)
            self._beyond[1] += sum(count for count in rows.count if count > 0)
            self._beyond[2] += rows.end - rows.position[0]
            first, last = batch_offsets(rows.base_offset[0], rows.last_offset[-1])
            self._offsets_beyond = (self._offsets_beyond[0] if self._offsets_beyond else first), last
        findings = [*self._batches(rows), *self._attributes(rows), *self._markers(rows), *rows.deep]
        if len(findings) > 1:
            findings.sort(key=_BY_POSITION)
        return findings

    def _at(self, code: str, rows: BatchRows, row: int, message: str) -> Finding:
        return found_in_batch(code, self._path, message, rows, row, rows.last_offset[row])

    def _batches(self, rows: BatchRows) -> Iterator[Finding]:
        """Check offsets, counts and producers."""
        base, last, count = rows.base_offset, rows.last_offset, rows.count
        is_v2 = is_uniform(rows.magic, 2)
        if not is_v2:
            deltas_hold = counts_hold = max(rows.magic) < 2
        elif base == last:
            deltas_hold, counts_hold = True, is_uniform(count, 1)
        else:
            shortest, longest = kernels.differences(base, last)
            deltas_hold = shortest >= 0
            if shortest == longest:  # as where all batches are full
                counts_hold = deltas_hold and is_uniform(count, shortest + 1)
            else:
                counts_hold = deltas_hold and list(map(sub, count, map(sub, last, base))) == [1] * len(count)
        if not (deltas_hold and self._order.in_order(rows)):
            yield from self._order.rows(rows)
        if not is_v2:
            yield from self._magics(rows)
        if not (deltas_hold and counts_hold):
            for row, magic in enumerate(rows.magic):
                if magic >= 2:
                    yield from self._count(rows, row)
        if not _have_plain_producers(rows):
            yield from self._producers(rows)

    def _magics(self, rows: BatchRows) -> Iterator[Finding]:
        for row, magic in enumerate(rows.magic):
            if not 0 <= magic <= 2:
                yield self._at("KD-LOG-MAGIC", rows, row, f"the batch has magic {magic}")

    def _markers(self, rows: BatchRows) -> Iterator[Finding]:
        for row, marker in rows.markers.items():
            if marker.fault:
                yield self._at("KD-BATCH-CONTROL", rows, row, f"the control record is damaged: {marker.fault}")
            elif marker.unexpected:
                text = f"the control record is unusual: {marker.unexpected}"
                yield self._at("KD-BATCH-CONTROL-VERSION", rows, row, text)

    def _count(self, rows: BatchRows, row: int) -> Iterator[Finding]:
        count = rows.count[row]
        offsets = rows.last_offset[row] - rows.base_offset[row] + 1
        if offsets <= 0:
            yield self._at("KD-BATCH-DELTA", rows, row, f"the last offset delta is {offsets - 1}")
        if count < 0:
            yield self._at("KD-BATCH-COUNT", rows, row, f"the record count is {count}")
        elif count == 0:
            if rows.size[row] > HEADER_SIZE:
                left = rows.size[row] - HEADER_SIZE
                text = f"the record count is 0, but {left} bytes of records follow"
                yield self._at("KD-BATCH-COUNT", rows, row, text)
        elif count > offsets > 0:
            text = f"{count} records, but the last offset delta {offsets - 1} leaves room for {offsets}"
            yield self._at("KD-BATCH-DELTA", rows, row, text)

    def _producers(self, rows: BatchRows) -> Iterator[Finding]:
        columns = rows.producer_id, rows.producer_epoch, rows.base_sequence, rows.attributes, rows.magic
        for row, (producer, epoch, sequence, attributes, magic) in enumerate(zip(*columns, strict=True)):
            fault = producer_fault(producer, epoch, sequence, is_control=bool(attributes & CONTROL))
            if fault and magic >= 2:
                text = f"producer id {producer}, epoch {epoch}, base sequence {sequence}: {fault}"
                yield self._at("KD-BATCH-PRODUCER", rows, row, text)

    def _attributes(self, rows: BatchRows) -> Iterator[Finding]:
        attributes = rows.attributes
        if is_uniform(attributes, 0):
            return
        if is_uniform(attributes, attributes[0]) and is_uniform(rows.magic, 2):
            suspects = {attributes[0]}
        else:
            suspects = set(attributes)
        has_legacy = min(rows.magic) < 2
        if not has_legacy and all(map(_is_plain, suspects)):
            return
        for row in range(len(attributes)):
            for code, text in self._attribute_faults(rows.magic[row], attributes[row], rows.producer_id[row]):
                yield self._at(code, rows, row, text)

    def _attribute_faults(self, magic: int, attributes: int, producer_id: int) -> Iterator[tuple[str, str]]:
        codec = attributes & CODEC_MASK
        if codec > ZSTD:
            yield "KD-BATCH-CODEC", f"no release knows codec id {codec}"
        elif magic < 2 and codec == ZSTD:
            yield "KD-BATCH-CODEC", f"{NAMES[codec]} is not allowed in format v{magic}"
        known = KNOWN_ATTRIBUTES if magic >= 2 else KNOWN_ATTRIBUTES_V1
        if attributes & ~known:
            yield "KD-BATCH-BITS", f"the attributes are {attributes:#x}"
        if magic < 2:
            return
        if attributes & TRANSACTIONAL and producer_id < 0:
            yield "KD-BATCH-ATTRIBUTES", "the batch is transactional, but has no producer id"
        if attributes & CONTROL and not attributes & TRANSACTIONAL and producer_id >= 0:
            yield "KD-BATCH-ATTRIBUTES", "the control batch has a producer id, but is not transactional"
        if attributes & CONTROL and producer_id < 0 and not self._holds_metadata:
            yield "KD-BATCH-ATTRIBUTES", "a control batch without a producer id, which only the metadata log has"


def _header_details(bad: Damage) -> dict[str, int | None] | None:
    """Return the figures that the header of a damaged batch has beside its offsets."""
    if bad.header is None:
        return None
    if bad.header.stored_crc is None:
        return {"batchSize": bad.header.size}
    return {"storedCrc": bad.header.stored_crc, "computedCrc": bad.header.computed_crc}


def _have_plain_producers(rows: BatchRows) -> bool:
    """Return whether all producer fields are legal, as far as their columns tell at once."""
    columns = rows.producer_id, rows.producer_epoch, rows.base_sequence
    lowest = NO_PRODUCER if is_uniform(rows.producer_id, NO_PRODUCER) else 0
    return all(is_uniform(column, NO_PRODUCER) for column in columns) or all(
        kernels.column_stats(column)[0] >= lowest for column in columns
    )


def _is_plain(attributes: int) -> bool:
    """Return whether v2 attributes need no look at the batch's other fields."""
    return attributes & CODEC_MASK <= ZSTD and not attributes & ~(CODEC_MASK | LOG_APPEND_TIME | DELETE_HORIZON)
