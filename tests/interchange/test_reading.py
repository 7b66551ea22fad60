"""What is read of an object or a row: exactly what it says, or an error that names the line and what was meant."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator

import pytest

from kdump.formats.encode import NewRecord
from kdump.interchange.csv import read_csv
from kdump.interchange.dumped import DumpedBatch, Item
from kdump.interchange.jsonl import read_jsonl
from kdump.interchange.lines import InterchangeError, Lines, Reading

CLOCK = 1_700_000_000_000
Reader = Callable[[Lines, Reading], Iterator[Item]]


def read(reader: Reader, text: str) -> list[Item]:
    return list(reader(Lines(io.BytesIO(text.encode()), "in"), Reading(lambda: CLOCK)))


def error_of(reader: Reader, text: str) -> InterchangeError:
    with pytest.raises(InterchangeError) as caught:
        read(reader, text)
    return caught.value


def test_an_unknown_field_is_refused_with_what_may_have_been_meant() -> None:
    error = error_of(read_jsonl, '{"value":"a"}\n{"key":"k","valu":"b"}\n')
    assert error.line == 2
    assert str(error) == "in, line 2: a record has no field 'valu': did you mean 'value'?"


@pytest.mark.parametrize("text", ['{"hello":1}', "{}", '{"offset":3,"timestamp":5}', '{"type":"record","headers":[]}'])
def test_a_record_with_nothing_in_it_is_refused(text: str) -> None:
    assert "line 1: a record has " in str(error_of(read_jsonl, text))


def test_a_tombstone_is_written() -> None:
    assert read(read_jsonl, '{"key":"k","value":null}') == [NewRecord(-1, CLOCK, b"k", None)]


def test_a_field_of_a_batch_is_none_of_a_record() -> None:
    assert "a record has no field 'baseOffset'" in str(error_of(read_jsonl, '{"value":"a","baseOffset":0}'))
    [batch] = read(read_jsonl, '{"type":"batch","baseOffset":0,"lastOffset":0}')
    assert isinstance(batch, DumpedBatch)


def test_a_header_has_fields_of_its_own() -> None:
    assert "a header has no field 'name'" in str(error_of(read_jsonl, '{"value":"a","headers":[{"name":"h"}]}'))


def test_words_may_be_joined_by_underscores() -> None:
    assert read(read_jsonl, '{"key_base64":"/w==","value":"a"}') == [NewRecord(-1, CLOCK, b"\xff", b"a")]
    assert read(read_csv, "key_base64,value,leader_epoch\n/w==,a,3\n") == [NewRecord(-1, CLOCK, b"\xff", b"a")]


def test_both_spellings_of_one_field_are_refused() -> None:
    assert "given twice" in str(error_of(read_jsonl, '{"keyBase64":"/w==","key_base64":"/w==","value":"a"}'))


def test_microseconds_become_milliseconds() -> None:
    assert read(read_jsonl, '{"value":"a","timestampUs":1234567}') == [NewRecord(-1, 1234, None, b"a")]
    assert read(read_csv, "value,timestamp_us\na,1234567\n") == [NewRecord(-1, 1234, None, b"a")]


def test_an_unknown_column_is_refused() -> None:
    error = error_of(read_csv, "key,vaule\na,b\n")
    assert str(error) == "in, line 1: a record has no field 'vaule': did you mean 'value'?"
