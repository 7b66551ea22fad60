"""What goes from batch to batch along a log: leader epochs, producers, transactions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kdump.formats.index_entries import AbortedTxn, encode_aborted_txns
from kdump.formats.producer_snapshot import ProducerEntry, encode_producer_snapshot
from tests.verify.building import TIME, batch, build, entry, file, marker, produced

SIZE = len(batch(0))
LAST_SEQUENCE = (1 << 31) - 1


def said(folder: Path, kind: str, *batches: bytes, **building: Any) -> list[tuple[str, int | None, str]]:
    """What is found of codes that begin so: code, position and message."""
    log = build(folder / "data", {0: batches}, **building)
    return [
        (finding.code, finding.position, finding.message)
        for finding in log.findings()
        if finding.code.startswith(f"KD-{kind}") and finding.severity != "note"
    ]


# --- leader epochs ----------------------------------------------------------------------------------------------------


def epochs(folder: Path, *numbers: int, checkpoint: str = "", **building: Any) -> list[tuple[str, int | None, str]]:
    batches = [batch(2 * n, leader_epoch=number) for n, number in enumerate(numbers)]
    found = said(folder, "EPOCH", *batches, epochs=checkpoint or "0 0\n", **building)
    return found if checkpoint else [each for each in found if each[0] != "KD-EPOCH-CHECKPOINT"]


def test_one_wrong_epoch_is_named(tmp_path: Path) -> None:
    ((code, position, text),) = epochs(tmp_path / "high", 1, 1, 65537, 1, 1, 2)
    assert (code, position) == ("KD-EPOCH-ORDER", 2 * SIZE)
    assert text == "leader epoch 65537 comes before leader epoch 1"
    ((code, position, text),) = epochs(tmp_path / "low", 5, 5, 1, 5, 6)
    assert (code, position, text) == ("KD-EPOCH-ORDER", 2 * SIZE, "leader epoch 1 comes after leader epoch 5")
    ((code, position, text),) = epochs(tmp_path / "negative", 5, -7, 5)
    assert (code, position, text) == ("KD-EPOCH-ORDER", SIZE, "the leader epoch is -7")


def test_epochs_that_increase(tmp_path: Path) -> None:
    assert epochs(tmp_path / "known", 0, 0, 3, 7, checkpoint="0 0\n3 4\n7 6\n") == []
    assert epochs(tmp_path / "unknown", -1, -1, 3, 7, checkpoint="3 4\n7 6\n") == []
    assert epochs(tmp_path / "deleted", 1, 1, 3, checkpoint="1 0\n2 3\n3 4\n") == []


@pytest.mark.parametrize(
    ("checkpoint", "position"),
    [("0 0\n", 2 * SIZE), ("0 0\n3 2\n", SIZE), ("0 0\n3 6\n", 2 * SIZE), ("3 0\n", 0), ("0 0\n2 4\n", 2 * SIZE)],
)
def test_the_checkpoint_and_the_log(tmp_path: Path, checkpoint: str, position: int) -> None:
    ((code, found, _),) = epochs(tmp_path, 0, 0, 3, 3, 3, checkpoint=checkpoint)
    assert (code, found) == ("KD-EPOCH-CHECKPOINT", position)


def test_an_empty_checkpoint(tmp_path: Path) -> None:
    log = build(tmp_path / "data", {0: [batch(0)]}, epochs="")
    assert {finding.code for finding in log.findings()} == {"KD-EPOCH-CHECKPOINT", "KD-TIME-HELD"}
    (log.partition / "leader-epoch-checkpoint").unlink()
    assert {finding.code for finding in log.findings()} == {"KD-TIME-HELD"}


def test_batches_below_the_log_start_are_not_in_the_checkpoint(tmp_path: Path) -> None:
    log = build(tmp_path / "data", {0: [batch(0, leader_epoch=1), batch(2, leader_epoch=2)]}, epochs="2 2\n")
    (log.directory / "log-start-offset-checkpoint").write_text("0\n1\norders 0 2\n")
    assert {finding.code for finding in log.findings()} == {"KD-TIME-HELD"}


def test_old_messages_make_a_broker_forget_epochs(tmp_path: Path) -> None:
    batches = [batch(0, leader_epoch=5), entry(1, 0, 2, 1), batch(3, leader_epoch=6)]
    assert said(tmp_path, "EPOCH", *batches, epochs="6 3\n") == []


# --- producers --------------------------------------------------------------------------------------------------------


def sequences(folder: Path, *numbers: int) -> list[tuple[str, int | None, str]]:
    """Batches of two records, one behind the other, with these base sequences."""
    return said(folder, "PRODUCER", *(produced(2 * n, 7, number, attributes=0) for n, number in enumerate(numbers)))


def test_sequences(tmp_path: Path) -> None:
    assert sequences(tmp_path / "go-on", 5, 7, 9) == []
    assert sequences(tmp_path / "wrap", LAST_SEQUENCE - 1, 0, 2) == []
    assert sequences(tmp_path / "wrap-inside", LAST_SEQUENCE, 1, 3) == []
    ((code, _, text),) = sequences(tmp_path / "jump", 0, 2, 40, 42)
    assert (code, text) == ("KD-PRODUCER-SEQUENCE", "producer 7 of epoch 0 goes from sequence 3 to 40")
    assert len(sequences(tmp_path / "again", 0, 2, 2)) == 1


def test_a_cleaned_log_lacks_sequences_with_its_offsets(tmp_path: Path) -> None:
    batches = [produced(0, 7, 0, attributes=0), produced(10, 7, 10, attributes=0)]
    assert said(tmp_path / "gone", "PRODUCER", *batches) == []
    batches = [produced(0, 7, 0, attributes=0), produced(10, 7, 11, attributes=0)]
    assert len(said(tmp_path / "too-many", "PRODUCER", *batches)) == 1


def test_epochs_of_a_producer(tmp_path: Path) -> None:
    first = produced(0, 7, 0, attributes=0, producer_epoch=1)
    assert said(tmp_path / "next", "PRODUCER", first, produced(2, 7, 0, attributes=0, producer_epoch=2)) == []
    ((_, _, text),) = said(tmp_path / "late", "PRODUCER", first, produced(2, 7, 4, attributes=0, producer_epoch=2))
    assert text == "producer 7 begins epoch 2 with sequence 4 instead of 0"
    ((_, _, text),) = said(tmp_path / "back", "PRODUCER", first, produced(2, 7, 2, attributes=0, producer_epoch=0))
    assert text == "producer 7 goes back from epoch 1 to epoch 0"


# --- transactions -----------------------------------------------------------------------------------------------------


def test_transactions_of_several_producers(tmp_path: Path) -> None:
    """7 is open from 0 on, 8 is aborted first: the last stable offset stays where 7 began."""
    batches = [produced(0, 7, 0), produced(2, 8, 0), marker(4, 8), marker(5, 7, commit=True), batch(6)]
    index = encode_aborted_txns([AbortedTxn(0, 8, 2, 4, 0)])
    assert said(tmp_path / "right", "TXN", *batches, beside={file(0, "txnindex"): index}) == []
    index = encode_aborted_txns([AbortedTxn(0, 8, 2, 4, 5)])
    ((code, _, text),) = said(tmp_path / "wrong", "TXN", *batches, beside={file(0, "txnindex"): index})
    assert (code, text) == ("KD-TXN-ENTRY", "entry 0 has the last stable offset 5, by the log it was 0")


def test_transactions_that_a_follower_appended_at_once(tmp_path: Path) -> None:
    """The next transaction of another producer counts as open behind those that 7 aborted, one of its own does not."""
    aborted = [produced(0, 7, 0), marker(2, 7), produced(3, 7, 2), marker(5, 7), produced(6, 7, 4)]
    batches = [*aborted, produced(8, 8, 0), marker(10, 8, commit=True), marker(11, 7, commit=True)]
    for number, (first, second, wrong) in enumerate([(8, 8, None), (3, 6, None), (6, 6, 3), (8, 12, 6), (9, 6, 3)]):
        index = encode_aborted_txns([AbortedTxn(0, 7, 0, 2, first), AbortedTxn(0, 7, 3, 5, second)])
        found = said(tmp_path / str(number), "TXN", *batches, beside={file(0, "txnindex"): index})
        assert [text.rpartition(" ")[2] for _, _, text in found] == ([] if wrong is None else [str(wrong)]), number


def test_a_transaction_from_before_the_log_may_have_been_open(tmp_path: Path) -> None:
    log = build(
        tmp_path / "data",
        {50: [produced(50, 8, 0), marker(52, 8)]},
        epochs="0 50\n",
        beside={file(50, "txnindex"): encode_aborted_txns([AbortedTxn(0, 8, 50, 52, 20)])},
    )
    assert {finding.code for finding in log.findings()} == {"KD-TIME-HELD"}


def test_a_marker_without_a_transaction(tmp_path: Path) -> None:
    assert said(tmp_path, "TXN", marker(0, 7), marker(1, 7, commit=True)) == []


def test_what_hangs_and_what_is_open(tmp_path: Path) -> None:
    log = build(tmp_path / "data", {0: [produced(0, 7, 0)], 2: [batch(2)]})
    minutes = 60_000
    for age, code in ((19 * minutes, "KD-TXN-OPEN"), (21 * minutes, "KD-TXN-HANGING")):
        (finding,) = (each for each in log.findings(now=TIME + age) if each.code.startswith("KD-TXN"))
        assert (finding.code, finding.path, finding.offset) == (code, str(log.path(0, "log")), 0)


# --- snapshots --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({}, None),
        ({"last_sequence": 2}, "its last sequence is 3, the snapshot says 2"),
        ({"last_offset": 1}, "its last batch ends at offset 3, the snapshot says 1"),
        ({"producer_epoch": -1}, "its epoch is 0, the snapshot says -1"),
        ({"last_offset": 9, "last_sequence": 9}, None),  # of a compacted log the last batch may be gone
    ],
)
def test_snapshots(tmp_path: Path, change: dict[str, int], text: str | None) -> None:
    state = ProducerEntry(7, 0, 3, 3, 1, TIME, -1, -1)._replace(**change)
    segments: dict[int, Sequence[bytes]] = {
        0: [produced(0, 7, 0, attributes=0), produced(2, 7, 2, attributes=0)],
        4: [batch(4)],
    }
    log = build(tmp_path / "data", segments, beside={file(4, "snapshot"): encode_producer_snapshot([state])})
    found = [finding.message for finding in log.findings() if finding.code == "KD-SNAP-STATE"]
    assert found == ([] if text is None else [f"producer 7: {text}"])


def test_which_snapshots_are_strays(tmp_path: Path) -> None:
    empty = encode_producer_snapshot([])
    beside = {file(offset, "snapshot"): empty for offset in (2, 3, 6, 8, 12)}
    log = build(tmp_path / "data", beside=beside)
    assert [each.offset for each in log.findings() if each.code == "KD-SNAP-STRAY"] == [2, 3, 8]
