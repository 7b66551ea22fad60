"""Timestamps that cannot be meant, and what keeps a segment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kdump.check.timestamps import distance
from kdump.findings.finding import Finding
from kdump.formats.batch import LOG_APPEND_TIME
from kdump.formats.codecs import GZIP
from kdump.formats.encode import NewBatch, encode_batch
from kdump.formats.iso_times import shown
from kdump.formats.time_units import unit_of
from tests.verify.building import NOW, TIME, Log, batch, build, entry, produced, records, touch

DAY = 86_400_000


def of_code(log: Log, code: str, **options: Any) -> list[Finding]:
    return [finding for finding in log.findings(**options) if finding.code == f"KD-TIME-{code}"]


def held(folder: Path, *batches: bytes, **options: Any) -> Finding:
    (finding,) = of_code(build(folder / "data", {0: batches}, epochs=""), "HELD", **options)
    return finding


@pytest.mark.parametrize(
    ("timestamp", "unit"),
    [
        (TIME, None),
        (NOW + 30 * 60_000, None),
        (TIME // 1000, "seconds"),
        (TIME * 1000, "microseconds"),
        (TIME * 1_000_000, "nanoseconds"),
        (0, None),
        (NOW + 400 * DAY, None),
        ((1 << 63) - 1, None),
    ],
)
def test_the_unit_that_was_meant(timestamp: int, unit: str | None) -> None:
    assert unit_of(timestamp, NOW) == unit


@pytest.mark.parametrize(
    ("timestamp", "text"),
    [
        (TIME // 1000, "1700000000 is a time in seconds; as ms it is 53 years before the clock"),
        (TIME * 1000, "1700000000000000 is a time in microseconds; as ms it is 53852 years ahead of the clock"),
    ],
)
def test_a_wrong_unit_is_said_with_how_far_off_it_is(tmp_path: Path, timestamp: int, text: str) -> None:
    log = build(tmp_path / "data", {0: [batch(0, 1, timestamp=timestamp)]})
    (finding,) = of_code(log, "UNIT")
    assert finding.message.startswith(f"1 of 1 batches, the first at offset 0: {text}, ")
    assert of_code(log, "FUTURE") == []


def test_the_future_is_an_hour_away(tmp_path: Path) -> None:
    log = build(tmp_path / "data", {0: [batch(0, 1, timestamp=NOW)]})
    assert of_code(log, "FUTURE") == []
    assert of_code(log, "FUTURE", now=NOW - 3_600_000) == []
    (finding,) = of_code(log, "FUTURE", now=NOW - 3_600_001)
    assert "the first is 1.0 hours ahead" in finding.message


def test_order_counts_the_batches_that_are_older_than_the_one_before(tmp_path: Path) -> None:
    times = (TIME + 50, TIME + 40, TIME + 60, -1, TIME + 70, TIME + 60)
    log = build(tmp_path / "data", {0: [batch(n, 1, timestamp=time) for n, time in enumerate(times)]})
    (finding,) = of_code(log, "ORDER")
    assert (finding.offset, finding.message.partition(" batches")[0]) == (1, "2 of 6")


def test_negative_base_timestamps(tmp_path: Path) -> None:
    log = build(tmp_path / "data", {0: [batch(0, base_timestamp=-7)]})
    (finding,) = of_code(log, "NEGATIVE")
    assert finding.message.endswith("the first is -7")


def test_the_record_that_holds_a_segment(tmp_path: Path) -> None:
    late = [record._replace(timestamp=TIME + 900 if record.offset == 4 else TIME) for record in records(2, 5)]
    finding = held(tmp_path, batch(0), encode_batch(late, NewBatch()))
    assert (finding.position, finding.offset) == (len(batch(0)), 4)
    assert finding.message == (
        "the largest timestamp 2023-11-14T22:13:20.900Z is that of the record at offset 4 in the batch with"
        " offsets 2\N{EN DASH}6: retention.ms=604800000 keeps the segment until 2023-11-21T22:13:20.900Z"
    )


def test_the_batch_that_holds_a_segment_where_no_record_can_be_named(tmp_path: Path) -> None:
    for name, data, deep, text in (
        ("packed", batch(0, attributes=GZIP), False, "is that of the batch with offsets 0\N{EN DASH}1:"),
        ("unpacked", batch(0, attributes=GZIP), True, "is that of the record at offset 1 in the batch"),
        ("appended", batch(0, attributes=LOG_APPEND_TIME), True, "is that of the batch with offsets 0\N{EN DASH}1:"),
        ("wrapper", entry(1, GZIP, 0), False, "is that of the batch with offset 1:"),
        ("wrapper-deep", entry(1, GZIP, 0), True, "is that of the record at offset 1 in the batch with offset"),
        ("producer", produced(0, 7, 0), True, "in the batch of producer 7 with offsets 0\N{EN DASH}1:"),
    ):
        assert text in held(tmp_path / name, data, deep=deep).message
    limited = held(tmp_path / "limited", batch(0, attributes=GZIP), limit=10)
    assert "is that of the batch with offsets 0\N{EN DASH}1:" in limited.message


def test_without_timestamps_the_file_s_time_counts(tmp_path: Path) -> None:
    log = build(tmp_path / "data", {0: [batch(0, 1, timestamp=-1)]})
    touch(log.path(0, "log"), TIME)
    (finding,) = of_code(log, "HELD", retention_ms=DAY)
    assert finding.message == (
        "no timestamp, so the file's time counts, 2023-11-14T22:13:20.000Z: retention.ms=86400000 keeps"
        " the segment until 2023-11-15T22:13:20.000Z"
    )


def test_one_batch_of_another_type_among_many(tmp_path: Path) -> None:
    def types(name: str, *attributes: int) -> int:
        batches = [batch(2 * n, attributes=each) for n, each in enumerate(attributes)]
        return len(of_code(build(tmp_path / name, {0: batches}), "TYPE"))

    other = LOG_APPEND_TIME
    assert types("one", 0, other, 0, 0) == 1
    assert types("switched", 0, 0, other, other) == 0
    assert types("last", 0, 0, 0, other) == 0
    assert types("many", 0, other, 0, other) == 0


def test_lengths_and_times_for_people() -> None:
    assert [distance(ms) for ms in (5000, 7_200_000, 5 * DAY, 800 * DAY, 4000 * DAY)] == [
        "5 s", "2.0 hours", "5 days", "800 days", "10 years",
    ]  # fmt: skip
    assert shown(0) == "1970-01-01T00:00:00.000Z"
    assert shown(-5) == "-5"
    assert shown(253_402_300_799_999) == "9999-12-31T23:59:59.999Z"
    assert shown(253_402_300_800_000) == "253402300800000"
