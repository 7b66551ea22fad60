"""Segment: names of its files, offset bounds through the indexes, and what damage does to them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from kdump.errors import NameFormatError
from kdump.formats import names
from kdump.formats.codecs import GZIP, LZ4
from kdump.formats.encode import NewRecord, encode_message, encode_wrapper
from kdump.formats.index_entries import OffsetIndexEntry, TimeIndexEntry, encode_offset_entries, encode_time_entries
from kdump.storage.damage import Damage
from kdump.storage.decoded import BadBatch
from kdump.storage.facts import segment_info
from kdump.storage.records import Batch, Record
from kdump.storage.segment import Segment, segment_end_offset
from kdump.storage.timestamps import TimestampRule, largest_timestamp
from tests.storage.building import batch, batches, flipped, segment_file, with_valid_crc


def build(folder: Path, parts: list[bytes], base_offset: int = 0, *, indexed: bool = True) -> Segment:
    """A segment of v2 batches with two records each; every second batch is in its indexes."""
    path = Path(segment_file(folder, b"".join(parts), base_offset))
    if indexed:
        offsets, times, position = [], [], 0
        for n, part in enumerate(parts):
            last = base_offset + 2 * n + 1
            if n % 2:
                offsets.append(OffsetIndexEntry(last, position))
                times.append(TimeIndexEntry(1000 + last, last))
            position += len(part)
        path.with_suffix(".index").write_bytes(encode_offset_entries(offsets, base_offset))
        path.with_suffix(".timeindex").write_bytes(encode_time_entries(times, base_offset))
    return Segment(str(path))


def timed(count: int, base_offset: int = 0) -> list[bytes]:
    """Batches whose records have 1000 ms plus their offset for a timestamp."""
    return [batch(base_offset + 2 * n, timestamp=1000 + base_offset + 2 * n) for n in range(count)]


def offsets(found: Iterable[object]) -> list[int]:
    return [item.offset for item in found if isinstance(item, Record)]


def lasts(found: Iterable[object]) -> list[int]:
    return [item.last_offset for item in found if isinstance(item, Batch)]


def test_the_files_beside_a_log(tmp_path: Path) -> None:
    segment = build(tmp_path, batches(3), 40)
    assert segment.base_offset == 40
    assert segment.path(names.LOG) == str(tmp_path / "00000000000000000040.log")
    assert segment.path(names.TXN_INDEX) == str(tmp_path / "00000000000000000040.txnindex")
    assert segment.has(names.LOG)
    assert segment.has(names.OFFSET_INDEX)
    assert not segment.has(names.TXN_INDEX)


@pytest.mark.parametrize("suffix", [".deleted", ".cleaned", ".swap"])
def test_a_suffix_goes_for_the_index_files_too(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"00000000000000000007.log{suffix}"
    path.write_bytes(b"")
    segment = Segment(str(path))
    assert (segment.base_offset, segment.suffix) == (7, suffix)
    assert segment.path(names.OFFSET_INDEX) == str(tmp_path / f"00000000000000000007.index{suffix}")


def test_names_that_java_can_read_need_not_be_padded(tmp_path: Path) -> None:
    (tmp_path / "5.log").write_bytes(b"")
    segment = Segment(str(tmp_path / "5.log"))
    assert segment.base_offset == 5
    assert segment.path(names.TIME_INDEX) == str(tmp_path / "5.timeindex")


@pytest.mark.parametrize("name", ["00000000000000000000.index", "x.log", "records", "00000000000000000000 (1).log"])
def test_other_files_are_no_segment(tmp_path: Path, name: str) -> None:
    with pytest.raises(NameFormatError, match="not the name of a segment"):
        Segment(str(tmp_path / name))


def test_a_kraft_snapshot_reads_like_a_segment(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000212-0000000005.checkpoint"
    path.write_bytes(batch(0))
    (tmp_path / "00000000000000000212-0000000005.index").write_bytes(bytes(8))
    segment = Segment(str(path))
    assert segment.is_checkpoint
    assert segment.base_offset == 0
    assert not segment.has(names.OFFSET_INDEX)
    assert offsets(segment.records()) == [0, 1]


def test_without_bounds_everything_comes(tmp_path: Path) -> None:
    segment = build(tmp_path, timed(5))
    assert lasts(segment.batches()) == [1, 3, 5, 7, 9]
    assert offsets(segment.records()) == list(range(10))


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("codec", [0, GZIP])
def test_every_pair_of_bounds(tmp_path: Path, indexed: bool, codec: int) -> None:
    parts = [batch(100 + 2 * n, codec=codec) for n in range(5)]
    segment = build(tmp_path, parts, 100, indexed=indexed)
    for start in range(98, 113):
        for stop in range(98, 113):
            wanted = [offset for offset in range(100, 110) if start <= offset < stop]
            assert offsets(segment.records(start, stop)) == wanted
            reaching = [last for last in range(101, 110, 2) if last >= start and last - 1 < stop]
            assert lasts(segment.batches(start, stop)) == reaching


@pytest.mark.parametrize("magic", [0, 1])
def test_bounds_inside_wrappers(tmp_path: Path, magic: int) -> None:
    wrappers = [
        encode_wrapper([NewRecord(3 * n + k, 1000, None, b"value") for k in range(3)], magic, LZ4) for n in range(4)
    ]
    segment = Segment(segment_file(tmp_path, b"".join(wrappers)))
    for start in range(14):
        for stop in range(14):
            wanted = [offset for offset in range(12) if start <= offset < stop]
            assert offsets(segment.records(start, stop)) == wanted
            reaching = [last for last in (2, 5, 8, 11) if last >= start and last - 2 < stop]
            assert lasts(segment.batches(start, stop)) == reaching


def test_bounds_use_the_index_instead_of_reading_from_the_start(tmp_path: Path) -> None:
    segment = build(tmp_path, [batch(2 * n, value=b"x" * 1000) for n in range(100)])
    with segment.open_log() as log:
        position = segment.position_of(log, 190)
        size = log.size // 100
        assert position == 93 * size
        assert log.bytes_read < 100
        assert segment.position_of(log, 187) == 93 * size
        assert segment.position_of(log, 186) == 91 * size
        assert segment.position_of(log, 2) == 0
        assert segment.position_of(log, 10_000) == 99 * size


def test_times_use_the_indexes(tmp_path: Path) -> None:
    segment = build(tmp_path, timed(10))
    size = len(timed(1)[0])
    with segment.open_log() as log:
        assert segment.position_of_time(log, 0) == 0
        assert segment.position_of_time(log, 1011) == 3 * size  # a batch of the same timestamp may come before
        assert segment.position_of_time(log, 1012) == 5 * size
        assert segment.position_of_time(log, 9999) == 9 * size


def test_without_an_index_a_scan_begins_at_the_start(tmp_path: Path) -> None:
    segment = build(tmp_path, timed(10), indexed=False)
    with segment.open_log() as log:
        assert segment.position_of(log, 15) == 0
        assert segment.position_of_time(log, 1015) == 0


@pytest.mark.parametrize(
    "entries",
    [
        [(15, 3)],  # no batch starts there
        [(15, 1 << 30)],  # behind the end
        [(15, -5)],
        [(5, 9 * 100)],  # a later batch than the entry says
        [(-3, 100)],  # below the base offset
        [(0, 0)] * 3,  # preallocated, nothing used
    ],
)
def test_an_index_that_does_not_fit_is_not_followed(tmp_path: Path, entries: list[tuple[int, int]]) -> None:
    parts = timed(10)
    segment = build(tmp_path, parts, indexed=False)
    data = b"".join(
        offset.to_bytes(4, "big", signed=True) + (position if position != 900 else 9 * len(parts[0])).to_bytes(
            4, "big", signed=True
        )
        for offset, position in entries
    )
    Path(segment.path(names.OFFSET_INDEX)).write_bytes(data)
    with segment.open_log() as log:
        assert segment.position_of(log, 16) == 0
    assert offsets(segment.records(16, 18)) == [16, 17]


def test_time_indexes_out_of_order_are_not_followed(tmp_path: Path) -> None:
    segment = build(tmp_path, timed(10))
    entries = [TimeIndexEntry(5000, 3), TimeIndexEntry(1007, 7)]
    Path(segment.path(names.TIME_INDEX)).write_bytes(encode_time_entries(entries, 0))
    with segment.open_log() as log:
        assert segment.position_of_time(log, 6000) == 0


def test_the_largest_timestamp_is_the_time_index_s(tmp_path: Path) -> None:
    segment = build(tmp_path, timed(10))
    assert largest_timestamp(segment, TimestampRule.TRIMMED) == 1019
    with open(segment.path(names.TIME_INDEX), "ab") as writer:
        writer.write(bytes(1200))
    assert largest_timestamp(segment, TimestampRule.TRIMMED) == 1019
    Path(segment.path(names.TIME_INDEX)).write_bytes(b"")
    assert largest_timestamp(segment, TimestampRule.TRIMMED) is None
    Path(segment.path(names.TIME_INDEX)).unlink()
    assert largest_timestamp(segment, TimestampRule.TRIMMED) is None


def test_damage_comes_between_the_batches(tmp_path: Path) -> None:
    parts = timed(4)
    parts[1] = flipped(parts[1], -1)
    segment = build(tmp_path, parts, indexed=False)
    assert [type(item) for item in segment.batches()] == [Batch, Damage, Batch, Batch]
    kinds = [type(item) for item in segment.records()]
    assert kinds == [Record, Record, Damage, Record, Record, Record, Record]


def test_records_that_break_off_are_said(tmp_path: Path) -> None:
    parts = timed(3)
    broken = bytearray(parts[1])
    broken[61] = 0x7F  # the first record's length
    parts[1] = with_valid_crc(bytes(broken))
    segment = build(tmp_path, parts, indexed=False)
    found = list(segment.records())
    assert offsets(found) == [0, 1, 4, 5]
    (bad,) = (item for item in found if isinstance(item, BadBatch))
    assert str(bad) == f"{segment.log_path}: byte {len(parts[0])}: {bad.error}"
    assert str(bad._replace(path="")) == f"byte {len(parts[0])}: {bad.error}"
    assert (bad.position, bad.path) == (len(parts[0]), segment.log_path)
    assert [item for item in segment.records(4) if isinstance(item, BadBatch)] == []
    assert [item for item in segment.records(0, 2) if isinstance(item, BadBatch)] == []


def test_batches_with_offsets_below_the_base_offset_are_shown(tmp_path: Path) -> None:
    """The base offset of a batch is outside its CRC."""
    segment = build(tmp_path, [batch(50), batch(3), batch(52)], 50, indexed=False)
    assert lasts(segment.batches()) == [51, 4, 53]
    assert offsets(segment.records()) == [50, 51, 3, 4, 52, 53]


def test_a_batch_as_plain_values(tmp_path: Path) -> None:
    data = encode_message(NewRecord(5, 1234, b"k", b"v"), 1) + batch(6, codec=GZIP, timestamp=99)
    message, record_batch = Segment(segment_file(tmp_path, data, 5)).batches()
    assert isinstance(message, Batch)
    assert isinstance(record_batch, Batch)
    assert (message.magic, message.codec, message.record_count, message.max_timestamp) == (1, "none", 1, 1234)
    assert (record_batch.magic, record_batch.codec, record_batch.timestamp_type) == (2, "gzip", "CreateTime")
    assert (record_batch.base_offset, record_batch.last_offset, record_batch.record_count) == (6, 7, 2)
    assert record_batch.valid is True


def test_a_missing_log_is_an_os_error(tmp_path: Path) -> None:
    segment = Segment(str(tmp_path / "00000000000000000000.log"))
    with pytest.raises(FileNotFoundError):
        list(segment.batches())
    assert list(tmp_path.iterdir()) == []


def test_a_log_ends_at_the_earliest_where_its_last_segment_begins(tmp_path: Path) -> None:
    """No batch reaches the offset at which a broker begins to look (LogSegment.readNextOffset)."""
    segment = build(tmp_path, timed(4, base_offset=30), 100, indexed=False)
    assert segment_end_offset(segment) == segment_info(segment).end_offset == 100
    later = build(tmp_path / "later", timed(4, base_offset=130), 100, indexed=False)
    assert segment_end_offset(later) == segment_info(later).end_offset == 138
