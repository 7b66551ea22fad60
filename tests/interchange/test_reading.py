"""What is read of an object or a row: exactly what it says, or an error that names the line and what was meant."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kdump.formats.encode import NewRecord
from kdump.interchange.csv import read_csv
from kdump.interchange.dumped import DumpedBatch, Item
from kdump.interchange.fields import RECORD_COLUMNS, SCHEMA
from kdump.interchange.jsonl import read_jsonl
from kdump.interchange.lines import InterchangeError, Lines, Reading
from tests.commands.logs import write_partition
from tests.commands.running import invoked

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


HEADING = "value,offset,isControl\n"


@pytest.mark.parametrize(
    ("reader", "text", "line", "field", "what"),
    [
        (read_jsonl, '{"value":"a","value":"b"}', 1, "value", "value is given twice: leave one out"),
        (read_jsonl, '{"value":"a","headers":[{"key":"k","key":"l"}]}', 1, "key", "key is given twice"),
        (read_csv, "value,value\na,b\n", 1, "value", "value is given twice: leave one out"),
        (read_csv, "keyBase64,key_base64\na,b\n", 1, "keyBase64", "keyBase64 is given twice"),
        (read_csv, 'value,headers\na,"[{""key"":""k"",""key"":""l""}]"\n', 2, "key", "key is given twice"),
        (read_jsonl, '{"value":"a","codec":"nope"}', 1, "codec", "codec is 'nope': expected one of none, gzip, snappy"),
        (read_jsonl, '{"value":"a","isTransactional":"x"}', 1, "isTransactional", "'x': expected true or false"),
        (read_jsonl, '{"value":"a","isControl":null}', 1, "isControl", "isControl is null: expected true or false"),
        (read_jsonl, '{"value":"a","partition":"0"}', 1, "partition", "partition is '0': expected a number from -2147"),
        (read_jsonl, '{"value":"a","position":1.5}', 1, "position", "position is 1.5: expected a number from"),
        (read_jsonl, '{"value":"a","producerEpoch":40000}', 1, "producerEpoch", "a number from -32768 to 32767"),
        (read_jsonl, '{"value":"a","transaction":"done"}', 1, "transaction", "one of none, committed, aborted"),
        (read_jsonl, '{"value":"a","timestampType":7}', 1, "timestampType", "expected one of NoTimestampType"),
        (read_jsonl, '{"value":"a","topic":["t"]}', 1, "topic", "topic is ['t']: expected text"),
        (read_jsonl, '{"value":"a","headers":["h"]}', 1, "headers", "headers is 'h': expected a list of objects"),
        (read_jsonl, '{"type":"batch","crc":"zz","count":"q"}', 1, "crc", "crc is 'zz': expected a number from 0 "),
        (read_jsonl, '{"type":"batch","crc":1,"count":"q"}', 1, "count", "count is 'q': expected a number from"),
        (read_jsonl, '{"type":"batch","timestampType":"x"}', 1, "timestampType", "one of NoTimestampType, CreateTime"),
        (read_jsonl, '{"type":["record"],"value":"a"}', 1, "type", "an object of type ['record']"),
        (read_csv, f"{HEADING}a,0,false\na,zz,false\n", 3, "offset", "offset is 'zz': expected a number from"),
        (read_csv, f"{HEADING}a,0,maybe\n", 2, "isControl", "isControl is 'maybe': expected true or false"),
        (read_csv, "value,type\na,batch\n", 2, "type", "type is 'batch': expected one of record"),
        (read_csv, "value,magic\na,300\n", 2, "magic", "magic is 300: expected a number from -128 to 127"),
    ],
)
def test_every_field_is_of_its_kind(reader: Reader, text: str, line: int, field: str, what: str) -> None:
    error = error_of(reader, text)
    assert (error.line, error.field) == (line, field)
    assert what in str(error)


def test_fields_of_what_is_skipped_are_of_their_kind_too() -> None:
    for text in ('{"type":"batch","crc":"zz"}', '{"isControl":true,"key":"a","sequence":"x"}'):
        lines = Lines(io.BytesIO(text.encode()), "in")
        with pytest.raises(InterchangeError, match="expected a number"):
            list(read_jsonl(lines, Reading(lambda: CLOCK, keeps_batches=False)))


@pytest.mark.parametrize(
    ("schema", "hint"),
    [
        ('"kdump.ls/9"', "schema is 'kdump.ls/9': expected kdump.dump/1"),
        ('"kdump.dump/2"', "expected kdump.dump/1 (another version of these rows: dump them with --schema 1)"),
        ("null", "schema is null: expected kdump.dump/1"),
    ],
)
def test_a_header_of_other_rows_is_refused(schema: str, hint: str) -> None:
    error = error_of(read_jsonl, f'{{"type":"header","schema":{schema}}}\n{{"value":"a"}}\n')
    assert (error.line, error.field) == (1, "schema")
    assert hint in str(error)


def test_a_header_of_a_dump_and_a_summary_are_skipped() -> None:
    text = '{"type":"header","schema":"kdump.dump/1","new":1}\n{"value":"a"}\n{"type":"summary","exitCode":0}\n'
    assert read(read_jsonl, text) == [NewRecord(-1, CLOCK, None, b"a")]


def test_an_empty_cell_is_as_if_the_column_were_missing() -> None:
    row = ",".join("a" if name == "value" else "" for name in RECORD_COLUMNS)
    assert read(read_csv, f"{','.join(RECORD_COLUMNS)}\n{row}\n") == [NewRecord(-1, CLOCK, None, b"a")]


def test_the_header_of_a_dump_says_this_schema(tmp_path: Path) -> None:
    done = invoked("dump", write_partition(tmp_path / "t-0", segments=1, batches=1), "--format", "jsonl")
    assert f'"schema":"{SCHEMA}"' in done.stdout.splitlines()[0]
    assert [item for item in read(read_jsonl, done.stdout) if isinstance(item, NewRecord)]
