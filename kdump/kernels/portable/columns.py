"""Records gathered into columns, value behind value, in the layout of Arrow's buffers.

A column of numbers is a buffer of 64-bit integers. A column of byte strings is a bitmap of those that are not null
(least significant bit first), 32-bit offsets of where each one starts, with a last one where the last ends, and the
bytes themselves. All are in the machine's byte order.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import pairwise

from kdump.blocks import BatchBlock, RecordBlock, content_at
from kdump.formats.batch import CONTROL
from kdump.kernels.portable.messages import Source
from kdump.kernels.portable.records import Payloads, headers, source_of

ByteBuffers = tuple[int, bytearray, bytearray, bytearray]
"""A column of byte strings: how many are null, their bitmap, their offsets, their bytes."""

HeaderBuffers = tuple[int, bytearray, bytearray, ByteBuffers, ByteBuffers]
"""A column of lists of headers: how many are null, their bitmap, their offsets, the headers' names and values."""

Buffers = tuple[int, list[bytearray], ByteBuffers | None, ByteBuffers | None, HeaderBuffers | None]
"""Rows, columns of numbers, keys, values and headers."""

MAX_BYTES = 0x7FFF_FFFF
OF_BATCH = "batch."

_M = 0x5BD1E995
_MASK32 = 0xFFFF_FFFF

_Headers = list[tuple[bytes, bytes | None]]


class RecordColumns:
    """Columns that records are added to until they are full, then taken, and begun again.

    `length` is how many records have been gathered, `size` how many bytes of keys, values and headers.
    """

    def __init__(
        self,
        numbers: Sequence[str],
        key: bool,
        value: bool,
        headers: bool,
        *,
        control: bool,
        most_rows: int,
        most_bytes: int,
    ) -> None:
        """`numbers` are columns of RecordBlock, or of BatchBlock with "batch." before their names.

        `key`, `value` and `headers` say which of these are gathered; a record without headers has null. Unless
        `control`, the records of control batches are left out. The columns are full with `most_rows` rows or
        `most_bytes` bytes; a larger record is alone in them.
        """
        if most_rows < 1 or not 0 <= most_bytes <= MAX_BYTES:
            raise ValueError("a column holds at least one row, and at most 2147483647 bytes")
        self.length = 0
        self.size = 0
        self._names = list(numbers)
        self._with = key, value, headers
        self._control = control
        self._most_rows = most_rows
        self._most_bytes = most_bytes
        self._begin()

    def add(
        self,
        block: BatchBlock,
        records: RecordBlock,
        first: int,
        payloads: Payloads,
        picks: range | Sequence[int],
        skip: int = 0,
    ) -> int:
        """Append the records `picks[skip:]` of `records`; returns how many of the picks are dealt with.

        Where these are not all of them, the columns are full. `payloads` are those that the records were decoded
        with, from row `first` of `block` on. Raises ValueError where the records are not those of these batches.
        """
        if not 0 <= skip <= len(picks):
            raise ValueError("there are fewer picks")
        for number in range(skip, len(picks)):
            at = picks[number]
            row = records.row[at]
            if not (0 <= at < records.length and first <= row < first + len(payloads)):
                raise ValueError("the records are not those of these batches")
            if not self._control and block.magic[row] >= 2 and block.attributes[row] & CONTROL:
                continue
            if not self._add(block, records, at, source_of(block, row, payloads[row - first])):
                return number
        return len(picks)

    def take(self) -> Buffers:
        """Return what has been gathered; the columns are empty then."""
        key, value, with_headers = self._with
        taken = (
            self.length,
            [bytearray(column.tobytes()) for column in self._numbers],
            _buffers(self._keys) if key else None,
            _buffers(self._values) if value else None,
            _header_buffers(self._headers) if with_headers else None,
        )
        self._begin()
        return taken

    def _begin(self) -> None:
        self.length = self.size = 0
        self._numbers = [array("q") for _ in self._names]
        self._keys: list[bytes | None] = []
        self._values: list[bytes | None] = []
        self._headers: list[_Headers | None] = []

    def _add(self, block: BatchBlock, records: RecordBlock, at: int, source: Source) -> bool:
        """Append one record, if there is room for it."""
        with_key, with_value, with_headers = self._with
        key = _part(source, records.key_position[at], records.key_length[at]) if with_key else None
        value = _part(source, records.value_position[at], records.value_length[at]) if with_value else None
        pairs: _Headers = []
        if with_headers and records.headers_count[at] > 0:
            pairs = list(headers(source, records.headers_position[at], records.headers_count[at]))
        size = len(key or b"") + len(value or b"") + sum(len(name) + len(content or b"") for name, content in pairs)
        if self.length == self._most_rows or (self.length and self.size + size > self._most_bytes):
            return False
        for column, name in zip(self._numbers, self._names, strict=True):
            of_batch = name.startswith(OF_BATCH)
            source_column = getattr(block, name[len(OF_BATCH) :]) if of_batch else getattr(records, name)
            column.append(source_column[records.row[at] if of_batch else at])
        self._keys.append(key)
        self._values.append(value)
        self._headers.append(pairs or None)
        self.length += 1
        self.size += size
        return True


def _part(source: Source, position: int, length: int) -> bytes | None:
    if length >= 0 and not 0 <= position <= len(source) - length:
        raise ValueError("the records are not those of these batches")
    return content_at(source, position, length)


def _buffers(values: Sequence[bytes | None]) -> ByteBuffers:
    ends = array("i", [0])
    for value in values:
        ends.append(ends[-1] + len(value or b""))
    data = bytearray().join(value for value in values if value)
    return values.count(None), _bitmap(values), bytearray(ends.tobytes()), data


def _header_buffers(lists: Sequence[_Headers | None]) -> HeaderBuffers:
    ends = array("i", [0])
    for pairs in lists:
        ends.append(ends[-1] + len(pairs or ()))
    flat = [pair for pairs in lists if pairs for pair in pairs]
    names, contents = _buffers([name for name, _ in flat]), _buffers([content for _, content in flat])
    return lists.count(None), _bitmap(lists), bytearray(ends.tobytes()), names, contents


def _bitmap(values: Sequence[object]) -> bytearray:
    bits = bytearray((len(values) + 7) // 8)
    for at, value in enumerate(values):
        if value is not None:
            bits[at >> 3] |= 1 << (at & 7)
    return bits


def murmur2(data: bytes | bytearray | memoryview, offsets: bytes | bytearray | memoryview) -> bytearray:
    """Return Kafka's hash of each of the byte strings between `offsets` (32-bit) in `data`, as 32-bit integers.

    Raises ValueError where the offsets fall or lead out of the data.
    """
    ends = memoryview(offsets).cast("B").cast("i")
    falls = any(end < start for start, end in pairwise(ends))
    if len(ends) == 0 or ends[0] < 0 or falls or ends[-1] > len(data):
        raise ValueError("the offsets are not those of byte strings in the data")
    hashes = array("I", (_murmur2(bytes(data[start:end])) for start, end in pairwise(ends)))
    return bytearray(hashes.tobytes())


def _murmur2(key: bytes) -> int:
    value = 0x9747B28C ^ len(key)
    whole = len(key) & ~3
    for at in range(0, whole, 4):
        part = int.from_bytes(key[at : at + 4], "little") * _M & _MASK32
        value = value * _M & _MASK32 ^ (part ^ part >> 24) * _M & _MASK32
    if whole < len(key):
        value = (value ^ int.from_bytes(key[whole:], "little")) * _M & _MASK32
    value = (value ^ value >> 13) * _M & _MASK32
    return value ^ value >> 15
