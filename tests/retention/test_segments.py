"""The largest timestamp of a segment as a broker has it, and the batch that holds it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kdump.formats.batch import LOG_APPEND_TIME
from kdump.formats.codecs import GZIP
from kdump.formats.index_entries import TimeIndexEntry, encode_time_entries
from kdump.retention.blocking_batch import BlockingBatch, find_blocking_batch
from kdump.retention.segments import SegmentState, Shutdown, segment_states
from kdump.storage.partition import PartitionLog
from kdump.storage.timestamps import TimestampSource
from tests.commands.logs import write_segment
from tests.retention.building import CLEAN, DAY, HOUR, NOW, batch, write_log

UNCLEAN = Shutdown(clean=False)


def states(partition: Path, shutdown: Shutdown = CLEAN) -> tuple[SegmentState, ...]:
    return segment_states(PartitionLog(str(partition)), shutdown)


def blocking_batch_of(partition: Path, limit_ms: int = DAY, now: int = NOW) -> BlockingBatch | None:
    return find_blocking_batch(states(partition)[0], now, limit_ms)


def test_offsets_sizes_and_files(tmp_path: Path) -> None:
    folder = write_log(tmp_path / "t-0", [[[NOW - DAY, NOW - DAY]], [[NOW], [NOW - 5]]])
    (folder / "00000000000000000002.snapshot").write_bytes(b"12345")
    first, last = states(folder)
    assert (first.base_offset, first.end_offset, last.base_offset, last.end_offset) == (0, 2, 2, 4)
    assert (first.is_last, last.is_last) == (False, True)
    assert (first.largest_timestamp, last.largest_timestamp) == (NOW - DAY, NOW)
    assert first.source == last.source == TimestampSource.TIME_INDEX
    assert last.size == (folder / "00000000000000000002.log").stat().st_size
    sizes = {file.name: file.size for file in last.files}
    assert sizes == {path.name: path.stat().st_size for path in folder.glob("00000000000000000002.*")}
    assert last.space == sum(sizes.values())
    assert "00000000000000000002.snapshot" in sizes


def test_without_timestamps_the_time_of_the_file_counts(tmp_path: Path) -> None:
    folder = write_log(tmp_path / "t-0", [[[-1]], [[NOW]]])
    os.utime(folder / "00000000000000000000.log", ns=(0, (NOW - 7) * 1_000_000 + 999_999))
    first = states(folder)[0]
    assert (first.source, first.largest_timestamp, first.modified) == (TimestampSource.MTIME, NOW - 7, NOW - 7)
    assert states(folder, UNCLEAN)[0].source == TimestampSource.MTIME
    assert blocking_batch_of(folder) is None


@pytest.mark.parametrize("harm", ["missing", "empty"])
def test_without_a_time_index_the_time_of_the_file_counts(tmp_path: Path, harm: str) -> None:
    folder = write_log(tmp_path / "t-0", [[[NOW - DAY]], [[NOW]]])
    index = folder / "00000000000000000000.timeindex"
    index.unlink() if harm == "missing" else index.write_bytes(b"")
    first = states(folder)[0]
    assert (first.source, first.largest_timestamp) == (TimestampSource.MTIME, NOW)
    found = blocking_batch_of(folder)
    assert found is not None
    assert found.timestamp == NOW - DAY  # which the time index would have, were it there


def test_what_a_start_rebuilds_is_taken_from_the_batches(tmp_path: Path) -> None:
    folder = write_log(tmp_path / "t-0", [[[NOW - DAY]], [[NOW - HOUR]], [[NOW]]])
    for base in range(3):
        entry = encode_time_entries([TimeIndexEntry(5, base)], base)
        (folder / f"{base:020d}.timeindex").write_bytes(entry)
    assert [state.largest_timestamp for state in states(folder)] == [5, 5, 5]
    from_one = states(folder, Shutdown(clean=False, recovery_point=1))
    assert [state.source for state in from_one] == ["timeindex", "batches", "batches"]
    assert [state.largest_timestamp for state in from_one] == [5, NOW - HOUR, NOW]
    (folder / "00000000000000000000.index").unlink()
    assert states(folder)[0].largest_timestamp == NOW - DAY


def test_zeros_at_the_end_of_a_time_index_are_an_entry_after_a_clean_shutdown(tmp_path: Path) -> None:
    folder = write_log(tmp_path / "t-0", [[[NOW]], [[NOW]]])
    index = folder / "00000000000000000000.timeindex"
    index.write_bytes(index.read_bytes() + bytes(24))
    assert states(folder)[0].largest_timestamp == 0
    assert states(folder, UNCLEAN)[0].largest_timestamp == NOW


def test_unused_space_of_the_last_segment_does_not_count(tmp_path: Path) -> None:
    folder = write_log(tmp_path / "t-0", [[[NOW]], [[NOW], [NOW]]])
    log = folder / "00000000000000000001.log"
    used = log.stat().st_size
    with log.open("ab") as out:
        out.truncate(1 << 16)
    last = states(folder, UNCLEAN)[1]
    assert (last.size, last.end_offset, last.damage) == (used, 3, None)


def test_damage_that_a_start_would_cut_at_is_told(tmp_path: Path) -> None:
    folder = write_log(tmp_path / "t-0", [[[NOW - DAY], [NOW]], [[NOW]]])
    log = folder / "00000000000000000000.log"
    data = bytearray(log.read_bytes())
    second = len(data) // 2
    data[second + 70] ^= 1
    log.write_bytes(data)
    assert states(folder)[0].damage is None  # after a clean shutdown nobody looks
    state = states(folder, UNCLEAN)[0]
    assert state.damage is not None
    assert state.damage.position == second
    assert state.largest_timestamp == NOW - DAY


def test_the_record_that_holds_a_segment(tmp_path: Path) -> None:
    late = batch(3, [NOW - 9 * DAY, NOW + 5, NOW + 5], producer_id=42)
    data = [batch(0, [NOW - 3 * DAY] * 3), late, batch(6, [NOW - DAY]), batch(7, [NOW - 2 * DAY])]
    write_segment(tmp_path / "t-0", 0, data)
    found = blocking_batch_of(tmp_path / "t-0")
    assert found == BlockingBatch(
        timestamp=NOW + 5,
        position=len(data[0]),
        size=len(late),
        base_offset=3,
        last_offset=5,
        record_offset=4,
        producer_id=42,
        producer_epoch=0,
        is_append_time=False,
        unit=None,
        batches=4,
        young=2,
        largest_of_others=NOW - 2 * DAY,
    )


@pytest.mark.parametrize(
    ("timestamp", "unit"),
    [(NOW // 1000, "seconds"), (NOW * 1000, "microseconds"), (NOW * 1_000_000, "nanoseconds"), (NOW - 5, None)],
)
def test_wrong_units(tmp_path: Path, timestamp: int, unit: str | None) -> None:
    write_segment(tmp_path / "t-0", 0, [batch(0, [timestamp])])
    found = blocking_batch_of(tmp_path / "t-0")
    assert found is not None
    assert (found.unit, found.timestamp) == (unit, timestamp)


def test_a_blocking_batch_in_a_compressed_batch_and_one_with_the_brokers_time(tmp_path: Path) -> None:
    write_segment(tmp_path / "t-0", 0, [batch(0, [NOW, NOW + 2, NOW + 1], attributes=GZIP)])
    packed = blocking_batch_of(tmp_path / "t-0")
    assert packed is not None
    assert (packed.record_offset, packed.is_append_time) == (1, False)
    write_segment(tmp_path / "u-0", 0, [batch(0, [5, NOW], attributes=LOG_APPEND_TIME)])
    appended = blocking_batch_of(tmp_path / "u-0")
    assert appended is not None
    assert (appended.record_offset, appended.is_append_time) == (0, True)


def test_a_blocking_batch_whose_records_cannot_be_read(tmp_path: Path) -> None:
    data = batch(0, [NOW, NOW + 2], attributes=GZIP)
    write_segment(tmp_path / "t-0", 0, [batch(0, [NOW]), _recompute(data[:61] + b"\xff" * (len(data) - 61))])
    found = blocking_batch_of(tmp_path / "t-0")
    assert found is not None
    assert (found.timestamp, found.record_offset) == (NOW + 2, None)


def _recompute(data: bytes) -> bytes:
    from kdump.kernels import crc32c

    return data[:17] + crc32c(data[21:]).to_bytes(4, "big") + data[21:]
