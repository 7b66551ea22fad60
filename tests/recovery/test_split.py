"""Segments whose offsets reach further than 2^31 - 1 from their base offset."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdump.formats.encode import NewRecord, encode_wrapper
from kdump.operations.startup import StartupOptions
from kdump.recovery import split
from kdump.recovery.broker_start import DirectoryState
from kdump.recovery.outcome import SPLIT
from kdump.releases import KafkaRelease
from kdump.settings.loading import LoadingSettings
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
    starts = {
        release: StartupOptions(clean=True, properties={"index.interval.bytes": str(size)}, release=release).startup(
            log, DirectoryState(str(tmp_path), clean=True)
        )
        for release in (None, KafkaRelease.parse("4.0.0"), KafkaRelease.parse("4.3"))
    }
    entries = {release: loaded(log, clean=True, config=start.config)[INDEX].hex() for release, start in starts.items()}
    assert entries[KafkaRelease.parse("4.0.0")] == ""  # all batches are copied at once, and the first has no entry
    assert entries[KafkaRelease.parse("4.3")] == "".join(f"{offset:08x}{offset * size:08x}" for offset in (2, 4))
    assert entries[None] == entries[KafkaRelease.parse("4.3")]


def test_the_old_segment_stays_where_it_was_not_loaded_yet(tmp_path: Path) -> None:
    """An overflow that shows while segments are opened leaves the old files beside parts of other names."""
    log = make_log(tmp_path, {file(0, "log"): batch(5) + batch(5 + FAR)})
    files = loaded(log, clean=True)
    assert {name for name in files if name.endswith(".log")} == {file(0, "log"), file(5, "log"), file(5 + FAR, "log")}
