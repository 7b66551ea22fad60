"""Records to be written, held as columns: the fast way to write many."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple, Self

from kdump.formats.encode import encode_headers
from kdump.storage.records import header_pairs

Headers = Sequence[tuple[bytes, bytes | None]]


class Message(NamedTuple):
    """A record to be written: contents (None: null), timestamp in ms (-1: none), headers (v2 alone has them)."""

    value: bytes | None
    key: bytes | None = None
    timestamp: int = -1
    headers: Headers = ()


class RecordSource:
    """Records as columns of 64-bit integers (`array("q")`), of which the contents are ranges of `source`.

    timestamp       ms; -1 none
    key_position, value_position, headers_position   indexes into the source
    key_length, value_length   bytes; below 0 for null
    headers_length, headers_count   bytes and number of the headers, encoded as in a v2 record behind their count

    A column that is not given is all null, or empty, or for timestamps -1. An Arrow column of binary values is such a
    range too: its offsets are the positions, their differences the lengths.
    """

    __slots__ = (
        "headers_count",
        "headers_length",
        "headers_position",
        "key_length",
        "key_position",
        "length",
        "source",
        "timestamp",
        "value_length",
        "value_position",
    )

    def __init__(
        self,
        source: bytes | bytearray | memoryview,
        value_position: array[int],
        value_length: array[int],
        *,
        timestamp: array[int] | None = None,
        key_position: array[int] | None = None,
        key_length: array[int] | None = None,
        headers_position: array[int] | None = None,
        headers_length: array[int] | None = None,
        headers_count: array[int] | None = None,
    ) -> None:
        """Take the columns as they are, not copied. Raises ValueError where their lengths differ."""
        self.source = source
        self.length = length = len(value_length)
        zeros, nulls = array("q", bytes(8 * length)), array("q", b"\xff" * (8 * length))
        self.value_position = value_position
        self.value_length = value_length
        self.timestamp = nulls if timestamp is None else timestamp
        self.key_position = zeros if key_position is None else key_position
        self.key_length = nulls if key_length is None else key_length
        self.headers_position = zeros if headers_position is None else headers_position
        self.headers_length = zeros if headers_length is None else headers_length
        self.headers_count = zeros if headers_count is None else headers_count
        columns = (getattr(self, name) for name in self.__slots__ if name not in ("source", "length"))
        if any(len(column) != length for column in columns):
            raise ValueError("the columns have different lengths")

    def __len__(self) -> int:
        return self.length

    @classmethod
    def of(cls, messages: Iterable[Message]) -> Self:
        """Return the columns of records that are Python values."""
        timestamps, headers_count = array("q"), array("q")
        parts: list[bytes] = []
        lengths: list[int] = []
        for value, key, timestamp, headers in messages:
            encoded = encode_headers(headers) if headers else b""
            parts += (key or b"", value or b"", encoded)
            lengths += (-1 if key is None else len(key), -1 if value is None else len(value), len(encoded))
            timestamps.append(timestamp)
            headers_count.append(len(headers))
        ends = array("q", accumulate(map(len, parts), initial=0))
        return cls(
            b"".join(parts),
            ends[1:-1:3],
            array("q", lengths[1::3]),
            timestamp=timestamps,
            key_position=ends[:-1:3],
            key_length=array("q", lengths[::3]),
            headers_position=ends[2:-1:3],
            headers_length=array("q", lengths[2::3]),
            headers_count=headers_count,
        )

    def messages(self) -> Iterator[Message]:
        """Yield the records as Python values."""
        source = bytes(self.source)
        for row in range(self.length):
            key_at, key_length = self.key_position[row], self.key_length[row]
            value_at, value_length = self.value_position[row], self.value_length[row]
            count = self.headers_count[row]
            yield Message(
                source[value_at : value_at + value_length] if value_length >= 0 else None,
                source[key_at : key_at + key_length] if key_length >= 0 else None,
                self.timestamp[row],
                header_pairs(source, self.headers_position[row], count) if count else (),
            )
