"""A .log file (or a KRaft .checkpoint, which has the same format) open for reading, and the one way to walk it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kdump import kernels
from kdump.blocks import BATCH_ROWS, BatchBlock
from kdump.disk.reading import ReadOnlyFile
from kdump.formats.batch import (
    CODEC_MASK,
    CONTROL,
    CRC_START,
    FRAME,
    FRAME_SIZE,
    HEADER_SIZE,
    LAST_OFFSET_DELTA,
    LAST_OFFSET_DELTA_AT,
    LOG_OVERHEAD,
    MAGIC_AT,
    MIN_SIZE_FIELD,
    wrap64,
)
from kdump.formats.faults import BLOCK_FULL, END, NEED_BYTES, PARTIAL, SHORT_HEADER, UNDERSIZED

BUFFER_SIZE = 1 << 20
GATHERED_BYTES = 32 << 20
"""Bytes from which on a block of gathered entries is given, full or not."""
_MIN_ENTRY = LOG_OVERHEAD + MIN_SIZE_FIELD


class Entry(NamedTuple):
    """Where one entry of a log is.

    `status` is BLOCK_FULL for a whole entry, with its size in bytes and its absolute last offset; else it says, as at
    the end of a walk, why there is none (of UNDERSIZED, `size` is the size field).
    """

    status: int
    size: int = 0
    last_offset: int = -1


class LogFile(ReadOnlyFile):
    """An open log file."""

    def blocks(
        self,
        start: int = 0,
        stop: int | None = None,
        *,
        whole: bool = True,
        gathers: bool = False,
        block: BatchBlock | None = None,
    ) -> Iterator[BatchBlock]:
        """Yield the entries from byte `start` (an entry's first) up to byte `stop`, as blocks; always at least one.

        The last block's `status` (formats.faults) and `next_position` tell how and where the walk ended. Unless
        `whole`, a batch larger than the buffer is only summed, not kept: the block then does not hold it. One that
        `gathers` entries of several buffers holds the last of these buffers, and with it its control batches. A file
        that shrinks meanwhile ends where it now does. The same block is given each time of one walk: `block`, of which
        nothing else is needed any more, or a new one.
        """
        end = file_end = self.size
        if stop is not None:
            end = min(end, stop)
        if block is None:
            block = BatchBlock(min(BATCH_ROWS, max(0, end - start) // _MIN_ENTRY + 1))
        block.data_position = block.available = 0
        position, row = start, 0
        while True:
            status = kernels.walk(block, position, end, file_end, row)
            if status == NEED_BYTES and (block.length == 0 or (gathers and _has_room(block))):
                position, row = block.next_position, block.length
                if not whole and block.needed > BUFFER_SIZE:
                    summed = self._sum(block, position)
                    if summed < position + block.needed:
                        end = file_end = summed
                        continue
                else:
                    size = min(BUFFER_SIZE, end + HEADER_SIZE - position)
                    self._fill(block, position, max(size, block.needed))
                    filled = block.data_position + block.available
                    if filled < min(position + block.needed, file_end):
                        file_end = filled
                        end = min(end, file_end)
                    continue
            yield block
            position, row = block.next_position, 0
            if status not in (BLOCK_FULL, NEED_BYTES):
                return

    def entry_at(self, position: int, stop: int) -> Entry:
        """Return the frame of the entry at byte `position`, of a log that ends at byte `stop`; its CRC is not read."""
        end = min(stop, self.size)
        data = self.read(position, HEADER_SIZE) if position < end - FRAME_SIZE else b""
        if len(data) < FRAME_SIZE:
            return Entry(END)
        offset, size, _, magic = FRAME.unpack_from(data)
        if size < MIN_SIZE_FIELD:
            return Entry(UNDERSIZED, size)
        if position > end - LOG_OVERHEAD - size:
            return Entry(PARTIAL)
        if magic < 2:
            return Entry(BLOCK_FULL, size + LOG_OVERHEAD, offset)
        if len(data) < HEADER_SIZE:
            return Entry(SHORT_HEADER)
        delta = LAST_OFFSET_DELTA.unpack_from(data, LAST_OFFSET_DELTA_AT)[0]
        return Entry(BLOCK_FULL, size + LOG_OVERHEAD, wrap64(offset + delta))

    def batch_at(self, position: int, size: int) -> BatchBlock:
        """Return the whole entry at byte `position`, as given by `entry_at`, in a block of its own."""
        block = BatchBlock(1)
        block.data = self.read(position, max(size, HEADER_SIZE))
        block.data_position = position
        block.available = len(block.data)
        kernels.walk(block, position, position + size, self.size)
        return block

    def held(self, block: BatchBlock, row: int) -> tuple[BatchBlock, int]:
        """Return the batch of row `row` in a block that holds its bytes, and its row there."""
        if block.holds(row):
            return block, row
        return self.batch_at(block.position[row], block.size[row]), 0

    def _fill(self, block: BatchBlock, position: int, size: int) -> None:
        """Put the bytes from `position` on into the block's data."""
        size = min(size, self.size - position)
        buffer = block.data
        if not isinstance(buffer, bytearray) or len(buffer) < size or len(buffer) > max(size, BUFFER_SIZE):
            block.data = buffer = bytearray(size)
        block.data_position = position
        block.available = self.read_into(memoryview(buffer)[:size], position)

    def _sum(self, block: BatchBlock, position: int) -> int:
        """Make the entry at `position` the block's only row, reading it piece by piece; up to which byte that led.

        Of an entry that is not all there any more no row is made.
        """
        from kdump.kernels.portable.walk import put_header  # not worth its import before a batch this large turns up

        size = block.needed
        self._fill(block, position, HEADER_SIZE)
        put_header(block, 0, position)
        legacy = block.magic[0] < 2
        checksum = kernels.crc32 if legacy else kernels.crc32c
        at, end = position + (MAGIC_AT if legacy else CRC_START), position + size
        value = 0
        piece = memoryview(bytearray(BUFFER_SIZE))
        while at < end:
            got = self.read_into(piece[: min(BUFFER_SIZE, end - at)], at)
            if got == 0:
                return at
            value = checksum(piece[:got], value)
            at += got
        block.valid[0] = value == block.crc[0]
        block.length = 1
        block.packed = int(block.attributes[0] & CODEC_MASK != 0)
        block.controls = int(block.attributes[0] & CONTROL != 0)
        block.next_position = end
        return end


def _has_room(block: BatchBlock) -> bool:
    """Return whether entries of another buffer may join a block: what it holds is not needed to see what it has."""
    if block.controls or block.needed > BUFFER_SIZE:
        return False
    return block.next_position - block.position[0] < GATHERED_BYTES
