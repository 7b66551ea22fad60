"""The record batch of message format v2, and the framing that every entry of a log shares.

All integers are big-endian and signed unless stated.

    byte  width   field
    0     int64   base offset (absolute)                      | the first 17 bytes have this meaning in every
    8     int32   batch length: bytes after this field        | format; v0/v1 keep the CRC at byte 12
    12    int32   partition leader epoch (-1 unknown)         |
    16    int8    magic = 2                                   |
    17    uint32  CRC-32C of bytes 21 to the end
    21    int16   attributes
    23    int32   last offset delta
    27    int64   base timestamp (ms), or the delete horizon where attribute bit 6 is set
    35    int64   max timestamp (ms)
    43    int64   producer id (-1 none)
    51    int16   producer epoch (-1 none)
    53    int32   base sequence (-1 none)
    57    int32   record count
    61            records; where the attributes name a codec, one compressed stream of them

A record: varint length of what follows, int8 attributes, varlong timestamp delta, varint offset delta, varint key
length (below 0: null) and key, the same for the value, varint header count, and for each header varint length and bytes
of its key (UTF-8), varint length (below 0: null) and bytes of its value. Varints are zigzag-encoded.
"""

from __future__ import annotations

from enum import StrEnum
from struct import Struct, calcsize

FRAME = Struct(">qiib")
HEADER = Struct(">qiibIHiqqqhii")
LAST_OFFSET_DELTA = Struct(">i")

(
    BASE_OFFSET_AT,
    LENGTH_AT,
    LEADER_EPOCH_AT,
    MAGIC_AT,
    CRC_AT,
    ATTRIBUTES_AT,
    LAST_OFFSET_DELTA_AT,
    BASE_TIMESTAMP_AT,
    MAX_TIMESTAMP_AT,
    PRODUCER_ID_AT,
    PRODUCER_EPOCH_AT,
    BASE_SEQUENCE_AT,
    COUNT_AT,
) = (calcsize(HEADER.format[: 1 + fields]) for fields in range(13))

LOG_OVERHEAD = LEADER_EPOCH_AT
FRAME_SIZE = FRAME.size
MIN_SIZE_FIELD = 14
HEADER_SIZE = HEADER.size
CRC_START = ATTRIBUTES_AT

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40
KNOWN_ATTRIBUTES = CODEC_MASK | LOG_APPEND_TIME | TRANSACTIONAL | CONTROL | DELETE_HORIZON

MIN_RECORD_SIZE = 7  # each field of a record that is a number takes a byte at least

ABORT, COMMIT, LEADER_CHANGE, SNAPSHOT_HEADER, SNAPSHOT_FOOTER, KRAFT_VERSION, KRAFT_VOTERS = range(7)
CONTROL_TYPES = (
    "ABORT",
    "COMMIT",
    "LEADER_CHANGE",
    "SNAPSHOT_HEADER",
    "SNAPSHOT_FOOTER",
    "KRAFT_VERSION",
    "KRAFT_VOTERS",
)

CONTROL_KEY = Struct(">hh")
"""The key of a control record: version and type."""

CONTROL_KEY_LENGTH = CONTROL_KEY.size
CONTROL_TYPE_AT = calcsize(">h")

MARKER_VALUE = Struct(">hi")
"""The value of a marker that ends a transaction: version and coordinator epoch."""

MARKER_VALUE_LENGTH = MARKER_VALUE.size
MARKER_EPOCH_AT = calcsize(">h")


def control_type_name(number: int) -> str:
    """Return Kafka's name of a control record type; UNKNOWN for types that readers must ignore."""
    return CONTROL_TYPES[number] if 0 <= number < len(CONTROL_TYPES) else "UNKNOWN"


def is_control_batch(attributes: int, magic: int) -> bool:
    """Return whether a batch is a control batch; formats before v2 have none, whatever the bit says."""
    return magic >= 2 and bool(attributes & CONTROL)


class TimestampType(StrEnum):
    """What timestamps are, by Kafka's names (TimestampType)."""

    NO_TIMESTAMP_TYPE = "NoTimestampType"
    CREATE_TIME = "CreateTime"
    LOG_APPEND_TIME = "LogAppendTime"


def timestamp_type(attributes: int, magic: int) -> int:
    """Return Kafka's number of what timestamps are (TimestampType): -1 none (v0), 0 CreateTime, 1 LogAppendTime."""
    return -1 if magic == 0 else int(bool(attributes & LOG_APPEND_TIME))


def wrap32(value: int) -> int:
    """Return `value` as Java's int arithmetic would leave it."""
    return (value + (1 << 31) & (1 << 32) - 1) - (1 << 31)


def wrap64(value: int) -> int:
    """Return `value` as Java's long arithmetic would leave it."""
    return (value + (1 << 63) & (1 << 64) - 1) - (1 << 63)
