"""What other codecs would make of a log, found out on some of its batches."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from kdump.blocks import BatchBlock
from kdump.errors import CodecMemoryError, KdumpError
from kdump.formats.batch import CODEC_MASK, HEADER_SIZE
from kdump.formats.codecs import NAMES, NONE, compress
from kdump.formats.faults import DamageError
from kdump.storage.payloads import packed_payload, payload_of

MAX_PAYLOAD = 4 << 20
"""Bytes that a batch of the sample may decompress to."""


@dataclass(slots=True)
class CodecSample:
    """`batches` whose payloads take `stored` bytes on disk and `plain` ones decompressed, and `sizes` in each codec."""

    batches: int = 0
    stored: int = 0
    plain: int = 0
    sizes: Counter[int] = field(default_factory=Counter)

    def add(self, block: BatchBlock, row: int) -> None:
        """Take a batch that the block holds, unless it cannot be read or is a v0/v1 message that is not compressed.

        Raises MemoryError: an estimate from the batches for which there was memory would be another one.
        """
        try:
            is_packed = bool(block.attributes[row] & CODEC_MASK)
            if is_packed:
                stored = len(packed_payload(block, row)[1])
                plain = payload_of(block, row, MAX_PAYLOAD)
            elif block.magic[row] < 2 or block.count[row] <= 0:
                return
            else:
                at = block.position[row] - block.data_position
                plain = bytes(memoryview(block.data)[at + HEADER_SIZE : at + block.size[row]])
                stored = len(plain)
            found = {codec: len(compress(codec, plain)) for codec in range(1, len(NAMES))}
        except CodecMemoryError:
            raise MemoryError from None
        except (KdumpError, DamageError):
            return
        self.batches += 1
        self.stored += stored
        self.plain += len(plain)
        self.sizes.update({NONE: len(plain), **found})

    def merge(self, other: CodecSample) -> None:
        """Add another sample."""
        self.batches += other.batches
        self.stored += other.stored
        self.plain += other.plain
        self.sizes.update(other.sizes)

    def estimate(self, codec: int, payload: int) -> int | None:
        """Return how many bytes `payload` bytes, as on disk now, would be in a codec; None without a sample."""
        return round(payload * self.sizes[codec] / self.stored) if self.stored else None
