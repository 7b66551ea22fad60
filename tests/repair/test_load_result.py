"""What is looked at in the files that loading leaves: leader epochs, open transactions, what a second start does."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdump.formats import names
from kdump.formats.checkpoints import EpochEntry
from kdump.formats.producer_snapshot import ProducerEntry, encode_producer_snapshot
from kdump.mend import load_result
from kdump.mend.load_result import (
    at_rest,
    contradictions,
    epoch_contradiction,
    epoch_runs,
    holding,
    open_txns,
    views,
    without_markers,
)
from kdump.mend.lost_markers import Gap, NewMarker
from kdump.recovery.loader import load_log
from kdump.recovery.outcome import LoadOutcome, Loss
from kdump.recovery.startup import Startup
from kdump.settings.loading import LoadingSettings
from kdump.storage.partition import PartitionLog
from kdump.storage.planned import PlannedPartition, content_of
from tests.recovery.building import NOW, batch, file, make_log

STARTUP = Startup(NOW)
SIZE = len(batch(0))


def epoch_log(folder: Path, *segments: list[int]) -> PartitionLog:
    """A log of single records with these leader epochs."""
    files, base = {}, 0
    for epochs in segments:
        files[file(base, "log")] = b"".join(batch(base + n, leader_epoch=epoch) for n, epoch in enumerate(epochs))
        base += len(epochs)
    return make_log(folder, files)


@pytest.mark.parametrize(
    ("segments", "runs"),
    [
        ([[]], []),
        ([[0]], [(0, 0, 0)]),
        ([[0, 0, 1, 2, 2]], [(0, 0, 1), (1, 2, 2), (2, 3, 4)]),
        ([[0, 1, 1], [1, 1], [2]], [(0, 0, 0), (1, 1, 4), (2, 5, 5)]),
        ([[-1, -1, 1, -1, 1]], [(1, 2, 4)]),
        ([[-1], [-1]], []),
        ([[0, 1], [1, 2]], [(0, 0, 0), (1, 1, 2), (2, 3, 3)]),
        ([[0, -5, 1]], [(0, 0, 0), (1, 2, 2)]),
    ],
)
def test_runs_of_batches_of_one_leader_epoch(
    tmp_path: Path, segments: list[list[int]], runs: list[tuple[int, int, int]]
) -> None:
    log = epoch_log(tmp_path, *segments)
    assert list(epoch_runs(log, load_log(log, STARTUP))) == runs


@pytest.mark.parametrize(
    ("entries", "start", "told"),
    [
        ([(0, 0), (1, 5)], 0, []),
        ([(0, 0), (1, 6)], 0, [(0, 5, 1)]),
        ([(0, 0), (1, 4)], 0, [(1, 4, 0)]),
        ([(1, 5)], 0, [(-1, 0, 0), (-1, 4, 0)]),
        ([(1, 5)], 4, [(-1, 4, 0)]),  # below the log start readers get nothing
        ([(1, 5)], 5, []),
        ([], 9, [(-1, 9, 1)]),
        ([(0, 0), (1, 5), (2, 9)], 0, [(2, 9, 1)]),
        ([(0, 0), (1, 5), (2, 10)], 0, []),
        ([(1, 0)], 0, [(1, 0, 0), (1, 4, 0)]),
    ],
)
def test_leader_epochs_that_contradict_the_batches(
    entries: list[tuple[int, int]], start: int, told: list[tuple[int, int, int]]
) -> None:
    runs = iter([(0, 0, 4), (1, 5, 9)])
    found = contradictions([EpochEntry(*entry) for entry in entries], runs, start)
    assert list(found) == [
        f"it leads to epoch {epoch} at offset {offset}, the batch there has leader epoch {right}"
        for epoch, offset, right in told
    ]


def test_the_first_contradiction_of_what_loading_leaves(tmp_path: Path) -> None:
    log = epoch_log(tmp_path, [0, 0, 1])
    outcome = load_log(log, STARTUP)
    assert epoch_contradiction(log, outcome) is None
    assert outcome.files is not None
    directory = PlannedPartition(log)
    directory.files = dict(outcome.files)
    directory.write(names.LEADER_EPOCH_CHECKPOINT, b"0\n1\n1 0\n")
    wrong = outcome._replace(files=directory.files)
    assert epoch_contradiction(log, wrong) == "it leads to epoch 1 at offset 0, the batch there has leader epoch 0"
    assert epoch_contradiction(log, wrong._replace(log_start_offset=2)) is None
    del directory.files[names.LEADER_EPOCH_CHECKPOINT]
    assert epoch_contradiction(log, wrong._replace(files=directory.files)) is None


def test_the_logs_and_what_they_hold(tmp_path: Path) -> None:
    log = epoch_log(tmp_path, [0, 0], [1])
    (Path(log.path) / file(0, "log.deleted")).write_bytes(batch(0))
    log = PartitionLog(log.path)
    outcome = LoadOutcome((), files=PlannedPartition(log).files)
    assert [(base, view.size) for base, view in views(log, outcome)] == [(0, 2 * SIZE), (2, SIZE)]
    assert holding(log, outcome) == Loss(3 * SIZE, 0, 3, 3, 0, 2)


def snapshot(number: int, first: int) -> bytes:
    """A producer snapshot of one producer, with a transaction from `first` on (-1: none)."""
    return encode_producer_snapshot([ProducerEntry(number, 3, 0, 9, 0, 1000, 5, first)])


def test_the_last_snapshot_tells_which_transactions_are_open(tmp_path: Path) -> None:
    snapshots = {1: snapshot(1, 0), 20: snapshot(20, 19), 100: snapshot(100, 99)}
    log = make_log(tmp_path, {file(at, "snapshot"): data for at, data in snapshots.items()})

    def found() -> list[int]:
        log = PartitionLog(str(tmp_path / "topic-0"))
        return [each.producer_id for each in open_txns(log, LoadOutcome((), files=PlannedPartition(log).files))]

    assert found() == [100]
    last = Path(log.path, file(100, "snapshot"))
    last.write_bytes(snapshot(100, -1))
    assert found() == []
    last.write_bytes(b"garbage")
    assert found() == []
    last.unlink()
    assert found() == [20]
    for at in (1, 20):
        Path(log.path, file(at, "snapshot")).unlink()
    assert found() == []


def test_what_is_kept_is_counted_without_new_markers() -> None:
    producer = ProducerEntry(7, 3, 0, 9, 0, 1000, 5, 2)
    marker = NewMarker(Gap("0.log", 0, 5, 9, 4, (producer,)), 6, producer, False)
    kept = without_markers(Loss(1000, 0, 10, 30, 0, 99), [marker, marker])
    assert kept == Loss(1000 - 2 * len(marker.encoded()), 0, 8, 28, 0, 99)


class TestAtRest:
    """Of what a repair leaves a second one finds nothing to do; so one start is followed by others on paper."""

    def files(self, log: PartitionLog, startup: Startup) -> dict[str, bytes]:
        """The files at rest, of which another loading changes none."""
        before = PlannedPartition(log)
        first = load_log(log, startup, before.copy())
        outcome = at_rest(log, startup, before, first)
        assert outcome.files is not None
        assert outcome.steps[: len(first.steps)] == first.steps
        again = PlannedPartition(log)
        again.files = dict(outcome.files)
        assert load_log(log, startup, again.copy()).files == again.files
        return {name: b"".join(content_of(log.path, recipe)) for name, recipe in outcome.files.items()}

    def test_one_start_is_enough_for_what_is_sound(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        log = epoch_log(tmp_path, [0, 0, 1])
        Path(log.path, names.LEADER_EPOCH_CHECKPOINT).write_text("0\n2\n0 0\n1 2\n")
        Path(log.path, file(3, "snapshot")).write_bytes(snapshot(9, -1))
        Path(log.path, "x.snapshot.deleted").write_bytes(b"")
        before = PlannedPartition(PartitionLog(log.path))
        outcome = load_log(log, STARTUP, before.copy())
        monkeypatch.setattr(load_result, "load_log", None)
        assert at_rest(log, STARTUP, before, outcome) is outcome

    def test_leader_epochs_above_the_end_are_dropped_before_others_are_learnt(self, tmp_path: Path) -> None:
        log = epoch_log(tmp_path, [0, 0, 1])
        Path(log.path, names.LEADER_EPOCH_CHECKPOINT).write_text("0\n1\n9 500\n")
        found = self.files(PartitionLog(log.path), STARTUP)
        assert found[names.LEADER_EPOCH_CHECKPOINT] == b"0\n2\n0 0\n1 2\n"

    def test_of_records_below_the_log_start_no_leader_epoch_stays(self, tmp_path: Path) -> None:
        log = epoch_log(tmp_path, [0, 0, 1])
        Path(log.path, names.LEADER_EPOCH_CHECKPOINT).write_text("0\n1\n1 3\n")
        startup = STARTUP._replace(log_start_offset=3)
        before = PlannedPartition(PartitionLog(log.path))
        outcome = at_rest(log, startup, before, load_log(log, startup, before.copy()))
        assert outcome.files is not None
        assert len([step for step in outcome.steps if step.file == names.LEADER_EPOCH_CHECKPOINT]) > 1

    def test_a_snapshot_at_the_log_start(self, tmp_path: Path) -> None:
        log = epoch_log(tmp_path, [0, 0], [1])
        Path(log.path, file(2, "snapshot")).write_bytes(snapshot(9, -1))
        Path(log.path, names.LEADER_EPOCH_CHECKPOINT).write_text("0\n1\n1 2\n")
        found = self.files(PartitionLog(log.path), STARTUP._replace(log_start_offset=2))
        assert file(2, "snapshot") not in found

    def test_a_format_older_than_leader_epochs(self, tmp_path: Path) -> None:
        startup = STARTUP._replace(config=LoadingSettings(record_version=1))
        log = epoch_log(tmp_path, [-1, -1], [-1])
        Path(log.path, file(1, "snapshot")).write_bytes(snapshot(9, -1))
        self.files(PartitionLog(log.path), startup)

    def test_a_failure_stays_one(self, tmp_path: Path) -> None:
        log = make_log(tmp_path, {"abc.log": b""})
        outcome = load_log(log, STARTUP)
        assert not outcome.ok
        assert at_rest(log, STARTUP, PlannedPartition(log), outcome) is outcome
