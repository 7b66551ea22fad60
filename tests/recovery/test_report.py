"""What is said of the files beside a .log that loading changes: each one once, with what is in it now."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdump.formats.checkpoints import EpochEntry, format_leader_epochs
from kdump.formats.index_entries import (
    AbortedTxn,
    OffsetIndexEntry,
    TimeIndexEntry,
    encode_aborted_txns,
    encode_offset_entries,
    encode_time_entries,
)
from kdump.formats.producer_snapshot import ProducerEntry, encode_producer_snapshot
from kdump.recovery.outcome import CREATE, DELETE, TRIM, WRITE, Step
from kdump.recovery.report import report_changes
from kdump.storage.planned import PlannedPartition
from kdump.storage.recipe import SourceBytes
from tests.recovery.building import batch, file, make_log

EPOCHS = "leader-epoch-checkpoint"
LOG, INDEX, TIMES, TXNS = (file(0, kind) for kind in ("log", "index", "timeindex", "txnindex"))
SNAPSHOT = file(10, "snapshot")


def epochs(*entries: tuple[int, int]) -> bytes:
    return format_leader_epochs(EpochEntry(*entry) for entry in entries)


def entries(count: int) -> bytes:
    return encode_offset_entries((OffsetIndexEntry(number, 9 * number) for number in range(count)), 0)


def snapshot(count: int) -> bytes:
    return encode_producer_snapshot(ProducerEntry(number, 0, 0, 9, 0, 1000, -1, -1) for number in range(count))


def told(
    folder: Path, before: dict[str, bytes], after: dict[str, bytes | None], steps: list[Step] | None = None
) -> list[Step]:
    """The steps that are added where these files are written (None: deleted)."""
    directory = PlannedPartition(make_log(folder, {LOG: batch(0), **before}))
    for name, data in after.items():
        if data is None:
            directory.delete(name, "because")
        else:
            directory.write(name, data)
    steps = list(steps or ())
    given = len(steps)
    report_changes(directory, steps)
    return steps[given:]


@pytest.mark.parametrize(("count", "text"), [(0, "0 entries"), (1, "1 entry"), (2, "2 entries")])
def test_a_rebuilt_index_says_how_many_entries_it_has(tmp_path: Path, count: int, text: str) -> None:
    found = told(tmp_path, {INDEX: entries(5)}, {INDEX: entries(count)})
    assert found == [Step(WRITE, INDEX, f"rebuilt from the log: {text}", size=8 * count)]


def test_each_index_counts_by_its_own_size(tmp_path: Path) -> None:
    times = encode_time_entries([TimeIndexEntry(5, 1), TimeIndexEntry(6, 2)], 0)
    txns = encode_aborted_txns([AbortedTxn(0, 1, 2, 3, 4)])
    found = told(tmp_path, {}, {TIMES: times, TXNS: txns})
    assert [(step.file, step.why, step.size) for step in found] == [
        (TIMES, "rebuilt from the log: 2 entries", 24),
        (TXNS, "rebuilt from the log: 1 aborted transaction", 34),
    ]


def test_what_is_written_as_it_was_is_no_change(tmp_path: Path) -> None:
    before = {INDEX: entries(3), EPOCHS: epochs((0, 0)), SNAPSHOT: snapshot(1)}
    assert told(tmp_path, before, dict(before)) == []


def test_what_is_written_and_deleted_again_is_no_change(tmp_path: Path) -> None:
    directory = PlannedPartition(make_log(tmp_path, {LOG: batch(0)}))
    directory.write(INDEX, entries(2))
    directory.delete(INDEX, "because")
    steps: list[Step] = []
    report_changes(directory, steps)
    assert steps == []


def test_what_was_told_is_not_told_again(tmp_path: Path) -> None:
    steps = [Step(CREATE, INDEX, "made"), Step(DELETE, SNAPSHOT, "gone"), Step(TRIM, TIMES, "cut")]
    after: dict[str, bytes | None] = {INDEX: entries(2), SNAPSHOT: None, TIMES: b"x" * 12}
    assert [step.file for step in told(tmp_path, {SNAPSHOT: b""}, after, steps)] == [TIMES]


def test_only_a_snapshot_says_why_it_went(tmp_path: Path) -> None:
    found = told(tmp_path, {SNAPSHOT: snapshot(1), INDEX: entries(1)}, {SNAPSHOT: None, INDEX: None})
    assert found == [Step(DELETE, SNAPSHOT, "because")]


@pytest.mark.parametrize(("count", "text"), [(0, "0 producers"), (1, "1 producer"), (3, "3 producers")])
def test_a_snapshot_says_how_many_producers_it_has(tmp_path: Path, count: int, text: str) -> None:
    (step,) = told(tmp_path, {}, {SNAPSHOT: snapshot(count)})
    assert step == Step(WRITE, SNAPSHOT, f"the producer state before offset 10: {text}", size=10 + 46 * count)


def test_a_snapshot_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    (step,) = told(tmp_path, {}, {SNAPSHOT: snapshot(1) + b"tail"})
    assert step.why == "the producer state before offset 10: unreadable, for an older and longer snapshot is not cut"


def test_an_index_cut_to_whole_entries(tmp_path: Path) -> None:
    directory = PlannedPartition(make_log(tmp_path, {LOG: batch(0), INDEX: entries(2) + b"xyz"}))
    directory.cut(INDEX, 16)
    directory.cut(LOG, 10)
    steps: list[Step] = []
    report_changes(directory, steps)
    assert steps == [Step(TRIM, INDEX, "to complete entries", size=16)]


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        (None, epochs((0, 0)), "missing: made with 1 epoch"),
        (None, epochs(), "missing: made with 0 epochs"),
        (b"nonsense", epochs((0, 0), (2, 5)), "unreadable: rebuilt with 2 epochs"),
        (epochs((0, 0), (2, 5)), epochs((0, 0)), "drops epoch 2 from offset 5"),
        (epochs((0, 0)), epochs((0, 0), (2, 5), (4, 9)), "adds epoch 2 from offset 5, epoch 4 from offset 9"),
        (epochs((0, 0), (1, 3)), epochs((0, 1)),
         "drops epoch 0 from offset 0, epoch 1 from offset 3; adds epoch 0 from offset 1"),
        (b"0\n1\n00 0\n", epochs((0, 0)), "the same epochs, written again"),
        (epochs(), epochs((0, 0), (1, 1), (2, 2)),
         "adds epoch 0 from offset 0, epoch 1 from offset 1, epoch 2 from offset 2"),
        (epochs(), epochs((0, 0), (1, 1), (2, 2), (3, 3), (4, 4)),
         "adds epoch 0 from offset 0, epoch 1 from offset 1, epoch 2 from offset 2 and 2 more"),
    ],
)  # fmt: skip
def test_epochs_say_what_goes_and_what_comes(tmp_path: Path, before: bytes | None, after: bytes, why: str) -> None:
    files = {} if before is None else {EPOCHS: before}
    assert told(tmp_path, files, {EPOCHS: after}) == [Step(WRITE, EPOCHS, why, size=len(after))]


def test_files_that_are_none_of_the_log_s_are_not_told(tmp_path: Path) -> None:
    assert told(tmp_path, {"notes.txt": b"a"}, {"notes.txt": b"b", "more.txt": b"c"}) == []


def test_an_index_that_comes_from_another_file_is_not_cut(tmp_path: Path) -> None:
    directory = PlannedPartition(make_log(tmp_path, {LOG: batch(0), f"{INDEX}.swap": entries(2)}))
    directory.rename(f"{INDEX}.swap", INDEX)
    directory.put(TIMES, SourceBytes("/elsewhere/file", 0, 0))
    steps: list[Step] = []
    report_changes(directory, steps)
    assert steps == []
