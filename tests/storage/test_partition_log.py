"""PartitionLog: segments in order, bounds over several of them, and the other files of a partition directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdump.errors import CheckpointError
from kdump.formats import names
from kdump.storage.partition import PartitionLog
from kdump.storage.records import Batch, Record
from tests.storage.building import batch, batches, segment_file

TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAg"


def build(folder: Path, *bases: int, each: int = 3) -> PartitionLog:
    """A partition with one segment of `each` batches for every base offset."""
    for base in bases:
        segment_file(folder, b"".join(batches(each, base)), base)
    return PartitionLog(str(folder))


def offsets(log: PartitionLog, *bounds: int | None) -> list[int]:
    return [item.offset for item in log.records(*bounds) if isinstance(item, Record)]


def test_what_the_directory_name_says(tmp_path: Path) -> None:
    log = build(tmp_path / "my-topic-12", 0)
    assert log.name == ("my-topic", 12, None, names.LIVE)
    log = build(tmp_path / f"my-topic-12.{'ab' * 16}-stray", 0)
    assert log.name == ("my-topic", 12, "ab" * 16, names.STRAY)
    assert build(tmp_path / "restored", 0).name is None


def test_segments_are_in_the_order_of_their_base_offsets(tmp_path: Path) -> None:
    """By number: a name need not be padded."""
    log = build(tmp_path / "t-0", 12, 0, 6)
    (tmp_path / "t-0" / "00000000000000000006.log").rename(tmp_path / "t-0" / "6.log")
    log = PartitionLog(log.path)
    assert [segment.base_offset for segment in log.segments] == [0, 6, 12]


def test_files_in_another_state_are_no_segments(tmp_path: Path) -> None:
    log = build(tmp_path / "t-0", 0)
    for name in ("00000000000000000006.log.deleted", "00000000000000000006.log.swap", "x.log", "1.log.cleaned"):
        (tmp_path / "t-0" / name).write_bytes(b"")
    (tmp_path / "t-0" / "00000000000000000009.log").mkdir()
    log = PartitionLog(log.path)
    assert [segment.base_offset for segment in log.segments] == [0]
    assert log.in_state(names.DELETED) == ["00000000000000000006.log.deleted"]
    assert log.in_state(names.SWAP) == ["00000000000000000006.log.swap"]
    assert log.in_state(names.CLEANED) == ["1.log.cleaned"]
    assert log.in_state(names.TMP) == []


def test_orphans_are_index_files_without_their_log(tmp_path: Path) -> None:
    log = build(tmp_path / "t-0", 0)
    for name in (
        "00000000000000000000.index",
        "00000000000000000009.index",
        "00000000000000000009.timeindex",
        "00000000000000000009.txnindex",
        "00000000000000000009.snapshot",
        "00000000000000000007.index.deleted",
    ):
        (tmp_path / "t-0" / name).write_bytes(b"")
    assert list(PartitionLog(log.path).orphans()) == [
        "00000000000000000009.index",
        "00000000000000000009.timeindex",
        "00000000000000000009.txnindex",
    ]


def test_all_segments_one_after_the_other(tmp_path: Path) -> None:
    log = build(tmp_path / "t-0", 0, 6, 20)
    assert offsets(log) == [*range(12), *range(20, 26)]
    lasts = [item.last_offset for item in log.batches() if isinstance(item, Batch)]
    assert lasts == [1, 3, 5, 7, 9, 11, 21, 23, 25]


def test_every_pair_of_bounds(tmp_path: Path) -> None:
    log = build(tmp_path / "t-0", 0, 6, 20)
    present = [*range(12), *range(20, 26)]
    for start in range(28):
        for stop in range(28):
            assert offsets(log, start, stop) == [offset for offset in present if start <= offset < stop]
            reaching = [n for n in present if n % 2 and n >= start and n - 1 < stop]
            found = [item.last_offset for item in log.batches(start, stop) if isinstance(item, Batch)]
            assert found == reaching


def test_only_the_segments_asked_for_are_opened(tmp_path: Path) -> None:
    log = build(tmp_path / "t-0", 0, 6, 12)
    for name in ("00000000000000000000.log", "00000000000000000012.log"):
        (tmp_path / "t-0" / name).unlink()
    assert offsets(log, 7, 12) == [7, 8, 9, 10, 11]
    with pytest.raises(FileNotFoundError):
        offsets(log, 7, 13)


def test_segments_from_an_offset_on(tmp_path: Path) -> None:
    log = build(tmp_path / "t-0", 10, 16)
    assert [segment.base_offset for segment in log.segments_from(0)] == [10, 16]
    assert [segment.base_offset for segment in log.segments_from(15)] == [10, 16]
    assert [segment.base_offset for segment in log.segments_from(16)] == [16]
    assert [segment.base_offset for segment in log.segments_from(1 << 62)] == [16]


def test_base_offsets_near_the_largest(tmp_path: Path) -> None:
    base = (1 << 63) - 10
    segment_file(tmp_path / "t-0", batch(base) + batch(base + 8), base)
    log = PartitionLog(str(tmp_path / "t-0"))
    assert offsets(log, base + 1) == [base + 1, base + 8, base + 9]


def test_an_empty_partition(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    log = PartitionLog(str(tmp_path / "t-0"))
    assert log.segments == []
    assert offsets(log) == []
    assert log.leader_epochs == []
    assert log.metadata is None


def test_the_files_beside_the_segments(tmp_path: Path) -> None:
    log = build(tmp_path / "t-0", 0)
    (tmp_path / "t-0" / names.LEADER_EPOCH_CHECKPOINT).write_text("0\n2\n0 0\n3 4\n")
    (tmp_path / "t-0" / names.PARTITION_METADATA).write_text(f"version: 0\ntopic_id: {TOPIC_ID}")
    log = PartitionLog(log.path)
    assert log.leader_epochs == [(0, 0), (3, 4)]
    assert log.metadata is not None
    assert log.metadata.topic_id == bytes(15) + b"\x02"


def test_files_that_cannot_be_parsed(tmp_path: Path) -> None:
    log = build(tmp_path / "t-0", 0)
    (tmp_path / "t-0" / names.LEADER_EPOCH_CHECKPOINT).write_text("0\n1\n0\n")
    (tmp_path / "t-0" / names.PARTITION_METADATA).write_text("version: 0\n")
    log = PartitionLog(log.path)
    with pytest.raises(CheckpointError, match="Malformed line"):
        _ = log.leader_epochs
    with pytest.raises(CheckpointError, match="Malformed line"):
        _ = log.metadata


def test_no_such_directory(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        PartitionLog(str(tmp_path / "t-0"))


def test_links_that_lead_nowhere_are_left_out(tmp_path: Path) -> None:
    log = build(tmp_path / "t-0", 0)
    (tmp_path / "t-0" / "00000000000000000001.log").symlink_to("gone")
    (tmp_path / "t-0" / "00000000000000000002.log").symlink_to("00000000000000000002.log")
    assert [segment.base_offset for segment in PartitionLog(log.path).segments] == [0]
