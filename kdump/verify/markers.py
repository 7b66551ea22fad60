"""Control batches: what kind of marker each holds, and whether it is one that a broker can take in.

A transaction marker is a batch of 78 bytes, nearly always of the same shape, which is read in place.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from kdump.blocks import BatchBlock
from kdump.formats.batch import ABORT, CODEC_MASK, COMMIT, CONTROL, HEADER_SIZE
from kdump.formats.faults import DamageError, fault_error
from kdump.named_tuples import NamedTuple
from kdump.storage.log_reader import LogFile
from kdump.verify.column_checks import is_uniform

if TYPE_CHECKING:
    from kdump.storage.control_batches import ControlRecord

MARKER_SIZE = 78
_SHAPE = b"\x20\0\0\0\x08"  # length 16, attributes, timestamp delta and offset delta 0, key of 4 bytes
_MARKER = Struct(">hhBhi")


class Marker(NamedTuple):
    """The control record of a batch: its type (formats.batch.ABORT, …; None in an empty batch) and coordinator epoch.

    `fault` says what a broker could not take in, `unexpected` what it takes in although no release writes it.
    """

    type: int | None
    coordinator_epoch: int = -1
    timestamp: int = -1
    fault: str = ""
    unexpected: str = ""

    @property
    def ends_transaction(self) -> bool:
        """Whether it is an ABORT or a COMMIT."""
        return self.type in (ABORT, COMMIT)


def markers_of(log: LogFile, block: BatchBlock, first: int, stop: int) -> dict[int, Marker]:
    """Return the markers of the control batches among the rows `first` to `stop` - 1, by row counted from `first`."""
    attributes = block.attributes
    column = attributes[first:stop]
    if not column[0] & CONTROL and is_uniform(column, column[0]):
        return {}
    return {
        row - first: _marker(log, block, row)
        for row in range(first, stop)
        if attributes[row] & CONTROL and block.magic[row] >= 2
    }


def _marker(log: LogFile, block: BatchBlock, row: int) -> Marker:
    block, row = log.held(block, row)
    at = block.position[row] - block.data_position
    data = block.data
    record = at + HEADER_SIZE
    if (
        block.size[row] == MARKER_SIZE
        and data[record : record + 5] == _SHAPE
        and data[record + 9] == 0x0C
        and data[record + 16] == 0
        and not block.attributes[row] & CODEC_MASK
        and block.count[row] == 1
    ):
        version, kind, _, value_version, epoch = _MARKER.unpack_from(data, record + 5)
        return _judged(block, row, kind, epoch, version, value_version, 6)
    return _decoded(block, row)


def _decoded(block: BatchBlock, row: int) -> Marker:
    from kdump.storage.control_batches import control_record

    if block.count[row] == 0:
        return Marker(None)
    if block.attributes[row] & CODEC_MASK:
        return Marker(None, fault="a control batch is compressed, which no release writes")
    try:
        record = control_record(block, row)
    except DamageError as damage:
        return Marker(None, fault=str(fault_error(damage.fault)))
    return Marker(None) if record is None else _from_record(block, row, record)


def _from_record(block: BatchBlock, row: int, record: ControlRecord) -> Marker:
    from kdump.formats.control import KEY, MARKER_VALUE

    key, value = record.key, record.value
    if key is None or len(key) < KEY.size:
        return Marker(None, fault=f"its key is {'null' if key is None else f'{len(key)} bytes'}, not a control type")
    version, kind = KEY.unpack_from(key)
    if kind not in (ABORT, COMMIT):
        return _judged(block, row, kind, -1, version, 0, 6)
    if value is None or len(value) < MARKER_VALUE.size:
        return Marker(kind, fault=f"the marker's value is {'null' if value is None else f'{len(value)} bytes'}")
    value_version, epoch = MARKER_VALUE.unpack_from(value)
    return _judged(block, row, kind, epoch, version, value_version, len(value))


def _judged(
    block: BatchBlock, row: int, kind: int, epoch: int, version: int, value_version: int, value_size: int
) -> Marker:
    timestamp = block.max_timestamp[row]
    has_producer = block.producer_id[row] > -1
    if version < 0:
        return Marker(kind, epoch, timestamp, f"its key has version {version}")
    if has_producer and kind not in (ABORT, COMMIT):
        return Marker(kind, epoch, timestamp, f"control type {kind} on a batch with a producer id")
    if not has_producer and kind in (ABORT, COMMIT):
        return Marker(kind, epoch, timestamp, "a transaction marker without a producer id")
    if value_version < 0:
        return Marker(kind, epoch, timestamp, f"the marker's value has version {value_version}")
    unexpected = ""
    if version > 0 or (kind in (ABORT, COMMIT) and value_version > 0):
        unexpected = f"key version {version}, value version {value_version}"
    elif not 0 <= kind <= 6:
        unexpected = f"control type {kind}"
    elif value_size > 6:
        unexpected = f"{value_size - 6} bytes after the marker's value"
    return Marker(kind, epoch, timestamp, unexpected=unexpected)
