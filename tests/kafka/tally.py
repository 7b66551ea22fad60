"""Counts comparisons of kdump with Kafka, by release and by what is compared, for docs/kafka.md."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import pytest

_SHOWN = 15


class Column(StrEnum):
    """What is compared: the columns of the table in docs/kafka.md."""

    READ = "read"
    VERIFY = "verify"
    FORECAST = "forecast"
    DUMP = "dump"
    WRITE = "write"


@dataclass(slots=True)
class Comparison:
    """Many comparisons of one test; each counts, and a test that has differences ends with all of them."""

    done: int = 0
    differences: list[str] = field(default_factory=list)

    def same(self, what: str, kdumps: object, kafkas: object) -> None:
        self.done += 1
        if kdumps != kafkas:
            self.differences.append(f"{what}: kdump {_short(kdumps)}, Kafka {_short(kafkas)}")

    def holds(self, what: str, truth: bool) -> None:
        self.done += 1
        if not truth:
            self.differences.append(what)

    def agreed(self, number: int) -> None:
        """So many more were compared, and are the same."""
        self.done += number


def summed(results: Iterable[Mapping[str, Mapping[str, Sequence[int]]]]) -> dict[str, dict[str, tuple[int, int]]]:
    """The counts of several runs (see Tally.write) together."""
    found: dict[str, dict[str, tuple[int, int]]] = {}
    for result in results:
        for release, cells in result.items():
            for column, (made, differed) in cells.items():
                before = found.setdefault(release, {}).get(column, (0, 0))
                found[release][column] = before[0] + made, before[1] + differed
    return found


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 600 else f"{text[:600]}…"


class Tally:
    """Counts of a run: (release, column) → comparisons made, and those that differed."""

    def __init__(self) -> None:
        self.made: Counter[tuple[str, Column]] = Counter()
        self.differed: Counter[tuple[str, Column]] = Counter()

    @contextmanager
    def of(self, release: str, column: Column) -> Iterator[Comparison]:
        """The comparisons of a test, which fails at their end with all differences, or where it compared nothing."""
        comparison = Comparison()
        try:
            yield comparison
        finally:
            self.made[release, column] += comparison.done
            self.differed[release, column] += len(comparison.differences)
        if not comparison.done:
            pytest.fail(f"{release}: nothing was compared", pytrace=False)
        if comparison.differences:
            shown = "\n".join(comparison.differences[:_SHOWN])
            total = len(comparison.differences)
            pytest.fail(f"{release}: {total} of {comparison.done} comparisons differ:\n{shown}", pytrace=False)

    def write(self, path: Path) -> None:
        """Keep the counts as JSON: release → column → [made, differed]."""
        cells: dict[str, dict[str, list[int]]] = {}
        for (release, column), made in sorted(self.made.items()):
            cells.setdefault(release, {})[column] = [made, self.differed[release, column]]
        path.write_text(json.dumps(cells, indent=2) + "\n")
