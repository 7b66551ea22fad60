"""Control batches: what kind of marker each holds, and whether it is one that a broker can take in.

What a broker takes in and what it does not is judged here; storage.control_batches reads them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kdump.blocks import BatchBlock
from kdump.check.column_checks import is_uniform
from kdump.formats.batch import ABORT, CODEC_MASK, COMMIT, CONTROL, CONTROL_TYPES, MARKER_VALUE
from kdump.formats.faults import DamageError, fault_error
from kdump.storage.log_reader import LogFile

if TYPE_CHECKING:
    from kdump.storage.control_batches import ControlRecord, MarkerParts


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
    from kdump.storage.control_batches import plain_marker

    block, row = log.held(block, row)
    plain = plain_marker(block, row)
    return _decoded(block, row) if plain is None else _judged(block, row, plain, MARKER_VALUE.size)


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
    from kdump.formats.control import ControlError, key_parts, value_parts
    from kdump.storage.control_batches import MarkerParts

    kind: int | None = None
    try:
        version, kind = key_parts(record.key)
        if kind not in (ABORT, COMMIT):
            return _judged(block, row, MarkerParts(version, kind, 0, -1), MARKER_VALUE.size)
        parts = MarkerParts(version, kind, *value_parts(record.value))
    except ControlError as error:
        return Marker(kind, fault=str(error))
    return _judged(block, row, parts, len(record.value or b""))


def _judged(block: BatchBlock, row: int, parts: MarkerParts, value_size: int) -> Marker:
    version, kind, value_version, epoch = parts
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
    elif kind not in range(len(CONTROL_TYPES)):
        unexpected = f"control type {kind}"
    elif value_size > MARKER_VALUE.size:
        unexpected = f"{value_size - MARKER_VALUE.size} bytes after the marker's value"
    return Marker(kind, epoch, timestamp, unexpected=unexpected)
