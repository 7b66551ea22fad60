"""What the leader does to the batches of a producer: check them, give them their offsets, timestamps and epoch.

Where codec, format and relative offsets are as the log wants them the batch keeps its bytes, but for the header fields
that are the leader's. Otherwise its records are packed again.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

from kdump.blocks import BatchBlock, RecordBlock
from kdump.errors import InvalidRecordError
from kdump.formats.batch import (
    ATTRIBUTES_AT,
    CODEC_MASK,
    CONTROL,
    CRC_AT,
    CRC_START,
    DELETE_HORIZON,
    LEADER_EPOCH_AT,
    LOG_APPEND_TIME,
    MAX_TIMESTAMP_AT,
    TRANSACTIONAL,
)
from kdump.formats.checksums import crc32, crc32c
from kdump.formats.encode import NewBatch, NewRecord, encode_batch
from kdump.formats.message_set import (
    CRC,
    KNOWN_ATTRIBUTES_V1,
    MESSAGE_AT,
    MESSAGE_ATTRIBUTES_AT,
    MESSAGE_CRC_START,
    MESSAGE_TIMESTAMP_AT,
)
from kdump.settings.writing import WritingSettings
from kdump.storage.decoded import BadBatch, decode_rows
from kdump.storage.records import records_of
from kdump.write.errors import InvalidTimestampError, MissingKeyError, UnsupportedForMessageFormatError
from kdump.write.incoming import AppendOrigin, source_codec
from kdump.write.packing import check_codec, check_headers, encode_messages

_OFFSET = Struct(">q")
_LEADER_EPOCH = Struct(">i")
_ATTRIBUTES = Struct(">h")
_TIMESTAMP = Struct(">q")

_KEPT = CONTROL | TRANSACTIONAL
_KNOWN = KNOWN_ATTRIBUTES_V1 | TRANSACTIONAL | CONTROL | DELETE_HORIZON


class OffsetAssigner:
    """Validates and assigns for one partition; `partition` is what Kafka's texts call it."""

    def __init__(self, config: WritingSettings, partition: str) -> None:
        self.config = config
        self.partition = partition
        self._records = RecordBlock()

    def assign(
        self,
        block: BatchBlock,
        data: bytes | bytearray,
        next_offset: int,
        leader_epoch: int,
        origin: AppendOrigin,
        now: int,
    ) -> bytearray | bytes:
        """Return the bytes to be appended from absolute `next_offset` on; `now` (ms) is the broker's clock.

        `data` are the bytes of the batches and of nothing else. Raises InvalidRecordError, InvalidTimestampError,
        UnsupportedForMessageFormatError, CodecError.
        """
        magic = self.config.record_version
        source = source_codec(block)
        target = source if self.config.codec is None else self.config.codec
        if (source or block.magic[0] >= 2) and block.length > 1:
            raise InvalidRecordError("Compressed outer record has more than one batch")
        check_codec(target, magic)
        in_place = source == target and (magic > 0 or not source)
        if block.attributes[0] & CONTROL and block.magic[0] >= 2 and not source:
            in_place, target = True, source
        max_timestamps = []
        for row in range(block.length):
            self._check_batch(block, row, magic, origin)
            in_place &= block.magic[row] == magic
            max_timestamp, in_order = self._check_records(block, row, now)
            in_place &= in_order or not source
            max_timestamps.append(max_timestamp)
        if in_place:
            return self._in_place(block, bytearray(data), next_offset, leader_epoch, max_timestamps, now)
        return self._rebuilt(block, next_offset, leader_epoch, magic, target, now)

    def _check_batch(self, block: BatchBlock, row: int, magic: int, origin: AppendOrigin) -> None:
        if block.magic[row] != block.magic[0]:
            raise InvalidRecordError(
                f"Batch magic {block.magic[row]} is not the same as the first batch's magic byte {block.magic[0]} in"
                f" topic partition {self.partition}."
            )
        if block.magic[row] < 2:
            return
        if origin is AppendOrigin.CLIENT:
            self._check_client_batch(block, row)
        if magic < 2:
            for what, has in (
                ("Transactional", block.attributes[row] & TRANSACTIONAL),
                ("Idempotent", block.producer_id[row] >= 0),
            ):
                if has:
                    raise UnsupportedForMessageFormatError(f"{what} records cannot be used with magic version {magic}")

    def _check_client_batch(self, block: BatchBlock, row: int) -> None:
        first, last, count = block.base_offset[row], block.last_offset[row], block.count[row]
        if last < first:
            raise InvalidRecordError(
                f"Batch has an invalid offset range: [{first}, {last}] in topic partition {self.partition}."
            )
        if count <= 0:
            raise InvalidRecordError(
                f"Invalid reported count for record batch: {count} in topic partition {self.partition}."
            )
        if count != last - first + 1:
            raise InvalidRecordError(
                f"Inconsistent batch offset range [{first}, {last}] and count of records {count} in topic partition"
                f" {self.partition}."
            )
        if block.attributes[row] & CONTROL:
            raise InvalidRecordError(
                f"Clients are not allowed to write control records in topic partition {self.partition}."
            )
        if block.producer_id[row] >= 0 > block.base_sequence[row]:
            raise InvalidRecordError(
                f"Invalid sequence number {block.base_sequence[row]} in record batch with producerId"
                f" {block.producer_id[row]} in topic partition {self.partition}."
            )

    def _check_records(self, block: BatchBlock, row: int, now: int) -> tuple[int, bool]:
        """Check each record; their largest timestamp, and whether their relative offsets are 0, 1, 2 and so on."""
        records = self._records
        first = expected = None
        max_timestamp, in_order = -1, True
        packed_legacy = block.magic[row] < 2 and block.attributes[row] & CODEC_MASK
        for rows in decode_rows(block, row, row + 1, records=records):
            if isinstance(rows, BadBatch):
                raise rows.error
            if records.fault:
                continue
            count = records.length
            if not count:
                continue
            if packed_legacy and not all(records.valid[:count]):
                raise InvalidRecordError(f"A record inside a compressed message of {self.partition} is corrupt")
            offsets = records.offset[:count]
            if first is None:
                first = expected = offsets[0]
            in_order &= offsets[-1] - offsets[0] == count - 1 and offsets[0] == expected
            expected = offsets[-1] + 1
            max_timestamp = max(max_timestamp, max(records.timestamp[:count]))
            self._check_content(block, row, records, now)
        if block.magic[row] >= 2 and first is not None:
            in_order &= first == block.base_offset[row]
        return max_timestamp, in_order

    def _check_content(self, block: BatchBlock, row: int, records: RecordBlock, now: int) -> None:
        count, config = records.length, self.config
        if config.compacted and -1 in records.key_length[:count]:
            raise MissingKeyError(
                f"Compacted topic cannot accept message without key in topic partition {self.partition}."
            )
        is_append_time = block.attributes[row] & LOG_APPEND_TIME and block.magic[row] > 0
        if config.is_append_time:
            if is_append_time:
                raise self._wrong_type()
            return
        earliest, latest = now - config.timestamp_before_max_ms, now + config.timestamp_after_max_ms
        for at, timestamp in enumerate(records.timestamp[:count]):
            if timestamp == -1:
                if is_append_time:
                    raise self._wrong_type()
            elif not earliest <= timestamp <= latest:
                raise InvalidTimestampError(
                    f"Timestamp {timestamp} of message with offset {records.offset[at]} is out of range. The timestamp"
                    f" should be within [{earliest}, {latest}]"
                )

    def _wrong_type(self) -> InvalidTimestampError:
        return InvalidTimestampError(
            f"Invalid timestamp type in message of {self.partition}. Producer should not set timestamp type to"
            " LogAppendTime."
        )

    def _in_place(
        self,
        block: BatchBlock,
        data: bytearray,
        next_offset: int,
        leader_epoch: int,
        max_timestamps: Sequence[int],
        now: int,
    ) -> bytearray:
        for row in range(block.length):
            at, magic = block.position[row], block.magic[row]
            max_timestamp = now if self.config.is_append_time else max_timestamps[row]
            if magic >= 2:
                _OFFSET.pack_into(data, at, next_offset)
                _LEADER_EPOCH.pack_into(data, at + LEADER_EPOCH_AT, leader_epoch)
                self._stamp_batch(block, row, data, max_timestamp)
                next_offset += block.last_offset[row] - block.base_offset[row] + 1
                continue
            is_wrapper = block.attributes[row] & CODEC_MASK
            next_offset += sum(1 for _ in records_of(block, row, row + 1)) if is_wrapper else 1
            _OFFSET.pack_into(data, at, next_offset - 1)
            if magic == 1:
                self._stamp_message(block, row, data, max_timestamp)
        return data

    def _stamp_batch(self, block: BatchBlock, row: int, data: bytearray, max_timestamp: int) -> None:
        if self._is_stamped(block, row, max_timestamp):
            return
        attributes = _typed(block.attributes[row] & _KNOWN, is_append_time=self.config.is_append_time)
        at, end = block.position[row], block.position[row] + block.size[row]
        _ATTRIBUTES.pack_into(data, at + ATTRIBUTES_AT, attributes)
        _TIMESTAMP.pack_into(data, at + MAX_TIMESTAMP_AT, max_timestamp)
        CRC.pack_into(data, at + CRC_AT, crc32c(memoryview(data)[at + CRC_START : end]))

    def _stamp_message(self, block: BatchBlock, row: int, data: bytearray, timestamp: int) -> None:
        if self._is_stamped(block, row, timestamp):
            return
        attributes = _typed(block.attributes[row] & KNOWN_ATTRIBUTES_V1, is_append_time=self.config.is_append_time)
        at, end = block.position[row], block.position[row] + block.size[row]
        data[at + MESSAGE_ATTRIBUTES_AT] = attributes
        _TIMESTAMP.pack_into(data, at + MESSAGE_TIMESTAMP_AT, timestamp)
        CRC.pack_into(data, at + MESSAGE_AT, crc32(memoryview(data)[at + MESSAGE_CRC_START : end]))

    def _is_stamped(self, block: BatchBlock, row: int, max_timestamp: int) -> bool:
        """Return whether the batch has the timestamp type of the topic and this max timestamp (ms) already."""
        is_append_time = bool(block.attributes[row] & LOG_APPEND_TIME)
        return is_append_time == self.config.is_append_time and max_timestamp == block.max_timestamp[row]

    def _rebuilt(
        self, block: BatchBlock, next_offset: int, leader_epoch: int, magic: int, codec: int, now: int
    ) -> bytes:
        """Return all records in one batch (v2, or a compressed v0/v1 message), or in a message each."""
        records: list[NewRecord] = []
        for record in records_of(block):
            if isinstance(record, BadBatch):
                raise record.error
            check_headers(record.headers, magic)
            records.append(
                NewRecord(next_offset + len(records), record.timestamp, record.key, record.value, record.headers)
            )
        append_time = now if self.config.is_append_time else None
        level = self.config.level(codec)
        if magic < 2:
            return _legacy(records, magic, codec, append_time, level)
        kept = block.attributes[0] & _KEPT if block.magic[0] >= 2 else 0
        batch = NewBatch(
            attributes=_typed(kept | codec, is_append_time=append_time is not None),
            producer_id=block.producer_id[0],
            producer_epoch=block.producer_epoch[0],
            base_sequence=block.base_sequence[0],
            leader_epoch=leader_epoch,
            max_timestamp=append_time,
        )
        return encode_batch(records, batch, level=level)


def _typed(attributes: int, *, is_append_time: bool) -> int:
    """Return `attributes` with the timestamp type of the topic."""
    return attributes | LOG_APPEND_TIME if is_append_time else attributes & ~LOG_APPEND_TIME


def _legacy(records: list[NewRecord], magic: int, codec: int, append_time: int | None, level: int | None) -> bytes:
    if append_time is None or not magic:
        return encode_messages(records, magic, codec, level=level)
    records = [record._replace(timestamp=append_time) for record in records]
    return encode_messages(records, magic, codec, append_time, attributes=LOG_APPEND_TIME, level=level)
