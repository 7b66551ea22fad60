"""decode=json: keys and values by their schemas."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdump.spark.options import OptionError
from kdump.spark.schema import column_names, ddl
from tests.schemas.registries import ORDER, avro, framed, partition, schema_record
from tests.spark.building import options_of, rows_of
from tests.topics.building import Log


@pytest.fixture
def root(tmp_path: Path) -> Path:
    partition(tmp_path, schema_record("x-value", 1, 1, ORDER))
    good = framed(1, avro(ORDER, {"id": 7, "note": None}))
    Log(tmp_path / "x-0").add((b"k", good), (b"k", framed(1, b"")), (b"k", b"plain"), (None, None)).write()
    return tmp_path


def test_decoded_columns_stand_beside_the_bytes(root: Path) -> None:
    options = options_of(root / "x-0", decode="json", schemas=str(root / "_schemas-0"))
    rows = list(rows_of(options))
    assert [row["valueJson"] for row in rows] == ['{"id":7,"note":null}', None, None, None]
    assert [row["valueSchemaId"] for row in rows] == [1, 1, None, None]
    assert [row["valueError"] is None for row in rows] == [True, False, True, True]
    assert [row["key"] for row in rows] == [b"k", b"k", b"k", None]
    assert {row["keyJson"] for row in rows} == {None}
    assert "`valueJson` STRING, `valueSchemaId` INT" in ddl(options)


def test_columns_choose_among_them_and_schemas_are_found_beside(root: Path) -> None:
    options = options_of(root, topics="x", columns="valueSchemaId,offset,damage,valueJson,transaction")
    assert column_names(options) == ("valueSchemaId", "offset", "damage", "valueJson", "transaction")
    assert [tuple(row.values())[:2] for row in rows_of(options)] == [(1, 0), (1, 1), (None, 2), (None, 3)]


def test_without_schemas_it_is_an_error(tmp_path: Path) -> None:
    Log(tmp_path / "x-0").add((b"k", b"v")).write()
    with pytest.raises(OptionError, match="give the option schemas"):
        list(rows_of(options_of(tmp_path, decode="json")))


def test_only_json_is_known(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="decode"):
        options_of(tmp_path, decode="columns")
