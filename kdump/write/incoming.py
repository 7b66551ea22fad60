"""The batches of one append, before anything is done with them."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from kdump import kernels
from kdump.blocks import BatchBlock
from kdump.errors import CorruptRecordError, InvalidRecordError
from kdump.formats.batch import CODEC_MASK
from kdump.formats.faults import BLOCK_FULL, UNDERSIZED, in_memory_error
from kdump.write.errors import OffsetsOutOfOrderError, RecordTooLargeError, UnexpectedAppendOffsetError

UNKNOWN_OFFSET = -1
_ROWS = 64


class AppendOrigin(StrEnum):
    """Where an append comes from (Kafka: AppendOrigin)."""

    CLIENT = "client"  # a producer
    COORDINATOR = "coordinator"  # of transactions: markers
    REPLICATION = "replication"  # the log of the leader


class AppendInfo(NamedTuple):
    """What is known of an append; offsets are absolute, timestamps in ms.

    `first_offset` is UNKNOWN_OFFSET for a follower's append that starts with a v0/v1 batch. `offset_of_max` is the
    last offset of the first batch that has the `max_timestamp`. `duplicate`: the batch was there already, at these
    offsets, and nothing was written.
    """

    first_offset: int
    last_offset: int
    max_timestamp: int = -1
    offset_of_max: int = -1
    size: int = 0
    duplicate: bool = False


class BatchReader:
    """Walks the bytes of appends; the block that it gives is reused for the next append."""

    def __init__(self, partition: str) -> None:
        """`partition` is what Kafka's texts call it."""
        self.partition = partition
        self._block = BatchBlock(_ROWS)

    def read(self, data: bytes | bytearray) -> BatchBlock:
        """Return the batches in `data`, whose CRCs are not looked at yet; an incomplete one at the end is left out.

        Raises CorruptRecordError.
        """
        block = self._walk(data)
        if block.status == UNDERSIZED:
            raise in_memory_error(size=block.bad_size)
        magics = block.magic[: block.length]
        if magics and not 0 <= min(magics) <= max(magics) <= 2:
            raise in_memory_error(magic=next(magic for magic in magics if not 0 <= magic <= 2))
        return block

    def _walk(self, data: bytes | bytearray) -> BatchBlock:
        while True:
            block = self._block
            block.data, block.data_position, block.available = data, 0, len(data)
            if kernels.walk(block, 0, len(data), len(data)) != BLOCK_FULL:
                return block
            self._block = BatchBlock(4 * block.capacity)

    def check(self, block: BatchBlock, origin: AppendOrigin, max_size: int | None) -> None:
        """Check what every batch has to be. `max_size` is max.message.bytes, None where it does not apply.

        Raises InvalidRecordError, RecordTooLargeError, CorruptRecordError.
        """
        for row in range(block.length):
            if origin is AppendOrigin.CLIENT and block.magic[row] >= 2 and block.base_offset[row] != 0:
                raise InvalidRecordError(
                    f"The baseOffset of the record batch in the append to {self.partition} should be 0, but it is"
                    f" {block.base_offset[row]}"
                )
            if max_size is not None and block.size[row] > max_size:
                raise RecordTooLargeError(
                    f"The record batch size in the append to {self.partition} is {block.size[row]} bytes which exceeds"
                    f" the maximum configured value of {max_size}."
                )
            if not block.valid[row]:
                raise CorruptRecordError(
                    f"Record is corrupt (stored crc = {block.crc[row]}) in topic partition {self.partition}."
                )

    def check_offsets(self, block: BatchBlock, info: AppendInfo, end_offset: int, log_start_offset: int) -> None:
        """Check what the offsets of a follower's append have to be, for a log between these two (absolute).

        Raises OffsetsOutOfOrderError, UnexpectedAppendOffsetError.
        """
        offsets = block.last_offset[: block.length]
        if any(second <= first for first, second in zip([-1, *offsets], offsets, strict=False)):
            raise OffsetsOutOfOrderError(
                f"Out of order offsets found in append to {self.partition}: {', '.join(map(str, offsets))}"
            )
        known = info.first_offset != UNKNOWN_OFFSET
        first = info.first_offset if known else offsets[0]
        if first < end_offset:
            raise UnexpectedAppendOffsetError(
                f"Unexpected offset in append to {self.partition}."
                f" {'First offset' if known else 'last offset of the first batch'} {first} is less than the next offset"
                f" {end_offset}. First 10 offsets in append: {', '.join(map(str, offsets[:10]))}, last offset in"
                f" append: {info.last_offset}. Log start offset = {log_start_offset}"
            )


def describe(block: BatchBlock) -> AppendInfo:
    """Return what the headers of the batches say of the append; there must be one batch at least."""
    max_timestamp = offset_of_max = -1
    for row in range(block.length):
        if block.max_timestamp[row] > max_timestamp:
            max_timestamp, offset_of_max = block.max_timestamp[row], block.last_offset[row]
    last = block.length - 1
    return AppendInfo(
        block.base_offset[0] if block.magic[0] >= 2 else UNKNOWN_OFFSET,
        block.last_offset[last],
        max_timestamp,
        offset_of_max,
        block.position[last] + block.size[last],
    )


def source_codec(block: BatchBlock) -> int:
    """Return the codec of the last compressed batch, 0 where none is."""
    codecs = (attributes & CODEC_MASK for attributes in reversed(block.attributes[: block.length]))
    return next((codec for codec in codecs if codec), 0)
