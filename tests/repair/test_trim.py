"""Trimming: what is cut, and what is left to a repair."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import kdump
from kdump.change.apply import apply_plan
from kdump.change.place import new_change
from kdump.formats import names
from kdump.formats.index_entries import decode_time_entries
from kdump.repair.proposal import Task, examine_trim
from tests.repair.damaged import BASES, edit, flip, name
from tests.repair.salvaging import content

CORPUS = Path(__file__).resolve().parent.parent.parent / "fixtures" / "corpus"


def trimmed(partition: Path, *bases: int) -> Task:
    task = examine_trim(kdump.open_log(str(partition)), frozenset(bases) if bases else None)
    assert task.plan is not None
    if task.plan:
        apply_plan(task.plan, new_change(str(partition)), keep_old=False)
    return task


def test_a_sound_partition_is_left_alone(partition: Path) -> None:
    task = trimmed(partition)
    assert task.plan is not None
    assert (task.plan.operations, task.problems) == ((), ())


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("tail", [bytes(5000), b"\xff" * 300, b"\1" * 9, b"\0" * 60 + b"\7" * 80])
def test_a_log_is_cut_behind_its_last_good_batch(partition: Path, base: int, tail: bytes) -> None:
    before = content(partition)
    modified = (partition / name(base, "log")).stat().st_mtime_ns
    edit(name(base, "log"), lambda data: data + tail)(partition)
    os.utime(partition / name(base, "log"), ns=(modified, modified))
    task = trimmed(partition)
    assert content(partition) == before
    assert task.problems == ()
    assert (partition / name(base, "log")).stat().st_mtime_ns == modified
    assert trimmed(partition).plan == (str(partition), (), {})


def test_a_torn_batch(partition: Path) -> None:
    edit(name(40, "log"), lambda data: data[:-10])(partition)
    trimmed(partition)
    size = (partition / name(40, "log")).stat().st_size
    kept = [s for s in kdump.open_log(str(partition)).segments if s.base_offset == 40]
    with kept[0].open_log() as log:
        (block,) = log.blocks()
        assert block.next_position == size
        assert block.last_offset[block.length - 1] == 57


@pytest.mark.parametrize(
    ("kind", "tail"),
    [
        ("index", bytes(800)),
        ("index", b"\0\0\0\1\0\0\0\1"),  # goes back
        ("index", b"\0\0\0\x11\x7f\0\0\0"),  # leads out of the log
        ("index", b"\0\0\0"),
        ("timeindex", bytes(1200)),
        ("timeindex", b"\0\0\0\0\0\0\0\5\0\0\0\1"),
        ("txnindex", b"\0" * 33),
    ],
)
def test_an_index_is_cut_behind_its_last_valid_entry(partition: Path, kind: str, tail: bytes) -> None:
    before = content(partition)
    (partition / name(20, kind)).write_bytes(before.get(name(20, kind), b"") + tail)
    trimmed(partition)
    after = content(partition)
    assert after.pop(name(20, kind)) == before.pop(name(20, kind), b"")
    assert after == before


def test_entries_that_lead_behind_the_last_good_batch_go_with_what_they_told_of(partition: Path) -> None:
    before = content(partition)
    edit(name(20, "log"), lambda data: data[:400])(partition)
    trimmed(partition)
    after = content(partition)
    assert before[name(20, "txnindex")] != b""
    assert after[name(20, "txnindex")] == b""  # its marker was the last batch
    times = after[name(20, "timeindex")]
    assert before[name(20, "timeindex")].startswith(times)
    assert len(times) < len(before[name(20, "timeindex")])
    (segment,) = (each for each in kdump.open_log(str(partition)).segments if each.base_offset == 20)
    with segment.open_log() as log:
        *_, block = log.blocks()
        assert block.next_position == len(after[name(20, "log")])
        end = block.last_offset[block.length - 1]
    assert all(entry.offset <= end for entry in decode_time_entries(times, 20))
    assert trimmed(partition).plan == (str(partition), (), {})


def test_only_the_segments_that_are_named(partition: Path) -> None:
    before = content(partition)
    for base in (0, 20):
        edit(name(base, "index"), lambda data: data + bytes(80))(partition)
    trimmed(partition, 20)
    after = content(partition)
    assert after[name(20, "index")] == before[name(20, "index")]
    assert after[name(0, "index")] == before[name(0, "index")] + bytes(80)


def test_good_batches_behind_damage_are_left_to_repair(partition: Path) -> None:
    edit(name(20, "log"), flip(300))(partition)
    edit(name(40, "log"), lambda data: data + bytes(100))(partition)
    before = content(partition)
    task = trimmed(partition)
    (problem,) = task.problems
    assert problem.startswith(f"{partition / name(20, 'log')}: good batches follow the damage at byte ")
    assert "--strategy salvage" in problem
    assert content(partition)[name(20, "log")] == before[name(20, "log")]
    assert content(partition)[name(40, "log")] == before[name(40, "log")][:-100]


def test_a_preallocated_segment_that_was_never_closed(tmp_path: Path) -> None:
    partition = shutil.copytree(CORPUS / "h-prealloc-log" / "topic-0", tmp_path / "topic-0")
    log = next(partition.glob("*.log"))
    size = log.stat().st_size
    task = trimmed(partition)
    assert task.problems == ()
    assert log.stat().st_size < size
    for kind in (names.OFFSET_INDEX, names.TIME_INDEX):
        assert next(partition.glob(f"*.{kind}")).stat().st_size < 10485000
    batches = kdump.open_log(str(partition)).segments[0]
    with batches.open_log() as opened:
        *_, last = opened.blocks()
        assert last.next_position == log.stat().st_size


def test_nothing_else_is_touched(partition: Path) -> None:
    (partition / "notes.txt").write_text("mine")
    (partition / name(0, "log.deleted")).write_text("old")
    before = content(partition)
    edit(name(0, "log"), lambda data: data + bytes(100))(partition)
    trimmed(partition)
    assert content(partition) == before
