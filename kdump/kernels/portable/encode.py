"""Encode new records out of columns: the other direction of `records`."""

from __future__ import annotations

from array import array
from typing import Protocol

from kdump.formats.batch import wrap64
from kdump.formats.encode import varint


class NewRecords(Protocol):
    """`length` records as columns of 64-bit integers, of which the contents are ranges of `source`.

    timestamp       ms
    key_position, value_position, headers_position   indexes into the source; of no importance where nothing is
    key_length, value_length   bytes; below 0 for null
    headers_length, headers_count   bytes and number of the headers, encoded as in a v2 record behind their count
    """

    length: int
    source: bytes | bytearray | memoryview
    timestamp: array[int]
    key_position: array[int]
    key_length: array[int]
    value_position: array[int]
    value_length: array[int]
    headers_position: array[int]
    headers_length: array[int]
    headers_count: array[int]


def encode(columns: NewRecords, first: int, stop: int, limit: int, reserve: int) -> tuple[bytearray, int]:
    """Return the records of a v2 batch out of the rows from `first` on, and the row that comes next.

    Offsets count from 0, timestamps from that of row `first`. There are `reserve` bytes of zeros before the records.
    The row that would make it more than `limit` bytes in all is left for later, unless it is the first.
    Raises ValueError for rows that are not there, or lead out of the source.
    """
    if first < 0 or stop <= first or stop > columns.length or reserve < 0:
        raise ValueError("rows outside the columns")
    data = bytearray(reserve)
    base_timestamp = columns.timestamp[first]
    for row in range(first, stop):
        record = _record(columns, row, row - first, base_timestamp)
        if row > first and len(data) + len(record) > limit:
            return data, row
        data += record
    return data, stop


def _record(columns: NewRecords, row: int, delta: int, base_timestamp: int) -> bytes:
    key_length, value_length = columns.key_length[row], columns.value_length[row]
    headers_length, headers_count = columns.headers_length[row], columns.headers_count[row]
    if headers_length < 0 or headers_count < 0:
        raise ValueError(f"row {row} is not inside the source")
    body = b"".join(
        (
            b"\0",
            varint(wrap64(columns.timestamp[row] - base_timestamp)),
            varint(delta),
            _part(columns, columns.key_position[row], key_length, row),
            _part(columns, columns.value_position[row], value_length, row),
            varint(headers_count),
            _bytes(columns, columns.headers_position[row], headers_length, row),
        )
    )
    return varint(len(body)) + body


def _part(columns: NewRecords, position: int, length: int, row: int) -> bytes:
    return b"\x01" if length < 0 else varint(length) + _bytes(columns, position, length, row)


def _bytes(columns: NewRecords, position: int, length: int, row: int) -> bytes:
    if length == 0:
        return b""
    if not 0 <= position <= len(columns.source) - length:
        raise ValueError(f"row {row} is not inside the source")
    return bytes(columns.source[position : position + length])
