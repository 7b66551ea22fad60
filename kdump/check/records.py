"""The deep look: decompress and decode every record of a run of batches and hold it against the batch's header."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import partial
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from kdump.blocks import BatchBlock, RecordBlock, content_at
from kdump.check.batch_findings import found_in_batch
from kdump.check.column_checks import increases, is_sorted
from kdump.errors import CodecError, KdumpError, NewerError
from kdump.findings.finding import Finding
from kdump.formats.batch import CODEC_MASK, CONTROL, LOG_APPEND_TIME, LOG_OVERHEAD
from kdump.formats.codecs import LZ4, ZSTD
from kdump.formats.iso_times import shown
from kdump.formats.message_set import LENGTH, LENGTH_SIZE, OVERHEAD_V0, OVERHEAD_V1, key_size_at
from kdump.formats.schemas.decoding import tables_of
from kdump.storage.decoded import BadBatch, DecodedRows, decode_rows

if TYPE_CHECKING:
    from kdump.formats.schemas.framing import CoordinatorTopic, MetadataTopic

MESSAGE_OVERHEAD = (LOG_OVERHEAD + OVERHEAD_V0, LOG_OVERHEAD + OVERHEAD_V1)
"""Bytes of an entry of format v0 and v1 that are neither key nor value."""

Bytes = bytes | bytearray
Decode = Callable[[bytes | None, bytes | None], None]


class DeepCheck:
    """Decodes the records of one log; what is found comes in the order of the log."""

    def __init__(self, path: str, topic: str, limit: int, records: RecordBlock) -> None:
        """`topic` tells whether the values are of a form that Kafka knows; `limit` bounds a payload's bytes.

        `records` is what is decoded into, whatever was in it before.
        """
        self._path = path
        self._limit = limit
        self._records = records
        self._decode = decode_of(topic)
        self._found: list[Finding] = []
        self.base_offsets: dict[int, int] = {}
        self._open = -1  # the row whose records fill more than one record block, and what is known of them
        self._last_offset = -1
        self._largest = -1

    def findings(self, block: BatchBlock, first: int, stop: int) -> list[Finding]:
        """Return what is wrong with the records of the rows `first` to `stop` - 1, which the block must hold.

        `base_offsets` then has the first offset in each v0/v1 wrapper, by row.
        """
        self._found = []
        self.base_offsets = {}
        self._open = -1
        for rows in decode_rows(block, first, stop, limit=self._limit, records=self._records):
            if isinstance(rows, BadBatch):
                self._undecodable(block, rows.row, rows.error)
                self._open = -1
            else:
                self._flagged(block)
                self._decoded(rows)
        return self._found

    def _report(self, code: str, block: BatchBlock, row: int, text: str, record: int | None = None) -> None:
        """Add a finding about the batch in a row, or about the `record` at an offset in it."""
        offset = block.last_offset[row] if record is None else record
        self._found.append(found_in_batch(code, self._path, text, block, row, offset, is_record=record is not None))

    def _flagged(self, block: BatchBlock) -> None:
        """Report attributes of a record: DefaultRecord reads the byte, and nothing asks for it."""
        records = self._records
        if records.flagged >= 0:
            offset, row = records.offset[records.flagged], records.row[records.flagged]
            text = f"the record at offset {offset} has attributes other than 0, and no record attribute is in use"
            self._report("KD-BATCH-BITS", block, row, text, offset)

    def _undecodable(self, block: BatchBlock, row: int, error: KdumpError) -> None:
        attributes, magic = block.attributes[row], block.magic[row]
        highest = ZSTD if magic >= 2 else LZ4
        if magic >= 2 and (attributes & CONTROL or block.count[row] < 0):
            return  # said of the marker, or of the count
        if attributes & CODEC_MASK > highest:
            return  # said of the attributes
        code = "KD-BATCH-CODEC" if isinstance(error, CodecError) else "KD-BATCH-RECORDS"
        self._report(code, block, row, f"the records of the batch cannot all be read: {error}")

    def _decoded(self, decoded: DecodedRows) -> None:
        block, records = decoded.block, decoded.records
        if not records.length or (self._decode is None and self._fit(block)):
            return
        start, length = 0, records.length
        rows = records.row
        legacy = block.magic[rows[0]] < 2 or block.magic[rows[length - 1]] < 2
        while start < length:
            row = rows[start]
            stop = start + 1
            if stop < length and rows[stop] == row:
                stop = bisect_right(rows, row, stop, length)
            is_last = stop < length or records.next_row == decoded.stop or self._is_complete(block, row)
            self._batch(block, row, start, stop, is_last)
            if legacy and block.magic[row] < 2:
                self._messages(block, row, start, stop)
            if self._decode and not block.attributes[row] & CONTROL:
                for at, text in faults(self._decode, records, decoded.source_of(row), start, stop):
                    offset = records.offset[at]
                    self._report("KD-VALUE-UNDECODABLE", block, row, f"the record at offset {offset}: {text}", offset)
            start = stop

    def _fit(self, block: BatchBlock) -> bool:
        """Return whether the records decoded last are all those of whole v2 batches, and as the headers of these say.

        Few batches are not so; this looks at all columns at once, which is much faster than batch by batch.
        """
        records = self._records
        length = records.length
        first, stop = records.row[0], records.row[length - 1] + 1
        if self._open >= 0 or min(block.magic[first:stop]) < 2:
            return False
        counts = block.count[first:stop]
        ends = list(accumulate(counts))
        if ends[-1] != length or min(counts) < 1:
            return False
        offsets = records.offset[:length]
        if [offsets[end - 1] for end in ends] != block.last_offset[first:stop].tolist():
            return False
        starts = [0, *ends[:-1]]
        if [offsets[start] for start in starts] != block.base_offset[first:stop].tolist() or not increases(offsets):
            return False
        times = records.timestamp[:length]
        if is_sorted(times):
            largest = [times[end - 1] for end in ends]
        else:
            largest = [max(times[start:end]) for start, end in zip(starts, ends, strict=True)]
        return largest == block.max_timestamp[first:stop].tolist()

    def _is_complete(self, block: BatchBlock, row: int) -> bool:
        """Return whether decoding stopped behind the last record of a batch."""
        records = self._records
        return records.next_row != row or (block.magic[row] >= 2 and records.next_index >= block.count[row])

    def _batch(self, block: BatchBlock, row: int, start: int, stop: int, is_last: bool) -> None:
        """Hold the records `start` to `stop` - 1, all of batch `row`, against the batch's header."""
        records = self._records
        continued = row == self._open
        first = records.offset[start]
        if block.base_offset[row] < 0 and block.magic[row] < 2 and not continued:
            self.base_offsets[row] = first
        if stop - start == 1:
            last, largest, sorted_ = first, records.timestamp[start], True
        else:
            offsets = records.offset[start:stop]
            last, largest = offsets[-1], max(records.timestamp[start:stop])
            sorted_ = increases(offsets)
        if continued:
            largest = max(largest, self._largest)
            sorted_ = sorted_ and first > self._last_offset
        if not sorted_:
            before = self._last_offset if continued else -1
            self._report("KD-BATCH-OFFSETS", block, row, _order_text(records.offset[start:stop], before))
        elif last > block.last_offset[row] or (not continued and first < block.base_offset[row]):
            said = f"its header says {block.base_offset[row]} to {block.last_offset[row]}"
            self._report("KD-BATCH-OFFSETS", block, row, f"its records have the offsets {first} to {last}, {said}")
        elif is_last and last < block.last_offset[row] and self._must_end(block, row):
            said = f"its header says {block.last_offset[row]} and as many records as there are offsets"
            self._report("KD-BATCH-OFFSETS", block, row, f"its last record has offset {last}, {said}")
        if not is_last:
            self._open, self._last_offset, self._largest = row, last, largest
            return
        self._open = -1
        self._timestamps(block, row, largest)

    @staticmethod
    def _must_end(block: BatchBlock, row: int) -> bool:
        """Return whether no record of a batch was compacted away, by its header; of a wrapper the last one never."""
        return block.magic[row] < 2 or block.count[row] == block.last_offset[row] - block.base_offset[row] + 1

    def _timestamps(self, block: BatchBlock, row: int, largest: int) -> None:
        stated = block.max_timestamp[row]
        if largest == stated or block.attributes[row] & LOG_APPEND_TIME or block.magic[row] == 0:
            return
        code = "KD-BATCH-MAX-TIMESTAMP" if largest > stated else "KD-BATCH-MAX-TIMESTAMP-HIGH"
        self._report(code, block, row, f"its max timestamp is {shown(stated)}, that of its records {shown(largest)}")

    def _messages(self, block: BatchBlock, row: int, start: int, stop: int) -> None:
        """Find what only v0/v1 messages can have wrong: their own CRC inside a wrapper, lengths that do not add up."""
        records = self._records
        for at in range(start, stop):
            if not records.valid[at]:
                text = f"the message at offset {records.offset[at]} inside it fails its CRC"
                self._report("KD-BATCH-MESSAGE-CRC", block, row, text)
        magic = block.magic[row]
        if magic < 0:
            return
        if not block.attributes[row] & CODEC_MASK:
            held = max(0, records.key_length[start]) + max(0, records.value_length[start]) + MESSAGE_OVERHEAD[magic]
            if held != block.size[row]:
                unused = block.size[row] - held
                text = f"the message has {block.size[row]} bytes, its key and value leave {unused} unused"
                self._report("KD-BATCH-MESSAGE-LENGTH", block, row, text)
        at = block.position[row] - block.data_position + LOG_OVERHEAD + key_size_at(magic)
        key_length: int = LENGTH.unpack_from(block.data, at)[0]
        value_length: int = LENGTH.unpack_from(block.data, at + LENGTH_SIZE + max(0, key_length))[0]
        if min(key_length, value_length) < -1:
            text = f"a null key or value has length {min(key_length, value_length)}, writers use -1"
            self._report("KD-BATCH-MESSAGE-LENGTH", block, row, text)


def _order_text(offsets: array[int], before: int) -> str:
    for last, offset in pairwise((before, *offsets)):
        if offset <= last:
            return f"a record with offset {offset} follows one with offset {last}"
    return f"records up to offset {offsets[-1]} are out of order"


def faults(decode: Decode, records: RecordBlock, source: Bytes, start: int, stop: int) -> Iterator[tuple[int, str]]:
    """Yield the records among `start` to `stop` - 1 that cannot be decoded, and why; newer than kdump is sound."""
    for at in range(start, stop):
        key = content_at(source, records.key_position[at], records.key_length[at])
        value = content_at(source, records.value_position[at], records.value_length[at])
        try:
            decode(key, value)
        except NewerError:
            continue
        except KdumpError as error:
            yield at, str(error)


def decode_of(topic: str) -> Decode | None:
    """Return what decodes the records of an internal topic; None where Kafka leaves their form to clients."""
    tables = tables_of(topic)
    if tables is None:
        return None
    from kdump.formats.schemas.framing import MetadataTopic

    if isinstance(tables, MetadataTopic):
        return partial(_metadata, tables)
    return partial(_coordinator, tables)


def _coordinator(topic: CoordinatorTopic, key: bytes | None, value: bytes | None) -> None:
    if key is None:
        raise KdumpError("it has no key")
    found = topic.decode_key(key)
    if value is not None:
        topic.decode_value(found.type, value)


def _metadata(topic: MetadataTopic, _: bytes | None, value: bytes | None) -> None:
    if value is None:
        raise KdumpError("it has no value")
    topic.decode_value(value)
