"""Ranges and tasks: nothing lost or doubled at the cuts, whatever the indexes say, and nothing read in vain."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path
from typing import NoReturn

import pytest

from kdump.query.split_points import SplitPlanner
from kdump.spark.bounds import Interval, first_offset_since, interval_of
from kdump.spark.options import LATEST_OFFSET
from kdump.spark.places import find_partitions
from kdump.spark.splits import (
    FILE_COST,
    HEADERS_TIMES,
    MAX_BYTES,
    MIN_BYTES,
    TASKS_PER_CORE,
    Range,
    pack,
    ranges_of,
    stop_position,
    task_size,
)
from kdump.storage.partition import PartitionLog
from kdump.storage.segment import Segment
from tests.spark.building import NOW, log_directory, new_log, one_segment, options_of, packed_batch, ranges, tasks
from tests.storage.building import flipped


def covered(groups: list[list[Range]]) -> dict[str, list[tuple[int, int]]]:
    """The byte ranges of each log, in order."""
    found: dict[str, list[tuple[int, int]]] = {}
    for group in groups:
        for each in group:
            assert each.stop is not None
            found.setdefault(each.path, []).append((each.start, each.stop))
    return found


def starts_of(path: str) -> set[int]:
    """Where the batches of a log start, and its end."""
    with Segment(path).open_log() as log:
        return {at for block in log.blocks() for at in block.position[: block.length]} | {log.size}


@pytest.mark.parametrize("parts", [1, 2, 5, 40])
def test_tasks_cover_everything_once_and_begin_with_a_batch(tmp_path: Path, parts: int) -> None:
    root = log_directory(tmp_path / "a", x_0=300, y_0=40, z_0=1)
    groups = tasks(options_of(root, minPartitions=parts))
    for path, stretches in covered(groups).items():
        assert stretches[0][0] == 0
        assert stretches[-1][1] == os.path.getsize(path)
        assert all(before[1] == after[0] for before, after in pairwise(stretches))
        assert {at for stretch in stretches for at in stretch} <= starts_of(path)


def test_one_large_segment_is_split_over_all_tasks(tmp_path: Path) -> None:
    folder = one_segment(tmp_path / "x-0", [packed_batch(at, 40) for at in range(0, 8000, 40)])
    groups = tasks(options_of(folder, minPartitions=8))
    assert len(groups) >= 8
    sizes = [sum(each.size for each in group) for group in groups]
    assert max(sizes) < 2 * min(sizes)


def test_small_segments_are_packed(tmp_path: Path) -> None:
    small = [Range(f"/x/{n}", "x", n, 0, 1000, Interval(), True) for n in range(2000)]
    groups = list(pack(small, MIN_BYTES))
    assert sum(map(len, groups)) == 2000
    most = MIN_BYTES // (FILE_COST + 1000) + 1
    assert {len(group) for group in groups[:-1]} == {most}


def test_how_much_a_task_gets() -> None:
    gib = 1 << 30
    assert task_size(10, 2, None) == MIN_BYTES
    assert task_size(gib // 4, 2, None) == gib // 4 // (2 * TASKS_PER_CORE) + 1
    assert task_size(1000 * gib, 2, None) == MAX_BYTES
    assert task_size(gib, 2, 100) == gib // 100 + 1
    assert task_size(gib, 2, None, decodes=False) == gib // 2 + 1
    assert task_size(1000 * gib, 2, None, decodes=False) == HEADERS_TIMES * MAX_BYTES


def indexes(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.index"))


@pytest.mark.parametrize("harm", ["zeros", "shifted", "reversed", "shrunk", "missing", "random", "beyond"])
def test_an_index_is_not_believed(tmp_path: Path, harm: str) -> None:
    new_log(tmp_path / "x-0", 400).close()
    for number, index in enumerate(indexes(tmp_path / "x-0")):
        data = index.read_bytes()
        entries = [data[at : at + 8] for at in range(0, len(data), 8)]
        if harm == "zeros":
            index.write_bytes(bytes(len(data)))
        elif harm == "shifted":  # positions inside batches
            index.write_bytes(b"".join(e[:4] + (int.from_bytes(e[4:], "big") + 7).to_bytes(4, "big") for e in entries))
        elif harm == "reversed":
            index.write_bytes(b"".join(reversed(entries)))
        elif harm == "shrunk":
            index.write_bytes(data[: len(data) // 2 - 3])
        elif harm == "missing":
            index.unlink()
        elif harm == "random":
            import random

            index.write_bytes(random.Random(number).randbytes(len(data)))
        else:
            index.write_bytes(b"".join(e[:4] + b"\x7f\xff\xff\xff" for e in entries))
    options = options_of(tmp_path, minPartitions=20)
    groups = tasks(options)
    assert len(groups) > 5
    for path, stretches in covered(groups).items():
        assert {at for stretch in stretches for at in stretch} <= starts_of(path)
        assert sum(stop - start for start, stop in stretches) == os.path.getsize(path)


def test_nothing_is_cut_behind_damage_without_an_index(tmp_path: Path) -> None:
    batches = [packed_batch(at, 400) for at in range(0, 40_000, 400)]
    folder = one_segment(tmp_path / "x-0", [*batches[:3], flipped(batches[3], -1), *batches[4:]])
    [group] = tasks(options_of(folder, minPartitions=2))
    assert [(each.start, each.stop) for each in group] == [(0, os.path.getsize(group[0].path))]


# --- bounds


def bounded(root: Path, start: int | None, stop: int | None) -> list[Range]:
    [partition] = find_partitions(options_of(root))
    return list(ranges_of(partition, Interval(start, stop)))


def test_offsets_leave_out_segments_and_parts_of_them(tmp_path: Path) -> None:
    new_log(tmp_path / "x-0", 400).close()
    bases = [segment.base_offset for segment in PartitionLog(str(tmp_path / "x-0")).segments]
    assert len(bases) == 4
    everything = bounded(tmp_path, None, None)
    assert [each.interval for each in everything] == [Interval()] * len(bases)
    assert [each.is_last for each in everything] == [False] * (len(bases) - 1) + [True]
    [one] = bounded(tmp_path, bases[2], bases[3])
    assert (os.path.basename(one.path), one.interval) == (f"{bases[2]:020d}.log", Interval())
    [part] = bounded(tmp_path, bases[2] + 13, bases[2] + 15)
    whole = os.path.getsize(part.path)
    assert part.interval == (bases[2] + 13, bases[2] + 15)
    assert 0 < part.size < whole // 4
    assert bounded(tmp_path, 5, 5) == bounded(tmp_path, 9, 4) == []
    assert [os.path.basename(each.path) for each in bounded(tmp_path, 1 << 40, None)] == [f"{bases[-1]:020d}.log"]


def test_a_read_stops_exactly_behind_the_last_batch_wanted(tmp_path: Path) -> None:
    parts = [packed_batch(at, 4) for at in range(0, 40, 4)]
    one_segment(tmp_path / "x-0", parts)
    [segment] = PartitionLog(str(tmp_path / "x-0")).segments
    with segment.open_log() as log:
        for stop in range(1, 41):
            assert stop_position(segment, log, stop) == sum(map(len, parts[: (stop + 3) // 4]))
        assert stop_position(segment, log, 1000) == log.size


def test_a_batch_that_is_damaged_does_not_say_where_to_stop(tmp_path: Path) -> None:
    parts = [packed_batch(at, 4) for at in range(0, 20, 4)]
    parts[1] = parts[1][:23] + b"\x00\x00\xff\xff" + parts[1][27:]  # its last offset is far beyond now
    one_segment(tmp_path / "x-0", parts)
    [segment] = PartitionLog(str(tmp_path / "x-0")).segments
    with segment.open_log() as log:
        assert stop_position(segment, log, 10) == sum(map(len, parts[:3]))


def test_times_become_offsets(tmp_path: Path) -> None:
    new_log(tmp_path / "x-0", 100).close()
    log = PartitionLog(str(tmp_path / "x-0"))
    for at in (0, 1, 37, 99):
        assert first_offset_since(log, NOW + 1000 * at) == at
        assert first_offset_since(log, NOW + 1000 * at - 999) == at
    assert first_offset_since(log, NOW + 99_001) is None
    for index in (tmp_path / "x-0").glob("*.timeindex"):
        index.write_bytes(b"\x7f" * 12)  # nonsense, which must not matter
    assert first_offset_since(log, NOW + 37_000) == 37


@pytest.mark.parametrize(
    ("options", "first", "last"),
    [
        ({}, 0, 99),
        ({"startingOffsets": {"x": {"0": 30}}, "endingOffsets": {"x": {"0": 40}}}, 30, 39),
        ({"startingOffsets": {"x": {"0": -2}}, "endingOffsets": {"x": {"0": LATEST_OFFSET}}}, 0, 99),
        ({"startingOffsets": {"y": {"0": 30}}}, 0, 99),
        ({"startingTimestamp": NOW + 50_000, "endingTimestamp": NOW + 60_000}, 50, 59),
        ({"endingTimestamp": NOW + 10_000_000}, 0, 99),
        ({"startingOffsets": "latest"}, None, None),
        ({"startingOffsets": {"x": {"0": -1}}}, None, None),
        ({"startingTimestamp": NOW + 10_000_000}, None, None),
    ],
)
def test_what_the_options_ask_for(
    tmp_path: Path, options: dict[str, object], first: int | None, last: int | None
) -> None:
    new_log(tmp_path / "x-0", 100).close()
    read = options_of(tmp_path, **options)
    [partition] = find_partitions(read)
    start, stop = interval_of(partition, read)
    offsets = [at for at in range(100) if (start is None or at >= start) and (stop is None or at < stop)]
    assert offsets == ([] if first is None or last is None else list(range(first, last + 1)))


def test_a_segment_that_cannot_be_looked_into_is_left_to_the_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = log_directory(tmp_path, x_0=10)

    def refuse(path: str) -> int:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os.path, "getsize", refuse)
    [only] = ranges(options_of(root))
    assert (only.start, only.stop) == (0, None)


def test_where_the_index_cannot_be_opened_the_batches_are_walked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = one_segment(tmp_path / "x-0", [packed_batch(at, 4) for at in range(0, 400, 4)])
    path = str(folder / f"{0:020d}.log")
    (folder / f"{0:020d}.index").write_bytes(b"")
    size = os.path.getsize(path)

    def refused(segment: Segment) -> NoReturn:
        raise PermissionError(13, "Permission denied", segment.log_path)

    monkeypatch.setattr(Segment, "offset_index", refused)
    with SplitPlanner(path, 0, size) as cutter:
        cut = cutter.cut(size // 2, 0, size)
    assert cut in starts_of(path)
    assert 0 < cut < size
