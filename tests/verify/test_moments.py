"""A broker may be killed between any two of its writes: what it leaves then is sound, and the next start completes it.

The order is that of UnifiedLog and LogSegment: append, roll, retention.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kdump.findings.kind import REBUILDS
from kdump.formats import names
from kdump.formats.index_entries import OFFSET_ENTRY_SIZE, TIME_ENTRY_SIZE, AbortedTxn, encode_aborted_txns
from tests.verify.building import TIME, Log, batch, build, codes, file, marker, produced

BATCHES = [batch(n) for n in range(0, 20, 2)]
SIZE = len(BATCHES[0])
SMALL = SIZE - 1
"""Bytes between index entries that give each batch but the first one an entry."""
INDEX_BYTES = 1 << 14
KINDS = (names.LOG, names.OFFSET_INDEX, names.TIME_INDEX)
SIZES: dict[str, int] = {names.OFFSET_INDEX: OFFSET_ENTRY_SIZE, names.TIME_INDEX: TIME_ENTRY_SIZE}


def cut(log: Log, kind: str, entries: int, *, base: int = 0) -> None:
    """Leave the first entries of an index, in a file as a broker preallocates it."""
    size = SIZES[kind]
    path = log.path(base, kind)
    path.write_bytes(path.read_bytes()[: size * entries].ljust(INDEX_BYTES // size * size, b"\0"))


@pytest.mark.parametrize("interval", [SMALL, 3 * SIZE, 1 << 20])
@pytest.mark.parametrize("late", [0, 1])
def test_an_append(tmp_path: Path, interval: int, late: int) -> None:
    """The entry of the .index is written before that of the .timeindex."""
    for batches in range(1, len(BATCHES) + 1):
        log = build(tmp_path / f"{batches}", {0: BATCHES[:batches]}, closed=False, interval=interval)
        entries = log.path(0, names.OFFSET_INDEX).stat().st_size // OFFSET_ENTRY_SIZE
        cut(log, names.OFFSET_INDEX, entries)
        cut(log, names.TIME_INDEX, max(0, entries - late))
        assert codes(log.findings()) == set(), batches


def test_an_append_that_had_an_entry_due(tmp_path: Path) -> None:
    log = build(tmp_path / "data", {0: BATCHES}, closed=False, interval=SMALL)
    cut(log, names.OFFSET_INDEX, len(BATCHES) - 2)
    cut(log, names.TIME_INDEX, len(BATCHES) - 2)
    assert codes(log.findings()) == set()
    cut(log, names.TIME_INDEX, len(BATCHES) - 4)
    assert codes(log.findings()) == {"KD-TIDX-LAST"}


def test_timestamps_that_go_back_beside_the_last_entry(tmp_path: Path) -> None:
    """The .timeindex gets no entry where the largest timestamp is that of the entry before."""
    times = [50, 40, 90, 10, 20]
    batches = [batch(2 * n, timestamp=TIME + ms) for n, ms in enumerate(times)]
    log = build(tmp_path / "data", {0: batches}, closed=False, interval=SMALL)
    assert log.path(0, names.TIME_INDEX).stat().st_size == 2 * TIME_ENTRY_SIZE
    for entries, found in ((2, set()), (1, {"KD-TIDX-LAST"}), (0, {"KD-TIDX-LAST"})):
        cut(log, names.OFFSET_INDEX, 4)
        cut(log, names.TIME_INDEX, entries)
        assert codes(log.findings()) == found, entries


def test_abort_markers_whose_transactions_are_not_indexed(tmp_path: Path) -> None:
    """The entries of the .txnindex are written after the markers: the last of them may be missing, and no other."""
    batches = [produced(0, 7, 0), marker(2, 7), produced(3, 7, 2), marker(5, 7)]
    entries = [encode_aborted_txns([AbortedTxn(*offsets)]) for offsets in ((0, 7, 0, 2, 3), (0, 7, 3, 5, 6))]
    for written, is_sound in (([], True), (entries[:1], True), (entries[1:], False), (entries, True)):
        log = build(tmp_path / f"{len(written)}-{is_sound}", {0: batches}, closed=False)
        log.path(0, names.TXN_INDEX).write_bytes(b"".join(written))
        assert codes(log.findings()) == (set() if is_sound else {"KD-TXN-MISSING"})
        notes = [each for each in log.findings() if each.code == "KD-TXN-MISSING" and each.severity == "note"]
        assert {each.broker for each in notes} <= {REBUILDS}
        assert len(notes) == (2 - len(written) if is_sound else 0)
    log = build(tmp_path / "closed", {0: batches})
    assert codes(log.findings()) == {"KD-TXN-MISSING"}


def rolling(folder: Path) -> Iterator[tuple[str, Log]]:
    """What lies there after each step of a roll and of the first append behind it."""
    log = build(folder, {0: BATCHES}, closed=False, interval=SMALL)
    entries = len(BATCHES) - 1
    end = 2 * len(BATCHES)
    last = log.path(0, names.TIME_INDEX).read_bytes()
    cut(log, names.OFFSET_INDEX, entries)
    cut(log, names.TIME_INDEX, entries)
    yield "the last time index entry", log
    log.edit(file(0, names.OFFSET_INDEX), lambda data: data[: entries * OFFSET_ENTRY_SIZE])
    yield ".index trimmed", log
    log.path(0, names.TIME_INDEX).write_bytes(last)
    yield ".timeindex trimmed", log
    log.path(end, names.LOG).touch()
    yield "new .log", log
    log.path(end, names.PRODUCER_SNAPSHOT).touch()
    yield "a snapshot that was begun", log
    log.path(end, names.PRODUCER_SNAPSHOT).unlink()
    log.path(end, names.LOG).write_bytes(batch(end))
    yield "the first batch", log
    log.path(end, names.TIME_INDEX).touch()
    yield "new .timeindex", log
    cut(log, names.TIME_INDEX, 0, base=end)
    yield ".timeindex preallocated", log
    log.path(end, names.LOG).write_bytes(batch(end) + batch(end + 2))
    log.path(end, names.OFFSET_INDEX).touch()
    yield "new .index", log
    cut(log, names.OFFSET_INDEX, 0, base=end)
    yield ".index preallocated", log


def retention(folder: Path) -> Iterator[tuple[str, Log]]:
    """What lies there while the files of a segment are renamed one by one."""
    log = build(folder, {0: BATCHES, 20: [batch(20)]}, closed=False)
    for kind in KINDS:
        log.path(0, kind).rename(log.path(0, f"{kind}.deleted"))
        yield f".{kind}.deleted", log


def beginning(folder: Path) -> Iterator[tuple[str, Log]]:
    """What lies there while a partition is made."""
    log = build(folder, {0: BATCHES}, closed=False)
    new = folder / "new-0"
    new.mkdir()
    yield "directory", log
    (new / file(0, names.LOG)).touch()
    yield ".log", log
    (new / f"{names.PARTITION_METADATA}.tmp").touch()
    yield "partition.metadata.tmp", log
    (new / f"{names.PARTITION_METADATA}.tmp").rename(new / names.PARTITION_METADATA)
    (new / names.PARTITION_METADATA).write_text(
        log.partition.joinpath(names.PARTITION_METADATA).read_text().replace("AAAQ", "AAAg")
    )
    yield "partition.metadata", log
    (new / f"{names.LEADER_EPOCH_CHECKPOINT}.tmp").touch()
    yield "leader-epoch-checkpoint.tmp", log
    (new / f"{names.LEADER_EPOCH_CHECKPOINT}.tmp").unlink()
    (new / names.LEADER_EPOCH_CHECKPOINT).write_text("0\n1\n0 0\n")
    yield "leader-epoch-checkpoint", log
    (folder / f"{names.RECOVERY_POINT_CHECKPOINT}.tmp").touch()
    yield "recovery-point-offset-checkpoint.tmp", log


def cleaning(folder: Path) -> Iterator[tuple[str, Log]]:
    """What lies there while the cleaner replaces two segments by one (LocalLog.replaceSegments)."""
    log = build(folder, {0: BATCHES, 20: [batch(20)], 22: [batch(22)]}, closed=False)
    made = build(folder.with_name(f"{folder.name}-made"), {0: [BATCHES[-1], batch(20)]}, closed=False)
    for kind in KINDS:
        log.path(0, f"{kind}.cleaned").write_bytes(made.path(0, kind).read_bytes())
        yield f".{kind}.cleaned", log
    for kind in KINDS:
        log.path(0, f"{kind}.cleaned").rename(log.path(0, f"{kind}.swap"))
        yield f".{kind}.swap", log
    for base in (0, 20):
        for kind in KINDS:
            log.path(base, kind).rename(log.path(base, f"{kind}.deleted"))
            yield f"{base}.{kind}.deleted", log
    for kind in KINDS:
        log.path(0, f"{kind}.swap").rename(log.path(0, kind))
        yield f"new .{kind}", log


@pytest.mark.parametrize("steps", [rolling, retention, beginning, cleaning])
def test_steps(tmp_path: Path, steps: Callable[[Path], Iterator[tuple[str, Log]]]) -> None:
    found = {step: codes(log.findings()) for step, log in steps(tmp_path / "data")}
    assert found == {step: set() for step in found}


def test_an_index_without_log_after_a_clean_shutdown(tmp_path: Path) -> None:
    log = build(tmp_path / "data", {0: BATCHES, 20: [batch(20)]})
    log.path(0, names.LOG).rename(log.path(0, f"{names.LOG}.deleted"))
    assert codes(log.findings()) == {"KD-IDX-ORPHAN"}


def with_zeros(count: int) -> Callable[[bytes], bytes]:
    return lambda data: data + bytes(count)


@pytest.mark.parametrize("is_empty", [False, True])
def test_room_in_the_offset_index_alone(tmp_path: Path, is_empty: bool) -> None:
    """A start makes room in the .index first: seen with 3.9.2 to 4.3.1, killed where they grow the .timeindex."""
    log = build(tmp_path / "data", {0: [] if is_empty else BATCHES}, closed=False, interval=SMALL)
    log.edit(file(0, names.OFFSET_INDEX), with_zeros(1 << 14))
    found = log.findings()
    assert codes(found, "error") == set()
    assert "KD-IDX-PREALLOCATED" in {each.code for each in found}


def test_zeros_that_no_preallocation_left(tmp_path: Path) -> None:
    """A few behind the .timeindex, or behind the .index alone; or no whole entries; or in the place of all entries."""
    for name, zeros in ((names.TIME_INDEX, 120), (names.OFFSET_INDEX, 80), (names.OFFSET_INDEX, (1 << 14) + 1)):
        log = build(tmp_path / f"{name}-{zeros}", {0: BATCHES}, closed=False, interval=SMALL)
        log.edit(file(0, name), with_zeros(zeros))
        assert "error" in {found.severity for found in log.findings()}
    log = build(tmp_path / "wiped", {0: BATCHES}, closed=False, interval=SMALL)
    log.edit(file(0, names.OFFSET_INDEX), lambda data: bytes(1 << 14))
    assert codes(log.findings(), "error") == {"KD-IDX-ZEROS"}
