"""The rules by which salvage chooses batches, on single logs."""

from __future__ import annotations

import itertools
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kdump.blocks import BatchBlock
from kdump.formats import names
from kdump.formats.batch import CONTROL, CRC_START
from kdump.formats.checksums import crc32c
from kdump.formats.codecs import GZIP, ZSTD, compress
from kdump.formats.encode import NewRecord, encode_message
from kdump.mend import offset_choice, salvage
from kdump.mend.offset_choice import WINDOW
from kdump.mend.ranges import ByteRange, LeftOut
from kdump.mend.salvage import choose_batches
from kdump.mend.survey import survey
from kdump.recovery.startup import Startup
from kdump.storage.planned import PlannedPartition
from kdump.storage.planned_log import LogView
from kdump.storage.recipe import SourceBytes, joined
from tests.recovery.building import NOW, batch, broken, file, make_log, marker, produced, with_last_delta, with_offset
from tests.sampling import sampled

BASE = 100
SIZE = len(batch(BASE))
FAR = 2**31


def sorted_out(
    folder: Path, data: bytes, base: int = BASE, next_base: int | None = None, **more: Any
) -> list[ByteRange | LeftOut]:
    log = make_log(folder, {file(base, "log"): data})
    with LogView(PlannedPartition(log), file(base, "log")) as view:
        return list(choose_batches(view, base, next_base, **more))


def kept(parts: list[ByteRange | LeftOut]) -> list[tuple[int, int]]:
    """The first and the last offset of each stretch that is kept."""
    return [(part.first_offset, part.last_offset) for part in parts if isinstance(part, ByteRange)]


def left_out(parts: list[ByteRange | LeftOut]) -> list[str]:
    return [part.why for part in parts if isinstance(part, LeftOut)]


def test_a_sound_log_is_one_stretch(tmp_path: Path) -> None:
    data = b"".join(batch(offset, 3) for offset in range(BASE, BASE + 30, 3))
    assert sorted_out(tmp_path, data) == [ByteRange(0, len(data), BASE, BASE + 29, 10, False)]


def test_an_empty_log_has_nothing(tmp_path: Path) -> None:
    assert sorted_out(tmp_path, b"") == []


def test_a_bad_batch_in_the_middle_is_a_gap(tmp_path: Path) -> None:
    parts = sorted_out(tmp_path, batch(100) + broken(batch(101)) + batch(102))
    assert [(part.start, part.stop) for part in parts] == [(0, SIZE), (SIZE, 2 * SIZE), (2 * SIZE, 3 * SIZE)]
    assert kept(parts) == [(100, 100), (102, 102)]
    assert left_out(parts)[0].startswith(f"batch 101 (1 record, {SIZE} bytes) fails its CRC: ")


def test_every_byte_is_either_kept_or_left_out_once(tmp_path: Path) -> None:
    data = b"\xff" * 20 + batch(100) + batch(100) + broken(batch(101)) + b"\0" * 100 + batch(103) + batch(102)[:-3]
    parts = sorted_out(tmp_path, data)
    assert [part.start for part in parts] == [0, *(part.stop for part in parts[:-1])]
    assert parts[-1].stop == len(data)
    assert kept(parts) == [(100, 100), (103, 103)]


def test_a_size_field_that_leads_astray(tmp_path: Path) -> None:
    bad = bytearray(batch(101))
    bad[8:12] = (SIZE * 2 - 12).to_bytes(4, "big")
    parts = sorted_out(tmp_path, batch(100) + bytes(bad) + batch(102) + batch(103))
    assert kept(parts) == [(100, 100), (102, 103)]


def test_records_that_cannot_be_read_go_although_the_crc_holds(tmp_path: Path) -> None:
    too_many = bytearray(batch(101, 2))
    too_many[57:61] = (3).to_bytes(4, "big")
    sound = with_last_delta(bytes(too_many), 1)  # with a CRC that holds again
    parts = sorted_out(tmp_path, batch(100) + sound + batch(103))
    assert kept(parts) == [(100, 100), (103, 103)]
    assert left_out(parts) == ["the records of the batch at offset 102 cannot be read"]


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (marker(101, 7, key=b"\0\0\0\7"), "Invalid control record type"),
        (marker(101, 0, key=b"\0\0\0\7"), "Invalid control record type"),
        (marker(101, 7, key=b"\0"), "Invalid value size found for end control record key"),
        (marker(101, 7, value=None), "has no value"),
    ],
)
def test_a_marker_that_the_broker_cannot_read(tmp_path: Path, bad: bytes, why: str) -> None:
    parts = sorted_out(tmp_path, produced(100, 7, transactional=True) + bad + batch(102))
    assert kept(parts) == [(100, 100), (102, 102)]
    assert left_out(parts)[0].startswith("the transaction marker at offset 101: ")
    assert why in left_out(parts)[0]


def test_a_control_batch_of_no_producer_is_no_marker(tmp_path: Path) -> None:
    """As of a new leader of the cluster metadata, whatever its record is."""
    other = marker(101, -1, key=b"\0\0\0\7", attributes=CONTROL)
    assert kept(sorted_out(tmp_path, batch(100) + other + batch(102))) == [(100, 102)]


@pytest.mark.parametrize("suspects", [None, frozenset((SIZE,))])
def test_a_wrapper_too_large_to_be_decompressed_here_stays(tmp_path: Path, suspects: frozenset[int] | None) -> None:
    """Its header tells its last offset only."""
    inner = b"".join(encode_message(NewRecord(at, 1000, None, b"x" * 90), 1, 0) for at in range(9))
    wrapper = encode_message(NewRecord(109, 1000, None, compress(GZIP, inner, magic=1)), 1, GZIP)
    data = batch(100) + wrapper + batch(110)
    parts = sorted_out(tmp_path / "small", data, limit=50, suspects=suspects)
    assert kept(parts) == [(100, 110)]
    assert parts[0] == ByteRange(0, len(data), 100, 110, 3, False)
    assert kept(sorted_out(tmp_path / "large", wrapper, limit=50, suspects=suspects)) == [(109, 109)]
    assert kept(sorted_out(tmp_path / "alone", wrapper, suspects=suspects)) == [(101, 109)]
    out_of_place = batch(100) + wrapper + batch(105) + batch(106) + batch(110)
    assert kept(sorted_out(tmp_path / "a", out_of_place, limit=50, suspects=suspects)) == [(100, 100), (105, 110)]
    assert kept(sorted_out(tmp_path / "b", out_of_place, suspects=suspects)) == [(100, 109), (110, 110)]


def test_a_batch_too_large_to_be_decompressed_here_stays(tmp_path: Path) -> None:
    large = batch(101, 9, attributes=1)
    parts = sorted_out(tmp_path, batch(100) + large + broken(batch(110)) + batch(111), limit=50)
    assert kept(parts) == [(100, 109), (111, 111)]


def test_faults_from_elsewhere(tmp_path: Path) -> None:
    data = batch(100) + batch(101) + batch(102)
    parts = sorted_out(tmp_path, data, faults=[(SIZE, "its timestamp"), (SIZE + 61, "its key")])
    assert kept(parts) == [(100, 100), (102, 102)]
    assert left_out(parts) == ["its timestamp"]


class TestOffsets:
    def test_the_same_batch_twice(self, tmp_path: Path) -> None:
        parts = sorted_out(tmp_path, batch(100) + batch(101) + batch(101) + batch(102))
        assert kept(parts) == [(100, 101), (102, 102)]
        assert left_out(parts) == ["out of place: offset 101"]

    def test_a_base_offset_too_high_is_outvoted_by_what_follows(self, tmp_path: Path) -> None:
        data = batch(100) + with_offset(batch(101), 500) + batch(102) + batch(103)
        parts = sorted_out(tmp_path, data)
        assert kept(parts) == [(100, 100), (101, 101), (102, 103)]
        assert [part.stored_offset for part in parts if isinstance(part, ByteRange)] == [None, 500, None]

    def test_a_base_offset_too_low(self, tmp_path: Path) -> None:
        parts = sorted_out(tmp_path, batch(100) + batch(101) + with_offset(batch(102), 50) + batch(103))
        assert kept(parts) == [(100, 101), (102, 102), (103, 103)]

    def test_a_batch_out_of_place_is_put_into_the_hole_that_it_fills(self, tmp_path: Path) -> None:
        parts = sorted_out(tmp_path, batch(100) + batch(102) + batch(101) + batch(103))
        assert kept(parts) == [(100, 100), (101, 101), (102, 102), (103, 103)]
        assert [part.start // SIZE for part in parts] == [0, 2, 1, 3]
        assert [part.is_moved for part in parts if isinstance(part, ByteRange)].count(True) == 1

    def test_several_of_them(self, tmp_path: Path) -> None:
        order = [100, 101, 106, 107, 108, 109, 104, 102, 103, 105, 110]
        parts = sorted_out(tmp_path, b"".join(map(batch, order)))
        assert next(first for first, _ in kept(parts)) == 100
        assert kept(parts)[-1][1] == 110
        assert left_out(parts) == []

    def test_the_last_one_too(self, tmp_path: Path) -> None:
        assert left_out(sorted_out(tmp_path, batch(100) + batch(102) + batch(101))) == []

    def test_one_that_fills_no_hole_exactly_is_left_out(self, tmp_path: Path) -> None:
        parts = sorted_out(tmp_path, batch(100) + batch(104, 3) + batch(101) + batch(107))
        assert len(left_out(parts)) == 1
        assert kept(parts)[0][0] == 100

    @pytest.mark.parametrize("shift", range(-2, 3))
    def test_wherever_the_window_ends(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shift: int) -> None:
        monkeypatch.setattr(offset_choice, "WINDOW", 8)
        order = list(range(BASE, BASE + 40))
        for at in (4 + shift, 12 + shift, 20 + shift):
            order[at], order[at + 1] = order[at + 1], order[at]
        parts = sorted_out(tmp_path, b"".join(map(batch, order)))
        assert left_out(parts) == []
        ranges = kept(parts)
        assert all(end + 1 == start for (_, end), (start, _) in itertools.pairwise(ranges))
        assert (ranges[0][0], ranges[-1][1]) == (100, 139)

    def test_the_longer_chain_stays(self, tmp_path: Path) -> None:
        strays = with_offset(batch(101), 500) + with_offset(batch(102), 501)
        rest = b"".join(batch(offset) for offset in range(103, 108))
        assert kept(sorted_out(tmp_path, batch(100) + strays + rest)) == [(100, 100), (103, 107)]

    def test_of_two_equally_long_the_one_that_goes_on_without_a_gap(self, tmp_path: Path) -> None:
        data = batch(100) + with_offset(batch(101), 500) + batch(101)
        assert kept(sorted_out(tmp_path, data)) == [(100, 100), (101, 101)]

    def test_of_two_equally_long_the_dense_one(self, tmp_path: Path) -> None:
        sparse = with_last_delta(batch(110), 3)
        assert kept(sorted_out(tmp_path, batch(100) + sparse + batch(111))) == [(100, 100), (111, 111)]

    def test_a_gap_in_the_offsets_is_nothing_bad(self, tmp_path: Path) -> None:
        parts = sorted_out(tmp_path, batch(100) + batch(1000) + batch(5000))
        assert kept(parts) == [(100, 5000)]

    def test_below_the_base_offset(self, tmp_path: Path) -> None:
        parts = sorted_out(tmp_path, with_offset(batch(100), 99) + batch(101))
        assert kept(parts) == [(100, 100), (101, 101)]

    def test_beyond_the_next_segment(self, tmp_path: Path) -> None:
        data = batch(100) + batch(101) + batch(102)
        assert kept(sorted_out(tmp_path, data, next_base=102)) == [(100, 101)]

    def test_a_batch_that_reaches_into_the_next_segment(self, tmp_path: Path) -> None:
        assert kept(sorted_out(tmp_path, batch(100) + batch(101, 5), next_base=103)) == [(100, 100)]

    def test_a_last_batch_far_away_is_not_believed(self, tmp_path: Path) -> None:
        parts = sorted_out(tmp_path, batch(100) + with_offset(batch(101), BASE + FAR))
        assert kept(parts) == [(100, 100)]

    def test_far_away_but_confirmed_by_what_follows(self, tmp_path: Path) -> None:
        data = batch(100) + batch(BASE + FAR) + batch(BASE + FAR + 1)
        assert kept(sorted_out(tmp_path, data)) == [(100, BASE + FAR + 1)]

    def test_far_away_but_right_behind_the_batch_before(self, tmp_path: Path) -> None:
        end = BASE + FAR - 1
        data = batch(end - 1) + batch(end) + batch(end + 1)
        assert kept(sorted_out(tmp_path, data)) == [(end - 1, end + 1)]

    def test_no_batch_holds_offsets_further_apart_than_31_bits(self, tmp_path: Path) -> None:
        wide = with_last_delta(batch(101), -(2**31))
        assert kept(sorted_out(tmp_path, batch(100) + wide + batch(102))) == [(100, 100), (102, 102)]


def test_a_log_on_paper_is_read_where_its_parts_are(tmp_path: Path) -> None:
    name = file(BASE, names.LOG)
    log = make_log(tmp_path, {name: b"garbage" + batch(100) + batch(101) + b"\xff" * 99 + batch(102) + batch(102)})
    directory = PlannedPartition(log)
    directory.put(name, joined([SourceBytes(name, 7 + SIZE, SIZE), SourceBytes(name, 106 + 2 * SIZE, 2 * SIZE)]))
    with LogView(directory, name) as view:
        parts = list(choose_batches(view, BASE, None))
    crc = int.from_bytes(batch(102)[17:21], "big")
    assert parts == [
        ByteRange(0, 2 * SIZE, 101, 102, 2, False),
        LeftOut(
            2 * SIZE,
            3 * SIZE,
            "out of place: offset 102",
            ByteRange(140, 210, 102, 102, 1, True, leader_epoch=0, records=1, crc=crc),
        ),
    ]


@given(order=st.lists(st.integers(BASE, BASE + 12), max_size=14), window=st.sampled_from((2, 4, 6, 4096)))
def test_what_is_kept_increases_and_every_byte_has_its_place(order: list[int], window: int) -> None:
    with TemporaryDirectory() as folder, mock.patch("kdump.mend.offset_choice.WINDOW", window):
        parts = sorted_out(Path(folder), b"".join(map(batch, order)))
    ranges = kept(parts)
    assert all(end < start for (_, end), (start, _) in itertools.pairwise(ranges))
    covered = sorted((part.start, part.stop) for part in parts)
    assert [start for start, _ in covered] == [0, *(stop for _, stop in covered)][: len(covered)]
    assert sum(stop - start for start, stop in covered) == SIZE * len(order)
    if window > len(order):  # all are weighed against each other: no longer chain was to be had
        assert sum(last - first + 1 for first, last in ranges) >= longest(order)


def longest(offsets: list[int]) -> int:
    """How many of the offsets can stay so that they increase."""
    best: list[int] = []
    for at, offset in enumerate(offsets):
        best.append(1 + max((best[n] for n in range(at) if offsets[n] < offset), default=0))
    return max(best, default=0)


@settings(deadline=None)
@given(
    moves=st.lists(st.sampled_from((-2, 0, 0, 0, 0, 0, 1, 3)), max_size=12),
    bad=st.sets(st.integers(0, 11), max_size=2),
    faulty=st.sets(st.integers(0, 11), max_size=2),
)
def test_batches_are_chosen_alike_one_by_one_and_many_together(
    moves: list[int], bad: set[int], faulty: set[int]
) -> None:
    offset, batches = BASE, []
    for number, move in enumerate(moves):
        offset = max(0, offset + move)
        one = batch(offset, 2)
        batches.append(broken(one) if number in bad else one)
        offset += 2
    size = len(batch(BASE, 2))
    faults = [(size * number + 1, "a fault") for number in sorted(faulty)]
    data = b"".join(batches)
    with TemporaryDirectory() as folder:
        together = sorted_out(Path(folder, "a"), data, faults=faults)
        with mock.patch("kdump.mend.salvage._orderly", return_value=None):
            assert together == sorted_out(Path(folder, "b"), data, faults=faults)


def test_thousands_of_batches_are_chosen_alike_one_by_one_and_many_together(tmp_path: Path) -> None:
    batches = [batch(offset) for offset in range(BASE, BASE + 3 * WINDOW)]
    batches[WINDOW + 7] = broken(batches[WINDOW + 7])
    batches[2 * WINDOW], batches[2 * WINDOW + 1] = batches[2 * WINDOW + 1], batches[2 * WINDOW]
    together = sorted_out(tmp_path / "a", b"".join(batches))
    with mock.patch("kdump.mend.salvage._orderly", return_value=None):
        apart = sorted_out(tmp_path / "b", b"".join(batches))
    assert together == apart
    assert sum(part.batches for part in together if isinstance(part, ByteRange)) == 3 * WINDOW - 1


@pytest.mark.parametrize("doubtful", [(), (0,), (5,), (1030,), (5, 1030, 1100)])
@pytest.mark.parametrize("outlier", [None, 3, 1050])
def test_of_many_batches_only_those_in_doubt_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, doubtful: tuple[int, ...], outlier: int | None
) -> None:
    numbers = [*range(1200)]
    if outlier is not None:
        numbers[outlier] = numbers[outlier + 1] = outlier + 1
    data = b"".join(batch(BASE + number) for number in numbers)
    again: list[int] = []
    really = salvage._read_again

    def noted(log: LogView, block: BatchBlock, row: int, limit: int) -> ByteRange | LeftOut:
        again.append(row)
        return really(log, block, row, limit)

    monkeypatch.setattr(salvage, "_read_again", noted)
    parts = sorted_out(tmp_path, data, suspects=frozenset(SIZE * each for each in doubtful))
    assert len(left_out(parts)) == (outlier is not None)
    assert sum(part.batches for part in parts if isinstance(part, ByteRange)) == 1200 - (outlier is not None)
    assert again == list(doubtful)


@pytest.mark.parametrize("seed", sampled(range(120), 15))
def test_a_log_that_was_verified_is_sorted_out_as_one_that_is_decoded(tmp_path: Path, seed: int) -> None:
    """What a deep verification has found of a log does for salvage, which then reads again what is in doubt."""
    random = Random(seed)
    data = random_log(random)
    for _ in range(random.randrange(1, 4)):
        data = changed(data, random)
    log = make_log(tmp_path, {file(BASE, "log"): data})
    found = survey(log, Startup(now=NOW, clean=False), deep=True)
    name = file(BASE, "log")
    with LogView(PlannedPartition(log), name) as view:
        faults = found.faults(name)
        decoded = list(choose_batches(view, BASE, None, faults))
        assert list(choose_batches(view, BASE, None, faults, suspects=found.suspects(name))) == decoded


def random_log(random: Random) -> bytes:
    """Batches of several kinds, one after the other."""
    parts, offset = [], BASE
    for _ in range(random.randrange(2, 30)):
        match random.randrange(5):
            case 0:
                parts.append(produced(offset, 7, transactional=True))
            case 1:
                parts.append(marker(offset, 7, commit=random.random() < 0.5))
            case _:
                parts.append(batch(offset, random.randrange(1, 4), attributes=random.choice((0, 0, GZIP, ZSTD))))
        offset += 3 + random.randrange(2)
    return b"".join(parts)


def changed(data: bytes, random: Random) -> bytes:
    """The log with a byte changed, mostly in a batch whose CRC is made right again."""
    at = random.randrange(len(data))
    spoilt = bytearray(data)
    spoilt[at] ^= 1 << random.randrange(8)
    if random.random() < 0.2:
        return bytes(spoilt)
    start = 0
    while start + 12 <= len(data):
        stop = start + 12 + int.from_bytes(data[start + 8 : start + 12], "big")
        if start + CRC_START <= at < stop <= len(data):
            at_crc = start + CRC_START
            spoilt[at_crc - 4 : at_crc] = crc32c(spoilt[at_crc:stop]).to_bytes(4, "big")
        if stop <= start:
            break
        start = stop
    return bytes(spoilt)
