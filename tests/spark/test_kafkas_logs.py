"""Every log that Kafka itself wrote: the rows are those of kdump's own reading, whatever the number of tasks."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kdump.spark.tables import DataLossError
from tests.columns.reading import Case, cases, expected_rows, in_microseconds
from tests.sampling import sampled
from tests.spark.building import options_of, row_of, rows_of

PLAIN = {"includeHeaders": True, "includeControlRecords": True}


def check(case: Case) -> None:
    """Read a case in 1, 2 and many tasks, and within bounds."""
    expected = in_microseconds(expected_rows(case.folder))
    for parts, fails in ((1, False), (2, True), (50, False)):
        options = options_of(case.folder, minPartitions=parts, failOnDataLoss=fails, **PLAIN)
        try:
            assert [row_of(row) for row in rows_of(options)] == expected
        except DataLossError:
            assert fails
            assert case.damage is not None
    if not expected or case.damage is not None:
        return
    topic, _, number = case.folder.name.rpartition("-")
    numbers = random.Random(case.name)
    for _ in range(2):
        first, last = sorted(numbers.choice(expected).offset for _ in range(2))
        bounds = {
            "startingOffsets": {topic: {number: first}},
            "endingOffsets": {topic: {number: last + 1}},
        }
        options = options_of(case.folder, minPartitions=numbers.choice((1, 20)), **PLAIN, **bounds)
        found = [row_of(row) for row in rows_of(options)]
        assert found == [row for row in expected if first <= row.offset <= last]
    times = [row.timestamp // 1000 for row in expected if row.timestamp > 0]
    if times:
        since = numbers.choice(times)
        at = next(place for place, row in enumerate(expected) if row.timestamp >= since * 1000)
        options = options_of(case.folder, startingTimestamp=since, **PLAIN)
        assert [row_of(row) for row in rows_of(options)] == expected[at:]
        options = options_of(case.folder, endingTimestamp=since, **PLAIN)
        assert [row_of(row) for row in rows_of(options)] == expected[:at]


@pytest.mark.parametrize("case", sampled(cases(), 8), ids=lambda case: case.name)
def test_the_fixtures(case: Case) -> None:
    check(case)


def test_the_whole_corpus(corpus: Path) -> None:
    every = cases(corpus)
    assert len(every) > 500
    for case in every[::4]:
        check(case)
