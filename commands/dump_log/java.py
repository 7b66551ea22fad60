"""The Java exceptions that end Kafka's dump tool, for the faults that the core finds."""

from __future__ import annotations

import os
import re

from kdump import kernels
from kdump.blocks import BatchBlock
from kdump.errors import (
    CodecError,
    CorruptIndexError,
    CorruptRecordError,
    InvalidRecordError,
    KdumpError,
    UnknownCodecError,
)
from kdump.formats import faults
from kdump.formats.codecs import DEFAULT_LIMIT, GZIP, LZ4, SNAPPY, LimitError, delivered, snappy
from kdump.formats.faults import Fault, fault_error
from kdump.formats.index_entries import UnknownTxnVersionError
from kdump.formats.names import offset_in_name
from kdump.storage.log_reader import LogFile
from kdump.storage.payloads import Stretch, packed_payload

from .exceptions import JavaError

KAFKA = "org.apache.kafka.common."
ILLEGAL_ARGUMENT = "java.lang.IllegalArgumentException"
INT_MAX = 0x7FFF_FFFF
INT64_MAX = (1 << 63) - 1
LARGEST_ARRAY = INT_MAX - 2
"""Elements of the largest array that HotSpot makes, whatever the size of its heap."""
_SNAPSHOT_OFFSET, _SNAPSHOT_EPOCH = slice(0, 20), slice(21, 31)
BOMB_HEAD = 1 << 24
"""Bytes of a payload without end that are searched for damage among its records."""

_BY_FAULT = {
    faults.LEGACY_MAGIC: ILLEGAL_ARGUMENT,
    faults.LEGACY_LIMIT: ILLEGAL_ARGUMENT,
    faults.CONTROL_NO_KEY: "java.lang.NullPointerException",
    faults.MARKER_NO_VALUE: "java.lang.NullPointerException",
}
_BY_ERROR: tuple[tuple[type[KdumpError], str], ...] = (
    (UnknownTxnVersionError, KAFKA + "KafkaException"),
    (CorruptRecordError, KAFKA + "errors.CorruptRecordException"),
    (InvalidRecordError, KAFKA + "InvalidRecordException"),
    (UnknownCodecError, ILLEGAL_ARGUMENT),
    (CodecError, KAFKA + "KafkaException"),
    (CorruptIndexError, "org.apache.kafka.storage.internals.log.CorruptIndexException"),
)


_NOT_DECOMPRESSED = "Failed to decompress record stream"
_CAUSES = {GZIP: "java.util.zip.ZipException: ", SNAPPY: "java.io.IOException: ", LZ4: "java.io.IOException: "}
_EARLY_ENDS = {
    "Unexpected end of GZIP header": "java.io.EOFException",
    "Unexpected end of GZIP trailer": "java.io.EOFException",
    "Unexpected end of ZLIB input stream": "java.io.EOFException: Unexpected end of ZLIB input stream",
}
_IN_THE_SIZE = (faults.VARINT_LONG, faults.NEGATIVE_SIZE)
"""Faults of a record's size field, which Kafka takes for the end of the batch."""
_AT_THE_END = (faults.PREMATURE_END, faults.RECORD_EOF, faults.WRAPPER_EMPTY)


def java_fault(fault: Fault) -> JavaError:
    """What Kafka's tool dies of at a fault inside a batch."""
    error = fault_error(fault)
    if fault[0] in _IN_THE_SIZE:
        early = java_error(fault_error((faults.PREMATURE_END, 0, 0)))
        return JavaError(early.java_class, early.text, f"{ILLEGAL_ARGUMENT}: {error}")
    if fault[0] == faults.OUT_OF_BOUNDS:
        return JavaError("java.lang.IndexOutOfBoundsException")
    java_class = _BY_FAULT.get(fault[0])
    return JavaError(java_class, str(error)) if java_class else java_error(error)


def java_record_fault(fault: Fault, block: BatchBlock, stretch: Stretch) -> JavaError:
    """What Kafka's tool dies of at a fault among the records of a stretch's batches."""
    faulty = (
        row
        for row, payload in enumerate(stretch.payloads, stretch.first)
        if payload is not None and kernels.check(block, row, payload)
    )
    row = next(faulty, None)
    return java_fault(fault) if row is None or not _has_too_many(block, row) else _no_such_array()


def _has_too_many(block: BatchBlock, row: int) -> bool:
    """Whether a batch says that it has more records than fit into the list that Kafka makes for a compressed one."""
    return block.magic[row] >= 2 and block.count[row] > LARGEST_ARRAY


def _no_such_array() -> JavaError:
    return JavaError("java.lang.OutOfMemoryError", "Requested array size exceeds VM limit")


def java_error(error: Exception) -> JavaError:
    """What Kafka's tool dies of at an error."""
    if isinstance(error, JavaError):
        return error
    if isinstance(error, FileNotFoundError):
        return JavaError("java.nio.file.NoSuchFileException", str(error.filename))
    if isinstance(error, PermissionError):
        return JavaError("java.nio.file.AccessDeniedException", str(error.filename))
    if isinstance(error, OSError):
        return JavaError("java.io.IOException", f"{error.filename}: " * bool(error.filename) + str(error.strerror))
    java_class = next((name for kind, name in _BY_ERROR if isinstance(error, kind)), KAFKA + "KafkaException")
    return JavaError(java_class, str(error))


def java_codec_error(block: BatchBlock, row: int, error: KdumpError, limit: int = DEFAULT_LIMIT) -> JavaError:
    """What Kafka's tool dies of at batch `row`, whose payload cannot be decompressed to its end.

    Kafka reads records while it decompresses, and so may meet damage among the records first.
    """
    if not isinstance(error, CodecError) or isinstance(error, UnknownCodecError):
        return java_error(error)
    codec, payload = packed_payload(block, row)
    bomb = isinstance(error, LimitError)
    got, failure = delivered(codec, payload, magic=block.magic[row], limit=BOMB_HEAD if bomb else limit)
    if got is not None and _has_too_many(block, row):
        return _no_such_array()
    fault = kernels.check(block, row, got) if got is not None else None
    if fault and fault[0] not in _AT_THE_END:
        return java_fault(fault)
    if bomb:
        return java_error(error)
    if got is not None and block.magic[row] >= 2:
        after_all = fault is None
        text = "Error checking for remaining bytes after reading batch" if after_all else _NOT_DECOMPRESSED
        return JavaError(KAFKA + "KafkaException", text)
    return JavaError(KAFKA + "KafkaException", _cause(codec, str(failure or error)))


def _cause(codec: int, text: str) -> str:
    """What a decompressor of Java throws, by what ours says."""
    if text == snappy.EMPTY:
        return f"org.xerial.snappy.SnappyIOException: [EMPTY_INPUT] {text}"
    if codec == SNAPPY:
        text = text.partition(": ")[0]
    return _EARLY_ENDS.get(text) or _CAUSES.get(codec, "") + text


def base_offset_of(path: str) -> int:
    """The base offset in a file's name, as Kafka's tool parses it."""
    name = os.path.basename(path)
    offset = offset_in_name(name)
    if offset is None:
        raise JavaError("java.lang.NumberFormatException", f'For input string: "{name.partition(".")[0]}"')
    return offset


def snapshot_end_of(name: str) -> tuple[int, int]:
    """The offset and the epoch in the name of a KRaft snapshot, cut out of it as Kafka's Snapshots.parse does."""
    offset, epoch = _SNAPSHOT_OFFSET, _SNAPSHOT_EPOCH
    return _number(_cut(name, offset), INT64_MAX), _number(_cut(name, epoch), INT_MAX)


def _cut(text: str, part: slice) -> str:
    """Java's substring."""
    if part.stop > len(text):
        where = f"begin {part.start}, end {part.stop}, length {len(text)}"
        raise JavaError("java.lang.StringIndexOutOfBoundsException", where)
    return text[part]


def _number(text: str, largest: int) -> int:
    """Java's parseLong or parseInt."""
    if re.fullmatch(r"[+-]?\d+", text) and -largest - 1 <= int(text) <= largest:
        return int(text)
    raise JavaError("java.lang.NumberFormatException", f'For input string: "{text}"')


def check_size(log: LogFile) -> None:
    """Refuse a log that is larger than Kafka opens."""
    if log.size > INT_MAX:
        raise JavaError(
            KAFKA + "KafkaException",
            f"The size of segment {log.path} ({log.size}) is larger than the maximum allowed segment size of {INT_MAX}",
        )


def slice_end(log: LogFile, position: int, size: int) -> int:
    """Where a slice of `size` bytes from byte `position` of a log ends, with Kafka's objections to either."""
    records = f"FileRecords(size={log.size}, file={log.path}, start=0, end={INT_MAX})"
    if position < 0:
        raise JavaError(ILLEGAL_ARGUMENT, f"Invalid position: {position} in read from {records}")
    if position > log.size:
        raise JavaError(ILLEGAL_ARGUMENT, f"Slice from position {position} exceeds end position of {records}")
    if size < 0:
        raise JavaError(ILLEGAL_ARGUMENT, f"Invalid size: {size} in read from {records}")
    return min(position + size, log.size)
