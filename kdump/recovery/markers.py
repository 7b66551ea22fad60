"""Transaction markers, read out of a control batch as the broker reads them when it rebuilds producer state."""

from __future__ import annotations

from kdump.blocks import BatchBlock
from kdump.errors import (
    BUFFER_UNDERFLOW,
    ILLEGAL_ARGUMENT,
    KAFKA,
    NULL_POINTER,
    CodecError,
    InvalidMarkerError,
    LoadError,
)
from kdump.formats.control import MARKER_TYPE, ControlError, version_of_short_marker
from kdump.formats.faults import (
    CONTROL_NO_KEY,
    MARKER_NO_VALUE,
    MARKER_SIZE,
    NEGATIVE_SIZE,
    UNKNOWN_CODEC,
    VARINT_LONG,
    DamageError,
    fault_error,
)
from kdump.storage.control_batches import Marker, control_record, end_of_transaction
from kdump.storage.planned_log import LogView

_EXCEPTIONS = {
    CONTROL_NO_KEY: NULL_POINTER,
    MARKER_NO_VALUE: NULL_POINTER,
    MARKER_TYPE: ILLEGAL_ARGUMENT,
}
"""The exceptions of Java's in which reading a marker ends, where it is not Kafka's InvalidRecordException."""

_ILLEGAL_ARGUMENTS = (UNKNOWN_CODEC, VARINT_LONG, NEGATIVE_SIZE)


def read_marker(log: LogView, block: BatchBlock, row: int, *, short_ends: bool = False) -> Marker | None:
    """Return the marker in a control batch of a producer; None where compaction has taken it out.

    `short_ends`: one that is too short is no invalid record, but the end of a buffer, as in Kafka from 4.1 on.

    Raises InvalidMarkerError for what Kafka calls an invalid record, else LoadError.
    """
    held, at = log.held(block, row)
    try:
        record = control_record(held, at, to_the_end=True)
        if record is None:
            return None
        try:
            return end_of_transaction(record)
        except ControlError as error:
            if not short_ends or error.code != MARKER_SIZE:
                raise
            if bad := version_of_short_marker(record.value or b""):
                raise bad from None
            raise LoadError(BUFFER_UNDERFLOW, str(error), log.name) from None
    except CodecError as error:
        raise LoadError(KAFKA, f"Failed to decompress record stream: {error}", log.name) from None
    except DamageError as damage:
        text = str(fault_error(damage.fault))
        if damage.fault[0] in _ILLEGAL_ARGUMENTS:
            raise LoadError(ILLEGAL_ARGUMENT, text, log.name) from None
        raise InvalidMarkerError(text, log.name, row) from None
    except ControlError as error:
        if error.code in _EXCEPTIONS:
            raise LoadError(_EXCEPTIONS[error.code], str(error), log.name) from None
        raise InvalidMarkerError(str(error), log.name, row) from None
