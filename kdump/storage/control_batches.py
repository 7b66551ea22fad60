"""Control batches: their record, read as any record, and the end of a transaction that it tells of."""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from kdump import kernels
from kdump.blocks import BatchBlock, RecordBlock, content_at
from kdump.formats.batch import ABORT, CODEC_MASK, CONTROL_KEY, HEADER_SIZE, MARKER_VALUE, is_control_batch
from kdump.formats.control import parse_marker
from kdump.formats.faults import DamageError
from kdump.storage.payloads import payload_of


class ControlRecord(NamedTuple):
    """A control record: key and value (None: null), absolute offset, timestamp in ms."""

    key: bytes | None
    value: bytes | None
    offset: int
    timestamp: int


class Marker(NamedTuple):
    """The end of a transaction: control type (formats.batch.ABORT or COMMIT), absolute offset, timestamp in ms."""

    control_type: int
    coordinator_epoch: int
    offset: int
    timestamp: int

    @property
    def is_abort(self) -> bool:
        """Whether it aborts the transaction."""
        return self.control_type == ABORT


class MarkerParts(NamedTuple):
    """What key and value of a marker have, whatever it is: versions, control type, coordinator epoch."""

    key_version: int
    control_type: int
    value_version: int
    coordinator_epoch: int


PLAIN_MARKER_SIZE = 78
"""Bytes of nearly every control batch that ends a transaction."""
_SHAPE = b"\x20\0\0\0\x08"  # length 16, attributes, timestamp delta and offset delta 0, key of 4 bytes
_VALUE_SIZE, _NO_HEADERS = 0x0C, 0  # as varints
_PARTS = Struct(f"{CONTROL_KEY.format}x{MARKER_VALUE.format[1:]}")


def is_control(block: BatchBlock, row: int) -> bool:
    """Return whether the batch in a row is a control batch."""
    return is_control_batch(block.attributes[row], block.magic[row])


def end_of_transaction(record: ControlRecord) -> Marker:
    """Return the marker in a control record of a producer. Raises ControlError."""
    marker = parse_marker(record.key, record.value)
    return Marker(marker.control_type, marker.coordinator_epoch, record.offset, record.timestamp)


def plain_marker(block: BatchBlock, row: int) -> MarkerParts | None:
    """Return the parts of a marker of the usual shape, read in place; None where the batch in the block has another."""
    if block.size[row] != PLAIN_MARKER_SIZE or block.count[row] != 1 or block.attributes[row] & CODEC_MASK:
        return None
    data, record = block.data, block.position[row] - block.data_position + HEADER_SIZE
    key = record + len(_SHAPE)
    value = key + CONTROL_KEY.size
    if data[record:key] != _SHAPE or data[value] != _VALUE_SIZE or data[value + 1 + MARKER_VALUE.size] != _NO_HEADERS:
        return None
    return MarkerParts(*_PARTS.unpack_from(data, key))


def control_record(block: BatchBlock, row: int, *, to_the_end: bool = False) -> ControlRecord | None:
    """Return the first record of a control batch whose bytes the block holds; None where compaction has emptied it.

    `to_the_end`: a compressed batch is read to its end, as Kafka decompresses it when it rebuilds producer state.
    Raises DamageError, CodecError.
    """
    payload = payload_of(block, row) if block.attributes[row] & CODEC_MASK else None
    if payload is not None and to_the_end and (fault := kernels.check(block, row, payload)):
        raise DamageError(*fault)
    records = RecordBlock(1)
    records.seek(row)
    kernels.decode(block, records, row, row + 1, [payload])
    if not records.length:
        if records.fault:
            raise DamageError(*records.fault)
        return None
    source = block.data if payload is None else payload
    return ControlRecord(
        content_at(source, records.key_position[0], records.key_length[0]),
        content_at(source, records.value_position[0], records.value_length[0]),
        records.offset[0],
        records.timestamp[0],
    )
