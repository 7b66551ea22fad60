"""The Java exceptions that end Kafka's dump tool, for the faults that the core finds."""

from __future__ import annotations

import os
import re

from kdump.dump_log_segments.options import INT_MAX
from kdump.errors import (
    CORRUPT_RECORD,
    ILLEGAL_ARGUMENT,
    INVALID_RECORD,
    IO_EXCEPTION,
    KAFKA,
    NO_SUCH_FILE,
    NULL_POINTER,
    NUMBER_FORMAT,
    CodecError,
    CorruptIndexError,
    CorruptRecordError,
    InvalidRecordError,
    JavaError,
    KdumpError,
    UnknownCodecError,
)
from kdump.formats import faults
from kdump.formats.faults import Fault, fault_error
from kdump.formats.index_entries import UnknownTxnVersionError
from kdump.formats.names import offset_in_name
from kdump.storage.log_reader import LogFile

INT64_MAX = (1 << 63) - 1
_SNAPSHOT_OFFSET, _SNAPSHOT_EPOCH = slice(0, 20), slice(21, 31)

_BY_FAULT = {
    faults.LEGACY_MAGIC: ILLEGAL_ARGUMENT,
    faults.LEGACY_LIMIT: ILLEGAL_ARGUMENT,
    faults.CONTROL_NO_KEY: NULL_POINTER,
    faults.MARKER_NO_VALUE: NULL_POINTER,
}
_BY_ERROR: tuple[tuple[type[KdumpError], str], ...] = (
    (UnknownTxnVersionError, KAFKA),
    (CorruptRecordError, CORRUPT_RECORD),
    (InvalidRecordError, INVALID_RECORD),
    (UnknownCodecError, ILLEGAL_ARGUMENT),
    (CodecError, KAFKA),
    (CorruptIndexError, "org.apache.kafka.storage.internals.log.CorruptIndexException"),
)


_IN_THE_SIZE = (faults.VARINT_LONG, faults.NEGATIVE_SIZE)
"""Faults of a record's size field, which Kafka takes for the end of the batch."""


def java_fault(fault: Fault) -> JavaError:
    """Return what Kafka's tool dies of at a fault inside a batch."""
    error = fault_error(fault)
    if fault[0] in _IN_THE_SIZE:
        early = java_error(fault_error((faults.PREMATURE_END, 0, 0)))
        return JavaError(early.java_class, early.text, f"{ILLEGAL_ARGUMENT}: {error}")
    if fault[0] == faults.OUT_OF_BOUNDS:
        return JavaError("java.lang.IndexOutOfBoundsException")
    java_class = _BY_FAULT.get(fault[0])
    return JavaError(java_class, str(error)) if java_class else java_error(error)


def java_error(error: Exception) -> JavaError:
    """Return what Kafka's tool dies of at an error."""
    if isinstance(error, JavaError):
        return error
    if isinstance(error, FileNotFoundError):
        return JavaError(NO_SUCH_FILE, str(error.filename))
    if isinstance(error, PermissionError):
        return JavaError("java.nio.file.AccessDeniedException", str(error.filename))
    if isinstance(error, OSError):
        return JavaError(IO_EXCEPTION, f"{error.filename}: " * bool(error.filename) + str(error.strerror))
    java_class = next((name for kind, name in _BY_ERROR if isinstance(error, kind)), KAFKA)
    return JavaError(java_class, str(error))


def base_offset_of(path: str) -> int:
    """Return the base offset in a file's name, as Kafka's tool parses it."""
    name = os.path.basename(path)
    offset = offset_in_name(name)
    if offset is None:
        raise JavaError(NUMBER_FORMAT, f'For input string: "{name.partition(".")[0]}"')
    return offset


def snapshot_end_of(name: str) -> tuple[int, int]:
    """Return the offset and the epoch in the name of a KRaft snapshot, cut out as Kafka's Snapshots.parse does."""
    offset, epoch = _SNAPSHOT_OFFSET, _SNAPSHOT_EPOCH
    return _number(_cut(name, offset), INT64_MAX), _number(_cut(name, epoch), INT_MAX)


def _cut(text: str, part: slice) -> str:
    """Return Java's substring."""
    if part.stop > len(text):
        where = f"begin {part.start}, end {part.stop}, length {len(text)}"
        raise JavaError("java.lang.StringIndexOutOfBoundsException", where)
    return text[part]


def _number(text: str, largest: int) -> int:
    """Return Java's parseLong or parseInt."""
    if re.fullmatch(r"[+-]?\d+", text) and -largest - 1 <= int(text) <= largest:
        return int(text)
    raise JavaError(NUMBER_FORMAT, f'For input string: "{text}"')


def check_size(log: LogFile) -> None:
    """Refuse a log that is larger than Kafka opens."""
    if log.size > INT_MAX:
        raise JavaError(
            KAFKA,
            f"The size of segment {log.path} ({log.size}) is larger than the maximum allowed segment size of {INT_MAX}",
        )


def slice_end(log: LogFile, position: int, size: int) -> int:
    """Return where a slice of `size` bytes from byte `position` of a log ends, with Kafka's objections to either."""
    records = f"FileRecords(size={log.size}, file={log.path}, start=0, end={INT_MAX})"
    if position < 0:
        raise JavaError(ILLEGAL_ARGUMENT, f"Invalid position: {position} in read from {records}")
    if position > log.size:
        raise JavaError(ILLEGAL_ARGUMENT, f"Slice from position {position} exceeds end position of {records}")
    if size < 0:
        raise JavaError(ILLEGAL_ARGUMENT, f"Invalid size: {size} in read from {records}")
    return min(position + size, log.size)
