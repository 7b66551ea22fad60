"""A walk by several processes gives what one would, in the same order, as far as it goes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kdump.blocks import BatchBlock
from kdump.formats.encode import NewRecord, encode_batch, encode_message
from kdump.storage import regions
from kdump.storage.log_reader import LogFile
from kdump.storage.regions import NO_STATE, walk_regions

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that begin as copies of this one")

SIZE = 1000
ROOT = Path(__file__).resolve().parent.parent.parent


def batch(offset: int, size: int) -> bytes:
    return encode_batch([NewRecord(offset, 5, None, bytes([offset % 256]) * size)])


def small_log() -> list[bytes]:
    """Some hundred entries of two magics, none longer than a region of SIZE bytes."""
    sizes = [10, 300, 930, 900, 700, *range(1, 200, 3), 928, 929, *([80] * 100)]
    return [
        batch(n, size) if n % 3 else encode_message(NewRecord(n, 5, None, bytes(size // 2)), n % 2)
        for n, size in enumerate(sizes)
    ]


class Copying:
    """Writes entries to a file; the state is how many there were, the remark that and how many bytes came of them.

    It gives up before an entry with the byte 0xEE in its place `at`, and fails at one with 0xEF.
    """

    def __init__(self, target: int) -> None:
        self.target = target
        self.data = b""
        self.count = 0

    @property
    def held(self) -> int:
        return len(self.data)

    def steps(self, block: BatchBlock) -> Iterator[int]:
        for row in range(block.length):
            assert block.holds(row)
            at = block.position[row] - block.data_position
            entry = bytes(block.data[at : at + block.size[row]])
            if b"\xee" * 8 in entry:
                return
            if b"\xef" * 8 in entry:
                raise MemoryError
            if b"\xed" * 8 in entry:
                os.kill(os.getpid(), signal.SIGKILL)
            self.data += entry
            self.count += 1
            yield block.position[row] + block.size[row]

    def give(self, state: int) -> tuple[int, bytes]:
        os.write(self.target, self.data)
        state = max(0, state) + self.count
        remark = b"%d %d" % (state, len(self.data)) if self.count else b""
        self.forget()
        return state, remark

    def forget(self) -> None:
        self.data = b""
        self.count = 0


class Copy:
    """What a walk wrote and returned."""

    def __init__(self, folder: Path, data: bytes, processes: int, size: int = SIZE, stop: int | None = None) -> None:
        path = folder / "log"
        path.write_bytes(data)
        with LogFile(str(path)) as log, (folder / "copy").open("w+b", buffering=0) as copy:
            works = [Copying(copy.fileno()) for _ in range(processes)]
            stop = log.size if stop is None else stop
            self.position, self.state, self.remarks = walk_regions(log, stop, works, size)
            self.data = os.pread(copy.fileno(), 1 << 20, 0)


@pytest.mark.parametrize("processes", [1, 2, 3, 5])
@pytest.mark.parametrize("most_held", [0, 1000, 1 << 20])
def test_everything_in_order(tmp_path: Path, processes: int, most_held: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regions, "MAX_HELD", most_held)
    entries = small_log()
    whole = b"".join(entries)
    copy = Copy(tmp_path, whole, processes)
    assert copy.data == whole
    assert (copy.position, copy.state) == (len(whole), len(entries))
    counts, sizes = zip(*(map(int, remark.split()) for remark in copy.remarks), strict=True)
    assert list(counts) == sorted(set(counts))
    assert sum(sizes) == len(whole)
    assert len(counts) == (len(entries) if most_held == 0 else len(counts))


@pytest.mark.parametrize("size", [17, 64, 100, 333, 4096, 1 << 20])
def test_it_goes_as_far_as_entries_are_short_enough(tmp_path: Path, size: int) -> None:
    entries = small_log()
    copy = Copy(tmp_path, b"".join(entries), 2, size)
    assert b"".join(entries).startswith(copy.data)
    assert copy.position == len(copy.data)
    assert copy.position == sum(map(len, entries[: copy.state if copy.state != NO_STATE else 0]))
    left = entries[max(0, copy.state) :]
    assert not left or len(left[0]) > size


def test_entries_longer_than_a_region_up_to_where_there_is_room(tmp_path: Path) -> None:
    """An entry may take all of the region after the one that it begins in, which then has no work."""
    entries = [batch(n, 1700) for n in range(3)]
    copy = Copy(tmp_path, b"".join(entries), 2)
    assert copy.position == sum(map(len, entries[: copy.state]))
    assert copy.state >= 1


@pytest.mark.parametrize(
    "tail",
    [
        bytes(17),
        bytes(18),
        bytes(5000),
        batch(9, 100)[:8] + (20).to_bytes(4, "big") + batch(9, 100)[12:],  # shorter than its header
        batch(9, 100)[:8] + (1 << 30).to_bytes(4, "big") + batch(9, 100)[12:],
        batch(9, 100)[:8] + b"\xff" * 4 + batch(9, 100)[12:],
        batch(9, 100)[:-1],
    ],
)
@pytest.mark.parametrize("processes", [1, 3])
def test_it_ends_before_what_is_not_ordinary(tmp_path: Path, tail: bytes, processes: int) -> None:
    for count in (0, 1, 20, 100):
        entries = small_log()[:count]
        sound = b"".join(entries)
        copy = Copy(tmp_path, sound + tail, processes)
        assert (copy.data, copy.position, max(0, copy.state)) == (sound, len(sound), count)


def test_a_walk_that_stops_earlier(tmp_path: Path) -> None:
    entries = small_log()
    ends = [sum(map(len, entries[:n])) for n in range(len(entries) + 1)]
    for stop in (0, 17, 999, 1000, 1001, ends[7], ends[7] - 1, ends[50] + 1, ends[-1] - 1):
        copy = Copy(tmp_path, b"".join(entries), 2, stop=stop)
        assert copy.position == len(copy.data) == max(end for end in ends if end <= stop)


@pytest.mark.parametrize("processes", [1, 2, 3])
@pytest.mark.parametrize("mark", [b"\xee", b"\xef"])
def test_it_ends_before_what_a_process_does_not_do(tmp_path: Path, processes: int, mark: bytes) -> None:
    entries = small_log()
    for at in (0, 3, 30, len(entries)):
        marked = [*entries[:at], batch(1, 10)[:-8] + mark * 8, *entries[at:]]
        copy = Copy(tmp_path, b"".join(marked), processes)
        given = max(0, copy.state)
        assert copy.data == b"".join(marked[:given])
        assert copy.position == len(copy.data)
        assert given <= at
        assert sum(map(len, marked[given:at])) <= 2 * SIZE  # it was no more than the region's work


def test_a_process_that_is_killed_is_noticed(tmp_path: Path) -> None:
    entries = small_log()
    entries[50:50] = [batch(1, 10)[:-8] + b"\xed" * 8]
    for processes in (1, 3):
        with pytest.raises(ChildProcessError, match="was ended"):
            Copy(tmp_path, b"".join(entries), processes)


def test_an_error_of_writing_is_raised(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"".join(small_log()))
    with LogFile(str(path)) as log, path.open("rb") as source, pytest.raises(OSError, match="Bad file descriptor"):
        walk_regions(log, log.size, [Copying(source.fileno()) for _ in range(3)], SIZE)


def test_an_error_of_reading_is_left_to_who_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = b"".join(small_log())
    read_into = LogFile.read_into

    def failing(self: LogFile, view: memoryview, position: int) -> int:
        if position >= 5 * SIZE:
            raise OSError(5, "Input/output error")
        return read_into(self, view, position)

    monkeypatch.setattr(LogFile, "read_into", failing)
    copy = Copy(tmp_path, whole, 2)
    assert copy.data == whole[: copy.position]
    assert 3 * SIZE < copy.position <= 5 * SIZE


def test_a_file_that_shrinks(tmp_path: Path) -> None:
    whole = b"".join(small_log())
    path = tmp_path / "log"
    for left in (0, 10, 999, 5000, 5017, 7777):
        path.write_bytes(whole)
        with LogFile(str(path)) as log, (tmp_path / "copy").open("w+b", buffering=0) as copy:
            os.truncate(path, left)
            position, _, _ = walk_regions(log, len(whole), [Copying(copy.fileno()) for _ in range(3)], SIZE)
            assert os.pread(copy.fileno(), 1 << 20, 0) == whole[:position]
        assert max(0, left - 2 * SIZE) <= position <= left


def test_where_no_process_can_be_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    fork = os.fork

    def failing() -> int:
        calls.append(1)
        if len(calls) == 2:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        return fork()

    monkeypatch.setattr(os, "fork", failing)
    copy = Copy(tmp_path, b"".join(small_log()), 3)
    assert (copy.data, copy.position, copy.state) == (b"", 0, NO_STATE)


def test_no_descriptor_and_no_process_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pids = []
    fork = os.fork

    def noted() -> int:
        if pid := fork():
            pids.append(pid)
        return pid

    monkeypatch.setattr(os, "fork", noted)
    before = sorted(os.listdir("/dev/fd"))
    Copy(tmp_path, b"".join(small_log()), 3)
    assert sorted(os.listdir("/dev/fd")) == before
    assert len(pids) == 3
    for pid in pids:
        with pytest.raises(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


SLEEPER = """
import os, sys, time
from kdump.storage.log_reader import LogFile
from kdump.storage.regions import walk_regions

class Slow:
    held = 0
    def steps(self, block):
        time.sleep(0.2)
        yield block.next_position
    def give(self, state):
        os.write(1, b"<")
        time.sleep(0.05)
        os.write(1, b">")
        return 0, b""
    def forget(self):
        pass

with LogFile(sys.argv[1]) as log:
    try:
        walk_regions(log, log.size, [Slow(), Slow()], 1000)
    except KeyboardInterrupt:
        os.write(1, b"interrupted")
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_all_processes_end_with_the_first_one(tmp_path: Path, number: signal.Signals) -> None:
    """Interrupted, it lets results be finished that were begun; even where it is killed no other one stays."""
    path = tmp_path / "log"
    path.write_bytes(b"".join(small_log()) * 10)
    with subprocess.Popen(
        [sys.executable, "-c", SLEEPER, str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        assert child.stdout.read(1) == b"<"
        child.send_signal(number)
        # to its end, which is that of all processes that could write to it
        out = (b"<" + child.stdout.read()).decode()
        assert child.stderr.read() == b""
    assert out.endswith("interrupted") == (number == signal.SIGINT)
    assert out.removesuffix("interrupted").replace("<>", "") == ""
    assert len(out) < 40
