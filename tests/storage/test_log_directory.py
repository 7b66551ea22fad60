"""LogDirectory: partition directories of every state, checkpoints, and whose directory it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdump.errors import CheckpointError
from kdump.formats import names
from kdump.storage.directory import LogDirectory
from tests.storage.building import batch, segment_file

UNIQUE = "0123456789abcdef" * 2


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a-0", "a-1", f"b-0.{UNIQUE}-delete", f"c-0.{UNIQUE}-future", f"d-0.{UNIQUE}-stray"):
        segment_file(tmp_path / name, batch(0))
    for name in ("lost+found", names.REMOTE_LOG_INDEX_CACHE_DIR, "notes"):
        (tmp_path / name).mkdir()
    return tmp_path


def test_partitions_of_every_state(folder: Path) -> None:
    directory = LogDirectory(str(folder))
    assert [(log.name.topic, log.name.state) for log in directory.partitions() if log.name] == [
        ("a", names.LIVE),
        ("a", names.LIVE),
        ("b", names.DELETE),
        ("c", names.FUTURE),
        ("d", names.STRAY),
    ]
    assert set(directory.directories) - set(directory.partition_names) == {"lost+found", "notes"} | (
        {names.REMOTE_LOG_INDEX_CACHE_DIR} - set(directory.partition_names)
    )


def test_files_are_not_partitions(folder: Path) -> None:
    (folder / "x-0").write_bytes(b"")
    directory = LogDirectory(str(folder))
    assert "x-0" not in directory.partition_names
    assert "x-0" in directory.files


def test_offset_checkpoints(folder: Path) -> None:
    (folder / names.RECOVERY_POINT_CHECKPOINT).write_text("0\n2\na 0 17\na 1 4\n")
    (folder / names.LOG_START_CHECKPOINT).write_text("0\n0\n")
    directory = LogDirectory(str(folder))
    assert directory.checkpoint(names.RECOVERY_POINT_CHECKPOINT) == {("a", 0): 17, ("a", 1): 4}
    assert directory.checkpoint(names.LOG_START_CHECKPOINT) == {}
    assert directory.checkpoint(names.CLEANER_CHECKPOINT) == {}


def test_of_several_entries_of_a_partition_the_last_counts(folder: Path) -> None:
    (folder / names.REPLICATION_CHECKPOINT).write_text("0\n2\na 0 17\na 0 18\n")
    assert LogDirectory(str(folder)).checkpoint(names.REPLICATION_CHECKPOINT) == {("a", 0): 18}


def test_a_checkpoint_that_cannot_be_parsed(folder: Path) -> None:
    path = folder / names.RECOVERY_POINT_CHECKPOINT
    path.write_text("0\n1\na zero 17\n")
    with pytest.raises(CheckpointError) as caught:
        LogDirectory(str(folder)).checkpoint(names.RECOVERY_POINT_CHECKPOINT)
    assert str(caught.value) == f"Malformed line in checkpoint file [{path}]: a zero 17"


def test_clean_shutdown(folder: Path) -> None:
    directory = LogDirectory(str(folder))
    assert not directory.clean_shutdown
    assert directory.clean_shutdown_file() is None
    (folder / names.CLEAN_SHUTDOWN).write_text('{"version":0,"brokerEpoch":93}')
    directory = LogDirectory(str(folder))
    assert directory.clean_shutdown
    shutdown = directory.clean_shutdown_file()
    assert shutdown is not None
    assert shutdown.broker_epoch == 93


def test_an_unreadable_marker_is_still_a_clean_shutdown(folder: Path) -> None:
    (folder / names.CLEAN_SHUTDOWN).write_text("{")
    directory = LogDirectory(str(folder))
    assert directory.clean_shutdown
    with pytest.raises(CheckpointError):
        directory.clean_shutdown_file()


def test_whose_directory_it_is(folder: Path) -> None:
    assert LogDirectory(str(folder)).meta_properties() is None
    (folder / names.META_PROPERTIES).write_text("#\n#date\nversion=1\nnode.id=5\ncluster.id=abc\n")
    meta = LogDirectory(str(folder)).meta_properties()
    assert meta is not None
    assert (meta.version, meta.node_id, meta.cluster_id, meta.directory_id) == (1, 5, "abc", None)


def test_links_that_lead_nowhere_do_not_matter(folder: Path) -> None:
    (folder / "loop-0").symlink_to("loop-0")
    (folder / "gone-0").symlink_to("nowhere")
    (folder / "moved-0").symlink_to("a-0")
    directory = LogDirectory(str(folder))
    assert {"loop-0", "gone-0"}.isdisjoint([*directory.partition_names, *directory.files])
    assert "moved-0" in directory.partition_names


def test_no_such_directory(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        LogDirectory(str(tmp_path / "gone"))
