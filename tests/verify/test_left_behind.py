"""What brokers leave on disk beside a sound log: notes, not findings. And what only looks like it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdump.check import Finding
from kdump.formats import names
from kdump.formats.index_entries import (
    OffsetIndexEntry,
    TimeIndexEntry,
    encode_offset_entries,
    encode_time_entries,
)
from kdump.mend.indexes import examine_indexes
from kdump.mend.proposal import examine, examine_trim
from kdump.mend.task import INDEX_KINDS, Request
from kdump.recovery.startup import Startup
from kdump.storage.partition import PartitionLog
from tests.verify.building import NOW, TIME, TOPIC_DIR, Log, batch, build, codes, file, marker, produced

INDEX, TIME_INDEX = file(0, "index"), file(0, "timeindex")
BATCHES = [batch(n) for n in range(0, 20, 2)]
SIZE = len(BATCHES[0])
INDEX_BYTES = 1 << 10


def killed(
    folder: Path, entries: list[tuple[int, int]], times: list[tuple[int, int]], *, name: str = TOPIC_DIR
) -> Log:
    """A killed broker's only segment, whose preallocated indexes have these entries: (offset, batch), (ms, offset)."""
    log = build(folder, {0: BATCHES}, closed=False, name=name)
    offsets = encode_offset_entries((OffsetIndexEntry(offset, SIZE * number) for offset, number in entries), 0)
    stamps = encode_time_entries((TimeIndexEntry(TIME + ms, offset) for ms, offset in times), 0)
    for index, data, size in ((INDEX, offsets, 8), (TIME_INDEX, stamps, 12)):
        (log.partition / index).write_bytes(data.ljust(INDEX_BYTES // size * size, b"\0"))
    return log


def of_indexes(log: Log) -> list[Finding]:
    """What is found in the two indexes, but the zeros at their ends."""
    found = [each for each in log.findings() if Path(each.path).name in (INDEX, TIME_INDEX)]
    return [each for each in found if not each.code.endswith("PREALLOCATED")]


SOUND = [(5, 2), (11, 5), (17, 8)]
SOUND_TIMES = [(5, 5), (11, 11), (17, 17)]
TRUNCATED = [(25, 12), (31, 15), (37, 18)]


def test_entries_of_a_truncated_log_are_a_note(tmp_path: Path) -> None:
    log = killed(tmp_path / "beyond", SOUND + TRUNCATED, [*SOUND_TIMES, (25, 25), (31, 31)])
    assert codes(log.findings()) == set()
    assert [(each.code, each.position) for each in of_indexes(log)] == [
        ("KD-IDX-LEFTOVER", 24),
        ("KD-TIDX-LEFTOVER", 36),
    ]
    overtaken = [(7, 3), (9, 4), (12, 5)]  # the log has grown beyond them
    log = killed(tmp_path / "behind", SOUND + overtaken, [*SOUND_TIMES, (7, 7), (8, 9)])
    assert codes(log.findings()) == set()


def test_one_wrong_entry_of_a_killed_broker_is_found(tmp_path: Path) -> None:
    entries = [(2 * n + 1, n) for n in range(1, 10)]
    times = [(offset, offset) for offset, _ in entries]
    log = killed(tmp_path / "data", [*entries[:3], (10, 4), *entries[4:]], times)
    assert [(each.code, each.position) for each in of_indexes(log)] == [("KD-IDX-OFFSET", 24)]


def test_left_over_entries_count_after_a_clean_shutdown(tmp_path: Path) -> None:
    log = killed(tmp_path / "data", SOUND + TRUNCATED, SOUND_TIMES)
    (log.directory / names.CLEAN_SHUTDOWN).write_text('{"version":0,"brokerEpoch":-1}')
    assert {"KD-IDX-POSITION", "KD-IDX-ZEROS"} <= codes(log.findings())


def test_the_metadata_log_of_a_clean_shutdown_stays_preallocated(tmp_path: Path) -> None:
    """Kafka 4.4.0 leaves it so at every stop: the room of its indexes, and no last entry in the time index."""
    log = killed(tmp_path / "data", SOUND, SOUND_TIMES[:2], name=names.CLUSTER_METADATA_DIR)
    (log.directory / names.CLEAN_SHUTDOWN).write_text('{"version":0,"brokerEpoch":-1}')
    assert not {code for code in codes(log.findings()) if code.startswith(("KD-IDX", "KD-TIDX"))}
    before = {path.name: path.read_bytes() for path in log.partition.iterdir()}
    partition = PartitionLog(str(log.partition))
    for task in (
        examine(partition, Startup(NOW, clean=False), Request()),
        examine_indexes(partition, Startup(NOW, clean=False), frozenset(INDEX_KINDS), None),
        examine_trim(partition, None),
    ):
        assert task.plan is not None
        assert [operation.name for operation in task.plan.operations if operation.name in (INDEX, TIME_INDEX)] == []
    assert {path.name: path.read_bytes() for path in log.partition.iterdir()} == before


@pytest.mark.parametrize("closed", [True, False])
def test_an_active_segment_without_entries_needs_no_index_files(tmp_path: Path, closed: bool) -> None:
    log = build(tmp_path / "data", {0: BATCHES, 20: []}, closed=closed)
    log.path(20, "index").unlink()
    if not closed:
        log.path(20, "timeindex").unlink()
    assert codes(log.findings()) == set()
    assert "KD-IDX-MISSING" in codes(log.findings(), "note")


def test_an_active_segment_with_entries_misses_its_index(tmp_path: Path) -> None:
    log = build(tmp_path / "data", {0: BATCHES}, closed=False)
    log.path(0, "index").unlink()
    assert codes(log.findings()) == {"KD-IDX-MISSING"}
    log = build(tmp_path / "times", {0: BATCHES}, closed=False)
    log.path(0, "timeindex").unlink()
    assert codes(log.findings()) == {"KD-TIDX-MISSING"}


def test_an_emptied_index_is_found(tmp_path: Path) -> None:
    log = build(tmp_path / "data", {0: BATCHES, 20: [batch(20)]})
    (log.partition / INDEX).write_bytes(b"")
    assert codes(log.findings()) == codes(log.findings(deep=False)) == {"KD-IDX-EMPTY"}
    small = build(tmp_path / "small", {0: BATCHES, 20: [batch(20)]}, interval=1 << 20)
    assert (small.partition / INDEX).read_bytes() == b""
    assert codes(small.findings()) == set()


def test_a_log_start_that_was_forgotten_is_a_note(tmp_path: Path) -> None:
    log = build(tmp_path / "data", {0: BATCHES}, epochs="0 12\n")
    assert codes(log.findings()) == set()
    (note,) = [each for each in log.findings() if each.code == "KD-EPOCH-LOG-START"]
    assert note.offset == 12
    assert "log start offset was 12 before" in note.message
    later = [batch(n, leader_epoch=3) for n in range(0, 8, 2)]
    log = build(tmp_path / "contradiction", {0: later}, epochs="2 4\n")
    assert codes(log.findings()) == {"KD-EPOCH-CHECKPOINT"}


def test_transaction_version_2_is_sound(tmp_path: Path) -> None:
    """A marker's epoch exceeds that of its data, the next data has the marker's, and a marker may come twice."""
    batches = [
        produced(0, 7, 0, producer_epoch=4),
        marker(2, 7, commit=True, producer_epoch=5),
        marker(3, 7, commit=True, producer_epoch=5),
        produced(4, 7, 0, producer_epoch=5),
        marker(6, 7, producer_epoch=6),
        marker(7, 7, producer_epoch=6),
        produced(8, 7, 0, producer_epoch=6),
        marker(10, 7, commit=True, producer_epoch=7),
    ]
    log = build(tmp_path / "data", {0: batches})
    assert codes(log.findings()) == {"KD-TXN-MISSING"}  # of the transaction that was aborted once
    assert [each.offset for each in log.findings() if each.code == "KD-TXN-MISSING"] == [6]


def test_a_snapshot_that_a_killed_broker_had_begun_is_a_note(tmp_path: Path) -> None:
    """Seen with 4.3.1, killed while it rolled a segment; the next start removes it and makes it again."""
    segments = {0: BATCHES, 20: [batch(20)]}
    for closed, expected in ((False, set()), (True, {"KD-SNAP-CORRUPT"})):
        log = build(tmp_path / str(closed), segments, closed=closed)
        (log.partition / file(20, "snapshot")).write_bytes(b"")
        assert codes(log.findings()) == expected
        assert "KD-SNAP-CORRUPT" in {each.code for each in log.findings()}
    log = build(tmp_path / "older", {**segments, 22: [batch(22)]}, closed=False)
    for offset in (20, 22):
        (log.partition / file(offset, "snapshot")).write_bytes(b"")
    assert {Path(each.path).name for each in log.findings() if each.severity == "error"} == {file(20, "snapshot")}
