"""Which records and batches one pass keeps: keys, tombstones, horizons, producers, the end of the round."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from functools import partial
from itertools import accumulate
from pathlib import Path

import pytest

from kdump.clean.cleaning import clean
from kdump.clean.rewriting import Counts
from kdump.clean.staging import Staging
from kdump.clean.state import LastRecord
from kdump.errors import CleaningError
from kdump.formats.batch import CONTROL, DELETE_HORIZON, LOG_APPEND_TIME, TRANSACTIONAL
from kdump.formats.codecs import ZSTD, compress
from kdump.formats.encode import NewBatch, NewRecord, encode_batch, encode_message, encode_wrapper
from kdump.formats.index_entries import decode_offset_entries
from kdump.releases import KafkaRelease
from kdump.settings.cleaning import CleaningSettings
from kdump.settings.loading import LoadingSettings
from kdump.settings.sources import Settings
from tests.change.kept import change_files
from tests.clean.building import (
    CONFIG,
    DAY,
    NOW,
    Pair,
    batch,
    batches_in,
    build,
    clean_once,
    contents,
    dry_run,
    files_of,
    in_txn,
    marker,
    name,
    records_in,
    state_of,
)

A, B, C = b"a", b"b", b"c"
HEAD = batch(100, (b"head", b"x"))  # of the active segment, which is never cleaned


def offsets(partition: Path) -> list[int]:
    """The offsets of all records."""
    return [offset for offset, _, _ in contents(partition)]


def test_the_newest_value_of_each_key_stays_and_offsets_do_not_change(tmp_path: Path) -> None:
    partition = build(
        tmp_path,
        {
            0: [batch(0, (A, b"1"), (B, b"1"), (A, b"2")), batch(3, (C, b"1"))],
            4: [batch(4, (B, b"2"), (C, b"2")), batch(6, (b"d", b"1"))],
            100: [HEAD],
        },
    )
    cleaning = clean_once(partition)
    assert contents(partition) == [
        (2, A, b"2"),
        (4, B, b"2"),
        (5, C, b"2"),
        (6, b"d", b"1"),
        (100, b"head", b"x"),
    ]
    assert (cleaning.counts.superseded, cleaning.keys, cleaning.end_offset) == (3, 4, 100)
    assert sorted(files_of(partition)) == sorted(
        [name(0, "log"), name(0, "index"), name(0, "timeindex")]
        + [name(100, kind) for kind in ("log", "index", "timeindex", "snapshot")]
        + [name(101, "snapshot"), "partition.metadata", "leader-epoch-checkpoint"]
    )


def test_a_batch_of_which_all_stays_is_the_same_bytes(tmp_path: Path) -> None:
    whole = batch(0, (A, b"1"), (B, b"1"), attributes=ZSTD)
    partition = build(tmp_path, {0: [whole, batch(2, (C, b"1")), batch(3, (C, b"2"))], 100: [HEAD]})
    clean_once(partition)
    assert (partition / name(0, "log")).read_bytes() == whole + batch(3, (C, b"2"))


def test_a_batch_written_anew_keeps_what_its_header_says(tmp_path: Path) -> None:
    old = batch(
        10,
        (A, b"1"),
        (B, b"1"),
        (A, b"2"),
        producer_id=7,
        producer_epoch=3,
        base_sequence=5,
        leader_epoch=4,
        attributes=ZSTD,
    )
    partition = build(tmp_path, {10: [old], 100: [HEAD]})
    clean_once(partition)
    found = batches_in(partition)[0]
    assert (found.base_offset, found.last_offset, found.record_count) == (10, 12, 2)
    assert (found.producer_id, found.producer_epoch, found.base_sequence, found.leader_epoch) == (7, 3, 5, 4)
    assert (found.attributes, found.base_timestamp, found.max_timestamp) == (ZSTD, 1001, 1002)
    assert [(record.offset, record.sequence, record.timestamp) for record in records_in(partition)[:2]] == [
        (11, 6, 1001),
        (12, 7, 1002),
    ]


def test_headers_stay(tmp_path: Path) -> None:
    headers = ((b"h", b"1"), (b"h", None), (b"", b""))
    old = encode_batch([NewRecord(0, 1, A, b"1"), NewRecord(1, 5, B, b"2", headers)])
    partition = build(tmp_path, {0: [old, batch(2, (A, b"2"))], 100: [HEAD]})
    clean_once(partition)
    assert records_in(partition)[0].headers == headers


@pytest.mark.parametrize("codec", [0, ZSTD])
def test_of_a_log_append_time_batch_the_append_time_stays(tmp_path: Path, codec: int) -> None:
    attributes = LOG_APPEND_TIME | codec
    old = batch(0, (A, b"1"), (B, b"1"), attributes=attributes, max_timestamp=5000)
    partition = build(tmp_path, {0: [old, batch(2, (A, b"2"))], 100: [HEAD]})
    clean_once(partition)
    found = batches_in(partition)[0]
    assert (found.attributes, found.base_timestamp, found.max_timestamp) == (attributes, 5000, 5000)
    assert records_in(partition)[0].timestamp == 5000


# --- tombstones


def test_a_tombstone_gets_a_horizon_when_it_is_first_cleaned(tmp_path: Path) -> None:
    partition = build(tmp_path, {0: [batch(0, (A, b"1"), (A, None), (B, b"1"))], 100: [HEAD]})
    cleaning = clean_once(partition)
    assert contents(partition)[:2] == [(1, A, None), (2, B, b"1")]
    found = batches_in(partition)[0]
    assert found.delete_horizon == NOW + DAY
    assert (found.base_timestamp, found.max_timestamp) == (NOW + DAY, 1002)
    assert [record.timestamp for record in records_in(partition)[:2]] == [1001, 1002]
    assert (cleaning.counts.tombstones, cleaning.counts.first_horizon) == (1, NOW + DAY)


@pytest.mark.parametrize(("now", "stays"), [(NOW - 1, True), (NOW, False), (NOW + 1, False)])
def test_the_horizons_boundary(tmp_path: Path, now: int, stays: bool) -> None:
    old = batch(0, (A, None), (B, b"1"), attributes=DELETE_HORIZON, base_timestamp=NOW, max_timestamp=1001)
    partition = build(tmp_path, {0: [old], 100: [HEAD]})
    cleaning = clean_once(partition, now=now)
    assert offsets(partition)[:-1] == ([0, 1] if stays else [1])
    assert cleaning.counts.expired == (0 if stays else 1)
    assert batches_in(partition)[0].delete_horizon == NOW  # what stays keeps the horizon that it had


def test_a_horizon_is_only_set_where_a_tombstone_stays(tmp_path: Path) -> None:
    partition = build(tmp_path, {0: [batch(0, (A, None), (B, b"1")), batch(2, (A, b"2"))], 100: [HEAD]})
    clean_once(partition)
    assert [found.delete_horizon for found in batches_in(partition)] == [None, None, None]


def test_a_batch_of_tombstones_that_are_due_is_gone(tmp_path: Path) -> None:
    old = batch(0, (A, None), attributes=DELETE_HORIZON, base_timestamp=NOW, max_timestamp=1000)
    partition = build(tmp_path, {0: [old, batch(1, (B, b"1"))], 100: [HEAD]})
    clean_once(partition)
    assert [found.base_offset for found in batches_in(partition)] == [1, 100]


def test_tombstones_of_old_formats_go_with_the_segments_time(tmp_path: Path) -> None:
    old = [encode_message(NewRecord(0, 1000, A, None), 1), encode_message(NewRecord(1, 1000, B, b"1"), 1)]
    segments = {0: old, 2: [encode_message(NewRecord(2, 1000, C, b"1"), 1)], 3: [batch(3, (C, b"2"))], 100: [HEAD]}
    config = CONFIG._replace(converts_legacy=False, delete_retention_ms=500)
    times = {0: 4500, 2: 5000, 3: 5000}
    partition = build(tmp_path / "same", segments, checkpoint=3, modified=times, config=config)
    clean_once(partition, config)
    assert offsets(partition) == [1, 3, 100]  # 4500 is not behind 5000 - 500
    partition = build(tmp_path / "later", segments, checkpoint=3, modified=times | {0: 4501}, config=config)
    clean_once(partition, config)
    assert offsets(partition) == [0, 1, 3, 100]
    partition = build(tmp_path / "never cleaned", segments, modified=times, config=config)
    clean_once(partition, config)
    assert offsets(partition) == [0, 1, 3, 100]


# --- what stays although nothing is in it


def test_the_last_batch_of_the_round_stays_without_records(tmp_path: Path) -> None:
    nothing = batch(5, (None, b"1"), (None, b"2"), attributes=ZSTD)
    partition = build(tmp_path, {0: [batch(0, (A, b"1")), batch(3, (None, b"1")), nothing], 7: [HEAD]})
    cleaning = clean_once(partition)
    assert [(found.base_offset, found.last_offset, found.record_count) for found in batches_in(partition)] == [
        (0, 0, 1),
        (5, 6, 0),
        (100, 100, 1),
    ]
    assert (cleaning.counts.emptied, cleaning.counts.batches_after) == (1, 2)


def test_only_if_it_reaches_the_end_of_what_can_be_cleaned(tmp_path: Path) -> None:
    partition = build(tmp_path, {0: [batch(0, (A, b"1")), batch(5, (None, b"1"), (None, b"2"))], 8: [HEAD]})
    clean_once(partition)
    assert [found.base_offset for found in batches_in(partition)] == [0, 100]


def test_a_record_above_the_limit_in_a_compressed_batch_ends_the_cleaning(tmp_path: Path) -> None:
    """Kafka 4.4.0 and 4.2.2 mark the partition as uncleanable; what is not compressed they do not measure."""
    config = CONFIG._replace(max_decompressed_message_bytes=100)
    plain = build(tmp_path / "plain", {0: [batch(0, (A, bytes(200)))], 7: [HEAD]})
    clean_once(plain, config)
    packed = build(tmp_path / "packed", {0: [batch(0, (A, bytes(200)), attributes=ZSTD)], 7: [HEAD]})
    text = "Invalid record size: 208 exceeds the configured maximum record size of 100"
    with pytest.raises(CleaningError, match=text):
        clean_once(packed, config)


@pytest.mark.parametrize(
    ("release", "high_watermark", "stays"),
    [
        (KafkaRelease.V4_3, 101, True),
        (KafkaRelease.V4_4, 101, False),
        (KafkaRelease.V4_3, 7, True),
        (KafkaRelease.V4_4, 7, True),
    ],
)
def test_from_4_4_on_only_if_it_reaches_the_high_watermark(
    tmp_path: Path, release: KafkaRelease, high_watermark: int, stays: bool
) -> None:
    known = CleaningSettings.of(Settings({}).of("users"), release)
    config = CONFIG._replace(keeps_batch_at_high_watermark=known.keeps_batch_at_high_watermark)
    segments = {0: [batch(0, (A, b"1")), batch(5, (None, b"1"), (None, b"2"))], 7: [HEAD]}
    partition = build(tmp_path, segments, high_watermark=high_watermark)
    clean_once(partition, config)
    assert [found.base_offset for found in batches_in(partition)] == [0, *([5] if stays else []), 100]


def test_an_empty_last_batch_keeps_header_and_offsets(tmp_path: Path) -> None:
    last = batch(
        8,
        (A, None),
        (B, None),
        attributes=DELETE_HORIZON | ZSTD,
        base_timestamp=NOW,
        max_timestamp=1001,
        producer_id=5,
        producer_epoch=1,
        base_sequence=3,
        leader_epoch=2,
    )
    later = batch(10, (C, b"2"), producer_id=5, producer_epoch=1, base_sequence=5)
    partition = build(tmp_path, {0: [batch(0, (C, b"1")), last], 10: [later]})
    cleaning = clean_once(partition)
    found = batches_in(partition)[1]
    assert (found.size, found.record_count, found.base_offset, found.last_offset) == (61, 0, 8, 9)
    assert (found.attributes, found.base_timestamp, found.max_timestamp) == (0, -1, 1001)
    assert (found.producer_id, found.producer_epoch, found.base_sequence, found.leader_epoch) == (5, 1, 3, 2)
    assert (cleaning.counts.emptied, cleaning.counts.expired) == (1, 2)
    assert found.valid


def test_in_the_next_round_it_is_no_longer_the_last_and_goes(tmp_path: Path) -> None:
    empty = batch(8, attributes=0, base_offset=8, last_offset=9, base_timestamp=-1, max_timestamp=1001)
    partition = build(
        tmp_path, {0: [batch(0, (C, b"1")), empty], 10: [batch(10, (A, b"1"))], 100: [HEAD]}, checkpoint=10
    )
    clean_once(partition)
    assert [found.base_offset for found in batches_in(partition)] == [0, 10, 100]


def test_the_last_batch_of_an_active_producer_stays_without_records(tmp_path: Path) -> None:
    first = batch(0, (A, b"1"), producer_id=7, producer_epoch=0, base_sequence=0, timestamp=NOW)
    last = batch(1, (A, b"2"), (B, b"1"), producer_id=7, producer_epoch=0, base_sequence=1, timestamp=NOW)
    others = batch(3, (A, b"3"), (B, b"2"))
    partition = build(tmp_path, {0: [first, last, others], 100: [HEAD]})
    clean_once(partition)
    assert [(found.base_offset, found.record_count) for found in batches_in(partition)] == [(1, 0), (3, 2), (100, 1)]
    expired = build(tmp_path / "expired", {0: [first, last, others], 100: [HEAD]})
    clean_once(expired, now=NOW + DAY + 1000)
    assert [found.base_offset for found in batches_in(expired)] == [3, 100]


def test_of_old_formats_an_empty_batch_cannot_stay(tmp_path: Path) -> None:
    config = CONFIG._replace(converts_legacy=False, delete_retention_ms=0)
    old = [encode_message(NewRecord(0, 1000, A, b"1"), 1), encode_message(NewRecord(1, 1000, B, None), 1)]
    segments = {0: old, 2: [batch(2, (C, b"1"))]}
    partition = build(tmp_path, segments, checkpoint=1, modified={0: 0}, config=config)
    before = files_of(partition)
    with pytest.raises(CleaningError, match="Empty batches are only supported for magic v2 and above"):
        clean_once(partition, config)
    assert files_of(partition) == before
    assert change_files(tmp_path) == []


# --- key-less records, records beyond the map


def test_records_without_a_key_go_but_an_empty_key_is_one(tmp_path: Path) -> None:
    partition = build(tmp_path, {0: [batch(0, (None, b"1"), (b"", b"1"), (None, b"2"), (A, b"1"))], 100: [HEAD]})
    cleaning = clean_once(partition)
    assert offsets(partition) == [1, 3, 100]
    assert (cleaning.counts.keyless, cleaning.counts.first_keyless) == (2, 0)


def test_records_beyond_the_end_of_the_map_stay(tmp_path: Path) -> None:
    config = CONFIG._replace(map_bytes=24 * 2, load_factor=1.0)
    first = batch(0, (A, b"1"), (A, b"2"), (B, b"1"), (C, b"1"), (None, b"1"), (A, b"3"))
    second = batch(6, (A, b"4"), (None, b"2"))
    partition = build(tmp_path, {0: [first, second], 100: [HEAD]})
    cleaning = clean_once(partition, config)
    # A and B fill the map; the record with C is met then, so the pass ends before it
    assert (cleaning.is_full, cleaning.keys, cleaning.end_offset) == (True, 2, 3)
    assert offsets(partition) == [1, 2, 3, 4, 5, 6, 7, 100]
    assert dry_run(partition, config).end_offset > 3


def test_a_full_map_ends_even_at_a_key_that_it_has(tmp_path: Path) -> None:
    config = CONFIG._replace(map_bytes=24 * 2, load_factor=1.0)
    partition = build(tmp_path, {0: [batch(0, (A, b"1"), (B, b"1"), (A, b"2"))], 100: [HEAD]})
    cleaning = clean_once(partition, config)
    assert (cleaning.is_full, cleaning.end_offset) == (True, 2)
    assert offsets(partition) == [0, 1, 2, 100]


def test_passes_go_on_until_all_is_clean(tmp_path: Path) -> None:
    config = CONFIG._replace(map_bytes=24 * 3, load_factor=1.0)
    batches = [batch(at, (b"%d" % (at % 7), b"%d" % at)) for at in range(40)]
    partition = build(tmp_path, {0: batches[:20], 20: batches[20:], 100: [HEAD]})
    passes = 0
    while clean_once(partition, config).is_full:
        passes += 1
        assert passes < 30
    assert offsets(partition) == [33, 34, 35, 36, 37, 38, 39, 100]
    assert passes > 3


def test_exact_keys_give_the_same_and_need_more_memory(tmp_path: Path) -> None:
    batches = [batch(at, (b"%d" % (at % 7), b"%d" % at)) for at in range(40)]
    partition = build(tmp_path, {0: batches, 100: [HEAD]})
    assert dry_run(partition, exact=True).counts == dry_run(partition).counts
    small = CONFIG._replace(map_bytes=400)
    assert (dry_run(partition, small, exact=True).keys, dry_run(partition, small).keys) == (2, 7)


# --- old formats


@pytest.mark.parametrize("magic", [0, 1])
def test_a_wrapper_keeps_its_format(tmp_path: Path, magic: int) -> None:
    records = [NewRecord(at, 1000 + at if magic else -1, b"%d" % (at % 2), b"v%d" % at) for at in range(4)]
    partition = build(tmp_path, {0: [encode_wrapper(records, magic, 1)], 100: [HEAD]})
    clean_once(partition, CONFIG._replace(converts_legacy=False))
    assert batches_in(partition)[0].magic == magic
    assert contents(partition)[:2] == [(2, b"0", b"v2"), (3, b"1", b"v3")]
    assert (partition / name(0, "log")).read_bytes() == encode_wrapper(records[2:], magic, 1)


@pytest.mark.parametrize("magic", [0, 1])
def test_or_becomes_a_batch_of_its_own_in_v2(tmp_path: Path, magic: int) -> None:
    records = [NewRecord(at, 1000 + at if magic else -1, b"%d" % (at % 2), b"v%d" % at) for at in range(4)]
    records[3] = records[3]._replace(value=None)
    alone = encode_message(NewRecord(4, 1004 if magic else -1, A, b"1"), magic)
    partition = build(tmp_path, {0: [encode_wrapper(records, magic, 1), alone], 100: [HEAD]})
    cleaning = clean_once(partition)
    first, second, _ = batches_in(partition)
    assert (first.magic, first.base_offset, first.last_offset, first.codec) == (2, 2, 3, "gzip")
    assert (first.leader_epoch, first.delete_horizon) == (-1, NOW + DAY)
    assert (second.magic, second.base_offset, second.last_offset, second.codec) == (2, 4, 4, "none")
    assert second.max_timestamp == (1004 if magic else -1)
    assert [record.timestamp for record in records_in(partition)[:3]] == ([1002, 1003, 1004] if magic else [-1] * 3)
    assert cleaning.counts.converted == 2


def test_a_wrapper_of_messages_of_another_format_is_written_anew(tmp_path: Path) -> None:
    inner = b"".join(encode_message(NewRecord(at, -1, b"%d" % at, b"v"), 0) for at in range(2))
    wrapper = encode_message(NewRecord(1, 1000, None, compress(1, inner, magic=1)), 1, 1)
    partition = build(tmp_path, {0: [wrapper], 100: [HEAD]})
    clean_once(partition, CONFIG._replace(converts_legacy=False))
    expected = [NewRecord(at, -1, b"%d" % at, b"v") for at in range(2)]
    assert (partition / name(0, "log")).read_bytes() == encode_wrapper(expected, 1, 1)


# --- transactions


def test_records_of_aborted_transactions_go_and_their_markers_stay_at_first(tmp_path: Path) -> None:
    segments = {
        0: [in_txn(0, 7, (A, b"1")), in_txn(1, 8, (B, b"1")), marker(2, 7, commit=False), marker(3, 8)],
        4: [batch(4, (C, b"1")), batch(5, (C, b"2"))],
        100: [HEAD],
    }
    partition = build(tmp_path, segments, now=NOW + 2 * DAY)
    cleaning = clean_once(partition, now=NOW + 2 * DAY)
    found = [(found.base_offset, found.is_control, found.record_count) for found in batches_in(partition)]
    assert found == [(1, False, 1), (2, True, 1), (3, True, 1), (5, False, 1), (100, False, 1)]
    assert cleaning.counts.aborted == 1
    assert (partition / name(0, "txnindex")).stat().st_size == 34


def test_a_marker_of_nothing_gets_a_horizon_and_goes_when_that_is_reached(tmp_path: Path) -> None:
    later = NOW + 2 * DAY
    segments = {0: [marker(0, 7, commit=False), batch(1, (A, b"1"))], 2: [batch(2, (B, b"1"))], 100: [HEAD]}
    partition = build(tmp_path, segments, now=later)
    clean_once(partition, now=later)
    first = batches_in(partition)[0]
    assert (first.is_control, first.delete_horizon, first.record_count) == (True, later + DAY, 1)
    assert records_in(partition)[0].timestamp == 1000
    before = build(tmp_path / "before", {0: [(partition / name(0, "log")).read_bytes()], 100: [HEAD]}, now=later)
    clean_once(before, now=later + DAY - 1)
    assert batches_in(before)[0].is_control
    cleaning = clean_once(
        build(tmp_path / "at", {0: [(partition / name(0, "log")).read_bytes()], 100: [HEAD]}, now=later),
        now=later + DAY,
    )
    assert cleaning.counts.markers == 1


def test_an_aborted_value_does_not_supersede_a_committed_one(tmp_path: Path) -> None:
    segments = {
        0: [batch(0, (A, b"good")), in_txn(1, 7, (A, b"bad")), marker(2, 7, commit=False)],
        3: [batch(3, (B, b"1"))],
        100: [HEAD],
    }
    partition = build(tmp_path, segments)
    clean_once(partition)
    values = [(record.offset, record.value) for record in records_in(partition) if record.key == A]
    assert values == [(0, b"good")]


# --- chunks, each of which is an append with one index entry


def chunk_ends(partition: Path) -> list[tuple[int, int]]:
    """Where each chunk but the first begins in the new segment (bytes), and its last offset: what the index has."""
    index = (partition / name(0, "index")).read_bytes()
    return [(entry.position, entry.offset) for entry in decode_offset_entries(index, 0)]


def chunked(buffer: int) -> CleaningSettings:
    """Settings with which a chunk is so many bytes (as it is read), and the index has an entry for each."""
    loading = LoadingSettings(index_interval_bytes=0)
    return CONFIG._replace(buffer_bytes=buffer, map_bytes=24 * 10_000, index_per_batch=False, loading=loading)


def test_a_chunk_ends_with_what_the_buffer_holds_whole(tmp_path: Path) -> None:
    batches = [batch(at, (b"%d" % at, b"1")) for at in range(9)]
    size = len(batches[0])
    for buffer, count in ((3 * size, 3), (4 * size - 1, 3), (4 * size, 4)):
        partition = build(tmp_path / str(buffer), {0: batches, 100: [HEAD]})
        clean_once(partition, chunked(buffer))
        assert chunk_ends(partition) == [
            (size * start, min(start + count, 9) - 1) for start in range(count, 9, count)
        ], buffer


def test_a_chunk_ends_with_its_segment(tmp_path: Path) -> None:
    segments = {start: [batch(at, (b"%d" % at, b"1")) for at in range(start, start + 5)] for start in (0, 5)}
    size = len(segments[0][0])
    partition = build(tmp_path, {**segments, 100: [HEAD]})
    clean_once(partition, chunked(3 * size))
    assert chunk_ends(partition) == [(3 * size, 4), (5 * size, 7), (8 * size, 9)]


@pytest.mark.parametrize("is_full", [True, False])
def test_a_buffer_that_grew_for_the_keys_stays_large_for_one_segment_where_the_map_was_full(
    tmp_path: Path, is_full: bool
) -> None:
    """It grew up to the batch with the key for which there was no room (Cleaner.buildOffsetMap restores it later)."""
    small = [batch(at, (b"%02d" % at, b"1")) for at in range(6)]
    size = len(small[0])
    larger = batch(6, (b"06", bytes(150)), (b"07", bytes(150)))
    largest = batch(8, (b"08", bytes(500)))
    assert 3 * size < len(larger) <= 6 * size < len(largest) <= 12 * size
    second = [batch(at, (b"%02d" % at, b"1")) for at in range(10, 16)]
    partition = build(tmp_path, {0: [*small, larger, largest], 10: second, 100: [HEAD]})
    cleaning = clean_once(partition, chunked(3 * size)._replace(load_factor=1.0, map_bytes=24 * (7 if is_full else 99)))
    grown = [(6 * size, 7), (6 * size + len(larger), 8)]
    behind = 6 * size + len(larger) + len(largest)
    assert (cleaning.is_full, cleaning.end_offset) == ((True, 7) if is_full else (False, 100))
    if is_full:
        assert chunk_ends(partition) == grown
    else:
        assert chunk_ends(partition) == [(3 * size, 5), *grown, (behind, 12), (behind + 3 * size, 15)]


def expected_chunks(rows: list[tuple[int, int, int]], buffer: int) -> list[tuple[int, int]]:
    """What `chunk_ends` is to be: of each batch how long it was, how long it is, and the last offset that it has now.

    A chunk ends before a batch that the buffer does not hold whole, and after one with which what is written has become
    longer than the buffer (Cleaner.cleanInto).
    """
    chunks: list[tuple[int, int]] = []
    position = written = begin = 0
    limit, last = buffer, -1
    for before, after, offset in [*rows, (buffer + 1, 0, 0)]:
        if position + before > limit or written - begin > buffer:
            if written > begin:
                chunks.append((begin, last))
            begin, limit, last = written, position + buffer, -1
        position += before
        written += after
        last = max(last, offset)
    return chunks[1:]


LONGER = 60
"""By so many bytes `tombstones` become longer when they get a delete horizon."""


def tombstones(offset: int) -> bytes:
    """A batch of twenty."""
    return batch(offset, *((key.to_bytes(2), None) for key in range(offset, offset + 20)))


def check_chunks(folder: Path, batches: dict[int, bytes], lasts: dict[int, int], buffers: set[int]) -> None:
    """Clean a segment of these batches, by base offset, with buffers of these sizes.

    `lasts` has the last offset of each batch of which something stays.
    """
    end = max(batches) + 50
    partition = build(folder / "logs", {0: list(batches.values()), end: [batch(end, (b"head", b"x"))]})
    state = state_of(partition)

    def written(buffer: int) -> Path:
        out = folder / str(buffer)
        out.mkdir()
        clean(state, chunked(buffer), NOW, Staging(partial(os.path.join, out)), compares_keys=False)
        return out

    sizes = {found.base_offset: found.size for found in batches_in(written(1 << 20))}
    assert sizes.keys() == lasts.keys()
    rows = [(len(data), sizes.get(at, 0), lasts.get(at, -1)) for at, data in batches.items()]
    exact = accumulate(size for _, size, _ in rows)  # with these a chunk is just as long as the buffer
    for buffer in buffers | {size for size in exact if 1000 < size < 2000}:
        assert chunk_ends(written(buffer)) == expected_chunks(rows, buffer), buffer


def test_a_chunk_that_becomes_longer_than_the_buffer_ends_there(tmp_path: Path) -> None:
    """With a delete horizon the timestamps of records take more room, and more comes out than was read.

    That is so whatever the batches are: compressed or not, markers, headers that stay alone, batches that go.
    """
    batches: dict[int, bytes] = {}
    lasts: dict[int, int] = {}
    numbers = random.Random(1)
    offset = 0
    for producer in range(60):
        kind = numbers.choice(["tombstones", "tombstones", "packed", "part", "copied", "marker", "emptied", "gone"])
        keys = [number.to_bytes(2) for number in range(offset, offset + 20)]
        if kind == "marker":
            batches[offset] = marker(offset, 7, commit=False)
            lasts[offset] = offset
        elif kind == "emptied":
            batches[offset] = batch(offset, (None, b"1"), producer_id=producer, producer_epoch=0, base_sequence=0)
            lasts[offset] = offset
        elif kind == "gone":
            batches[offset] = batch(offset, *[(None, bytes(10))] * 20)
        elif kind == "copied":
            batches[offset] = batch(offset, *((key, b"1") for key in keys))
            lasts[offset] = offset + 19
        elif kind == "part":
            batches[offset] = batch(offset, *((key, b"1") for key in keys[:16]), *[(None, b"x")] * 4, attributes=ZSTD)
            lasts[offset] = offset + 15
        else:
            batches[offset] = batch(offset, *((key, None) for key in keys), attributes=ZSTD if kind == "packed" else 0)
            lasts[offset] = offset + 19
        offset += 20
    check_chunks(tmp_path, batches, lasts, {500, 560, 640, 777, 1111, 2000})


def test_a_header_that_stays_alone_may_end_a_chunk(tmp_path: Path) -> None:
    """The tombstones before it have become longer, so that there is no more room for it."""
    batches: dict[int, bytes] = {}
    lasts: dict[int, int] = {}
    for offset in range(0, 400, 100):
        for at in (offset, offset + 20):
            batches[at], lasts[at] = tombstones(at), at + 19
        for at in (offset + 40, offset + 41):
            batches[at], lasts[at] = batch(at, (None, b"1"), producer_id=at, producer_epoch=0, base_sequence=0), at
    longer = len(tombstones(0)) + LONGER
    assert 2 * len(batches[0]) + 2 * len(batches[40]) <= 2 * longer + 30 < 2 * longer + 61
    check_chunks(tmp_path, batches, lasts, {2 * longer + 30})


def test_a_chunk_ends_in_the_midst_of_many_batches(tmp_path: Path) -> None:
    """What the chunk has already, of the marker, counts too."""
    batches = {0: marker(0, 7, commit=False)} | {at: tombstones(at) for at in range(20, 1000, 20)}
    lasts = {0: 0} | {at: at + 19 for at in range(20, 1000, 20)}
    check_chunks(tmp_path, batches, lasts, {20 * len(batches[20]) + extra for extra in (0, 40, 80, 120, 160)})


# --- what a pass tells of itself


def test_every_record_and_batch_is_counted_where_it_belongs(tmp_path: Path) -> None:
    def due(offset: int, at: int, *pairs: Pair, attributes: int = 0) -> bytes:
        return batch(offset, *pairs, attributes=DELETE_HORIZON | attributes, base_timestamp=at, max_timestamp=1000)

    first = [
        batch(0, (A, b"1"), (B, b"1"), (None, b"1")),
        batch(3, (A, None), (C, b"1"), attributes=ZSTD),
        in_txn(5, 7, (b"d", b"1"), (b"d", b"2")),
        marker(7, 7, commit=False),
    ]
    second = [
        due(10, NOW, (b"e", None), (b"f", b"1")),
        batch(12, (B, b"2")),
        due(13, NOW + 7, (b"g", None), attributes=ZSTD),
        due(14, NOW + 5, (b"h", None), attributes=ZSTD),
        due(15, NOW + 6, (b"i", None)),
        batch(16, (None, b"2")),
    ]
    partition = build(tmp_path, {0: first, 10: second, 17: [HEAD]})
    on_paper = dry_run(partition)
    cleaning = clean_once(partition)
    assert on_paper.counts == cleaning.counts
    size = (partition / name(0, "log")).stat().st_size
    assert cleaning.counts == Counts(
        size_before=sum(map(len, first + second)),
        size_after=size,
        batches_before=10,
        batches_after=9,
        records_before=15,
        records_after=8,
        superseded=2,
        expired=1,
        keyless=2,
        aborted=2,
        tombstones=4,
        emptied=2,  # the last of its producer, and the last of all
        first_horizon=NOW + 5,
        first_keyless=2,
    )
    assert cleaning.size_after == size + len(HEAD)
    assert [found.base_offset for found in batches_in(partition)] == [3, 5, 7, 10, 12, 13, 14, 15, 16, 100]


def test_the_first_record_without_a_key_is_told(tmp_path: Path) -> None:
    partition = build(tmp_path, {0: [batch(0, (None, b"1"))], 10: [batch(10, (None, b"1"), (A, b"1"))], 100: [HEAD]})
    assert dry_run(partition).counts.first_keyless == 0


def test_old_formats_are_counted_too(tmp_path: Path) -> None:
    wrapper = encode_wrapper([NewRecord(0, 1000, A, b"1"), NewRecord(1, 1001, B, None)], 1, 1)
    gone = encode_message(NewRecord(2, 1000, C, b"1"), 1)
    segments = {0: [wrapper, gone, batch(3, (C, b"2"), (A, b"2"))], 100: [HEAD]}
    partition = build(tmp_path, segments)
    converted = dry_run(partition).counts
    kept = dry_run(partition, CONFIG._replace(converts_legacy=False)).counts
    assert (converted.converted, converted.tombstones, converted.first_horizon) == (1, 1, NOW + DAY)
    assert (kept.converted, kept.tombstones, kept.first_horizon) == (0, 1, None)
    for counts in (converted, kept):
        assert (counts.batches_before, counts.batches_after, counts.records_before, counts.records_after) == (
            3,
            2,
            5,
            3,
        )
        assert counts.superseded == 2


def test_progress_hears_of_all_bytes_twice(tmp_path: Path) -> None:
    """Once for the keys, once to write what stays; of what is clean already, only that.

    The second segment is dirty from its middle on.
    """
    config = CONFIG._replace(loading=LoadingSettings(index_interval_bytes=0))
    segments = {start: [batch(at, (b"%d" % at, b"1")) for at in range(start, start + 10)] for start in (0, 10, 20)}
    partition = build(tmp_path, {**segments, 100: [HEAD]}, checkpoint=15, config=config)
    heard = dict.fromkeys(segments, 0)

    def progress(path: str, size: int) -> None:
        assert size > 0
        heard[int(Path(path).stem)] += size

    clean(state_of(partition, config), config, NOW, Staging(None), compares_keys=False, progress=progress)
    sizes = {start: sum(map(len, batches)) for start, batches in segments.items()}
    assert heard == {0: sizes[0], 10: sizes[10] * 3 // 2, 20: 2 * sizes[20]}


# --- much at once


def test_more_batches_than_are_read_at_once(tmp_path: Path) -> None:
    """Those of old formats are copied one by one, the others as many as there are."""
    old = [encode_message(NewRecord(at, 1000, b"%d" % at, bytes(1000)), 1) for at in range(2100)]
    new = [batch(2100 + at, (b"%d" % at, b"2")) for at in range(1500)]
    last = batch(3600, (None, b"1"))
    partition = build(tmp_path, {0: [*old, *new, last], 3601: [batch(3601, (b"head", b"x"))]})
    cleaning = clean_once(partition, CONFIG._replace(converts_legacy=False, map_bytes=24 * 4000))
    log = (partition / name(0, "log")).read_bytes()
    stays = b"".join([*old[1500:], *new])
    assert log.startswith(stays)
    assert len(log) == len(stays) + 61
    counts = cleaning.counts
    assert (counts.size_before, counts.size_after) == (len(b"".join([*old, *new, last])), len(log))
    assert (counts.batches_before, counts.batches_after) == (3601, 2101)


def test_more_records_than_are_decoded_at_once(tmp_path: Path) -> None:
    """Of a batch all records are, however many; batches that follow come later."""

    def many(offset: int, count: int, value: bytes) -> list[Pair]:
        return [(b"%d" % key, value) for key in range(offset, offset + count)]

    segment = [
        in_txn(0, 7, *many(0, 3000, b"bad")),
        batch(3000, *many(0, 3000, b"1"), attributes=ZSTD),
        marker(6000, 7, commit=False),
        batch(6001, *many(1000, 5000, b"2")),
        in_txn(11001, 8, *many(2000, 3000, b"3"), attributes=ZSTD),
        marker(14001, 8),
        batch(14002, (b"5999", None)),
    ]
    partition = build(tmp_path, {0: segment, 20000: [batch(20000, (b"head", b"x"))]}, now=NOW + 2 * DAY)
    cleaning = clean_once(partition, CONFIG._replace(map_bytes=24 * 10_000), NOW + 2 * DAY)
    values = {record.key: record.value for record in records_in(partition)[:-1] if len(record.key or b"") < 5}
    left: dict[bytes | None, bytes | None] = {b"%d" % key: b"2" for key in range(5000, 5999)}
    left |= {b"%d" % key: b"1" if key < 1000 else b"2" if key < 2000 else b"3" for key in range(5000)}
    left[b"5999"] = None
    assert {key: value for key, value in values.items() if not (key or b"").startswith(b"\0")} == left
    counts = cleaning.counts
    assert (counts.records_before, counts.aborted, counts.superseded) == (14003, 3000, 2000 + 3000 + 1)
    assert (counts.batches_before, counts.batches_after, cleaning.keys) == (7, 6, 6000)
    assert counts.size_before == sum(map(len, segment))


def test_segments_of_one_record(tmp_path: Path) -> None:
    """The second segment begins at offset 1."""
    segments = {0: [batch(0, (A, b"1"))], 1: [batch(1, (A, b"2"))], 100: [HEAD]}
    partition = build(tmp_path / "dirty", segments)
    assert state_of(partition).clean_size == 0
    cleaning = clean_once(partition)
    assert [len(group.segments) for group in cleaning.groups] == [2]
    assert contents(partition) == [(1, A, b"2"), (100, b"head", b"x")]
    state = state_of(build(tmp_path / "clean", segments, checkpoint=1))
    assert (state.clean_size, state.cleanable_size) == (len(segments[0][0]), len(segments[1][0]))


# --- where a full map ends


def ends(folder: Path, keys: int, *segments: bytes, start: int | None = None) -> int:
    """Up to where a pass goes that has room for so many keys; the segments begin at offsets 0, 10, 20 and so on."""
    partition = build(folder, {**{10 * at: [each] for at, each in enumerate(segments)}, 100: [HEAD]}, checkpoint=start)
    return dry_run(partition, CONFIG._replace(map_bytes=24 * keys, load_factor=1.0)).end_offset


def test_a_full_map_ends_behind_the_last_record_that_it_took(tmp_path: Path) -> None:
    assert ends(tmp_path / "1", 1, batch(0, (A, b"1"), (B, b"1"))) == 1
    assert ends(tmp_path / "2", 1, batch(0, (A, b"1"), (None, b"1"), (B, b"1"))) == 1
    assert ends(tmp_path / "3", 2, batch(0, (A, b"1"), (b"", b"1"), (B, b"1"))) == 2
    assert ends(tmp_path / "4", 2, batch(0, (A, b"1"), (B, b"1"), (C, b"1"))) == 2
    assert ends(tmp_path / "5", 2, batch(0, (A, b"1"), (B, b"1"), (C, b"1"), (b"d", b"1")), start=1) == 3
    assert ends(tmp_path / "6", 1, batch(0, (A, b"1"), (B, b"1"), (C, b"1"), (b"d", b"1")), start=1) == 2


def test_or_behind_the_batch_before(tmp_path: Path) -> None:
    assert ends(tmp_path / "1", 1, batch(0, (A, b"1")) + batch(1, (B, b"1"))) == 1
    assert ends(tmp_path / "2", 1, batch(0, (A, b"1"), (None, b"1")) + batch(2, (None, b"1"), (B, b"1"))) == 2


def test_or_behind_the_segment_before(tmp_path: Path) -> None:
    assert ends(tmp_path / "1", 1, batch(0, (A, b"1")), batch(10, (B, b"1"))) == 10
    assert ends(tmp_path / "2", 1, batch(0, (A, b"1")), batch(10, (None, b"1"), (B, b"1"))) == 10
    assert ends(tmp_path / "3", 2, batch(0, (A, b"1")), batch(10, (B, b"1"), (C, b"1"))) == 11


def test_where_there_is_no_room_for_any_key_nothing_is_done(tmp_path: Path) -> None:
    config = CONFIG._replace(map_bytes=24, load_factor=0.5)
    partition = build(tmp_path / "logs", {0: [batch(0, (A, b"1"), (A, b"2"))], 100: [HEAD]}, checkpoint=0)
    before = files_of(partition), files_of(partition.parent)
    cleaning = clean_once(partition, config)
    assert (cleaning.is_full, cleaning.end_offset, cleaning.groups) == (True, 0, ())
    assert (files_of(partition), files_of(partition.parent)) == before


def test_nothing_is_left_of_a_pass_that_did_nothing(tmp_path: Path) -> None:
    """Neither the folder for the files of a change, which a partition outside of a log directory has in itself."""
    built = build(tmp_path / "logs", {0: [batch(0, (A, b"1"))], 100: [HEAD]})
    (tmp_path / "alone").mkdir()
    partition = built.rename(tmp_path / "alone" / "users")
    before = sorted(partition.iterdir())
    clean_once(partition, CONFIG._replace(map_bytes=24, load_factor=0.5))
    assert sorted(partition.iterdir()) == before


# --- transactions, read twice


def test_after_its_abort_a_producers_values_count_again(tmp_path: Path) -> None:
    first = [batch(0, (A, b"old")), in_txn(1, 7, (A, b"bad")), marker(2, 7, commit=False)]
    second = [in_txn(3, 7, (A, b"good"), sequence=1), marker(4, 7), in_txn(5, 7, (A, b"worse"), sequence=2)]
    partition = build(
        tmp_path, {0: first, 3: [*second, marker(6, 7, commit=False)], 7: [batch(7, (B, b"1"))], 100: [HEAD]}
    )
    cleaning = clean_once(partition)
    assert [(record.offset, record.value) for record in records_in(partition) if record.key == A] == [(3, b"good")]
    assert cleaning.keys == 2  # the keys of markers and of what was aborted are none


def test_the_keys_of_markers_are_no_keys(tmp_path: Path) -> None:
    partition = build(tmp_path, {0: [in_txn(0, 7, (A, b"1")), marker(1, 7), batch(2, (B, b"1"))], 100: [HEAD]})
    assert dry_run(partition).keys == 2


def test_an_abort_is_known_though_its_marker_is_in_the_active_segment(tmp_path: Path) -> None:
    segments = {0: [batch(0, (A, b"good")), in_txn(1, 7, (A, b"bad"))], 2: [marker(2, 7, commit=False)]}
    partition = build(tmp_path, segments)
    clean_once(partition)
    assert contents(partition)[0] == (0, A, b"good")


def test_only_batches_of_transactions_keep_the_marker_that_follows(tmp_path: Path) -> None:
    """An idempotent producer's batch is nothing that a commit ends."""
    plain = batch(0, (A, b"1"), producer_id=7, producer_epoch=0, base_sequence=0)
    later = [marker(1, 7), in_txn(2, 7, (B, b"1"), sequence=1), marker(3, 7)]
    partition = build(tmp_path, {0: [plain, *later, batch(4, (C, b"1"))], 100: [HEAD]})
    clean_once(partition)
    horizons = {found.base_offset: found.delete_horizon for found in batches_in(partition)}
    assert horizons == {0: None, 1: NOW + DAY, 2: None, 3: None, 4: None, 100: None}


def test_an_abort_before_the_dirty_section_lasts_as_in_kafka(tmp_path: Path) -> None:
    """The index of the segment tells of it, but its marker is not read: the producer's transactions do not count.

    What it writes outside of transactions does (Cleaner.buildOffsetMap).
    """
    aborted = [in_txn(0, 7, (A, b"bad")), marker(1, 7, commit=False), batch(2, (C, b"old"), (b"d", b"old"))]
    dirty = [
        batch(4, (C, b"new"), producer_id=7, producer_epoch=0, base_sequence=1),
        in_txn(5, 7, (b"d", b"new"), sequence=2),
        marker(6, 7),
        batch(7, (B, b"1")),
    ]
    config = CONFIG._replace(loading=LoadingSettings(index_interval_bytes=0))
    partition = build(tmp_path, {0: [*aborted, *dirty], 100: [HEAD]}, checkpoint=4, config=config)
    cleaning = clean_once(partition, config)
    assert cleaning.keys == 2
    values = [(record.offset, record.value) for record in records_in(partition) if record.key in (C, b"d")]
    assert values == [(3, b"old"), (4, b"new"), (5, b"new")]


def test_aborted_transactions_of_each_segment_of_a_group_are_known(tmp_path: Path) -> None:
    plain = {0: [batch(0, (b"e", b"1"))], 20: [batch(20, (b"f", b"1"))], 100: [HEAD]}
    segments = {**plain, 10: [batch(10, (A, b"1")), in_txn(11, 7, (B, b"bad")), marker(12, 7, commit=False)]}
    partition = build(tmp_path, dict(sorted(segments.items())), now=NOW + 2 * DAY)
    cleaning = clean_once(partition, now=NOW + 2 * DAY)
    assert [len(group.segments) for group in cleaning.groups] == [3]
    assert [record.offset for record in records_in(partition)] == [0, 10, 12, 20, 100]
    assert (partition / name(0, "txnindex")).stat().st_size == 34


# --- producers whose state must not be lost


def test_producer_0_counts_and_so_does_offset_0(tmp_path: Path) -> None:
    only = batch(0, (None, b"1"), producer_id=0, producer_epoch=0, base_sequence=0, timestamp=NOW)
    partition = build(tmp_path, {0: [only, batch(1, (A, b"1"))], 100: [HEAD]})
    clean_once(partition)
    assert [(found.base_offset, found.record_count) for found in batches_in(partition)] == [(0, 0), (1, 1), (100, 1)]


def test_where_only_a_producers_marker_is_known_its_last_one_stays(tmp_path: Path) -> None:
    """A marker of a later epoch is all that is left of a producer; those before it may go."""
    due = [marker(0, 7, epoch=0, horizon=NOW), marker(1, 7, epoch=1, horizon=NOW, timestamp=NOW)]
    partition = build(tmp_path, {0: [*due, batch(2, (A, b"1"))], 100: [HEAD]})
    assert state_of(partition).last_records == {7: LastRecord(-1, 1)}
    cleaning = clean_once(partition)
    found = [(found.base_offset, found.is_control, found.record_count) for found in batches_in(partition)]
    assert found == [(1, True, 0), (2, False, 1), (100, False, 1)]
    assert (cleaning.counts.markers, cleaning.counts.emptied) == (2, 1)


def test_of_such_a_producer_no_batch_with_data_stays(tmp_path: Path) -> None:
    gone = batch(0, (None, b"1"), producer_id=7, producer_epoch=0, base_sequence=0)
    state = state_of(build(tmp_path, {0: [gone, batch(1, (A, b"1"))], 100: [HEAD]}))
    assert clean(state, CONFIG, NOW, Staging(None), compares_keys=False).counts.emptied == 1
    state = replace(state, last_records={7: LastRecord(-1, 0)})
    assert clean(state, CONFIG, NOW, Staging(None), compares_keys=False).counts.emptied == 0


def test_the_horizon_of_a_marker_is_none_of_a_tombstone(tmp_path: Path) -> None:
    waits = marker(0, 7, commit=False, horizon=NOW + 1)
    partition = build(tmp_path, {0: [waits, batch(1, (A, b"1"))], 100: [HEAD]})
    cleaning = clean_once(partition)
    assert (partition / name(0, "log")).read_bytes().startswith(waits)
    assert (cleaning.counts.first_horizon, cleaning.counts.markers) == (None, 0)


@pytest.mark.parametrize(("value", "is_tombstone"), [(None, True), (b"", False), (b"\0", False)])
def test_a_control_record_without_a_value_is_a_tombstone(
    tmp_path: Path, value: bytes | None, is_tombstone: bool
) -> None:
    """As any record without one (MemoryRecords.filterTo); its batch ends no transaction, and stays."""
    record = NewRecord(0, 1000, b"\0\0\0\x09", value)
    partition = build(tmp_path, {0: [encode_batch([record], NewBatch(CONTROL)), batch(1, (A, b"1"))], 100: [HEAD]})
    cleaning = clean_once(partition)
    assert cleaning.counts.tombstones == is_tombstone
    assert batches_in(partition)[0].delete_horizon == (NOW + DAY if is_tombstone else None)


def test_headers_of_transactions_stay_what_they_are(tmp_path: Path) -> None:
    """Compressed or not, with records or without: of the last batch of a producer only its header stays."""
    first = in_txn(0, 7, (A, b"1"), (B, b"1"), attributes=ZSTD)
    last = in_txn(2, 7, (None, b"1"), sequence=2, attributes=ZSTD)
    partition = build(tmp_path, {0: [first, last, marker(3, 7), batch(4, (A, b"2"))], 100: [HEAD]})
    clean_once(partition)
    found = [(found.base_offset, found.record_count, found.attributes) for found in batches_in(partition)[:3]]
    assert found == [(0, 1, TRANSACTIONAL | ZSTD), (2, 0, TRANSACTIONAL), (3, 1, TRANSACTIONAL | CONTROL)]


# --- old formats, by their edges


def test_the_append_time_of_a_wrapper_stays(tmp_path: Path) -> None:
    records = [NewRecord(at, 1000 + at, b"%d" % (at % 2), b"v%d" % at) for at in range(4)]
    wrapper = encode_wrapper(records, 1, 1, append_time=7000)
    partition = build(tmp_path / "kept", {0: [wrapper], 100: [HEAD]})
    clean_once(partition, CONFIG._replace(converts_legacy=False))
    found = batches_in(partition)[0]
    assert (found.magic, found.attributes, found.max_timestamp) == (1, 1 | LOG_APPEND_TIME, 7000)
    assert [(record.offset, record.timestamp) for record in records_in(partition)[:2]] == [(2, 7000), (3, 7000)]
    partition = build(tmp_path / "converted", {0: [wrapper], 100: [HEAD]})
    clean_once(partition)
    found = batches_in(partition)[0]
    assert (found.magic, found.attributes, found.max_timestamp) == (2, 1 | LOG_APPEND_TIME, 7000)


def test_keys_and_values_of_old_formats_may_be_empty_or_missing(tmp_path: Path) -> None:
    records = [NewRecord(0, 1000, A, b"1"), NewRecord(1, 1001, b"", b""), NewRecord(2, 1002, B, None)]
    partition = build(tmp_path, {0: [encode_wrapper(records, 1, 1), batch(3, (A, b"2"))], 100: [HEAD]})
    clean_once(partition, CONFIG._replace(converts_legacy=False))
    assert contents(partition)[:3] == [(1, b"", b""), (2, B, None), (3, A, b"2")]


def test_a_wrapper_with_messages_of_another_format_is_written_anew(tmp_path: Path) -> None:
    """As some cleaners of old left them; a wrapper with messages of its own format alone is copied."""
    first, second = NewRecord(0, 1000, A, b"1"), NewRecord(1, 1001, B, b"1")
    mixed = encode_message(first, 1) + encode_message(second._replace(timestamp=-1), 0)
    wrapper = encode_message(NewRecord(1, 1001, None, compress(1, mixed, magic=1)), 1, 1)
    pure = encode_wrapper([NewRecord(2, 1002, C, b"1")], 1, 1, level=1)
    partition = build(tmp_path, {0: [wrapper, pure], 100: [HEAD]})
    clean_once(partition, CONFIG._replace(converts_legacy=False))
    log = (partition / name(0, "log")).read_bytes()
    assert log.endswith(pure)
    assert not log.startswith(wrapper)
    assert contents(partition)[:3] == [(0, A, b"1"), (1, B, b"1"), (2, C, b"1")]


def test_old_tombstones_stay_in_a_log_that_was_never_cleaned(tmp_path: Path) -> None:
    """However old its segments are."""
    old = [encode_message(NewRecord(0, 1000, A, None), 1), encode_message(NewRecord(1, 1000, B, b"1"), 1)]
    config = CONFIG._replace(converts_legacy=False, delete_retention_ms=0)
    partition = build(tmp_path, {0: old, 100: [HEAD]}, modified={0: 1}, config=config)
    clean_once(partition, config)
    assert offsets(partition) == [0, 1, 100]


def test_old_tombstones_go_by_the_time_of_the_only_clean_segment(tmp_path: Path) -> None:
    config = CONFIG._replace(converts_legacy=False, delete_retention_ms=0)
    segments = {0: [encode_message(NewRecord(0, 1000, A, None), 1)], 1: [batch(1, (B, b"1"))], 100: [HEAD]}
    partition = build(tmp_path, segments, checkpoint=1, config=config)
    clean_once(partition, config)
    assert offsets(partition) == [1, 100]
