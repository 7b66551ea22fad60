"""A scan gives every batch that can be trusted and says where the others are, whatever the damage is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.formats.codecs import GZIP, LZ4
from kdump.formats.encode import NewRecord, encode_message, encode_wrapper
from kdump.formats.words import byte_words
from kdump.storage import log_reader
from kdump.storage import scan as scan_module
from kdump.storage.damage import Damage, DamageKind
from kdump.storage.log_reader import BUFFER_SIZE, LogFile
from kdump.storage.scan import MAX_RELATIVE_OFFSET, scan
from tests.storage.building import (
    KERNELS,
    batch,
    batches,
    flipped,
    place,
    scanned,
    segment_file,
    use_kernels,
    with_size,
    with_valid_crc,
)

MAX_OFFSET = (1 << 63) - 1


@pytest.fixture(params=KERNELS, autouse=True)
def either_kernels(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        use_kernels(request.param, patch)
        yield


def message(offset: int, magic: int = 1, value: bytes = b"v") -> bytes:
    return encode_message(NewRecord(offset, 1000 + offset, None, value), magic)


def test_a_sound_log_is_all_runs(tmp_path: Path) -> None:
    path = segment_file(tmp_path, b"".join(batches(5)))
    assert scanned(path) == [1, 3, 5, 7, 9]


def test_an_empty_log_has_nothing(tmp_path: Path) -> None:
    assert scanned(segment_file(tmp_path, b"")) == []


def test_a_bad_crc_in_the_middle_costs_one_batch(tmp_path: Path) -> None:
    parts = batches(5)
    bad = flipped(parts[2], -3)
    path = segment_file(tmp_path, b"".join([*parts[:2], bad, *parts[3:]]))
    one, two, damage, four, five = scanned(path)
    assert (one, two, four, five) == (1, 3, 7, 9)
    assert isinstance(damage, Damage)
    assert (damage.position, damage.resumed) == (2 * len(bad), 3 * len(bad))
    assert f"batch 4\N{EN DASH}5 (2 records, {len(bad)} bytes) fails its CRC: stored 0x" in damage.text


def test_bad_crcs_one_after_the_other_are_each_said(tmp_path: Path) -> None:
    parts = batches(6)
    for n in (1, 2, 4):
        parts[n] = flipped(parts[n], -1)
    found = scanned(segment_file(tmp_path, b"".join(parts)))
    size = len(parts[0])
    assert [item for item in found if isinstance(item, int)] == [1, 7, 11]
    damage = [(item.position // size, item.resumed // size) for item in found if isinstance(item, Damage)]
    assert damage == [(1, 3), (4, 5)]


@pytest.mark.parametrize("is_next", [False, True])
@pytest.mark.parametrize("too_high", [1 << 20, (1 << 31) - 10, 1 << 33, 1 << 62])
def test_a_base_offset_that_is_too_high_hides_no_batch_behind_damage(
    tmp_path: Path, too_high: int, is_next: bool
) -> None:
    """No CRC covers it: the batch is valid, and so are those behind it."""
    parts = batches(6)
    at = 2 if is_next else 1
    parts[at] = ((2 * at) | too_high).to_bytes(8, "big") + parts[at][8:]
    parts[3] = with_size(parts[3], 1 << 30)
    found = scanned(segment_file(tmp_path, b"".join(parts)))
    assert [item for item in found if isinstance(item, int)][-2:] == [9, 11]
    assert [item.resumed for item in found if isinstance(item, Damage)] == [4 * len(parts[0])]


def test_the_end_behind_a_base_offset_that_is_too_high_is_a_batch_that_is_cut_off(tmp_path: Path) -> None:
    parts = batches(3)
    parts[1] = (2 | 1 << 20).to_bytes(8, "big") + parts[1][8:]
    damage = scanned(segment_file(tmp_path, b"".join(parts)[:-5]))[-1]
    assert isinstance(damage, Damage)
    assert damage.kind is DamageKind.TORN


def test_the_first_and_the_last_batch_may_be_bad(tmp_path: Path) -> None:
    parts = batches(3)
    size = len(parts[0])
    path = segment_file(tmp_path, flipped(parts[0], -1) + parts[1] + flipped(parts[2], -1))
    first, good, last = scanned(path)
    assert isinstance(first, Damage)
    assert isinstance(last, Damage)
    assert (first.position, first.resumed, good) == (0, size, 3)
    assert (last.position, last.resumed) == (2 * size, 3 * size)


@pytest.mark.parametrize("zeros", [18, 61, 4096, BUFFER_SIZE + 7])
def test_zeros_up_to_the_end(tmp_path: Path, zeros: int) -> None:
    data = batch(0)
    good, damage = scanned(segment_file(tmp_path, data + bytes(zeros)))
    assert good == 1
    assert isinstance(damage, Damage)
    assert (place(damage), damage.kind) == ((len(data), len(data) + zeros), DamageKind.ZEROS)
    assert damage.text == f"{byte_words(zeros)} of zeros up to the end (preallocated, or never written)"


def test_damage_says_where_it_is(tmp_path: Path) -> None:
    path = segment_file(tmp_path, batch(0) + bytes(20))
    _, damage = scanned(path)
    assert isinstance(damage, Damage)
    assert damage.path == path
    assert str(damage) == f"{path}: byte {len(batch(0))}: {damage.text}"
    assert str(damage._replace(path="")) == f"byte {len(batch(0))}: {damage.text}"


def test_a_log_of_nothing_but_zeros(tmp_path: Path) -> None:
    (damage,) = scanned(segment_file(tmp_path, bytes(5000)))
    assert isinstance(damage, Damage)
    assert place(damage) == (0, 5000)
    assert damage.text.startswith("5000 bytes of zeros")


def test_zeros_in_the_middle_are_passed(tmp_path: Path) -> None:
    parts = batches(5)
    size = len(parts[0])
    parts[1] = parts[2] = bytes(size)
    first, damage, fourth, fifth = scanned(segment_file(tmp_path, b"".join(parts)))
    assert (first, fourth, fifth) == (1, 7, 9)
    assert isinstance(damage, Damage)
    assert place(damage) == (size, 3 * size)
    assert damage.text == "Found record size 0 smaller than minimum record overhead (14)"


def test_every_cut_leaves_the_batches_before_it(tmp_path: Path) -> None:
    parts = batches(3)
    data = b"".join(parts)
    size = len(parts[0])
    for cut in range(len(data) + 1):
        found = scanned(segment_file(tmp_path, data[:cut]))
        whole, rest = divmod(cut, size)
        assert [item for item in found if isinstance(item, int)] == [1, 3, 5][:whole]
        damage = [item for item in found if isinstance(item, Damage)]
        assert [place(item) for item in damage] == ([(whole * size, cut)] if rest else [])
        if rest >= 27:
            first = 2 * whole
            text = f"the log ends inside batch {first}\N{EN DASH}{first + 1}: {rest} of {size} bytes are there"
            assert [item.text for item in damage] == [text]
        elif damage and damage[0].kind is DamageKind.ZEROS:
            assert not any(data[whole * size : cut])
        elif damage:
            assert damage[0].text.startswith("the log ends inside the header of a batch: ")


def test_every_bit_flip_is_seen_or_lies_outside_the_crc(tmp_path: Path) -> None:
    parts = batches(3)
    size = len(parts[0])
    for bit in range(8 * size):
        middle = flipped(parts[1], bit // 8, 1 << bit % 8)
        found = scanned(segment_file(tmp_path, parts[0] + middle + parts[2]))
        good = [item for item in found if isinstance(item, int)]
        damage = [item for item in found if isinstance(item, Damage)]
        assert good[0] == 1
        assert good[-1] == 5
        if damage:
            assert good == [1, 5]
            assert place(damage[0]) == (size, 2 * size)
        else:  # base offset, leader epoch, and the magic where it stays above 1
            assert bit // 8 in {*range(8), 12, 13, 14, 15, 16}


@pytest.mark.parametrize("size", [0, 13, -1, -(1 << 31)])
def test_a_size_field_that_no_entry_can_have(tmp_path: Path, size: int) -> None:
    parts = batches(3)
    length = len(parts[0])
    parts[1] = with_size(parts[1], size)
    first, damage, third = scanned(segment_file(tmp_path, b"".join(parts)))
    assert (first, third) == (1, 5)
    text = f"Found record size {size} smaller than minimum record overhead (14)"
    assert isinstance(damage, Damage)
    assert (*place(damage), damage.text) == (length, 2 * length, text)


def test_a_size_field_that_leads_over_the_end(tmp_path: Path) -> None:
    parts = batches(3)
    length = len(parts[0])
    parts[1] = with_size(parts[1], 1 << 30)
    first, damage, third = scanned(segment_file(tmp_path, b"".join(parts)))
    assert (first, third) == (1, 5)
    assert isinstance(damage, Damage)
    assert place(damage) == (length, 2 * length)
    assert damage.text == "the size field of a batch points past the end of the log"


@pytest.mark.parametrize("off", [-40, -1, 1, 17])
def test_a_size_field_that_leads_into_a_batch(tmp_path: Path, off: int) -> None:
    parts = batches(4)
    length = len(parts[0])
    parts[1] = with_size(parts[1], length - 12 + off)
    first, damage, third, fourth = scanned(segment_file(tmp_path, b"".join(parts)))
    assert (first, third, fourth) == (1, 5, 7)
    assert isinstance(damage, Damage)
    assert place(damage) == (length, 2 * length)


def test_a_size_field_that_leads_over_good_batches(tmp_path: Path) -> None:
    """It ends where another batch starts, but the batches in between are not lost."""
    parts = batches(5)
    length = len(parts[0])
    parts[1] = with_size(parts[1], 3 * length - 12)
    found = scanned(segment_file(tmp_path, b"".join(parts)))
    assert [item for item in found if isinstance(item, int)] == [1, 5, 7, 9]
    assert [place(item) for item in found if isinstance(item, Damage)] == [(length, 2 * length)]


def test_a_v2_batch_smaller_than_its_header(tmp_path: Path) -> None:
    parts = batches(3)
    length = len(parts[0])
    parts[1] = with_size(parts[1], 40)
    first, damage, third = scanned(segment_file(tmp_path, b"".join(parts)))
    assert (first, third) == (1, 5)
    assert isinstance(damage, Damage)
    assert place(damage) == (length, 2 * length)
    assert "the size 52 is smaller than the minimum allowed overhead 61" in damage.text


def test_a_short_v2_batch_whose_header_runs_over_the_end(tmp_path: Path) -> None:
    good = batch(0)
    short = with_size(batch(2), 20)[:32]
    first, damage = scanned(segment_file(tmp_path, good + short))
    assert first == 1
    assert isinstance(damage, Damage)
    assert place(damage) == (len(good), len(good) + 32)
    assert "its header runs over the end" in damage.text


def test_a_batch_inside_a_value_is_no_batch_of_the_log(tmp_path: Path) -> None:
    """A topic may carry batches as values; those of a bad batch are not taken for the log's."""
    nested = batch(3, value=b"nested")
    parts = [batch(0), flipped(batch(2, value=nested), -1), batch(4, value=nested), batch(6)]
    first, damage, third, fourth = scanned(segment_file(tmp_path, b"".join(parts)))
    assert (first, third, fourth) == (1, 5, 7)
    assert isinstance(damage, Damage)
    assert place(damage) == (len(parts[0]), len(parts[0]) + len(parts[1]))


def test_offsets_of_another_place_are_not_resumed_at(tmp_path: Path) -> None:
    """Behind damage only a batch counts whose offsets lie after the last good one, in the segment's range."""
    good, later = batch(10), batch(20)
    stale, far = batch(4), batch(10 + MAX_RELATIVE_OFFSET)
    garbage = b"\x00garbage"
    path = segment_file(tmp_path, good + garbage + stale + far + later, 10)
    first, damage, last = scanned(path, 10)
    assert (first, last) == (11, 21)
    assert isinstance(damage, Damage)
    assert damage.resumed == len(good + garbage + stale + far)


def test_base_offsets_near_the_largest(tmp_path: Path) -> None:
    base = MAX_OFFSET - 9
    parts = [batch(base + 2 * n) for n in range(5)]
    parts[1] = flipped(parts[1], -1)
    parts[3] = with_size(parts[3], 5)
    found = scanned(segment_file(tmp_path, b"".join(parts), base), base)
    assert [item for item in found if isinstance(item, int)] == [base + 1, base + 5, MAX_OFFSET]
    size = len(parts[0])
    assert [place(item) for item in found if isinstance(item, Damage)] == [(size, 2 * size), (3 * size, 4 * size)]


@pytest.mark.parametrize("shift", range(-64, 8, 4))
def test_resumes_wherever_the_buffers_end(tmp_path: Path, shift: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next good batch starts around the place where one searched piece ends and the next begins."""
    monkeypatch.setattr(scan_module, "FIRST_WINDOW", 256)
    monkeypatch.setattr(scan_module, "BUFFER_SIZE", 1024)
    good, later = batch(0), batch(2)
    for pieces in (256, 256 + 1024 - 60, 256 + 2 * (1024 - 60)):
        garbage = b"\x01" * (pieces + shift)
        path = segment_file(tmp_path, good + garbage + later)
        first, damage, last = scanned(path)
        assert (first, last) == (1, 3)
        assert isinstance(damage, Damage)
        assert place(damage) == (len(good), len(good) + len(garbage))


def test_garbage_longer_than_any_buffer(tmp_path: Path) -> None:
    good, later = batch(0), batch(2)
    garbage = b"\xff" * (2 * BUFFER_SIZE + 11)
    first, damage, last = scanned(segment_file(tmp_path, good + garbage + later))
    assert (first, last) == (1, 3)
    assert isinstance(damage, Damage)
    assert damage.resumed == len(good) + len(garbage)


def test_batches_larger_than_the_buffer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_reader, "BUFFER_SIZE", 512)
    monkeypatch.setattr(scan_module, "BUFFER_SIZE", 512)
    parts = [batch(2 * n, value=b"x" * 2000) for n in range(4)]
    parts[1] = flipped(parts[1], 3000)
    path = segment_file(tmp_path, b"".join(parts))
    for whole in (False, True):
        with LogFile(path) as log:
            found = [
                place(part) if isinstance(part, Damage) else list(part.block.last_offset[part.first : part.stop])
                for part in scan(log, 0, whole=whole)
            ]
        size = len(parts[0])
        assert found == [[1], (size, 2 * size), [5], [7]]


@pytest.mark.parametrize("magic", [0, 1])
def test_short_messages_at_the_very_end(tmp_path: Path, magic: int) -> None:
    """A v0/v1 message may be shorter than the header of a v2 batch."""
    good, last = message(0, magic), message(2, magic)
    assert len(last) < 61
    bad = flipped(message(1, magic, b"lost"), -1)
    first, damage, third = scanned(segment_file(tmp_path, good + bad + last))
    assert (first, third) == (0, 2)
    assert isinstance(damage, Damage)
    assert place(damage) == (len(good), len(good) + len(bad))


@pytest.mark.parametrize("magic", [0, 1])
def test_several_short_messages_at_the_very_end(tmp_path: Path, magic: int) -> None:
    good = message(0, magic)
    rest = message(2, magic, b"") + message(3, magic, b"")
    found = scanned(segment_file(tmp_path, good + b"\x07" * 30 + rest))
    assert [item for item in found if isinstance(item, int)] == [0, 2, 3]


@pytest.mark.parametrize(("magic", "codec"), [(0, LZ4), (1, LZ4), (0, GZIP), (1, GZIP)])
def test_wrappers_are_found_behind_damage(tmp_path: Path, magic: int, codec: int) -> None:
    wrappers = [
        encode_wrapper([NewRecord(3 * n + k, 1000, None, b"some value") for k in range(3)], magic, codec)
        for n in range(4)
    ]
    broken = flipped(wrappers[1], -1)
    lost = with_size(wrappers[2], 3)
    found = scanned(segment_file(tmp_path, wrappers[0] + broken + lost + wrappers[3]))
    assert [item for item in found if isinstance(item, int)] == [2, 11]
    size = len(wrappers[0])
    assert [item.position for item in found if isinstance(item, Damage)] == [size]


def test_formats_may_be_mixed(tmp_path: Path) -> None:
    parts = [message(0, 0), flipped(message(1, 1), -1), batch(2), message(4, 1), b"????", batch(5)]
    found = scanned(segment_file(tmp_path, b"".join(parts)))
    assert [item for item in found if isinstance(item, int)] == [0, 3, 4, 6]


def test_only_the_bytes_asked_for(tmp_path: Path) -> None:
    parts = batches(6)
    size = len(parts[0])
    path = segment_file(tmp_path, b"".join(parts))
    assert scanned(path, start=2 * size, stop=4 * size) == [5, 7]
    *good, damage = scanned(path, start=2 * size, stop=4 * size + 30)
    assert good == [5, 7]
    assert isinstance(damage, Damage)
    assert damage.text == f"the log ends inside batch 8\N{EN DASH}9: 30 of {size} bytes are there"


def test_a_log_that_is_cut_while_it_is_read(tmp_path: Path) -> None:
    parts = batches(4)
    size = len(parts[0])
    path = segment_file(tmp_path, b"".join(parts))
    with LogFile(path) as log:
        with open(path, "r+b") as writer:
            writer.truncate(2 * size + 10)
        found = [part if isinstance(part, Damage) else part.stop - part.first for part in scan(log, 0)]
    assert found[0] == 2
    assert str(found[1]) == f"{path}: byte {2 * size}: the file became shorter while it was read"
    assert isinstance(found[1], Damage)
    assert (found[1].kind, found[1].resumed) == (DamageKind.TORN, 4 * size)


def test_a_log_that_grows_while_it_is_read_ends_where_it_ended(tmp_path: Path) -> None:
    parts = batches(3)
    path = segment_file(tmp_path, b"".join(parts[:2]))
    with LogFile(path) as log:
        with open(path, "ab") as writer:
            writer.write(parts[2])
        runs = [part.stop - part.first for part in scan(log, 0) if not isinstance(part, Damage)]
    assert runs == [2]


def test_many_bad_batches_do_not_read_the_log_many_times(tmp_path: Path) -> None:
    parts = [flipped(data, -1) if n % 2 else data for n, data in enumerate(batches(2000))]
    path = segment_file(tmp_path, b"".join(parts))
    with LogFile(path) as log:
        damage = sum(isinstance(part, Damage) for part in scan(log, 0))
        assert damage == 1000
        assert log.bytes_read < 10 * log.size


def test_a_log_of_bad_batches_is_searched_once(tmp_path: Path) -> None:
    parts = [flipped(data, -1) for data in batches(2000)]
    path = segment_file(tmp_path, b"".join(parts))
    with LogFile(path) as log:
        (damage,) = scan(log, 0)
        assert isinstance(damage, Damage)
        assert place(damage) == (0, log.size)
        assert log.bytes_read < 10 * log.size


def test_an_unknown_magic_with_a_valid_crc_is_trusted_as_kafka_does(tmp_path: Path) -> None:
    parts = batches(3)
    parts[1] = with_valid_crc(parts[1][:16] + b"\x03" + parts[1][17:])
    assert scanned(segment_file(tmp_path, b"".join(parts))) == [1, 3, 5]


@given(st.data())
def test_whatever_is_done_to_it_the_log_is_covered(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Runs and damage follow each other without a gap or an overlap, from the first byte to the last."""
    parts = [batch(0), message(2), batch(3, codec=GZIP), message(5, 0), batch(6), batch(8)]
    log_bytes = bytearray(b"".join(parts))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(log_bytes) - 1))
        what = data.draw(st.sampled_from(["set", "cut", "insert", "zero"]))
        length = data.draw(st.integers(1, 70))
        if what == "set":
            log_bytes[at] = data.draw(st.integers(0, 255))
        elif what == "cut":
            del log_bytes[at : at + length]
        elif what == "insert":
            log_bytes[at:at] = data.draw(st.binary(min_size=1, max_size=70))
        else:
            log_bytes[at : at + length] = bytes(length)
        if not log_bytes:
            return
    path = segment_file(tmp_path_factory.mktemp("log"), bytes(log_bytes))
    position = 0
    with LogFile(path) as log:
        for part in scan(log, 0):
            if isinstance(part, Damage):
                assert part.position == position
                assert part.resumed > position
                position = part.resumed
                continue
            for row in range(part.first, part.stop):
                assert part.block.position[row] == position
                assert part.block.valid[row]
                position += part.block.size[row]
        assert position == log.size
