"""Ranges of one log walked by several threads: the same findings, in the same order."""

from __future__ import annotations

import sys
import threading
from itertools import zip_longest
from pathlib import Path

import pytest

from kdump.blocks import RecordBlock
from kdump.check import batch_rows
from kdump.formats.codecs import GZIP
from kdump.storage import log_reader
from kdump.storage.segment import Segment
from tests.sampling import sampled
from tests.verify.building import Log, batch, build, file, flip, found, produced, put

SIZE = len(batch(0))
BATCHES = 200


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Log:
    """A segment that is cut into more than ten pieces."""
    monkeypatch.setattr(batch_rows, "PIECE_BYTES", 1500)
    monkeypatch.setattr(batch_rows, "MIN_AHEAD", 0)
    batches = [batch(2 * n, attributes=GZIP if n % 3 == 0 else 0) for n in range(BATCHES)]
    return build(tmp_path / "data", {0: batches, 2 * BATCHES: [batch(2 * BATCHES)]})


def same(log: Log) -> list[str]:
    """The codes found, which have to be the same for any number of threads."""
    for deep in (False, True):
        alone = found(log.directory, deep=deep, jobs=1)
        for jobs in (2, 3, 8):
            assert found(log.directory, deep=deep, jobs=jobs) == alone
    return [each.code for each in alone if each.severity != "note"]


def test_a_sound_log_is_walked_in_pieces(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    walked = []
    real = batch_rows.walk

    def walk(piece: batch_rows.Piece, resume_after: int = -1) -> object:
        walked.append((piece.start, piece.stop, threading.current_thread().name.startswith("kdump")))
        return real(piece, resume_after)

    monkeypatch.setattr(sys.modules["kdump.check.run"], "walk", walk)
    assert same(log) == []
    pieces = {(start, stop) for start, stop, by_thread in walked if by_thread}
    assert len(pieces) > 10


@pytest.mark.parametrize("count", [2, 3, 4, 10])
def test_pieces_follow_one_another_and_the_last_are_smaller(
    log: Log, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    segment = Segment(str(log.path(0, "log")))
    size = log.path(0, "log").stat().st_size
    usual = size // count
    monkeypatch.setattr(batch_rows, "PIECE_BYTES", usual)
    pieces = batch_rows.pieces_of(segment, batch_rows.Reading(False, 1 << 20, False), size)
    assert [piece.start for piece in pieces] == [0, *(piece.stop for piece in pieces[:-1])]
    assert pieces[-1].stop is None
    lengths = [(size if piece.stop is None else piece.stop) - piece.start for piece in pieces]
    assert len(lengths) == max(count - 2, 0) + batch_rows.SMALLER
    assert all(abs(length - usual) < 200 for length in lengths[: -batch_rows.SMALLER])
    assert all(abs(length - usual / 2) < 200 for length in lengths[-batch_rows.SMALLER :])


@pytest.mark.parametrize("at", sampled([0, 1, 14, 15, 16, 17, 100, 101, BATCHES - 2, BATCHES - 1], 3))
def test_damage_anywhere(log: Log, at: int) -> None:
    name = file(0, "log")
    data = log.path(0, "log").read_bytes()
    start = sum(len(batch(2 * n, attributes=GZIP if n % 3 == 0 else 0)) for n in range(at))
    for change in (flip(start + 70), put(start + 8, b"\0\0\0\5"), put(start, b"\0\0\0\0\0\0\0\1"), flip(start + 13)):
        log.edit(name, change)
        assert same(log)
        log.path(0, "log").write_bytes(data)


def test_entries_that_do_not_lead_to_batches_cut_nothing(log: Log) -> None:
    index = file(0, "index")
    log.edit(
        index, lambda data: b"".join(data[at : at + 7] + bytes((data[at + 7] ^ 1,)) for at in range(0, len(data), 8))
    )
    assert set(same(log)) == {"KD-IDX-POSITION"}
    log.edit(index, lambda _: b"")
    assert same(log) == ["KD-IDX-EMPTY"]
    log.path(0, "index").unlink()
    assert same(log) == ["KD-IDX-MISSING"]


def test_state_goes_from_piece_to_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_rows, "PIECE_BYTES", 1500)
    monkeypatch.setattr(batch_rows, "MIN_AHEAD", 0)
    batches = [produced(2 * n, 7, 2 * n if n < 150 else 2 * n + 4) for n in range(BATCHES)]
    log = build(tmp_path / "data", {0: batches})
    assert same(log) == ["KD-PRODUCER-SEQUENCE"]


def test_sheets_are_joined(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """However batches are gathered into batch_rows."""
    expected = found(log.directory)
    log.edit(file(0, "log"), flip(-70))
    damaged = found(log.directory)
    for rows, size in ((1, 1), (7, 1 << 20), (1 << 20, 500), (1 << 20, 1 << 20)):
        monkeypatch.setattr(batch_rows, "ROWS_AT_ONCE", rows)
        monkeypatch.setattr(batch_rows, "BYTES_AT_ONCE", size)
        assert found(log.directory) == damaged
    log.edit(file(0, "log"), flip(-70))
    assert found(log.directory) == expected


def test_walks_that_take_turns_in_one_thread(log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither reads into the other's block."""
    monkeypatch.setattr(log_reader, "BUFFER_SIZE", 1000)
    monkeypatch.setattr(batch_rows, "ROWS_AT_ONCE", 1)
    other = build(tmp_path / "other", {0: [batch(3 * n, 1) for n in range(300)]})
    reading = batch_rows.Reading(True, 1 << 20, False)
    pieces = [batch_rows.Piece(Segment(str(each.path(0, "log"))), 0, None, reading) for each in (log, other)]
    expected = [list(batch_rows.walk(piece)) for piece in pieces]
    turns = list(zip_longest(*map(batch_rows.walk, pieces)))
    assert [[rows for rows in side if rows] for side in zip(*turns, strict=True)] == expected
    assert min(map(len, expected)) > 10


def test_small_logs_are_decoded_into_the_same_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory for a block takes longer than the records of a small log."""
    made: list[RecordBlock] = []

    def noted() -> RecordBlock:
        made.append(RecordBlock())
        return made[-1]

    monkeypatch.setattr(batch_rows, "RecordBlock", noted)
    monkeypatch.setattr(batch_rows._spare, "records", None)
    for number in range(5):
        log = build(tmp_path / str(number), {0: [batch(0, 3)]})
        found(log.directory, deep=True, jobs=1)
    assert len(made) == 1
