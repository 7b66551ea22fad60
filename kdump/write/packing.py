"""From records to batches as a producer would send them: offsets from 0 on, for the leader to assign the real ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from kdump import kernels
from kdump.errors import check_number, check_truths
from kdump.formats.batch import ABORT, COMMIT, CONTROL, HEADER_SIZE, LOG_OVERHEAD, TRANSACTIONAL
from kdump.formats.codecs import ZSTD
from kdump.formats.control import encode_marker
from kdump.formats.encode import (
    NewBatch,
    NewRecord,
    encode_batch,
    encode_message,
    encode_record,
    encode_wrapper,
    frame_batch,
)
from kdump.formats.java_text import INT_MAX
from kdump.formats.message_set import OVERHEAD_V0, OVERHEAD_V1
from kdump.formats.sequences import increment_sequence
from kdump.write.errors import InvalidTimestampError, UnsupportedForMessageFormatError
from kdump.write.record_source import Message, RecordSource

_NO_TIMESTAMP = -1


@dataclass(frozen=True, slots=True)
class Packing:
    """How records are packed. Raises UnsupportedForMessageFormatError for what a format does not have.

    `codec` as in formats.codecs, `level` None for its default. `batch_bytes` is the producer's batch.size: a batch
    ends before the record that would take it beyond, uncompressed. With a `producer_id` batches carry sequence
    numbers from `base_sequence` on; `transactional` ones belong to a transaction, which a marker has to end.
    """

    magic: int = 2
    codec: int = 0
    level: int | None = None
    batch_bytes: int = 16384
    batch_records: int = 1 << 31
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    transactional: bool = False

    def __post_init__(self) -> None:
        try:
            self._check_format()
        except (TypeError, UnsupportedForMessageFormatError):
            self.check()  # which names the argument where it is one; it takes too long for each append
            raise

    def check(self) -> None:
        """Raise ValueError, TypeError for what no batch can have: it would be met halfway through an append."""
        check_number("magic", self.magic, 0, 2)
        check_number("codec", self.codec, 0, ZSTD)
        check_number("level", self.level, may_be_none=True)
        check_number("batch_bytes", self.batch_bytes, 0)
        check_number("batch_records", self.batch_records, 1)
        check_number("producer_id", self.producer_id, -1)
        check_number("producer_epoch", self.producer_epoch, -1, 32767)
        check_number("base_sequence", self.base_sequence, -1, INT_MAX)
        check_truths(transactional=self.transactional)

    def _check_format(self) -> None:
        check_codec(self.codec, self.magic)
        if self.magic < 2 and (self.producer_id >= 0 or self.transactional):
            raise UnsupportedForMessageFormatError(f"Idempotent messages are not supported for magic {self.magic}")
        if self.transactional and self.producer_id < 0:
            raise UnsupportedForMessageFormatError("Cannot write transactional messages without a valid producer ID")
        if self.producer_id >= 0 and self.producer_epoch < 0:
            raise UnsupportedForMessageFormatError("Invalid negative producer epoch")
        if self.producer_id >= 0 and self.base_sequence < 0:
            raise UnsupportedForMessageFormatError("Invalid negative sequence number used")


def pack(messages: Iterable[Message] | RecordSource, packing: Packing) -> Iterator[bytes | bytearray]:
    """Return the batches of the records; of v0 and v1, what one append writes: a wrapper, or plain messages. Lazy.

    Raises InvalidTimestampError, UnsupportedForMessageFormatError, CodecError, InvalidRecordError.
    """
    if packing.magic < 2:
        return _legacy(messages.messages() if isinstance(messages, RecordSource) else messages, packing)
    seal = _Sealer(packing)
    if isinstance(messages, RecordSource):
        return _from_columns(messages, packing, seal)
    return _from_messages(messages, packing, seal)


class _Sealer:
    """Makes a batch of encoded records, their number, and their base and max timestamps (ms), with sequence numbers."""

    def __init__(self, packing: Packing) -> None:
        self._sequence = packing.base_sequence
        self._attributes = packing.codec | (TRANSACTIONAL if packing.transactional else 0)
        self._packing = packing

    def __call__(self, data: bytearray, count: int, base_timestamp: int, max_timestamp: int) -> bytearray:
        packing, sequence = self._packing, self._sequence
        if sequence >= 0:
            self._sequence = increment_sequence(sequence, count)
        batch = NewBatch(
            self._attributes,
            packing.producer_id,
            packing.producer_epoch,
            sequence,
            base_offset=0,
            last_offset=count - 1,
            base_timestamp=base_timestamp,
            max_timestamp=max_timestamp,
        )
        return frame_batch(data, batch, count, level=packing.level)


def _from_columns(source: RecordSource, packing: Packing, seal: _Sealer) -> Iterator[bytearray]:
    row, limit, most = 0, packing.batch_bytes, packing.batch_records
    while row < source.length:
        data, after = kernels.encode(source, row, min(source.length, row + most), limit, HEADER_SIZE)
        timestamps = source.timestamp[row:after]
        _check_timestamp(min(timestamps))
        yield seal(data, after - row, timestamps[0], max(timestamps))
        row = after


def _from_messages(messages: Iterable[Message], packing: Packing, seal: _Sealer) -> Iterator[bytearray]:
    limit, most = packing.batch_bytes, packing.batch_records
    data, count = bytearray(HEADER_SIZE), 0
    base_timestamp = max_timestamp = _NO_TIMESTAMP
    for value, key, timestamp, headers in messages:
        _check_timestamp(timestamp)
        record = NewRecord(count, timestamp, key, value, headers)
        encoded = encode_record(record, 0, base_timestamp if count else timestamp)
        if count and (count >= most or len(data) + len(encoded) > limit):
            yield seal(data, count, base_timestamp, max_timestamp)
            data, count = bytearray(HEADER_SIZE), 0
            encoded = encode_record(record._replace(offset=0), 0, timestamp)
        if not count:
            base_timestamp = max_timestamp = timestamp
        data += encoded
        count += 1
        max_timestamp = max(max_timestamp, timestamp)
    if count:
        yield seal(data, count, base_timestamp, max_timestamp)


def _legacy(messages: Iterable[Message], packing: Packing) -> Iterator[bytes]:
    overhead = LOG_OVERHEAD + (OVERHEAD_V1 if packing.magic else OVERHEAD_V0)
    records: list[NewRecord] = []
    size = 0
    for value, key, timestamp, headers in messages:
        _check_timestamp(timestamp)
        check_headers(headers, packing.magic)
        taken = overhead + (len(value) if value else 0) + (len(key) if key else 0)
        if records and (size + taken > packing.batch_bytes or len(records) >= packing.batch_records):
            yield encode_messages(records, packing.magic, packing.codec, level=packing.level)
            records, size = [], 0
        records.append(NewRecord(len(records), timestamp, key, value))
        size += taken
    if records:
        yield encode_messages(records, packing.magic, packing.codec, level=packing.level)


def encode_messages(
    records: Sequence[NewRecord],
    magic: int,
    codec: int,
    append_time: int | None = None,
    *,
    attributes: int = 0,
    level: int | None = None,
) -> bytes:
    """Return messages of v0 or v1, in a compressed one where there is a codec (formats.encode.encode_wrapper)."""
    if codec:
        return encode_wrapper(records, magic, codec, append_time, attributes=attributes, level=level)
    return b"".join(encode_message(record, magic, attributes) for record in records)


def check_codec(codec: int, magic: int) -> None:
    """Raise UnsupportedForMessageFormatError for a codec that is younger than the format."""
    if magic < 2 and codec == ZSTD:
        raise UnsupportedForMessageFormatError(f"ZStandard compression is not supported for magic {magic}")


def check_headers(headers: Sequence[object], magic: int) -> None:
    """Raise UnsupportedForMessageFormatError for headers in a format that has none."""
    if headers and magic < 2:
        raise UnsupportedForMessageFormatError(f"Magic v{magic} does not support record headers")


def _check_timestamp(timestamp: int) -> None:
    if timestamp < _NO_TIMESTAMP:
        raise InvalidTimestampError(f"Invalid negative timestamp {timestamp}")


def pack_marker(
    producer_id: int, producer_epoch: int, timestamp: int, *, is_commit: bool, coordinator_epoch: int = 0
) -> bytes:
    """Return the marker that ends a transaction; `timestamp` in ms."""
    record = NewRecord(0, timestamp, *encode_marker(COMMIT if is_commit else ABORT, coordinator_epoch))
    batch = NewBatch(CONTROL | TRANSACTIONAL, producer_id, producer_epoch)
    return encode_batch([record], batch)
