"""Arrow columns as records to be written: the other direction of `records`, again without a Python object per record.

Only headers, which few records have, are encoded one by one.
"""

from __future__ import annotations

from array import array
from itertools import accumulate
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kdump import kernels
from kdump.columns.arrays import floor_divide
from kdump.errors import InvalidRecordError
from kdump.formats.encode import encode_headers
from kdump.write.record_source import RecordSource

_POSITIVE = 0x7FFF_FFFF


def record_source(
    value: pa.Array, key: pa.Array | None, headers: pa.Array | None, timestamps: pa.Array | None, now: int
) -> RecordSource:
    """Return records of these columns: binary values and keys, lists of (key, value) structs, timestamps.

    Timestamps are of any unit, and `now` (ms) where they are null or not given.
    """
    rows = len(value)
    parts: list[bytes | memoryview] = []
    value_position, value_length = _spans(value, parts, 0)
    size = sum(map(len, parts))
    source_columns: dict[str, array[int]] = {}
    if key is not None:
        source_columns["key_position"], source_columns["key_length"] = _spans(key, parts, size)
        size = sum(map(len, parts))
    if headers is not None and headers.null_count < rows:
        position, length, count = _headers(headers, parts, size)
        source_columns |= {"headers_position": position, "headers_length": length, "headers_count": count}
    return RecordSource(
        b"".join(parts), value_position, value_length, timestamp=_times(timestamps, rows, now), **source_columns
    )


def hashes(keys: pa.Array) -> pa.Array:
    """Return Kafka's hash of each key, made positive as its partitioner does; null for a null key."""
    _, offsets, data = keys.buffers()
    rows = len(keys)
    start = keys.offset * 4
    ends = memoryview(offsets)[start : start + 4 * (rows + 1)]
    found = kernels.murmur2(b"" if data is None else memoryview(data).cast("B"), ends)
    numbers = pc.bit_wise_and(pa.Array.from_buffers(pa.int32(), rows, [None, pa.py_buffer(found)]), _POSITIVE)
    return pc.if_else(keys.is_valid(), numbers, pa.scalar(None, pa.int32())) if keys.null_count else numbers


def _spans(values: pa.Array, parts: list[bytes | memoryview], size: int) -> tuple[array[int], array[int]]:
    """Return positions (behind the `size` bytes of `parts`) and lengths of binary values, whose bytes go to `parts`."""
    _, offsets, data = values.buffers()
    rows = len(values)
    ends = pa.Array.from_buffers(pa.int32(), rows + 1, [None, offsets], offset=values.offset).cast(pa.int64())
    first, last = ends[0].as_py(), ends[rows].as_py()
    if last > first:
        parts.append(memoryview(data)[first:last])
    starts = ends.slice(0, rows)
    lengths = pc.subtract(ends.slice(1), starts)
    if values.null_count:
        lengths = pc.if_else(values.is_valid(), lengths, -1)
    return _numbers(pc.add(starts, size - first)), _numbers(lengths)


def _headers(
    headers: pa.Array, parts: list[bytes | memoryview], size: int
) -> tuple[array[int], array[int], array[int]]:
    """Return positions, lengths and counts of encoded headers, which go to `parts`."""
    encoded, counts = [], array("q")
    for pairs in headers.to_pylist():
        counts.append(len(pairs or ()))
        encoded.append(encode_headers([_header(pair) for pair in pairs]) if pairs else b"")
    parts += encoded
    lengths = array("q", map(len, encoded))
    return array("q", accumulate(lengths, initial=size))[:-1], lengths, counts


def _header(pair: dict[str, Any] | None) -> tuple[bytes, bytes | None]:
    if pair is None or pair["key"] is None:
        raise InvalidRecordError("a header without a key cannot be written")
    key = pair["key"]
    return key.encode() if isinstance(key, str) else key, pair["value"]


def _times(timestamps: pa.Array | None, rows: int, now: int) -> array[int]:
    if timestamps is None:
        return array("q", [now]) * rows
    unit = {"s": 1000, "ms": 1, "us": -1000, "ns": -1_000_000}[timestamps.type.unit]
    numbers = timestamps.cast(pa.int64())
    # whole milliseconds, at or before it
    numbers = floor_divide(numbers, -unit) if unit < 0 else pc.multiply(numbers, unit)
    return _numbers(pc.fill_null(numbers, now))


def _numbers(numbers: pa.Array) -> array[int]:
    found = array("q")
    found.frombytes(memoryview(numbers.buffers()[1])[8 * numbers.offset : 8 * (numbers.offset + len(numbers))])
    return found
