"""Parts of a damaged log, as plain data: batches that follow one another, and bytes that are left out."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import NamedTuple


class ByteRange(NamedTuple):
    """Bytes of a .log from `start` up to `stop`, and the offsets (absolute) and number of the batches in them.

    `is_dense`: as far as the headers tell, no offset is without a record. `is_moved`: it stood elsewhere in the file
    than its offsets ask for. `leader_epoch`, `records` and `crc` are those of one batch, `records` -1 where its header
    does not tell. `is_stray`: its offsets do not fit where it stands. `stored_offset` is the offset in its header where
    it is another one than its place determines, else None.
    """

    start: int
    stop: int
    first_offset: int
    last_offset: int
    batches: int
    is_dense: bool
    is_moved: bool = False
    leader_epoch: int = -1
    records: int = -1
    crc: int = -1
    is_stray: bool = False
    stored_offset: int | None = None

    @property
    def width(self) -> int:
        """The number of its offsets."""
        return self.last_offset - self.first_offset + 1

    @property
    def identity(self) -> tuple[int, int, int, int]:
        """What a copy of it has, too: its offsets, its size in bytes and its CRC."""
        return self.first_offset, self.last_offset, self.stop - self.start, self.crc


class Orderly(NamedTuple):
    """Valid batches of format v2 one after the other, whose offsets increase: a column for each field of theirs.

    Nearly all batches are such; they are looked at one by one only where their offsets are in dispute.
    """

    position: array[int]
    size: array[int]
    base_offset: array[int]
    last_offset: array[int]
    records: array[int]
    leader_epoch: array[int]
    crc: array[int]

    @property
    def start(self) -> int:
        """Where the first one starts, in bytes."""
        return self.position[0]

    @property
    def stop(self) -> int:
        """Where the last one ends, in bytes."""
        return self.position[-1] + self.size[-1]

    @property
    def first_offset(self) -> int:
        """The first offset of the first batch."""
        return self.base_offset[0]

    @property
    def end(self) -> int:
        """The last offset of the last batch."""
        return self.last_offset[-1]

    def together(self) -> ByteRange:
        """Return all of them as one range."""
        if len(self.position) == 1:
            return next(self.apart())
        return ByteRange(self.start, self.stop, self.first_offset, self.end, len(self.position), False)

    def apart(self) -> Iterator[ByteRange]:
        """Yield each of them as a range of its own."""
        for start, size, first, last, records, epoch, crc in zip(*self, strict=True):
            is_dense = records in (-1, last - first + 1)
            stop = start + size
            yield ByteRange(start, stop, first, last, 1, is_dense, leader_epoch=epoch, records=records, crc=crc)


class LeftOut(NamedTuple):
    """Bytes of a .log, from `start` up to `stop`, that are not kept, and why.

    `valid` is set where they are valid batches, whose offsets do not fit.
    """

    start: int
    stop: int
    why: str
    valid: ByteRange | None = None
