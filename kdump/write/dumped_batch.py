"""Batches made again from what a dump says of them: the fields of the header, and the records."""

from __future__ import annotations

from collections.abc import Sequence

from kdump.errors import InvalidRecordError
from kdump.formats.batch import DELETE_HORIZON, LOG_APPEND_TIME
from kdump.formats.encode import NewBatch, NewRecord, encode_batch
from kdump.interchange.dumped import DumpedBatch
from kdump.write.packing import check_codec, check_headers, encode_messages

MAX_OFFSET_DELTA = (1 << 31) - 1


def as_sent(batch: DumpedBatch, records: Sequence[NewRecord], *, level: int | None = None) -> bytes:
    """Return the batch as a producer would send it to the leader: offsets from 0 on, CreateTime. It needs a record.

    Raises InvalidRecordError, UnsupportedForMessageFormatError, CodecError.
    """
    _check(batch, records)
    numbered = [record._replace(offset=offset) for offset, record in enumerate(records)]
    if batch.magic < 2:
        return encode_messages(numbered, batch.magic, batch.codec, level=level)
    header = NewBatch(batch.attributes, batch.producer_id, batch.producer_epoch, batch.base_sequence)
    return encode_batch(numbered, header, level=level)


def as_stored(batch: DumpedBatch, records: Sequence[NewRecord], *, level: int | None = None) -> bytes:
    """Return the batch as the leader has it: offsets, epoch and times as they were told.

    With CreateTime, and no codec or gzip or zstd at its default level, these are Kafka's very bytes. Raises as
    `as_sent`.
    """
    _check(batch, records)
    if batch.magic < 2:
        append_time = batch.max_timestamp if batch.is_append_time and batch.magic else None
        attributes = 0 if append_time is None or batch.codec else LOG_APPEND_TIME
        return encode_messages(records, batch.magic, batch.codec, append_time, attributes=attributes, level=level)
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


def _check(batch: DumpedBatch, records: Sequence[NewRecord]) -> None:
    if batch.magic < 2:
        check_codec(batch.codec, batch.magic)
        for record in records:
            check_headers(record.headers, batch.magic)
    elif batch.base_offset is not None and not 0 <= batch.last_offset - batch.base_offset <= MAX_OFFSET_DELTA:
        raise InvalidRecordError(f"A batch cannot have offsets from {batch.base_offset} to {batch.last_offset}")
    if not records and (batch.magic < 2 or batch.base_offset is None):
        raise InvalidRecordError("A batch without records, of which nothing else says where it is")
