"""Records encoded out of columns: the same bytes from each set of kernels, and those of the plain encoder."""

from __future__ import annotations

from array import array
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.formats.encode import NewRecord, encode_record
from kdump.write.record_source import Message, RecordSource
from tests.kernels.reading import KERNELS

PARTS = st.one_of(st.none(), st.binary(max_size=40), st.integers(62, 66).map(bytes), st.just(bytes(9000)))
HEADERS = st.lists(st.tuples(st.binary(max_size=5), st.one_of(st.none(), st.binary(max_size=70))), max_size=3)
TIMESTAMPS = st.one_of(st.integers(-1, 1 << 45), st.integers(-(1 << 63), (1 << 63) - 1))
MESSAGES = st.lists(st.builds(Message, PARTS, PARTS, TIMESTAMPS, HEADERS.map(tuple)), min_size=1, max_size=8)
KERNEL = st.sampled_from(KERNELS)


def expected(messages: list[Message]) -> list[bytes]:
    base = messages[0].timestamp
    records = (NewRecord(row, each.timestamp, each.key, each.value, each.headers) for row, each in enumerate(messages))
    return [encode_record(record, 0, base) for record in records]


@given(KERNEL, MESSAGES, st.integers(0, 9))
def test_same_as_the_plain_encoder(kernel: ModuleType, messages: list[Message], reserve: int) -> None:
    data, after = kernel.encode(RecordSource.of(messages), 0, len(messages), 1 << 30, reserve)
    assert (data, after) == (bytes(reserve) + b"".join(expected(messages)), len(messages))


@given(KERNEL, MESSAGES, st.integers(0, 400), st.data())
def test_limit_and_start(kernel: ModuleType, messages: list[Message], limit: int, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(messages) - 1))
    parts = expected(messages[first:])
    taken, size = 1, 5 + len(parts[0])
    while taken < len(parts) and size + len(parts[taken]) <= limit:
        size += len(parts[taken])
        taken += 1
    encoded, after = kernel.encode(RecordSource.of(messages), first, len(messages), limit, 5)
    assert (bytes(encoded[5:]), after) == (b"".join(parts[:taken]), first + taken)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("key_position", -1),
        ("key_position", 7),
        ("key_length", 1 << 40),
        ("value_position", 1 << 62),
        ("value_length", (1 << 63) - 1),
        ("headers_position", -(1 << 63)),
        ("headers_length", -1),
        ("headers_length", 99),
        ("headers_count", -1),
    ],
)
def test_what_leads_out_of_the_source(kernel: ModuleType, column: str, value: int) -> None:
    source = RecordSource.of([Message(b"v", b"k", 0, ((b"h", b"x"),)), Message(b"v", b"k", 0, ((b"h", b"x"),))])
    getattr(source, column)[1] = value
    if column == "key_position" and value == 7:
        source.key_length[1] = 10
    with pytest.raises(ValueError, match="row 1 is not inside the source"):
        kernel.encode(source, 0, 2, 1 << 30, 0)


@pytest.mark.parametrize(("first", "stop", "reserve"), [(-1, 1, 0), (0, 0, 0), (1, 1, 0), (0, 2, 0), (0, 1, -1)])
def test_rows_that_are_not_there(kernel: ModuleType, first: int, stop: int, reserve: int) -> None:
    with pytest.raises(ValueError, match="rows outside the columns"):
        kernel.encode(RecordSource.of([Message(b"v")]), first, stop, 1 << 30, reserve)


def test_columns_of_other_lengths(kernel: ModuleType) -> None:
    source = RecordSource.of([Message(b"v"), Message(b"w")])
    source.timestamp = array("q", [1])
    with pytest.raises((ValueError, IndexError)):
        kernel.encode(source, 0, 2, 1 << 30, 0)
