"""What a fetch gets of a partition: for every offset and all kinds of limits, with and without damage."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from kdump.server import served_log
from kdump.server.cluster import ServedCluster
from kdump.server.partition import ServedPartition
from kdump.server.pieces import Fetched, OnDamage
from kdump.storage.open import open_directory
from tests.serve.data import build

HEADER = struct.Struct(">qi")


def batches(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Base offset, last offset and size of the whole batches; a cut one at the end is left out."""
    position = 0
    while position + 61 <= len(data):
        base, length = HEADER.unpack_from(data, position)
        size = length + 12
        if position + size > len(data):
            return
        yield base, base + struct.unpack_from(">i", data, position + 23)[0], size
        position += size


def content(fetched: Fetched) -> bytes:
    return b"".join(part.file.read(part.start, part.size) for part in fetched.ranges)


def opened(log_dir: Path, on_damage: OnDamage = OnDamage.STOP) -> ServedPartition:
    cluster = ServedCluster([open_directory(str(log_dir))], on_damage, print, lambda line: None)
    served = cluster.partition(1, "codec-none", 0)
    assert served is not None
    return served


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("served") / "data")


@pytest.mark.parametrize("limit", [0, 1, 500, 3000, 7000, 20_000, 1 << 20])
@pytest.mark.parametrize("is_first", [True, False])
def test_every_offset(limit: int, is_first: bool, sound: Path) -> None:
    served = opened(sound)
    whole = list(batches(content(served.fetch(0, served.end_offset, 1 << 30, is_first=True))))
    assert [base for base, _, _ in whole] == [0, *(last + 1 for _, last, _ in whole[:-1])]
    for offset in range(served.end_offset):
        fetched = served.fetch(offset, served.end_offset, limit, is_first=is_first)
        found = list(batches(content(fetched)))
        base, last, size = next(each for each in whole if each[1] >= offset)
        if limit < size and not is_first:
            assert fetched.size == 0
            continue
        assert found[0] == (base, last, size)
        assert found == whole[whole.index(found[0]) :][: len(found)]
        assert fetched.size <= max(limit, size)
        assert served.fetch_known(offset, served.end_offset, limit, is_first=is_first).size == fetched.size
        assert fetched.next_offset > offset


def test_bytes_in_a_row_are_one_range(sound: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served_log, "CHECKED_AT_ONCE", 0)
    served = opened(sound)
    last = served.log.segments[-1].base_offset
    served.fetch(last - 1, last, 1, is_first=True)  # what comes before it is checked later, as a piece of its own
    ranges = served.fetch(0, last, 1 << 30, is_first=True).ranges
    assert len(served._segments[0]._pieces) == 2
    assert [(part.start, part.size) for part in ranges] == [(0, ranges[0].file.size)]


def test_what_is_checked_as_a_whole_needs_no_check(sound: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served = opened(sound)
    assert served.needs_check(0, 1 << 30)
    served.check_ahead(0, 1 << 30)
    monkeypatch.setattr(served, "fetch_known", None)
    assert not served.needs_check(0, 1 << 30)


def test_it_ends_before_the_offset_where_it_is_to_stop(sound: Path) -> None:
    served = opened(sound)
    whole = list(batches(content(served.fetch(0, served.end_offset, 1 << 30, is_first=True))))
    for base, _, _ in whole[1:]:
        found = list(batches(content(served.fetch(0, base, 1 << 30, is_first=True))))
        assert found == [each for each in whole if each[1] < base]


def test_whoever_reads_on_gets_everything_once(sound: Path) -> None:
    for limit in (1, 700, 5000, 9999):
        served = opened(sound)
        offset, seen = 0, []
        while offset < served.end_offset:
            found = list(batches(content(served.fetch(offset, served.end_offset, limit, is_first=True))))
            seen += [each for each in found if each[1] >= offset]
            offset = seen[-1][1] + 1
        assert [base for base, _, _ in seen] == [0, *(last + 1 for _, last, _ in seen[:-1])]


def test_what_was_checked_ahead_needs_no_thread(sound: Path) -> None:
    served = opened(sound)
    end = served.end_offset
    unchecked = opened(sound)
    unchecked.__dict__["_end_of_log"] = end
    assert unchecked.needs_check(0, 1 << 20)
    unchecked.check_ahead(0, 1 << 20)
    assert not unchecked.needs_check(0, 1 << 20)
    expected = content(served.fetch(0, end, 1 << 20, is_first=True))
    assert content(unchecked.fetch_known(0, end, 1 << 20, is_first=True)) == expected


@pytest.mark.parametrize("segment", [0, 1])
@pytest.mark.parametrize("batch", [0, 1, 2])
def test_no_damaged_byte_is_in_any_answer(segment: int, batch: int, tmp_path: Path) -> None:
    fault = f"flip-payload-bit:topic=codec-none,partition=0,segment={segment},batch={batch}"
    log_dir = build(tmp_path / "data", [fault])
    good = set(batches(content(opened(log_dir, OnDamage.SKIP).fetch(0, 80, 1 << 30, is_first=True))))
    served = opened(log_dir, OnDamage.STOP)
    for offset in range(served.end_offset):
        found = list(batches(content(served.fetch(offset, served.end_offset, 1 << 30, is_first=True))))
        assert set(found) <= good
        assert found[-1][1] == served.end_offset - 1
    skipping = opened(log_dir, OnDamage.SKIP)
    assert skipping.end_offset == 80
    for offset in range(80):
        found = list(batches(content(skipping.fetch(offset, 80, 1 << 30, is_first=True))))
        assert set(found) <= good
        assert found == sorted(found)
        assert not found or found[-1][1] == 79
