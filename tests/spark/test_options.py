"""Options: what each takes, and what is said about one that does not exist or makes no sense."""

from __future__ import annotations

import re

import pytest

from kdump.spark.options import OptionError, Replicas, RowKind, local_path, read_options
from kdump.spark.schema import ADDED, COLUMNS, DECODED, column_names, ddl
from kdump.spark.write_options import check_columns, write_options
from tests.spark.building import options_of


def test_everything_has_a_default() -> None:
    found = options_of("/data")
    assert (found.paths, found.kind, found.fails, found.replicas) == (("/data",), "records", True, "one")
    assert column_names(found) == ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
    assert "headers" in ddl(options_of("/data", includeHeaders=True))


def test_names_and_words_in_any_case() -> None:
    found = read_options({"PATH": "/data", "KIND": "Batches", "FailOnDataLoss": "FALSE", "replicas": "all"})
    assert (found.kind, found.fails, found.replicas) == (RowKind.BATCHES, False, Replicas.ALL)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "no path"),
        ({"path": ""}, "the path is empty"),
        ({"path": "s3://bucket/x"}, "s3: cannot be read from here: mount it"),
        ({"paths": "/a,/b"}, "expected a JSON list of paths"),
        ({"startingOfsets": "earliest"}, "no option 'startingOfsets': did you mean startingOffsets?"),
        ({"zzz": "1"}, "no option 'zzz': expected one of path, paths"),
        ({"kind": "record"}, "no kind 'record': did you mean records?"),
        ({"failOnDataLoss": "no"}, "failOnDataLoss is 'no': expected true or false"),
        ({"minPartitions": "0"}, "minPartitions is '0': expected a number from 1 on"),
        ({"minPartitions": "many"}, "expected a number from 1 on"),
        ({"partitions": "1-"}, "expected numbers of partitions and ranges"),
        ({"subscribePattern": "("}, "expected a regular expression"),
        ({"assign": '{"t":1}'}, "expected topics with their partitions as JSON"),
        ({"assign": '{"t":["1"]}'}, "expected topics with their partitions as JSON"),
        ({"topics": "a", "subscribePattern": "b"}, "exclude each other"),
        ({"startingOffsets": "middle"}, "expected earliest, latest, or offsets"),
        ({"startingOffsets": '{"t":{"x":1}}'}, "expected earliest, latest, or offsets"),
        ({"startingOffsets": '{"t":{"0":-3}}'}, "expected earliest, latest, or offsets"),
        ({"startingOffsets": '{"t":{"0":true}}'}, "expected earliest, latest, or offsets"),
        ({"startingOffsets": "[" * 100_000}, "expected earliest, latest, or offsets"),
        ({"endingOffsets": "earliest"}, "cannot be earliest"),
        ({"endingOffsets": '{"t":{"0":-2}}'}, "cannot be earliest"),
        ({"startingOffsets": "latest", "startingTimestamp": "5"}, "exclude each other"),
        ({"startingTimestamp": "yesterday"}, "expected a number"),
        ({"severities": "KD-LOG-CRC"}, "expected CODE=level"),
    ],
)
def test_what_is_wrong_is_said(options: dict[str, str], text: str) -> None:
    paths = {} if {"path", "paths"} & set(options) or not options else {"path": "/data"}
    with pytest.raises(OptionError, match=re.escape(text)):
        read_options({**paths, **options})


@pytest.mark.parametrize(
    ("columns", "text"),
    [("valu", "did you mean value?"), ("zzzzzzz", "there are key, value"), ("value,VALUE", "names a column twice")],
)
def test_columns_are_checked(columns: str, text: str) -> None:
    with pytest.raises(OptionError, match=re.escape(text)):
        ddl(options_of("/data", columns=columns))


def test_columns_in_the_order_asked_for() -> None:
    assert column_names(options_of("/data", columns="Offset, key", includeHeaders=True)) == ("offset", "key", "headers")


@pytest.mark.parametrize("kind", COLUMNS)
def test_every_kind_has_columns(kind: str) -> None:
    names = [name for name in COLUMNS[kind] if name not in ADDED or name in DECODED]  # the rest needs decode=columns
    assert ddl(options_of("/data", kind=kind, columns=",".join(names))).count("`") == 2 * len(names)


@pytest.mark.parametrize(
    ("path", "expected"),
    [("/a/b", "/a/b"), ("file:/a/b", "/a/b"), ("file:///a%20b", "/a b"), ("/odd:name/x", "/odd:name/x")],
)
def test_paths(path: str, expected: str) -> None:
    assert local_path(path) == expected


# --- which partitions


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"topics": "a*"}, {("a", 0), ("ab", 3)}),
        ({"subscribe": "a,b"}, {("a", 0), ("b", 9)}),
        ({"subscribePattern": "a."}, {("ab", 3)}),
        ({"assign": {"b": [9, 1]}}, {("b", 9)}),
        ({"partitions": "0,8-9"}, {("a", 0), ("b", 9)}),
        ({"topics": "b", "partitions": "0"}, set()),
    ],
)
def test_topics_and_partitions(options: dict[str, object], wanted: set[tuple[str, int]]) -> None:
    found = options_of("/data", **options)
    assert {each for each in (("a", 0), ("ab", 3), ("b", 9)) if found.wants(*each)} == wanted
    assert found.chooses


# --- writing


def test_kafkas_own_names_configure_a_topic() -> None:
    found = write_options({"path": "/d", "topic": "t", "segment.bytes": "5000", "codec": "zstd", "codeclevel": "7"})
    assert (found.config.segment_bytes, found.packing.codec, found.packing.level) == (5000, 4, 7)
    found = write_options({"path": "/d", "compression.type": "lz4", "batchBytes": "100"})
    assert (found.packing.codec, found.packing.batch_bytes) == (3, 100)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "no path"),
        ({"path": "/d", "topic": "../x"}, "cannot be a topic's name"),
        ({"path": "/d", "topic": ".."}, "cannot be a topic's name"),
        ({"path": "/d", "topic": "a" * 250}, "cannot be a topic's name"),
        ({"path": "/d", "segment.bytes": "x"}, "segment.bytes is 'x'"),
        ({"path": "/d", "codec": "zst"}, "did you mean zstd?"),
        ({"path": "/d", "codecLevel": "3"}, "none has no levels"),
        ({"path": "/d", "codec": "gzip", "codecLevel": "30"}, "gzip has the levels 1 to 9"),
        ({"path": "/d", "topics": "a"}, "did you mean topic?"),
    ],
)
def test_what_is_wrong_with_a_write_is_said(options: dict[str, str], text: str) -> None:
    with pytest.raises(OptionError, match=re.escape(text)):
        write_options(options)


@pytest.mark.parametrize(
    ("types", "topic", "text"),
    [
        ({"key": "binary"}, "t", "no column value"),
        ({"value": "int"}, "t", "column value is int: expected binary or string"),
        ({"value": "string"}, None, "neither a column topic nor an option"),
        ({"value": "string", "partition": "bigint"}, "t", "column partition is bigint: expected int"),
    ],
)
def test_columns_to_write(types: dict[str, str], topic: str | None, text: str) -> None:
    with pytest.raises(OptionError, match=text):
        check_columns(types, topic)
    assert check_columns({"Value": "string", "offset": "bigint", "topic": "string"}, None) == ("value", "topic")
