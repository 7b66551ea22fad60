"""Transaction markers, read out of a control batch as the broker reads them when it rebuilds producer state."""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from kdump import kernels
from kdump.blocks import BatchBlock, RecordBlock
from kdump.errors import ILLEGAL_ARGUMENT, KAFKA, NULL_POINTER, CodecError, InvalidMarkerError, LoadError
from kdump.formats.batch import ABORT, CODEC_MASK, COMMIT, control_type_name
from kdump.formats.faults import NEGATIVE_SIZE, UNKNOWN_CODEC, VARINT_LONG, DamageError, Fault, fault_error
from kdump.storage.payloads import payload_of
from kdump.storage.planned_log import LogView

_KEY = Struct(">hh")
_VALUE = Struct(">hi")
_ILLEGAL_ARGUMENTS = (UNKNOWN_CODEC, VARINT_LONG, NEGATIVE_SIZE)


class Marker(NamedTuple):
    """The end of a transaction; `timestamp` in ms."""

    is_abort: bool
    coordinator_epoch: int
    timestamp: int


def read_marker(log: LogView, block: BatchBlock, row: int) -> Marker | None:
    """The marker in a control batch of a producer; None where compaction has taken it out.

    Raises InvalidMarkerError for what Kafka calls an invalid record, else LoadError.
    """
    held, at = log.batch_at(block, row)
    try:
        payload, fault = _payload(held, at)
    except CodecError as error:
        raise LoadError(KAFKA, f"Failed to decompress record stream: {error}", log.name) from None
    records = RecordBlock(1)
    if fault is None:
        records.seek(at)
        kernels.decode(held, records, at, at + 1, [payload])
        fault = None if records.length else records.fault
    if fault is not None:
        text = str(fault_error(fault))
        if fault[0] in _ILLEGAL_ARGUMENTS:
            raise LoadError(ILLEGAL_ARGUMENT, text, log.name)
        raise InvalidMarkerError(text, log.name, row)
    if records.length == 0:
        return None
    source = held.data if payload is None else payload
    key = _part(source, records.key_position[0], records.key_length[0])
    value = _part(source, records.value_position[0], records.value_length[0])
    return _parse(key, value, records.timestamp[0], log.name, row)


def _payload(block: BatchBlock, row: int) -> tuple[bytes | None, Fault | None]:
    """The decompressed payload of a batch (None: not compressed); a compressed one is read to its end at once."""
    if not block.attributes[row] & CODEC_MASK:
        return None, None
    try:
        payload = payload_of(block, row)
    except DamageError as damage:
        return None, damage.fault
    return payload, kernels.check(block, row, payload)


def _parse(key: bytes | None, value: bytes | None, timestamp: int, file: str, row: int) -> Marker:
    if key is None:
        raise LoadError(NULL_POINTER, "a control record has no key", file)
    if len(key) < _KEY.size:
        what = "Invalid value size found for end control record key. Must have at least 4 bytes, but found only"
        raise InvalidMarkerError(f"{what} {len(key)}", file, row)
    version, control_type = _KEY.unpack_from(key)
    if version < 0:
        what = f"Invalid version found for control record: {version}. May indicate data corruption"
        raise InvalidMarkerError(what, file, row)
    if control_type not in (ABORT, COMMIT):
        what = f"Invalid control record type for end transaction marker{control_type_name(control_type)}"
        raise LoadError(ILLEGAL_ARGUMENT, what, file)
    if value is None:
        raise LoadError(NULL_POINTER, "an end transaction marker has no value", file)
    if len(value) < _VALUE.size:
        what = "Invalid value size found for end transaction marker. Must have at least 6 bytes, but found only"
        raise InvalidMarkerError(f"{what} {len(value)}", file, row)
    version, coordinator_epoch = _VALUE.unpack_from(value)
    if version < 0:
        what = f"Invalid version found for end transaction marker: {version}. May indicate data corruption"
        raise InvalidMarkerError(what, file, row)
    return Marker(control_type == ABORT, coordinator_epoch, timestamp)


def _part(source: bytes | bytearray, position: int, length: int) -> bytes | None:
    return bytes(source[position : position + length]) if length >= 0 else None
