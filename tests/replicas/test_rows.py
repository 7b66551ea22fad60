"""The batches of a copy: what their headers say counts as far as it can be right, and damage hides no valid batch."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdump.formats.codecs import GZIP
from kdump.formats.encode import NewRecord, encode_message, encode_wrapper
from kdump.replication.rows import COMPARED, Batch, first_batch_from, walk
from kdump.storage.partition import PartitionLog
from tests.commands.logs import write_segment
from tests.recovery.building import batch, broken, with_last_delta, with_offset

Found = tuple[int, int, bool]
LIMIT = (1 << 31) - 1
LAST = (1 << 63) - 1


def five(base: int) -> bytes:
    return batch(base, 5)


def at(base: int, wrong: int) -> bytes:
    """A batch whose base offset, which no CRC covers, is wrong."""
    return with_offset(five(base), wrong)


def log_of(folder: Path, *segments: tuple[int, bytes]) -> PartitionLog:
    path = folder / "t-0"
    path.mkdir(parents=True)
    for base, data in segments:
        write_segment(path, base, [data], indexes=False)
    return PartitionLog(str(path))


def walked(log: PartitionLog, start: int = 0) -> list[Found]:
    return [
        (rows.base_offset[row], rows.last_offset[row], bool(rows.valid[row]))
        for rows in (walk(log, start) if start else walk(log))
        for row in range(rows.length)
    ]


@pytest.fixture(params=[2048, 3])
def rows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many batches are looked at at once."""
    monkeypatch.setattr("kdump.storage.log_reader.BATCH_ROWS", request.param)
    number: int = request.param
    return number


@pytest.mark.parametrize(
    ("segments", "expected"),
    [
        ([(0, [five(0), five(5), five(10)])], [(0, 4, True), (5, 9, True), (10, 14, True)]),
        ([(7, [five(7)]), (12, []), (15, [five(15)])], [(7, 11, True), (15, 19, True)]),
        ([(0, [batch(0)]), (1, [five(1)])], [(0, 0, True), (1, 5, True)]),
        # a damaged batch has the offsets that its header says, where they are left for it
        ([(0, [five(0), broken(five(5)), five(10)])], [(0, 4, True), (5, 9, False), (10, 14, True)]),
        ([(0, [broken(five(0)), broken(five(5)), five(10)])], [(0, 4, False), (5, 9, False), (10, 14, True)]),
        ([(0, [five(0), broken(five(6)), five(12)])], [(0, 4, True), (6, 10, False), (12, 16, True)]),
        ([(0, [five(0), broken(batch(5, 9)), five(10)])], [(0, 4, True), (5, 9, False), (10, 14, True)]),
        ([(0, [five(0), broken(batch(14, 1)), five(15)])], [(0, 4, True), (14, 14, False), (15, 19, True)]),
        ([(0, [five(0), broken(with_last_delta(five(5), -3)), five(10)])],
         [(0, 4, True), (5, 5, False), (10, 14, True)]),
        # else all that are left, where it stands alone
        ([(0, [five(0), at(5, 1 << 20), five(10)])], [(0, 4, True), (5, 9, False), (10, 14, True)]),
        ([(0, [five(0), at(5, 2), five(10)])], [(0, 4, True), (5, 9, False), (10, 14, True)]),
        ([(0, [five(0), at(5, 4), five(11)])], [(0, 4, True), (5, 10, False), (11, 15, True)]),
        ([(0, [five(0), broken(five(10)), five(10)])], [(0, 4, True), (5, 9, False), (10, 14, True)]),
        ([(0, [five(0), broken(at(5, 99)), five(6)])], [(0, 4, True), (5, 5, False), (6, 10, True)]),
        ([(0, [five(0), broken(at(5, 99)), five(5)])], [(0, 4, True), (5, 9, True)]),
        ([(0, [five(0), with_last_delta(five(5), -1), five(10)])], [(0, 4, True), (5, 5, False), (10, 14, True)]),
        ([(0, [at(0, 3), five(5)])], [(3, 4, False), (5, 9, True)]),
        ([(9, [at(9, 8), five(14)])], [(9, 13, False), (14, 18, True)]),
        # of several that stand together those go for which none are left
        ([(0, [five(0), broken(at(5, 99)), broken(at(10, 99)), five(15)])], [(0, 4, True), (15, 19, True)]),
        ([(0, [five(0), broken(five(5)), broken(at(10, 99)), five(15)])],
         [(0, 4, True), (5, 9, False), (15, 19, True)]),
        ([(0, [five(0), broken(batch(5, 12)), broken(five(10)), five(15)])],
         [(0, 4, True), (5, 14, False), (15, 19, True)]),
        # of two that contradict each other the one that follows directly is right
        ([(0, [at(0, 3), five(0), five(5)])], [(0, 4, True), (5, 9, True)]),
        ([(0, [five(0), at(5, 7), five(5), five(10)])], [(0, 4, True), (5, 9, True), (10, 14, True)]),
        ([(0, [five(0), five(5), at(10, 6), five(10)])], [(0, 4, True), (5, 9, True), (10, 14, True)]),
        ([(0, [five(0), five(5), five(2), five(10)])], [(0, 4, True), (5, 9, True), (10, 14, True)]),
        # at the end of a segment they end below the next one
        ([(0, [five(0), broken(five(5))]), (10, [five(10)])], [(0, 4, True), (5, 9, False), (10, 14, True)]),
        ([(0, [five(0), broken(batch(5, 20))]), (10, [five(10)])], [(0, 4, True), (5, 9, False), (10, 14, True)]),
        ([(0, [five(0), broken(at(5, 99))]), (12, [five(12)])], [(0, 4, True), (5, 9, False), (12, 16, True)]),
        ([(0, [five(0), broken(at(5, 99))]), (8, [five(8)])], [(0, 4, True), (5, 7, False), (8, 12, True)]),
        ([(0, [five(0), broken(at(5, 99))]), (5, [five(5)])], [(0, 4, True), (5, 9, True)]),
        ([(0, [five(0), broken(with_last_delta(at(5, 99), -9))]), (12, [five(12)])],
         [(0, 4, True), (5, 5, False), (12, 16, True)]),
        ([(0, [five(0), broken(at(5, 99))])], [(0, 4, True), (99, 103, False)]),
        ([(0, [five(0), broken(at(5, -9))])], [(0, 4, True), (5, 5, False)]),
        ([(0, [broken(at(0, 99))]), (5, [five(5)])], [(0, 4, False), (5, 9, True)]),
        ([(0, [five(0), broken(five(5)), broken(batch(8, 4)), five(15)])],
         [(0, 4, True), (5, 9, False), (15, 19, True)]),
        ([(0, [five(0), five(5), five(12), five(7)])],
         [(0, 4, True), (5, 9, True), (12, 16, True), (17, 21, False)]),
        ([(0, [five(0), five(5), five(10), five(12), five(15)])],
         [(0, 4, True), (5, 9, True), (10, 14, True), (15, 19, True)]),
        ([(0, [batch(0), batch(1), five(2)])], [(0, 0, True), (1, 1, True), (2, 6, True)]),
        # what the segments before have is not there a second time
        ([(0, [batch(0, 10)]), (5, [five(5)])], [(0, 9, True), (10, 14, False)]),
        ([(0, [batch(0, 10)]), (6, [five(6)])], [(0, 9, True), (10, 14, False)]),
        # a segment tells offsets apart that are less than 2^31 above its own
        ([(3, [batch(3), batch(LIMIT + 3)])], [(3, 3, True), (LIMIT + 3, LIMIT + 3, True)]),
        ([(3, [batch(3), batch(LIMIT + 4)])], [(3, 3, True), (4, 4, False)]),
        # bytes that are no batch
        ([(0, [five(0), bytes(80), five(10)])], [(0, 4, True), (10, 14, True)]),
        ([(0, [five(0), bytes(80), five(10), broken(five(15)), five(20), broken(five(25)), five(30)])],
         [(0, 4, True), (10, 14, True), (20, 24, True), (30, 34, True)]),
        ([(LAST - 9, [five(LAST - 9), five(LAST - 4)])], [(LAST - 9, LAST - 5, True), (LAST - 4, LAST - 1, False)]),
        ([(LAST - 9, [batch(LAST - 9, 9)])], [(LAST - 9, LAST - 1, True)]),
        ([(0, [b"\1" * 30, five(10)])], [(10, 14, True)]),
        ([(0, [five(0), five(5)[:-1]])], [(0, 4, True)]),
        ([(0, [five(0), bytes(40)]), (9, [five(9)])], [(0, 4, True), (9, 13, True)]),
    ],
)  # fmt: skip
def test_what_is_found(tmp_path: Path, segments: list[tuple[int, list[bytes]]], expected: list[Found]) -> None:
    log = log_of(tmp_path, *((base, b"".join(batches)) for base, batches in segments))
    assert walked(log) == expected


def test_what_is_found_however_many_are_looked_at_at_once(tmp_path: Path, rows: int) -> None:
    """Damage at each end of a stretch, and the batch after it."""
    batches = [five(5 * number) for number in range(9)]
    for bad in range(1, 9):
        for wrong in (broken(batches[bad]), at(5 * bad, 5 * bad - 1), at(5 * bad, -7)):
            data = b"".join([*batches[:bad], wrong, *batches[bad + 1 :]])
            expected = [(5 * number, 5 * number + 4, number != bad) for number in range(9)]
            found = walked(log_of(tmp_path / f"{bad}-{wrong[:12].hex()}-{len(data)}-{wrong[61]}", (0, data)))
            assert [each[2] for each in found] == [each[2] for each in expected], bad
            assert found[:bad] + found[bad + 1 :] == expected[:bad] + expected[bad + 1 :], bad
            assert found[bad][0] == 5 * bad
            assert found[bad][1] <= 5 * bad + 4 or rows < 2048


def messages(first: int, count: int) -> list[NewRecord]:
    return [NewRecord(first + number, 1000, b"k", b"v") for number in range(count)]


def test_messages_and_wrappers(tmp_path: Path) -> None:
    """Of a wrapper only the last offset is in its header."""
    wrapper = encode_wrapper(messages(1, 4), 1, GZIP)
    data = encode_message(messages(0, 1)[0], 1) + wrapper + encode_message(messages(5, 1)[0], 1)
    assert walked(log_of(tmp_path / "sound", (0, data))) == [(0, 0, True), (-1, 4, True), (5, 5, True)]
    assert walked(log_of(tmp_path / "alone", (0, wrapper))) == [(-1, 4, True)]


def test_every_column_is_that_of_the_batch(tmp_path: Path) -> None:
    data = [batch(3, 2, leader_epoch=4, timestamp=77, producer_id=9, attributes=16), batch(5, 3)]
    (rows_,) = walk(log_of(tmp_path, (3, b"".join(data))))
    assert rows_.length == 2
    assert rows_.batch(0) == Batch(3, 4, 4, True, len(data[0]), 2)
    assert rows_.batch(1) == Batch(5, 7, 0, True, len(data[1]), 3)
    assert list(rows_.position) == [0, len(data[0])]
    columns = (rows_.attributes, rows_.max_timestamp, rows_.producer_id)
    assert [tuple(column) for column in columns] == [(16, 0), (77, 1000), (9, -1)]
    assert COMPARED == ("base_offset", "last_offset", "leader_epoch", "crc", "valid", "size")


def test_what_is_dropped_leaves_the_columns_of_the_others(tmp_path: Path) -> None:
    data = [five(0), broken(at(5, 99)), broken(at(10, 99)), batch(15, 2, leader_epoch=3)]
    (rows_,) = walk(log_of(tmp_path, (0, b"".join(data))))
    assert (rows_.length, list(rows_.position)) == (2, [0, sum(map(len, data[:3]))])
    assert rows_.batch(1) == Batch(15, 16, 3, True, len(data[3]), 2)


def test_from_an_offset_on(tmp_path: Path) -> None:
    """By the index: from the last entry on that does not lead behind the offset."""
    log = log_of(tmp_path, (10, five(10) + five(15)), (20, five(20)))
    write_segment(tmp_path / "t-0", 0, [batch(2 * number, 2, size=3000) for number in range(5)])
    log = PartitionLog(log.path)
    for start, first in {0: 0, 3: 0, 5: 4, 7: 4, 9: 8, 10: 10, 14: 10, 20: 20, 24: 20}.items():
        assert walked(log, start)[0][0] == first, start
        assert walked(log, start)[-1] == (20, 24, True)
    found = {offset: first_batch_from(log, offset) for offset in (0, 1, 2, 9, 10, 14, 15, 24, 25)}
    assert {offset: each and each.base_offset for offset, each in found.items()} == {
        0: 0, 1: 0, 2: 2, 9: 8, 10: 10, 14: 10, 15: 15, 24: 20, 25: None,
    }  # fmt: skip
