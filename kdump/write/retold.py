"""Batches made again from what a dump tells of them: their header's fields, and their records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kdump.errors import InvalidRecordError
from kdump.formats.batch import CONTROL, DELETE_HORIZON, LOG_APPEND_TIME, TRANSACTIONAL
from kdump.formats.codecs import ZSTD
from kdump.formats.encode import NewBatch, NewRecord, encode_batch, encode_message, encode_wrapper
from kdump.write.errors import UnsupportedForMessageFormatError
from kdump.write.packing import check_headers

MAX_OFFSET_DELTA = (1 << 31) - 1


class ToldBatch(NamedTuple):
    """The header of a batch: the fields of records.Batch that do not follow from its records or its bytes.

    `base_offset` is None for a compressed v0/v1 wrapper, `base_timestamp` (ms) as stored.
    """

    magic: int = 2
    codec: int = 0
    is_append_time: bool = False
    is_transactional: bool = False
    is_control: bool = False
    has_delete_horizon: bool = False
    base_offset: int | None = None
    last_offset: int = -1
    base_timestamp: int = -1
    max_timestamp: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    leader_epoch: int = -1

    @property
    def attributes(self) -> int:
        """The attributes of a v2 batch as a producer sends it: without what is the broker's."""
        return self.codec | (TRANSACTIONAL if self.is_transactional else 0) | (CONTROL if self.is_control else 0)


def as_sent(batch: ToldBatch, records: Sequence[NewRecord], *, level: int | None = None) -> bytes:
    """The batch as a producer would send it to the leader: offsets from 0 on, CreateTime. It needs a record.

    Raises InvalidRecordError, UnsupportedForMessageFormatError, CodecError.
    """
    _check(batch, records)
    numbered = [record._replace(offset=offset) for offset, record in enumerate(records)]
    if batch.magic < 2:
        return _legacy(batch, numbered, 0, None, level)
    header = NewBatch(batch.attributes, batch.producer_id, batch.producer_epoch, batch.base_sequence)
    return encode_batch(numbered, header, level=level)


def as_stored(batch: ToldBatch, records: Sequence[NewRecord], *, level: int | None = None) -> bytes:
    """The batch as the leader has it: offsets, epoch and times as they were told.

    With CreateTime, and no codec or gzip or zstd at its default level, these are Kafka's very bytes. Raises as
    `as_sent`.
    """
    _check(batch, records)
    if batch.magic < 2:
        append_time = batch.max_timestamp if batch.is_append_time and batch.magic else None
        return _legacy(batch, records, LOG_APPEND_TIME if append_time is not None else 0, append_time, level)
    header = NewBatch(
        batch.attributes
        | (LOG_APPEND_TIME if batch.is_append_time else 0)
        | (DELETE_HORIZON if batch.has_delete_horizon else 0),
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        batch.leader_epoch,
        batch.base_offset,
        batch.last_offset,
        batch.base_timestamp,
        batch.max_timestamp,
    )
    return encode_batch(records, header, level=level)


def _check(batch: ToldBatch, records: Sequence[NewRecord]) -> None:
    if batch.magic < 2:
        if batch.codec == ZSTD:
            raise UnsupportedForMessageFormatError(f"ZStandard compression is not supported for magic {batch.magic}")
        for record in records:
            check_headers(record.headers, batch.magic)
    elif batch.base_offset is not None and not 0 <= batch.last_offset - batch.base_offset <= MAX_OFFSET_DELTA:
        raise InvalidRecordError(f"A batch cannot have offsets from {batch.base_offset} to {batch.last_offset}")
    if not records and (batch.magic < 2 or batch.base_offset is None):
        raise InvalidRecordError("A batch without records, of which nothing else says where it is")


def _legacy(
    batch: ToldBatch, records: Sequence[NewRecord], attributes: int, append_time: int | None, level: int | None
) -> bytes:
    if batch.codec:
        return encode_wrapper(records, batch.magic, batch.codec, append_time, level=level)
    return b"".join(encode_message(record, batch.magic, attributes) for record in records)
