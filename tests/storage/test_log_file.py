"""Walking a file through a buffer: entries larger than it, files that change meanwhile, and nothing touched."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kdump.blocks import BATCH_COLUMNS, BATCH_ROWS, BatchBlock
from kdump.formats.batch import CONTROL, TRANSACTIONAL
from kdump.formats.encode import NewBatch, NewRecord, encode_batch, encode_message, encode_wrapper
from kdump.formats.faults import BLOCK_FULL, END, PARTIAL, SHORT_HEADER, UNDERSIZED
from kdump.storage import log_reader
from kdump.storage.log_reader import Entry, LogFile

SMALL_BUFFER = 4096
LARGE = bytes(range(256)) * 40  # 10,240 bytes, larger than the buffer of these tests


@pytest.fixture(autouse=True)
def _small_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_reader, "BUFFER_SIZE", SMALL_BUFFER)


def batch(offset: int, value: bytes = b"value") -> bytes:
    return encode_batch([NewRecord(offset, 1000 + offset, b"k", value)], NewBatch(leader_epoch=offset % 7))


def message(offset: int, value: bytes = b"value") -> bytes:
    return encode_message(NewRecord(offset, 1000 + offset, b"k", value), 1)


def mixed_log() -> list[bytes]:
    """Entries of every kind; some fill the buffer to its last byte, some do not fit into it."""
    entries = [batch(offset) for offset in range(40)]
    entries += [batch(40, LARGE), message(41, LARGE), batch(42, LARGE * 3)]
    entries += [message(offset) for offset in range(43, 60)]
    entries += [batch(60, bytes(SMALL_BUFFER - len(batch(60, b"")) + extra)) for extra in range(-8, 8)]
    entries += [encode_wrapper([NewRecord(61, 5, None, os.urandom(9000))], 1, 1), batch(62), message(63, LARGE)]
    return entries


def write(path: Path, entries: list[bytes]) -> str:
    path.write_bytes(b"".join(entries))
    return str(path)


def table(log: LogFile, start: int = 0, stop: int | None = None, whole: bool = True) -> list[list[int]]:
    """All columns of all blocks."""
    columns: list[list[int]] = [[] for _ in BATCH_COLUMNS]
    for block in log.blocks(start, stop, whole=whole):
        for column, name in zip(columns, BATCH_COLUMNS, strict=True):
            column += getattr(block, name)[: block.length]
    return columns


def ends(log: LogFile, start: int = 0, stop: int | None = None) -> tuple[int, int, int]:
    """Status and position of the end of a walk, and how many entries came before."""
    count, last = 0, BatchBlock(1)
    for last in log.blocks(start, stop):
        count += last.length
    return last.status, last.next_position, count


def test_entries_larger_than_the_buffer(tmp_path: Path) -> None:
    entries = mixed_log()
    positions = [sum(map(len, entries[:at])) for at in range(len(entries))]
    with LogFile(write(tmp_path / "log", entries)) as log:
        whole = dict(zip(BATCH_COLUMNS, table(log), strict=True))
        assert whole["position"] == positions
        assert whole["size"] == [len(entry) for entry in entries]
        assert all(whole["valid"])
        assert ends(log) == (END, log.size, len(entries))


def test_summing_large_entries_gives_the_same_columns(tmp_path: Path) -> None:
    entries = mixed_log()
    damaged = [*entries, batch(64, LARGE)[:-1] + b"?", message(65, LARGE)[:-1] + b"?", batch(66)]
    with LogFile(write(tmp_path / "log", damaged)) as log:
        whole = table(log)
        assert table(log, whole=False) == whole
        assert whole[BATCH_COLUMNS.index("valid")][-3:] == [0, 0, 1]


def test_what_a_block_holds(tmp_path: Path) -> None:
    entries = mixed_log()
    path = write(tmp_path / "log", entries)
    with LogFile(path) as log:
        for block in log.blocks():
            for row in range(block.length):
                assert block.holds(row)
                start = block.position[row] - block.data_position
                assert block.data[start : start + block.size[row]] in entries
        held = [
            (block.size[row], block.holds(row)) for block in log.blocks(whole=False) for row in range(block.length)
        ]
        assert held == [(len(entry), len(entry) <= SMALL_BUFFER) for entry in entries]


def test_memory_does_not_grow_with_what_is_only_summed(tmp_path: Path) -> None:
    with LogFile(write(tmp_path / "log", mixed_log())) as log:
        for block in log.blocks(whole=False):
            assert len(block.data) <= SMALL_BUFFER


def gathered(log: LogFile, start: int = 0, stop: int | None = None) -> tuple[list[list[int]], list[int], int]:
    """All columns, the lengths of the blocks, and the last status; control batches are held by their blocks."""
    columns: list[list[int]] = [[] for _ in BATCH_COLUMNS]
    lengths, status = [], -1
    for block in log.blocks(start, stop, whole=False, gathers=True):
        for column, name in zip(columns, BATCH_COLUMNS, strict=True):
            column += getattr(block, name)[: block.length]
        lengths.append(block.length)
        status = block.status
        assert all(block.holds(row) for row in range(block.length) if block.attributes[row] & CONTROL)
    return columns, lengths, status


def test_entries_of_several_buffers_in_one_block(tmp_path: Path) -> None:
    entries = mixed_log()
    path = write(tmp_path / "0.log", entries)
    with LogFile(path) as log:
        for tail in range(0, 70, 7):
            stop = log.size - tail
            columns, lengths, status = gathered(log, stop=stop)
            assert columns == table(log, stop=stop)
            assert status == ends(log, stop=stop)[0]
            assert lengths[0] == 40  # several buffers of small ones, up to the first that is larger than a buffer


def test_a_block_of_several_buffers_has_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [batch(offset) for offset in range(2000)]
    path = write(tmp_path / "0.log", entries)
    monkeypatch.setattr(log_reader, "GATHERED_BYTES", 10 * SMALL_BUFFER)
    with LogFile(path) as log:
        columns, lengths, _ = gathered(log)
        assert columns == table(log)
    each = len(entries[0])
    assert all(10 * SMALL_BUFFER <= length * each < 11 * SMALL_BUFFER for length in lengths[:-1])
    assert len(lengths) > 2


def test_a_block_of_several_buffers_ends_with_one_that_has_control_batches(tmp_path: Path) -> None:
    marker = encode_batch([NewRecord(500, 5, bytes(4), bytes(6))], NewBatch(CONTROL | TRANSACTIONAL, 7, 0))
    entries = [batch(offset) for offset in range(500)] + [marker] + [batch(offset) for offset in range(501, 1000)]
    path = write(tmp_path / "0.log", entries)
    with LogFile(path) as log:
        columns, lengths, _ = gathered(log)
        assert columns == table(log)
    assert 500 < lengths[0] < 500 + SMALL_BUFFER // len(entries[0]) + 1
    assert len(lengths) == 2


@pytest.mark.parametrize("left", [0, 5000, 12_000])
def test_a_file_that_shrinks_while_blocks_are_gathered(tmp_path: Path, left: int) -> None:
    path = tmp_path / "0.log"
    write(path, [batch(offset) for offset in range(1000)])
    with LogFile(str(path)) as log:
        blocks = log.blocks(whole=False, gathers=True)
        os.truncate(path, left)
        found = [offset for block in blocks for offset in block.last_offset[: block.length]]
    assert found == list(range(left // len(batch(0))))


def test_more_entries_than_a_block_has_rows(tmp_path: Path) -> None:
    entries = [message(offset, b"") for offset in range(BATCH_ROWS * 2 + 3)]
    with LogFile(write(tmp_path / "log", entries)) as log:
        assert table(log)[BATCH_COLUMNS.index("last_offset")] == list(range(len(entries)))
        assert ends(log) == (END, log.size, len(entries))


def test_a_stretch_of_a_log(tmp_path: Path) -> None:
    entries = mixed_log()
    with LogFile(write(tmp_path / "log", entries)) as log:
        everything = table(log)
        for first, last in ((0, 1), (3, 30), (39, 41), (40, 43), (58, 76)):
            start, stop = (sum(map(len, entries[:at])) for at in (first, last))
            assert table(log, start, stop) == [column[first:last] for column in everything]
            assert table(log, start, stop, whole=False) == [column[first:last] for column in everything]
            assert ends(log, start, stop) == (END, stop, last - first)
            assert ends(log, start, stop - 1) == (PARTIAL, stop - len(entries[last - 1]), last - first - 1)


@pytest.mark.parametrize("start", [0, 1, 100])
def test_there_is_always_a_block(tmp_path: Path, start: int) -> None:
    with LogFile(write(tmp_path / "log", [])) as log:
        (block,) = log.blocks(start)
        assert (block.length, block.status, block.next_position) == (0, END, start)


@pytest.mark.parametrize(
    ("tail", "status"),
    [
        (b"", END),
        (bytes(17), END),
        (bytes(18), UNDERSIZED),
        (bytes(20_000), UNDERSIZED),
        (batch(9)[:-1], PARTIAL),
        (batch(9, LARGE)[:-1], PARTIAL),
        (batch(9)[:8] + (20).to_bytes(4, "big") + batch(9)[12:40], SHORT_HEADER),
    ],
)
def test_ends_of_a_log(tmp_path: Path, tail: bytes, status: int) -> None:
    entries = [batch(0), message(1), batch(2, LARGE)]
    with LogFile(write(tmp_path / "log", [*entries, tail])) as log:
        assert ends(log) == (status, log.size - len(tail), 3)


# --- files that change


def test_what_is_appended_meanwhile_is_not_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with LogFile(write(path, [batch(0), batch(1)[:50]])) as log:
        with path.open("ab") as more:
            more.write(batch(1)[50:] + batch(2))
        assert ends(log) == (PARTIAL, len(batch(0)), 1)
    with LogFile(str(path)) as log:
        assert ends(log) == (END, log.size, 3)


@pytest.mark.parametrize("whole", [True, False])
def test_a_file_that_shrinks_ends_where_it_now_does(tmp_path: Path, whole: bool) -> None:
    """Cut at every point of interest while the first block is looked at."""
    entries = [batch(offset, bytes(300)) for offset in range(12)] + [batch(12, LARGE), message(13, LARGE), batch(14)]
    positions = [sum(map(len, entries[:at])) for at in range(len(entries) + 1)]
    path = tmp_path / "log"
    for cut in sorted({*positions, *(at + more for at in positions for more in (1, 11, 17, 18, 60, 61, 62, 5000))}):
        write(path, entries)
        with LogFile(str(path)) as log:
            found: list[int] = []
            for block in log.blocks(whole=whole):
                if not found:
                    os.truncate(path, min(cut, positions[-1]))
                found += block.position[: block.length]
                assert all(block.valid[: block.length])
            end = positions[len(found)]
            assert found == positions[: len(found)]
            assert sum(end <= cut for end in positions[1:]) <= len(found)
            assert end <= max(cut, 2 * SMALL_BUFFER)  # two buffers may have been read before the cut
            assert (block.status in (END, PARTIAL), block.next_position) == (True, end)


def test_a_file_that_is_emptied(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with LogFile(write(path, [batch(0), batch(1)])) as log:
        os.truncate(path, 0)
        assert ends(log) == (END, 0, 0)
        assert log.entry_at(0, log.size) == Entry(END)
        assert log.batch_at(0, len(batch(0))).length == 0


# --- single entries


def test_entry_at_agrees_with_the_walk(tmp_path: Path) -> None:
    entries = mixed_log()
    short = batch(9)[:8] + (20).to_bytes(4, "big") + batch(9)[12:40]
    for tail in (b"", bytes(17), bytes(18), batch(9)[:-1], short, message(9)[:20]):
        with LogFile(write(tmp_path / "log", [*entries, tail])) as log:
            for block in log.blocks():
                for row in range(block.length):
                    entry = log.entry_at(block.position[row], log.size)
                    assert entry == Entry(BLOCK_FULL, block.size[row], block.last_offset[row])
            assert log.entry_at(block.next_position, log.size).status == block.status
            if block.status == UNDERSIZED:
                assert log.entry_at(block.next_position, log.size).size == block.bad_size


def test_entry_at_any_byte_agrees_with_a_walk_from_there(tmp_path: Path) -> None:
    data = [batch(0), message(1), batch(2)]
    with LogFile(write(tmp_path / "log", data)) as log:
        for stop in (log.size, log.size - 1, len(data[0]) + 20):
            for position in range(stop + 2):
                entry = log.entry_at(position, stop)
                block = next(log.blocks(position, stop))
                if entry.status == BLOCK_FULL:
                    assert (block.size[0], block.last_offset[0]) == (entry.size, entry.last_offset)
                else:
                    assert (block.length, block.status) == (0, entry.status)


def test_batch_at(tmp_path: Path) -> None:
    entries = mixed_log()
    with LogFile(write(tmp_path / "log", entries)) as log:
        everything = table(log)
        for at, entry in enumerate(entries):
            position = everything[0][at]
            block = log.batch_at(position, len(entry))
            assert [getattr(block, name)[0] for name in BATCH_COLUMNS] == [column[at] for column in everything]
            assert (block.length, block.holds(0)) == (1, True)


def test_batch_at_of_a_batch_shorter_than_its_header(tmp_path: Path) -> None:
    short = batch(9)[:8] + (20).to_bytes(4, "big") + batch(9)[12:32]
    with LogFile(write(tmp_path / "log", [short, batch(10)])) as log:
        entry = log.entry_at(0, log.size)
        assert (entry.status, entry.size) == (BLOCK_FULL, 32)
        block = log.batch_at(0, entry.size)
        assert (block.length, block.size[0], block.valid[0]) == (1, 32, 0)


# --- what reading costs, and leaves alone


def test_bytes_read(tmp_path: Path) -> None:
    entries = [batch(offset) for offset in range(200)]
    size = len(batch(0))
    with LogFile(write(tmp_path / "log", entries)) as log:
        assert log.bytes_read == 0
        log.entry_at(5 * size, log.size)
        assert log.bytes_read == 61
        log.batch_at(5 * size, size)
        assert log.bytes_read == 61 + size
        before = log.bytes_read
        table(log)
        swept = log.bytes_read - before
        assert log.size <= swept <= log.size * 1.1  # the tail of each buffer is read again
        before = log.bytes_read
        table(log, 5 * size, 7 * size)
        assert log.bytes_read - before <= 2 * size + 61


def test_reading_leaves_the_file_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "log"
    write(path, mixed_log())
    os.utime(path, ns=(1_000_000_000, 2_000_000_000))  # so old that any read would renew it
    before, content = path.stat(), path.read_bytes()
    os.utime(path, ns=(1_000_000_000, 2_000_000_000))
    with LogFile(str(path)) as log:
        table(log)
        table(log, whole=False)
        log.entry_at(0, log.size)
    after = path.stat()
    assert (after.st_atime_ns, after.st_mtime_ns) == (1_000_000_000, 2_000_000_000)
    assert (after.st_size, after.st_mode, after.st_ino) == (before.st_size, before.st_mode, before.st_ino)
    assert path.read_bytes() == content
    assert [entry.name for entry in tmp_path.iterdir()] == ["log"]


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        LogFile(str(tmp_path / "log"))


def test_two_walks_of_one_file_do_not_disturb_each_other(tmp_path: Path) -> None:
    entries = [batch(offset, bytes(1500)) for offset in range(20)]
    with LogFile(write(tmp_path / "log", entries)) as log:
        first, second = log.blocks(), log.blocks(sum(map(len, entries[:10])))
        offsets: tuple[list[int], list[int]] = ([], [])
        for left, right in zip(first, second, strict=False):
            for block, found in ((left, offsets[0]), (right, offsets[1])):
                for row in range(block.length):
                    start = block.position[row] - block.data_position
                    assert block.data[start : start + block.size[row]] == entries[block.last_offset[row]]
                    found.append(block.last_offset[row])
        assert offsets[1] == list(range(10, 20))
        assert offsets[0] == list(range(len(offsets[0])))
