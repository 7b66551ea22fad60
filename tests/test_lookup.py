"""Lookups in small logs whose answers can be told by hand; the broker's own answers are compared elsewhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import kdump
from kdump.formats.encode import NewBatch, NewRecord, encode_batch
from kdump.formats.index_entries import (
    AbortedTxn,
    OffsetIndexEntry,
    TimeIndexEntry,
    encode_aborted_txns,
    encode_offset_entries,
    encode_time_entries,
)
from kdump.lookup import EARLIEST, LATEST, LATEST_TIERED, MAX_TIMESTAMP, LogLookup, OffsetPosition, TimestampOffset

KDUMP = os.path.join(os.path.dirname(sys.executable), "kdump")


def batch(first: int, count: int, timestamp: int, leader_epoch: int = 0) -> bytes:
    records = [NewRecord(first + n, timestamp + n, b"k", b"v" * 100) for n in range(count)]
    return encode_batch(records, NewBatch(leader_epoch=leader_epoch))


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """Segments 0 (offsets 0-5, then 8-9 after a gap), 10 (empty) and 20 (20-21), with the indexes of the first."""
    partition = tmp_path / "orders-0"
    partition.mkdir()
    batches = [batch(0, 3, 1000), batch(3, 3, 2000), batch(8, 2, 1500, leader_epoch=2)]
    (partition / "00000000000000000000.log").write_bytes(b"".join(batches))
    entries = [OffsetIndexEntry(5, len(batches[0])), OffsetIndexEntry(9, len(batches[0] + batches[1]))]
    (partition / "00000000000000000000.index").write_bytes(encode_offset_entries(entries, 0) + bytes(80))
    times = [TimeIndexEntry(2002, 5)]
    (partition / "00000000000000000000.timeindex").write_bytes(encode_time_entries(times, 0) + bytes(120))
    (partition / "00000000000000000000.txnindex").write_bytes(
        encode_aborted_txns([AbortedTxn(0, 7, 1, 4, 5), AbortedTxn(0, 8, 3, 9, 10)])
    )
    (partition / "00000000000000000010.log").write_bytes(b"")
    (partition / "00000000000000000020.log").write_bytes(batch(20, 2, 3000, leader_epoch=3))
    times = [TimeIndexEntry(3001, 21)]
    (partition / "00000000000000000020.timeindex").write_bytes(encode_time_entries(times, 20))
    (partition / "leader-epoch-checkpoint").write_text("0\n4\n0 0\n2 8\n3 20\n9 500\n")
    os.utime(partition / "00000000000000000010.log", ns=(0, 2_500_000_000))
    return partition


def test_an_offset_is_found_through_the_index(log_dir: Path) -> None:
    with LogLookup(kdump.open_log(str(log_dir)), clean=False) as lookup:
        size = len(batch(0, 3, 1000))
        assert lookup.find_offset(4) == OffsetPosition(0, 0, 0, True, 5, size, size)
        assert lookup.find_offset(5) == OffsetPosition(0, 5, size, True, 5, size, size)


def test_an_offset_in_a_gap_leads_to_the_batch_behind_it(log_dir: Path) -> None:
    with LogLookup(kdump.open_log(str(log_dir)), clean=False) as lookup:
        found = lookup.find_offset(6)
        assert (found.found, found.batch_last_offset, found.index_offset) == (True, 9, 5)


def test_a_fetch_goes_on_behind_an_empty_segment(log_dir: Path) -> None:
    with LogLookup(kdump.open_log(str(log_dir)), clean=False) as lookup:
        assert lookup.find_offset(12) == OffsetPosition(10, 10, 0)
        found = lookup.find_from(12)
        assert (found.segment, found.batch_last_offset, found.position) == (20, 21, 0)
        assert not lookup.find_from(22).found


def test_an_offset_before_the_first_segment_has_none(log_dir: Path) -> None:
    with LogLookup(kdump.open_log(str(log_dir)), clean=False) as lookup:
        assert lookup.find_offset(-1) == OffsetPosition(None)


def test_a_time_is_found_in_the_first_segment_that_reaches_it(log_dir: Path) -> None:
    with LogLookup(kdump.open_log(str(log_dir)), clean=False) as lookup:
        assert lookup.find_timestamp(0) == TimestampOffset(0, 1000, 0)
        assert lookup.find_timestamp(1002) == TimestampOffset(2, 1002, 0)
        assert lookup.find_timestamp(2002) == TimestampOffset(5, 2002, 0)
        assert lookup.find_timestamp(2501) == TimestampOffset(20, 3000, 3)
        assert lookup.find_timestamp(3002) is None


def test_a_segment_without_timestamps_counts_with_its_files_time_and_hides_later_ones(log_dir: Path) -> None:
    # the empty segment's file is of 2500 ms: it is chosen, and has nothing
    with LogLookup(kdump.open_log(str(log_dir)), clean=False) as lookup:
        assert lookup.find_timestamp(2400) is None


def test_records_below_the_log_start_offset_are_not_found(log_dir: Path) -> None:
    with LogLookup(kdump.open_log(str(log_dir)), 4, clean=False) as lookup:
        assert lookup.find_timestamp(0) == TimestampOffset(4, 2001, 0)
        assert lookup.find_timestamp(EARLIEST) == TimestampOffset(4, -1, 0)


def test_special_times(log_dir: Path) -> None:
    with LogLookup(kdump.open_log(str(log_dir)), clean=False) as lookup:
        assert lookup.find_timestamp(LATEST) == TimestampOffset(22, -1, 3)
        assert lookup.find_timestamp(EARLIEST) == TimestampOffset(0, -1, 0)
        assert lookup.find_timestamp(MAX_TIMESTAMP) == TimestampOffset(21, 3001, 3)
        assert lookup.find_timestamp(LATEST_TIERED) == TimestampOffset(-1, -1, -1)


def test_aborted_transactions_of_a_fetch(log_dir: Path) -> None:
    with LogLookup(kdump.open_log(str(log_dir)), clean=False) as lookup:
        assert [txn.producer_id for txn in lookup.aborted_transactions(0, 100)] == [7, 8]
        assert [txn.producer_id for txn in lookup.aborted_transactions(5, 100)] == [8]
        assert [txn.producer_id for txn in lookup.aborted_transactions(0, 2)] == [7]


def test_a_lookup_reads_little_of_a_large_log(tmp_path: Path) -> None:
    partition = tmp_path / "orders-0"
    partition.mkdir()
    size = len(batch(0, 1, 1000))
    (partition / "00000000000000000000.log").write_bytes(b"".join(batch(n, 1, 1000 + n) for n in range(20_000)))
    entries = [OffsetIndexEntry(n, n * size) for n in range(30, 20_000, 30)]
    (partition / "00000000000000000000.index").write_bytes(encode_offset_entries(entries, 0))
    with LogLookup(kdump.open_log(str(partition)), clean=True) as lookup:
        assert lookup.find_offset(15_017).batch_last_offset == 15_017
        assert lookup._segments[0].log.bytes_read < 10_000


def run(*args: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run([KDUMP, "lookup", *args], input=stdin, capture_output=True, text=True, check=False)


def test_command_explains_its_steps(log_dir: Path) -> None:
    done = run(str(log_dir), "--offset", "9", "--explain")
    assert done.returncode == 0
    assert "index entry: offset 9 at byte" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("segment 00000000000000000000.log, batch at byte")


def test_command_answers_requests(log_dir: Path) -> None:
    requests = ['{"offset": 30}', '{"timestamp": 0}', '{"aborted": [5, 100]}', '{"offset": -1}']
    done = run(str(log_dir), "--batch", "-", stdin="\n".join(requests))
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"segment": 20, "indexOffset": 20, "indexPosition": 0, "found": False},
        {"result": {"offset": 0, "timestamp": 1000, "leaderEpoch": 0}},
        {"aborted": [{"producerId": 8, "firstOffset": 3, "lastOffset": 9, "lastStableOffset": 10}]},
        {"segment": None, "found": False},
    ]


def test_command_answers_for_every_partition_of_a_log_directory(log_dir: Path) -> None:
    done = run(str(log_dir.parent), "--timestamp", "1970-01-01T00:00:02Z", "--format", "jsonl")
    assert json.loads(done.stdout) == {
        "topic": "orders",
        "partition": 0,
        "result": {"offset": 3, "timestamp": 2000, "leaderEpoch": 0},
    }


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["--offset", "99"], 1, "at or behind the end of the log"),
        ([], 2, "Give one of --offset, --timestamp and --batch"),
        (["--offset", "1", "--timestamp", "1"], 2, "found --offset and --timestamp"),
        (["--timestamp", "yesterday"], 2, "is neither a number of milliseconds nor ISO 8601"),
    ],
)
def test_command_says_what_is_wrong(log_dir: Path, args: list[str], code: int, words: str) -> None:
    done = run(str(log_dir), *args)
    assert done.returncode == code
    assert words in done.stdout + done.stderr


def test_command_refuses_requests_that_it_does_not_know(log_dir: Path) -> None:
    done = run(str(log_dir), "--batch", "-", stdin='{"offset": "x"}\n')
    assert done.returncode == 2
    assert "line 1: expected" in done.stderr


def test_command_names_a_path_that_is_not_there(tmp_path: Path) -> None:
    done = run(str(tmp_path / "none"), "--offset", "1")
    assert (done.returncode, done.stdout) == (3, "")
    assert "none: No such file or directory" in done.stderr


def test_an_index_that_leads_out_of_the_log_is_named(log_dir: Path) -> None:
    (log_dir / "00000000000000000000.index").write_bytes(encode_offset_entries([OffsetIndexEntry(2, 100_000)], 0))
    done = run(str(log_dir), "--offset", "4")
    assert done.returncode == 3
    assert "rebuild the index" in done.stderr
    assert "Traceback" not in done.stderr
