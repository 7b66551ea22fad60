"""What becomes of a log directory's checkpoints when a log gets shorter."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdump.change.checkpoint_lines import put_offset, within_log
from kdump.errors import CheckpointError
from kdump.formats import names

PARTITION = "orders-3"


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    (tmp_path / PARTITION).mkdir()
    return tmp_path / PARTITION


def write(log_dir: Path, name: str, **offsets: int) -> Path:
    lines = [f"{topic} 3 {offset}\n" for topic, offset in offsets.items()]
    (log_dir / name).write_text(f"0\n{len(lines)}\n{''.join(lines)}")
    return log_dir / name


def told(partition: Path, end: int) -> list[tuple[str, int, int]]:
    return [(each.name, each.old_size, each.size) for each in within_log(str(partition), end)]


def test_none_leads_beyond_the_end(partition: Path) -> None:
    for name in names.OFFSET_CHECKPOINTS:
        write(partition.parent, name, orders=100, others=200)
    assert sorted(told(partition, 40)) == [
        (names.CLEANER_CHECKPOINT, 100, -1),
        (names.LOG_START_CHECKPOINT, 100, -1),
        (names.RECOVERY_POINT_CHECKPOINT, 100, 40),
        (names.REPLICATION_CHECKPOINT, 100, 40),
    ]


@pytest.mark.parametrize("end", [100, 101, 5000])
def test_inside_the_log_all_is_well(partition: Path, end: int) -> None:
    for name in names.OFFSET_CHECKPOINTS:
        write(partition.parent, name, orders=100)
    assert told(partition, end) == []


def test_lines_are_those_of_the_live_partition_not_of_one_that_is_being_deleted(partition: Path) -> None:
    write(partition.parent, names.RECOVERY_POINT_CHECKPOINT, orders=100)
    deleted = partition.rename(partition.with_name(f"{PARTITION}.5f2d11a8d2ba4f7c8e0b8f6f6e2ad0ce-delete"))
    assert told(deleted, 40) == []


@pytest.mark.parametrize("text", ["", "garbage", "0\n1\n", "0\n1\norders 3 x\n"])
def test_what_cannot_be_read_is_left_to_the_broker(partition: Path, text: str) -> None:
    (partition.parent / names.RECOVERY_POINT_CHECKPOINT).write_text(text)
    assert told(partition, 0) == []


def test_directories_that_wait_for_deletion_have_no_say(tmp_path: Path) -> None:
    write(tmp_path, names.RECOVERY_POINT_CHECKPOINT, orders=100)
    deleted = tmp_path / "orders-3.0123456789abcdef0123456789abcdef-delete"
    deleted.mkdir()
    assert told(deleted, 5) == []


class TestPut:
    def test_in_the_place_of_the_old_one(self, partition: Path) -> None:
        path = write(partition.parent, names.RECOVERY_POINT_CHECKPOINT, first=1, orders=100, last=9)
        path.chmod(0o640)
        put_offset(str(partition), path.name, 40)
        assert path.read_text() == "0\n3\nfirst 3 1\norders 3 40\nlast 3 9\n"
        assert path.stat().st_mode & 0o777 == 0o640
        assert not path.with_name(f"{path.name}.kdump").exists()

    def test_a_new_one_and_a_new_file(self, partition: Path) -> None:
        put_offset(str(partition), names.CLEANER_CHECKPOINT, 5)
        path = write(partition.parent, names.RECOVERY_POINT_CHECKPOINT, first=1)
        put_offset(str(partition), path.name, 7)
        assert path.read_text() == "0\n2\nfirst 3 1\norders 3 7\n"
        assert (partition.parent / names.CLEANER_CHECKPOINT).read_text() == "0\n1\norders 3 5\n"

    def test_dropped(self, partition: Path) -> None:
        path = write(partition.parent, names.LOG_START_CHECKPOINT, first=1, orders=100)
        put_offset(str(partition), path.name, -1)
        assert path.read_text() == "0\n1\nfirst 3 1\n"

    def test_nothing_to_drop(self, partition: Path) -> None:
        put_offset(str(partition), names.LOG_START_CHECKPOINT, -1)
        assert not (partition.parent / names.LOG_START_CHECKPOINT).exists()

    def test_as_it_is_already(self, partition: Path) -> None:
        path = write(partition.parent, names.LOG_START_CHECKPOINT, orders=100)
        inode = path.stat().st_ino
        put_offset(str(partition), path.name, 100)
        assert path.stat().st_ino == inode

    def test_what_an_interrupted_run_left_is_no_hindrance(self, partition: Path) -> None:
        path = write(partition.parent, names.LOG_START_CHECKPOINT, orders=100)
        path.with_name(f"{path.name}.kdump").write_text("half")
        put_offset(str(partition), path.name, 4)
        assert path.read_text() == "0\n1\norders 3 4\n"

    def test_a_file_that_cannot_be_parsed_is_not_overwritten(self, partition: Path) -> None:
        (partition.parent / names.LOG_START_CHECKPOINT).write_text("garbage")
        with pytest.raises(CheckpointError):
            put_offset(str(partition), names.LOG_START_CHECKPOINT, 4)
        assert (partition.parent / names.LOG_START_CHECKPOINT).read_text() == "garbage"
