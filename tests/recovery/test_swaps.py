"""Leftovers of deletions, of the cleaner and of swaps."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdump.recovery.outcome import DELETE, RENAME
from tests.recovery.building import batch, exception, file, load, loaded, make_log, steps, with_offset

OLD = b"".join(batch(n) for n in range(10))
NEW = b"".join(batch(n) for n in (0, 4, 9))
NEXT = b"".join(batch(n) for n in range(10, 14))


def test_deleted_and_cleaned_files_go(tmp_path: Path) -> None:
    log = make_log(
        tmp_path,
        {
            file(0, "log"): OLD,
            file(0, "index"): b"",
            file(5, "log.deleted"): OLD,
            file(5, "snapshot.deleted"): b"",
            file(0, "log.cleaned"): NEW,
            file(0, "timeindex.cleaned"): b"",
        },
    )
    files = loaded(log)
    assert [name for name in files if name.endswith(("deleted", "cleaned"))] == []
    assert files[file(0, "log")] == OLD
    gone = {step.file: step.why for step in steps(load(log), DELETE)}
    assert gone[file(5, "log.deleted")] == "it was scheduled for deletion"
    assert "unfinished work" in gone[file(0, "log.cleaned")]


def test_deleted_kraft_snapshots_are_left_to_the_controller(tmp_path: Path) -> None:
    name = "00000000000000000010-0000000001.checkpoint.deleted"
    assert name in loaded(make_log(tmp_path, {file(0, "log"): OLD, name: b""}))


def test_a_complete_swap_takes_the_place_of_what_it_covers(tmp_path: Path) -> None:
    log = make_log(
        tmp_path,
        {
            file(0, "log"): OLD,
            file(0, "index"): b"",
            file(5, "snapshot"): b"",
            file(9, "txnindex"): b"",
            file(10, "log"): NEXT,
            file(10, "index"): b"",
            file(0, "log.swap"): NEW,
            file(0, "index.swap"): b"",
            file(0, "timeindex.swap"): b"",
        },
    )
    files = loaded(log)
    assert files[file(0, "log")] == NEW
    assert files[file(10, "log")] == NEXT
    outcome = load(log)
    deleted = [step.file for step in steps(outcome, DELETE) if "swap" in step.why]
    assert deleted == [file(0, "index"), file(0, "log"), file(5, "snapshot"), file(9, "txnindex")]
    assert [step.file for step in steps(outcome, RENAME)] == [
        file(0, "index.swap"),
        file(0, "log.swap"),
        file(0, "timeindex.swap"),
    ]


def test_the_segment_behind_a_swap_stays(tmp_path: Path) -> None:
    """What the last swap's next offset names is not covered."""
    log = make_log(tmp_path, {file(10, "log"): NEXT, file(0, "log.swap"): NEW, file(0, "index.swap"): b""})
    assert loaded(log)[file(10, "log")] == NEXT


def test_swaps_from_the_lowest_cleaned_offset_on_are_undone(tmp_path: Path) -> None:
    log = make_log(
        tmp_path,
        {
            file(0, "log"): OLD,
            file(10, "log"): NEXT,
            file(0, "log.swap"): NEW,
            file(0, "index.swap"): b"",
            file(10, "log.swap"): NEXT[: len(batch(10))],
            file(5, "log.cleaned"): b"",
        },
    )
    files = loaded(log)
    assert files[file(0, "log")] == NEW
    assert files[file(10, "log")] == NEXT
    why = {step.file: step.why for step in steps(load(log), DELETE)}
    assert "was not complete" in why[file(10, "log.swap")]


def test_a_swap_without_its_index_gets_one_of_zeros(tmp_path: Path) -> None:
    """Looking for its end makes the index at full size; nothing trims it after a clean shutdown unless it is active."""
    log = make_log(tmp_path, {file(0, "log.swap"): NEW, file(20, "log"): b"", file(20, "index"): b""})
    files = loaded(log, clean=True)
    assert files[file(0, "index")] == bytes(10485760)
    assert loaded(log)[file(0, "index")] == b""


def test_an_index_alone_can_be_swapped_in(tmp_path: Path) -> None:
    log = make_log(tmp_path, {file(0, "log"): OLD, file(0, "index.swap"): b"12345678"})
    assert loaded(log, clean=True)[file(0, "index")] == b"12345678"


def test_names_without_an_offset_end_loading(tmp_path: Path) -> None:
    for name in ("copy.cleaned", "copy.log.swap"):
        log = make_log(tmp_path / name, {file(0, "log"): OLD, name: b"", file(3, "log.cleaned"): b""})
        assert exception(load(log)) == "NumberFormatException"


@pytest.mark.parametrize("name", ["copy.swap", "copy.txt.swap", "copy.index.swap", ".swap"])
def test_the_name_of_every_swap_is_read(tmp_path: Path, name: str) -> None:
    assert exception(load(make_log(tmp_path, {file(0, "log"): OLD, name: b""}), clean=True)) == "NumberFormatException"


def test_a_swap_that_cannot_be_walked_ends_loading(tmp_path: Path) -> None:
    outcome = load(make_log(tmp_path, {file(0, "log.swap"): NEW + bytes(30)}))
    assert exception(outcome) == "CorruptRecordException"
    assert outcome.failure is not None
    assert outcome.failure.text.endswith(f"{file(0, 'log.swap')}.")


DENSE = {n: batch(n, timestamp=1000 + n) for n in range(20)}
"""Batches that are all different."""


def lost(folder: Path, swap: bytes, base: int = 0) -> dict[str, tuple[int, int | None, int | None]]:
    """Load segments 0, 5 and 10 beside a .log.swap: the batches that go with each, and their offsets."""
    files = {file(at, "log"): b"".join(DENSE[n] for n in range(at, at + 5)) for at in (0, 5, 10)}
    files |= {file(at, "index"): b"" for at in (0, 5, 10)}
    log = make_log(folder, {**files, file(base, "log.swap"): swap, file(base, "index.swap"): b""})
    losses = {step.file: step.loss for step in steps(load(log), DELETE) if step.loss}
    return {name: (loss.batches, loss.first_offset, loss.last_offset) for name, loss in losses.items()}


def of(*offsets: int) -> bytes:
    return b"".join(DENSE[n] for n in offsets)


@pytest.mark.parametrize(
    ("swap", "expected"),
    [
        (of(*range(10)), {}),
        # what it does not have of the last segment that it replaces
        (of(*range(6)), {file(5, "log"): (4, 6, 9)}),
        # nor what is damaged in it
        (of(*range(10))[:-1], {file(5, "log"): (1, 9, 9)}),
        (b"", {file(0, "log"): (5, 0, 4)}),
        # a base offset that is wrong, which no CRC covers, reaches further than its batches
        (of(*range(4)) + with_offset(DENSE[4], 12), {file(0, "log"): (1, 4, 4), file(5, "log"): (5, 5, 9),
                                                     file(10, "log"): (4, 10, 14)}),
        # the cleaner leaves offsets empty
        (of(0, 3, 9), {}),
        (of(3, 4, 5, 6, 7, 8, 9), {}),
        (of(0, 3, 9)[:-1], {file(0, "log"): (1, 4, 4)}),
    ],
)  # fmt: skip
def test_what_a_swap_does_not_have_is_lost(
    tmp_path: Path, swap: bytes, expected: dict[str, tuple[int, int, int]]
) -> None:
    assert lost(tmp_path, swap) == expected
