"""One batch of a log, field by field: where each is, its bytes, and what they mean. Damaged batches too.

The layout is that of DefaultRecordBatch (message format v2) and LegacyRecord (v0 and v1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import calcsize, unpack
from typing import NamedTuple

from kdump.blocks import BatchBlock, RecordBlock, content_at
from kdump.errors import KdumpError
from kdump.formats.batch import (
    CODEC_MASK,
    CONTROL,
    CRC_AT,
    CRC_START,
    DELETE_HORIZON,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC_AT,
    TRANSACTIONAL,
    TimestampType,
)
from kdump.formats.checksums import crc32, crc32c
from kdump.formats.codecs import NAMES
from kdump.formats.encode import read_varint
from kdump.storage.decoded import BadBatch, decode_rows
from kdump.storage.log_reader import LogFile

MAX_BATCH = 1 << 28
"""Bytes of a batch that is read whole."""


class Field(NamedTuple):
    """A field of a batch: byte position in the file, name as in Kafka's classes, bytes, value, and what it means."""

    position: int
    name: str
    data: bytes
    value: int
    meaning: str = ""


class RecordField(NamedTuple):
    """A record of a batch.

    `position` and `size` are bytes of the file, None where the batch is compressed. `key` is None for null;
    `value_size` is in bytes, -1 for null.
    """

    offset: int
    timestamp: int
    position: int | None
    size: int | None
    key: bytes | None
    value_size: int


class BatchFields(NamedTuple):
    """What a batch at a byte position is made of. `fault` says why its records cannot all be read."""

    position: int
    size: int
    first_offset: int
    last_offset: int
    magic: int
    stored_crc: int
    computed_crc: int
    fields: tuple[Field, ...]
    records: tuple[RecordField, ...]
    fault: str | None
    is_complete: bool

    @property
    def is_valid(self) -> bool:
        """Whether the stored CRC is the one of the bytes."""
        return self.stored_crc == self.computed_crc

    def part_at(self, position: int) -> str:
        """Return what a byte of the file is in: a header field's name, or `record` and an offset; "" if not known."""
        for field in self.fields:
            if field.position <= position < field.position + len(field.data):
                return field.name
        for record in self.records:
            if record.position is not None and 0 <= position - record.position < (record.size or 0):
                return f"record {record.offset}"
        return ""


_V2 = (
    ("baseOffset", "q"), ("batchLength", "i"), ("partitionLeaderEpoch", "i"), ("magic", "b"), ("crc", "I"),
    ("attributes", "H"), ("lastOffsetDelta", "i"), ("baseTimestamp", "q"), ("maxTimestamp", "q"), ("producerId", "q"),
    ("producerEpoch", "h"), ("baseSequence", "i"), ("recordsCount", "i"),
)  # fmt: skip
_V1 = (
    ("offset", "q"), ("messageSize", "i"), ("crc", "I"), ("magic", "b"), ("attributes", "B"), ("timestamp", "q"),
    ("keyLength", "i"),
)  # fmt: skip
_V0 = tuple(each for each in _V1 if each[0] != "timestamp")
_LEGACY_CRC_FROM = 16


def fields_at(log: LogFile, position: int) -> BatchFields:
    """Read the batch that starts at byte `position`. Raises KdumpError where no batch can start there, OSError."""
    head = log.read(position, HEADER_SIZE)
    if len(head) <= MAGIC_AT:
        raise KdumpError(f"{log.path}: byte {position}: no batch starts here: the log ends at byte {log.size}")
    size = LOG_OVERHEAD + int.from_bytes(head[8:LOG_OVERHEAD], "big", signed=True)
    magic = int.from_bytes(head[MAGIC_AT : MAGIC_AT + 1], "big", signed=True)
    if size <= MAGIC_AT or magic not in (0, 1, 2) or size > MAX_BATCH:
        raise KdumpError(
            f"{log.path}: byte {position}: no batch starts here (size field {size - LOG_OVERHEAD}, magic {magic})"
        )
    data = log.read(position, min(size, log.size - position))
    layout = {2: _V2, 1: _V1, 0: _V0}[magic]
    values: dict[str, int] = {}
    fields = tuple(_fields(layout, data, position, values))
    is_complete = len(data) == size
    if magic == 2:
        computed = crc32c(memoryview(data)[CRC_START:])
        stored = int.from_bytes(data[CRC_AT : CRC_AT + 4], "big")
        last = values.get("baseOffset", 0) + values.get("lastOffsetDelta", 0)
    else:
        computed = crc32(memoryview(data)[_LEGACY_CRC_FROM:])
        stored, last = values.get("crc", 0), values.get("offset", 0)
    first = values.get("baseOffset", last)
    records: tuple[RecordField, ...] = ()
    fault: str | None = f"the log ends inside the batch: {len(data)} of {size} bytes are there"
    if is_complete:
        records, fault = _records(log, position, size, values)
    described = tuple(_described(field, size, computed, values) for field in fields)
    return BatchFields(position, size, first, last, magic, stored, computed, described, records, fault, is_complete)


def _fields(layout: tuple[tuple[str, str], ...], data: bytes, position: int, values: dict[str, int]) -> Iterator[Field]:
    at = 0
    for name, kind in layout:
        width = calcsize(f">{kind}")
        piece = data[at : at + width]
        if len(piece) < width:
            return
        (values[name],) = unpack(f">{kind}", piece)
        yield Field(position + at, name, piece, values[name])
        at += width


def _described(field: Field, size: int, computed: int, values: dict[str, int]) -> Field:
    describe = _MEANINGS.get(field.name)
    return field._replace(meaning=describe(field.value, size, computed, values)) if describe else field


_Describe = Callable[[int, int, int, dict[str, int]], str]


def _attributes(value: int, _size: int, _computed: int, _values: dict[str, int]) -> str:
    codec = value & CODEC_MASK
    said = ["no codec" if not codec else NAMES[codec] if codec < len(NAMES) else f"unknown codec {codec}"]
    said.append(TimestampType.LOG_APPEND_TIME if value & LOG_APPEND_TIME else TimestampType.CREATE_TIME)
    flags = ((TRANSACTIONAL, "transactional"), (CONTROL, "control batch"), (DELETE_HORIZON, "delete horizon"))
    said += [name for bit, name in flags if value & bit]
    return ", ".join(said)


_MEANINGS: dict[str, _Describe] = {
    "batchLength": lambda _value, size, *_: f"+ {LOG_OVERHEAD} = {size} bytes",
    "messageSize": lambda _value, size, *_: f"+ {LOG_OVERHEAD} = {size} bytes",
    "crc": lambda value, _size, computed, *_: (
        "matches" if value == computed else f"computed: {computed.to_bytes(4, 'big').hex(' ')}"
    ),
    "attributes": _attributes,
    "lastOffsetDelta": lambda value, _size, _computed, values: f"last offset {values['baseOffset'] + value}",
    "producerId": lambda value, *_: "none" if value == -1 else "",
}


def _records(
    log: LogFile, position: int, size: int, values: dict[str, int]
) -> tuple[tuple[RecordField, ...], str | None]:
    """Return the records as far as they can be decoded, and why not further."""
    block = log.batch_at(position, size)
    if block.length != 1:
        return (), "the header of the batch cannot be read"
    decoded = RecordBlock(max(1, min(values.get("recordsCount", 1), size)))
    rows = next(decode_rows(block, 0, 1, records=decoded))
    if isinstance(rows, BadBatch):
        return (), str(rows.error)
    starts = _starts(block, size) if rows.payload(0) is None and block.magic[0] == 2 else []
    source = rows.source_of(0)
    found = []
    for row in range(decoded.length):
        start, length = starts[row] if row < len(starts) else (None, None)
        place = None if start is None else position + start, length
        key = content_at(source, decoded.key_position[row], decoded.key_length[row])
        found.append(RecordField(decoded.offset[row], decoded.timestamp[row], *place, key, decoded.value_length[row]))
    return tuple(found), None if decoded.fault is None else f"record {decoded.length} cannot be decoded"


def _starts(block: BatchBlock, size: int) -> list[tuple[int, int]]:
    """Return where each record of an uncompressed v2 batch starts, from the batch's start, and its size in bytes."""
    data = bytes(block.data[:size])
    found = []
    at = HEADER_SIZE
    while at < size:
        try:
            length, start = read_varint(data, at, 5)
        except IndexError:
            break
        if length < 0 or start + length > size:
            break
        found.append((at, start + length - at))
        at = start + length
    return found
