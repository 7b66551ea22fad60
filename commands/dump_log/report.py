"""What kafka-dump-log remembers while it prints, and reports on stderr when all files are done."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

Pairs = dict[str, list[tuple[int, int]]]


class Report:
    """Pairs of numbers that do not fit, by the absolute path of the file that they were found in."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self._mismatches: Pairs = {}
        self._time_mismatches: Pairs = {}
        self._out_of_order: Pairs = {}
        self._not_found: Pairs = {}
        self._gaps: Pairs = {}

    def mismatch(self, path: str, index_offset: int, log_offset: int) -> None:
        """An entry of an offset index does not name the last offset of the batch at its position."""
        _add(self._mismatches, path, index_offset, log_offset)

    def time_mismatch(self, path: str, index_timestamp: int, log_timestamp: int) -> None:
        """An entry of a time index does not name the largest timestamp of its batch's records."""
        _add(self._time_mismatches, path, index_timestamp, log_timestamp)

    def out_of_order(self, path: str, index_timestamp: int, previous: int) -> None:
        """A time index does not increase."""
        _add(self._out_of_order, path, index_timestamp, previous)

    def not_found(self, path: str, index_offset: int, log_offset: int) -> None:
        """No batch ends at the offset of a time index entry; -1: none reaches it."""
        _add(self._not_found, path, index_offset, log_offset)

    def gaps(self, path: str, offsets: Iterable[int]) -> None:
        """Offsets of consecutive records that do not follow each other, as a flat sequence of pairs."""
        each = iter(offsets)
        for before, after in zip(each, each, strict=True):
            _add(self._gaps, path, before, after)

    def lines(self) -> Iterator[str]:
        """The report, in the order of Kafka's tool."""
        yield from self.notes
        for path, pairs in self._mismatches.items():
            yield f"Mismatches in :{path}"
            yield from (f"  Index offset: {a}, log offset: {b}" for a, b in reversed(pairs))
        for path, pairs in self._time_mismatches.items():
            yield f"Found timestamp mismatch in :{path}"
            yield from (f"  Index timestamp: {a}, log timestamp: {b}" for a, b in pairs)
        for path, pairs in self._out_of_order.items():
            yield f"Found out of order timestamp in :{path}"
            yield from (f"  Index timestamp: {a}, Previously indexed timestamp: {b}" for a, b in pairs)
        for pairs in self._not_found.values():
            yield "The following indexed offsets are not found in the log."
            yield from (f"Indexed offset: {a}, found log offset: {b}" for a, b in pairs)
        for path, pairs in self._gaps.items():
            yield f"Non-consecutive offsets in {path}"
            yield from (f"  {a} is followed by {b}" for a, b in reversed(pairs))


def _add(found: Pairs, path: str, first: int, second: int) -> None:
    found.setdefault(os.path.abspath(path), []).append((first, second))
