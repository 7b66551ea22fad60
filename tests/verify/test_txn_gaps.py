"""Entries of a transaction index whose transactions lost their first batches to the cleaner, and such as cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.check import gaps
from kdump.check.gaps import Gaps
from kdump.formats.encode import NewRecord, encode_message, encode_wrapper
from kdump.formats.index_entries import AbortedTxn, encode_aborted_txns
from kdump.formats.producer_snapshot import ProducerEntry, encode_producer_snapshot
from tests.verify.building import TIME, batch, build, file, marker, produced

LEGACY = [NewRecord(offset, TIME, b"k", b"v") for offset in (3, 4)]


def entry_faults(folder: Path, first: int, stable: int, *batches: bytes) -> list[str]:
    """What is said of the entry for producer 8, aborted at offset 20, which these say of it."""
    index = encode_aborted_txns([AbortedTxn(0, 8, first, 20, stable)])
    log = build(folder / "data", {0: batches}, beside={file(0, "txnindex"): index})
    return [found.message for found in log.findings() if found.code == "KD-TXN-ENTRY"]


@pytest.mark.parametrize(
    ("before", "name"),
    [
        ([batch(0), batch(6), batch(8)], "plain"),
        ([batch(0, producer_id=7, producer_epoch=0, base_sequence=0), batch(6), batch(8)], "idempotent"),
        ([b"".join(encode_message(record, 1) for record in LEGACY[:1]), batch(6), batch(8)], "v1"),
        ([encode_wrapper(LEGACY, 1, 1), batch(6), batch(8)], "wrapper"),
        ([batch(0), produced(6, 9, 0), marker(8, 9, commit=True)], "transactional"),
    ],
)
def test_a_place_that_was_emptied(tmp_path: Path, before: list[bytes], name: str) -> None:
    rest = [*before, produced(10, 8, 50), produced(14, 7, 60), marker(20, 8)]
    # of 8 the batch at 5 is gone, of 7 the one at 5 or at 12, of which the entry's last stable offset is the evidence
    for first, stable in ((10, 14), (5, 14), (10, 5), (5, 12), (5, 13)):
        assert entry_faults(tmp_path / f"{first}-{stable}", first, stable, *rest) == []
    for first in (7, 8, 11, 14):
        text = f"entry 0 begins at offset {first}, its transaction at 10"
        assert entry_faults(tmp_path / f"first-{first}", first, 14, *rest) == [text]
    for stable in (7, 11, 15, 21):
        text = f"entry 0 has the last stable offset {stable}, by the log it was 14"
        assert entry_faults(tmp_path / f"stable-{stable}", 10, stable, *rest) == [text]


def test_nothing_is_said_of_what_was_before_the_log(tmp_path: Path) -> None:
    rest = [batch(6), batch(8), produced(10, 8, 50), marker(20, 8)]
    assert entry_faults(tmp_path / "before", 2, 5, *rest) == []
    assert entry_faults(tmp_path / "in", 6, 21, *rest) == ["entry 0 begins at offset 6, its transaction at 10"]


@given(st.lists(st.integers(1, 5), min_size=2, max_size=40), st.integers(0, 9))
def test_every_offset_is_in_a_batch_or_in_a_gap(lengths: list[int], start: int) -> None:
    """Stretches by turns are there and lacking."""
    found = Gaps()
    found.begin(start)
    there, expected = set[int](), start
    bases, lasts = [], []
    for number, length in enumerate(lengths):
        if number % 2 == 0:
            there |= set(range(expected, expected + length))
            bases.append(expected)
            lasts.append(expected + length - 1)
        expected += length
    found.add_between(bases, lasts, start)
    for offset in range(lasts[-1] + 1):
        assert found.has(offset) == (offset not in there)
    assert not found.has(-1)
    assert not found.has(lasts[-1] + 1)


def test_too_many_gaps_are_forgotten_from_the_oldest_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gaps, "MAX_GAPS", 10)
    found = Gaps()
    for number in range(100):
        found.add(10 * number, 10 * number + 5)
        assert len(found._starts) <= 10
    assert found.has(7)  # which is not known any more
    assert found.has(994)
    assert not found.has(995)
    assert not found.has(985)


@pytest.mark.parametrize("open_since", [-1, 6])
def test_a_snapshot_knows_how_transactions_ended_at_the_lost_end_of_a_segment(tmp_path: Path, open_since: int) -> None:
    """The marker of producer 7's first transaction was at offset 5; perhaps it has begun another one at 6."""
    snapshot = encode_producer_snapshot([ProducerEntry(7, 0, 53, 7, 1, TIME, 0, open_since)])
    segments = {0: [produced(0, 7, 50), produced(2, 8, 60)], 10: [batch(10), marker(12, 8)]}
    index = encode_aborted_txns([AbortedTxn(0, 8, 2, 12, 13 if open_since < 0 else open_since)])
    beside = {file(10, "txnindex"): index, file(10, "snapshot"): snapshot}
    findings = build(tmp_path / "with", segments, beside=beside).findings()
    assert [finding.message for finding in findings if finding.code.startswith("KD-TXN-")] == []
    del beside[file(10, "snapshot")]
    findings = build(tmp_path / "without", segments, beside=beside).findings()
    assert {finding.code for finding in findings if finding.code.startswith("KD-TXN-")} >= {"KD-TXN-ENTRY"}
