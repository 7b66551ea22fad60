"""The control record of a control batch: read as any record, and checked to its end where Kafka does so."""

from __future__ import annotations

from typing import NamedTuple

from kdump import kernels
from kdump.blocks import BatchBlock, RecordBlock
from kdump.formats.batch import CODEC_MASK
from kdump.formats.faults import DamageError
from kdump.storage.payloads import payload_of


class ControlRecord(NamedTuple):
    """A control record: key and value (None: null), absolute offset, timestamp in ms."""

    key: bytes | None
    value: bytes | None
    offset: int
    timestamp: int


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
        _part(source, records.key_position[0], records.key_length[0]),
        _part(source, records.value_position[0], records.value_length[0]),
        records.offset[0],
        records.timestamp[0],
    )


def _part(source: bytes | bytearray, position: int, length: int) -> bytes | None:
    return bytes(source[position : position + length]) if length >= 0 else None
