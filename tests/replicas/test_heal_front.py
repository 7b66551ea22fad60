"""`kdump repair --from`: a first segment that was lost comes back, one that was deleted by right does not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kdump.storage.partition import PartitionLog
from tests.agreement.running import Said, kdump
from tests.replicas.building import OnDisk, chain, flip, partition_fields, write_copy, write_metadata

BATCHES = chain(0, (0, 20), (2, 20))
ROLL = (50, 100, 150)
WHOLE = b"".join(batch.data for batch in BATCHES)


def content(folder: Path) -> bytes:
    return b"".join(Path(segment.log_path).read_bytes() for segment in PartitionLog(str(folder)).segments)


def from_offset(offset: int) -> bytes:
    return b"".join(batch.data for batch in BATCHES if batch.base >= offset)


def heal(root: Path, *arguments: object) -> Said:
    return kdump(root, "repair", "b1/orders-0", "--from", "b2/orders-0", *arguments)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy whose first segments are taken away, beside a whole one whose segments end elsewhere."""
    write_copy(tmp_path, 2, OnDisk(BATCHES, high_watermark=195, roll=(75, 125)))
    return write_copy(tmp_path, 1, OnDisk(BATCHES, high_watermark=190, roll=ROLL))


def lose(folder: Path, *bases: int, kinds: str = "*") -> None:
    for base in bases:
        for path in folder.glob(f"{base:020d}.{kinds}"):
            path.unlink()


def epochs(folder: Path, *entries: tuple[int, int]) -> None:
    lines = "".join(f"{epoch} {start}\n" for epoch, start in entries)
    (folder / "leader-epoch-checkpoint").write_text(f"0\n{len(entries)}\n{lines}")


def log_start(folder: Path, offset: int) -> None:
    (folder.parent / "log-start-offset-checkpoint").write_text(f"0\n1\norders 0 {offset}\n")


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("bases", [(0,), (0, 50), (0, 50, 100)])
def test_what_the_leader_epochs_still_have_was_lost(
    bases: tuple[int, ...], clean: bool, folder: Path, tmp_path: Path
) -> None:
    if not clean:
        (tmp_path / "b1" / ".kafka_cleanshutdown").unlink()
    lose(folder, *bases)
    first = bases[-1] + 50
    planned = heal(tmp_path)
    assert planned.code == 1, planned.err
    assert f"lost, not deleted by retention: offsets 0\N{EN DASH}{first - 1} (leader-epoch-checkpoint" in planned.out
    assert f"takes offsets 0\N{EN DASH}{first - 1} ({first} records" in planned.out
    done = heal(tmp_path, "--apply")
    assert done.code == 0, done.out + done.err
    assert content(folder) == WHOLE
    assert kdump(tmp_path, "verify", "b1", "--deep").code == 0
    (started,) = kdump(tmp_path, "startup", "b1", "--format", "jsonl").of_type("outcome")
    assert (started["logStartOffset"], started["logEndOffset"], started["hasLoss"]) == (0, 200, False)
    assert heal(tmp_path).out == "Nothing to do.\n"
    assert kdump(tmp_path, "replicas", "b1", "b2").code == 0


def _leftover(folder: Path) -> None:
    """Only the .log is gone: a broker renames all files of a segment that it deletes."""
    lose(folder, 0, kinds="log")
    epochs(folder, (0, 50), (2, 100))


def _clean_checkpoint(folder: Path) -> None:
    """The log started at 20 when its broker stopped in order, and begins at 50 now."""
    lose(folder, 0)
    epochs(folder, (0, 50), (2, 100))
    log_start(folder, 20)


@pytest.mark.parametrize(
    ("damage", "start", "shows"),
    [(_leftover, 0, f"{0:020d}.index is left"), (_clean_checkpoint, 20, "log-start-offset-checkpoint has it")],
)
def test_what_else_shows_that_it_was_lost(
    damage: Callable[[Path], None], start: int, shows: str, folder: Path, tmp_path: Path
) -> None:
    damage(folder)
    planned = heal(tmp_path)
    assert f"lost, not deleted by retention: offsets {start}\N{EN DASH}49" in planned.out
    assert shows in planned.out
    assert heal(tmp_path, "--apply").code == 0
    assert content(folder) == from_offset(start)


def _retained(folder: Path) -> None:
    """As retention leaves it."""
    lose(folder, 0)
    epochs(folder, (0, 50), (2, 100))


def _being_deleted(folder: Path) -> None:
    """As retention leaves it for the first minute; a snapshot may stay for good."""
    for path in folder.glob(f"{0:020d}.*"):
        path.rename(path.with_name(path.name + ".deleted"))
    epochs(folder, (0, 50), (2, 100))
    (folder / f"{40:020d}.snapshot").write_bytes(b"")


def _deleted_records(folder: Path) -> None:
    lose(folder, 0)
    epochs(folder, (0, 60), (2, 100))
    log_start(folder, 60)


def _killed(folder: Path) -> None:
    """Of a broker that was killed the checkpoint may be a minute old."""
    _retained(folder)
    log_start(folder, 20)
    (folder.parent / ".kafka_cleanshutdown").unlink()


@pytest.mark.parametrize("leave", [_retained, _being_deleted, _deleted_records, _killed])
def test_what_was_deleted_by_right_stays_so(leave: Callable[[Path], None], folder: Path, tmp_path: Path) -> None:
    leave(folder)
    planned = heal(tmp_path)
    assert planned.code == 0, planned.out
    assert planned.out.endswith("Nothing to do.\n")
    assert "this copy begins at offset 50, the other one has offsets from 0 on" in planned.out
    assert "If they were lost, this takes them too: --log-start-offset 0" in planned.out
    flip(folder / f"{100:020d}.log", 300)
    assert heal(tmp_path, "--apply").code == 0
    assert content(folder) == from_offset(50)


def test_where_nothing_tells_it_is_offered(folder: Path, tmp_path: Path) -> None:
    """A broker has started on what was left: it has cut the epochs itself."""
    _deleted_records(folder)
    offered = heal(tmp_path, "--log-start-offset", 0, "--apply")
    assert offered.code == 0, offered.err
    assert content(folder) == WHOLE
    assert (folder.parent / "log-start-offset-checkpoint").read_text() == "0\n1\norders 0 0\n"
    assert (folder / "leader-epoch-checkpoint").read_text() == "0\n2\n0 0\n2 100\n"
    (started,) = kdump(tmp_path, "startup", "b1", "--format", "jsonl").of_type("outcome")
    assert (started["logStartOffset"], started["logEndOffset"]) == (0, 200)


def test_a_log_start_inside_a_batch(folder: Path, tmp_path: Path) -> None:
    _retained(folder)
    assert heal(tmp_path, "--log-start-offset", 33, "--apply").code == 0
    assert content(folder) == from_offset(30)


def test_settings_that_let_retention_delete_nothing_are_said(folder: Path, tmp_path: Path) -> None:
    _retained(folder)
    write_metadata(tmp_path, 2, partition_fields([1, 2], [1, 2], 2), config={"retention.ms": "-1"})
    assert "though by its topic's settings retention deletes nothing" in heal(tmp_path).out
    (row,) = kdump(
        tmp_path, "repair", "b1/orders-0", "--from", "b2", "--format", "jsonl"
    ).of_type("partition")
    assert "retention deletes nothing" in row["notes"][0]


def test_the_other_copy_may_begin_later_than_what_was_lost(folder: Path, tmp_path: Path) -> None:
    lose(folder, 0, 50)
    lose(tmp_path / "b2" / "orders-0", 0)
    epochs(tmp_path / "b2" / "orders-0", (0, 75), (2, 100))
    assert "lost, not deleted by retention: offsets 75\N{EN DASH}99" in heal(tmp_path).out
    assert heal(tmp_path, "--apply").code == 0
    assert content(folder) == from_offset(75)


def test_of_a_tiered_topic_the_first_segments_are_elsewhere(folder: Path, tmp_path: Path) -> None:
    lose(folder, 0)
    write_metadata(tmp_path, 1, partition_fields([1, 2], [1, 2], 2), config={"remote.storage.enable": "true"})
    assert heal(tmp_path).code == 0


def test_nothing_is_put_before_what_a_cleaner_left(folder: Path, tmp_path: Path) -> None:
    lose(folder, 0)
    (tmp_path / "b1" / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 120\n")
    refused = heal(tmp_path)
    assert refused.code == 4
    assert "what is before offset 50 is missing here" in refused.err


def test_it_can_be_taken_back(folder: Path, tmp_path: Path) -> None:
    lose(folder, 0)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert heal(tmp_path, "--apply").code == 0
    change = kdump(tmp_path, "undo", "b1").out.splitlines()[1].split()[0]
    assert kdump(tmp_path, "undo", "b1", "--change", change, "--apply").code == 0
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_replicas_and_doctor_say_what_was_lost(folder: Path, tmp_path: Path) -> None:
    """A follower moves its log start to the leader's, so that what a leader has lost is deleted everywhere."""
    lose(folder, 0)
    for broker in (1, 2):
        write_metadata(tmp_path, broker, partition_fields([1, 2], [1, 2], 2))
    said = kdump(tmp_path, "replicas", "b1", "b2")
    assert said.code == 1
    assert "0\N{EN DASH}49 missing" in said.out
    assert "1            in sync      50 records (50 committed)" in said.out
    assert "do: kdump repair b1/orders-0 --from b2/orders-0" in said.out
    codes = [row["code"] for row in kdump(tmp_path, "verify", "b1", "b2", "--format", "jsonl").of_type("finding")]
    assert codes == ["KD-COPY-MISSING"]
    (row,) = kdump(tmp_path, "doctor", "b1", "b2", "--format", "jsonl").of_type("diagnosis")
    assert row["actions"][0]["command"] == ["kdump", "repair", "b1/orders-0", "--from", "b2/orders-0"]


def test_replicas_say_nothing_of_what_retention_deleted(folder: Path, tmp_path: Path) -> None:
    _retained(folder)
    assert kdump(tmp_path, "replicas", "b1", "b2").out == "OK. 1 partition: all copies are identical.\n"
