"""What kafka-dump-log remembers while it prints, and reports on stderr when all files are done."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

_BUCKETS = 16
"""With how many buckets the hash maps begin, of Scala and of Java."""


class Found:
    """Pairs of numbers by the absolute path of a file, in the order of the hash map that Kafka's tool keeps them in."""

    def __init__(self, *, is_java: bool) -> None:
        self._is_java = is_java
        self._pairs: dict[str, list[tuple[int, int]]] = {}
        self._buckets = _BUCKETS

    def add(self, path: str, first: int, second: int) -> None:
        """Remember a pair."""
        limit = self._buckets * 3 // 4
        size = len(self._pairs)
        # both look before they add: Scala whether one more reaches the limit, Java's computeIfAbsent whether it is past
        if size > limit if self._is_java else size + 1 >= limit:
            self._buckets *= 2
        self._pairs.setdefault(os.path.abspath(path), []).append((first, second))

    def __iter__(self) -> Iterator[tuple[str, list[tuple[int, int]]]]:
        """Bucket by bucket: in one of Scala's by hash, in one of Java's the latest first."""
        paths = list(self._pairs)
        if self._is_java:
            paths.reverse()
            paths.sort(key=lambda path: _spread(path) & self._buckets - 1)
        else:
            paths.sort(key=lambda path: (_spread(path) & self._buckets - 1, _spread(path)))
        return ((path, self._pairs[path]) for path in paths)


def _spread(path: str) -> int:
    """Return the hash of a text as both hash maps improve it: signed, 32 bits."""
    from kdump.formats.schemas.java_values import string_hash

    plain = string_hash(os.fsencode(path).decode("utf-8", "replace")) & 0xFFFFFFFF
    return ((plain ^ plain >> 16) ^ 0x80000000) - 0x80000000


class Report:
    """Pairs of numbers that do not fit, by the absolute path of the file that they were found in.

    Up to Kafka 4.2 they are printed latest first; the tool in Java keeps index entries by offset in descending order,
    and gaps by the offset in front of them in ascending order: one for each.
    """

    def __init__(self, *, is_java: bool) -> None:
        self.notes: list[str] = []
        self._is_java = is_java
        self.mismatches = Found(is_java=is_java)
        """Entries of an offset index that do not name the last offset of the batch at their position: both offsets."""
        self.time_mismatches = Found(is_java=is_java)
        """Entries of a time index that do not name the largest timestamp of their batch's records: both timestamps."""
        self.out_of_order = Found(is_java=is_java)
        """Entries of a time index whose timestamp is not above the one before: both timestamps."""
        self.not_found = Found(is_java=is_java)
        """Offsets of a time index at which no batch ends, each with that at which one does; -1: none reaches it."""
        self._gaps = Found(is_java=is_java)

    def gaps(self, path: str, offsets: Iterable[int]) -> None:
        """Take offsets of consecutive records that do not follow each other, as a flat sequence of pairs."""
        each = iter(offsets)
        for before, after in zip(each, each, strict=True):
            self._gaps.add(path, before, after)

    def lines(self) -> Iterator[str]:
        """Yield the report, in the order of Kafka's tool."""
        yield from self.notes
        for path, pairs in self.mismatches:
            yield f"Mismatches in :{path}"
            ordered = sorted(dict(pairs).items(), reverse=True) if self._is_java else reversed(pairs)
            yield from (f"  Index offset: {a}, log offset: {b}" for a, b in ordered)
        for path, pairs in self.time_mismatches:
            yield f"Found timestamp mismatch in :{path}"
            yield from (f"  Index timestamp: {a}, log timestamp: {b}" for a, b in pairs)
        for path, pairs in self.out_of_order:
            yield f"Found out of order timestamp in :{path}"
            yield from (f"  Index timestamp: {a}, Previously indexed timestamp: {b}" for a, b in pairs)
        for path, pairs in self.not_found:
            where = f":{path}" if self._is_java else "the log."
            yield f"The following indexed offsets are not found in {where}"
            yield from (f"Indexed offset: {a}, found log offset: {b}" for a, b in pairs)
        for path, pairs in self._gaps:
            yield f"Non-consecutive offsets in {path}"
            ordered = sorted(dict(pairs).items()) if self._is_java else reversed(pairs)
            yield from (f"  {a} is followed by {b}" for a, b in ordered)
