"""Batches and records as plain values, for those who want one at a time rather than columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kdump.blocks import BatchBlock, content_at
from kdump.formats.batch import CODEC_MASK, CONTROL, DELETE_HORIZON, LOG_APPEND_TIME, TRANSACTIONAL, TimestampType
from kdump.formats.codecs import DEFAULT_LIMIT, codec_name
from kdump.formats.sequences import last_sequence
from kdump.storage.decoded import BadBatch, DecodedRows, decode_rows

_NO_TIMESTAMP_TYPE, _CREATE_TIME, _LOG_APPEND_TIME = TimestampType  # a member costs more to look up in its class


class Batch(NamedTuple):
    """One entry of a log; the fields are the columns of BatchBlock (`record_count` is its `count`)."""

    position: int
    size: int
    base_offset: int
    last_offset: int
    magic: int
    attributes: int
    crc: int
    valid: bool
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    leader_epoch: int

    @property
    def codec(self) -> str:
        """Name of the codec; `codec N` for ids that no release knows."""
        return codec_name(self.attributes & CODEC_MASK)

    @property
    def timestamp_type(self) -> TimestampType:
        """What its timestamps are; NoTimestampType in format v0."""
        if self.magic == 0:
            return _NO_TIMESTAMP_TYPE
        return _LOG_APPEND_TIME if self.attributes & LOG_APPEND_TIME else _CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        """Whether the batch is part of a transaction."""
        return self.magic >= 2 and bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Whether the records are markers of Kafka's own rather than a client's."""
        return self.magic >= 2 and bool(self.attributes & CONTROL)  # is_control_batch, without a call for each

    @property
    def is_wrapper(self) -> bool:
        """Whether it is a compressed v0/v1 message: base offset and count are only known to who decompresses it."""
        return self.magic < 2 and bool(self.attributes & CODEC_MASK)

    @property
    def last_sequence(self) -> int:
        """The sequence number of the producer's last record; -1 without sequence numbers."""
        return last_sequence(self.base_sequence, self.last_offset - self.base_offset)

    @property
    def delete_horizon(self) -> int | None:
        """From when on (ms) compaction may drop the batch's tombstones and markers; None if not set yet."""
        return self.base_timestamp if self.magic >= 2 and self.attributes & DELETE_HORIZON else None


class Record(NamedTuple):
    """One record: absolute offset, timestamp in ms (-1 none), contents (None: null), producer's sequence (-1 none)."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...]
    sequence: int
    row: int


def batch_at(block: BatchBlock, row: int) -> Batch:
    """Return row `row` of a block as a value of its own."""
    return Batch(
        block.position[row],
        block.size[row],
        block.base_offset[row],
        block.last_offset[row],
        block.magic[row],
        block.attributes[row],
        block.crc[row],
        block.valid[row] == 1,
        block.base_timestamp[row],
        block.max_timestamp[row],
        block.producer_id[row],
        block.producer_epoch[row],
        block.base_sequence[row],
        block.count[row],
        block.leader_epoch[row],
    )


def records_of(
    block: BatchBlock, first: int = 0, stop: int | None = None, limit: int = DEFAULT_LIMIT
) -> Iterator[Record | BadBatch]:
    """Yield the records of the batches `first` to `stop` - 1, in order; a BadBatch where one's records break off.

    The batches must be held by the block. `limit` bounds what one batch may decompress to, in bytes.
    """
    for rows in decode_rows(block, first, block.length if stop is None else stop, limit=limit):
        if isinstance(rows, BadBatch):
            yield rows
        else:
            yield from _values(rows)


def _values(rows: DecodedRows) -> Iterator[Record]:
    decoded = rows.records
    for at in range(decoded.length):
        row = decoded.row[at]
        source = rows.source_of(row)
        count = decoded.headers_count[at]
        yield Record(
            decoded.offset[at],
            decoded.timestamp[at],
            content_at(source, decoded.key_position[at], decoded.key_length[at]),
            content_at(source, decoded.value_position[at], decoded.value_length[at]),
            tuple(header_pairs(source, decoded.headers_position[at], count)) if count else (),
            decoded.sequence[at],
            row,
        )


def header_pairs(source: bytes | bytearray, position: int, count: int) -> list[tuple[bytes, bytes | None]]:
    """Return name and value of the `count` headers at `position` of a source that was decoded before."""
    pairs: list[tuple[bytes, bytes | None]] = []
    start = position
    for _ in range(count):
        size = source[position]
        name = position + 1
        position = name + (size >> 1)
        if size >= 0x80 or source[position] >= 0x80:  # a length of 64 or more takes another byte
            from kdump.kernels.portable.records import headers

            return list(headers(source, start, count))
        size = source[position]
        value = position + 1
        position = value if size & 1 else value + (size >> 1)
        pairs.append((bytes(source[name : value - 1]), None if size & 1 else bytes(source[value:position])))
    return pairs
