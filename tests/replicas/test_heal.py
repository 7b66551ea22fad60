"""`kdump repair --from`: what a copy lacks comes from other ones, and what must not be taken is refused."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kdump.formats.checkpoints import parse_leader_epochs, parse_offset_checkpoint
from kdump.replication import heal as heal_rules
from kdump.replication.rows import BatchRows, walk
from kdump.storage.partition import PartitionLog
from tests.agreement.running import Said, kdump
from tests.replicas.building import OnDisk, Sent, chain, flip, partition_fields, write_copy, write_metadata

BATCHES = chain(0, (0, 20), (2, 20))
ROLL = (50, 100, 150)
END = 200


def content(folder: Path) -> bytes:
    """All batches of a partition directory."""
    return b"".join(Path(segment.log_path).read_bytes() for segment in PartitionLog(str(folder)).segments)


WHOLE = b"".join(batch.data for batch in BATCHES)


def heal(root: Path, *arguments: object) -> Said:
    return kdump(root, "repair", "b1/orders-0", *arguments)


@pytest.fixture
def copies(tmp_path: Path) -> tuple[Path, Path]:
    """A copy to be damaged, and a whole one whose segments end elsewhere."""
    first = write_copy(tmp_path, 1, OnDisk(BATCHES, high_watermark=190, roll=ROLL))
    return first, write_copy(tmp_path, 2, OnDisk(BATCHES, high_watermark=195, roll=(75, 125)))


def _flip(folder: Path) -> None:
    flip(folder / f"{50:020d}.log", 300)


def _flip_base_offset(folder: Path) -> None:
    flip(folder / f"{50:020d}.log", len(BATCHES[10].data) + 4)


def _flip_base_offset_into_the_batch_before(folder: Path) -> None:
    flip(folder / f"{50:020d}.log", len(BATCHES[10].data) + 7)


def _flip_epoch(folder: Path) -> None:
    flip(folder / f"{50:020d}.log", 15)


def _flip_size(folder: Path) -> None:
    flip(folder / f"{50:020d}.log", 11, 64)


def _lose_log(folder: Path) -> None:
    (folder / f"{100:020d}.log").unlink()


def _lose_segment(folder: Path) -> None:
    for path in folder.glob(f"{100:020d}.*"):
        path.unlink()


def _zero(folder: Path) -> None:
    path = folder / f"{100:020d}.log"
    data = path.read_bytes()
    path.write_bytes(data[:200] + bytes(600) + data[800:])


def _cut(folder: Path) -> None:
    for path in folder.glob(f"{150:020d}.*"):
        path.unlink()
    path = folder / f"{100:020d}.log"
    path.write_bytes(path.read_bytes()[:777])


def _no_epochs(folder: Path) -> None:
    _flip(folder)
    (folder / "leader-epoch-checkpoint").unlink()


def _wrong_epochs(folder: Path) -> None:
    _flip(folder)
    (folder / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n2 137\n")


def _no_topic_id(folder: Path) -> None:
    _flip(folder)
    (folder / "partition.metadata").unlink()


def _wipe(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()


DAMAGES = (
    _flip, _flip_base_offset, _flip_base_offset_into_the_batch_before,
    _flip_epoch, _flip_size, _lose_log, _lose_segment, _zero, _cut, _no_epochs,
    _wrong_epochs, _no_topic_id, _wipe,
)  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("clean", [True, False])
def test_all_is_put_back(
    damage: Callable[[Path], None], clean: bool, copies: tuple[Path, Path], tmp_path: Path
) -> None:
    folder, peer = copies
    if not clean:
        (tmp_path / "b1" / ".kafka_cleanshutdown").unlink()
    damage(folder)
    damaged = content(folder)
    planned = heal(tmp_path, "--from", "b2/orders-0")
    assert planned.code == 1, planned.err
    assert content(folder) == damaged
    done = heal(tmp_path, "--from", "b2/orders-0", "--apply")
    assert done.code == 0, done.out + done.err
    assert content(folder) == content(peer) == WHOLE
    assert kdump(tmp_path, "verify", "b1", "--deep").code == 0
    assert (folder / f"{END:020d}.snapshot").exists()
    epochs = parse_leader_epochs((folder / "leader-epoch-checkpoint").read_bytes(), "")
    assert [tuple(entry) for entry in epochs] == [(0, 0), (2, 100)]
    assert (folder / "partition.metadata").read_bytes() == (peer / "partition.metadata").read_bytes()
    (started,) = kdump(tmp_path, "startup", "b1", "--format", "jsonl").of_type("outcome")
    assert (started["logEndOffset"], started["hasLoss"]) == (END, False)
    assert heal(tmp_path, "--from", "b2/orders-0").out == "Nothing to do.\n"
    assert kdump(tmp_path, "replicas", "b1", "b2").code == 0


@pytest.mark.parametrize("damage", DAMAGES)
def test_it_can_be_taken_back(damage: Callable[[Path], None], copies: tuple[Path, Path], tmp_path: Path) -> None:
    folder, _ = copies
    damage(folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert heal(tmp_path, "--from", "b2", "--apply").code == 0
    assert {path.name: path.read_bytes() for path in folder.iterdir()} != before
    change = kdump(tmp_path, "undo", "b1").out.splitlines()[1].split()[0]
    assert kdump(tmp_path, "undo", "b1", "--change", change, "--apply").code == 0
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_what_is_sound_is_not_touched(copies: tuple[Path, Path], tmp_path: Path) -> None:
    folder, _ = copies
    _flip(folder)
    before = {path.name: path.stat().st_ino for path in folder.iterdir()}
    assert heal(tmp_path, "--from", "b2", "--apply").code == 0
    after = {path.name: path.stat().st_ino for path in folder.iterdir()}
    changed = {name for name in before if after.get(name) != before[name]}
    assert {name.split(".")[0] for name in changed} == {f"{50:020d}"}


def test_three_damaged_copies_are_one_whole_one(tmp_path: Path) -> None:
    folders = [write_copy(tmp_path, number, OnDisk(BATCHES, roll=ROLL)) for number in (1, 2, 3)]
    size = len(BATCHES[0].data)
    for folder, base, position in zip(folders, (0, 50, 0), (70, 90, 4 * size + 99), strict=True):
        flip(folder / f"{base:020d}.log", position)
    flip(folders[0] / f"{50:020d}.log", 90)
    alone = heal(tmp_path, "--from", "b2")
    assert alone.code == 3
    assert "none of these copies has a valid batch for offsets 50\N{EN DASH}54" in alone.err
    assert heal(tmp_path, "--from", "b2", "--from", "b3", "--apply").code == 0
    assert content(folders[0]) == WHOLE


def test_checkpoints_lead_to_the_new_end(copies: tuple[Path, Path], tmp_path: Path) -> None:
    _wipe(copies[0])
    for name in ("replication", "recovery-point", "log-start"):
        (tmp_path / "b1" / f"{name}-offset-checkpoint").write_text("0\n1\nother 3 7\n")
    assert heal(tmp_path, "--from", "b2", "--apply").code == 0
    path = tmp_path / "b1" / "replication-offset-checkpoint"
    entries = [tuple(entry) for entry in parse_offset_checkpoint(path.read_bytes(), "")]
    assert sorted(entries) == [("orders", 0, 195), ("other", 3, 7)]


def test_a_wiped_copy_has_the_high_watermark_of_what_it_gets(tmp_path: Path) -> None:
    """Its own was that of other records."""
    folder = write_copy(tmp_path, 1, OnDisk(chain(0, (2, 10)), high_watermark=50))
    write_copy(tmp_path, 2, OnDisk(chain(0, (1, 12)), high_watermark=20))
    _wipe(folder)
    assert heal(tmp_path, "--from", "b2", "--apply").code == 0
    marks = parse_offset_checkpoint((tmp_path / "b1" / "replication-offset-checkpoint").read_bytes(), "")
    assert [tuple(entry) for entry in marks] == [("orders", 0, 20)]


def test_a_running_broker_gives_its_closed_segments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_copy(tmp_path, 1, OnDisk(BATCHES, roll=ROLL))
    write_copy(tmp_path, 2, OnDisk(BATCHES, roll=(75, 160)))
    _cut(folder)
    monkeypatch.setattr("kdump.operations.heal_sources.broker_on", lambda path: path if path.endswith("b2") else None)
    assert heal(tmp_path, "--from", "b2", "--apply").code == 0
    assert content(folder) == b"".join(batch.data for batch in BATCHES if batch.end <= 160)


def test_an_older_history_is_refused(tmp_path: Path) -> None:
    shared = chain(0, (0, 4))
    write_copy(tmp_path, 1, OnDisk([*shared, *chain(20, (1, 4))]))
    write_copy(tmp_path, 2, OnDisk([*shared, *chain(20, (0, 9), mark="old")]))
    refused = heal(tmp_path, "--from", "b2")
    assert refused.code == 4
    assert "older history: leader epoch 0 at offset 20" in refused.err


def test_a_tail_of_an_older_leader_is_refused_where_a_newer_one_has_begun(tmp_path: Path) -> None:
    """Nothing was appended in the newer term: only leader-epoch-checkpoint knows of it."""
    write_copy(tmp_path, 1, OnDisk(chain(0, (0, 4)), epochs=[(0, 0), (1, 20)]))
    write_copy(tmp_path, 2, OnDisk(chain(0, (0, 9))))
    refused = heal(tmp_path, "--from", "b2")
    assert refused.code == 4
    assert "leader epoch 0 at offset 20, after 1" in refused.err


def test_own_records_of_an_older_leader_stay(tmp_path: Path) -> None:
    """Its broker cuts them when it follows; the damage before them is mended."""
    shared = chain(0, (0, 4))
    own = [*shared, *chain(20, (0, 3), mark="own")]
    folder = write_copy(tmp_path, 1, OnDisk(own))
    write_copy(tmp_path, 2, OnDisk([*shared, *chain(20, (1, 9))]))
    flip(folder / f"{0:020d}.log", 80)
    done = heal(tmp_path, "--from", "b2", "--apply")
    assert done.code == 0
    assert "from offset 20 on this copy has records of leader epoch 0, the other of 1" in done.out
    assert content(folder) == b"".join(batch.data for batch in own)


def test_other_bytes_of_the_same_epoch_are_refused(tmp_path: Path) -> None:
    write_copy(tmp_path, 1, OnDisk(chain(0, (0, 4))))
    write_copy(tmp_path, 2, OnDisk([*chain(0, (0, 2)), Sent(10, 5, 0, "other"), *chain(15, (0, 3))]))
    refused = heal(tmp_path, "--from", "b2")
    assert refused.code == 4
    assert "kdump cannot know which are right" in refused.err


@pytest.mark.parametrize(
    ("other", "text"),
    [
        (OnDisk(BATCHES, topic_id=bytes(16)[:-1] + b"\x07"), "another topic of the same name"),
        (OnDisk(BATCHES, cluster="b3RoZXIgY2x1c3RlciBpZA"), "another cluster"),
    ],
)
def test_another_topic_or_cluster_is_refused(other: OnDisk, text: str, tmp_path: Path) -> None:
    write_copy(tmp_path, 1, OnDisk(BATCHES[:5]))
    write_copy(tmp_path, 2, other)
    refused = heal(tmp_path, "--from", "b2/orders-0")
    assert refused.code == 4
    assert text in refused.err


def test_itself_and_another_partition_are_refused(tmp_path: Path) -> None:
    write_copy(tmp_path, 1, OnDisk(BATCHES[:5]))
    write_copy(tmp_path, 2, OnDisk(BATCHES), name="orders-1")
    assert heal(tmp_path, "--from", "b1").code == 4
    assert heal(tmp_path, "--from", "b2/orders-1").code == 4


def test_a_directory_without_a_copy(copies: tuple[Path, Path], tmp_path: Path) -> None:
    write_copy(tmp_path, 3, OnDisk(BATCHES), name="clicks-0")
    said = heal(tmp_path, "--from", "b3")
    assert said.code == 3
    assert "have no copy of these partitions" in said.err
    assert heal(tmp_path, "--from", "nothing").code in (2, 3)


def test_a_saved_plan_and_a_repaired_copy(copies: tuple[Path, Path], tmp_path: Path) -> None:
    _flip(copies[0])
    assert heal(tmp_path, "--from", "b2", "--plan-out", "plan").code == 1
    assert heal(tmp_path, "--from", "b2", "--apply", "--output", "out").code == 0
    assert content(tmp_path / "out" / "orders-0") == WHOLE != content(copies[0])
    assert heal(tmp_path, "--from", "b2", "--apply-plan", "plan").code == 0
    assert content(copies[0]) == WHOLE


def test_options_that_go_together_with_nothing_else(copies: tuple[Path, Path], tmp_path: Path) -> None:
    for option in (["--fix-bit"], ["--strategy", "salvage"], ["--only", "log"]):
        assert heal(tmp_path, "--from", "b2", *option).code == 2


@pytest.fixture
def cleaned(tmp_path: Path) -> tuple[Path, Path]:
    """Copies of a compacted partition: two cleaners have left other batches below offset 100."""
    first = [batch for number, batch in enumerate(BATCHES) if number >= 20 or number % 3]
    second = [batch for number, batch in enumerate(BATCHES) if number >= 20 or number % 2]
    folders = write_copy(tmp_path, 1, OnDisk(first, roll=(100,))), write_copy(tmp_path, 2, OnDisk(second, roll=(100,)))
    for broker in (1, 2):
        (tmp_path / f"b{broker}" / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 100\n")
    return folders


def test_above_what_a_cleaner_has_been_at_copies_are_healed(cleaned: tuple[Path, Path], tmp_path: Path) -> None:
    before = content(cleaned[0])
    flip(cleaned[0] / f"{100:020d}.log", 300)
    assert heal(tmp_path, "--from", "b2", "--apply").code == 0
    assert content(cleaned[0]) == before


def test_what_cleaners_have_left_is_not_mixed(cleaned: tuple[Path, Path], tmp_path: Path) -> None:
    flip(cleaned[0] / f"{5:020d}.log", 300)
    refused = heal(tmp_path, "--from", "b2")
    assert refused.code == 4
    assert "the topic is compacted" in refused.err


def test_a_batch_across_what_a_cleaner_has_been_at_is_not_taken(cleaned: tuple[Path, Path], tmp_path: Path) -> None:
    """One cleaner has left a part of it, the other one all of it."""
    for broker in (1, 2):
        (tmp_path / f"b{broker}" / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 97\n")
    first = cleaned[0] / f"{5:020d}.log"
    data, batch = first.read_bytes(), BATCHES[19]
    first.write_bytes(data.replace(batch.data, Sent(batch.base, 3, batch.epoch, batch.mark).data))
    before = content(cleaned[0])
    flip(cleaned[0] / f"{100:020d}.log", 300)
    assert heal(tmp_path, "--from", "b2", "--apply").code == 0
    assert content(cleaned[0]) == before


def test_an_empty_segment_ends_a_log_whose_last_batches_are_cleaned_away(tmp_path: Path) -> None:
    batches = [*chain(0, (0, 8)), *chain(100, (0, 4))]
    for broker in (1, 2):
        write_copy(tmp_path, broker, OnDisk(batches, roll=(100, 150)))
        (tmp_path / f"b{broker}" / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 60\n")
    folder = tmp_path / "b1" / "orders-0"
    flip(folder / f"{100:020d}.log", 300)
    done = heal(tmp_path, "--from", "b2", "--apply")
    assert done.code == 0
    assert "log end offset 150" in done.out
    assert content(folder) == b"".join(batch.data for batch in batches)


def test_a_broker_that_has_nothing_gets_what_one_cleaner_has_left(cleaned: tuple[Path, Path], tmp_path: Path) -> None:
    _wipe(cleaned[0])
    assert heal(tmp_path, "--from", "b2", "--apply").code == 0
    assert content(cleaned[0]) == content(cleaned[1])


def test_a_missing_directory_is_made_and_taken_back(copies: tuple[Path, Path], tmp_path: Path) -> None:
    folder, peer = copies
    shutil.rmtree(folder)
    planned = heal(tmp_path, "--from", "b2")
    assert planned.code == 1, planned.err
    assert not folder.exists()
    assert heal(tmp_path, "--from", "b2", "--apply").code == 0
    assert content(folder) == WHOLE
    assert folder.stat().st_mode == (tmp_path / "b1").stat().st_mode
    assert (folder / "partition.metadata").read_bytes() == (peer / "partition.metadata").read_bytes()
    assert kdump(tmp_path, "verify", "b1", "--deep").code == 0
    change = kdump(tmp_path, "undo", "b1").out.splitlines()[1].split()[0]
    assert kdump(tmp_path, "undo", "b1", "--change", change, "--apply").code == 0
    assert not folder.exists()


def test_a_missing_directory_in_a_copy(copies: tuple[Path, Path], tmp_path: Path) -> None:
    shutil.rmtree(copies[0])
    assert heal(tmp_path, "--from", "b2", "--apply", "--output", "out").code == 0
    assert content(tmp_path / "out" / "orders-0") == WHOLE
    assert not copies[0].exists()


@pytest.mark.parametrize(
    ("directories", "is_made"),
    [((bytes([1] * 16), bytes([2] * 16)), True), ((bytes([9] * 16), bytes([2] * 16)), False)],
)
def test_a_log_directory_gets_what_the_cluster_has_in_it(
    directories: tuple[bytes, ...], is_made: bool, copies: tuple[Path, Path], tmp_path: Path
) -> None:
    """With several log directories of a broker only the one that the metadata names."""
    shutil.rmtree(copies[0])
    write_metadata(tmp_path, 1, partition_fields([1, 2], [1, 2], 2, directories=list(directories)))
    said = kdump(tmp_path, "repair", "b1", "--from", "b2", "--apply")
    assert said.code == (0 if is_made else 3), said.err
    assert copies[0].exists() == is_made


def test_a_copy_is_made_in_no_other_directory_than_the_one_assigned(copies: tuple[Path, Path], tmp_path: Path) -> None:
    """A broker that finds a partition in two log directories does not start; one that is there may be healed."""
    fields = partition_fields([1, 2], [1, 2], 2, directories=[bytes([9] * 16), bytes([2] * 16)])
    write_metadata(tmp_path, 2, fields)
    _flip(copies[0])
    assert heal(tmp_path, "--from", "b2", "--apply").code == 0
    shutil.rmtree(copies[0])
    refused = heal(tmp_path, "--from", "b2", "--apply")
    assert refused.code == 4
    assert "in another log directory of broker 1" in refused.err
    assert not copies[0].exists()
    write_metadata(tmp_path, 2, fields | {"directories": [bytes(16), bytes([2] * 16)]}, extra=3)
    assert heal(tmp_path, "--from", "b2", "--apply").code == 0, "none is assigned yet"


def test_a_broker_that_is_no_replica_gets_no_directory(copies: tuple[Path, Path], tmp_path: Path) -> None:
    shutil.rmtree(copies[0])
    write_metadata(tmp_path, 1, partition_fields([2, 3], [2], 2))
    refused = heal(tmp_path, "--from", "b2", "--apply")
    assert refused.code == 4
    assert "on the brokers 2, 3, not on 1" in refused.err
    assert not copies[0].exists()


def test_each_partition_is_healed_by_itself(tmp_path: Path) -> None:
    """One is whole again; another one is refused, of a third nobody has what is missing: each is said."""
    for broker in (1, 2):
        write_copy(tmp_path, broker, OnDisk(BATCHES, roll=ROLL), name="whole-0")
    older = [*chain(0, (0, 4)), *chain(20, (0, 9), mark="old")]
    write_copy(tmp_path / "x", 1, OnDisk([*chain(0, (0, 4)), *chain(20, (1, 4))]), name="older-0")
    write_copy(tmp_path / "x", 2, OnDisk(older), name="older-0")
    for broker in (1, 2):
        write_copy(tmp_path / "y", broker, OnDisk(BATCHES, roll=ROLL), name="lacking-0")
        for folder in ("x", "y"):
            for each in (tmp_path / folder / f"b{broker}").glob("*-0"):
                shutil.move(each, tmp_path / f"b{broker}" / each.name)
        flip(tmp_path / f"b{broker}" / "lacking-0" / f"{50:020d}.log", 300)
    flip(tmp_path / "b1" / "whole-0" / f"{50:020d}.log", 300)
    said = kdump(tmp_path, "repair", "b1", "--from", "b2", "--apply")
    assert said.code == 4
    assert content(tmp_path / "b1" / "whole-0") == WHOLE
    assert "b1/whole-0" in said.out
    assert "older history: leader epoch 0 at offset 20" in said.err
    assert "none of these copies has a valid batch" in said.err
    again = kdump(tmp_path, "repair", "b1", "--from", "b2", "--format", "jsonl")
    is_complete = {row["path"]: row["isComplete"] for row in again.of_type("partition")}
    assert is_complete == {"b1/lacking-0": False, "b1/whole-0": True}
    assert {row["path"]: row["exitCode"] for row in again.of_type("leftAlone")} == {"b1/older-0": 4}


def test_of_several_copies_the_newer_history_counts(tmp_path: Path) -> None:
    """Where the others part, the one with the older leader epoch is not taken from any more."""
    shared = chain(0, (0, 4))
    newer, older = [*shared, *chain(20, (2, 3))], [*shared, *chain(20, (1, 6), mark="old")]
    folder = write_copy(tmp_path, 1, OnDisk(shared))
    for broker, batches in ((2, older), (3, newer)):
        write_copy(tmp_path, broker, OnDisk(batches))
    flip(folder / f"{0:020d}.log", 80)
    assert heal(tmp_path, "--from", "b2", "--from", "b3", "--apply").code == 0
    assert content(folder) == b"".join(batch.data for batch in newer)
    assert heal(tmp_path, "--from", "b2", "--from", "b3").out == "Nothing to do.\n"


def test_copies_that_parted_where_one_is_damaged_are_not_mixed(tmp_path: Path) -> None:
    shared = chain(0, (0, 4))
    own = [*shared, *chain(20, (0, 3), mark="own")]
    folder = write_copy(tmp_path, 1, OnDisk(own))
    write_copy(tmp_path, 2, OnDisk([*shared, *chain(20, (1, 1))]))
    flip(folder / f"{0:020d}.log", sum(len(batch.data) for batch in shared) + 80)  # the first batch that differs
    before = content(folder)
    refused = heal(tmp_path, "--from", "b2", "--apply")
    assert refused.code == 4
    assert "the copies diverge inside the damaged range" in refused.err
    assert content(folder) == before


def test_a_segment_inside_a_batch_that_is_taken_goes(tmp_path: Path) -> None:
    """All of the copy is damaged, and its segments begin where the other history has no batch."""
    folder = write_copy(tmp_path, 1, OnDisk(chain(0, (0, 4), size=3), roll=(3, 9)))
    for path in folder.glob("*.log"):
        data = bytearray(path.read_bytes())
        path.write_bytes(bytes(byte ^ 0x55 if at > 20 else byte for at, byte in enumerate(data)))
    whole = chain(0, (1, 6), size=2)
    write_copy(tmp_path, 2, OnDisk(whole))
    refused = heal(tmp_path, "--from", "b2", "--apply")
    assert refused.code == 4
    assert " of b2/orders-0 are records of this partition: the stored CRC is " in refused.err
    assert heal(tmp_path, "--from", "b2", "--unproved", "--apply").code == 0
    assert content(folder) == b"".join(batch.data for batch in whole)
    assert kdump(tmp_path, "verify", "b1", "--deep").code == 0


@pytest.mark.parametrize("what", ["records", "crc", "sector"])
def test_a_batch_is_taken_that_is_the_damaged_one(tmp_path: Path, what: str) -> None:
    """It has the stored CRC; or, where that is damaged, the other fields and most of the bytes."""
    (batch,) = chain(0, (0, 1), size=5)
    folder = write_copy(tmp_path, 1, OnDisk([batch]))
    write_copy(tmp_path, 2, OnDisk([batch]))
    path = folder / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    damaged = {"records": range(80, 90), "crc": range(17, 21), "sector": range(61, len(data))}[what]
    for at in damaged:
        data[at] ^= 0x5A
    path.write_bytes(data)
    assert heal(tmp_path, "--from", "b2", "--apply").code == 0
    assert content(folder) == batch.data


def test_a_batch_of_another_partition_is_not_taken(tmp_path: Path) -> None:
    """Of the same topic, at the same offsets, of the same size and times: only CRC and records are others."""
    (own,), (other,) = chain(0, (0, 1), size=5, mark="own"), chain(0, (0, 1), size=5, mark="abc")
    folder = write_copy(tmp_path, 1, OnDisk([own]))
    write_copy(tmp_path, 2, OnDisk([other]))
    flip(folder / f"{0:020d}.log", 80)
    before = content(folder)
    refused = heal(tmp_path, "--from", "b2", "--apply")
    assert refused.code == 4
    assert "the stored CRC is 0x" in refused.err
    assert "kdump replicas b1/orders-0 b2/orders-0" in refused.err
    assert content(folder) == before


def test_segments_above_the_end_go_where_nothing_in_them_is_valid(tmp_path: Path) -> None:
    """The last batches are damaged, the other copy was behind them: the broker gets them from the leader."""
    batches = chain(0, (0, 20))
    folder = write_copy(tmp_path, 1, OnDisk(batches, roll=(50, 90)))
    for batch in (batches[11], *batches[17:]):
        path = folder / f"{50 if batch.base < 90 else 90:020d}.log"
        flip(path, path.read_bytes().index(batch.data) + 70)
    write_copy(tmp_path, 2, OnDisk(batches[:16]))
    done = heal(tmp_path, "--from", "b2", "--apply")
    assert done.code == 0
    assert "damaged batches up to offset 99 are valid in none of these copies" in done.out
    assert content(folder) == b"".join(batch.data for batch in batches[:17])
    assert sorted(path.name for path in folder.glob("*.log")) == [f"{0:020d}.log", f"{50:020d}.log"]
    assert kdump(tmp_path, "verify", "b1", "--deep").code == 0


def test_the_later_leader_is_right_wherever_copies_part(tmp_path: Path) -> None:
    """An unclean leader of epoch 5 went on at offset 20; a later one, of epoch 7, had the records of epoch 3 there."""
    shared = chain(0, (3, 4))
    right = [*shared, *chain(20, (3, 2)), *chain(30, (7, 2))]
    folder = write_copy(tmp_path, 1, OnDisk(shared))
    write_copy(tmp_path, 2, OnDisk(right))
    write_copy(tmp_path, 3, OnDisk([*shared, *chain(20, (5, 9))]))
    for sources in (("b2", "b3"), ("b3", "b2")):
        _wipe(folder)
        arguments = [part for source in sources for part in ("--from", source)]
        assert heal(tmp_path, *arguments, "--apply").code == 0
        assert content(folder) == b"".join(batch.data for batch in right)
    refused = kdump(tmp_path, "repair", "b2/orders-0", "--from", "b3")
    assert refused.code == 4
    assert "older history: leader epoch 5 at offset 20" in refused.err


def test_a_copy_that_is_not_in_sync_is_said_to_be_so(copies: tuple[Path, Path], tmp_path: Path) -> None:
    _cut(copies[0])
    write_metadata(tmp_path, 1, partition_fields([1, 2, 3], [3], 3))
    assert "broker 2, from which it is taken, is not in sync" in heal(tmp_path, "--from", "b2").out
    shutil.rmtree(tmp_path / "b1" / "__cluster_metadata-0")
    write_metadata(tmp_path, 1, partition_fields([1, 2, 3], [2, 3], 3))
    assert "not in sync" not in heal(tmp_path, "--from", "b2").out


@pytest.mark.parametrize(("extra", "is_said"), [(0, False), (3, True)])
def test_the_newest_metadata_tell_who_is_in_sync(
    copies: tuple[Path, Path], tmp_path: Path, extra: int, is_said: bool
) -> None:
    """Those beside the other copy, where they are longer."""
    _cut(copies[0])
    write_metadata(tmp_path, 1, partition_fields([1, 2, 3], [2, 3], 3), extra=1)
    write_metadata(tmp_path, 2, partition_fields([1, 2, 3], [3], 3), extra=extra)
    said = heal(tmp_path, "--from", "b2").out
    assert ("broker 2, from which it is taken, is not in sync" in said) == is_said


def test_valid_batches_that_a_heal_would_drop_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Should the merge not see some of the copy's own batches, the plan says so and is refused."""
    folder = write_copy(tmp_path, 1, OnDisk(BATCHES, roll=(50,)))
    write_copy(tmp_path, 2, OnDisk(chain(0, (0, 20), (3, 2))))
    _flip(folder)
    before = content(folder)
    def half_blind(log: PartitionLog, start: int = 0) -> Iterator[BatchRows]:
        for rows in walk(log, start):
            if "b1" in Path(log.path).parts and rows.base_offset[0] == 50:
                rows.keep([row for row in range(rows.length) if rows.base_offset[row] < 100])
            yield rows

    monkeypatch.setattr(heal_rules, "walk", half_blind)
    said = heal(tmp_path, "--from", "b2", "--apply")
    assert said.code == 4
    assert "this plan drops 100 valid records of orders-0 (offsets 100\N{EN DASH}199)" in said.out
    assert content(folder) == before
