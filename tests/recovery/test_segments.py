"""Opening, searching and closing segments on paper."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdump.errors import CorruptIndexError, LoadError
from kdump.formats import names
from kdump.formats.index_entries import (
    AbortedTxn,
    OffsetIndexEntry,
    UnknownTxnVersionError,
    encode_aborted_txns,
    encode_offset_entries,
)
from kdump.recovery.segments import LoadedSegment, Segments, file_name, fits
from kdump.storage.planned import PlannedPartition, content_of
from kdump.storage.recipe import NewContent, SourceBytes
from tests.recovery.building import batch, file, make_log

BATCHES = [batch(2 * n, 2) for n in range(5)]
SIZE = len(BATCHES[0])
FULL = 10485760


def segment(folder: Path, data: bytes, entries: list[tuple[int, int]] | None = None, base: int = 0) -> LoadedSegment:
    files = {file(base, "log"): data}
    if entries is not None:
        files[file(base, "index")] = encode_offset_entries((OffsetIndexEntry(*entry) for entry in entries), base)
    return LoadedSegment(PlannedPartition(make_log(folder, files)), base, FULL)


def find(found: LoadedSegment, offset: int) -> int | None:
    with found.open_log() as log:
        return found.find(log, offset)


@pytest.mark.parametrize("entries", [[], [(3, SIZE), (7, 3 * SIZE)]])
def test_offsets_are_found_with_and_without_entries(entries: list[tuple[int, int]], tmp_path: Path) -> None:
    found = segment(tmp_path, b"".join(BATCHES), entries)
    assert [find(found, offset) for offset in range(-1, 11)] == [
        0, 0, 0, SIZE, SIZE, 2 * SIZE, 2 * SIZE, 3 * SIZE, 3 * SIZE, 4 * SIZE, 4 * SIZE, None,
    ]  # fmt: skip
    assert found.next_offset() == 10


def test_an_entry_that_leads_behind_the_log_hides_its_end(tmp_path: Path) -> None:
    assert segment(tmp_path, b"".join(BATCHES), [(9, 6 * SIZE)]).next_offset() == 0


def test_a_negative_position_counts_as_0(tmp_path: Path) -> None:
    assert segment(tmp_path, b"".join(BATCHES), [(3, -5)]).next_offset() == 10


def test_an_empty_time_index_has_no_room_in_front(tmp_path: Path) -> None:
    found = segment(tmp_path, b"".join(BATCHES), [])
    found.make_empty_time_index()
    assert found.directory.size(file(0, "timeindex")) == 0
    assert found.entries["timeindex"] == 0


def test_an_empty_segment_ends_where_it_begins(tmp_path: Path) -> None:
    assert segment(tmp_path, b"", [], base=7).next_offset() == 7


def test_the_end_of_all_offsets_wraps_around(tmp_path: Path) -> None:
    last = (1 << 63) - 1
    assert segment(tmp_path, batch(last), [], base=last).next_offset() == -(1 << 63)


def test_a_walk_ends_silently_at_a_torn_batch_and_fails_at_a_bad_size(tmp_path: Path) -> None:
    torn = BATCHES[0] + BATCHES[1][:-1]
    assert segment(tmp_path / "a", torn, []).next_offset() == 2
    with pytest.raises(LoadError, match=r"Found record size 0 smaller than minimum record overhead \(14\)"):
        segment(tmp_path / "b", BATCHES[0] + bytes(18), []).next_offset()
    short = batch(2)[:8] + (14).to_bytes(4, "big") + batch(2)[12:26]
    with pytest.raises(LoadError, match=f"Failed to load record batch at position {SIZE}"):
        segment(tmp_path / "c", BATCHES[0] + short, []).next_offset()


def test_indexes_that_are_missing_are_made_and_trimmed(tmp_path: Path) -> None:
    found = segment(tmp_path, b"".join(BATCHES))
    assert [found.open_index(kind) for kind in ("index", "timeindex")] == [0, 0]
    assert found.directory.files[file(0, "index")] == NewContent(b"", FULL)
    assert found.directory.files[file(0, "timeindex")] == NewContent(b"", FULL - 4)
    found.close()
    assert found.directory.size(file(0, "index")) == 0
    assert found.directory.size(file(0, "timeindex")) == 0


def test_closing_trims_only_what_was_opened(tmp_path: Path) -> None:
    log = make_log(tmp_path, {file(0, "log"): b"", file(0, "index"): bytes(20), file(0, "timeindex"): bytes(20)})
    found = LoadedSegment(PlannedPartition(log), 0, FULL)
    found.close()
    assert found.directory.size(file(0, "index")) == 20
    found.open_index("index")
    found.close()
    assert found.directory.files[file(0, "index")] == SourceBytes(file(0, "index"), 0, 16)
    assert found.directory.size(file(0, "timeindex")) == 20


def test_more_entries_than_fit_end_loading(tmp_path: Path) -> None:
    found = segment(tmp_path, b"", [(n, n) for n in range(1, 5)])
    found.max_index_size = 24
    with pytest.raises(LoadError, match=r"newPosition > limit: \(32 > 24\)"):
        found.resize_indexes()


def test_an_index_needs_room_for_an_entry(tmp_path: Path) -> None:
    found = segment(tmp_path, b"")
    found.max_index_size = 8
    assert found.open_index("index") == 0
    with pytest.raises(LoadError, match="Invalid max index size: 8"):
        found.open_index("timeindex")


def test_a_log_of_2_gib_is_too_large(tmp_path: Path) -> None:
    log = make_log(tmp_path, {file(0, "log"): b""})
    with open(tmp_path / "topic-0" / file(0, "log"), "r+b") as sparse:
        sparse.truncate(1 << 31)
    with pytest.raises(LoadError, match="larger than the maximum allowed segment size of 2147483647"):
        LoadedSegment(PlannedPartition(log), 0, FULL)


def txn_index(folder: Path, *txns: AbortedTxn) -> LoadedSegment:
    files = {file(50, "log"): b"", file(50, "txnindex"): encode_aborted_txns(txns) + b"tail"}
    return LoadedSegment(PlannedPartition(make_log(folder, files)), 50, FULL)


def test_the_transaction_index_is_checked(tmp_path: Path) -> None:
    with_other_version = AbortedTxn(0, 1, 40, 50, 51), AbortedTxn(-1, 1, 40, 60, 51)
    txn_index(tmp_path / "a", *with_other_version).check_txn_index(is_int16=False)
    with pytest.raises(UnknownTxnVersionError, match=r"version -1 .*, supported version range is 0 to 0"):
        txn_index(tmp_path / "d", *with_other_version).check_txn_index()
    with pytest.raises(CorruptIndexError, match="less than start offset 50"):
        txn_index(tmp_path / "b", AbortedTxn(0, 1, 40, 49, 51)).check_txn_index()
    with pytest.raises(UnknownTxnVersionError):
        txn_index(tmp_path / "c", AbortedTxn(256, 1, 40, 50, 51)).check_txn_index()


def test_searching_the_segments(tmp_path: Path) -> None:
    directory = PlannedPartition(make_log(tmp_path, {}))
    segments = Segments()
    for base in (30, 10, 20):
        segments.add(LoadedSegment(directory, base, FULL))
    assert segments.bases() == [10, 20, 30]
    assert segments.last().base_offset == 30
    assert segments.floor(9) is None
    assert [segments.floor(offset).base_offset for offset in (10, 19, 20, 99)] == [10, 10, 20, 30]  # type: ignore[union-attr]
    for (start, stop), bases in {
        (0, None): [10, 20, 30],
        (25, None): [20, 30],
        (20, 30): [20],
        (29, 31): [20, 30],
        (0, 10): [],
    }.items():
        assert [found.base_offset for found in segments.between(start, stop)] == bases
    segments.remove(20)
    segments.remove(20)
    assert 20 not in segments
    assert len(segments) == 2


def test_what_fits_a_base_offset() -> None:
    assert [fits(offset, 10) for offset in (9, 10, 10 + (1 << 31) - 1, 10 + (1 << 31))] == [False, True, True, False]


def test_content_of_recipes(tmp_path: Path) -> None:
    log = make_log(tmp_path, {"file": b"0123456789"})
    directory = PlannedPartition(log)
    directory.put("part", SourceBytes("file", 2, 5))
    assert directory.read("part", 1, 3) == b"345"
    directory.cut("part", 3)
    directory.cut("part", 9)
    assert b"".join(content_of(log.path, directory.files["part"])) == b"234"
    directory.write("new", b"abcdef", 8)
    assert directory.read("new", 4) == b"ef\0\0"
    directory.cut("new", 2)
    assert b"".join(content_of(log.path, directory.files["new"])) == b"ab"
    zeros = NewContent(b"x", 3 << 20)
    assert b"".join(content_of(log.path, zeros)) == b"x" + bytes((3 << 20) - 1)
    directory.write("file", b"0123456789")
    assert directory.is_changed("file")
    directory.settle()
    assert not directory.is_changed("file")
    assert file_name(5, names.TIME_INDEX, ".swap") == "00000000000000000005.timeindex.swap"


def test_every_entry_of_an_index_is_read_where_it_is(tmp_path: Path) -> None:
    entries = [(number, 10 * number) for number in range(1, 12)]
    for count in range(1, 12):
        found = segment(tmp_path / str(count), b"", entries[:count])
        assert found.last_indexed_offset() == count


def test_an_index_may_be_full(tmp_path: Path) -> None:
    found = segment(tmp_path, b"", [(1, 1), (2, 2)])
    found.max_index_size = 23
    found.resize_indexes()


def test_the_largest_log(tmp_path: Path) -> None:
    log = make_log(tmp_path, {file(0, "log"): b""})
    with open(tmp_path / "topic-0" / file(0, "log"), "r+b") as sparse:
        sparse.truncate((1 << 31) - 1)
    assert LoadedSegment(PlannedPartition(log), 0, FULL).size == (1 << 31) - 1


def test_segments_can_be_forgotten(tmp_path: Path) -> None:
    segments = Segments()
    segments.add(LoadedSegment(PlannedPartition(make_log(tmp_path, {})), 5, FULL))
    segments.clear()
    assert segments.all() == []
