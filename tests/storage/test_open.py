"""From a path to what it is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kdump.errors import HoldsLogDirectoriesError, NameFormatError
from kdump.formats import names
from kdump.storage.directory import LogDirectory
from kdump.storage.open import open_directory, open_log, open_segment
from kdump.storage.partition import PartitionLog
from tests.storage.building import batch, segment_file


def test_a_partition_directory_has_segments_whatever_its_name(tmp_path: Path) -> None:
    for name in ("t-0", "restored"):
        segment_file(tmp_path / name, batch(0))
        assert isinstance(open_directory(str(tmp_path / name)), PartitionLog)


def test_a_partition_directory_without_segments_is_known_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    assert isinstance(open_directory(str(tmp_path / "t-0")), PartitionLog)


def test_a_partition_directory_is_known_by_an_index_too(tmp_path: Path) -> None:
    (tmp_path / "00000000000000000000.index").write_bytes(b"")
    assert isinstance(open_directory(str(tmp_path)), PartitionLog)


def test_a_log_directory_has_partitions(tmp_path: Path) -> None:
    segment_file(tmp_path / "t-0", batch(0))
    assert isinstance(open_directory(str(tmp_path)), LogDirectory)


def test_a_log_directory_whose_name_looks_like_a_partition(tmp_path: Path) -> None:
    segment_file(tmp_path / "kafka-logs-1" / "t-0", batch(0))
    assert isinstance(open_directory(str(tmp_path / "kafka-logs-1")), LogDirectory)


def test_a_log_directory_without_partitions_is_known_by_its_files(tmp_path: Path) -> None:
    (tmp_path / names.META_PROPERTIES).write_text("version=0\n")
    assert isinstance(open_directory(str(tmp_path)), LogDirectory)


@pytest.mark.parametrize("disks", [("disk1", "disk2"), ("disk-1", "disk-2")])
def test_a_directory_of_log_directories(disks: tuple[str, ...], tmp_path: Path) -> None:
    for name in disks:
        segment_file(tmp_path / name / "t-0", batch(0))
        (tmp_path / name / names.META_PROPERTIES).write_text("version=1\n")
    (tmp_path / "server.log").write_text("not one of Kafka's data files\n")
    with pytest.raises(HoldsLogDirectoriesError, match="it holds 2.*" + ".*".join(disks)):
        open_directory(str(tmp_path))
    segment_file(tmp_path / "u-0", batch(0))
    assert isinstance(open_directory(str(tmp_path)), LogDirectory)


def test_other_directories(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / "server.log").write_text("a log4j log, not a partition's")
    with pytest.raises(NameFormatError, match="neither a partition directory"):
        open_directory(str(tmp_path))
    with pytest.raises(FileNotFoundError):
        open_directory(str(tmp_path / "gone"))


def test_a_trailing_slash_or_a_dot_does_not_hide_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    segment_file(tmp_path / "t-7", batch(0))
    for path in (f"{tmp_path}/t-7/", f"{tmp_path}/t-7/."):
        log = open_log(path)
        assert log.name is not None
        assert log.name.partition == 7
    monkeypatch.chdir(tmp_path / "t-7")
    here = open_directory(".")
    assert isinstance(here, PartitionLog)
    assert here.name is not None
    assert here.name.topic == "t"


def test_segments(tmp_path: Path) -> None:
    path = segment_file(tmp_path, batch(5), 5)
    assert open_segment(path).base_offset == 5
    with pytest.raises(FileNotFoundError):
        open_segment(str(tmp_path / "00000000000000000009.log"))
    (tmp_path / "00000000000000000005.index").write_bytes(b"")
    with pytest.raises(NameFormatError):
        open_segment(str(tmp_path / "00000000000000000005.index"))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    os.mkfifo(path)
    with pytest.raises(OSError, match="pipe") as caught:
        open_segment(str(path)).open_log()
    assert caught.value.filename == str(path)
