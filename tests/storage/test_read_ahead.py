"""Reading ahead changes when bytes are read, and nothing else."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from kdump.blocks import BATCH_COLUMNS
from kdump.formats.encode import NewRecord, encode_batch
from kdump.formats.faults import END, PARTIAL
from kdump.storage import log_file, read_ahead
from kdump.storage.log_file import LogFile


@pytest.fixture(autouse=True)
def _small_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_file, "BUFFER_SIZE", 4096)
    monkeypatch.setattr(read_ahead, "RESERVE", 512)


@pytest.fixture
def ahead(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Read ahead however small the file."""
    monkeypatch.setattr(log_file, "READ_AHEAD_FROM", 0)
    monkeypatch.setattr(read_ahead, "pays", lambda: True)
    return monkeypatch


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Entries that end before, at and behind the ends of buffers, some larger than the reserve or a buffer."""
    sizes = [10, 300, 4000, 4096, 5000, 12_000, 700, *range(3900, 4100, 7), *([150] * 400)]
    entries = [encode_batch([NewRecord(n, n, None, os.urandom(size))]) for n, size in enumerate(sizes)]
    file = tmp_path / "log"
    file.write_bytes(b"".join(entries) + b"tail")
    return str(file)


def content(path: str, start: int = 0) -> tuple[list[list[int]], bytes, int, int]:
    """All columns, all bytes, and the end of a walk."""
    columns: list[list[int]] = [[] for _ in BATCH_COLUMNS]
    data = b""
    with LogFile(path) as log:
        for block in log.blocks(start):
            for column, name in zip(columns, BATCH_COLUMNS, strict=True):
                column += getattr(block, name)[: block.length]
            for row in range(block.length):
                assert block.holds(row)
                at = block.position[row] - block.data_position
                data += block.data[at : at + block.size[row]]
        return columns, data, block.status, block.next_position


@pytest.mark.parametrize("start", [0, 1])
def test_the_same_is_found(path: str, ahead: pytest.MonkeyPatch, start: int) -> None:
    first = encode_batch([NewRecord(0, 0, None, bytes(10))])
    found = content(path, start * len(first))
    assert found[2] == END
    assert Path(path).read_bytes()[start * len(first) : -4] == found[1]
    ahead.undo()
    assert content(path, start * len(first)) == found


def test_a_walk_that_is_given_up_leaves_no_thread(path: str, ahead: pytest.MonkeyPatch) -> None:
    before = threading.active_count()
    with LogFile(path) as log:
        blocks = log.blocks()
        next(blocks)
        assert threading.active_count() == before + 1
        blocks.close()
    assert threading.active_count() == before


def test_a_file_that_shrinks_ends(path: str, ahead: pytest.MonkeyPatch) -> None:
    whole = content(path)[0][0]
    with LogFile(path) as log:
        found: list[int] = []
        for block in log.blocks():
            if not found:
                os.truncate(path, 20_000)
            found += block.position[: block.length]
            assert all(block.valid[: block.length])
    assert found == whole[: len(found)] != whole
    assert block.status in (END, PARTIAL)


def test_an_error_reaches_the_reader(path: str, ahead: pytest.MonkeyPatch) -> None:
    with LogFile(path) as log:
        real = log.read_into

        def broken(view: memoryview, position: int) -> int:
            if position > 9000:
                raise OSError(5, "Input/output error", path)
            return real(view, position)

        ahead.setattr(log, "read_into", broken)
        with pytest.raises(OSError, match="Input/output error"):
            list(log.blocks())


@pytest.mark.parametrize(
    ("processors", "load", "expected"),
    [(1, 0.0, False), (2, 0.4, True), (2, 1.0, False), (2, 3.0, False), (16, 3.0, True), (16, None, True)],
)
def test_it_pays_where_a_processor_is_likely_idle(
    processors: int, load: float | None, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def getloadavg() -> tuple[float, float, float]:
        if load is None:
            raise OSError("unobtainable")
        return load, 9.0, 9.0

    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(processors)), raising=False)
    monkeypatch.setattr(os, "getloadavg", getloadavg)
    assert read_ahead.pays() == expected
