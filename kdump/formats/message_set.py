"""Messages of format v0 and v1, alone or wrapped in a compressed one.

    byte     width   field
    0        int64   offset; of a wrapper: that of its last inner message
    8        int32   message size: bytes after this field
    12       uint32  CRC-32 of byte 16 to the end
    16       int8    magic: 0 or 1
    17       int8    attributes: bits 0-2 codec, bit 3 timestamp type (v1: 0 CreateTime, 1 LogAppendTime)
    18       int64   timestamp (ms), v1 only
    18 / 26  int32   key length (below 0: null), key
             int32   value length (below 0: null), value

The value of a wrapper (codec other than 0) is a compressed run of whole messages. Their offsets are absolute in a v0
wrapper; in a v1 wrapper they are relative, and the last one's absolute offset is the wrapper's own. A v1 wrapper's
timestamp type, and with LogAppendTime its timestamp, hold for the v1 messages inside.
"""

from __future__ import annotations

from struct import Struct, calcsize

from kdump.formats.batch import CODEC_MASK, LOG_APPEND_TIME
from kdump.formats.faults import LEGACY_LIMIT, OUT_OF_BOUNDS, DamageError

MESSAGE_FRAME = Struct(">qi")
CRC = Struct(">I")
TIMESTAMP = Struct(">q")
LENGTH = Struct(">i")
CRC_SIZE = CRC.size
LENGTH_SIZE = LENGTH.size

# From the entry's start on; the message is what the size field counts, from its CRC on.
MESSAGE_AT, MESSAGE_CRC_START, MESSAGE_ATTRIBUTES_AT, MESSAGE_TIMESTAMP_AT = (
    calcsize(fields) for fields in (">qi", ">qiI", ">qiIb", ">qiIbb")
)

# From the message's start on, as all positions inside one.
MAGIC_IN_MESSAGE = MESSAGE_CRC_START - MESSAGE_AT
ATTRIBUTES_IN_MESSAGE = MESSAGE_ATTRIBUTES_AT - MESSAGE_AT
TIMESTAMP_IN_MESSAGE = MESSAGE_TIMESTAMP_AT - MESSAGE_AT
KEY_SIZE_AT_V0 = TIMESTAMP_IN_MESSAGE
KEY_SIZE_AT_V1 = TIMESTAMP_IN_MESSAGE + TIMESTAMP.size

OVERHEAD_V0 = KEY_SIZE_AT_V0 + 2 * LENGTH_SIZE  # what is neither key nor value
OVERHEAD_V1 = KEY_SIZE_AT_V1 + 2 * LENGTH_SIZE

KNOWN_ATTRIBUTES_V0 = CODEC_MASK
KNOWN_ATTRIBUTES_V1 = CODEC_MASK | LOG_APPEND_TIME


def key_size_at(magic: int) -> int:
    """Return where a message's key length stands, in bytes from its CRC field on."""
    return KEY_SIZE_AT_V0 if magic == 0 else KEY_SIZE_AT_V1


def length_at(data: bytes | bytearray, message: int, size: int, at: int) -> int:
    """Return the length field `at` bytes into the message of `size` bytes that starts at index `message`."""
    if not 0 <= at <= size - LENGTH_SIZE:
        raise DamageError(OUT_OF_BOUNDS, at + LENGTH_SIZE, size)
    length: int = LENGTH.unpack_from(data, message + at)[0]
    return length


def check_limit(length: int, left: int) -> None:
    """Refuse a key or value that is longer than what is left of its message."""
    if length > left:
        raise DamageError(LEGACY_LIMIT, length, left)
