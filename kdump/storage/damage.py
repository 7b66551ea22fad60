"""Damage of a log: what kind it is, where it is, and what is wrong there."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from kdump.blocks import BatchBlock, RecordBlock
from kdump.disk.reading import ReadOnlyFile
from kdump.errors import CodecError, CorruptRecordError, InvalidRecordError, KdumpError
from kdump.formats.batch import CRC_START, HEADER_SIZE, MAGIC_AT
from kdump.formats.checksums import crc32, crc32c
from kdump.formats.words import number_words, offset_range

_PIECE = 1 << 20


class DamageKind(StrEnum):
    """Kinds of damage: of the frame of a batch, of the end of a log, of what is inside a batch."""

    CRC = "crc"
    """A complete batch fails its CRC."""
    SIZE = "size"
    """A size field is no batch's: too small, or it points past the end though batches follow."""
    OFFSETS = "offsets"
    """A batch whose CRC holds has offsets that do not fit where it stands."""
    MAGIC = "magic"
    """A batch whose CRC holds is of a format that there is not."""
    TORN = "torn"
    """The log ends inside a batch."""
    GARBAGE = "garbage"
    """Bytes up to the end that are not the beginning of a batch."""
    ZEROS = "zeros"
    """Zeros up to the end: preallocated, or never written."""
    PAYLOAD = "payload"
    """A batch whose CRC holds cannot be decompressed."""
    RECORDS = "records"
    """A batch whose CRC holds has records that cannot all be decoded."""
    INNER_CRC = "inner-crc"
    """A v0/v1 message inside a compressed batch fails its own CRC."""


AT_THE_END = (DamageKind.TORN, DamageKind.GARBAGE, DamageKind.ZEROS)
"""What nothing follows, by its kind."""


class BatchHeader(NamedTuple):
    """What the header of a damaged batch says of it, as far as it can be believed; `computed_crc` is that of its bytes.

    Offsets are absolute, `size` is that of the complete batch in bytes.
    """

    offsets: tuple[int, int] | None
    size: int
    stored_crc: int | None = None
    computed_crc: int | None = None


class Damage(NamedTuple):
    """Bytes of a log that cannot be trusted: from `position` up to `resumed`, where the next valid batch starts.

    `resumed` is the log's end where there is none; of damage inside a batch it is the batch's end. `cause` is what is
    wrong at `position`, `path` the file, `offsets` (absolute, first and last) are those of a batch whose header can be
    believed, `header` is what that of a damaged or incomplete one says. As text it is a line that says all of this.
    Two that differ in `cause` and `header` alone are equal: errors have no equals.
    """

    kind: DamageKind
    position: int
    resumed: int
    cause: KdumpError
    path: str = ""
    offsets: tuple[int, int] | None = None
    header: BatchHeader | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Damage) and self._compared() == other._compared()

    def __hash__(self) -> int:
        return hash(self._compared())

    def _compared(self) -> tuple[object, ...]:
        return self.kind, self.position, self.resumed, self.path, self.offsets

    @property
    def text(self) -> str:
        """What is wrong, as a clause."""
        if self.offsets is None:
            return str(self.cause)
        first, last = self.offsets
        which = f"at offset {last}" if first == last else f"of offsets {offset_range(first, last)}"
        return f"the records of the batch {which} cannot all be read: {self.cause}"

    @property
    def size(self) -> int:
        """The number of bytes."""
        return self.resumed - self.position

    def __str__(self) -> str:
        where = f"{self.path}: byte" if self.path else "byte"
        return f"{where} {self.position}: {self.text}"


def bad_batch(block: BatchBlock, row: int, resumed: int, path: str) -> Damage:
    """Return the damage of a batch that is complete and fails its CRC."""
    position, size = block.position[row], block.size[row]
    if block.magic[row] >= 2 and size < HEADER_SIZE:
        text = f"Record batch is corrupt (the size {size} is smaller than the minimum allowed overhead {HEADER_SIZE})"
        return Damage(DamageKind.SIZE, position, resumed, CorruptRecordError(text), path)
    first, last = block.base_offset[row], block.last_offset[row]
    offsets = (first, last) if 0 <= first <= last else None
    header = BatchHeader(offsets, block.size[row], block.crc[row], _computed_crc(block, row))
    error = CorruptRecordError(_crc_text(header, last, block.count[row]))
    return Damage(DamageKind.CRC, position, resumed, error, path, header=header)


def undecodable(block: BatchBlock, row: int, error: KdumpError, path: str) -> Damage:
    """Return the damage of a batch whose frame and CRC hold but whose records cannot all be read, and why."""
    kind = DamageKind.PAYLOAD if isinstance(error, CodecError) else DamageKind.RECORDS
    position, base_offset, last_offset = block.position[row], block.base_offset[row], block.last_offset[row]
    first = last_offset if base_offset == -1 else base_offset  # of a v0/v1 wrapper only the last one is known
    return Damage(kind, position, position + block.size[row], error, path, (first, last_offset))


def bad_messages(block: BatchBlock, records: RecordBlock, path: str) -> Iterator[Damage]:
    """Yield the v0/v1 messages in `records` whose own CRC does not hold, though that of their wrapper does."""
    at = -1
    while True:
        try:
            at = records.valid.index(0, at + 1, records.length)
        except ValueError:
            return
        position = block.position[records.row[at]]
        end = position + block.size[records.row[at]]
        text = f"the message at offset {records.offset[at]} inside a compressed batch fails its CRC"
        yield Damage(DamageKind.INNER_CRC, position, end, InvalidRecordError(text), path)


def is_zero_tail(damage: Damage, log: ReadOnlyFile) -> bool:
    """Return whether it is no loss but the zeros up to the end that a preallocated log has."""
    return damage.kind is DamageKind.ZEROS and damage.resumed >= log.size


def only_zeros(file: ReadOnlyFile, position: int, end: int) -> bool:
    """Return whether all bytes from `position` up to `end` are zero."""
    pieces = (file.read(at, min(_PIECE, end - at)) for at in range(position, end, _PIECE))
    return all(piece.count(0) == len(piece) for piece in pieces)


def _crc_text(header: BatchHeader, last: int, count: int) -> str:
    records = f"{number_words(count, 'record')}, " if count >= 0 else ""
    which = f"batch {offset_range(*header.offsets)}" if header.offsets else f"the batch with last offset {last}"
    computed = "" if header.computed_crc is None else f", computed {header.computed_crc:#010x}"
    return f"{which} ({records}{header.size} bytes) fails its CRC: stored {header.stored_crc:#010x}{computed}"


def _computed_crc(block: BatchBlock, row: int) -> int | None:
    """Return the CRC that the bytes of a batch have; None where they are not at hand."""
    if not block.holds(row):
        return None
    start = block.position[row] - block.data_position
    data = memoryview(block.data)[start : start + block.size[row]]
    is_v2 = block.magic[row] >= 2
    return crc32c(data[CRC_START:]) if is_v2 else crc32(data[MAGIC_AT:])
