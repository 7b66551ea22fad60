"""Selecting by offset, time, key, header and producer: the same records as by reading all, and fewer bytes read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kdump
from kdump.formats.batch import CONTROL, LOG_APPEND_TIME
from kdump.formats.encode import NewBatch, NewRecord, encode_batch, encode_message, encode_wrapper
from kdump.formats.index_entries import TimeIndexEntry, encode_time_entries
from kdump.query.selection import Selection
from kdump.query.sweep import Selected, Sweep
from kdump.storage import decoded
from kdump.storage.damage import Damage
from kdump.storage.log_reader import BUFFER_SIZE, LogFile
from kdump.storage.partition import PartitionLog
from kdump.storage.payloads import inflate
from kdump.storage.records import Record, batch_at, header_pairs
from kdump.storage.segment import Segment
from tests.commands.logs import EPOCH, STEP, batch, write_partition, write_segment

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4


def selected(
    path: Path, selection: Selection, *, use_indexes: bool = True, **options: Any
) -> Iterator[tuple[Segment, Selected | Damage]]:
    for segment in selection.segments(PartitionLog(str(path)), use_indexes=use_indexes):
        with segment.open_log() as log:
            start = selection.start(segment, log) if use_indexes else 0
            for event in Sweep(segment, log, selection, start, **options):
                yield segment, event


def offsets(path: Path, selection: Selection, **options: Any) -> list[int]:
    """The offsets of the records that are selected; damage would fail the test."""
    found = []
    for _, event in selected(path, selection, **options):
        assert isinstance(event, Selected)
        found += [span[0] for span in event.spans()]
    return found


def last_offsets(path: Path, selection: Selection, **options: Any) -> list[int]:
    """The last offsets of the batches that are given, each once."""
    return [
        event.block.last_offset[event.row]
        for _, event in selected(path, selection, **options)
        if isinstance(event, Selected) and event.starts
    ]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[LogFile]:
    """Every log file that is opened."""
    found: list[LogFile] = []
    original = LogFile.__init__

    def init(self: LogFile, path: str) -> None:
        original(self, path)
        found.append(self)

    monkeypatch.setattr(LogFile, "__init__", init)
    return found


# --- the same as by reading everything


def all_records(path: Path) -> list[tuple[Record, int]]:
    """Every record with the producer id of its batch, read without any selection."""
    found = []
    for segment in kdump.open_log(str(path)).segments:
        producers = {}
        for item in segment.batches():
            assert not isinstance(item, Damage)
            producers.update(dict.fromkeys(range(item.base_offset, item.last_offset + 1), item.producer_id))
        for record in segment.records():
            assert isinstance(record, Record)
            found.append((record, producers[record.offset]))
    return found


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A partition with times out of order, gaps, all codecs, several producers, headers and null keys."""
    folder = tmp_path_factory.mktemp("mixed") / "t-0"
    offset = 0
    for _ in range(4):
        base_offset, data = offset, []
        for number in range(12):
            records = []
            for _ in range(number % 4 + 1):
                time = EPOCH + (offset * 37 % 400) * STEP
                key = None if offset % 5 == 0 else b"k%d" % (offset % 3)
                headers = ((b"h", b"%d" % (offset % 2)), (b"g", None)) if offset % 4 == 0 else ()
                records.append(NewRecord(offset, time, key, b"v" * 300, headers))
                offset += 1 + offset % 2
            data.append(encode_batch(records, NewBatch(number % 5, producer_id=number % 3 - 1)))
        write_segment(folder, base_offset, data)
    return folder


bound = st.none() | st.integers(0, 250)


@given(
    start=bound,
    stop=bound,
    since=bound,
    until=bound,
    producers=st.sets(st.integers(-1, 2)),
    key=st.sampled_from((None, b"k0", b"k2", b"none")),
    header=st.sampled_from((None, (b"h", None), (b"h", b"0"), (b"g", None), (b"g", b""))),
    use_indexes=st.booleans(),
)
def test_same_as_comparing_every_record(
    mixed: Path,
    start: int | None,
    stop: int | None,
    since: int | None,
    until: int | None,
    producers: set[int],
    key: bytes | None,
    header: tuple[bytes, bytes | None] | None,
    use_indexes: bool,
) -> None:
    since = None if since is None else EPOCH + since * 2 * STEP
    until = None if until is None else EPOCH + until * 2 * STEP

    def equals(wanted: bytes) -> Any:
        return lambda found: found == wanted

    tests = () if header is None else ((header[0], None if header[1] is None else equals(header[1])),)
    selection = Selection(
        start, stop, since, until, frozenset(producers), None if key is None else equals(key), tests
    )
    wanted = [
        record.offset
        for record, producer in all_records(mixed)
        if (start is None or record.offset >= start)
        and (stop is None or record.offset < stop)
        and (since is None or record.timestamp >= since)
        and (until is None or record.timestamp < until)
        and (not producers or producer in producers)
        and (key is None or record.key == key)
        and (header is None or any(name == header[0] and header[1] in (None, value) for name, value in record.headers))
    ]
    assert offsets(mixed, selection, use_indexes=use_indexes) == wanted
    batches = last_offsets(mixed, selection, use_indexes=use_indexes)
    if selection.reads_records or selection.bounds_offsets:
        assert len(batches) <= len(wanted)
    if selection.reads_records:
        assert last_offsets(mixed, selection, use_indexes=use_indexes, batches_only=True) == batches


# --- what is read to get there


def test_an_offset_far_in_is_found_through_the_index(tmp_path: Path, opened: list[LogFile]) -> None:
    path = write_partition(tmp_path / "t-0", segments=3, batches=60, records=8, value_size=8000)
    whole = sum(segment.stat().st_size for segment in path.glob("*.log"))
    assert whole > 10 * BUFFER_SIZE
    assert offsets(path, Selection(900, 910)) == list(range(900, 910))
    assert [Path(log.path).name for log in opened] == ["00000000000000000480.log"]
    assert opened[0].bytes_read <= BUFFER_SIZE + 1000
    opened.clear()
    assert offsets(path, Selection(900, 910), use_indexes=False) == list(range(900, 910))
    assert opened[0].bytes_read > 3 * BUFFER_SIZE


def test_a_time_far_in_is_found_through_the_time_index(tmp_path: Path, opened: list[LogFile]) -> None:
    path = write_partition(tmp_path / "t-0", segments=3, batches=60, records=8, value_size=8000)
    since = EPOCH + 1430 * STEP
    assert offsets(path, Selection(since=since)) == list(range(1430, 1440))
    # the first two segments end before: that is known from their time indexes
    assert [Path(log.path).name for log in opened] == ["00000000000000000960.log"]
    assert opened[0].bytes_read <= BUFFER_SIZE
    opened.clear()
    assert offsets(path, Selection(since=since), use_indexes=False) == list(range(1430, 1440))
    assert len(opened) == 3


def test_append_times_end_the_reading_of_a_segment(tmp_path: Path, opened: list[LogFile]) -> None:
    data = [batch(number * 8, 8, value_size=8000, attributes=LOG_APPEND_TIME) for number in range(60)]
    write_segment(tmp_path / "t-0", 0, data)
    assert offsets(tmp_path / "t-0", Selection(until=EPOCH + 16 * STEP)) == list(range(16))
    assert opened[0].bytes_read <= BUFFER_SIZE
    opened.clear()
    write_segment(tmp_path / "t-0", 0, [batch(number * 8, 8, value_size=8000) for number in range(60)])
    assert offsets(tmp_path / "t-0", Selection(until=EPOCH + 16 * STEP)) == list(range(16))
    assert opened[0].bytes_read > 3 * BUFFER_SIZE


def test_an_index_that_cannot_be_right_is_not_used(tmp_path: Path) -> None:
    path = write_partition(tmp_path / "t-0", segments=3, batches=10, records=5, value_size=2000)
    first = path / f"{0:020d}.timeindex"
    since = EPOCH + 30 * STEP
    entries = [TimeIndexEntry(EPOCH + 5, 4), TimeIndexEntry(EPOCH + 3, 9)]
    for damaged in (
        encode_time_entries(entries, 0),
        encode_time_entries([TimeIndexEntry(EPOCH, 4), TimeIndexEntry(EPOCH + 1, 5000)], 0),
        bytes(24),
        b"",
        b"abc",
    ):
        first.write_bytes(damaged)
        assert offsets(path, Selection(since=since)) == list(range(30, 150))
    first.unlink()
    assert offsets(path, Selection(since=since)) == list(range(30, 150))
    for index in path.glob("*.index"):
        index.write_bytes(b"\x7f" * 80)
    assert offsets(path, Selection(60, 62)) == [60, 61]


def test_an_equal_time_before_the_indexed_batch_is_not_lost(tmp_path: Path) -> None:
    """Where several batches were appended at once, the entry's time may be in one before the entry's offset."""
    records = [NewRecord(offset, EPOCH + min(offset, 20), b"k", b"v" * 3000) for offset in range(40)]
    data = [encode_batch([item]) for item in records]
    log = write_segment(tmp_path / "t-0", 0, data)
    log.with_suffix(".timeindex").write_bytes(
        encode_time_entries([TimeIndexEntry(EPOCH + 10, 10), TimeIndexEntry(EPOCH + 20, 39)], 0)
    )
    assert offsets(tmp_path / "t-0", Selection(since=EPOCH + 20)) == list(range(20, 40))


def test_batches_that_their_header_rules_out_are_not_decompressed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_partition(tmp_path / "t-0", segments=1, batches=10, records=5, codecs=(GZIP, LZ4, ZSTD))
    seen = []

    def noted(block: Any, row: int, stop: int, limit: int) -> Any:
        seen.extend(block.last_offset[row:stop])
        return inflate(block, row, stop, limit)

    monkeypatch.setattr(decoded, "inflate", noted)
    assert offsets(path, Selection(10, 15)) == list(range(10, 15))
    assert seen == [14]
    seen.clear()
    assert offsets(path, Selection(since=EPOCH + 42 * STEP)) == list(range(42, 50))
    assert seen == [44, 49]
    seen.clear()
    assert offsets(path, Selection(producer_ids=frozenset((7,)))) == []
    assert last_offsets(path, Selection(10, 15), batches_only=True) == [14]
    assert seen == []


# --- single points


def test_a_batch_with_a_wild_base_offset_does_not_end_the_reading(tmp_path: Path) -> None:
    wild = bytearray(batch(5, 5))
    wild[:8] = (1 << 50).to_bytes(8, "big")
    write_segment(tmp_path / "t-0", 0, [batch(0, 5), bytes(wild), batch(10, 5)], indexes=False)
    assert offsets(tmp_path / "t-0", Selection(0, 100)) == [0, 1, 2, 3, 4, 10, 11, 12, 13, 14]


def test_wrappers_are_decompressed_to_compare_offsets(tmp_path: Path) -> None:
    data = [
        encode_wrapper([NewRecord(offset, EPOCH, b"k", b"v") for offset in range(first, first + 10)], 1, GZIP)
        for first in (0, 10, 20)
    ]
    write_segment(tmp_path / "t-0", 0, data, indexes=False)
    assert offsets(tmp_path / "t-0", Selection(8, 12)) == [8, 9, 10, 11]
    assert last_offsets(tmp_path / "t-0", Selection(8, 12)) == [9, 19]
    assert offsets(tmp_path / "t-0", Selection(stop_offset=3)) == [0, 1, 2]


def test_records_without_a_time_are_in_no_bounded_time(tmp_path: Path) -> None:
    data = encode_message(NewRecord(0, -1, b"k", b"v"), 0) + encode_message(NewRecord(1, 5, b"k", b"v"), 1)
    write_segment(tmp_path / "t-0", 0, [data], indexes=False)
    assert offsets(tmp_path / "t-0", Selection(until=EPOCH)) == [1]
    assert offsets(tmp_path / "t-0", Selection(since=0)) == [1]
    assert offsets(tmp_path / "t-0", Selection()) == [0, 1]


def test_batches_without_records_are_shown_in_their_order_when_nothing_is_filtered(tmp_path: Path) -> None:
    empty = NewBatch(base_timestamp=0, max_timestamp=0)
    data = [
        encode_batch([], empty._replace(base_offset=0, last_offset=1)),
        batch(2, 2),
        encode_batch([], empty._replace(base_offset=4, last_offset=5)),
        encode_batch([], empty._replace(base_offset=6, last_offset=6)),
        batch(7, 1),
        encode_batch([], empty._replace(base_offset=8, last_offset=9)),
    ]
    write_segment(tmp_path / "t-0", 0, data, indexes=False)
    assert last_offsets(tmp_path / "t-0", Selection()) == [1, 3, 5, 6, 7, 9]
    assert last_offsets(tmp_path / "t-0", Selection(), batches_only=True) == [1, 3, 5, 6, 7, 9]
    assert last_offsets(tmp_path / "t-0", Selection(0, 100)) == [3, 7]
    assert last_offsets(tmp_path / "t-0", Selection(producer_ids=frozenset((-1,)))) == [1, 3, 5, 6, 7, 9]


def test_a_batch_of_more_records_than_a_block_holds_starts_once(tmp_path: Path) -> None:
    write_segment(tmp_path / "t-0", 0, [batch(0, 3), batch(3, 10_000), batch(10_003, 2)], indexes=False)
    events = [event for _, event in selected(tmp_path / "t-0", Selection()) if isinstance(event, Selected)]
    starts = [(event.row, event.starts) for event in events]
    assert sorted(starts, key=lambda pair: pair[0]) == starts
    assert [row for row, is_start in starts if is_start] == [0, 1, 2]
    assert len(starts) > 3
    assert offsets(tmp_path / "t-0", Selection()) == list(range(10_005))


def test_a_batch_that_cannot_be_decoded_is_shown_and_reported(tmp_path: Path) -> None:
    broken = encode_batch([NewRecord(2, EPOCH, b"k", b"v")], NewBatch(attributes=0))
    broken = _with_count(broken, 3)
    unknown = encode_batch([], NewBatch(5, base_offset=4, last_offset=4, base_timestamp=0, max_timestamp=0))
    data = [batch(0, 2), broken, _with_count(unknown, 1), batch(5, 2, attributes=LZ4)]
    write_segment(tmp_path / "t-0", 0, data, indexes=False)
    seen: list[object] = []
    for _, event in selected(tmp_path / "t-0", Selection()):
        if isinstance(event, Damage):
            seen.append((event.position, event.resumed, event.text))
        else:
            seen += [("batch", event.block.last_offset[event.row])] * event.starts
            seen += [span[0] for span in event.spans()]
    at = [len(data[0]), len(data[0] + data[1]), len(b"".join(data[:3]))]
    cannot = "the records of the batch at offset {} cannot all be read: "
    assert seen == [
        ("batch", 1),
        0,
        1,
        ("batch", 2),
        2,
        (at[0], at[1], cannot.format(2) + "Incorrect declared batch size, premature EOF reached"),
        ("batch", 4),
        (at[1], at[2], cannot.format(4) + "Unknown compression type id: 5"),
        ("batch", 6),
        5,
        6,
    ]


def test_a_message_with_a_bad_crc_inside_a_good_wrapper_is_reported(tmp_path: Path) -> None:
    inner = bytearray(encode_message(NewRecord(7, EPOCH, b"k", b"value"), 0))
    inner[-1] ^= 1
    from kdump.formats.codecs import compress

    wrapper = encode_message(NewRecord(7, -1, None, compress(GZIP, bytes(inner), magic=0)), 0, GZIP)
    write_segment(tmp_path / "t-0", 0, [wrapper], indexes=False)
    events = [event for _, event in selected(tmp_path / "t-0", Selection())]
    assert [type(event) for event in events] == [Selected, Damage]
    assert "the message at offset 7 inside a compressed batch fails its CRC" in str(events[1])


def test_the_limit_on_decompressed_bytes_holds(tmp_path: Path) -> None:
    write_segment(tmp_path / "t-0", 0, [batch(0, 100, value_size=1000, attributes=ZSTD), batch(100, 1)], indexes=False)
    events = [event for _, event in selected(tmp_path / "t-0", Selection(), limit=5000)]
    texts = [event.text for event in events if isinstance(event, Damage)]
    assert len(texts) == 1
    assert "more than the limit of 5000 bytes" in texts[0]
    assert [event.block.last_offset[event.row] for event in events if isinstance(event, Selected)] == [99, 100]


def test_batch_values() -> None:
    horizon = NewBatch(0x40 | CONTROL, 5, 1, 2**31 - 2, base_timestamp=9, max_timestamp=9, base_offset=0, last_offset=3)
    path_block = _block(encode_batch([], horizon))
    item = batch_at(path_block, 0)
    assert (item.delete_horizon, item.last_sequence, item.is_wrapper, item.is_control) == (9, 1, False, True)
    wrapper = batch_at(_block(encode_wrapper([NewRecord(3, EPOCH, b"k", b"v")], 0, GZIP)), 0)
    assert (wrapper.is_wrapper, wrapper.last_sequence, wrapper.delete_horizon) == (True, -1, None)


@given(st.lists(st.tuples(st.binary(max_size=90), st.none() | st.binary(max_size=90)), max_size=5))
def test_header_pairs_of_any_length(pairs: list[tuple[bytes, bytes | None]]) -> None:
    data = encode_batch([NewRecord(0, EPOCH, None, None, pairs)])
    block = _block(data)
    from kdump.blocks import RecordBlock
    from kdump.kernels import decode

    records = RecordBlock()
    decode(block, records, 0, 1, [None])
    assert header_pairs(block.data, records.headers_position[0], records.headers_count[0]) == pairs


def _block(data: bytes) -> Any:
    from kdump.blocks import BatchBlock
    from kdump.kernels import walk

    block = BatchBlock()
    block.data = bytearray(data)
    block.available = len(data)
    walk(block, 0, len(data), len(data))
    assert block.length == 1
    return block


def _with_count(data: bytes, count: int) -> bytes:
    """A v2 batch that says it has `count` records, with the CRC that fits."""
    from kdump.formats.checksums import crc32c

    changed = bytearray(data)
    changed[57:61] = count.to_bytes(4, "big", signed=True)
    changed[17:21] = crc32c(bytes(changed[21:])).to_bytes(4, "big")
    return bytes(changed)
