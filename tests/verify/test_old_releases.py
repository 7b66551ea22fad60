"""What brokers before Kafka 2.0 wrote, and still lies on disks: none of it is damage."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdump.formats.batch import TRANSACTIONAL
from kdump.formats.encode import NewBatch, NewRecord, encode_batch, encode_message, encode_wrapper
from kdump.formats.index_entries import (
    OffsetIndexEntry,
    TimeIndexEntry,
    encode_offset_entries,
    encode_time_entries,
)
from kdump.formats.producer_snapshot import ProducerEntry, encode_producer_snapshot
from kdump.settings.defaults import MAX_TIMEOUT_MS
from kdump.storage.partition import PartitionLog
from kdump.txns.partition import LATE_BUFFER_MS
from tests.verify.building import NOW, TIME, Log, batch, build, codes, file, found, produced, records, unsound_indexes

LATE_MS = MAX_TIMEOUT_MS + LATE_BUFFER_MS
INDEX, TIME_INDEX = file(0, "index"), file(0, "timeindex")
GZIP = 1


def put_index(log: Log, *entries: tuple[int, int]) -> None:
    """Write the .index of offsets and byte positions."""
    (log.partition / INDEX).write_bytes(encode_offset_entries((OffsetIndexEntry(*each) for each in entries), 0))


def put_times(log: Log, *entries: tuple[int, int]) -> None:
    """Write the .timeindex of timestamps (ms after TIME) and offsets."""
    times = (TimeIndexEntry(TIME + ms, offset) for ms, offset in entries)
    (log.partition / TIME_INDEX).write_bytes(encode_time_entries(times, 0))


def emptied(offset: int, producer: int, sequence: int, timestamp: int = TIME) -> bytes:
    """A transactional batch of two records that the cleaner took both out of."""
    new = NewBatch(
        leader_epoch=0,
        producer_id=producer,
        producer_epoch=0,
        base_sequence=sequence,
        attributes=TRANSACTIONAL,
        base_offset=offset,
        last_offset=offset + 1,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
    )
    return encode_batch([], new)


@pytest.mark.parametrize("deep", [False, True])
def test_entries_of_first_offsets_are_sound(tmp_path: Path, deep: bool) -> None:
    batches = [batch(n, 3) for n in range(0, 30, 3)]
    size = len(batches[0])
    log = build(tmp_path / "data", {0: batches, 30: [batch(30)]})
    put_index(log, (6, 2 * size), (15, 5 * size), (26, 8 * size))  # the last one by a newer broker
    assert codes(log.findings(deep=deep)) == set()
    assert unsound_indexes(PartitionLog(str(log.partition))) == set()
    put_index(log, (6, 2 * size), (16, 5 * size))
    assert codes(log.findings(deep=deep)) == {"KD-IDX-OFFSET"}
    assert unsound_indexes(PartitionLog(str(log.partition))) == {INDEX}


def test_entries_of_first_offsets_of_wrappers_are_sound(tmp_path: Path) -> None:
    wrappers = [encode_wrapper(records(n, 3), 1, GZIP) for n in range(0, 12, 3)]
    position = len(wrappers[0]) + len(wrappers[1])
    log = build(tmp_path / "data", {0: wrappers, 12: [batch(12)]}, epochs="0 12\n")
    put_index(log, (6, position))
    assert codes(log.findings()) == codes(log.findings(deep=False)) == set()
    put_index(log, (5, position))
    assert codes(log.findings()) == codes(log.findings(deep=False)) == {"KD-IDX-OFFSET"}


def test_time_index_entries_of_v0_messages_say_nothing(tmp_path: Path) -> None:
    messages = [encode_message(NewRecord(n, -1, b"k", b"v" * 60), 0) for n in range(4)]
    later = [encode_message(NewRecord(n, TIME + n, b"k", b"v" * 60), 1) for n in range(4, 6)]
    log = build(tmp_path / "data", {0: [*messages, *later], 6: [batch(6)]}, epochs="0 6\n")
    put_times(log, (-50, 1), (5, 5))
    assert codes(log.findings()) == set()
    put_times(log, (50, 2))  # larger than all that the log has
    assert codes(log.findings()) == set()
    put_times(log, (50, 5))
    assert codes(log.findings()) == {"KD-TIDX-TIMESTAMP", "KD-TIDX-LAST"}


def test_a_time_index_need_not_count_an_emptied_batch(tmp_path: Path) -> None:
    log = build(tmp_path / "data", {0: [batch(0), batch(2), emptied(4, 7, 0, TIME + 90)], 6: [batch(6)]})
    for last in ((3, 3), (90, 5)):
        put_times(log, last)
        assert codes(log.findings()) == set(), last
    put_times(log, (1, 1))
    assert codes(log.findings()) == {"KD-TIDX-LAST"}


def test_an_emptied_batch_opens_no_transaction(tmp_path: Path) -> None:
    late = {"now": NOW + LATE_MS + 1}
    log = build(tmp_path / "data", {0: [batch(0), emptied(2, 7, 0)], 4: [batch(4)]})
    assert codes(found(log.directory, **late), "error", "warning", "note") <= {"KD-TIME-HELD", "KD-TIME-ORDER"}
    log = build(tmp_path / "open", {0: [batch(0), emptied(2, 7, 0), produced(4, 7, 2)], 6: [batch(6)]})
    assert [each.offset for each in found(log.directory, **late) if each.code == "KD-TXN-HANGING"] == [4]


def test_a_later_snapshot_closes_a_transaction_whose_marker_was_cleaned_away(tmp_path: Path) -> None:
    late = {"now": NOW + LATE_MS + 1}
    state = encode_producer_snapshot([ProducerEntry(7, 0, 1, 3, 1, TIME + 4, 3, -1)])
    cleaned = {0: [batch(0), produced(2, 7, 0), batch(5)], 7: [batch(7)]}  # the marker was at offset 4
    log = build(tmp_path / "cleaned", cleaned, beside={file(7, "snapshot"): state})
    assert codes(found(log.directory, **late)) == set()
    whole = {0: [batch(0), produced(2, 7, 0), batch(4)], 6: [batch(6)]}
    log = build(tmp_path / "whole", whole, beside={file(6, "snapshot"): state})
    assert codes(found(log.directory, **late)) == {"KD-TXN-HANGING"}
