"""Leader epochs of batches that cannot be right."""

from __future__ import annotations

from pathlib import Path

import pytest

import kdump
from kdump.formats import names
from kdump.formats.checkpoints import parse_leader_epochs
from kdump.mend import leader_epochs
from kdump.mend.leader_epochs import MAX_RUNS
from kdump.mend.task import ABORTED
from kdump.recovery.startup import Startup
from tests.recovery.building import batch, broken, file, make_log, marker, produced, with_offset
from tests.repair.salvaging import errors, examined, salvage

STARTUP = Startup(now=1_000_000)


def with_epoch(offset: int, epoch: int) -> bytes:
    return batch(offset, leader_epoch=epoch)


def salvaged(folder: Path, *segments: list[int]) -> tuple[Path, list[int], list[str]]:
    """Salvage a log of one-record batches with these leader epochs: its directory, the epochs then, the reasons."""
    files = {}
    base = 0
    for epochs in segments:
        files[file(base, names.LOG)] = b"".join(with_epoch(base + n, epoch) for n, epoch in enumerate(epochs))
        base += len(epochs)
    make_log(folder, files)
    partition = folder / "topic-0"
    found = salvage(partition, STARTUP)
    assert found.cuts == ()
    assert found.kept is not None
    assert found.kept.batches == sum(map(len, segments))
    again = examined(partition, STARTUP)
    assert again.plan is not None
    assert again.plan.operations == ()
    return partition, epochs_of(partition), [step.why for step in found.outcome.steps if step.action == "change"]


def epochs_of(partition: Path) -> list[int]:
    found: list[int] = []
    for segment in kdump.open_log(str(partition)).segments:
        with segment.open_log() as log:
            for block in log.blocks():
                assert all(block.valid[: block.length])
                found += block.leader_epoch[: block.length]
    return found


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([0, 0, 1, 1, 2], [0, 0, 1, 1, 2]),
        ([3, 3, 1, 3, 3], [3, 3, 3, 3, 3]),
        ([3, 3, 99, 3, 4], [3, 3, 3, 3, 4]),
        ([99, 3, 3, 4], [3, 3, 3, 4]),
        ([1, 1, 5, 2, 6, 2, 3, 3], [1, 1, 1, 2, 2, 2, 3, 3]),
        ([1, 2, 2, 2, 0], [1, 2, 2, 2, 2]),
        ([0, 0, 5, 1, 1], [0, 0, 0, 1, 1]),
        ([5, -1, 5, 3, 3, 3], [3, -1, 3, 3, 3, 3]),
        ([1, 1, 7], [1, 1, 7]),  # nothing tells that it is wrong
        ([1, 1, -1, 1], [1, 1, -1, 1]),  # none at all, as of old
        ([1, -5, 1, 2], [1, 1, 1, 2]),  # what no epoch can be
        ([-(2**31), 3], [3, 3]),
        ([-7, -1, -7], [-1, -1, -1]),
    ],
)
def test_as_few_as_possible_are_changed(tmp_path: Path, before: list[int], after: list[int]) -> None:
    partition, epochs, reasons = salvaged(tmp_path, before)
    assert epochs == after
    assert len(reasons) == sum(old != new for old, new in zip(before, after, strict=True))
    assert errors(partition, STARTUP) == []


def test_across_segments(tmp_path: Path) -> None:
    partition, epochs, reasons = salvaged(tmp_path, [1, 1, 4], [2, 2, 2], [0, 3])
    assert epochs == [1, 1, 1, 2, 2, 2, 2, 3]
    assert reasons == [
        "the batch at offset 2 has leader epoch 4, which its neighbours rule out: it gets 1",
        "the batch at offset 6 has leader epoch 0, which its neighbours rule out: it gets 2",
    ]
    entries = parse_leader_epochs((partition / names.LEADER_EPOCH_CHECKPOINT).read_bytes(), "")
    assert [(entry.epoch, entry.start_offset) for entry in entries] == [(1, 0), (2, 3), (3, 7)]


@pytest.mark.parametrize(("most", "after"), [(2, [3, 3, 1, 3]), (3, [3, 3, 3, 3])])
def test_of_too_many_changes_nothing_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, after: list[int]
) -> None:
    monkeypatch.setattr(leader_epochs, "MAX_RUNS", most)
    assert salvaged(tmp_path, [3, 3, 1, 3])[1] == after


@pytest.mark.parametrize(("spare", "after"), [(-1, [3, 3, 1, 1, 3, 3]), (0, [3] * 6)])
def test_no_more_is_made_anew_than_memory_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spare: int, after: list[int]
) -> None:
    monkeypatch.setattr(leader_epochs, "MAX_BYTES", 2 * len(with_epoch(0, 1)) + spare)
    assert salvaged(tmp_path, [3, 3, 1, 1, 3, 3])[1] == after


def test_where_epochs_make_no_sense_at_all_nothing_is_told_from_them(tmp_path: Path) -> None:
    wild = [n % 2 for n in range(MAX_RUNS + 2)]
    assert salvaged(tmp_path, wild)[1:] == (wild, [])


def test_a_changed_batch_is_no_place_where_a_marker_was_lost(tmp_path: Path) -> None:
    parts = [
        produced(0, 7, transactional=True),
        broken(marker(1, 7)),
        with_epoch(2, 0),
        produced(3, 7, transactional=True, base_sequence=1),
        with_epoch(9, 0),
        with_epoch(20, 5),
        with_epoch(30, 0),
        with_epoch(31, 0),
    ]
    make_log(tmp_path, {file(0, names.LOG): b"".join(parts)})
    found = salvage(tmp_path / "topic-0", STARTUP, ABORTED)
    assert [each.offset for each in found.markers] == [1]
    assert set(epochs_of(tmp_path / "topic-0")) == {0}


class TestOutdated:
    """Of batches at the same offsets those of the later leader stay, as after a truncation by epoch (KAFKA-3919)."""

    OLD = batch(8, timestamp=1) + batch(9, timestamp=2)
    NEW = batch(8, 5, timestamp=3, leader_epoch=1) + batch(13, timestamp=4, leader_epoch=1)
    BEFORE = b"".join(map(batch, range(8)))

    def kept(self, folder: Path, data: bytes, checkpoint: str | None) -> tuple[list[tuple[int, int]], int, str]:
        """Salvage a log: first offset and epoch of the batches after the first eight, records dropped, checkpoint."""
        files = {file(0, names.LOG): data}
        if checkpoint is not None:
            files[names.LEADER_EPOCH_CHECKPOINT] = checkpoint.encode()
        partition = Path(make_log(folder, files).path)
        dropped = salvage(partition, STARTUP).dropped.records
        found = [
            (block.base_offset[row], block.leader_epoch[row])
            for segment in kdump.open_log(str(partition)).segments
            for block in segment.open_log().blocks()
            for row in range(block.length)
        ]
        return found[8:], dropped, (partition / names.LEADER_EPOCH_CHECKPOINT).read_text()

    @pytest.mark.parametrize("checkpoint", ["0\n2\n0 0\n1 8\n", None])
    def test_the_later_epoch_stays(self, tmp_path: Path, checkpoint: str | None) -> None:
        data = self.BEFORE + self.OLD + self.NEW
        assert self.kept(tmp_path, data, checkpoint) == ([(8, 1), (13, 1)], 2, "0\n2\n0 0\n1 8\n")

    def test_wherever_the_batches_of_the_old_leader_are(self, tmp_path: Path) -> None:
        data = self.BEFORE + self.NEW + self.OLD
        assert self.kept(tmp_path, data, "0\n2\n0 0\n1 8\n") == ([(8, 1), (13, 1)], 2, "0\n2\n0 0\n1 8\n")

    def test_an_epoch_that_begins_elsewhere_replaces_nothing(self, tmp_path: Path) -> None:
        """The base offset of a batch is wrong, which no CRC covers."""
        wrong = with_offset(batch(10, timestamp=7, leader_epoch=1), 3)
        data = self.BEFORE + self.OLD + wrong + batch(11, leader_epoch=1)
        expected = [(8, 0), (9, 0), (10, 1), (11, 1)], 0, "0\n2\n0 0\n1 10\n"
        assert self.kept(tmp_path, data, "0\n2\n0 0\n1 10\n") == expected

    def test_without_epochs_fewer_records_go(self, tmp_path: Path) -> None:
        new = batch(8, 5, timestamp=3) + batch(13, timestamp=4)
        assert self.kept(tmp_path, self.BEFORE + self.OLD + new, None)[:2] == ([(8, 0), (13, 0)], 2)
