"""What can be wrong with the bytes of a log, as numbered codes that the kernels can return, and their texts.

Both kernels give a fault as (code, a, b); `fault_error` turns it into the exception with the text. The texts are
Kafka's own wherever its readers have one.
"""

from __future__ import annotations

from kdump.errors import CorruptRecordError, InvalidRecordError, KdumpError, UnknownCodecError

# how a walk over the entries of a log ended
BLOCK_FULL = 0  # there may be more entries
NEED_BYTES = 1  # the next entry is not wholly in the buffer
END = 2  # 17 bytes or fewer are left: Kafka's readers stop silently
PARTIAL = 3  # the next entry runs over the end: Kafka's readers stop silently
UNDERSIZED = 4  # the next entry's size field is below 14: Kafka's readers fail
SHORT_HEADER = 5  # a v2 header that its too small size field allows runs over the end of the file

# what is wrong inside a batch
UNKNOWN_CODEC = 10
LEGACY_MAGIC = 11
NEGATIVE_COUNT = 12
PREMATURE_END = 13
RECORDS_REMAIN = 14
RECORD_BEYOND = 15
RECORD_SIZE = 16
STRUCTURE = 17
HEADER_COUNT = 18
HEADER_COUNT_BEYOND = 19
HEADER_KEY_SIZE = 20
RECORD_EOF = 21
VARINT_LONG = 22
NEGATIVE_SIZE = 23
OUT_OF_BOUNDS = 30
LEGACY_LIMIT = 31
WRAPPER_MAGIC = 32
WRAPPER_CODEC = 33
WRAPPER_NULL = 34
WRAPPER_EMPTY = 35
WRAPPER_OFFSET = 36
INNER_SIZE = 37
INNER_COMPRESSED = 38
CONTROL_NO_KEY = 40
CONTROL_KEY_SIZE = 41
CONTROL_VERSION = 42
MARKER_NO_VALUE = 43
MARKER_SIZE = 44
MARKER_VERSION = 45
CONTROL_SCHEMA = 46

_TEXTS = {
    UNKNOWN_CODEC: "Unknown compression type id: {0}",
    LEGACY_MAGIC: "Invalid magic used in LegacyRecord: {0}",
    NEGATIVE_COUNT: "Found invalid record count {0} in magic v{1} batch",
    PREMATURE_END: "Incorrect declared batch size, premature EOF reached",
    RECORDS_REMAIN: "Incorrect declared batch size, records still remaining in file",
    RECORD_BEYOND: "Invalid record size: expected {0} bytes in record payload, but instead the buffer has only {1}"
    " remaining bytes.",
    RECORD_SIZE: "Invalid record size: expected to read {0} bytes in record payload, but instead read {1}",
    STRUCTURE: "Found invalid record structure",
    HEADER_COUNT: "Found invalid number of record headers {0}",
    HEADER_COUNT_BEYOND: "Found invalid number of record headers. {0} is larger than the remaining size of the buffer",
    HEADER_KEY_SIZE: "Invalid negative header key size {0}",
    RECORD_EOF: "Invalid record size: expected {0} bytes in record payload, but the record payload reached EOF.",
    VARINT_LONG: "Varint is too long, the most significant bit in the 5th byte is set, converted value: {0:x}",
    NEGATIVE_SIZE: "capacity < 0: ({0} < 0)",
    OUT_OF_BOUNDS: "A field would end at byte {0}, where there are only {1}",
    LEGACY_LIMIT: "newLimit > capacity: ({0} > {1})",
    WRAPPER_MAGIC: "Invalid wrapper magic found in legacy deep record iterator {0}",
    WRAPPER_CODEC: "Invalid wrapper compressionType found in legacy deep record iterator {0}",
    WRAPPER_NULL: "Found invalid compressed record set with null value (magic = {0})",
    WRAPPER_EMPTY: "Found invalid compressed record set with no inner records",
    WRAPPER_OFFSET: "Found invalid wrapper offset in compressed v1 message set, wrapper offset '{0}' is less than the"
    " last inner message offset '{1}' and it is not zero.",
    INNER_SIZE: "Record size is less than the minimum record overhead (14)",
    INNER_COMPRESSED: "Inner messages must not be compressed",
    CONTROL_NO_KEY: "The control record has no key",
    CONTROL_KEY_SIZE: "Invalid value size found for end control record key. Must have at least 4 bytes, but found only"
    " {0}",
    CONTROL_VERSION: "Invalid version found for control record: {0}. May indicate data corruption",
    MARKER_NO_VALUE: "The end transaction marker has no value",
    MARKER_SIZE: "Invalid value size found for end transaction marker. Must have at least 6 bytes, but found only {0}",
    MARKER_VERSION: "Invalid version found for end transaction marker: {0}. May indicate data corruption",
    CONTROL_SCHEMA: "The value of the KRaft control record of type {0} cannot be decoded",
}
_ERRORS: dict[int, type[KdumpError]] = {UNKNOWN_CODEC: UnknownCodecError, INNER_SIZE: CorruptRecordError}
"""Exceptions other than InvalidRecordError."""

Fault = tuple[int, int, int]


class DamageError(Exception):
    """Damage inside a batch on its way to the caller of a kernel, who sees it as (code, a, b)."""

    def __init__(self, code: int, a: int = 0, b: int = 0) -> None:
        super().__init__(code, a, b)
        self.fault = (code, a, b)


def fault_error(fault: Fault) -> KdumpError:
    """Return the exception for a fault inside a batch."""
    code, a, b = fault
    return _ERRORS.get(code, InvalidRecordError)(_TEXTS[code].format(a, b))


def undersized_error(size: int, path: str = "") -> CorruptRecordError:
    """Return the exception for an entry whose size field is too small to be one (a zero tail shows as size 0)."""
    where = f" in file {path}." if path else ""
    return CorruptRecordError(f"Found record size {size} smaller than minimum record overhead (14){where}")


def in_memory_error(*, size: int | None = None, magic: int = 0) -> CorruptRecordError:
    """Return the exception of a reader of memory (ByteBufferLogInputStream) for a size field, or else for a magic."""
    if size is not None:
        return CorruptRecordError(f"Record size {size} is less than the minimum record overhead (14)")
    return CorruptRecordError(f"Invalid magic found in record: {magic}")
