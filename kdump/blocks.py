"""Blocks of columns: how batches and records travel from the kernels to everything else.

A `BatchBlock` is the *batch table*: one row for every entry of a log (record batch of format v2, message or wrapper
message of v0 and v1), one array for every header field. A `RecordBlock` is the same for the records inside. Kernels
fill them, the rest of kdump only reads them. A block is reused for the next range of the file: take what you need
out of it before you ask for the next one.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping

BATCH_ROWS = 2048
RECORD_ROWS = 4096

BATCH_COLUMNS = (
    "position",
    "size",
    "base_offset",
    "last_offset",
    "magic",
    "attributes",
    "crc",
    "valid",
    "base_timestamp",
    "max_timestamp",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "count",
    "leader_epoch",
)

RECORD_COLUMNS = (
    "row",
    "offset",
    "timestamp",
    "sequence",
    "key_position",
    "key_length",
    "value_position",
    "value_length",
    "headers_position",
    "headers_count",
    "crc",
    "valid",
)


class BatchBlock:
    """Up to `capacity` batches as columns of 64-bit integers; rows 0 to `length` - 1 hold values.

    position        byte position of the entry in its file
    size            bytes of the whole entry, the 12 bytes before the size field's count included
    base_offset     absolute; of a compressed v0/v1 wrapper -1, for only its content tells
    last_offset     absolute
    magic           signed byte as stored: 0, 1, 2, or damage (below 0 is read as v0/v1, above 2 as v2, as Kafka does)
    attributes      as stored, unsigned
    crc             as stored, unsigned
    valid           1 when size and CRC hold
    base_timestamp  ms, as stored; a delete horizon when attribute bit 6 is set; v0: -1
    max_timestamp   ms; v0: -1
    producer_id, producer_epoch, base_sequence, leader_epoch   -1 where absent, always so in v0/v1
    count           records as declared; 1 for an uncompressed v0/v1 message, -1 for a wrapper

    `packed` counts the rows whose attributes name a codec, `controls` those that have the bit of a control batch.
    `data[0:available]` holds the bytes of the file from `data_position` on; a row may lie only partly inside it, or not
    at all (then `holds` is false).
    `status`, `next_position`, `needed` and `bad_size` say how the walk that filled the block ended (formats.faults).
    """

    __slots__ = (
        *BATCH_COLUMNS,
        "available",
        "bad_size",
        "capacity",
        "controls",
        "data",
        "data_position",
        "length",
        "needed",
        "next_position",
        "packed",
        "status",
    )

    position: array[int]
    size: array[int]
    base_offset: array[int]
    last_offset: array[int]
    magic: array[int]
    attributes: array[int]
    crc: array[int]
    valid: array[int]
    base_timestamp: array[int]
    max_timestamp: array[int]
    producer_id: array[int]
    producer_epoch: array[int]
    base_sequence: array[int]
    count: array[int]
    leader_epoch: array[int]

    def __init__(self, capacity: int = BATCH_ROWS) -> None:
        self.capacity = capacity
        for name in BATCH_COLUMNS:
            setattr(self, name, array("q", bytes(8 * capacity)))
        self.length = 0
        self.packed = self.controls = 0
        self.data: bytearray | bytes = b""
        self.data_position = 0
        self.available = 0
        self.status = 0
        self.next_position = 0
        self.needed = 0
        self.bad_size = 0

    @classmethod
    def of(cls, columns: Mapping[str, array[int]]) -> BatchBlock:
        """Return a block of columns that are at hand, one for each of BATCH_COLUMNS; it holds no bytes."""
        block = cls.__new__(cls)
        for name, column in columns.items():
            setattr(block, name, column)
        block.capacity = block.length = len(block.position)
        block.packed = block.controls = 0
        block.data = b""
        block.data_position = block.available = block.needed = block.bad_size = block.status = 0
        block.next_position = block.position[-1] + block.size[-1]
        return block

    def holds(self, row: int) -> bool:
        """Return whether all bytes of the row's entry are in `data`."""
        start = self.position[row] - self.data_position
        return start >= 0 and start + self.size[row] <= self.available


class RecordBlock:
    """Up to `capacity` records as columns of 64-bit integers; rows 0 to `length` - 1 hold values.

    row             the record's batch: a row of the BatchBlock it was decoded from
    offset          absolute
    timestamp       ms; -1 none
    sequence        of the idempotent producer; -1 none
    key_position, value_position, headers_position   indexes into the batch's source (see below)
    key_length, value_length   bytes; -1 for null
    headers_count   0 in v0/v1
    crc, valid      of a v0/v1 message: the stored CRC, and whether size and CRC hold; v2: 0 and 1

    The source of a batch is its decompressed payload, or the BatchBlock's `data` where it is not compressed.
    Decoding goes on where the cursor (`next_row`, `next_index`, `next_position`) stands. `fault` is the damage that
    ended the decoding of batch `next_row`, as (code, a, b) of formats.faults, or None. `flagged` is the first row whose
    record has attributes other than 0, which no release writes; -1 without one.
    """

    __slots__ = (*RECORD_COLUMNS, "capacity", "fault", "flagged", "length", "next_index", "next_position", "next_row")

    row: array[int]
    offset: array[int]
    timestamp: array[int]
    sequence: array[int]
    key_position: array[int]
    key_length: array[int]
    value_position: array[int]
    value_length: array[int]
    headers_position: array[int]
    headers_count: array[int]
    crc: array[int]
    valid: array[int]

    def __init__(self, capacity: int = RECORD_ROWS) -> None:
        self.capacity = capacity
        for name in RECORD_COLUMNS:
            setattr(self, name, array("q", bytes(8 * capacity)))
        self.length = 0
        self.flagged = -1
        self.fault: tuple[int, int, int] | None = None
        self.seek(0)

    def seek(self, row: int) -> None:
        """Put the cursor before the first record of batch `row`."""
        self.next_row = row
        self.next_index = 0
        self.next_position = 0


def content_at(source: bytes | bytearray | memoryview, position: int, length: int) -> bytes | None:
    """Return the key or value at an index into its batch's source; None for null, whose length is -1."""
    return bytes(source[position : position + length]) if length >= 0 else None
