"""What a task hands to Spark: rows in the right columns, damage as an error or a row, few and large record batches."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest

from kdump.spark.options import ReadOptions
from kdump.spark.segments import read_segments, segment_tasks
from kdump.spark.tables import ENOUGH_ROWS, DataLossError, read_ranges, schema_of
from tests.spark.building import (
    NOW,
    log_directory,
    messages,
    new_log,
    one_segment,
    options_of,
    packed_batch,
    ranges,
    row_of,
    rows_of,
    tasks,
)
from tests.storage.building import flipped


def offsets(options: ReadOptions) -> list[int]:
    return [row["offset"] for row in rows_of(options)]


def test_rows_are_what_was_written(tmp_path: Path) -> None:
    root = log_directory(tmp_path, x_3=50)
    found = list(rows_of(options_of(root, includeHeaders=True)))
    assert {(row["topic"], row["partition"], row["timestampType"]) for row in found} == {("x", 3, 0)}
    written = [(m.key, m.value, m.timestamp * 1000, m.headers) for m in messages(50)]
    read = [row_of(row) for row in found]
    assert [(row.key, row.value, row.timestamp) for row in read] == [each[:3] for each in written]
    assert [row.headers for row in read] == [
        tuple((name.decode(), value) for name, value in headers) or None for *_, headers in written
    ]


def test_columns_in_the_order_asked_for(tmp_path: Path) -> None:
    root = log_directory(tmp_path, x_0=2)
    first = next(rows_of(options_of(root, columns="path,damage,offset,keySize,isControl,codec")))
    path = str(root / "x-0" / f"{0:020d}.log")
    assert list(first.items()) == [
        ("path", path), ("damage", None), ("offset", 0), ("keySize", -1), ("isControl", False), ("codec", "none")
    ]  # fmt: skip


def test_batches(tmp_path: Path) -> None:
    root = log_directory(tmp_path, x_0=10)
    found = list(rows_of(options_of(root, kind="batches")))
    assert [(row["baseOffset"], row["recordCount"]) for row in found] == [(0, 4), (4, 4), (8, 2)]
    assert found[0]["maxTimestamp"] == (NOW + 3000) * 1000


# --- damage


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """Two good batches around a bad one."""
    parts = [packed_batch(at, 2) for at in (0, 2, 4)]
    return one_segment(tmp_path / "x-0", [parts[0], flipped(parts[1], -1), parts[2]])


@pytest.mark.parametrize("kind", ["records", "batches"])
def test_damage_fails_with_file_and_position(damaged: Path, kind: str) -> None:
    size = len(packed_batch(0, 2))
    with pytest.raises(DataLossError, match=f"{damaged}/0{{20}}.log at byte {size}: batch "):
        list(rows_of(options_of(damaged, kind=kind)))


def test_damage_can_be_skipped(damaged: Path) -> None:
    assert offsets(options_of(damaged, failOnDataLoss=False)) == [0, 1, 4, 5]


@pytest.mark.parametrize(("kind", "good"), [("records", 4), ("batches", 2)])
def test_damage_can_be_rows(damaged: Path, kind: str, good: int) -> None:
    found = list(rows_of(options_of(damaged, kind=kind, failOnDataLoss=False, columns="topic,damage,magic,path")))
    bad = [row for row in found if row["damage"]]
    assert len(found) - len(bad) == good
    [(topic, magic, position)] = [(row["topic"], row["magic"], row["damage"]["position"]) for row in bad]
    assert (topic, magic, position) == ("x", None, len(packed_batch(0, 2)))
    assert bad[0]["damage"]["resumed"] == 2 * bad[0]["damage"]["position"]
    assert "CRC" in bad[0]["damage"]["message"]


def test_damage_outside_the_bounds_does_not_matter(damaged: Path) -> None:
    assert offsets(options_of(damaged, endingOffsets={"x": {"0": 2}})) == [0, 1]


def test_preallocated_zeros_are_no_loss_but_only_at_the_end(tmp_path: Path) -> None:
    last = one_segment(tmp_path / "x-0", [packed_batch(0, 2), bytes(500)])
    assert offsets(options_of(tmp_path)) == [0, 1]
    one_segment(last, [packed_batch(2, 2)], 2)
    with pytest.raises(DataLossError, match="zeros up to the end"):
        offsets(options_of(tmp_path))


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    root = log_directory(tmp_path, x_0=2, y_0=2)
    options = options_of(root)
    [planned] = tasks(options)
    os.remove(root / "x-0" / f"{0:020d}.log")
    with pytest.raises(DataLossError, match=r"x-0/.* at byte 0: No such file"):
        list(read_ranges(planned, options))
    assert sum(part.num_rows for part in read_ranges(planned, options_of(root, failOnDataLoss=False))) == 2
    [part] = read_ranges(planned, options_of(root, failOnDataLoss=False, columns="offset,damage,path"))
    assert part.column("damage").to_pylist()[0]["message"] == "No such file or directory"


def test_what_one_batch_may_decompress_to_is_bounded(tmp_path: Path) -> None:
    folder = one_segment(tmp_path / "x-0", [packed_batch(0, 2000)])
    with pytest.raises(DataLossError, match="more than"):
        offsets(options_of(folder, maxDecompressedBytes=100))


# --- the size of what is handed over


def test_small_partitions_share_a_record_batch(tmp_path: Path) -> None:
    root = log_directory(tmp_path, **{f"x_{number}": 3 for number in range(20)})
    options = options_of(root)
    [group] = tasks(options)
    [part] = read_ranges(group, options)
    assert part.num_rows == 60
    assert part.column("partition").to_pylist() == sorted([*range(20)] * 3)


def test_large_ones_are_handed_over_as_they_are(tmp_path: Path) -> None:
    count = ENOUGH_ROWS + 10
    folder = one_segment(tmp_path / "x-0", [packed_batch(0, 5), packed_batch(5, count)])
    other = new_log(tmp_path / "y-0", 3)
    other.close()
    options = options_of(folder, tmp_path / "y-0", columns="topic,offset")
    parts = [part for group in tasks(options) for part in read_ranges(group, options)]
    assert [part.num_rows for part in parts] == [count + 5, 3]


def test_markers_are_no_rows_unless_asked_for(tmp_path: Path) -> None:
    from tests.columns.reading import FIXTURES

    case = FIXTURES / "corpus" / "s-src-txn" / "topic-0"
    without = offsets(options_of(case))
    everything = list(rows_of(options_of(case, includeControlRecords=True, columns="offset,isControl")))
    assert without == [row["offset"] for row in everything if not row["isControl"]]
    assert len(without) < len(everything)


def test_nothing_to_read() -> None:
    assert list(read_ranges([], options_of("/x"))) == []
    assert pa.RecordBatch.from_pylist([], schema_of(("offset", "damage"), options_of("/x"))).num_rows == 0


def test_tasks_are_planned_from_what_is_there_now(tmp_path: Path) -> None:
    log = new_log(tmp_path / "x-0", 8)
    planned = ranges(options_of(tmp_path))
    log.append(messages(4, 8))
    log.close()
    assert sum(part.num_rows for part in read_ranges(planned, options_of(tmp_path))) == 8


def test_a_path_that_is_not_utf8(tmp_path: Path) -> None:
    root = log_directory(tmp_path / os.fsdecode(b"disk\xff"), x_0=2)
    log = root / "x-0" / f"{0:020d}.log"
    shown = str(log).replace("\udcff", "\ufffd")
    assert [row["path"] for row in rows_of(options_of(root, columns="path"))] == [shown, shown]
    (segment,) = read_segments(segment_tasks(asked := options_of(root, kind="segments"), 1)[0], asked)
    assert segment.column("path").to_pylist() == [shown]
    log.write_bytes(flipped(log.read_bytes(), -1))
    *_, row = rows_of(options_of(root, columns="path,damage", failOnDataLoss="false"))
    assert row["path"] == shown
    assert row["damage"] is not None
