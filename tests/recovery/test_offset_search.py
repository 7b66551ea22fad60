"""How each release finds an offset in a segment while it loads a log."""

from __future__ import annotations

import zlib
from pathlib import Path
from struct import pack_into

import pytest

from kdump.errors import LoadError
from kdump.formats.codecs import GZIP
from kdump.formats.encode import NewRecord, encode_batch, encode_wrapper
from kdump.recovery.offset_search import find
from kdump.releases import KafkaRelease
from kdump.settings.loading import OffsetSearch
from kdump.storage.planned import PlannedPartition
from kdump.storage.planned_log import LogView
from tests.recovery.building import file, make_log

LAST, FOUND, FIRST = OffsetSearch.BY_LAST, OffsetSearch.BY_LAST_READING_FOUND, OffsetSearch.BY_FIRST


def search(folder: Path, content: bytes, offset: int, way: OffsetSearch) -> int | None:
    directory = PlannedPartition(make_log(folder, {file(0, "log"): content}))
    with LogView(directory, file(0, "log")) as log:
        return find(log, offset, 0, way)


def records(first: int, count: int) -> list[NewRecord]:
    return [NewRecord(first + number, 1000, None, b"value") for number in range(count)]


def wrapper(first: int, *, sound: bool = True) -> bytes:
    """A v1 wrapper of two messages, its checksum right in any case."""
    data = bytearray(encode_wrapper(records(first, 2), 1, GZIP))
    if not sound:
        data[34:36] = b"no"
        pack_into(">I", data, 12, zlib.crc32(data[16:]))
    return bytes(data)


@pytest.mark.parametrize(
    ("release", "way"), [("3.9", LAST), ("4.0", LAST), ("4.0.1", FOUND), ("4.1", FIRST), ("4.3", FIRST)]
)
def test_releases(release: str, way: OffsetSearch) -> None:
    assert OffsetSearch.of(KafkaRelease(release)) is way


@pytest.mark.parametrize("way", OffsetSearch)
def test_offsets_in_order(way: OffsetSearch, tmp_path: Path) -> None:
    parts = [encode_batch(records(0, 2)), encode_batch(records(2, 3)), encode_batch(records(9, 1))]
    ends = [len(parts[0]), len(parts[0] + parts[1])]
    found = [search(tmp_path / str(offset), b"".join(parts), offset, way) for offset in (0, 1, 2, 4, 5, 9, 10)]
    assert found == [0, 0, ends[0], ends[0], ends[1], ends[1], None]


@pytest.mark.parametrize("way", OffsetSearch)
@pytest.mark.parametrize("rows", [1, 2, 3, 2048])
def test_every_offset_of_a_log_with_holes(
    way: OffsetSearch, rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many batches a block holds: the batch that has the offset, else the first one behind it, else none."""
    monkeypatch.setattr("kdump.storage.log_reader.BATCH_ROWS", rows)
    held = [(0, 2), (2, 5), (9, 3), (12, 1), (20, 4), (24, 2)]
    starts, data = [], b""
    for first, count in held:
        starts.append(len(data))
        data += encode_batch(records(first, count))
    for offset in range(27):
        expected = next((at for at, (first, count) in zip(starts, held, strict=True) if offset < first + count), None)
        assert search(tmp_path / str(offset), data, offset, way) == expected, offset


def test_of_batches_that_overlap_the_one_that_begins_there_is_found(tmp_path: Path) -> None:
    """The batches stand as 0-4, 3-5."""
    first = encode_batch(records(0, 5))
    data = first + encode_batch(records(3, 3))
    assert [search(tmp_path / str(offset), data, offset, FIRST) for offset in (2, 3, 4, 5)] == [
        0, len(first), len(first), len(first),
    ]  # fmt: skip


@pytest.mark.parametrize("way", OffsetSearch)
def test_an_empty_log_has_no_offset(way: OffsetSearch, tmp_path: Path) -> None:
    assert search(tmp_path, b"", 0, way) is None


@pytest.mark.parametrize("way", OffsetSearch)
def test_a_wrapper_is_found_by_any_of_its_offsets(way: OffsetSearch, tmp_path: Path) -> None:
    data = wrapper(0) + wrapper(2) + encode_batch(records(4, 2))
    found = [search(tmp_path / str(offset), data, offset, way) for offset in range(7)]
    second = len(wrapper(0))
    third = second + len(wrapper(2))
    assert found == [0, 0, second, second, third, third, None]


def test_first_offsets_decide_from_4_1_on(tmp_path: Path) -> None:
    """The batches stand as 0-1, 7-9, 2-4."""
    parts = [encode_batch(records(0, 2)), encode_batch(records(7, 3)), encode_batch(records(2, 3))]
    data = b"".join(parts)
    assert search(tmp_path / "a", data, 2, FIRST) == len(parts[0])
    assert search(tmp_path / "b", data, 8, FIRST) is None
    assert search(tmp_path / "c", data, 8, LAST) == len(parts[0])


@pytest.mark.parametrize(
    ("way", "offset", "fails"),
    [(LAST, 1, False), (LAST, 3, False), (FOUND, 1, True), (FOUND, 3, False), (FIRST, 1, True), (FIRST, 3, True)],
)
def test_a_wrapper_that_cannot_be_read(way: OffsetSearch, offset: int, fails: bool, tmp_path: Path) -> None:
    """4.0 asks only the batch that it found, 4.1 all before it too."""
    broken = wrapper(0, sound=False)
    data = broken + wrapper(2)
    if not fails:
        assert search(tmp_path, data, offset, way) == (len(broken) if offset > 1 else 0)
        return
    with pytest.raises(LoadError, match="Not in GZIP format") as caught:
        search(tmp_path, data, offset, way)
    assert caught.value.exception == "org.apache.kafka.common.KafkaException"


def test_a_wrapper_alone(tmp_path: Path) -> None:
    data = wrapper(0)
    assert [search(tmp_path / str(offset), data, offset, FIRST) for offset in range(3)] == [0, 0, None]
    with pytest.raises(LoadError, match="Not in GZIP format"):
        search(tmp_path / "broken", wrapper(0, sound=False), 1, FIRST)


def test_a_batch_that_begins_at_the_offset_is_found_before_one_that_goes_back(tmp_path: Path) -> None:
    """The batches stand as 0-1, 4-5, 2-2."""
    parts = [encode_batch(records(0, 2)), encode_batch(records(4, 2)), encode_batch(records(2, 1))]
    data = b"".join(parts)
    assert [search(tmp_path / str(offset), data, offset, FIRST) for offset in (3, 4, 5)] == [
        len(parts[0]), len(parts[0]), None,
    ]  # fmt: skip


@pytest.mark.parametrize("way", OffsetSearch)
@pytest.mark.parametrize("offset", [1, 9])
def test_what_is_no_batch_ends_a_search_that_comes_so_far(way: OffsetSearch, offset: int, tmp_path: Path) -> None:
    data = encode_batch(records(0, 2)) + bytes(30)
    if offset == 1 and way is not FIRST:
        assert search(tmp_path, data, offset, way) == 0
        return
    with pytest.raises(LoadError, match="Found record size 0 smaller than"):
        search(tmp_path, data, offset, way)
