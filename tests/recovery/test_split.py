"""Segments whose offsets reach further than 2^31 - 1 from their base offset."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.errors import LoadError
from kdump.formats.encode import NewRecord, encode_wrapper
from kdump.formats.index_entries import (
    OffsetIndexEntry,
    TimeIndexEntry,
    encode_offset_entries,
    encode_time_entries,
)
from kdump.operations.startup import StartupOptions
from kdump.recovery import split
from kdump.recovery.outcome import SPLIT
from kdump.recovery.segments import LoadedSegment, Segments
from kdump.releases import NEWEST, KafkaRelease
from kdump.settings.loading import LoadingSettings
from kdump.storage.planned import PlannedPartition
from kdump.storage.recipe import SourceBytes
from tests.recovery.building import batch, broken, exception, file, load, loaded, make_log, steps, with_last_delta

FAR = 1 << 32
LIMIT = (1 << 31) - 1
INDEX = file(0, "index")


def test_the_limit_itself_fits(tmp_path: Path) -> None:
    log = make_log(tmp_path, {file(0, "log"): batch(0) + batch(LIMIT)})
    outcome = load(log)
    assert steps(outcome, SPLIT) == []
    assert outcome.log_end_offset == LIMIT + 1


def test_new_segments_begin_at_the_batches_that_do_not_fit(tmp_path: Path) -> None:
    data = [batch(0), batch(LIMIT + 1), batch(LIMIT + 2), batch(FAR), batch(FAR + LIMIT)]
    log = make_log(tmp_path, {file(0, "log"): b"".join(data), INDEX: b"", file(0, "snapshot"): b""})
    outcome = load(log)
    assert outcome.failure is None
    assert outcome.files is not None
    size = len(data[0])
    assert outcome.files[file(LIMIT + 1, "log")] == SourceBytes(file(0, "log"), size, 2 * size)
    assert outcome.files[file(FAR, "log")] == SourceBytes(file(0, "log"), 3 * size, 2 * size)
    assert loaded(log)[file(0, "log")] == data[0]
    (split,) = steps(outcome, SPLIT)
    assert split.file == file(0, "log")
    assert split.why.endswith(", ".join(file(base, "log") for base in (0, LIMIT + 1, FAR)))
    assert outcome.log_end_offset == FAR + LIMIT + 1


def test_the_old_name_goes_with_its_snapshot_where_no_part_has_it(tmp_path: Path) -> None:
    data = batch(5) + batch(5 + FAR)
    log = make_log(tmp_path, {file(0, "log"): data, INDEX: b"", file(0, "txnindex"): b""})
    files = loaded(log)
    assert [name for name in files if name.endswith(("log", "txnindex"))] == [file(5, "log"), file(5 + FAR, "log")]


def test_what_follows_a_broken_batch_is_split_and_then_dropped(tmp_path: Path) -> None:
    data = batch(0) + batch(FAR) + broken(batch(FAR + 1)) + batch(2 * FAR)
    files = loaded(make_log(tmp_path, {file(0, "log"): data, INDEX: b""}))
    assert {name for name in files if name.endswith(".log")} == {file(0, "log"), file(FAR, "log")}
    assert files[file(FAR, "log")] == batch(FAR)


def test_an_overflow_in_the_middle_only_ends_loading(tmp_path: Path) -> None:
    outcome = load(make_log(tmp_path, {file(0, "log"): batch(0) + batch(FAR) + batch(1), INDEX: b""}))
    assert exception(outcome) == "IllegalArgumentException"
    assert outcome.failure is not None
    assert outcome.failure.text.startswith("Split operation is only permitted for segments with overflow")
    assert not outcome.failure.offline


def test_a_batch_before_the_base_offset_ends_loading(tmp_path: Path) -> None:
    log = make_log(tmp_path, {file(10, "log"): batch(9), file(10, "index"): b""})
    assert exception(load(log)) == "IllegalArgumentException"


def test_a_batch_that_fits_no_segment_ends_loading(tmp_path: Path) -> None:
    # its last offset lies before its base offset
    backwards = with_last_delta(batch(FAR), -1)
    log = make_log(tmp_path, {file(0, "log"): batch(0) + backwards + batch(FAR), INDEX: b""})
    outcome = load(log)
    assert exception(outcome) == "IllegalStateException"
    assert outcome.failure is not None
    assert outcome.failure.text.startswith(f"Failed to append records from position {len(batch(0))} in LogSegment(")


def test_a_torn_tail_cannot_be_split(tmp_path: Path) -> None:
    log = make_log(tmp_path, {file(0, "log"): batch(0) + batch(FAR) + b"torn", INDEX: b""})
    assert exception(load(log)) == "NoSuchElementException"


def test_parts_with_the_same_base_offset_end_loading(tmp_path: Path) -> None:
    data = batch(0) + batch(FAR) + batch(0) + batch(FAR)
    outcome = load(make_log(tmp_path, {file(0, "log"): data, INDEX: b""}))
    assert exception(outcome) == "NoSuchFileException"
    assert outcome.failure is not None
    assert outcome.failure.offline


def test_a_wrapper_begins_where_its_first_message_does(tmp_path: Path) -> None:
    records = [NewRecord(FAR + n, 1000, b"k", b"v") for n in range(3)]
    data = batch(0) + encode_wrapper(records, 1, 1)
    files = loaded(make_log(tmp_path, {file(0, "log"): data, INDEX: b""}))
    assert file(FAR, "log") in files


def test_parts_that_are_not_recovered_keep_one_entry_a_chunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a clean shutdown only the missing index leads here, and the parts are not checked again."""
    monkeypatch.setattr(split, "CHUNK_BYTES", 150)
    size = len(batch(0))
    data = b"".join(batch(n, timestamp=n) for n in range(6)) + batch(FAR)
    log = make_log(tmp_path, {file(0, "log"): data})
    files = loaded(log, clean=True, config=LoadingSettings(index_interval_bytes=size, index_per_batch=False))
    assert size * 2 < 150 < size * 3
    # chunks hold the batches 0-1, 2-3 and 4-5; all but the first are more than an interval behind the one before
    assert files[INDEX].hex() == f"00000003{2 * size:08x}" + f"00000005{4 * size:08x}"
    assert files[file(0, "timeindex")].hex() == "0000000000000003" + "00000003" + "0000000000000005" + "00000005"


def test_from_4_1_on_parts_have_an_entry_for_every_interval(tmp_path: Path) -> None:
    size = len(batch(0))
    log = make_log(tmp_path, {file(0, "log"): b"".join(batch(n, timestamp=n) for n in range(6)) + batch(FAR)})
    entries = {}
    for release in (None, KafkaRelease.parse("4.0.0"), KafkaRelease.parse("4.3")):
        options = StartupOptions(properties={"index.interval.bytes": str(size)}, release=release)
        config = options.loading("t", options.settings({}, None), NEWEST)
        entries[release] = loaded(log, clean=True, config=config)[INDEX].hex()
    assert entries[KafkaRelease.parse("4.0.0")] == ""  # all batches are copied at once, and the first has no entry
    assert entries[KafkaRelease.parse("4.3")] == "".join(f"{offset:08x}{offset * size:08x}" for offset in (2, 4))
    assert entries[None] == entries[KafkaRelease.parse("4.3")]


def test_the_old_segment_stays_where_it_was_not_loaded_yet(tmp_path: Path) -> None:
    """An overflow that shows while segments are opened leaves the old files beside parts of other names."""
    log = make_log(tmp_path, {file(0, "log"): batch(5) + batch(5 + FAR)})
    files = loaded(log, clean=True)
    assert {name for name in files if name.endswith(".log")} == {file(0, "log"), file(5, "log"), file(5 + FAR, "log")}


Batches = list[tuple[int, int, int]]


def chunks_of(batches: Batches, most: int, *, per_batch: bool) -> list[Batches]:
    """Batches (size, offset, timestamp) as they are appended together, as LogSegment.append and splitOverflowedSegment
    have it: the buffer grows where a batch needs more.
    """
    found: list[Batches] = []
    for each in batches:
        held = sum(size for size, _, _ in found[-1]) if found else 0
        if not held or per_batch or held + each[0] >= most:
            most = max(most, held)
            found.append([])
        found[-1].append(each)
    return found


def entries_of(chunks: list[Batches], interval: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """The index entries of chunks: offsets with positions, and timestamps with offsets."""
    offsets: list[tuple[int, int]] = []
    times: list[tuple[int, int]] = []
    position = since = 0
    largest = (-1, 0)

    def note() -> None:
        if largest[0] > (times[-1][0] if times else -1):
            times.append(largest)

    for chunk in chunks:
        timestamp = max(timestamp for _, _, timestamp in chunk)
        if timestamp > largest[0]:
            largest = (timestamp, next(offset for _, offset, each in chunk if each == timestamp))
        if since > interval:
            offsets.append((chunk[-1][1], position))
            note()
            since = 0
        size = sum(size for size, _, _ in chunk)
        position += size
        since += size
    note()
    return offsets, times


SIZE = len(batch(0))


@given(
    st.lists(st.tuples(st.sampled_from([SIZE, SIZE + 40, 3 * SIZE]), st.integers(-1, 5)), min_size=1, max_size=12),
    st.sampled_from([SIZE - 1, SIZE, SIZE + 1, 2 * SIZE, 2 * SIZE + 40, 4 * SIZE]),
    st.sampled_from([0, SIZE - 1, SIZE, 2 * SIZE, 3 * SIZE, 3 * SIZE + 40]),
    st.booleans(),
    st.sampled_from([0, FAR]),
)
def test_the_indexes_of_parts_follow_the_rule(
    tmp_path_factory: pytest.TempPathFactory,
    given_batches: list[tuple[int, int]],
    most: int,
    interval: int,
    per_batch: bool,
    base: int,
) -> None:
    """Of the only part of a segment, or (`base`) of the last one."""
    data = [batch(base + n, size=size, timestamp=time) for n, (size, time) in enumerate(given_batches)]
    before = batch(0) if base else b""
    batches = [(size, n, time) for n, (size, time) in enumerate(given_batches)]
    directory = PlannedPartition(make_log(tmp_path_factory.mktemp("log"), {file(0, "log"): before + b"".join(data)}))
    config = LoadingSettings(index_interval_bytes=interval, index_per_batch=per_batch)
    with pytest.MonkeyPatch.context() as patch, LoadedSegment(directory, 0, 10485760).open_log() as log:
        patch.setattr(split, "CHUNK_BYTES", most)
        part = split._parts(log, LoadedSegment(directory, 0, 10485760), config)[-1]
    offsets, times = entries_of(chunks_of(batches, most, per_batch=per_batch), interval)
    assert part.offset_entries == encode_offset_entries((OffsetIndexEntry(*each) for each in offsets), 0)
    assert part.time_entries == encode_time_entries((TimeIndexEntry(*each) for each in times), 0)
    assert (part.base_offset, part.start, part.size) == (base, len(before), sum(map(len, data)))


class TestSplitting:
    """One split, of a segment that the broker has opened or not."""

    def split(
        self, folder: Path, data: bytes, base: int = 0, *, is_open: bool = True
    ) -> tuple[list[int], Segments, PlannedPartition]:
        directory = PlannedPartition(make_log(folder, {file(base, "log"): data, file(base, "index"): b""}))
        segments, old = Segments(), LoadedSegment(directory, base, 10485760)
        if is_open:
            segments.add(old)
        return split.split_segment(directory, segments, old, LoadingSettings(), []), segments, directory

    @pytest.mark.parametrize(
        ("first", "is_open", "gone", "logs"),
        [
            (0, True, [], [0, FAR]),
            (0, False, [], [0, FAR]),
            # no part begins at the old base offset
            (5, True, [0], [5, FAR]),
            (5, False, [], [0, 5, FAR]),
        ],
    )
    def test_which_base_offset_goes(
        self, tmp_path: Path, first: int, is_open: bool, gone: list[int], logs: list[int]
    ) -> None:
        found, segments, directory = self.split(tmp_path, batch(first) + batch(FAR), is_open=is_open)
        assert (found, segments.bases()) == (gone, [first, FAR])
        assert [int(name[:20]) for name in directory.names() if name.endswith("log")] == logs

    def test_the_last_time_entry_has_a_slot_of_its_own(self, tmp_path: Path) -> None:
        data = batch(0, timestamp=1) + batch(1, timestamp=2)
        segment = LoadedSegment(PlannedPartition(make_log(tmp_path, {file(0, "log"): data})), 0, 24)
        config = LoadingSettings(index_interval_bytes=0, segment_index_bytes=24, index_per_batch=True)
        with segment.open_log() as log:
            (part,) = split._parts(log, segment, config)
        assert part.time_entries == encode_time_entries([TimeIndexEntry(2, 1)], 0)

    def test_what_fits_is_not_split(self, tmp_path: Path) -> None:
        with pytest.raises(LoadError, match="only permitted for segments with overflow"):
            self.split(tmp_path / "fits", batch(0) + batch(LIMIT))
        found, segments, _ = self.split(tmp_path / "far", batch(0) + batch(LIMIT + 1))
        assert (found, segments.bases()) == ([], [0, LIMIT + 1])
        with pytest.raises(LoadError, match="only permitted for segments with overflow"):
            self.split(tmp_path / "empty", b"")

    def test_a_part_at_the_old_base_offset_is_lost_where_another_begins_before_it(self, tmp_path: Path) -> None:
        """Kafka loses sight of it: it takes the old segment out last."""
        found, segments, _ = self.split(tmp_path, batch(10) + batch(FAR) + batch(5) + batch(2 * FAR), 10)
        assert (found, segments.bases()) == ([], [5, FAR, 2 * FAR])

    def test_zeros_behind_the_batches_cannot_be_split(self, tmp_path: Path) -> None:
        index = encode_offset_entries([OffsetIndexEntry(1, SIZE)], 0)
        files = {file(0, "log"): batch(0) + batch(FAR) + bytes(30), file(0, "index"): index}
        directory = PlannedPartition(make_log(tmp_path, files))
        self.fails(directory, "Found record size 0 smaller than")

    def test_what_is_no_batch_cannot_be_split(self, tmp_path: Path) -> None:
        directory = PlannedPartition(make_log(tmp_path, {file(0, "log"): b"x"}))
        self.fails(directory, "not a complete batch at position 0 of")

    def fails(self, directory: PlannedPartition, text: str) -> None:
        segment = LoadedSegment(directory, 0, 10485760)
        with segment.open_log() as log, pytest.raises(LoadError, match=text):
            split._parts(log, segment, LoadingSettings())
