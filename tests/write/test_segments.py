"""Index entries and rolls: when they fall due, and what they leave on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kdump.formats.encode import NewRecord, encode_message
from kdump.formats.index_entries import decode_offset_entries, decode_time_entries
from kdump.storage.scan import MAX_RELATIVE_OFFSET
from kdump.write.errors import RollError
from kdump.write.log_writer import LogWriter
from kdump.write.record_source import Message
from tests.write.building import NOW, Clock, fetched, files, messages, new_log, produced, sent

SIZE = len(sent(size=2000))


def bases(log: LogWriter) -> list[int]:
    """The base offsets of the segments."""
    return sorted(int(path.stem) for path in Path(log.path).glob("*.log"))


def indexes(log: LogWriter, base: int = 0) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """The entries of the offset and of the time index of a segment."""
    path = Path(log.path) / f"{base:020d}.log"
    offsets = decode_offset_entries(path.with_suffix(".index").read_bytes(), base)
    times = decode_time_entries(path.with_suffix(".timeindex").read_bytes(), base)
    return [tuple(entry) for entry in offsets], [tuple(entry) for entry in times]


def test_index_entries_of_single_batches(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    for timestamp in (500, 700, 600, 700, 900, 800):
        log.append_as_leader(sent(2, size=1000, timestamp=NOW + timestamp))
    size = log.active.size // 6
    log.close()
    assert indexes(log) == ([(5, 2 * size), (9, 4 * size)], [(NOW + 700, 3), (NOW + 900, 9)])


@pytest.mark.parametrize(
    ("per_batch", "expected"),
    [
        (True, ([(2, 2 * SIZE), (4, 4 * SIZE)], [(NOW + 2, 2), (NOW + 4, 4), (NOW + 5, 5)])),
        (False, ([(5, 3 * SIZE)], [(NOW + 5, 5)])),
    ],
)
def test_index_entries_of_appends_of_several_batches(tmp_path: Path, per_batch: bool, expected: Any) -> None:
    log = new_log(tmp_path, index_per_batch=per_batch)
    for first in (0, 3):
        group = [fetched(offset, size=2000, timestamp=NOW + offset) for offset in range(first, first + 3)]
        log.append_as_follower(b"".join(group))
    log.close()
    assert indexes(log) == expected


def test_entry_is_due_beyond_the_interval_not_at_it(tmp_path: Path) -> None:
    log = new_log(tmp_path, index_interval_bytes=2 * SIZE)
    for _ in range(4):
        log.append_as_leader(sent(size=2000))
    log.close()
    assert indexes(log)[0] == [(3, 3 * SIZE)]


def test_rolls_by_size(tmp_path: Path) -> None:
    log = new_log(tmp_path, segment_bytes=3 * SIZE)
    for _ in range(7):
        log.append_as_leader(sent(size=2000))
    assert bases(log) == [0, 3, 6]
    assert (log.recovery_point, log.end_offset) == (6, 7)


@pytest.mark.parametrize("kind", ["index", "timeindex"])
def test_rolls_when_an_index_is_full(tmp_path: Path, kind: str) -> None:
    """An offset index of 24 bytes has three entries; of a time index the last one is kept for the end."""
    log = new_log(tmp_path, segment_index_bytes=24 if kind == "index" else 36, index_interval_bytes=0)
    for number in range(9):
        log.append_as_leader(sent(timestamp=NOW + number if kind == "timeindex" else -1))
    log.close()
    assert bases(log) == ([0, 4, 8] if kind == "index" else [0, 3, 6])


@pytest.mark.parametrize("compacted", [False, True])
def test_rolls_by_the_time_of_messages(tmp_path: Path, compacted: bool) -> None:
    config: dict[str, Any] = {"segment_ms": 100} if not compacted else {"max_compaction_lag_ms": 100, "compacted": True}
    log = new_log(tmp_path, **config)
    for timestamp in (0, 100, 50, 101, 100, 150, 202):
        log.append_as_leader(sent(timestamp=NOW + timestamp))
    assert bases(log) == [0, 3, 6]


def test_rolls_by_the_clock_where_messages_have_no_time(tmp_path: Path) -> None:
    clock = Clock()
    log = new_log(tmp_path, clock, segment_ms=100)
    for wait in (0, 100, 1, 100, 1):
        clock.now += wait
        log.append_as_leader(sent(timestamp=-1))
    assert bases(log) == [0, 2, 4]


def test_empty_segment_is_not_rolled_by_time(tmp_path: Path) -> None:
    clock = Clock()
    log = new_log(tmp_path, clock, segment_ms=100)
    clock.now += 1000
    log.append_as_leader(sent(timestamp=-1))
    assert bases(log) == [0]


def test_jitter_rolls_earlier(tmp_path: Path) -> None:
    log = new_log(tmp_path, segment_ms=100, segment_jitter_ms=30)
    log.active.jitter = 30
    for timestamp in (0, 70, 71):
        log.append_as_leader(sent(timestamp=NOW + timestamp))
    assert bases(log) == [0, 2]


@pytest.mark.parametrize("per_batch", [True, False])
def test_segment_is_rolled_by_its_first_batch_since_4_1_and_by_its_first_append_before(
    tmp_path: Path, per_batch: bool
) -> None:
    log = new_log(tmp_path, segment_ms=100, index_per_batch=per_batch)
    log.append_as_follower(fetched(0, timestamp=NOW) + fetched(1, timestamp=NOW + 50))
    log.append_as_follower(fetched(2, timestamp=NOW + 120))
    assert bases(log) == ([0, 2] if per_batch else [0])


def test_rolls_where_offsets_reach_too_far(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    log.append_as_follower(fetched(5))
    log.append_as_follower(fetched(MAX_RELATIVE_OFFSET))
    log.append_as_follower(fetched(MAX_RELATIVE_OFFSET + 1))
    assert bases(log) == [0, MAX_RELATIVE_OFFSET + 1]


def test_old_messages_of_a_follower_do_not_say_where_they_begin(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    log.append_as_follower(fetched(5))
    far = (1 << 33) + 7
    log.append_as_follower(encode_message(NewRecord(far, NOW, b"k", b"v"), 1))
    assert bases(log) == [0, far - MAX_RELATIVE_OFFSET]


def test_what_a_roll_leaves(tmp_path: Path) -> None:
    log = new_log(tmp_path, preallocate=True, segment_bytes=10_000)
    log.append_as_leader(produced(0))
    path = Path(log.path) / f"{0:020d}.log"
    assert path.stat().st_size == 10_000
    used = log.active.size
    assert log.roll() == 1
    assert path.stat().st_size == used
    assert path.with_suffix(".index").read_bytes() == b""
    assert indexes(log)[1] == [(NOW, 0)]
    assert (Path(log.path) / f"{1:020d}.snapshot").stat().st_size == 56
    assert (Path(log.path) / f"{1:020d}.log").stat().st_size == 10_000
    log.close()
    assert (Path(log.path) / f"{1:020d}.log").stat().st_size == 0


def test_rolled_twice(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    log.append(messages(3))
    assert log.roll() == log.roll() == 3
    assert bases(log) == [0, 3]


def test_roll_to_where_a_segment_is(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    log.append(messages(3))
    log.end_offset = 0
    with pytest.raises(RollError, match="start offset 0, but the active segment already begins at 0"):
        log.roll()


def test_killed(tmp_path: Path) -> None:
    log = new_log(tmp_path, preallocate=True, segment_bytes=5000, segment_index_bytes=100)
    log.append(messages(3))
    used = log.active.size
    log.close(clean=False)
    found = {Path(name).name: content for name, content in files(tmp_path).items()}
    assert set(found) == {f"{0:020}.{kind}" for kind in ("log", "index", "timeindex")} | {"leader-epoch-checkpoint"}
    assert found[f"{0:020}.index"] == bytes(96)
    assert found[f"{0:020}.timeindex"] == bytes(96)
    assert (found[f"{0:020}.log"][used:], len(found[f"{0:020}.log"])) == (bytes(5000 - used), 5000)


def test_config_can_change_on_the_way(tmp_path: Path) -> None:
    log = new_log(tmp_path, record_version=1)
    checkpoint = Path(log.path) / "leader-epoch-checkpoint"
    log.append(messages(1))
    assert not checkpoint.exists()
    log.reconfigure(log.config.__class__())
    log.append(messages(1))
    assert checkpoint.read_text() == "0\n1\n0 1\n"
    log.reconfigure(log.config.__class__(record_version=0))
    assert not checkpoint.exists()
    log.append([Message(b"v")])
    log.close()
    data = (Path(log.path) / f"{0:020d}.log").read_bytes()
    assert [data[16], data[len(data) - 14 - 12 - 1 + 16]] == [1, 0]


def test_old_segments_go_with_their_snapshots(tmp_path: Path) -> None:
    log = new_log(tmp_path, segment_bytes=3 * SIZE)
    log.become_leader(1)
    for number in range(8):
        if number == 4:
            log.become_leader(2)
        log.append_as_leader(sent(size=2000))
    log.advance_log_start(5)
    assert (Path(log.path) / "leader-epoch-checkpoint").read_text() == "0\n1\n2 5\n"
    assert log.delete_old_segments() == [0]
    log.advance_log_start(2)
    assert (log.log_start_offset, bases(log)) == (5, [3, 6])
    log.advance_log_start(8)
    assert log.delete_old_segments() == [3]
    assert sorted(path.name for path in Path(log.path).glob("*.snapshot")) == [f"{6:020d}.snapshot"]


def test_epochs_of_leaders(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    checkpoint = Path(log.path) / "leader-epoch-checkpoint"
    assert checkpoint.read_bytes() == b""
    log.append(messages(2))
    log.become_leader(4)
    log.become_leader(5)
    log.append(messages(2))
    log.append(messages(1), leader_epoch=9)
    log.append(messages(1))
    assert checkpoint.read_text() == "0\n3\n0 0\n5 2\n9 4\n"
    log.append_as_follower(encode_message(NewRecord(6, NOW, b"k", b"v"), 1))
    assert checkpoint.read_text() == "0\n0\n"
