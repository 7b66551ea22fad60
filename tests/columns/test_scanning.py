"""Records of partitions as an Arrow stream, and as a LazyFrame."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest

import kdump.polars
from kdump.columns.scanning import Scan, scan
from kdump.errors import KdumpError
from kdump.query.selection import Selection
from kdump.storage.decoded import DamagedError
from tests.topics.building import NOW, Log

COLUMNS = ("topic", "partition", "offset", "timestamp", "key")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Three partitions of two topics; the times go up a millisecond a batch, one record has none."""
    for name in ("a-0", "a-1", "b-0"):
        log = Log(tmp_path / name)
        for number in range(6):
            log.add(*[(b"%d" % number, b"")] * 3)
            if number % 2:
                log.roll()
        log.add((b"no time", b""), at=-1).write()
    return tmp_path


class Reads:
    """What reached the reader of the files: the bounds and columns of each query."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.scans: list[Scan] = []
        rows = Scan.rows

        def seen(one: Scan) -> Any:
            self.scans.append(one)
            return rows(one)

        patch.setattr(Scan, "rows", seen)

    @property
    def last(self) -> Scan:
        return self.scans[-1]


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    return Reads(monkeypatch)


def test_every_reader_of_streams_gets_all_rows(data: Path) -> None:
    records = scan(data, columns=COLUMNS)
    table = pa.table(records)
    assert table.num_rows == 3 * 19
    assert pl.DataFrame(records).height == 3 * 19
    counted = duckdb.sql("select count(*) from records")
    assert counted is not None
    assert counted.fetchall() == [(57,)]
    assert pa.table(records).equals(table)
    assert [(row["topic"], row["partition"]) for row in table.to_pylist()][::19] == [("a", 0), ("a", 1), ("b", 0)]
    assert table["offset"].to_pylist() == [*range(19)] * 3


class Stream:
    """Nothing but Arrow's C stream: a reader that asks for anything of pyarrow's does not find it."""

    def __init__(self, records: Scan) -> None:
        self._records = records

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._records.__arrow_c_stream__(requested_schema)


def test_readers_need_nothing_but_the_c_stream(data: Path) -> None:
    stream = Stream(scan(data, columns=COLUMNS, topics=["a"]))
    frame = pl.DataFrame(stream)
    assert frame.columns == list(COLUMNS)
    assert len(frame) == 38
    counted = duckdb.sql("select count(*), count(distinct partition) from stream")
    assert counted is not None
    assert counted.fetchall() == [(38, 2)]


def test_topics_partitions_offsets_and_isolation(data: Path) -> None:
    found = scan(data, topics=["a*"], partitions=[1], columns=["offset"], selection=Selection(2, 5))
    assert pa.table(found)["offset"].to_pylist() == [2, 3, 4]
    Log(data / "t-0").add((b"x", b""), producer=(1, 0)).write()
    assert pa.table(scan(data / "t-0", isolation="read_committed")).num_rows == 0


def test_damage_is_an_error_unless_it_is_skipped(data: Path) -> None:
    log = min((data / "a-0").glob("*.log"))
    content = bytearray(log.read_bytes())
    content[70] ^= 1
    log.write_bytes(content)
    with pytest.raises(DamagedError, match="byte 0"):
        list(scan(data).batches())
    assert sum(batch.num_rows for batch in scan(data, errors="skip").batches()) == 54


@pytest.mark.parametrize("columns", [["ofset"], ["offset", "none"]])
def test_a_column_that_there_is_not(columns: list[str], data: Path) -> None:
    with pytest.raises(KdumpError, match="there is no column"):
        scan(data, columns=columns)


def test_what_is_not_asked_for_is_not_read(data: Path, reads: Reads) -> None:
    bounds = Selection(5, 8, since=NOW)
    frame = kdump.polars.scan(data, topics=["a"], partitions=[1], selection=bounds).filter(pl.col("offset") > 5)
    assert frame.select("key").collect()["key"].to_list() == [b"2", b"2"]
    assert reads.last.columns == ("offset", "key")
    assert (reads.last.topics, reads.last.partitions, reads.last.selection) == (("a",), frozenset({1}), bounds)


US = datetime.timedelta(microseconds=1)
MOMENT = datetime.datetime.fromtimestamp(NOW / 1000, datetime.UTC) + datetime.timedelta(milliseconds=2)


@pytest.mark.parametrize(
    "predicate",
    [
        (pl.col("offset") < 3) | (pl.col("offset") > 15),
        ~(pl.col("offset") < 3),
        pl.col("offset") * 2 < 7,
        pl.col("offset").is_in([1, 2]) & (pl.col("partition") < 1),
        (pl.col("topic") == "b") & pl.col("key").is_not_null(),
        (pl.col("partition") == 0) & (pl.col("partition") == 1),
        pl.col("offset") == pl.col("partition"),
        pl.col("timestamp") >= MOMENT - US,
        pl.col("timestamp").is_between(MOMENT - US, MOMENT + US, closed="none"),
    ],
)
def test_a_predicate_gives_the_same_rows_wherever_it_is_applied(predicate: pl.Expr, data: Path) -> None:
    frame = kdump.polars.scan(data, columns=COLUMNS)
    assert frame.filter(predicate).collect().equals(frame.collect().filter(predicate))


def test_a_limit_ends_the_reading(data: Path) -> None:
    frame = kdump.polars.scan(data)
    assert frame.head(4).collect().height == 4
    assert frame.filter(pl.col("partition") == 1).head(2).collect()["offset"].to_list() == [0, 1]
    assert frame.select(pl.len()).collect().item() == 57
    assert frame.group_by("topic").len().sort("topic").collect().rows() == [("a", 38), ("b", 19)]
