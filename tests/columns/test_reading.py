"""Records and batches as Arrow tables: the same as one by one, whatever the log, the range and the sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kdump.columns import (
    BATCH_FIELDS,
    RECORD_FIELDS,
    BatchTables,
    Labels,
    RecordTables,
    read_batches,
    read_records,
)
from kdump.columns.arrays import MICROSECONDS, timestamps
from kdump.errors import KdumpError
from kdump.formats.batch import CONTROL, TRANSACTIONAL
from kdump.formats.codecs import LZ4, ZSTD, compress
from kdump.formats.encode import NewBatch, NewRecord, encode_batch, encode_message, encode_wrapper
from kdump.query.selection import Selection
from kdump.storage.damage import Damage
from kdump.storage.decoded import BadBatch
from kdump.storage.partition import PartitionLog
from kdump.storage.records import Batch, Record
from kdump.storage.segment import Segment
from tests.columns.reading import Case, cases, row_of
from tests.sampling import sampled
from tests.storage.building import KERNELS, batch, flipped, segment_file, use_kernels, with_valid_crc

NOBODY = Labels()
PLAIN = ("offset", "timestamp", "key", "value", "headers")


def tables_of(
    path: str, tables: Any, *, start: int = 0, stop: int | None = None, **bounds: Any
) -> tuple[Any, list[Damage]]:
    """What a segment gives, as one table, and the damage in it."""
    segment = Segment(path)
    read = read_records if isinstance(tables, RecordTables) else read_batches
    found, damage = [], []
    with segment.open_log() as log:
        for part in read(segment, log, tables, Selection(**bounds), start, stop):
            if isinstance(part, Damage):
                damage.append(part)
            else:
                found.append(part)
        found += tables.rest()
    for part in found:
        part.validate(full=True)
    return pa.Table.from_batches(found, tables.schema), damage


def rows_of(path: str, names: tuple[str, ...] = PLAIN, labels: Labels = NOBODY, **how: Any) -> list[dict[str, Any]]:
    """The records of a segment as dictionaries, timestamps in ms."""
    table, _ = tables_of(path, RecordTables(names, labels, control=True, **how))
    for at, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            table = table.set_column(at, field.name, table.column(at).cast(pa.int64()))
    found: list[dict[str, Any]] = table.to_pylist()
    return found


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("case", sampled(cases(), 10), ids=lambda case: case.name)
def test_kafkas_own_logs(case: Case, kernels: str, monkeypatch: pytest.MonkeyPatch) -> None:
    use_kernels(kernels, monkeypatch)
    for segment in PartitionLog(str(case.folder)).segments:
        expected = [item for item in segment.records() if isinstance(item, Record)]
        found = rows_of(segment.log_path, (*PLAIN, "sequence"), most_rows=100, most_bytes=10_000)
        assert [row["sequence"] for row in found] == [record.sequence for record in expected]
        for row, record in zip(map(row_of, found), expected, strict=True):
            assert row[:4] == record[:4]
            headers = tuple((name.decode("utf-8", "replace"), value) for name, value in record.headers)
            assert row.headers == (headers or None)


@pytest.mark.parametrize("case", sampled(cases(), 10), ids=lambda case: case.name)
def test_batches_of_kafkas_own_logs(case: Case) -> None:
    for segment in PartitionLog(str(case.folder)).segments:
        expected = [item for item in segment.batches() if isinstance(item, Batch)]
        names = [name for name in BATCH_FIELDS if "timestamp" not in name or name == "timestamp_type"]
        table, damage = tables_of(segment.log_path, BatchTables(names, most_rows=7))
        assert damage == [item for item in segment.batches() if isinstance(item, Damage)]
        for row, each in zip(table.to_pylist(), expected, strict=True):
            assert (row["position"], row["size"], row["last_offset"]) == (each.position, each.size, each.last_offset)
            assert row["base_offset"] == (None if each.is_wrapper else each.base_offset)
            assert row["record_count"] == (None if each.is_wrapper else each.record_count)
            assert (row["codec"], row["is_control"], row["magic"]) == (each.codec, each.is_control, each.magic)
            assert row["timestamp_type"] == {"CreateTime": 0, "LogAppendTime": 1}.get(each.timestamp_type, -1)


def test_columns_of_the_batch_come_with_each_record(tmp_path: Path) -> None:
    header = NewBatch(ZSTD | TRANSACTIONAL, producer_id=4, producer_epoch=2, base_sequence=8, leader_epoch=3)
    data = batch(0) + encode_batch([NewRecord(2, 5, b"k", None, ((b"h", None),)), NewRecord(3, 6, None, b"vv")], header)
    path = segment_file(tmp_path, data)
    [_, _, first, second] = rows_of(path, tuple(RECORD_FIELDS), Labels("orders", 7, path))
    assert first == {
        "topic": "orders", "partition": 7, "offset": 2, "timestamp": 5, "timestamp_us": 5000, "timestamp_type": 0,
        "key": b"k", "value": None, "headers": [{"key": "h", "value": None}], "key_size": 1, "value_size": -1,
        "header_count": 1, "sequence": 8, "producer_id": 4, "producer_epoch": 2, "leader_epoch": 3,
        "is_transactional": True, "is_control": False, "transaction": "open", "magic": 2, "codec": "zstd",
        "position": len(batch(0)), "path": path,
    }  # fmt: skip
    assert (second["sequence"], second["key_size"], second["headers"]) == (9, -1, None)


def test_rows_can_be_counted_without_columns(tmp_path: Path) -> None:
    table, _ = tables_of(segment_file(tmp_path, batch(0) + batch(2)), RecordTables(()))
    assert (table.num_rows, table.num_columns) == (4, 0)


def test_markers_are_no_records(tmp_path: Path) -> None:
    marker = encode_batch([NewRecord(2, 0, b"\0\0\0\1", b"")], NewBatch(CONTROL, producer_id=1))
    path = segment_file(tmp_path, batch(0) + marker + batch(3))
    assert tables_of(path, RecordTables(("offset",)))[0].column("offset").to_pylist() == [0, 1, 3, 4]
    assert tables_of(path, RecordTables(("offset",), control=True))[0].num_rows == 5


@pytest.mark.parametrize(("low", "high"), [(3, 8), (None, 4), (7, None), (5, 5)])
def test_bounds(tmp_path: Path, low: int | None, high: int | None) -> None:
    path = segment_file(tmp_path, b"".join(batch(at, 4) for at in range(0, 12, 4)))
    wanted = [at for at in range(12) if (low is None or at >= low) and (high is None or at < high)]
    table, _ = tables_of(path, RecordTables(("offset",)), start_offset=low, stop_offset=high)
    assert table.column("offset").to_pylist() == wanted
    table, _ = tables_of(path, BatchTables(("base_offset",)), start_offset=low, stop_offset=high)
    reaching = [at for at in range(0, 12, 4) if (low is None or at + 3 >= low) and (high is None or at < high)]
    assert table.column("base_offset").to_pylist() == reaching


def test_ranges_between_batches_add_up(tmp_path: Path) -> None:
    parts = [batch(at, 3, codec=ZSTD if at % 2 else 0) for at in range(0, 30, 3)]
    path = segment_file(tmp_path, b"".join(parts))
    starts = [sum(map(len, parts[:n])) for n in range(len(parts) + 1)]
    for cut in starts:
        tables = RecordTables(("offset",))
        before, _ = tables_of(path, tables, stop=cut)
        after, _ = tables_of(path, RecordTables(("offset",)), start=cut)
        assert before.column("offset").to_pylist() + after.column("offset").to_pylist() == list(range(30))


def test_damage_comes_between(tmp_path: Path) -> None:
    broken = encode_batch([NewRecord(4, 0, None, b"x")])
    bad_content = bytearray(broken)
    bad_content[60] = 5  # five records, of which there is one
    data = batch(0) + flipped(batch(2), -1) + with_valid_crc(bytes(bad_content)) + batch(5)
    path = segment_file(tmp_path, data)
    table, damage = tables_of(path, RecordTables(("offset",)))
    assert table.column("offset").to_pylist() == [0, 1, 4, 5, 6]
    size = len(batch(0))
    assert [(each.position, each.resumed) for each in damage] == [(size, 2 * size), (2 * size, 2 * size + len(broken))]
    assert "CRC" in damage[0].text
    assert "cannot all be read" in damage[1].text
    found = list(Segment(path).records())
    assert sum(isinstance(item, Damage | BadBatch) for item in found) == len(damage)
    assert len(tables_of(path, BatchTables(("size",)))[1]) == 1  # nothing is decoded there


def test_messages_with_a_bad_crc_inside_a_wrapper(tmp_path: Path) -> None:
    good, bad = (encode_message(NewRecord(at, 5, None, b"x"), 1) for at in range(2))
    payload = compress(LZ4, good + flipped(bad, -1), magic=1)
    data = encode_wrapper([NewRecord(0, 5, None, b"y")], 1, 1)
    data += encode_message(NewRecord(2, 5, None, payload), 1, LZ4)
    table, damage = tables_of(segment_file(tmp_path, data), RecordTables(("offset",)))
    assert table.column("offset").to_pylist() == [0, 1, 2]
    assert [each.text for each in damage] == [
        "the message at offset 2 inside a compressed batch fails its CRC"
    ]


def test_headers_that_are_no_text_are_replaced(tmp_path: Path) -> None:
    data = encode_batch([NewRecord(0, 0, None, None, ((b"\xff\xc3", b"1"), ("ключ".encode(), b"\xff")))])
    [row] = rows_of(segment_file(tmp_path, data))
    assert row["headers"] == [{"key": "��", "value": b"1"}, {"key": "ключ", "value": b"\xff"}]


def test_timestamps_of_batches(tmp_path: Path) -> None:
    path = segment_file(tmp_path, batch(0, timestamp=5000) + encode_message(NewRecord(2, 7, None, b""), 0))
    names = ("base_timestamp", "max_timestamp", "base_timestamp_us", "max_timestamp_us")
    table, _ = tables_of(path, BatchTables(names))
    found = {name: table.column(name).cast(pa.int64()).to_pylist() for name in names}
    assert found == {
        "base_timestamp": [5000, -1], "max_timestamp": [5001, -1],
        "base_timestamp_us": [5_000_000, -1000], "max_timestamp_us": [5_001_000, -1000],
    }  # fmt: skip


def test_timestamps_without_microseconds_are_null() -> None:
    most = (1 << 63) // 1000 - 1
    numbers = pa.array([0, -1, most, most + 1, -(1 << 63), (1 << 63) - 1], pa.int64())
    assert timestamps(numbers, MICROSECONDS).cast(pa.int64()).to_pylist() == [0, -1000, most * 1000, None, None, None]


@pytest.mark.parametrize(
    ("names", "hint"), [(["ofset"], "did you mean offset"), (["zzzzzz"], "there are topic, partition")]
)
def test_columns_that_there_are_not(names: list[str], hint: str) -> None:
    for kind in (RecordTables, BatchTables):
        if kind is BatchTables and names == ["ofset"]:
            continue
        with pytest.raises(KdumpError, match=hint):
            kind(names)
