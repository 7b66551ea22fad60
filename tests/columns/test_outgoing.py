"""Arrow columns to records to be written, and back."""

from __future__ import annotations

import pyarrow as pa
import pytest
from kafka.partitioner.default import murmur2 as kafkas_murmur2

from kdump.columns.arrays import HEADERS
from kdump.errors import InvalidRecordError
from kdump.spark.outgoing import hashes, record_source
from kdump.write.record_source import Message

NOW = 1_700_000_000_000
VALUES = [b"one", None, b"", b"four" * 100]
KEYS = [None, b"k", b"", b"key"]
TIMES = [5_999, None, -1, -1000]
HEADER = {"key": "h", "value": b"x"}
HEADER_LISTS = [None, [HEADER], [], [HEADER, {"key": "ключ", "value": None}]]


@pytest.mark.parametrize("start", [0, 1, 3])
def test_rows_become_records(start: int) -> None:
    """Also those of a slice, whose buffers begin before it."""
    source = record_source(
        pa.array(VALUES, pa.binary()).slice(start),
        pa.array(KEYS, pa.binary()).slice(start),
        pa.array(HEADER_LISTS, HEADERS).slice(start),
        pa.array(TIMES, pa.timestamp("us")).slice(start),
        NOW,
    )
    headers = [(), ((b"h", b"x"),), (), ((b"h", b"x"), ("ключ".encode(), None))]
    expected = [Message(*each) for each in zip(VALUES, KEYS, [5, NOW, -1, -1], headers, strict=True)]
    assert [message._replace(headers=tuple(message.headers)) for message in source.messages()] == expected[start:]


def test_only_values() -> None:
    source = record_source(pa.array([b"v", None], pa.binary()), None, None, None, NOW)
    assert list(source.messages()) == [Message(b"v", None, NOW), Message(None, None, NOW)]


@pytest.mark.parametrize(("unit", "number", "ms"), [("s", 2, 2000), ("ms", 2, 2), ("us", -1, -1), ("ns", 1_999_999, 1)])
def test_units_of_time(unit: str, number: int, ms: int) -> None:
    source = record_source(pa.array([b""], pa.binary()), None, None, pa.array([number], pa.timestamp(unit)), NOW)
    assert source.timestamp[0] == ms


@pytest.mark.parametrize("headers", [[{"key": None, "value": b"x"}], [None]])
def test_headers_need_a_key(headers: list[object]) -> None:
    with pytest.raises(InvalidRecordError, match="header without a key"):
        record_source(pa.array([b""], pa.binary()), None, pa.array([headers], HEADERS), None, NOW)


def test_hashes_of_keys() -> None:
    keys = pa.array([b"skipped", b"21", None, b"", b"foobar"], pa.binary()).slice(1)
    expected = [None if key is None else kafkas_murmur2(key) & 0x7FFFFFFF for key in keys.to_pylist()]
    assert hashes(keys).to_pylist() == expected
    assert hashes(pa.array([], pa.binary())).to_pylist() == []
