"""Records as Arrow streams of the kernels' own buffers: the rows that pyarrow's way gives, and no need of pyarrow."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from kdump import kernels
from kdump.columns import plain
from kdump.columns.fields import RECORD_FIELDS
from kdump.columns.names import RECORD_NEEDS
from kdump.columns.scanning import Scan, scan
from kdump.formats.batch import LOG_APPEND_TIME
from kdump.formats.codecs import ZSTD
from kdump.formats.encode import NewBatch, NewRecord, encode_batch
from tests.columns.reading import Case, cases
from tests.sampling import sampled
from tests.topics.building import Log

pytestmark = pytest.mark.skipif(kernels.active != "native", reason="the compiled kernels are not in use")

ALL = tuple(RECORD_NEEDS)


def both(records: Scan) -> tuple[pa.Table, pa.Table]:
    """The rows of the stream, and those that pyarrow makes."""
    return pa.table(records), pa.Table.from_batches(records.batches(), records.schema)


def check(records: Scan) -> pa.Table:
    found, wanted = both(records)
    found.validate(full=True)
    assert found.schema == wanted.schema
    assert found.to_pylist() == wanted.to_pylist()
    return found


@pytest.mark.parametrize("case", sampled(cases(), 10), ids=lambda case: case.name)
def test_kafkas_own_logs(case: Case) -> None:
    records = scan(str(case.folder), columns=[name for name in ALL if "timestamp" not in name], errors="skip")
    check(records)
    times = replace(records, columns=("timestamp", "timestamp_us", "timestamp_type"))
    ours, theirs = both(times)
    for name in times.columns:
        assert ours[name].cast(pa.int64()).equals(theirs[name].cast(pa.int64()))


def test_batches_of_all_kinds(tmp_path: Path) -> None:
    """Transactions, control records, names of headers that are not UTF-8, times that no microseconds hold, nulls."""
    log = Log(tmp_path / "t-0").add((b"k", b"v"), producer=(7, 0)).add((None, None)).commit(7, 0)
    log.add((b"k", b"v"), producer=(8, 0)).abort(8, 0).add((b"", b""), at=-1).write()
    folder = tmp_path / "u-0"
    folder.mkdir()
    headers = ((b"\xff\xc3", b"\xff"), ("é".encode(), None), (b"", b""))
    batches = [
        encode_batch([NewRecord(0, 5, b"k", None, headers), NewRecord(1, 1 << 61, None, b"v")], NewBatch(ZSTD)),
        encode_batch([NewRecord(2, -(1 << 62), b"k", b"v" * 1000)], NewBatch(LOG_APPEND_TIME, leader_epoch=3)),
    ]
    (folder / "00000000000000000000.log").write_bytes(b"".join(batches))
    names = [name for name in ALL if name != "timestamp"]  # Python has no dates so far away
    found = check(replace(scan(str(tmp_path), columns=names)))
    assert set(found["transaction"].to_pylist()) == {"committed", "none", "aborted"}
    assert found["timestamp_us"].null_count == 2


def test_columns_are_the_same_ones() -> None:
    assert list(RECORD_FIELDS) == list(RECORD_NEEDS)
    kind = plain.row_kind(ALL)

    class Schema:
        def __arrow_c_schema__(self) -> Any:
            return plain.schema(kind)

    assert pa.schema(Schema()) == pa.schema([pa.field(name, field.kind) for name, field in RECORD_FIELDS.items()])
    assert pa.table(plain.no_rows(ALL)).schema == pa.schema(Schema())


def test_no_columns_at_all(tmp_path: Path) -> None:
    Log(tmp_path / "t-0").add((b"k", b"v")).write()
    assert [rows.num_rows for rows in scan(str(tmp_path), columns=()).rows()] == [1]


class Broken:
    """A stream that breaks after its first batch."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        def rows() -> Iterator[plain.Rows]:
            yield plain.no_rows(("offset",))
            raise ValueError("damage at byte 7")

        return plain.stream(plain.row_kind(("offset",)), rows())


@pytest.mark.parametrize("read", [pa.table, pl.DataFrame], ids=["pyarrow", "polars"])
def test_whoever_reads_is_told_what_went_wrong(read: Any) -> None:
    with pytest.raises(Exception, match="damage at byte 7"):
        read(Broken())


def test_what_is_no_column_is_refused() -> None:
    short = plain.Column(plain.row_kind(("offset",)), 1, 0, (None,), (None,))  # type: ignore[arg-type]
    with pytest.raises(Exception, match="NoneType"):
        pa.table(plain.Rows(short))


def test_all_is_released(tmp_path: Path) -> None:
    """By whoever took it, in any thread; or with the capsule that nobody looked into."""
    log = Log(tmp_path / "t-0")
    for number in range(20):
        log.add((b"%d" % number, b"v" * 100)).roll()
    log.write()
    records = scan(str(tmp_path), columns=ALL)

    def buffers() -> int:
        gc.collect()
        return sum(isinstance(each, plain.Rows | plain.Column) for each in gc.get_objects())

    before = buffers()
    records.__arrow_c_stream__()
    records.__arrow_c_schema__()
    tables = [pa.table(records), pl.DataFrame(records)]
    reader = pa.RecordBatchReader.from_stream(records)
    reader.read_next_batch()
    column = tables[0]["value"]
    thread = threading.Thread(target=tables.clear)
    thread.start()
    thread.join()
    assert column.to_pylist() == [b"v" * 100] * 20
    del reader, column
    assert buffers() == before


WITHOUT = """
import sys
sys.modules["pyarrow"] = None
import polars, kdump.polars
from kdump.columns.names import RECORD_NEEDS
from kdump.columns.scanning import scan
records = scan(sys.argv[1], columns=tuple(RECORD_NEEDS))
frame = polars.DataFrame(records)
lazy = kdump.polars.scan(sys.argv[1]).filter(polars.col("offset") >= 3).select("offset", "key").collect()
print(frame.height, frame["transaction"].unique().sort().to_list(), lazy["key"].to_list())
kept = records.__arrow_c_stream__()
"""


def test_nobody_needs_pyarrow(tmp_path: Path) -> None:
    log = Log(tmp_path / "t-0")
    for number in range(5):
        log.add((b"%d" % number, b"v"), producer=(7, 0) if number < 2 else (-1, -1))
    log.write()
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, str(tmp_path)], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "5 ['none', 'open'] [b'3', b'4']\n"
