"""From paths to partitions: directories, patterns, replicas, and what is no log at all."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest

from kdump.spark.places import PathError, find_partitions
from kdump.spark.reader import planned_ranges
from kdump.spark.segments import segment_tasks
from kdump.spark.stream import LogStreamReader
from kdump.storage.facts import log_end_offset
from kdump.storage.partition import PartitionLog
from kdump.storage.segment import Segment
from tests.spark.building import log_directory, new_log, options_of


def found(*paths: Path | str, **options: object) -> list[tuple[str | None, int | None]]:
    return [(each.topic, each.number) for each in find_partitions(options_of(*paths, **options))]


def test_log_directories_partition_directories_and_patterns(tmp_path: Path) -> None:
    first = log_directory(tmp_path / "a", x_0=1, x_1=1)
    second = log_directory(tmp_path / "b", y_0=1)
    everything = [("x", 0), ("x", 1), ("y", 0)]
    assert found(first, second) == found(tmp_path / "*") == found(tmp_path / "[ab]" / "?-*") == everything
    assert found(second / "y-0", first) == [("y", 0), ("x", 0), ("x", 1)]
    assert found(first, topics="x", partitions="1") == [("x", 1)]


def test_directories_on_their_way_out_are_left_alone(tmp_path: Path) -> None:
    root = log_directory(tmp_path / "a", x_0=1)
    leaving = "x-1.0123456789abcdef0123456789abcdef-delete"
    new_log(root / leaving, 1).close()
    assert found(root) == [("x", 0)]
    assert found(root / leaving) == [("x", 1)]  # asked for by name


def test_a_directory_of_another_name_has_no_topic(tmp_path: Path) -> None:
    new_log(tmp_path / "copy", 1).close()
    assert found(tmp_path / "copy") == [(None, None)]
    with pytest.raises(PathError, match="one of those asked for"):
        found(tmp_path / "copy", topics="copy")


def test_the_same_directory_counts_once(tmp_path: Path) -> None:
    root = log_directory(tmp_path / "a", x_0=1)
    os.symlink(root, tmp_path / "link")
    assert found(root, tmp_path / "link", root / "x-0", replicas="all") == [("x", 0)]


def test_of_several_replicas_the_one_that_has_most(tmp_path: Path) -> None:
    for broker, count in (("1", 3), ("2", 8), ("3", 8)):
        log_directory(tmp_path / broker, x_0=count)
    [chosen] = find_partitions(options_of(tmp_path / "*"))
    assert chosen.log.path == str(tmp_path / "2" / "x-0")
    assert len(found(tmp_path / "*", replicas="all")) == 3
    # a newer leader epoch beats a longer log
    (tmp_path / "1" / "x-0" / "leader-epoch-checkpoint").write_text("0\n1\n7 0\n")
    [chosen] = find_partitions(options_of(tmp_path / "*"))
    assert chosen.log.path == str(tmp_path / "1" / "x-0")


def test_a_replica_that_cannot_be_read_is_not_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for broker in ("1", "2"):
        log_directory(tmp_path / broker, x_0=3)

    def end_of(log: PartitionLog) -> int:
        if log.path == str(tmp_path / "1" / "x-0"):
            raise OSError(5, "Input/output error")
        return log_end_offset(log)

    monkeypatch.setattr("kdump.spark.places.log_end_offset", end_of)
    [chosen] = find_partitions(options_of(tmp_path / "*"))
    assert chosen.log.path == str(tmp_path / "2" / "x-0")


def test_what_is_no_log(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    for path, text in (
        ("missing", "there is no such directory"),
        ("missing*", "nothing matches this pattern"),
        ("empty", "there are no logs in it"),
        ("file", "is a file: give its partition directory"),
    ):
        with pytest.raises(PathError, match=text):
            found(tmp_path / path)
    root = log_directory(tmp_path / "a", x_0=1)
    with pytest.raises(PathError, match=r"no partition in .* is one of those asked for"):
        found(root, topics="y")


def test_a_directory_that_cannot_be_read(tmp_path: Path) -> None:
    """One that nobody can read, be it root."""
    os.symlink("loop", tmp_path / "loop")
    with pytest.raises(PathError, match="loop: Too many levels of symbolic links"):
        found(tmp_path / "loop")


def test_a_partition_that_goes_away_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = log_directory(tmp_path / "a", x_0=1)
    real = PartitionLog.__init__

    def gone(self: PartitionLog, path: str) -> None:
        if path.endswith("x-0"):
            shutil.rmtree(path, ignore_errors=True)
        real(self, path)

    monkeypatch.setattr(PartitionLog, "__init__", gone)
    with pytest.raises(PathError, match="No such file"):
        found(root)


def test_a_log_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = log_directory(tmp_path, x_0=2)
    log = root / "x-0" / f"{0:020d}.log"

    def refused(segment: Segment) -> NoReturn:
        raise PermissionError(13, "Permission denied", segment.log_path)

    monkeypatch.setattr(Segment, "open_log", refused)
    asked = options_of(root, startingTimestamp="1")
    for plan in (lambda: segment_tasks(asked, 2), lambda: planned_ranges(asked), LogStreamReader(asked).initialOffset):
        with pytest.raises(PathError, match=rf"^{log}: Permission denied$"):
            plan()
