"""A partition of which the only .log is gone: its records were committed, so nothing must look sound."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kdump.formats import names
from kdump.formats.checkpoints import OffsetCheckpointEntry, format_offset_checkpoint
from kdump.formats.index_entries import TimeIndexEntry, encode_time_entries
from tests.commands.running import Run
from tests.recovery.building import METADATA, batch, file

END = 20


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A log directory after an orderly stop, whose partition had records up to offset 19."""
    monkeypatch.chdir(tmp_path)
    partition = Path("data", "orders-0")
    partition.mkdir(parents=True)
    (partition / file(0, "log")).write_bytes(batch(0, END))
    (partition / file(0, "index")).write_bytes(b"")
    (partition / file(0, "timeindex")).write_bytes(encode_time_entries([TimeIndexEntry(1000, END - 1)], 0))
    (partition / names.PARTITION_METADATA).write_bytes(METADATA)
    lines = format_offset_checkpoint([OffsetCheckpointEntry("orders", 0, END)])
    for name in (names.RECOVERY_POINT_CHECKPOINT, names.REPLICATION_CHECKPOINT):
        Path("data", name).write_bytes(lines)
    Path("data", names.CLEAN_SHUTDOWN).write_bytes(b"")
    Path("data", names.META_PROPERTIES).write_text("version=1\nnode.id=1\ncluster.id=abc\n")
    return Path("data")


@pytest.fixture
def lost(data: Path) -> Path:
    """The log directory without the log."""
    (data / "orders-0" / file(0, "log")).unlink()
    return data


def test_verify_says_that_committed_offsets_are_gone(run: Run, data: Path) -> None:
    assert run("verify", data) == 0, run.out
    for name in ("log", "index", "timeindex"):
        (data / "orders-0" / file(0, name)).unlink()
        assert run("verify", data, "--format", "jsonl") == 1
        codes = {row.get("code"): row.get("message") for row in map(json.loads, run.out.splitlines())}
        assert codes["KD-CKPT-HIGH-WATERMARK"] == (
            "orders-0: high watermark 20 is above the log end offset 0:"
            " committed offsets 0\u201319 are not on this disk"
        )


def test_a_partition_that_never_had_a_segment_is_sound(run: Run, data: Path) -> None:
    """As a broker leaves it that was killed while it made it."""
    (data / "new-0").mkdir()
    (data / "new-0" / names.PARTITION_METADATA).write_bytes(METADATA)
    assert run("verify", data) == 0, run.out


@pytest.mark.parametrize("strategy", ["safe", "salvage", "truncate"])
@pytest.mark.parametrize("beside", [None, file(0, "timeindex"), file(20, "snapshot")])
def test_repair_and_doctor(run: Run, lost: Path, strategy: str, beside: str | None) -> None:
    """Whatever is left beside it is damaged, too."""
    if beside is not None:
        (lost / "orders-0" / beside).write_bytes(b"xyz")
    assert run("repair", lost, "--strategy", strategy, "--only-copy") == 1, run.err
    assert run("doctor", lost) == 1, run.err
    assert "committed offsets 0\u201319 are at stake" in " ".join(run.out.split())


@pytest.mark.parametrize("beside", [True, False])
def test_repair_keeps_the_only_sign_of_committed_records(run: Run, lost: Path, beside: bool) -> None:
    """A high watermark that is set to an empty log's end makes the loss look sound: whoever has no other copy asks."""
    if not beside:
        (lost / "orders-0" / file(0, "index")).unlink()
        (lost / "orders-0" / file(0, "timeindex")).unlink()
    marks = [(lost / name).read_bytes() for name in (names.RECOVERY_POINT_CHECKPOINT, names.REPLICATION_CHECKPOINT)]
    assert run("repair", lost, "--apply") == 0, run.err
    text = " ".join(run.out.split())
    assert "offsets 0\u201319 are not on this disk; kept: recovery point 20 and high watermark 20." in text
    assert "Another in-sync replica sends them when this broker runs." in text
    assert "If there is no other copy: --only checkpoints" in text
    after = [(lost / name).read_bytes() for name in (names.RECOVERY_POINT_CHECKPOINT, names.REPLICATION_CHECKPOINT)]
    assert after == marks
    assert run("verify", lost) == 1
    assert run("repair", lost, "--only", "checkpoints", "--apply") == 0, run.err
    assert run("verify", lost) == 0, run.out


def test_what_repair_cuts_itself_moves_the_high_watermark(run: Run, data: Path) -> None:
    """The plan says what is cut: an incomplete batch."""
    (data / names.CLEAN_SHUTDOWN).unlink()
    log = data / "orders-0" / file(0, "log")
    log.write_bytes(log.read_bytes() + batch(END, 5)[:-3])
    for name in (names.RECOVERY_POINT_CHECKPOINT, names.REPLICATION_CHECKPOINT):
        (data / name).write_bytes(format_offset_checkpoint([OffsetCheckpointEntry("orders", 0, END + 5)]))
    assert run("repair", data, "--apply") == 0, run.err
    assert (data / names.REPLICATION_CHECKPOINT).read_text().endswith(f"orders 0 {END}\n")
