"""Packing: where batches end, that columns and values give the same, and what no format has room for."""

from __future__ import annotations

from array import array
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.blocks import BatchBlock
from kdump.formats.codecs import GZIP, LZ4, NONE, SNAPPY, ZSTD
from kdump.storage.records import Record, records_of
from kdump.write.errors import InvalidTimestampError, UnsupportedForMessageFormatError
from kdump.write.incoming import BatchReader
from kdump.write.packing import Packing, pack
from kdump.write.record_source import Message, RecordSource

HEADERS = st.lists(st.tuples(st.binary(max_size=5), st.one_of(st.none(), st.binary(max_size=9))), max_size=2)
PARTS = st.one_of(st.none(), st.binary(max_size=300))
TIMESTAMPS = st.integers(-1, 1 << 45)
MESSAGES = st.lists(st.builds(Message, PARTS, PARTS, TIMESTAMPS, HEADERS.map(tuple)), max_size=12)
BARE = st.lists(st.builds(Message, PARTS, PARTS, TIMESTAMPS, st.just(())), max_size=12)
SIZES = st.integers(1, 1500)
FORMATS = [(magic, codec) for magic in (0, 1) for codec in (NONE, GZIP, SNAPPY, LZ4)]
FORMATS += [(2, codec) for codec in (NONE, GZIP, SNAPPY, LZ4, ZSTD)]


def read(data: bytes | bytearray) -> BatchBlock:
    return BatchReader("topic-0").read(data)


def records(data: bytes | bytearray) -> list[Message]:
    found = []
    for record in records_of(read(data)):
        assert isinstance(record, Record)
        found.append(Message(record.value, record.key, record.timestamp, record.headers))
    return found


@given(MESSAGES, SIZES, st.integers(1, 12), st.sampled_from([NONE, ZSTD]))
def test_columns_pack_like_values(messages: list[Message], size: int, most: int, codec: int) -> None:
    packing = Packing(2, codec, None, size, most, producer_id=1, producer_epoch=0, base_sequence=9)
    packed = list(pack(messages, packing))
    assert list(pack(RecordSource.of(messages), packing)) == packed
    assert [message for data in packed for message in records(data)] == messages


@given(BARE, SIZES, st.integers(1, 12), st.sampled_from([each for each in FORMATS if each[0] < 2]))
def test_old_formats(messages: list[Message], size: int, most: int, how: tuple[int, int]) -> None:
    packing = Packing(*how, batch_bytes=size, batch_records=most)
    packed = list(pack(messages, packing))
    assert list(pack(RecordSource.of(messages), packing)) == packed
    expected = messages if packing.magic else [message._replace(timestamp=-1) for message in messages]
    assert [message for data in packed for message in records(data)] == expected
    assert all(len(records(data)) <= most for data in packed)


@given(MESSAGES)
def test_columns_hold_what_they_were_made_of(messages: list[Message]) -> None:
    found = [message._replace(headers=tuple(message.headers)) for message in RecordSource.of(messages).messages()]
    assert found == messages


@given(MESSAGES, SIZES)
def test_batch_is_as_full_as_it_may_be(messages: list[Message], size: int) -> None:
    packed = list(pack(messages, Packing(batch_bytes=size)))
    for data, following in pairwise(packed):
        assert len(data) <= size or read(data).count[0] == 1
        more = [*records(data), records(following)[0]]
        assert len(next(pack(more, Packing(batch_bytes=1 << 20)))) > size


def test_sequence_numbers_go_on_from_batch_to_batch_and_wrap() -> None:
    packing = Packing(batch_records=2, producer_id=7, producer_epoch=3, base_sequence=(1 << 31) - 3, transactional=True)
    blocks = list(map(read, pack([Message(b"v")] * 5, packing)))
    assert [block.base_sequence[0] for block in blocks] == [(1 << 31) - 3, (1 << 31) - 1, 1]
    assert [block.count[0] for block in blocks] == [2, 2, 1]


@pytest.mark.parametrize("messages", [[], RecordSource.of([])])
def test_nothing_makes_no_batch(messages: Any) -> None:
    assert list(pack(messages, Packing())) == []
    assert list(pack(messages, Packing(magic=1))) == []


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ({"magic": 1, "codec": ZSTD}, "ZStandard compression is not supported for magic 1"),
        ({"magic": 0, "producer_id": 5}, "Idempotent messages are not supported for magic 0"),
        ({"transactional": True}, "without a valid producer ID"),
        ({"producer_id": 5}, "negative producer epoch"),
        ({"producer_id": 5, "producer_epoch": 0}, "negative sequence number"),
    ],
)
def test_impossible_packings(how: dict[str, Any], text: str) -> None:
    with pytest.raises(UnsupportedForMessageFormatError, match=text):
        Packing(**how)


@pytest.mark.parametrize("magic", [0, 1])
def test_headers_in_old_formats(magic: int) -> None:
    with pytest.raises(UnsupportedForMessageFormatError, match="does not support record headers"):
        list(pack([Message(b"v", headers=((b"h", b"x"),))], Packing(magic)))


@pytest.mark.parametrize("magic", [1, 2])
def test_negative_timestamps(magic: int) -> None:
    messages = [Message(b"v", timestamp=5), Message(b"v", timestamp=-2)]
    for given_ in (messages, RecordSource.of(messages)):
        with pytest.raises(InvalidTimestampError, match="Invalid negative timestamp -2"):
            list(pack(given_, Packing(magic)))


def test_columns_have_to_be_of_one_length() -> None:
    with pytest.raises(ValueError, match="different lengths"):
        RecordSource(b"abc", array("q", [0, 1]), array("q", [1, 1]), timestamp=array("q", [5]))


def test_columns_without_keys_times_and_headers() -> None:
    source = RecordSource(b"abcdef", array("q", [3, 0]), array("q", [3, -1]))
    assert list(source.messages()) == [Message(b"def"), Message(None)]
    assert len(source) == 2
